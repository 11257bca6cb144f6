"""Attributes and splits of a dataset that exists are set or dropped, without a build.

Each is one new file in the stored order; all of them are one commit of the manifest.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphzero.ingest import dataset_files, graph_input
from graphzero.ingest.id_map import NodeIds, split_nodes
from graphzero.ingest.lists import NodeOrder, ends_of
from graphzero.ingest.merge import MergedEdges
from graphzero.ingest.options import AttributeOf, Progress, WriteOptions, check_attribute_name
from graphzero.ingest.row_files import fill_of, rows_layout
from graphzero.ingest.rows import NodeReading, Rows, count_classes, open_attribute
from graphzero.ingest.sort import temp_array
from graphzero.ingest.writer import DatasetWriter, changing_dataset
from graphzero.store.atomic import require_disk_space
from graphzero.store.format import Header, as_dtype, read_header
from graphzero.store.manifest import (
    EDGES,
    NODES,
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    NodeTable,
)
from graphzero.units import parse_size

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Changes:
    """What is set and dropped, of one type of nodes or edges.

    Attributes
    ----------
    of : str, tuple or None
        The type. Without types "node" or "edge"; None is "node".
    attributes, splits : mapping
        Values by name.
    drop_attributes, drop_splits : iterable of str
        Names.
    dtype : dtype-like, optional
        To store attributes in.
    id_column : str, int or False, optional
        Of tables of nodes, as in a build.
    """

    of: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    splits: Mapping[str, Any] = field(default_factory=dict)
    drop_attributes: Iterable[str] = ()
    drop_splits: Iterable[str] = ()
    dtype: Any = None
    id_column: str | int | bool | None = None

    def __post_init__(self) -> None:
        if self.dtype is not None:
            object.__setattr__(self, "dtype", as_dtype(self.dtype))


def change_dataset(
    path: str | os.PathLike[str],
    changes: Changes,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> None:
    """Sets and drops attributes and splits, in any memory limit; does not open the dataset.

    Raises
    ------
    ValueError
        Naming the file, the line and the wrong text; if there is no such type or name; or if what
        neighbours are sampled by would change.
    IndexError
        If a split has a node or an edge that does not exist.
    OSError
        With errno and path: no dataset, no disk space, or a build writes to the folder.
    """
    limit = parse_size(memory_limit, "memory limit")
    options = WriteOptions("input", None, limit, Progress(progress))
    with changing_dataset(path, options) as (writer, earlier):
        writer.commit(_Change(writer, earlier, changes).write())


def _type_of(manifest: Manifest, of: Any) -> str | EdgeType:
    """The type that `of` names."""
    if not manifest.is_typed:
        if of not in (None, "node", "edge"):
            raise ValueError(f"of={of!r}: the graph has no types, so that it is 'node' or 'edge'")
        return EDGES if of == "edge" else NODES
    key: Any = of
    if isinstance(of, str) and of not in manifest.nodes:
        key = tuple(of.split("__"))  # as the command line has edge types
    if key not in manifest.nodes and key not in manifest.edges:
        types = ", ".join(map(repr, (*manifest.nodes, *manifest.edges)))
        raise ValueError(f"of={of!r} is no type of nodes or edges: there are {types}")
    existing: str | EdgeType = key
    return existing


def dropped_edges(folder: Path, table: EdgeTable, memory: int) -> MergedEdges:
    """The self-loops that the build has dropped: those that the graph's file lacks.

    Parameters
    ----------
    folder : pathlib.Path
    table : EdgeTable
        Of edges that are found by their positions: see `require_positions`.
    memory : int
        Bytes that positions may take; more goes to a temporary file.
    """
    dropped = MergedEdges(folder, memory, num_loops=0)
    if table.changes is not None and table.changes.num_self_loops_dropped is not None:
        graph = dataset_files.open_stored_graph(table.graph.resolve(folder))
        is_stored = temp_array(folder, table.num_input_edges, np.bool_, memory)
        for begin in range(0, graph.header.width, _CHUNK):
            is_stored[graph.edge_ids(begin, min(begin + _CHUNK, graph.header.width))] = True
        for begin in range(0, table.num_input_edges, _CHUNK):
            missing = np.flatnonzero(~is_stored[begin : begin + _CHUNK])
            dropped.remove((begin + missing).astype(np.uint64))
    dropped.finish()
    return dropped


def _without(
    files: Mapping[str, FileEntry], dropped: Iterable[str], what: str
) -> dict[str, FileEntry]:
    """The files of attributes or splits without those that are dropped."""
    kept = dict(files)
    for name in dropped:
        if kept.pop(name, None) is None:
            names = ", ".join(map(repr, files)) or "none"
            raise ValueError(f"there is no {what} {name!r} to drop; there are {names}")
    return kept


def _classes_of(table: NodeTable | EdgeTable, kept: Collection[str]) -> dict[str, list[str]]:
    """The names of classes of the attributes that stay."""
    return {name: names for name, names in (table.classes or {}).items() if name in kept}


def _set_classes(classes: dict[str, list[str]], name: str, rows: Rows) -> None:
    """Has the classes of new rows of an attribute stand behind its earlier ones."""
    earlier = classes.pop(name, [])
    if rows.classes is not None:
        rows.classes.follow(earlier)
        classes[name] = rows.classes.names


@dataclass(frozen=True)
class _Change:
    """One change of a dataset."""

    writer: DatasetWriter
    earlier: Manifest
    changes: Changes

    def write(self) -> Manifest:
        """The new manifest."""
        key = _type_of(self.earlier, self.changes.of)
        with graph_input.naming(key):
            for name in (*self.changes.drop_attributes, *self.changes.attributes):
                self._check_sampling(key, name)
            if isinstance(key, str):
                nodes = {**self.earlier.nodes, key: self._nodes(key)}
                return replace(self.earlier, nodes=nodes)
            edges = {**self.earlier.edges, key: self._edges(key)}
            return replace(self.earlier, edges=edges)

    def _check_sampling(self, key: str | EdgeType, attribute: str) -> None:
        """Refuses attributes by which neighbours are sampled: the graph files hold copies."""
        for edge_type, table in self.earlier.edges.items():
            _, neighbor = ends_of(edge_type, self.earlier.incoming)
            header = read_header(table.graph.resolve(self.writer.folder))
            has_times = header.find("times") is not None
            used = set()
            if key == edge_type:
                used |= {table.weight} if header.find("weights") is not None else set()
                used |= {table.time} if has_times and table.time_level == "edge" else set()
            elif key == neighbor and has_times and table.time_level == "node":
                used |= {table.time}
            if attribute in used:
                raise ValueError(
                    f"neighbours are sampled by {attribute!r}, which is in the neighbour lists as "
                    f"well: build the dataset again to change it"
                )

    def _require_space(self, rows: Rows, header: Header) -> None:
        """For the file, and for the copy in which its rows are put in order."""
        options, size = self.writer.options, header.file_bytes
        copies = size if size > options.rows_memory // 8 else 0
        require_disk_space(self.writer.folder, size + copies, f"{rows.name} needs")

    def _check_name(self, name: str, of: AttributeOf) -> None:
        """Refuses a name of an attribute that the others do not allow."""
        check_attribute_name(name, of)
        tables = (self.earlier.edges if of == "node" else self.earlier.nodes).values()
        timed = {table.time for table in self.earlier.edges.values()}
        taken = {other for table in tables for other in table.attributes}
        if name in taken and (not self.earlier.is_typed or name in timed):
            raise ValueError(
                f"nodes and edges would both have an attribute {name!r}: choose another name, so "
                f"that it is clear which of them is meant"
            )

    # Nodes

    def _nodes(self, key: str) -> NodeTable:
        table, writer, changes = self.earlier.nodes[key], self.writer, self.changes
        attributes = _without(table.attributes, changes.drop_attributes, "attribute")
        splits = _without(table.splits, changes.drop_splits, "split")
        num_classes = table.num_classes if "y" in attributes else None
        classes = _classes_of(table, attributes)
        ids = dataset_files.stored_ids(writer.folder, table)
        order = dataset_files.stored_orders(writer.folder, self.earlier)[key]
        for name, value in changes.attributes.items():
            self._check_name(name, "node")
            rows = self._open_nodes(name, value, order, ids, has_labels="y" in attributes)
            _set_classes(classes, name, rows)
            if name == "y":
                num_classes = count_classes(rows)
            has_rank = order.node_rank is not None
            self._require_space(rows, rows_layout(rows, table.num_nodes, with_rank=has_rank))
            attributes[name] = writer.node_rows(
                writer.layout.node_rows(key, name), rows, order, fill=fill_of(name, rows)
            )
        if {"x", "y"} & changes.attributes.keys():
            dataset_files.refuse_labels(writer.folder, attributes, table.num_nodes)
        new_splits = {}
        for name, value in changes.splits.items():
            graph_input.check_split_name(name)
            new_splits[name] = value if ids is None else split_nodes(value, ids, name)
        splits |= writer.splits(key, new_splits, table.num_nodes)
        return replace(
            table,
            attributes=attributes,
            splits=splits,
            num_classes=num_classes,
            classes=classes or None,
        )

    def _open_nodes(
        self, name: str, value: Any, order: NodeOrder, ids: NodeIds | None, *, has_labels: bool
    ) -> Rows:
        """The rows of an attribute, one for each node."""
        path = getattr(value, "path", value)  # of a FeatureStore
        if isinstance(path, str | os.PathLike) and os.fspath(path).endswith(".gd"):
            rows, dtype = dataset_files.open_stored_rows(Path(path), order), self.changes.dtype
            return rows if dtype is None else rows.converted(dtype)
        reading = NodeReading(self.changes.id_column, ids, has_labels and name == "x")
        rows = graph_input.open_node_attribute(value, name, self.changes.dtype, reading)
        if ids is not None:
            graph_input.require_ids(name, rows)
        if rows.in_order and rows.count() != order.num_nodes:
            raise ValueError(
                f"{rows.name} has {rows.count()} rows for {order.num_nodes} nodes: every node "
                f"needs one"
            )
        return rows

    # Edges

    def _edges(self, key: EdgeType) -> EdgeTable:
        table, writer, changes = self.earlier.edges[key], self.writer, self.changes
        attributes = _without(table.attributes, changes.drop_attributes, "attribute")
        splits = _without(table.splits, changes.drop_splits, "split")
        classes, graph = _classes_of(table, attributes), table.graph.resolve(writer.folder)
        if changes.attributes or changes.splits:
            dataset_files.require_positions(writer.folder, table)
        for name, value in changes.attributes.items():
            self._check_name(name, "edge")
            rows = open_attribute(value, name, changes.dtype, of="edge")
            _set_classes(classes, name, rows)
            self._require_space(rows, rows_layout(rows, read_header(graph).width))
            attributes[name] = writer.edge_rows(writer.layout.edge_rows(key, name), rows, graph)
        if changes.splits:
            for name in changes.splits:
                graph_input.check_split_name(name)
            remap = dropped_edges(writer.folder, table, writer.options.column_memory).remap
            splits |= writer.splits(key, changes.splits, table.num_input_edges, remap)
        return replace(table, attributes=attributes, splits=splits, classes=classes or None)
