"""``graphzero info``."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Any

from graphzero.commands.description import (
    degree_lines,
    degrees_of,
    describe_attribute,
    describe_file,
    describe_files,
    describe_ids,
    describe_rows,
    fanouts_text,
    file_lines,
    miss_lines,
    rows_text,
    visits_line,
)
from graphzero.commands.options import SubParsers, add_command, describe_direction
from graphzero.commands.tuning_info import describe_tuning, tuning_lines
from graphzero.commands.typed_info import describe_typed, typed_lines
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.opening import open_dataset
from graphzero.graph.typed_dataset import TypedDataset
from graphzero.io.misses import predict_misses
from graphzero.packs.pack_file import OPTIONS, open_pack, source_name
from graphzero.packs.pack_parts import open_parts, pack_files
from graphzero.store.edge_changes import EdgeChanges, describe_changes
from graphzero.store.format import FLAG_TYPED, read_header
from graphzero.store.id_table import ids_text
from graphzero.store.manifest import read_untyped
from graphzero.units import format_bytes, parse_size

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero info data/
  graphzero info data/graph.gl --degrees
  graphzero info data/ --json
  graphzero info data/ --memory 640MB --iops 90000
"""


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
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="predict how many pages of features a mini-batch reads from the disk when SIZE bytes "
        "of features are kept in memory; needs a dataset in presample order",
    )
    parser.add_argument(
        "--iops",
        type=float,
        metavar="N",
        help="random reads per second of the disk: with --memory, predict the seconds as well",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the description, as text or as JSON."""
    content = _describe(args.path, degrees=args.degrees)
    lines = typed_lines(content) if "node_types" in content else _lines(content)
    if args.memory is not None:
        content["misses"] = _misses(args.path, args.memory, args.iops)
    elif args.iops is not None:
        raise ValueError("--iops needs --memory: without it no misses are predicted")
    if args.json:
        print(json.dumps(content, indent=2))
    else:
        print("\n".join(lines))
    return 0


def _misses(path: str, memory: str, iops: float | None) -> dict[str, Any]:
    if iops is not None and not iops > 0:
        raise ValueError(f"--iops must be positive, not {iops:g}")
    found = predict_misses(path, parse_size(memory, "memory limit"))
    return {
        "memory": found.memory,
        "resident_pages": found.resident_pages,
        "total_pages": found.total_pages,
        "touched_pages": found.touched_pages,
        "missing_pages": found.missing_pages,
        "missing_bytes": found.missing_bytes,
        "seconds": None if iops is None else found.seconds(iops),
    }


def _describe(path: str, *, degrees: bool) -> dict[str, Any]:
    if os.path.isdir(path):
        with closing(open_dataset(path)) as ds:
            if isinstance(ds, TypedDataset):
                return describe_typed(path, ds, degrees=degrees)
            return _describe_dataset(path, ds, degrees=degrees)
    if path.endswith(".npy") or read_header(path).kind == "features":
        with closing(FeatureStore(path)) as store:
            content: dict[str, Any] = {
                "path": path,
                "rows": describe_rows(store),
                "files": [describe_file(store.mapping)],
            }
        if any(section["name"] == OPTIONS for section in content["files"][0]["sections"]):
            content["pack"] = _pack(path)
            for part in pack_files(path)[1:]:
                with closing(FeatureStore(part)) as store:
                    content["files"].append(describe_file(store.mapping))
        return content
    if read_header(path).flags & FLAG_TYPED:
        with closing(Graph._open_typed(path)) as graph:
            return {
                "path": path,
                **_graph(graph, "stored", degrees=degrees),
                "num_neighbors": graph.num_neighbors,
                "files": [describe_file(graph.mapping)],
            }
    with closing(Graph(path)) as graph:
        # Only dataset.json says which of the two it is.
        order = "input" if graph.stored_order is None else "hot or presample"
        files = [describe_file(graph.mapping)]
        return {"path": path, **_graph(graph, order, degrees=degrees), "files": files}


def _describe_dataset(path: str, ds: Dataset, *, degrees: bool) -> dict[str, Any]:
    manifest = read_untyped(path, "this description")
    content = {"path": path, **_graph(ds.graph, manifest.order, degrees=degrees)}
    for name, store in (("features", ds.features), ("labels", ds.labels)):
        if store is not None:
            content[name] = describe_rows(store)
    further = {name: store for name, store in ds.attributes.items() if name not in ("x", "y")}
    content["attributes"] = {name: describe_attribute(store) for name, store in further.items()}
    content["edge_attributes"] = {
        name: describe_attribute(store) for name, store in ds.edge_attributes.items()
    }
    content["changes"] = None if manifest.changes is None else asdict(manifest.changes)
    content["driving"] = asdict(ds.driving)
    content["node_ids"] = describe_ids(ds.node_ids)
    content["num_classes"] = ds.num_classes
    content["splits"] = {name: len(store) for name, store in ds.splits.stores.items()}
    content["edge_splits"] = {name: len(store) for name, store in ds.edge_splits.stores.items()}
    counted = manifest.presampling
    content["visits"] = None if counted is None else asdict(counted)
    content["tuning"] = describe_tuning(ds)
    content["files"] = describe_files(path, ds)
    return content


def _graph(graph: Graph, order: str, *, degrees: bool) -> dict[str, Any]:
    size = graph.mapping.size
    content: dict[str, Any] = {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_input_edges": graph.num_input_edges,
        "directed": graph.is_directed,
        "neighbors": graph.stored_neighbors,
        "direction": describe_direction(graph),
        "order": order,
        "mean_degree": graph.num_edges / graph.num_nodes if graph.num_nodes else 0.0,
        "bytes_per_edge": size / graph.num_edges if graph.num_edges else None,
    }
    if degrees:
        content["degrees"] = degrees_of(graph)
    return content


def _pack(path: str) -> dict[str, Any]:
    pack = open_pack(path)
    content = {**asdict(pack.info), "batches": len(pack.offsets) - 1, "attributes": {}}
    resident = 0
    packs = open_parts(pack) if pack.info.parts else {pack.info.source: pack}
    for source, part in packs.items():
        with closing(part.store):
            resident += part.resident_bytes
            content["attributes"][source_name(source)] = describe_attribute(part.store)
    return {**content, "resident_bytes": resident}


def _lines(content: dict[str, Any]) -> Iterator[str]:
    yield content["path"]
    if "num_nodes" in content:
        yield f"  nodes     {content['num_nodes']:,}, in {content['order']} order"
        yield (
            f"  edges     {content['num_edges']:,} from {content['num_input_edges']:,} input "
            f"edges, {content['direction']}; {content['mean_degree']:.1f} a node"
        )
        if content.get("changes") is not None:
            yield f"            {', '.join(describe_changes(EdgeChanges(**content['changes'])))}"
        if content["bytes_per_edge"] is not None:
            yield f"  graph     {content['bytes_per_edge']:.2f} bytes an edge"
    for name in ("features", "labels", "rows"):
        if name in content:
            yield f"  {name:9s} {rows_text(content[name])}"
    yield from _attribute_lines(content)
    if "pack" in content:
        packed = content["pack"]
        fanouts = fanouts_text(packed["options"]["fanouts"])
        yield (
            f"  packed    {packed['batches']:,} batches of epochs {packed['first_epoch']} to "
            f"{packed['first_epoch'] + packed['epochs'] - 1}, "
            f"{packed['options']['batch_size']:,} seeds each, fanouts {fanouts}, "
            f"{format_bytes(packed['resident_bytes'])} of rows resident"
        )
        for name, rows in packed["attributes"].items():
            yield f"            {name}: {rows_text(rows)}, {format_bytes(rows['bytes'])}"
    if content.get("node_ids") is not None:
        yield f"  ids       {ids_text(**content['node_ids'])}"
    if content.get("num_classes") is not None:
        yield f"  classes   {content['num_classes']}"
    for name, count in content.get("splits", {}).items():
        yield f"  split     {name}: {count:,} nodes"
    for name, count in content.get("edge_splits", {}).items():
        yield f"  split     {name}: {count:,} edges"
    if content.get("visits") is not None:
        yield visits_line(content["visits"])
    if "misses" in content:
        yield from miss_lines(content["misses"])
    if "degrees" in content:
        yield from degree_lines(content["degrees"])
    yield from tuning_lines(content)
    for file in content["files"]:
        yield from file_lines(file)


def _attribute_lines(content: dict[str, Any]) -> Iterator[str]:
    """The attributes of nodes and edges besides features and labels."""
    driving = content.get("driving", {})
    for key, of in (("attributes", "node"), ("edge_attributes", "edge")):
        for name, rows in content.get(key, {}).items():
            role = ""
            if of == "edge" and name == driving["weight"]:
                role = "; weights of sampling"
            elif name == driving["time"] and of == driving["time_level"]:
                role = "; times of sampling"
            yield f"  {of} attr {name}: {rows_text(rows)}, {format_bytes(rows['bytes'])}{role}"
