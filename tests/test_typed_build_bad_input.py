"""Wrong input for a typed graph: errors name the type, and say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typed_inputs import WRITES, small

import graphzero as gz
from graphzero.store.manifest import MANIFEST_NAME


def refused(folder: Path, message: str, arguments: dict[str, Any], kind: Any = ValueError) -> None:
    with pytest.raises(kind, match=message):
        gz.build(folder, **arguments)
    assert not (folder / MANIFEST_NAME).exists()
    assert not [path for path in folder.iterdir() if path.is_file()] if folder.exists() else True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"directed": False}, "directed=False.*reverse edge types.*ToUndirected"),
        ({"neighbors": "both"}, "neighbors='both' is not for typed graphs"),
        ({"features": np.ones((4, 2))}, "features= .*nodes={'paper': {'x'"),
        ({"labels": [1, 2, 3, 4]}, "labels= .*nodes={'paper': {'y'"),
        ({"num_nodes": 4}, "num_nodes= .*nodes={'paper': {'num_nodes'"),
        ({"presample": gz.Presample()}, "presample= is for order='presample', not 'hot'"),
        ({"src": 1}, "src= names a column of one edge list"),
        ({"weight": "w"}, "weight= .*weight_attrs="),
        ({"timestamp": "t"}, "timestamp= .*time_attrs="),
        ({"splits": {"train": [1, 2]}}, r"splits\['train'\] must be a dict by type"),
        ({"splits": {"train": {"papers": [1]}}}, "'papers', which is none of the types 'paper'"),
        ({"edge_splits": {"train": {"writes": [1]}}}, "'writes', which is none of the types"),
        ({"splits": {"a b": {"paper": [1]}}}, "split name 'a b'"),
    ],
)
def test_options(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    refused(tmp_path, message, small(**options))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({("author", "writes", "papers"): [[0], [1]]}, "'papers', which nodes= does not have"),
        ({("author", "paper"): [[0], [1]]}, r"edge type is \(source type, relation, target type\)"),
        ({("author", "", "paper"): [[0], [1]]}, "a text that is not empty"),
        ({("author", 3, "paper"): [[0], [1]]}, "a text that is not empty"),
        ({WRITES: {"edge_attr": [1.0]}}, "writes.*no 'edge_index', .* it has 'edge_attr'"),
        ({WRITES: {"edge_index": [[0, -1], [1, 2]]}}, "writes.*edge 1: -1 is not a source id"),
        ({WRITES: {"edge_index": [[0, 1], [1, 4]]}}, "writes.*target id 4 is out of range.*'x' of"),
        ({WRITES: {"edge_index": np.ones((3, 3), int)}}, r"writes.*shape \(3, 3\)"),
        ({WRITES: {"edge_index": [[0.5], [1.0]]}}, "writes.*node ids must be integers"),
        ({WRITES: {"edge_index": [[0], [1]], "edge_attr": [1, 2]}}, "writes.*2 rows for 1 edges"),
        (
            {WRITES: {"edge_index": [[0, 1], [1, 1]], "edge_attr": [1]}},
            "writes.*1 rows for 2 edges",
        ),
        ({WRITES: {"edge_index": [[0], [1]], "n_id": [1]}}, "writes.*'n_id'.*choose another"),
        ({WRITES: {"edge_index": [[0], [1]], "edge_weight": [-1.0]}}, "writes.*-1.0 is negative"),
        ({WRITES: {"edge_index": [[0], [1]], "edge_weight": [1.0, 2.0]}}, "writes.*2|more"),
        ({WRITES: {"edge_index": [[0], [1]], "edge_time": [0.5]}}, "writes.*vectors of integers"),
    ],
)
def test_edges(tmp_path: Path, edges: Any, message: str) -> None:
    refused(tmp_path, message, small(edges=edges))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({"author": {}}, "'paper', which nodes= does not have"),
        ({"paper": {}, "author": {}, "venue": {}}, "'venue'.*no nodes: give 'num_nodes'"),
        ({"paper": {"num_nodes": 0}, "author": {}}, "'paper'.*num_nodes=0"),
        ({"paper": {"num_nodes": 3}, "author": {"num_nodes": 2}}, "author id|source id 2 is out"),
        ({"paper": {"x": np.ones((4, 2)), "y": [1, 2]}, "author": {}}, "'y' of 'paper' has 2 rows"),
        ({"paper": {"x": np.ones((4, 2)), "num_nodes": 5}, "author": {}}, "num_nodes of 'paper'"),
        ({"paper": np.ones((4, 2)), "author": {}}, "'paper'.*not a dict of attributes"),
        ({"paper": {"x": np.array(["a"] * 4)}, "author": {}}, "'paper'.*dtype"),
        ({"paper": {"edge_attr": [1] * 4}, "author": {}}, "'paper'.*'edge_attr'"),
        ({"paper": {"bad name": [1] * 4}, "author": {}}, "'paper'.*'bad name'"),
        ({"": {}, "paper": {}, "author": {}}, "a node type is ''"),
        ({3: {}, "paper": {}, "author": {}}, "a node type is 3"),
        ({"\ud800": {}, "paper": {}, "author": {}}, "no valid Unicode"),
        ({"p" * 300: {"x": [1]}, "paper": {}, "author": {}}, "choose shorter names"),
    ],
)
def test_nodes(tmp_path: Path, nodes: Any, message: str) -> None:
    refused(tmp_path, message, small(nodes=nodes))


@pytest.mark.parametrize("edges", [{}, [[0], [1]], None])
def test_no_edge_types(tmp_path: Path, edges: Any) -> None:
    refused(tmp_path, "at least one edge type", small(edges=edges))


@pytest.mark.parametrize("nodes", [None, {}])
def test_no_node_types(tmp_path: Path, nodes: Any) -> None:
    refused(tmp_path, "needs nodes=", small(nodes=nodes))


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"splits": {"train": {"paper": [1, 4]}}}, "'paper'.*position 1: node 4 is out of range"),
        ({"edge_splits": {"train": {WRITES: [3]}}}, "writes.*edge 3 is out of range for 3 edges"),
    ],
)
def test_splits_out_of_range(tmp_path: Path, splits: dict[str, Any], message: str) -> None:
    refused(tmp_path, message, small(**splits), IndexError)


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "in" / "writes.csv"
    path.parent.mkdir()
    path.write_text("src,dst\n0,1\n0,9\n")
    arguments = small()
    arguments["edges"][WRITES] = path
    refused(tmp_path / "d", r"writes'.*writes\.csv, line 3: target id 9 is out of range", arguments)
    path.write_text("src,dst\n0,1\n0,one\n")
    refused(tmp_path / "d", r"writes'.*writes\.csv, line 3", arguments)
    arguments["edges"][WRITES] = path.with_name("none.csv")
    refused(tmp_path / "d", "none.csv", arguments, FileNotFoundError)


def test_an_earlier_dataset_stays(tmp_path: Path) -> None:
    gz.build(tmp_path, **small()).close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    arguments = small()
    arguments["nodes"]["paper"]["year"] = [1, 2, 3]
    with pytest.raises(ValueError, match="'year' of 'paper' has 3 rows"):
        gz.build(tmp_path, **arguments)
    with pytest.raises(IndexError, match="node 77"):
        gz.build(tmp_path, **small(splits={"train": {"paper": [77]}}))
    arguments = small(edge_splits={"train": {WRITES: [77]}})  # found when all else is written
    with pytest.raises(IndexError, match="edge 77"):
        gz.build(tmp_path, **arguments)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_reorder_refuses_what_it_cannot(tmp_path: Path) -> None:
    gz.build(tmp_path, **small()).close()
    with pytest.raises(ValueError, match="neighbors="):
        gz.reorder(tmp_path, neighbors="out")
