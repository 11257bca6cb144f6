"""The files of a dataset as input: entries of neighbour lists as edges, feature rows as rows."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphzero.errors import FormatError
from graphzero.ingest.edges import EdgeList, Read, ReadColumn
from graphzero.ingest.id_map import NodeIds
from graphzero.ingest.lists import NodeOrder
from graphzero.ingest.rows import WITHOUT_LABELS, Rows, as_numbers, round_to, rows_of_array
from graphzero.ingest.sort import Array
from graphzero.ingest.sources.columns import MAX_NODES, require_whole
from graphzero.store.format import (
    DTYPES,
    FLAG_DIRECTED,
    FLAG_INCOMING,
    FLAG_TYPED,
    FLAG_VECTOR,
    Header,
    read_header,
)
from graphzero.store.manifest import EDGES, EdgeTable, FileEntry, Manifest, NodeTable

_CHUNK = 1 << 16
_PIECE_BYTES = 1 << 20  # of features that are compared with labels at once
_SURPRISING = 16  # bits: random features have the labels in one of 2^16 datasets
_AGAIN = "build the dataset again"


def map_section(path: Path, header: Header, name: str, count: int) -> Array:
    """A section that must be there, with so many elements."""
    section = header.find(name)
    if section is None:
        raise FormatError(f"{path} lacks the section '{name}'")
    if section.count != count:
        raise FormatError(f"{path}: section '{name}' does not fit the counts: build it again")
    if count == 0:
        return np.empty(0, DTYPES[section.dtype])
    return np.memmap(path, DTYPES[section.dtype], "r", section.offset, (count,))


def _checked(path: Path, ids: Array, count: int) -> Array:
    """Ids that must be below the count: a valid checksum does not prove valid ids."""
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < count:
        raise FormatError(f"{path} has ids out of range: build the dataset again")
    return ids


@dataclass(frozen=True)
class StoredGraph:
    """A ``.gl`` file.

    Attributes
    ----------
    path : pathlib.Path
    header : Header
    owners, neighbors : NodeOrder
        The nodes that have the lists, and those that are in them.
    """

    path: Path
    header: Header
    owners: NodeOrder
    neighbors: NodeOrder

    @property
    def is_directed(self) -> bool:
        """Whether edges are stored in the given direction only."""
        return bool(self.header.flags & FLAG_DIRECTED)

    def edge_ids(self, begin: int, end: int) -> Array:
        """Positions in the user's edge list of the entries [begin, end), int64, checked.

        Raises
        ------
        FormatError
            If the file has none, or one is out of range.
        """
        ids = map_section(self.path, self.header, "edge_ids", self.header.width)[begin:end]
        return _checked(self.path, ids.astype(np.int64), self.header.num_input_edges)

    def edges(self) -> EdgeList:
        """Every entry of the neighbour lists as an edge, in stored order, in the user's ids."""
        header, is_incoming = self.header, bool(self.header.flags & FLAG_INCOMING)
        indptr = map_section(self.path, header, "indptr", header.num_nodes + 1)

        def owners(begin: int, end: int) -> Array:
            entries = np.arange(begin, end, dtype=indptr.dtype)
            return np.searchsorted(indptr, entries, "right") - 1

        neighbors = self._entries("indices")
        ends = [
            ReadColumn(np.dtype(np.uint32), header.width, self._in_user_ids(order, read))
            for order, read in ((self.owners, owners), (self.neighbors, neighbors.read))
        ]
        largest = self.owners.num_nodes - 1, self.neighbors.num_nodes - 1
        sections = {"weight": "weights", "time": "times", "position": "edge_ids"}
        return EdgeList(
            {
                **dict(zip(("source", "target"), ends[::-1] if is_incoming else ends, strict=True)),
                **{name: self._entries(of) for name, of in sections.items() if header.find(of)},
            },
            num_loops=0,
            max_ids=largest[::-1] if is_incoming else largest,
            directed=self.is_directed,
            incoming=is_incoming,
            with_edge_ids=header.find("edge_ids") is not None,
            num_user_edges=header.num_input_edges,
        )

    def _entries(self, name: str) -> ReadColumn:
        """A section that has a value for each entry of the lists."""
        values = map_section(self.path, self.header, name, self.header.width)

        def read(begin: int, end: int) -> Array:
            require_whole(values)
            return values[begin:end]

        return ReadColumn(values.dtype, len(values), read)

    def _in_user_ids(self, order: NodeOrder, read: Read) -> Read:
        """The same reader, with the user's ids instead of stored ids; both are checked."""

        def read_in_user_ids(begin: int, end: int) -> Array:
            out = np.empty(end - begin, np.uint32)
            # In small pieces: a conversion takes several times the memory of its ids.
            for at in range(begin, end, _CHUNK):
                ids = _checked(self.path, read(at, min(at + _CHUNK, end)), order.num_nodes)
                if order.node_ids is not None:
                    ids = _checked(self.path, order.node_ids[ids], order.num_nodes)
                out[at - begin : at - begin + len(ids)] = ids
            return out

        return read_in_user_ids


def open_stored_order(path: Path, num_nodes: int) -> NodeOrder:
    """The nodes of a type in the order of a file: of their ids, or of a graph without types.

    Raises
    ------
    FormatError
        If it is damaged.
    """
    header = read_header(path)
    if header.num_nodes != num_nodes:
        raise FormatError(f"{path} does not have one id for each node: build the dataset again")
    name = "node_ids" if header.kind == "graph" else "rows"
    if header.kind == "graph" and header.find(name) is None:
        return NodeOrder(num_nodes)
    ids, rank = (map_section(path, header, section, num_nodes) for section in (name, "node_rank"))
    return NodeOrder(num_nodes, ids, rank)


def open_stored_graph(path: Path, ends: tuple[NodeOrder, NodeOrder] | None = None) -> StoredGraph:
    """A ``.gl`` file as a list of edges.

    Parameters
    ----------
    path : pathlib.Path
    ends : (NodeOrder, NodeOrder), optional
        The nodes that have the lists, and those that are in them. Without it, edges are in stored
        ids.

    Raises
    ------
    FormatError
        If it is damaged.
    ValueError
        If it has more than 2^32 nodes.
    """
    header = read_header(path)
    if header.num_nodes > MAX_NODES:
        raise ValueError(f"{path} has {header.num_nodes} nodes, more than the limit of 2^32")
    is_typed = bool(header.flags & FLAG_TYPED)
    counts = header.num_nodes, header.num_neighbors if is_typed else header.num_nodes
    owners, neighbors = ends or (NodeOrder(counts[0]), NodeOrder(counts[1]))
    if counts != (owners.num_nodes, neighbors.num_nodes):
        raise FormatError(f"{path} has other numbers of nodes than its types: build it again")
    return StoredGraph(path, header, owners, neighbors)


def stored_orders(folder: Path, manifest: Manifest) -> dict[str, NodeOrder]:
    """The order of the nodes of each type in the files of a dataset."""
    orders: dict[str, NodeOrder] = {}
    for name, nodes in manifest.nodes.items():
        file = nodes.ids if manifest.is_typed else manifest.edges[EDGES].graph
        orders[name] = NodeOrder(nodes.num_nodes)
        if file is not None:
            orders[name] = open_stored_order(file.resolve(folder), nodes.num_nodes)
    return orders


def stored_ids(folder: Path, table: NodeTable) -> NodeIds | None:
    """The user's ids of the nodes of a type, where these are not their numbers."""
    if table.id_map is None:
        return None
    ids = NodeIds()
    ids.use(table.id_map.resolve(folder))
    return ids


def has_link_split(folder: Path, table: EdgeTable) -> bool:
    """Whether a `LinkSplit` has held out edges."""
    headers = (read_header(entry.resolve(folder)) for entry in table.splits.values())
    return any(header.find("source") is not None for header in headers)


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


def open_stored_split(path: Path) -> Array:
    """The ids of a split.

    Raises
    ------
    FormatError
        If the file is damaged.
    """
    header = read_header(path)
    ids = map_section(path, header, "rows", header.num_nodes)
    if ids.dtype != np.int64:
        raise FormatError(f"{path} does not hold a split: build the dataset again")
    return ids


def open_stored_array(path: Path, num_rows: int, ids: Array | None = None) -> Rows:
    """The rows of a ``.gd`` file, of which there must be so many, with their ids if there are some.

    Raises
    ------
    FormatError
        If the file is damaged, or has another number of rows.
    """
    header = read_header(path)
    if header.num_nodes != num_rows:
        raise FormatError(f"{path} does not have {num_rows} rows: build the dataset again")
    rows = map_section(path, header, "rows", num_rows * header.width)
    row_shape: tuple[int, ...] = () if header.flags & FLAG_VECTOR else (header.width,)
    if (shape := header.find("row_shape")) is not None:
        row_shape = tuple(map_section(path, header, "row_shape", shape.count).tolist())
        if math.prod(row_shape) != header.width:
            raise FormatError(f"{path}: section 'row_shape' does not fit its rows: build it again")
    return rows_of_array(os.fspath(path), rows.reshape((num_rows, *row_shape)), ids)


def open_stored_rows(path: Path, order: NodeOrder) -> Rows:
    """The rows of a ``.gd`` file of nodes that are stored in this order.

    Rows with ids are checked when they are written again: every node has exactly one.

    Raises
    ------
    FormatError
        If the file is damaged, or does not belong to the graph.
    """
    header = read_header(path)
    rank = header.find("node_rank")
    if rank is None:
        return open_stored_array(path, order.num_nodes)
    ranks = map_section(path, header, "node_rank", rank.count)
    if order.node_rank is None or not all(
        np.array_equal(ranks[at : at + _CHUNK], order.node_rank[at : at + _CHUNK])
        for at in range(0, max(len(ranks), order.num_nodes), _CHUNK)
    ):
        raise FormatError(f"{path} has another order than the graph: build the dataset again")
    return open_stored_array(path, order.num_nodes, order.node_ids)


def refuse_labels(
    folder: Path,
    attributes: Mapping[str, FileEntry],
    num_nodes: int,
    name_of: Callable[[int], str] = "column {} of x".format,
) -> None:
    """Refuses features of which a column has the label of every node.

    They are read up to the first piece in which no column has the labels. Labels that a column may
    have by chance, such as equal ones or very few, are not looked at.

    Parameters
    ----------
    folder : pathlib.Path
    attributes : mapping of str to FileEntry
        Of the nodes of a type, sealed: all in one order.
    num_nodes : int
    name_of : callable
        The name of a column, by its position.

    Raises
    ------
    ValueError
    """
    if not {"x", "y"} <= attributes.keys():
        return
    features, labels = (
        open_stored_array(attributes[name].resolve(folder), num_nodes) for name in ("x", "y")
    )
    if labels.width > 1:
        return
    columns = np.arange(features.width)
    step = max(1, _PIECE_BYTES // (features.width * features.dtype.itemsize))
    for (_, rows), (_, values) in zip(features.chunks(step), labels.chunks(step), strict=True):
        wanted = as_numbers(values)
        if features.dtype.kind not in "iub":
            wanted = as_numbers(round_to(wanted, features.dtype))
        numbers = as_numbers(rows[:, columns])
        is_equal = (numbers == wanted) | ((numbers != numbers) & (wanted != wanted))
        columns = columns[is_equal.all(axis=0)]
        if not len(columns):
            return
    step = -(-num_nodes // _CHUNK)
    sample = [as_numbers(values[:, 0])[::step] for _, values in labels.chunks(_CHUNK)]
    _, counts = np.unique(np.concatenate(sample), return_counts=True)
    bits = -float(np.sum(counts * np.log2(counts / counts.sum())))
    if bits >= _SURPRISING + math.log2(features.width):
        raise ValueError(
            f"{name_of(int(columns[0]))} equals the labels in every row: a model would read them "
            f"instead of learning them. {WITHOUT_LABELS}"
        )
