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
from hypothesis import given
from hypothesis import strategies as st

import graphzero as gz
from graphzero.io import memory
from graphzero.io.memory import Budget, Claim, Lease, PrefixGroup, PrefixKeeper, divide
from graphzero.store import mapped_file as resident_prefix
from graphzero.store.mapped_file import ResidentPrefix

MB = 1 << 20


def prefix_of(store):
    return ResidentPrefix(store.mapping, store.origin)


def of_size(store, num_bytes):
    prefix = prefix_of(store)
    prefix.resize(num_bytes)
    return prefix


def load(prefix):
    for part in prefix.parts:
        for begin, end in part.missing_runs(1 << 20):
            part.load(begin, end)


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
    assert list(prefix.missing_runs(30 * PAGESIZE)) == [
        (cold_store.origin + first * PAGESIZE, cold_store.origin + end * PAGESIZE)
        for first, end in ((100, 130), (130, 150))
    ]
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


def test_rows_that_begin_within_a_page(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.ones((300, 500), dtype=np.uint8))  # a header of 128 bytes
    with files.open_cold(gz.FeatureStore, path) as store:
        prefix = of_size(store, 300 * 500)
        assert len(prefix.page_map()) == -(-(128 + 150_000) // PAGESIZE)
        load(prefix)
        assert prefix.page_map().all()
        prefix.resize(PAGESIZE - 128)  # the rest of the first page
        assert len(prefix.page_map()) == 1
        prefix.resize(PAGESIZE - 127)
        assert len(prefix.page_map()) == 2


def test_a_long_prefix_is_looked_up_in_turns(cold_store, monkeypatch):
    monkeypatch.setattr(resident_prefix, "_LOOKED_UP", 100)
    prefix = of_size(cold_store, 250 * PAGESIZE)
    load(of_size(cold_store, 16 * MB))
    assert [int(prefix.page_map().sum()) for _ in range(3)] == [100, 200, 250]
    drop(cold_store, 0, 250)
    assert [int(prefix.page_map().sum()) for _ in range(3)] == [150, 50, 0]


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


@pytest.mark.parametrize("share", [0.0, 0.5, 2.0])
def test_bytes_are_divided_by_the_sizes_of_files(cold_store, tmp_path, share):
    files.write_rows(tmp_path / "small.gd", np.zeros((8192, 128), np.float32))
    with files.open_cold(gz.FeatureStore, tmp_path / "small.gd") as small:
        sizes = [16 * MB, 4 * MB]
        group = PrefixGroup([prefix_of(cold_store), prefix_of(small)], sizes)
        group.resize(int(share * sum(sizes)))
        for prefix, size in zip(group.parts, sizes, strict=True):
            assert min(1, share) * size - PAGESIZE < prefix.num_bytes <= min(1, share) * size
        load(group)
        of_parts = sum(prefix.num_bytes for prefix in group.parts)
        assert (group.lost_bytes, group.kept_bytes, group.unknown) == (0, of_parts, None)


@given(st.integers(0, 1000), st.dictionaries(st.text(max_size=2), st.integers(0, 500), max_size=6))
def test_memory_is_divided_fairly(available, wanted):
    shares = divide(available, wanted)
    assert shares.keys() == wanted.keys()
    assert all(0 <= shares[name] <= wanted[name] for name in wanted)
    assert sum(shares.values()) <= available
    if sum(wanted.values()) <= available:
        assert shares == wanted
    else:
        assert sum(shares.values()) > available - len(wanted)
        cut = [shares[name] for name in wanted if shares[name] < wanted[name]]
        assert max(shares.values()) <= max(cut) + len(wanted)


@pytest.fixture
def claims(tmp_path, monkeypatch):
    """An own folder of claims."""
    monkeypatch.setattr(memory.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"graphzero-leases-{os.getuid()}"


def lease(owner, trainer=1, group="g", in_flight=0, **wanted):
    return closing(Lease(owner, Claim(group, trainer, wanted, in_flight)))


def test_iterations_of_a_process_share(claims):
    owner = Budget()
    with lease(owner, a=800) as first:
        assert first.share("a", 1000) == 800
        with lease(owner, b=700) as second:
            assert first.share("a", 1000) == second.share("b", 1000) == 500
            assert second.share("b", 2000) == 700
        with lease(owner, a=600), lease(owner, group="other", c=800):
            assert first.share("a", 1000) == 800  # the same file; another memory group
    assert not claims.exists()
    with lease(owner, a=800, b=400) as own, lease(owner, b=400, c=800):
        assert own.share("a", 1000) == 500  # the plan has divided between its own files


def test_batches_of_others_count_until_they_are_allocated(claims):
    owner = Budget()
    with lease(owner, trainer=1, in_flight=300, a=2000) as own:
        with lease(owner, trainer=1, in_flight=300, a=2000):
            assert own.share("a", 1000) == 1000  # a worker of the same loader
        with lease(owner, trainer=2, in_flight=300, a=2000) as other:
            assert own.share("a", 1000) == 700
            other.settle()
            assert own.share("a", 1000) == 1000


@pytest.mark.parametrize("how", ["killed", "half written"])
def test_processes_share_until_a_claim_ends(claims, how):
    owner = Budget()

    def claim():
        owner.forget()
        own.close()  # as the collector may do
        other = Lease(owner, Claim("g", 2, {"b": 800}, 100))
        assert other.share("b", 1000) == 500
        return other

    with lease(owner, a=800) as own:
        with others.child_of_this(claim):
            assert own.share("a", 1000) == 450  # less its batches
            (theirs,) = [p for p in claims.iterdir() if not p.name.startswith(f"{os.getpid()}-")]
            if how == "half written":
                theirs.write_text('{"group": 3')
                assert own.share("a", 1000) == 800
                assert theirs.exists()
        assert own.share("a", 1000) == 800
        assert not theirs.exists()
    assert not claims.exists()


def test_without_a_folder_a_process_knows_its_own(claims):
    claims.write_text("a file, not a folder")
    owner = Budget()
    with lease(owner, a=800) as own, lease(owner, b=800):
        assert own.share("a", 1000) == 500
    assert claims.read_text() == "a file, not a folder"


def until(condition):
    """Waits for a background thread."""
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.01)
    return False


def is_running():
    return any(thread.name.startswith("graphzero-resident") for thread in threading.enumerate())


def keeper_of(*fixed):
    return PrefixKeeper(memory.MemoryWatch(), fixed, PrefixGroup([], []))


def test_prefixes_are_read_again_after_a_batch_and_left_at_the_end(cold_store):
    prefix, other = prefix_of(cold_store), prefix_of(cold_store)
    keeper = keeper_of((prefix, 8 * MB), (other, 1 * MB))
    assert until(lambda: prefix.kept_bytes == 8 * MB)
    assert other.num_bytes == 1 * MB
    drop(cold_store, 512, 256)
    time.sleep(0.2)
    assert prefix.kept_bytes == 7 * MB
    keeper.count_batch()
    assert until(lambda: prefix.kept_bytes == 8 * MB)
    keeper.close()
    assert 2048 <= cold_store.mapping.resident_pages() < 2048 + 64
    keeper_of((prefix, 16 * MB)).close()  # between two steps
    keeper_of().count_batch()  # nothing to keep needs no thread
    assert not is_running()


class Kept:
    """An elastic prefix, its keeper, and what is available to it."""

    def __init__(self, store, monkeypatch, *, first, most, reserve=0, available=1 << 30):
        self.available = available
        monkeypatch.setattr(memory, "available_memory", lambda: self.available)
        monkeypatch.setattr(memory, "_anonymous_bytes", lambda: 0)
        self.prefix = PrefixGroup([prefix_of(store)], [16 * MB])
        watch = memory.MemoryWatch()
        self.keeper = PrefixKeeper(
            watch, [], self.prefix, first, most, lambda available: available - reserve
        )

    def is_kept(self, num_bytes):
        """Whether the prefix comes to this size, and into memory."""
        return until(
            lambda: (self.prefix.num_bytes, self.prefix.kept_bytes) == (num_bytes, num_bytes)
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.keeper.close()
        assert not is_running()


def test_rows_are_kept_as_far_as_the_model_leaves_memory(cold_store, monkeypatch):
    with Kept(
        cold_store, monkeypatch, first=2 * MB, most=12 * MB, reserve=1 * MB, available=40 * MB
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
        less = (int(0.95 * 10 * MB) - 1 * MB) // PAGESIZE * PAGESIZE
        assert kept.is_kept(less)
        kept.available = 40 * MB
        kept.keeper.count_batch()
        time.sleep(0.2)
        assert kept.prefix.num_bytes == less  # what has been seen will come again
        kept.available = 0
        kept.keeper.count_batch()
        assert kept.is_kept(0)


def test_what_the_kernel_takes_back_again_is_given_up_for_some_time(cold_store, monkeypatch):
    with Kept(cold_store, monkeypatch, first=16 * MB, most=16 * MB) as kept:
        assert kept.is_kept(16 * MB)
        for _ in range(4):
            kept.keeper.count_batch()
        time.sleep(0.3)  # the thread must not look while pages are being released
        drop(cold_store, 0, 2048)
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


def test_failing_to_keep_rows_warns_and_goes_on(cold_store, monkeypatch):
    seen = []

    def refuse(begin, end):
        seen.append(begin)
        raise OSError(5, "no advice")

    prefix = prefix_of(cold_store)
    monkeypatch.setattr(prefix, "load", refuse)
    with (
        pytest.warns(RuntimeWarning, match="making rows resident failed"),
        closing(keeper_of((prefix, 1 * MB))),
    ):
        assert until(lambda: seen)
    assert prefix.kept_bytes < 1 * MB
