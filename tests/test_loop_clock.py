"""How long a training loop waits and works, in every way in which loops run."""

from __future__ import annotations

import os
import tempfile
from types import SimpleNamespace

import pytest

from graphzero.loader import batch_log as log_module
from graphzero.loader import loop_clock
from graphzero.loader.batch_log import batch_log
from graphzero.loader.batch_totals import BatchTotals

pytest.importorskip("torch")

from graphzero.loader.timed import timed

pytestmark = pytest.mark.no_asan  # Python alone


@pytest.fixture(autouse=True)
def own_log(tmp_path, monkeypatch):
    """A log that begins with the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(log_module, "_log", None)
    yield
    if log_module._log is not None:
        log_module._log.remove()


class Clock:
    """Of a machine where time passes only as it is told."""

    wall = 1000.0

    def spend(self, seconds):
        self.wall += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    watch = SimpleNamespace(perf_counter=lambda: clock.wall)
    monkeypatch.setattr(loop_clock, "time", watch)
    return clock


class Source:
    """Items for which a loop waits 2 s each; its iterator takes 1 s."""

    def __init__(self, clock, count=3):
        self.clock, self.count = clock, count

    def __len__(self):
        return self.count

    def __iter__(self):
        self.clock.spend(1)
        return self._items()

    def _items(self):
        for item in range(self.count):
            self.clock.spend(2)
            yield item


def whole(clock, source):
    for _ in timed(source):
        clock.spend(5)


def twice(clock, source):
    again = timed(source)
    for _ in range(2):
        for _ in again:
            clock.spend(5)
        clock.spend(100)  # between two epochs


def left_early(clock, source):
    for item in timed(source):
        clock.spend(5)
        if item == 1:
            break
    clock.spend(100)
    whole(clock, source)


def left_by_an_exception(clock, source):
    with pytest.raises(KeyError):
        for item in timed(source):
            clock.spend(5)
            if item == 1:
                raise KeyError
    clock.spend(100)


def held(clock, source):
    iterator = iter(timed(source))
    next(iterator)
    clock.spend(100)
    whole(clock, source)
    return iterator


def interleaved(clock, source):
    for _ in zip(timed(source), timed(source), strict=False):
        clock.spend(5)


def nested(clock, source):
    for item in timed(source):
        clock.spend(5)
        if item == 1:
            whole(clock, source)
            clock.spend(7)


def timed_twice(clock, source):
    for _ in timed(timed(timed(source))):
        clock.spend(5)


def timed_within(clock, source):
    def prepared():
        for item in timed(source):
            clock.spend(4)  # on the item, before the loop gets it
            yield item

    for _ in timed(prepared()):
        clock.spend(5)


@pytest.mark.parametrize(
    ("loop", "steps", "stall", "training"),
    [
        (whole, 3, 7, 15),
        (twice, 6, 14, 30),
        (left_early, 5, 12, 20),
        (left_by_an_exception, 2, 5, 5),
        (held, 4, 10, 15),
        (interleaved, 6, 14, 15),
        (nested, 6, 14, 37),
        (timed_twice, 3, 7, 15),
        (timed_within, 3, 19, 15),
    ],
)
def test_no_second_of_a_loop_is_lost_or_counts_twice(clock, loop, steps, stall, training):
    before = clock.wall
    kept = loop(clock, Source(clock))
    got = batch_log().content().totals
    assert got == BatchTotals(steps=steps, stall=stall, training=training)
    assert got.stall + got.training <= clock.wall - before
    del kept


def test_passes_are_epochs_where_nothing_else_says(clock):
    twice(clock, Source(clock))
    assert batch_log().content().epochs == {
        epoch: BatchTotals(steps=3, stall=7, training=15) for epoch in (0, 1)
    }
    assert len(timed(Source(clock, 7))) == 7


def test_a_forked_child_does_not_count_what_its_parent_does(clock):
    iterator = iter(timed(Source(clock)))
    next(iterator)
    clock.spend(5)
    child = os.fork()
    if child == 0:
        next(iterator)
        got = batch_log().content().totals
        os._exit(0 if got == BatchTotals(steps=1, stall=2) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert batch_log().content().totals == BatchTotals(steps=1, stall=3)
