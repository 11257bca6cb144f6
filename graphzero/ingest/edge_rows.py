"""Writes rows of edges to a ``.gd`` file in the order of the neighbour lists, in bounded memory.

A batch reads whole pieces of lists: in this order their rows are neighbours in the file as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.ingest.blocks import BlockFile, block_bytes
from graphzero.ingest.progress import Progress
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.rows import Placement, append_shape, block_rows, place_scratch, rows_layout
from graphzero.ingest.stored import StoredGraph, open_stored_graph
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.format import Header, id_dtype

__all__ = ["edge_rows_layout", "edge_rows_scratch", "write_edge_rows"]

_PAIR_BYTES = 80  # of a key and a position while a block is sorted: both, permutations, copies

Ids = npt.NDArray[Any]


class _Positions:
    """Positions in the lists, by ascending key.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if there are several blocks.
    num_keys : int
    most : int
        How many positions a key may have.
    dtype : numpy.dtype
        Of the positions.
    memory : int
        Bytes.
    """

    def __init__(
        self, folder: Path, num_keys: int, most: int, dtype: np.dtype[Any], memory: int
    ) -> None:
        self.block = _block_keys(num_keys, most, memory)
        self._dtype = dtype
        self._one: list[tuple[Ids, Ids]] | None = None
        self._loaded = -1
        self._keys = self._values = np.empty(0, dtype)
        if num_keys <= self.block:
            self._one = []
            return
        self._file = BlockFile(folder, num_keys, self.block, dtype, most=most)

    def add(self, keys: Ids, positions: Ids) -> None:
        """Takes keys, in any order, and the position of each."""
        positions = positions.astype(self._dtype, copy=False)
        if self._one is not None:
            self._one.append((keys, positions))
        else:
            self._file.add(keys, positions[:, np.newaxis])

    def of(self, begin: int, end: int) -> tuple[Ids, Ids]:
        """Keys of [begin, end), which are of one block, and their positions; keys ascending."""
        self._load(begin // self.block)
        first, last = np.searchsorted(self._keys, [begin, end])
        return self._keys[first:last], self._values[first:last]

    def pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """[begin, end) cut where blocks end."""
        while begin < end:
            stop = min(end, (begin // self.block + 1) * self.block)
            yield begin, stop
            begin = stop

    def _load(self, block: int) -> None:
        if block == self._loaded:
            return
        if self._one is None:
            offsets, rows = self._file.read(block)
            keys, values = offsets.astype(np.int64) + block * self.block, rows[:, 0]
        else:
            keys = np.concatenate([np.empty(0, np.int64), *(keys for keys, _ in self._one)])
            values = np.concatenate([self._values, *(values for _, values in self._one)])
            self._one = []
        order = np.argsort(keys, kind="stable")
        self._keys, self._values, self._loaded = keys[order], values[order], block

    def close(self) -> None:
        """Frees memory and disk space."""
        self._keys = self._values = np.empty(0, self._dtype)
        if self._one is None:
            self._file.close()


def _block_keys(num_keys: int, most: int, memory: int) -> int:
    return max(1, min(num_keys, memory // (most * _PAIR_BYTES), 1 << 32))


class _Targets(Protocol):
    """Where the rows of a stream belong, by their number in the stream."""

    def of(self, begin: int, end: int) -> tuple[Ids, Ids]: ...

    def pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]: ...


def _most(graph: StoredGraph) -> int:
    """How many stored edges an input edge may have."""
    return 1 if graph.is_directed else 2


def _by_edge(graph: StoredGraph, temporary: ExitStack, folder: Path, memory: int) -> _Positions:
    """The positions of each input edge in the lists of a graph.

    Collecting them takes as much again: large pieces make few writes.
    """
    count, num_edges = graph.header.width, graph.header.num_input_edges
    dtype = id_dtype(max(1, count))
    positions = _Positions(folder, num_edges, _most(graph), dtype, memory)
    temporary.callback(positions.close)
    piece = max(1, memory // _PAIR_BYTES)
    for begin in range(0, count, piece):
        end = min(begin + piece, count)
        ids = graph.edge_ids(begin, end)
        positions.add(ids, np.arange(begin, end, dtype=dtype))
    return positions


def _from_stored(
    earlier: StoredGraph, graph: StoredGraph, temporary: ExitStack, folder: Path, memory: int
) -> _Positions:
    """The new position of each stored edge of a graph that has the same edges in other lists.

    Both directions of an undirected edge have the same row, so that either may be either.
    """
    count = earlier.header.width
    found = _Positions(folder, count, 1, id_dtype(max(1, count)), memory)
    temporary.callback(found.close)
    with ExitStack() as joined:
        before = _by_edge(earlier, joined, folder, memory)
        after = _by_edge(graph, joined, folder, memory)
        for begin, end in before.pieces(0, earlier.header.num_input_edges):
            edges, positions = before.of(begin, end)
            new_edges, new_positions = after.of(begin, end)
            if not np.array_equal(edges, new_edges):
                raise FormatError(
                    f"{earlier.path} and {graph.path} are not of the same edges: build the "
                    f"dataset again"
                )
            found.add(positions.astype(np.int64), new_positions)
    return found


def _place(
    rows: Rows,
    num_rows: int,
    targets: _Targets,
    placement: Placement,
    max_rows: int,
    advance: Any,
) -> int:
    """Brings every row to its places, and returns how many rows there are."""
    placed = 0
    for _, chunk in rows.chunks(max_rows):
        # pyarrow's pieces may be larger than max_rows.
        for at in range(0, len(chunk), max_rows):
            part = chunk[at : at + max_rows]
            first = placed
            placed += len(part)
            if placed > num_rows:
                continue  # only counted: the caller says by how much they are too many
            for begin, end in targets.pieces(first, placed):
                numbers, positions = targets.of(begin, end)
                placement.add(positions.astype(np.int64), part[numbers - first])
            advance(len(part))
    return placed


def edge_rows_layout(rows: Rows, num_stored: int) -> Header:
    """Header of the file, without the checksums."""
    return rows_layout(rows, num_stored, hot=False)


def edge_rows_scratch(
    rows: Rows, num_edges: int, num_stored: int, *, directed: bool, memory: int, again: bool = False
) -> int:
    """Bytes of temporary disk space that `write_edge_rows` takes.

    Parameters
    ----------
    rows : Rows
    num_edges : int
        Input edges.
    num_stored : int
    directed : bool
    memory : int
        As `write_edge_rows` gets it.
    again : bool
        Whether the rows come in the order of an earlier graph file.
    """
    most = 1 if directed else 2
    pair = block_bytes(id_dtype(max(1, num_stored)).itemsize)
    files = 3 if again else 1
    fits = num_edges <= _block_keys(num_edges, most, memory // 4)
    pairs = 0 if fits else files * num_stored * pair
    return pairs + place_scratch(rows, num_stored, hot=True, memory=memory // 2, may_pick=False)


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

    Row i of the file is that of the stored edge i. Both directions of an undirected edge have a
    copy.

    Parameters
    ----------
    path : pathlib.Path
        Final path; temporary data is written to the same folder.
    rows : Rows
        A row for each edge of the edge list, in its order; they are read once.
    graph_file : pathlib.Path
        With edge ids; where the file is now.
    memory : int
        Bytes.
    progress : Progress
    stored_as : pathlib.Path, optional
        An earlier graph file of the same edges, if the rows are in the order of its lists.

    Returns
    -------
    FileWriter
        Sealed, not yet published.

    Raises
    ------
    ValueError
        If there are not as many rows as edges.
    FormatError
        If a graph file has no edge ids, or invalid ones.
    OSError
        If a file cannot be read, or the disk is full.
    """
    graph, folder = open_stored_graph(graph_file), path.parent
    num_stored = graph.header.width
    num_rows = graph.header.num_input_edges
    max_rows = max(1, block_rows(rows, memory // 2) // 2)
    with sealed_file(path, edge_rows_layout(rows, num_stored)) as file, ExitStack() as temporary:
        placement = Placement(folder, rows, num_stored, memory // 2)
        temporary.callback(placement.close)
        with ExitStack() as joined:
            if stored_as is None:
                targets = _by_edge(graph, joined, folder, memory // 4)
            else:
                earlier = open_stored_graph(stored_as)
                num_rows = earlier.header.width
                targets = _from_stored(earlier, graph, joined, folder, memory // 4)
            with progress.phase(f"reading {path.stem}", num_rows) as advance:
                placed = _place(rows, num_rows, targets, placement, max_rows, advance)
        if placed != num_rows:
            raise ValueError(
                f"{rows.name} has {placed} rows for {num_rows} edges: every edge needs one"
            )
        with progress.phase(f"writing {path.stem}", num_stored) as advance:
            for block in placement.blocks():
                file.append("rows", block)
                advance(len(block))
        append_shape(file, rows)
    return file
