"""The build of a typed graph: a graph file for each edge type, an order for each node type."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.ingest.closing import Closing
from graphzero.ingest.edge_groups import Merging
from graphzero.ingest.edges import EdgeList, IdBound, read_edges
from graphzero.ingest.folder import check_names, entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.inputs import InputFiles
from graphzero.ingest.mapped_input import check_mapped_types, id_kind, mapped_types
from graphzero.ingest.merging import Prepared, prepare_edges
from graphzero.ingest.node_counts import type_bounds, type_counts
from graphzero.ingest.node_times import read_node_times
from graphzero.ingest.presampling import Presampler
from graphzero.ingest.progress import Progress
from graphzero.ingest.raw_ids import IdKind
from graphzero.ingest.row_input import count_classes
from graphzero.ingest.splits import Remap, write_split
from graphzero.ingest.spooling import spool_iterators
from graphzero.ingest.staging import typed_training_seeds
from graphzero.ingest.typed_files import (
    TypedContent,
    TypedFiles,
    ends_of,
    require_typed_space,
    write_typed_files,
)
from graphzero.ingest.typed_input import (
    TypedInput,
    naming,
    open_typed_input,
)
from graphzero.ingest.typed_merging import turned_types, typed_mergings
from graphzero.ingest.typed_names import (
    edge_file,
    graph_file,
    id_map_file,
    ids_file,
    node_file,
    split_file,
    visits_file,
)
from graphzero.ingest.typed_options import check_typed_options
from graphzero.ingest.typed_space_before import announce_typed_space
from graphzero.ingest.write_options import WriteOptions, parse_bytes
from graphzero.store.edge_changes import describe_changes
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


@dataclass
class _Lists:
    """The edges of each type, as far as they are there; `close` frees them.

    Attributes
    ----------
    edges : dict of (str, str, str) to EdgeList
    prepared : dict of (str, str, str) to Prepared
    """

    edges: EdgeLists = field(default_factory=dict)
    prepared: dict[EdgeType, Prepared] = field(default_factory=dict)

    def close(self) -> None:
        """Frees memory and disk space."""
        for edges in self.edges.values():
            edges.close()
        for prepared in self.prepared.values():
            prepared.close()


def _read_all(
    folder: Path,
    given: TypedInput,
    mergings: Mapping[EdgeType, Merging],
    bounds: Mapping[str, IdBound],
    options: WriteOptions,
    lists: _Lists,
) -> None:
    """Reads each edge list once, into `lists`, and merges its edges if they are to be merged."""
    memory = options.column_memory // len(given.edges)
    for edge_type, edges in given.edges.items():
        merging = mergings[edge_type]
        ends = bounds[edge_type[0]], bounds[edge_type[2]]
        with naming(edge_type):
            lists.edges[edge_type] = read_edges(
                edges.edges,
                folder,
                memory=memory,
                bounds=ends[::-1] if merging.plan.reverse else ends,
                progress=options.progress,
            )
            prepared = prepare_edges(
                folder, lists.edges[edge_type], edges.attributes, merging, options, memory
            )
        lists.prepared[edge_type], lists.edges[edge_type] = prepared, prepared.edges
        clauses = describe_changes(prepared.changes)
        options.closing.add(*clauses, where=str(edge_type))


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
    folder: Path,
    given: TypedInput,
    mergings: Mapping[EdgeType, Merging],
    options: WriteOptions,
    lists: _Lists,
) -> TypedContent:
    """Edges and attributes, with the number of nodes of each type."""
    bounds = type_bounds(given, turned_types(mergings))
    _read_all(folder, given, mergings, bounds, options, lists)
    counts = type_counts(given, bounds, lists.edges)
    _add_node_times(folder, given, counts, options, lists.edges)
    return TypedContent(
        counts,
        lists.edges,
        {name: nodes.attributes for name, nodes in given.nodes.items()},
        {edge_type: prepared.attributes for edge_type, prepared in lists.prepared.items()},
        may_lack_rows=True,
    )


def _write_splits(
    folder: Path,
    types: str | EdgeType,
    splits: Mapping[str, Any],
    count: int,
    options: WriteOptions,
    staged: list[FileWriter],
    remap: Remap | None = None,
) -> dict[str, FileEntry]:
    """The splits of a node type, or of an edge type."""
    entries: dict[str, FileEntry] = {}
    for name, value in splits.items():
        path = folder / split_file(types, name)
        of: Literal["node", "edge"] = "node" if isinstance(types, str) else "edge"
        memory = options.column_memory
        file = write_split(path, name, value, count, memory=memory, of=of, remap=remap)
        staged.append(file)
        entries[name] = entry_of(file)
    return entries


def _node_splits(
    folder: Path,
    given: TypedInput,
    counts: Mapping[str, int],
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[str, dict[str, FileEntry]]:
    splits: dict[str, dict[str, FileEntry]] = {}
    for name, nodes in given.nodes.items():
        with naming(name):
            splits[name] = _write_splits(folder, name, nodes.splits, counts[name], options, staged)
    return splits


def _node_tables(
    given: TypedInput,
    counts: Mapping[str, int],
    splits: Mapping[str, dict[str, FileEntry]],
    files: TypedFiles,
) -> dict[str, NodeTable]:
    tables: dict[str, NodeTable] = {}
    for name, nodes in given.nodes.items():
        with naming(name):
            labels = nodes.attributes.get("y")
            tables[name] = NodeTable(
                num_nodes=counts[name],
                attributes=files.nodes[name],
                splits=splits[name],
                num_classes=None if labels is None else count_classes(labels),
                ids=files.ids.get(name),
                visits=files.visits.get(name),
            )
    return tables


def _edge_tables(
    folder: Path,
    given: TypedInput,
    files: TypedFiles,
    lists: _Lists,
    options: WriteOptions,
    staged: list[FileWriter],
) -> dict[EdgeType, EdgeTable]:
    tables: dict[EdgeType, EdgeTable] = {}
    for edge_type, edges in given.edges.items():
        graph, driving = files.graphs[edge_type], edges.driving
        num_edges, prepared = graph.header.num_input_edges, lists.prepared[edge_type]
        with naming(edge_type):
            splits = _write_splits(
                folder, edge_type, edges.splits, num_edges, options, staged, prepared.remap
            )
            tables[edge_type] = EdgeTable(
                num_edges=graph.header.width,
                num_input_edges=num_edges,
                graph=entry_of(graph),
                attributes=files.edges[edge_type],
                splits=splits,
                weight=driving.weight,
                time=driving.time,
                time_level=driving.time_level,
                changes=prepared.changes or None,
            )
    return tables


def _write_files(
    folder: Path,
    given: TypedInput,
    mergings: Mapping[EdgeType, Merging],
    kind: IdKind | None,
    options: WriteOptions,
    staged: list[FileWriter],
) -> TypedManifest:
    """Writes every file, adds it to `staged`, and returns the manifest."""
    turned = turned_types(mergings)
    bounds = {name: IdBound() for name in given.nodes} if kind else type_bounds(given, turned)
    known = {name: bound.count for name, bound in bounds.items()}
    announce_typed_space(folder, given, known, kind, options, mergings)
    with mapped_types(folder, given, kind, options, staged, turned) as (
        changed,
        id_maps,
    ):
        manifest = _write_type_files(folder, changed, mergings, options, staged)
    tables = {
        name: replace(table, id_map=entry_of(id_maps[name])) if name in id_maps else table
        for name, table in manifest.nodes.items()
    }
    return replace(manifest, nodes=tables)


def _write_type_files(
    folder: Path,
    given: TypedInput,
    mergings: Mapping[EdgeType, Merging],
    options: WriteOptions,
    staged: list[FileWriter],
) -> TypedManifest:
    with closing(_Lists()) as lists:
        content = _content(folder, given, mergings, options, lists)
        require_typed_space(folder, content, options, "the build needs")
        splits = _node_splits(folder, given, content.counts, options, staged)
        if options.presampler is not None:
            content = replace(content, seeds=typed_training_seeds(folder, splits))
        files = write_typed_files(folder, content, options, staged)
        return TypedManifest(
            nodes=_node_tables(given, content.counts, splits, files),
            edges=_edge_tables(folder, given, files, lists, options, staged),
            neighbors=options.neighbors or "in",
            order=options.order,
            presampling=files.presampling,
        )


def _names(given: TypedInput, kind: IdKind | None, options: WriteOptions) -> Iterator[str]:
    """Names of all files that the build will write."""
    for name, nodes in given.nodes.items():
        with naming(name):
            yield from (node_file(name, attribute) for attribute in nodes.attributes)
            yield from (split_file(name, split) for split in nodes.splits)
            if options.renumbers:
                yield ids_file(name)
            if options.presampler is not None:
                yield visits_file(name)
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
    presample: Presampler | None = None,
    header: bool | str = "auto",
    delimiter: str = "auto",
    weight: Any = None,
    timestamp: Any = None,
    edge_ids: bool = False,
    coalesce: Any = False,
    drop_self_loops: Any = False,
    reverse: Any = False,
    weight_attrs: Any = None,
    time_attrs: Any = None,
    feature_dtype: Any = None,
    edge_attrs: Any = None,
    id_column: Any = None,
    ids: str | None = "dense",
    memory_limit: int | str = "2GB",
    progress: bool = False,
    closing: Closing | None = None,
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
        weight=weight,
        timestamp=timestamp,
        edge_attrs=edge_attrs,
        **others,
    )
    limit, kind = parse_bytes(memory_limit), id_kind(ids)
    options = WriteOptions(
        order, presample, limit, Progress(progress), neighbors, closing=closing or Closing()
    )
    inputs = InputFiles(nodes, edges, splits, edge_splits)
    nodes, edges, splits, edge_splits = spool_iterators(
        Path(path), nodes=nodes, edges=edges, splits=splits, edge_splits=edge_splits
    )
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
        edge_attrs=edge_attrs,
        id_column=id_column,
        incoming=neighbors == "in",
        with_edge_ids=edge_ids,
        text_ids=kind is not None,
    )
    if kind is not None:
        check_mapped_types(given)
    if presample is not None:
        presample.check_types(list(given.edges))
    for edge_type, one in given.edges.items():
        options.closing.begin(
            one.edges.summary, neighbors=neighbors, directed=True, where=str(edge_type)
        )
    mergings = typed_mergings(given, coalesce, drop_self_loops, reverse)
    names = list(_names(given, kind, options))
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        check_names(folder, names)
        earlier = recover(folder)
        write = partial(_write_files, folder, given, mergings, kind, options)
        return replace_dataset(folder, earlier, write, inputs)
