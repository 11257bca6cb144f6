"""The one-time build: open, read, merge, order, sort and write, commit; and other orders later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphzero.ingest import dataset_files, graph_input
from graphzero.ingest.closing import Closing
from graphzero.ingest.edges import EdgeList, IdBound, read_edges
from graphzero.ingest.graph_input import GraphInput, naming
from graphzero.ingest.id_map import collect_ids
from graphzero.ingest.link_split import Bounds, hold_out, time_bounds, write_link_split
from graphzero.ingest.lists import ends_of
from graphzero.ingest.merge import Prepared, prepare_edges, prepare_held_out
from graphzero.ingest.options import BuildNotes, BuildOptions, Presampler, Progress, WriteOptions
from graphzero.ingest.rows import Rows, classes_of, count_classes
from graphzero.ingest.sort import spooling_near
from graphzero.ingest.sources.tables import noting_inputs
from graphzero.ingest.writer import (
    UNWRITTEN,
    DatasetWriter,
    OrderedContent,
    changing_dataset,
    writing_dataset,
)
from graphzero.store.format import FileWriter, sealed_file, vector_layout, verify_file
from graphzero.store.manifest import (
    EDGE_TIME,
    EDGE_WEIGHT,
    EDGES,
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    Neighbors,
    NodeTable,
    describe_changes,
    read_manifest,
    reverse_types,
)
from graphzero.units import parse_size


def _map_ids(writer: DatasetWriter, graph: GraphInput) -> tuple[GraphInput, dict[str, FileEntry]]:
    """The input with numbers in place of the user's ids, and the files that have these."""
    options = writer.options
    paths = {name: writer.folder / graph.layout.of_nodes(name, "id_map") for name in graph.nodes}
    files: list[FileWriter] = []
    try:
        collect_ids(paths, graph.ids, graph_input.id_sources(graph), options, files)
    finally:
        entries = {name: writer.add(file) for name, file in zip(paths, files, strict=False)}
    for edge_type in graph.edges:
        for name in dict.fromkeys((edge_type[0], edge_type[2])):
            note = graph.ids[name].table.described()
            options.notes.add(edge_type, f"{name}: {note}" if name else note)
    return graph_input.with_nodes(graph, graph.ids, writer.folder), entries


def _read_lists(
    folder: Path, graph: GraphInput, bounds: Mapping[str, IdBound], options: WriteOptions
) -> dict[EdgeType, Prepared]:
    """Reads each edge list once, and merges its edges."""
    lists: dict[EdgeType, Prepared] = {}
    time_bounds_of: dict[EdgeType, Bounds | None] = {}
    for edge_type, typed in graph.edges.items():
        ends = graph.ends(edge_type)
        with naming(edge_type):
            of_ends = bounds[ends[0]], bounds[ends[1]]
            edges = read_edges(typed.edges, folder, options, of_ends, len(graph.edges))
            held_out: dict[str, EdgeList] = {}
            if (split := typed.link_split) is not None:
                times = time_bounds(split, edges, time_bounds_of.get(edge_type))
                time_bounds_of |= dict.fromkeys(reverse_types(edge_type, graph.edges), times)
                memory = options.column_memory // 4
                edges, held_out = hold_out(
                    folder, edges, ends, split=split, bounds=times, memory=memory
                )
            prepared = prepare_edges(folder, edges, typed.attributes, typed.merging, options)
            for name, part in held_out.items():
                held_out[name] = prepare_held_out(folder, part, typed.merging, options)
        parts = {"train": prepared.edges, **held_out} if held_out else {}
        lists[edge_type] = replace(prepared, parts=parts)
        options.notes.add(edge_type, *describe_changes(prepared.changes))
        if parts:
            sizes = [f"{len(part):,} in {name}" for name, part in parts.items()]
            options.notes.add(edge_type, f"edges are split: {', '.join(sizes)}")
    return lists


def _write_nodes(
    writer: DatasetWriter, graph: GraphInput, counts: Mapping[str, int]
) -> dict[str, NodeTable]:
    """The nodes of each type, and their splits."""
    tables: dict[str, NodeTable] = {}
    for name, nodes in graph.nodes.items():
        with naming(name):
            splits = writer.splits(name, nodes.splits, counts[name])
            labels = nodes.attributes.get("y")
            num_classes = None if labels is None else count_classes(labels)
        classes = classes_of(nodes.attributes) or None
        tables[name] = NodeTable(counts[name], {}, splits, num_classes, classes=classes)
    return tables


def _write_edge_splits(
    writer: DatasetWriter, graph: GraphInput, read: Mapping[EdgeType, Prepared]
) -> dict[EdgeType, dict[str, FileEntry]]:
    """The splits of the edges of each type."""
    entries: dict[EdgeType, dict[str, FileEntry]] = {}
    for edge_type, typed in graph.edges.items():
        prepared = read[edge_type]
        count, remap = prepared.edges.num_input_edges, prepared.merged.remap
        with naming(edge_type):
            splits = writer.splits(edge_type, typed.splits, count, remap)
        for name, part in prepared.parts.items():
            path = writer.folder / writer.layout.split(edge_type, name)
            splits[name] = writer.add(write_link_split(path, part))
        entries[edge_type] = splits
    return entries


def _write_extras(writer: DatasetWriter, extras: bytes | None) -> FileEntry | None:
    """What of a graph of PyG has no row for each node or edge."""
    if extras is None:
        return None
    header = vector_layout(len(extras), {"rows": np.uint8})
    with sealed_file(writer.folder / writer.layout.extras, header) as file:
        file.append("rows", np.frombuffer(extras, np.uint8))
    return writer.add(file)


def _write_new(writer: DatasetWriter, graph: GraphInput, wanted: BuildOptions) -> Manifest:
    """Writes every file of a new dataset."""
    id_maps: dict[str, FileEntry] = {}
    if wanted.maps_ids:
        graph, id_maps = _map_ids(writer, graph)
    bounds = graph_input.known_counts(graph)
    read = _read_lists(writer.folder, graph, bounds, writer.options)
    lists = {edge_type: prepared.edges for edge_type, prepared in read.items()}
    nodes = _write_nodes(writer, graph, graph_input.final_counts(graph, bounds, lists))
    edge_splits = _write_edge_splits(writer, graph, read)
    default = not writer.layout.is_typed
    edges: dict[EdgeType, EdgeTable] = {}
    for edge_type, typed in graph.edges.items():
        edges[edge_type] = EdgeTable(
            num_edges=lists[edge_type].num_stored,
            num_input_edges=lists[edge_type].num_input_edges,
            graph=UNWRITTEN,
            splits=edge_splits[edge_type],
            weight=typed.sampled_by.weight or (EDGE_WEIGHT if default else None),
            time=typed.sampled_by.time or (EDGE_TIME if default else None),
            time_level=typed.sampled_by.time_level,
            changes=read[edge_type].changes or None,
            classes=classes_of(typed.attributes) or None,
        )
    manifest = Manifest(
        nodes={name: replace(table, id_map=id_maps.get(name)) for name, table in nodes.items()},
        edges=edges,
        neighbors=writer.options.neighbors if wanted.is_directed else "both",
        order=writer.options.order,
        directed=wanted.is_directed,
        extras=_write_extras(writer, wanted.extras),
    )
    num_loops = {edge_type: edges.num_loops for edge_type, edges in lists.items()}
    manifest = OrderedContent(
        writer,
        manifest,
        lists=lists,
        node_rows={name: opened.attributes for name, opened in graph.nodes.items()},
        edge_rows={edge_type: prepared.attributes for edge_type, prepared in read.items()},
    ).write()
    notes = writer.options.notes
    Closing(writer.folder, manifest, num_loops, notes, wanted.directed is None).describe()
    return manifest


def write_dataset(path: str | os.PathLike[str], wanted: BuildOptions) -> BuildNotes:
    """Builds a dataset folder; returns what is to be said at the end.

    Raises
    ------
    ValueError
        Naming the file, the line and the wrong text; the array, chunk and position.
    IndexError
        If a split has a node that does not exist.
    OSError
        With errno and path: no such file, no permission, no disk space, or another build or
        a measurement uses the folder.
    """
    options, folder = wanted.write_options(), Path(path)
    with spooling_near(folder), noting_inputs() as inputs:
        graph = graph_input.open_graph_input(wanted)
        if wanted.presample is not None:
            wanted.presample.check_types(list(graph.edges) if graph.layout.is_typed else None)
        for edge_type, typed in graph.edges.items():
            summary = typed.edges.source.summary
            options.notes.begin(edge_type, summary, options.neighbors, wanted.is_directed)
        folder.mkdir(parents=True, exist_ok=True)
        with writing_dataset(folder, options, inputs, graph.layout) as writer:
            writer.commit(_write_new(writer, graph, wanted))
    return options.notes


def build_dataset(path: str | os.PathLike[str], *arguments: Any, **options: Any) -> Manifest:
    """`graphzero.build` in any memory limit, which neither opens the dataset nor says anything."""
    write_dataset(path, BuildOptions(*arguments, **options))
    return read_manifest(path)


# Another order


def _verify_files(folder: Path, manifest: Manifest, progress: Progress) -> None:
    """Compares all files of a dataset with their checksums: new checksums would hide damage."""
    files = [entry.resolve(folder) for entry in manifest.entries()]
    total = sum(file.stat().st_size for file in files)
    with progress.phase("verifying", total, "B") as advance:
        for file in files:
            verify_file(file, advance)


def _write_reordered(writer: DatasetWriter, earlier: Manifest) -> Manifest:
    """Writes every file that changes."""
    folder, options = writer.folder, writer.options
    _verify_files(folder, earlier, options.progress)
    orders = dataset_files.stored_orders(folder, earlier)
    node_rows: dict[str, dict[str, Rows]] = {}
    for name, nodes in earlier.nodes.items():
        node_rows[name] = {
            attribute: dataset_files.open_stored_rows(entry.resolve(folder), orders[name])
            for attribute, entry in nodes.attributes.items()
        }
    lists: dict[EdgeType, EdgeList] = {}
    edge_rows: dict[EdgeType, dict[str, Rows]] = {}
    for edge_type, table in earlier.edges.items():
        owner, neighbor = ends_of(edge_type, earlier.incoming)
        graph = dataset_files.open_stored_graph(
            table.graph.resolve(folder), (orders[owner], orders[neighbor])
        )
        lists[edge_type] = graph.edges()
        edge_rows[edge_type] = {
            attribute: dataset_files.open_stored_array(entry.resolve(folder), graph.header.width)
            for attribute, entry in table.attributes.items()
        }
    turned = replace(earlier, neighbors=options.neighbors)
    if turned.incoming != earlier.incoming:
        lists[EDGES] = replace(lists[EDGES], incoming=turned.incoming)
    return OrderedContent(
        writer,
        turned,
        lists=lists,
        node_rows=node_rows,
        edge_rows=edge_rows,
        stored_orders=orders,
        is_turned=turned.incoming != earlier.incoming,
    ).write()


def reorder_dataset(
    path: str | os.PathLike[str],
    order: str = "hot",
    *,
    neighbors: Neighbors | None = None,
    presample: Presampler | None = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> None:
    """`graphzero.reorder` in any memory limit, which does not open the dataset."""
    limit = parse_size(memory_limit, "memory limit")
    options = WriteOptions(order, presample, limit, Progress(progress), neighbors)
    with changing_dataset(path, options) as (writer, earlier):
        if presample is not None:
            presample.check_types(list(earlier.edges) if earlier.is_typed else None)
        if earlier.is_typed and neighbors not in (None, earlier.neighbors):
            raise ValueError(
                f"neighbors={neighbors!r}: the lists of a typed graph cannot be turned; build "
                f"it again with neighbors={neighbors!r}"
            )
        kept = earlier.neighbors if neighbors is None or not earlier.directed else neighbors
        writer = replace(writer, options=replace(options, neighbors=kept))
        is_so = order == earlier.order != "presample" and not earlier.has_drifted
        if not is_so or earlier.neighbors != kept:
            writer.commit(_write_reordered(writer, earlier))
