"""The beginning of a file in memory, and what the system tells of it."""

from __future__ import annotations

import ctypes
import os

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.store import resident_prefix

ROWS, DIM, PAGE = 32_768, 128, 4096  # 16 MiB
MB = 1 << 20


@pytest.fixture
def store(tmp_path):
    """Rows in a file, none of them in the page cache."""
    path = tmp_path / "f.gd"
    files.write_rows(path, np.arange(ROWS * DIM, dtype=np.float32).reshape(ROWS, DIM))
    with files.open_cold(gz.FeatureStore, path) as store:
        yield store


def locked_bytes():
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["VmLck"].split()[0]) * 1024


def of_size(store, num_bytes):
    prefix = store.new_prefix()
    prefix.resize(num_bytes)
    return prefix


def load(prefix):
    for begin, end in prefix.missing_runs(1 << 20):
        prefix.load(begin, end)


def drop(store, first, pages):
    """Has the system take pages of the rows back."""
    at = store._rows.origin + first * PAGE
    store._mapping.advise("release", at, pages * PAGE)


@pytest.mark.parametrize("trusted", [True, False])
def test_pages_that_were_taken_back_are_known_and_come_again(store, trusted):
    prefix = of_size(store, 8 * MB)
    prefix._trust_mincore = trusted
    assert prefix.page_map().sum() < 64
    load(prefix)
    assert prefix.page_map().tolist() == [1] * 2048
    assert prefix.is_resident
    assert (prefix.resident_bytes, prefix.kept_bytes) == (8 * MB, 8 * MB)
    assert 2048 <= store._mapping.resident_pages() < 2048 + 64
    drop(store, 100, 50)
    assert np.flatnonzero(prefix.page_map() == 0).tolist() == list(range(100, 150))
    assert prefix.resident_bytes == 8 * MB - 50 * PAGE
    assert not prefix.is_resident
    assert list(prefix.missing_runs(30 * PAGE)) == [
        (store._rows.origin + first * PAGE, store._rows.origin + end * PAGE)
        for first, end in ((100, 130), (130, 150))
    ]
    load(prefix)
    assert prefix.page_map().all()


def test_nothing_is_locked(store):
    before = locked_bytes()
    load(of_size(store, 8 * MB))
    assert locked_bytes() == before
    files.drop_from_cache(store.path)  # pages that are mapped stay
    assert store._mapping.resident_pages() >= 2048


def test_what_is_not_wanted_any_more_is_given_back(store):
    prefix = of_size(store, 16 * MB)
    load(prefix)
    prefix.resize(1 * MB)
    assert len(prefix.page_map()) == 256
    assert 256 <= store._mapping.resident_pages() < 256 + 64
    prefix.resize(0)
    assert len(prefix.page_map()) == 0
    assert store._mapping.resident_pages() < 64
    assert prefix.kept_bytes == 0


def test_prefixes_of_two_iterations_are_apart(store):
    first, second = of_size(store, 8 * MB), of_size(store, 2 * MB)
    load(first)
    assert second.page_map().all()
    second.resize(0)
    assert first.num_bytes == 8 * MB
    load(first)
    assert first.page_map().all()


def test_rows_that_begin_within_a_page(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.ones((300, 500), dtype=np.uint8))  # a header of 128 bytes
    with files.open_cold(gz.FeatureStore, path) as store:
        prefix = of_size(store, 300 * 500)
        assert len(prefix.page_map()) == -(-(128 + 150_000) // PAGE)
        load(prefix)
        assert prefix.page_map().all()
        prefix.resize(PAGE - 128)  # the rest of the first page
        assert len(prefix.page_map()) == 1
        prefix.resize(PAGE - 127)
        assert len(prefix.page_map()) == 2


def test_a_long_prefix_is_looked_up_in_turns(store, monkeypatch):
    monkeypatch.setattr(resident_prefix, "_LOOKED_UP", 100)
    prefix = of_size(store, 250 * PAGE)
    load_all = of_size(store, 16 * MB)
    load(load_all)
    found = [int(prefix.page_map().sum()) for _ in range(3)]
    assert found == [100, 200, 250]
    drop(store, 0, 250)
    found = [int(prefix.page_map().sum()) for _ in range(3)]
    assert found == [150, 50, 0]


def test_where_the_system_does_not_tell_nothing_is_taken_for_granted(store, monkeypatch):
    class Silent:
        def __init__(self, mapping):
            self._mapping = mapping

        def page_map(self, *_):
            raise OSError(13, "no page map")

        def __getattr__(self, name):
            return getattr(self._mapping, name)

    prefix = of_size(store, 1 * MB)
    load(prefix)
    monkeypatch.setattr(prefix, "_mapping", Silent(store._mapping))
    assert prefix.page_map().sum() == 0
    assert "no page map" in prefix.unknown


def found_by_another_user(store):
    """Pages of a megabyte that are in memory, before and after it is loaded; to be run forked."""
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    PR_SET_DUMPABLE = 4  # as it is for programs that this user starts
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    prefix = of_size(store, 1 * MB)
    assert not prefix._trust_mincore
    before = int(prefix.page_map().sum())
    load(prefix)
    return f"{before} {int(prefix.page_map().sum())} {prefix.unknown}"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_of_a_file_of_somebody_else_the_truth_is_known(store):
    """Mincore says of such a file that all of it is in memory."""
    os.chmod(store.path, 0o644)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, found_by_another_user(store).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading) as shown:
        assert shown.read() == "0 256 None"


def test_files_without_rows_have_nothing_to_keep(tmp_path):
    files.write_rows(tmp_path / "f.gd", np.empty((0, 4), dtype=np.float32))
    with gz.FeatureStore(tmp_path / "f.gd") as store:
        prefix = of_size(store, 0)
        assert list(prefix.missing_runs(1 << 20)) == []
        assert prefix.kept_bytes == 0
