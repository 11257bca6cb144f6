"""`Graph`: degrees, neighbours, one hop and walks, against the naive versions."""

from __future__ import annotations

import files
import numpy as np
import pytest
import reference

import graphzero as gz

pytestmark = pytest.mark.core  # under AddressSanitizer, too

torch = pytest.importorskip("torch")


def user_lists(edges, num_nodes):
    lists = [[] for _ in range(num_nodes)]
    for source, target in edges.tolist():
        lists[source].append(target)
    return [sorted(row) for row in lists]


def test_neighbors_and_degrees_are_the_users(small):
    graph, _, edges = small
    lists = user_lists(edges, 300)
    assert graph.degree(np.arange(300)).tolist() == [len(row) for row in lists]
    for node in range(300):
        assert graph.neighbors(node).tolist() == lists[node]
        assert graph.degree(node) == len(lists[node])
    assert (graph.num_nodes, graph.num_edges, graph.num_input_edges) == (300, 4000, 4000)


def test_weights_times_and_wide_ids(tmp_path, order):
    edges = files.random_edges(40, 200)
    weights, times = np.arange(200) / 8, np.arange(200) * 10**9
    naive = files.write_graph(
        tmp_path / "g.gl", edges, 40, order=order, weights=weights, times=times, wide=True
    )
    graph = gz.Graph(tmp_path / "g.gl")
    np.testing.assert_array_equal(graph.weights, naive.column(2, np.float32))
    np.testing.assert_array_equal(graph.times, naive.column(3, np.int64))
    assert graph.indices.dtype == np.uint64
    expected = reference.sample(naive, range(40), [3], seed=5)
    sampled = graph.sample_neighbors(np.arange(40), 3, seed=5)
    np.testing.assert_array_equal(sampled.e_id, expected["e_id"])


@pytest.mark.parametrize(
    ("fanout", "replace"),
    [*((f, False) for f in (1, 4, 30, 10_000, -1)), *((f, True) for f in (1, 4, 30, -1))],
)
def test_one_hop_equals_the_naive_one(small, fanout, replace):
    graph, naive, edges = small
    seeds = np.random.default_rng(3).integers(0, 300, 700)
    sampled = graph.sample_neighbors(seeds, fanout, replace=replace, seed=9)
    expected = reference.sample(naive, seeds, [fanout], replace=replace, seed=9)
    np.testing.assert_array_equal(sampled.indices, expected["n_id"][expected["edge_index"][0]])
    np.testing.assert_array_equal(sampled.e_id, expected["e_id"])
    np.testing.assert_array_equal(
        np.repeat(np.arange(700), np.diff(sampled.indptr)), expected["edge_index"][1]
    )
    # ... and by what it must be, whatever the naive version says
    targets = np.repeat(seeds, np.diff(sampled.indptr))
    np.testing.assert_array_equal(edges[sampled.e_id], np.stack([targets, sampled.indices], 1))


@pytest.mark.parametrize("options", [{}, {"restart": 0.2}, {"p": 0.5, "q": 2.0}])
def test_many_walks_a_node_are_distinct(tmp_path, options):
    edges = np.stack([np.repeat(np.arange(50), 49), np.tile(np.arange(49), 50)], axis=1)
    files.write_graph(tmp_path / "g.gl", edges, 50)
    graph = gz.Graph(tmp_path / "g.gl")
    nodes = np.array([7, 3, 7])
    walks = graph.random_walk(nodes, 12, walks_per_node=10, seed=4, **options)
    assert walks[:, 0].tolist() == [7] * 10 + [3] * 10 + [7] * 10
    assert len({tuple(walk) for walk in walks.tolist()}) == 30
    repeated = graph.random_walk(np.repeat(nodes, 10), 12, seed=4, num_threads=2, **options)
    np.testing.assert_array_equal(walks, repeated)
    others = graph.random_walk(nodes, 12, walks_per_node=10, seed=5, **options)
    assert not {tuple(walk) for walk in walks.tolist()} & {tuple(walk) for walk in others.tolist()}
    assert graph.random_walk([], 12, walks_per_node=10**18).shape == (0, 13)


def test_more_walks_than_memory_holds_are_refused(small):
    with pytest.raises(
        MemoryError,
        match=r"length=3 of 9,223,372,036,854,775,808 walks \(starts times walks_per_node",
    ):
        small[0].random_walk([0, 1], 3, walks_per_node=2**62)


def test_ids_of_any_integer_type_are_taken(small):
    graph, _, edges = small
    expected = [len(row) for row in (user_lists(edges, 300)[node] for node in (3, 1, 2))]
    for nodes in (
        *((3, 1, 2), range(3, 4), torch.tensor([3, 1, 2], dtype=torch.int32)),
        *(np.array([3, 1, 2], np.int8), np.array([3, 0, 1, 0, 2], np.uint64)[::2]),
    ):
        assert graph.degree(nodes).tolist() == expected[: len(nodes)]


def test_no_ids_give_empty_results(small):
    graph, _, _ = small
    assert graph.degree([]).shape == (0,)
    assert graph.random_walk([], 4).shape == (0, 5)
    sampled = graph.sample_neighbors(np.empty(0, np.int64), 4)
    assert (sampled.indptr.tolist(), sampled.indices.shape) == ([0], (0,))


BAD_IDS = [
    ([-1], IndexError, r"\[0\] = -1 is out of range"),
    ([0, 300], IndexError, r"\[1\] = 300 is out of range"),
    (np.array([5, 2**64 - 1], np.uint64), IndexError, "18446744073709551615"),
    ([0.5], ValueError, "must be integers, not float64"),
    (["1"], ValueError, "must be integers"),
    ([2**70], ValueError, "must be integers, not object"),
    ([True, False], ValueError, "boolean mask"),
    ([[1, 2]], ValueError, "one-dimensional"),
]


@pytest.mark.parametrize(("nodes", "error", "part"), BAD_IDS)
def test_bad_ids_are_named(small, nodes, error, part):
    graph, _, _ = small
    calls = [
        lambda: graph.degree(nodes),
        lambda: graph.sample_neighbors(nodes, 3),
        lambda: graph.random_walk(nodes, 3),
        lambda: gz.NeighborSampler(graph, [3]).sample(nodes),
    ]
    calls += [lambda: graph.neighbors(nodes[0])][: len(nodes) == 1]
    for call in calls:
        with pytest.raises(error, match=part):
            call()


@pytest.mark.parametrize("fanout", [0, -2, 1.5, "3", None, True])
def test_bad_fanouts_are_named(small, fanout):
    with pytest.raises(ValueError, match="fanout must be a positive integer, or -1"):
        small[0].sample_neighbors([0], fanout)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"length": -3}, "length must be at least 1"),
        ({"length": 2.5}, "length must be an integer"),
        ({"walks_per_node": 0}, "walks_per_node must be at least 1"),
        ({"walks_per_node": 10**30}, "walks_per_node must be at most"),
        ({"p": 0.0}, "p must be a positive number"),
        ({"q": float("nan")}, "q must be a positive number"),
        ({"restart": 1}, "restart must be a probability below 1"),
        ({"num_threads": 0}, "num_threads must be at least 1"),
        ({"seed": 0.5}, "seed must be an integer"),
    ],
)
def test_bad_walk_options_are_named(small, options, part):
    graph, _, _ = small
    with pytest.raises(ValueError, match=part):
        graph.random_walk([0], **{"length": 3, **options})
