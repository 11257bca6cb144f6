"""An edge list becomes a ``.gl`` file: neighbour lists by one end of the edges, sorted by id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero._core import edge_keys, key_neighbors, list_starts
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.list_sums import ListSums
from graphzero.ingest.processors import available_processors
from graphzero.ingest.progress import Advance, Progress
from graphzero.ingest.rank import NodeOrder, NodeSpace
from graphzero.ingest.sort import EdgeSorter
from graphzero.ingest.time_order import TimeOrderWriter
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.format import (
    FLAG_DIRECTED,
    FLAG_INCOMING,
    FLAG_TYPED,
    Header,
    id_dtype,
    layout,
)

__all__ = ["graph_layout", "sort_scratch", "write_graph"]

_CHUNK = 1 << 20
_MIN_RUN_EDGES = 1024
_HALF = np.uint64(32)


def graph_layout(
    edges: EdgeList, num_nodes: int, *, hot: bool, num_neighbors: int | None = None
) -> Header:
    """Header of the file, without the checksums.

    Parameters
    ----------
    edges : EdgeList
    num_nodes : int
        Neighbour lists.
    hot : bool
        Whether the file has the order of its nodes. The file of an edge type has not: its nodes
        have files of their own.
    num_neighbors : int, optional
        Of an edge type: nodes of the type that is in the lists.
    """
    count = edges.num_stored
    ids = id_dtype(num_nodes if num_neighbors is None else num_neighbors)
    flags = (FLAG_DIRECTED if edges.directed else 0) | (FLAG_INCOMING if edges.incoming else 0)
    flags |= 0 if num_neighbors is None else FLAG_TYPED
    arrays: list[tuple[str, npt.DTypeLike, int]] = [
        ("indptr", id_dtype(count + 1), num_nodes + 1),
        ("indices", ids, count),
    ]
    if edges.with_edge_ids:
        arrays.append(("edge_ids", id_dtype(edges.num_input_edges), count))
    if edges.weight is not None:
        arrays += [("weights", "<f4", count), ("cum_weights", "<f8", count)]
    if edges.has_times:
        arrays += [("times", "<i8", count), ("time_order", id_dtype(count), count)]
    if hot:
        arrays += [("node_ids", ids, num_nodes), ("node_rank", ids, num_nodes)]
    return layout(
        "graph",
        arrays,
        num_nodes=num_nodes,
        width=count,
        flags=flags,
        num_input_edges=edges.num_input_edges,
        num_neighbors=num_neighbors or 0,
    )


def _payload_dtypes(edges: EdgeList) -> dict[str, np.dtype[Any]]:
    dtypes: dict[str, np.dtype[Any]] = {}
    if edges.with_edge_ids:
        dtypes["edge_ids"] = id_dtype(edges.num_input_edges)
    if edges.weight is not None:
        dtypes["weights"] = edges.weight.dtype
    if edges.has_times:
        dtypes["times"] = np.dtype(np.int64)
    return dtypes


def _run_edges(edges: EdgeList, payload_bytes: int, memory: int) -> int:
    """Edges that can be sorted at once: keys, copies and permutations counted."""
    entry_bytes = 32 + (32 + 3 * payload_bytes if payload_bytes else 0)
    return max(_MIN_RUN_EDGES, memory // (2 * entry_bytes if edges.needs_mirrors else entry_bytes))


def _time_memory(edges: EdgeList, memory: int) -> int:
    """Part of the sort's memory that ordering lists by time may take."""
    return memory // 4 if edges.has_times else 0


def sort_scratch(edges: EdgeList, memory: int) -> int:
    """Bytes of temporary disk space that the sort takes; 0 where one run is enough.

    Not counted: the runs of lists that are too long to be ordered by time in memory. Their lengths
    are unknown before the sort.
    """
    payload_bytes = sum(dtype.itemsize for dtype in _payload_dtypes(edges).values())
    memory -= _time_memory(edges, memory)
    if len(edges) <= _run_edges(edges, payload_bytes, memory):
        return 0
    return edges.num_stored * (8 + payload_bytes)


def _entries(
    edges: EdgeList, begin: int, end: int, owners: NodeSpace, neighbors: NodeSpace
) -> tuple[npt.NDArray[np.uint64], tuple[npt.NDArray[Any], ...]]:
    """Keys owner << 32 | neighbor, in stored ids, of the edges [begin, end), and their payload."""
    owner, neighbor = edges.owner.read(begin, end), edges.neighbor.read(begin, end)
    times: list[npt.NDArray[Any]] = []  # of the entries, and of their mirrors
    if edges.node_times is not None:
        ends = (neighbor, owner) if edges.needs_mirrors else (neighbor,)
        times = [edges.node_times[ids] for ids in ends]
    elif edges.time is not None:
        times = 2 * [edges.time.read(begin, end)]
    payload: list[npt.NDArray[Any]] = []
    if edges.with_edge_ids:
        if edges.position is None:
            payload.append(np.arange(begin, end, dtype=id_dtype(len(edges))))
        else:
            payload.append(edges.position.read(begin, end))
    if edges.weight is not None:
        payload.append(edges.weight.read(begin, end))
    keys = edge_keys(owner, neighbor, owners.rank, neighbors.rank, available_processors())
    if not edges.needs_mirrors:
        return keys, (*payload, *times[:1])
    # A mirror follows its edge, not all edges: parallel edges stay in input order.
    both = np.empty(2 * len(keys), np.uint64)
    both[0::2] = keys
    mirror = both[1::2]
    np.left_shift(keys, _HALF, out=mirror)
    keys >>= _HALF
    mirror |= keys
    payload = [np.repeat(array, 2) for array in payload]
    if times:
        payload.append(np.stack(times, axis=1).reshape(-1))
    loops = np.flatnonzero(owner == neighbor)
    if len(loops):
        loops = 2 * loops + 1
        both = np.delete(both, loops)
        payload = [np.delete(array, loops) for array in payload]
    return both, tuple(payload)


class _IndptrWriter:
    """Writes ``indptr`` from a stream of sorted keys, without an array of all nodes."""

    def __init__(self, file: FileWriter, num_nodes: int) -> None:
        self._file = file
        self._num_nodes = num_nodes
        self._next_node = 0
        self._done = 0

    def add(self, keys: npt.NDArray[np.uint64]) -> None:
        """Takes the next sorted keys, and writes the entries of all nodes up to the last owner."""
        self._write_until(int(keys[-1] >> _HALF) + 1, keys)
        self._done += len(keys)

    def finish(self) -> None:
        """Writes the entries of all remaining nodes."""
        self._write_until(self._num_nodes + 1, np.empty(0, np.uint64))

    def _write_until(self, stop: int, keys: npt.NDArray[np.uint64]) -> None:
        for begin in range(self._next_node, stop, _CHUNK):
            end = min(begin + _CHUNK, stop)
            self._file.append("indptr", list_starts(keys, self._done, begin, end))
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
    """Writes the sorted entries, their payload of these names, and the sections derived from it."""
    indptr, sums = _IndptrWriter(file, file.header.num_nodes), ListSums()
    for keys, payload in _pieces(blocks):
        indptr.add(keys)
        file.append("indices", key_neighbors(keys))
        owners = keys >> _HALF if names else keys
        for name, array in zip(names, payload, strict=True):
            file.append(name, array)
            if name == "weights":
                file.append("cum_weights", sums.add(owners, array))
            elif name == "times":
                time_order.add(owners, array)
        advance(len(keys))
    indptr.finish()
    time_order.finish()


def write_graph(
    path: Path,
    edges: EdgeList,
    num_nodes: int,
    *,
    order: NodeOrder | None,
    neighbors: NodeSpace | None = None,
    memory: int,
    progress: Progress,
) -> FileWriter:
    """Sorts an edge list into a file.

    Parameters
    ----------
    path : pathlib.Path
        Final path; temporary data is written to the same folder.
    edges : EdgeList
        Closed before this returns.
    num_nodes : int
        Neighbour lists.
    order : NodeOrder or None
        Of the nodes that have the lists; None for input order.
    neighbors : NodeSpace, optional
        For the edges of one type: the nodes that are in the lists. Default: those that have them.
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
    dtypes = _payload_dtypes(edges)
    time_memory = _time_memory(edges, memory)
    memory -= time_memory
    run = _run_edges(edges, sum(dtype.itemsize for dtype in dtypes.values()), memory)
    owners = NodeSpace(num_nodes, order)
    own_order = order if neighbors is None else None
    num_neighbors = None if neighbors is None else neighbors.num_nodes
    header = graph_layout(edges, num_nodes, hot=own_order is not None, num_neighbors=num_neighbors)
    with (
        sealed_file(path, header) as file,
        closing(EdgeSorter(path.parent, list(dtypes.values()), memory)) as sorter,
        closing(TimeOrderWriter(file, path.parent, time_memory)) as time_order,
    ):
        with progress.phase("sorting edges", len(edges), "edges") as advance:
            for begin in range(0, len(edges), run):
                end = min(begin + run, len(edges))
                sorter.spill()
                sorter.add(*_entries(edges, begin, end, owners, neighbors or owners))
                advance(end - begin)
        edges.close()
        with progress.phase("writing graph", file.header.width, "edges") as advance:
            _write_lists(file, sorter.merged(), list(dtypes), time_order, advance)
            if own_order is not None:
                file.append("node_ids", own_order.node_ids)
                file.append("node_rank", own_order.node_rank)
    return file
