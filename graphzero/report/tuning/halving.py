"""Successive halving: which of many settings is fastest, with most of the time for the best ones.

All settings are measured over a few mini-batches, the better part of them over more, and so on.
(Jamieson & Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
AISTATS 2016.) The last ones are compared in turns, so that a machine that becomes slower does so
for all of them. Everything here is a function of what `measure` and `clock` return.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Generic, Protocol, TypeVar

__all__ = ["Measure", "Schedule", "Search", "ratios", "search", "survivors"]

K = TypeVar("K", bound=Hashable)
_Contra = TypeVar("_Contra", bound=Hashable, contravariant=True)

_SPARED = 1.5  # times the number to keep: as many at most, where the cut falls within the noise
_LEAST_SECONDS = 1.0


class Measure(Protocol[_Contra]):
    """Measures one setting."""

    def __call__(
        self, setting: _Contra, *, batches: int, seconds: float, rung: int
    ) -> Sequence[float]:
        """Seconds a mini-batch, several times over; empty where the setting failed.

        Parameters
        ----------
        setting : object
        batches : int
            Mini-batches to measure.
        seconds : float
            About what this may take in all.
        rung : int
            From 0; all measurements of the finals have the same number.
        """


@dataclass(frozen=True)
class Schedule:
    """How long settings are measured, and how many of them.

    Attributes
    ----------
    eta : int
        Each rung keeps one of so many settings, and measures them so many times longer.
    batches : int
        Mini-batches that are measured on the first rung.
    finalists : int
        With so many settings left, and perhaps some more within the noise, the finals begin.
    turns : int
        How often each is measured before the worse half leaves the finals.
    eliminates : bool
        False ends the finals after these turns, with all of them.
    most_batches : int
        That one measurement takes.
    seconds : float
        For everything. A measurement that runs when they have passed is still finished.
    """

    eta: int = 3
    batches: int = 4
    finalists: int = 6
    turns: int = 2
    eliminates: bool = True
    most_batches: int = 24
    seconds: float = math.inf


@dataclass(frozen=True)
class Search(Generic[K]):
    """What a search has found.

    Attributes
    ----------
    best : K
    ratios : dict of K to float
        Of the settings of the finals: their seconds a mini-batch in relation to those of `best`.
    left_out : list of K
        Settings that were never measured, because the time was over.
    """

    best: K
    ratios: dict[K, float]
    left_out: list[K] = field(default_factory=list)


def _quartiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Lower and upper quartile; of one number, itself."""
    if len(seconds) == 1:
        return seconds[0], seconds[0]
    low, _, high = quantiles(seconds, n=4, method="inclusive")
    return low, high


def survivors(costs: Mapping[K, Sequence[float]], keep: int) -> list[K]:
    """The settings with the lowest medians, best first.

    A setting beyond the cut stays if its quartiles overlap with those of the last one before it,
    as long as no more than half as many again stay, and not all of them.

    Parameters
    ----------
    costs : mapping
        Seconds a mini-batch, at least one number for each setting.
    keep : int
    """
    ranked = sorted(costs, key=lambda setting: median(costs[setting]))
    if len(ranked) <= keep:
        return ranked
    _, worst_kept = _quartiles(costs[ranked[keep - 1]])
    spared = [one for one in ranked[keep:] if _quartiles(costs[one])[0] <= worst_kept]
    return [*ranked[:keep], *spared[: int(keep * _SPARED) - keep]][: len(ranked) - 1]


def ratios(turns: Mapping[K, Sequence[float]]) -> dict[K, float]:
    """Seconds of each setting in relation to those of the fastest, by ascending ratio.

    Each is compared turn by turn, over the turns that both had.

    Parameters
    ----------
    turns : mapping
        Seconds a mini-batch in each turn, at least one; those with most turns may be fastest.
    """
    most = max(len(seconds) for seconds in turns.values())
    last = [one for one, seconds in turns.items() if len(seconds) == most]
    usual = [median(turns[one][turn] for one in last) for turn in range(most)]
    score = {one: median(a / b for a, b in zip(turns[one], usual, strict=False)) for one in turns}
    best = turns[min(last, key=lambda one: score[one])]
    found = {
        one: median(a / b for a, b in zip(seconds, best, strict=False))
        for one, seconds in turns.items()
    }
    return dict(sorted(found.items(), key=lambda pair: pair[1]))


def search(
    settings: Sequence[K],
    measure: Measure[K],
    schedule: Schedule,
    *,
    preferred: Sequence[K] = (),
    tolerance: float = 0.02,
    on_cut: Callable[[Sequence[K]], object] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Search[K] | None:
    """Finds the fastest setting.

    Parameters
    ----------
    settings : sequence
        Those to be measured even if the time is short come first.
    measure : Measure
    schedule : Schedule
    preferred : sequence
        The first of these that is in the finals, and hardly slower than the best, is chosen.
    tolerance : float
        How much slower that may be, as a share.
    on_cut : callable
        Called with the settings that are left, each time that some have left.
    clock : callable
        Seconds.

    Returns
    -------
    Search or None
        None if every setting failed, or the time was over before any turn was complete.
    """
    run = _Run(measure, schedule, on_cut, clock)
    left, batches, rung = list(settings), schedule.batches, 0
    left_out: list[K] = []
    turns: dict[K, list[float]] = {}
    ends = _ends(len(left), schedule)
    while len(left) > _SPARED * schedule.finalists and not run.is_over:
        end = run.share(ends[min(rung, len(ends) - 1)])
        costs, missed = run.measure_all(left, batches, end, rung)
        left_out += missed if rung == 0 else []
        if not costs:
            return None
        left = survivors(costs, max(schedule.finalists, math.ceil(len(left) / schedule.eta)))
        turns = {one: [median(costs[one])] for one in left}  # all there is if the time is over
        on_cut(left)
        batches, rung = min(batches * schedule.eta, schedule.most_batches), rung + 1
    turns = run.finals(left, schedule.most_batches, rung) or turns
    if not turns:
        return None
    found = ratios(turns)
    near = [one for one in preferred if found.get(one, math.inf) <= 1 + tolerance]
    best = near[0] if near else next(iter(found))
    return Search(best, {one: ratio / found[best] for one, ratio in found.items()}, left_out)


def _ends(count: int, schedule: Schedule) -> list[float]:
    """When the rungs before the finals end, as shares of the time, if no setting is spared.

    All measurements have about as much time: most of it is for starting and warming up, which are
    alike on all rungs.
    """
    counts = []
    while count > _SPARED * schedule.finalists:
        counts.append(count)
        count = max(schedule.finalists, math.ceil(count / schedule.eta))
    total = sum(counts) + _measurements(count, schedule.turns)
    return [sum(counts[: rung + 1]) / total for rung in range(len(counts))]


class _Run(Generic[K]):
    """The measurements of one search, and its time."""

    def __init__(
        self,
        measure: Measure[K],
        schedule: Schedule,
        on_cut: Callable[[Sequence[K]], object],
        clock: Callable[[], float],
    ) -> None:
        self._measure = measure
        self._schedule = schedule
        self._on_cut = on_cut
        self._clock = clock
        self._started = clock()

    def share(self, part: float) -> float:
        """When a part of the time, from 0 to 1, has passed."""
        return self._started + part * self._schedule.seconds

    @property
    def is_over(self) -> bool:
        return self._clock() >= self.share(1)

    def _one(self, setting: K, batches: int, end: float, beside: int, rung: int) -> Sequence[float]:
        """One measurement; so many more are to be made until `end`."""
        seconds = max(_LEAST_SECONDS, (end - self._clock()) / (beside + 1))
        return self._measure(setting, batches=batches, seconds=seconds, rung=rung)

    def measure_all(
        self, settings: Sequence[K], batches: int, end: float, rung: int
    ) -> tuple[dict[K, list[float]], list[K]]:
        """Seconds of those that did not fail, and the settings for which no time was left."""
        found: dict[K, list[float]] = {}
        for number, setting in enumerate(settings):
            if self.is_over and found:
                return found, list(settings[number:])
            beside = len(settings) - number - 1
            if seconds := self._one(setting, batches, end, beside, rung):
                found[setting] = list(seconds)
        return found, []

    def finals(self, settings: Sequence[K], batches: int, rung: int) -> dict[K, list[float]]:
        """Median seconds a mini-batch in each turn, until one setting is left or time is over.

        A turn that is not complete does not count, unless there is nothing else.
        """
        turns: dict[K, list[float]] = {one: [] for one in settings}
        left = list(settings)
        while left:
            ahead = _measurements(len(left), self._schedule.turns)
            for _ in range(self._schedule.turns):
                this: dict[K, Sequence[float]] = {}
                for setting in left:
                    if self.is_over and (rung > 0 or turns[left[0]] or this):
                        return {one: seconds for one, seconds in turns.items() if seconds}
                    ahead -= 1
                    this[setting] = self._one(setting, batches, self.share(1), ahead, rung)
                left = [one for one in left if this[one]]  # others have failed, and would again
                for setting in left:
                    turns[setting].append(median(this[setting]))
            turns = {one: seconds for one, seconds in turns.items() if seconds}
            if len(left) <= 1 or not self._schedule.eliminates:
                break
            order = ratios({one: turns[one] for one in left})
            left = list(order)[: math.ceil(len(left) / 2) if len(left) > 2 else 1]
            if len(left) == 1:
                break
            self._on_cut(left)
        return turns


def _measurements(count: int, turns: int) -> int:
    """Of all finals that begin with so many settings."""
    total = 0
    while count > 1:
        total, count = total + count * turns, math.ceil(count / 2) if count > 2 else 1
    return max(total, turns)
