"""Lists and rows are put in an order of nodes and written: of a build, and of a reordering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphzero.ingest import dataset_files
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.graph_input import naming
from graphzero.ingest.lists import NodeOrder, graph_layout, hot_order, visit_order
from graphzero.ingest.row_files import rows_layout
from graphzero.ingest.rows import Rows, rows_of_array
from graphzero.ingest.sort import Array, temp_array
from graphzero.ingest.writer import DatasetWriter, ids_layout, read_node_times
from graphzero.store.atomic import require_disk_space
from graphzero.store.manifest import (
    EDGES,
    EdgeTable,
    EdgeType,
    FileEntry,
    NodeTable,
    Presampling,
    SampledBy,
)

Seeds = npt.NDArray[np.int64]

_MIN_PIECE = 1024


@dataclass(frozen=True)
class StoredContent:
    """Files of a dataset whose content gets another order.

    Attributes
    ----------
    graphs : dict of EdgeType to Path
        In whose order rows of edges are.
    orders : dict of str to NodeOrder
    visits : dict of str to Rows
        Visit counts, of node types that have some.
    is_turned : bool
        Whether the lists get the other direction, so that presampling cannot sample in these.
    """

    graphs: dict[EdgeType, Path]
    orders: dict[str, NodeOrder]
    visits: dict[str, Rows]
    is_turned: bool


@dataclass(frozen=True)
class OrderedFiles:
    """What was written.

    Attributes
    ----------
    nodes : dict of str to NodeTable
        With their files.
    graphs : dict of EdgeType to FileEntry
    edge_rows : dict of EdgeType to dict of str to FileEntry
        Attributes of each edge type.
    out_graph : FileEntry or None
    presampling : Presampling or None
        If visits were counted for this order.
    """

    nodes: dict[str, NodeTable]
    graphs: dict[EdgeType, FileEntry]
    edge_rows: dict[EdgeType, dict[str, FileEntry]]
    out_graph: FileEntry | None
    presampling: Presampling | None


@dataclass
class OrderedContent:
    """What is written in an order of the nodes.

    Attributes
    ----------
    writer : DatasetWriter
    nodes : dict of str to NodeTable
        What does not depend on the order, splits among it.
    sampled_by : mapping of EdgeType to SampledBy or EdgeTable
        What drives sampling.
    lists : dict of EdgeType to EdgeList
        Freed when they are written.
    node_rows : dict of str to dict of str to Rows
        Attributes of each node type.
    edge_rows : dict of EdgeType to dict of str to Rows
        Attributes of each edge type besides those in the graph file.
    has_out_graph : bool
        Whether there is a second file, of the out-neighbours.
    stored : StoredContent or None
        Where it comes from, unless it is new.
    """

    writer: DatasetWriter
    nodes: dict[str, NodeTable]
    sampled_by: Mapping[EdgeType, SampledBy | EdgeTable]
    lists: dict[EdgeType, EdgeList]
    node_rows: dict[str, dict[str, Rows]]
    edge_rows: dict[EdgeType, dict[str, Rows]]
    has_out_graph: bool
    stored: StoredContent | None = None
    _visits: dict[str, Rows] = field(default_factory=dict)

    def write(self) -> OrderedFiles:
        """Writes everything.

        Raises
        ------
        ValueError
            If attributes do not fit their nodes or edges.
        OSError
            If the disk is full, or has too little space.
        """
        if self.stored is not None:
            self._visits = dict(self.stored.visits)
        self._set_node_times()
        self._require_space()
        orders, presampling = self._hot_orders(), None
        hot: dict[EdgeType, FileEntry] = {}
        if self.writer.options.presampler is not None:
            hot, presampling = self._presample(orders)
            orders = self._visit_orders(orders)
        graphs = self._graphs(orders)
        for entry in hot.values():
            self.writer.discard(entry)
        return OrderedFiles(
            nodes={name: self._write_nodes(name, order) for name, order in orders.items()},
            graphs=graphs,
            edge_rows={name: self._write_edge_rows(name, entry) for name, entry in graphs.items()},
            out_graph=self._out_graph(graphs[EDGES], orders) if self.has_out_graph else None,
            presampling=presampling,
        )

    def _list_ends(self, edge_type: EdgeType) -> tuple[str, str]:
        """The node type that has the lists, and the one that is in them."""
        return dataset_files.list_ends(edge_type, self.lists[edge_type].incoming)

    def _list_orders(
        self, edge_type: EdgeType, orders: Mapping[str, NodeOrder]
    ) -> tuple[NodeOrder, NodeOrder | None]:
        """The order of the nodes that have the lists; and with types, of those in them."""
        owners, neighbors = (orders[name] for name in self._list_ends(edge_type))
        return owners, neighbors if self.writer.layout.is_typed else None

    def _input_orders(self) -> dict[str, NodeOrder]:
        return {name: NodeOrder(table.num_nodes) for name, table in self.nodes.items()}

    def _set_node_times(self) -> None:
        """Gives edges the times of the nodes that are in the lists, where these drive sampling."""
        # The order of nodes takes half of what it may.
        memory = self.writer.options.order_memory // 2 // len(self.lists)
        times: dict[tuple[str, str], npt.NDArray[np.int64]] = {}
        for edge_type, sampled_by in self.sampled_by.items():
            name, attribute = self._list_ends(edge_type)[1], sampled_by.time
            if attribute is None or sampled_by.time_level != "node":
                continue
            if (name, attribute) not in times:
                sources, num_nodes = (
                    [(self.node_rows[name][attribute], 0)],
                    self.nodes[name].num_nodes,
                )
                with naming(name):
                    times[name, attribute] = read_node_times(
                        self.writer.folder, attribute, num_nodes, sources, memory
                    )
            of_nodes = times[name, attribute]
            self.lists[edge_type] = replace(self.lists[edge_type], node_times=of_nodes)

    def _require_space(self) -> None:
        """Raises an OSError unless the disk has room for the files that are not yet written.

        What is put in order goes through a temporary copy where it is larger than its memory, one
        file after the other.
        """
        options, orders = self.writer.options, self._input_orders()
        needed, copies = 0, [0]
        samples_here = self.stored is None or self.stored.is_turned
        num_graphs = 1 + self.has_out_graph + (options.presampler is not None and samples_here)
        for edge_type, edges in self.lists.items():
            header = graph_layout(edges, *self._list_orders(edge_type, orders))
            needed += num_graphs * header.file_bytes
            copies.append(header.file_bytes)
            for rows in self.edge_rows[edge_type].values():
                copies.append(rows_layout(rows, edges.num_stored).file_bytes)
                needed += copies[-1]
        num_orders = num_graphs * options.renumbers
        num_orders += options.presampler is not None or bool(self._visits)
        for name, table in self.nodes.items():
            needed += num_orders * ids_layout(table.num_nodes).file_bytes
            for rows in self.node_rows[name].values():
                header = rows_layout(rows, table.num_nodes, options.renumbers)
                needed += header.file_bytes
                if options.renumbers or not rows.in_order:
                    copies.append(header.file_bytes)
        needed += max(size for size in copies if size == 0 or size > options.rows_memory // 8)
        require_disk_space(self.writer.folder, needed, "the dataset needs")

    def _hot_orders(self) -> dict[str, NodeOrder]:
        """The nodes of each type, hottest first: by occurrences in the lists of all edge types."""
        options, orders = self.writer.options, self._input_orders()
        if not options.renumbers:
            return orders
        # Presampling needs the rest for the visits and the order that they give.
        part = 1 if options.presampler is None else 4
        with options.progress.phase("ordering nodes", None):
            for name, memory in self._memory_by_type(part).items():
                ids = self._occurrences(name, max(_MIN_PIECE, memory // 32))
                orders[name] = hot_order(self.writer.folder, orders[name].num_nodes, ids, memory)
        return orders

    def _memory_by_type(self, part: int) -> dict[str, int]:
        """One part of so many of the memory for orders, divided among the node types."""
        counts = {name: table.num_nodes for name, table in self.nodes.items()}
        memory, total = self.writer.options.order_memory // part, sum(counts.values())
        return {name: memory * count // total for name, count in counts.items()}

    def _occurrences(self, name: str, max_edges: int) -> Iterator[Array]:
        for edge_type, edges in self.lists.items():
            if self._list_ends(edge_type)[1] == name:
                yield from edges.occurrences(max_edges)

    def _presample(
        self, hot_orders: Mapping[str, NodeOrder]
    ) -> tuple[dict[EdgeType, FileEntry], Presampling]:
        """Counts visits in earlier files, or in new ones in hot order, which are then the input."""
        hot: dict[EdgeType, FileEntry] = {}
        if self.stored is not None and not self.stored.is_turned:
            graphs, orders = self.stored.graphs, self.stored.orders
        else:
            hot, orders = self._graphs(hot_orders), dict(hot_orders)
            folder = self.writer.folder
            graphs = {edge_type: entry.resolve(folder) for edge_type, entry in hot.items()}
            for edge_type, path in graphs.items():
                owners, neighbors = (orders[name] for name in self._list_ends(edge_type))
                self.lists[edge_type] = replace(
                    dataset_files.open_stored_graph(path, (owners, neighbors)).edges(),
                    node_times=self.lists[edge_type].node_times,
                )
        counts, presampling = self._count_visits(graphs, orders)
        for name, visits in counts.items():
            self._visits[name] = rows_of_array("visits", visits, orders[name].node_ids)
        return hot, presampling

    def _count_visits(
        self, graphs: Mapping[EdgeType, Path], orders: Mapping[str, NodeOrder]
    ) -> tuple[dict[str, npt.NDArray[np.uint32]], Presampling]:
        """In how many mini-batches each stored node of these files is, and how this was counted.

        The sampler's own memory is not limited.
        """
        options = self.writer.options
        presampler = options.presampler
        assert presampler is not None
        counts = {
            name: temp_array(self.writer.folder, orders[name].num_nodes, np.uint32, memory)
            for name, memory in self._memory_by_type(4).items()
        }
        seeds = self._training_seeds()
        num_seeds = {
            name: self.nodes[name].num_nodes if ids is None else len(ids)
            for name, ids in seeds.items()
        }

        def to_stored(name: str, ids: Seeds) -> Seeds:
            return orders[name].to_stored(ids).astype(np.int64, copy=False)

        num_batches = sum(presampler.num_batches(num_seeds).values())
        with options.progress.phase("sampling", num_batches, "batches") as advance:
            ids = to_stored if self.writer.layout.is_typed else None
            return counts, presampler.count_visits(graphs, ids, seeds, counts, advance)

    def _training_seeds(self) -> dict[str, Seeds | None]:
        """Seeds by node type: the splits "train" of the types that have one, else all nodes."""
        splits = {name: table.splits.get("train") for name, table in self.nodes.items()}
        if not any(splits.values()):
            return dict.fromkeys(splits)
        seeds: dict[str, Seeds | None] = {}
        for name, entry in splits.items():
            if entry is not None:
                ids = dataset_files.open_stored_split(entry.resolve(self.writer.folder))
                if len(ids):
                    seeds[name] = ids
        if not seeds:
            raise ValueError("the training split has no nodes to sample from")
        return seeds

    def _visit_orders(self, ties: Mapping[str, NodeOrder]) -> dict[str, NodeOrder]:
        """The nodes of each type by descending number of visits, ties as in another order."""
        with self.writer.options.progress.phase("ordering nodes", None):
            return {
                name: visit_order(self.writer.folder, self._visits[name], ties[name], memory)
                for name, memory in self._memory_by_type(2).items()
            }

    def _graphs(self, orders: Mapping[str, NodeOrder]) -> dict[EdgeType, FileEntry]:
        """A graph file for each edge type, one after the other; frees their edges."""
        return {
            edge_type: self.writer.lists(
                self.writer.layout.graph(edge_type), edges, *self._list_orders(edge_type, orders)
            )
            for edge_type, edges in self.lists.items()
        }

    def _out_graph(self, graph: FileEntry, orders: Mapping[str, NodeOrder]) -> FileEntry:
        """The out-neighbours beside a file of in-neighbours."""
        (order,) = orders.values()
        path = graph.resolve(self.writer.folder)
        edges = dataset_files.open_stored_graph(path, (order, order)).edges()
        edges = replace(edges, incoming=False, node_times=self.lists[EDGES].node_times)
        return self.writer.lists(self.writer.layout.out_graph, edges, order, None)

    def _write_nodes(self, name: str, order: NodeOrder) -> NodeTable:
        """The order, the attributes and the visits of a node type."""
        writer, layout, is_new = self.writer, self.writer.layout, self.stored is None
        ids = writer.node_ids(name, order)
        attributes: dict[str, FileEntry] = {}
        with naming(name):
            for attribute, rows in self.node_rows[name].items():
                file, fills = layout.node_rows(name, attribute), is_new and attribute == "x"
                attributes[attribute] = writer.node_rows(file, rows, order, fill_missing=fills)
            if is_new and "x" in attributes:
                name_of = self.node_rows[name]["x"].column_name
                dataset_files.refuse_labels(writer.folder, attributes, order.num_nodes, name_of)
        visits = None
        if name in self._visits:
            visits = writer.node_rows(layout.of_nodes(name, "visits"), self._visits[name], order)
        return replace(
            self.nodes[name],
            ids=ids,
            attributes=attributes,
            visits=visits,
            num_ordered_nodes=None,
        )

    def _write_edge_rows(self, edge_type: EdgeType, graph: FileEntry) -> dict[str, FileEntry]:
        """The attributes of an edge type, in the order of its lists."""
        path = graph.resolve(self.writer.folder)
        stored_as = None if self.stored is None else self.stored.graphs[edge_type]
        entries: dict[str, FileEntry] = {}
        with naming(edge_type):
            for attribute, rows in self.edge_rows[edge_type].items():
                name = self.writer.layout.edge_rows(edge_type, attribute)
                entries[attribute] = self.writer.edge_rows(name, rows, path, stored_as)
        return entries
