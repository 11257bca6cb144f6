"""Ten thousand iterators, ended in every way, leave nothing behind."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from itertools import count

import files
import numpy as np
import pytest
from others import alive, wait_until

import graphzero as gz
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import STRATEGIES

pytest.importorskip("torch")
planning = pytest.importorskip("graphzero.loader.preparation")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(600),
    # what fails in a thread, or when an iterator is collected
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning"),
]

NODES, DIM, MEBIBYTE = 20_000, 128, 1 << 20
TIMES = {"auto": 800, "willneed": 6400, "uring": 800, "pread": 2000}  # rings take long to open
# All of them take two minutes of processor time; with GRAPHZERO_TEST_ALL set, they are made.
if not os.environ.get("GRAPHZERO_TEST_ALL"):
    TIMES = {strategy: max(400, times // 4) for strategy, times in TIMES.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("iterators") / "data"
    return files.write_random(path, NODES, 60_000, DIM, order="hot")


def small_plan(strategy):
    """A part of the rows and of the topology is resident; the other topology is requested."""
    return IOPlan(
        STRATEGIES[strategy],
        1 << 17,
        first_resident=1 << 17,
        topology=100_000,
        page_cache=1 << 14,
        is_larger=True,
        reason="for a test",
    )


def open_seeds(ds, strategy):
    limits = {"memory_limit": "9MB", "resident": 1 << 17, "readahead_limit": 1 << 15}
    how = {"num_threads": 2, "prefetch": gz.Prefetch(strategy=strategy, **limits)}
    return gz.NeighborDataset(ds, np.arange(0, 60), [3, 2], batch_size=10, **how)


def status(field):
    with open("/proc/self/status") as lines:
        return int(dict(line.split(":", 1) for line in lines)[field].split()[0]) * 1024


def held():
    """What iterators may leave behind: counts that must not grow, and bytes."""
    gc.collect()
    wait_until(lambda: alive() == [])
    with open("/proc/self/maps") as maps:
        mappings = sum(1 for _ in maps)
    counts = (threading.active_count(), len(os.listdir("/proc/self/fd")), status("VmLck"))
    return counts, len(os.listdir("/proc/self/task")), mappings, status("RssAnon")


def close(batches):
    iterator = iter(batches)
    next(iterator)
    iterator.close()
    assert next(iterator, None) is None


def never_begin(batches):
    iter(batches)


def make_a_cycle(batches):
    holder = [iter(batches)]
    next(holder[0])
    holder.append(holder)  # the collector ends it, in any thread


def hand_to_a_thread(batches):
    holder = [iter(batches)]
    next(holder[0])
    thread = threading.Thread(target=lambda: (next(holder[0]), holder.clear()))
    thread.start()
    thread.join()


def fork(batches):
    iterator = iter(batches)
    next(iterator)
    child = os.fork()
    if child == 0:
        try:
            del iterator
            gc.collect()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    next(iterator)


# Loops that end, break or fail: test_leaves_nothing.
WAYS = (close, never_begin, make_a_cycle, hand_to_a_thread)
ONE_IN_SO_MANY_FORKS = 100


@pytest.fixture
def eager_collector():
    """It runs often, and so in all threads; what was there before is left out, to be quick."""
    earlier = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(150, 2, 2)
    yield
    gc.set_threshold(*earlier)
    gc.unfreeze()


# AddressSanitizer keeps freed memory aside, by design.
@pytest.mark.no_asan
@pytest.mark.parametrize("strategy", TIMES)
def test_ten_thousand_iterators_leave_nothing(folder, strategy, monkeypatch, eager_collector):
    if strategy != "auto":
        monkeypatch.setattr(planning, "plan_iteration", lambda *_: small_plan(strategy))
    locked = status("VmLck")
    with gz.open(folder) as ds:
        batches = open_seeds(ds, strategy)

        def end_some(count):
            for i in range(count):
                (fork if i % ONE_IN_SO_MANY_FORKS == 0 else WAYS[i % len(WAYS)])(batches)

        end_some(200)
        counts, tasks, mappings, memory = held()
        end_some(TIMES[strategy] - 200)
        assert held()[0] == counts
        # The kernel and the allocator let go of a thread a moment after it has ended.
        wait_until(lambda: held()[1] <= tasks)
        assert held()[2] <= mappings + 32
        assert held()[3] - memory < 8 * MEBIBYTE
    gc.collect()
    assert status("VmLck") == locked


class Interrupted(gz.NeighborDataset):
    """Is interrupted by a signal while it samples its third mini-batch."""

    def seeds_of(self, request):
        if request.batch == 2:
            signal.raise_signal(signal.SIGUSR1)
        return super().seeds_of(request)


@pytest.mark.parametrize("lookahead", [0, 1])
def test_a_signal_handler_may_close_the_iterator_that_it_interrupts(folder, lookahead):
    with gz.open(folder) as ds:
        prefetch = gz.Prefetch("willneed", lookahead=lookahead)
        iterator = iter(Interrupted(ds, range(900), [3], batch_size=100, prefetch=prefetch))
        earlier = signal.signal(signal.SIGUSR1, lambda *_: iterator.close())
        try:
            assert 1 <= sum(1 for _ in iterator) <= 3
        finally:
            signal.signal(signal.SIGUSR1, earlier)
        assert next(iterator, None) is None


def ctrl_c_at(line):
    """A trace function: Ctrl-C at some line of graphzero's that this thread comes to."""
    lines = iter(range(1, line))

    def trace(frame, event, _):
        if not frame.f_globals["__name__"].startswith("graphzero"):
            return None
        if event == "line" and next(lines, None) is None:
            raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.extended
def test_ctrl_c_at_any_line_leaves_nothing(folder):
    with gz.open(folder) as ds:
        batches = open_seeds(ds, "pread")
        for line in count(1):  # until all of it goes by in fewer lines
            with suppress(KeyboardInterrupt):
                sys.settrace(ctrl_c_at(line))
                iterator = iter(batches)
                next(iterator)
                sys.settrace(None)
                iterator.close()
                break
            iterator = None
            wait_until(lambda: alive() == [])
    assert line > 500


class Slow(gz.NeighborDataset):
    """Takes long to draw its seeds after a while, so that groups shrink; one cannot be had."""

    def seeds_of(self, request):
        time.sleep(0 if request.batch < 14 else 0.002)
        if request.batch == 60:
            raise ZeroDivisionError
        return super().seeds_of(request)


def test_seeds_that_take_long_are_those_of_their_mini_batches(folder):
    with gz.open(folder) as ds:
        options = {"batch_size": 10, "shuffle": True, "num_threads": 2}
        expected = list(gz.NeighborDataset(ds, range(900), [3], **options))
        batches = iter(Slow(ds, range(900), [3], **options))
        for batch in expected[:60]:
            same = next(batches)
            np.testing.assert_array_equal(same.input_id, batch.input_id)
            np.testing.assert_array_equal(same.subgraph.n_id, batch.subgraph.n_id)
        with pytest.raises(ZeroDivisionError):
            next(batches)
