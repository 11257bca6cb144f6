"""The build of a typed graph: a graph file for each edge type, an order for each node type."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.ingest.edges import EdgeList, IdBound, read_edges
from graphzero.ingest.folder import check_names, entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.inputs import InputFiles
from graphzero.ingest.mapped_input import check_mapped_types, id_kind, mapped_types
from graphzero.ingest.node_times import read_node_times
from graphzero.ingest.progress import Progress
from graphzero.ingest.raw_ids import IdKind
from graphzero.ingest.row_input import count_classes
from graphzero.ingest.sources.columns import MAX_NODES
from graphzero.ingest.sparse_ids import refuse_sparse_ids
from graphzero.ingest.splits import write_split
from graphzero.ingest.typed_files import (
    TypedContent,
    TypedFiles,
    ends_of,
    require_typed_space,
    write_typed_files,
)
from graphzero.ingest.typed_input import NodeTypeInput, TypedInput, naming, open_typed_input
from graphzero.ingest.typed_names import (
    edge_file,
    graph_file,
    id_map_file,
    ids_file,
    node_file,
    split_file,
)
from graphzero.ingest.typed_options import check_typed_options
from graphzero.ingest.write_options import WriteOptions, parse_bytes
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import as_dtype
from graphzero.store.schema import (
    EdgeTable,
    EdgeType,
    FileEntry,
    Neighbors,
    NodeTable,
    TypedManifest,
)

__all__ = ["build_typed_dataset"]

EdgeLists = dict[EdgeType, EdgeList]


def _bound(name: str, nodes: NodeTypeInput) -> IdBound:
    """How many nodes of a type there are, where this is known without the edges."""
    known: list[tuple[int, str]] = []
    if nodes.num_nodes is not None:
        known.append((nodes.num_nodes, f"num_nodes of {name!r} is {nodes.num_nodes}"))
    for attribute, rows in nodes.attributes.items():
        if rows.in_order:
            count = rows.count()
            known.append((count, f"{attribute!r} of {name!r} has {count} rows"))
    for count, why in known[1:]:
        if count != known[0][0]:
            raise ValueError(f"{known[0][1]}, but {why}: every node needs one")
    return IdBound(*known[0]) if known else IdBound()


def _count(name: str, nodes: NodeTypeInput, bound: IdBound, lists: EdgeLists) -> int:
    """Nodes of a type: as attributes say, or the largest id + 1."""
    count = bound.count
    if count is None:
        rows_of, num_ends = list(nodes.attributes.values()), 0
        counts = {rows.name: rows.count() for rows in rows_of}
        for edge_type, edges in lists.items():
            for end, most in zip((edge_type[0], edge_type[2]), edges.max_ids, strict=True):
                if end == name:
                    key = f"the edges of type {edge_type!r}"
                    counts[key] = max(counts.get(key, 0), most + 1)
                    num_ends += len(edges)
        largest = max(counts, key=lambda one: counts[one], default="")
        count = counts.get(largest, 0)
        refuse_sparse_ids(count, num_ends, rows_of, largest=largest, option="'num_nodes': ")
    if count == 0:
        raise ValueError("it has no nodes: give 'num_nodes', an attribute or edges")
    if count > MAX_NODES:
        raise ValueError(f"{count} nodes exceed the limit of 2^32: probably an id is wrong")
    return count


def _read_all(folder: Path, given: TypedInput, options: WriteOptions, lists: EdgeLists) -> None:
    """Reads each edge list once, into `lists`."""
    bounds: dict[str, IdBound] = {}
    for name, nodes in given.nodes.items():
        with naming(name):
            bounds[name] = _bound(name, nodes)
    for edge_type, edges in given.edges.items():
        with naming(edge_type):
            lists[edge_type] = read_edges(
                edges.edges,
                folder,
                memory=options.column_memory // len(given.edges),
                bounds=(bounds[edge_type[0]], bounds[edge_type[2]]),
                progress=options.progress,
            )


def _add_node_times(
    folder: Path,
    given: TypedInput,
    counts: Mapping[str, int],
    options: WriteOptions,
    lists: EdgeLists,
) -> None:
    """Gives edges the times of the nodes that are in the lists, where these drive sampling."""
    timed: dict[EdgeType, tuple[str, str]] = {}
    for edge_type, edges in given.edges.items():
        if edges.driving.time is not None and edges.driving.time_level == "node":
            timed[edge_type] = ends_of(edge_type, lists[edge_type])[1], edges.driving.time
    found: dict[tuple[str, str], npt.NDArray[np.int64]] = {}
    memory = options.times_memory // max(1, len(set(timed.values())))
    for name, time in set(timed.values()):
        with naming(name):
            rows = given.nodes[name].attributes[time]
            found[name, time] = read_node_times(folder, rows, counts[name], memory)
    for edge_type, key in timed.items():
        lists[edge_type] = replace(lists[edge_type], node_times=found[key])


def _content(
    folder: Path, given: TypedInput, options: WriteOptions, lists: EdgeLists
) -> TypedContent:
    """Edges and attributes, with the number of nodes of each type."""
    _read_all(folder, given, options, lists)
    counts: dict[str, int] = {}
    for name, nodes in given.nodes.items():
        with naming(name):
            counts[name] = _count(name, nodes, _bound(name, nodes), lists)
    _add_node_times(folder, given, counts, options, lists)
    return TypedContent(
        counts,
        lists,
        {name: nodes.attributes for name, nodes in given.nodes.items()},
        {edge_type: edges.attributes for edge_type, edges in given.edges.items()},
        may_lack_rows=True,
    )


def _write_splits(
    folder: Path,
    types: str | EdgeType,
    splits: Mapping[str, Any],
    count: int,
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[str, FileEntry]:
    """The splits of a node type, or of an edge type."""
    entries: dict[str, FileEntry] = {}
    for name, value in splits.items():
        path = folder / split_file(types, name)
        of: Literal["node", "edge"] = "node" if isinstance(types, str) else "edge"
        file = write_split(path, name, value, count, memory=options.column_memory, of=of)
        staged.append(file)
        entries[name] = entry_of(file)
    return entries


def _node_tables(
    folder: Path,
    given: TypedInput,
    counts: Mapping[str, int],
    files: TypedFiles,
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[str, NodeTable]:
    tables: dict[str, NodeTable] = {}
    for name, nodes in given.nodes.items():
        with naming(name):
            labels = nodes.attributes.get("y")
            tables[name] = NodeTable(
                num_nodes=counts[name],
                attributes=files.nodes[name],
                splits=_write_splits(folder, name, nodes.splits, counts[name], options, staged),
                num_classes=None if labels is None else count_classes(labels),
                ids=files.ids.get(name),
            )
    return tables


def _edge_tables(
    folder: Path,
    given: TypedInput,
    files: TypedFiles,
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[EdgeType, EdgeTable]:
    tables: dict[EdgeType, EdgeTable] = {}
    for edge_type, edges in given.edges.items():
        graph, driving = files.graphs[edge_type], edges.driving
        num_edges = graph.header.num_input_edges
        with naming(edge_type):
            tables[edge_type] = EdgeTable(
                num_edges=graph.header.width,
                num_input_edges=num_edges,
                graph=entry_of(graph),
                attributes=files.edges[edge_type],
                splits=_write_splits(folder, edge_type, edges.splits, num_edges, options, staged),
                weight=driving.weight,
                time=driving.time,
                time_level=driving.time_level,
            )
    return tables


def _write_files(
    folder: Path,
    given: TypedInput,
    kind: IdKind | None,
    options: WriteOptions,
    staged: list[FileWriter],
) -> TypedManifest:
    """Writes every file, adds it to `staged`, and returns the manifest."""
    with mapped_types(folder, given, kind, options, staged) as (changed, id_maps):
        manifest = _write_type_files(folder, changed, options, staged)
    tables = {
        name: replace(table, id_map=entry_of(id_maps[name])) if name in id_maps else table
        for name, table in manifest.nodes.items()
    }
    return replace(manifest, nodes=tables)


def _write_type_files(
    folder: Path, given: TypedInput, options: WriteOptions, staged: list[FileWriter]
) -> TypedManifest:
    lists: EdgeLists = {}
    try:
        content = _content(folder, given, options, lists)
        require_typed_space(folder, content, options, "the build needs")
        files = write_typed_files(folder, content, options, staged)
    finally:
        for edges in lists.values():
            edges.close()
    return TypedManifest(
        nodes=_node_tables(folder, given, content.counts, files, options, staged),
        edges=_edge_tables(folder, given, files, options, staged),
        neighbors=options.neighbors or "in",
        order=options.order,
    )


def _names(given: TypedInput, kind: IdKind | None, options: WriteOptions) -> Iterator[str]:
    """Names of all files that the build will write."""
    for name, nodes in given.nodes.items():
        with naming(name):
            yield from (node_file(name, attribute) for attribute in nodes.attributes)
            yield from (split_file(name, split) for split in nodes.splits)
            if options.renumbers:
                yield ids_file(name)
            if kind is not None:
                yield id_map_file(name)
    for edge_type, edges in given.edges.items():
        with naming(edge_type):
            yield graph_file(edge_type)
            yield from (edge_file(edge_type, attribute) for attribute in edges.attributes)
            yield from (split_file(edge_type, split) for split in edges.splits)


def build_typed_dataset(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    *,
    nodes: Any = None,
    edge_splits: Mapping[str, Any] | None = None,
    neighbors: Neighbors = "in",
    order: str = "hot",
    header: bool | str = "auto",
    delimiter: str = "auto",
    weight: Any = None,
    timestamp: Any = None,
    edge_ids: bool = False,
    weight_attrs: Any = None,
    time_attrs: Any = None,
    feature_dtype: Any = None,
    ids: str | None = "dense",
    memory_limit: int | str = "2GB",
    progress: bool = False,
    **others: Any,
) -> TypedManifest:
    """`graphzero.build` of a graph with node types and edge types.

    Raises
    ------
    ValueError
        For an option of `graphzero.build` that has no meaning for a typed graph.
    """
    check_typed_options(
        features=features,
        labels=labels,
        neighbors=neighbors,
        order=order,
        weight=weight,
        timestamp=timestamp,
        **others,
    )
    limit, kind = parse_bytes(memory_limit), id_kind(ids)
    options = WriteOptions(order, None, limit, Progress(progress), neighbors)
    inputs = InputFiles(nodes, edges, splits, edge_splits)
    given = open_typed_input(
        nodes,
        edges,
        splits,
        edge_splits,
        weight_attrs=weight_attrs,
        time_attrs=time_attrs,
        feature_dtype=None if feature_dtype is None else as_dtype(feature_dtype),
        header=header,
        delimiter=delimiter,
        weight=weight,
        timestamp=timestamp,
        incoming=neighbors == "in",
        with_edge_ids=edge_ids,
        text_ids=kind is not None,
    )
    if kind is not None:
        check_mapped_types(given)
    names = list(_names(given, kind, options))
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        check_names(folder, names)
        earlier = recover(folder)
        write = partial(_write_files, folder, given, kind, options)
        return replace_dataset(folder, earlier, write, inputs)
