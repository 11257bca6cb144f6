"""Attributes and splits of a dataset that exists are set or dropped, without a build.

Each is one new file in the stored order; all of them are one commit of the manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphzero.ingest import stored
from graphzero.ingest.build import stored_orders
from graphzero.ingest.folder import entry_of, replace_dataset
from graphzero.ingest.graph_input import (
    check_split_name,
    naming,
    open_node_attribute,
)
from graphzero.ingest.id_map import NodeIds, split_nodes
from graphzero.ingest.lists import NodeOrder
from graphzero.ingest.merge import MergedEdges
from graphzero.ingest.options import Progress, WriteOptions
from graphzero.ingest.row_files import (
    Remap,
    rows_layout,
    write_edge_rows,
    write_rows,
    write_split,
)
from graphzero.ingest.rows import (
    NodeReading,
    Rows,
    count_classes,
    open_attribute,
)
from graphzero.ingest.sort import close_with_build, spooling_near, temp_array
from graphzero.ingest.sources.tables import noting_inputs
from graphzero.store.atomic import folder_lock, require_disk_space
from graphzero.store.attribute_names import AttributeOf, check_attribute_name
from graphzero.store.folder import recover_dataset
from graphzero.store.format import FileWriter, Header, read_header
from graphzero.store.id_table import IdTable
from graphzero.store.manifest import (
    EDGES,
    NODES,
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    NodeTable,
    read_manifest,
)
from graphzero.units import parse_size

_AGAIN = "build the dataset again"
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
    dtype : numpy.dtype, optional
        To store attributes in.
    id_column : str, int or False, optional
        Of tables of nodes, as in a build.
    """

    of: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    splits: Mapping[str, Any] = field(default_factory=dict)
    drop_attributes: Iterable[str] = ()
    drop_splits: Iterable[str] = ()
    dtype: np.dtype[Any] | None = None
    id_column: str | int | bool | None = None


def change_dataset(
    path: str | os.PathLike[str],
    changes: Changes,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Manifest:
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
    options, folder = WriteOptions("input", None, limit, Progress(progress)), Path(path)
    read_manifest(folder)
    with spooling_near(folder), noting_inputs() as inputs, folder_lock(folder):
        earlier = recover_dataset(folder)
        return replace_dataset(
            folder,
            earlier,
            lambda staged: _Change(folder, earlier, changes, options, staged).write(),
            inputs,
        )


def _type_of(manifest: Manifest, of: Any) -> str | EdgeType:
    """The type that `of` names."""
    if not manifest.is_typed:
        if of not in (None, "node", "edge"):
            raise ValueError(f"of={of!r}: the graph has no types, so that it is 'node' or 'edge'")
        return EDGES if of == "edge" else NODES
    key: Any = of
    if isinstance(of, str) and of not in manifest.nodes:
        key = tuple(of.split("__"))  # as the command line has edge types
    if key in manifest.nodes or key in manifest.edges:
        found: str | EdgeType = key
        return found
    there = ", ".join(map(repr, (*manifest.nodes, *manifest.edges)))
    raise ValueError(f"of={of!r} is no type of nodes or edges: there are {there}")


def stored_ids(folder: Path, table: NodeTable) -> NodeIds | None:
    """The user's ids of the nodes of a type, where these are not their numbers."""
    if table.id_map is None:
        return None
    of_users = IdTable(table.id_map.resolve(folder))
    close_with_build(of_users.close)
    found = NodeIds(is_text=of_users.is_text)
    found.table = of_users
    return found


def require_positions(folder: Path, table: EdgeTable) -> None:
    """Refuses edges that are not found by their positions in the edge list.

    Raises
    ------
    ValueError
        Saying why.
    """
    why = ""
    if read_header(table.graph.resolve(folder)).find("edge_ids") is None:
        why = f"the positions of edges are not stored: {_AGAIN} with edge_ids=True"
    elif table.changes is not None and (table.changes.num_merged or table.changes.symmetric):
        why = f"edges were merged, and their attributes would have to be: {_AGAIN} with the change"
    elif has_link_split(folder, table):
        why = f"edges were held out by a LinkSplit: {_AGAIN} with the change"
    if why:
        raise ValueError(why)


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
        graph = stored.open_stored_graph(table.graph.resolve(folder))
        is_stored = temp_array(folder, table.num_input_edges, np.bool_, memory)
        for begin in range(0, graph.header.width, _CHUNK):
            is_stored[graph.edge_ids(begin, min(begin + _CHUNK, graph.header.width))] = True
        for begin in range(0, table.num_input_edges, _CHUNK):
            missing = np.flatnonzero(~is_stored[begin : begin + _CHUNK])
            dropped.remove((begin + missing).astype(np.uint64))
    dropped.finish()
    return dropped


def has_link_split(folder: Path, table: EdgeTable) -> bool:
    """Whether a `LinkSplit` has held out edges."""
    headers = (read_header(entry.resolve(folder)) for entry in table.splits.values())
    return any(header.find("source") is not None for header in headers)


@dataclass
class _Change:
    """One change of a dataset, whose lock this process has."""

    folder: Path
    manifest: Manifest
    changes: Changes
    options: WriteOptions
    staged: list[FileWriter]

    def write(self) -> Manifest:
        """The new manifest; the files are added to `staged`."""
        key = _type_of(self.manifest, self.changes.of)
        with naming(key):
            for name in (*self.changes.drop_attributes, *self.changes.attributes):
                self._check_sampling(key, name)
            if isinstance(key, str):
                nodes = {**self.manifest.nodes, key: self._nodes(key)}
                return replace(self.manifest, nodes=nodes)
            edges = {**self.manifest.edges, key: self._edges(key)}
            return replace(self.manifest, edges=edges)

    def _check_sampling(self, key: str | EdgeType, attribute: str) -> None:
        """Refuses attributes by which neighbours are sampled: the graph files hold copies."""
        for edge_type, table in self.manifest.edges.items():
            source, _, target = edge_type
            neighbor = source if self.manifest.incoming else target
            header = read_header(table.graph.resolve(self.folder))
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
                    f"well: {_AGAIN} to change it"
                )

    def _changed(self, files: Mapping[str, FileEntry], what: str) -> dict[str, FileEntry]:
        """The files without those that are dropped."""
        found = dict(files)
        for name in getattr(self.changes, f"drop_{what}s"):
            if found.pop(name, None) is None:
                there = ", ".join(map(repr, files)) or "none"
                raise ValueError(f"there is no {what} {name!r} to drop; there are {there}")
        return found

    def _add(self, file: FileWriter) -> FileEntry:
        self.staged.append(file)
        return entry_of(file)

    def _require_space(self, rows: Rows, header: Header) -> None:
        """For the file, and for the copy in which its rows are put in order."""
        copies = header.file_bytes if header.file_bytes > self.options.rows_memory // 8 else 0
        require_disk_space(self.folder, header.file_bytes + copies, f"{rows.name} needs")

    def _check_name(self, name: str, of: AttributeOf) -> None:
        """Refuses a name of an attribute that the others do not allow."""
        check_attribute_name(name, of)
        tables = (self.manifest.edges if of == "node" else self.manifest.nodes).values()
        timed = {table.time for table in self.manifest.edges.values()}
        taken = {other for table in tables for other in table.attributes}
        if name in taken and (not self.manifest.is_typed or name in timed):
            raise ValueError(
                f"nodes and edges would both have an attribute {name!r}: choose another name, so "
                f"that it is clear which of them is meant"
            )

    # Nodes

    def _nodes(self, key: str) -> NodeTable:
        table, layout = self.manifest.nodes[key], self.manifest.layout
        attributes = self._changed(table.attributes, "attribute")
        splits = self._changed(table.splits, "split")
        num_classes = table.num_classes if "y" in attributes else None
        ids = stored_ids(self.folder, table)
        order = stored_orders(self.folder, self.manifest)[key]
        for name, value in self.changes.attributes.items():
            self._check_name(name, "node")
            rows = self._open_nodes(name, value, order, ids, has_labels="y" in attributes)
            if name == "y":
                num_classes = count_classes(rows)
            renumbered = None if order.node_ids is None else order
            self._require_space(
                rows, rows_layout(rows, table.num_nodes, with_rank=renumbered is not None)
            )
            file = write_rows(
                self.folder / layout.node_rows(key, name),
                rows,
                table.num_nodes,
                order=renumbered,
                fill_missing=name == "x",
                memory=self.options.rows_memory,
                progress=self.options.progress,
            )
            attributes[name] = self._add(file)
        if {"x", "y"} & self.changes.attributes.keys():
            stored.refuse_labels(self.folder, attributes, table.num_nodes)
        for name, value in self.changes.splits.items():
            nodes = value if ids is None else split_nodes(value, ids, name)
            splits[name] = self._split(key, name, nodes, table.num_nodes, "node")
        return replace(table, attributes=attributes, splits=splits, num_classes=num_classes)

    def _open_nodes(
        self, name: str, value: Any, order: NodeOrder, ids: NodeIds | None, *, has_labels: bool
    ) -> Rows:
        """The rows of an attribute, one for each node."""
        path = getattr(value, "path", value)  # of a FeatureStore
        if isinstance(path, str | os.PathLike) and os.fspath(path).endswith(".gd"):
            rows, dtype = stored.open_stored_rows(Path(path), order), self.changes.dtype
            return rows if dtype is None else rows.converted(dtype)
        reading = NodeReading(self.changes.id_column, ids, has_labels and name == "x")
        rows = open_node_attribute(value, name, self.changes.dtype, reading)
        if rows.in_order and rows.count() != order.num_nodes:
            raise ValueError(
                f"{rows.name} has {rows.count()} rows for {order.num_nodes} nodes: every node "
                f"needs one"
            )
        return rows

    def _split(
        self,
        key: str | EdgeType,
        name: str,
        value: Any,
        count: int,
        of: AttributeOf,
        remap: Remap | None = None,
    ) -> FileEntry:
        check_split_name(name)
        path, memory = (
            self.folder / self.manifest.layout.split(key, name),
            self.options.column_memory,
        )
        return self._add(write_split(path, name, value, count, memory=memory, of=of, remap=remap))

    # Edges

    def _edges(self, key: EdgeType) -> EdgeTable:
        table = self.manifest.edges[key]
        attributes = self._changed(table.attributes, "attribute")
        splits = self._changed(table.splits, "split")
        graph = table.graph.resolve(self.folder)
        if self.changes.attributes or self.changes.splits:
            require_positions(self.folder, table)
        for name, value in self.changes.attributes.items():
            self._check_name(name, "edge")
            rows = open_attribute(value, name, self.changes.dtype, of="edge")
            num_stored = read_header(graph).width
            self._require_space(rows, rows_layout(rows, num_stored, with_rank=False))
            file = write_edge_rows(
                self.folder / self.manifest.layout.edge_rows(key, name),
                rows,
                graph,
                memory=self.options.rows_memory,
                progress=self.options.progress,
            )
            attributes[name] = self._add(file)
        if self.changes.splits:
            remap = dropped_edges(self.folder, table, self.options.column_memory).remap
        for name, value in self.changes.splits.items():
            splits[name] = self._split(key, name, value, table.num_input_edges, "edge", remap)
        return replace(table, attributes=attributes, splits=splits)
