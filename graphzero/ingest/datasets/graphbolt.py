"""GraphBolt's ``OnDiskDataset``: a folder with a ``metadata.yaml``, without DGL.

The layout is that of https://github.com/dmlc/dgl,
``docs/source/stochastic_training/ondisk-dataset-specification.rst``, as
``python/dgl/graphbolt/impl/ondisk_dataset.py`` reads it: edges as CSV without a header, or as
``.npy`` of shape (2, E); features, seeds and labels as ``.npy`` or ``.pt``; types of edges as
``"source:relation:target"``; paths relative to the folder. An edge leads from its first node to its
second, and neighbours are the sources of incoming edges, as in graphzero.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphzero.ingest.datasets.description import FoundDataset
from graphzero.ingest.datasets.graphbolt_tasks import GraphBoltTask, find_task
from graphzero.ingest.source import Source
from graphzero.ingest.sources.array_opening import open_array

__all__ = ["find_graphbolt", "load_yaml"]

# What examples of GraphBolt call the features.
_NAMES = {("node", "feat"): "x", ("edge", "feat"): "edge_attr"}


def load_yaml(path: Path) -> Any:
    """The content of a YAML file; objects other than texts, numbers and containers are refused.

    Raises
    ------
    ImportError
        If PyYAML is not installed.
    ValueError
        If it is no YAML.
    OSError
        If it cannot be read.
    """
    try:
        import yaml
    except ImportError:
        raise ImportError("reading metadata.yaml needs PyYAML: pip install pyyaml") from None
    with open(path, encoding="utf-8") as file:
        try:
            return yaml.safe_load(file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no YAML: {' '.join(str(error).split())}") from None


@dataclass(frozen=True)
class _Metadata:
    """The metadata of a folder, and where its files are."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "metadata.yaml"

    def entries(self, parent: Any, name: str) -> list[dict[str, Any]]:
        """A list of dictionaries, empty if it is not there."""
        found = parent.get(name) or []
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise ValueError(f"{self.path}: {name} must be a list of entries")
        return found

    def text(self, entry: Mapping[str, Any], name: str, where: str) -> str:
        """A text that an entry must have."""
        value = entry.get(name)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{self.path}: {where} has no {name}: {dict(entry)}")
        return value

    def array(self, entry: Mapping[str, Any], where: str) -> str:
        """The path of a file of numbers, which must be there."""
        kinds = {"numpy": (".npy",), "torch": (".pt", ".pth")}
        kind = self.text(entry, "format", where)
        if kind not in kinds:
            raise ValueError(f"{self.path}: {where} has format {kind!r}, which is none of {kinds}")
        path = self.file(entry, where)
        if path.suffix not in kinds[kind]:
            raise ValueError(
                f"{path}: a file of format {kind} must end in {' or '.join(kinds[kind])}: rename "
                f"it, in metadata.yaml as well"
            )
        return os.fspath(path)

    def file(self, entry: Mapping[str, Any], where: str) -> Path:
        """A file that must be there."""
        path = self.folder / self.text(entry, "path", where)
        if not path.is_file():
            raise FileNotFoundError(2, f"metadata.yaml names this file of {where}", str(path))
        return path


def _read(path: str | os.PathLike[str]) -> tuple[_Metadata, dict[str, Any]]:
    folder = Path(path)
    if folder.name == "metadata.yaml":
        folder = folder.parent
    metadata = _Metadata(folder)
    if not metadata.path.is_file():
        also = ""
        if (folder / "preprocessed" / "metadata.yaml").is_file():
            also = (
                "; preprocessed/ has files of DGL's own, which are not read: get the dataset as it "
                "was before DGL preprocessed it"
            )
        raise FileNotFoundError(2, f"there is no metadata.yaml{also}", str(folder))
    content = load_yaml(metadata.path)
    if not isinstance(content, dict):
        raise ValueError(f"{metadata.path} has no entries")
    if "graph" not in content:
        if "graph_topology" in content:
            raise ValueError(
                f"{metadata.path} describes files that DGL has preprocessed, which only DGL reads: "
                f"give the folder above, {folder.resolve().parent}, whose metadata.yaml has 'graph'"
            )
        raise ValueError(f"{metadata.path} has no 'graph'")
    if not isinstance(content["graph"], dict):
        raise ValueError(f"{metadata.path}: graph must have nodes and edges")
    return metadata, content


def find_graphbolt(
    path: str | os.PathLike[str],
    *,
    task: str | int | None = None,
    names: Mapping[str, str] | None = None,
    directed: bool = True,
) -> FoundDataset:
    """What a folder of GraphBolt holds, as arguments of a build; only ``metadata.yaml`` is read.

    Parameters
    ----------
    path : path-like
    task : str or int, optional
        The task whose sets become splits, by name or position. Default: the only one.
    names : dict of str to str, optional
        Names of attributes, for names of features, "feat" or "node:feat". Default: "feat" is "x" of
        nodes and "edge_attr" of edges, the others keep their names.
    directed : bool
        As in `graphzero.build`.

    Raises
    ------
    OSError
        If a file is missing.
    ValueError
        If ``metadata.yaml`` is not as documented, or has several tasks.
    """
    metadata, content = _read(path)
    graph = content["graph"]
    nodes, edges, typed = _graph(metadata, graph)
    features = metadata.entries(content, "feature_data")
    features = [*metadata.entries(graph, "feature_data"), *features]
    notes = []
    for entry in features:
        note = _add_feature(metadata, entry, nodes, edges, names or {})
        notes += [] if note is None else [note]
    tasks = metadata.entries(content, "tasks")
    found = find_task(metadata, tasks, task, nodes, typed=typed)
    if not typed:
        values, num_nodes = nodes[None], nodes[None].pop("num_nodes")
        described = FoundDataset(edges[None], values, num_nodes=num_nodes, directed=directed)
    else:
        described = FoundDataset(edges, nodes, directed=directed)
    return _with_task(described, found, tuple(notes))


def _with_task(found: FoundDataset, task: GraphBoltTask, notes: tuple[str, ...]) -> FoundDataset:
    return FoundDataset(
        found.edges,
        found.nodes,
        task.splits,
        found.num_nodes,
        found.directed,
        task.seeds,
        (*notes, *task.notes),
    )


Nodes = dict[Any, dict[str, Any]]


def _graph(metadata: _Metadata, graph: Any) -> tuple[Nodes, Nodes, bool]:
    """Numbers of nodes and lists of edges, by type; None is the type of a graph without types."""
    of_nodes, of_edges = (metadata.entries(graph, name) for name in ("nodes", "edges"))
    if not of_nodes or not of_edges:
        raise ValueError(f"{metadata.path}: graph must have nodes and edges")
    typed = any(entry.get("type") is not None for entry in [*of_nodes, *of_edges])
    if not typed and (len(of_nodes) > 1 or len(of_edges) > 1):
        raise ValueError(f"{metadata.path} has several nodes or edges, and none has a type")
    nodes: Nodes = {}
    for entry in of_nodes:
        kind = metadata.text(entry, "type", "graph.nodes") if typed else None
        count = entry.get("num")
        if not isinstance(count, int) or isinstance(count, bool) or count < 0 or kind in nodes:
            raise ValueError(f"{metadata.path}: graph.nodes has {entry}: num must be a number")
        nodes[kind] = {"num_nodes": count}
    edges: Nodes = {}
    for entry in of_edges:
        edge_type = as_edge_type(metadata, entry.get("type")) if typed else None
        if edge_type in edges:
            raise ValueError(f"{metadata.path}: graph.edges has {entry.get('type')} twice")
        edges[edge_type] = {"edge_index": _edges(metadata, entry)}
    return nodes, edges, typed


def as_edge_type(metadata: Any, text: Any) -> tuple[str, str, str]:
    """``"author:writes:paper"`` in its parts."""
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"{metadata.path} has edge type {text!r}: write source:relation:target")
    return parts[0], parts[1], parts[2]


def _edges(metadata: _Metadata, entry: Mapping[str, Any]) -> Any:
    if entry.get("format") == "csv":
        return Source(metadata.file(entry, "graph.edges"), src=0, dst=1, header=False)
    path = metadata.array(entry, "graph.edges")
    shape = open_array(path, path).shape
    if len(shape) != 2 or shape[0] != 2:
        raise ValueError(f"{path} has shape {shape}: edges of GraphBolt are (2, E)")
    return path


def _add_feature(
    metadata: _Metadata,
    entry: Mapping[str, Any],
    nodes: Nodes,
    edges: Nodes,
    names: Mapping[str, str],
) -> str | None:
    """Adds an attribute; returns what to tell of one that a dataset cannot have."""
    domain, given = (metadata.text(entry, key, "feature_data") for key in ("domain", "name"))
    if domain == "graph":
        return f"feature_data {given!r} is of the whole graph, and is not stored"
    if domain not in ("node", "edge"):
        raise ValueError(f"{metadata.path}: feature_data has domain {domain!r}")
    places: Nodes = nodes if domain == "node" else edges
    kind: Any = entry.get("type")
    if kind is not None and domain == "edge":
        kind = as_edge_type(metadata, kind)
    if kind not in places:
        known: Sequence[Any] = [each for each in places if each is not None]
        raise ValueError(
            f"{metadata.path}: feature_data {given!r} is of type {kind!r}, and the graph has "
            f"{', '.join(map(str, known)) or 'no types'}"
        )
    chosen = names.get(f"{domain}:{given}", names.get(given))
    name = _NAMES.get((domain, given), given) if chosen is None else chosen
    if name in places[kind]:
        raise ValueError(
            f"{metadata.path}: feature_data {given!r} would be a second {name!r}: give another "
            f"name, names={{'{domain}:{given}': ...}}"
        )
    places[kind][name] = metadata.array(entry, f"feature_data {given!r}")
    return None
