"""Rows that are kept in memory."""

from __future__ import annotations

import time

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.io import limits
from graphzero.io.prefixes import ElasticPrefix, PrefixLoader

ROWS, DIM = 32_768, 128  # 16 MiB


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


def keep(store, num_bytes):
    return PrefixLoader([(store.resident_prefix, num_bytes)])


@pytest.mark.no_asan  # the sanitizer makes mlock do nothing
def test_the_head_comes_into_memory_and_stays(store):
    before = locked_bytes()
    keeper = keep(store, 8 << 20)
    keeper.wait()
    keeper.close()
    assert store.resident_rows == ROWS // 2
    assert 2048 <= store._mapping.resident_pages() < 2048 + 64
    if store.resident_prefix._may_pin:
        assert 8 << 20 <= locked_bytes() - before <= (8 << 20) + 8192
        files.drop_from_cache(store.path)
        assert store._mapping.resident_pages() >= 2048
    store.close()
    assert locked_bytes() == before


def test_what_is_not_wanted_any_more_is_let_go(store):
    before = locked_bytes()
    store.resident_prefix.resize(16 << 20)
    keep(store, 1 << 20).close()
    assert store.resident_rows == 2048
    assert locked_bytes() - before <= (1 << 20) + 8192
    keep(store, 0).close()
    assert locked_bytes() == before


def test_closing_early_ends_the_thread_between_two_steps(store):
    keeper = keep(store, 16 << 20)
    keeper.close()
    assert store.resident_rows <= ROWS
    again = keep(store, 16 << 20)  # and goes on where it was
    again.wait()
    again.close()
    assert store.resident_rows == ROWS


def test_where_locking_is_forbidden_rows_are_read_all_the_same(store, monkeypatch):
    class NoLock:
        def __init__(self, mapping):
            self._mapping = mapping

        def lock(self, offset, length):
            raise OSError(12, "mlock failed")

        def __getattr__(self, name):
            return getattr(self._mapping, name)

    mapping = store._mapping
    monkeypatch.setattr(store.resident_prefix, "_mapping", NoLock(mapping))
    monkeypatch.setattr(
        "graphzero.store.resident_prefix.section_view", lambda _, *rest: view(mapping, *rest)
    )
    keeper = keep(store, 8 << 20)
    keeper.wait()
    keeper.close()
    assert store.resident_rows == ROWS // 2
    assert mapping.resident_pages() >= 2048
    monkeypatch.undo()


def view(mapping, dtype, offset, shape):
    return np.frombuffer(mapping, dtype, int(np.prod(shape)), offset).reshape(shape)


@pytest.mark.no_asan  # the sanitizer makes mlock do nothing
def test_several_ranges_are_kept_and_then_it_is_said(store, tmp_path):
    other = tmp_path / "other.gd"
    files.write_rows(other, np.ones((8192, 128), dtype=np.float32))
    files.drop_from_cache(other)
    said = []
    with gz.FeatureStore(other) as second:
        goals = [(second.resident_prefix, 4 << 20), (store.resident_prefix, 1 << 20)]
        keeper = PrefixLoader(goals, lambda: said.append(store.resident_rows))
        keeper.wait()
        keeper.close()
        assert said == [2048]
        assert second.resident_rows == 8192
        assert second._mapping.resident_pages() >= 1024
        PrefixLoader(goals, lambda: said.append("at once")).close()
        assert said == [2048, "at once"]


def test_files_without_rows_have_nothing_to_keep(tmp_path):
    files.write_rows(tmp_path / "f.gd", np.empty((0, 4), dtype=np.float32))
    with gz.FeatureStore(tmp_path / "f.gd") as store:
        keep(store, 1 << 20).close()
        assert store.resident_rows == 0


def until(condition):
    """Waits for a background thread."""
    for _ in range(3000):
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_rows_are_kept_as_far_as_the_model_leaves_memory(store, monkeypatch):
    left = 40 << 20
    monkeypatch.setattr(limits, "available_memory", lambda pinned: left)
    monkeypatch.setattr(limits, "_anonymous_bytes", lambda: 0)
    prefix = ElasticPrefix(store.resident_prefix, first=2 << 20, most=12 << 20, reserve=1 << 20)
    try:
        assert until(lambda: store.resident_prefix.num_bytes == 2 << 20)
        for _ in range(3):
            prefix.count_batch()
        time.sleep(0.3)
        assert store.resident_prefix.num_bytes == 2 << 20  # a model may still be taking its memory
        prefix.count_batch()
        assert until(lambda: store.resident_prefix.num_bytes == 12 << 20)
        left = 10 << 20
        # less a twentieth, less the reserve, in whole pages
        less = (int(0.95 * left) - (1 << 20)) // 4096 * 4096
        assert until(lambda: store.resident_prefix.num_bytes == less)
        left = 40 << 20
        time.sleep(0.3)
        assert store.resident_prefix.num_bytes == less  # what has been seen will come again
        left = 0
        assert until(lambda: store.resident_prefix.num_bytes == 0)
    finally:
        prefix.close()


def test_what_an_earlier_iteration_kept_stays(store, monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda pinned: 1 << 30)
    store.resident_prefix.resize(8 << 20)
    for most, kept in [(12 << 20, 8 << 20), (4 << 20, 4 << 20), (0, 0)]:
        prefix = ElasticPrefix(store.resident_prefix, first=1 << 20, most=most, reserve=0)
        time.sleep(0.2)
        prefix.close()
        assert store.resident_prefix.num_bytes == kept


def test_peaks_of_earlier_iterations_count(store, monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda pinned: 1 << 30)
    monkeypatch.setattr(limits, "_anonymous_bytes", lambda: 0)
    watch = limits.MemoryWatch()
    watch.least_available = 20 << 20
    prefix = ElasticPrefix(
        store.resident_prefix, first=16 << 20, most=16 << 20, reserve=11 << 20, watch=watch
    )
    try:
        assert until(lambda: store.resident_prefix.num_bytes == 8 << 20)
        for _ in range(4):
            prefix.count_batch()
        time.sleep(0.3)
        assert store.resident_prefix.num_bytes == 8 << 20
    finally:
        prefix.close()


def test_failing_to_keep_rows_warns_and_goes_on(store, monkeypatch):
    def refuse(begin, end):
        raise OSError(5, "no advice")

    def keep_until_it_fails():
        prefix = ElasticPrefix(store.resident_prefix, first=1 << 20, most=1 << 20, reserve=0)
        prefix._threads.submit(int).result(timeout=60)  # after what its one thread does
        prefix.close()

    monkeypatch.setattr(store.resident_prefix, "request", refuse)
    with pytest.warns(RuntimeWarning, match="making rows resident failed"):
        keep_until_it_fails()
    assert store.resident_rows == 0
