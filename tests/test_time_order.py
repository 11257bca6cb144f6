"""``time_order``: each neighbour list by time, as it is built, read and verified."""

from __future__ import annotations

from dataclasses import replace

import files
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero import _core
from graphzero.store.format import encode_header, read_header

EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]


# ---- reading


def test_the_order_is_required_where_it_is_needed(tmp_path):
    path = tmp_path / "t.gl"
    files.write_graph(path, files.random_edges(40, 600), 40, times=np.arange(600) % 7)
    _core.CSR(_core.Mapping(path)).require_time_order()
    found = (header := read_header(path)).find("time_order")
    others = tuple(section for section in header.sections if section != found)
    with open(path, "r+b") as file:  # as a writer without this section
        file.write(encode_header(replace(header, sections=others)))
    with pytest.raises(ValueError, match=r"t\.gl has timestamps but .* without their order: build"):
        _core.CSR(_core.Mapping(path)).require_time_order()
    with gz.Graph(path) as graph:
        assert graph.time_order is None
        assert len(graph.times) == 600
    files.write_graph(tmp_path / "plain.gl", files.random_edges(40, 600), 40)
    with pytest.raises(ValueError, match=r"plain\.gl has no timestamps .* a timestamp column"):
        _core.CSR(_core.Mapping(tmp_path / "plain.gl")).require_time_order()


# ---- verify


def first_unordered(indptr, times, time_order, block):
    """First stored node whose entries are faulty, or None; ranges are checked one by one."""
    if _core.first_descent(indptr, len(times), 0, len(indptr)) >= 0:
        return _core.first_descent(indptr, len(times), 0, len(indptr)) - 1
    arrays = {"indptr": indptr, "indices": np.zeros(len(times), np.uint32)}
    lists = _core.EdgeLists(1, {**arrays, "times": times, "time_order": time_order})
    for begin in range(0, len(times), block):
        entry = lists.first_untimely(begin, min(begin + block, len(times)))
        if entry >= 0:
            return int(np.searchsorted(indptr, entry, "right")) - 1
    return None


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    times=st.sampled_from([range(-3, 3), EXTREMES, range(-(2**62), 2**62, 2**52)]),
    block=st.integers(1, 40),
    at=st.integers(0, 119),
    value=st.integers(0, 2**64 - 1) | st.integers(0, 120),
)
def test_any_changed_entry_is_found(seed, times, block, at, value):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, 5, (120, 2)) * [2, 1]  # nodes without a list between those with one
    naive = reference.adjacency(edges, 10, times=rng.choice(np.array(times), 120))
    indptr, times = naive.indptr.astype(np.uint64), naive.column(3, np.int64)
    time_order = np.array(naive.time_order, np.uint64)
    assert first_unordered(indptr, times, time_order, block) is None
    before, time_order[at] = time_order[at], value
    found = first_unordered(indptr, times, time_order, block)
    node = int(np.searchsorted(naive.indptr, at, "right")) - 1
    assert found == (None if before == value else node)


@pytest.mark.parametrize("middle", [3, 2**63, 2**64 - 1])
def test_row_pointers_that_descend_are_found_and_not_followed(middle):
    indptr = np.array([0, 1, middle, 2], np.uint64)
    arrays = np.arange(2), np.array([0, 0], np.uint32)
    assert first_unordered(indptr, *arrays, 5) in (1, 2)
