"""The files of a typed graph in an order of nodes: what a build and a reordering share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.csr import graph_layout, sort_scratch, write_graph
from graphzero.ingest.edge_rows import edge_rows_layout, edge_rows_scratch, write_edge_rows
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.folder import entry_of
from graphzero.ingest.presampling import Visits, count_typed_visits
from graphzero.ingest.rank import NodeOrder, NodeSpace, hot_order, visit_order
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.rows import place_scratch, rows_layout, write_rows
from graphzero.ingest.stored import StoredOrder, open_stored_graph
from graphzero.ingest.typed_input import naming
from graphzero.ingest.typed_names import edge_file, graph_file, ids_file, node_file, visits_file
from graphzero.ingest.write_options import WriteOptions
from graphzero.store.disk_space import require_disk_space
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.format import FLAG_VECTOR, Header, id_dtype, layout
from graphzero.store.schema import EdgeType, FileEntry, Presampling

__all__ = [
    "TypedContent",
    "TypedFiles",
    "ends_of",
    "require_typed_space",
    "typed_space_needed",
    "write_typed_files",
]

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
    spaces : dict of str to NodeSpace
        With `stored`: the order in which these files have the nodes of each type.
    visits : dict of str to Rows
        Visit counts by node type, which are kept.
    seeds : dict of str to (n,) int64 or None
        For presampling: the user's ids by node type, None for all nodes of a type.
    may_lack_rows : bool
        Whether nodes without a row in "x" get zeros; without a row in others they are an error.
    """

    counts: dict[str, int]
    lists: dict[EdgeType, EdgeList]
    nodes: dict[str, dict[str, Rows]]
    edges: dict[EdgeType, dict[str, Rows]]
    stored: dict[EdgeType, Path] = field(default_factory=dict)
    spaces: dict[str, NodeSpace] = field(default_factory=dict)
    visits: dict[str, Rows] = field(default_factory=dict)
    seeds: dict[str, npt.NDArray[np.int64] | None] = field(default_factory=dict)
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
    visits : dict of str to FileEntry
    presampling : Presampling or None
        How visits were counted, if they were counted now.
    """

    graphs: dict[EdgeType, FileWriter]
    ids: dict[str, FileEntry]
    nodes: dict[str, dict[str, FileEntry]]
    edges: dict[EdgeType, dict[str, FileEntry]]
    visits: dict[str, FileEntry]
    presampling: Presampling | None = None


def ends_of(edge_type: EdgeType, edges: EdgeList) -> tuple[str, str]:
    """The node type that has the lists, and the one that is in them."""
    source, _, target = edge_type
    return (target, source) if edges.incoming else (source, target)


def typed_space_needed(content: TypedContent, options: WriteOptions) -> int:
    """Bytes of disk space for all files and for temporary data."""
    hot, memory = options.renumbers, options.rows_memory
    needed, scratch = 0, [0]
    is_sampled = options.presampler is not None
    num_graph_files = 2 if is_sampled and not content.stored else 1
    for edge_type, edges in content.lists.items():
        owners, neighbors = (content.counts[name] for name in ends_of(edge_type, edges))
        header = graph_layout(edges, owners, hot=False, num_neighbors=neighbors)
        needed += num_graph_files * header.file_bytes
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
        if is_sampled or content.visits:  # as large as ids
            needed += _ids_layout(count).file_bytes
        for rows in content.nodes[name].values():
            needed += rows_layout(rows, count, hot=hot).file_bytes
            scratch.append(place_scratch(rows, count, hot=hot, memory=memory))
    return needed + max(scratch)


def require_typed_space(
    folder: Path, content: TypedContent, options: WriteOptions, needs: str
) -> None:
    """Raises an error unless the disk has room for all files and for temporary data.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    require_disk_space(folder, typed_space_needed(content, options), needs)


def _spaces(folder: Path, content: TypedContent, options: WriteOptions) -> dict[str, NodeSpace]:
    """The nodes of each type, hottest first: by occurrences in the lists of all edge types."""
    if not options.renumbers:
        return {name: NodeSpace(count) for name, count in content.counts.items()}
    total, spaces = sum(content.counts.values()), {}
    # Presampling needs the rest for the visits and the order that they give.
    available = options.order_memory // (1 if options.presampler is None else 4)
    with options.progress.phase("ordering nodes", None):
        for name, count in content.counts.items():
            memory = available * count // total
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


def _write_rows(
    path: Path,
    rows: Rows,
    space: NodeSpace,
    options: WriteOptions,
    staged: list[FileWriter],
    *,
    fill_missing: bool = False,
) -> FileEntry:
    """A row for each node of a type."""
    file = write_rows(
        path,
        rows,
        space.num_nodes,
        order=space.order,
        fill_missing=fill_missing,
        memory=options.rows_memory,
        progress=options.progress,
    )
    staged.append(file)
    return entry_of(file)


def _write_nodes(
    folder: Path,
    name: str,
    content: TypedContent,
    space: NodeSpace,
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[str, FileEntry]:
    """The attributes of a node type."""
    return {
        attribute: _write_rows(
            folder / node_file(name, attribute),
            rows,
            space,
            options,
            staged,
            fill_missing=content.may_lack_rows and attribute == "x",
        )
        for attribute, rows in content.nodes[name].items()
    }


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


def _presampled(
    folder: Path,
    content: TypedContent,
    spaces: Mapping[str, NodeSpace],
    options: WriteOptions,
    staged: list[FileWriter],
) -> tuple[dict[EdgeType, EdgeList], dict[str, Visits], list[FileWriter]]:
    """Edges and visits of the files that are sampled: earlier ones, or new ones in hot order."""
    assert options.presampler is not None
    lists, sampled = content.lists, content.spaces
    hot: dict[EdgeType, FileWriter] = {}
    if not content.stored:
        sampled = dict(spaces)
        hot = _write_graphs(folder, content, spaces, options, staged)
        orders = {name: _stored_order(folder, space) for name, space in spaces.items()}
        lists = {}
        for edge_type, file in hot.items():
            owner, neighbor = (orders[n] for n in ends_of(edge_type, content.lists[edge_type]))
            graph = open_stored_graph(file.staged.staged_path, (owner, neighbor))
            lists[edge_type] = graph.edges()
    graphs = content.stored or {t: file.staged.staged_path for t, file in hot.items()}
    visits = count_typed_visits(
        folder,
        graphs,
        sampled,
        content.seeds,
        options.presampler,
        options.order_memory // 4,
        options.progress,
    )
    return lists, visits, list(hot.values())


def _stored_order(folder: Path, space: NodeSpace) -> StoredOrder:
    ids = None if space.order is None else space.order.node_ids
    return StoredOrder(folder, space.num_nodes, ids)


def _visit_spaces(
    folder: Path,
    visits: Mapping[str, Visits],
    ties: Mapping[str, NodeSpace],
    options: WriteOptions,
) -> dict[str, NodeSpace]:
    """The nodes of each type by descending number of visits, ties as in another order."""
    total, spaces = sum(space.num_nodes for space in ties.values()), {}
    with options.progress.phase("ordering nodes", None):
        for name, space in ties.items():
            assert space.order is not None
            memory = options.order_memory // 2 * space.num_nodes // total
            found = visits[name]
            order = visit_order(folder, found.counts, found.node_ids, space.order, memory)
            spaces[name] = NodeSpace(space.num_nodes, order)
    return spaces


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
    spaces, visits = _spaces(folder, content, options), content.visits
    presampling: Presampling | None = None
    hot: list[FileWriter] = []
    if options.presampler is not None:
        lists, counted, hot = _presampled(folder, content, spaces, options, staged)
        content = replace(content, lists=lists)
        spaces = _visit_spaces(folder, counted, spaces, options)
        visits = {name: found.rows() for name, found in counted.items()}
        presampling = next(iter(counted.values())).presampling
    graphs = _write_graphs(folder, content, spaces, options, staged)
    for file in hot:
        file.discard()
    ids: dict[str, FileEntry] = {}
    nodes: dict[str, dict[str, FileEntry]] = {}
    counts: dict[str, FileEntry] = {}
    for name, space in spaces.items():
        if space.order is not None:
            file = _write_ids(folder / ids_file(name), space.order)
            staged.append(file)
            ids[name] = entry_of(file)
        with naming(name):
            nodes[name] = _write_nodes(folder, name, content, space, options, staged)
        if name in visits:
            path = folder / visits_file(name)
            counts[name] = _write_rows(path, visits[name], space, options, staged)
    edges: dict[EdgeType, dict[str, FileEntry]] = {}
    for edge_type, graph in graphs.items():
        with naming(edge_type):
            edges[edge_type] = _write_edges(folder, edge_type, content, graph, options, staged)
    return TypedFiles(graphs, ids, nodes, edges, counts, presampling)
