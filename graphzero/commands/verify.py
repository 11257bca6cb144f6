"""``graphzero verify``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from graphzero.commands.options import SubParsers, add_command, shows_progress
from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.opening import open_dataset
from graphzero.graph.typed_dataset import EdgeStore, NodeStore, TypedDataset
from graphzero.packs.pack_file import OPTIONS
from graphzero.packs.pack_parts import pack_files
from graphzero.store.format import FLAG_TYPED, read_header, verify_file
from graphzero.store.list_check import find_bad_list
from graphzero.store.manifest import read_manifest
from graphzero.store.time_check import first_unordered
from graphzero.units import format_bytes

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero verify data/
  graphzero verify data/features.gd
"""
_BLOCK = 1 << 20


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "verify",
        run,
        help="check a dataset or a file against its checksums, the order of edge times, that both "
        "directions have the same edges, and the neighbour lists of typed graphs",
        examples=_EXAMPLES,
    )
    parser.add_argument("path", help="a dataset folder, a .gl or a .gd file; of a pack, its first")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return pack_files(path) if _is_pack(path) else [path]
    return [entry.resolve(path) for entry in read_manifest(path).entries()]


def _is_pack(path: Path) -> bool:
    try:
        return read_header(path).find(OPTIONS) is not None
    except FormatError:
        return False  # what is wrong is said file by file


def _bar(path: Path, total: int, unit: str, *, progress: bool) -> tqdm[Any]:
    return tqdm(
        total=total, desc=path.name, unit=unit, unit_scale=True, leave=False, disable=not progress
    )


def _check_time_order(path: Path, graph: Graph, *, progress: bool) -> None:
    times, time_order, node_ids = graph.times, graph.time_order, graph.node_ids
    if times is None or time_order is None:
        return
    with _bar(path, graph.num_edges, "edges", progress=progress) as bar:
        node = first_unordered(graph.indptr, times, time_order, bar.update)
    if node is not None:
        name = node if node_ids is None else int(node_ids[node])
        raise FormatError(
            f"{path}: section 'time_order' does not put the edges of node {name} in order of "
            f"time: build the file again"
        )


def _is_intact(path: Path, *, progress: bool) -> bool:
    try:
        with _bar(path, path.stat().st_size, "B", progress=progress) as bar:
            header = verify_file(path, bar.update)
        if header.kind == "graph":
            is_typed = bool(header.flags & FLAG_TYPED)
            graph = Graph._open_typed(path) if is_typed else Graph(path)
            _check_time_order(path, graph, progress=progress)
    except FormatError as error:
        print(f"graphzero: {error}", file=sys.stderr)
        return False
    return True


def _check_directions(ds: Dataset, *, progress: bool) -> None:
    """Where both directions are stored: each node must be a source equally often in both files."""
    if ds.is_typed or ds.neighbors != "both" or not ds.graph.is_directed:
        return
    out_lists = ds.graph.lists_of("out", "verify reads")
    counts = np.zeros(ds.num_nodes, np.int64)
    with _bar(Path(out_lists.path), ds.num_edges, "edges", progress=progress) as bar:
        for begin in range(0, ds.num_edges, _BLOCK):
            sources = ds.graph.indices[begin : begin + _BLOCK].astype(np.int64)
            np.add.at(counts, sources[sources < ds.num_nodes], 1)
            bar.update(len(sources))
    if not np.array_equal(counts, np.diff(out_lists.indptr.astype(np.int64))):
        raise FormatError(
            f"{ds.graph.path} and {out_lists.path} are not of the same edges: build the dataset "
            f"again"
        )


def _check_lists(edges: EdgeStore, *, progress: bool) -> None:
    """Of an edge type: lists must be sorted, with ids of nodes that exist."""
    graph = edges.graph
    with _bar(Path(graph.path), graph.num_edges, "edges", progress=progress) as bar:
        found = find_bad_list(graph.indptr, graph.indices, graph.num_neighbors, bar.update)
    if found is not None:
        raise FormatError(
            f"{graph.path}: of edge type {edges.edge_type!r}, the neighbour list of stored node "
            f"{found[0]} {found[1]}: build the dataset again"
        )


def _ids_agree(nodes: NodeStore) -> bool:
    """Whether the user's ids of the stored nodes, and the table of ranks, lead to each other."""
    for begin in range(0, nodes.num_nodes, _BLOCK):
        stored = np.arange(begin, min(begin + _BLOCK, nodes.num_nodes))
        users = nodes.to_user(stored)
        if users.min() < 0 or users.max() >= nodes.num_nodes:
            return False
        if not np.array_equal(nodes.to_stored(users), stored):
            return False
    return True


def _check_types(ds: Dataset, *, progress: bool) -> None:
    """What checksums cannot tell of a typed graph."""
    if isinstance(ds, TypedDataset):
        for nodes in ds.nodes.values():
            if not _ids_agree(nodes):
                raise FormatError(
                    f"{nodes.files()[-1].path}: the ids of node type {nodes.node_type!r} are not "
                    f"in the order that 'node_rank' says: build the dataset again"
                )
        for edges in ds.edges.values():
            _check_lists(edges, progress=progress)


def run(args: argparse.Namespace) -> int:
    """Checks every file, even after a corrupt one; returns 1 if any is corrupt."""
    path = Path(args.path)
    code = 0
    try:
        files = _files(path)
    except FormatError:  # a pack whose options are damaged
        files = [path]
    for file in files:
        if not _is_intact(file, progress=shows_progress(args)):
            code = 1
        elif not args.quiet:
            print(f"{file}: intact, {format_bytes(file.stat().st_size)}")
    if code == 0 and path.is_dir():
        with open_dataset(path) as ds:  # also finds intact files that do not belong together
            _check_directions(ds, progress=shows_progress(args))
            _check_types(ds, progress=shows_progress(args))
    return code
