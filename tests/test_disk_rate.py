"""The probe of the disk below a file: what it counts, what it refuses, and how it ends."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.report import disk_rate
from graphzero.report.disk_rate import largest_file, measure_disk

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


@each_engine
@pytest.mark.parametrize(
    ("block_bytes", "depth", "sequential"),
    [(4096, 1, False), (4096, 128, False), (1 << 20, 4, True)],
)
def test_counts_and_latencies_agree(path, engine, block_bytes, depth, sequential):
    found = _core.probe_disk(
        path,
        block_bytes=block_bytes,
        depth=depth,
        sequential=sequential,
        seconds=SHORT,
        engine=engine,
    )
    assert found["reads"] > 0
    assert found["bytes"] == found["reads"] * block_bytes
    assert found["seconds"] >= SHORT
    assert found["depth"] == depth
    assert found["file_bytes"] == 6 << 20
    assert 0 < found["p50"] <= found["p99"] <= found["seconds"]
    # Little's law: reads under way = rate x time of one, which half of them do not exceed
    assert found["reads"] / found["seconds"] * found["p50"] < 4 * depth


@needs_linux
@each_engine
def test_reads_go_past_the_page_cache(path, engine):
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    mapping = _core.Mapping(path)
    if mapping.resident_pages() > 0:
        pytest.skip("the page cache cannot be emptied of the file")
    found = _core.probe_disk(path, seconds=SHORT, engine=engine)
    assert found["reads"] > 0
    assert mapping.resident_pages() == 0
    mapping.close()


@needs_linux
@each_engine
def test_the_kernel_counts_the_same_bytes(path, engine):
    def counted():
        with open("/proc/self/io") as file:
            return dict(line.split(": ") for line in file.read().splitlines())["read_bytes"]

    before = int(counted())
    found = _core.probe_disk(path, depth=4, seconds=SHORT, engine=engine)
    storage = int(counted()) - before
    assert found["bytes"] <= storage <= 2 * found["bytes"] + (8 << 20)  # code may be read, too


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "libaio"}, "engine must be"),
        ({"depth": 0}, "depth must be 1 to 4096"),
        ({"depth": 4097}, "depth must be 1 to 4096"),
        ({"depth": 2**70}, "depth must be 1 to 4096"),
        ({"depth": 513, "engine": "pread"}, "depth must be 1 to 512 with engine 'pread'"),
        ({"block_bytes": 0}, "block_bytes must be a multiple of 4096"),
        ({"block_bytes": -4096}, "block_bytes must be a multiple of 4096"),
        ({"block_bytes": 512}, "block_bytes must be a multiple of 4096"),
        ({"block_bytes": 5000}, "block_bytes must be a multiple of 4096"),
        ({"block_bytes": 2**70}, "may be read at a time"),
        ({"block_bytes": 4 << 20}, "may be read at a time"),
        ({"block_bytes": 2 << 20, "depth": 1}, "rows.bin is too small .* 4 blocks of 2097152"),
        ({"seconds": 0}, "seconds must be positive"),
        ({"seconds": -1}, "seconds must be positive"),
        ({"seconds": float("nan")}, "seconds must be positive"),
        ({"seconds": float("inf")}, "seconds must be positive"),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, message):
    path = tmp_path / "rows.bin"
    path.write_bytes(bytes(6 << 20))
    with pytest.raises(ValueError, match=message):
        _core.probe_disk(path, **arguments)


@pytest.mark.parametrize("size", [0, 1, 4 * 4096 - 1])
def test_a_small_file_is_refused_by_name(tmp_path, size):
    path = tmp_path / "small.gd"
    path.write_bytes(bytes(size))
    with pytest.raises(ValueError, match=rf"small\.gd is too small .* it has {size} bytes"):
        _core.probe_disk(path)


@pytest.mark.parametrize("probe", [_core.probe_disk, measure_disk])
def test_what_is_no_file_is_an_error_with_its_path(tmp_path, probe):
    for path, code in [(tmp_path / "none", errno.ENOENT), (tmp_path, errno.EISDIR)]:
        with pytest.raises(OSError, match="cannot be opened|is a folder") as caught:
            probe(path)
        assert (caught.value.errno, caught.value.filename) == (code, str(path))


@each_engine
def test_a_file_that_is_removed_is_read_on(path, engine):
    timer = threading.Timer(SHORT / 2, os.unlink, [path])
    timer.start()
    assert _core.probe_disk(path, seconds=2 * SHORT, engine=engine)["reads"] > 0
    timer.join()
    assert not path.exists()


@each_engine
def test_a_file_that_is_truncated_is_an_error(path, engine):
    timer = threading.Timer(SHORT, os.truncate, [path, 10_000])
    timer.start()
    with pytest.raises(FormatError, match=r"rows\.bin .*truncated"):
        _core.probe_disk(path, seconds=60, engine=engine)
    timer.join()


@each_engine
def test_other_threads_run_meanwhile(path, engine):
    """The GIL is not held."""
    steps = []
    done = threading.Event()

    def step():
        while not done.is_set():
            steps.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=step)
    thread.start()
    _core.probe_disk(path, seconds=0.2, engine=engine)
    done.set()
    thread.join()
    assert len(steps) > 10


def test_nothing_is_left(path):
    def left():
        return _core.open_mappings(), threading.active_count(), len(os.listdir("/proc/self/fd"))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("descriptors cannot be counted")
    before = left()
    for engine in ENGINES:
        _core.probe_disk(path, seconds=0.01, engine=engine)
        with pytest.raises(ValueError, match="too small"):
            _core.probe_disk(path, block_bytes=1 << 21, depth=1, engine=engine)
    assert left() == before


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


@needs_linux
@pytest.mark.no_asan
@pytest.mark.skipif(
    hasattr(os, "getuid") and os.getuid() != 0, reason="only root can become another"
)
def test_a_file_that_may_not_be_read_is_an_error(path, tmp_path):
    path.chmod(0o600)
    code = (
        "import os, sys; from graphzero import _core; os.setuid(65534)\n"
        "try: _core.probe_disk(sys.argv[1])\n"
        "except PermissionError as error: print(error.filename)\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(path), done.stderr


# ---- measure_disk


def test_a_disk_has_rates(path):
    found = measure_disk(path, seconds=0.5, depth=16)
    assert found.unavailable is None
    assert (found.path, found.file_bytes, found.depth) == (str(path), 6 << 20, 16)
    assert found.bytes_per_second == pytest.approx(found.reads_per_second * 4096)
    assert 0 < found.latency_p50 <= found.latency_p99
    assert 0 < found.queued_latency_p50 <= found.queued_latency_p99
    assert found.sequential_bytes_per_second > 0
    assert found.engine == ("uring" if _core.uring_refusal() is None else "pread")


def test_without_io_uring_threads_measure(path, monkeypatch):
    monkeypatch.setattr(_core, "uring_refusal", lambda: "not here")
    asked = []
    probe = _core.probe_disk

    def remember(*words, **more):
        asked.append(more["engine"])
        return probe(*words, **more)

    monkeypatch.setattr(_core, "probe_disk", remember)
    assert measure_disk(path, seconds=0.2, depth=4).engine == "pread"
    assert set(asked) == {"pread"}


@needs_linux
@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no /dev/shm")
def test_memory_is_no_disk(tmp_path):
    path = f"/dev/shm/graphzero-{os.getpid()}.bin"
    try:
        with open(path, "wb") as file:
            file.write(bytes(5 << 20))
        found = measure_disk(path)
        assert _core.probe_disk(path) is None
    finally:
        os.unlink(path)
    assert "no reads past the page cache" in found.unavailable
    assert found.reads_per_second is None
    assert found.latency_p50 is None
    assert found.sequential_bytes_per_second is None


def test_a_small_file_says_nothing_about_its_disk(tmp_path):
    path = tmp_path / "small.gd"
    path.write_bytes(bytes((4 << 20) - 1))
    found = measure_disk(path)
    assert found.unavailable == f"{path} has 4.2 MB: a disk is measured with at least 4.2 MB"
    assert found.reads_per_second is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": -2}, "seconds must be positive and finite, not -2"),
        ({"seconds": float("nan")}, "seconds must be positive and finite, not nan"),
        ({"depth": 0}, "depth must be 1 to"),
    ],
)
def test_bad_options_are_named(path, arguments, message):
    with pytest.raises(ValueError, match=message):
        measure_disk(path, **arguments)


def test_the_largest_file_is_chosen(tmp_path):
    for name, size in [("a", 10), ("b", 30), ("c", 20)]:
        (tmp_path / name).write_bytes(bytes(size))
    assert largest_file(tmp_path.iterdir()) == str(tmp_path / "b")


@needs_linux
def test_a_file_of_holes_has_no_rates(path):
    if disk_rate._read_bytes() is None:
        pytest.skip("the kernel does not count what this process reads")
    os.truncate(path, 0)
    os.truncate(path, 8 << 20)
    found = measure_disk(path, seconds=0.2)
    assert "has holes" in found.unavailable
    assert found.bytes_per_second is None


@needs_linux
def test_a_file_that_is_removed_meanwhile_is_measured(path, monkeypatch):
    probe = _core.probe_disk
    rest = iter([True] * 3)

    def remove_later(*words, **more):
        found = probe(*words, **more)
        if not next(rest, False):
            path.rename(path.with_name("elsewhere"))
        return found

    monkeypatch.setattr(_core, "probe_disk", remove_later)
    assert measure_disk(path, seconds=0.2).sequential_bytes_per_second > 0
