"""Side-by-side timing: contestants take turns, medians are compared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Comparison", "Dropped", "Run", "Spread", "compare", "interleave", "lasting", "spread"]

MOST_REPETITIONS = 100


class Dropped(Exception):
    """A contestant cannot continue; the others do, and the message becomes a note."""


@dataclass(frozen=True)
class Run:
    """One timed run: work done, wall time, and processor time of all threads."""

    work: float
    seconds: float
    processor_seconds: float

    @property
    def rate(self) -> float:
        """Work a second."""
        return self.work / self.seconds

    @property
    def cores(self) -> float:
        """Number of busy processors: how many threads really ran."""
        return self.processor_seconds / self.seconds

    def __add__(self, other: Run) -> Run:
        return Run(
            self.work + other.work,
            self.seconds + other.seconds,
            self.processor_seconds + other.processor_seconds,
        )


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest rate of several runs, and the median of `Run.cores`."""

    median: float
    low: float
    high: float
    runs: int
    cores: float


@dataclass(frozen=True)
class Comparison:
    """Rates of one workload by contestant.

    Attributes
    ----------
    workload, unit : str
    first : str
        The contestant that the others are compared with.
    rates : mapping of str to Spread
    goals : mapping of str to float
        The required ratio of the first contestant's rate to this one's.
    notes : mapping of str to sequence of str
        By contestant; may be empty.
    """

    workload: str
    unit: str
    first: str
    rates: Mapping[str, Spread]
    goals: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def ratio(self, other: str) -> float | None:
        """Ratio of the first contestant's median rate to another's; None without a rate."""
        if self.first not in self.rates or other not in self.rates:
            return None
        return self.rates[self.first].median / self.rates[other].median

    def met(self, other: str) -> bool | None:
        """Whether the goal for this ratio is met; None without a goal or a rate."""
        ratio = self.ratio(other)
        if ratio is None or other not in self.goals:
            return None
        return ratio >= self.goals[other]


def interleave(
    contestants: Mapping[str, Callable[[int], Run]], runs: int
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """Lets contestants take turns, so that a slow moment of the machine affects all of them.

    Parameters
    ----------
    contestants : mapping of str to callable
        Each is called with the number of the run. Run 0 warms caches and is not counted.
    runs : int
        Counted runs of each.

    Returns
    -------
    dict of str to list of Run
        Runs of the contestants that were not dropped.
    dict of str to str
        Why the others were dropped.
    """
    done: dict[str, list[Run]] = {name: [] for name in contestants}
    reasons: dict[str, str] = {}
    for number in range(runs + 1):
        for name in list(done):
            try:
                result = contestants[name](number)
            except Dropped as error:
                del done[name]
                reasons[name] = str(error)
                continue
            if number > 0:
                done[name].append(result)
    return done, reasons


def lasting(run: Callable[[int], Run], seconds: float) -> Callable[[int], Run]:
    """A contestant that repeats a short run, with another number each time, and adds up the runs.

    Parameters
    ----------
    run : callable
        Called with distinct numbers, so that no repetition finds its own data in the cache.
    seconds : float
        Minimum total time of the repetitions.
    """

    def repeated(number: int) -> Run:
        total = Run(0.0, 0.0, 0.0)
        for i in range(MOST_REPETITIONS):
            total += run(number * MOST_REPETITIONS + i)
            if total.seconds >= seconds:
                break
        return total

    return repeated


def spread(runs: Sequence[Run]) -> Spread:
    """Median, lowest and highest rate."""
    rates = [run.rate for run in runs]
    cores = statistics.median(run.cores for run in runs)
    return Spread(statistics.median(rates), min(rates), max(rates), len(rates), cores)


def compare(
    workload: str,
    unit: str,
    contestants: Mapping[str, Callable[[int], Run]],
    runs: int,
    *,
    goals: Mapping[str, float] | None = None,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> Comparison:
    """Times the contestants in turns and summarises their rates relative to the first."""
    timed, reasons = interleave(contestants, runs)
    rates = {name: spread(results) for name, results in timed.items()}
    all_notes = {name: list(of_one) for name, of_one in (notes or {}).items()}
    for name, reason in reasons.items():
        all_notes.setdefault(name, []).append(reason)
    return Comparison(workload, unit, next(iter(contestants)), rates, goals or {}, all_notes)
