"""Typed graphs: every edge and attribute of the files is the user's, and no two share a file."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import small_memory
from cli_program import only_line, run
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typed_inputs import CITES, WRITES, check_files, small

import graphzero as gz
from graphzero.store.format import read_file
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
            given = {"num_nodes": count}
            if i % 3 == 0:
                given = {
                    "x": rng.random((count, 3), np.float32),
                    "y": rng.integers(-1, 5, count),
                    "year": rng.integers(1900, 2000, count),
                    "image": rng.integers(0, 255, (count, 2, 3), np.uint8),
                }
            self.nodes[name] = given
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


def sections(graph):
    return read_file(graph.path)[1]


def stored_records(ds, edge_type):
    """Source, target, position, weight, time and features of each stored edge, in stored order."""
    edges = ds[edge_type]
    graph = edges.graph
    degrees = np.diff(graph.indptr.astype(np.int64))
    owners = edges.owner.to_user(np.repeat(np.arange(graph.num_nodes), degrees))
    neighbors = edges.neighbor.to_user(graph.indices.astype(np.int64))
    source, target = (neighbors, owners) if graph.is_incoming else (owners, neighbors)
    columns = [source, target, sections(graph)["edge_ids"].astype(np.int64)]
    everything = np.arange(edges.num_edges)
    for name in ("w", "when"):
        if name in edges.attributes:
            columns.append(edges.attributes[name].gather(everything))
    table = np.stack(columns, 1).astype(np.float64)
    if "edge_attr" in edges:
        table = np.concatenate([table, edges.attributes["edge_attr"].gather(everything)], 1)
    return table


def given_records(content):
    source, target = content["edge_index"]
    columns = [source, target, np.arange(len(source))]
    if "w" in content:
        columns.append(content["w"].astype(np.float32))
    columns += [content["when"]] if "when" in content else []
    table = np.stack(columns, 1).astype(np.float64)
    attr = content.get("edge_attr")
    return table if attr is None else np.concatenate([table, attr], 1)


def assert_edges(ds, graph):
    for edge_type, content in graph.edges.items():
        found, expected = stored_records(ds, edge_type), given_records(content)
        np.testing.assert_array_equal(found[np.argsort(found[:, 2])], expected)
        lists = ds[edge_type].graph
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


# --- a small graph, by hand


@pytest.mark.parametrize("order", ["hot", "input"])
def test_files_and_manifest(tmp_path, order):
    splits = {"train": {"paper": [3, 1]}, "val": {"paper": [True, False, False, False]}}
    edge_splits = {"train": {WRITES: [2, 0]}}
    arguments = small(splits=splits, edge_splits=edge_splits, order=order)
    arguments["edges"][WRITES]["edge_attr"] = np.arange(3.0)
    with gz.build(tmp_path, **arguments) as ds:
        assert ds["paper"].num_classes == 3
        assert ds["author"].num_classes is None
        assert ds["author"].num_nodes == 3
        assert ds["paper"].splits["val"].tolist() == [0]
        assert ds[WRITES].splits["train"].tolist() == [2, 0]
        assert ds[WRITES].neighbors(1).tolist() == [0, 2]
        assert ds[CITES].neighbors(2).tolist() == [0]
        assert "edge_ids" in sections(ds[WRITES].graph)
        assert "edge_ids" not in sections(ds[CITES].graph)
        lists = ds[WRITES].graph
        assert (lists.num_nodes, lists.num_neighbors) == (4, 3)
    names = {
        "author__writes__paper.edge_attr.gd",
        "author__writes__paper.gl",
        "author__writes__paper.split_train.gd",
        "dataset.json",
        "paper.split_train.gd",
        "paper.split_val.gd",
        "paper.x.gd",
        "paper.y.gd",
        "paper__cites__paper.gl",
    }
    names |= {"author.ids.gd", "paper.ids.gd"} if order == "hot" else set()
    assert {path.name for path in tmp_path.iterdir()} == names


def test_edges_say_how_many_nodes_there_are(tmp_path):
    edges = {("a", "r", "b"): [[0, 1, 1], [5, 2, 0]], ("b", "r", "c"): [[6], [0]]}
    with gz.build(tmp_path, edges, nodes={"a": {}, "b": {}, "c": {}}) as ds:
        assert [nodes.num_nodes for nodes in ds.nodes.values()] == [2, 7, 1]


def test_replaces_a_graph_without_types_and_back(tmp_path):
    def names():
        return {path.name for path in tmp_path.iterdir()}

    gz.build(tmp_path, [[0, 1], [1, 2], [2, 0]], np.ones((3, 2))).close()
    untyped = names()
    gz.build(tmp_path, **small()).close()
    typed = names()
    assert not (untyped & typed) - {"dataset.json"}
    with gz.open(tmp_path) as ds:
        assert ds.node_types == ["paper", "author"]
    gz.build(tmp_path, [[0, 1], [1, 2], [2, 0]], np.ones((3, 2))).close()
    assert names() == untyped


@pytest.mark.parametrize("order", ["hot", "input"])
def test_rows_in_another_order_of_nodes_are_refused(tmp_path, order):
    """Rows are found by the numbers of the nodes: from another build, they would be others'."""
    rng = np.random.default_rng(0)
    kind = ("a", "r", "a")
    nodes = {"a": {"x": np.arange(50.0)}}
    for name, as_built in (("one", order), ("other", "hot")):
        edges = {kind: rng.integers(0, 50, (2, 300))}
        gz.build(tmp_path / name, edges, nodes=nodes, order=as_built).close()
    rows = tmp_path / "one" / "a.x.gd"
    rows.write_bytes((tmp_path / "other" / "a.x.gd").read_bytes())
    with pytest.raises(gz.FormatError, match=r"a\.x\.gd does not have the nodes of the type 'a'"):
        gz.open(tmp_path / "one")


# --- weights and times


def test_times_of_nodes_are_those_of_the_neighbours(tmp_path):
    year = np.array([1990, 1980, 2000, 1970])
    for neighbors, edge_type in (("in", CITES), ("out", WRITES)):
        arguments = small(neighbors=neighbors, time_attrs="year")
        arguments["nodes"]["paper"]["year"] = year
        with gz.build(tmp_path / neighbors, **arguments) as ds:
            assert ds[edge_type].sampled_by.time == "year"
            assert ds[edge_type].sampled_by.time_level == "node"
            assert "year" not in ds[edge_type]
            edges = ds[edge_type]
            papers = ds["paper"].to_user(edges.graph.indices.astype(np.int64))
            np.testing.assert_array_equal(edges.graph.times, year[papers])
            other = WRITES if edge_type == CITES else CITES
            assert (ds[other].graph.times is None) == (neighbors == "in")
        with gz.reorder(tmp_path / neighbors, "input") as ds:
            edges = ds[edge_type]
            np.testing.assert_array_equal(edges.graph.times, year[edges.graph.indices])


def test_names_of_what_is_sampled_by(tmp_path):
    arguments = small(weight_attrs=["strength"], time_attrs=["since"])
    arguments["edges"][WRITES] |= {"strength": [1, 2, 3], "since": [5, 4, 3], "weight": [9, 9, 9]}
    with gz.build(tmp_path, **arguments) as ds:
        sampled_by = ds[WRITES].sampled_by
        assert (sampled_by.weight, sampled_by.time, sampled_by.time_level) == (
            "strength",
            "since",
            "edge",
        )
        assert sorted(ds[WRITES].attributes) == ["since", "strength", "weight"]
        assert ds[CITES].sampled_by.weight is None
        assert not (tmp_path / "author__writes__paper.strength.gd").exists()


def test_info(tmp_path, capfd):
    arguments = small(splits={"train": {"paper": [3, 1]}}, time_attrs="year")
    arguments["nodes"]["paper"]["year"] = np.array([1990, 1980, 2000, 1970])
    arguments["edges"][WRITES] |= {"edge_attr": np.ones((3, 5), np.float16), "weight": [1, 2, 3]}
    gz.build(tmp_path, **arguments).close()
    assert run("train", tmp_path) == 1
    assert "for graphs without types" in only_line(capfd.readouterr().err)
    assert run("info", tmp_path) == 0
    text = " ".join(capfd.readouterr().out.split())
    for part in (
        "num_nodes: 7 num_edges: 5",
        "direction: directed, in-neighbours sampled order: hot",
        "nodes paper: num_nodes=4, num_classes=3",
        "x: shape=4 x 2, dtype=float64, bytes=64 bytes",
        "splits: train=2",
        "edges author,writes,paper: num_edges=3, num_input_edges=3, mean_degree=0.75",
        "edge_attr: shape=3 x 5, dtype=float16, bytes=30 bytes",
        "sampled_by: weight=weight, time_level=edge",
        "edges paper,cites,paper: num_edges=2, num_input_edges=2, mean_degree=0.50",
        "sampled_by: time=year, time_level=node",
    ):
        assert part in text, part
    assert run("info", tmp_path, "--json") == 0
    content = json.loads(capfd.readouterr().out)
    assert [one["type"] for one in content["edges"]] == [list(WRITES), list(CITES)]
    assert content["edges"][1]["sampled_by"]["time"] == "year"
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
        decoded = [bytes(decode(part)).decode() for part in types]
        assert decoded == ([name] if len(types) == 1 else list(edge_type))


def decode(part):
    codes, at = [], 0
    while at < len(part):
        step = 3 if part[at] == "%" else 1
        codes.append(int(part[at + 1 : at + 3], 16) if step == 3 else ord(part[at]))
        at += step
    return codes
