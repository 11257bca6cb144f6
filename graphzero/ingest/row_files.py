"""Writes attributes of nodes and edges, and splits, to ``.gd`` files in the stored order.

Rows are put in order in bounded memory: they are picked from an array that can be read a few times,
or go through a temporary file with a region for each block of the stored order.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.ingest.id_map import MappedSplit
from graphzero.ingest.lists import NodeOrder
from graphzero.ingest.options import FOR_VALUES, Progress, as_source
from graphzero.ingest.rows import Rows, split_column
from graphzero.ingest.sort import BlockFile, TempColumn, block_bytes, temp_array
from graphzero.ingest.sources.arrays import known_names, open_array
from graphzero.ingest.sources.table import Column, pieces_of
from graphzero.ingest.sources.tables import is_table, open_table
from graphzero.ingest.stored import StoredGraph, open_stored_graph
from graphzero.store.format import FLAG_VECTOR, FileWriter, Header, id_dtype, layout, sealed_file

Array = npt.NDArray[Any]
_PICK_BYTES = 4 << 20  # of rows that are picked in one step
_PAIR_BYTES = 80  # of a key and a position while a block is sorted: both, permutations, copies
_CHUNK = 1 << 20


def rows_layout(rows: Rows, num_rows: int, *, with_rank: bool) -> Header:
    """Header of the file, without the checksums."""
    arrays: list[tuple[str, npt.DTypeLike, int]] = [("rows", rows.dtype, num_rows * rows.width)]
    if with_rank:
        arrays.append(("node_rank", id_dtype(num_rows), num_rows))
    if len(rows.row_shape) > 1:
        arrays.append(("row_shape", "<i8", len(rows.row_shape)))
    flags = FLAG_VECTOR if rows.vector else 0
    return layout("features", arrays, num_nodes=num_rows, width=rows.width, flags=flags)


def _block_rows(rows: Rows, memory: int) -> int:
    """Rows of a block, so that blocks, pieces of input and copies fit in so many bytes."""
    fitting = memory // (4 * block_bytes(rows.width * rows.dtype.itemsize))
    return max(1, min(fitting, 1 << 32))


class _Placement(BlockFile):
    """Takes rows in any order and returns them in blocks of the stored order."""

    def __init__(self, folder: Path, rows: Rows, num_rows: int, memory: int) -> None:
        self._num_rows = num_rows
        block = max(1, min(num_rows, _block_rows(rows, memory)))
        super().__init__(folder, num_rows, block, rows.dtype, rows.width)

    def blocks(self) -> Iterator[Array]:
        """All rows in the stored order; zeros where none came."""
        for i in range(self.num_blocks):
            count = min(self._block, self._num_rows - i * self._block)
            out = np.zeros((count, self._width), self._dtype)
            for offsets, values in self.read(i):
                out[offsets] = values
            yield out


# Attributes of nodes


def _pick_block(rows: Rows, memory: int) -> int:
    """Rows of a block that is picked: with its ids and their sort, and copies of pieces."""
    row_bytes = rows.width * rows.dtype.itemsize + 32
    return max(1, max(memory - 4 * _PICK_BYTES, memory // 2) // row_bytes)


def _picked(rows: Rows, num_nodes: int, order: NodeOrder, memory: int) -> Iterator[Array]:
    """All rows in the stored order, each block in one pass over an array."""
    block = min(_pick_block(rows, memory), num_nodes)
    step = max(1, min(block, _PICK_BYTES // (rows.width * rows.dtype.itemsize)))
    out = np.empty((block, rows.width), rows.dtype)
    for begin in range(0, num_nodes, block):
        ids = order.node_ids[begin : begin + block]
        by_id = np.argsort(ids)  # a file is read from its beginning to its end
        for at in range(0, len(ids), step):
            part = by_id[at : at + step]
            out[part] = rows.pick(ids[part])
        yield out[: len(ids)]


class _Seen:
    """The nodes that have had a row."""

    def __init__(self, folder: Path, rows: Rows, num_nodes: int, memory: int) -> None:
        self._rows = rows
        self._num_nodes = num_nodes
        self._seen = temp_array(folder, num_nodes, np.bool_, memory // 16)
        self._row = 0

    def add(self, ids: Array) -> None:
        """Marks the nodes of the next rows; a second row of a node is an error."""
        outside = np.flatnonzero(ids >= self._num_nodes)
        if len(outside):
            bad = int(outside[0])
            raise ValueError(
                f"{self._place(bad)}: node id {ids[bad]} is out of range for "
                f"{self._num_nodes} nodes"
            )
        by_id = np.argsort(ids, kind="stable")
        repeated = self._seen[ids]
        repeated[by_id[1:]] |= ids[by_id[1:]] == ids[by_id[:-1]]
        if repeated.any():
            bad = int(np.flatnonzero(repeated)[0])
            node = self._rows.user_id(int(ids[bad]))
            raise ValueError(f"{self._place(bad)}: node id {node} has a row already")
        self._seen[ids] = True
        self._row += len(ids)

    def _place(self, row: int) -> str:
        return f"{self._rows.name}, {self._rows.locate(self._row + row)}"

    def check_missing(self, fill_missing: bool) -> None:
        """Warns of nodes without a row, or raises a ValueError."""
        count = self._num_nodes - int(np.count_nonzero(self._seen))
        if not count:
            return
        what = f"{self._rows.name} has no row for {count} of {self._num_nodes} nodes"
        if not fill_missing:
            first = self._rows.user_id(int(np.argmin(self._seen)))
            raise ValueError(f"{what}, the first is node {first}")
        warnings.warn(f"{what}: they get zeros", UserWarning, stacklevel=2)


def write_rows(
    path: Path,
    rows: Rows,
    num_nodes: int,
    *,
    order: NodeOrder | None,
    fill_missing: bool,
    memory: int,
    progress: Progress,
) -> FileWriter:
    """Writes a row for each node.

    Parameters
    ----------
    path : pathlib.Path
        Final path.
    rows : Rows
    num_nodes : int
    order : NodeOrder or None
        None for input order.
    fill_missing : bool
        Whether nodes without a row get zeros, with a warning; else they are an error.
    memory : int
        Bytes for rows, besides one piece of input.
    progress : Progress

    Returns
    -------
    FileWriter
        Sealed, not yet published.
    """
    max_rows = max(1, _block_rows(rows, memory) // 2)
    passes = -(-num_nodes // _pick_block(rows, memory))
    picked = order is not None and rows.in_order and passes <= rows.most_passes
    header = rows_layout(rows, num_nodes, with_rank=order is not None)
    with sealed_file(path, header) as file, ExitStack() as temporary:
        blocks: Iterator[Array] | None = None
        if picked and order is not None:
            blocks = _picked(rows, num_nodes, order, memory)
        elif rows.in_order and order is None:
            blocks = (chunk for _, chunk in rows.chunks(max_rows))
        else:
            placement = _Placement(path.parent, rows, num_nodes, memory)
            temporary.callback(placement.close)
            seen = None if rows.in_order else _Seen(path.parent, rows, num_nodes, memory)
            with progress.phase(f"reading {path.stem}", num_nodes) as advance:
                for ids, chunk in rows.chunks(max_rows):
                    if seen is not None:
                        seen.add(ids)
                    # pyarrow's pieces may be larger than max_rows.
                    for begin in range(0, len(ids), max_rows):
                        part = ids[begin : begin + max_rows]
                        some = chunk[begin : begin + max_rows]
                        # Rows of a mapped file are read from the first to the last.
                        some = np.array(some) if isinstance(some, np.memmap) else some
                        placement.add(part if order is None else order.node_rank[part], some)
                        advance(len(part))
            if seen is not None:
                seen.check_missing(fill_missing)
            blocks = placement.blocks()
        with progress.phase(f"writing {path.stem}", num_nodes) as advance:
            for block in blocks:
                file.append("rows", block)
                advance(len(block))
        if order is not None:
            file.append("node_rank", order.node_rank)
        if len(rows.row_shape) > 1:
            file.append("row_shape", rows.row_shape)
    return file


# Attributes of edges


class _Positions:
    """Positions in the lists, by ascending key; keys may repeat `most` times."""

    def __init__(
        self, folder: Path, num_keys: int, most: int, dtype: np.dtype[Any], memory: int
    ) -> None:
        self.block = max(1, min(num_keys, memory // (most * _PAIR_BYTES), 1 << 32))
        self._dtype = dtype
        self._loaded = -1
        self._keys = self._values = np.empty(0, dtype)
        self._blocks = BlockFile(folder, num_keys, self.block, dtype, most=most)

    def add(self, keys: Array, positions: Array) -> None:
        """Takes keys, in any order, and the position of each."""
        self._blocks.add(keys, positions.astype(self._dtype, copy=False)[:, np.newaxis])

    def pieces(self, begin: int, end: int) -> Iterator[tuple[int, int, Array, Array]]:
        """[begin, end) cut where blocks end: the keys of each piece, ascending, and positions."""
        while begin < end:
            block = begin // self.block
            stop = min(end, (block + 1) * self.block)
            if block != self._loaded:
                self._load(block)
            first, last = np.searchsorted(self._keys, [begin, stop])
            yield begin, stop, self._keys[first:last], self._values[first:last]
            begin = stop

    def _load(self, block: int) -> None:
        begin = block * self.block
        pairs = [(k.astype(np.int64) + begin, rows[:, 0]) for k, rows in self._blocks.read(block)]
        keys = np.concatenate([np.empty(0, np.int64), *(pair[0] for pair in pairs)])
        order = np.argsort(keys, kind="stable")
        self._keys, self._loaded = keys[order], block
        values = [np.empty(0, self._dtype), *(pair[1] for pair in pairs)]
        self._values = np.concatenate(values)[order]

    def close(self) -> None:
        """Frees memory and disk space."""
        self._keys = self._values = np.empty(0, self._dtype)
        self._blocks.close()


def _by_edge(graph: StoredGraph, temporary: ExitStack, folder: Path, memory: int) -> _Positions:
    """The positions of each input edge in the lists of a graph."""
    count, num_edges = graph.header.width, graph.header.num_input_edges
    dtype = id_dtype(max(1, count))
    positions = _Positions(folder, num_edges, 1 if graph.is_directed else 2, dtype, memory)
    temporary.callback(positions.close)
    piece = max(1, memory // _PAIR_BYTES)
    for begin in range(0, count, piece):
        end = min(begin + piece, count)
        positions.add(graph.edge_ids(begin, end), np.arange(begin, end, dtype=dtype))
    return positions


def _from_stored(
    earlier: StoredGraph, graph: StoredGraph, temporary: ExitStack, folder: Path, memory: int
) -> _Positions:
    """The new position of each stored edge of a graph that has the same edges in other lists."""
    count = earlier.header.width
    found = _Positions(folder, count, 1, id_dtype(max(1, count)), memory)
    temporary.callback(found.close)
    num_edges = earlier.header.num_input_edges
    with ExitStack() as joined:
        before = _by_edge(earlier, joined, folder, memory)
        after = _by_edge(graph, joined, folder, memory)
        for old, new in zip(before.pieces(0, num_edges), after.pieces(0, num_edges), strict=True):
            if not np.array_equal(old[2], new[2]):
                raise FormatError(
                    f"{earlier.path} and {graph.path} are not of the same edges: build the "
                    f"dataset again"
                )
            found.add(old[3].astype(np.int64), new[3])
    return found


def write_edge_rows(
    path: Path,
    rows: Rows,
    graph_file: Path,
    *,
    memory: int,
    progress: Progress,
    stored_as: Path | None = None,
) -> FileWriter:
    """Writes rows of edges in the order of the neighbour lists of a graph file.

    Parameters
    ----------
    path : pathlib.Path
        Final path.
    rows : Rows
        One for each edge of the edge list; with `stored_as`, for each stored edge.
    graph_file : pathlib.Path
        With the position of each edge in the edge list.
    memory : int
        Bytes for rows and positions, besides one piece of input.
    progress : Progress
    stored_as : pathlib.Path, optional
        An earlier graph file of the same edges, in whose order the rows are.

    Returns
    -------
    FileWriter
        Sealed, not yet published.

    Raises
    ------
    ValueError
        If there is another number of rows than of edges.
    FormatError
        If a graph file is damaged, or the two are of different edges.
    """
    graph, folder = open_stored_graph(graph_file), path.parent
    num_stored, num_rows = graph.header.width, graph.header.num_input_edges
    max_rows = max(1, _block_rows(rows, memory // 2) // 2)
    header = rows_layout(rows, num_stored, with_rank=False)
    with sealed_file(path, header) as file, ExitStack() as temporary:
        placement = _Placement(folder, rows, num_stored, memory // 2)
        temporary.callback(placement.close)
        with ExitStack() as joined:
            if stored_as is None:
                targets = _by_edge(graph, joined, folder, memory // 4)
            else:
                earlier = open_stored_graph(stored_as)
                num_rows = earlier.header.width
                targets = _from_stored(earlier, graph, joined, folder, memory // 4)
            placed = 0
            with progress.phase(f"reading {path.stem}", num_rows) as advance:
                for _, chunk in rows.chunks(max_rows):
                    # pyarrow's pieces may be larger than max_rows.
                    for at in range(0, len(chunk), max_rows):
                        part = chunk[at : at + max_rows]
                        first, placed = placed, placed + len(part)
                        # Rows that are too many are only counted, for the message.
                        stop = min(placed, num_rows)
                        for _, _, numbers, positions in targets.pieces(first, stop):
                            placement.add(positions.astype(np.int64), part[numbers - first])
                        advance(len(part))
        if placed != num_rows:
            raise ValueError(
                f"{rows.name} has {placed} rows for {num_rows} edges: every edge needs one"
            )
        with progress.phase(f"writing {path.stem}", num_stored) as advance:
            for block in placement.blocks():
                file.append("rows", block)
                advance(len(block))
        if len(rows.row_shape) > 1:
            file.append("row_shape", rows.row_shape)
    return file


# Splits


def _ids_of_array(array: Any, name: str, count: int, of: str, held: str) -> Iterator[Array]:
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}: it must be one-dimensional")
    is_mask = array.dtype == np.bool_
    if is_mask and len(array) != count:
        raise ValueError(f"{name} is a mask of {len(array)} values for {count} {of}s")
    if array.dtype.kind not in "iub" and len(array):
        raise ValueError(f"{name} has dtype {array.dtype}: it must hold {held} or a boolean mask")
    if (
        not is_mask
        and 2 < len(array) == count
        and all(part.min() >= 0 and part.max() <= 1 for part in pieces_of(array, _CHUNK))
    ):
        raise ValueError(f"{name} looks like a mask of integers: convert it to bool")
    begin = 0
    for part in pieces_of(array, _CHUNK):
        yield np.flatnonzero(part) + begin if is_mask else part
        begin += len(part)


def _split_ids(value: Any, split: str, name: str, count: int, of: str) -> Iterator[Array]:
    held = "node ids" if of == "node" else "positions in the edge list"
    if isinstance(value, MappedSplit):
        yield from value.pieces(split, name)
        return
    source = as_source(value)
    with_columns = is_table(source.value)
    source.check_options(FOR_VALUES, split, is_table=with_columns)
    if not with_columns:
        is_path = isinstance(source.value, str | os.PathLike)
        label = f"{split} ({source.value})" if is_path else split
        array = open_array(source.value, split, known_names(name, "split"))
        yield from _ids_of_array(array, label, count, of, held)
        return
    table = open_table(source)
    at = split_column(table, source, split, held)
    for (ids,) in table.chunks([Column(at, "node id", np.dtype(np.int64))], _CHUNK):
        yield ids


def write_split(
    path: Path,
    name: str,
    value: Any,
    count: int,
    *,
    memory: int,
    of: Literal["node", "edge"] = "node",
    remap: Callable[[TempColumn, int, str], TempColumn] | None = None,
) -> FileWriter:
    """Writes a split: the user's node ids, or positions in the edge list, in the user's order.

    Parameters
    ----------
    path : pathlib.Path
        Final path.
    name : str
        Of the split.
    value : object
        Ids, positions, or a mask; or what has them.
    count : int
        Nodes, or edges of the edge list.
    memory : int
        Bytes that the ids may take; more goes to a temporary file.
    of : {"node", "edge"}
    remap : callable, optional
        From positions in the edge list to those of stored edges.

    Returns
    -------
    FileWriter
        Sealed, not yet published.

    Raises
    ------
    IndexError
        If an id or a position is out of range.
    ValueError
        If the value has another shape or dtype.
    """
    split = f"split {name!r}" if of == "node" else f"edge split {name!r}"
    with ExitStack() as temporary:
        nodes = TempColumn(path.parent, np.int64, memory)
        temporary.callback(nodes.close)
        for ids in _split_ids(value, split, name, count, of):
            outside = np.flatnonzero((ids < 0) | (ids >= count))
            if len(outside):
                bad = int(outside[0])
                raise IndexError(
                    f"{split}, position {len(nodes) + bad}: {of} {ids[bad]} is out of range for "
                    f"{count} {of}s"
                )
            nodes.append(ids)
        if remap is not None:
            nodes = remap(nodes, memory, split)
            temporary.callback(nodes.close)
        size = len(nodes)
        header = layout(
            "features", [("rows", "<i8", size)], num_nodes=size, width=1, flags=FLAG_VECTOR
        )
        with sealed_file(path, header) as file:
            for begin in range(0, size, _CHUNK):
                file.append("rows", nodes.read(begin, min(begin + _CHUNK, size)))
    return file
