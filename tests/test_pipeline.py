"""Mini-batches that are prepared ahead, in groups: their order, their bounds, and how they end."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from others import alive, wait_until

from graphzero import _core
from graphzero.loader.pipeline import GroupPipeline, Sizes
from graphzero.sampling.threads import run_outside

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning"),
]
COUNT = 60


@pytest.fixture(autouse=True)
def all_have_ended():
    yield
    wait_until(lambda: alive() == [])


class Item:
    def __init__(self, number, error=None, num_bytes=1 << 30):
        self.number, self.error, self.num_bytes = number, error, num_bytes
        self.seconds = 1.0


class Phases:
    """Records what is done with which mini-batches; `hold` delays the placing."""

    is_sampling = False

    def __init__(self, *, reads=True, fails=(), num_bytes=1 << 30, hold=None, group=1):
        self.reads, self.fails, self.num_bytes, self.hold = reads, fails, num_bytes, hold
        self.calls, self.sampled, self.groups, self.placed = [], [], [], []
        self.group = group

    def most_in_group(self):
        return self.group

    def sample(self, numbers):
        self.is_sampling = True
        self.calls.append(len(numbers))
        self.sampled += numbers
        time.sleep(1e-4)
        self.is_sampling = False
        return [
            Item(number, KeyError(number) if number in self.fails else None, self.num_bytes)
            for number in numbers
        ]

    def must_read(self, items):
        return self.reads

    def read(self, items):
        self.groups.append([item.number for item in items])

    def place(self, items, *, apart=False):
        assert apart or not self.is_sampling  # a team does one thing at a time
        if self.hold is not None:
            self.hold.wait(60)
        self.placed += [item.number for item in items]


def pipeline(phases, **sizes):
    return GroupPipeline(phases, range(COUNT), Sizes(reads=phases.reads, **sizes), _core.Stop())


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("group", [1, 3, 8])
@pytest.mark.parametrize("lookahead", [0, 1, 5, 100])
def test_all_come_in_order_through_all_phases(reads, group, lookahead):
    phases = Phases(reads=reads, group=group)
    items = list(pipeline(phases, lookahead=lookahead, threads=2))
    assert [item.number for item in items] == list(range(COUNT))
    assert phases.sampled == phases.placed == list(range(COUNT))
    assert [number for group in phases.groups for number in group] == list(range(COUNT))


def test_groups_grow():
    """So that the first mini-batch comes as soon as it would alone."""
    phases = Phases(group=8)
    list(pipeline(phases, lookahead=1))
    sizes = [len(group) for group in phases.groups]
    assert sizes[:4] == [1, 2, 4, 8]
    assert max(sizes) == 8


def test_groups_follow_the_memory_that_there_is():
    phases = Phases(group=8)
    results = pipeline(phases, lookahead=1)
    for _ in range(20):
        next(results)
    phases.group = 2
    decided = len(phases.groups) + 1  # the next one had its size before
    assert len(list(results)) == COUNT - 20
    sizes = [len(group) for group in phases.groups]
    assert 8 in sizes[:decided]
    assert max(sizes[decided + 1 :]) == 2


@pytest.mark.parametrize("lookahead", [1, 4])
def test_without_memory_only_what_is_wanted_is_read(lookahead):
    phases = Phases(group=0)
    results = pipeline(phases, lookahead=lookahead)
    for taken in range(1, COUNT + 1):
        assert next(results).number == taken - 1
        time.sleep(0.001)
        assert sum(map(len, phases.groups)) == len(phases.placed) == taken
    results.close()


def test_the_next_are_read_while_mini_batches_are_placed():
    phases = Phases(hold=threading.Event())
    results = pipeline(phases, lookahead=1, places_ahead=False)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, results)
        try:
            wait_until(lambda: len(phases.groups) == 2)
            assert phases.placed == []
        finally:
            phases.hold.set()
        assert first.result().number == 0
    results.close()


@pytest.mark.parametrize("places_ahead", [True, False])
@pytest.mark.parametrize("lookahead", [1, 4])
@pytest.mark.parametrize("group", [1, 8])
def test_no_more_is_alive_than_memory_was_counted_for(places_ahead, lookahead, group):
    phases = Phases(group=group)
    results = pipeline(phases, lookahead=lookahead, places_ahead=places_ahead)
    for taken in range(1, 40):
        next(results)
        time.sleep(0.002)
        read = sum(map(len, phases.groups))
        assert len(phases.placed) <= taken + lookahead * places_ahead
        assert read - len(phases.placed) <= 1.5 * group + 1
        assert len(phases.sampled) - read <= 2 * group
    results.close()


@pytest.mark.parametrize(("fits", "calls"), [(True, [4, 8, 8]), (False, [1, 2, 4, 4])])
def test_calls_have_mini_batches_for_all_threads(fits, calls):
    """In memory from the first one on, and two for each then: they end at different times."""
    phases = Phases(reads=False, num_bytes=100)
    list(pipeline(phases, lookahead=2, threads=4, fits=fits))
    assert phases.calls[: len(calls)] == calls


def test_large_ones_are_placed_one_by_one_and_small_ones_together():
    large, small = Phases(reads=False), Phases(reads=False, num_bytes=100)
    for phases, ahead in ((large, 2), (small, COUNT - 1)):
        results = pipeline(phases, lookahead=2, threads=2)
        next(results)
        wait_until(lambda phases=phases, ahead=ahead: len(phases.placed) == 1 + ahead)
        time.sleep(0.02)
        assert (len(phases.placed), results.num_finished) == (1 + ahead, ahead)
        results.close()


def test_what_is_due_is_placed_while_large_ones_are_sampled():
    class Slow(Phases):
        def sample(self, numbers):
            if numbers[0] > 5:
                assert sampled.wait(60)
            return super().sample(numbers)

    sampled, phases = threading.Event(), Slow(reads=False)
    results = pipeline(phases, lookahead=1, threads=2)
    try:
        assert [next(results).number for _ in range(5)] == [0, 1, 2, 3, 4]
        wait_until(lambda: phases.placed == [0, 1, 2, 3, 4, 5])
    finally:
        sampled.set()
    assert len(list(results)) == COUNT - 5


@pytest.mark.parametrize("lookahead", [0, 1, 4])
@pytest.mark.parametrize("reads", [False, True])
def test_errors_come_where_the_mini_batch_would_have_been(lookahead, reads):
    phases = Phases(reads=reads, fails=[3, 5], group=4)
    results = pipeline(phases, lookahead=lookahead, threads=2)
    assert [next(results).number for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="3"):
        next(results)
    assert alive() == []
    assert list(results) == []


@pytest.mark.parametrize("phase", ["sample", "read", "place"])
@pytest.mark.parametrize("lookahead", [0, 3])
def test_a_phase_that_raises_stopiteration_does_not_end_the_iteration_silently(phase, lookahead):
    phases = Phases()

    def stop(_, **__):
        raise StopIteration

    setattr(phases, phase, stop)
    with pytest.raises(RuntimeError, match="StopIteration"):
        next(pipeline(phases, lookahead=lookahead))


def test_whoever_waits_is_told_that_threads_were_closed():
    hold = threading.Event()
    results = pipeline(Phases(hold=hold), lookahead=3)
    with ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(list, results)
        wait_until(lambda: len(alive()) == 3)
        results._threads.stop()
        hold.set()
        with pytest.raises(RuntimeError, match="closed"):
            consuming.result(60)


@pytest.mark.parametrize("num_bytes", [100, 1 << 30])
def test_what_was_not_filled_is_not_handed_out(num_bytes):
    """Once it is stopped, the core leaves arrays as they are."""

    class Stopping(Phases):
        def place(self, items, *, apart=False):
            super().place(items, apart=apart)
            if items[-1].number > 3:
                stop.set()

    stop, phases = _core.Stop(), Stopping(reads=False, num_bytes=num_bytes)
    results = GroupPipeline(phases, range(COUNT), Sizes(lookahead=1), stop)
    with ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(lambda: [item.number for item in results])
        wait_until(lambda: stop)
        time.sleep(0.05)
        results._threads.stop()
        with pytest.raises(RuntimeError, match="have ended"):
            consuming.result(60)


def test_ctrl_c_while_waiting_leaves_all_closed():
    hold = threading.Event()
    results = pipeline(Phases(hold=hold), lookahead=4)
    main = threading.main_thread().ident
    threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    threading.Timer(0.3, hold.set).start()
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert alive() == []


def test_it_is_closed_by_the_collector_in_its_own_thread():
    class Owner:
        def __init__(self, results):
            self.results, self.itself = results, self

        def __del__(self):
            run_outside(self.results.close)

    class Collecting(Phases):
        def place(self, items, *, apart=False):
            if items[0].number > 0:
                hold.wait(60)
                gc.collect()
            super().place(items, apart=apart)

    hold, phases = threading.Event(), Collecting()
    owner = Owner(pipeline(phases, lookahead=10))
    gc.disable()
    try:
        next(owner.results)
        del owner  # a cycle: only the collector can end it
        assert alive()
        hold.set()
        wait_until(lambda: alive() == [])
    finally:
        gc.enable()
    assert len(phases.placed) < COUNT


@pytest.mark.parametrize("lookahead", [0, 2])
def test_one_that_was_let_go_is_gone(lookahead):
    """While the next ones are made: a mini-batch's memory is wanted for them."""
    results = pipeline(Phases(), lookahead=lookahead)
    for item in results:
        reference = weakref.ref(item)
        del item
        gc.collect()
        assert reference() is None


def test_what_its_phases_hold_is_gone_with_it():
    """At once: the garbage collector comes late."""
    phases = Phases()
    results, reference = pipeline(phases, lookahead=2), weakref.ref(phases)
    next(results)
    gc.disable()
    results.close()
    del phases, results
    is_gone = reference() is None
    gc.enable()
    assert is_gone
