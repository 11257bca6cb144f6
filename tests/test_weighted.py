"""Sampling and walking by the weights of the edges, and walks that restart."""

from __future__ import annotations

import itertools
import math

import files
import numpy as np
import pytest
import reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero.format import read_file

WEIGHTS = {
    "uneven": lambda rng, n: rng.random(n),
    "zeros": lambda rng, n: rng.integers(0, 3, n) / 4,
    "extreme": lambda rng, n: 10.0 ** rng.integers(-9, 10, n),
    "none": lambda rng, n: np.zeros(n),
}


@pytest.fixture(params=list(WEIGHTS))
def weighted(request, tmp_path, order):
    """A graph with lists of up to hundreds of edges, as (Graph, naive adjacency lists, weights)."""
    edges = files.random_edges(60, 3000)
    weights = WEIGHTS[request.param](np.random.default_rng(5), 3000).astype(np.float32)
    naive = files.write_graph(tmp_path / "w.gl", edges, 60, order=order, weights=weights)
    with gz.Graph(tmp_path / "w.gl") as graph:
        yield graph, naive, weights


def star(path, weights):
    """Edges from node 0 to nodes 1 to n."""
    files.write_graph(
        path, [[0, i + 1] for i in range(len(weights))], len(weights) + 1, weights=weights
    )
    return gz.Graph(path)


def check_chi_square(counts, expected):
    """Counts of independent draws, below the 0.9999 quantile."""
    drawn = expected > 0
    assert not counts[~drawn].any()
    freedom = drawn.sum() - 1
    statistic = ((counts - expected)[drawn] ** 2 / expected[drawn]).sum()
    # Wilson, Hilferty: the cube root of chi-square over its degrees is nearly normal
    spread = math.sqrt(2 / (9 * freedom))
    assert statistic < freedom * (1 - spread**2 + 3.72 * spread) ** 3


@pytest.mark.parametrize("num_threads", [1, 2, 4])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanouts", [[3, 2], [20, 1], [300, 1], [-1]])
def test_batches_equal_the_naive_ones(weighted, fanouts, replace, num_threads):
    graph, naive, weights = weighted
    seeds = np.arange(60)[::-1]
    sampler = gz.NeighborSampler(
        graph, fanouts, replace=replace, weighted=True, seed=3, num_threads=num_threads
    )
    batch = sampler.sample(seeds, epoch=1, batch=2)
    expected = reference.sample(
        naive, seeds, fanouts, replace=replace, weighted=True, seed=3, epoch=1, batch=2
    )
    for name, value in expected.items():
        np.testing.assert_array_equal(getattr(batch, name), value, err_msg=name)
    assert (weights[batch.e_id] > 0).all()


@given(
    weights=st.lists(st.floats(0, 2.0**100, width=32), min_size=1, max_size=60),
    fanout=st.one_of(st.just(-1), st.integers(1, 60)),
    replace=st.booleans(),
    seed=st.integers(0, 2**63),
)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_weights_are_drawn_as_the_naive_way_does(tmp_path, weights, fanout, replace, seed):
    options = {"replace": replace, "weighted": True, "seed": seed}
    with star(tmp_path / "star.gl", weights) as graph:
        sampled = graph.sample_neighbors([0], fanout, **options)
    naive = reference.adjacency([[0, i + 1] for i in range(len(weights))], 100, weights=weights)
    expected = reference.sample(naive, [0], [fanout], **options)["e_id"]
    np.testing.assert_array_equal(sampled.e_id, expected)
    if not replace or fanout < 0:
        assert len(set(sampled.e_id.tolist())) == sampled.e_id.size
    (tmp_path / "star.gl").unlink()


def test_lists_without_a_positive_weight_have_nothing_to_draw(tmp_path):
    graph = star(tmp_path / "star.gl", [0.0, 0.0])
    for fanout, replace in [(1, False), (2, False), (5, True), (-1, False)]:
        sampled = graph.sample_neighbors([0, 1], fanout, replace=replace, weighted=True)
        assert sampled.indptr.tolist() == [0, 0, 0]
    assert graph.random_walk([0], 2, weighted=True).tolist() == [[0, -1, -1]]
    assert graph.random_walk([0], 2, weighted=True, restart=0.1).tolist() == [[0, 0, 0]]


def test_lists_with_few_positive_weights_give_all_of_them(tmp_path):
    graph = star(tmp_path / "star.gl", [0.0, 2.0, 0.0, 0.0, 1.0, 0.0])
    for fanout in (2, 3, 4, 6, 7, -1):
        sampled = graph.sample_neighbors([0], fanout, weighted=True)
        assert sorted(sampled.indices.tolist()) == [2, 5]


def test_draws_with_replacement_follow_the_weights(tmp_path):
    weights = np.array([*np.arange(40) % 7, 1000.0])
    graph = star(tmp_path / "star.gl", weights)
    drawn = graph.sample_neighbors([0], 200_000, replace=True, weighted=True, seed=1).indices
    counts = np.bincount(drawn - 1, minlength=41)
    check_chi_square(counts, weights / weights.sum() * 200_000)


@pytest.mark.parametrize("weights", [[1, 2, 3, 4], [1, 1, 50, 5], [2, 0, 1, 3], [1, 2**-22, 1, 0]])
def test_pairs_without_replacement_are_those_of_successive_sampling(tmp_path, weights):
    weights, rounds = np.array(weights, float), 20_000
    files.write_graph(
        tmp_path / "stars.gl",
        [[source, target] for source in range(rounds) for target in range(4)],
        rounds,
        weights=np.tile(weights, rounds),
    )
    graph = gz.Graph(tmp_path / "stars.gl")
    pairs = graph.sample_neighbors(np.arange(rounds), 2, weighted=True, seed=4).indices
    counts = np.zeros((4, 4))
    np.add.at(counts, tuple(pairs.reshape(-1, 2).T), 1)
    expected = np.zeros((4, 4))
    for first, second in itertools.permutations(range(4), 2):
        left = weights.sum() - weights[first]
        expected[first, second] = weights[first] / weights.sum() * weights[second] / left
    likely = expected * rounds >= 1
    assert counts[~likely].sum() <= 1
    check_chi_square(counts[likely], expected[likely] * rounds)


def test_heavy_entries_do_not_hide_the_others(tmp_path):
    """Beside one weight of 2^60 the rest are drawn by keys: of equal weights, equally often."""
    weights = np.full(40, 2.0**20)
    weights[7] = 2.0**60
    graph = star(tmp_path / "star.gl", weights)
    counts = np.zeros(40)
    for seed in range(3000):
        drawn = graph.sample_neighbors([0], 5, weighted=True, seed=seed, num_threads=1).indices
        assert drawn[0] == 8
        counts += np.bincount(drawn - 1, minlength=40)
    assert counts[7] == 3000
    counts[7] = 0
    check_chi_square(counts, np.where(np.arange(40) == 7, 0.0, 3000 * 4 / 39))


WALKS = [
    {"p": p, "weighted": weighted, "restart": restart, "q": q}
    for p, q in [(1.0, 1.0), (0.25, 4.0), (1e-9, 1e9)]
    for weighted in (False, True)
    for restart in (0.0, 0.3)
]


@pytest.mark.parametrize("options", WALKS)
def test_walks_equal_the_naive_ones(weighted, options):
    graph, naive, _ = weighted
    start = np.random.default_rng(4).integers(0, 60, 77)
    walks = graph.random_walk(start, 7, seed=7, **options)
    np.testing.assert_array_equal(walks, reference.walk(naive, start, 7, seed=7, **options))


@pytest.mark.parametrize("options", WALKS)
def test_threads_do_not_change_a_byte(tmp_path, options):
    edges = files.random_edges(3000, 30_000)
    weights = np.random.default_rng(0).random(30_000)
    files.write_graph(tmp_path / "g.gl", edges, 3000, weights=weights)
    graph = gz.Graph(tmp_path / "g.gl")
    start = np.arange(5000) % 3000
    one, *more = (graph.random_walk(start, 6, num_threads=n, **options) for n in (1, 2, 4))
    assert all(one.tobytes() == walks.tobytes() for walks in more)
    # a walker's draws are its own: alone it goes the same way
    assert graph.random_walk(start[:1], 6, **options).tolist() == one[:1].tolist()


def test_weighted_steps_have_the_right_distribution(tmp_path):
    weights = np.array([1.0, 0.0, 5.0, 2.5])
    graph = star(tmp_path / "star.gl", weights)
    walks = graph.random_walk(np.zeros(50_000, int), 1, weighted=True, seed=3)
    counts = np.bincount(walks[:, 1] - 1, minlength=4)
    check_chi_square(counts, weights / weights.sum() * 50_000)


@pytest.mark.parametrize(("p", "q"), [(0.5, 4.0), (1e-3, 1.0), (1e3, 1e3)])
def test_weighted_node2vec_steps_have_the_right_distribution(tmp_path, p, q):
    """From 0 over 1: the bias times the weight; with and without luck in the rejection."""
    edges = np.array([[0, 1], [1, 0], [0, 2], [1, 2], [1, 3], [1, 4], [1, 5]])
    weights = np.array([9.0, 2.0, 1.0, 0.001, 3.0, 1.0, 0.0])
    files.write_graph(tmp_path / "g.gl", edges, 6, weights=weights)
    graph = gz.Graph(tmp_path / "g.gl")
    walks = graph.random_walk(np.zeros(60_000, int), 2, p=p, q=q, weighted=True, seed=2)
    over_one = walks[walks[:, 1] == 1]
    shares = np.array([2 / p, 0, 0.001, 3 / q, 1 / q, 0])
    expected = shares / shares.sum() * len(over_one)
    counts = np.bincount(over_one[:, 2], minlength=6)
    likely = expected >= 5
    assert counts[~likely & (expected > 0)].sum() <= 25
    assert not counts[expected == 0].any()
    check_chi_square(
        counts[likely], expected[likely] * counts[likely].sum() / sum(expected[likely])
    )


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.5, 2.0)])
def test_restarts_come_as_often_as_asked(tmp_path, p, q):
    """On a directed cycle the walker's place is the number of steps since its last restart."""
    files.write_graph(tmp_path / "ring.gl", [[i, (i + 1) % 50] for i in range(50)], 50)
    graph = gz.Graph(tmp_path / "ring.gl")
    walks = graph.random_walk(np.full(40_000, 3), 20, restart=0.25, p=p, q=q, seed=1)
    place = (walks[:, 20] - 3) % 50
    expected = 0.25 * 0.75 ** np.arange(21.0)
    expected[20] = 0.75**20
    check_chi_square(np.bincount(place, minlength=21), expected * 40_000)


def test_visits_are_personalised_page_ranks(tmp_path):
    """The last node of a long walk with restarts against the power iteration, by weight."""
    rng = np.random.default_rng(8)
    edges, weights = rng.integers(0, 12, (60, 2)), rng.random(60)
    edges = edges[edges[:, 0] != 5]  # a dead end: back to the start
    weights = weights[: len(edges)].astype(np.float32)
    files.write_graph(tmp_path / "g.gl", edges, 12, weights=weights)
    walks = gz.Graph(tmp_path / "g.gl").random_walk(
        np.full(30_000, 2), 60, weighted=True, restart=0.2, seed=6
    )
    step = np.zeros((12, 12))
    np.add.at(step, tuple(edges.T), weights)
    step[step.sum(1) == 0, 2] = 1
    step /= step.sum(1, keepdims=True)
    rank = np.eye(12)[2]
    for _ in range(60):
        rank = 0.2 * np.eye(12)[2] + 0.8 * rank @ step
    check_chi_square(np.bincount(walks[:, -1], minlength=12), rank * 30_000)


def test_walks_that_may_restart_never_end(tmp_path):
    files.write_graph(tmp_path / "g.gl", [[0, 1], [1, 2]], 3)
    graph = gz.Graph(tmp_path / "g.gl")
    for p in (1.0, 2.0):
        walks = graph.random_walk([0] * 500, 30, restart=1e-12, p=p)
        assert walks.tolist() == [[0, 1, 2] * 10 + [0]] * 500


def test_a_restart_of_0_changes_nothing(weighted):
    graph, naive, _ = weighted
    walks = graph.random_walk(np.arange(60), 9, restart=0, seed=3)
    np.testing.assert_array_equal(walks, reference.walk(naive, np.arange(60), 9, seed=3))


def test_files_without_weights_are_named(small):
    graph, _, _ = small
    for call in (
        lambda: graph.sample_neighbors([0], 3, weighted=True),
        lambda: graph.random_walk([0], 3, weighted=True),
        lambda: gz.NeighborSampler(graph, [3], weighted=True),
    ):
        with pytest.raises(ValueError, match=r"small\.gl has no weights.*with a weight column"):
            call()


def corrupted(path, sums):
    """A star whose running sums are these."""
    star(path, np.ones(len(sums))).close()
    _, arrays = read_file(path)
    content = path.read_bytes()
    at = content.index(arrays["cum_weights"].tobytes(), 4096)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(np.array(sums, "<f8").tobytes())
    return gz.Graph(path)


@pytest.mark.parametrize(
    "sums",
    [
        [np.nan] * 8,
        [1, 2, 3, 4, 5, 6, 7, np.inf],
        [-1, -2, -3, -4, -5, -6, -7, -8],
        [np.nan, 2, np.nan, 4, np.nan, 6, np.nan, 8],
    ],
)
def test_sums_that_are_no_sums_are_corrupt(tmp_path, sums):
    graph = corrupted(tmp_path / "bad.gl", sums)
    for call in (
        lambda: graph.sample_neighbors([0] * 50, 5, weighted=True),
        lambda: graph.sample_neighbors([0] * 50, 100, replace=True, weighted=True),
        lambda: graph.sample_neighbors([0] * 50, -1, weighted=True),
        lambda: graph.random_walk([0] * 50, 3, weighted=True),
        lambda: graph.random_walk([0] * 50, 3, p=0.5, weighted=True),
        lambda: gz.NeighborSampler(graph, [5], weighted=True, num_threads=1).sample([0]),
    ):
        with pytest.raises(gz.FormatError, match="corrupt"):
            call()


# ---- the build


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("order", ["input", "hot"], indirect=True)
def test_the_build_sums_each_list_by_itself(tmp_path, monkeypatch, order, directed):
    """Across the ends of pieces too, and exactly as one entry after the other."""
    monkeypatch.setattr("graphzero.ingest.csr._CHUNK", 37)
    edges = files.random_edges(40, 2000)
    weights = (10.0 ** np.random.default_rng(1).uniform(-12, 12, 2000)).astype(np.float32)
    gz.build(
        tmp_path / "out", edges=edges, weight=weights, order=order, directed=directed, num_nodes=40
    )
    naive = reference.adjacency(edges, 40, directed=directed, order=order, weights=weights)
    _, arrays = read_file(tmp_path / "out" / "graph.gl")
    np.testing.assert_array_equal(arrays["cum_weights"], naive.sums)


def test_negative_weights_are_refused_with_their_line(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst,weight\n0,1,1\n1,0,-0.5\n")
    with pytest.raises(ValueError, match=r"e\.csv, line 3: .*-0\.5.*must not be negative"):
        gz.build(tmp_path / "out", edges=tmp_path / "e.csv")
    assert not (tmp_path / "out" / "graph.gl").exists()


def test_a_real_weighted_graph(tmp_path, real_data):
    table = real_data / "openflights" / "edges.csv"
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    edges, weights = rows[:, :2].astype(np.int64), rows[:, 2].astype(np.float32)
    gz.build(tmp_path / "out", edges=table, directed=False, edge_ids=True, order="input")
    with gz.Graph(tmp_path / "out" / "graph.gl") as graph:
        naive = reference.adjacency(edges, graph.num_nodes, directed=False, weights=weights)
        seeds = np.arange(0, graph.num_nodes, 13)
        batch = gz.NeighborSampler(graph, [5, 3], weighted=True, seed=2).sample(seeds)
        expected = reference.sample(naive, seeds, [5, 3], weighted=True, seed=2)
        np.testing.assert_array_equal(batch.n_id, expected["n_id"])
        np.testing.assert_array_equal(batch.e_id, expected["e_id"])
        hub = int(np.argmax(np.diff(graph.indptr.astype(np.int64))))
        drawn = graph.sample_neighbors([hub], 100_000, replace=True, weighted=True, seed=1)
    counts = np.bincount(drawn.e_id, minlength=len(rows))
    mine = [entry[1] for entry in naive.rows[hub]]
    assert counts.sum() == counts[mine].sum()
    check_chi_square(counts[mine], weights[mine] / weights[mine].sum() * 100_000)


def test_mini_batches_are_drawn_by_weight(tmp_path):
    pytest.importorskip("torch")
    edges = files.random_edges(80, 2000)
    weights = np.random.default_rng(3).integers(0, 5, 2000)
    naive = files.write_dataset(tmp_path / "data", edges, 80, weights=weights)
    batches = gz.NeighborDataset(
        gz.open(tmp_path / "data"), np.arange(40), [4, 3], batch_size=16, weighted=True, seed=9
    )
    for i, batch in enumerate(batches):
        seeds = np.arange(40)[16 * i : 16 * i + 16]
        expected = reference.sample(naive, seeds, [4, 3], weighted=True, seed=9, batch=i)
        np.testing.assert_array_equal(batch.subgraph.e_id, expected["e_id"])
        np.testing.assert_array_equal(batch.subgraph.n_id, expected["n_id"])
    assert i == 2
    files.write_dataset(tmp_path / "plain", edges, 80)
    with pytest.raises(ValueError, match="has no weights"):
        gz.NeighborDataset(gz.open(tmp_path / "plain"), weighted=True)
