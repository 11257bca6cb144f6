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

from graphzero.errors import FormatError
from graphzero.ingest.edges import EdgeList, read_edges
from graphzero.ingest.folder import entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.graph_input import (
    GraphInput,
    final_counts,
    id_sources,
    known_counts,
    naming,
    open_graph_input,
    with_nodes,
)
from graphzero.ingest.id_map import collect_ids
from graphzero.ingest.lists import (
    NodeOrder,
    graph_layout,
    hot_order,
    sort_scratch,
    visit_order,
    write_graph,
)
from graphzero.ingest.merge import Prepared, prepare_edges
from graphzero.ingest.options import BuildNotes, BuildOptions, Presampler, Progress, WriteOptions
from graphzero.ingest.row_files import rows_layout, write_edge_rows, write_rows, write_split
from graphzero.ingest.rows import Rows, count_classes, rows_of_array
from graphzero.ingest.sort import spooling_near, temp_array
from graphzero.ingest.sources.tables import noting_inputs
from graphzero.ingest.stored import (
    StoredGraph,
    open_stored_edge_rows,
    open_stored_graph,
    open_stored_order,
    open_stored_rows,
)
from graphzero.store.atomic import require_disk_space
from graphzero.store.format import (
    DTYPES,
    FLAG_VECTOR,
    FileWriter,
    Header,
    id_dtype,
    layout,
    read_header,
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
)
from graphzero.units import parse_size

Seeds = npt.NDArray[np.int64]

_CHUNK = 1 << 16
_MIN_PIECE = 1024
_PAIR_BYTES = 40  # of temporary files for each edge while rows of edges are put in order
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

    def _add(self, file: FileWriter) -> FileEntry:
        self.staged.append(file)
        return entry_of(file)

    def _list_ends(self, edge_type: EdgeType) -> tuple[str, str]:
        """The node type that has the lists, and the one that is in them."""
        source, _, target = edge_type
        return (target, source) if self.lists[edge_type].incoming else (source, target)

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

        Nodes without a row get 0 here: that they lack one is found when the attribute is written.
        """
        rows, num_nodes = self.nodes[name][attribute], self.manifest.nodes[name].num_nodes
        times = temp_array(self.folder, num_nodes, np.int64, memory)
        row, most = 0, np.iinfo(np.int64).max
        with naming(name):
            for ids, chunk in rows.chunks(_CHUNK):
                values = chunk[:, 0]
                bad = np.flatnonzero((ids >= num_nodes) | (values > most))
                if len(bad):
                    at = int(bad[0])
                    raise ValueError(
                        f"{rows.name}, {rows.table.locate(row + at)}: node {ids[at]} with time "
                        f"{values[at]}: ids go up to {num_nodes - 1}, times up to {most}"
                    )
                times[ids] = values
                row += len(ids)
        return times

    def _require_space(self) -> None:
        """Raises an OSError unless the disk has room for the files that are not yet written.

        What is put in order goes through a temporary copy where it is larger than its memory, one
        file after the other.
        """
        options, manifest = self.options, self.manifest
        needed, sorts, copies = 0, [0], [0]
        num_graphs = 1 + self._has_out_graph + (options.presampler is not None and not self.sampled)
        for edge_type, edges in self.lists.items():
            owners, neighbors = (
                NodeOrder(manifest.nodes[name].num_nodes) for name in self._list_ends(edge_type)
            )
            header = graph_layout(edges, owners, neighbors if manifest.is_typed else None)
            needed += num_graphs * header.file_bytes
            sorts.append(sort_scratch(edges, options.sort_memory))
            for rows in self.edges[edge_type].values():
                size = rows_layout(rows, edges.num_stored, with_rank=False).file_bytes
                needed += size
                copies.append(size + edges.num_stored * _PAIR_BYTES)
        num_orders = num_graphs * options.renumbers
        num_orders += options.presampler is not None or bool(self.visits)
        for name, table in manifest.nodes.items():
            needed += num_orders * _ids_layout(table.num_nodes).file_bytes
            for rows in self.nodes[name].values():
                size = rows_layout(rows, table.num_nodes, with_rank=options.renumbers).file_bytes
                needed += size
                if options.renumbers or not rows.in_order:
                    copies.append(size + 4 * table.num_nodes)
        sorts += [size for size in copies if size > options.rows_memory // 8]
        require_disk_space(self.folder, needed + max(sorts), "the dataset needs")

    def _hot_orders(self) -> dict[str, NodeOrder]:
        """The nodes of each type, hottest first: by occurrences in the lists of all edge types."""
        options = self.options
        counts = {name: table.num_nodes for name, table in self.manifest.nodes.items()}
        if not options.renumbers:
            return {name: NodeOrder(count) for name, count in counts.items()}
        total, orders = sum(counts.values()), {}
        # Presampling needs the rest for the visits and the order that they give.
        available = options.order_memory // (1 if options.presampler is None else 4)
        with options.progress.phase("ordering nodes", None):
            for name, count in counts.items():
                memory = available * count // total
                found = self._occurrences(name, max(_MIN_PIECE, memory // 32))
                orders[name] = hot_order(self.folder, count, found, memory)
        return orders

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
                    open_stored_graph(path, (owners, neighbors)).edges(),
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
        presampler, memory = self.options.presampler, self.options.order_memory // 4
        assert presampler is not None
        total = sum(order.num_nodes for order in orders.values())
        counts = {
            name: temp_array(
                self.folder, order.num_nodes, np.uint32, memory * order.num_nodes // total
            )
            for name, order in orders.items()
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
        total = sum(order.num_nodes for order in ties.values())
        memory = self.options.order_memory // 2
        with self.options.progress.phase("ordering nodes", None):
            return {
                name: visit_order(
                    self.folder, self.visits[name], order, memory * order.num_nodes // total
                )
                for name, order in ties.items()
            }

    def _graphs(self, orders: Mapping[str, NodeOrder]) -> dict[EdgeType, FileWriter]:
        """A graph file for each edge type, one after the other; frees their edges."""
        files: dict[EdgeType, FileWriter] = {}
        for edge_type, edges in self.lists.items():
            owners, neighbors = (orders[name] for name in self._list_ends(edge_type))
            files[edge_type] = write_graph(
                self.folder / self.manifest.layout.graph(edge_type),
                edges,
                owners,
                neighbors if self.manifest.is_typed else None,
                memory=self.options.sort_memory,
                progress=self.options.progress,
            )
            self.staged.append(files[edge_type])
        return files

    def _out_graph(self, graph: FileWriter, orders: Mapping[str, NodeOrder]) -> FileEntry:
        """The out-neighbours beside a file of in-neighbours."""
        (order,) = orders.values()
        edges = open_stored_graph(graph.staged_path, (order, order)).edges()
        return self._add(
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
            ids = self._add(file)

        def write(path: str, rows: Rows, may_lack_rows: bool = False) -> FileEntry:
            return self._add(
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
        with naming(name):
            return replace(
                self.manifest.nodes[name],
                ids=ids,
                attributes={
                    attribute: write(files.node_rows(name, attribute), rows, attribute == "x")
                    for attribute, rows in self.nodes[name].items()
                },
                visits=None if visits is None else write(files.of_nodes(name, "visits"), visits),
            )

    def _edges(self, edge_type: EdgeType, graph: FileWriter) -> EdgeTable:
        """The attributes of an edge type, in the order of its lists."""
        with naming(edge_type):
            attributes = {
                attribute: self._add(
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


def _training_seeds(folder: Path, manifest: Manifest) -> dict[str, Seeds | None]:
    """Seeds by node type: the splits "train" of the types that have one, else all nodes."""
    splits = {name: table.splits.get("train") for name, table in manifest.nodes.items()}
    if not any(splits.values()):
        return dict.fromkeys(splits)
    found: dict[str, Seeds | None] = {}
    for name, path in ((n, entry.resolve(folder)) for n, entry in splits.items() if entry):
        section = read_header(path).find("rows")
        if section is None or DTYPES[section.dtype] != np.int64:
            raise FormatError(f"{path} does not hold a split: build the dataset again")
        if section.count:
            found[name] = np.memmap(path, np.int64, "r", section.offset, (section.count,))
    if not found:
        raise ValueError("the training split has no nodes to sample from")
    return found


# The build


def _map_ids(
    folder: Path, given: GraphInput, options: WriteOptions, staged: list[FileWriter]
) -> tuple[GraphInput, dict[str, FileEntry]]:
    """The input with numbers in place of the user's ids, and the files that have these."""
    paths = {name: folder / given.layout.of_nodes(name, "id_map") for name in given.nodes}
    ids = collect_ids(paths, id_sources(given), options.sort_memory, options.progress, staged)
    for edge_type in given.edges:
        for name in dict.fromkeys((edge_type[0], edge_type[2])):
            note = ids[name].table.described()
            options.notes.add(edge_type, f"{name}: {note}" if name else note)
    files = {name: entry_of(file) for name, file in zip(paths, staged, strict=True)}
    return with_nodes(given, ids), files


def _read_lists(
    folder: Path, given: GraphInput, options: WriteOptions
) -> tuple[dict[EdgeType, Prepared], dict[str, int]]:
    """Reads each edge list once, and merges its edges; and the number of nodes of each type."""
    bounds = known_counts(given)
    lists: dict[EdgeType, Prepared] = {}
    for edge_type, one in given.edges.items():
        first, second = given.ends(edge_type)
        with naming(edge_type):
            edges = read_edges(
                one.edges,
                folder,
                memory=options.column_memory // len(given.edges),
                bounds=(bounds[first], bounds[second]),
                progress=options.progress,
            )
            prepared = prepare_edges(folder, edges, one.attributes, one.merging, options)
        lists[edge_type] = prepared
        options.notes.add(edge_type, *describe_changes(prepared.changes))
    return lists, final_counts(given, bounds, {name: one.edges for name, one in lists.items()})


def _write_dataset(
    folder: Path,
    given: GraphInput,
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
        with naming(types):
            for name, value in splits.items():
                path = folder / files.split(types, name)
                found[name] = add(write_split(path, name, value, count, memory=memory, **of))
        return found

    id_maps: dict[str, FileEntry] = {}
    if wanted.maps_ids:
        given, id_maps = _map_ids(folder, given, options, staged)
    lists, counts = _read_lists(folder, given, options)
    nodes: dict[str, NodeTable] = {}
    for name, one in given.nodes.items():
        splits, labels = write_splits(name, one.splits, counts[name]), one.attributes.get("y")
        with naming(name):
            num_classes = None if labels is None else count_classes(labels)
        nodes[name] = NodeTable(
            counts[name], splits=splits, num_classes=num_classes, id_map=id_maps.get(name)
        )
    edges: dict[EdgeType, EdgeTable] = {}
    for edge_type, typed in given.edges.items():
        prepared, sampled_by = lists[edge_type], typed.sampled_by
        count, remap = prepared.edges.num_input_edges, prepared.merged.remap
        edges[edge_type] = EdgeTable(
            num_edges=prepared.edges.num_stored,
            num_input_edges=count,
            graph=_NOT_YET,
            splits=write_splits(edge_type, typed.splits, count, of="edge", remap=remap),
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
        given = open_graph_input(options)
        if options.presample is not None:
            options.presample.check_types(list(given.edges) if given.layout.is_typed else None)
        for edge_type, one in given.edges.items():
            how.notes.begin(edge_type, one.edges.summary, how.neighbors, options.directed)
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


def _write_reordered(
    folder: Path, earlier: Manifest, options: WriteOptions, staged: list[FileWriter]
) -> Manifest:
    """Writes every file that changes, adds it to `staged`, and returns the new manifest."""
    _verify_files(folder, earlier, options.progress)
    manifest = replace(earlier, neighbors=options.neighbors, out_graph=None)
    orders: dict[str, NodeOrder] = {}
    for name, nodes in earlier.nodes.items():
        file = nodes.ids if earlier.is_typed else earlier.edges[EDGES].graph
        path = None if file is None else file.resolve(folder)
        orders[name] = open_stored_order(path, nodes.num_nodes)
    graphs: dict[EdgeType, StoredGraph] = {}
    for edge_type, edges in earlier.edges.items():
        ends = orders[edge_type[0]], orders[edge_type[2]]
        ends = ends[::-1] if earlier.incoming else ends
        graphs[edge_type] = open_stored_graph(edges.graph.resolve(folder), ends)
    lists = {edge_type: graph.edges() for edge_type, graph in graphs.items()}
    paths = {edge_type: graph.path for edge_type, graph in graphs.items()}
    sampled = paths
    if manifest.incoming != earlier.incoming:
        lists[EDGES], sampled = replace(lists[EDGES], incoming=manifest.incoming), {}

    def rows_of(name: str, entry: FileEntry) -> Rows:
        return open_stored_rows(entry.resolve(folder), orders[name])

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
                name: open_stored_edge_rows(entry.resolve(folder), graphs[edge_type])
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
        if order == earlier.order != "presample" and earlier.neighbors == options.neighbors:
            return earlier
        return replace_dataset(folder, earlier, partial(_write_reordered, folder, earlier, options))
