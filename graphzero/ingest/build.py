"""The one-time build: open, read, merge, order, sort and write, commit.

`write_files` does what a build and a reordering share.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.ingest.edges import EdgeList, read_edges
from graphzero.ingest.folder import check_names, entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.graph_input import (
    GraphInput,
    file_names,
    final_counts,
    id_sources,
    known_counts,
    naming,
    open_graph_input,
    with_nodes,
)
from graphzero.ingest.id_map import collect_ids
from graphzero.ingest.lists import (
    NodeSpace,
    Seeds,
    count_visits,
    graph_layout,
    hot_order,
    sort_scratch,
    visit_order,
    write_graph,
)
from graphzero.ingest.merge import Prepared, prepare_edges
from graphzero.ingest.options import BuildOptions, Closing, WriteOptions
from graphzero.ingest.row_files import rows_layout, write_edge_rows, write_rows, write_split
from graphzero.ingest.rows import Rows, count_classes
from graphzero.ingest.sort import spooling_near, temp_array
from graphzero.ingest.sources.tables import noting_inputs
from graphzero.ingest.stored import open_stored_graph
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
)
from graphzero.store.manifest import (
    EDGE_TIME,
    EDGE_WEIGHT,
    EDGES,
    EdgeTable,
    EdgeType,
    FileEntry,
    Layout,
    Manifest,
    NodeTable,
    Presampling,
    describe_changes,
)
from graphzero.units import format_bytes

_CHUNK = 1 << 16
_MIN_PIECE = 1024
_PAIR_BYTES = 40  # of temporary files for each edge while rows of edges are put in order


# What a build and a reordering share


@dataclass(frozen=True)
class Content:
    """What the files of a dataset are made from.

    Attributes
    ----------
    layout : Layout
    counts : dict of str to int
        Nodes of each type.
    lists : dict of EdgeType to EdgeList
    nodes : dict of str to dict of str to Rows
        Attributes of each node type.
    edges : dict of EdgeType to dict of str to Rows
        Attributes of each edge type besides those in the graph file.
    with_out_graph : bool
        Whether the out-neighbours are stored beside in-neighbours.
    may_lack_rows : bool
        Whether nodes without a row of "x" get zeros.
    seeds : dict of str to array or None
        Of presampling: the user's ids by node type; None for all nodes of the type.
    stored : dict of EdgeType to Path
        Earlier graph files, in whose order rows of edges are.
    sampled : dict of EdgeType to Path
        Graph files in which presampling can sample, where there are some already.
    spaces : dict of str to NodeSpace
        The order of nodes in these files.
    visits : dict of str to Rows
        Earlier visit counts.
    """

    layout: Layout
    counts: dict[str, int]
    lists: dict[EdgeType, EdgeList]
    nodes: dict[str, dict[str, Rows]]
    edges: dict[EdgeType, dict[str, Rows]]
    with_out_graph: bool = False
    may_lack_rows: bool = False
    seeds: dict[str, Seeds | None] = field(default_factory=dict)
    stored: dict[EdgeType, Path] = field(default_factory=dict)
    sampled: dict[EdgeType, Path] = field(default_factory=dict)
    spaces: dict[str, NodeSpace] = field(default_factory=dict)
    visits: dict[str, Rows] = field(default_factory=dict)

    def list_ends(self, edge_type: EdgeType) -> tuple[str, str]:
        """The node type that has the lists, and the one that is in them."""
        source, _, target = edge_type
        return (target, source) if self.lists[edge_type].incoming else (source, target)


@dataclass
class Files:
    """The files that were written."""

    graphs: dict[EdgeType, FileWriter]
    ids: dict[str, FileEntry] = field(default_factory=dict)
    nodes: dict[str, dict[str, FileEntry]] = field(default_factory=dict)
    edges: dict[EdgeType, dict[str, FileEntry]] = field(default_factory=dict)
    visits: dict[str, FileEntry] = field(default_factory=dict)
    presampling: Presampling | None = None
    out_graph: FileEntry | None = None


class _Writer:
    """Writes the files of a dataset, and adds them to `staged`."""

    def __init__(
        self, folder: Path, content: Content, options: WriteOptions, staged: list[FileWriter]
    ) -> None:
        self._folder = folder
        self._content = content
        self._options = options
        self._staged = staged

    def _add(self, file: FileWriter) -> FileEntry:
        self._staged.append(file)
        return entry_of(file)

    def write(self) -> Files:
        content, options = self._content, self._options
        spaces, visits = self._hot_spaces(), content.visits
        presampling: Presampling | None = None
        hot: dict[EdgeType, FileWriter] = {}
        if options.presampler is not None:
            hot, visits, presampling = self._presampled(spaces)
            spaces = self._visit_spaces(visits, spaces)
        files = Files(self._graphs(spaces), presampling=presampling)
        for file in hot.values():
            file.discard()
        if content.with_out_graph:
            files.out_graph = self._out_graph(files.graphs[EDGES], spaces)
        for name, space in spaces.items():
            with naming(name):
                self._nodes(name, space, visits.get(name), files)
        for edge_type, graph in files.graphs.items():
            with naming(edge_type):
                files.edges[edge_type] = {
                    attribute: self._add(
                        write_edge_rows(
                            self._folder / content.layout.edge_rows(edge_type, attribute),
                            rows,
                            graph.staged.staged_path,
                            memory=options.rows_memory,
                            progress=options.progress,
                            stored_as=content.stored.get(edge_type),
                        )
                    )
                    for attribute, rows in content.edges[edge_type].items()
                }
        return files

    def _hot_spaces(self) -> dict[str, NodeSpace]:
        """The nodes of each type, hottest first: by occurrences in the lists of all edge types."""
        content, options = self._content, self._options
        if not options.renumbers:
            return {name: NodeSpace(count) for name, count in content.counts.items()}
        total, spaces = sum(content.counts.values()), {}
        # Presampling needs the rest for the visits and the order that they give.
        available = options.order_memory // (1 if options.presampler is None else 4)
        with options.progress.phase("ordering nodes", None):
            for name, count in content.counts.items():
                memory = available * count // total
                found = self._occurrences(name, max(_MIN_PIECE, memory // 32))
                spaces[name] = NodeSpace(count, hot_order(self._folder, count, found, memory))
        return spaces

    def _occurrences(self, name: str, max_edges: int) -> Iterator[npt.NDArray[Any]]:
        for edge_type, edges in self._content.lists.items():
            if self._content.list_ends(edge_type)[1] == name:
                yield from edges.occurrences(max_edges)

    def _presampled(
        self, spaces: dict[str, NodeSpace]
    ) -> tuple[dict[EdgeType, FileWriter], dict[str, Rows], Presampling]:
        """Counts visits in earlier files, or in new ones in hot order, which are then the input."""
        content, options = self._content, self._options
        assert options.presampler is not None
        hot: dict[EdgeType, FileWriter] = {}
        graphs, sampled = content.sampled, content.spaces
        if not graphs:
            hot, sampled = self._graphs(spaces), spaces
            graphs = {edge_type: file.staged.staged_path for edge_type, file in hot.items()}
            lists = {}
            for edge_type, path in graphs.items():
                owners, neighbors = (spaces[name] for name in content.list_ends(edge_type))
                lists[edge_type] = replace(
                    open_stored_graph(path, (owners, neighbors)).edges(),
                    node_times=content.lists[edge_type].node_times,
                )
            self._content = replace(content, lists=lists)
        visits, presampling = count_visits(
            self._folder,
            graphs,
            sampled,
            content.seeds,
            options.presampler,
            options.order_memory // 4,
            options.progress,
        )
        return hot, visits, presampling

    def _visit_spaces(
        self, visits: Mapping[str, Rows], ties: Mapping[str, NodeSpace]
    ) -> dict[str, NodeSpace]:
        """The nodes of each type by descending number of visits, ties as in another order."""
        total, spaces = sum(space.num_nodes for space in ties.values()), {}
        with self._options.progress.phase("ordering nodes", None):
            for name, space in ties.items():
                assert space.order is not None
                memory = self._options.order_memory // 2 * space.num_nodes // total
                order = visit_order(self._folder, visits[name], space.order, memory)
                spaces[name] = NodeSpace(space.num_nodes, order)
        return spaces

    def _graphs(self, spaces: Mapping[str, NodeSpace]) -> dict[EdgeType, FileWriter]:
        """A graph file for each edge type, one after the other; frees their edges."""
        content, options = self._content, self._options
        files: dict[EdgeType, FileWriter] = {}
        for edge_type, edges in content.lists.items():
            owners, neighbors = (spaces[name] for name in content.list_ends(edge_type))
            files[edge_type] = write_graph(
                self._folder / content.layout.graph(edge_type),
                edges,
                owners,
                neighbors if content.layout.is_typed else None,
                memory=options.sort_memory,
                progress=options.progress,
            )
            self._staged.append(files[edge_type])
        return files

    def _out_graph(self, graph: FileWriter, spaces: Mapping[str, NodeSpace]) -> FileEntry:
        """The out-neighbours beside a file of in-neighbours."""
        edges = open_stored_graph(graph.staged.staged_path).edges()
        node_times = self._content.lists[EDGES].node_times
        (space,) = spaces.values()
        return self._add(
            write_graph(
                self._folder / self._content.layout.out_graph,
                replace(edges, incoming=False, node_times=node_times),
                space,
                memory=self._options.sort_memory,
                progress=self._options.progress,
            )
        )

    def _nodes(self, name: str, space: NodeSpace, visits: Rows | None, files: Files) -> None:
        """The order, the attributes and the visits of a node type."""
        content, folder = self._content, self._folder
        if space.order is not None and not content.layout.order_in_graph:
            with sealed_file(folder / content.layout.ids(name), _ids_layout(space)) as file:
                file.append("rows", space.order.node_ids)
                file.append("node_rank", space.order.node_rank)
            files.ids[name] = self._add(file)

        def write(path: str, rows: Rows, fill_missing: bool) -> FileEntry:
            return self._add(
                write_rows(
                    folder / path,
                    rows,
                    space.num_nodes,
                    order=space.order,
                    fill_missing=fill_missing,
                    memory=self._options.rows_memory,
                    progress=self._options.progress,
                )
            )

        files.nodes[name] = {
            attribute: write(
                content.layout.node_rows(name, attribute),
                rows,
                content.may_lack_rows and attribute == "x",
            )
            for attribute, rows in content.nodes[name].items()
        }
        if visits is not None:
            files.visits[name] = write(content.layout.visits(name), visits, False)


def write_files(
    folder: Path, content: Content, options: WriteOptions, staged: list[FileWriter]
) -> Files:
    """Writes graph files, orders and attributes, and adds them to `staged`.

    Raises
    ------
    ValueError
        If attributes do not fit their nodes or edges.
    OSError
        If the disk is full.
    """
    return _Writer(folder, content, options, staged).write()


def _ids_layout(space: NodeSpace) -> Header:
    ids = id_dtype(space.num_nodes)
    arrays = [("rows", ids, space.num_nodes), ("node_rank", ids, space.num_nodes)]
    return layout("features", arrays, num_nodes=space.num_nodes, width=1, flags=FLAG_VECTOR)


def require_space(folder: Path, content: Content, options: WriteOptions, needs: str) -> None:
    """Raises an OSError unless the disk has room for all files and for temporary data.

    What is put in order goes through a temporary copy where it is larger than its memory, one file
    after the other.
    """
    needed, scratch = 0, 0
    is_sampled, hot = options.presampler is not None, options.renumbers
    num_graphs = 1 + (is_sampled and not content.sampled) + content.with_out_graph
    for edge_type, edges in content.lists.items():
        owners, neighbors = (NodeSpace(content.counts[n]) for n in content.list_ends(edge_type))
        header = graph_layout(edges, owners, neighbors if content.layout.is_typed else None)
        needed += num_graphs * header.file_bytes
        scratch = max(scratch, sort_scratch(edges, options.sort_memory))
        for rows in content.edges[edge_type].values():
            size = rows_layout(rows, edges.num_stored, with_rank=False).file_bytes
            needed += size
            if size + edges.num_stored * _PAIR_BYTES > options.rows_memory // 8:
                scratch = max(scratch, size + edges.num_stored * _PAIR_BYTES)
    for name, count in content.counts.items():
        has_visits = is_sampled or bool(content.visits)
        needed += _ids_layout(NodeSpace(count)).file_bytes * (hot + has_visits)
        for rows in content.nodes[name].values():
            size = rows_layout(rows, count, with_rank=hot).file_bytes
            needed += size
            if size > options.rows_memory // 8 and (hot or not rows.in_order):
                scratch = max(scratch, size + 4 * count)
    if options.progress.enabled:
        free = format_bytes(shutil.disk_usage(folder).free)
        needed_now = format_bytes(needed + scratch)
        options.progress.say(f"disk space: {needed_now} from here on; {free} are free")
    require_disk_space(folder, needed + scratch, needs)


def training_seeds(
    folder: Path, splits: Mapping[str, Mapping[str, FileEntry]]
) -> dict[str, Seeds | None]:
    """Seeds by node type: the splits "train" of the types that have one, else all nodes.

    Raises
    ------
    FormatError
        If a file does not hold a split.
    ValueError
        If all these splits are empty.
    """
    named = {name: of["train"].resolve(folder) for name, of in splits.items() if "train" in of}
    if not named:
        return dict.fromkeys(splits)
    found: dict[str, Seeds | None] = {}
    for name, path in named.items():
        section = read_header(path).find("rows")
        if section is None or DTYPES[section.dtype] != np.int64:
            raise FormatError(f"{path} does not hold a split: build the dataset again")
        if section.count:
            found[name] = np.memmap(path, np.int64, "r", section.offset, (section.count,))
    if not found:
        raise ValueError("the training split has no nodes to sample from")
    return found


def read_node_times(folder: Path, rows: Rows, num_nodes: int, memory: int) -> npt.NDArray[np.int64]:
    """One time for each node, by the user's ids: where these are the times of the edges to them.

    Nodes without a row get 0 here: that they lack one is found when the attribute is written.

    Raises
    ------
    ValueError
        If an id is out of range, or a time does not fit int64.
    """
    times = temp_array(folder, num_nodes, np.int64, memory)
    most = np.iinfo(np.int64).max
    row = 0
    for ids, chunk in rows.chunks(_CHUNK):
        values = chunk[:, 0]
        bad = np.flatnonzero((ids >= num_nodes) | (values > most))
        if len(bad):
            at = int(bad[0])
            raise ValueError(
                f"{rows.name}, {rows.locate(row + at)}: node {ids[at]} with time {values[at]}: ids "
                f"go up to {num_nodes - 1}, times up to {most}"
            )
        times[ids] = values
        row += len(ids)
    return times


# The build


def _read_lists(
    folder: Path, given: GraphInput, options: WriteOptions, opened: ExitStack
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
            opened.callback(edges.close)
            prepared = prepare_edges(folder, edges, one.attributes, one.merging, options)
        lists[edge_type] = prepared
        where = str(edge_type) if given.layout.is_typed else ""
        options.closing.add(*describe_changes(prepared.changes), where=where)
    return lists, final_counts(given, bounds, {name: one.edges for name, one in lists.items()})


def _with_node_times(
    folder: Path, given: GraphInput, content: Content, options: WriteOptions
) -> Content:
    """Gives edges the times of the nodes that are in the lists, where these drive sampling."""
    timed: dict[EdgeType, tuple[str, str]] = {}
    for edge_type, one in given.edges.items():
        if one.driving.time is not None and one.driving.time_level == "node":
            timed[edge_type] = content.list_ends(edge_type)[1], one.driving.time
    found: dict[tuple[str, str], npt.NDArray[np.int64]] = {}
    # The order of nodes takes half of what it may.
    memory = options.order_memory // 2 // max(1, len(set(timed.values())))
    for name, time in set(timed.values()):
        with naming(name):
            rows = given.nodes[name].attributes[time]
            found[name, time] = read_node_times(folder, rows, content.counts[name], memory)
    lists = dict(content.lists)
    for edge_type, key in timed.items():
        lists[edge_type] = replace(lists[edge_type], node_times=found[key])
    return replace(content, lists=lists)


def _write_splits(
    folder: Path,
    types: str | EdgeType,
    splits: Mapping[str, Any],
    count: int,
    given: GraphInput,
    options: WriteOptions,
    staged: list[FileWriter],
    prepared: Prepared | None = None,
) -> dict[str, FileEntry]:
    """The splits of a node type, or of an edge type."""
    entries: dict[str, FileEntry] = {}
    of: Literal["node", "edge"] = "node" if prepared is None else "edge"
    with naming(types):
        for name, value in splits.items():
            file = write_split(
                folder / given.layout.split(types, name),
                name,
                value,
                count,
                memory=options.column_memory,
                of=of,
                remap=None if prepared is None else prepared.merged.remap,
            )
            staged.append(file)
            entries[name] = entry_of(file)
    return entries


def _write_dataset(
    folder: Path,
    given: GraphInput,
    wanted: BuildOptions,
    options: WriteOptions,
    staged: list[FileWriter],
) -> Manifest:
    """Writes every file, adds it to `staged`, and returns the manifest."""
    id_maps: dict[str, FileEntry] = {}
    with ExitStack() as opened:
        if wanted.maps_ids:
            paths = {name: folder / given.layout.id_map(name) for name in given.nodes}
            sources, memory = id_sources(given), options.sort_memory
            ids = collect_ids(paths, sources, memory, options.progress, staged)
            for of_type in ids.values():
                opened.callback(of_type.close)
            id_maps = {name: entry_of(file) for name, file in zip(paths, staged, strict=True)}
            for edge_type in given.edges:
                for name in dict.fromkeys((edge_type[0], edge_type[2])):
                    note = ids[name].table.described()
                    where = str(edge_type) if name else ""
                    options.closing.add(f"{name}: {note}" if name else note, where=where)
            given = with_nodes(given, ids)
        lists, counts = _read_lists(folder, given, options, opened)
        content = Content(
            given.layout,
            counts,
            {name: one.edges for name, one in lists.items()},
            {name: nodes.attributes for name, nodes in given.nodes.items()},
            {name: one.attributes for name, one in lists.items()},
            with_out_graph=options.neighbors == "both" and given.is_directed,
            may_lack_rows=True,
        )
        content = _with_node_times(folder, given, content, options)
        require_space(folder, content, options, "the build needs")
        splits = {
            name: _write_splits(folder, name, one.splits, counts[name], given, options, staged)
            for name, one in given.nodes.items()
        }
        edge_splits = {
            name: _write_splits(
                folder,
                name,
                one.splits,
                lists[name].edges.num_input_edges,
                given,
                options,
                staged,
                lists[name],
            )
            for name, one in given.edges.items()
        }
        if options.presampler is not None:
            content = replace(content, seeds=training_seeds(folder, splits))
        files = write_files(folder, content, options, staged)
        nodes = {}
        for name, one in given.nodes.items():
            with naming(name):
                labels = one.attributes.get("y")
                nodes[name] = NodeTable(
                    num_nodes=counts[name],
                    attributes=files.nodes[name],
                    splits=splits[name],
                    num_classes=None if labels is None else count_classes(labels),
                    ids=files.ids.get(name),
                    visits=files.visits.get(name),
                    id_map=id_maps.get(name),
                )
    edges = {}
    for edge_type, typed in given.edges.items():
        header, driving = files.graphs[edge_type].header, typed.driving
        is_typed = given.layout.is_typed
        edges[edge_type] = EdgeTable(
            num_edges=header.width,
            num_input_edges=header.num_input_edges,
            graph=entry_of(files.graphs[edge_type]),
            attributes=files.edges[edge_type],
            splits=edge_splits[edge_type],
            weight=driving.weight or (None if is_typed else EDGE_WEIGHT),
            time=driving.time or (None if is_typed else EDGE_TIME),
            time_level=driving.time_level,
            changes=lists[edge_type].changes or None,
        )
    return Manifest(
        nodes=nodes,
        edges=edges,
        neighbors=options.neighbors if given.is_directed else "both",
        order=options.order,
        presampling=files.presampling,
        directed=given.is_directed,
        out_graph=files.out_graph,
        extras=None if wanted.extras is None else _write_extras(folder, given, wanted, staged),
    )


def _write_extras(
    folder: Path, given: GraphInput, wanted: BuildOptions, staged: list[FileWriter]
) -> FileEntry:
    data = np.frombuffer(wanted.extras or b"", np.uint8)
    arrays = [("rows", data.dtype, len(data))]
    header = layout("features", arrays, num_nodes=len(data), width=1, flags=FLAG_VECTOR)
    with sealed_file(folder / given.layout.extras, header) as file:
        file.append("rows", data)
    staged.append(file)
    return entry_of(file)


def write_dataset(path: str | os.PathLike[str], options: BuildOptions) -> tuple[Manifest, Closing]:
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
        is_typed = given.layout.is_typed
        if options.presample is not None:
            options.presample.check_types(list(given.edges) if is_typed else None)
        for edge_type, one in given.edges.items():
            where, summary = str(edge_type) if is_typed else "", one.edges.summary
            how.closing.begin(
                summary, neighbors=how.neighbors, directed=options.directed, where=where
            )
        names = file_names(given, options)
        folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(folder):
            check_names(folder, names)
            earlier = recover(folder)
            write = partial(_write_dataset, folder, given, options, how)
            return replace_dataset(folder, earlier, write, inputs), how.closing


def build_dataset(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    **options: Any,
) -> Manifest:
    """`graphzero.build` in any memory limit, which neither opens the dataset nor says anything."""
    return write_dataset(path, BuildOptions(edges, features, labels, splits, **options))[0]
