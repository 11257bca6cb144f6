"""Writes an existing dataset again, with its nodes in another order."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from graphzero.ingest.build import (
    Content,
    read_node_times,
    require_space,
    training_seeds,
    write_files,
)
from graphzero.ingest.folder import check_names, entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.lists import NodeSpace, write_graph
from graphzero.ingest.options import Presampler, Progress, WriteOptions, parse_bytes
from graphzero.ingest.rows import Rows
from graphzero.ingest.stored import (
    StoredGraph,
    open_stored_edge_rows,
    open_stored_graph,
    open_stored_order,
    open_stored_rows,
)
from graphzero.store.format import FileWriter, verify_file
from graphzero.store.manifest import (
    EDGES,
    NODES,
    EdgeType,
    FileEntry,
    Manifest,
    Neighbors,
    read_manifest,
    write_manifest,
)


def _verify_files(folder: Path, manifest: Manifest, progress: Progress) -> None:
    """Compares all files of a dataset with their checksums: new checksums would hide damage."""
    files = [entry.resolve(folder) for entry in manifest.entries()]
    total = sum(file.stat().st_size for file in files)
    with progress.phase("verifying", total, "B") as advance:
        for file in files:
            verify_file(file, advance)


def _stored(
    folder: Path, manifest: Manifest
) -> tuple[dict[str, NodeSpace], dict[EdgeType, StoredGraph]]:
    """The orders of nodes, and the graph files."""
    if not manifest.is_typed:
        graph = open_stored_graph(manifest.edges[EDGES].graph.resolve(folder))
        return {NODES: graph.owners}, {EDGES: graph}
    orders: dict[str, NodeSpace] = {}
    for name, table in manifest.nodes.items():
        if table.ids is None:
            orders[name] = NodeSpace(table.num_nodes)
        else:
            orders[name] = open_stored_order(table.ids.resolve(folder), table.num_nodes)
    graphs: dict[EdgeType, StoredGraph] = {}
    for edge_type, edges in manifest.edges.items():
        ends = orders[edge_type[0]], orders[edge_type[2]]
        types = ends[::-1] if manifest.incoming else ends
        graphs[edge_type] = open_stored_graph(edges.graph.resolve(folder), types)
    return orders, graphs


def _content(folder: Path, manifest: Manifest, options: WriteOptions) -> Content:
    """The files of a dataset as input, in the user's ids."""
    orders, graphs = _stored(folder, manifest)

    def rows_of(entries: dict[str, FileEntry], order: NodeSpace) -> dict[str, Rows]:
        return {n: open_stored_rows(entry.resolve(folder), order) for n, entry in entries.items()}

    lists = {edge_type: graph.edges() for edge_type, graph in graphs.items()}
    nodes = {n: rows_of(table.attributes, orders[n]) for n, table in manifest.nodes.items()}
    if not manifest.is_typed:  # lists with other neighbours are written, or may be
        edges, count = manifest.edges[EDGES], manifest.nodes[NODES].num_nodes
        if edges.time is not None and edges.time_level == "node":
            rows, memory = nodes[NODES][edges.time], options.order_memory // 2
            times = read_node_times(folder, rows, count, memory)
            lists[EDGES] = replace(lists[EDGES], node_times=times)
    paths = {edge_type: graph.path for edge_type, graph in graphs.items()}
    return Content(
        layout=manifest.layout,
        counts={name: table.num_nodes for name, table in manifest.nodes.items()},
        lists=lists,
        nodes=nodes,
        edges={
            edge_type: {
                name: open_stored_edge_rows(entry.resolve(folder), graphs[edge_type])
                for name, entry in table.attributes.items()
            }
            for edge_type, table in manifest.edges.items()
        },
        with_out_graph=options.neighbors == "both" and manifest.directed,
        stored=paths,
        sampled=paths,
        spaces=orders,
        visits={
            name: open_stored_rows(table.visits.resolve(folder), orders[name])
            for name, table in manifest.nodes.items()
            if table.visits is not None
        },
    )


def _write_files(
    folder: Path, earlier: Manifest, options: WriteOptions, staged: list[FileWriter]
) -> Manifest:
    """Writes every file that changes, adds it to `staged`, and returns the new manifest."""
    _verify_files(folder, earlier, options.progress)
    manifest = replace(earlier, neighbors=options.neighbors, out_graph=None)
    content = _content(folder, earlier, options)
    if options.presampler is not None:
        splits = {name: table.splits for name, table in earlier.nodes.items()}
        content = replace(content, seeds=training_seeds(folder, splits))
    require_space(folder, content, options, "the new order needs")
    reversed_lists: FileWriter | None = None
    if manifest.incoming != earlier.incoming:  # orders are made from the lists that are sampled
        edges = replace(content.lists[EDGES], incoming=manifest.incoming)
        reversed_lists = write_graph(
            folder / content.layout.graph(),
            edges,
            NodeSpace(content.counts[NODES]),
            memory=options.sort_memory,
            progress=options.progress,
        )
        staged.append(reversed_lists)
        path = reversed_lists.staged.staged_path
        lists = replace(open_stored_graph(path).edges(), node_times=edges.node_times)
        space = NodeSpace(content.counts[NODES])
        content = replace(
            content, lists={EDGES: lists}, sampled={EDGES: path}, spaces={NODES: space}
        )
    files = write_files(folder, content, options, staged)
    if reversed_lists is not None:
        reversed_lists.discard()
    return replace(
        manifest,
        nodes={
            name: replace(
                table,
                attributes=files.nodes[name],
                ids=files.ids.get(name),
                visits=files.visits.get(name),
            )
            for name, table in earlier.nodes.items()
        },
        edges={
            edge_type: replace(
                table, graph=entry_of(files.graphs[edge_type]), attributes=files.edges[edge_type]
            )
            for edge_type, table in earlier.edges.items()
        },
        order=options.order,
        presampling=files.presampling or earlier.presampling,
        out_graph=files.out_graph,
    )


def reorder_dataset(
    path: str | os.PathLike[str],
    order: str = "hot",
    *,
    neighbors: Neighbors | None = None,
    presample: Presampler | None = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Manifest:
    """`graphzero.reorder` in any memory limit, which does not open the dataset."""
    limit = parse_bytes(memory_limit)
    options = WriteOptions(order, presample, limit, Progress(progress), neighbors)
    folder = Path(path)
    read_manifest(folder)
    with folder_lock(folder):
        recover(folder)
        earlier = read_manifest(folder)
        if presample is not None:
            presample.check_types(list(earlier.edges) if earlier.is_typed else None)
        if earlier.is_typed and neighbors not in (None, earlier.neighbors):
            raise ValueError(
                f"neighbors={neighbors!r}: the lists of a typed graph cannot be turned; build "
                f"it again with neighbors={neighbors!r}"
            )
        kept = neighbors is None or not earlier.directed
        options = replace(options, neighbors=earlier.neighbors if kept else neighbors)
        layout, names = earlier.layout, []
        if options.renumbers and not layout.order_in_graph:
            names += [layout.ids(name) for name in earlier.nodes]
        if options.presampler is not None:
            names += [layout.visits(name) for name in earlier.nodes]
        if earlier.directed and options.neighbors == "both":
            names.append(layout.out_graph)
        check_names(folder, names)
        has_lists = (earlier.neighbors or "out") == (options.neighbors or "out")
        if order == earlier.order != "presample" and has_lists:
            if earlier.neighbors == options.neighbors:
                return earlier
            # A folder of version 1 then says that "out" was chosen.
            chosen = replace(earlier, neighbors=options.neighbors)
            write_manifest(folder, chosen)
            return chosen
        return replace_dataset(folder, earlier, partial(_write_files, folder, earlier, options))
