"""Typed graphs: every edge and attribute of the files is the user's, and no two share a file."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from urllib.parse import unquote

import files
import numpy as np
import pytest
import small_memory
from cli_program import only_line, run
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typed_inputs import CITES, WRITES, check_files, small

import graphzero as gz
from graphzero.store.manifest import Layout

# --- random graphs, against the input


class Graph:
    """A random typed graph: its arguments for `gz.build`, and its attributes."""

    def __init__(self, seed, num_types, num_edge_types, max_edges):
        rng = np.random.default_rng(seed)
        self.counts = {f"type {i}": int(rng.integers(1, 30)) for i in range(num_types)}
        names = list(self.counts)
        self.nodes = {}
        for i, (name, count) in enumerate(self.counts.items()):
            rows = {
                "x": rng.random((count, 3), np.float32),
                "y": rng.integers(-1, 5, count),
                "image": rng.integers(0, 255, (count, 2, 3), np.uint8),
            }
            self.nodes[name] = {"num_nodes": count} if i % 3 else rows
        self.edges = {}
        for i in range(num_edge_types):
            source, target = rng.choice(names, 2)
            num_edges = int(rng.integers(0, max_edges + 1)) * (rng.random() < 0.9)
            ends = [rng.integers(0, self.counts[str(end)], num_edges) for end in (source, target)]
            content = {"edge_index": np.stack(ends)}
            if i % 2 == 0:
                content["w"] = rng.random(num_edges)
                content["edge_attr"] = rng.random((num_edges, 2), np.float32)
            if i % 3 == 0:
                content["when"] = rng.integers(-9, 9, num_edges)
            self.edges[str(source), f"relation {i}", str(target)] = content
        self.splits = {"train": {names[0]: rng.permutation(self.counts[names[0]])[:4]}}


def assert_edges(ds, graph):
    for edge_type, content in graph.edges.items():
        edges = ds[edge_type]
        for name, values in content.items():
            expected = values.astype(np.float32) if name == "w" else values
            np.testing.assert_array_equal(edges[name], expected, name)
        sampled_by = edges.sampled_by
        expected = ["w" if "w" in content else None, "when" if "when" in content else None]
        assert [sampled_by.weight, sampled_by.time] == expected
        lists = edges.graph
        for node in range(lists.num_nodes):
            entries = lists.indices[int(lists.indptr[node]) : int(lists.indptr[node + 1])]
            assert (np.diff(entries.astype(np.int64)) >= 0).all()


def assert_nodes(ds, graph):
    for name, content in graph.nodes.items():
        nodes = ds[name]
        assert nodes.num_nodes == graph.counts[name]
        users = np.random.default_rng(1).permutation(nodes.num_nodes)
        np.testing.assert_array_equal(nodes.to_user(nodes.to_stored(users)), users)
        for attribute, values in content.items():
            if attribute != "num_nodes":
                assert nodes.attributes[attribute].dtype == values.dtype
                np.testing.assert_array_equal(nodes[attribute][users], values[users])
        for split, by_type in graph.splits.items():
            if name in by_type:
                np.testing.assert_array_equal(nodes.splits[split], by_type[name])


def assert_hot(ds, graph):
    """One order for each node type: by occurrences in the lists of all edge types, then by id."""
    counts = {name: np.zeros(count, np.int64) for name, count in graph.counts.items()}
    for edge_type, content in graph.edges.items():
        end = 0 if ds.neighbors == "in" else 1
        np.add.at(counts[edge_type[2 * end]], content["edge_index"][end], 1)
    for name, count in counts.items():
        expected = np.lexsort([np.arange(len(count)), -count])
        np.testing.assert_array_equal(ds[name].to_user(np.arange(len(count))), expected)


@settings(max_examples=60, deadline=None)
@example(0, 3, 6, 60, "in", "hot", "1MiB")
@example(1, 1, 3, 60, "out", "hot", "2GB")
@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.integers(1, 7),
    st.sampled_from([0, 3, 60]),
    st.sampled_from(["in", "out"]),
    st.sampled_from(["hot", "input"]),
    st.sampled_from(["1MiB", "2GB"]),
)
def test_everything_stored_is_the_users(
    seed, num_types, num_edge_types, max_edges, neighbors, order, limit
):
    graph = Graph(seed, num_types, num_edge_types, max_edges)
    attrs = {"weight_attrs": ["w"], "time_attrs": ["when"]}
    if not any("w" in content for content in graph.edges.values()):
        attrs["weight_attrs"] = []
    with tempfile.TemporaryDirectory() as folder:
        options = {"neighbors": neighbors, "order": order, "memory_limit": limit, "edge_ids": True}
        with small_memory.build(
            folder, graph.edges, nodes=graph.nodes, splits=graph.splits, **options, **attrs
        ) as ds:
            assert ds.neighbors == neighbors
            assert_edges(ds, graph)
            assert_nodes(ds, graph)
            if order == "hot":
                assert_hot(ds, graph)
            else:
                assert not any(nodes.is_hot for nodes in ds.nodes.values())
        check_files(Path(folder), neighbors)
        other = "input" if order == "hot" else "hot"
        with small_memory.reorder(folder, other, memory_limit=limit) as ds:
            assert_edges(ds, graph)
            assert_nodes(ds, graph)
            if other == "hot":
                assert_hot(ds, graph)
            assert ds[next(iter(graph.nodes))].is_hot == (other == "hot")
        check_files(Path(folder), neighbors)


# --- small graphs


def test_replaces_a_graph_without_types_and_back(tmp_path):
    def names():
        return {path.name for path in tmp_path.iterdir()}

    (tmp_path / "notes.txt").write_text("mine")
    gz.build(tmp_path, [[0, 1], [1, 2], [2, 0]], splits={"train": [0]}).close()
    gz.build(tmp_path, [[0, 1], [1, 2], [2, 0]], np.ones((3, 2))).close()
    untyped = names()
    assert untyped == {"notes.txt", "dataset.json", "graph.gl", "features.gd"}
    gz.build(tmp_path, **small()).close()
    typed = names()
    assert untyped & typed == {"notes.txt", "dataset.json"}
    with gz.open(tmp_path) as ds:
        assert ds.node_types == ["paper", "author"]
    gz.build(tmp_path, [[0, 1], [1, 2], [2, 0]], np.ones((3, 2))).close()
    assert names() == untyped


@pytest.mark.parametrize("order", ["hot", "input"])
def test_rows_in_another_order_of_nodes_are_refused(tmp_path, order):
    """Rows are found by the numbers of the nodes: from another build, they would be others'."""
    rng = np.random.default_rng(0)
    nodes = {"a": {"x": np.arange(50.0)}}
    for name, as_built in (("one", order), ("other", "hot")):
        edges = {("a", "r", "a"): rng.integers(0, 50, (2, 300))}
        gz.build(tmp_path / name, edges, nodes=nodes, order=as_built).close()
    rows = tmp_path / "one" / "a.x.gd"
    rows.write_bytes((tmp_path / "other" / "a.x.gd").read_bytes())
    files.forget_checksums(tmp_path / "one")
    with pytest.raises(gz.FormatError, match=r"a\.x\.gd does not have the nodes of the type 'a'"):
        gz.open(tmp_path / "one")


# --- weights and times


def test_info(tmp_path, capfd):
    arguments = small(splits={"train": {"paper": [3, 1]}}, time_attrs="year")
    arguments["nodes"]["paper"]["year"] = np.array([1990, 1980, 2000, 1970])
    arguments["edges"][WRITES] |= {"edge_attr": np.ones((3, 5), np.float16), "weight": [1, 2, 3]}
    gz.build(tmp_path, **arguments).close()
    assert run("train", tmp_path) == 1
    assert "for graphs without types" in only_line(capfd.readouterr().err)
    assert run("info", tmp_path) == 0
    text = " ".join(capfd.readouterr().out.split())
    assert "edges author,writes,paper: num_edges=3, num_input_edges=3, mean_degree=0.75" in text
    assert run("info", tmp_path, "--json") == 0
    content = json.loads(capfd.readouterr().out)
    assert [one["num_nodes"] for one in (content, *content["nodes"])] == [7, 4, 3]
    assert [one["num_classes"] for one in content["nodes"]] == [3, None]
    writes, cites = content["edges"]
    assert [writes["type"], cites["type"]] == [list(WRITES), list(CITES)]
    assert writes["attributes"]["edge_attr"] == {"shape": [3, 5], "dtype": "float16", "bytes": 30}
    assert writes["sampled_by"] == {"weight": "weight", "time": None, "time_level": "edge"}
    assert cites["sampled_by"] == {"weight": None, "time": "year", "time_level": "node"}
    assert run("info", tmp_path / "author__writes__paper.gl") == 0
    assert "num_edges: 3\n  num_input_edges: 3\n" in capfd.readouterr().out


# --- names of files

NAMES = st.text(st.sampled_from("a_.%é-/"), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@example("a__b", ("a", "b_", "_c"), "ids")
@example("a", ("a_", "b", "c"), "split_train")
@given(NAMES, st.tuples(NAMES, NAMES, NAMES), st.sampled_from(["ids", "x", "split_x", "visits"]))
def test_no_two_files_have_one_name(name, edge_type, attribute):
    """Each name can be read back, so no two names are the same."""
    layout = Layout(is_typed=True)
    files = [
        layout.node_rows(name, attribute),
        layout.of_nodes(name, "ids"),
        layout.split(name, "x"),
    ]
    files += [layout.edge_rows(edge_type, attribute), layout.graph(edge_type)]
    files.append(layout.split(edge_type, "x"))
    assert len(set(files)) == len(files)
    for file in files:
        assert set(file) <= set("abcdefghijklmnopqrstuvwxyzABCDEF0123456789%_-.")
        types = file.split(".")[0].split("__")
        decoded = [unquote(part) for part in types]
        assert decoded == ([name] if len(types) == 1 else list(edge_type))
