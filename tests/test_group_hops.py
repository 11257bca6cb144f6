"""Topology that groups of mini-batches read past the page cache, hop by hop."""

from __future__ import annotations

import os
import random
import threading
import time

import files
import numpy as np
import pytest
from kinds import KINDS, options_of

import graphzero as gz
from graphzero import _core
from graphzero.sampling.sampler import HopReadAhead, NeighborSampler

pytestmark = pytest.mark.core  # under AddressSanitizer, too

NODES, EDGES, SEEDS, PAGE = 20_000, 300_000, 150, 4096
ENGINES = [
    "pread",
    pytest.param(
        "uring", marks=pytest.mark.skipif(bool(_core.uring_refusal()), reason="no io_uring here")
    ),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return files.build_weighted_and_timed(
        tmp_path_factory.mktemp("group_hops") / "data", NODES, EDGES
    )


@pytest.fixture
def graph(path):
    with gz.Graph(path) as graph:
        yield graph


def some_pages(graph, name, rng, share):
    """A map in which a share of the first pages of a section, about half of it, is in memory."""
    count = graph.section_bytes.get(name, 0) // PAGE // 2
    return (rng.random(count) < share).astype(np.uint8)


def direct_hops(graph, rng=None, engine="pread", share=0.5, gap_pages=0):
    rng = np.random.default_rng(0) if rng is None else rng
    mapping = graph.mapping
    reader = _core.DirectReader(mapping, 0, 1, mapping.size, engine=engine, depth=8, threads=2)
    names = ("indptr", "indices", "edge_ids")
    maps = {name: some_pages(graph, name, rng, share) for name in names}
    return _core.DirectHops(reader, **maps, gap_pages=gap_pages)


def sample_group(sampler, seeds, aheads, times=None, stop=None, threads=2):
    """Of several mini-batches in one call."""
    until = None if times is None else {"": times}
    core_seeds = [
        sampler.seeds_of({"": ids}, seed_time=until, epoch=0, batch=number)
        for number, ids in enumerate(seeds)
    ]
    group = sampler.group_sampler(timed=times is not None)
    stop = _core.Stop() if stop is None else stop
    return group.sample(core_seeds, _core.Team(threads), stop, aheads)


def fingerprint(sampled):
    arrays = [sampled.nodes, sampled.user_ids, sampled.edge_index, sampled.positions]
    arrays += [sampled.edge_ids, sampled.trees or []]
    content = [[part.tobytes() for part in each if part is not None] for each in arrays]
    return content, sampled.num_sampled_nodes, sampled.num_sampled_edges


def seeds_of_group(rng, count=5):
    return [rng.integers(0, NODES, rng.integers(0, SEEDS)) for _ in range(count)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(4))
def test_groups_have_the_bytes_of_sampling_in_memory(graph, engine, seed):
    rng = np.random.default_rng(seed)
    fanouts = [[10, 5], [-1, 2, 3], [9, 0, 2], [300]][seed]
    options = [{}, {"replace": True}, {"disjoint": True}, {"batch_dependency": 2}][seed]
    sampler = NeighborSampler(graph, fanouts, **options)
    seeds = seeds_of_group(rng)
    expected = sample_group(sampler, seeds, None)
    for share, gap in [(0, 0), (0.5, 3), (1, 1 << 62)]:
        direct = direct_hops(graph, rng, engine, share, gap)
        got = sample_group(sampler, seeds, [HopReadAhead(direct=direct)])
        assert [fingerprint(one) for one in got] == [fingerprint(one) for one in expected]
        assert sum(one.pages_missed for one in got) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_keep_their_draws(graph, kind):
    options, timed = options_of(kind)
    sampler = NeighborSampler(graph, [6, 3], **options)
    rng = np.random.default_rng(1)
    seeds = [rng.integers(0, NODES, SEEDS) for _ in range(3)]
    times = rng.integers(0, 1000, SEEDS) if timed else None
    expected = sample_group(sampler, seeds, None, times)
    got = sample_group(sampler, seeds, [HopReadAhead(direct=direct_hops(graph))], times)
    assert [fingerprint(one) for one in got] == [fingerprint(one) for one in expected]


def test_neighbouring_batches_read_a_page_once(graph):
    sampler = NeighborSampler(graph, [10])
    seeds = [np.arange(SEEDS)] * 4
    direct = HopReadAhead(direct=direct_hops(graph, share=0))
    (alone,) = sample_group(sampler, seeds[:1], [direct])
    together = sample_group(sampler, seeds, [direct])
    # the same seeds draw other neighbours in other batches, out of the same lists
    assert sum(one.pages_missed for one in together) < 2 * alone.pages_missed


def test_edge_types_are_mixed(tmp_path):
    rng = np.random.default_rng(0)
    counts = {"user": 3000, "item": 2000}

    def ends(source, target, number):
        sizes = counts[source], counts[target]
        return np.stack([rng.integers(0, size, number) for size in sizes])

    gz.build(
        tmp_path / "d",
        edges={
            ("user", "likes", "item"): ends("user", "item", 30_000),
            ("item", "liked", "user"): ends("item", "user", 30_000),
            ("user", "knows", "user"): ends("user", "user", 40_000),
        },
        nodes={name: {"num_nodes": count} for name, count in counts.items()},
        edge_ids=True,
    ).close()
    with gz.open(tmp_path / "d") as ds:
        sampler = NeighborSampler(ds, [5, 4, 3])
        batches = [
            sampler.seeds_of(
                {"user": rng.integers(0, 3000, 50), "item": rng.integers(0, 2000, 9)},
                seed_time=None,
                epoch=0,
                batch=number,
            )
            for number in range(4)
        ]
        graphs = [edges.graph for edges in ds.edges.values()]
        group, team = sampler.group_sampler(timed=False), _core.Team(2)
        expected = group.sample(batches, team, _core.Stop())
        # one of them is sampled from the mapping, without and with hop read-ahead
        for last in (None, HopReadAhead()):
            aheads = [HopReadAhead(direct=direct_hops(graph)) for graph in graphs[:2]] + [last]
            got = group.sample(batches, team, _core.Stop(), aheads)
            assert [fingerprint(one) for one in got] == [fingerprint(one) for one in expected]


def test_a_stop_ends_a_group_at_any_moment(graph):
    sampler = NeighborSampler(graph, [-1, -1])
    seeds = [np.arange(i * 20, i * 20 + 20) for i in range(8)]
    ahead = HopReadAhead(direct=direct_hops(graph, share=0))
    begun = time.perf_counter()
    assert len(sample_group(sampler, seeds, [ahead])) == 8
    seconds = time.perf_counter() - begun
    for _ in range(12):
        stop = _core.Stop()
        timer = threading.Timer(random.uniform(0, seconds), stop.set)
        timer.start()
        got = sample_group(sampler, seeds, [ahead], stop=stop)
        timer.join()
        assert len(got) in (0, 8)
    assert sample_group(sampler, seeds, [ahead], stop=stop) == []


@pytest.mark.parametrize("section", ["indptr", "indices", "edge_ids"])
def test_corrupt_batches_are_errors_and_others_are_not(path, tmp_path, section):
    copy = tmp_path / "graph.gl"
    copy.write_bytes(path.read_bytes())
    with gz.Graph(copy) as graph:
        node = int(np.argmax(np.diff(graph.indptr)))
        at = node + 1 if section == "indptr" else int(graph.indptr[node])
    files.damage(copy, section, at, 2**32 - 1)
    with gz.Graph(copy) as graph:
        sampler = NeighborSampler(graph, [-1])
        seeds = [np.array([node + 10]), np.array([node])]
        sound, corrupt = sample_group(sampler, seeds, [HopReadAhead(direct=direct_hops(graph))])
        assert isinstance(sound, _core.Sampled)
        assert isinstance(corrupt, gz.FormatError)
        assert str(copy) in str(corrupt)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_truncated_file_is_named(path, tmp_path, engine):
    copy = tmp_path / "graph.gl"
    copy.write_bytes(path.read_bytes())
    graph = gz.Graph(copy)
    ahead = HopReadAhead(direct=direct_hops(graph, engine=engine, share=0))
    sampler = NeighborSampler(graph, [5])
    os.truncate(copy, PAGE)
    with pytest.raises(gz.FormatError, match=f"{copy}.*open it again"):
        sample_group(sampler, [np.arange(9)], [ahead])
    copy.write_bytes(path.read_bytes())
    assert len(sample_group(sampler, [np.arange(9)], [ahead])) == 1


def test_a_reader_of_another_file_is_refused(graph, path):
    with gz.Graph(path) as other:
        ahead = HopReadAhead(direct=direct_hops(other))
        with pytest.raises(ValueError, match="a reader of"):
            sample_group(NeighborSampler(graph, [2]), [np.arange(3)], [ahead])


@pytest.mark.parametrize("pad", [None, "auto"])
@pytest.mark.parametrize(
    ("strategy", "group", "memory"), [("auto", None, 3), ("pread", 1, 6), ("pread", 4, 6)]
)
def test_loaders_read_hops_together(path, strategy, group, memory, pad):
    def batches(**prefetch):
        with gz.open(path.parent) as ds:
            nodes, how = np.arange(0, NODES, 20), gz.Prefetch(**prefetch)
            options = {"batch_size": 50, "gather": (), "pad": pad}
            return list(gz.NeighborDataset(ds, nodes, [5, 3], prefetch=how, **options))

    def content(batch):
        found = batch.subgraph
        return [part.tobytes() for part in (found.n_id, found.edge_index, found.e_id)]

    expected = batches(strategy="none")
    got = batches(strategy=strategy, memory_limit=memory << 20, group=group, threads=2)
    assert [content(batch) for batch in got] == [content(batch) for batch in expected]
    assert sum(batch.stats.topology_missed for batch in got) > 0
    if group == 4:
        assert "; 4 batches are read together" in got[-1].stats.io
