"""Writes an existing dataset again, with its nodes in another order."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from graphzero.ingest.folder import check_names, entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.presampling import Presampler, Visits, in_degree_order, presample_order
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import NodeOrder
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.staging import require_space, rewrite_graph, stage_tables, training_seeds
from graphzero.ingest.stored import StoredGraph, open_stored_graph, open_stored_rows
from graphzero.ingest.write_options import WriteOptions, parse_bytes
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import verify_file
from graphzero.store.manifest import Manifest, read_manifest

__all__ = ["reorder_dataset"]

_TABLES = ("features", "labels", "visits")


def _verify(folder: Path, manifest: Manifest, progress: Progress) -> None:
    """Compares all files with their checksums: new checksums would hide damage."""
    files = [entry.resolve(folder) for entry in manifest.entries()]
    total = sum(file.stat().st_size for file in files)
    with progress.phase("verifying", total, "B") as advance:
        for file in files:
            verify_file(file, advance)


def _new_order(
    folder: Path, manifest: Manifest, graph: StoredGraph, options: WriteOptions
) -> tuple[NodeOrder | None, Visits | None]:
    memory, progress = options.order_memory, options.progress
    if options.order == "hot":
        return in_degree_order(graph, memory, progress), None
    if options.presampler is None:
        return None, None
    seeds = training_seeds(folder, manifest.splits)
    return presample_order(graph, seeds, options.presampler, None, memory, progress)


def _write_files(
    folder: Path, manifest: Manifest, options: WriteOptions, staged: list[FileWriter]
) -> Manifest:
    """Writes every file that changes, adds it to `staged`, and returns the new manifest."""
    _verify(folder, manifest, options.progress)
    graph = open_stored_graph(manifest.graph.resolve(folder))
    entries: dict[str, Any] = {name: getattr(manifest, name) for name in _TABLES}
    tables: dict[str, Rows] = {
        name: open_stored_rows(entry.resolve(folder), graph)
        for name, entry in entries.items()
        if entry is not None
    }
    needs = "the new order needs"
    require_space(folder, graph.edges(), tables.values(), graph.num_nodes, options, needs=needs)
    order, visits = _new_order(folder, manifest, graph, options)
    if visits is not None:
        tables["visits"] = visits.rows()
        manifest = replace(manifest, presampling=visits.presampling)
    file = rewrite_graph(graph, folder / "graph.gl", order, options)
    staged.append(file)
    written = stage_tables(folder, tables, graph.num_nodes, order, options, staged)
    changed: dict[str, Any] = {"graph": entry_of(file), **written}
    return replace(manifest, order=options.order, **changed)


def reorder_dataset(
    path: str | os.PathLike[str],
    order: str = "hot",
    *,
    presample: Presampler | None = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Manifest:
    """`graphzero.reorder`, which opens what this has written."""
    options = WriteOptions(order, presample, parse_bytes(memory_limit), Progress(progress))
    folder = Path(path)
    read_manifest(folder)
    with folder_lock(folder):
        recover(folder)
        earlier = read_manifest(folder)
        check_names(folder, [] if options.presampler is None else ["visits.gd"])
        if order == earlier.order != "presample":
            return earlier
        return replace_dataset(folder, earlier, partial(_write_files, folder, earlier, options))
