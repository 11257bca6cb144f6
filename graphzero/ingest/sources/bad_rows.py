"""`BadRows`: the records that a build leaves out, with ``on_bad_rows="skip"``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "MOST_EXAMPLES",
    "BadRows",
    "SkippedRows",
    "bad_rows_of",
    "refuse_positions",
    "refuse_skipping",
]

MOST_EXAMPLES = 10


@dataclass(frozen=True)
class SkippedRows:
    """Records that were left out.

    Attributes
    ----------
    count : int
    examples : tuple of str
        The first ten, each with its file, its line, and what is wrong.
    """

    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join([f"{self._counted()} skipped:", *self.examples])

    def clauses(self) -> list[str]:
        """What the closing line of the build says of them."""
        return [f"skipped {self._counted()}"] if self.count else []

    def _counted(self) -> str:
        return f"{self.count:,} bad {'record' if self.count == 1 else 'records'}"


class BadRows:
    """Counts the records that cannot be read, and keeps the first ones as examples.

    Tables find the records that are no numbers; who reads the table finds wrong numbers.

    Attributes
    ----------
    place : callable
        The file and line of a record of the last chunk, by its index. Set by the table.
    """

    def __init__(self) -> None:
        self.place: Callable[[int], str] = str
        self._count = 0
        self._examples: list[str] = []

    def add(self, place: str, why: str) -> None:
        """Counts one record."""
        self._count += 1
        if len(self._examples) < MOST_EXAMPLES:
            self._examples.append(f"{place}: {why}")

    def add_of_chunk(self, records: npt.NDArray[np.intp], why: Sequence[str]) -> None:
        """Counts records of the last chunk, by their indices; `why` has the first ten at least."""
        shown = records[: MOST_EXAMPLES - len(self._examples)]
        for i, fault in zip(shown.tolist(), why, strict=False):
            self.add(self.place(i), fault)
        self._count += len(records) - len(shown)

    def skipped(self) -> SkippedRows:
        """What has been left out so far."""
        return SkippedRows(self._count, tuple(self._examples))


def bad_rows_of(option: str) -> BadRows | None:
    """For the option `on_bad_rows` of `graphzero.build`: None where bad records are errors.

    Raises
    ------
    ValueError
        If it is neither "raise" nor "skip".
    """
    if option not in ("raise", "skip"):
        raise ValueError(f"on_bad_rows must be 'raise' or 'skip', not {option!r}")
    return BadRows() if option == "skip" else None


def refuse_skipping(bad_rows: BadRows | None, name: str) -> None:
    """Raises an error where records of a source that is no text were to be left out.

    Raises
    ------
    ValueError
    """
    if bad_rows is not None:
        raise ValueError(
            f"on_bad_rows='skip' is for records in text files, such as CSV, not for {name}: "
            f"use on_bad_rows='raise'"
        )


def refuse_positions(bad_rows: BadRows | None, names: Collection[str]) -> None:
    """Raises an error for what belongs to edges by their positions, which skipped records shift.

    Raises
    ------
    ValueError
    """
    if bad_rows is not None and names:
        raise ValueError(
            f"on_bad_rows='skip' shifts the positions of the edges behind a skipped record, and "
            f"{', '.join(names)} would belong to other edges: use on_bad_rows='raise', or correct "
            f"the edge list first"
        )
