"""The cost of reading, by the kernel's counters, and checks of what was read.

Runs inside the processes of all contestants, peers included: needs only NumPy.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.checks import WrongResult
from benchmarks.inputs import feature_rows

__all__ = ["PeakAnonymous", "Plan", "Reading", "check_rows", "read_counters", "time_runs"]

Array = npt.NDArray[Any]

KEPT_ROWS = 64
CHECKED_ROWS = 512
SECTOR_BYTES = 512
WATCH_SECONDS = 0.02


@dataclass(frozen=True)
class Reading:
    """Counters at one moment; results are differences of two readings.

    Attributes
    ----------
    seconds : float
        Wall clock.
    processor_seconds : float
        Of all threads of the process.
    read_bytes : int
        Bytes that this process has read from a device, from ``/proc/self/io``. The kernel counts
        when a request is submitted, for page faults, madvise, direct reads and io_uring's workers,
        and includes its own read-ahead.
    major_faults : int
        Of all threads of the process.
    device_reads, device_bytes : int
        Requests that the device has completed, and their bytes, for the whole machine.
    """

    seconds: float
    processor_seconds: float
    read_bytes: int
    major_faults: int
    device_reads: int
    device_bytes: int


def read_counters(folder: str | os.PathLike[str]) -> Reading:
    """All counters now; those of the device that holds the folder are 0 if unknown."""
    number = os.stat(folder).st_dev
    stat = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    fields = stat.read_text().split() if stat.exists() else ["0"] * 3
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return Reading(
        seconds=time.perf_counter(),
        processor_seconds=time.process_time(),
        read_bytes=int(io["read_bytes"]),
        major_faults=resource.getrusage(resource.RUSAGE_SELF).ru_majflt,
        device_reads=int(fields[0]),
        device_bytes=int(fields[2]) * SECTOR_BYTES,
    )


def _anonymous() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status does not tell anonymous memory")


class PeakAnonymous:
    """The most anonymous memory of this process during a ``with`` block, in bytes: `peak`."""

    peak = 0

    def __enter__(self) -> PeakAnonymous:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, _anonymous())
            if self._done.wait(WATCH_SECONDS):
                return

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.peak = max(self.peak, _anonymous())


@dataclass(frozen=True)
class Plan:
    """How many batches a contestant reads.

    Attributes
    ----------
    warm_up : int
        Batches before the first run, not counted: they bring the cache to a steady state.
    runs, batches : int
        Number of counted runs, and batches per run.
    checked : int
        Batches after the runs, not counted: all their bytes are checked.
    seconds : float
        After this time, a contestant stops warming up and starts no further run.
    """

    warm_up: int
    runs: int
    batches: int
    checked: int
    seconds: float = 120.0

    @property
    def total(self) -> int:
        """Batches that are read in all; each one has its own nodes."""
        return self.warm_up + self.runs * self.batches + self.checked


def check_rows(nodes: Array, rows: Array) -> None:
    """Compares rows with the ground truth, byte for byte.

    Raises
    ------
    WrongResult
    """
    if rows.shape[0] != nodes.shape[0]:
        raise WrongResult(f"{rows.shape[0]} rows for {nodes.shape[0]} nodes")
    for begin in range(0, nodes.shape[0], CHECKED_ROWS):
        part = slice(begin, begin + CHECKED_ROWS)
        if rows[part].tobytes() != feature_rows(nodes[part], rows.shape[1]).tobytes():
            raise WrongResult("a row that is not its node's")


def time_runs(
    batches: Iterator[tuple[Array, Array]], plan: Plan, folder: str | os.PathLike[str]
) -> dict[str, Any]:
    """Takes batches from an iterator and reads the counters between runs.

    Parameters
    ----------
    batches : iterator of ((n,) int64, (n, dim) float32)
        Nodes and their rows; may work in the background.
    plan : Plan
    folder : path-like
        A folder on the device whose requests are counted.

    Returns
    -------
    dict
        ``readings``, one more than runs; ``rows`` of each run; ``warmed_up``, batches before the
        first run; ``peak_anonymous`` in bytes.

    Raises
    ------
    WrongResult
        If a row does not belong to its node. Some rows of the counted batches are checked, after
        the clock has stopped, and all rows of the `checked` batches.
    """
    to_check: list[tuple[Array, Array]] = []
    counts: list[int] = []
    end, warmed_up = time.perf_counter() + plan.seconds, 0
    with PeakAnonymous() as anonymous:
        while warmed_up < plan.warm_up and time.perf_counter() < end:
            next(batches)
            warmed_up += 1
        readings = [read_counters(folder)]
        while len(counts) < plan.runs and (not counts or time.perf_counter() < end):
            count = 0
            for _ in range(plan.batches):
                nodes, rows = next(batches)
                some = np.linspace(0, nodes.size - 1, min(nodes.size, KEPT_ROWS)).astype(np.int64)
                to_check.append((nodes[some], rows[some]))
                count += nodes.size
                del rows  # its memory is wanted for the next batch
            readings.append(read_counters(folder))
            counts.append(count)
    for nodes, rows in to_check:
        check_rows(nodes, rows)
    for _ in range(plan.checked):
        check_rows(*next(batches))
    return {
        "readings": [asdict(reading) for reading in readings],
        "rows": counts,
        "warmed_up": warmed_up,
        "peak_anonymous": anonymous.peak,
    }
