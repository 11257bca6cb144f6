"""Scripts written for graphzero 0.2."""

from __future__ import annotations

import files
import numpy as np
import pytest

import graphzero as gz


@pytest.fixture
def graph(tmp_path):
    """0 -> 1 -> 2 -> 3, a dead end; 4 -> 0 .. 3; 5 alone."""
    edges = [[0, 1], [1, 2], [2, 3], [4, 0], [4, 1], [4, 2], [4, 3]]
    files.write_graph(tmp_path / "g.gl", edges, 6)
    with gz.Graph(tmp_path / "g.gl") as graph:
        yield graph


def test_walks_have_walk_length_columns_and_repeat_dead_ends(graph):
    for walks in (
        graph.batch_random_walk([0, 3, 5], 6),
        graph.batch_random_walk(start_nodes=[0, 3, 5], walk_length=6, p=1.0, q=0.5),
        graph.batch_random_walk_uniform([0, 3, 5], 6),
    ):
        assert walks.dtype == np.int64
        assert walks.tolist() == [[0, 1, 2, 3, 3, 3], [3] * 6, [5] * 6]
    assert graph.batch_random_walk([4, 5], 1).tolist() == [[4], [5]]
    assert {row[1] for row in graph.batch_random_walk([4] * 50, 2).tolist()} == {0, 1, 2, 3}


def test_fanouts_are_always_full_of_valid_ids(graph):
    out = graph.batch_random_fanout(np.array([4, 0, 5], np.uint64), 3)
    assert out.shape == (3, 3)
    assert out.dtype == np.int64
    assert len(set(out[0].tolist())) == 3  # degree 4: without replacement
    assert out[1].tolist() == [1, 1, 1]  # degree 1: redrawn
    assert out[2].tolist() == [5, 5, 5]  # no neighbour: the node itself
    padded = graph.batch_random_fanout([4] * 200, 7)
    for row in padded.tolist():
        assert set(row[:4]) == {0, 1, 2, 3}
    assert set(padded[:, 4:].ravel().tolist()) == {0, 1, 2, 3}
    pairs = graph.batch_random_fanout([4] * 200, 2).tolist()  # each repeat draws for itself
    assert len({frozenset(pair) for pair in pairs}) == 6


def test_single_node_calls(graph):
    assert graph.get_degree(4) == 4
    assert graph.get_neighbours(4).tolist() == [0, 1, 2, 3]
    drawn = graph.sample_neighbours(4, 2)
    assert len(set(drawn.tolist())) == 2
    assert sorted(graph.sample_neighbours(start_node=4, K=9).tolist()) == [0, 1, 2, 3]
    assert graph.sample_neighbours(5, 2).tolist() == []


def test_weights_are_in_the_order_of_the_neighbours(tmp_path, order):
    edges = np.array([[0, 3], [0, 1], [2, 3], [0, 2], [4, 3]])
    weights = np.array([3.0, 1.0, 9.0, 2.0, 9.0])
    files.write_graph(tmp_path / "w.gl", edges, 5, weights=weights, order=order)
    graph = gz.Graph(filename=str(tmp_path / "w.gl"))
    assert graph.has_weights
    assert graph.get_neighbours(0).tolist() == [1, 2, 3]
    assert graph.get_weights(0).tolist() == [1.0, 2.0, 3.0]
    assert graph.get_weights(1).tolist() == []


def test_old_argument_names_are_taken(graph, tmp_path):
    assert not graph.has_weights
    with pytest.raises(ValueError, match="no edge weights"):
        graph.get_weights(0)
    files.write_rows(tmp_path / "f.gd", np.arange(6.0).reshape(3, 2))
    assert gz.FeatureStore(filename=tmp_path / "f.gd").get_data(node_id=1).tolist() == [2.0, 3.0]
    with pytest.raises(TypeError, match="give path"):
        gz.Graph()
    with pytest.raises(TypeError, match="give node"):
        gz.FeatureStore(tmp_path / "f.gd").get_data(1, node_id=1)


def test_calls_draw_anew_but_reproducibly(graph, tmp_path):
    other = gz.Graph(tmp_path / "g.gl")
    mine = [graph.batch_random_walk_uniform([4] * 30, 2).tolist() for _ in range(3)]
    assert mine == [other.batch_random_walk_uniform([4] * 30, 2).tolist() for _ in range(3)]
    assert mine[0] != mine[1]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda g: g.batch_random_walk([6], 3), IndexError),
        (lambda g: g.batch_random_walk([6], 1), IndexError),
        (lambda g: g.batch_random_walk([0], 0), ValueError),
        (lambda g: g.batch_random_walk([0], 3, p=0.0), ValueError),
        (lambda g: g.batch_random_fanout([-1], 3), IndexError),
        (lambda g: g.batch_random_fanout([0], 0), ValueError),
        (lambda g: g.sample_neighbours(6, 1), IndexError),
        (lambda g: g.get_degree(6), IndexError),
    ],
)
def test_what_crashed_0_2_raises(graph, call, error):
    with pytest.raises(error):
        call(graph)
