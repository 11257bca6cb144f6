"""Topology that does not fit in memory: what is kept of it, and the rest asked for hop by hop."""

from __future__ import annotations

import resource

import files
import numpy as np
import pytest
from kinds import KINDS, options_of

import graphzero as gz
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import STRATEGIES
from graphzero.io.resident import kept_bytes
from graphzero.io.session import TopologyIO, topology_files, touched_topology
from graphzero.sampling.sampler import HopReadAhead, NeighborSampler

pytestmark = pytest.mark.core  # under AddressSanitizer, too

NODES, EDGES, PAGE = 40_000, 800_000, 4096


@pytest.fixture(scope="module", params=["input", "hot"])
def path(request, tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("topology") / "data"
    files.write_dataset(
        folder,
        files.random_edges(NODES, EDGES),
        NODES,
        order=request.param,
        edge_ids=True,
        weights=rng.random(EDGES).astype(np.float32),
        times=rng.integers(0, 1000, EDGES),
    )
    return folder / "graph.gl"


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


def file_of(graph, timed=False, **options):
    (file,) = topology_files(gz.Dataset(graph), gz.Sampling(**options), timed=timed)
    return file


def test_only_sections_that_are_read_count(graph):
    plain = set(file_of(graph).sections)
    assert {"indptr", "indices", "edge_ids"} <= plain
    assert not {"weights", "cum_weights", "times", "time_order"} & plain
    assert set(file_of(graph, weighted=True).sections) - plain == {"cum_weights"}
    assert set(file_of(graph, timed=True).sections) - plain == {"times", "time_order"}


def test_seeds_that_are_few_are_translated_once(path):
    """Batches then do without the table of ranks, which may be read no more."""
    with gz.open(path.parent) as ds:
        few = gz.NeighborDataset(ds, np.arange(500)[::-1], [4], batch_size=100)
        all_nodes = gz.NeighborDataset(ds, None, [4], batch_size=100)
        is_hot = ds.graph.stored_order is not None
        assert ("node_rank" in few.topology[0].sections) is False
        assert ("node_rank" in all_nodes.topology[0].sections) is is_hot
        for number, batch in enumerate(few):
            by_users_ids = few.sampler.sample(few.seeds[batch.input_id], batch=number)
            assert fingerprint(batch.subgraph) == fingerprint(by_users_ids)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.99, 1.0])
def test_what_is_kept_stays_within_its_bytes(graph, share):
    file = file_of(graph)
    goals, nodes = file.best_prefix(int(share * file.num_bytes))
    kept = {"indptr": 0, "indices": 0, **goals}
    assert sum(kept.values()) <= share * file.num_bytes
    assert {name for name, size in kept.items() if size} <= set(file.sections)
    if share == 1.0:
        assert (nodes, sum(kept.values())) == (NODES, file.num_bytes)
    elif not file.is_hot:
        assert nodes == 0  # in another order the first lists are no better than the others
    else:
        assert nodes < NODES
        assert kept["indices"] == 4 * int(graph.indptr[nodes])
        longest = int(np.diff(graph.indptr).max())  # there is no memory for another list
        assert share < 0.1 or sum(kept.values()) > share * file.num_bytes - 8 * (longest + 1)


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
    files.damage(copy, "indptr", 5, 2**64 - 1)
    with gz.Graph(copy) as graph, pytest.raises(gz.FormatError, match="corrupt"):
        NeighborSampler(graph, [5], num_threads=1).sample(
            np.arange(NODES)[:2000] if graph.stored_order is None else graph.node_ids[:2000],
            readahead=[HopReadAhead()],
        )


def test_nodes_are_left_out_only_while_their_topology_is_in_memory(path):
    with files.open_cold(gz.Graph, path) as graph:
        file = file_of(graph)
        plan = IOPlan(STRATEGIES["willneed"], topology=file.num_bytes, is_larger=True)
        topology = TopologyIO([file], gz.Prefetch(), plan)
        for prefix, goal in topology.prefixes:
            prefix.resize(goal)
        assert topology.hop_readahead()[0].resident_nodes == 0
        for prefix, _ in topology.prefixes:
            for begin, end in prefix.missing_runs(1 << 20):
                prefix.load(begin, end)
        assert topology.hop_readahead()[0].resident_nodes == NODES
        graph.mapping.advise("release")
        assert topology.hop_readahead()[0].resident_nodes == 0


def test_pages_that_sampling_touches_are_kept_by_so_many_bytes(graph):
    file = file_of(graph)
    sampler = NeighborSampler(graph, (10, 5), num_threads=1)
    by_type = sampler.sample_types({"": np.arange(300)})
    assert touched_topology([], by_type).shape == (0,)
    needed = touched_topology([file], by_type)
    assert 0 < needed[0] <= needed[-1] <= file.num_bytes
    assert (np.diff(needed) >= 0).all()
    if not file.is_hot:  # no list is kept unless all are
        assert (needed == file.num_bytes).sum() >= 2
        return
    subgraph = by_type.untyped()
    frontier = np.unique(subgraph.stored_id[: sum(subgraph.num_sampled_nodes[:-1])])
    for num_bytes in np.linspace(needed[0], file.num_bytes, 12).astype(int):
        _, kept = file.best_prefix(int(num_bytes))
        missing = int((needed > num_bytes).sum())
        assert (missing == 0) == (kept > frontier[-1] or num_bytes == file.num_bytes)
        # each section of lists has at most a page or two for each list
        assert missing <= 2 * 2 * (frontier >= kept).sum()
