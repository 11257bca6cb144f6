"""Successive halving on made-up costs: what it finds, what it measures, how long it takes."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from graphzero.report.tuning.halving import Schedule, Search, ratios, search, survivors

pytestmark = pytest.mark.no_asan  # pure Python

COUNT = 36
START, WARM_UP = 0.6, 9  # seconds and mini-batches of each trial before its measurement


@dataclass
class Machine:
    """Settings with known costs, on a machine whose speed changes and whose clock is a number."""

    seed: int
    noise: float = 0.05  # of a measurement of two mini-batches
    bias: float = 0.02  # of a whole trial
    drift: float = 0.1
    failing: frozenset[int] = frozenset()
    now: float = 0.0
    rungs: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.costs = [0.1 * math.exp(abs(self.rng.gauss(0, 0.8))) for _ in range(COUNT)]

    def __call__(self, setting: int, *, batches: int, seconds: float, rung: int) -> Sequence[float]:
        self.rungs += [[] for _ in range(rung + 1 - len(self.rungs))]
        self.rungs[rung].append(setting)
        self.now += START
        if setting in self.failing:
            return ()
        speed = 1 + self.drift * math.sin(self.now / 40 + self.seed)
        cost = self.costs[setting] * speed * math.exp(self.rng.gauss(0, self.bias))
        left = max(0.25, seconds - START)
        possible = left / cost - WARM_UP
        measured = max(1, int(min(batches, possible)) // 2)
        self.now += min(left, (WARM_UP + batches) * cost)
        return [cost * math.exp(self.rng.gauss(0, self.noise)) for _ in range(measured)]

    def find(self, schedule: Schedule, preferred: Sequence[int] = ()) -> Search[int]:
        found = search(range(COUNT), self, schedule, preferred=preferred, clock=lambda: self.now)
        assert found is not None
        return found

    def loss(self, found: Search[int]) -> float:
        """How much slower the choice is than the best."""
        return self.costs[found.best] / min(self.costs) - 1


@pytest.mark.parametrize("seconds", [math.inf, 300.0])
def test_the_choice_is_near_the_best(seconds: float) -> None:
    losses = []
    for seed in range(200):
        machine = Machine(seed)
        losses.append(machine.loss(machine.find(Schedule(seconds=seconds))))
    assert sum(loss <= 0.05 for loss in losses) >= 0.95 * len(losses)


def test_less_is_measured_than_by_measuring_everything() -> None:
    halved, full = Machine(1), Machine(1)
    halved.find(Schedule())
    full.find(Schedule(finalists=COUNT, eliminates=False))
    assert halved.now < 0.7 * full.now
    assert all(count == 2 for count in Counter(full.rungs[0]).values())


@pytest.mark.parametrize("seconds", [20.0, 60.0, 200.0])
def test_the_time_is_kept(seconds: float) -> None:
    for seed in range(20):
        machine = Machine(seed)
        found = machine.find(Schedule(seconds=seconds))
        # the trial that runs is finished: its start, and what it may take at least
        assert machine.now <= seconds + START + 1.0
        measured = {setting for rung in machine.rungs for setting in rung}
        assert measured | set(found.left_out) == set(range(COUNT))


def test_rungs_are_longer_and_smaller_and_finals_take_turns() -> None:
    machine = Machine(3)
    machine.find(Schedule(finalists=4))
    first, second, finals = machine.rungs
    assert first == list(range(COUNT))
    assert 12 <= len(second) <= 18
    count = len(set(finals))
    assert 4 <= count <= 6
    # all of them, and all of them again, before any is measured a third time
    assert finals[:count] == finals[count : 2 * count]
    assert len(set(finals[:count])) == count
    later = finals[2 * count :]
    assert len(set(later)) <= math.ceil(count / 2)


def test_what_failed_is_not_measured_again() -> None:
    machine = Machine(4, failing=frozenset(range(0, COUNT, 2)))
    found = machine.find(Schedule())
    assert found.best % 2 == 1
    assert all(setting % 2 == 1 for rung in machine.rungs[1:] for setting in rung)
    assert search(range(8), Machine(5, failing=frozenset(range(8))), Schedule()) is None


def test_a_setting_that_fails_in_the_finals_leaves_them() -> None:
    machine = Machine(6)

    def measure(setting: int, *, batches: int, seconds: float, rung: int) -> Sequence[float]:
        if rung > 0 and setting == 0:
            return ()
        return machine(setting, batches=batches, seconds=seconds, rung=rung)

    machine.costs[0] = 0.01
    found = search(range(COUNT), measure, Schedule(), clock=lambda: machine.now)
    assert found is not None
    assert found.best != 0
    assert 0 not in found.ratios


def test_a_cut_within_the_noise_spares_some() -> None:
    certain = {i: [1 + i / 10, 1.01 + i / 10] for i in range(9)}
    assert survivors(certain, 4) == [0, 1, 2, 3]
    noisy = {i: [1.0, 1 + i / 100, 2.0] for i in range(9)}
    assert survivors(noisy, 4) == [0, 1, 2, 3, 4, 5]  # and not more than half as many again
    assert len(survivors(noisy, 8)) == 8  # one leaves at least
    assert survivors({1: [0.2], 2: [0.1]}, 4) == [2, 1]
    one_each = {i: [float(i)] for i in range(6)}
    assert survivors(one_each, 3) == [0, 1, 2]


def test_turns_are_compared_with_each_other() -> None:
    """A machine that becomes slower does not make the setting that was measured last slower."""
    speeds = (1, 2, 4)
    turns = {"a": [1.0 * s for s in speeds], "b": [1.1 * s for s in speeds], "c": [0.9]}
    found = ratios(turns)
    assert found["a"] == pytest.approx(1)
    assert found["b"] == pytest.approx(1.1)
    assert list(found) == ["c", "a", "b"]
    hiccup = {"a": [1.0, 5.0, 1.0], "b": [1.1, 1.1, 1.1]}
    assert ratios(hiccup)["b"] == pytest.approx(1.1)


def test_a_preferred_setting_wins_if_it_is_hardly_slower() -> None:
    machine = Machine(7, noise=0.0, bias=0.0, drift=0.0)
    order = sorted(range(COUNT), key=lambda one: machine.costs[one])
    machine.costs[order[2]] = 1.015 * machine.costs[order[0]]
    machine.costs[order[1]] = 1.1 * machine.costs[order[0]]
    found = machine.find(Schedule(), preferred=[order[1], order[2]])
    assert found.best == order[2]
    assert found.ratios[order[2]] == 1.0
    assert found.ratios[order[0]] == pytest.approx(1 / 1.015)
