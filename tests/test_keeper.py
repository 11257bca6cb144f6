"""The thread that keeps rows in memory, as far as the model leaves any."""

from __future__ import annotations

import threading
import time

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.io import limits
from graphzero.io.keeper import ElasticPrefix, PrefixKeeper

ROWS, DIM, PAGE = 32_768, 128, 4096  # 16 MiB
MB = 1 << 20


@pytest.fixture
def store(tmp_path):
    """Rows in a file, none of them in the page cache."""
    path = tmp_path / "f.gd"
    files.write_rows(path, np.arange(ROWS * DIM, dtype=np.float32).reshape(ROWS, DIM))
    with files.open_cold(gz.FeatureStore, path) as store:
        yield store


class Kept:
    """An elastic prefix, its keeper, and what is available to it."""

    def __init__(self, store, monkeypatch, *, first, most, reserve=0, available=1 << 30, fixed=()):
        self.available = available
        monkeypatch.setattr(limits, "available_memory", lambda: self.available)
        monkeypatch.setattr(limits, "_anonymous_bytes", lambda: 0)
        self.prefix = store.new_prefix()
        self.watch = limits.MemoryWatch()
        elastic = ElasticPrefix(self.prefix, first, most, lambda room: room - reserve)
        self.keeper = PrefixKeeper(fixed, elastic, self.watch)

    def is_kept(self, num_bytes):
        """Whether the prefix comes to this size, and into memory."""
        return until(
            lambda: (self.prefix.num_bytes, self.prefix.kept_bytes) == (num_bytes, num_bytes)
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.keeper.close()
        assert not any(t.name.startswith("graphzero-resident") for t in threading.enumerate())


def until(condition):
    """Waits for a background thread."""
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_prefixes_come_into_memory_and_are_left_there(store):
    prefix, other = store.new_prefix(), store.new_prefix()
    keeper = PrefixKeeper([(prefix, 8 * MB), (other, 1 * MB)], None, limits.MemoryWatch())
    assert until(lambda: prefix.kept_bytes == 8 * MB)
    assert other.num_bytes == 1 * MB
    keeper.close()
    assert 2048 <= store._mapping.resident_pages() < 2048 + 64


def test_what_was_taken_back_is_read_again_after_a_batch(store):
    prefix = store.new_prefix()
    keeper = PrefixKeeper([(prefix, 8 * MB)], None, limits.MemoryWatch())
    try:
        assert until(lambda: prefix.kept_bytes == 8 * MB)
        store._mapping.advise("release", store._rows.origin + 2 * MB, 1 * MB)
        time.sleep(0.2)
        assert prefix.kept_bytes == 7 * MB
        keeper.count_batch()
        assert until(lambda: prefix.kept_bytes == 8 * MB)
    finally:
        keeper.close()


def test_closing_early_ends_the_thread_between_two_steps(store):
    prefix = store.new_prefix()
    PrefixKeeper([(prefix, 16 * MB)], None, limits.MemoryWatch()).close()
    assert prefix.kept_bytes <= 16 * MB
    assert not any(t.name.startswith("graphzero-resident") for t in threading.enumerate())


def test_nothing_to_keep_needs_no_thread(store):
    before = threading.active_count()
    elastic = ElasticPrefix(store.new_prefix(), 0, 0, lambda room: room)
    keeper = PrefixKeeper([], elastic, limits.MemoryWatch())
    assert threading.active_count() == before
    keeper.count_batch()
    keeper.close()


def test_rows_are_kept_as_far_as_the_model_leaves_memory(store, monkeypatch):
    with Kept(
        store, monkeypatch, first=2 * MB, most=12 * MB, reserve=1 * MB, available=40 * MB
    ) as kept:
        assert kept.is_kept(2 * MB)
        for _ in range(3):
            kept.keeper.count_batch()
        time.sleep(0.2)
        assert kept.prefix.num_bytes == 2 * MB  # a model may still be taking its memory
        kept.keeper.count_batch()
        assert kept.is_kept(12 * MB)
        kept.available = 10 * MB
        kept.keeper.count_batch()
        # less a twentieth, less the reserve, in whole pages
        less = (int(0.95 * 10 * MB) - 1 * MB) // PAGE * PAGE
        assert kept.is_kept(less)
        kept.available = 40 * MB
        kept.keeper.count_batch()
        time.sleep(0.2)
        assert kept.prefix.num_bytes == less  # what has been seen will come again
        kept.available = 0
        kept.keeper.count_batch()
        assert kept.is_kept(0)


def test_what_the_kernel_takes_back_again_is_given_up_for_some_time(store, monkeypatch):
    with Kept(store, monkeypatch, first=16 * MB, most=16 * MB) as kept:
        assert kept.is_kept(16 * MB)
        for _ in range(4):
            kept.keeper.count_batch()
        time.sleep(0.3)  # the thread must not look while pages are being released
        store._mapping.advise("release", store._rows.origin, 8 * MB)
        kept.keeper.count_batch()
        assert kept.is_kept(8 * MB)  # the end for the beginning
        for _ in range(3):
            kept.keeper.count_batch()
            time.sleep(0.05)
        assert kept.is_kept(8 * MB)

        def grows():
            kept.keeper.count_batch()
            return kept.prefix.num_bytes == 16 * MB

        assert until(grows)


def test_failing_to_keep_rows_warns_and_goes_on(store, monkeypatch):
    seen = []

    def refuse(begin, end):
        seen.append(begin)
        raise OSError(5, "no advice")

    prefix = store.new_prefix()
    monkeypatch.setattr(prefix, "load", refuse)

    def keep_until_it_fails():
        keeper = PrefixKeeper([(prefix, 1 * MB)], None, limits.MemoryWatch())
        assert until(lambda: seen)
        keeper.close()

    with pytest.warns(RuntimeWarning, match="making rows resident failed"):
        keep_until_it_fails()
    assert prefix.kept_bytes < 1 * MB
