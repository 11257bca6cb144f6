"""The one-time build: open, read, merge, order, sort and write, commit; and other orders later.

`DatasetWriter` does what a build and a reordering share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest import graph_input, stored
from graphzero.ingest.edges import EdgeList, read_edges
from graphzero.ingest.folder import entry_of, replace_dataset
from graphzero.ingest.id_map import collect_ids
from graphzero.ingest.link_split import hold_out, time_bounds, write_link_split
from graphzero.ingest.lists import (
    NodeOrder,
    graph_layout,
    hot_order,
    visit_order,
    write_graph,
)
from graphzero.ingest.merge import Prepared, prepare_edges, prepare_held_out
from graphzero.ingest.options import BuildNotes, BuildOptions, Presampler, Progress, WriteOptions
from graphzero.ingest.row_files import rows_layout, write_edge_rows, write_rows, write_split
from graphzero.ingest.rows import Rows, as_numbers, count_classes, rows_of_array
from graphzero.ingest.sort import spooling_near, temp_array
from graphzero.ingest.sources.columns import Column, checked
from graphzero.ingest.sources.tables import noting_inputs
from graphzero.store.atomic import folder_lock, require_disk_space
from graphzero.store.folder import recover, recover_dataset
from graphzero.store.format import (
    FLAG_VECTOR,
    FileWriter,
    Header,
    id_dtype,
    layout,
    sealed_file,
    verify_file,
)
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
    Presampling,
    describe_changes,
    read_manifest,
    reverse_types,
)
from graphzero.units import parse_size

Seeds = npt.NDArray[np.int64]

_CHUNK = 1 << 16
_MIN_PIECE = 1024
_NOT_YET = FileEntry("", "")  # a graph file that is still to be written


# What a build and a reordering share


@dataclass
class DatasetWriter:
    """Writes graph files, orders and attributes, and adds them to `staged`.

    Attributes
    ----------
    folder : pathlib.Path
    options : WriteOptions
    staged : list of FileWriter
    manifest : Manifest
        What is known before the files are written.
    lists : dict of EdgeType to EdgeList
    nodes : dict of str to dict of str to Rows
        Attributes of each node type.
    edges : dict of EdgeType to dict of str to Rows
        Attributes of each edge type besides those in the graph file.
    stored : dict of EdgeType to Path
        Earlier graph files, in whose order rows of edges are.
    sampled : dict of EdgeType to Path
        Graph files in which presampling can sample, where there are some already.
    orders : dict of str to NodeOrder
        The order of nodes in these files.
    visits : dict of str to Rows
        Visit counts.
    """

    folder: Path
    options: WriteOptions
    staged: list[FileWriter]
    manifest: Manifest
    lists: dict[EdgeType, EdgeList]
    nodes: dict[str, dict[str, Rows]]
    edges: dict[EdgeType, dict[str, Rows]]
    stored: dict[EdgeType, Path] = field(default_factory=dict)
    sampled: dict[EdgeType, Path] = field(default_factory=dict)
    orders: dict[str, NodeOrder] = field(default_factory=dict)
    visits: dict[str, Rows] = field(default_factory=dict)

    def write(self) -> Manifest:
        """The manifest with the files.

        Raises
        ------
        ValueError
            If attributes do not fit their nodes or edges.
        OSError
            If the disk is full, or has too little space.
        """
        self._set_node_times()
        self._require_space()
        orders, presampling = self._hot_orders(), self.manifest.presampling
        hot: dict[EdgeType, FileWriter] = {}
        if self.options.presampler is not None:
            hot, presampling = self._presample(orders)
            orders = self._visit_orders(orders)
        graphs = self._graphs(orders)
        for file in hot.values():
            file.discard()
        return replace(
            self.manifest,
            out_graph=self._out_graph(graphs[EDGES], orders) if self._has_out_graph else None,
            nodes={name: self._nodes(name, order) for name, order in orders.items()},
            edges={edge_type: self._edges(edge_type, graph) for edge_type, graph in graphs.items()},
            order=self.options.order,
            presampling=presampling,
        )

    @property
    def _has_out_graph(self) -> bool:
        return self.manifest.neighbors == "both" and self.manifest.directed

    def add(self, file: FileWriter) -> FileEntry:
        """Adds a sealed file to those that are staged."""
        self.staged.append(file)
        return entry_of(file)

    def _list_ends(self, edge_type: EdgeType) -> tuple[str, str]:
        """The node type that has the lists, and the one that is in them."""
        source, _, target = edge_type
        return (target, source) if self.lists[edge_type].incoming else (source, target)

    def _list_orders(
        self, edge_type: EdgeType, orders: Mapping[str, NodeOrder]
    ) -> tuple[NodeOrder, NodeOrder | None]:
        """The order of the nodes that have the lists; and with types, of those in them."""
        owners, neighbors = (orders[name] for name in self._list_ends(edge_type))
        return owners, neighbors if self.manifest.is_typed else None

    def _set_node_times(self) -> None:
        """Gives edges the times of the nodes that are in the lists, where these drive sampling."""
        # The order of nodes takes half of what it may.
        memory = self.options.order_memory // 2 // len(self.lists)
        times: dict[tuple[str, str], npt.NDArray[np.int64]] = {}
        for edge_type, table in self.manifest.edges.items():
            if table.time is not None and table.time_level == "node":
                key = self._list_ends(edge_type)[1], table.time
                if key not in times:
                    times[key] = self._node_times(*key, memory)
                self.lists[edge_type] = replace(self.lists[edge_type], node_times=times[key])

    def _node_times(self, name: str, attribute: str, memory: int) -> npt.NDArray[np.int64]:
        """The time of each node of a type, by the user's ids.

        Nodes without a row get 0 here, and rows of nodes that do not exist are left out: both are
        found when the attribute is written.
        """
        rows, num_nodes = self.nodes[name][attribute], self.manifest.nodes[name].num_nodes
        times = temp_array(self.folder, num_nodes, np.int64, memory)
        column, row = Column(-1, f"value of {attribute!r}", times.dtype), 0
        with graph_input.naming(name):
            for ids, chunk in rows.chunks(_CHUNK):
                values = checked(as_numbers(chunk[:, 0]), column, rows.table, row)
                exists = ids < num_nodes
                times[ids[exists]] = values[exists]
                row += len(ids)
        return times

    def _require_space(self) -> None:
        """Raises an OSError unless the disk has room for the files that are not yet written.

        What is put in order goes through a temporary copy where it is larger than its memory, one
        file after the other.
        """
        options, manifest = self.options, self.manifest
        orders = {name: NodeOrder(table.num_nodes) for name, table in manifest.nodes.items()}
        needed, copies = 0, []
        num_graphs = 1 + self._has_out_graph + (options.presampler is not None and not self.sampled)
        for edge_type, edges in self.lists.items():
            header = graph_layout(edges, *self._list_orders(edge_type, orders))
            needed += num_graphs * header.file_bytes
            copies.append(header.file_bytes)
            for rows in self.edges[edge_type].values():
                copies.append(rows_layout(rows, edges.num_stored, with_rank=False).file_bytes)
                needed += copies[-1]
        num_orders = num_graphs * options.renumbers
        num_orders += options.presampler is not None or bool(self.visits)
        for name, table in manifest.nodes.items():
            needed += num_orders * _ids_layout(table.num_nodes).file_bytes
            for rows in self.nodes[name].values():
                header = rows_layout(rows, table.num_nodes, with_rank=options.renumbers)
                needed += header.file_bytes
                if options.renumbers or not rows.in_order:
                    copies.append(header.file_bytes)
        needed += max((size for size in copies if size > options.rows_memory // 8), default=0)
        require_disk_space(self.folder, needed, "the dataset needs")

    def _hot_orders(self) -> dict[str, NodeOrder]:
        """The nodes of each type, hottest first: by occurrences in the lists of all edge types."""
        options = self.options
        orders = {n: NodeOrder(table.num_nodes) for n, table in self.manifest.nodes.items()}
        if not options.renumbers:
            return orders
        # Presampling needs the rest for the visits and the order that they give.
        part = 1 if options.presampler is None else 4
        with options.progress.phase("ordering nodes", None):
            for name, memory in self._memory_by_type(part).items():
                found = self._occurrences(name, max(_MIN_PIECE, memory // 32))
                orders[name] = hot_order(self.folder, orders[name].num_nodes, found, memory)
        return orders

    def _memory_by_type(self, part: int) -> dict[str, int]:
        """One part of so many of the memory for orders, divided among the node types."""
        counts = {name: table.num_nodes for name, table in self.manifest.nodes.items()}
        memory, total = self.options.order_memory // part, sum(counts.values())
        return {name: memory * count // total for name, count in counts.items()}

    def _occurrences(self, name: str, max_edges: int) -> Iterator[npt.NDArray[Any]]:
        for edge_type, edges in self.lists.items():
            if self._list_ends(edge_type)[1] == name:
                yield from edges.occurrences(max_edges)

    def _presample(
        self, orders: Mapping[str, NodeOrder]
    ) -> tuple[dict[EdgeType, FileWriter], Presampling]:
        """Counts visits in earlier files, or in new ones in hot order, which are then the input."""
        hot: dict[EdgeType, FileWriter] = {}
        graphs, sampled = self.sampled, self.orders
        if not graphs:
            hot, sampled = self._graphs(orders), dict(orders)
            graphs = {edge_type: file.staged_path for edge_type, file in hot.items()}
            for edge_type, path in graphs.items():
                owners, neighbors = (orders[name] for name in self._list_ends(edge_type))
                self.lists[edge_type] = replace(
                    stored.open_stored_graph(path, (owners, neighbors)).edges(),
                    node_times=self.lists[edge_type].node_times,
                )
        counts, presampling = self._count_visits(graphs, sampled)
        for name, visits in counts.items():
            self.visits[name] = rows_of_array("visits", visits, sampled[name].node_ids)
        return hot, presampling

    def _count_visits(
        self, graphs: Mapping[EdgeType, Path], orders: Mapping[str, NodeOrder]
    ) -> tuple[dict[str, npt.NDArray[np.uint32]], Presampling]:
        """In how many mini-batches each stored node of these files is, and how this was counted.

        The sampler's own memory is not limited.
        """
        presampler = self.options.presampler
        assert presampler is not None
        counts = {
            name: temp_array(self.folder, orders[name].num_nodes, np.uint32, memory)
            for name, memory in self._memory_by_type(4).items()
        }
        seeds = _training_seeds(self.folder, self.manifest)
        num_seeds = {n: orders[n].num_nodes if s is None else len(s) for n, s in seeds.items()}

        def to_stored(name: str, ids: Seeds) -> Seeds:
            rank = orders[name].node_rank
            return ids if rank is None else rank[ids].astype(np.int64, copy=False)

        num_batches = sum(presampler.num_batches(num_seeds).values())
        with self.options.progress.phase("sampling", num_batches, "batches") as advance:
            ids = to_stored if self.manifest.is_typed else None
            return counts, presampler.count_visits(graphs, ids, seeds, counts, advance)

    def _visit_orders(self, ties: Mapping[str, NodeOrder]) -> dict[str, NodeOrder]:
        """The nodes of each type by descending number of visits, ties as in another order."""
        with self.options.progress.phase("ordering nodes", None):
            return {
                name: visit_order(self.folder, self.visits[name], ties[name], memory)
                for name, memory in self._memory_by_type(2).items()
            }

    def _graphs(self, orders: Mapping[str, NodeOrder]) -> dict[EdgeType, FileWriter]:
        """A graph file for each edge type, one after the other; frees their edges."""
        files: dict[EdgeType, FileWriter] = {}
        for edge_type, edges in self.lists.items():
            files[edge_type] = write_graph(
                self.folder / self.manifest.layout.graph(edge_type),
                edges,
                *self._list_orders(edge_type, orders),
                memory=self.options.sort_memory,
                progress=self.options.progress,
            )
            self.staged.append(files[edge_type])
        return files

    def _out_graph(self, graph: FileWriter, orders: Mapping[str, NodeOrder]) -> FileEntry:
        """The out-neighbours beside a file of in-neighbours."""
        (order,) = orders.values()
        edges = stored.open_stored_graph(graph.staged_path, (order, order)).edges()
        return self.add(
            write_graph(
                self.folder / self.manifest.layout.out_graph,
                replace(edges, incoming=False, node_times=self.lists[EDGES].node_times),
                order,
                memory=self.options.sort_memory,
                progress=self.options.progress,
            )
        )

    def _nodes(self, name: str, order: NodeOrder) -> NodeTable:
        """The order, the attributes and the visits of a node type."""
        folder, options, files = self.folder, self.options, self.manifest.layout
        ids: FileEntry | None = None
        renumbered = None if order.node_ids is None else order
        if renumbered is not None and files.is_typed:
            with sealed_file(
                folder / files.of_nodes(name, "ids"), _ids_layout(order.num_nodes)
            ) as file:
                file.append("rows", order.node_ids)
                file.append("node_rank", order.node_rank)
            ids = self.add(file)

        def write(path: str, rows: Rows, may_lack_rows: bool = False) -> FileEntry:
            return self.add(
                write_rows(
                    folder / path,
                    rows,
                    order.num_nodes,
                    order=renumbered,
                    fill_missing=may_lack_rows and not self.stored,
                    memory=options.rows_memory,
                    progress=options.progress,
                )
            )

        visits = self.visits.get(name)
        with graph_input.naming(name):
            attributes = {
                attribute: write(files.node_rows(name, attribute), rows, attribute == "x")
                for attribute, rows in self.nodes[name].items()
            }
            if "x" in attributes and not self.stored:
                name_of = self.nodes[name]["x"].column_name
                stored.refuse_labels(folder, attributes, order.num_nodes, name_of)
            return replace(
                self.manifest.nodes[name],
                ids=ids,
                attributes=attributes,
                visits=None if visits is None else write(files.of_nodes(name, "visits"), visits),
            )

    def _edges(self, edge_type: EdgeType, graph: FileWriter) -> EdgeTable:
        """The attributes of an edge type, in the order of its lists."""
        with graph_input.naming(edge_type):
            attributes = {
                attribute: self.add(
                    write_edge_rows(
                        self.folder / self.manifest.layout.edge_rows(edge_type, attribute),
                        rows,
                        graph.staged_path,
                        memory=self.options.rows_memory,
                        progress=self.options.progress,
                        stored_as=self.stored.get(edge_type),
                    )
                )
                for attribute, rows in self.edges[edge_type].items()
            }
        table = self.manifest.edges[edge_type]
        return replace(table, graph=entry_of(graph), attributes=attributes)


def _vector_layout(count: int, dtype: npt.DTypeLike, *names: str) -> Header:
    arrays = [(name, dtype, count) for name in names]
    return layout("features", arrays, num_nodes=count, width=1, flags=FLAG_VECTOR)


def _ids_layout(num_nodes: int) -> Header:
    return _vector_layout(num_nodes, id_dtype(num_nodes), "rows", "node_rank")


def _training_seeds(folder: Path, manifest: Manifest) -> Mapping[str, Seeds | None]:
    """Seeds by node type: the splits "train" of the types that have one, else all nodes."""
    splits = {name: table.splits.get("train") for name, table in manifest.nodes.items()}
    if not any(splits.values()):
        return dict.fromkeys(splits)
    found = {
        name: stored.open_stored_split(one.resolve(folder)) for name, one in splits.items() if one
    }
    found = {name: seeds for name, seeds in found.items() if len(seeds)}
    if not found:
        raise ValueError("the training split has no nodes to sample from")
    return found


# The build


def _map_ids(
    folder: Path, given: graph_input.GraphInput, options: WriteOptions, staged: list[FileWriter]
) -> tuple[graph_input.GraphInput, dict[str, FileEntry]]:
    """The input with numbers in place of the user's ids, and the files that have these."""
    paths = {name: folder / given.layout.of_nodes(name, "id_map") for name in given.nodes}
    collect_ids(
        paths,
        given.ids,
        graph_input.id_sources(given),
        memory=options.sort_memory,
        progress=options.progress,
        staged=staged,
    )
    for edge_type in given.edges:
        for name in dict.fromkeys((edge_type[0], edge_type[2])):
            note = given.ids[name].table.described()
            options.notes.add(edge_type, f"{name}: {note}" if name else note)
    files = {name: entry_of(file) for name, file in zip(paths, staged, strict=True)}
    return graph_input.with_nodes(given, given.ids), files


def _read_lists(
    folder: Path, given: graph_input.GraphInput, options: WriteOptions
) -> tuple[dict[EdgeType, Prepared], dict[EdgeType, dict[str, EdgeList]], dict[str, int]]:
    """Reads each edge list once, and merges its edges.

    Returns
    -------
    dict of EdgeType to Prepared
    dict of EdgeType to dict of str to EdgeList
        The parts of a `LinkSplit`, "train" among them.
    dict of str to int
        Nodes of each type.
    """
    bounds = graph_input.known_counts(given)
    lists: dict[EdgeType, Prepared] = {}
    parts: dict[EdgeType, dict[str, EdgeList]] = {}
    bounds_of: dict[EdgeType, Any] = {}
    for edge_type, one in given.edges.items():
        first, second = given.ends(edge_type)
        with graph_input.naming(edge_type):
            edges = read_edges(
                one.edges,
                folder,
                memory=options.column_memory // len(given.edges),
                bounds=(bounds[first], bounds[second]),
                progress=options.progress,
            )
            held_out: dict[str, EdgeList] = {}
            if (split := one.link_split) is not None:
                at = time_bounds(split, edges, bounds_of.get(edge_type))
                bounds_of |= dict.fromkeys(reverse_types(edge_type, given.edges), at)
                how = (folder, edges, (first, second), split, at)
                edges, held_out = hold_out(*how, options.column_memory // 4)
            prepared = prepare_edges(folder, edges, one.attributes, one.merging, options)
            for name, edges in held_out.items():
                held_out[name] = prepare_held_out(folder, edges, one.merging, options)
        lists[edge_type] = prepared
        options.notes.add(edge_type, *describe_changes(prepared.changes))
        if held_out:
            parts[edge_type] = {"train": prepared.edges, **held_out}
            sizes = ", ".join(f"{len(one):,} in {name}" for name, one in parts[edge_type].items())
            options.notes.add(edge_type, f"edges are split: {sizes}")
    final = graph_input.final_counts(
        given, bounds, {name: one.edges for name, one in lists.items()}
    )
    return lists, parts, final


def _write_dataset(
    folder: Path,
    given: graph_input.GraphInput,
    wanted: BuildOptions,
    options: WriteOptions,
    staged: list[FileWriter],
) -> Manifest:
    """Writes every file, adds it to `staged`, and returns the manifest."""
    files, default = given.layout, not given.layout.is_typed

    def add(file: FileWriter) -> FileEntry:
        staged.append(file)
        return entry_of(file)

    def write_splits(
        types: str | EdgeType, splits: Mapping[str, Any], count: int, **of: Any
    ) -> dict[str, FileEntry]:
        memory, found = options.column_memory, {}
        with graph_input.naming(types):
            for name, value in splits.items():
                path = folder / files.split(types, name)
                found[name] = add(write_split(path, name, value, count, memory=memory, **of))
        return found

    id_maps: dict[str, FileEntry] = {}
    if wanted.maps_ids:
        given, id_maps = _map_ids(folder, given, options, staged)
    lists, parts, counts = _read_lists(folder, given, options)
    nodes: dict[str, NodeTable] = {}
    for name, one in given.nodes.items():
        splits, labels = write_splits(name, one.splits, counts[name]), one.attributes.get("y")
        with graph_input.naming(name):
            num_classes = None if labels is None else count_classes(labels)
        nodes[name] = NodeTable(
            counts[name], splits=splits, num_classes=num_classes, id_map=id_maps.get(name)
        )
    edges: dict[EdgeType, EdgeTable] = {}
    for edge_type, typed in given.edges.items():
        prepared, sampled_by = lists[edge_type], typed.sampled_by
        count, remap = prepared.edges.num_input_edges, prepared.merged.remap
        splits = write_splits(edge_type, typed.splits, count, of="edge", remap=remap)
        for name, part in parts.get(edge_type, {}).items():
            splits[name] = add(write_link_split(folder / files.split(edge_type, name), part))
        edges[edge_type] = EdgeTable(
            num_edges=prepared.edges.num_stored,
            num_input_edges=count,
            graph=_NOT_YET,
            splits=splits,
            weight=sampled_by.weight or (EDGE_WEIGHT if default else None),
            time=sampled_by.time or (EDGE_TIME if default else None),
            time_level=sampled_by.time_level,
            changes=prepared.changes or None,
        )
    extras = None
    if wanted.extras is not None:
        header = _vector_layout(len(wanted.extras), np.uint8, "rows")
        with sealed_file(folder / files.extras, header) as file:
            file.append("rows", np.frombuffer(wanted.extras, np.uint8))
        extras = add(file)
    neighbors = options.neighbors if wanted.directed else "both"
    writer = DatasetWriter(
        folder,
        options,
        staged,
        Manifest(nodes, edges, neighbors, options.order, None, wanted.directed, None, extras),
        {name: prepared.edges for name, prepared in lists.items()},
        {name: one.attributes for name, one in given.nodes.items()},
        {name: prepared.attributes for name, prepared in lists.items()},
    )
    return writer.write()


def write_dataset(
    path: str | os.PathLike[str], options: BuildOptions
) -> tuple[Manifest, BuildNotes]:
    """Builds a dataset folder; also returns what is to be said at the end.

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
    how, folder = options.write_options(), Path(path)
    with spooling_near(folder), noting_inputs() as inputs:
        given = graph_input.open_graph_input(options)
        if options.presample is not None:
            options.presample.check_types(list(given.edges) if given.layout.is_typed else None)
        for edge_type, one in given.edges.items():
            how.notes.begin(edge_type, one.edges.source.summary, how.neighbors, options.directed)
        folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(folder):
            earlier = recover(folder)
            write = partial(_write_dataset, folder, given, options, how)
            return replace_dataset(folder, earlier, write, inputs), how.notes


def build_dataset(path: str | os.PathLike[str], *arguments: Any, **options: Any) -> Manifest:
    """`graphzero.build` in any memory limit, which neither opens the dataset nor says anything."""
    return write_dataset(path, BuildOptions(*arguments, **options))[0]


# Another order


def _verify_files(folder: Path, manifest: Manifest, progress: Progress) -> None:
    """Compares all files of a dataset with their checksums: new checksums would hide damage."""
    files = [entry.resolve(folder) for entry in manifest.entries()]
    total = sum(file.stat().st_size for file in files)
    with progress.phase("verifying", total, "B") as advance:
        for file in files:
            verify_file(file, advance)


def stored_orders(folder: Path, manifest: Manifest) -> dict[str, NodeOrder]:
    """The order of the nodes of each type in the files of a dataset."""
    orders: dict[str, NodeOrder] = {}
    for name, nodes in manifest.nodes.items():
        file = nodes.ids if manifest.is_typed else manifest.edges[EDGES].graph
        path = None if file is None else file.resolve(folder)
        orders[name] = stored.open_stored_order(path, nodes.num_nodes)
    return orders


def _write_reordered(
    folder: Path, earlier: Manifest, options: WriteOptions, staged: list[FileWriter]
) -> Manifest:
    """Writes every file that changes, adds it to `staged`, and returns the new manifest."""
    _verify_files(folder, earlier, options.progress)
    manifest = replace(
        earlier,
        nodes={n: replace(table, num_ordered_nodes=None) for n, table in earlier.nodes.items()},
        edges={n: replace(table, num_ordered_edges=None) for n, table in earlier.edges.items()},
        neighbors=options.neighbors,
        out_graph=None,
    )
    orders = stored_orders(folder, earlier)
    graphs: dict[EdgeType, stored.StoredGraph] = {}
    for edge_type, edges in earlier.edges.items():
        ends = orders[edge_type[0]], orders[edge_type[2]]
        ends = ends[::-1] if earlier.incoming else ends
        graphs[edge_type] = stored.open_stored_graph(edges.graph.resolve(folder), ends)
    lists = {edge_type: graph.edges() for edge_type, graph in graphs.items()}
    paths = {edge_type: graph.path for edge_type, graph in graphs.items()}
    sampled = paths
    if manifest.incoming != earlier.incoming:
        lists[EDGES], sampled = replace(lists[EDGES], incoming=manifest.incoming), {}

    def rows_of(name: str, entry: FileEntry) -> Rows:
        return stored.open_stored_rows(entry.resolve(folder), orders[name])

    writer = DatasetWriter(
        folder,
        options,
        staged,
        manifest,
        lists,
        {
            name: {attribute: rows_of(name, entry) for attribute, entry in table.attributes.items()}
            for name, table in earlier.nodes.items()
        },
        {
            edge_type: {
                name: stored.open_stored_array(
                    entry.resolve(folder), graphs[edge_type].header.width
                )
                for name, entry in table.attributes.items()
            }
            for edge_type, table in earlier.edges.items()
        },
        stored=paths,
        sampled=sampled,
        orders=orders,
        visits={n: rows_of(n, table.visits) for n, table in earlier.nodes.items() if table.visits},
    )
    return writer.write()


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
    limit = parse_size(memory_limit, "memory limit")
    options = WriteOptions(order, presample, limit, Progress(progress), neighbors)
    folder = Path(path)
    read_manifest(folder)
    with spooling_near(folder), folder_lock(folder):
        earlier = recover_dataset(folder)
        if presample is not None:
            presample.check_types(list(earlier.edges) if earlier.is_typed else None)
        if earlier.is_typed and neighbors not in (None, earlier.neighbors):
            raise ValueError(
                f"neighbors={neighbors!r}: the lists of a typed graph cannot be turned; build "
                f"it again with neighbors={neighbors!r}"
            )
        kept = neighbors is None or not earlier.directed
        options = replace(options, neighbors=earlier.neighbors if kept else neighbors)
        is_so = order == earlier.order != "presample" and not earlier.has_drifted
        if is_so and earlier.neighbors == options.neighbors:
            return earlier
        return replace_dataset(folder, earlier, partial(_write_reordered, folder, earlier, options))
