"""An edge list becomes a ``.gl`` file: neighbour lists by source, sorted by id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.edges import EdgeList
from graphzero.ingest.progress import Advance, Progress
from graphzero.ingest.rank import NodeOrder
from graphzero.ingest.row_sums import RowSums
from graphzero.ingest.sort import EdgeSorter
from graphzero.ingest.time_order import TimeOrderWriter
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import FLAG_DIRECTED, Header, id_dtype, layout

__all__ = ["graph_layout", "sort_scratch", "write_graph"]

_CHUNK = 1 << 20
_MIN_ROWS = 1024
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def graph_layout(
    edges: EdgeList, num_nodes: int, *, directed: bool, edge_ids: bool, hot: bool
) -> Header:
    """Header of the file, checksums apart."""
    count = edges.num_stored(directed)
    ids = id_dtype(num_nodes)
    arrays: list[tuple[str, npt.DTypeLike, int]] = [
        ("indptr", id_dtype(count + 1), num_nodes + 1),
        ("indices", ids, count),
    ]
    if edge_ids:
        arrays.append(("edge_ids", id_dtype(edges.num_input_edges), count))
    if edges.weight is not None:
        arrays += [("weights", "<f4", count), ("cum_weights", "<f8", count)]
    if edges.time is not None:
        arrays += [("times", "<i8", count), ("time_order", id_dtype(count), count)]
    if hot:
        arrays += [("node_ids", ids, num_nodes), ("node_rank", ids, num_nodes)]
    return layout(
        "graph",
        arrays,
        num_nodes=num_nodes,
        width=count,
        flags=FLAG_DIRECTED if directed else 0,
        num_input_edges=edges.num_input_edges,
    )


def _payload_dtypes(edges: EdgeList, edge_ids: bool) -> dict[str, np.dtype[Any]]:
    dtypes: dict[str, np.dtype[Any]] = {}
    if edge_ids:
        dtypes["edge_ids"] = id_dtype(edges.num_input_edges)
    if edges.weight is not None:
        dtypes["weights"] = edges.weight.dtype
    if edges.time is not None:
        dtypes["times"] = edges.time.dtype
    return dtypes


def _run_rows(payload_bytes: int, mirrored: bool, memory: int) -> int:
    """Rows of the edge list that can be sorted at once: keys, copies and permutations counted."""
    entry_bytes = 32 + (32 + 3 * payload_bytes if payload_bytes else 0)
    return max(_MIN_ROWS, memory // (2 * entry_bytes if mirrored else entry_bytes))


def _time_memory(edges: EdgeList, memory: int) -> int:
    """The part of the sort's memory in which lists are ordered by time."""
    return memory // 4 if edges.time is not None else 0


def sort_scratch(edges: EdgeList, *, directed: bool, edge_ids: bool, memory: int) -> int:
    """Bytes of disk that sorting takes beside the file itself; 0 where one run is enough.

    What a list takes that is too long to be ordered by time at once is not known before the sort,
    and not in it.
    """
    payload_bytes = sum(dtype.itemsize for dtype in _payload_dtypes(edges, edge_ids).values())
    memory -= _time_memory(edges, memory)
    if len(edges) <= _run_rows(payload_bytes, edges.needs_mirrors(directed), memory):
        return 0
    return edges.num_stored(directed) * (8 + payload_bytes)


def _entries(
    edges: EdgeList, begin: int, end: int, order: NodeOrder | None, directed: bool, edge_ids: bool
) -> tuple[npt.NDArray[np.uint64], tuple[npt.NDArray[Any], ...]]:
    """Keys source << 32 | target in stored ids of the rows [begin, end), and their payload."""
    source, target = edges.source.read(begin, end), edges.target.read(begin, end)
    if order is not None:
        source, target = order.node_rank[source], order.node_rank[target]
    payload: list[npt.NDArray[Any]] = []
    if edge_ids:
        if edges.row is None:
            payload.append(np.arange(begin, end, dtype=id_dtype(len(edges))))
        else:
            payload.append(edges.row.read(begin, end))
    payload += [
        column.read(begin, end) for column in (edges.weight, edges.time) if column is not None
    ]
    keys = source.astype(np.uint64)
    keys <<= _HALF
    keys |= target
    if not edges.needs_mirrors(directed):
        return keys, tuple(payload)
    # Mirrored beside its row and not after all rows: parallel edges stay in input order.
    both = np.empty(2 * len(keys), np.uint64)
    both[0::2] = keys
    keys >>= _HALF
    mirror = both[1::2]
    mirror[:] = target
    mirror <<= _HALF
    mirror |= keys
    payload = [np.repeat(array, 2) for array in payload]
    loops = np.flatnonzero(source == target)
    if len(loops):
        loops = 2 * loops + 1
        both = np.delete(both, loops)
        payload = [np.delete(array, loops) for array in payload]
    return both, tuple(payload)


class _IndptrWriter:
    """Writes ``indptr`` while the sources pass by in order, without an array of all nodes."""

    def __init__(self, file: FileWriter, num_nodes: int) -> None:
        self._file = file
        self._num_nodes = num_nodes
        self._next_node = 0
        self._done = 0

    def add(self, sources: npt.NDArray[np.uint64]) -> None:
        """The next sorted sources: the lists of all nodes up to the last one begin here."""
        self._write_until(int(sources[-1]) + 1, sources)
        self._done += len(sources)

    def finish(self) -> None:
        """The ends of all remaining lists."""
        self._write_until(self._num_nodes + 1, np.empty(0, np.uint64))

    def _write_until(self, stop: int, sources: npt.NDArray[np.uint64]) -> None:
        for begin in range(self._next_node, stop, _CHUNK):
            nodes = np.arange(begin, min(begin + _CHUNK, stop), dtype=np.uint64)
            starts = np.searchsorted(sources, nodes) + self._done
            self._file.append("indptr", starts)
        self._next_node = max(self._next_node, stop)


def _pieces(
    blocks: Iterator[tuple[npt.NDArray[np.uint64], tuple[npt.NDArray[Any], ...]]],
) -> Iterator[tuple[npt.NDArray[np.uint64], tuple[npt.NDArray[Any], ...]]]:
    for keys, payload in blocks:
        for begin in range(0, len(keys), _CHUNK):
            cut = slice(begin, begin + _CHUNK)
            yield keys[cut], tuple(array[cut] for array in payload)


def _write_lists(
    file: FileWriter,
    blocks: Iterator[tuple[npt.NDArray[np.uint64], tuple[npt.NDArray[Any], ...]]],
    names: list[str],
    time_order: TimeOrderWriter,
    advance: Advance,
) -> None:
    """Writes the sorted entries, their payload of these names, and what is made of both."""
    indptr, sums = _IndptrWriter(file, file.header.num_nodes), RowSums()
    for keys, payload in _pieces(blocks):
        sources = keys >> _HALF
        indptr.add(sources)
        file.append("indices", (keys & _LOW).astype(np.uint32))
        for name, array in zip(names, payload, strict=True):
            file.append(name, array)
            if name == "weights":
                file.append("cum_weights", sums.add(sources, array))
            elif name == "times":
                time_order.add(sources, array)
        advance(len(keys))
    indptr.finish()
    time_order.finish()


def write_graph(
    path: Path,
    edges: EdgeList,
    num_nodes: int,
    *,
    directed: bool,
    order: NodeOrder | None,
    edge_ids: bool,
    memory: int,
    progress: Progress,
) -> FileWriter:
    """Sorts an edge list into a file.

    Parameters
    ----------
    path : pathlib.Path
        Final path; temporary data lives in its folder too.
    edges : EdgeList
        Closed before this returns.
    num_nodes : int
    directed : bool
    order : NodeOrder or None
    edge_ids : bool
        Whether every entry's row in the edge list is stored.
    memory : int
        Bytes that the sort may take.
    progress : Progress

    Returns
    -------
    FileWriter
        Sealed, not yet published.

    Raises
    ------
    OSError
        If the disk is full.
    """
    header = graph_layout(
        edges, num_nodes, directed=directed, edge_ids=edge_ids, hot=order is not None
    )
    dtypes = _payload_dtypes(edges, edge_ids)
    time_memory = _time_memory(edges, memory)
    memory -= time_memory
    payload_bytes = sum(dtype.itemsize for dtype in dtypes.values())
    rows = _run_rows(payload_bytes, edges.needs_mirrors(directed), memory)
    file = FileWriter(path, header)
    sorter = EdgeSorter(path.parent, list(dtypes.values()), memory)
    time_order = TimeOrderWriter(file, path.parent, time_memory)
    try:
        with progress.phase("sorting edges", len(edges)) as advance:
            for begin in range(0, len(edges), rows):
                end = min(begin + rows, len(edges))
                sorter.spill()
                sorter.add(*_entries(edges, begin, end, order, directed, edge_ids))
                advance(end - begin)
        edges.close()
        with progress.phase("writing graph", header.width, "edges") as advance:
            _write_lists(file, sorter.merged(), list(dtypes), time_order, advance)
            if order is not None:
                for begin in range(0, num_nodes, _CHUNK):
                    file.append("node_ids", order.node_ids[begin : begin + _CHUNK])
                    file.append("node_rank", order.node_rank[begin : begin + _CHUNK])
        file.seal()
    except BaseException:
        file.discard()
        raise
    finally:
        sorter.close()
        time_order.close()
    return file
