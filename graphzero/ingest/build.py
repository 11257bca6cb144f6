"""The one-time build: from the user's files to a dataset folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.ingest.attribute_names import file_stem
from graphzero.ingest.closing import Closing
from graphzero.ingest.csr import write_graph
from graphzero.ingest.edge_groups import Merging
from graphzero.ingest.edge_input import EdgeInput
from graphzero.ingest.edges import read_edges
from graphzero.ingest.folder import check_names, entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.graph_input import GraphInput, open_graph_input
from graphzero.ingest.inputs import InputFiles
from graphzero.ingest.mapped_input import check_mapped, id_kind, mapped
from graphzero.ingest.merge_plan import check_attributes, merge_options
from graphzero.ingest.merging import Prepared, merging_of, prepare_edges
from graphzero.ingest.node_counts import final_count, known_bound
from graphzero.ingest.node_times import read_node_times
from graphzero.ingest.presampling import Presampler, Visits, presample_order
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import NodeOrder, hot_order
from graphzero.ingest.raw_ids import IdKind
from graphzero.ingest.row_input import count_classes
from graphzero.ingest.sources.columns import checked_count
from graphzero.ingest.space_before import announce_space
from graphzero.ingest.splits import Remap, write_split
from graphzero.ingest.spooling import spool_iterators
from graphzero.ingest.staging import (
    OUT_GRAPH_NAME,
    require_space,
    rewrite_graph,
    stage_edge_rows,
    stage_out_lists,
    stage_tables,
    training_seeds,
)
from graphzero.ingest.stored import open_stored_graph
from graphzero.ingest.write_options import WriteOptions, parse_bytes
from graphzero.store.edge_changes import describe_changes
from graphzero.store.filewriter import FileWriter
from graphzero.store.id_table import ID_TABLE_FILE
from graphzero.store.manifest import FileEntry, Manifest, Neighbors
from graphzero.store.schema import EDGE_TIME, EDGE_WEIGHT

__all__ = ["build_dataset"]

NodeTimes = npt.NDArray[np.int64] | None


def _has_both(source: EdgeInput, options: WriteOptions) -> bool:
    """Whether there are two graph files, one for each direction."""
    return source.directed and options.neighbors == "both"


def _num_graph_files(given: GraphInput, options: WriteOptions) -> int:
    """Graph files that exist at the same time."""
    return 1 + (options.presampler is not None) + _has_both(given.source, options)


def _build_graph(
    folder: Path, given: GraphInput, merging: Merging, options: WriteOptions
) -> tuple[FileWriter, NodeOrder | None, NodeTimes, Prepared]:
    """The graph file in input order or hot order; a presample order is made from the latter.

    Also the times of nodes, where edges have them; and what was done to the edge list.
    """
    source, tables, timed = given.source, given.tables, given.node_times
    bound = known_bound(given)
    edges = read_edges(
        source,
        folder,
        memory=options.column_memory,
        bounds=(bound, bound),
        progress=options.progress,
    )
    if source.bad_rows is not None:
        options.closing.add(*source.bad_rows.skipped().clauses())
    prepared = prepare_edges(folder, edges, given.edges, merging, options, options.column_memory)
    edges = prepared.edges
    options.closing.add(*describe_changes(prepared.changes))
    try:
        count = final_count(bound.count, edges, tables.values(), source.table.name)
        if timed is not None:
            times = read_node_times(folder, timed, count, options.times_memory)
            edges = replace(edges, node_times=times)
        require_space(
            folder,
            edges,
            tables.values(),
            count,
            options,
            needs="the build needs",
            num_graph_files=_num_graph_files(given, options),
            edge_rows=prepared.attributes.values(),
        )
        order: NodeOrder | None = None
        if options.renumbers:
            # Presampling needs the rest for the visits and the order that they give.
            memory = options.order_memory // (1 if options.presampler is None else 4)
            occurrences = edges.occurrences(memory // 32)
            with options.progress.phase("ordering nodes", None):
                order = hot_order(folder, count, occurrences, memory)
        graph = write_graph(
            folder / "graph.gl",
            edges,
            count,
            order=order,
            memory=options.sort_memory,
            progress=options.progress,
        )
    except BaseException:
        prepared.close()
        raise
    finally:
        edges.close()
    return graph, order, edges.node_times, prepared


def _presampled(
    folder: Path,
    hot_graph: FileWriter,
    splits: Mapping[str, FileEntry],
    hot: NodeOrder,
    presampler: Presampler,
    options: WriteOptions,
) -> tuple[FileWriter, NodeOrder, Visits]:
    """The graph in presample order, made from one in hot order."""
    graph = open_stored_graph(hot_graph.staged.staged_path)
    seeds = training_seeds(folder, splits)
    memory, progress = options.order_memory, options.progress
    order, visits = presample_order(graph, seeds, presampler, hot, memory, progress)
    return rewrite_graph(graph, folder / "graph.gl", order, options), order, visits


def _stage_splits(
    folder: Path,
    splits: Mapping[str, Any],
    count: int,
    of: Literal["node", "edge"],
    options: WriteOptions,
    staged: list[FileWriter],
    remap: Remap | None = None,
) -> dict[str, FileEntry]:
    entries: dict[str, FileEntry] = {}
    for name, value in splits.items():
        path = folder / f"{'edge_' if of == 'edge' else ''}split_{name}.gd"
        memory = options.column_memory
        file = write_split(path, name, value, count, memory=memory, of=of, remap=remap)
        staged.append(file)
        entries[name] = entry_of(file)
    return entries


def _build_files(
    folder: Path,
    given: GraphInput,
    merging: Merging,
    kind: IdKind | None,
    options: WriteOptions,
    staged: list[FileWriter],
) -> Manifest:
    """Writes every file, adds it to `staged`, and returns the manifest."""
    announce_space(
        folder,
        given,
        None if kind is not None else known_bound(given).count,
        kind,
        options,
        _num_graph_files(given, options),
        plan=merging.plan,
    )
    with mapped(folder, given, kind, options, staged) as (nodes, id_map):
        manifest = _build_graph_files(folder, nodes, merging, options, staged)
    return manifest if id_map is None else replace(manifest, id_map=entry_of(id_map))


def _build_graph_files(
    folder: Path,
    given: GraphInput,
    merging: Merging,
    options: WriteOptions,
    staged: list[FileWriter],
) -> Manifest:
    graph, order, node_times, prepared = _build_graph(folder, given, merging, options)
    staged.append(graph)
    with closing(prepared):
        return _stage_rest(folder, given, graph, order, node_times, prepared, options, staged)


def _stage_rest(
    folder: Path,
    given: GraphInput,
    graph: FileWriter,
    order: NodeOrder | None,
    node_times: NodeTimes,
    prepared: Prepared,
    options: WriteOptions,
    staged: list[FileWriter],
) -> Manifest:
    """Writes what comes after the graph file, and returns the manifest."""
    source, count, num_edges = given.source, graph.header.num_nodes, graph.header.num_input_edges
    splits = _stage_splits(folder, given.splits, count, "node", options, staged)
    edge_splits = _stage_splits(
        folder, given.edge_splits, num_edges, "edge", options, staged, prepared.remap
    )
    tables = given.tables
    visits: Visits | None = None
    if options.presampler is not None and order is not None:
        hot_graph = graph
        graph, order, visits = _presampled(
            folder, hot_graph, splits, order, options.presampler, options
        )
        staged.append(graph)
        hot_graph.discard()
        tables["visits"] = visits.rows()
    out_graph: FileEntry | None = None
    if _has_both(source, options):
        out_graph = stage_out_lists(folder, graph, order, options, staged, node_times)
    del node_times
    entries = stage_tables(
        folder, tables, count, order, options, staged, may_lack_rows={"features"}
    )
    edge_entries = stage_edge_rows(folder, prepared.attributes, graph, options, staged)
    return Manifest(
        num_nodes=count,
        num_edges=graph.header.width,
        num_input_edges=graph.header.num_input_edges,
        directed=source.directed,
        order=options.order,
        num_classes=count_classes(given.nodes["y"]) if "y" in given.nodes else None,
        graph=entry_of(graph),
        features=entries.get("features"),
        labels=entries.get("labels"),
        splits=splits,
        visits=entries.get("visits"),
        presampling=None if visits is None else visits.presampling,
        neighbors=options.neighbors if source.directed else "both",
        out_graph=out_graph,
        attributes={
            name: entries[file_stem(name, "node")] for name in given.nodes if name not in ("x", "y")
        },
        edge_attributes=edge_entries,
        edge_splits=edge_splits,
        weight=given.driving.weight or EDGE_WEIGHT,
        time=given.driving.time or EDGE_TIME,
        time_level=given.driving.time_level,
        changes=prepared.changes or None,
    )


def build_dataset(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    *,
    nodes: Mapping[str, Any] | None = None,
    edge_splits: Mapping[str, Any] | None = None,
    weight_attrs: str | Iterable[str] | None = None,
    time_attrs: str | Iterable[str] | None = None,
    num_nodes: int | None = None,
    ids: str | None = "dense",
    directed: bool = True,
    neighbors: Neighbors = "in",
    order: str = "hot",
    presample: Presampler | None = None,
    src: str | int | None = None,
    dst: str | int | None = None,
    weight: Any = None,
    timestamp: Any = None,
    header: bool | str = "auto",
    delimiter: str = "auto",
    on_bad_rows: str = "raise",
    edge_ids: bool = False,
    coalesce: Any = False,
    drop_self_loops: bool = False,
    reverse: bool = False,
    feature_dtype: Any = None,
    edge_attrs: Any = None,
    id_column: Any = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
    closing: Closing | None = None,
) -> Manifest:
    """`graphzero.build`, which opens what this has written, and says what `closing` collects."""
    limit, kind = parse_bytes(memory_limit), id_kind(ids)
    options = WriteOptions(
        order, presample, limit, Progress(progress), neighbors, closing=closing or Closing()
    )
    if presample is not None:
        presample.check_types(None)
    if neighbors is None:
        raise ValueError("neighbors must be 'in', 'out' or 'both', not None")
    wanted = merge_options(coalesce, drop_self_loops, reverse)
    if num_nodes is not None:
        num_nodes = checked_count(num_nodes)
    inputs = InputFiles(edges, features, labels, splits, nodes, edge_splits, weight, timestamp)
    features, labels, splits, nodes, edges, edge_splits, weight, timestamp = spool_iterators(
        Path(path),
        features=features,
        labels=labels,
        splits=splits,
        nodes=nodes,
        edges=edges,
        edge_splits=edge_splits,
        weight=weight,
        timestamp=timestamp,
    )
    given = open_graph_input(
        edges,
        features,
        labels,
        splits,
        nodes=nodes,
        edge_splits=edge_splits,
        num_nodes=num_nodes,
        feature_dtype=feature_dtype,
        weight_attrs=weight_attrs,
        time_attrs=time_attrs,
        id_column=id_column,
        src=src,
        dst=dst,
        weight=weight,
        timestamp=timestamp,
        edge_attrs=edge_attrs,
        header=header,
        delimiter=delimiter,
        on_bad_rows=on_bad_rows,
        directed=directed,
        incoming=neighbors != "out",
        with_edge_ids=edge_ids,
        text_ids=kind is not None,
    )
    if kind is not None:
        check_mapped(num_nodes, given.nodes)
    options.closing.begin(given.source.summary, neighbors=neighbors, directed=directed)
    merging = merging_of(wanted, given.source, given.edges, given.driving, given.edge_splits)
    check_attributes([wanted], merging.plan.how)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    names = ["graph.gl", *given.file_names()]
    names += [ID_TABLE_FILE] if kind is not None else []
    names += ["visits.gd"] if options.presampler is not None else []
    names += [OUT_GRAPH_NAME] if _has_both(given.source, options) else []
    with folder_lock(folder):
        check_names(folder, names)
        earlier = recover(folder)
        write = partial(_build_files, folder, given, merging, kind, options)
        return replace_dataset(folder, earlier, write, inputs)
