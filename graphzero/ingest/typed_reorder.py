"""Writes an existing typed dataset again, with the nodes of each type in another order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from graphzero.ingest.folder import check_names, entry_of, replace_dataset
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.staging import typed_training_seeds, verify_files
from graphzero.ingest.stored import (
    StoredGraph,
    StoredOrder,
    open_stored_edge_rows,
    open_stored_graph,
    open_stored_order,
    open_stored_rows,
)
from graphzero.ingest.typed_files import TypedContent, require_typed_space, write_typed_files
from graphzero.ingest.typed_names import ids_file, visits_file
from graphzero.ingest.write_options import WriteOptions
from graphzero.store.filewriter import FileWriter
from graphzero.store.schema import EdgeType, FileEntry, TypedManifest

__all__ = ["reorder_typed"]


def _orders(folder: Path, manifest: TypedManifest) -> dict[str, StoredOrder]:
    orders: dict[str, StoredOrder] = {}
    for name, table in manifest.nodes.items():
        if table.ids is None:
            orders[name] = StoredOrder(folder, table.num_nodes)
        else:
            orders[name] = open_stored_order(table.ids.resolve(folder), table.num_nodes)
    return orders


def _graphs(
    folder: Path, manifest: TypedManifest, orders: dict[str, StoredOrder]
) -> dict[EdgeType, StoredGraph]:
    graphs: dict[EdgeType, StoredGraph] = {}
    for edge_type, table in manifest.edges.items():
        ends = orders[edge_type[0]], orders[edge_type[2]]
        types = ends[::-1] if manifest.incoming else ends
        graphs[edge_type] = open_stored_graph(table.graph.resolve(folder), types)
    return graphs


def _content(folder: Path, manifest: TypedManifest) -> TypedContent:
    """The files of a dataset as input, in the user's ids."""
    orders = _orders(folder, manifest)
    graphs = _graphs(folder, manifest, orders)

    def rows_of(entries: dict[str, FileEntry], order: StoredOrder) -> dict[str, Rows]:
        return {n: open_stored_rows(entry.resolve(folder), order) for n, entry in entries.items()}

    return TypedContent(
        counts={name: table.num_nodes for name, table in manifest.nodes.items()},
        lists={edge_type: graph.edges() for edge_type, graph in graphs.items()},
        nodes={n: rows_of(table.attributes, orders[n]) for n, table in manifest.nodes.items()},
        edges={
            edge_type: {
                name: open_stored_edge_rows(entry.resolve(folder), graphs[edge_type])
                for name, entry in table.attributes.items()
            }
            for edge_type, table in manifest.edges.items()
        },
        stored={edge_type: graph.path for edge_type, graph in graphs.items()},
        spaces={name: order.space() for name, order in orders.items()},
        visits={
            name: open_stored_rows(table.visits.resolve(folder), orders[name])
            for name, table in manifest.nodes.items()
            if table.visits is not None
        },
    )


def _write_files(
    folder: Path, earlier: TypedManifest, options: WriteOptions, staged: list[FileWriter]
) -> TypedManifest:
    """Writes every file that changes, adds it to `staged`, and returns the new manifest."""
    verify_files(folder, earlier, options.progress)
    content = _content(folder, earlier)
    if options.presampler is not None:
        splits = {name: table.splits for name, table in earlier.nodes.items()}
        content = replace(content, seeds=typed_training_seeds(folder, splits))
    require_typed_space(folder, content, options, "the new order needs")
    files = write_typed_files(folder, content, options, staged)
    return replace(
        earlier,
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
    )


def reorder_typed(folder: Path, earlier: TypedManifest, options: WriteOptions) -> TypedManifest:
    """`graphzero.reorder` of a graph with node types; needs the lock.

    Raises
    ------
    ValueError
        For what a reordering cannot do with a typed graph.
    FormatError
        If a file is damaged, or does not belong to the others.
    OSError
        If the disk is full.
    """
    if options.presampler is not None:
        options.presampler.check_types(list(earlier.edges))
    if options.neighbors not in (None, earlier.neighbors):
        raise ValueError(
            f"neighbors={options.neighbors!r}: the lists of a typed graph cannot be turned; build "
            f"it again with neighbors={options.neighbors!r}"
        )
    if options.order == earlier.order != "presample":
        return earlier
    names = [ids_file(name) for name in earlier.nodes] if options.renumbers else []
    if options.presampler is not None:
        names += [visits_file(name) for name in earlier.nodes]
    check_names(folder, names)
    return replace_dataset(folder, earlier, partial(_write_files, folder, earlier, options))
