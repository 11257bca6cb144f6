"""``graphzero info``."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from graphzero import _core
from graphzero.commands.options import SubParsers, add_command, describe_direction
from graphzero.commands.tuning_info import describe_tuning, tuning_lines
from graphzero.graph.dataset import Dataset, EdgeStore, NodeStore, open_dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.ids import NodeTexts
from graphzero.packs.pack_file import OPTIONS, open_pack, open_parts, pack_files, source_name
from graphzero.store.format import DTYPES, FLAG_TYPED, dtype_name, read_header
from graphzero.store.id_table import ids_text
from graphzero.store.manifest import EDGES, NODES, EdgeChanges, describe_changes, read_manifest
from graphzero.store.mapped_file import resident_bytes
from graphzero.units import format_bytes

_EXAMPLES = """\
  graphzero info data/
  graphzero info data/graph.gl --degrees
  graphzero info data/ --json
"""
_BLOCK = 1 << 20


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "info",
        run,
        help="describe a dataset or a file, and say how much of it is in the page cache",
        examples=_EXAMPLES,
    )
    parser.add_argument("path", help="a dataset folder, a .gl, .gd or .npy file")
    parser.add_argument("--degrees", action="store_true", help="count the nodes by degree")
    parser.add_argument("--json", action="store_true", help="print the description as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the description, as text or as JSON."""
    content = _describe(args.path, degrees=args.degrees)
    if args.json:
        print(json.dumps(content, indent=2))
    else:
        print("\n".join([content["path"], *_lines(content)]))
    return 0


# --- as JSON


def _describe(path: str, *, degrees: bool) -> dict[str, Any]:
    if os.path.isdir(path):
        with closing(open_dataset(path)) as ds:
            return _dataset(path, ds, degrees=degrees)
    if path.endswith(".npy") or read_header(path).kind == "features":
        with closing(FeatureStore(path)) as store:
            content: dict[str, Any] = {"path": path, "rows": _rows(store)}
            content["files"] = [_file(store.mapping)]
        if any(section["name"] == OPTIONS for section in content["files"][0]["sections"]):
            content["pack"] = _pack(path)
            for part in pack_files(path)[1:]:
                with closing(FeatureStore(part)) as store:
                    content["files"].append(_file(store.mapping))
        return content
    is_typed = bool(read_header(path).flags & FLAG_TYPED)
    with closing(Graph._open_typed(path) if is_typed else Graph(path)) as graph:
        # Only dataset.json says in which order the nodes are.
        order = "input" if graph.stored_order is None else "hot or presample"
        content = {"path": path, **_graph(graph, "stored" if is_typed else order, degrees=degrees)}
        if is_typed:
            content["num_neighbors"] = graph.num_neighbors
        content["files"] = [_file(graph.mapping)]
    return content


def _dataset(path: str, ds: Dataset, *, degrees: bool) -> dict[str, Any]:
    """What a dataset has, by type where it has types."""
    manifest = read_manifest(path)
    nodes = {name: _nodes(store) for name, store in ds.nodes.items()}
    edges = {
        name: _edges(store, manifest.edges[name].changes, degrees=degrees)
        for name, store in ds.edges.items()
    }
    if ds.is_typed:
        content: dict[str, Any] = {
            "path": path,
            "num_nodes": ds.num_nodes,
            "num_edges": ds.num_edges,
            "neighbors": ds.neighbors,
            "direction": describe_direction(ds),
            "order": manifest.order,
            "node_types": list(nodes.values()),
            "edge_types": list(edges.values()),
        }
    else:
        content = {"path": path, **_graph(ds.graph, manifest.order, degrees=degrees)}
        of_nodes, of_edges = nodes[NODES], edges[EDGES]
        for key, name in (("features", "x"), ("labels", "y")):
            if name in of_nodes["attributes"]:
                del of_nodes["attributes"][name]
                content[key] = _rows(ds.attributes[name])
        content["attributes"] = of_nodes["attributes"]
        content["edge_attributes"] = of_edges["attributes"]
        content["changes"] = of_edges["changes"]
        content["driving"] = asdict(ds.driving)
        content |= {name: of_nodes[name] for name in ("node_ids", "num_classes", "splits")}
        content["edge_splits"] = of_edges["splits"]
    counted = manifest.presampling
    content["visits"] = None if counted is None else asdict(counted)
    content["tuning"] = describe_tuning(ds)
    # those that are mapped, and those that only reports read
    files = {os.path.realpath(mapping.path): _file(mapping) for mapping in ds.mappings}
    for entry in manifest.entries():
        file = os.path.realpath(entry.resolve(Path(path)))
        if file not in files:
            with closing(FeatureStore(file)) as store:
                files[file] = _file(store.mapping)
    content["files"] = list(files.values())
    return content


def _nodes(nodes: NodeStore) -> dict[str, Any]:
    ids = nodes.node_ids
    kind = None if ids is None else "texts" if isinstance(ids, NodeTexts) else str(ids.dtype)
    return {
        "type": nodes.node_type,
        "num_nodes": nodes.num_nodes,
        "attributes": {name: _attribute(store) for name, store in nodes.items()},
        "node_ids": None if ids is None else {"kind": kind, "count": len(ids)},
        "num_classes": nodes.num_classes,
        "splits": {name: len(store) for name, store in nodes.splits.stores.items()},
    }


def _edges(edges: EdgeStore, changes: EdgeChanges | None, *, degrees: bool) -> dict[str, Any]:
    graph = edges.graph
    return {
        "type": list(edges.edge_type),
        "num_edges": edges.num_edges,
        "num_input_edges": graph.num_input_edges,
        "changes": None if changes is None else asdict(changes),
        "mean_degree": _mean_degree(graph),
        "attributes": {name: _attribute(store) for name, store in edges.items()},
        "weight": edges.driving.weight,
        "time": edges.driving.time,
        "time_level": edges.driving.time_level,
        "splits": {name: len(store) for name, store in edges.splits.stores.items()},
        **({"degrees": _degrees(graph)} if degrees else {}),
    }


def _graph(graph: Graph, order: str, *, degrees: bool) -> dict[str, Any]:
    return {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_input_edges": graph.num_input_edges,
        "directed": graph.is_directed,
        "neighbors": graph.stored_neighbors,
        "direction": describe_direction(graph),
        "order": order,
        "mean_degree": _mean_degree(graph),
        "bytes_per_edge": graph.mapping.size / graph.num_edges if graph.num_edges else None,
        **({"degrees": _degrees(graph)} if degrees else {}),
    }


def _mean_degree(graph: Graph) -> float:
    return graph.num_edges / graph.num_nodes if graph.num_nodes else 0.0


def _degrees(graph: Graph) -> dict[str, Any]:
    """Largest degree, and the number of nodes in each range of degrees between powers of two."""
    indptr, largest = graph.indptr, 0
    counts = np.zeros(65, dtype=np.int64)
    for begin in range(0, graph.num_nodes, _BLOCK):
        part = np.diff(indptr[begin : begin + _BLOCK + 1])
        largest = max(largest, int(part.max()))
        # frexp returns the number of bits: 0 for 0, 1 for 1, 2 for 2 and 3, ...
        counts += np.bincount(np.frexp(part.astype(np.float64))[1], minlength=counts.size)
    ranges = ["0", "1", *(f"{1 << bits - 1}-{(1 << bits) - 1}" for bits in range(2, counts.size))]
    used = int(counts.nonzero()[0].max(initial=0)) + 1
    histogram = dict(zip(ranges[:used], counts[:used].tolist(), strict=True))
    return {"max": largest, "nodes": histogram}


def _pack(path: str) -> dict[str, Any]:
    pack = open_pack(path)
    attributes, resident = {}, 0
    packs = open_parts(pack) if pack.info.parts else {pack.info.source: pack}
    for source, part in packs.items():
        with closing(part.store):
            resident += part.resident_bytes
            attributes[source_name(source)] = _attribute(part.store)
    batches = len(pack.offsets) - 1
    more = {"batches": batches, "attributes": attributes, "resident_bytes": resident}
    return {**asdict(pack.info), **more}


def _rows(store: FeatureStore) -> dict[str, Any]:
    return {"shape": list(store.shape), "dtype": dtype_name(store.dtype)}


def _attribute(store: FeatureStore) -> dict[str, Any]:
    return {**_rows(store), "bytes": store.num_nodes * store.row_bytes}


def _file(mapping: _core.Mapping) -> dict[str, Any]:
    """Size, sections, and how much is in the page cache."""
    sections = () if mapping.path.endswith(".npy") else read_header(mapping.path).sections
    return {
        "name": os.path.basename(mapping.path),
        "bytes": mapping.size,
        "page_cache": resident_bytes(mapping),
        "sections": [
            {
                "name": section.name,
                "dtype": dtype_name(DTYPES[section.dtype]),
                "count": section.count,
                "offset": section.offset,
                "bytes": section.length,
            }
            for section in sections
        ],
    }


# --- as text


def _lines(content: Mapping[str, Any]) -> Iterator[str]:
    if "node_types" in content:
        yield from _typed_lines(content)
    elif "num_nodes" in content:
        yield f"  nodes     {content['num_nodes']:,}, in {content['order']} order"
        yield (
            f"  edges     {content['num_edges']:,} from {content['num_input_edges']:,} input "
            f"edges, {content['direction']}; {content['mean_degree']:.1f} a node"
        )
        yield from _change_lines(content)
        if content["bytes_per_edge"] is not None:
            yield f"  graph     {content['bytes_per_edge']:.2f} bytes an edge"
    for name in ("features", "labels", "rows"):
        if name in content:
            yield f"  {name:9s} {_shape(content[name])}"
    for key, of in (("attributes", "node"), ("edge_attributes", "edge")):
        for name, rows in content.get(key, {}).items():
            role, driving = "", content["driving"]
            if of == "edge" and name == driving["weight"]:
                role = "; weights of sampling"
            elif name == driving["time"] and of == driving["time_level"]:
                role = "; times of sampling"
            yield f"  {of} attr {name}: {_shape(rows)}, {format_bytes(rows['bytes'])}{role}"
    if "pack" in content:
        packed = content["pack"]
        yield (
            f"  packed    {packed['batches']:,} batches of epochs {packed['first_epoch']} to "
            f"{packed['first_epoch'] + packed['epochs'] - 1}, "
            f"{packed['options']['batch_size']:,} seeds each, fanouts "
            f"{_fanouts(packed['options']['fanouts'])}, "
            f"{format_bytes(packed['resident_bytes'])} of rows resident"
        )
        for name, rows in packed["attributes"].items():
            yield f"            {name}: {_shape(rows)}, {format_bytes(rows['bytes'])}"
    if content.get("node_ids") is not None:
        yield f"  ids       {ids_text(**content['node_ids'])}"
    if content.get("num_classes") is not None:
        yield f"  classes   {content['num_classes']}"
    for key, of in (("splits", "nodes"), ("edge_splits", "edges")):
        for name, count in content.get(key, {}).items():
            yield f"  split     {name}: {count:,} {of}"
    if content.get("visits") is not None:
        counted = content["visits"]
        yield (
            f"  visits    counted in {counted['batches']:,} mini-batches of "
            f"{counted['batch_size']:,} seeds, fanouts {_fanouts(counted['fanouts'])}"
        )
    yield from _degree_lines(content)
    yield from tuning_lines(dict(content))
    for file in content["files"]:
        cached = file["page_cache"]
        share = "unknown" if cached is None else f"{100 * cached / max(file['bytes'], 1):.0f} %"
        yield f"  {file['name']}: {format_bytes(file['bytes'])}, {share} in the page cache"
        for section in file["sections"]:
            yield (
                f"    {section['name']:16s} {section['count']:>16,} {section['dtype']:8s} "
                f"{format_bytes(section['bytes'])}"
            )


def _typed_lines(content: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"  typed     {content['num_nodes']:,} nodes in {content['order']} order, "
        f"{content['num_edges']:,} edges, {content['direction']}"
    )
    for nodes in content["node_types"]:
        yield f"  nodes     {nodes['type']}: {nodes['num_nodes']:,}"
        yield from _typed_attribute_lines(nodes, "nodes")
        if nodes["node_ids"] is not None:
            yield f"            {ids_text(**nodes['node_ids'])}"
        if nodes["num_classes"] is not None:
            yield f"            {nodes['num_classes']} classes"
    for edges in content["edge_types"]:
        yield (
            f"  edges     {', '.join(edges['type'])}: {edges['num_edges']:,}; "
            f"{edges['mean_degree']:.1f} a list"
        )
        yield from _change_lines(edges)
        yield from _typed_attribute_lines(edges, "edges")
        if edges["weight"] is not None:
            yield f"            sampled by weight {edges['weight']!r}"
        if edges["time"] is not None:
            yield f"            sampled by time {edges['time']!r} of the {edges['time_level']}s"
        yield from _degree_lines(edges)


def _typed_attribute_lines(content: Mapping[str, Any], what: str) -> Iterator[str]:
    for name, rows in content["attributes"].items():
        yield f"    {name:9s} {_shape(rows)}, {format_bytes(rows['bytes'])}"
    for name, count in content["splits"].items():
        yield f"    split     {name}: {count:,} {what}"


def _change_lines(content: Mapping[str, Any]) -> Iterator[str]:
    if content.get("changes") is not None:
        yield f"            {', '.join(describe_changes(EdgeChanges(**content['changes'])))}"


def _degree_lines(content: Mapping[str, Any]) -> Iterator[str]:
    if "degrees" in content:
        yield f"  degrees   largest {content['degrees']['max']:,}; nodes by degree:"
        for range_, count in content["degrees"]["nodes"].items():
            yield f"    {range_:>21s}  {count:,}"


def _shape(rows: Mapping[str, Any]) -> str:
    return f"{' x '.join(f'{count:,}' for count in rows['shape'])}, {rows['dtype']}"


def _fanouts(fanouts: Any) -> str:
    """Fanouts of every hop, or of every edge type and hop."""
    if isinstance(fanouts, dict):
        return "; ".join(f"{kind} {_fanouts(hops)}" for kind, hops in fanouts.items())
    return ",".join(map(str, fanouts))
