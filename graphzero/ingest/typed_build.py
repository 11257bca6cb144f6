"""The build of a typed graph: a graph file for each edge type, an order for each node type."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy.typing as npt

from graphzero.ingest.columns import MAX_NODES
from graphzero.ingest.csr import graph_layout, sort_scratch, write_graph
from graphzero.ingest.edges import EdgeList, IdBound, read_edges
from graphzero.ingest.folder import check_names, entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import NodeOrder, NodeSpace, hot_order
from graphzero.ingest.row_input import count_classes
from graphzero.ingest.rows import place_scratch, rows_layout, write_rows
from graphzero.ingest.splits import write_split
from graphzero.ingest.typed_input import TypedInput, naming, open_typed_input
from graphzero.ingest.typed_names import edge_file, graph_file, ids_file, node_file, split_file
from graphzero.ingest.write_options import WriteOptions, parse_bytes
from graphzero.store.disk_space import require_disk_space
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.format import FLAG_VECTOR, Header, id_dtype, layout
from graphzero.store.manifest import FileEntry
from graphzero.store.schema import EdgeTable, EdgeType, Neighbors, NodeTable, TypedManifest

__all__ = ["build_typed_dataset"]

EdgeLists = dict[EdgeType, EdgeList]


def _bound(name: str, given: TypedInput) -> IdBound:
    """How many nodes of a type there are, where this is known without the edges."""
    nodes = given.nodes[name]
    known: list[tuple[int, str]] = []
    if nodes.num_nodes is not None:
        known.append((nodes.num_nodes, f"num_nodes={nodes.num_nodes} of {name!r}"))
    for attribute, rows in nodes.attributes.items():
        if rows.in_order:
            count = rows.count()
            known.append((count, f"{attribute!r} of {name!r} has {count} rows"))
    for count, why in known[1:]:
        if count != known[0][0]:
            raise ValueError(f"{known[0][1]}, but {why}: every node needs one")
    return IdBound(*known[0]) if known else IdBound()


def _bounds(given: TypedInput) -> dict[str, IdBound]:
    found: dict[str, IdBound] = {}
    for name in given.nodes:
        with naming(name):
            found[name] = _bound(name, given)
    return found


def _read_all(
    folder: Path,
    given: TypedInput,
    bounds: Mapping[str, IdBound],
    options: WriteOptions,
    lists: EdgeLists,
) -> None:
    """Reads each edge list once, into `lists`."""
    memory = options.column_memory // len(given.edges)
    for edge_type, edges in given.edges.items():
        with naming(edge_type):
            lists[edge_type] = read_edges(
                edges.edges,
                folder,
                memory=memory,
                bounds=(bounds[edge_type[0]], bounds[edge_type[2]]),
                progress=options.progress,
            )


def _count(name: str, given: TypedInput, bound: IdBound, lists: EdgeLists) -> int:
    """Nodes of a type."""
    count = bound.count
    if count is None:
        rows = given.nodes[name].attributes.values()
        counts = [one.count() for one in rows]
        for edge_type, edges in lists.items():
            ends = zip((edge_type[0], edge_type[2]), edges.max_ids, strict=True)
            counts += [largest + 1 for end, largest in ends if end == name]
        count = max(counts, default=0)
    if count == 0:
        raise ValueError("it has no nodes: give 'num_nodes', an attribute or edges")
    if count > MAX_NODES:
        raise ValueError(f"{count} nodes exceed the limit of 2^32: probably an id is wrong")
    return count


def _ends(edge_type: EdgeType, edges: EdgeList) -> tuple[str, str]:
    """The node type that has the lists, and the one that is in them."""
    source, _, target = edge_type
    return (target, source) if edges.incoming else (source, target)


def _layout_of(edges: EdgeList, owners: int, neighbors: int) -> Header:
    return graph_layout(edges, owners, hot=False, num_neighbors=neighbors)


def _require_space(
    folder: Path,
    given: TypedInput,
    lists: EdgeLists,
    counts: Mapping[str, int],
    options: WriteOptions,
) -> None:
    """Raises an error unless the disk has room for all files and for temporary data."""
    hot, memory = options.renumbers, options.rows_memory
    needed, scratch = 0, 0
    for edge_type, edges in lists.items():
        owner, neighbor = _ends(edge_type, edges)
        needed += _layout_of(edges, counts[owner], counts[neighbor]).file_bytes
        scratch = max(scratch, sort_scratch(edges, options.sort_memory))
    for name, nodes in given.nodes.items():
        needed += _ids_layout(counts[name]).file_bytes if hot else 0
        for rows in nodes.attributes.values():
            needed += rows_layout(rows, counts[name], hot=hot).file_bytes
            placing = place_scratch(rows, counts[name], hot=hot, memory=memory)
            scratch = max(scratch, placing)
    require_disk_space(folder, needed + scratch, "the build needs")


def _spaces(
    folder: Path, lists: EdgeLists, counts: Mapping[str, int], options: WriteOptions
) -> dict[str, NodeSpace]:
    """The nodes of each type, hottest first: by occurrences in the lists of all edge types."""
    if not options.renumbers:
        return {name: NodeSpace(count) for name, count in counts.items()}
    total, spaces = sum(counts.values()), {}
    with options.progress.phase("ordering nodes", None):
        for name, count in counts.items():
            memory = options.order_memory * count // total
            found = _occurrences(name, lists, max(1024, memory // 32))
            spaces[name] = NodeSpace(count, hot_order(folder, count, found, memory))
    return spaces


def _occurrences(name: str, lists: EdgeLists, max_edges: int) -> Iterator[npt.NDArray[Any]]:
    streams = [
        edges.occurrences(max_edges)
        for edge_type, edges in lists.items()
        if _ends(edge_type, edges)[1] == name
    ]
    return chain.from_iterable(streams)


def _write_graphs(
    folder: Path,
    lists: EdgeLists,
    spaces: Mapping[str, NodeSpace],
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[EdgeType, FileWriter]:
    """A graph file for each edge type, one after the other."""
    files: dict[EdgeType, FileWriter] = {}
    for edge_type, edges in lists.items():
        owner, neighbor = (spaces[name] for name in _ends(edge_type, edges))
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


def _node_table(
    folder: Path,
    name: str,
    given: TypedInput,
    space: NodeSpace,
    options: WriteOptions,
    staged: list[FileWriter],
) -> NodeTable:
    """Writes the files of a node type."""
    nodes = given.nodes[name]

    def add(file: FileWriter) -> FileEntry:
        staged.append(file)
        return entry_of(file)

    ids = None
    if space.order is not None:
        ids = add(_write_ids(folder / ids_file(name), space.order))
    attributes = {
        attribute: add(
            write_rows(
                folder / node_file(name, attribute),
                rows,
                space.num_nodes,
                order=space.order,
                fill_missing=attribute == "x",
                memory=options.rows_memory,
                progress=options.progress,
            )
        )
        for attribute, rows in nodes.attributes.items()
    }
    splits = {
        split: add(_write_split(folder / split_file(name, split), split, value, space, options))
        for split, value in nodes.splits.items()
    }
    labels = nodes.attributes.get("y")
    return NodeTable(
        num_nodes=space.num_nodes,
        attributes=attributes,
        splits=splits,
        num_classes=None if labels is None else count_classes(labels),
        ids=ids,
    )


def _write_split(
    path: Path, name: str, value: Any, space: NodeSpace, options: WriteOptions
) -> FileWriter:
    return write_split(path, name, value, space.num_nodes, memory=options.column_memory)


def _edge_table(file: FileWriter) -> EdgeTable:
    header = file.header
    return EdgeTable(
        num_edges=header.width, num_input_edges=header.num_input_edges, graph=entry_of(file)
    )


def _write_files(
    folder: Path, given: TypedInput, options: WriteOptions, staged: list[FileWriter]
) -> TypedManifest:
    """Writes every file, adds it to `staged`, and returns the manifest."""
    bounds = _bounds(given)
    lists: EdgeLists = {}
    try:
        _read_all(folder, given, bounds, options, lists)
        counts: dict[str, int] = {}
        for name in given.nodes:
            with naming(name):
                counts[name] = _count(name, given, bounds[name], lists)
        _require_space(folder, given, lists, counts, options)
        spaces = _spaces(folder, lists, counts, options)
        graphs = _write_graphs(folder, lists, spaces, options, staged)
    finally:
        for edges in lists.values():
            edges.close()
    nodes: dict[str, NodeTable] = {}
    for name, space in spaces.items():
        with naming(name):
            nodes[name] = _node_table(folder, name, given, space, options, staged)
    edge_tables = {edge_type: _edge_table(file) for edge_type, file in graphs.items()}
    return TypedManifest(
        nodes=nodes,
        edges=edge_tables,
        neighbors=options.neighbors or "in",
        order=options.order,
    )


def _names(given: TypedInput, options: WriteOptions) -> Iterator[str]:
    """Names of all files that the build will write."""
    for name, nodes in given.nodes.items():
        with naming(name):
            yield from (node_file(name, attribute) for attribute in nodes.attributes)
            yield from (split_file(name, split) for split in nodes.splits)
            if options.renumbers:
                yield ids_file(name)
    for edge_type, edges in given.edges.items():
        with naming(edge_type):
            yield graph_file(edge_type)
            yield from (edge_file(edge_type, attribute) for attribute in edges.attributes)
            yield from (split_file(edge_type, split) for split in edges.splits)


def build_typed_dataset(
    path: str | os.PathLike[str],
    nodes: Any,
    edges: Any,
    splits: Mapping[str, Any] | None = None,
    edge_splits: Mapping[str, Any] | None = None,
    *,
    neighbors: Neighbors = "in",
    order: str = "hot",
    header: bool | str = "auto",
    delimiter: str = "auto",
    edge_ids: bool = False,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> TypedManifest:
    """`graphzero.build` of a graph with node types and edge types."""
    limit = parse_bytes(memory_limit)
    options = WriteOptions(order, None, limit, Progress(progress), neighbors)
    given = open_typed_input(
        nodes,
        edges,
        splits,
        edge_splits,
        header=header,
        delimiter=delimiter,
        incoming=neighbors == "in",
        with_edge_ids=edge_ids,
    )
    names = list(_names(given, options))
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        check_names(folder, names)
        earlier = recover(folder)
        return replace_dataset(folder, earlier, partial(_write_files, folder, given, options))
