"""Work that runs ahead in threads, which end whenever, and by whomever, they are closed."""

from __future__ import annotations

import threading
import time

import others
import pytest
from others import alive, wait_until

from graphzero.sampling.threads import WorkerThreads

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning"),
]


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
