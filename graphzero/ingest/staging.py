"""The steps that a build and a reordering share: disk space, the graph in an order, the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.ingest.attribute_names import file_stem
from graphzero.ingest.csr import graph_layout, sort_scratch, write_graph
from graphzero.ingest.edge_rows import edge_rows_layout, edge_rows_scratch, write_edge_rows
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.folder import entry_of
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import NodeOrder, order_scratch
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.rows import place_scratch, rows_layout, write_rows
from graphzero.ingest.stored import StoredGraph, open_stored_graph
from graphzero.ingest.write_options import WriteOptions
from graphzero.store.disk_space import free_disk_space, require_disk_space
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import DTYPES, read_header, verify_file
from graphzero.store.manifest import AnyManifest, FileEntry
from graphzero.units import format_bytes

__all__ = [
    "OUT_GRAPH_NAME",
    "require_space",
    "rewrite_graph",
    "space_needed",
    "stage_edge_rows",
    "stage_out_lists",
    "stage_tables",
    "training_seeds",
    "typed_training_seeds",
    "verify_files",
]

OUT_GRAPH_NAME = "graph_out.gl"


def verify_files(folder: Path, manifest: AnyManifest, progress: Progress) -> None:
    """Compares all files of a dataset with their checksums: new checksums would hide damage.

    Raises
    ------
    FormatError
        If a file is damaged.
    """
    files = [entry.resolve(folder) for entry in manifest.entries()]
    total = sum(file.stat().st_size for file in files)
    with progress.phase("verifying", total, "B") as advance:
        for file in files:
            verify_file(file, advance)


def require_space(
    folder: Path,
    edges: EdgeList,
    tables: Iterable[Rows],
    num_nodes: int,
    options: WriteOptions,
    *,
    needs: str,
    num_graph_files: int = 1,
    edge_rows: Iterable[Rows] = (),
    again: bool = False,
) -> None:
    """Raises an error unless the disk has room for all files and for temporary data.

    Parameters
    ----------
    folder : pathlib.Path
    edges : EdgeList
    tables : iterable of Rows
    num_nodes : int
    options : WriteOptions
    needs : str
        Beginning of the message, such as "the build needs".
    num_graph_files : int
        How many graph files exist at the same time.
    edge_rows : iterable of Rows
        Attributes of the edges.
    again : bool
        Whether these come in the order of an earlier graph file.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    needed = space_needed(
        edges,
        tables,
        num_nodes,
        options,
        num_graph_files=num_graph_files,
        edge_rows=edge_rows,
        again=again,
    )
    if options.progress.enabled:
        free = format_bytes(free_disk_space(folder))
        options.progress.say(f"disk space: {format_bytes(needed)} from here on; {free} are free")
    require_disk_space(folder, needed, needs)


def space_needed(
    edges: EdgeList,
    tables: Iterable[Rows],
    num_nodes: int,
    options: WriteOptions,
    *,
    num_graph_files: int = 1,
    edge_rows: Iterable[Rows] = (),
    again: bool = False,
) -> int:
    """Bytes of all files and of temporary data, once the edges have been read.

    The parameters are those of `require_space`.
    """
    needed = num_graph_files * graph_layout(edges, num_nodes, hot=options.renumbers).file_bytes
    scratch = sort_scratch(edges, options.sort_memory)
    if options.renumbers:
        scratch += order_scratch(num_nodes, options.order_memory)
    if edges.node_times is not None and edges.node_times.nbytes > options.times_memory:
        scratch += edges.node_times.nbytes
    for rows in tables:
        needed += rows_layout(rows, num_nodes, hot=options.renumbers).file_bytes
        placing = place_scratch(rows, num_nodes, hot=options.renumbers, memory=options.rows_memory)
        scratch = max(scratch, placing)
    for rows in edge_rows:
        needed += edge_rows_layout(rows, edges.num_stored).file_bytes
        placing = edge_rows_scratch(
            rows,
            edges.num_input_edges,
            edges.num_stored,
            directed=edges.directed,
            memory=options.rows_memory,
            again=again,
        )
        scratch = max(scratch, placing)
    return needed + scratch


def training_seeds(folder: Path, splits: Mapping[str, FileEntry]) -> npt.NDArray[np.int64] | None:
    """Node ids of the split "train", mapped; None if there is no such split.

    Raises
    ------
    FormatError
        If its file does not hold a split.
    ValueError
        If it is empty.
    """
    if "train" not in splits:
        return None
    path = splits["train"].resolve(folder)
    section = read_header(path).find("rows")
    if section is None or DTYPES[section.dtype] != np.int64:
        raise FormatError(f"{path} does not hold a split: build the dataset again")
    if not section.count:
        raise ValueError("the training split has no nodes to sample from")
    return np.memmap(path, np.int64, "r", section.offset, (section.count,))


def typed_training_seeds(
    folder: Path, splits: Mapping[str, Mapping[str, FileEntry]]
) -> dict[str, npt.NDArray[np.int64] | None]:
    """Seeds by node type: the splits "train" of the types that have one, else all nodes.

    Parameters
    ----------
    folder : pathlib.Path
    splits : mapping of str to mapping of str to FileEntry
        The splits of every node type.

    Raises
    ------
    FormatError
        If a file does not hold a split.
    ValueError
        If all these splits are empty.
    """
    named = {name: of for name, of in splits.items() if "train" in of}
    if not named:
        return dict.fromkeys(splits)
    filled = {name: of for name, of in named.items() if _has_rows(of["train"].resolve(folder))}
    if not filled:
        raise ValueError("the training split has no nodes to sample from")
    return {name: training_seeds(folder, of) for name, of in filled.items()}


def _has_rows(path: Path) -> bool:
    section = read_header(path).find("rows")
    return section is None or section.count > 0


def rewrite_graph(
    graph: StoredGraph,
    path: Path,
    order: NodeOrder | None,
    options: WriteOptions,
    *,
    incoming: bool | None = None,
    node_times: npt.NDArray[Any] | None = None,
) -> FileWriter:
    """Writes a graph file in another order; None is input order.

    Parameters
    ----------
    graph : StoredGraph
    path : pathlib.Path
        Final path.
    order : NodeOrder or None
    options : WriteOptions
    incoming : bool, optional
        Of a directed graph: whether lists are to have the sources of incoming edges. Default: as
        the graph's.
    node_times : (N,) int64, optional
        As `EdgeList` has them: needed where lists have other neighbours, and their times.

    Returns
    -------
    FileWriter
        Sealed, not yet published.
    """
    edges = replace(graph.edges(), node_times=node_times)
    if incoming is not None:
        edges = replace(edges, incoming=incoming)
    return write_graph(
        path,
        edges,
        graph.num_nodes,
        order=order,
        memory=options.sort_memory,
        progress=options.progress,
    )


def stage_out_lists(
    folder: Path,
    graph: FileWriter,
    order: NodeOrder | None,
    options: WriteOptions,
    staged: list[FileWriter],
    node_times: npt.NDArray[Any] | None = None,
) -> FileEntry:
    """Writes the out-neighbours beside a file of in-neighbours, and adds the file to `staged`.

    Parameters
    ----------
    folder : pathlib.Path
    graph : FileWriter
        The sealed file of in-neighbours.
    order : NodeOrder or None
        That of `graph`.
    options : WriteOptions
    staged : list of FileWriter
        Extended.
    node_times : (N,) int64, optional
        As `rewrite_graph` takes them.

    Returns
    -------
    FileEntry
    """
    stored = open_stored_graph(graph.staged.staged_path)
    path = folder / OUT_GRAPH_NAME
    file = rewrite_graph(stored, path, order, options, incoming=False, node_times=node_times)
    staged.append(file)
    return entry_of(file)


def stage_tables(
    folder: Path,
    tables: Mapping[str, Rows],
    num_nodes: int,
    order: NodeOrder | None,
    options: WriteOptions,
    staged: list[FileWriter],
    *,
    may_lack_rows: Collection[str] = (),
) -> dict[str, FileEntry]:
    """Writes a file for each table, and adds it to `staged`.

    Parameters
    ----------
    folder : pathlib.Path
    tables : mapping of str to Rows
    num_nodes : int
    order : NodeOrder or None
    options : WriteOptions
    staged : list of FileWriter
        Extended.
    may_lack_rows : collection of str
        Tables in which nodes without a row get zeros; in the others they are an error.

    Returns
    -------
    dict of str to FileEntry
    """
    entries: dict[str, FileEntry] = {}
    for name, rows in tables.items():
        file = write_rows(
            folder / f"{name}.gd",
            rows,
            num_nodes,
            order=order,
            fill_missing=name in may_lack_rows,
            memory=options.rows_memory,
            progress=options.progress,
        )
        staged.append(file)
        entries[name] = entry_of(file)
    return entries


def stage_edge_rows(
    folder: Path,
    attributes: Mapping[str, Rows],
    graph: FileWriter,
    options: WriteOptions,
    staged: list[FileWriter],
    *,
    stored_as: Path | None = None,
) -> dict[str, FileEntry]:
    """Writes a file for each attribute of the edges, and adds it to `staged`.

    Parameters
    ----------
    folder : pathlib.Path
    attributes : mapping of str to Rows
        By name.
    graph : FileWriter
        The sealed file of the lists that are sampled.
    options : WriteOptions
    staged : list of FileWriter
        Extended.
    stored_as : pathlib.Path, optional
        An earlier graph file, if rows are in the order of its lists.

    Returns
    -------
    dict of str to FileEntry
    """
    entries: dict[str, FileEntry] = {}
    for name, rows in attributes.items():
        file = write_edge_rows(
            folder / f"{file_stem(name, 'edge')}.gd",
            rows,
            graph.staged.staged_path,
            memory=options.rows_memory,
            progress=options.progress,
            stored_as=stored_as,
        )
        staged.append(file)
        entries[name] = entry_of(file)
    return entries
