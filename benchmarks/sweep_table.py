"""Tables of a sweep over prefetch settings: a row per setting, and a row per mini-batch.

A CSV or Parquet file is written whole and replaces the earlier one in one step. Its columns have
fixed types, so that a file that was read back has the rows that were written.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from graphzero.io.prefetch import Prefetch
from graphzero.store.atomic import write_atomically

__all__ = [
    "BATCHES",
    "KEY",
    "SETTINGS",
    "Cell",
    "Journal",
    "Row",
    "batch_rows",
    "confidence_interval",
    "key_of",
    "read_rows",
    "setting_of",
    "summary",
    "write_rows",
]

Row = dict[str, Any]

_PREFETCH = {
    "strategy": pa.string(),
    "lookahead": pa.int64(),
    "readahead_limit": pa.int64(),
    "gap_pages": pa.int64(),
    "resident": pa.float64(),  # a fraction up to 1, otherwise bytes
    "memory_limit": pa.int64(),
    "threads": pa.int64(),
    "advice": pa.string(),
}
_WORK = {
    "fanouts": pa.string(),
    "batch_size": pa.int64(),
    "split": pa.string(),
    "node_type": pa.string(),
    "sampling_threads": pa.int64(),
    "step_ms": pa.float64(),
    "seed": pa.int64(),
    "batches": pa.int64(),
    "warm_up": pa.int64(),
}
_MACHINE = {
    "cpu": pa.string(),
    "cores": pa.int64(),
    "machine_memory": pa.int64(),
    "disk": pa.string(),
    "file_system": pa.string(),
}
_DATA = {"nodes": pa.int64(), "edges": pa.int64(), "row_bytes": pa.int64(), "order": pa.string()}
# `files`: a hash of what the folder has, because another graph can be built there.
_WHERE = {"dataset": pa.string(), "files": pa.string(), "limit_bytes": pa.int64()}
_FIGURES = {
    "repeats": pa.int64(),
    "seconds_per_batch_median": pa.float64(),
    "seconds_per_batch_mean": pa.float64(),
    "ci_low": pa.float64(),
    "ci_high": pa.float64(),
    "rows_per_second": pa.float64(),
    "pages_missed": pa.float64(),
    "stall_seconds": pa.float64(),
    "peak_anonymous": pa.int64(),
    "in_memory_at_start": pa.float64(),
    "failure": pa.string(),
    "io": pa.string(),
    "limit_by": pa.string(),
}
_ABOUT = {"kernel": pa.string(), "versions": pa.string(), "date": pa.string()}
SETTINGS = pa.schema(
    {**_WHERE, **_DATA, **_PREFETCH, **_WORK, **_FIGURES, **_MACHINE, **_ABOUT}.items()
)
BATCHES = pa.schema(
    {
        **_WHERE,
        "order": pa.string(),
        **_PREFETCH,
        **_WORK,
        "repeat": pa.int64(),
        "batch": pa.int64(),
        "seconds": pa.float64(),
    }.items()
)
# What makes two rows figures of one thing. Of the machine, what it has of its own accord.
KEY = (*_WHERE, *_PREFETCH, *_WORK, "cpu", "cores", "disk", "file_system")
# What each line of a journal has: what a row is made of, and how the line begins.
_TRIAL = {"key", "reason", "seconds", "stats", "io", "in_memory", "peak_anonymous"}
_TRIAL |= {"limit_by", *_ABOUT}
_BEGINNING = b'{"key": "'
_RESAMPLES = 10_000
_CONFIDENCE = 0.95


def confidence_interval(repeats: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """95 % confidence interval of the mean over repeats, by the percentile bootstrap.

    Repeats are drawn, not mini-batches: those of one repeat resemble each other. The draws are the
    same in every run. Of fewer than two repeats, nothing is known.

    References
    ----------
    B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7 (1979).
    B. Efron and R. J. Tibshirani, "An introduction to the bootstrap" (1993), chapter 13.
    """
    if len(repeats) < 2:
        return None, None
    values = np.asarray(repeats, dtype=np.float64)
    draws = np.random.default_rng(0).integers(0, len(values), (_RESAMPLES, len(values)))
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(values[draws].mean(axis=1), [tail, 1 - tail])
    return float(low), float(high)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One setting on one dataset under one limit; `about` has the columns known beforehand."""

    setting: Prefetch
    about: Row

    @property
    def row(self) -> Row:
        """The columns known beforehand."""
        setting = dataclasses.asdict(self.setting)
        resident = setting["resident"]
        return {**self.about, **setting, "resident": None if resident is None else float(resident)}

    @property
    def key(self) -> str:
        """Equal for equal figures; see `KEY`."""
        return key_of(self.row)


def key_of(row: Row) -> str:
    """The columns of `KEY` as a text."""
    return json.dumps([row[name] for name in KEY])


def _trial_of(line: bytes) -> Row | None:
    """The trial of a line of a journal; None if it is no such line."""
    try:
        trial = json.loads(line)
        is_one = len(json.loads(trial["key"])) == len(KEY) and trial.keys() >= _TRIAL
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return trial if is_one else None


def _is_beginning(line: bytes) -> bool:
    """Whether a line is empty, or that of a trial which was not written to its end."""
    try:
        json.loads(line)
    except ValueError:
        return line.startswith(_BEGINNING) or _BEGINNING.startswith(line)
    except RecursionError:
        pass
    return False


class Journal:
    """One line per trial, appended when it has ended: what an interrupted sweep goes on from.

    Parameters
    ----------
    path : pathlib.Path

    Attributes
    ----------
    trials : dict of str to list of dict
        By `Cell.key`.

    Raises
    ------
    ValueError
        If it is another program's file, or has trials of another version; it stays as it is. Only
        a last line that was not written to its end is left out, and goes with the next trial.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.trials: dict[str, list[Row]] = {}
        *lines, last = path.read_bytes().split(b"\n") if path.exists() else [b""]
        if not _is_beginning(last):
            lines.append(last)
        for number, line in enumerate(lines, 1):
            if (trial := _trial_of(line)) is None:
                raise ValueError(
                    f"{path} has no trial of a sweep, or one of another version, in line {number}: "
                    f"move it away"
                )
            self.trials.setdefault(trial["key"], []).append(trial)
        self._is_cut = last != b""  # the last line was not written to its end

    def add(self, key: str, trial: Row) -> None:
        """Adds a trial, here and in the file."""
        if self._is_cut:
            self._rewrite()
        trial = {"key": key, **trial}
        with open(self._path, "a") as file:
            file.write(json.dumps(trial) + "\n")
        self.trials.setdefault(key, []).append(trial)

    def forget_failures(self) -> None:
        """Removes trials without figures, so that they are made once more."""
        for key, trials in self.trials.items():
            self.trials[key] = [trial for trial in trials if not trial["reason"]]
        if self._path.exists():
            self._rewrite()

    def _rewrite(self) -> None:
        trials = [trial for of_cell in self.trials.values() for trial in of_cell]
        write_atomically(self._path, "".join(json.dumps(one) + "\n" for one in trials).encode())
        self._is_cut = False

    def is_done(self, key: str, repeats: int) -> bool:
        """Whether a cell needs no further trial: another one would fail like the last."""
        trials = self.trials.get(key, [])
        return len(trials) >= repeats or any(trial["reason"] for trial in trials)


def summary(cell: Cell, trials: Sequence[Row]) -> Row:
    """The row of a cell. Figures are of the trials that were not killed and have not failed.

    A figure that is unknown is None. Seconds of a repeat are the mean over its mini-batches.
    """
    row: Row = dict.fromkeys(SETTINGS.names) | cell.row
    whole = [trial for trial in trials if not trial["reason"]]
    failures = [trial["reason"] for trial in trials if trial["reason"]]
    seconds = [fmean(trial["seconds"]) for trial in whole]
    row |= {"repeats": len(whole), "failure": failures[0] if failures else None}
    row |= {name: trials[-1][name] for name in ("limit_by", "kernel", "versions", "date")}
    row["in_memory_at_start"] = _most(trials, "in_memory")
    row["peak_anonymous"] = _most(trials, "peak_anonymous")
    if not whole:
        return row
    low, high = confidence_interval(seconds)
    row |= {"seconds_per_batch_median": median(seconds), "seconds_per_batch_mean": fmean(seconds)}
    row |= {"ci_low": low, "ci_high": high, "io": whole[-1]["io"]}
    for column, figure in (("pages_missed", "pages_missed"), ("stall_seconds", "waited")):
        row[column] = _mean(whole, figure)
    read = _mean(whole, "row_bytes")
    if read is not None and row["row_bytes"]:
        row["rows_per_second"] = read / row["row_bytes"] / fmean(seconds)
    return row


def _most(trials: Sequence[Row], name: str) -> Any:
    values = [trial[name] for trial in trials]
    return None if None in values else max(values)


def _mean(trials: Sequence[Row], figure: str) -> float | None:
    values = [trial["stats"].get(figure) for trial in trials]
    return None if None in values else fmean(values)


def batch_rows(cell: Cell, trials: Sequence[Row]) -> list[Row]:
    """A row for each mini-batch that was measured."""
    shared = {name: cell.row[name] for name in BATCHES.names if name in cell.row}
    return [
        {**shared, "repeat": repeat, "batch": batch, "seconds": seconds}
        for repeat, trial in enumerate(trials)
        for batch, seconds in enumerate(trial["seconds"])
    ]


def setting_of(row: Row) -> str:
    """What a row of either table is about, but for the machine, as a text."""
    return json.dumps([row[name] for name in (*_WHERE, *_PREFETCH, *_WORK)])


def write_rows(path: Path, rows: Iterable[Row], schema: pa.Schema) -> None:
    """Writes a table as Parquet or CSV, by the suffix of the path; unknown values are empty."""
    table = pa.Table.from_pylist(list(rows), schema)
    sink = io.BytesIO()
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, sink)
    else:
        pa.csv.write_csv(table, sink)
    write_atomically(path, sink.getvalue())


def read_rows(path: Path, schema: pa.Schema) -> list[Row]:
    """The rows of a file that `write_rows` has written; none if there is no file.

    Raises
    ------
    ValueError
        If it has other columns, such as a table of an earlier version.
    """
    if not path.exists():
        return []
    try:
        if path.suffix == ".parquet":
            table = pa.parquet.read_table(path)
        else:
            types = {field.name: field.type for field in schema}
            options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
            table = pa.csv.read_csv(path, convert_options=options)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is no table of a sweep: {error}") from None
    if not table.schema.equals(schema):
        raise ValueError(
            f"{path} is no table of a sweep, or one of another version, whose figures cannot be "
            f"told from those of other files: move it away"
        )
    rows: list[Row] = table.to_pylist()
    return rows
