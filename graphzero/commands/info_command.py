"""``graphzero info``: a dataset, a file or the machine, as JSON or lines of the same names."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import graphzero
from graphzero import _core
from graphzero.commands.parsing import add_option, describe_direction
from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import EdgeTypeGraph, Graph
from graphzero.graph.stores import EdgeStore, NodeStore
from graphzero.graph.user_input import NodeTexts
from graphzero.io.memory import shared_memory_bytes
from graphzero.packs.pack_file import OPTIONS, Pack, open_parts, source_name
from graphzero.report.readings import installed_versions, read_group, this_machine
from graphzero.store.format import DTYPES, FLAG_TYPED, dtype_name, read_header
from graphzero.store.free_memory import available_memory
from graphzero.store.manifest import EdgeChanges, Manifest, read_manifest
from graphzero.store.mapped_file import resident_bytes
from graphzero.units import format_bytes, print_lines

HELP = "describe a dataset or a file, and how much of it is in the page cache; or this machine"
EXAMPLES = """\
  graphzero info data/
  graphzero info data/graph.gl
  graphzero info data/ --json
  graphzero info --system
"""
_IN_BYTES = ("bytes", "page_cache", "memory_limit", "available")  # ends of names


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add_option(parser, "path", "a dataset folder, a .gl, .gd or .npy file", nargs="?", default=None)
    add_option(
        parser,
        "--system",
        "describe this machine, and the disk of PATH or of this folder, for a report of a problem",
    )
    add_option(parser, "--json", "print the description as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the description, as text or as JSON."""
    if args.path is None and not args.system:
        raise ValueError("name a dataset or a file, or ask for --system")
    path = args.path or "."
    content = _system(path) if args.system else _describe(path)
    if args.json:
        print(json.dumps(content, indent=2))
    else:
        title = "system" if args.system else content.pop("path")
        print_lines(title, *_lines(content))
    return 0


# --- the description


def _describe(path: str) -> dict[str, Any]:
    if os.path.isdir(path):
        with closing(open_dataset(path)) as ds:
            return _dataset(path, ds)
    if not path.endswith(".npy") and read_header(path).kind == "graph":
        is_typed = bool(read_header(path).flags & FLAG_TYPED)
        with closing(EdgeTypeGraph(path) if is_typed else Graph(path)) as graph:
            nodes = {"num_nodes": graph.num_nodes, "num_neighbors": graph.num_neighbors}
            content = {"direction": describe_direction(graph), **_lists(graph)}
            return {"path": path, **nodes, **content, "files": _files([path])}
    with closing(FeatureStore(path)) as store:
        content = {"path": path, "rows": _rows(store), "files": _files([path])}
    if any(section["name"] == OPTIONS for section in content["files"][0]["sections"]):
        content |= {"pack": _pack(path), "files": _files(Pack(path).files)}
    return content


def _dataset(path: str, ds: Dataset) -> dict[str, Any]:
    manifest = read_manifest(path)
    counted = manifest.presampling
    return {
        "path": path,
        "num_nodes": ds.num_nodes,
        "num_edges": ds.num_edges,
        "neighbors": ds.neighbors,
        "direction": describe_direction(ds),
        "order": manifest.order,
        "joined_since_order": _joined(manifest) if manifest.has_drifted else None,
        "nodes": [_nodes(store) for store in ds.nodes.values()],
        "edges": [_edges(store, manifest.edges[name].changes) for name, store in ds.edges.items()],
        "visits": None if counted is None else asdict(counted),
        "files": _files(entry.resolve(Path(path)) for entry in manifest.entries()),
    }


def _joined(manifest: Manifest) -> dict[str, Any]:
    """The nodes and edges that have joined since the nodes were ordered, until `reorder`."""
    nodes = [(table.num_nodes, table.num_ordered_nodes) for table in manifest.nodes.values()]
    edges = [(table.num_input_edges, table.num_ordered_edges) for table in manifest.edges.values()]
    found: dict[str, Any] = {}
    for what, counts in (("nodes", nodes), ("edges", edges)):
        joined = sum(count - ordered for count, ordered in counts if ordered is not None)
        share = joined / max(1, sum(count for count, _ in counts))
        found |= {f"num_{what}": joined, f"share_of_{what}": share}
    return found


def _nodes(nodes: NodeStore) -> dict[str, Any]:
    ids = nodes.node_ids
    kind = None if ids is None else "texts" if isinstance(ids, NodeTexts) else str(ids.dtype)
    return {
        "type": nodes.node_type,
        "num_nodes": nodes.num_nodes,
        "num_classes": nodes.num_classes,
        "attributes": {name: _rows(store) for name, store in nodes.attributes.items()},
        "node_ids": None if ids is None else {"kind": kind, "count": len(ids)},
        "splits": {name: len(store) for name, store in nodes.splits.stores.items()},
    }


def _edges(edges: EdgeStore, changes: EdgeChanges | None) -> dict[str, Any]:
    return {
        "type": edges.edge_type if any(edges.edge_type) else "",
        **_lists(edges.graph),
        "sampled_by": asdict(edges.sampled_by),
        "changes": None if changes is None else asdict(changes),
        "attributes": {name: _rows(store) for name, store in edges.attributes.items()},
        "splits": {name: len(store) for name, store in edges.splits.stores.items()},
    }


def _lists(graph: Graph) -> dict[str, Any]:
    return {
        "num_edges": graph.num_edges,
        "num_input_edges": graph.num_input_edges,
        "mean_degree": graph.num_edges / graph.num_nodes if graph.num_nodes else 0.0,
        "bytes_per_edge": graph.mapping.size / graph.num_edges if graph.num_edges else None,
    }


def _pack(path: str) -> dict[str, Any]:
    attributes, resident = {}, 0
    packs = open_parts(path)
    pack = next(iter(packs.values()))
    for source, part in packs.items():
        with closing(part.store):
            resident += part.info.resident_rows * part.store.row_bytes
            attributes[source_name(source)] = _rows(part.store)
    batches = len(pack.offsets) - 1
    more = {"batches": batches, "attributes": attributes, "resident_bytes": resident}
    return {**asdict(pack.info), **more}


def _rows(store: FeatureStore) -> dict[str, Any]:
    size = store.num_nodes * store.row_bytes
    return {"shape": list(store.shape), "dtype": dtype_name(store.dtype), "bytes": size}


def _files(paths: Iterable[str | os.PathLike[str]]) -> list[dict[str, Any]]:
    """Sizes, sections, and how much is in the page cache."""
    found = []
    for each in paths:
        path = os.fspath(each)
        with closing(_core.Mapping(path)) as mapping:
            file = {"bytes": mapping.size, "page_cache": resident_bytes(mapping)}
        sections = () if path.endswith(".npy") else read_header(path).sections
        listed = [
            {
                **{"name": each.name, "dtype": dtype_name(DTYPES[each.dtype])},
                **{"count": each.count, "offset": each.offset, "bytes": each.length},
            }
            for each in sections
        ]
        found.append({"name": os.path.basename(path), **file, "sections": listed})
    return found


# --- the machine


def _system(folder: str) -> dict[str, Any]:
    """What a report of a problem must say: versions, the machine, and the disk of a folder."""
    here, disk, group = this_machine(folder), os.statvfs(folder), read_group()
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "versions": {**installed_versions(), "graphzero": graphzero.__version__},
        "system": f"{platform.system()} {platform.release()}",
        "c_library": " ".join(platform.libc_ver()) or None,
        "cpu": here.cpu,
        "cores": here.cores,
        "memory_bytes": here.memory,
        "memory_available": available_memory(),
        "group_memory_limit": None if group is None else group.limit,
        "shared_memory_bytes": shared_memory_bytes(),
        "disk": here.disk,
        "file_system": here.file_system,
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "io_uring": _core.uring_refusal() or "works",
        "huge_pages": huge.read_text().strip() if huge.exists() else None,
    }


# --- as text


def _lines(content: dict[str, Any], indent: str = "  ") -> Iterator[str]:
    """A line for each entry: of a table its plain values, and below them the tables in it."""
    for name, value in content.items():
        for table in filter(None, _tables(value)):
            label = _text("", table.get("name", table.get("type", "")))
            plain = [
                f"{key}={_text(key, each)}"
                for key, each in table.items()
                if key not in ("name", "type") and not _tables(each)
                if each is not None or key == "page_cache"
            ]
            yield f"{indent}{f'{name} {label}'.rstrip()}: {', '.join(plain)}".rstrip()
            nested = {key: each for key, each in table.items() if _tables(each)}
            yield from _lines(nested, indent + "  ")
        if not _tables(value) and value is not None:
            yield f"{indent}{name}: {_text(name, value)}"


def _tables(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return value
    return [value] if isinstance(value, dict) else []


def _text(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, (list, tuple)):
        return (" x " if name == "shape" else ",").join(_text("", each) for each in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return format_bytes(value) if name.endswith(_IN_BYTES) else f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
