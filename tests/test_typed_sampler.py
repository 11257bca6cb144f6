"""`NeighborSampler`: against the naive sampler, and by the properties that define it."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import files
import numpy as np
import pytest
import typed_reference
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kinds import KINDS, options_of
from typed_graphs import Edges, TypedGraph

import graphzero as gz
from graphzero.sampling.sampler import HopReadAhead, NeighborSampler

pytestmark = pytest.mark.core  # under AddressSanitizer, too

TYPED_KINDS = [name for name in KINDS if KINDS[name].get("subgraph_type") != "induced"]
FIXTURE = [HealthCheck.function_scoped_fixture]
FANOUT = st.one_of(st.just(-1), st.just(0), st.integers(1, 6))


@st.composite
def typed_graphs(draw):
    types = "abc"[: draw(st.integers(1, 3))]
    num_nodes = {t: draw(st.integers(1, 12)) for t in types}
    some = st.sampled_from(types)
    edge_types = draw(
        st.lists(st.tuples(some, st.sampled_from("rs"), some), min_size=1, max_size=5, unique=True)
    )
    edges = {}
    for edge_type in edge_types:
        source, _, target = edge_type
        pair = st.tuples(
            st.integers(0, num_nodes[source] - 1), st.integers(0, num_nodes[target] - 1)
        )
        ends = draw(st.lists(pair, max_size=40))
        weight, time = st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.integers(-3, 3)
        edges[edge_type] = Edges(
            np.array(ends, dtype=np.int64).reshape(-1, 2),
            [draw(weight) for _ in ends] if draw(st.booleans()) else None,
            [draw(time) for _ in ends] if draw(st.booleans()) else None,
            draw(st.booleans()),
        )
    ranks = {t: np.array(draw(st.permutations(range(n)))) for t, n in num_nodes.items()}
    return TypedGraph(num_nodes, edges, ranks)


@st.composite
def cases(draw):
    graph = draw(typed_graphs())
    seeds, times = {}, {}
    for t in draw(st.lists(st.sampled_from(list(graph.num_nodes)), unique=True)):
        seeds[t] = draw(st.lists(st.integers(0, graph.num_nodes[t] - 1), max_size=6))
        times[t] = [draw(st.integers(-3, 3)) for _ in seeds[t]]
    hops = draw(st.integers(1, 3))
    return {
        "graph": graph,
        "seeds": seeds,
        "times": times,
        "fanouts": {t: [draw(FANOUT) for _ in range(hops)] for t in graph.edges},
        "numbers": dict(
            zip(
                ("seed", "epoch", "batch"),
                (draw(st.integers(0, 2**40)) for _ in "123"),
                strict=True,
            )
        ),
    }


def assert_equal(got, expected):
    for name, value in expected.items():
        actual = getattr(got, name)
        if not isinstance(value, dict):
            assert actual == value, name
            continue
        assert list(actual) == list(value), name
        for key, each in value.items():
            np.testing.assert_array_equal(actual[key], each, err_msg=f"{name}[{key}]")


@pytest.mark.parametrize("kind", TYPED_KINDS)
@given(case=cases())
@settings(max_examples=60, deadline=None, suppress_health_check=FIXTURE)
def test_every_kind_equals_the_naive_one(tmp_path_factory, kind, case):
    options, timed = options_of(kind)
    graph = case["graph"]
    needed = "times" if timed else "weights" if options.get("weighted") else None
    if needed:  # without them it is refused: see test_typed_refusals
        assume(any(getattr(edges, needed) is not None for edges in graph.edges.values()))
    lists = graph.write(tmp_path_factory.mktemp("typed"))
    times = case["times"] if timed else None
    numbers = dict(case["numbers"])
    sampler = NeighborSampler(
        lists, case["fanouts"], seed=numbers["seed"], num_threads=1, **options
    )
    got = sampler.sample(
        case["seeds"], seed_time=times, epoch=numbers["epoch"], batch=numbers["batch"]
    )
    expected = typed_reference.sample(
        graph, case["seeds"], case["fanouts"], times=times, **numbers, **options
    )
    assert_equal(got, expected)


# ---- one node type and one edge type: a graph without types


# ---- a graph of several thousand edges


RATES, LIKES, BY = ("user", "rates", "film"), ("user", "likes", "user"), ("film", "by", "person")
COUNTS = {"user": 600, "film": 300, "person": 50}


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    """(TypedGraph, Dataset): weights and times of ratings, incoming and outgoing lists."""
    rng = np.random.default_rng(3)

    def some(edge_type, count):
        ends = [rng.integers(0, COUNTS[edge_type[at]], count) for at in (0, 2)]
        return np.stack(ends, axis=1)

    edges = {
        RATES: Edges(
            some(RATES, 6000), rng.random(6000).tolist(), rng.integers(0, 90, 6000).tolist()
        ),
        LIKES: Edges(some(LIKES, 5000), None, rng.integers(0, 90, 5000).tolist()),
        BY: Edges(some(BY, 900), incoming=False),
        ("person", "rev_by", "film"): Edges(some(BY, 900)[:, ::-1].copy()),
        ("film", "rev_rates", "user"): Edges(some(RATES, 6000)[:, ::-1].copy()),
    }
    ranks = {t: rng.permutation(n) for t, n in COUNTS.items()}
    graph = TypedGraph(dict(COUNTS), edges, ranks)
    return graph, graph.write(tmp_path_factory.mktemp("catalogue"))


SEEDS = {"film": np.arange(100, 140), "user": np.arange(30)}
SEED_TIMES = {"film": np.arange(40) + 30, "user": np.arange(30) + 50}


def everything(subgraph):
    """All bytes of a batch."""
    parts = []
    for name in ("n_id", "stored_id", "edge_index", "positions", "e_id", "batch"):
        of_types = getattr(subgraph, name)
        if of_types is not None:
            parts += [(name, key, each.tobytes()) for key, each in of_types.items()]
    return [*parts, str(subgraph.num_sampled_nodes), str(subgraph.num_sampled_edges)]


def draw(catalogue, kind, *, num_threads=1, sampler=None, batch=5, **call):
    options, timed = options_of(kind)
    if sampler is None:
        sampler = NeighborSampler(
            catalogue[1], [5, 3, 2], num_threads=num_threads, seed=1, **options
        )
    return sampler.sample(
        SEEDS, seed_time=SEED_TIMES if timed else None, epoch=2, batch=batch, **call
    )


@pytest.mark.parametrize("kind", TYPED_KINDS)
def test_every_edge_is_one_of_the_graph_with_its_ends_and_direction(catalogue, kind):
    options, timed = options_of(kind)
    graph, _ = catalogue
    got = draw(catalogue, kind)
    assert sum(edges.shape[1] for edges in got.edge_index.values()) > 1000
    for edge_type, (neighbor, owner) in got.edge_index.items():
        edges = graph.edges[edge_type]
        mine, other = graph.ends(edge_type)
        local = (neighbor, owner) if edges.incoming else (owner, neighbor)
        types = (other, mine) if edges.incoming else (mine, other)
        ends = np.stack([got.n_id[t][at] for t, at in zip(types, local, strict=True)], axis=1)
        np.testing.assert_array_equal(ends, edges.ends[got.e_id[edge_type]])
        if not options.get("replace"):
            pairs = list(zip(owner.tolist(), got.e_id[edge_type].tolist(), strict=True))
            assert len(set(pairs)) == len(pairs)
        if got.batch is not None:
            trees = got.batch[mine][owner]
            np.testing.assert_array_equal(trees, got.batch[other][neighbor])
            if timed and edges.times is not None:
                # users are the first type: their seeds have the first trees
                until = np.concatenate([SEED_TIMES["user"], SEED_TIMES["film"]])[trees]
                times = np.array(edges.times)[got.e_id[edge_type]]
                assert (times < until if options.get("strictly_before") else times <= until).all()
    for node_type, ids in got.n_id.items():
        seeds = SEEDS.get(node_type, np.empty(0, np.int64))
        np.testing.assert_array_equal(ids[: len(seeds)], seeds)
        in_trees = ids if got.batch is None else ids + got.batch[node_type] * 1000
        assert len(np.unique(in_trees)) == len(ids)
        assert sum(got.num_sampled_nodes[node_type]) == len(ids)
        np.testing.assert_array_equal(graph.to_user(node_type, got.stored_id[node_type]), ids)


@pytest.mark.parametrize("kind", TYPED_KINDS)
def test_threads_do_not_change_a_byte(catalogue, kind):
    """Threads of one call, and threads that share a sampler."""
    expected = [everything(draw(catalogue, kind, batch=batch)) for batch in range(8)]
    assert everything(draw(catalogue, kind, num_threads=4, batch=3)) == expected[3]
    options, _ = options_of(kind)
    shared = NeighborSampler(catalogue[1], [5, 3, 2], seed=1, num_threads=2, **options)
    with ThreadPoolExecutor(4) as pool:
        batches = pool.map(
            lambda b: everything(draw(catalogue, kind, sampler=shared, batch=b)), range(8)
        )
        assert list(batches) == expected
    assert expected[0] != expected[1]


@pytest.mark.parametrize("trust", [True, False])
def test_hop_read_ahead_of_any_edge_types_changes_nothing(catalogue, trust):
    lists = catalogue[1]
    for timed in ("uniform", "last until"):
        expected = everything(draw(catalogue, timed))
        for some in ([RATES], [BY, LIKES], list(lists.edges)):
            ahead = [HopReadAhead(trust_mincore=trust) if t in some else None for t in lists.edges]
            got = draw(catalogue, timed, readahead=ahead)
            assert everything(got) == expected


def drop_cached(lists):
    """Takes the files out of the page cache, or skips the test."""
    for edges in lists.edges.values():
        graph = edges.graph
        graph.mapping.advise("release")
        with open(graph.path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if sum(edges.graph.mapping.resident_pages() for edges in lists.edges.values()):
        pytest.skip("the file system keeps its pages")


def test_hop_read_ahead_asks_for_what_is_missing(catalogue):
    """Of the edge types that have it, and not for stored ids below the resident ones."""
    lists = catalogue[1]
    for ahead, expected in [
        ({RATES: HopReadAhead()}, True),
        ({RATES: HopReadAhead(resident_nodes=COUNTS["film"])}, False),
        ({("person", "rev_by", "film"): HopReadAhead()}, True),
        ({BY: None, LIKES: HopReadAhead()}, False),  # no lists of films, without users
    ]:
        drop_cached(lists)
        sampler = NeighborSampler(lists, {"default": [0], **{t: [5] for t in ahead}})
        in_order = [ahead.get(t) for t in lists.edges]
        got = sampler.sample_stored({"film": np.array([0])}, epoch=0, batch=0, readahead=in_order)
        assert (got.pages_missed > 0) == expected


def test_a_pickled_sampler_draws_the_same(catalogue):
    sampler = NeighborSampler(catalogue[1], {"default": [5, 3, 2]}, seed=1, weighted=True)
    draw(catalogue, "by weight", sampler=sampler)  # now it has idle batches
    again = pickle.loads(pickle.dumps(sampler))
    assert everything(draw(catalogue, "by weight", sampler=again)) == everything(
        draw(catalogue, "by weight")
    )


def test_one_batch_of_the_core_serves_graphs_of_all_kinds(catalogue, tmp_path):
    """Its memory is that of the batch before, of more or fewer types."""
    graph, lists = catalogue
    small = TypedGraph({"a": 5}, {("a", "r", "a"): Edges(np.array([[0, 1], [1, 2], [2, 0]]))})
    with closing_all(small.write(tmp_path)) as other:
        large_sampler = NeighborSampler(lists, [5, 3, 2], seed=1, disjoint=True)
        small_sampler = NeighborSampler(other, [2, 2])
        alone = (
            everything(draw(catalogue, "disjoint")),
            everything(small_sampler.sample({"a": [0]})),
        )
        small_sampler._idle = large_sampler._idle
        for _ in range(3):
            assert everything(draw(catalogue, "disjoint", sampler=large_sampler)) == alone[0]
            assert everything(small_sampler.sample({"a": [0]})) == alone[1]


@contextmanager
def closing_all(lists):
    try:
        yield lists
    finally:
        for graph in [edges.graph for edges in lists.edges.values()]:
            graph.close()


def test_no_seeds_make_an_empty_batch(catalogue):
    got = NeighborSampler(catalogue[1], [5, -1]).sample({})
    assert all(ids.size == 0 for ids in got.n_id.values())
    assert all(edges.shape == (2, 0) for edges in got.edge_index.values())
    assert got.num_sampled_nodes == {node_type: [0, 0, 0] for node_type in COUNTS}


def test_files_without_edge_ids_have_none_in_the_batch(tmp_path):
    graph = TypedGraph({"a": 3}, {("a", "r", "a"): Edges(np.array([[0, 1], [1, 2]]))})
    with closing_all(graph.write(tmp_path, leave_out="edge_ids")) as lists:
        got = NeighborSampler(lists, [2]).sample({"a": [1]})
        assert got.e_id == {("a", "r", "a"): None}
        assert got.positions["a", "r", "a"].tolist() == [0]


# ---- graphs without types


@pytest.mark.parametrize("kind", ["uniform", "disjoint, induced", "until"])
def test_subgraphs_know_the_stored_positions_of_their_edges(tmp_path, kind):
    options, timed = options_of(kind)
    edges = files.random_edges(50, 400)
    files.write_graph(tmp_path / "g.gl", edges, 50, order="hot", times=np.arange(400))
    with gz.Graph(tmp_path / "g.gl") as graph:
        sampler = gz.NeighborSampler(graph, [4, 3], **options)
        got = sampler.sample([1, 2, 3], seed_time=[200, 300, 399] if timed else None)
        neighbors = graph.indices[got.positions]
        np.testing.assert_array_equal(got.stored_id[got.edge_index[0]], neighbors)
        owners = np.searchsorted(graph.indptr, got.positions, side="right") - 1
        np.testing.assert_array_equal(got.stored_id[got.edge_index[1]], owners)
        assert "positions" not in got.optional_arrays
        assert got.positions.size > 10
        del neighbors
