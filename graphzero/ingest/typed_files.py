"""The files of a typed graph in an order of nodes: what a build and a reordering share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy.typing as npt

from graphzero.ingest.csr import graph_layout, sort_scratch, write_graph
from graphzero.ingest.edge_rows import edge_rows_layout, edge_rows_scratch, write_edge_rows
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.folder import entry_of
from graphzero.ingest.rank import NodeOrder, NodeSpace, hot_order
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.rows import place_scratch, rows_layout, write_rows
from graphzero.ingest.typed_input import naming
from graphzero.ingest.typed_names import edge_file, graph_file, ids_file, node_file
from graphzero.ingest.write_options import WriteOptions
from graphzero.store.disk_space import require_disk_space
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.format import FLAG_VECTOR, Header, id_dtype, layout
from graphzero.store.schema import EdgeType, FileEntry

__all__ = ["TypedContent", "TypedFiles", "ends_of", "require_typed_space", "write_typed_files"]

_MIN_PIECE = 1024


@dataclass(frozen=True)
class TypedContent:
    """What the files of a typed graph are made from.

    Attributes
    ----------
    counts : dict of str to int
        Nodes of each type.
    lists : dict of (str, str, str) to EdgeList
        The edges of each type, in the user's ids.
    nodes : dict of str to dict of str to Rows
        Attributes of nodes.
    edges : dict of (str, str, str) to dict of str to Rows
        Attributes of edges that do not drive sampling.
    stored : dict of (str, str, str) to Path
        Earlier graph files: the attributes of these edges are in the order of their lists.
    may_lack_rows : bool
        Whether nodes without a row in "x" get zeros; without a row in others they are an error.
    """

    counts: dict[str, int]
    lists: dict[EdgeType, EdgeList]
    nodes: dict[str, dict[str, Rows]]
    edges: dict[EdgeType, dict[str, Rows]]
    stored: dict[EdgeType, Path] = field(default_factory=dict)
    may_lack_rows: bool = False

    def close(self) -> None:
        """Frees the memory and disk space of the edges."""
        for edges in self.lists.values():
            edges.close()


@dataclass(frozen=True)
class TypedFiles:
    """The files that were written.

    Attributes
    ----------
    graphs : dict of (str, str, str) to FileWriter
    ids : dict of str to FileEntry
        Of the node types that have an order of their own.
    nodes : dict of str to dict of str to FileEntry
    edges : dict of (str, str, str) to dict of str to FileEntry
    """

    graphs: dict[EdgeType, FileWriter]
    ids: dict[str, FileEntry]
    nodes: dict[str, dict[str, FileEntry]]
    edges: dict[EdgeType, dict[str, FileEntry]]


def ends_of(edge_type: EdgeType, edges: EdgeList) -> tuple[str, str]:
    """The node type that has the lists, and the one that is in them."""
    source, _, target = edge_type
    return (target, source) if edges.incoming else (source, target)


def require_typed_space(
    folder: Path, content: TypedContent, options: WriteOptions, needs: str
) -> None:
    """Raises an error unless the disk has room for all files and for temporary data.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    hot, memory = options.renumbers, options.rows_memory
    needed, scratch = 0, [0]
    for edge_type, edges in content.lists.items():
        owners, neighbors = (content.counts[name] for name in ends_of(edge_type, edges))
        header = graph_layout(edges, owners, hot=False, num_neighbors=neighbors)
        needed += header.file_bytes
        scratch.append(sort_scratch(edges, options.sort_memory))
        for rows in content.edges[edge_type].values():
            needed += edge_rows_layout(rows, edges.num_stored).file_bytes
            scratch.append(
                edge_rows_scratch(
                    rows,
                    edges.num_input_edges,
                    edges.num_stored,
                    directed=True,
                    memory=memory,
                    again=edge_type in content.stored,
                )
            )
    for name, count in content.counts.items():
        needed += _ids_layout(count).file_bytes if hot else 0
        for rows in content.nodes[name].values():
            needed += rows_layout(rows, count, hot=hot).file_bytes
            scratch.append(place_scratch(rows, count, hot=hot, memory=memory))
    require_disk_space(folder, needed + max(scratch), needs)


def _spaces(folder: Path, content: TypedContent, options: WriteOptions) -> dict[str, NodeSpace]:
    """The nodes of each type, hottest first: by occurrences in the lists of all edge types."""
    if not options.renumbers:
        return {name: NodeSpace(count) for name, count in content.counts.items()}
    total, spaces = sum(content.counts.values()), {}
    with options.progress.phase("ordering nodes", None):
        for name, count in content.counts.items():
            memory = options.order_memory * count // total
            found = _occurrences(name, content.lists, max(_MIN_PIECE, memory // 32))
            spaces[name] = NodeSpace(count, hot_order(folder, count, found, memory))
    return spaces


def _occurrences(
    name: str, lists: Mapping[EdgeType, EdgeList], max_edges: int
) -> Iterator[npt.NDArray[Any]]:
    """Every id of a node type as often as it occurs in neighbour lists, in pieces."""
    return chain.from_iterable(
        edges.occurrences(max_edges)
        for edge_type, edges in lists.items()
        if ends_of(edge_type, edges)[1] == name
    )


def _ids_layout(num_nodes: int) -> Header:
    ids = id_dtype(num_nodes)
    arrays = [("rows", ids, num_nodes), ("node_rank", ids, num_nodes)]
    return layout("features", arrays, num_nodes=num_nodes, width=1, flags=FLAG_VECTOR)


def _write_ids(path: Path, order: NodeOrder) -> FileWriter:
    """The user's id of each stored node, and the other way round."""
    with sealed_file(path, _ids_layout(len(order.node_ids))) as file:
        file.append("rows", order.node_ids)
        file.append("node_rank", order.node_rank)
    return file


def _write_graphs(
    folder: Path,
    content: TypedContent,
    spaces: Mapping[str, NodeSpace],
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[EdgeType, FileWriter]:
    """A graph file for each edge type, one after the other; closes their edges."""
    files: dict[EdgeType, FileWriter] = {}
    for edge_type, edges in content.lists.items():
        owner, neighbor = (spaces[name] for name in ends_of(edge_type, edges))
        file = write_graph(
            folder / graph_file(edge_type),
            edges,
            owner.num_nodes,
            order=owner.order,
            neighbors=neighbor,
            memory=options.sort_memory,
            progress=options.progress,
        )
        staged.append(file)
        files[edge_type] = file
    return files


def _write_nodes(
    folder: Path,
    name: str,
    content: TypedContent,
    space: NodeSpace,
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[str, FileEntry]:
    """The attributes of a node type."""
    entries: dict[str, FileEntry] = {}
    for attribute, rows in content.nodes[name].items():
        file = write_rows(
            folder / node_file(name, attribute),
            rows,
            space.num_nodes,
            order=space.order,
            fill_missing=content.may_lack_rows and attribute == "x",
            memory=options.rows_memory,
            progress=options.progress,
        )
        staged.append(file)
        entries[attribute] = entry_of(file)
    return entries


def _write_edges(
    folder: Path,
    edge_type: EdgeType,
    content: TypedContent,
    graph: FileWriter,
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[str, FileEntry]:
    """The attributes of an edge type besides those in its graph file."""
    entries: dict[str, FileEntry] = {}
    for attribute, rows in content.edges[edge_type].items():
        file = write_edge_rows(
            folder / edge_file(edge_type, attribute),
            rows,
            graph.staged.staged_path,
            memory=options.rows_memory,
            progress=options.progress,
            stored_as=content.stored.get(edge_type),
        )
        staged.append(file)
        entries[attribute] = entry_of(file)
    return entries


def write_typed_files(
    folder: Path, content: TypedContent, options: WriteOptions, staged: list[FileWriter]
) -> TypedFiles:
    """Writes graph files, orders and attributes, and adds them to `staged`.

    Parameters
    ----------
    folder : pathlib.Path
    content : TypedContent
        Its edges are closed before this returns.
    options : WriteOptions
    staged : list of FileWriter
        Extended.

    Raises
    ------
    ValueError
        Naming the type: rows are missing, too many or invalid.
    OSError
        If a file cannot be read, or the disk is full.
    """
    spaces = _spaces(folder, content, options)
    graphs = _write_graphs(folder, content, spaces, options, staged)
    ids: dict[str, FileEntry] = {}
    nodes: dict[str, dict[str, FileEntry]] = {}
    for name, space in spaces.items():
        if space.order is not None:
            file = _write_ids(folder / ids_file(name), space.order)
            staged.append(file)
            ids[name] = entry_of(file)
        with naming(name):
            nodes[name] = _write_nodes(folder, name, content, space, options, staged)
    edges: dict[EdgeType, dict[str, FileEntry]] = {}
    for edge_type, graph in graphs.items():
        with naming(edge_type):
            edges[edge_type] = _write_edges(folder, edge_type, content, graph, options, staged)
    return TypedFiles(graphs, ids, nodes, edges)
