"""``graphzero info`` of a graph with node types and edge types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from graphzero.commands.description import (
    degree_lines,
    degrees_of,
    describe_attribute,
    describe_files,
    describe_ids,
    file_lines,
    miss_lines,
    rows_text,
    visits_line,
)
from graphzero.commands.options import describe_direction
from graphzero.commands.tuning_info import describe_tuning, tuning_lines
from graphzero.graph.typed_dataset import EdgeStore, NodeStore, TypedDataset
from graphzero.store.edge_changes import EdgeChanges, describe_changes
from graphzero.store.id_table import ids_text
from graphzero.store.manifest import TypedManifest, read_manifest
from graphzero.units import format_bytes

__all__ = ["describe_typed", "typed_lines"]


def describe_typed(path: str, ds: TypedDataset, *, degrees: bool) -> dict[str, Any]:
    """What a dataset has, by type."""
    manifest = read_manifest(path)
    counted = manifest.presampling
    changes = {
        edge_type: table.changes
        for edge_type, table in (
            manifest.edges if isinstance(manifest, TypedManifest) else {}
        ).items()
    }
    return {
        "path": path,
        "num_nodes": ds.num_nodes,
        "num_edges": ds.num_edges,
        "neighbors": ds.neighbors,
        "direction": describe_direction(ds),
        "order": manifest.order,
        "node_types": [_nodes(nodes) for nodes in ds.nodes.values()],
        "edge_types": [
            _edges(edges, changes.get(edges.edge_type), degrees=degrees)
            for edges in ds.edges.values()
        ],
        "visits": None if counted is None else asdict(counted),
        "tuning": describe_tuning(ds),
        "files": describe_files(path, ds),
    }


def _nodes(nodes: NodeStore) -> dict[str, Any]:
    return {
        "type": nodes.node_type,
        "num_nodes": nodes.num_nodes,
        "attributes": {name: describe_attribute(store) for name, store in nodes.items()},
        "node_ids": describe_ids(nodes.node_ids),
        "num_classes": nodes.num_classes,
        "splits": {name: len(store) for name, store in nodes.splits.stores.items()},
    }


def _edges(edges: EdgeStore, changes: EdgeChanges | None, *, degrees: bool) -> dict[str, Any]:
    graph = edges.graph
    content: dict[str, Any] = {
        "type": list(edges.edge_type),
        "num_edges": edges.num_edges,
        "num_input_edges": graph.num_input_edges,
        "changes": None if changes is None else asdict(changes),
        "mean_degree": graph.num_edges / graph.num_nodes if graph.num_nodes else 0.0,
        "attributes": {name: describe_attribute(store) for name, store in edges.items()},
        "weight": edges.driving.weight,
        "time": edges.driving.time,
        "time_level": edges.driving.time_level,
        "splits": {name: len(store) for name, store in edges.splits.stores.items()},
    }
    if degrees:
        content["degrees"] = degrees_of(graph)
    return content


def typed_lines(content: dict[str, Any]) -> Iterator[str]:
    """Lines of `describe_typed`."""
    yield content["path"]
    yield (
        f"  typed     {content['num_nodes']:,} nodes in {content['order']} order, "
        f"{content['num_edges']:,} edges, {content['direction']}"
    )
    for nodes in content["node_types"]:
        yield f"  nodes     {nodes['type']}: {nodes['num_nodes']:,}"
        yield from _attribute_lines(nodes, "nodes")
        if nodes["node_ids"] is not None:
            yield f"            {ids_text(**nodes['node_ids'])}"
        if nodes["num_classes"] is not None:
            yield f"            {nodes['num_classes']} classes"
    for edges in content["edge_types"]:
        yield (
            f"  edges     {', '.join(edges['type'])}: {edges['num_edges']:,}; "
            f"{edges['mean_degree']:.1f} a list"
        )
        if edges["changes"] is not None:
            yield f"            {', '.join(describe_changes(EdgeChanges(**edges['changes'])))}"
        yield from _attribute_lines(edges, "edges")
        if edges["weight"] is not None:
            yield f"            sampled by weight {edges['weight']!r}"
        if edges["time"] is not None:
            yield f"            sampled by time {edges['time']!r} of the {edges['time_level']}s"
        if "degrees" in edges:
            yield from degree_lines(edges["degrees"])
    if content["visits"] is not None:
        yield visits_line(content["visits"])
    if "misses" in content:
        yield from miss_lines(content["misses"])
    yield from tuning_lines(content)
    for file in content["files"]:
        yield from file_lines(file)


def _attribute_lines(content: dict[str, Any], what: str) -> Iterator[str]:
    for name, rows in content["attributes"].items():
        yield f"    {name:9s} {rows_text(rows)}, {format_bytes(rows['bytes'])}"
    for name, count in content["splits"].items():
        yield f"    split     {name}: {count:,} {what}"
