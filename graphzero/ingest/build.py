"""The one-time build: from the user's files to a dataset folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from graphzero.ingest.columns import MAX_NODES, checked_count
from graphzero.ingest.csr import write_graph
from graphzero.ingest.edge_input import EdgeInput, open_edges
from graphzero.ingest.edges import EdgeList, IdBound, read_edges
from graphzero.ingest.folder import check_names, entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.presampling import Presampler, Visits, presample_order
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import NodeOrder, hot_order
from graphzero.ingest.row_input import count_classes, open_features, open_labels
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.splits import check_split_names, write_split
from graphzero.ingest.staging import (
    OUT_GRAPH_NAME,
    require_space,
    rewrite_graph,
    stage_out_lists,
    stage_tables,
    training_seeds,
)
from graphzero.ingest.stored import open_stored_graph
from graphzero.ingest.write_options import WriteOptions, parse_bytes
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import as_dtype
from graphzero.store.manifest import FileEntry, Manifest, Neighbors

__all__ = ["build_dataset"]


def _known_count(num_nodes: int | None, tables: Iterable[Rows]) -> tuple[int | None, str]:
    """Number of nodes if it is known without the edges, and where it is known from."""
    known: list[tuple[int, str]] = []
    if num_nodes is not None:
        known.append((num_nodes, f"num_nodes={num_nodes}"))
    for rows in tables:
        if rows.in_order:
            count = rows.count()
            known.append((count, f"{rows.name} has {count} rows"))
    for count, why in known[1:]:
        if count != known[0][0]:
            raise ValueError(f"{known[0][1]}, but {why}: every node needs one")
    return known[0] if known else (None, "")


def _final_count(known: int | None, edges: EdgeList, tables: Iterable[Rows], name: str) -> int:
    count = max([edges.max_id + 1, *(rows.count() for rows in tables)]) if known is None else known
    if count == 0:
        raise ValueError(
            f"{name} has no edges: give num_nodes or features to build a graph without edges"
        )
    if count > MAX_NODES:
        raise ValueError(f"{count} nodes exceed the limit of 2^32: probably an id is wrong")
    return count


def _has_both(source: EdgeInput, options: WriteOptions) -> bool:
    """Whether there are two graph files, one for each direction."""
    return source.directed and options.neighbors == "both"


def _build_graph(
    folder: Path,
    source: EdgeInput,
    tables: Mapping[str, Rows],
    num_nodes: int | None,
    options: WriteOptions,
) -> tuple[FileWriter, NodeOrder | None]:
    """The graph file in input order or hot order; a presample order is made from the latter."""
    known, why = _known_count(num_nodes, tables.values())
    bound = IdBound(known, why)
    edges = read_edges(
        source,
        folder,
        memory=options.column_memory,
        bounds=(bound, bound),
        progress=options.progress,
    )
    try:
        count = _final_count(known, edges, tables.values(), source.table.name)
        require_space(
            folder,
            edges,
            tables.values(),
            count,
            options,
            needs="the build needs",
            num_graph_files=1 + (options.presampler is not None) + _has_both(source, options),
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
    finally:
        edges.close()
    return graph, order


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


def _build_files(
    folder: Path,
    source: EdgeInput,
    tables: Mapping[str, Rows],
    splits: Mapping[str, Any],
    num_nodes: int | None,
    options: WriteOptions,
    staged: list[FileWriter],
) -> Manifest:
    """Writes every file, adds it to `staged`, and returns the manifest."""
    graph, order = _build_graph(folder, source, tables, num_nodes, options)
    staged.append(graph)
    count = graph.header.num_nodes
    split_entries: dict[str, FileEntry] = {}
    for name, value in splits.items():
        path = folder / f"split_{name}.gd"
        file = write_split(path, name, value, count, memory=options.column_memory)
        staged.append(file)
        split_entries[name] = entry_of(file)
    all_tables: dict[str, Rows] = dict(tables)
    visits: Visits | None = None
    if options.presampler is not None and order is not None:
        hot_graph = graph
        graph, order, visits = _presampled(
            folder, hot_graph, split_entries, order, options.presampler, options
        )
        staged.append(graph)
        hot_graph.discard()
        all_tables["visits"] = visits.rows()
    both = _has_both(source, options)
    out_graph = stage_out_lists(folder, graph, order, options, staged) if both else None
    entries = stage_tables(
        folder, all_tables, count, order, options, staged, may_lack_rows={"features"}
    )
    return Manifest(
        num_nodes=count,
        num_edges=graph.header.width,
        num_input_edges=graph.header.num_input_edges,
        directed=source.directed,
        order=options.order,
        num_classes=count_classes(tables["labels"]) if "labels" in tables else None,
        graph=entry_of(graph),
        features=entries.get("features"),
        labels=entries.get("labels"),
        splits=split_entries,
        visits=entries.get("visits"),
        presampling=None if visits is None else visits.presampling,
        neighbors=options.neighbors if source.directed else "both",
        out_graph=out_graph,
    )


def build_dataset(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    *,
    num_nodes: int | None = None,
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
    edge_ids: bool = False,
    feature_dtype: Any = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Manifest:
    """`graphzero.build`, which opens what this has written."""
    limit = parse_bytes(memory_limit)
    options = WriteOptions(order, presample, limit, Progress(progress), neighbors)
    if neighbors is None:
        raise ValueError("neighbors must be 'in', 'out' or 'both', not None")
    if num_nodes is not None:
        num_nodes = checked_count(num_nodes)
    named_splits = dict(splits or {})
    check_split_names(named_splits)
    source = open_edges(
        edges,
        src=src,
        dst=dst,
        weight=weight,
        timestamp=timestamp,
        header=header,
        delimiter=delimiter,
        directed=directed,
        incoming=neighbors != "out",
        with_edge_ids=edge_ids,
    )
    tables: dict[str, Rows] = {}
    if features is not None:
        stored_as = None if feature_dtype is None else as_dtype(feature_dtype)
        tables["features"] = open_features(features, stored_as)
    elif feature_dtype is not None:
        raise ValueError("feature_dtype needs features")
    if labels is not None:
        tables["labels"] = open_labels(labels)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    names = ["graph.gl", *(f"{table}.gd" for table in tables)]
    names += [f"split_{name}.gd" for name in named_splits]
    names += ["visits.gd"] if options.presampler is not None else []
    names += [OUT_GRAPH_NAME] if _has_both(source, options) else []
    with folder_lock(folder):
        check_names(folder, names)
        earlier = recover(folder)
        write = partial(_build_files, folder, source, tables, named_splits, num_nodes, options)
        return replace_dataset(folder, earlier, write)
