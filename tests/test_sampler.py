"""`NeighborSampler`: every kind against the naive sampler, and by the properties that define it."""

from __future__ import annotations

import itertools

import files
import numpy as np
import pytest
import reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinds import KINDS, options_of

import graphzero as gz

pytestmark = pytest.mark.core  # under AddressSanitizer, too
ARRAYS = ("n_id", "edge_index", "e_id", "stored_id", "batch")


def assert_equal_batches(got, expected):
    for name, value in expected.items():
        np.testing.assert_array_equal(getattr(got, name), value, err_msg=name)


@st.composite
def cases(draw):
    num_nodes = draw(st.integers(1, 25))
    node, time = st.integers(0, num_nodes - 1), st.integers(-3, 3)
    edges = draw(st.lists(st.tuples(node, node), max_size=80))
    seeds = draw(st.lists(node, max_size=10))
    return {
        "num_nodes": num_nodes,
        "edges": np.array(edges, dtype=np.int64).reshape(-1, 2),
        "times": [draw(time) for _ in edges],
        "weights": [draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])) for _ in edges],
        "seeds": np.array(seeds, dtype=np.int64),
        "seed_time": [draw(time) for _ in seeds],
        "fanouts": draw(
            st.lists(st.one_of(st.just(-1), st.integers(1, 6)), min_size=1, max_size=3)
        ),
        "directed": draw(st.booleans()),
        "order": draw(st.sampled_from(["input", "hot"])),
        "numbers": [draw(st.integers(0, 2**40)) for _ in range(3)],
    }


def check_properties(case, naive, batch, *, replace):
    """What must hold whatever is drawn uniformly."""
    edges, fanouts, seeds = case["edges"], case["fanouts"], case["seeds"]
    sources, targets = batch.n_id[batch.edge_index]
    rows = edges[batch.e_id]
    forwards = (rows == np.stack([targets, sources], axis=1)).all(axis=1)
    backwards = (rows == np.stack([sources, targets], axis=1)).all(axis=1)
    assert (forwards if case["directed"] else forwards | backwards).all()
    assert batch.n_id[: batch.batch_size].tolist() == seeds.tolist()
    beyond = batch.n_id[batch.batch_size :].tolist()
    assert len(beyond) == len(set(beyond))
    assert not set(beyond) & set(seeds.tolist())
    assert sum(batch.num_sampled_nodes) == len(batch.n_id)
    assert sum(batch.num_sampled_edges) == batch.edge_index.shape[1]

    degrees = np.array([len(row) for row in naive.rows], dtype=np.int64)
    degrees = degrees[naive.node_rank]
    begin_node = begin_edge = 0
    for fanout, num_nodes, num_edges in zip(
        fanouts, batch.num_sampled_nodes, batch.num_sampled_edges, strict=False
    ):
        expanded = batch.n_id[begin_node : begin_node + num_nodes]
        got = np.bincount(
            batch.edge_index[1, begin_edge : begin_edge + num_edges] - begin_node,
            minlength=num_nodes,
        )
        degree = degrees[expanded]
        if fanout < 0:
            expected = degree
        elif replace:
            expected = np.where(degree > 0, fanout, 0)
        else:
            expected = np.minimum(degree, fanout)
        assert got[:num_nodes].tolist() == expected.tolist()
        begin_node, begin_edge = begin_node + num_nodes, begin_edge + num_edges
    if not replace:
        pairs = list(zip(batch.edge_index[1].tolist(), batch.e_id.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize("kind", KINDS)
@given(case=cases())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_kind_equals_the_naive_one(tmp_path_factory, kind, case):
    options, timed = options_of(kind)
    path = tmp_path_factory.mktemp("hypothesis") / "g.gl"
    naive = files.write_graph(
        path,
        case["edges"],
        case["num_nodes"],
        directed=case["directed"],
        order=case["order"],
        weights=case["weights"],
        times=case["times"],
    )
    seed, epoch, number = case["numbers"]
    times = case["seed_time"] if timed else None
    sampler = gz.NeighborSampler(
        gz.Graph(path), case["fanouts"], seed=seed, num_threads=1, **options
    )
    got = sampler.sample(case["seeds"], seed_time=times, epoch=epoch, batch=number)
    numbers = {"seed": seed, "epoch": epoch, "batch": number}
    expected = reference.sample(
        naive, case["seeds"], case["fanouts"], times=times, **numbers, **options
    )
    assert_equal_batches(got, expected)
    if not {*options} - {"replace"} and not timed:
        check_properties(case, naive, got, replace=options.get("replace", False))
    path.unlink()


def test_larger_batches_equal_the_naive_ones(small):
    graph, naive, _ = small
    seeds = np.random.default_rng(0).permutation(300)[:64]
    batch = gz.NeighborSampler(graph, [15, 10, 5], seed=11).sample(seeds, epoch=2, batch=3)
    expected = reference.sample(naive, seeds, [15, 10, 5], seed=11, epoch=2, batch=3)
    assert_equal_batches(batch, expected)


def test_repeated_seeds_each_get_their_neighbourhood(tmp_path):
    files.write_graph(tmp_path / "g.gl", [[0, 1], [1, 2], [1, 3]], 4)
    batch = gz.NeighborSampler(gz.Graph(tmp_path / "g.gl"), [-1]).sample([1, 0, 1])
    assert batch.n_id.tolist() == [1, 0, 1, 2, 3]
    assert batch.edge_index.tolist() == [[3, 4, 0, 3, 4], [0, 0, 1, 2, 2]]
    assert batch.batch_size == 3


def test_draws_differ_between_batches_epochs_and_hops(small):
    graph, _, _ = small
    sampler = gz.NeighborSampler(graph, [2])
    seeds = np.arange(300)
    drawn = {
        sampler.sample(seeds, epoch=epoch, batch=batch).e_id.tobytes()
        for epoch in range(3)
        for batch in range(3)
    }
    assert len(drawn) == 9


def test_bad_sampler_options_are_named(small):
    graph, _, _ = small
    with pytest.raises(ValueError, match="at most"):
        gz.NeighborSampler(graph, [1] * 99)
    sampler = gz.NeighborSampler(graph, [2])
    with pytest.raises(ValueError, match="epoch must be at least 0"):
        sampler.sample([0], epoch=-1)


NODES, EDGES = 2_000, 40_000


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """(graph, edges, times): a graph with weights and times."""
    rng = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("history") / "g.gl"
    edges = files.random_edges(NODES, EDGES)
    times = rng.integers(0, 1000, EDGES)
    weights = rng.random(EDGES)
    files.write_graph(path, edges, NODES, order="hot", weights=weights, times=times)
    return gz.Graph(path), edges, times


@pytest.mark.parametrize("kind", KINDS)
def test_threads_do_not_change_a_byte_of_any_kind(history, kind):
    options, timed = options_of(kind)
    seeds = np.random.default_rng(0).permutation(NODES)[:1500]
    times = np.arange(1500) if timed else None
    one, two, four = (
        gz.NeighborSampler(history[0], [10, 5], num_threads=n, **options).sample(
            seeds, seed_time=times, epoch=1, batch=5
        )
        for n in (1, 2, 4)
    )
    assert one.edge_index.shape[1] > 1000
    for name in ARRAYS:
        expected = getattr(one, name)
        for other in (two, four):
            if expected is None:
                assert getattr(other, name) is None
            else:
                assert getattr(other, name).tobytes() == expected.tobytes()


# ---- LABOR


def test_labor_meets_its_fanout_on_average(history):
    """E[edges of a node] = min(degree, fanout), each neighbour as often as the others."""
    graph, fanout, batches = history[0], 5, 400
    degree = graph.degree(np.arange(NODES))
    node = int(np.argmax(degree))
    assert degree[node] > 3 * fanout
    sampler = gz.NeighborSampler(graph, [fanout], labor=True, num_threads=1)
    counts = [sampler.sample([node], batch=i).edge_index.shape[1] for i in range(batches)]
    # Binomial(degree, fanout / degree): five standard errors of the mean.
    assert abs(np.mean(counts) - fanout) < 5 * np.sqrt(fanout / batches)
    assert np.var(counts) > 0.5 * fanout
    few = int(np.flatnonzero((degree > 0) & (degree <= fanout))[0])
    assert sampler.sample([few]).edge_index.shape[1] == degree[few]


def test_labor_batches_have_fewer_distinct_nodes(history):
    seeds = np.arange(500)
    plain, labor = (
        np.mean(
            [
                gz.NeighborSampler(history[0], [5], labor=kind).sample(seeds, batch=i).n_id.shape[0]
                for i in range(20)
            ]
        )
        for kind in (False, True)
    )
    assert labor < 0.8 * plain


# ---- dependent batches


def test_dependent_batches_share_all_but_one_draw_in_n(history):
    seeds, fanout = np.arange(NODES), 3
    degree = history[0].degree(seeds)
    free = degree > 3 * fanout  # those whose draws can differ

    def drawn(sampler, batch):
        edges = history[0].num_edges
        got = sampler.sample(seeds, batch=batch)
        sets = [set() for _ in seeds]
        for target, edge in zip(got.edge_index[1].tolist(), got.e_id.tolist(), strict=True):
            sets[target].add(edge)
        assert all(edge < edges for edge in got.e_id)
        return np.array([hash(frozenset(one)) for one in sets])[free]

    sampler = gz.NeighborSampler(history[0], [fanout], batch_dependency=4)
    sets = [drawn(sampler, batch) for batch in range(13)]
    for one, next_ in itertools.pairwise(sets):
        assert 0.68 < np.mean(one == next_) < 0.82  # three in four keep theirs
    for one, later in zip(sets, sets[4:], strict=False):
        assert np.mean(one == later) < 0.01  # and nobody for longer than four batches
    alone = gz.NeighborSampler(history[0], [fanout])
    assert np.mean(drawn(alone, 0) == drawn(alone, 1)) < 0.01


# ---- times


def ends_of(got, edges):
    """(times' edge ids, tree) of each sampled edge; its ends are checked."""
    rows = edges[got.e_id]
    np.testing.assert_array_equal(rows[:, 0], got.n_id[got.edge_index[1]])
    np.testing.assert_array_equal(rows[:, 1], got.n_id[got.edge_index[0]])
    np.testing.assert_array_equal(got.batch[got.edge_index[0]], got.batch[got.edge_index[1]])
    return got.e_id, got.batch[got.edge_index[1]]


@pytest.mark.parametrize("strictly_before", [False, True])
@pytest.mark.parametrize("strategy", ["uniform", "last"])
@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_no_edge_of_the_future(history, strictly_before, strategy, subgraph_type):
    graph, edges, times = history
    rng = np.random.default_rng(1)
    seeds, seed_time = rng.integers(0, NODES, 300), rng.integers(0, 1000, 300)
    got = gz.NeighborSampler(
        graph,
        [5, 5],
        temporal_strategy=strategy,
        strictly_before=strictly_before,
        subgraph_type=subgraph_type,
    ).sample(seeds, seed_time=seed_time)
    edge, tree = ends_of(got, edges)
    assert len(edge) > 3000
    allowed = times[edge] < seed_time[tree] if strictly_before else times[edge] <= seed_time[tree]
    assert allowed.all()
    np.testing.assert_array_equal(got.batch[:300], np.arange(300))


def test_the_last_are_the_most_recent(history):
    graph, edges, times = history
    got = gz.NeighborSampler(graph, [4], temporal_strategy="last").sample(
        np.arange(100), seed_time=np.full(100, 500)
    )
    for node in range(100):
        mine = np.sort(times[(edges[:, 0] == node) & (times <= 500)])[::-1][:4]
        drawn = times[got.e_id[got.edge_index[1] == node]]
        assert drawn.tolist() == mine.tolist()  # most recent first


def test_trees_with_different_times_do_not_leak_through_a_shared_node(tmp_path):
    # 0 -> 2 -> 3: the seed 1 may see 2 -> 3, the seed 0 is before it
    files.write_graph(tmp_path / "g.gl", [[0, 2], [1, 2], [2, 3]], 4, times=[0, 0, 9])
    got = gz.NeighborSampler(gz.Graph(tmp_path / "g.gl"), [-1, -1]).sample(
        [0, 1], seed_time=[5, 10]
    )
    assert got.n_id.tolist() == [0, 1, 2, 2, 3]
    assert got.batch.tolist() == [0, 1, 0, 1, 1]
    assert got.edge_index.tolist() == [[2, 3, 4], [0, 1, 3]]


# ---- trees and induced subgraphs


def test_disjoint_trees_share_no_node_and_draw_on_their_own(history):
    got = gz.NeighborSampler(history[0], [3, 3], disjoint=True).sample(np.zeros(50, dtype=int))
    ends_of(got, history[1])
    pairs = np.stack([got.batch, got.n_id])
    assert np.unique(pairs, axis=1).shape[1] == pairs.shape[1]
    first = [tuple(got.e_id[got.edge_index[1] == seed]) for seed in range(50)]
    assert len(set(first)) > 40


def test_induced_subgraphs_have_every_edge_between_their_nodes(history):
    graph, edges, _ = history
    got = gz.NeighborSampler(graph, [5], subgraph_type="induced").sample(np.arange(200))
    assert got.num_sampled_edges is None
    inside = np.isin(edges[:, 0], got.n_id) & np.isin(edges[:, 1], got.n_id)
    assert sorted(got.e_id.tolist()) == np.flatnonzero(inside).tolist()
    np.testing.assert_array_equal(edges[got.e_id, 0], got.n_id[got.edge_index[1]])
    np.testing.assert_array_equal(edges[got.e_id, 1], got.n_id[got.edge_index[0]])


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labor": True, "replace": True}, "labor excludes replace"),
        ({"labor": True, "weighted": True}, "labor excludes weighted"),
        ({"labor": True, "disjoint": True}, "labor excludes disjoint"),
        ({"temporal_strategy": "last", "replace": True}, "replace has no meaning"),
        ({"batch_dependency": 2, "disjoint": True}, "batch_dependency excludes disjoint"),
        ({"batch_dependency": 0}, "batch_dependency must be at least 1"),
        ({"temporal_strategy": "first"}, "temporal_strategy must be one of"),
        ({"subgraph_type": "bidirectional"}, "subgraph_type must be one of"),
    ],
)
def test_options_that_exclude_each_other_are_named(history, options, message):
    with pytest.raises(ValueError, match=message):
        gz.NeighborSampler(history[0], [2], **options)


def test_unknown_options_are_refused(history):
    with pytest.raises(TypeError, match="labour"):
        gz.NeighborSampler(history[0], [2], labour=True)


@pytest.mark.parametrize(
    ("options", "times", "message"),
    [
        ({"weighted": True}, [1, 2], "weighted sampling does not support times"),
        ({"labor": True}, [1, 2], "labor sampling does not support times"),
        ({"batch_dependency": 2}, [1, 2], "batch_dependency excludes times"),
        ({}, [1], "a time for each of the 2 seeds"),
        ({}, [1.5, 2.5], "must be integers"),
        ({}, np.array([1, 2**63], dtype=np.uint64), "does not fit 63 bits"),
    ],
)
def test_times_that_cannot_be_had_are_refused(history, options, times, message):
    sampler = gz.NeighborSampler(history[0], [2], **options)
    with pytest.raises(ValueError, match=message):
        sampler.sample([0, 1], seed_time=times)


def test_graphs_without_timestamps_are_refused(tmp_path):
    files.write_graph(tmp_path / "g.gl", [[0, 1]], 2)
    sampler = gz.NeighborSampler(gz.Graph(tmp_path / "g.gl"), [2])
    with pytest.raises(ValueError, match="has no timestamps to sample by"):
        sampler.sample([0], seed_time=[1])


@pytest.mark.parametrize(
    ("name", "value"), [("strictly_before", True), ("temporal_strategy", "last")]
)
def test_options_of_times_without_times_are_refused(history, name, value):
    graph = history[0]
    ds = gz.Dataset(graph)
    needs = f"{name}={value!r} needs a time for each seed"
    with pytest.raises(ValueError, match=f"{needs}: give input_time, or leave {name} out"):
        gz.NeighborDataset(ds, [1, 2], [2], **{name: value})
    with pytest.raises(ValueError, match=f"{needs}: give edge_label_time, or leave {name} out"):
        gz.LinkNeighborDataset(ds, [[1], [2]], [2], **{name: value})
    sampler = gz.NeighborSampler(graph, [2], **{name: value})
    with pytest.raises(ValueError, match=f"{needs}: give seed_time, or leave {name} out"):
        sampler.sample([1, 2])
