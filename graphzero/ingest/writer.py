"""The files of a dataset and their commit, whoever writes them, in an order of nodes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest import dataset_files
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.graph_input import naming
from graphzero.ingest.lists import (
    NodeOrder,
    ends_of,
    graph_layout,
    hot_order,
    visit_order,
    write_graph,
)
from graphzero.ingest.options import WriteOptions
from graphzero.ingest.row_files import (
    Remap,
    fill_of,
    rows_layout,
    write_edge_rows,
    write_rows,
    write_split,
)
from graphzero.ingest.rows import Rows, as_numbers, rows_of_array
from graphzero.ingest.sort import Array, spooling_near, temp_array
from graphzero.ingest.sources.columns import Column, DecimalError, checked
from graphzero.ingest.sources.tables import InputFiles, noting_inputs
from graphzero.store.atomic import folder_lock, require_disk_space
from graphzero.store.folder import commit, is_committed, recover, recover_dataset
from graphzero.store.format import FileWriter, encode_header, header_checksum, sealed_file
from graphzero.store.manifest import (
    EDGES,
    EdgeTable,
    EdgeType,
    FileEntry,
    Layout,
    Manifest,
    NodeTable,
    Presampling,
    read_manifest,
)

Seeds = npt.NDArray[np.int64]
UNWRITTEN = FileEntry("", "", 0)  # in place of a file that `OrderedContent` writes

_CHUNK = 1 << 16
_MIN_PIECE = 1024


def read_node_times(
    folder: Path, attribute: str, num_nodes: int, sources: Iterable[tuple[Rows, int]], memory: int
) -> npt.NDArray[np.int64]:
    """The time of each node of a type, by the user's ids, from an attribute.

    Nodes without a row get 0 here, and rows of nodes that do not exist are left out: both are
    found when the attribute is written.

    Parameters
    ----------
    folder : pathlib.Path
        For a temporary file, if the times are larger than the memory.
    attribute : str
    num_nodes : int
    sources : iterable of (Rows, int)
        Rows of the attribute, and the node of the first one where they have no ids.
    memory : int
        Bytes.
    """
    times = temp_array(folder, num_nodes, np.int64, memory)
    column = Column(-1, f"value of {attribute!r}", times.dtype)
    for rows, first in sources:
        row = 0
        for ids, chunk in rows.chunks(_CHUNK):
            values = checked(as_numbers(chunk[:, 0]), column, rows.table, row)
            nodes = ids + first if rows.in_order else ids
            exists = nodes < num_nodes
            times[nodes[exists]] = values[exists]
            row += len(ids)
    return times


@dataclass(frozen=True)
class DatasetWriter:
    """Writes files of a dataset, which are staged until its manifest is committed.

    Attributes
    ----------
    folder : pathlib.Path
        That of the dataset, whose lock this process has.
    earlier : Manifest or None
        Of the dataset in the folder.
    options : WriteOptions
    layout : Layout
    inputs : InputFiles
        What is read, which must not change meanwhile.
    """

    folder: Path
    earlier: Manifest | None
    options: WriteOptions
    layout: Layout
    inputs: InputFiles
    _staged: list[FileWriter] = field(default_factory=list)

    def add(self, file: FileWriter) -> FileEntry:
        """Takes a sealed file, which has its staged name until the commit."""
        self._staged.append(file)
        checksum = header_checksum(encode_header(file.header))
        return FileEntry(file.path.name, file.staged_path.name, checksum)

    def commit(self, manifest: Manifest) -> None:
        """Replaces the earlier dataset by one of these files, or changes nothing: see `commit`.

        Raises
        ------
        ValueError
            If a file that was read has changed, or two files have one name.
        """
        self.inputs.require_unchanged()
        names = Counter(entry.name for entry in manifest.entries())
        for name in (name for name, count in names.items() if count > 1):
            raise ValueError(
                f"an edge attribute and an edge split would both be stored in {name}: choose "
                f"another name for one of them"
            )
        try:
            commit(self.folder, self.earlier, manifest)
        finally:
            if is_committed(self.folder, manifest):
                self._staged.clear()

    def discard(self) -> None:
        """Removes the files that are not committed."""
        for file in self._staged:
            file.discard()

    def lists(
        self, name: str, edges: EdgeList, owners: NodeOrder, neighbors: NodeOrder | None
    ) -> FileEntry:
        """A file of the lists of some edges; see `write_graph`."""
        return self.add(write_graph(self.folder / name, edges, owners, neighbors, self.options))

    def node_ids(self, node_type: str, order: NodeOrder) -> FileEntry | None:
        """The order of the nodes of a type, where no graph file has it."""
        if order.node_ids is None or not self.layout.is_typed:
            return None
        path = self.folder / self.layout.of_nodes(node_type, "ids")
        with sealed_file(path, order.layout()) as file:
            order.write(file, "rows")
        return self.add(file)

    def node_rows(
        self, name: str, rows: Rows, order: NodeOrder, *, fill: int | None = None
    ) -> FileEntry:
        """A file of a row for each node; see `write_rows`."""
        path = self.folder / name
        try:
            file = write_rows(path, rows, order, self.options, fill=fill)
        except DecimalError:
            decimals = rows.with_decimals()
            file = write_rows(path, decimals, order, self.options, fill=fill)
        return self.add(file)

    def edge_rows(
        self, name: str, rows: Rows, graph: Path, stored_as: Path | None = None
    ) -> FileEntry:
        """A file of a row for each edge of a graph file; see `write_edge_rows`."""
        path = self.folder / name
        try:
            file = write_edge_rows(path, rows, graph, self.options, stored_as)
        except DecimalError:
            file = write_edge_rows(path, rows.with_decimals(), graph, self.options, stored_as)
        return self.add(file)

    def splits(
        self,
        types: str | EdgeType,
        values: Mapping[str, Any],
        count: int,
        remap: Remap | None = None,
    ) -> dict[str, FileEntry]:
        """Splits of `count` nodes or edges of a type, by name; see `write_split`."""
        entries: dict[str, FileEntry] = {}
        for name, value in values.items():
            file = write_split(
                self.folder / self.layout.split(types, name),
                name,
                value,
                count,
                memory=self.options.column_memory,
                of="node" if isinstance(types, str) else "edge",
                remap=remap,
            )
            entries[name] = self.add(file)
        return entries


@contextmanager
def writing_dataset(
    folder: Path, options: WriteOptions, inputs: InputFiles, layout: Layout | None = None
) -> Iterator[DatasetWriter]:
    """The writer of a dataset in a folder, which is locked and recovered first.

    With a layout, a dataset that is there is replaced, whatever it is. Files of a change that ends
    without a commit are removed.

    Raises
    ------
    BlockingIOError
        If another process has the lock.
    FileNotFoundError, FormatError
        As `recover_dataset`, unless the dataset is replaced.
    """
    with folder_lock(folder):
        earlier: Manifest | None
        if layout is None:
            earlier = recover_dataset(folder)
            layout = earlier.layout
        else:
            earlier = recover(folder)
        writer = DatasetWriter(folder, earlier, options, layout, inputs)
        try:
            yield writer
        finally:
            writer.discard()


@contextmanager
def changing_dataset(
    path: str | os.PathLike[str], options: WriteOptions
) -> Iterator[tuple[DatasetWriter, Manifest]]:
    """A change of a dataset that exists: its writer, and the earlier manifest.

    Raises
    ------
    OSError
        With errno and path: no dataset, or a build or a measurement uses the folder.
    FormatError
        If this version cannot read it, or files of several versions lie together.
    """
    folder = Path(path)
    read_manifest(folder)
    with (
        spooling_near(folder),
        noting_inputs() as inputs,
        writing_dataset(folder, options, inputs) as writer,
    ):
        assert writer.earlier is not None
        yield writer, writer.earlier


# Content that is put in an order


@dataclass
class OrderedContent:
    """What is written in an order of the nodes.

    Attributes
    ----------
    writer : DatasetWriter
    manifest : Manifest
        Of what is to be written. Its splits and tables of ids are, because they do not depend on
        the order; the graph of its edge types may be `UNWRITTEN`.
    lists : dict of EdgeType to EdgeList
        Freed when they are written.
    node_rows : dict of str to dict of str to Rows
        Attributes of each node type.
    edge_rows : dict of EdgeType to dict of str to Rows
        Attributes of each edge type besides those in the graph file.
    stored_orders : dict of str to NodeOrder, optional
        Those of the files of a dataset whose content gets another order.
    is_turned : bool
        Whether its lists get the other direction, so that presampling cannot sample in these.
    """

    writer: DatasetWriter
    manifest: Manifest
    lists: dict[EdgeType, EdgeList]
    node_rows: dict[str, dict[str, Rows]]
    edge_rows: dict[EdgeType, dict[str, Rows]]
    stored_orders: dict[str, NodeOrder] | None = None
    is_turned: bool = False
    _visits: dict[str, Rows] = field(default_factory=dict)

    @property
    def nodes(self) -> dict[str, NodeTable]:
        """Of each type."""
        return self.manifest.nodes

    @property
    def has_out_graph(self) -> bool:
        """Whether there is a second file, of the out-neighbours."""
        return self.manifest.directed and self.manifest.neighbors == "both"

    def write(self) -> Manifest:
        """Writes everything; the manifest has all files.

        Raises
        ------
        ValueError
            If attributes do not fit their nodes or edges.
        OSError
            If the disk is full, or has too little space.
        """
        if self.stored_orders is not None:
            for name, order in self.stored_orders.items():
                if (visits := self.nodes[name].visits) is not None:
                    path = visits.resolve(self.writer.folder)
                    self._visits[name] = dataset_files.open_stored_rows(path, order)
        self._set_node_times()
        self._require_space()
        orders, presampling = self._hot_orders(), None
        hot: dict[EdgeType, FileEntry] = {}
        if self.writer.options.presampler is not None:
            hot, presampling = self._presample(orders)
            orders = self._visit_orders(orders)
        graphs = self._graphs(orders)
        for entry in hot.values():
            (self.writer.folder / entry.staged).unlink()
        return replace(
            self.manifest,
            nodes={name: self._write_nodes(name, order) for name, order in orders.items()},
            edges={name: self._write_edges(name, entry) for name, entry in graphs.items()},
            order=self.writer.options.order,
            out_graph=self._out_graph(graphs[EDGES], orders) if self.has_out_graph else None,
            presampling=presampling or self.manifest.presampling,
        )

    def _stored_graph(self, edge_type: EdgeType) -> Path:
        """The earlier file of an edge type."""
        return self.manifest.edges[edge_type].graph.resolve(self.writer.folder)

    def _list_ends(self, edge_type: EdgeType) -> tuple[str, str]:
        """The node type that has the lists, and the one that is in them."""
        return ends_of(edge_type, self.lists[edge_type].incoming)

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
        for edge_type, table in self.manifest.edges.items():
            name, attribute = self._list_ends(edge_type)[1], table.time
            if attribute is None or table.time_level != "node":
                continue
            if (name, attribute) not in times:
                sources = [(self.node_rows[name][attribute], 0)]
                num_nodes = self.nodes[name].num_nodes
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
        samples_in_new = self.stored_orders is None or self.is_turned
        num_graphs = 1 + self.has_out_graph + (options.presampler is not None and samples_in_new)
        for edge_type, edges in self.lists.items():
            owners, neighbors = self._list_orders(edge_type, orders)
            header = graph_layout(edges, owners, neighbors)
            needed += num_graphs * header.file_bytes
            copies.append(header.file_bytes)
            for rows in self.edge_rows[edge_type].values():
                copies.append(rows_layout(rows, edges.num_stored).file_bytes)
                needed += copies[-1]
        num_orders = num_graphs * options.renumbers
        num_orders += options.presampler is not None or bool(self._visits)
        for name, table in self.nodes.items():
            needed += num_orders * NodeOrder(table.num_nodes).layout().file_bytes
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
                options.notes.num_named[name] = orders[name].num_counted or 0
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
        if self.stored_orders is not None and not self.is_turned:
            orders = self.stored_orders
            graphs = {edge_type: self._stored_graph(edge_type) for edge_type in self.lists}
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
        entries: dict[EdgeType, FileEntry] = {}
        for edge_type, edges in self.lists.items():
            owners, neighbors = self._list_orders(edge_type, orders)
            name = self.writer.layout.graph(edge_type)
            entries[edge_type] = self.writer.lists(name, edges, owners, neighbors)
        return entries

    def _out_graph(self, graph: FileEntry, orders: Mapping[str, NodeOrder]) -> FileEntry:
        """The out-neighbours beside a file of in-neighbours."""
        (order,) = orders.values()
        path = graph.resolve(self.writer.folder)
        edges = dataset_files.open_stored_graph(path, (order, order)).edges()
        edges = replace(edges, incoming=False, node_times=self.lists[EDGES].node_times)
        return self.writer.lists(self.writer.layout.out_graph, edges, order, None)

    def _write_nodes(self, name: str, order: NodeOrder) -> NodeTable:
        """The order, the attributes and the visits of a node type."""
        writer, layout, is_new = self.writer, self.writer.layout, self.stored_orders is None
        ids = writer.node_ids(name, order)
        attributes: dict[str, FileEntry] = {}
        with naming(name):
            for attribute, rows in self.node_rows[name].items():
                file = layout.node_rows(name, attribute)
                fill = fill_of(attribute, rows) if is_new else None
                attributes[attribute] = writer.node_rows(file, rows, order, fill=fill)
            if is_new and "x" in attributes:
                name_of = self.node_rows[name]["x"].column_name
                dataset_files.refuse_labels(writer.folder, attributes, order.num_nodes, name_of)
        visits = None
        if name in self._visits:
            visits = writer.node_rows(layout.of_nodes(name, "visits"), self._visits[name], order)
        return replace(
            self.nodes[name], ids=ids, attributes=attributes, visits=visits, num_ordered_nodes=None
        )

    def _write_edges(self, edge_type: EdgeType, graph: FileEntry) -> EdgeTable:
        """The attributes of an edge type, in the order of its lists, which are written."""
        path = graph.resolve(self.writer.folder)
        stored_as = None if self.stored_orders is None else self._stored_graph(edge_type)
        entries: dict[str, FileEntry] = {}
        with naming(edge_type):
            for attribute, rows in self.edge_rows[edge_type].items():
                name = self.writer.layout.edge_rows(edge_type, attribute)
                entries[attribute] = self.writer.edge_rows(name, rows, path, stored_as)
        table = self.manifest.edges[edge_type]
        return replace(table, graph=graph, attributes=entries, num_ordered_edges=None)
