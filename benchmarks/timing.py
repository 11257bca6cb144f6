"""Side-by-side timing: contestants take turns, medians are compared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Comparison",
    "Dropped",
    "Run",
    "Spread",
    "compare",
    "interleave",
    "lasting",
    "spread",
    "table",
    "to_json",
]

MOST_REPETITIONS = 100


class Dropped(Exception):
    """Raised by a contestant that cannot go on: the others do, its message becomes a note."""


@dataclass(frozen=True)
class Run:
    """One timed run: how much work was done in how many seconds."""

    work: float
    seconds: float

    @property
    def rate(self) -> float:
        """Work a second."""
        return self.work / self.seconds


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest rate of several runs."""

    median: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Comparison:
    """Rates of one workload by contestant; `first` is the one that the others are compared with."""

    workload: str
    unit: str
    first: str
    rates: Mapping[str, Spread]
    notes: Sequence[str] = field(default_factory=tuple)

    def ratio(self, peer: str) -> float | None:
        """How many times a peer's median rate the first contestant has, None without a rate."""
        if self.first not in self.rates or peer not in self.rates:
            return None
        return self.rates[self.first].median / self.rates[peer].median


def interleave(
    contestants: Mapping[str, Callable[[int], Run]], runs: int
) -> tuple[dict[str, list[Run]], list[str]]:
    """Lets contestants take turns, so that a slow moment of the machine strikes all of them.

    Parameters
    ----------
    contestants : mapping of str to callable
        Each is called with the number of the run. Run 0 warms caches and is not counted.
    runs : int
        Counted runs of each.

    Returns
    -------
    dict of str to list of Run
        Without the contestants that were dropped.
    list of str
        Why they were.
    """
    done: dict[str, list[Run]] = {name: [] for name in contestants}
    reasons: list[str] = []
    for number in range(runs + 1):
        for name in list(done):
            try:
                result = contestants[name](number)
            except Dropped as error:
                del done[name]
                reasons.append(str(error))
                continue
            if number > 0:
                done[name].append(result)
    return done, reasons


def lasting(run: Callable[[int], Run], seconds: float) -> Callable[[int], Run]:
    """A contestant that repeats a short run, each time with another number, and adds up.

    Parameters
    ----------
    run : callable
        Called with distinct numbers, so that no repetition finds its own data in the cache.
    seconds : float
        How long the repetitions last together, at least.
    """

    def repeated(number: int) -> Run:
        total = Run(0.0, 0.0)
        for i in range(MOST_REPETITIONS):
            result = run(number * MOST_REPETITIONS + i)
            total = Run(total.work + result.work, total.seconds + result.seconds)
            if total.seconds >= seconds:
                break
        return total

    return repeated


def spread(runs: Sequence[Run]) -> Spread:
    """Median, lowest and highest rate."""
    rates = [run.rate for run in runs]
    return Spread(statistics.median(rates), min(rates), max(rates), len(rates))


def compare(
    workload: str,
    unit: str,
    contestants: Mapping[str, Callable[[int], Run]],
    runs: int,
    notes: Sequence[str] = (),
) -> Comparison:
    """Times the contestants in turns and sums up their rates."""
    timed, reasons = interleave(contestants, runs)
    rates = {name: spread(results) for name, results in timed.items()}
    return Comparison(workload, unit, next(iter(contestants)), rates, (*notes, *reasons))


def _cell(rate: Spread | None) -> str:
    if rate is None:
        return "-"
    return f"{rate.median:.3g} ({rate.low:.3g} to {rate.high:.3g})"


def _ratio_cell(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1f}x"


def table(comparisons: Sequence[Comparison], names: Sequence[str]) -> str:
    """A Markdown table: a row per workload, rates as median (lowest to highest), then ratios.

    Parameters
    ----------
    comparisons : sequence of Comparison
    names : sequence of str
        The contestants, the one that is compared first.
    """
    peers = names[1:]
    rows = [["workload", "unit", *names, *(f"ratio to {peer}" for peer in peers)]]
    notes: list[str] = []
    for result in comparisons:
        marks = ""
        for note in result.notes:
            if note not in notes:
                notes.append(note)
            marks += f" [{notes.index(note) + 1}]"
        rows.append(
            [
                result.workload + marks,
                result.unit,
                *(_cell(result.rates.get(name)) for name in names),
                *(_ratio_cell(result.ratio(peer)) for peer in peers),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines + [f"[{i}] {note}" for i, note in enumerate(notes, 1)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "| " + " | ".join(padded) + " |"


def to_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as plain values."""
    return {
        "workload": comparison.workload,
        "unit": comparison.unit,
        "rates": {
            name: {"median": rate.median, "min": rate.low, "max": rate.high, "runs": rate.runs}
            for name, rate in comparison.rates.items()
        },
        "ratios": {
            name: comparison.ratio(name) for name in comparison.rates if name != comparison.first
        },
        "notes": list(comparison.notes),
    }
