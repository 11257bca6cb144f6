"""Resident prefixes of several files, whose sizes are divided."""

from __future__ import annotations

import time
from mmap import PAGESIZE

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.io.keeper import ElasticPrefix, PrefixKeeper
from graphzero.io.limits import MemoryWatch
from graphzero.io.prefix_group import PrefixGroup
from graphzero.io.row_sources import RowSource, managed_bytes, touched_rows

ROWS = (4000, 1000)
COLUMNS = 64  # of float32: 256 bytes a row


@pytest.fixture
def stores(tmp_path):
    opened = []
    for i, count in enumerate(ROWS):
        path = tmp_path / f"{i}.gd"
        files.write_rows(path, np.zeros((count, COLUMNS), np.float32))
        files.drop_from_cache(path)
        opened.append(gz.FeatureStore(path))
    yield opened
    for store in opened:
        store.close()


def group_of(stores):
    sizes = [store.num_nodes * store.row_bytes for store in stores]
    return PrefixGroup([store.new_prefix() for store in stores], sizes), sizes


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0, 2.0])
def test_bytes_are_divided_by_the_sizes_of_the_files(stores, share):
    group, sizes = group_of(stores)
    group.resize(int(share * sum(sizes)))
    for prefix, size in zip(group.parts, sizes, strict=True):
        assert prefix.num_bytes <= size
        assert abs(prefix.num_bytes - min(1, share) * size) < PAGESIZE
    assert sum(prefix.num_bytes for prefix in group.parts) <= group.num_bytes


def test_what_is_read_is_counted_over_all_files(stores):
    group, sizes = group_of(stores)
    group.resize(sum(sizes) // 2)
    wanted = sum(prefix.num_bytes for prefix in group.parts)
    assert wanted // 2 < group.lost_bytes <= wanted  # opening may have read some pages
    for prefix in group.parts:
        for begin, end in prefix.missing_runs(1 << 20):
            prefix.load(begin, end)
    assert group.lost_bytes == 0
    assert group.kept_bytes == wanted
    assert group.resident_bytes >= wanted
    assert group.unknown is None
    group.resize(0)
    assert group.kept_bytes == 0


def test_a_keeper_reads_all_files(stores):
    group, sizes = group_of(stores)
    total = sum(sizes)
    keeper = PrefixKeeper([], ElasticPrefix(group, total, total, lambda room: total), MemoryWatch())
    try:
        end = time.monotonic() + 60
        while group.num_bytes == 0 or group.lost_bytes > 0:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert group.num_bytes == total // PAGESIZE * PAGESIZE
        assert all(prefix.kept_bytes > 0 for prefix in group.parts)
    finally:
        keeper.close()


@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
def test_the_plan_expects_the_rows_that_are_resident(stores, share):
    """`touched_rows` and `PrefixGroup` divide alike, but for parts of pages."""
    rng = np.random.default_rng(0)
    wanted = [rng.integers(0, count, 300) for count in ROWS]
    sources = {
        str(i): RowSource(store, lambda batch, subgraph, i=i: wanted[i], str(i), is_managed=True)
        for i, store in enumerate(stores)
    }
    group, sizes = group_of(stores)
    assert managed_bytes(sources) == sum(sizes)
    group.resize(int(share * sum(sizes)))
    expected = np.count_nonzero(touched_rows(sources, 0, None) <= group.num_bytes)
    resident = sum(
        np.count_nonzero((rows + 1) * COLUMNS * 4 <= prefix.num_bytes)
        for rows, prefix in zip(wanted, group.parts, strict=True)
    )
    assert 0 <= expected - resident <= 2 * 2 * PAGESIZE // (COLUMNS * 4)
