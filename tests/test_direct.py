"""Rows read past the page cache: the same bytes by every way, failures, and no io_uring."""

from __future__ import annotations

import ctypes
import errno
import functools
import gc
import mmap
import os
import resource
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import files
import numpy as np
import others
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_files import RowsFile, first_rows, gather, place

import graphzero as gz
from graphzero import _core

pytestmark = pytest.mark.core  # under AddressSanitizer, too

MEBIBYTE = 1 << 20
REFUSAL = _core.uring_refusal()
needs_uring = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
engines = pytest.mark.parametrize("engine", [pytest.param("uring", marks=needs_uring), "pread"])


@pytest.fixture
def many(tmp_path):
    """32,768 rows of 512 bytes, 16 MiB, behind a header of 128."""
    file = RowsFile(tmp_path / "rows.npy", 32_768, 512, origin=128)
    yield file
    file.mapping.close()


@pytest.fixture(scope="module")
def files_of_rows(tmp_path_factory):
    """A function that gives the file, closed, of a width and origin."""

    @functools.cache
    def write(row_bytes, origin):
        path = tmp_path_factory.mktemp("rows") / "rows.bin"
        file = RowsFile(path, 300_000 // row_bytes + 7, row_bytes, origin)
        file.mapping.close()
        return file

    return write


def pages_of(rows, file):
    first = (file.origin + rows * file.row_bytes) // 4096
    last = (file.origin + (rows + 1) * file.row_bytes - 1) // 4096
    return {page for a, b in zip(first, last, strict=True) for page in range(a, b + 1)}


@engines
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_rows_are_those_of_a_plain_gather(files_of_rows, engine, data):
    row_bytes = data.draw(st.sampled_from([1, 4, 500, 512, 4096, 5000, 150_000]))
    file = files_of_rows(row_bytes, data.draw(st.sampled_from([0, 128, 4096])))
    last = file.num_rows - 1
    rows = np.array(data.draw(st.lists(st.integers(0, last), max_size=80)), dtype=np.int64)
    pages = -(-(file.origin + file.num_rows * row_bytes) // 4096) - file.origin // 4096
    in_memory = np.random.default_rng(data.draw(st.integers(0, 9))).random(pages)
    page_map = (in_memory < data.draw(st.sampled_from([0, 0.5, 0.9, 1]))).astype(np.uint8)
    page_map = page_map[: data.draw(st.sampled_from([0, 1, pages // 2, pages]))]
    gap = data.draw(st.sampled_from([0, 1, 3, 1000, 2**63]))
    depth = data.draw(st.sampled_from([1, 2, 128]))
    file.mapping = _core.Mapping(file.path)
    reader = file.reader(engine, depth=depth, threads=min(depth, 16))
    try:
        out, (wanted, read, reads) = gather(reader, rows, page_map, gap)
    finally:
        reader.close()
        file.mapping.close()
    np.testing.assert_array_equal(out, file.rows[rows])
    known = {file.origin // 4096 + int(page) for page in np.flatnonzero(page_map)}
    direct = np.array([row for row in rows if not pages_of(row[None], file) <= known], np.int64)
    assert wanted == len(pages_of(direct, file))
    assert wanted <= read <= wanted + gap * len(direct)
    assert (reads == 0) == (len(direct) == 0)


@engines
def test_only_rows_that_are_not_in_memory_take_memory(many, engine):
    rows = np.arange(0, many.num_rows, 2)
    reader = many.reader(engine)
    _core.trim_pool()
    blocks, _ = _core.pool_state()
    fetched = reader.fetch(rows, first_rows(reader, many.num_rows))
    assert fetched.counts == (0, 0, 0)
    assert _core.pool_state()[0] == blocks
    rows = rows[:8000]
    in_memory = first_rows(reader, int(rows[-2000]))
    fetched = reader.fetch(rows, in_memory)
    _core.trim_pool()
    assert fetched.counts[0] == len(pages_of(rows, many) - set(range(len(in_memory)))) > 490
    assert _core.pool_state()[0] == blocks + 1  # 2000 rows, a megabyte; their places are few


def has_direct_reads(path):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            return os.preadv(descriptor, [mmap.mmap(-1, 4096)], 0) == 4096
        finally:
            os.close(descriptor)
    except (AttributeError, OSError):
        return False


@engines
def test_a_cold_file_stays_cold(many, engine):
    files.drop_from_cache(many.path)
    reader = many.reader(engine)
    before = many.mapping.resident_pages()
    if before > 64 or not has_direct_reads(many.path):
        pytest.skip("this file system has no direct reads, or keeps pages that it should drop")
    assert reader.is_direct
    rows = np.random.default_rng(0).integers(0, many.num_rows, 3000)
    out, _ = gather(reader, rows)
    assert many.mapping.resident_pages() == before
    np.testing.assert_array_equal(out, many.rows[rows])


@engines
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="has no tmpfs")
def test_a_file_system_without_direct_reads_gives_the_same_rows(engine):
    path = Path(f"/dev/shm/graphzero-{os.getpid()}.bin")
    try:
        file = RowsFile(path, 10_000, 500, origin=128)
    finally:
        path.unlink()
    reader = file.reader(engine)  # of a file that has no name any more
    assert not reader.is_direct
    rows = np.random.default_rng(0).integers(0, 10_000, 40_000)  # 20 MB: past the caches
    np.testing.assert_array_equal(
        gather(reader, rows, first_rows(reader, 2000))[0], file.rows[rows]
    )


@engines
def test_the_file_is_that_of_the_mapping(many, engine):
    many.path.rename(many.path.with_suffix(".old"))
    many.path.write_bytes(bytes(16 * MEBIBYTE + 128))
    rows = np.arange(0, 32_768, 5)
    np.testing.assert_array_equal(gather(many.reader(engine), rows)[0], many.rows[rows])


@engines
@pytest.mark.parametrize("size", [0, 9 * MEBIBYTE, 16 * MEBIBYTE + 127])
def test_a_file_that_was_cut_is_an_error(many, engine, size):
    reader = many.reader(engine)
    gather(reader, np.arange(1000))
    os.truncate(many.path, size)
    with pytest.raises(gz.FormatError, match=rf"rows.npy is truncated: .* byte {size},.* again"):
        gather(reader, np.arange(0, 32_768, 3))
    with open(many.path, "r+b") as file:  # and back: the reader is none the worse
        file.seek(128)
        file.write(many.rows.tobytes())
    np.testing.assert_array_equal(gather(reader, [7, 32_767])[0], many.rows[[7, 32_767]])


def descriptors_of(path):
    links = {int(name): f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")}
    return {n for n, link in links.items() if os.path.exists(link) and os.path.samefile(link, path)}


@needs_linux
@engines
def test_errors_of_reading_name_file_and_errno(many, engine):
    """A descriptor that is something else now stands in for a disk that fails."""
    before = descriptors_of(many.path)
    reader = many.reader(engine)
    (number,) = descriptors_of(many.path) - before
    writer = os.open(many.path, os.O_WRONLY)
    os.dup2(writer, number)
    os.close(writer)
    with pytest.raises(OSError, match="cannot be read at byte") as caught:
        gather(reader, np.arange(8, 1000))
    assert caught.value.errno == errno.EBADF
    assert caught.value.filename == str(many.path)


@engines
def test_what_does_not_fit_is_refused(many, engine):
    reader = many.reader(engine)
    for row in (-1, 32_768, 1 << 40):
        with pytest.raises(IndexError, match=r"rows must be in \[0, 32768\)"):
            gather(reader, [5, row])
    empty = _core.DirectReader(many.mapping, 128, 0, 10, engine=engine)
    assert gather(empty, [1, 2])[1] == (0, 0, 0)
    with pytest.raises(ValueError, match="out has the wrong size"):
        place(reader.fetch(np.arange(3)), np.empty(3 * 512 - 1, np.uint8))
    with pytest.raises(gz.FormatError, match="beyond its end"):
        _core.DirectReader(many.mapping, 129, 512, 32_768, engine=engine)
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        gather(reader, [1])
    many.mapping.close()
    with pytest.raises(ValueError, match="is closed"):
        many.reader(engine)


@engines
def test_threads_take_turns_and_forked_children_read_by_themselves(many, engine):
    reader, rows = many.reader(engine, depth=2, threads=2), np.arange(0, 32_768, 11)
    ended = threading.Event()

    def check(rows, threads=1):
        out = np.full(len(rows) * 512, 0xEE, np.uint8)
        place(reader.fetch(rows, first_rows(reader, 9000)), out, threads)
        np.testing.assert_array_equal(out.reshape(-1, 512), many.rows[rows])

    def read_all_the_time():
        while not ended.is_set():
            check(rows, 3)

    def read_as_a_child():
        for _ in range(3):
            check(rows[:40])
        reader.close()

    with ThreadPoolExecutor(2) as pool:
        reading = [pool.submit(read_all_the_time) for _ in range(2)]
        try:
            for _ in range(3):  # in the middle of calls
                assert others.in_child(read_as_a_child) is None
                assert others.in_child(reader.close) is None
        finally:
            ended.set()
        for each in reading:
            each.result()
    check(rows)


@needs_linux
@pytest.mark.no_asan  # which keeps freed memory aside, by design
@engines
def test_nothing_is_left_behind(many, engine):
    def use():
        reader = many.reader(engine, depth=64, threads=64)
        gather(reader, np.arange(0, 32_768, 64))
        reader.close()
        reader = many.reader(engine, depth=64, threads=64)  # which the collector closes
        gather(reader, np.arange(0, 32_768, 64))
        os.truncate(many.path, 100)
        with pytest.raises(gz.FormatError):
            gather(reader, [1])
        os.truncate(many.path, 16 * MEBIBYTE + 128)

    assert _core.BUFFER_BYTES == 65_536  # each of 64, see the bound below
    use()
    gc.collect()  # what tests before this one have left may close files now, and not in between
    process = psutil.Process()
    descriptors, memory = process.num_fds(), process.memory_info().data  # mapped, if not touched
    for _ in range(20):
        use()
    assert process.num_fds() == descriptors
    assert process.memory_info().data - memory < 2 * 64 * 65_536


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid(call, code):
    """Has the kernel answer a system call with an error; whether it can."""
    ALLOW, ERRNO = 0x7FFF0000, 0x00050000 | code
    # BPF: load the number of the system call; return an error for this one, else allow
    program = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, ERRNO), (0x06, 0, 0, ALLOW)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    libc = ctypes.CDLL(None, use_errno=True)
    found = Filter(len(program), ctypes.addressof(text))
    return not (libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(found), 0, 0))


@needs_linux
@needs_uring
@pytest.mark.parametrize(
    ("code", "call", "reason"),
    [(errno.EPERM, 425, "forbidden by seccomp"), (errno.ENOSYS, 426, "kernel has no io_uring")],
)
def test_io_uring_forbidden_is_said_and_threads_read(many, code, call, reason):
    def look():
        earlier = many.reader("uring")
        if not forbid(call, code):
            return None
        # a ring that was set up goes on
        for reader in (many.reader("pread"), *([earlier] if call == 425 else [])):
            assert (gather(reader, np.arange(64))[0] == many.rows[:64]).all()
        with pytest.raises(OSError, match="seccomp|io_uring") as caught:
            many.reader("uring")
        return [_core.uring_refusal(), caught.value.errno, caught.value.filename]

    found = others.in_child(look)
    if found is None:
        pytest.skip("has no seccomp")
    assert reason in found[0]
    assert found[1:] == [code, str(many.path)]


@needs_uring
@pytest.mark.parametrize("limit", [0, 131_072])
def test_a_limit_of_locked_memory_slows_or_is_said(many, limit):
    """The kernel may refuse to register 8 MiB of buffers, or, since 6.14, the ring itself."""

    def look():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
        if os.geteuid() == 0:  # whom no limit holds
            others.become_nobody()
        try:
            reader = many.reader("uring", depth=128)
        except OSError as error:
            return [error.errno, _core.uring_refusal()]
        return (gather(reader, np.arange(64))[0] == many.rows[:64]).all().item()

    many.path.parent.chmod(0o755)
    found = others.in_child(look)
    if limit == 0 and found is not True:
        assert found[0] == errno.ENOMEM
        assert found[1].startswith("io_uring cannot lock enough memory (see ulimit -l)")
    else:
        assert found is True
