"""Work that runs ahead in threads, which end whenever, and by whomever, they are closed."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import others
import pytest

from graphzero.sampling.threads import Pipeline, Stage, WorkerThreads, run_outside

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning"),
]


def alive():
    return [t for t in threading.enumerate() if t.name.startswith("graphzero")]


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.002)


@pytest.fixture(autouse=True)
def all_have_ended():
    yield
    wait_until(lambda: alive() == [])


@pytest.fixture
def worker():
    threads = WorkerThreads(1, "graphzero-test")
    yield threads
    threads.close()


def test_closing_waits_for_calls_that_run_and_drops_the_others(worker):
    begun, done = threading.Event(), []

    def work():
        begun.set()
        time.sleep(0.05)
        done.append(1)

    running, waiting = worker.submit(work), worker.submit(work)
    begun.wait(60)
    worker.close()
    assert done == [1]
    assert running.done()
    assert waiting.cancelled()
    assert alive() == []
    assert worker.submit(work).cancelled()
    worker.close()


def test_closing_wakes_a_call_that_waits_and_a_thread_can_close_its_own(worker):
    woken = threading.Event()
    threads = WorkerThreads(1, "graphzero-test", on_stop=woken.set)
    call = threads.submit(woken.wait)
    threads.close()
    assert call.cancelled() or call.result(timeout=0)
    worker.submit(worker.close).result(timeout=60)


def test_dropping_ends_the_threads():
    threads = WorkerThreads(2, "graphzero-test")
    threads.submit(int).result(timeout=60)
    assert alive()
    del threads
    wait_until(lambda: alive() == [])


def test_a_forked_child_has_no_part_in_it(worker):
    hold = threading.Event()
    call = worker.submit(hold.wait)
    found = others.in_child(
        lambda: [worker.is_open, worker.submit(int).cancelled(), worker.close()]
    )
    assert found == [False, True, None]
    hold.set()
    assert call.result(timeout=60)
    assert worker.submit(int).result(timeout=60) == 0


def test_a_call_that_follows_one_that_is_dropped_ends():
    """The second stage waits in its thread for the first, whose turn has not come."""
    hold = threading.Event()
    stages = [Stage(lambda item: item == 0 or hold.wait(60), 1), Stage(lambda item: item, 4)]
    results = Pipeline(stages, range(100), lookahead=20)
    assert next(results) is True
    threading.Timer(0.05, hold.set).start()
    results.close()
    assert alive() == []
    assert list(results) == []


def test_whoever_waits_for_a_result_is_told_that_threads_were_closed():
    hold = threading.Event()
    results = Pipeline([Stage(lambda item: hold.wait(60))], range(3), lookahead=3)
    with ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(list, results)
        wait_until(lambda: results._pending and len(alive()) == 1)
        results._threads[0].stop()
        hold.set()
        with pytest.raises(RuntimeError, match="closed"):
            consuming.result(60)


@pytest.mark.parametrize("lookahead", [0, 3])
def test_a_stage_that_raises_stopiteration_does_not_end_the_iteration_silently(lookahead):
    def stop(item):
        raise StopIteration(item)

    results = Pipeline([Stage(stop)], range(3), lookahead=lookahead)
    with pytest.raises(RuntimeError, match="StopIteration"):
        next(results)


def test_ctrl_c_while_waiting_leaves_all_closed():
    hold = threading.Event()
    results = Pipeline([Stage(lambda item: hold.wait(60), 2)], range(9), lookahead=4)
    main = threading.main_thread().ident
    threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    threading.Timer(0.3, hold.set).start()
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert alive() == []


def test_a_pipeline_is_closed_by_the_collector_in_its_own_thread():
    """While a call of it runs there, and others of it wait for that call."""

    class Owner:
        def __init__(self, results):
            self.results, self.itself = results, self

        def __del__(self):
            run_outside(self.results.close)

    def collect(item):
        if item > 0:
            hold.wait(60)
            collected.append(gc.collect())
        return item

    collected, hold = [], threading.Event()
    stages = [Stage(lambda item: item), Stage(collect), Stage(lambda item: item, 2)]
    owner = Owner(Pipeline(stages, range(1000), lookahead=10))
    gc.disable()
    try:
        assert next(owner.results) == 0
        del owner  # a cycle: only the collector can end it
        assert alive()
        hold.set()
        wait_until(lambda: alive() == [])
    finally:
        gc.enable()
    assert 0 < len(collected) < 20


# ---- work that runs ahead


@pytest.mark.parametrize("lookahead", [0, 1, 5, 100])
def test_results_come_in_order_through_all_stages(lookahead):
    order = []

    def slow_at_first(item):
        time.sleep(0.01 / (item + 1))
        return item * 10

    def last(item):
        order.append(item)
        return item + 1

    stages = [Stage(slow_at_first, 3), Stage(last), Stage(str, 2)]
    results = list(Pipeline(stages, range(30), lookahead=lookahead))
    assert results == [str(10 * i + 1) for i in range(30)]
    assert order == [10 * i for i in range(30)]  # one thread: in the order of the items


@pytest.mark.parametrize("lookahead", [0, 1, 4])
def test_no_more_than_asked_for_runs_ahead(lookahead):
    begun = []
    results = Pipeline([Stage(begun.append, 2)], range(100), lookahead=lookahead)
    for consumed in range(1, 10):
        next(results)
        assert len(begun) <= consumed + lookahead
    results.close()
    assert len(begun) <= 9 + lookahead


@pytest.mark.parametrize("most", [1, 2])
def test_large_results_are_few_and_small_ones_run_ahead(most):
    small, large = [], []
    stages = [
        Stage(lambda item: small.append(item) or item, 2),
        Stage(lambda item: large.append(item) or item, most=most),
    ]
    results = Pipeline(stages, range(100), lookahead=5)
    for consumed in range(1, 20):
        assert next(results) == consumed - 1
        ahead = (consumed + 5, consumed + most)
        wait_until(lambda ahead=ahead: (len(small), len(large)) == ahead)
    assert list(results) == list(range(19, 100))


@pytest.mark.parametrize("lookahead", [0, 2])
def test_a_result_that_was_let_go_is_gone(lookahead):
    """While the next ones are made: a mini-batch's memory is wanted for them."""

    class Result:
        pass

    results = Pipeline([Stage(lambda _: Result())], range(5), lookahead=lookahead)
    for result in results:
        alive = weakref.ref(result)
        del result
        gc.collect()
        assert alive() is None


@pytest.mark.parametrize("lookahead", [0, 1, 4])
def test_exceptions_come_where_the_result_would_have_been(lookahead):
    def fail_at_three(item):
        if item == 3:
            raise KeyError("three")
        return item

    results = Pipeline([Stage(int, 2), Stage(fail_at_three)], range(10), lookahead=lookahead)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="three"):
        next(results)
    assert alive() == []


def test_it_says_how_many_results_wait():
    release = threading.Event()

    def work(item):
        if item == 2:
            release.wait()
        return item

    with closing(Pipeline([Stage(int, 2), Stage(work, 2)], range(5), lookahead=3)) as got:
        assert got.num_finished == 0  # none has begun
        assert next(got) == 0
        wait_until(lambda: got.num_finished == 2)  # 1 and 3, while 2 waits
        assert next(got) == 1
        release.set()
        wait_until(lambda: got.num_finished == 3)
        assert [next(got), next(got), next(got), got.num_finished] == [2, 3, 4, 0]
