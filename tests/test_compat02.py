"""Scripts written for graphzero 0.2: methods, names of arguments, converters."""

from __future__ import annotations

import files
import numpy as np
import pytest
import reference
from files import read_file

import graphzero as gz
from graphzero.compat02 import DataType, convert_csv_to_gd, convert_csv_to_gl
from graphzero.store.format import verify_file

EDGES = [[0, 2], [2, 1], [0, 1], [3, 3], [0, 2]]
WEIGHTS = [0.5, 1.5, 2.5, 3.5, 4.5]
METHODS = {"batch_random_fanout", "batch_random_walk", "batch_random_walk_uniform", "get_degree"}
METHODS |= {"get_neighbours", "get_weights", "has_weights", "sample_neighbours"}


@pytest.fixture
def graph(tmp_path):
    """0 -> 1 -> 2 -> 3, a dead end; 4 -> 0 .. 3; 5 alone."""
    edges = [[0, 1], [1, 2], [2, 3], [4, 0], [4, 1], [4, 2], [4, 3]]
    files.write_graph(tmp_path / "g.gl", edges, 6)
    with gz.Graph(tmp_path / "g.gl") as graph:
        yield graph


# --- methods


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
    assert all(set(row[:4]) == {0, 1, 2, 3} for row in padded.tolist())
    assert set(padded[:, 4:].ravel().tolist()) == {0, 1, 2, 3}
    pairs = graph.batch_random_fanout([4] * 200, 2).tolist()  # each repeat draws for itself
    assert len({frozenset(pair) for pair in pairs}) == 6


def test_single_node_calls_and_weights(graph, tmp_path):
    assert graph.get_degree(4) == 4
    assert graph.get_neighbours(4).tolist() == [0, 1, 2, 3]
    assert len(set(graph.sample_neighbours(4, 2).tolist())) == 2
    assert sorted(graph.sample_neighbours(start_node=4, K=9).tolist()) == [0, 1, 2, 3]
    assert graph.sample_neighbours(5, 2).tolist() == []
    assert not graph.has_weights
    with pytest.raises(ValueError, match="no edge weights"):
        graph.get_weights(0)
    edges, weights = [[0, 3], [0, 1], [2, 3], [0, 2], [4, 3]], np.array([3.0, 1, 9, 2, 9])
    files.write_graph(tmp_path / "w.gl", np.array(edges), 5, weights=weights, order=[3, 1, 4, 0, 2])
    with gz.Graph(filename=str(tmp_path / "w.gl")) as weighted:
        assert weighted.has_weights
        assert weighted.get_neighbours(0).tolist() == [1, 2, 3]
        assert weighted.get_weights(0).tolist() == [1.0, 2.0, 3.0]
        assert weighted.get_weights(1).tolist() == []


def test_calls_draw_anew_but_reproducibly(graph, tmp_path):
    other = gz.Graph(tmp_path / "g.gl")
    mine = [graph.batch_random_walk_uniform([4] * 30, 2).tolist() for _ in range(3)]
    assert mine == [other.batch_random_walk_uniform([4] * 30, 2).tolist() for _ in range(3)]
    assert mine[0] != mine[1]


def test_what_crashed_0_2_raises(graph):
    for call, error in (
        (lambda: graph.batch_random_walk([6], 1), IndexError),
        (lambda: graph.batch_random_walk([0], 0), ValueError),
        (lambda: graph.batch_random_walk([0], 3, p=0.0), ValueError),
        (lambda: graph.batch_random_fanout([-1], 3), IndexError),
        (lambda: graph.sample_neighbours(6, 1), IndexError),
    ):
        with pytest.raises(error):
            call()


# --- what is listed


def test_old_names_are_documented_and_the_functions_not_listed(graph):
    for name in ("DataType", "convert_csv_to_gd", "convert_csv_to_gl"):
        assert getattr(gz, name).__doc__
        assert name not in dir(gz)  # not even once it has been imported
    assert all(getattr(gz.Graph, name).__doc__ and hasattr(graph, name) for name in METHODS)


def test_old_arguments_work(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    with gz.FeatureStore(filename=tmp_path / "x.npy") as store:
        assert store.get_data(node_id=1).tolist() == [0, 1, 0]
        with pytest.raises(TypeError, match="node"):
            store.get_data(1, node_id=1)
    with pytest.raises(TypeError, match="path"):
        gz.FeatureStore(tmp_path / "x.npy", filename=tmp_path / "x.npy")
    with pytest.raises(TypeError, match="path"):
        gz.Graph()


# --- converters


@pytest.mark.parametrize("header", ["src,dst,weight\n", "a,b,c\n", ""])
def test_edges(tmp_path, header):
    cells = [(*edge, weight) for edge, weight in zip(EDGES, WEIGHTS, strict=True)]
    text = header + "\n".join(",".join(map(str, each)) for each in cells)
    (tmp_path / "e.csv").write_text(text)
    convert_csv_to_gl(tmp_path / "e.csv", tmp_path / "g.gl", True)
    _, arrays = read_file(tmp_path / "g.gl")
    naive = reference.adjacency(EDGES, 4, weights=WEIGHTS)
    assert arrays.keys() == {"indptr", "indices", "weights", "cum_weights"}
    np.testing.assert_array_equal(arrays["indptr"], naive.indptr)
    np.testing.assert_array_equal(arrays["indices"], naive.indices)
    np.testing.assert_array_equal(arrays["weights"], naive.column(2, np.float32))


def test_edges_are_undirected_by_default_and_have_other_names(tmp_path):
    (tmp_path / "e.dat").write_text("0 1\n1 2\n")
    convert_csv_to_gl(input_csv=str(tmp_path / "e.dat"), output_bin=str(tmp_path / "g.gl"))
    _, arrays = read_file(tmp_path / "g.gl")
    np.testing.assert_array_equal(arrays["indices"], [1, 0, 2, 1])
    with pytest.raises(TypeError, match="give csv_path"):
        convert_csv_to_gl(out_path=tmp_path / "g.gl")
    with pytest.raises(TypeError, match="give out_path"):
        convert_csv_to_gl(tmp_path / "e.dat", tmp_path / "g.gl", output_bin=tmp_path / "h.gl")


@pytest.mark.parametrize("dtype", [DataType.INT32, DataType.FLOAT64])
def test_features(tmp_path, dtype):
    header = "node,a,b\n" if dtype in (DataType.INT32, DataType.FLOAT32) else ""
    (tmp_path / "x.csv").write_text(f"{header}2,5,-6\n0,1,2\n")
    with pytest.warns(UserWarning, match="no row for 1 of 3 nodes"):
        convert_csv_to_gd(tmp_path / "x.csv", tmp_path / "x.gd", dtype)
    verify_file(tmp_path / "x.gd")
    head, arrays = read_file(tmp_path / "x.gd")
    assert (head.num_nodes, head.width, head.flags) == (3, 2, 0)
    assert arrays["rows"].dtype == dtype.value
    np.testing.assert_array_equal(arrays["rows"], [1, 2, 0, 0, 5, -6])


@pytest.mark.parametrize(
    ("dtype", "text", "message"),
    [
        (DataType.INT64, "0,1\n1,9223372036854775808\n", "line 2: '9223372036854775808'"),
        (DataType.FLOAT32, "0,1\n0,1\n", "line 2: node id 0 has a row already"),
        (DataType.FLOAT32, "0\n1\n", "has one column"),
        (DataType.FLOAT32, "id,x\n", "has no records"),
        ("float16", "0,1\n", "is not a valid DataType"),
        (None, "0,1,2\n1,2,nan\n", "line 2: weight nan"),
        (None, "src,dst\n", "has no edges"),
        (None, "0\n1\n", "column"),
    ],
)
def test_bad_input_leaves_the_earlier_file(tmp_path, dtype, text, message):
    source, out = tmp_path / "in.csv", tmp_path / "out"
    source.write_text(text)
    out.write_bytes(b"earlier")
    with pytest.raises(ValueError, match=message):
        convert_csv_to_gd(source, out, dtype) if dtype else convert_csv_to_gl(source, out)
    assert out.read_bytes() == b"earlier"
    assert len(list(tmp_path.iterdir())) == 2
