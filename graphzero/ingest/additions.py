"""New nodes and edges that are to join a dataset, and edges that leave: opened, read, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphzero.errors import warn_user
from graphzero.ingest import dataset_files, graph_input, sort
from graphzero.ingest.edges import EdgeList, IdBound, ReadColumn, read_edges
from graphzero.ingest.graph_input import EdgeTypeInput, GraphInput, NodeInput, naming
from graphzero.ingest.id_map import NodeIds, learn_ids
from graphzero.ingest.insertion import (
    NO_POSITIONS,
    NumberSection,
    RowSection,
    StoredSection,
    merged_pieces,
    removed_positions,
)
from graphzero.ingest.merge import Merging, prepare_edges
from graphzero.ingest.options import BuildOptions
from graphzero.ingest.row_files import fill_of
from graphzero.ingest.rows import NodeReading, Rows
from graphzero.ingest.sort import Array
from graphzero.ingest.sources.columns import checked_count
from graphzero.ingest.writer import DatasetWriter
from graphzero.store.format import read_header, sealed_file
from graphzero.store.id_table import BY_ID, TEXT, IdTable, id_table_layout
from graphzero.store.manifest import (
    EDGE_TIME,
    EDGE_WEIGHT,
    EdgeChanges,
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    NodeTable,
    SampledBy,
)

_CHUNK = 1 << 20
_SEARCHED = 1 << 18  # ids whose places are looked for at once


@dataclass
class NewNodes:
    """The nodes of one type: how many are stored, how many there will be, and new rows."""

    num_stored: int
    count: int | None  # None until edges, and tables of some of them, say it
    rows: dict[str, Rows] = field(default_factory=dict)

    @property
    def bound(self) -> IdBound:
        """The ids that edges may name."""
        if self.count is None:
            return IdBound()
        added = self.count - self.num_stored
        return IdBound(self.count, f"{self.num_stored} are stored, and nodes= adds {added}")


@dataclass(frozen=True)
class NewEdges:
    """The edges that one type gets, and the position of the first of them in its edge list."""

    edges: EdgeList
    attributes: dict[str, Rows]
    first: int
    changes: EdgeChanges


def _require_equal(names: Mapping[str, object], stored: Mapping[str, object]) -> None:
    """Refuses attributes of which the others have none, and the other way round."""
    for different, why in (
        (stored.keys() - names.keys(), "is missing, and what is new needs all of them"),
        (names.keys() - stored.keys(), "is not stored: set_attribute gives it to all before"),
    ):
        for name in sorted(different):
            listed = ", ".join(map(repr, stored)) or "none"
            raise ValueError(
                f"attribute {name!r} {why}; stored are {listed}. Columns of an edge list are "
                f"attributes by gz.Source(..., edge_attrs=[...])"
            )


def _as_stored(rows: Rows, stored: Rows) -> Rows:
    """New rows in the dtype of the stored ones, which must have their shape."""
    if rows.row_shape != stored.row_shape:
        raise ValueError(
            f"{rows.name} has rows of shape {rows.row_shape}, and those of shape "
            f"{stored.row_shape} are stored"
        )
    return rows.converted(stored.dtype)


def _follow_classes(name: str, rows: Rows, stored: list[str] | None) -> None:
    """Has new classes stand behind the stored ones; refuses numbers beside names."""
    if (stored is None) != (rows.classes is None):
        kinds = ("numbers", "the names of classes")
        of_stored, of_rows = kinds if stored is None else kinds[::-1]
        raise ValueError(
            f"{rows.name}: {name!r} was built from {of_stored}, and these are {of_rows}: give "
            f"{of_stored}, or replace the whole attribute by gz.set_attribute"
        )
    if stored is not None and rows.classes is not None:
        rows.classes.follow(stored)


def _require_alike(source: EdgeTypeInput, sampled_by: SampledBy) -> None:
    """Refuses weights and times that the stored edges lack, and the other way round."""
    edges = source.edges
    has_weights = edges.source.has_weights or edges.weight is not None
    has_times = edges.source.has_times or edges.time is not None
    needs_times = sampled_by.time is not None and sampled_by.time_level == "edge"
    for name, needed, has in (
        ("weight", sampled_by.weight is not None, has_weights),
        ("timestamp", needs_times, has_times),
    ):
        if needed != has:
            way = f"{name}=False ignores a column" if has else "give one for each edge"
            raise ValueError(
                f"the stored edges have {'' if needed else 'no '}{name}s, and these "
                f"{'do not' if needed else 'do'}: {way}"
            )


def _require_mergeable(folder: Path, table: EdgeTable) -> None:
    """Refuses edge lists whose edges were merged with values or pairs that are not stored."""
    changes, header = table.changes or EdgeChanges(), read_header(table.graph.resolve(folder))
    has_values = table.attributes or header.find("weights") or header.find("times")
    if changes.symmetric or (changes.num_merged is not None and has_values):
        raise ValueError(
            "both directions of edges, or edges with attributes, were merged when the dataset "
            "was built, which new ones may need as well: build it again from all edges"
        )
    if dataset_files.has_link_split(folder, table):
        raise ValueError("LinkSplit has held out edges: build the dataset again from all edges")


@dataclass
class Additions:
    """What joins a dataset, and what leaves it.

    Attributes
    ----------
    writer : DatasetWriter
        Gets the tables of ids.
    earlier : Manifest
    nodes : dict of str to NewNodes
        Every node type.
    edges : dict of EdgeType to NewEdges
        Edge types that get some.
    removed : dict of EdgeType to (n,) int64
        Positions in the edge list, ascending.
    id_maps : dict of str to FileEntry
        Tables of ids that have new ones.
    """

    writer: DatasetWriter
    earlier: Manifest
    nodes: dict[str, NewNodes] = field(default_factory=dict)
    edges: dict[EdgeType, NewEdges] = field(default_factory=dict)
    removed: dict[EdgeType, Array] = field(default_factory=dict)
    id_maps: dict[str, FileEntry] = field(default_factory=dict)
    _ids: dict[str, NodeIds] = field(default_factory=dict)  # of types whose ids are mapped

    def read(
        self,
        edges: Mapping[EdgeType, Any],
        nodes: Mapping[str, Any],
        removed: Mapping[EdgeType, Any],
    ) -> None:
        """Reads what the user gives, by type.

        Raises
        ------
        ValueError, IndexError
            Saying what does not fit the dataset.
        """
        folder = self.writer.folder
        for edge_type, value in removed.items():
            table = self.earlier.edges[edge_type]
            with naming(edge_type):
                _require_mergeable(folder, table)
                dataset_files.require_positions(folder, table)
                self.removed[edge_type] = removed_positions(value, table.num_input_edges)
        for name, node_table in self.earlier.nodes.items():
            if (ids := dataset_files.stored_ids(folder, node_table)) is not None:
                self._ids[name] = ids
            with naming(name):
                self.nodes[name] = self._open_nodes(name, node_table, nodes.get(name, {}))
        graph = GraphInput({}, {})
        for edge_type, content in edges.items():
            with naming(edge_type):
                graph.edges[edge_type] = self._open_edges(edge_type, content)
        if self._ids:
            graph = self._learn_ids(graph)
        for edge_type in graph.edges:
            with naming(edge_type):
                self.edges[edge_type] = self._read_edges(edge_type, graph)
        for name, new in self.nodes.items():
            if new.count is None:
                new.count = self._count_by_ids(name, new)

    # Nodes

    def _open_nodes(self, name: str, table: NodeTable, content: Mapping[str, Any]) -> NewNodes:
        values = {key: value for key, value in dict(content).items() if value is not None}
        count, is_mapped = values.pop("num_nodes", None), name in self._ids
        if count is not None and is_mapped:
            raise ValueError(
                "num_nodes= is for ids='dense': with ids='map', new nodes are those that nodes= "
                "names, or edges= where nodes have no attributes"
            )
        if not values and count is None:
            return NewNodes(table.num_nodes, table.num_nodes if table.attributes else None)
        _require_equal(values, table.attributes)
        rows, counts = {}, set() if count is None else {checked_count(count)}
        named: set[int] = set()  # nodes up to the last that a table of some has
        for attribute, value in values.items():
            path = table.attributes[attribute].resolve(self.writer.folder)
            stored = dataset_files.open_stored_array(path, table.num_nodes)
            # A table's features become float32, where nothing else is stored.
            has_decimals = attribute == "x" or stored.dtype.kind == "f"
            dtype = stored.dtype if has_decimals else None
            reading = NodeReading(ids=self._ids.get(name))
            opened = graph_input.open_node_attribute(value, attribute, dtype, reading)
            if is_mapped:
                graph_input.require_ids(attribute, opened)
            _follow_classes(attribute, opened, (table.classes or {}).get(attribute))
            opened = rows[attribute] = _as_stored(opened, stored)
            if not is_mapped:
                may_lack = not opened.in_order and fill_of(attribute, opened) is not None
                num_new = opened.count() - (0 if opened.in_order else table.num_nodes)
                (named if may_lack else counts).add(num_new)
        if is_mapped:
            return NewNodes(table.num_nodes, None, rows)
        num_new = max(counts or named)
        if len(counts) > 1 or max(named, default=0) > num_new:
            numbers = sorted(counts | named)
            raise ValueError(f"attributes have different numbers of new nodes: {numbers}")
        if num_new <= 0:
            raise ValueError(
                f"nodes= has no new nodes: {table.num_nodes} are stored, so that the first new one "
                f"has this id"
            )
        return NewNodes(table.num_nodes, table.num_nodes + num_new if counts else None, rows)

    def _count_by_ids(self, name: str, new: NewNodes) -> int:
        """How many nodes of a type there are, if new edges and tables of some of them say so."""
        num_stored = new.num_stored
        count = max([num_stored, *(rows.count() for rows in new.rows.values())])
        num_references = num_stored + sum(rows.num_ids for rows in new.rows.values())
        for edge_type, added in self.edges.items():
            for end, largest in zip(edge_type[::2], added.edges.max_ids, strict=True):
                if end == name:
                    count = max(count, largest + 1)
                    num_references += len(added.edges)
        if graph_input.are_sparse(count, num_references):
            raise ValueError(
                f"Node ids are too sparse: {count - 1:,} is the largest new one, and "
                f"{num_stored:,} nodes are stored; nodes={{'num_nodes': {count - num_stored}}} "
                f"says that there are so many new nodes"
            )
        return count

    # Edges

    def _open_edges(self, edge_type: EdgeType, content: Any) -> EdgeTypeInput:
        earlier, table = self.earlier, self.earlier.edges[edge_type]
        header = read_header(table.graph.resolve(self.writer.folder))
        _require_mergeable(self.writer.folder, table)
        sampled_by = SampledBy(
            table.weight if header.find("weights") else None,
            table.time if header.find("times") else None,
            table.time_level,
        )
        options = BuildOptions(
            {edge_type: content} if earlier.is_typed else content,
            directed=earlier.directed,
            neighbors="in" if earlier.incoming else "out",
            edge_ids=header.find("edge_ids") is not None,
            ids="map" if self._ids else "dense",
        )
        changes = table.changes or EdgeChanges()
        merging = Merging(
            coalesce=changes.num_merged is not None,
            drop_self_loops=changes.num_self_loops_dropped is not None,
            reverse=changes.reversed,
        )
        time = sampled_by.time if sampled_by.time_level == "edge" else None
        drawn_by = {sampled_by.weight, time} - {None, EDGE_WEIGHT, EDGE_TIME}
        stored = {*table.attributes, *filter(None, drawn_by)}
        columns = graph_input.open_typed_edges(
            edge_type, content, options, merging, ids=self._ids, stored=stored
        )
        graph_input.warn_of_ends(edge_type, columns, merging)
        source = graph_input.edges_of_type(columns, options, sampled_by, merging)
        if unused := columns.summary.unused:
            warn_user(f"{unused}; the stored edges have no such attributes")
        _require_equal(source.attributes, table.attributes)
        attributes: dict[str, Rows] = {}
        for name, rows in source.attributes.items():
            path = table.attributes[name].resolve(self.writer.folder)
            _follow_classes(name, rows, (table.classes or {}).get(name))
            attributes[name] = _as_stored(rows, dataset_files.open_stored_array(path, header.width))
        _require_alike(source, sampled_by)
        return replace(source, attributes=attributes)

    def _read_edges(self, edge_type: EdgeType, graph: GraphInput) -> NewEdges:
        source, options, nodes = graph.edges[edge_type], self.writer.options, self.nodes
        start, end = graph.ends(edge_type)
        bounds = nodes[start].bound, nodes[end].bound
        edges = read_edges(source.edges, self.writer.folder, options, bounds, len(graph.edges))
        first = self.earlier.edges[edge_type].num_input_edges
        first -= len(self.removed.get(edge_type, NO_POSITIONS))

        def positions(begin: int, end: int) -> Array:
            return np.arange(first + begin, first + end)

        columns = dict(edges.columns)
        columns["position"] = ReadColumn(np.dtype(np.int64), edges.num_records, positions)
        placed = replace(edges, columns=columns)
        prepared = prepare_edges(
            self.writer.folder, placed, {}, source.merging, options, is_whole=False
        )
        return NewEdges(prepared.edges, source.attributes, first, prepared.changes)

    # Ids

    def _learn_ids(self, graph: GraphInput) -> GraphInput:
        """Adds new ids to the tables; the input with nodes in place of the user's ids."""
        nodes, options, layout = self.nodes, self.writer.options, self.earlier.layout
        for name, new in nodes.items():
            graph.nodes[name] = NodeInput(new.rows, {}, None)
            self._ids[name].why_unknown = "nodes= gives the attributes of new ones"
        # Those of nodes with attributes must be among these.
        by_edges = {name for name, new in nodes.items() if new.count is None and not new.rows}
        sources = graph_input.id_sources(replace(graph, edges={}))
        for table, columns in graph_input.id_sources(replace(graph, nodes={})):
            sources.append((table, [column for column in columns if column[1] in by_edges]))
        sources = [source for source in sources if source[1]]
        names = sorted({name for _, columns in sources for _, name in columns})
        paths = {name: self.writer.folder / layout.of_nodes(name, "id_map") for name in names}
        for name, temporary in learn_ids(paths, self._ids, sources, options):
            try:
                with IdTable(temporary.staged_path) as new_ids:
                    if len(new_ids):
                        entry = self._extend_ids(paths[name], self._ids[name], new_ids)
                        self.id_maps[name] = entry
            finally:
                temporary.discard()
        graph = graph_input.with_nodes(graph, self._ids, self.writer.folder)
        for name, new in nodes.items():
            new.rows, new.count = graph.nodes[name].attributes, len(self._ids[name].table)
            if new.rows and new.count == new.num_stored:
                raise ValueError("nodes= has no new nodes: all ids in it are stored")
        return graph

    def _extend_ids(self, path: Path, ids: NodeIds, new_ids: IdTable) -> FileEntry:
        """Writes a table with new ids behind the others, and has `ids` use it."""
        table, text_bytes = ids.table, None
        stored = Path(table.path)
        header, count = read_header(stored), len(table) + len(new_ids)
        if ids.is_text:
            text_bytes = len(table.text) + len(new_ids.text)
        by_id = table.by_id is not None or int(table.places(new_ids, 0, 1)[0]) < len(table)
        layout = id_table_layout(count, new_ids.dtype, text_bytes, by_id=by_id)
        with sealed_file(path, layout) as file:
            for name in ("rows", TEXT) if ids.is_text else ("rows",):
                for piece in StoredSection(stored, header, name).pieces():
                    file.append(name, piece)
            for begin in range(0, len(new_ids), _CHUNK):
                rows = new_ids.rows[begin : begin + _CHUNK]
                file.append("rows", rows + np.uint64(len(table.text)) if ids.is_text else rows)
            if ids.is_text:
                file.append(TEXT, new_ids.text)
            if by_id:
                nodes: RowSection = NumberSection(len(table))
                if table.by_id is not None:
                    nodes = StoredSection(stored, header, BY_ID)
                new_nodes: Sequence[int] = range(len(table), count)
                for (piece,) in merged_pieces([nodes], [new_nodes], self._places(table, new_ids)):
                    file.append(BY_ID, piece)
        entry = self.writer.add(file)
        ids.use(file.staged_path)
        return entry

    def _places(self, table: IdTable, new_ids: IdTable) -> Array:
        """How many ids of a table stand before each new one, where it is ordered by ids."""
        memory = self.writer.options.order_memory // 4
        places = sort.temp_array(self.writer.folder, len(new_ids), np.int64, memory)
        for begin in range(0, len(places), _SEARCHED):
            end = min(begin + _SEARCHED, len(places))
            places[begin:end] = table.places(new_ids, begin, end)
        return places
