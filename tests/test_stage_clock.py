"""What a stage spends on work and on waiting for the disk."""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
import threading
import time

import pytest

from graphzero.loader import iteration
from graphzero.loader.iteration import Moment, moment, spent

pytestmark = pytest.mark.no_asan  # Python alone


@pytest.mark.parametrize(
    ("wall", "cpu", "queued", "faults", "has_read", "disk"),
    [
        (10.0, 4.0, 0.0, 0, True, 6.0),
        (10.0, 4.0, 1.5, 0, True, 4.5),  # it was ready, and had no processor
        (10.0, 4.0, 1.5, 3, False, 4.5),  # page faults say that it has read
        (10.0, 4.0, 0.0, 0, False, 0.0),  # it was blocked by something else
        (10.0, 9.0, 2.0, 1, True, 0.0),  # the clocks do not agree to the last digit
        (10.0, -1.0, 0.0, 1, True, 10.0),
        (0.0, 0.0, 0.0, 1, True, 0.0),
    ],
)
def test_the_time_of_a_stage_is_work_and_disk(wall, cpu, queued, faults, has_read, disk):
    begin = Moment(100.0, 7.0, 3.0, 20)
    end = Moment(100.0 + wall, 7.0 + cpu, 3.0 + queued, 20 + faults)
    got = spent(begin, end, has_read=has_read)
    assert got[1] == pytest.approx(disk)
    assert sum(got) == pytest.approx(wall)


def blocked(seconds):
    begin = moment()
    time.sleep(seconds)
    return spent(begin, moment(), has_read=True)


def test_a_thread_that_sleeps_is_blocked_and_one_that_computes_is_not():
    assert blocked(0.05)[1] > 0.049
    begin = moment()
    while time.thread_time() - begin.cpu < 0.05:
        pass
    busy = spent(begin, moment(), has_read=True)
    assert busy[0] >= 0.05


@pytest.mark.skipif(not os.path.exists("/proc/thread-self/schedstat"), reason="no such file")
def test_waiting_for_a_processor_is_not_waiting_for_the_disk():
    """Two threads on one processor: each is ready half of the time, and never blocked."""
    source = (
        "import os, threading, time\n"
        "from graphzero.loader.iteration import moment, spent\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "if os.fork() == 0:\n"
        "    while os.getppid() != 1 and time.thread_time() < 0.4: pass\n"
        "    os._exit(0)\n"
        "begin = moment()\n"
        "while time.thread_time() - begin.cpu < 0.2: pass\n"
        "end = moment()\n"
        "os.wait()\n"
        "assert end.queued - begin.queued > 0.05, 'it had a processor all the time'\n"
        "assert spent(begin, end, has_read=True)[1] < 0.05\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True, cwd="/")


def test_where_the_system_tells_less_the_rest_still_counts(monkeypatch):
    monkeypatch.setattr(iteration, "_SCHEDSTAT", "/nowhere/schedstat")
    monkeypatch.setattr(iteration, "_WHOSE", None)
    monkeypatch.setattr(iteration, "_schedstat", iteration._Schedstat())
    now = moment()
    assert (now.queued, now.faults) == (0.0, 0)
    assert blocked(0.02)[1] > 0.01


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_that_end_and_forked_children_leave_no_descriptor():
    moment()
    gc.collect()  # what earlier tests have left
    before = len(os.listdir("/proc/self/fd"))
    threads = [threading.Thread(target=moment) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    child = os.fork()
    if child == 0:  # its thread is another one than the parent's
        status = 1
        try:
            begin = moment()
            own = os.stat(f"/proc/self/fd/{iteration._schedstat.descriptor}").st_ino
            status = 0 if own == os.stat("/proc/thread-self/schedstat").st_ino else 2
            # what else the parent publishes, the child closes
            if begin.queued < 0 or len(os.listdir("/proc/self/fd")) > before:
                status = 3
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="cannot empty the page cache")
def test_page_faults_that_read_a_file_are_waiting_for_the_disk(tmp_path):
    path = tmp_path / "cold"
    path.write_bytes(os.urandom(4 << 20))
    with open(path, "r+b") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            data.madvise(mmap.MADV_RANDOM)
            begin = moment()
            assert len(data[:: mmap.PAGESIZE]) == 1024
            cold = moment()
            assert len(data[:: mmap.PAGESIZE]) == 1024
            warm = moment()
    if cold.faults == begin.faults:
        pytest.skip("this file system keeps its files in memory")
    assert spent(begin, cold, has_read=False)[1] > 0
    assert spent(cold, warm, has_read=False)[1] == 0
