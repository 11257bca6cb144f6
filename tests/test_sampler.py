"""`NeighborSampler`: every kind against the naive ones, and by the properties that define it."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import files
import numpy as np
import pytest
import reference
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kinds import KINDS, options_of
from typed_graphs import Edges, TypedGraph

import graphzero as gz
from graphzero.sampling.sampler import HopReadAhead, NeighborSampler

pytestmark = pytest.mark.core  # under AddressSanitizer, too

INDUCED = [name for name in KINDS if KINDS[name].get("subgraph_type") == "induced"]
TYPED_KINDS = [name for name in KINDS if name not in INDUCED]
FIXTURE = [HealthCheck.function_scoped_fixture]
NUMBERS = st.fixed_dictionaries(dict.fromkeys(("seed", "epoch", "batch"), st.integers(0, 2**40)))
TIME, WEIGHT = st.integers(-3, 3), st.sampled_from([0.0, 0.5, 1.0, 3.0])


def of_each(draw, strategy, items):
    return [draw(strategy) for _ in items]


def some_ends(draw, num_sources, num_targets):
    pair = st.tuples(st.integers(0, num_sources - 1), st.integers(0, num_targets - 1))
    return np.array(draw(st.lists(pair, max_size=60)), dtype=np.int64).reshape(-1, 2)


@st.composite
def cases(draw):
    num_nodes = draw(st.integers(1, 25))
    ends = some_ends(draw, num_nodes, num_nodes)
    seeds = draw(st.lists(st.integers(0, num_nodes - 1), max_size=10))
    fanout = st.one_of(st.just(-1), st.integers(1, 6))
    return {
        "graph": {
            "edges": ends,
            "num_nodes": num_nodes,
            "directed": draw(st.booleans()),
            "order": draw(st.sampled_from(["input", "hot"])),
            "times": of_each(draw, TIME, ends),
            "weights": of_each(draw, WEIGHT, ends),
        },
        "seeds": np.array(seeds, dtype=np.int64),
        "times": of_each(draw, TIME, seeds),
        "fanouts": draw(st.lists(fanout, min_size=1, max_size=3)),
        "numbers": draw(NUMBERS),
    }


@st.composite
def typed_graphs(draw):
    types = "abc"[: draw(st.integers(1, 3))]
    num_nodes = {t: draw(st.integers(1, 12)) for t in types}
    edge_type = st.tuples(st.sampled_from(types), st.sampled_from("rs"), st.sampled_from(types))
    edges = {}
    for source, relation, target in draw(st.lists(edge_type, min_size=1, max_size=5, unique=True)):
        ends = some_ends(draw, num_nodes[source], num_nodes[target])
        edges[source, relation, target] = Edges(
            ends,
            of_each(draw, WEIGHT, ends) if draw(st.booleans()) else None,
            of_each(draw, TIME, ends) if draw(st.booleans()) else None,
            draw(st.booleans()),
        )
    ranks = {t: np.array(draw(st.permutations(range(n)))) for t, n in num_nodes.items()}
    return TypedGraph(num_nodes, edges, ranks)


@st.composite
def typed_cases(draw):
    graph = draw(typed_graphs())
    seeds, times = {}, {}
    for t in draw(st.lists(st.sampled_from(list(graph.num_nodes)), unique=True)):
        seeds[t] = draw(st.lists(st.integers(0, graph.num_nodes[t] - 1), max_size=6))
        times[t] = of_each(draw, TIME, seeds[t])
    fanout, hops = st.integers(-1, 6), range(draw(st.integers(1, 3)))
    fanouts = {t: of_each(draw, fanout, hops) for t in graph.edges}
    numbers = draw(NUMBERS)
    return {"graph": graph, "seeds": seeds, "times": times, "fanouts": fanouts, "numbers": numbers}


def check_equal(lists, naive, twin, case, kind):
    """The same arrays as the naive sampler's."""
    options, timed = options_of(kind)
    times, numbers = case["times"] if timed else None, dict(case["numbers"])
    expected = twin(naive, case["seeds"], case["fanouts"], times=times, **numbers, **options)
    sampler = NeighborSampler(
        lists, case["fanouts"], seed=numbers.pop("seed"), num_threads=1, **options
    )
    got = sampler.sample(case["seeds"], seed_time=times, **numbers)
    for name, value in expected.items():
        actual = getattr(got, name)
        if not isinstance(value, dict):
            np.testing.assert_array_equal(actual, value, err_msg=name)
            continue
        assert list(actual) == list(value), name
        for key, each in value.items():
            np.testing.assert_array_equal(actual[key], each, err_msg=f"{name}[{key}]")


@pytest.mark.parametrize("kind", KINDS)
@given(case=cases())
@settings(max_examples=40, deadline=None, suppress_health_check=FIXTURE)
def test_every_kind_equals_the_naive_one(tmp_path_factory, kind, case):
    path = tmp_path_factory.mktemp("hypothesis") / "g.gl"
    naive = files.write_graph(path, **case["graph"])
    check_equal(gz.Graph(path), naive, reference.sample, case, kind)
    path.unlink()


@pytest.mark.parametrize("kind", TYPED_KINDS)
@given(case=typed_cases())
@settings(max_examples=60, deadline=None, suppress_health_check=FIXTURE)
def test_every_kind_equals_the_naive_one_of_typed_graphs(tmp_path_factory, kind, case):
    options, timed = options_of(kind)
    graph = case["graph"]
    needed = "times" if timed else "weights" if options.get("weighted") else None
    if needed:  # without them it is refused: see test_typed_refusals
        assume(any(getattr(edges, needed) is not None for edges in graph.edges.values()))
    lists = graph.write(tmp_path_factory.mktemp("typed"))
    check_equal(lists, graph, reference.sample_types, case, kind)


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


FANOUTS = [5, 3, 2]


def draw(catalogue, kind, *, num_threads=1, sampler=None, batch=5, **call):
    options, timed = options_of(kind)
    if sampler is None:
        sampler = NeighborSampler(catalogue[1], FANOUTS, num_threads=num_threads, seed=1, **options)
    return sampler.sample(
        SEEDS, seed_time=SEED_TIMES if timed else None, epoch=2, batch=batch, **call
    )


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


@pytest.mark.parametrize(
    ("ahead", "misses"),
    [
        ({RATES: HopReadAhead()}, True),
        ({RATES: HopReadAhead(trust_mincore=False)}, None),  # it may not know
        ({RATES: HopReadAhead(resident_nodes=COUNTS["film"])}, False),
        ({("person", "rev_by", "film"): HopReadAhead()}, True),
        ({BY: None, LIKES: HopReadAhead()}, False),  # no lists of films, without users
    ],
)
def test_hop_read_ahead_asks_for_what_is_missing_and_changes_nothing(catalogue, ahead, misses):
    """Of the edge types that have it, and not for stored ids below the resident ones."""
    lists = catalogue[1]
    in_order = [ahead.get(t) for t in lists.edges]
    for timed in ("uniform", "last until"):
        got = draw(catalogue, timed, readahead=in_order)
        assert everything(got) == everything(draw(catalogue, timed))
    for edges in lists.edges.values():
        edges.graph.mapping.advise("release")
        files.drop_from_cache(edges.graph.path)
    if sum(edges.graph.mapping.resident_pages() for edges in lists.edges.values()):
        pytest.skip("the file system keeps its pages")
    sampler = NeighborSampler(lists, {"default": [0], **{t: [5] for t in ahead}})
    got = sampler.sample_stored({"film": np.array([0])}, epoch=0, batch=0, readahead=in_order)
    assert misses in (None, got.pages_missed > 0)


def test_of_long_lists_only_pages_of_draws_are_requested(tmp_path):
    """Of 80 pages of neighbours and 160 of edge ids, and the same is drawn."""
    edges = [[0, target] for target in range(1, 80_000)]
    files.write_graph(tmp_path / "g.gl", edges, 80_000)
    files.drop_from_cache(tmp_path / "g.gl")
    sampler = NeighborSampler(gz.Graph(tmp_path / "g.gl"), [5])
    got = sampler.sample([0], readahead=[HopReadAhead(trust_mincore=False)])
    assert 2 <= got.pages_missed <= 20
    np.testing.assert_array_equal(got.e_id, sampler.sample([0]).e_id)


def test_a_pickled_sampler_draws_the_same(catalogue):
    sampler = NeighborSampler(catalogue[1], {"default": [5, 3, 2]}, seed=1, weighted=True)
    draw(catalogue, "by weight", sampler=sampler)  # now it has idle batches
    again = pickle.loads(pickle.dumps(sampler))
    assert everything(draw(catalogue, "by weight", sampler=again)) == everything(
        draw(catalogue, "by weight")
    )


def test_files_without_edge_ids_have_none_in_the_batch(tmp_path):
    graph = TypedGraph({"a": 3}, {("a", "r", "a"): Edges(np.array([[0, 1], [1, 2]]))})
    assert graph.write(tmp_path).edges["a", "r", "a"].graph.has_edge_ids
    without = graph.write(tmp_path, leave_out="edge_ids")
    assert not without.edges["a", "r", "a"].graph.has_edge_ids
    got = NeighborSampler(without, [2]).sample({"a": [1]})
    assert got.e_id == {("a", "r", "a"): None}
    assert got.positions["a", "r", "a"].tolist() == [0]


# ---- graphs without types


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """(graph, edges): a graph with weights and times."""
    rng, edges = np.random.default_rng(7), files.random_edges(2000, 40_000)
    columns = {"weights": rng.random(40_000), "times": rng.integers(0, 1000, 40_000)}
    path = tmp_path_factory.mktemp("history") / "g.gl"
    files.write_graph(path, edges, 2000, order="hot", **columns)
    return gz.Graph(path), edges


@pytest.mark.parametrize("kind", ["uniform", "disjoint, induced", "until"])
def test_subgraphs_know_the_stored_positions_of_their_edges(history, kind):
    (graph, _), (options, timed) = history, options_of(kind)
    times = [200, 300, 399] if timed else None
    got = NeighborSampler(graph, [4, 3], **options).sample([1, 2, 3], seed_time=times)
    np.testing.assert_array_equal(got.stored_id[got.edge_index[0]], graph.indices[got.positions])
    owners = np.searchsorted(graph.indptr, got.positions, side="right") - 1
    np.testing.assert_array_equal(got.stored_id[got.edge_index[1]], owners)
    assert got.positions.size > 10


# ---- what is refused

TOO_LARGE = np.array([1, 2**63], dtype=np.uint64)


@pytest.mark.parametrize(
    ("options", "call", "message"),
    [
        ({"labor": True, "replace": True}, {}, "labor excludes replace"),
        ({"labor": True, "weighted": True}, {}, "labor excludes replace, weighted"),
        ({"labor": True, "disjoint": True}, {}, "labor excludes .* and disjoint"),
        ({"temporal_strategy": "last", "replace": True}, {}, "replace has no meaning"),
        ({"batch_dependency": 2, "disjoint": True}, {}, "batch_dependency excludes disjoint"),
        ({"batch_dependency": 0}, {}, "batch_dependency must be at least 1"),
        ({"temporal_strategy": "first"}, {}, "temporal_strategy must be one of"),
        ({"subgraph_type": "bidirectional"}, {}, "subgraph_type must be one of"),
        ({"fanouts": [1] * 99}, {}, "at most"),
        ({}, {"epoch": -1}, "epoch must be at least 0"),
        ({"weighted": True}, {"seed_time": [1, 2]}, "weighted sampling does not support times"),
        ({"labor": True}, {"seed_time": [1, 2]}, "labor sampling does not support times"),
        ({"batch_dependency": 2}, {"seed_time": [1, 2]}, "batch_dependency excludes times"),
        ({}, {"seed_time": [1]}, "a time for each of the 2 seeds"),
        ({}, {"seed_time": [1.5, 2.5]}, "must be integers"),
        ({}, {"seed_time": TOO_LARGE}, "does not fit 63 bits"),
    ],
)
def test_what_cannot_be_sampled_is_named(history, options, call, message):
    with pytest.raises(ValueError, match=message):
        gz.NeighborSampler(history[0], **{"fanouts": [2], **options}).sample([0, 1], **call)


def test_unknown_options_and_times_of_a_graph_without_any_are_refused(small):
    with pytest.raises(TypeError, match="labour"):
        gz.NeighborSampler(small[0], [2], labour=True)
    with pytest.raises(ValueError, match="has no timestamps to sample by"):
        gz.NeighborSampler(small[0], [2]).sample([0], seed_time=[1])


@pytest.mark.parametrize(
    ("name", "value"), [("strictly_before", True), ("temporal_strategy", "last")]
)
def test_options_of_times_without_times_are_refused(history, name, value):
    graph, option = history[0], {name: value}
    ds = gz.Dataset(graph)
    for argument, sample in {
        "input_time": lambda: gz.NeighborDataset(ds, [1, 2], [2], **option),
        "edge_label_time": lambda: gz.LinkNeighborDataset(ds, [[1], [2]], [2], **option),
        "seed_time": lambda: gz.NeighborSampler(graph, [2], **option).sample([1, 2]),
    }.items():
        message = f"{name}={value!r} needs a time for each seed: give {argument}, or leave {name}"
        with pytest.raises(ValueError, match=message):
            sample()
