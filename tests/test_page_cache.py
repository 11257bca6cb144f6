"""Which parts of files are in the page cache, page by page."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import files
import numpy as np
import others
import pytest

from graphzero import _core
from graphzero.report.readings import page_cache
from graphzero.report.readings.files import mapped_files
from graphzero.report.readings.page_cache import CachedFiles
from graphzero.store import residency

PAGE = mmap.PAGESIZE
PAGES = 61
TOUCHED = (0, 1, 7, 20, 21, 22, 40, 60)

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="as of Linux")
root_only = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)


@pytest.fixture
def touched(tmp_path):
    """A file of which the page cache has some pages, and no others."""
    path = tmp_path / "touched.gd"
    path.write_bytes(os.urandom((PAGES - 1) * PAGE + 100))
    files.drop_from_cache(path)
    mapping = _core.Mapping(path)
    mapping.advise("random")
    if mapping.resident_pages():
        mapping.close()
        pytest.skip("this file system keeps pages that it was told to drop")
    view = np.frombuffer(mapping, dtype=np.uint8)
    assert sum(int(view[page * PAGE]) for page in TOUCHED) >= 0
    del view
    yield path, mapping
    mapping.close()


def expected(parts):
    pages = np.zeros(PAGES, dtype=int)
    pages[list(TOUCHED)] = 1
    return [part.tolist() for part in np.array_split(pages, parts)]


@linux_only
@pytest.mark.parametrize("parts", [1, 7, 60, PAGES, PAGES + 1])
@pytest.mark.parametrize("source", ["fastest", "mincore", "cachestat"])
def test_each_page_that_was_touched_is_found(touched, source, parts):
    _, mapping = touched
    try:
        found = mapping.residency(parts, source)
    except OSError as error:
        assert source == "cachestat"
        pytest.skip(f"cachestat: {error}")
    assert found.tolist() == [sum(part) for part in expected(parts)]


@linux_only
def test_readings_of_a_file(touched):
    path, mapping = touched
    last = PAGES - 1  # 100 bytes
    assert residency.resident_bytes(mapping) == len(TOUCHED) * PAGE
    with CachedFiles([path]) as cached:
        assert cached.read() == {str(path): len(TOUCHED) * PAGE}
        for parts in (1, 7, PAGES, 1000):
            (found,) = cached.read_parts(parts)
            shares = [sum(part) / len(part) for part in expected(min(parts, PAGES))]
            assert found.residency == pytest.approx(shares)
        files.drop_from_cache(path)  # these were mapped, and stay
        mapping.advise("release")
        (found,) = cached.read_parts(2)
    assert (found.page_cache, found.residency) == (0, (0.0, 0.0))
    assert (found.size, found.most_cached) == (last * PAGE + 100, len(TOUCHED) * PAGE)


@linux_only
def test_a_file_replaced_by_one_of_its_size_is_another(touched):
    path, _ = touched
    with CachedFiles([path]) as cached:
        assert cached.read_parts(1)[0].page_cache == len(TOUCHED) * PAGE
        shutil.copy(path, path.with_name("new"))
        files.drop_from_cache(path.with_name("new"))
        os.replace(path.with_name("new"), path)
        assert cached.read_parts(1)[0].page_cache == 0


def test_whole_and_empty_files(tmp_path):
    path, empty = tmp_path / "whole", tmp_path / "empty"
    path.write_bytes(bytes(3 * PAGE + 5))
    empty.write_bytes(b"")
    with CachedFiles([path, empty, tmp_path / "." / "whole"]) as cached:
        assert cached.paths == (str(path), str(empty))
        whole, nothing = cached.read_parts(2)
    assert whole.page_cache in (whole.size, None)
    assert (nothing.size, nothing.page_cache, nothing.residency) == (0, 0, ())


def test_no_parts_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    mapping = _core.Mapping(tmp_path / "file")
    with pytest.raises(OSError, match="no parts") as caught:
        mapping.residency(0)
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(KeyError):
        mapping.residency(1, "guess")
    mapping.close()
    with pytest.raises(ValueError, match="closed"):
        mapping.residency(1)


def test_files_that_are_replaced_grow_or_vanish(tmp_path):
    path, new = tmp_path / "file", tmp_path / "new"
    path.write_bytes(bytes(PAGE))
    unknown: dict[str, str] = {}
    with CachedFiles([path], unknown) as cached:
        assert cached.read_parts(1)[0].size == PAGE
        new.write_bytes(bytes(3 * PAGE))
        os.replace(new, path)
        assert cached.read_parts(1)[0].size == 3 * PAGE
        with open(path, "ab") as file:
            file.write(bytes(PAGE))
        assert cached.read_parts(1)[0].size == 4 * PAGE
        assert unknown == {}
        path.unlink()
        opened = _core.open_mappings()
        assert (cached.read(), cached.read_parts(1)) == ({}, ())
        assert _core.open_mappings() == opened - 1  # its space on the disk is free
        assert unknown == {f"page_cache {path}": "the file was deleted"}
        path.write_bytes(bytes(PAGE))
        assert cached.read_parts(1)[0].size == PAGE
        cached.add([tmp_path])
        assert cached.read_parts(1)[0].size == PAGE
        assert "cannot be opened" in unknown[f"page_cache {tmp_path}"]


def test_where_mincore_lies_nothing_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(residency, "mincore_is_honest", lambda path: False)
    path = tmp_path / "file"
    path.write_bytes(bytes(PAGE))
    unknown: dict[str, str] = {}
    with CachedFiles([path], unknown) as cached:
        assert cached.read() == {}
        (found,) = cached.read_parts(3)
    assert (found.page_cache, found.residency, found.most_cached) == (None, None, None)
    assert "owners and writers" in unknown[f"page_cache {path}"]


@pytest.mark.no_asan  # pure Python
def test_a_kernel_that_refuses_is_a_reason(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOMEM, "not today")

    monkeypatch.setattr(page_cache, "residency", refuse)
    path = tmp_path / "file"
    path.write_bytes(bytes(PAGE))
    unknown: dict[str, str] = {}
    with CachedFiles([path], unknown) as cached:
        assert cached.read() == {}
        assert cached.read_parts(3)[0].residency is None
    assert "not today" in unknown[f"page_cache {path}"]


@pytest.fixture
def public_folder():
    """A folder that other users may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.no_asan  # forks
@linux_only
@root_only
def test_files_of_others_are_unknown(public_folder):
    path = public_folder / "file"
    path.write_bytes(bytes(4 * PAGE))
    path.chmod(0o644)
    unknown: dict[str, str] = {}

    def look():
        with CachedFiles([path], unknown) as cached:
            return [cached.read(), cached.read_parts(1)[0].residency, unknown]

    found = others.as_nobody(look)
    assert found[:2] == [{}, None]
    assert "owners and writers" in found[2][f"page_cache {path}"]


# On a file system over another, cachestat says that nothing is in memory.
STACKED = """
from graphzero import _core
mapping = _core.Mapping("merged/file")
try:
    mapping.residency(2, "cachestat")
    print("believed")
except OSError:
    print(mapping.residency(2).tolist(), mapping.residency(2, "mincore").tolist())
"""


@pytest.mark.no_asan  # starts a process
@linux_only
@root_only
def test_stacked_file_systems_are_asked_page_by_page(public_folder):
    for name in ("lower", "upper", "work", "merged"):
        (public_folder / name).mkdir()
    (public_folder / "lower/file").write_bytes(os.urandom(10 * PAGE))
    (public_folder / "program.py").write_text(STACKED)
    mount = "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged"
    enter = ["unshare", "--mount", "sh", "-c"]  # the mount vanishes with the process
    try:
        tried = subprocess.run([*enter, mount], cwd=public_folder, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if tried.returncode != 0:
        pytest.skip(f"no overlay file system here: {tried.stderr.decode()}")
    done = subprocess.run(
        [*enter, f"{mount} && {sys.executable} program.py"],
        cwd=public_folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout == "[5, 5] [5, 5]\n"


@pytest.mark.no_asan  # forks
@linux_only
def test_files_that_processes_have_mapped(tmp_path):
    names = ("graph.gl", "features.gd", "deleted.gd", "rows.npy", "other.bin", "with blank.gd")
    for name in names:
        (tmp_path / name).write_bytes(bytes(PAGE))
    (tmp_path / "link.gd").symlink_to(tmp_path / "features.gd")

    def map_all():
        return [_core.Mapping(tmp_path / name) for name in (*names, "link.gd")]

    unknown: dict[str, str] = {}
    with others.child_of_this(map_all) as one, others.child_of_this(map_all) as two:
        (tmp_path / "deleted.gd").unlink()
        found = mapped_files([one, two], unknown=unknown)
    expected = {"graph.gl", "features.gd", "rows.npy", "with blank.gd"}
    assert sorted(found) == sorted(str(tmp_path / name) for name in expected)
    assert unknown == {}
    assert mapped_files([one], unknown=unknown) == ()  # it has ended
    assert unknown == {}


@pytest.mark.no_asan  # forks
@linux_only
@root_only
def test_files_of_other_users_processes_are_unknown():
    parent, unknown = os.getpid(), {}
    found = others.as_nobody(lambda: [mapped_files([parent], unknown=unknown), unknown])
    reason = f"pid {parent} belongs to another user: run as that user or as root"
    assert found == [[], {"files": reason}]


def test_without_proc_mapped_files_are_unknown(tmp_path):
    unknown: dict[str, str] = {}
    assert mapped_files([os.getpid()], proc=tmp_path, unknown=unknown) == ()
    assert "does not tell" in unknown["files"]
