"""What the charts draw of a recording, over time. A moment without a figure is left out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphzero.report.recording import ENDED, ProcessReading, Reading, Recording

__all__ = [
    "MemoryParts",
    "Rates",
    "Series",
    "late",
    "memory_parts",
    "of_readings",
    "rates",
    "thinned",
]

PARTS = ("anonymous", "file", "shared")
LEAST_SHARES = 4  # readings, for a timeline of shares


@dataclass(frozen=True)
class Series:
    """Values at moments; empty where nothing is known."""

    seconds: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    @property
    def most(self) -> float:
        """The largest value, 0 of none."""
        return max(self.values, default=0.0)


@dataclass(frozen=True)
class MemoryParts:
    """The resident memory of all processes.

    Attributes
    ----------
    seconds : tuple of float
    parts : dict of str to tuple of float
        "anonymous", "file" and "shared", or only "resident" where the parts are unknown; in bytes.
    shares : bool
        Pages that processes share are divided among them, so that each counts once.
    alone : bool
        There was one process only.
    """

    seconds: tuple[float, ...]
    parts: dict[str, tuple[float, ...]]
    shares: bool
    alone: bool = False

    @property
    def most(self) -> float:
        """The largest sum of the parts, in bytes."""
        return max(map(sum, zip(*self.parts.values(), strict=True)), default=0.0)


@dataclass(frozen=True)
class Rates:
    """Bytes a second between moments: one value fewer than moments."""

    edges: tuple[float, ...] = ()
    values: tuple[float, ...] = ()


def of_readings(recording: Recording, value: Callable[[Reading], float | None]) -> Series:
    """A figure of each reading in which it is known."""
    found = [(r.seconds, value(r)) for r in recording.readings]
    known = [(seconds, float(v)) for seconds, v in found if v is not None]
    return Series(tuple(s for s, _ in known), tuple(v for _, v in known))


def _sums(processes: Sequence[ProcessReading], names: Iterable[str]) -> tuple[float, ...] | None:
    """The sum of each figure over the processes; None if one process lacks one."""
    rows = [[getattr(p, name) for name in names] for p in processes if p.pid != ENDED]
    if not rows or any(v is None for row in rows for v in row):
        return None
    return tuple(float(sum(column)) for column in zip(*rows, strict=True))


def memory_parts(recording: Recording) -> MemoryParts | None:
    """The memory of all processes, as exactly as it was told.

    Of several processes, shares (PSS) are preferred, as they count no page twice, although they are
    read less often. Then come sums of the parts of RSS, and at last sums of RSS. Readings that lack
    a figure are left out. None if none has any.
    """
    readings = recording.readings
    alone = all(sum(p.pid != ENDED for p in r.processes) <= 1 for r in readings)
    kinds = [(PARTS, PARTS, False), (("resident",), ("rss",), False)]
    if not alone:
        kinds.insert(0, (PARTS, tuple(f"pss_{part}" for part in PARTS), True))
        kinds.append((("resident",), ("pss",), True))
    for labels, names, shares in kinds:
        enough = LEAST_SHARES if shares else 2
        found = [(r.seconds, _sums(r.processes, names)) for r in readings]
        known = [(seconds, sums) for seconds, sums in found if sums is not None]
        if len(known) >= max(1, min(enough, len(readings))):
            columns = zip(*(sums for _, sums in known), strict=True)
            parts = dict(zip(labels, map(tuple, columns), strict=True))
            return MemoryParts(tuple(s for s, _ in known), parts, shares, alone)
    return None


def thinned(weights: Sequence[float], most: int) -> list[int]:
    """At most so many positions, in order: the first, the last, and the largest of equal stretches.

    The largest are kept because a peak must not vanish from a chart.
    """
    count = len(weights)
    if count <= most:
        return list(range(count))
    inner = most - 2
    cuts = [1 + (count - 2) * i // inner for i in range(inner + 1)]
    largest = [max(range(a, b), key=weights.__getitem__) for a, b in pairwise(cuts)]
    return [0, *largest, count - 1]


def late(values: Sequence[float]) -> float:
    """What values are towards their end: the median of their last eighth.

    The last one alone may be that of a run whose workers have ended.
    """
    return statistics.median(values[-max(1, len(values) // 8) :])


def rates(counter: Series, most: int) -> Rates:
    """How fast a counter grew, in at most so many stretches of time."""
    count = len(counter.seconds)
    if count < 2:
        return Rates()
    stretches = min(most, count - 1)
    chosen = [(count - 1) * i // stretches for i in range(stretches + 1)]
    edges: list[float] = []
    values: list[float] = []
    for a, b in pairwise(chosen):
        length = counter.seconds[b] - counter.seconds[a]
        if length > 0:
            edges = edges or [counter.seconds[a]]
            edges.append(counter.seconds[b])
            values.append(max(0.0, counter.values[b] - counter.values[a]) / length)
    return Rates(tuple(edges), tuple(values))
