"""Sampling and walking by the weights of the edges, and walks that restart."""

from __future__ import annotations

import chi_square
import files
import numpy as np
import pytest
import reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero.store.format import read_file

pytestmark = pytest.mark.core  # under AddressSanitizer, too

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
    files.damage(path, "cum_weights", slice(None), sums)
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
    monkeypatch.setattr("graphzero.ingest.lists._CHUNK", 37)
    edges = files.random_edges(40, 2000)
    weights = (10.0 ** np.random.default_rng(1).uniform(-12, 12, 2000)).astype(np.float32)
    gz.build(
        tmp_path / "out", edges=edges, weight=weights, order=order, directed=directed, num_nodes=40
    )
    how = {"directed": directed, "incoming": directed, "order": order}
    naive = reference.adjacency(edges, 40, weights=weights, **how)
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
    mine = [entry[1] for entry in naive.rows[hub]]
    shares = weights[mine].astype(float) / weights[mine].sum(dtype=float)
    p = chi_square.p_value(drawn.e_id.tolist(), dict(zip(mine, shares, strict=True)))
    assert 1e-4 < p < 1 - 1e-6


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
