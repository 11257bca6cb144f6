"""From the JSON of ``dataset.json`` to a manifest, and back; every value is checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from graphzero.store.atomic import is_staging_name
from graphzero.store.edge_changes import EdgeChanges
from graphzero.store.schema import (
    EDGE_TIME,
    EDGE_WEIGHT,
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    Neighbors,
    NodeTable,
    Presampling,
    TimeLevel,
    TypedManifest,
)

__all__ = ["WRONG", "content_of", "parse_manifest"]

_T = TypeVar("_T")

# What counts can be in the files, and seeds.
_MOST_COUNT, _MOST_SEED = (1 << 63) - 1, (1 << 64) - 1
_MOST_CLASSES = 1 << 64  # one more than the largest label
# What json, and the checks of its content, may raise.
WRONG = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def _count(content: Any, name: str, most: int = _MOST_COUNT) -> int:
    value = content[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r:.80}, not an integer from 0 to {most}")
    return value


def _is_file_name(name: Any) -> bool:
    if not isinstance(name, str) or name in ("", ".", "..") or "\0" in name:
        return False
    return os.path.basename(name) == name and 0 < len(os.fsencode(name)) < 256


def _entry(value: Any) -> FileEntry | None:
    if value is None:
        return None
    names = (value["name"], value["staged"])
    if not all(map(_is_file_name, names)):
        raise ValueError("a file name points outside the folder, or is none")
    if not is_staging_name(names[1]):
        raise ValueError("a staged name is invalid")
    return FileEntry(*names)


def _presampling(value: Any) -> Presampling | None:
    if value is None:
        return None
    names = ("batches", "batch_size", "num_seeds", "seed")
    counts = {name: _count(value, name, _MOST_SEED) for name in names}
    if counts["batches"] < 1:
        raise ValueError("it has visits of no batches")
    found = value["fanouts"]
    if isinstance(found, dict):
        by_type = {kind: _fanouts(each) for kind, each in found.items()}
        return Presampling(fanouts=by_type, **counts)
    return Presampling(fanouts=_fanouts(found), **counts)


def _fanouts(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(fanout) is not int for fanout in value):
        raise ValueError("fanouts of presampling are not integers")
    return tuple(value)


def _neighbors(content: dict[str, Any], out_graph: FileEntry | None) -> Neighbors | None:
    """What the manifest says of the direction; it must fit the files and the kind of graph."""
    directed = content["directed"]
    if content["version"] == 1:
        return None if directed else "both"
    found: Any = content["neighbors"]
    if found not in ("in", "out", "both"):
        raise ValueError(f"neighbors is {found!r:.80}, not 'in', 'out' or 'both'")
    if (out_graph is not None) != (directed and found == "both"):
        raise ValueError("neighbors and the graph files contradict each other")
    if not directed and found != "both":
        raise ValueError("an undirected graph has neighbors 'both'")
    neighbors: Neighbors = found
    return neighbors


def _entries(value: Any) -> dict[str, FileEntry]:
    """Files by name."""
    found = {name: _entry(one) for name, one in value.items()}
    if any(not name or entry is None for name, entry in found.items()):
        raise ValueError("a name or a file is missing")
    return {name: entry for name, entry in found.items() if entry is not None}


def _required_entry(value: Any) -> FileEntry:
    entry = _entry(value)
    if entry is None:
        raise ValueError("it names no graph")
    return entry


def _classes(content: Any) -> int | None:
    value = content["num_classes"]
    return None if value is None else _count(content, "num_classes", _MOST_CLASSES)


def _order(content: dict[str, Any]) -> str:
    order = content["order"]
    if not isinstance(order, str):
        raise ValueError("order is no name")
    return order


def _driving(content: dict[str, Any]) -> dict[str, Any]:
    """The attributes that drive sampling."""
    level: Any = content.get("time_level", "edge")
    if level not in ("edge", "node"):
        raise ValueError(f"time_level is {level!r:.80}, not 'edge' or 'node'")
    time_level: TimeLevel = level
    names = (content.get("weight", EDGE_WEIGHT), content.get("time", EDGE_TIME))
    if not all(name is None or (isinstance(name, str) and name) for name in names):
        raise ValueError("weight or time is no name")
    return {"weight": names[0], "time": names[1], "time_level": time_level}


def _changes(value: Any) -> EdgeChanges | None:
    """What a build did to the edge list."""
    if value is None:
        return None
    counts = {
        name: None if value[name] is None else _count(value, name)
        for name in ("num_merged", "num_self_loops_dropped")
    }
    flags = {name: value[name] for name in ("reversed", "symmetric")}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise ValueError("a change of the edge list is neither true nor false")
    return EdgeChanges(
        counts["num_merged"],
        counts["num_self_loops_dropped"],
        reversed=flags["reversed"],
        symmetric=flags["symmetric"],
    )


def _untyped(content: dict[str, Any]) -> Manifest:
    if not isinstance(content["directed"], bool):
        raise ValueError("directed is neither true nor false")
    out_graph = _entry(content.get("out_graph"))
    return Manifest(
        num_nodes=_count(content, "num_nodes"),
        num_edges=_count(content, "num_edges"),
        num_input_edges=_count(content, "num_input_edges"),
        directed=content["directed"],
        order=_order(content),
        num_classes=_classes(content),
        graph=_required_entry(content["graph"]),
        features=_entry(content["features"]),
        labels=_entry(content["labels"]),
        splits=_entries(content["splits"]),
        visits=_entry(content.get("visits")),
        presampling=_presampling(content.get("presampling")),
        neighbors=_neighbors(content, out_graph),
        out_graph=out_graph,
        attributes=_entries(content.get("attributes", {})),
        edge_attributes=_entries(content.get("edge_attributes", {})),
        edge_splits=_entries(content.get("edge_splits", {})),
        changes=_changes(content.get("changes")),
        id_map=_entry(content.get("id_map")),
        **_driving(content),
    )


def _node_table(content: dict[str, Any]) -> NodeTable:
    return NodeTable(
        num_nodes=_count(content, "num_nodes"),
        attributes=_entries(content["attributes"]),
        splits=_entries(content["splits"]),
        num_classes=_classes(content),
        ids=_entry(content["ids"]),
        visits=_entry(content["visits"]),
        id_map=_entry(content.get("id_map")),
    )


def _edge_table(content: dict[str, Any]) -> EdgeTable:
    return EdgeTable(
        num_edges=_count(content, "num_edges"),
        num_input_edges=_count(content, "num_input_edges"),
        graph=_required_entry(content["graph"]),
        attributes=_entries(content["attributes"]),
        splits=_entries(content["splits"]),
        changes=_changes(content.get("changes")),
        **_driving(content),
    )


def _by_type(tables: Any, type_of: Callable[[Any], _T]) -> dict[_T, Any]:
    found = {type_of(table["type"]): table for table in tables}
    if len(found) != len(tables) or not found:
        raise ValueError("there are no types, or one is there twice")
    return found


def _node_type(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"a node type is {value!r:.80}")
    return value


def _edge_type(value: Any) -> EdgeType:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError(f"an edge type is {value!r:.80}")
    source, relation, target = map(_node_type, value)
    return source, relation, target


def _typed(content: dict[str, Any]) -> TypedManifest:
    nodes = _by_type(content["node_types"], _node_type)
    edges = _by_type(content["edge_types"], _edge_type)
    for source, _, target in edges:
        if source not in nodes or target not in nodes:
            raise ValueError("an edge type has a node type that does not exist")
    neighbors: Any = content["neighbors"]
    if neighbors not in ("in", "out"):
        raise ValueError(f"neighbors is {neighbors!r:.80}, not 'in' or 'out'")
    return TypedManifest(
        nodes={name: _node_table(table) for name, table in nodes.items()},
        edges={name: _edge_table(table) for name, table in edges.items()},
        neighbors=neighbors,
        order=_order(content),
        presampling=_presampling(content.get("presampling")),
    )


def parse_manifest(content: dict[str, Any]) -> Manifest | TypedManifest:
    """The manifest of a JSON object of a known version; raises one of `WRONG` if it is invalid."""
    return _typed(content) if "node_types" in content else _untyped(content)


def content_of(manifest: Manifest | TypedManifest) -> dict[str, Any]:
    """The JSON object of a manifest, with its version."""
    content = {"version": 2, **asdict(manifest)}
    if isinstance(manifest, TypedManifest):
        for name in ("node", "edge"):
            tables = content.pop(f"{name}s")
            content[f"{name}_types"] = [{"type": key, **table} for key, table in tables.items()]
    elif manifest.neighbors is None:  # as it was read: a later version would claim a choice
        content["version"] = 1
        del content["neighbors"], content["out_graph"]
    return content
