"""Writes an existing dataset again, with its nodes in another order."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.attribute_names import file_stem
from graphzero.ingest.folder import check_names, entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.node_times import read_node_times
from graphzero.ingest.presampling import Presampler, Visits, occurrence_order, presample_order
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import NodeOrder
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.staging import (
    OUT_GRAPH_NAME,
    require_space,
    rewrite_graph,
    stage_edge_rows,
    stage_out_lists,
    stage_tables,
    training_seeds,
    verify_files,
)
from graphzero.ingest.stored import (
    StoredGraph,
    open_stored_edge_rows,
    open_stored_graph,
    open_stored_rows,
)
from graphzero.ingest.typed_reorder import reorder_typed
from graphzero.ingest.write_options import WriteOptions, parse_bytes
from graphzero.store.filewriter import FileWriter
from graphzero.store.manifest import (
    AnyManifest,
    FileEntry,
    Manifest,
    Neighbors,
    TypedManifest,
    read_manifest,
    write_manifest,
)

__all__ = ["reorder_dataset"]

_TABLES = ("features", "labels", "visits")


def _new_order(
    folder: Path, manifest: Manifest, graph: StoredGraph, options: WriteOptions
) -> tuple[NodeOrder | None, Visits | None]:
    memory, progress = options.order_memory, options.progress
    if options.order == "hot":
        return occurrence_order(graph, memory, progress), None
    if options.presampler is None:
        return None, None
    seeds = training_seeds(folder, manifest.splits)
    return presample_order(graph, seeds, options.presampler, None, memory, progress)


def _turned(
    folder: Path,
    graph: StoredGraph,
    options: WriteOptions,
    node_times: npt.NDArray[np.int64] | None,
) -> FileWriter:
    """The same edges in the lists of their other ends, in input order."""
    turned, path = not graph.is_incoming, folder / "graph.gl"
    return rewrite_graph(graph, path, None, options, incoming=turned, node_times=node_times)


def _node_entries(manifest: Manifest) -> dict[str, FileEntry]:
    """The rows of nodes, by the names of their files without suffix."""
    fixed = {name: getattr(manifest, name) for name in _TABLES}
    named = {file_stem(name, "node"): entry for name, entry in manifest.attributes.items()}
    return {stem: entry for stem, entry in {**fixed, **named}.items() if entry is not None}


def _node_times(
    folder: Path, manifest: Manifest, tables: dict[str, Rows], options: WriteOptions
) -> npt.NDArray[np.int64] | None:
    """The times of nodes, where edges have them and lists with other neighbours are written."""
    if manifest.time is None or manifest.time_level != "node":
        return None
    rows = tables[file_stem(manifest.time, "node")]
    return read_node_times(folder, rows, manifest.num_nodes, options.times_memory)


def _write_files(
    folder: Path, earlier: Manifest, options: WriteOptions, staged: list[FileWriter]
) -> Manifest:
    """Writes every file that changes, adds it to `staged`, and returns the new manifest."""
    verify_files(folder, earlier, options.progress)
    manifest = replace(earlier, neighbors=options.neighbors, out_graph=None)
    graph = open_stored_graph(earlier.graph.resolve(folder))
    tables: dict[str, Rows] = {
        stem: open_stored_rows(entry.resolve(folder), graph.owners)
        for stem, entry in _node_entries(manifest).items()
    }
    edge_rows: dict[str, Rows] = {
        name: open_stored_edge_rows(entry.resolve(folder), graph)
        for name, entry in manifest.edge_attributes.items()
    }
    stored_as, node_times = graph.path, _node_times(folder, manifest, tables, options)
    needs = "the new order needs"
    both = manifest.directed and manifest.neighbors == "both"
    turn = manifest.incoming != earlier.incoming
    require_space(
        folder,
        graph.edges(),
        tables.values(),
        graph.num_nodes,
        options,
        needs=needs,
        num_graph_files=1 + turn + both,
        edge_rows=edge_rows.values(),
        again=True,
    )
    turned: FileWriter | None = None
    if turn:  # orders are made from the lists that are sampled
        turned = _turned(folder, graph, options, node_times)
        staged.append(turned)
        graph = open_stored_graph(turned.staged.staged_path)
    order, visits = _new_order(folder, manifest, graph, options)
    if visits is not None:
        tables["visits"] = visits.rows()
        manifest = replace(manifest, presampling=visits.presampling)
    file = rewrite_graph(graph, folder / "graph.gl", order, options)
    staged.append(file)
    if turned is not None:
        turned.discard()
    if both:
        out_graph = stage_out_lists(folder, file, order, options, staged, node_times)
        manifest = replace(manifest, out_graph=out_graph)
    written = stage_tables(folder, tables, graph.num_nodes, order, options, staged)
    of_edges = stage_edge_rows(folder, edge_rows, file, options, staged, stored_as=stored_as)
    fixed: dict[str, Any] = {name: written[name] for name in _TABLES if name in written}
    attributes = {name: written[file_stem(name, "node")] for name in manifest.attributes}
    return replace(
        manifest,
        graph=entry_of(file),
        order=options.order,
        attributes=attributes,
        edge_attributes=of_edges,
        **fixed,
    )


def _has_lists(manifest: Manifest, options: WriteOptions) -> bool:
    """Whether the dataset stores exactly the neighbours that are wanted."""
    return (manifest.neighbors or "out") == (options.neighbors or "out")


def _record_choice(folder: Path, manifest: Manifest, options: WriteOptions) -> Manifest:
    """Leaves all files as they are; a folder of version 1 then says that "out" was chosen."""
    if manifest.neighbors == options.neighbors:
        return manifest
    chosen = replace(manifest, neighbors=options.neighbors)
    write_manifest(folder, chosen)
    return chosen


def reorder_dataset(
    path: str | os.PathLike[str],
    order: str = "hot",
    *,
    neighbors: Neighbors | None = None,
    presample: Presampler | None = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> AnyManifest:
    """`graphzero.reorder`, which opens what this has written."""
    limit = parse_bytes(memory_limit)
    options = WriteOptions(order, presample, limit, Progress(progress), neighbors)
    folder = Path(path)
    read_manifest(folder)
    with folder_lock(folder):
        recover(folder)
        earlier = read_manifest(folder)
        if isinstance(earlier, TypedManifest):
            return reorder_typed(folder, earlier, options)
        if presample is not None:
            presample.check_types(None)
        kept = neighbors is None or not earlier.directed
        options = replace(options, neighbors=earlier.neighbors if kept else neighbors)
        names = ["visits.gd"] if options.presampler is not None else []
        names += [OUT_GRAPH_NAME] if earlier.directed and options.neighbors == "both" else []
        check_names(folder, names)
        if order == earlier.order != "presample" and _has_lists(earlier, options):
            return _record_choice(folder, earlier, options)
        return replace_dataset(folder, earlier, partial(_write_files, folder, earlier, options))
