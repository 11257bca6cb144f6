"""Files that are mapped: lifetime of views, refusals at open."""

from __future__ import annotations

import gc
import os
import pickle

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero import _core

pytestmark = pytest.mark.core  # under AddressSanitizer, too


@pytest.fixture
def graph_path(tmp_path):
    files.write_graph(tmp_path / "g.gl", files.random_edges(50, 400), 50)
    return tmp_path / "g.gl"


def test_a_view_outlives_its_store(tmp_path):
    rows = np.random.default_rng(0).standard_normal((100, 3))
    files.write_rows(tmp_path / "f.gd", rows)
    store = gz.FeatureStore(tmp_path / "f.gd")
    view = store.get_tensor()
    part = view[10:20, 1]
    del store, view
    gc.collect()
    assert _core.open_mappings() == 1
    np.testing.assert_array_equal(part, rows[10:20, 1])


def test_close_refuses_while_views_live(graph_path):
    graph = gz.Graph(graph_path)
    indices = graph.indices[5:]
    with pytest.raises(BufferError, match="delete the views"):
        graph.close()
    assert graph.degree(0) >= 0  # nothing was lost by the refusal
    del indices
    graph.close()
    assert _core.open_mappings() == 0


def test_what_went_wrong_is_not_hidden_by_the_arrays_that_it_left(graph_path):
    def fail_with(view):
        raise ZeroDivisionError(view.size)  # the traceback holds the view

    with pytest.raises(ZeroDivisionError), gz.Graph(graph_path) as graph:
        fail_with(graph.indices)
    with pytest.raises(BufferError, match="delete the views"), gz.Graph(graph_path) as graph:
        left = graph.indices
    assert left.size > 0


def test_a_closed_store_says_so(graph_path, tmp_path):
    with gz.Graph(graph_path) as graph:
        pass
    for call in (lambda: graph.degree(0), lambda: graph.random_walk([0], 3), lambda: graph.indptr):
        with pytest.raises(ValueError, match="is closed"):
            call()
    graph.close()  # again: harmless


def test_views_are_read_only(graph_path):
    graph = gz.Graph(graph_path)
    assert np.shares_memory(graph.indices, np.frombuffer(graph.mapping, np.uint8))
    for view in (graph.indptr, graph.indices):
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True


def test_replacing_the_file_by_rename_is_safe_and_pickles_notice_it(graph_path):
    graph = gz.Graph(graph_path)
    before, content = graph.neighbors(0), pickle.dumps(graph)
    assert pickle.loads(content).num_edges == graph.num_edges
    files.write_graph(graph_path, [[0, 1]], 50)
    np.testing.assert_array_equal(graph.neighbors(0), before)
    assert gz.Graph(graph_path).neighbors(0).tolist() == [1]
    with pickle.loads(content) as again:  # as long as the file is open, it is found
        np.testing.assert_array_equal(again.neighbors(0), before)
    graph.close()
    with pytest.raises(gz.FormatError, match="was replaced"):
        pickle.loads(content)


def replaced_by(make):
    def change(path):
        path.unlink()
        make(path)

    return change


def content_as(make):
    return lambda path: path.write_bytes(make(path.read_bytes()))


BROKEN = {
    "missing": (lambda path: path.unlink(), FileNotFoundError, "cannot be opened"),
    "folder": (replaced_by(os.mkdir), IsADirectoryError, "folder"),
    "pipe": (replaced_by(os.mkfifo), OSError, "not a regular file"),
    "empty": (content_as(lambda _: b""), gz.FormatError, "is empty"),
    "short": (content_as(lambda whole: whole[:100]), gz.FormatError, "truncated"),
    "truncated": (content_as(lambda whole: whole[:-1]), gz.FormatError, "truncated"),
    "header only": (content_as(lambda whole: whole[:4096]), gz.FormatError, "truncated"),
    "too long": (content_as(lambda whole: whole + b"\0"), gz.FormatError, "too long"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("kind", ["graph", "features"])
def test_broken_files_are_refused_by_name(tmp_path, kind, name):
    path = tmp_path / "file"
    if kind == "graph":
        files.write_graph(path, files.random_edges(50, 400), 50)
    else:
        files.write_rows(path, np.zeros((100, 30)))
    change, error, part = BROKEN[name]
    change(path)
    with pytest.raises(error, match=part) as caught:
        (gz.Graph if kind == "graph" else gz.FeatureStore)(path)
    assert str(path) in str(caught.value)
    gc.collect()
    assert _core.open_mappings() == 0


def test_each_kind_names_the_right_opener(tmp_path, graph_path):
    files.write_rows(tmp_path / "f.gd", np.zeros(3))
    with pytest.raises(gz.FormatError, match="open it with Graph"):
        gz.FeatureStore(graph_path)
    with pytest.raises(gz.FormatError, match="open it with FeatureStore"):
        gz.Graph(tmp_path / "f.gd")


@pytest.mark.parametrize(
    ("section", "value"), [("indptr", 2**63), ("indptr", 3), ("indices", 2**32 - 1)]
)
def test_corrupt_sections_raise_and_are_never_followed(graph_path, section, value):
    """Checksums are not verified at open: kernels must survive what they find."""
    files.damage(graph_path, section, 3, value)
    graph = gz.Graph(graph_path)
    nodes = np.arange(50)
    calls = [
        lambda: graph.sample_neighbors(nodes, -1),
        lambda: gz.NeighborSampler(graph, [-1, -1]).sample(nodes),
        lambda: graph.random_walk(np.repeat(nodes, 100), 20),
        lambda: graph.random_walk(np.repeat(nodes, 100), 20, p=0.5),
    ]
    for call in calls:
        with pytest.raises(gz.FormatError, match="is corrupt"):
            call()


def test_corrupt_translation_tables_raise(tmp_path):
    path = tmp_path / "hot.gl"
    files.write_graph(path, files.random_edges(50, 400), 50, order="hot")
    for section, call in [
        ("node_rank", lambda graph: graph.degree(np.arange(50))),
        ("node_ids", lambda graph: graph.sample_neighbors(np.arange(50), -1)),
    ]:
        content = path.read_bytes()
        files.damage(path, section, 0, 50)
        with pytest.raises(gz.FormatError, match="is corrupt"):
            call(gz.Graph(path))
        path.write_bytes(content)


def test_read_beyond_the_end_is_an_error_and_not_a_signal(graph_path):
    mapping = _core.Mapping(graph_path)
    with pytest.raises(gz.FormatError, match="truncated"):
        mapping.read(mapping.size - 1, 2)
    with pytest.raises(OSError, match="beyond the end"):
        mapping.advise("willneed", 0, mapping.size + 1)
    with pytest.raises(OSError, match="beyond the end"):
        mapping.resident_pages(mapping.size, 1)
