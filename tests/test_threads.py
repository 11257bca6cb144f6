"""`WorkerThreads`: they end whenever, and by whomever, they are closed."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from concurrent.futures import CancelledError

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


def in_child(function):
    """Exit code of a forked child that calls a function."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child never ended")


def test_results_and_exceptions_come_back(worker):
    assert worker.submit(divmod, 7, 2).result(timeout=60) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        worker.submit(divmod, 7, 0).result(timeout=60)


def test_one_thread_works_in_order_and_several_side_by_side(worker):
    done = []
    calls = [worker.submit(done.append, i) for i in range(100)]
    calls[-1].result(timeout=60)
    assert done == list(range(100))
    barrier = threading.Barrier(3)
    several = WorkerThreads(3, "graphzero-test")
    for call in [several.submit(barrier.wait, 60) for _ in range(3)]:
        call.result(timeout=60)
    several.close()


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


def test_closing_wakes_a_call_that_waits():
    woken = threading.Event()
    threads = WorkerThreads(1, "graphzero-test", on_stop=woken.set)
    call = threads.submit(woken.wait)
    threads.close()
    assert call.cancelled() or call.result(timeout=0)


def test_a_thread_can_close_its_own(worker):
    worker.submit(worker.close).result(timeout=60)
    wait_until(lambda: alive() == [])


def test_dropping_ends_the_threads():
    threads = WorkerThreads(2, "graphzero-test")
    threads.submit(int).result(timeout=60)
    assert alive()
    del threads
    wait_until(lambda: alive() == [])


def test_a_forked_child_has_no_part_in_it(worker):
    hold = threading.Event()
    call = worker.submit(hold.wait)

    def inherit():
        assert not worker.is_open
        assert worker.submit(int).cancelled()
        worker.close()

    assert in_child(inherit) == 0
    hold.set()
    assert call.result(timeout=60)
    assert worker.submit(int).result(timeout=60) == 0


def test_what_may_wait_is_done_outside_the_threads(worker):
    here = threading.get_ident()
    where = []
    run_outside(lambda: where.append(threading.get_ident()))
    assert where == [here]
    lock = threading.Lock()

    def close_while_holding():
        with lock:  # which closing takes as well
            run_outside(lambda: (lock.acquire(), worker.close(), lock.release()))
            return threading.get_ident()

    worker.submit(close_while_holding).result(timeout=60)
    wait_until(lambda: alive() == [])


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
    caught = []

    def consume():
        try:
            list(results)
        except RuntimeError as error:
            caught.append(str(error))

    consumer = threading.Thread(target=consume)
    consumer.start()
    wait_until(lambda: results._pending and len(alive()) == 1)
    results._threads[0].stop()
    hold.set()
    consumer.join(60)
    assert len(caught) == 1
    assert "closed" in caught[0]


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
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main = threading.main_thread().ident
        threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        threading.Timer(0.3, hold.set).start()
        with pytest.raises(KeyboardInterrupt):
            next(results)
    finally:
        signal.signal(signal.SIGINT, earlier)
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


def test_cancelled_is_what_waiting_calls_see(worker):
    hold = threading.Event()
    worker.submit(hold.wait)
    waiting = worker.submit(int)
    worker.stop()
    with pytest.raises(CancelledError):
        waiting.result(timeout=60)
    hold.set()
