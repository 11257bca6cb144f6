"""Results of the out-of-core benchmark, from counters to tables."""

from __future__ import annotations

import mmap
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.report import markdown

__all__ = [
    "EpochResult",
    "RowsResult",
    "TrainResult",
    "rows_result",
    "rows_table",
    "train_result",
    "train_table",
]

PAGE_BYTES = mmap.PAGESIZE


def _difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: after[name] - before[name] for name in before}


@dataclass(frozen=True)
class RowsResult:
    """What a batch's rows cost one contestant.

    Attributes
    ----------
    contestant, order : str
    seconds : tuple of float
        A batch, by run.
    rows, read_bytes, major_faults, processor_seconds : float
        A batch.
    stalled : float
        Seconds per batch in which no processor worked for it: wall time minus processor time, a
        lower bound of the waiting time.
    device_reads : float
        Requests per second that the device completed, from any process.
    device_bytes : float
        Bytes per batch that the device read, for any process.
    pages_missed : float or None
        Per batch, as counted by the library; None if it does not count.
    peak_anonymous : int
        Bytes.
    charged : dict of str to int
        Bytes of anonymous memory and of page cache in the group at the end.
    """

    contestant: str
    order: str
    seconds: tuple[float, ...]
    rows: float
    read_bytes: float
    major_faults: float
    processor_seconds: float
    stalled: float
    device_reads: float
    device_bytes: float
    pages_missed: float | None
    peak_anonymous: int
    charged: dict[str, int]

    @property
    def median(self) -> float:
        """Seconds a batch."""
        return statistics.median(self.seconds)

    @property
    def pages_read(self) -> float:
        """Pages read from the device per batch."""
        return self.read_bytes / PAGE_BYTES

    @property
    def pages_per_row(self) -> float:
        """Pages read from the device per row of a batch."""
        return self.pages_read / self.rows

    @property
    def pages_per_second(self) -> float:
        """Pages read from the device per second."""
        return self.pages_read / self.median


def rows_result(
    contestant: str,
    order: str,
    batches: int,
    answer: dict[str, Any],
    charged: dict[str, int],
    *,
    whole: float | None = None,
) -> RowsResult:
    """From the answer of a session.

    Parameters
    ----------
    contestant, order : str
    batches : int
        Of each run.
    answer : dict
        Of `meter.time_runs`.
    charged : dict of str to int
    whole : float, optional
        Rows of a whole batch, if only parts were read: figures are scaled up accordingly.
    """
    readings = answer["readings"]
    runs = [_difference(*pair) for pair in pairwise(readings)]
    total = _difference(readings[0], readings[-1])
    counts = [batches if whole is None else rows / whole for rows in answer["rows"]]
    count = sum(counts)
    missed = answer.get("pages_missed")
    return RowsResult(
        contestant=contestant,
        order=order,
        seconds=tuple(run["seconds"] / part for run, part in zip(runs, counts, strict=True)),
        rows=sum(answer["rows"]) / count,
        read_bytes=total["read_bytes"] / count,
        major_faults=total["major_faults"] / count,
        processor_seconds=total["processor_seconds"] / count,
        stalled=max(0.0, total["seconds"] - total["processor_seconds"]) / count,
        device_reads=total["device_reads"] / total["seconds"],
        device_bytes=total["device_bytes"] / count,
        pages_missed=statistics.fmean(missed) if missed else None,
        peak_anonymous=answer["peak_anonymous"],
        charged=charged,
    )


@dataclass(frozen=True)
class EpochResult:
    """One epoch: seconds of all its batches, the other figures per batch."""

    seconds: float
    stalled: float
    processor_seconds: float
    read_bytes: float
    major_faults: float
    loss: float


@dataclass(frozen=True)
class TrainResult:
    """What training cost one contestant.

    Attributes
    ----------
    contestant, order : str
    step : str
        What it did with a batch.
    epochs : tuple of EpochResult
        The first one from a cold cache, except for the contestant in memory.
    peak_anonymous : int
    charged : dict of str to int
        As in `RowsResult`.
    """

    contestant: str
    order: str
    step: str
    epochs: tuple[EpochResult, ...]
    peak_anonymous: int
    charged: dict[str, int]

    @property
    def cold(self) -> float:
        """Seconds of the first epoch."""
        return self.epochs[0].seconds

    @property
    def warm(self) -> float:
        """Median seconds of the later epochs."""
        return statistics.median(epoch.seconds for epoch in self.epochs[1:])


def train_result(
    contestant: str, order: str, step: str, answer: dict[str, Any], charged: dict[str, int]
) -> TrainResult:
    """From the answer of a session's `train`."""
    epochs = []
    for epoch in answer["epochs"]:
        cost, batches = _difference(epoch["before"], epoch["after"]), epoch["batches"]
        epochs.append(
            EpochResult(
                seconds=cost["seconds"],
                stalled=epoch["stalled"],
                processor_seconds=cost["processor_seconds"] / batches,
                read_bytes=cost["read_bytes"] / batches,
                major_faults=cost["major_faults"] / batches,
                loss=epoch["loss"],
            )
        )
    return TrainResult(contestant, order, step, tuple(epochs), answer["peak_anonymous"], charged)


def _mib(count: float) -> str:
    return f"{count / 2**20:,.1f}"


def _span(median: float, values: Sequence[float]) -> str:
    return f"{median:.3g} ({min(values):.3g} to {max(values):.3g})"


def rows_table(results: Sequence[RowsResult], baseline: str, disk_rate: float | None) -> str:
    """A row per contestant and order.

    Parameters
    ----------
    results : sequence of RowsResult
    baseline : str
        The contestant that others are compared with.
    disk_rate : float or None
        Pages per second that the disk can read.

    Returns
    -------
    str
        "read/missing": pages read per page that the library found missing.
    """
    base = next((one.median for one in results if one.contestant == baseline), None)
    heads = ["contestant", "order", "s/batch", "runs", f"against {baseline}", "rows/s"]
    heads += ["pages read/row", "MiB read/batch", "read/missing", "major faults/batch", "IOPS"]
    heads += ["pages/s of fio's", "CPU s/batch", "stall s/batch", "peak anonymous MiB"]
    table = [heads]
    for one in results:
        table.append(
            [
                one.contestant,
                one.order,
                _span(one.median, one.seconds),
                f"{len(one.seconds)}",
                "-" if base is None else f"{base / one.median:.1f}x",
                f"{one.rows / one.median:,.0f}",
                f"{one.pages_per_row:.3f}",
                _mib(one.read_bytes),
                "-" if not one.pages_missed else f"{one.pages_read / one.pages_missed:.2f}",
                f"{one.major_faults:,.0f}",
                f"{one.device_reads:,.0f}",
                "-" if disk_rate is None else f"{one.pages_per_second / disk_rate:.2f}",
                f"{one.processor_seconds:.3f}",
                f"{one.stalled:.3f}",
                _mib(one.peak_anonymous),
            ]
        )
    return markdown(table)


def train_table(results: Sequence[TrainResult], in_memory: str) -> str:
    """A row per contestant and order.

    Speeds are relative to the fastest with everything in RAM that does the same with a batch.
    """
    fastest: dict[str, float] = {}
    for one in results:
        if one.contestant == in_memory:
            fastest[one.step] = min(one.warm, fastest.get(one.step, one.warm))
    heads = ["contestant", "order", "step", "first epoch s", "later epochs s", "speed of RAM's"]
    heads += ["first / later", "stall s/epoch", "CPU s/batch", "MiB read/batch"]
    heads += ["major faults/batch", "peak anonymous MiB", "page cache MiB"]
    table = [heads]
    for one in results:
        later = one.epochs[1:]
        table.append(
            [
                one.contestant,
                one.order,
                one.step,
                f"{one.cold:.3g}",
                _span(one.warm, [epoch.seconds for epoch in later]),
                f"{fastest[one.step] / one.warm:.3f}" if one.step in fastest else "-",
                f"{one.cold / one.warm:.2f}",
                f"{statistics.median(epoch.stalled for epoch in later):.3g}",
                f"{statistics.median(epoch.processor_seconds for epoch in later):.3f}",
                _mib(statistics.median(epoch.read_bytes for epoch in later)),
                f"{statistics.median(epoch.major_faults for epoch in later):,.0f}",
                _mib(one.peak_anonymous),
                _mib(one.charged["file"]) if one.charged else "-",
            ]
        )
    return markdown(table)
