"""``graphzero info`` and ``graphzero verify``: a dataset, a file or the machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import graphzero
from graphzero import _core
from graphzero.commands.parsing import (
    Command,
    add_option,
    describe_direction,
    shows_progress,
)
from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import EdgeTypeGraph, Graph
from graphzero.graph.nodes_and_edges import EdgeStore, NodeStore
from graphzero.graph.user_input import NodeTexts
from graphzero.io.memory import shared_memory_bytes
from graphzero.packs.pack_file import OPTIONS, Pack
from graphzero.report.readings import installed_versions, machine_of, read_group
from graphzero.report.verify import verify_path
from graphzero.store.format import FLAG_TYPED, dtype_name, read_header
from graphzero.store.free_memory import available_memory
from graphzero.store.manifest import EdgeChanges, Manifest, read_manifest
from graphzero.store.mapped_file import resident_bytes
from graphzero.units import format_bytes, print_lines

# What a description is made of: names, and values as JSON has them.
Description = dict[str, object]

_IN_BYTES = ("bytes", "page_cache", "memory", "memory_limit", "available")  # ends of names


def _add_info_options(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "path", "a dataset folder, a .gl, .gd or .npy file", nargs="?", default=None)
    add_option(
        parser,
        "--system",
        "describe this machine, and the disk of PATH or of this folder, for a report of a problem",
    )
    add_option(parser, "--json", "print the description as JSON")


def _info(args: argparse.Namespace) -> None:
    """Describe a dataset or a file, and how much of it is in the page cache; or this machine.

    graphzero info data/
    graphzero info data/graph.gl
    graphzero info data/ --json
    graphzero info --system
    """
    if args.path is None and not args.system:
        raise ValueError("name a dataset or a file, or ask for --system")
    path = args.path or "."
    content = _describe_machine(path) if args.system else _describe_path(path)
    if args.json:
        print(json.dumps(content, indent=2))
    else:
        title = "system" if args.system else content.pop("path")
        print_lines(title, *_lines(content))


# --- the description


def _describe_path(path: str) -> Description:
    if os.path.isdir(path):
        with closing(open_dataset(path)) as ds:
            return _describe_dataset(path, ds)
    header = None if path.endswith(".npy") else read_header(path)
    if header is not None and header.kind == "graph":
        graph_type = EdgeTypeGraph if header.flags & FLAG_TYPED else Graph
        with closing(graph_type(path)) as graph:
            return {
                "path": path,
                "num_nodes": graph.num_nodes,
                "num_neighbors": graph.num_neighbors,
                "direction": describe_direction(graph),
                **_describe_lists(graph),
                "files": _describe_files([path]),
            }
    with closing(FeatureStore(path)) as store:
        rows = _describe_rows(store)
    if header is None or header.find(OPTIONS) is None:
        return {"path": path, "rows": rows, "files": _describe_files([path])}
    pack = Pack(path)
    files = _describe_files(pack.files)
    return {"path": path, "rows": rows, "pack": asdict(pack.info), "files": files}


def _describe_dataset(path: str, ds: Dataset) -> Description:
    manifest = read_manifest(path)
    visits = manifest.presampling
    return {
        "path": path,
        "num_nodes": ds.num_nodes,
        "num_edges": ds.num_edges,
        "neighbors": ds.neighbors,
        "direction": describe_direction(ds),
        "order": manifest.order,
        "joined_since_order": _count_joined(manifest) if manifest.has_drifted else None,
        "nodes": [_describe_nodes(store) for store in ds.nodes.values()],
        "edges": [
            _describe_edges(store, manifest.edges[edge_type].changes)
            for edge_type, store in ds.edges.items()
        ],
        "visits": None if visits is None else asdict(visits),
        "files": _describe_files(entry.resolve(Path(path)) for entry in manifest.entries()),
    }


def _count_joined(manifest: Manifest) -> Description:
    """The nodes and edges that have joined since the nodes were ordered, until `reorder`."""
    nodes = [(table.num_nodes, table.num_ordered_nodes) for table in manifest.nodes.values()]
    edges = [(table.num_input_edges, table.num_ordered_edges) for table in manifest.edges.values()]
    content: Description = {}
    for name, counts in (("nodes", nodes), ("edges", edges)):
        joined = sum(count - ordered for count, ordered in counts if ordered is not None)
        content[f"num_{name}"] = joined
        content[f"share_of_{name}"] = joined / max(1, sum(count for count, _ in counts))
    return content


def _describe_nodes(nodes: NodeStore) -> Description:
    ids = nodes.node_ids
    kind = None if ids is None else "texts" if isinstance(ids, NodeTexts) else str(ids.dtype)
    return {
        "type": nodes.node_type,
        "num_nodes": nodes.num_nodes,
        "num_classes": nodes.num_classes,
        "attributes": {name: _describe_rows(store) for name, store in nodes.attributes.items()},
        "node_ids": None if ids is None else {"kind": kind, "count": len(ids)},
        "splits": {name: len(store) for name, store in nodes.splits.stores.items()},
    }


def _describe_edges(edges: EdgeStore, changes: EdgeChanges | None) -> Description:
    return {
        "type": edges.edge_type if any(edges.edge_type) else "",
        **_describe_lists(edges.graph),
        "sampled_by": asdict(edges.sampled_by),
        "changes": None if changes is None else asdict(changes),
        "attributes": {name: _describe_rows(store) for name, store in edges.attributes.items()},
        "splits": {name: len(store) for name, store in edges.splits.stores.items()},
    }


def _describe_lists(graph: Graph) -> Description:
    return {
        "num_edges": graph.num_edges,
        "num_input_edges": graph.num_input_edges,
        "mean_degree": graph.num_edges / graph.num_nodes if graph.num_nodes else 0.0,
    }


def _describe_rows(store: FeatureStore) -> Description:
    size = store.num_nodes * store.row_bytes
    return {"shape": list(store.shape), "dtype": dtype_name(store.dtype), "bytes": size}


def _describe_files(paths: Iterable[str | os.PathLike[str]]) -> list[Description]:
    """Sizes, and how much is in the page cache."""
    files: list[Description] = []
    for path in paths:
        with closing(_core.Mapping(path)) as mapping:
            sizes = {"bytes": mapping.size, "page_cache": resident_bytes(mapping)}
        files.append({"name": os.path.basename(path), **sizes})
    return files


# --- the machine


def _describe_machine(folder: str) -> Description:
    """What a report of a problem must say: versions, the machine, and the disk of a folder."""
    disk, group = os.statvfs(folder), read_group()
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "versions": {**installed_versions(), "graphzero": graphzero.__version__},
        "system": f"{platform.system()} {platform.release()}",
        **machine_of(folder),
        "memory_available": available_memory(),
        "group_memory_limit": None if group is None else group.limit,
        "shared_memory_bytes": shared_memory_bytes(),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "io_uring": _core.uring_refusal() or "works",
        "huge_pages": huge.read_text().strip() if huge.exists() else None,
    }


# --- as text


def _lines(content: Description, indent: str = "  ") -> Iterator[str]:
    """A line for each entry: of a table its plain values, and below them the tables in it."""
    for name, value in content.items():
        for table in filter(None, _tables(value)):
            label = _value_text("", table.get("name", table.get("type", "")))
            plain = [
                f"{key}={_value_text(key, entry)}"
                for key, entry in table.items()
                if key not in ("name", "type") and not _tables(entry)
                if entry is not None or key == "page_cache"
            ]
            yield f"{indent}{f'{name} {label}'.rstrip()}: {', '.join(plain)}".rstrip()
            nested = {key: entry for key, entry in table.items() if _tables(entry)}
            yield from _lines(nested, indent + "  ")
        if not _tables(value) and value is not None:
            yield f"{indent}{name}: {_value_text(name, value)}"


def _tables(value: object) -> list[Description]:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return value
    return [value] if isinstance(value, dict) else []


def _value_text(name: str, value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, (list, tuple)):
        return (" x " if name == "shape" else ",").join(_value_text("", entry) for entry in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return format_bytes(value) if name.endswith(_IN_BYTES) else f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


# --- graphzero verify


def _add_verify_options(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "path", "a dataset folder, a .gl or a .gd file, or a pack")
    add_option(parser, "--json", "print one JSON object")


def _verify(args: argparse.Namespace) -> int:
    """Check a dataset or a file: every checksum, neighbour lists, ids, weights, times, and all that
    dataset.json says; exit code 1 if there is a fault.

    graphzero verify data/
    graphzero verify data/features.gd
    graphzero verify data/ --json
    """
    result = verify_path(args.path, progress=shows_progress(args))
    if args.json:
        content = {"ok": not result.findings, **asdict(result)}
        print(json.dumps(content, indent=2))
    else:
        for finding in result.findings:
            print_lines(f"graphzero: {finding}", file=sys.stderr)
        faulty = {finding.path for finding in result.findings}
        for path, size in result.files.items():
            if not args.quiet and path not in faulty:
                print_lines(f"{path}: intact, {format_bytes(size)}")
    return 1 if result.findings else 0


INFO = Command("info", _add_info_options, _info)
VERIFY = Command("verify", _add_verify_options, _verify)
