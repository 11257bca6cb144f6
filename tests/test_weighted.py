"""Sampling and walking by the weights of the edges, and walks that restart."""

from __future__ import annotations

import files
import numpy as np
import pytest
import reference
from files import read_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphzero as gz

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


def test_files_without_weights_are_named(small):
    graph, _, _ = small
    for call in (
        lambda: graph.sample_neighbors([0], 3, weighted=True),
        lambda: graph.random_walk([0], 3, weighted=True),
        lambda: gz.NeighborSampler(graph, [3], weighted=True),
    ):
        with pytest.raises(ValueError, match=r"small\.gl has no weights.*with a weight column"):
            call()


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
    star(tmp_path / "bad.gl", np.ones(8)).close()
    files.damage(tmp_path / "bad.gl", "cum_weights", slice(None), sums)
    graph = gz.Graph(tmp_path / "bad.gl")
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
