"""New nodes and edges join a dataset, and edges leave it: its files are copied with the changes.

The stored lists keep their order: the entries of new edges are sorted alone, and each finds its
place by a binary search in its list. New nodes stand at the end of the stored order.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError, user_line
from graphzero.ingest import graph_input, lists, sort
from graphzero.ingest.build import stored_orders
from graphzero.ingest.changes import has_link_split, require_positions, stored_ids
from graphzero.ingest.edges import EdgeList, IdBound, ReadColumn, read_edges
from graphzero.ingest.folder import entry_of, replace_dataset
from graphzero.ingest.id_map import NodeIds, learn_ids
from graphzero.ingest.lists import NodeOrder
from graphzero.ingest.merge import Merging, prepare_edges
from graphzero.ingest.options import BuildOptions, Progress, WriteOptions
from graphzero.ingest.row_files import write_split
from graphzero.ingest.rows import NodeReading, Rows, as_numbers, count_classes
from graphzero.ingest.sources.columns import checked_count
from graphzero.ingest.sources.tables import noting_inputs
from graphzero.ingest.stored import (
    StoredGraph,
    map_section,
    open_stored_array,
    open_stored_graph,
    open_stored_split,
)
from graphzero.store.atomic import folder_lock
from graphzero.store.folder import recover_dataset
from graphzero.store.format import (
    DTYPES,
    FileWriter,
    Header,
    id_dtype,
    layout,
    read_header,
    sealed_file,
)
from graphzero.store.id_table import BY_ID, TEXT, IdTable, id_table_layout
from graphzero.store.manifest import (
    EDGES,
    NODES,
    EdgeChanges,
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    NodeTable,
    SampledBy,
    read_manifest,
)
from graphzero.units import available_processors, parse_size, refuse_mask

Array = npt.NDArray[Any]
_CHUNK = 1 << 20
_PIECE_BYTES = 8 << 20
_SEARCHED = 1 << 18  # entries whose places are looked for at once
_NONE = np.empty(0, np.int64)
_ENDS = ("owners", "neighbors")
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def append_dataset(
    path: str | os.PathLike[str],
    edges: Any = None,
    nodes: Mapping[str, Any] | None = None,
    remove_edges: Any = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Manifest:
    """`graphzero.append` in any memory limit, which does not open the dataset."""
    limit = parse_size(memory_limit, "memory limit")
    options, folder = WriteOptions("input", None, limit, Progress(progress)), Path(path)
    read_manifest(folder)
    with sort.spooling_near(folder), noting_inputs() as inputs, folder_lock(folder):
        earlier = recover_dataset(folder)
        for option, value in (("edges", edges), ("remove_edges", remove_edges)):
            if earlier.is_typed and not isinstance(value, Mapping | None):
                there = ", ".join(map(repr, earlier.edges))
                raise ValueError(f"{option}= of a typed graph is a dict by edge type, of {there}")
        of_nodes: dict[Any, Any] = dict(nodes or {})
        of_edges: dict[Any, Any] = {} if edges is None else {EDGES: edges}
        gone: dict[Any, Any] = {} if remove_edges is None else {EDGES: remove_edges}
        if earlier.is_typed:
            of_edges, gone = dict(edges or {}), dict(remove_edges or {})
        elif of_nodes:
            of_nodes = {NODES: of_nodes}
        for option, given, known in (
            ("nodes", of_nodes, earlier.nodes),
            ("edges", of_edges, earlier.edges),
            ("remove_edges", gone, earlier.edges),
        ):
            for key in given.keys() - known.keys():
                there = ", ".join(map(repr, known))
                raise ValueError(f"{option}= has no type {key!r} here: there are {there}")
        if not (of_edges or of_nodes or gone):
            raise ValueError("there is nothing to append: give edges=, nodes= or both")
        before = stored_orders(folder, earlier)

        def write(staged: list[FileWriter]) -> Manifest:
            work = _Append(folder, earlier, options, staged, before)
            return work.write(of_edges, of_nodes, gone)

        return replace_dataset(folder, earlier, write, inputs)


@dataclass(frozen=True)
class _Picked:
    """Rows of an array in the order of positions, the least of which is `first`."""

    array: Array
    positions: Array
    first: int

    def __getitem__(self, part: Any) -> Array:
        found: Array = self.array[self.positions[part] - self.first]
        return found


class _Section:
    """A section of a file, which is compared with its checksum when all of it has been read.

    Else a new checksum would hide damage.
    """

    def __init__(
        self, path: Path, header: Header, name: str, row_shape: Sequence[int] = ()
    ) -> None:
        found = header.find(name)
        self._path, self._name, self._expected = path, name, found.crc if found else 0
        self._crc = 0
        array = map_section(path, header, name, found.count if found else 0)
        self.rows = array.reshape(-1, *row_shape)

    def __len__(self) -> int:
        return len(self.rows)

    def next(self, begin: int, end: int) -> Array:
        """The rows [begin, end), where `begin` is the end of the piece before."""
        found = self.rows[begin:end]
        self._crc = zlib.crc32(sort.bytes_of(found).data, self._crc)
        if end == len(self) and self._crc != self._expected:
            raise FormatError(
                f"{self._path}: section {self._name!r} is corrupt (checksum mismatch): build the "
                f"dataset again"
            )
        return found

    def whole(self) -> Array:
        """All rows, mapped."""
        for begin in range(0, len(self), _CHUNK):
            self.next(begin, min(begin + _CHUNK, len(self)))
        return self.rows


@dataclass(frozen=True)
class _Numbers:
    """The numbers from 0, as a section has them."""

    count: int
    rows = np.empty(1, np.int64)

    def __len__(self) -> int:
        return self.count

    def next(self, begin: int, end: int) -> Array:
        """The numbers [begin, end)."""
        return np.arange(begin, end)


def merged(
    old: _Section | _Numbers,
    new: Any,
    at: Array,
    gone: Array = _NONE,
    change: Callable[[Array], Array] | None = None,
    find: Callable[[int], object] = lambda _: None,
) -> Iterator[Array]:
    """The rows of a section with those of `new` among them, in pieces.

    `at` says how many old rows stand before each new one, and `gone` which old ones are left out;
    both are ascending. `change` is what becomes of old values. `find` is called with the end of a
    piece, before `at` is looked at up to there.
    """
    rows = max(1, _PIECE_BYTES // max(1, old.rows[:1].nbytes))
    begin = low = 0
    while begin < len(old) or low < len(at):
        end = min(begin + rows, len(old))
        find(end)
        high = int(np.searchsorted(at, end)) if end < len(old) else len(at)
        if high - low > rows:
            high = low + rows
            end = int(at[high])
        found = old.next(begin, end)
        first, last = np.searchsorted(gone, [begin, end]).tolist()
        out = gone[first:last] - begin
        found = np.delete(found, out, axis=0) if len(out) else found
        found = found if change is None else change(found)
        if low < high:
            places = at[low:high] - begin + np.arange(high - low)
            places -= np.searchsorted(out, at[low:high] - begin)
            is_old = np.ones(len(found) + high - low, np.bool_)
            is_old[places] = False
            both = np.empty((len(is_old), *found.shape[1:]), found.dtype)
            both[is_old] = found
            both[places] = new[low:high]
            found = both
        if len(found):  # all of a piece may be left out
            yield found
        begin, low = end, high


@dataclass
class _NewNodes:
    """The nodes of one type: how many are stored, how many there will be, and new rows."""

    stored: int
    count: int | None  # None until edges say it
    rows: dict[str, Rows] = field(default_factory=dict)

    @property
    def bound(self) -> IdBound:
        """The ids that edges may name."""
        if self.count is None:
            return IdBound()
        added = self.count - self.stored
        return IdBound(self.count, f"{self.stored} are stored, and nodes= adds {added}")


@dataclass
class _NewEdges:
    """The edges that one type gets, and the position of the first of them in its edge list."""

    edges: EdgeList
    attributes: dict[str, Rows]
    first: int
    changes: EdgeChanges


@dataclass
class _Entries:
    """Entries of new edges, sorted: how many stored ones stand before each, and what they are.

    The first `num_found` of `at` are known, the others larger than any.

    The columns are "owners" and "neighbors", stored ids, and sections of the graph file. `gone` are
    the stored entries that are left out.
    """

    at: Array
    columns: dict[str, Array]
    gone: Array = field(default_factory=lambda: _NONE)
    num_found: int = 0
    num_merged: int = 0  # edges that are stored already

    def find(self, graph: StoredGraph, end: int) -> None:
        """Finds the places before an entry, which are then read anyhow, or all."""
        at, width = self.at, graph.header.width
        while (found := self.num_found) < len(at) and (
            end == width or not found or at[found - 1] < end
        ):
            part = slice(found, found + _SEARCHED)
            at[part] = _places(graph, *(self.columns[name][part] for name in _ENDS))
            self.num_found = min(part.stop, len(at))

    def without_stored(self, graph: StoredGraph) -> _Entries:
        """Those of edges that are not stored yet."""
        self.find(graph, (header := graph.header).width)
        indptr = map_section(graph.path, header, "indptr", header.num_nodes + 1)
        indices = map_section(graph.path, header, "indices", header.width)
        owners, neighbors = (self.columns[name] for name in _ENDS)
        count = num_merged = 0
        for begin in range(0, len(self.at), _SEARCHED):
            part = slice(begin, begin + _SEARCHED)
            owner, last = owners[part].astype(np.int64), self.at[part] - 1
            is_stored = last >= indptr[np.minimum(owner, header.num_nodes)]
            is_stored[is_stored] = indices[last[is_stored]] == neighbors[part][is_stored]
            is_stored &= ~np.isin(last, self.gone)
            num_merged += int((is_stored & (graph.is_directed | (owner <= neighbors[part]))).sum())
            end = count + int(np.count_nonzero(~is_stored))
            for array in (self.at, *self.columns.values()):
                array[count:end] = array[part][~is_stored]
            count = end
        columns = {name: array[:count] for name, array in self.columns.items()}
        return _Entries(self.at[:count], columns, self.gone, count, num_merged)


def _grown(header: Header, num_rows: int) -> Header:
    """The header of rows of nodes or edges, for so many of them."""
    sizes = {"rows": num_rows * header.width, "node_rank": num_rows}
    arrays = [
        (one.name, DTYPES[one.dtype], sizes.get(one.name, one.count)) for one in header.sections
    ]
    return layout("features", arrays, num_nodes=num_rows, width=header.width, flags=header.flags)


@dataclass
class _Append:
    """An addition to a dataset, whose lock this process has."""

    folder: Path
    manifest: Manifest
    options: WriteOptions
    staged: list[FileWriter]
    before: dict[str, NodeOrder]
    after: dict[str, NodeOrder] = field(default_factory=dict)
    ids: dict[str, NodeIds] = field(default_factory=dict)  # of types whose ids are mapped
    id_maps: dict[str, FileEntry] = field(default_factory=dict)  # that have new ids
    nodes: dict[str, _NewNodes] = field(default_factory=dict)
    edges: dict[EdgeType, _NewEdges] = field(default_factory=dict)
    removed: dict[EdgeType, Array] = field(default_factory=dict)  # positions in the edge list

    def write(
        self,
        edges: Mapping[EdgeType, Any],
        nodes: Mapping[str, Any],
        removed: Mapping[EdgeType, Any],
    ) -> Manifest:
        """The new manifest; the files are added to `staged`."""
        manifest = self.manifest
        for key, value in removed.items():
            with graph_input.naming(key):
                self._check_edges(table := manifest.edges[key])
                require_positions(self.folder, table)
                self.removed[key] = removed_edges(value, table.num_input_edges)
        for name, of_nodes in manifest.nodes.items():
            if (ids := stored_ids(self.folder, of_nodes)) is not None:
                self.ids[name] = ids
            with graph_input.naming(name):
                self.nodes[name] = self._open_nodes(name, nodes.get(name, {}))
        given = graph_input.GraphInput({}, {})
        for key, content in edges.items():
            with graph_input.naming(key):
                given.edges[key] = self._open_edges(key, content)
        if self.ids:
            given = self._learn_ids(given)
        for key, one in given.edges.items():
            with graph_input.naming(key):
                self.edges[key] = self._read_edges(key, one, given.ends(key), len(edges))
        for name, new in self.nodes.items():
            if new.count is None:
                new.count = self._count_by_edges(name, new.stored)
            self.after[name] = self._extended(self.before[name], new)
        tables, out_graph = dict(manifest.edges), manifest.out_graph
        for key, table in manifest.edges.items():
            changes = key in self.edges or key in self.removed
            if changes or any(self._grows(name) for name in key[::2]):
                with graph_input.naming(key):
                    tables[key] = self._edges(key, table)
        if out_graph is not None and tables[EDGES] is not manifest.edges[EDGES]:
            out_graph = self._graph(EDGES, out_graph, manifest.layout.out_graph, False)[0]
        tables_of_nodes = {name: self._nodes(name) for name in manifest.nodes}
        return replace(manifest, nodes=tables_of_nodes, edges=tables, out_graph=out_graph)

    def _add(self, file: FileWriter) -> FileEntry:
        self.staged.append(file)
        return entry_of(file)

    def _require_equal(self, given: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
        """Refuses attributes of which the others have none, and the other way round."""
        for names, why in (
            (stored.keys() - given.keys(), "is missing, and what is new needs all of them"),
            (given.keys() - stored.keys(), "is not stored: set_attribute gives it to all before"),
        ):
            for name in sorted(names):
                there = ", ".join(map(repr, stored)) or "none"
                raise ValueError(
                    f"attribute {name!r} {why}; stored are {there}. Columns of an edge list are "
                    f"attributes by gz.Source(..., edge_attrs=[...])"
                )

    # Reading

    def _open_nodes(self, name: str, content: Mapping[str, Any]) -> _NewNodes:
        table = self.manifest.nodes[name]
        given = {key: value for key, value in content.items() if value is not None}
        count, is_mapped = given.pop("num_nodes", None), name in self.ids
        if count is not None and is_mapped:
            raise ValueError(
                "num_nodes= is for ids='dense': with ids='map', new nodes are those that nodes= "
                "names, or edges= where nodes have no attributes"
            )
        if not given and count is None:
            return _NewNodes(table.num_nodes, table.num_nodes if table.attributes else None)
        self._require_equal(given, table.attributes)
        rows, counts = {}, set() if count is None else {checked_count(count)}
        for attribute, value in given.items():
            entry, dtype = table.attributes[attribute], None
            if attribute == "x":  # a table's become float32, where nothing else is stored
                dtype = open_stored_array(entry.resolve(self.folder), table.num_nodes).dtype
            reading = NodeReading(ids=self.ids.get(name))
            one = graph_input.open_node_attribute(value, attribute, dtype, reading)
            one = self._as_stored(one, entry, table.num_nodes)
            rows[attribute] = one
            if not is_mapped:
                counts.add(one.count() - (0 if one.in_order else table.num_nodes))
        if is_mapped:
            return _NewNodes(table.num_nodes, None, rows)
        if len(counts) > 1:
            raise ValueError(f"attributes have different numbers of new nodes: {sorted(counts)}")
        (count,) = counts
        if count <= 0:
            raise ValueError(
                f"nodes= has no new nodes: {table.num_nodes} are stored, so that the first new one "
                f"has this id"
            )
        return _NewNodes(table.num_nodes, table.num_nodes + count, rows)

    def _as_stored(self, rows: Rows, entry: FileEntry, count: int) -> Rows:
        """New rows in the dtype of the stored ones, which must have their shape."""
        stored = open_stored_array(entry.resolve(self.folder), count)
        if rows.row_shape != stored.row_shape:
            raise ValueError(
                f"{rows.name} has rows of shape {rows.row_shape}, and those of shape "
                f"{stored.row_shape} are stored"
            )
        return rows.converted(stored.dtype)

    def _open_edges(self, key: EdgeType, content: Any) -> graph_input.EdgeTypeInput:
        manifest, table = self.manifest, self.manifest.edges[key]
        header = read_header(table.graph.resolve(self.folder))
        self._check_edges(table)
        has_weights, has_times = (header.find(name) is not None for name in ("weights", "times"))
        sampled_by = SampledBy(
            table.weight if has_weights else None,
            table.time if has_times else None,
            table.time_level,
        )
        options = BuildOptions(
            {key: content} if manifest.is_typed else content,
            directed=manifest.directed,
            neighbors="in" if manifest.incoming else "out",
            edge_ids=header.find("edge_ids") is not None,
            ids="map" if self.ids else "dense",
        )
        changes = table.changes or EdgeChanges()
        merges, drops = changes.num_merged is not None, changes.num_self_loops_dropped is not None
        merging = Merging(merges, drop_self_loops=drops, reverse=changes.reversed)
        one = graph_input.open_more_edges(
            key, content, options, sampled_by=sampled_by, merging=merging, ids=self.ids
        )
        if unused := one.edges.source.summary.unused:  # as a build says it
            warnings.warn(unused, UserWarning, stacklevel=user_line())
        self._require_equal(one.attributes, table.attributes)
        attributes = {
            name: self._as_stored(rows, table.attributes[name], header.width)
            for name, rows in one.attributes.items()
        }
        for name, needed, has in (
            ("weight", has_weights, one.edges.source.has_weights or one.edges.weight is not None),
            (
                "timestamp",
                has_times and table.time_level == "edge",
                one.edges.source.has_times or one.edges.time is not None,
            ),
        ):
            if needed != has:
                way = f"{name}=False ignores a column" if has else "give one for each edge"
                raise ValueError(
                    f"the stored edges have {'' if needed else 'no '}{name}s, and these "
                    f"{'do not' if needed else 'do'}: {way}"
                )
        return replace(one, attributes=attributes)

    def _read_edges(
        self,
        key: EdgeType,
        one: graph_input.EdgeTypeInput,
        ends: tuple[str, str],
        num_types: int,
    ) -> _NewEdges:
        found = read_edges(
            one.edges,
            self.folder,
            memory=self.options.column_memory // num_types,
            bounds=(self.nodes[ends[0]].bound, self.nodes[ends[1]].bound),
            progress=self.options.progress,
        )
        columns = dict(found.columns)
        first = self.manifest.edges[key].num_input_edges - len(self.removed.get(key, _NONE))
        if one.merging.reverse:
            columns |= {"source": columns["target"], "target": columns["source"]}
            found = replace(found, max_ids=found.max_ids[::-1])

        def positions(begin: int, end: int) -> Array:
            return np.arange(first + begin, first + end)

        columns["position"] = ReadColumn(np.dtype(np.int64), found.num_records, positions)
        found, how = replace(found, columns=columns), replace(one.merging, reverse=False)  # it is
        ready = prepare_edges(self.folder, found, {}, how, self.options, is_whole=False)
        return _NewEdges(ready.edges, one.attributes, first, ready.changes)

    def _learn_ids(self, given: graph_input.GraphInput) -> graph_input.GraphInput:
        """Adds new ids to the tables; the input with nodes in place of the user's ids."""
        for name, new in self.nodes.items():
            given.nodes[name] = graph_input.NodeInput(new.rows, {}, None)
            self.ids[name].why_unknown = "nodes= gives the attributes of new ones"
        # Those of nodes with attributes must be among these.
        by_edges = {name for name, new in self.nodes.items() if new.count is None and not new.rows}
        sources = graph_input.id_sources(replace(given, edges={}))
        for table, columns in graph_input.id_sources(replace(given, nodes={})):
            sources.append((table, [one for one in columns if one[1] in by_edges]))
        learning, files = {name for _, of in sources for _, name in of}, self.manifest.layout
        paths = {name: self.folder / files.of_nodes(name, "id_map") for name in sorted(learning)}
        how = [one for one in sources if one[1]], self.options.sort_memory, self.options.progress
        for name, temporary in learn_ids(paths, self.ids, *how):
            ids = self.ids[name]
            try:
                with IdTable(temporary.staged_path) as new_ids:
                    if len(new_ids):
                        self.id_maps[name] = self._extend_ids(paths[name], ids, new_ids)
            finally:
                temporary.discard()
        given = graph_input.with_nodes(given, self.ids)
        for name, new in self.nodes.items():
            new.rows, new.count = given.nodes[name].attributes, len(self.ids[name].table)
            if new.rows and new.count == new.stored:
                raise ValueError("nodes= has no new nodes: all ids in it are stored")
        return given

    def _extend_ids(self, path: Path, ids: NodeIds, new_ids: IdTable) -> FileEntry:
        """Writes a table with new ids behind the others, and has `ids` use it."""
        old, stored, size = ids.table, Path(ids.table.path), None
        header, count = read_header(stored), len(ids.table) + len(new_ids)
        if ids.is_text:
            size = len(old.text) + len(new_ids.text)
        by_id = old.by_id is not None or int(old.places(new_ids, 0, 1)[0]) < len(old)
        with sealed_file(path, id_table_layout(count, new_ids.dtype, size, by_id=by_id)) as file:
            for name in ("rows", TEXT) if ids.is_text else ("rows",):
                section = _Section(stored, header, name)
                for begin in range(0, len(section), _CHUNK):
                    file.append(name, section.next(begin, min(begin + _CHUNK, len(section))))
            for begin in range(0, len(new_ids), _CHUNK):
                rows = new_ids.rows[begin : begin + _CHUNK]
                file.append("rows", rows + np.uint64(len(old.text)) if ids.is_text else rows)
            if ids.is_text:
                file.append(TEXT, new_ids.text)
            if by_id:
                memory = self.options.order_memory // 4
                at = sort.temp_array(self.folder, len(new_ids), np.int64, memory)
                for begin in range(0, len(at), _SEARCHED):
                    end = min(begin + _SEARCHED, len(at))
                    at[begin:end] = old.places(new_ids, begin, end)
                nodes: _Section | _Numbers = _Numbers(len(old))
                if old.by_id is not None:
                    nodes = _Section(stored, header, BY_ID)
                for piece in merged(nodes, range(len(old), count), at):
                    file.append(BY_ID, piece)
        self.staged.append(file)
        ids.table = IdTable(file.staged_path)
        sort.close_with_build(ids.table.close)
        return entry_of(file)

    def _check_edges(self, table: EdgeTable) -> None:
        """Refuses edge lists whose edges were merged with values or pairs that are not stored."""
        changes, header = (
            table.changes or EdgeChanges(),
            read_header(table.graph.resolve(self.folder)),
        )
        has_values = table.attributes or header.find("weights") or header.find("times")
        if changes.symmetric or (changes.num_merged is not None and has_values):
            raise ValueError(
                "both directions of edges, or edges with attributes, were merged when the dataset "
                "was built, which new ones may need as well: build it again from all edges"
            )
        if has_link_split(self.folder, table):
            raise ValueError("LinkSplit has held out edges: build the dataset again from all edges")

    def _count_by_edges(self, name: str, stored: int) -> int:
        """How many nodes of a type there are, if new edges say so."""
        count, num_references = stored, stored
        for key, new in self.edges.items():
            for end, most in zip(key[::2], new.edges.max_ids, strict=True):
                if end == name:
                    count, num_references = max(count, most + 1), num_references + len(new.edges)
        if count > max(graph_input.ALWAYS_NODES, graph_input.NODES_PER_REFERENCE * num_references):
            raise ValueError(
                f"Node ids are too sparse: {count - 1:,} is the largest one in the new edges, and "
                f"{stored:,} nodes are stored; nodes={{'num_nodes': {count - stored}}} says that "
                f"there are so many new nodes"
            )
        return count

    # Nodes

    def _grows(self, name: str) -> bool:
        return self.after[name].num_nodes > self.before[name].num_nodes

    def _extended(self, order: NodeOrder, new: _NewNodes) -> NodeOrder:
        """The order with new nodes at its end."""
        assert new.count is not None
        if order.node_ids is None or new.count == order.num_nodes:
            return replace(order, num_nodes=new.count)
        found = []
        for old in (order.node_ids, order.node_rank):
            array = sort.temp_array(
                self.folder, new.count, id_dtype(new.count), self.options.order_memory // 4
            )
            for begin in range(0, len(old), _CHUNK):
                array[begin : begin + _CHUNK][: len(old) - begin] = old[begin : begin + _CHUNK]
            array[len(old) :] = np.arange(len(old), new.count)
            found.append(array)
        return NodeOrder(new.count, *found)

    def _nodes(self, name: str) -> NodeTable:
        table, new, order = self.manifest.nodes[name], self.nodes[name], self.after[name]
        if not self._grows(name):
            return table
        files = self.manifest.layout
        added = order.num_nodes - new.stored
        attributes = {}
        num_classes = table.num_classes
        for attribute, entry in table.attributes.items():
            rows = self._spooled(new.rows[attribute], added, new.stored)
            path = self.folder / files.node_rows(name, attribute)
            attributes[attribute] = self._rows(path, entry, rows, order)
            if attribute == "y":
                classes = count_classes(new.rows["y"])
                num_classes = max(num_classes or 0, classes or 0) or None
        visits = table.visits
        if visits is not None:
            zeros = np.zeros((added, 1), np.uint32)
            visits = self._rows(self.folder / files.of_nodes(name, "visits"), visits, zeros, order)
        ids = table.ids
        if ids is not None:
            last = np.arange(new.stored, order.num_nodes)[:, np.newaxis]
            ids = self._rows(self.folder / files.of_nodes(name, "ids"), ids, last, order)
        return replace(
            table,
            num_nodes=order.num_nodes,
            attributes=attributes,
            num_classes=num_classes,
            visits=visits,
            ids=ids,
            id_map=self.id_maps.get(name, table.id_map),
            num_ordered_nodes=self._ordered(table.num_ordered_nodes, table.num_nodes),
        )

    def _ordered(self, known: int | None, count: int) -> int | None:
        """How many nodes or edges were there when the nodes were ordered; `count` are stored."""
        return None if self.manifest.order == "input" else count if known is None else known

    def _spooled(self, rows: Rows, count: int, first: int) -> Array:
        """New rows as an array; `first` is the id of the first new node."""
        memory = self.options.rows_memory // 4
        found = sort.temp_array(self.folder, count * rows.width, rows.dtype, memory)
        found = found.reshape(count, rows.width)
        seen, row = np.zeros(count, np.bool_), 0
        for ids, chunk in rows.chunks(max(1, memory // (8 + rows.width * rows.dtype.itemsize))):
            at = ids if rows.in_order else ids.astype(np.int64) - first
            wrong = (at < 0) | (at >= count)
            wrong[~wrong] |= seen[at[~wrong]]
            if wrong.any():
                bad = int(wrong.argmax())
                place = f"{rows.name}, {rows.table.locate(row + bad)}"
                node = rows.user_id(ids[bad])
                raise ValueError(f"{place}: node {node} is not new, or has a row already")
            found[at], seen[at] = chunk, True
            row += len(ids)
        if row != count or not seen.all():
            raise ValueError(
                f"{rows.name} has {row} rows for {count} new nodes or edges: each needs one"
            )
        return found

    def _rows(
        self,
        path: Path,
        entry: FileEntry,
        new: Any,
        order: NodeOrder | None,
        entries: _Entries | None = None,
    ) -> FileEntry:
        """A file of rows with new ones at its end, or changed as the lists of a graph."""
        old = entry.resolve(self.folder)
        header = read_header(old)
        at, gone = (
            (np.full(len(new), header.num_nodes), _NONE)
            if entries is None
            else (entries.at, entries.gone)
        )
        count = header.num_nodes + len(at) - len(gone)
        with sealed_file(path, _grown(header, count)) as file:
            with self.options.progress.phase(f"writing {path.stem}", count) as advance:
                section = _Section(old, header, "rows", [header.width])
                for piece in merged(section, new, at, gone):
                    file.append("rows", piece)
                    advance(len(piece))
            if header.find("node_rank") is not None:
                assert order is not None
                _Section(old, header, "node_rank").whole()
                file.append("node_rank", order.node_rank)
            if header.find("row_shape") is not None:
                file.append("row_shape", _Section(old, header, "row_shape").whole())
        return self._add(file)

    # Edges

    def _edges(self, key: EdgeType, table: EdgeTable) -> EdgeTable:
        files = self.manifest.layout
        graph, entries, header = self._graph(
            key, table.graph, files.graph(key), self.manifest.incoming
        )
        new = self.edges.get(key)
        if new is None and key not in self.removed:  # only its nodes are more
            return replace(table, graph=graph)
        changes, more = table.changes, EdgeChanges() if new is None else new.changes
        if changes is not None and changes.num_merged is not None:
            merged = changes.num_merged + (more.num_merged or 0) + entries.num_merged
            changes = replace(changes, num_merged=merged)
        if changes is not None and changes.num_self_loops_dropped is not None:
            dropped = changes.num_self_loops_dropped + (more.num_self_loops_dropped or 0)
            dropped -= len(self.removed.get(key, _NONE))  # but for those that are stored
            dropped += len(entries.gone) // (1 if self.manifest.directed else 2)
            changes = replace(changes, num_self_loops_dropped=dropped)
        ordered = self._ordered(table.num_ordered_edges, table.num_input_edges)
        if ordered is not None:
            ordered -= int(np.searchsorted(self.removed.get(key, _NONE), ordered))
        attributes, splits = {}, dict(table.splits)
        for attribute, entry in table.attributes.items():
            rows: Any = _NONE
            if new is not None:
                array = self._spooled(new.attributes[attribute], new.edges.num_records, 0)
                rows = _Picked(array, entries.columns["edge_ids"], new.first)
            path = self.folder / files.edge_rows(key, attribute)
            attributes[attribute] = self._rows(path, entry, rows, None, entries)
        for name, entry in table.splits.items() if key in self.removed else ():
            positions = open_stored_split(entry.resolve(self.folder))
            positions = positions_after(self.removed[key], positions)
            path, count = self.folder / files.split(key, name), header.num_input_edges
            memory = self.options.column_memory
            split = write_split(
                path, name, positions[positions >= 0], count, memory=memory, of="edge"
            )
            splits[name] = self._add(split)
        return replace(
            table,
            graph=graph,
            attributes=attributes,
            splits=splits,
            num_edges=header.width,
            num_input_edges=header.num_input_edges,
            num_ordered_edges=ordered,
            changes=changes,
        )

    def _graph(
        self, key: EdgeType, entry: FileEntry, name: str, incoming: bool
    ) -> tuple[FileEntry, _Entries, Header]:
        """Writes the lists of an edge type with the entries of new edges; returns these, too."""
        ends = (key[2], key[0]) if incoming else (key[0], key[2])
        before, after = (tuple(of[end] for end in ends) for of in (self.before, self.after))
        graph = open_stored_graph(entry.resolve(self.folder), (before[0], before[1]))
        entries = self._entries(key, graph, after, incoming)
        old, removed = graph.edges(), self.removed.get(key, _NONE)
        entries.gone = _entries_of(graph, removed)
        if key in self.edges and self.edges[key].changes.num_merged is not None:
            entries = entries.without_stored(graph)
        count, num_edges = len(entries.at) - len(entries.gone), -len(removed)
        if key in self.edges:
            num_edges += self.edges[key].edges.num_records
        columns = {n: ReadColumn(c.dtype, len(c) + count, c.read) for n, c in old.columns.items()}
        more = graph.header.num_input_edges + num_edges
        header = lists.graph_layout(
            replace(old, columns=columns, num_user_edges=more),
            after[0],
            after[1] if self.manifest.is_typed else None,
        )
        with sealed_file(self.folder / name, header) as file:
            with self.options.progress.phase(f"writing {name}", header.width, "edges") as advance:
                self._write_lists(file, graph, entries, removed, advance)
            if header.find("node_ids") is not None:
                for section in ("node_ids", "node_rank"):
                    _Section(graph.path, graph.header, section).whole()
                file.append("node_ids", after[0].node_ids)
                file.append("node_rank", after[0].node_rank)
        return self._add(file), entries, header

    def _entries(
        self, key: EdgeType, graph: StoredGraph, after: tuple[NodeOrder, ...], incoming: bool
    ) -> _Entries:
        """Sorts the entries of new edges, and finds their places."""
        empty = np.empty(0, np.int64)
        if key not in self.edges:
            names = ("owners", "neighbors", "edge_ids", "weights", "times")
            return _Entries(empty, dict.fromkeys(names, empty))
        edges = replace(self.edges[key].edges, incoming=incoming)
        if self.manifest.edges[key].time_level == "node" and graph.header.find("times"):
            edges = replace(edges, node_times=self._node_times(key, incoming))
        dtypes = lists.payload_dtypes(edges)
        if "edge_ids" in dtypes:
            dtypes["edge_ids"] = np.dtype(np.int64)
        memory = self.options.sort_memory // 2
        run = sort.run_length(list(dtypes.values()), memory // 2)
        sorter = sort.EdgeSorter(self.folder, list(dtypes.values()), memory)
        for begin in range(0, edges.num_records, run):
            sorter.spill()
            sorter.add(*lists.entries(edges, begin, begin + run, *after))
        new = partial(sort.temp_array, self.folder, edges.num_stored, memory=memory // 8)
        at = new(dtype=np.int64)
        at[:] = np.iinfo(np.int64).max
        columns = {"owners": new(dtype=np.uint32), "neighbors": new(dtype=np.uint32)}
        columns |= {name: new(dtype=dtype) for name, dtype in dtypes.items()}
        done = 0
        for keys, payload in sort.sorted_pieces(sorter, _SEARCHED):
            part = slice(done, done + len(keys))
            columns["owners"][part], columns["neighbors"][part] = keys >> _HALF, keys & _LOW
            for name, values in zip(dtypes, payload, strict=True):
                columns[name][part] = values
            done += len(keys)
        return _Entries(at, columns)

    def _node_times(self, key: EdgeType, incoming: bool) -> Array:
        """The time of each node that may be in the lists, by the user's ids."""
        name, attribute = key[0] if incoming else key[2], self.manifest.edges[key].time
        assert attribute is not None
        order, new = self.before[name], self.nodes[name]
        entry = self.manifest.nodes[name].attributes[attribute]
        header = read_header(path := entry.resolve(self.folder))
        rows = _Section(path, header, "rows").whole()
        memory = self.options.order_memory // 4
        times = sort.temp_array(self.folder, self.after[name].num_nodes, np.int64, memory)
        for begin in range(0, order.num_nodes, _CHUNK):
            end = min(begin + _CHUNK, order.num_nodes)
            ids = slice(begin, end) if order.node_ids is None else order.node_ids[begin:end]
            times[ids] = rows[begin:end]
        if attribute in new.rows:
            added = len(times) - order.num_nodes
            of_new = self._spooled(new.rows[attribute], added, order.num_nodes)
            times[order.num_nodes :] = as_numbers(of_new[:, 0])
        return times

    def _write_lists(
        self,
        file: FileWriter,
        graph: StoredGraph,
        entries: _Entries,
        removed: Array,
        advance: Any,
    ) -> None:
        header, count, columns = graph.header, file.header.num_nodes, entries.columns
        memory = self.options.sort_memory // 4
        starts = sort.temp_array(self.folder, count + 1, np.int64, memory)
        stored = _Section(graph.path, header, "indptr").whole()
        for begin in range(0, count + 1, _CHUNK):
            end = min(begin + _CHUNK, count + 1)
            known = min(end, len(stored))
            starts[begin:known] = stored[begin:known]
            starts[max(begin, known) : end] = stored[-1]
            starts[begin:end] -= np.searchsorted(entries.gone, starts[begin:end])
            low, high = np.searchsorted(columns["owners"], [begin, end - 1]).tolist()
            counts = np.bincount(columns["owners"][low:high] - begin, minlength=end - begin)
            starts[begin:end] += low + np.cumsum(counts) - counts
            file.append("indptr", starts[begin:end])
        new = {"indices": columns["neighbors"], **columns}
        for name in ("indices", "edge_ids", "weights", "times"):
            if header.find(name) is None:
                continue
            old = _Section(graph.path, header, name)
            done, sums = 0, lists.ListSums()
            time_order = lists.TimeOrderWriter(file, self.folder, memory)
            change = partial(positions_after, removed) if name == "edge_ids" else None
            find = partial(entries.find, graph)
            pieces = merged(old, new[name], entries.at, entries.gone, change, find)
            for piece in _writing(file, name, pieces):
                step = time_order.most_entries if name == "times" else len(piece)
                for begin in range(0, len(piece) if name in ("weights", "times") else 0, step):
                    part = piece[begin : begin + step]
                    owners = _owners(starts, done, done + len(part))
                    if name == "weights":
                        file.append("cum_weights", sums.add(owners, part))
                    else:
                        time_order.add(owners, part)
                    done += len(part)
                if name == "indices":
                    advance(len(piece))
            if name == "times":
                time_order.finish()


def removed_edges(value: Any, num_edges: int | None = None) -> Array:
    """Positions of edges, or a mask of them, as ascending positions, each once.

    Raises
    ------
    IndexError
        If one is out of range.
    ValueError
        If it is neither.
    """
    given = np.asarray(value)
    is_mask = given.dtype == np.bool_
    if given.ndim != 1 or (given.dtype.kind not in "iub" and given.size):
        raise ValueError(
            f"remove_edges must be positions in the edge list, or a mask of it, not {given.dtype} "
            f"of shape {given.shape}"
        )
    if is_mask and num_edges not in (None, len(given)):
        raise ValueError(f"remove_edges is a mask of {len(given)} values for {num_edges} edges")
    if not is_mask and num_edges is not None:
        refuse_mask([given], len(given), num_edges, "remove_edges")
    found = np.flatnonzero(given) if is_mask else np.unique(given.astype(np.int64))
    for bad in found[(found < 0) | (found >= (1 << 62 if num_edges is None else num_edges))][:1]:
        raise IndexError(f"remove_edges: edge {bad} is out of range for {num_edges} edges")
    return found


def positions_after(removed: Array, positions: Any) -> Array:
    """Positions in the edge list after edges were removed, -1 for those, int64."""
    positions = np.asarray(positions)
    if not len(removed):
        found: Array = positions.astype(np.int64)
        return found
    before = np.searchsorted(removed, positions)
    is_gone = np.searchsorted(removed, positions, "right") > before
    found = positions.astype(np.int64) - before
    found[is_gone] = -1
    return found


def _entries_of(graph: StoredGraph, removed: Array) -> Array:
    """The entries of some edges in the lists, ascending."""
    found = [_NONE]
    for begin in range(0, graph.header.width if len(removed) else 0, _CHUNK):
        ids = graph.edge_ids(begin, min(begin + _CHUNK, graph.header.width))
        found.append(begin + np.flatnonzero(positions_after(removed, ids) < 0))
    return np.concatenate(found)


def _writing(file: FileWriter, name: str, pieces: Iterable[Array]) -> Iterator[Array]:
    """Appends pieces to a section, each in a thread while the next one is made."""
    with ThreadPoolExecutor(1) as thread:
        written = thread.submit(lambda: None)
        for piece in pieces:
            written.result()
            written = thread.submit(file.append, name, piece)
            yield piece
        written.result()


def _owners(starts: Array, begin: int, end: int) -> Array:
    """The nodes in whose lists the entries [begin, end) are."""
    first, last = (int(np.searchsorted(starts, at, "right")) - 1 for at in (begin, end - 1))
    bounds = np.clip(starts[first : last + 2], begin, end)
    return np.repeat(np.arange(first, last + 1, dtype=np.uint64), np.diff(bounds))


def _places(graph: StoredGraph, owners: Array, neighbors: Array) -> Array:
    """How many stored entries stand before those of such ends: equal ones do."""
    header = graph.header
    indptr = map_section(graph.path, header, "indptr", header.num_nodes + 1)
    indices = map_section(graph.path, header, "indices", header.width)
    try:
        return _core.entry_places(indptr, indices, owners, neighbors, available_processors())
    except FormatError:
        raise FormatError(f"{graph.path} is corrupt: build the dataset again") from None
