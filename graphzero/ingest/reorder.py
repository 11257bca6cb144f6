"""An existing dataset, or a graph that is still being built, in another order of nodes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.ingest.csr import graph_layout, sort_scratch, write_graph
from graphzero.ingest.folder import entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.presampling import Presampler, Visits, in_degree_order, presample_order
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import NodeOrder
from graphzero.ingest.rows import place_scratch, rows_layout, write_rows
from graphzero.ingest.sizes import parse_bytes, require_disk_space
from graphzero.ingest.stored import StoredGraph, StoredRows, open_stored_graph, open_stored_rows
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import DTYPES, read_header, verify_file
from graphzero.store.manifest import Manifest, read_manifest

__all__ = ["ORDERS", "check_order", "reorder_dataset", "rewrite_graph", "split_seeds"]

ORDERS = ("hot", "input", "presample")
_TABLES = ("features", "labels", "visits")

# Shares of the memory limit, in sixteenths, as in a build.
_ORDER_SHARE = 4
_SORT_SHARE = 9
_ROWS_SHARE = 8


@dataclass(frozen=True)
class _Options:
    order: str
    presampler: Presampler | None
    limit: int
    progress: Progress

    def share(self, sixteenths: int) -> int:
        return self.limit * sixteenths // 16


def check_order(order: str, presampler: Presampler | None) -> None:
    """Refuses orders that there are not.

    Raises
    ------
    ValueError
    """
    if order not in ORDERS:
        raise ValueError(f"order must be 'hot', 'input' or 'presample', not {order!r}")
    if order == "presample" and presampler is None:
        raise ValueError("order='presample' needs something that samples: presample=...")
    if order != "presample" and presampler is not None:
        raise ValueError(f"presample= is for order='presample', not {order!r}")


def split_seeds(path: Path) -> npt.NDArray[np.int64]:
    """The node ids of a split's file, mapped."""
    section = read_header(path).find("rows")
    if section is None or DTYPES[section.dtype] != np.int64:
        raise FormatError(f"{path} does not hold a split: build the dataset again")
    if not section.count:
        raise ValueError("the training split has no nodes to sample from")
    return np.memmap(path, np.int64, "r", section.offset, (section.count,))


def rewrite_graph(
    graph: StoredGraph,
    path: Path,
    order: NodeOrder | None,
    *,
    memory: int,
    progress: Progress,
) -> FileWriter:
    """A graph file in another order.

    Parameters
    ----------
    graph : StoredGraph
    path : pathlib.Path
        Final path.
    order : NodeOrder or None
        None for input order.
    memory : int
        Bytes that the sort may take.
    progress : Progress

    Returns
    -------
    FileWriter
        Sealed, not yet published.
    """
    return write_graph(
        path,
        graph.edges(),
        graph.num_nodes,
        directed=graph.is_directed,
        order=order,
        edge_ids=graph.has_edge_ids,
        memory=memory,
        progress=progress,
    )


def _verify(folder: Path, manifest: Manifest, progress: Progress) -> None:
    """A new file has new checksums: damage must be found before."""
    files = [entry.resolve(folder) for entry in manifest.entries()]
    total = sum(file.stat().st_size for file in files)
    with progress.phase("verifying", total, "B") as advance:
        for file in files:
            verify_file(file, advance)


def _check_space(
    folder: Path, graph: StoredGraph, tables: dict[str, StoredRows], options: _Options
) -> None:
    edges, directed = graph.edges(), graph.is_directed
    reordered, edge_ids = options.order != "input", graph.has_edge_ids
    layout = graph_layout(
        edges, graph.num_nodes, directed=directed, edge_ids=edge_ids, hot=reordered
    )
    needed = layout.file_bytes
    scratch = sort_scratch(
        edges, directed=directed, edge_ids=edge_ids, memory=options.share(_SORT_SHARE)
    )
    for rows in tables.values():
        needed += rows_layout(rows, graph.num_nodes, hot=reordered).file_bytes
        memory = options.share(_ROWS_SHARE)
        scratch = max(scratch, place_scratch(rows, graph.num_nodes, hot=reordered, memory=memory))
    require_disk_space(folder, needed + scratch)


def _new_order(
    folder: Path, manifest: Manifest, graph: StoredGraph, options: _Options
) -> tuple[NodeOrder | None, Visits | None]:
    memory = options.share(_ORDER_SHARE)
    if options.order == "hot":
        return in_degree_order(graph, memory, options.progress), None
    if options.presampler is None:
        return None, None
    train = manifest.splits.get("train")
    seeds = None if train is None else split_seeds(train.resolve(folder))
    return presample_order(graph, seeds, options.presampler, None, memory, options.progress)


def _write_files(
    folder: Path, manifest: Manifest, options: _Options, staged: list[FileWriter]
) -> Manifest:
    """Stages every file that changes, noting it in `staged`, and says what they make up."""
    _verify(folder, manifest, options.progress)
    graph = open_stored_graph(manifest.graph.resolve(folder))
    entries: dict[str, Any] = {name: getattr(manifest, name) for name in _TABLES}
    tables = {
        name: open_stored_rows(entry.resolve(folder), graph)
        for name, entry in entries.items()
        if entry is not None
    }
    _check_space(folder, graph, tables, options)
    order, visits = _new_order(folder, manifest, graph, options)
    if visits is not None:
        tables["visits"] = visits.rows()
        manifest = replace(manifest, presampling=visits.presampling)
    file = rewrite_graph(
        graph,
        folder / "graph.gl",
        order,
        memory=options.share(_SORT_SHARE),
        progress=options.progress,
    )
    staged.append(file)
    written: dict[str, Any] = {"graph": entry_of(file)}
    for name, rows in tables.items():
        file = write_rows(
            folder / f"{name}.gd",
            rows,
            graph.num_nodes,
            order=order,
            fill_missing=False,
            memory=options.share(_ROWS_SHARE),
            progress=options.progress,
        )
        staged.append(file)
        written[name] = entry_of(file)
    return replace(manifest, order=options.order, **written)


def reorder_dataset(
    path: str | os.PathLike[str],
    order: Literal["hot", "input", "presample"] = "hot",
    *,
    presample: Any = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Manifest:
    """Rewrites a dataset with its nodes in another order.

    What a user sees stays as it was, in the user's own ids: neighbours, weights, times, edge ids,
    features, labels, splits. Which neighbours a seed of the random draws picks does change. Every
    file is checked against its checksums first. The new files appear whole or not at all: until
    the last step the dataset stays as it was, and so does whoever has it open.

    Parameters
    ----------
    path : path-like
        Folder of the dataset.
    order : {"hot", "input", "presample"}
        "hot" stores nodes by descending in-degree, equal ones by id; "input" by id; "presample" by
        descending number of visits in a few sampled epochs from the split "train" (all nodes, if
        there is none), equal ones by in-degree, then id. Visit counts are kept in the dataset.
    presample : Presample, optional
        How to sample, for order="presample".
    memory_limit : int or str
        Bytes, or a text such as "2GB". Bounds what this allocates, but for the one mini-batch of
        presampling; what does not fit goes to unnamed temporary files in the folder, which needs
        room for a second copy of the dataset.
    progress : bool
        Whether to show progress on stderr.

    Returns
    -------
    Dataset
        `graphzero.reorder` opens what was written; this function returns its `Manifest`.

    Raises
    ------
    FormatError
        If a file is damaged.
    FileNotFoundError
        If there is no dataset.
    OSError
        With errno and path: no permission, no disk space, a build at work.
    """
    check_order(order, presample)
    options = _Options(order, presample, parse_bytes(memory_limit), Progress(progress))
    folder = Path(path)
    read_manifest(folder)
    with folder_lock(folder):
        recover(folder)
        earlier = read_manifest(folder)
        if order == earlier.order != "presample":
            return earlier
        return replace_dataset(folder, earlier, partial(_write_files, folder, earlier, options))
