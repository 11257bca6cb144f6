"""Keys of edges, their sort and their lists, as NumPy makes them."""

from __future__ import annotations

import numpy as np
import pytest

from graphzero import _core
from graphzero.errors import FormatError

pytestmark = pytest.mark.core  # under AddressSanitizer, too


def random_keys(count: int, num_nodes: int) -> np.ndarray:
    ends = np.random.default_rng(count).integers(0, num_nodes, (2, count), dtype=np.uint64)
    return ends[0] << np.uint64(32) | ends[1]


@pytest.mark.parametrize("count", [0, 1, 32, 33, 5000, 200_000])
@pytest.mark.parametrize("num_nodes", [1, 300, 2**32 - 1])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_sort_is_stable(count: int, num_nodes: int, threads: int) -> None:
    keys = random_keys(count, num_nodes)
    expected = np.argsort(keys, kind="stable")
    order = np.arange(count, dtype=np.uint32)
    got = keys.copy()
    _core.sort_keys(got, order, threads)
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(got, keys[expected])
    got = keys.copy()
    _core.sort_keys(got, None, threads)
    np.testing.assert_array_equal(got, keys[expected])


def test_ids_that_no_table_has_are_refused() -> None:
    ids = np.array([0, 5, 2], np.uint32)
    rank = np.arange(5, dtype=np.uint32)
    with pytest.raises(FormatError, match="1 ids of edges are out of range"):
        _core.edge_keys(ids, ids, None, rank, 1)
    with pytest.raises(FormatError, match="1 ids of edges are out of range"):
        _core.count_ids(ids, np.zeros(5, np.uint64))
    with pytest.raises(ValueError, match="two ends"):
        _core.edge_keys(ids, ids[:2], None, None, 1)
    with pytest.raises(ValueError, match="another length"):
        _core.sort_keys(np.zeros(4, np.uint64), np.zeros(3, np.uint32), 1)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_places_of_new_entries(dtype: type) -> None:
    keys = np.sort(random_keys(5000, 300))
    owners, neighbors = (keys >> np.uint64(32)).astype(np.uint32), keys.astype(np.uint32)
    indptr = _core.list_starts(keys, 0, 0, 301).astype(dtype)
    edges = np.array([keys[7], 0, (1 << 64) - 1], np.uint64)
    more = np.concatenate([random_keys(200_000, 320), edges])
    ends = (more >> np.uint64(32)).astype(np.uint32), more.astype(np.uint32)
    found = _core.entry_places(indptr, neighbors.astype(dtype), *ends, 2)
    np.testing.assert_array_equal(found, np.searchsorted(keys, more, "right"))
    assert _core.entry_places(indptr[:1], neighbors[:0], *ends, 1).max() == 0
    for wrong in (5001, 0):  # beyond the entries; a list that ends before it begins
        bad = indptr.copy()
        bad[int(owners[2500]) + 1] = wrong
        with pytest.raises(FormatError, match="lists are not within"):
            _core.entry_places(bad, neighbors, owners, neighbors, 1)
    with pytest.raises(ValueError, match="two ends"):
        _core.entry_places(indptr, neighbors, ends[0], ends[1][1:], 1)
