"""Topology that does not fit in memory: what is kept of it, and the rest asked for hop by hop."""

from __future__ import annotations

import resource

import files
import numpy as np
import pytest
from kinds import KINDS, options_of

import graphzero as gz
from graphzero.io.resident import kept_bytes
from graphzero.sampling.sampler import HopReadAhead, NeighborSampler

pytestmark = pytest.mark.core  # under AddressSanitizer, too

NODES, EDGES, PAGE = 40_000, 800_000, 4096


@pytest.fixture(scope="module", params=["input", "hot"])
def path(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("topology") / "data"
    return files.build_weighted_and_timed(folder, NODES, EDGES, order=request.param)


@pytest.fixture
def graph(path):
    with files.open_cold(gz.Graph, path) as graph:
        yield graph


def sample(graph, fanouts=(10, 5), batch=0, readahead=None, **options):
    times = np.full(300, 500) if options.pop("times", False) else None
    sampler = NeighborSampler(graph, fanouts, num_threads=1, **options)
    seeds = np.arange(batch * 300, batch * 300 + 300)
    ahead = None if readahead is None else [readahead]
    return sampler.sample(seeds, seed_time=times, batch=batch, readahead=ahead)


def fingerprint(subgraph):
    return [part.tobytes() for part in (subgraph.n_id, subgraph.edge_index, subgraph.e_id)]


@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_the_same(graph, kind):
    options, times = options_of(kind)
    expected = sample(graph, times=times, **options)
    assert expected.pages_missed == 0  # nothing was requested
    for kept_nodes, is_honest in [(0, True), (NODES // 2, True), (0, False)]:
        readahead = HopReadAhead(kept_nodes, is_honest)
        asked = sample(graph, times=times, readahead=readahead, **options)
        assert fingerprint(asked) == fingerprint(expected)


def faults_of(path, readahead, **options):
    """A first batch, and the major faults that it took this thread."""
    with files.open_cold(gz.Graph, path) as graph:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_majflt
        subgraph = sample(graph, readahead=readahead, **options)
        return subgraph, resource.getrusage(resource.RUSAGE_THREAD).ru_majflt - before


@pytest.mark.parametrize("kind", ["uniform", "by weight", "until"])
def test_pages_are_there_before_they_are_touched(path, kind):
    options, times = options_of(kind)
    _, by_faults = faults_of(path, None, times=times, **options)
    if by_faults < 200:
        pytest.skip("this file system reads pages without faults that wait")
    subgraph, after = faults_of(path, HopReadAhead(), times=times, **options)
    assert subgraph.pages_missed > 200
    # those of the tables of user ids, which every batch reads all over, are left
    tables = 2 * 4 * NODES // PAGE
    assert after <= tables + by_faults // 20


def batches_of(path, **prefetch):
    """Of a dataset that was not in memory, and the bytes of it that are kept at most."""
    files.drop_from_cache(path)
    with gz.open(path.parent) as ds:
        seeds, prefetch = np.arange(0, NODES, 50), gz.Prefetch(**prefetch)
        batches = gz.NeighborDataset(
            ds, seeds, [10, 5], batch_size=256, gather=(), prefetch=prefetch
        )
        found = [(batch, kept_bytes()) for batch in batches]
        return [batch for batch, _ in found], max(kept for _, kept in found)


@pytest.mark.parametrize("memory", [0, 9 << 20, 1 << 40])
def test_batches_of_a_dataset_are_the_same(path, memory):
    expected, _ = batches_of(path, strategy="none", lookahead=0)
    got, kept = batches_of(path, memory_limit=memory, strategy="pread", threads=1)
    prints = [fingerprint(batch.subgraph) for batch in got]
    assert prints == [fingerprint(batch.subgraph) for batch in expected]
    missed = sum(batch.stats.topology_missed for batch in got)
    if memory == 1 << 40:
        assert "as requested" in got[0].stats.io
        assert (missed, kept) == (0, 0)
    else:
        assert missed > 0
        assert kept <= memory
    assert ("of topology resident" in got[0].stats.io) is (memory == 9 << 20)


def test_corruption_is_found_all_the_same(path, tmp_path):
    copy = tmp_path / "graph.gl"
    copy.write_bytes(path.read_bytes())
    files.damage(copy, "indptr", 5, 2**32 - 1)
    with gz.Graph(copy) as graph, pytest.raises(gz.FormatError, match="corrupt"):
        NeighborSampler(graph, [5], num_threads=1).sample(
            np.arange(NODES)[:2000] if graph.stored_order is None else graph.node_ids[:2000],
            readahead=[HopReadAhead()],
        )
