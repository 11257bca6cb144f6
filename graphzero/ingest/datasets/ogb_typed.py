"""OGB's graphs with types, such as ogbn-mag and ogbl-biokg.

As text: ``raw/triplet-type-list.csv.gz`` (source type, relation, target type; no header),
``raw/num-node-dict.csv.gz`` (a header of node types, then their numbers of nodes),
``raw/relations/SOURCE___RELATION___TARGET/`` with ``edge.csv.gz``, ``num-edge-list.csv.gz`` and
attributes of the edges, ``raw/node-feat/TYPE/`` with attributes of the nodes,
``raw/nodetype-has-label.csv.gz`` and ``raw/node-label/TYPE/node-label.csv.gz``. Binary:
``raw/edge_index_dict.npz``, ``raw/num_nodes_dict.npz`` and ``raw/num_edges_dict.npz``, further
``raw/node_*.npz`` and ``raw/edge_*.npz``, and ``raw/node-label.npz``, all with an array a type.
These are ``read_csv_heterograph_raw`` and ``read_binary_heterograph_raw`` of OGB.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphzero.ingest.datasets.description import ClassLabels, FoundDataset, as_vector
from graphzero.ingest.datasets.ogb_folder import (
    OgbFolder,
    attribute_name,
    edge_values,
    node_values,
)
from graphzero.ingest.source import Source
from graphzero.ingest.sources.array_opening import open_array
from graphzero.ingest.sources.npz_file import NpzFile

__all__ = ["binary_typed_graph", "is_typed", "text_typed_graph", "types_with"]

_NUMBERS = ("num_nodes_dict.npz", "num_edges_dict.npz", "edge_index_dict.npz")


def is_typed(folder: OgbFolder) -> bool:
    """Whether the graph has types."""
    files = ("triplet-type-list.csv.gz", "num-node-dict.csv.gz", "relations", *_NUMBERS)
    return any((folder.raw / name).exists() for name in files)


def types_with(folder: OgbFolder, path: Path) -> list[str]:
    """The node types that have something, by a table such as ``nodetype-has-label.csv.gz``.

    Raises
    ------
    OSError, ValueError
        If the table is missing or damaged.
    """
    names, values = _two_lines(folder, path)
    return [name for name, value in zip(names, values, strict=True) if value.strip() == "True"]


def _two_lines(folder: OgbFolder, path: Path) -> tuple[list[str], list[str]]:
    lines = folder.table(path)
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        raise ValueError(
            f"{path} must have a header of node types and one line of values: further lines are "
            f"further graphs, and a dataset folder holds one"
        )
    return lines[0], lines[1]


def text_typed_graph(folder: OgbFolder) -> FoundDataset:
    """The graph, from compressed text."""
    raw = folder.raw
    counts = raw / "num-node-dict.csv.gz"
    nodes: dict[str, dict[str, Any]] = {
        name: {"num_nodes": folder.whole(count, counts)}
        for name, count in zip(*_two_lines(folder, counts), strict=True)
    }
    edges: dict[tuple[str, str, str], dict[str, Any]] = {}
    triplets = raw / "triplet-type-list.csv.gz"
    for line in sorted(folder.table(triplets)):
        if len(line) != 3:
            raise ValueError(f"{triplets} has {line}: an edge type has three names")
        source, relation, target = line
        inside = raw / "relations" / "___".join(line)
        file = folder.require(inside / "edge.csv.gz")
        edges[source, relation, target] = {
            "edge_index": Source(file, src=0, dst=1, header=False),
            **edge_values(inside),
        }
    for name, values in nodes.items():
        values.update(node_values(raw / "node-feat" / name))
    has_label = raw / "nodetype-has-label.csv.gz"
    if has_label.exists() or folder.name.startswith("ogbn-"):
        for name in types_with(folder, has_label):
            label = folder.require(raw / "node-label" / name / "node-label.csv.gz")
            nodes[name]["y"] = Source(label, header=False, id_column=False)
    return FoundDataset(edges, nodes)


def _edge_type(key: str, path: Path) -> tuple[str, str, str]:
    parts = key.split("___")
    if len(parts) != 3:
        raise ValueError(f"{path} has {key!r}, which is not SOURCE___RELATION___TARGET")
    return parts[0], parts[1], parts[2]


def binary_typed_graph(folder: OgbFolder) -> FoundDataset:
    """The graph, from ``.npz`` files."""
    numbers, _, lists = (folder.require(folder.raw / name) for name in _NUMBERS)
    counts = NpzFile(numbers)
    nodes: dict[str, dict[str, Any]] = {}
    for name in sorted(counts.names):
        count = np.atleast_1d(counts.value(name))
        if count.shape != (1,):
            raise ValueError(f"{numbers}:{name} has {len(count):,} numbers: one graph is expected")
        nodes[name] = {"num_nodes": int(count[0])}
    edges: dict[tuple[str, str, str], dict[str, Any]] = {
        _edge_type(key, lists): {"edge_index": f"{lists}:{key}"}
        for key in sorted(NpzFile(lists).names)
    }
    for path in sorted(folder.raw.glob("*.npz")):
        if path.name in _NUMBERS:
            continue
        stem = path.name.split(".")[0]
        for key in NpzFile(path).names:
            if path.name == "node-label.npz":
                _place(nodes, key, path)["y"] = _labels(folder, path, key)
            elif stem.startswith("node_"):
                _place(nodes, key, path)[attribute_name(stem)] = _values(path, key, stem)
            elif stem.startswith("edge_"):
                place = _place(edges, _edge_type(key, path), path)
                place[attribute_name(stem)] = _values(path, key, stem)
            else:
                raise ValueError(f"{path} is neither of nodes nor of edges, by its name")
    if folder.name.startswith("ogbn-"):
        folder.require(folder.raw / "node-label.npz")
    return FoundDataset(edges, nodes)


def _place(places: dict[Any, dict[str, Any]], key: Any, path: Path) -> dict[str, Any]:
    if key not in places:
        raise ValueError(f"{path} has values of {key!r}, which is none of the types of the graph")
    return places[key]


def _values(path: Path, key: str, stem: str) -> Any:
    if attribute_name(stem) in ("x", "edge_attr"):
        return f"{path}:{key}"
    return as_vector(open_array(f"{path}:{key}", stem))


def _labels(folder: OgbFolder, path: Path, key: str) -> Any:
    array = as_vector(open_array(f"{path}:{key}", "node_label"))
    classes = folder.facts is not None and folder.facts.classes
    if classes and array.ndim == 1 and array.dtype.kind == "f":
        return ClassLabels(f"{path}:{key}", array)
    return array
