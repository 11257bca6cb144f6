"""The types of a workload: one row of the table, and how each rival runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.checks import Arrays
from benchmarks.inputs import IntArray
from benchmarks.serve import Stopwatch

__all__ = ["Rival", "Timed", "Workload"]

Timed = tuple[Stopwatch, Arrays]


@dataclass(frozen=True)
class Rival:
    """How a peer runs a workload.

    Attributes
    ----------
    peer : str
        The peer's process.
    request : dict
        The request, without seeds.
    goal : float, optional
        Required ratio of graphzero's rate to its rate.
    seeds : int, optional
        How many of the seeds it gets; all by default.
    notes : tuple of str
    """

    peer: str
    request: dict[str, Any]
    goal: float | None = None
    seeds: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes
    ----------
    name, unit : str
    scale : float
        Steps, edges or batches per unit of work.
    seeds : callable
        Run number to seeds.
    ours : callable
        Seeds and run number to stopwatch and arrays.
    check : callable
        Seeds and arrays to the work done; raises WrongResult.
    rivals : mapping of str to Rival
        By the name that the table shows.
    """

    name: str
    unit: str
    scale: float
    seeds: Callable[[int], IntArray]
    ours: Callable[[IntArray, int], Timed]
    check: Callable[[IntArray, Arrays], int]
    rivals: Mapping[str, Rival]
