"""Resident parts of files: what the system tells of them, who may keep how much, and the keeper."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import closing
from mmap import PAGESIZE

import files
import numpy as np
import others
import pytest
from others import wait_until

import graphzero as gz
from graphzero.io import memory
from graphzero.io.resident import KEEPERS, PrefixKeeper
from graphzero.store.mapped_file import PrefixGroup, ResidentPrefix

MB = 1 << 20


def prefix_of(store):
    return ResidentPrefix(store.mapping, store.origin)


def of_size(store, num_bytes):
    prefix = prefix_of(store)
    prefix.resize(num_bytes)
    return prefix


def load(prefix):
    for part in prefix.parts:
        for runs in part.missing_runs(1 << 20):
            part.load(runs)


def drop(store, first, pages):
    """Has the system take pages of the rows back."""
    at = store.origin + first * PAGESIZE
    store.mapping.advise("release", at, pages * PAGESIZE)


@pytest.mark.parametrize("trusted", [True, False])
def test_pages_that_were_taken_back_are_known_and_come_again(cold_store, trusted):
    prefix = of_size(cold_store, 8 * MB)
    prefix._trust_mincore = trusted
    assert prefix.page_map().sum() < 64
    load(prefix)
    assert prefix.page_map().tolist() == [1] * 2048
    assert prefix.page_map().all()
    assert (prefix.resident_bytes, prefix.kept_bytes) == (8 * MB, 8 * MB)
    assert 2048 <= cold_store.mapping.resident_pages() < 2048 + 64
    drop(cold_store, 100, 50)
    assert np.flatnonzero(prefix.page_map() == 0).tolist() == list(range(100, 150))
    assert prefix.resident_bytes == 8 * MB - 50 * PAGESIZE
    assert not prefix.page_map().all()
    for first in (154, 200):
        drop(cold_store, first, 6)
    begin = cold_store.origin // PAGESIZE
    assert [
        [(at // PAGESIZE - begin, end // PAGESIZE - begin) for at, end in runs]
        for runs in prefix.missing_runs(110 * PAGESIZE)
    ] == [[(100, 110)], [(110, 160), (200, 206)]]
    load(prefix)
    assert prefix.page_map().all()


def test_nothing_is_locked_and_what_is_not_wanted_any_more_is_given_back(cold_store):
    def locked():
        with open("/proc/self/status") as status:
            return next(line for line in status if line.startswith("VmLck"))

    before, other = locked(), of_size(cold_store, 2 * MB)
    prefix = of_size(cold_store, 16 * MB)
    load(prefix)
    assert locked() == before
    assert other.page_map().all()  # of another iteration, whose size is its own
    other.resize(0)
    load(prefix)
    prefix.resize(1 * MB)
    assert len(prefix.page_map()) == 256
    assert 256 <= cold_store.mapping.resident_pages() < 256 + 64
    prefix.resize(0)
    assert (len(prefix.page_map()), prefix.kept_bytes) == (0, 0)
    assert list(prefix.missing_runs(1 << 20)) == []
    assert cold_store.mapping.resident_pages() < 64


def test_what_nobody_reads_is_no_part_of_a_prefix(cold_store):
    prefix = ResidentPrefix(cold_store.mapping, cold_store.origin, left_out=4 * MB)
    assert (prefix.page_map().sum(), list(prefix.missing_runs(1 << 20))) == (0, [])
    prefix.resize(2 * MB)
    load(prefix)
    assert np.flatnonzero(prefix.page_map()).tolist() == list(range(1024, 1536))
    assert (prefix.kept_bytes, prefix.lost_bytes) == (2 * MB, 0)
    assert 512 <= cold_store.mapping.resident_pages() < 512 + 64
    prefix.resize(1 * MB)
    assert np.flatnonzero(prefix.page_map()).tolist() == list(range(1024, 1280))


def test_where_the_system_does_not_tell_nothing_is_taken_for_granted(cold_store, monkeypatch):
    class Silent:
        def page_map(self, *_):
            raise OSError(13, "no page map")

    prefix = of_size(cold_store, 1 * MB)
    load(prefix)
    monkeypatch.setattr(prefix, "_mapping", Silent())
    assert prefix.page_map().sum() == 0
    assert "no page map" in prefix.unknown


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_of_a_file_of_somebody_else_the_truth_is_known(cold_store):
    """Mincore says of such a file that all of it is in memory."""

    def look():
        PR_SET_DUMPABLE = 4  # as it is for programs that this user starts
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        prefix = of_size(cold_store, 1 * MB)
        before = int(prefix.page_map().sum())
        load(prefix)
        return [prefix._trust_mincore, before, int(prefix.page_map().sum()), prefix.unknown]

    os.chmod(cold_store.path, 0o644)
    assert others.as_nobody(look) == [False, 0, 256, None]


def is_running():
    return any(thread.name.startswith("graphzero-resident") for thread in threading.enumerate())


def keeper_of(*fixed):
    keeper = PrefixKeeper(memory.MemoryWatch(), fixed, PrefixGroup([], []))
    keeper.start()
    return keeper


def test_prefixes_are_read_again_after_a_batch_and_left_at_the_end(cold_store):
    prefix, other = prefix_of(cold_store), prefix_of(cold_store)
    keeper = keeper_of((prefix, 8 * MB), (other, 1 * MB))
    wait_until(lambda: prefix.kept_bytes == 8 * MB)
    assert other.num_bytes == 1 * MB
    drop(cold_store, 512, 256)
    time.sleep(0.2)
    assert prefix.kept_bytes == 7 * MB
    keeper.follow_batch()
    wait_until(lambda: prefix.kept_bytes == 8 * MB)
    keeper.close()
    assert 2048 <= cold_store.mapping.resident_pages() < 2048 + 64
    keeper_of((prefix, 16 * MB)).close()  # between two steps
    assert not is_running()


class Kept:
    """An elastic prefix, its keeper, and what is available to it."""

    def __init__(self, store, monkeypatch, *, first, most, reserve=0, available=1 << 30, **options):
        self.available = available
        monkeypatch.setattr(memory, "available_memory", lambda: self.available)
        monkeypatch.setattr(memory, "_anonymous_bytes", lambda: 0)
        self.prefix = PrefixGroup([prefix_of(store)], [16 * MB])
        self.watch = memory.MemoryWatch()
        self.keeper = PrefixKeeper(
            self.watch, [], self.prefix, first=first, most=most, reserve=reserve, **options
        )
        self.keeper.start()

    def count_batch(self):
        self.watch.batches += 1
        self.keeper.follow_batch()

    def wait_for(self, num_bytes):
        """Until the prefix has this size, and is in memory."""
        wait_until(
            lambda: (self.prefix.num_bytes, self.prefix.kept_bytes) == (num_bytes, num_bytes)
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.keeper.close()
        assert KEEPERS or not is_running()


def test_rows_are_kept_as_far_as_the_model_leaves_memory(cold_store, monkeypatch):
    with Kept(
        cold_store, monkeypatch, first=2 * MB, most=12 * MB, reserve=1 * MB, available=40 * MB
    ) as kept:
        kept.wait_for(2 * MB)
        for _ in range(3):
            kept.count_batch()
        time.sleep(0.2)
        assert kept.prefix.num_bytes == 2 * MB  # a model may still be taking its memory
        kept.count_batch()
        kept.wait_for(12 * MB)
        kept.available = 10 * MB
        kept.count_batch()
        # less a twentieth, less the reserve, in whole pages
        less = (int(0.95 * 10 * MB) - 1 * MB) // PAGESIZE * PAGESIZE
        kept.wait_for(less)
        kept.available = 40 * MB
        kept.count_batch()
        time.sleep(0.2)
        assert kept.prefix.num_bytes == less  # what has been seen will come again
        kept.available = 0
        kept.count_batch()
        kept.wait_for(0)


def test_what_the_kernel_takes_back_again_is_given_up_for_some_time(cold_store, monkeypatch):
    with Kept(cold_store, monkeypatch, first=16 * MB, most=16 * MB) as kept:
        kept.wait_for(16 * MB)
        for _ in range(4):
            kept.count_batch()
        time.sleep(0.3)  # the thread must not look while pages are being released
        drop(cold_store, 0, 2048)
        kept.count_batch()
        kept.wait_for(8 * MB)  # the end for the beginning
        for _ in range(3):
            kept.count_batch()
            time.sleep(0.05)
        kept.wait_for(8 * MB)

        def grows():
            kept.count_batch()
            return kept.prefix.num_bytes == 16 * MB

        wait_until(grows)


def test_iterations_of_a_process_divide_and_ranks_leave_room(cold_store, tmp_path, monkeypatch):
    """Until the model's memory is known, for the mini-batches of the other ranks."""
    size = {"first": 16 * MB, "most": 16 * MB, "available": 20 * MB}
    half = int(0.95 * 20 * MB) // 2 // PAGESIZE * PAGESIZE
    files.write_rows(tmp_path / "other.gd", np.zeros((8192, 512), np.float32))
    with Kept(cold_store, monkeypatch, reserve_at_first=15 * MB, **size) as kept:
        kept.wait_for(4 * MB)
        for _ in range(4):
            kept.count_batch()
        with Kept(cold_store, monkeypatch, **size):  # the same pages
            kept.count_batch()
            kept.wait_for(16 * MB)
        with (
            files.open_cold(gz.FeatureStore, tmp_path / "other.gd") as store,
            Kept(store, monkeypatch, **size) as other,
        ):
            other.wait_for(half)
            kept.count_batch()
            kept.wait_for(half)
            assert others.in_child(lambda: len(KEEPERS)) == 0  # they are the parent's
        kept.count_batch()
        kept.wait_for(16 * MB)


def test_failing_to_keep_rows_warns_and_goes_on(cold_store, monkeypatch):
    seen = []

    def refuse(runs):
        seen.append(runs)
        raise OSError(5, "no advice")

    prefix = prefix_of(cold_store)
    monkeypatch.setattr(prefix, "load", refuse)
    with (
        pytest.warns(RuntimeWarning, match="making rows resident failed"),
        closing(keeper_of((prefix, 1 * MB))),
    ):
        wait_until(lambda: seen)
    assert prefix.kept_bytes < 1 * MB
