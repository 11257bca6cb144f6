"""New nodes and edges join a dataset, and edges leave it: its files are copied with the changes.

New nodes stand at the end of the stored order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphzero.ingest import dataset_files, insertion, lists, sort
from graphzero.ingest.additions import Additions
from graphzero.ingest.edges import ReadColumn
from graphzero.ingest.graph_input import naming
from graphzero.ingest.lists import NodeOrder
from graphzero.ingest.options import Progress, WriteOptions, by_type
from graphzero.ingest.row_files import check_missing, fill_of, write_blocks
from graphzero.ingest.rows import Rows, classes_of, count_classes
from graphzero.ingest.sort import Array
from graphzero.ingest.writer import DatasetWriter, changing_dataset, read_node_times
from graphzero.store.format import Header, id_dtype, read_header, sealed_file
from graphzero.store.manifest import (
    EDGES,
    EdgeChanges,
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    NodeTable,
)
from graphzero.units import parse_size

_CHUNK = 1 << 20


def append_dataset(
    path: str | os.PathLike[str],
    edges: Any = None,
    nodes: Mapping[str, Any] | None = None,
    remove_edges: Any = None,
    *,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> None:
    """`graphzero.append` in any memory limit, which does not open the dataset."""
    limit = parse_size(memory_limit, "memory limit")
    options = WriteOptions("input", None, limit, Progress(progress))
    with changing_dataset(path, options) as (writer, earlier):
        new_edges = {} if edges is None else by_type(edges, "edges=", earlier.edges)
        new_nodes = by_type(nodes, "nodes=", earlier.nodes) if nodes else {}
        removed: dict[EdgeType, Any] = {}
        if remove_edges is not None:
            removed = by_type(remove_edges, "remove_edges=", earlier.edges)
        if not (new_edges or new_nodes or removed):
            raise ValueError("there is nothing to append: give edges=, nodes= or both")
        added = Additions(writer, earlier)
        added.read(new_edges, new_nodes, removed)
        writer.commit(_Append(writer, earlier, added).write())


@dataclass
class _Append:
    """Writes the files that an addition to a dataset changes."""

    writer: DatasetWriter
    earlier: Manifest
    added: Additions
    before: dict[str, NodeOrder] = field(default_factory=dict)
    after: dict[str, NodeOrder] = field(default_factory=dict)

    def write(self) -> Manifest:
        """The new manifest."""
        earlier = self.earlier
        self.before = dataset_files.stored_orders(self.writer.folder, earlier)
        self.after = {name: self._extended(name, order) for name, order in self.before.items()}
        tables, out_graph = dict(earlier.edges), earlier.out_graph
        for edge_type, table in earlier.edges.items():
            grows = any(self._num_added(name) for name in edge_type[::2])
            if grows or edge_type in self.added.edges or edge_type in self.added.removed:
                with naming(edge_type):
                    tables[edge_type] = self._edges(edge_type, table)
        if out_graph is not None and tables[EDGES] is not earlier.edges[EDGES]:
            name = earlier.layout.out_graph
            out_graph = self._graph(EDGES, out_graph, name, incoming=False)[0]
        nodes = {name: self._nodes(name, table) for name, table in earlier.nodes.items()}
        return replace(earlier, nodes=nodes, edges=tables, out_graph=out_graph)

    def _num_added(self, name: str) -> int:
        """How many nodes of a type are new."""
        return self.after[name].num_nodes - self.before[name].num_nodes

    def _extended(self, name: str, order: NodeOrder) -> NodeOrder:
        """The order with new nodes at its end."""
        count = self.added.nodes[name].count
        assert count is not None
        if order.node_ids is None or order.node_rank is None or count == order.num_nodes:
            return replace(order, num_nodes=count)
        return NodeOrder(
            count, self._with_new(order.node_ids, count), self._with_new(order.node_rank, count)
        )

    def _with_new(self, ids: Array, count: int) -> Array:
        """Ids or ranks of nodes with those of new nodes at their end."""
        memory = self.writer.options.order_memory // 4
        array = sort.temp_array(self.writer.folder, count, id_dtype(count), memory)
        for begin in range(0, len(ids), _CHUNK):
            piece = ids[begin : begin + _CHUNK]
            array[begin : begin + len(piece)] = piece
        array[len(ids) :] = np.arange(len(ids), count)
        return array

    def _ordered(self, before: int | None, count: int) -> int | None:
        """How many nodes or edges were there when the nodes were ordered; `count` are stored."""
        if self.earlier.order == "input":
            return None
        return count if before is None else before

    # Nodes

    def _nodes(self, name: str, table: NodeTable) -> NodeTable:
        added, order, new = self._num_added(name), self.after[name], self.added.nodes[name].rows
        if not added:
            return table
        layout = self.earlier.layout
        entries = insertion.EntryChanges(np.full(added, table.num_nodes))
        attributes: dict[str, FileEntry] = {}
        for attribute, entry in table.attributes.items():
            fill = fill_of(attribute, new[attribute])
            rows = self._spooled(new[attribute], added, table.num_nodes, fill)
            path = layout.node_rows(name, attribute)
            attributes[attribute] = self._rows(path, entry, rows, entries, order)
        num_classes = table.num_classes
        if "y" in new:
            num_classes = max(num_classes or 0, count_classes(new["y"]) or 0) or None
        classes = {**(table.classes or {}), **classes_of(new)}
        visits = table.visits
        if visits is not None:
            zeros = np.zeros((added, 1), np.uint32)
            path = layout.of_nodes(name, "visits")
            visits = self._rows(path, visits, zeros, entries, order)
        if table.ids is not None:
            ids = table.ids.resolve(self.writer.folder)
            insertion.verify_sections(ids, read_header(ids), "rows", "node_rank")
        return replace(
            table,
            num_nodes=order.num_nodes,
            attributes=attributes,
            num_classes=num_classes,
            classes=classes or None,
            visits=visits,
            ids=self.writer.node_ids(name, order),
            id_map=self.added.id_maps.get(name, table.id_map),
            num_ordered_nodes=self._ordered(table.num_ordered_nodes, table.num_nodes),
        )

    def _spooled(self, rows: Rows, count: int, first: int, fill: int | None = None) -> Array:
        """New rows as an array; `first` is the id of the first new node, `fill` as of a build."""
        memory = self.writer.options.rows_memory // 4
        array = sort.temp_array(self.writer.folder, count * rows.width, rows.dtype, memory)
        array = array.reshape(count, rows.width)
        if fill:
            array[:] = fill
        seen, row = np.zeros(count, np.bool_), 0
        for ids, chunk in rows.chunks(max(1, memory // (8 + rows.width * rows.dtype.itemsize))):
            at = ids if rows.in_order else ids.astype(np.int64) - first
            wrong = (at < 0) | (at >= count)
            wrong[~wrong] |= seen[at[~wrong]]
            if not rows.in_order:
                wrong[np.delete(np.arange(len(at)), np.unique(at, return_index=True)[1])] = True
            if wrong.any():
                bad = int(wrong.argmax())
                place = f"{rows.name}, {rows.table.locate(row + bad)}"
                node = rows.user_id(ids[bad])
                raise ValueError(f"{place}: node {node} is not new, or has a row already")
            array[at], seen[at] = chunk, True
            row += len(ids)
        if rows.in_order and row != count:
            raise ValueError(
                f"{rows.name} has {row} rows for {count} new nodes or edges: each needs one"
            )
        check_missing(rows, seen, fill, first)
        return array

    def _rows(
        self,
        name: str,
        entry: FileEntry,
        new: insertion.NewRows,
        entries: insertion.EntryChanges,
        order: NodeOrder,
    ) -> FileEntry:
        """A file of rows with new ones among them."""
        path = entry.resolve(self.writer.folder)
        header = read_header(path)
        insertion.verify_sections(path, header, "node_rank", "row_shape")

        def blocks() -> Iterator[Array]:
            section = insertion.StoredSection(path, header, "rows", width=header.width)
            for (piece,) in insertion.merged_pieces(
                [section], [new], entries.places, entries.removed
            ):
                yield piece

        stored = dataset_files.open_stored_array(path, header.num_nodes)
        progress = self.writer.options.progress
        file = write_blocks(self.writer.folder / name, stored, blocks, order, progress)
        return self.writer.add(file)

    # Edges

    def _edges(self, edge_type: EdgeType, table: EdgeTable) -> EdgeTable:
        earlier, layout = self.earlier, self.earlier.layout
        graph, entries, header = self._graph(
            edge_type, table.graph, layout.graph(edge_type), incoming=earlier.incoming
        )
        new = self.added.edges.get(edge_type)
        removed = self.added.removed.get(edge_type, insertion.NO_POSITIONS)
        if new is None and edge_type not in self.added.removed:  # only its nodes are more
            return replace(table, graph=graph)
        ordered = self._ordered(table.num_ordered_edges, table.num_input_edges)
        if ordered is not None:
            ordered -= int(np.searchsorted(removed, ordered))
        attributes, splits = {}, dict(table.splits)
        classes = {**(table.classes or {}), **classes_of(new.attributes if new else {})}
        for attribute, entry in table.attributes.items():
            rows: insertion.NewRows = insertion.NO_POSITIONS
            if new is not None:
                array = self._spooled(new.attributes[attribute], new.edges.num_records, 0)
                rows = insertion.PickedRows(array, entries.columns["edge_ids"], new.first)
            name, order = layout.edge_rows(edge_type, attribute), NodeOrder(header.width)
            attributes[attribute] = self._rows(name, entry, rows, entries, order)
        if edge_type in self.added.removed:
            moved = {}
            for name, entry in table.splits.items():
                positions = dataset_files.open_stored_split(entry.resolve(self.writer.folder))
                positions = insertion.positions_after(removed, positions)
                moved[name] = positions[positions >= 0]
            splits = self.writer.splits(edge_type, moved, header.num_input_edges)
        return replace(
            table,
            graph=graph,
            attributes=attributes,
            splits=splits,
            num_edges=header.width,
            num_input_edges=header.num_input_edges,
            num_ordered_edges=ordered,
            changes=self._changes(edge_type, table.changes, entries),
            classes=classes or None,
        )

    def _changes(
        self, edge_type: EdgeType, changes: EdgeChanges | None, entries: insertion.EntryChanges
    ) -> EdgeChanges | None:
        """What was done to the edges of a type, with those that are new and without others."""
        new = self.added.edges.get(edge_type)
        more = EdgeChanges() if new is None else new.changes
        if changes is None:
            return None
        merged, dropped = changes.num_merged, changes.num_self_loops_dropped
        if merged is not None:
            merged += (more.num_merged or 0) + entries.num_merged
        if dropped is not None:
            dropped += more.num_self_loops_dropped or 0
            # Of the edges that leave, those were dropped that are not stored.
            dropped -= len(self.added.removed.get(edge_type, insertion.NO_POSITIONS))
            dropped += len(entries.removed) // (1 if self.earlier.directed else 2)
        return replace(changes, num_merged=merged, num_self_loops_dropped=dropped)

    def _graph(
        self, edge_type: EdgeType, entry: FileEntry, name: str, *, incoming: bool
    ) -> tuple[FileEntry, insertion.EntryChanges, Header]:
        """Writes the lists of an edge type with the entries of new edges; returns these, too."""
        folder, options = self.writer.folder, self.writer.options
        owner, neighbor = lists.ends_of(edge_type, incoming)
        graph = dataset_files.open_stored_graph(
            entry.resolve(folder), (self.before[owner], self.before[neighbor])
        )
        order, neighbors = self.after[owner], self.after[neighbor]
        removed = self.added.removed.get(edge_type, insertion.NO_POSITIONS)
        entries = self._entry_changes(edge_type, graph, incoming)
        entries.removed, entries.removed_edges = insertion.entries_of(graph, removed), removed
        num_edges = graph.header.num_input_edges - len(removed)
        new = self.added.edges.get(edge_type)
        if new is not None:
            num_edges += new.edges.num_records
            if new.changes.num_merged is not None:
                entries = entries.without_stored(graph)
        stored = graph.edges()
        columns = {
            column: ReadColumn(values.dtype, len(values) + entries.num_added, values.read)
            for column, values in stored.columns.items()
        }
        header = lists.graph_layout(
            replace(stored, columns=columns, num_user_edges=num_edges),
            order,
            neighbors if self.earlier.is_typed else None,
        )
        insertion.verify_sections(graph.path, graph.header, "node_ids", "node_rank")
        with sealed_file(folder / name, header) as file:
            insertion.write_merged_lists(file, graph, entries, order, options)
        return self.writer.add(file), entries, header

    def _entry_changes(
        self, edge_type: EdgeType, graph: dataset_files.StoredGraph, incoming: bool
    ) -> insertion.EntryChanges:
        """The sorted entries of new edges of a type."""
        if edge_type not in self.added.edges:
            return insertion.EntryChanges()
        edges = replace(self.added.edges[edge_type].edges, incoming=incoming)
        owner, neighbor = lists.ends_of(edge_type, incoming)
        table = self.earlier.edges[edge_type]
        if table.time is not None and table.time_level == "node" and graph.header.find("times"):
            edges = replace(edges, node_times=self._node_times(neighbor, table.time))
        return insertion.sorted_entries(
            self.writer.folder, edges, self.after[owner], self.after[neighbor], self.writer.options
        )

    def _node_times(self, name: str, attribute: str) -> Array:
        """The time of each node that may be in the lists, by the user's ids."""
        path = self.earlier.nodes[name].attributes[attribute].resolve(self.writer.folder)
        insertion.verify_sections(path, read_header(path), "rows")
        before, new = self.before[name], self.added.nodes[name].rows
        sources = [(dataset_files.open_stored_rows(path, before), 0)]
        if attribute in new:
            sources.append((new[attribute], before.num_nodes))
        memory = self.writer.options.order_memory // 4
        return read_node_times(
            self.writer.folder, attribute, self.after[name].num_nodes, sources, memory
        )
