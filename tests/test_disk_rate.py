"""The probe of the disk below a file: what it counts, what it refuses, and how it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import files
import numpy as np
import psutil
import pytest

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.report.readings import disk_rate

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="is about O_DIRECT")
ENGINES = ["pread", *(["uring"] if _core.uring_refusal() is None else [])]
each_engine = pytest.mark.parametrize("engine", ENGINES)
SHORT = 0.05


@pytest.fixture
def path(tmp_path):
    """A file of 6 MiB that is on the disk; its tests are skipped where O_DIRECT is not."""
    name = tmp_path / "rows.bin"
    name.write_bytes(np.random.default_rng(0).bytes(6 << 20))
    with open(name, "rb") as file:
        os.fsync(file.fileno())
    if _core.probe_disk(name, depth=1, seconds=0.01, engine="pread") is None:
        pytest.skip("the temporary folder's file system has no reads past the page cache")
    return name


# ---- the probe of the compiled core


@pytest.mark.parametrize("probe", [_core.probe_disk, disk_rate])
def test_what_is_no_file_is_an_error_with_its_path(tmp_path, probe):
    for path, code in [(tmp_path / "none", errno.ENOENT), (tmp_path, errno.EISDIR)]:
        with pytest.raises(OSError, match="cannot be opened|is a folder") as caught:
            probe(path)
        assert (caught.value.errno, caught.value.filename) == (code, str(path))


@each_engine
def test_a_file_that_is_truncated_is_an_error_and_nothing_is_left(path, engine):
    def left():
        return _core.open_mappings(), threading.active_count(), psutil.Process().num_fds()

    before = left()
    _core.probe_disk(path, seconds=0.01, engine=engine)
    with pytest.raises(ValueError, match="too small"):
        _core.probe_disk(path, block_bytes=1 << 21, depth=1, engine=engine)
    timer = threading.Timer(SHORT, os.truncate, [path, 10_000])
    timer.start()
    with pytest.raises(FormatError, match=r"rows\.bin .*truncated"):
        _core.probe_disk(path, seconds=60, engine=engine)
    timer.join()
    assert left() == before


@each_engine
def test_signals_change_nothing(path, engine):
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        assert _core.probe_disk(path, depth=4, seconds=0.2, engine=engine)["reads"] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


CTRL_C = """
import os, signal, sys, threading
from graphzero import _core
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    _core.probe_disk(sys.argv[1], seconds=1e6, engine=sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", _core.open_mappings(), os.listdir("/proc/self/task").__len__() < 3)
"""


@needs_linux
@pytest.mark.no_asan
@each_engine
def test_ctrl_c_ends_it(path, tmp_path, engine):
    command = [sys.executable, "-c", CTRL_C, str(path), engine]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["interrupted", "0", "True"], done.stderr


# ---- disk_rate


@needs_linux
@each_engine
def test_reads_go_past_the_page_cache_and_other_threads_run_meanwhile(path, engine):
    files.drop_from_cache(path)
    mapping = _core.Mapping(path)
    if mapping.resident_pages() > 0:
        pytest.skip("the page cache cannot be emptied of the file")
    before = psutil.Process().io_counters().read_bytes
    with ThreadPoolExecutor(1) as pool:
        probe = pool.submit(_core.probe_disk, path, seconds=0.2, depth=4, engine=engine)
        steps = 0
        while not probe.done():
            time.sleep(0.001)
            steps += 1
    storage = psutil.Process().io_counters().read_bytes - before
    assert steps > 10  # the GIL is not held
    assert mapping.resident_pages() == 0
    found = probe.result()["bytes"]
    assert found <= storage <= 2 * found + (8 << 20)  # code may be read, too
    mapping.close()


def test_a_disk_has_a_rate(path):
    assert 1e5 < disk_rate(path, seconds=0.5) < 1e12


def test_what_is_no_disk_has_none(tmp_path, monkeypatch):
    """A small file, one of holes, and one in memory."""
    monkeypatch.setattr(_core, "uring_refusal", lambda: "not here")
    path = tmp_path / "file"
    path.write_bytes(bytes((4 << 20) - 1))
    assert disk_rate(path) is None
    os.truncate(path, 0)
    os.truncate(path, 8 << 20)
    assert disk_rate(path, seconds=0.2) is None
    if os.access("/dev/shm", os.W_OK):
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as in_memory:
            in_memory.write(bytes(5 << 20))
            in_memory.flush()
            assert disk_rate(in_memory.name) is None
