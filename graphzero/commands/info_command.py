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
from graphzero.commands.options import describe_direction
from graphzero.graph.dataset import Dataset, EdgeStore, NodeStore, open_dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.ids import NodeTexts
from graphzero.loader.arguments import as_tuned, suitable_memory
from graphzero.packs.pack_file import OPTIONS, open_pack, open_parts, pack_files, source_name
from graphzero.store.format import DTYPES, FLAG_TYPED, dtype_name, read_header
from graphzero.store.id_table import ids_text
from graphzero.store.manifest import EdgeChanges, describe_changes, read_manifest
from graphzero.store.mapped_file import resident_bytes
from graphzero.units import format_bytes

HELP = "describe a dataset or a file, and say how much of it is in the page cache"
EXAMPLES = """\
  graphzero info data/
  graphzero info data/graph.gl --degrees
  graphzero info data/ --json
"""
_BLOCK = 1 << 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
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
            content["files"] += map(_rows_file, pack_files(path)[1:])
        return content
    is_typed = bool(read_header(path).flags & FLAG_TYPED)
    with closing(Graph._open_typed(path) if is_typed else Graph(path)) as graph:
        # Only dataset.json says in which order the nodes are.
        order = "input" if graph.stored_order is None else "hot or presample"
        content = {"path": path, **_graph(graph, "stored" if is_typed else order, degrees=degrees)}
        if is_typed:
            content["num_neighbors"] = graph.num_neighbors
        return {**content, "files": [_file(graph.mapping)]}


def _dataset(path: str, ds: Dataset, *, degrees: bool) -> dict[str, Any]:
    """The content of a dataset, by type where it has types."""
    manifest = read_manifest(path)
    nodes = [_nodes(store) for store in ds.nodes.values()]
    edges = [
        _edges(store, manifest.edges[name].changes, degrees=degrees)
        for name, store in ds.edges.items()
    ]
    if ds.is_typed:
        content: dict[str, Any] = {
            "path": path,
            "num_nodes": ds.num_nodes,
            "num_edges": ds.num_edges,
            "neighbors": ds.neighbors,
            "direction": describe_direction(ds),
            "order": manifest.order,
            "node_types": nodes,
            "edge_types": edges,
        }
    else:
        content = {"path": path, **_graph(ds.graph, manifest.order, degrees=degrees)}
        ((of_nodes,), (of_edges,)) = (nodes, edges)
        for key, name in (("features", "x"), ("labels", "y")):
            if name in of_nodes["attributes"]:
                del of_nodes["attributes"][name]
                content[key] = _rows(ds.attributes[name])
        names = ("attributes", "node_ids", "num_classes", "splits")
        content |= {name: of_nodes[name] for name in names}
        content |= {f"edge_{name}": of_edges[name] for name in ("attributes", "splits")}
        content |= {"changes": of_edges["changes"], "driving": asdict(ds.driving)}
    counted = manifest.presampling
    content["visits"] = None if counted is None else asdict(counted)
    content["tuning"] = _tuning(ds)
    # those that are mapped, and those that only reports read
    files = {os.path.realpath(mapping.path): _file(mapping) for mapping in ds.mappings}
    for entry in manifest.entries():
        file = os.path.realpath(entry.resolve(Path(path)))
        if file not in files:
            files[file] = _rows_file(file)
    return {**content, "files": list(files.values())}


def _tuning(ds: Dataset) -> dict[str, Any] | None:
    """The options that were chosen, and why loaders do not use them; None without the file.

    A loader is a far larger process than this one. So the amounts of memory are shown that the
    options suit, and a loader says whether it has as much.
    """
    tuned = ds.any_tuning
    if tuned is None:
        return None
    mismatch = ds.tuning_mismatch
    if not mismatch:
        try:
            as_tuned(tuned)
        except (TypeError, ValueError) as error:
            mismatch = f"it is corrupt ({error})"
    size = sum(mapping.size for mapping in ds.mappings)
    least, most = suitable_memory(tuned.available, size)
    return {
        **{name: getattr(tuned, name) for name in ("date", "prefetch", "memory_limit")},
        "available": tuned.available,
        "least_available": least,
        "most_available": most,
        "not_used": mismatch or None,
    }


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
    largest = 0
    counts = np.zeros(65, dtype=np.int64)
    for begin in range(0, graph.num_nodes, _BLOCK):
        part = graph._csr.degrees(np.arange(begin, min(begin + _BLOCK, graph.num_nodes)), 1)
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


def _rows_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    with closing(FeatureStore(path)) as store:
        return _file(store.mapping)


# --- as text


def _lines(content: Mapping[str, Any]) -> Iterator[str]:
    if "node_types" in content:
        yield (
            f"  typed     {content['num_nodes']:,} nodes in {content['order']} order, "
            f"{content['num_edges']:,} edges, {content['direction']}"
        )
        for nodes in content["node_types"]:
            yield f"  nodes     {nodes['type']}: {nodes['num_nodes']:,}"
            yield from _node_lines(nodes)
        for edges in content["edge_types"]:
            name, degree = ", ".join(edges["type"]), edges["mean_degree"]
            yield f"  edges     {name}: {edges['num_edges']:,}; {degree:.1f} a list"
            yield from _edge_lines(edges)
    elif "num_nodes" in content:
        yield f"  nodes     {content['num_nodes']:,}, in {content['order']} order"
        for name in ("features", "labels"):
            if name in content:
                yield f"    {name:9s} {_shape(content[name])}"
        yield from _node_lines(content)
        yield (
            f"  edges     {content['num_edges']:,} from {content['num_input_edges']:,} input "
            f"edges, {content['direction']}; {content['mean_degree']:.1f} a node"
        )
        if content["bytes_per_edge"] is not None:
            yield f"    graph     {content['bytes_per_edge']:.2f} bytes an edge"
        of_edges = {name: content.get(f"edge_{name}", {}) for name in ("attributes", "splits")}
        yield from _edge_lines({**content, **content.get("driving", {}), **of_edges})
    else:
        yield f"  rows      {_shape(content['rows'])}"
    if "pack" in content:
        packed = content["pack"]
        yield (
            f"  packed    {packed['batches']:,} batches of epochs {packed['first_epoch']} to "
            f"{packed['first_epoch'] + packed['epochs'] - 1}, "
            f"{packed['options']['batch_size']:,} seeds each, fanouts "
            f"{_fanouts(packed['options']['fanouts'])}, "
            f"{format_bytes(packed['resident_bytes'])} of rows resident"
        )
        yield from _attribute_lines(packed)
    if content.get("visits") is not None:
        counted = content["visits"]
        yield (
            f"  visits    counted in {counted['batches']:,} mini-batches of "
            f"{counted['batch_size']:,} seeds, fanouts {_fanouts(counted['fanouts'])}"
        )
    if content.get("tuning") is not None:
        yield f"  tuning    {_tuning_text(content['tuning'])}"
    for file in content["files"]:
        cached = file["page_cache"]
        share = "unknown" if cached is None else f"{100 * cached / max(file['bytes'], 1):.0f} %"
        yield f"  {file['name']}: {format_bytes(file['bytes'])}, {share} in the page cache"
        for section in file["sections"]:
            yield (
                f"    {section['name']:16s} {section['count']:>16,} {section['dtype']:8s} "
                f"{format_bytes(section['bytes'])}"
            )


def _node_lines(nodes: Mapping[str, Any]) -> Iterator[str]:
    yield from _attribute_lines(nodes)
    for name, count in nodes.get("splits", {}).items():
        yield f"    split     {name}: {count:,} nodes"
    if nodes.get("node_ids") is not None:
        yield f"    ids       {ids_text(**nodes['node_ids'])}"
    if nodes.get("num_classes") is not None:
        yield f"    classes   {nodes['num_classes']}"


def _edge_lines(edges: Mapping[str, Any]) -> Iterator[str]:
    if edges.get("changes") is not None:
        yield f"    changes   {', '.join(describe_changes(EdgeChanges(**edges['changes'])))}"
    yield from _attribute_lines(edges)
    for name, count in edges["splits"].items():
        yield f"    split     {name}: {count:,} edges"
    if edges.get("weight") is not None:
        yield f"    sampled by weight {edges['weight']!r}"
    if edges.get("time") is not None:
        yield f"    sampled by time {edges['time']!r} of the {edges['time_level']}s"
    if "degrees" in edges:
        yield f"    degrees   largest {edges['degrees']['max']:,}; nodes by degree:"
        for range_, count in edges["degrees"]["nodes"].items():
            yield f"    {range_:>21s}  {count:,}"


def _attribute_lines(content: Mapping[str, Any]) -> Iterator[str]:
    for name, rows in content.get("attributes", {}).items():
        yield f"    {name:9s} {_shape(rows)}, {format_bytes(rows['bytes'])}"


def _tuning_text(tuning: Mapping[str, Any]) -> str:
    fields = dict(tuning["prefetch"])
    text = ", ".join([str(fields.pop("strategy", "")), *(f"{k}={v}" for k, v in fields.items())])
    text += f"; of {tuning['date'][:10]}, with {format_bytes(tuning['available'])} of memory; "
    if tuning["not_used"] is not None:
        return f"{text}not used: {tuning['not_used']}"
    amount = f"{format_bytes(tuning['least_available'])} or more"
    if tuning["most_available"] is not None:
        amount = " to ".join(format_bytes(tuning[f"{one}_available"]) for one in ("least", "most"))
    return (
        f"{text}files and machine match: loaders that find {amount} of memory available use it, "
        f"and batch.stats.io says so"
    )


def _shape(rows: Mapping[str, Any]) -> str:
    return f"{' x '.join(f'{count:,}' for count in rows['shape'])}, {rows['dtype']}"


def _fanouts(fanouts: Any) -> str:
    """Fanouts of every hop, or of every edge type and hop."""
    if isinstance(fanouts, dict):
        return "; ".join(f"{kind} {_fanouts(hops)}" for kind, hops in fanouts.items())
    return ",".join(map(str, fanouts))
