"""Writes attributes of nodes and edges, and splits, to ``.gd`` files in the stored order.

Rows are put in order in bounded memory: they are picked from an array that can be read a few times,
or go through a temporary file with a region for each block of the stored order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError, warn_user
from graphzero.ingest.dataset_files import StoredGraph, open_stored_graph
from graphzero.ingest.lists import NodeOrder
from graphzero.ingest.options import Advance, AttributeOf, Progress, WriteOptions
from graphzero.ingest.rows import Rows, open_split
from graphzero.ingest.sort import (
    Array,
    TempColumn,
    TempFile,
    sorted_columns,
    temp_array,
)
from graphzero.ingest.sources.columns import require_whole
from graphzero.store.format import (
    FLAG_VECTOR,
    FileWriter,
    Header,
    id_dtype,
    layout,
    sealed_file,
    vector_layout,
)
from graphzero.units import refuse_mask

# From positions in the edge list to those of stored edges, in some memory, for a split of a name.
Remap = Callable[[TempColumn, int, str], TempColumn]
_PICK_BYTES = 4 << 20  # of rows that are picked in one step
_CHUNK = 1 << 20
_OFFSET = np.dtype(np.uint32)  # of an id within its block


def rows_layout(rows: Rows, num_rows: int, with_rank: bool = False) -> Header:
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
    fitting = memory // (4 * (rows.width * rows.dtype.itemsize + _OFFSET.itemsize))
    return max(1, min(fitting, 1 << 32))


class _Placement:
    """Takes rows with their ids in any order, and returns them in blocks of the stored order.

    Every block has a region of its size in a temporary file, which collects its rows in the order
    of arrival. So rows are written and read in long pieces. A single block stays in memory.

    Parameters
    ----------
    folder : pathlib.Path
    rows : Rows
    num_rows : int
    memory : int
        Bytes.
    fill : int
        In place of rows that do not come.
    """

    def __init__(self, folder: Path, rows: Rows, num_rows: int, memory: int, fill: int = 0) -> None:
        self._num_rows, self._fill = num_rows, fill
        self._block = max(1, min(num_rows, _block_rows(rows, memory)))
        self._num_blocks = -(-num_rows // self._block)
        self._dtype = rows.dtype
        self._width = rows.width
        self._row_bytes = rows.width * rows.dtype.itemsize
        self._filled = np.zeros(self._num_blocks, np.int64)
        self._pieces: list[tuple[Array, Array]] = []  # of a single block
        self._files: list[TempFile] = []
        if self._num_blocks > 1:
            self._files = [TempFile(folder), TempFile(folder)]

    def add(self, ids: Array, rows: Array) -> None:
        """Takes rows (n, width) with their ids (n,), which must be in range.

        Raises
        ------
        FormatError
            If the ids of a block have more rows than they may have.
        OSError
            If the disk is full.
        """
        if self._num_blocks <= 1:
            self._pieces.append((ids, rows))
            return
        if not len(ids):
            return
        blocks = ids // self._block
        # NumPy sorts 16-bit numbers by their digits, several times faster than wider ones.
        keys = blocks.astype(np.uint16) if self._num_blocks <= 1 << 16 else blocks
        by_block = np.argsort(keys, kind="stable")
        blocks, rows = blocks[by_block], rows[by_block].astype(self._dtype, copy=False)
        offsets = (ids % self._block).astype(_OFFSET)[by_block]
        cuts = [0, *(np.flatnonzero(blocks[1:] != blocks[:-1]) + 1).tolist(), len(blocks)]
        for begin, end in itertools.pairwise(cuts):
            block = int(blocks[begin])
            at = block * self._block + int(self._filled[block])
            if at + end - begin > (block + 1) * self._block:
                raise FormatError("ids repeat that must not: build the dataset again")
            self._files[0].write(rows[begin:end], at * self._row_bytes)
            self._files[1].write(offsets[begin:end], at * _OFFSET.itemsize)
            self._filled[block] += end - begin

    def blocks(self) -> Iterator[Array]:
        """All rows in the stored order, once."""
        for i in range(self._num_blocks):
            count = min(self._block, self._num_rows - i * self._block)
            out = np.zeros((count, self._width), self._dtype)
            if self._fill:
                out[:] = self._fill
            for offsets, values in self._pieces:
                out[offsets] = values
            if self._files:
                num_filled, at = int(self._filled[i]), i * self._block
                offsets = self._files[1].read(at * _OFFSET.itemsize, num_filled, _OFFSET)
                values = self._files[0].read(
                    at * self._row_bytes, num_filled * self._width, self._dtype
                )
                out[offsets] = values.reshape(num_filled, self._width)
            self._pieces = []
            yield out


def fill_of(attribute: str, rows: Rows) -> int | None:
    """What nodes without a row get; None if they must not be: features, and labels of integers."""
    if attribute == "x":
        return 0
    return -1 if attribute == "y" and rows.vector and rows.dtype.kind == "i" else None


def write_blocks(
    path: Path,
    rows: Rows,
    blocks: Callable[[], Iterable[Array]],
    order: NodeOrder,
    progress: Progress,
) -> FileWriter:
    """Writes blocks of rows in the stored order, and what else is in their file.

    `rows` say the dtype and the shape; of edges, `order` is that of so many nodes as they come.
    """
    num_rows, with_rank = order.num_nodes, order.node_rank is not None
    with sealed_file(path, rows_layout(rows, num_rows, with_rank)) as file:
        ordered = blocks()
        with progress.phase(f"writing {path.stem}", num_rows) as advance:
            for block in ordered:
                file.append("rows", block)
                advance(len(block))
        if order.node_rank is not None:
            file.append("node_rank", order.node_rank)
        if len(rows.row_shape) > 1:
            file.append("row_shape", rows.row_shape)
    return file


def _pieces(rows: Rows, max_rows: int, advance: Advance) -> Iterator[tuple[Array, Array]]:
    """Ids and rows of all input, at most max_rows at a time, which pyarrow's may not be."""
    for ids, chunk in rows.chunks(max_rows):
        for begin in range(0, len(ids), max_rows):
            part = chunk[begin : begin + max_rows]
            # Rows of a mapped file are read from the first to the last.
            yield (
                ids[begin : begin + max_rows],
                np.array(part) if isinstance(part, np.memmap) else part,
            )
            advance(len(part))


# Attributes of nodes


def _most_passes(array: Array) -> int:
    """How often an array may be read: a pass over a file takes the disk's time."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    # With the block file, rows of a file would be read twice and written once.
    return 1 << 10 if array.base is None else 3


def _picked(array: Array, node_ids: Array, block: int) -> Iterator[Array]:
    """All rows of an array in the order of these ids, each block in one pass over it."""
    rows = array.reshape(len(array), -1)
    step = max(1, _PICK_BYTES // max(1, rows[:1].nbytes))
    out = np.empty((min(block, len(rows)), rows.shape[1]), rows.dtype.newbyteorder("<"))
    for begin in range(0, len(rows), block):
        ids = node_ids[begin : begin + block]
        by_id = np.argsort(ids)  # a file is read from its beginning to its end
        for at in range(0, len(ids), step):
            part = by_id[at : at + step]
            require_whole(array)
            out[part] = rows[ids[part]]
        yield out[: len(ids)]


class _Seen:
    """The nodes that have had a row."""

    def __init__(self, folder: Path, rows: Rows, num_nodes: int, memory: int) -> None:
        self._rows = rows
        self._num_nodes = num_nodes
        self.nodes = temp_array(folder, num_nodes, np.bool_, memory // 16)
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
        repeated = self.nodes[ids]
        repeated[by_id[1:]] |= ids[by_id[1:]] == ids[by_id[:-1]]
        if repeated.any():
            bad = int(np.flatnonzero(repeated)[0])
            node = self._rows.user_id(int(ids[bad]))
            raise ValueError(f"{self._place(bad)}: node id {node} has a row already")
        self.nodes[ids] = True
        self._row += len(ids)

    def _place(self, row: int) -> str:
        return f"{self._rows.name}, {self._rows.table.locate(self._row + row)}"


def check_missing(rows: Rows, seen: Array, fill: int | None, num_stored: int = 0) -> None:
    """Warns of nodes without a row, or raises a ValueError; `seen` is of those that are not stored.

    `fill` is what they get; None: they must not be.
    """
    count = len(seen) - int(np.count_nonzero(seen))
    if not count:
        return
    nodes = "new nodes" if num_stored else "nodes"
    what = f"{rows.name} has no row for {count} of {len(seen)} {nodes}"
    if fill is None:
        first = rows.user_id(num_stored + int(np.argmin(seen)))
        raise ValueError(
            f"{what}, the first is node {first}. Give each a row; only labels of signed integers "
            f"may lack some, which get -1 (gz.set_attribute(..., dtype='int64') stores them so)"
        )
    warn_user(f"{what}: they get {fill or 'zeros'}")


def write_rows(
    path: Path, rows: Rows, order: NodeOrder, options: WriteOptions, *, fill: int | None = None
) -> FileWriter:
    """Writes a row for each node.

    Parameters
    ----------
    path : pathlib.Path
        Final path.
    rows : Rows
    order : NodeOrder
    options : WriteOptions
    fill : int or None
        What nodes without a row get, with a warning; None: they are an error.

    Returns
    -------
    FileWriter
        Sealed, not yet published.
    """
    num_nodes, memory = order.num_nodes, options.rows_memory
    max_rows = max(1, _block_rows(rows, memory) // 2)

    def blocks() -> Iterator[Array]:
        if order.node_ids is None and rows.in_order:
            return (chunk for _, chunk in rows.chunks(max_rows))
        # Rows that are picked: with their ids and the sort of these, and copies of pieces.
        row_bytes = rows.width * rows.dtype.itemsize + 32
        block = max(1, max(memory - 4 * _PICK_BYTES, memory // 2) // row_bytes)
        array = rows.array
        if (
            order.node_ids is not None
            and array is not None
            and num_nodes <= block * _most_passes(array)
        ):
            return _picked(array, order.node_ids, block)
        placement = _Placement(path.parent, rows, num_nodes, memory, fill or 0)
        seen = None if rows.in_order else _Seen(path.parent, rows, num_nodes, memory)
        with options.progress.phase(f"reading {path.stem}", num_nodes) as advance:
            for ids, part in _pieces(rows, max_rows, advance):
                if seen is not None:
                    seen.add(ids)
                placement.add(order.to_stored(ids), part)
        if seen is not None:
            check_missing(rows, seen.nodes, fill)
        return placement.blocks()

    return write_blocks(path, rows, blocks, order, options.progress)


# Attributes of edges

_BYTES_OF_AN_ENTRY = 64  # while positions and entries are read, as numbers of several widths


def _entries_by_edge(graph: StoredGraph, folder: Path, memory: int) -> tuple[Array, Array]:
    """The positions of edges in the edge list, ascending, and an entry in the lists for each."""
    count = graph.header.width
    dtypes = np.dtype(np.uint64), id_dtype(max(1, count))
    columns = [TempColumn(folder, dtype, memory // 8) for dtype in dtypes]
    chunk = max(1, min(_CHUNK, memory // _BYTES_OF_AN_ENTRY))
    for begin in range(0, count, chunk):
        end = min(begin + chunk, count)
        columns[0].append(graph.edge_ids(begin, end))
        columns[1].append(np.arange(begin, end))
    edge_ids, entries = sorted_columns(folder, columns, memory)
    return edge_ids, entries


def _entries_by_stored(
    earlier: StoredGraph, graph: StoredGraph, folder: Path, memory: int
) -> tuple[Array, Array]:
    """The entries of a graph, and those of the same edges in other lists."""
    _, before = _entries_by_edge(earlier, folder, memory)
    _, after = _entries_by_edge(graph, folder, memory)
    columns = [TempColumn(folder, dtype, memory // 8) for dtype in (np.uint64, after.dtype)]
    for begin in range(0, len(before), _CHUNK):
        columns[0].append(before[begin : begin + _CHUNK])
        columns[1].append(after[begin : begin + _CHUNK])
    stored, entries = sorted_columns(folder, columns, memory)
    return stored, entries


def write_edge_rows(
    path: Path, rows: Rows, graph_file: Path, options: WriteOptions, stored_as: Path | None = None
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
    options : WriteOptions
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
        If a graph file is damaged.
    """
    graph, folder, memory = open_stored_graph(graph_file), path.parent, options.rows_memory
    num_stored, num_rows = graph.header.width, graph.header.num_input_edges
    max_rows = max(1, _block_rows(rows, memory // 2) // 2)

    def blocks() -> Iterator[Array]:
        nonlocal num_rows
        placement = _Placement(folder, rows, num_stored, memory // 2)
        if stored_as is None:
            numbers, entries = _entries_by_edge(graph, folder, memory // 4)
        else:
            earlier = open_stored_graph(stored_as)
            num_rows = earlier.header.width
            numbers, entries = _entries_by_stored(earlier, graph, folder, memory // 8)
        placed = low = 0
        with options.progress.phase(f"reading {path.stem}", num_rows) as advance:
            for _, part in _pieces(rows, max_rows, advance):
                first, placed = placed, placed + len(part)
                # Rows that are too many are only counted, for the message.
                high = int(np.searchsorted(numbers, np.uint64(placed)))
                at = (numbers[low:high] - np.uint64(first)).astype(np.intp)
                placement.add(entries[low:high].astype(np.int64), part[at])
                low = high
        if placed != num_rows:
            raise ValueError(
                f"{rows.name} has {placed} rows for {num_rows} edges: every edge needs one"
            )
        return placement.blocks()

    return write_blocks(path, rows, blocks, NodeOrder(num_stored), options.progress)


# Splits


def _split_ids(value: Any, split: str, name: str, count: int, of: AttributeOf) -> Iterator[Array]:
    held = "node ids" if of == "node" else "positions in the edge list"
    rows = open_split(value, split, name, held)
    shown = split if rows.name == split else f"{split} ({rows.name})"
    if not rows.vector or (rows.dtype.kind not in "iub" and rows.count()):
        raise ValueError(
            f"{shown} has dtype {rows.dtype} and shape {(rows.count(), *rows.row_shape)}: it must "
            f"be a vector of {held}, or a boolean mask"
        )
    is_mask = rows.dtype == np.bool_
    if is_mask and rows.count() != count:
        raise ValueError(f"{shown} is a mask of {rows.count()} values for {count} {of}s")
    for positions, part in rows.chunks(_CHUNK):
        yield positions[part[:, 0]] if is_mask else part[:, 0]


def write_split(
    path: Path,
    name: str,
    value: Any,
    count: int,
    *,
    memory: int,
    of: AttributeOf = "node",
    remap: Remap | None = None,
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
    nodes = TempColumn(path.parent, np.int64, memory)
    for ids in _split_ids(value, split, name, count, of):
        outside = np.flatnonzero((ids < 0) | (ids >= count))
        if len(outside):
            bad = int(outside[0])
            raise IndexError(
                f"{split}, position {len(nodes) + bad}: {of} {ids[bad]} is out of range for "
                f"{count} {of}s"
            )
        nodes.append(ids)
    pieces = (nodes.read(at, min(at + _CHUNK, count)) for at in range(0, count, _CHUNK))
    refuse_mask(pieces, len(nodes), count, split)
    if remap is not None:
        nodes = remap(nodes, memory, split)
    size = len(nodes)
    with sealed_file(path, vector_layout(size, {"rows": "<i8"})) as file:
        for begin in range(0, size, _CHUNK):
            file.append("rows", nodes.read(begin, min(begin + _CHUNK, size)))
    return file
