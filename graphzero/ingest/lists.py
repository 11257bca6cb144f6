"""Neighbour lists: the order of their nodes, and the ``.gl`` file of an edge list.

Nodes are ordered by occurrences in the lists, or by visits in sampled mini-batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphzero._core import count_ids, count_mutual, edge_keys, key_neighbors, list_starts
from graphzero.ingest import sort
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.options import ListCounts, Progress, Reversed, WriteOptions
from graphzero.ingest.rows import Rows
from graphzero.ingest.sort import Array
from graphzero.store.format import (
    FLAG_DIRECTED,
    FLAG_INCOMING,
    FLAG_TYPED,
    FileWriter,
    Header,
    id_dtype,
    layout,
    sealed_file,
    vector_layout,
)
from graphzero.store.manifest import EdgeType
from graphzero.units import available_processors

# The order of nodes


_CHUNK = 1 << 20


@dataclass(frozen=True)
class NodeOrder:
    """The nodes of one type, and both directions of their renumbering.

    Attributes
    ----------
    num_nodes : int
    node_ids : (N,) uint32 or None
        The user's id of each stored id; None in input order, where they are the same.
    node_rank : (N,) uint32 or None
        The stored id of each of the user's ids.
    num_counted : int or None
        Of an order by counts: the nodes whose count is not 0. They stand before the others.
    """

    num_nodes: int
    node_ids: Array | None = None
    node_rank: Array | None = None
    num_counted: int | None = None

    def to_stored(self, ids: Array) -> Array:
        """Stored ids of the user's ids."""
        return ids if self.node_rank is None else self.node_rank[ids]

    def to_user(self, stored_ids: Array) -> Array:
        """The user's ids of stored ids."""
        return stored_ids if self.node_ids is None else self.node_ids[stored_ids]

    def layout(self) -> Header:
        """Header of a file of both."""
        ids = id_dtype(self.num_nodes)
        return vector_layout(self.num_nodes, {"rows": ids, "node_rank": ids})

    def write(self, file: FileWriter, ids_section: str = "node_ids") -> None:
        """Writes both to sections of a file; in input order, there are none."""
        if self.node_ids is not None and self.node_rank is not None:
            file.append(ids_section, self.node_ids)
            file.append("node_rank", self.node_rank)


def ends_of(edge_type: EdgeType, turned: bool) -> tuple[str, str]:
    """The node types of sources and targets; of targets and sources if it is turned.

    Lists of incoming edges are: the first has the lists, the second one is in them.
    """
    source, _, target = edge_type
    return (target, source) if turned else (source, target)


def hot_order(folder: Path, num_nodes: int, occurrences: Iterable[Array], memory: int) -> NodeOrder:
    """Order by descending number of occurrences, ties by ascending id.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if arrays are larger than the memory.
    num_nodes : int
    occurrences : iterator of 1-D arrays
        Every id as often as it occurs.
    memory : int
        Bytes.
    """
    counts = sort.temp_array(folder, num_nodes, np.uint64, memory // 2)
    for ids in occurrences:
        count_ids(ids, counts)
    return _by_count(folder, counts, NodeOrder(num_nodes), memory)


def visit_order(folder: Path, visits: Rows, ties: NodeOrder, memory: int) -> NodeOrder:
    """Order by descending number of visits, ties as in another order.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if arrays are larger than the memory.
    visits : Rows
        A number for each node.
    ties : NodeOrder
    memory : int
        Bytes.
    """
    counts = sort.temp_array(folder, ties.num_nodes, np.uint64, memory // 2)
    for ids, numbers in visits.chunks(_CHUNK):
        counts[ties.to_stored(ids)] = numbers[:, 0]
    return _by_count(folder, counts, ties, memory)


def _by_count(
    folder: Path, keys: npt.NDArray[np.uint64], ties: NodeOrder, memory: int
) -> NodeOrder:
    """Order by descending count, ties as in another order, in which the counts are.

    `keys` are the counts, which are sorted in place.
    """
    num_nodes = len(keys)
    # One in-place sort of (maximum - count, position) packed in 64 bits. Counts that need
    # more bits than the position leaves free are capped: such hubs are equally hot.
    bits = max(1, (num_nodes - 1).bit_length())
    most = np.uint64((1 << (64 - bits)) - 1)
    for begin in range(0, num_nodes, _CHUNK):
        part = keys[begin : begin + _CHUNK]
        np.minimum(part, most, out=part)
        np.subtract(most, part, out=part)
        part <<= np.uint64(bits)
        part |= np.arange(begin, begin + len(part), dtype=np.uint64)
    keys.sort()
    num_counted = int(np.searchsorted(keys, most << np.uint64(bits)))
    node_ids = sort.temp_array(folder, num_nodes, np.uint32, memory // 4)
    node_rank = sort.temp_array(folder, num_nodes, np.uint32, memory // 4)
    low = np.uint64((1 << bits) - 1)
    for begin in range(0, num_nodes, _CHUNK):
        ids = ties.to_user((keys[begin : begin + _CHUNK] & low).astype(np.uint32))
        node_ids[begin : begin + len(ids)] = ids
        node_rank[ids] = np.arange(begin, begin + len(ids), dtype=np.uint32)
    return NodeOrder(num_nodes, node_ids, node_rank, num_counted)


# The file


_COLUMNS = {"edge_ids": "position", "weights": "weight", "times": "time"}  # of an `EdgeList`
_SHORT = 32  # longer lists are summed one after the other, shorter ones side by side
_ENTRY_BYTES = 96  # of an edge while its list is sorted by time: time, keys, copies, permutations
_MIN_ENTRIES = 1024
_SIGN = np.uint64(1 << 63)
_NO_KEY = (1 << 64) - 1
# Nodes or edges of which all are looked at for what a build says; and where nobody watches it.
MOST_COUNTED, _COUNTED_UNSEEN = 10_000_000, 200_000
LOOKED_UP = 10_000  # of more edges
_HALF = np.uint64(32)


def graph_layout(edges: EdgeList, owners: NodeOrder, neighbors: NodeOrder | None = None) -> Header:
    """Header of the file, without the checksums; the parameters are those of `write_graph`."""
    num_nodes, is_typed = owners.num_nodes, neighbors is not None
    num_neighbors = owners.num_nodes if neighbors is None else neighbors.num_nodes
    count = edges.num_stored
    ids = id_dtype(num_neighbors)
    flags = (FLAG_DIRECTED if edges.directed else 0) | (FLAG_INCOMING if edges.incoming else 0)
    flags |= FLAG_TYPED if is_typed else 0
    arrays: list[tuple[str, npt.DTypeLike, int]] = [
        ("indptr", id_dtype(count + 1), num_nodes + 1),
        ("indices", ids, count),
    ]
    for name, dtype in payload_dtypes(edges).items():
        arrays.append((name, dtype, count))
        if name == "weights":
            arrays.append(("cum_weights", "<f8", count))
        elif name == "times":
            arrays.append(("time_order", id_dtype(count), count))
    if owners.node_ids is not None and not is_typed:
        arrays += [("node_ids", ids, num_nodes), ("node_rank", ids, num_nodes)]
    return layout(
        "graph",
        arrays,
        num_nodes=num_nodes,
        width=count,
        flags=flags,
        num_input_edges=edges.num_input_edges,
        num_neighbors=num_neighbors if is_typed else 0,
    )


def payload_dtypes(edges: EdgeList) -> dict[str, np.dtype[np.generic]]:
    """What entries have besides their ends, by section of the file."""
    dtypes: dict[str, np.dtype[np.generic]] = {}
    if edges.with_edge_ids:
        dtypes["edge_ids"] = id_dtype(edges.num_input_edges)
    if "weight" in edges.columns:
        dtypes["weights"] = edges.columns["weight"].dtype
    if edges.has_times:
        dtypes["times"] = np.dtype(np.int64)
    return dtypes


def _entries(
    edges: EdgeList, begin: int, end: int, owners: NodeOrder, neighbors: NodeOrder
) -> tuple[npt.NDArray[np.uint64], tuple[Array, ...]]:
    """Keys owner << 32 | neighbor, in stored ids, of some records, and their payload."""
    names = [_COLUMNS[name] for name in payload_dtypes(edges)]
    if edges.node_times is not None:
        names.remove("time")
    owner, neighbor, *payload = edges.read(begin, end, *edges.ends, *names)
    times: list[Array] = []  # of the entries, and of their mirrors
    if edges.node_times is not None:
        ends = (neighbor, owner) if edges.needs_mirrors else (neighbor,)
        times = [edges.node_times[ids] for ids in ends]
    elif edges.has_times:
        times = 2 * [payload.pop()]
    keys = edge_keys(owner, neighbor, owners.node_rank, neighbors.node_rank, available_processors())
    if not edges.needs_mirrors:
        return keys, (*payload, *times[:1])
    # A mirror follows its edge, not all edges: parallel edges stay in input order.
    both = np.repeat(keys, 2)
    np.bitwise_or(keys << _HALF, keys >> _HALF, out=both[1::2])
    payload = [np.repeat(array, 2) for array in payload]
    if times:
        payload.append(np.stack(times, axis=1).reshape(-1))
    loops = np.flatnonzero(owner == neighbor)
    if len(loops):
        loops = 2 * loops + 1
        both = np.delete(both, loops)
        payload = [np.delete(array, loops) for array in payload]
    return both, tuple(payload)


def sort_entries(
    folder: Path,
    edges: EdgeList,
    owners: NodeOrder,
    neighbors: NodeOrder,
    *,
    dtypes: Mapping[str, np.dtype[np.generic]],
    memory: int,
    progress: Progress,
) -> sort.EdgeSorter:
    """The entries of the lists of some edges, with a payload of these dtypes, sorted by both ends.

    The other parameters are those of `write_graph`; without types, `neighbors` is `owners`.
    """
    payload = list(dtypes.values())
    run = sort.run_length(payload, memory // 2 if edges.needs_mirrors else memory)
    sorter = sort.EdgeSorter(folder, payload, memory)
    with progress.phase("sorting edges", edges.num_records, "edges") as advance:
        for begin in range(0, edges.num_records, run):
            end = min(begin + run, edges.num_records)
            sorter.spill()
            keys, values = _entries(edges, begin, end, owners, neighbors)
            sorter.add(keys, values)
            advance(end - begin)
    return sorter


class EntryWriter:
    """Writes entries of neighbour lists to a file, and the sections that are derived from them.

    Parameters
    ----------
    file : FileWriter
    memory : int
        Bytes for the order of each list by time.

    Attributes
    ----------
    needs_owners : bool
        Whether sections are derived for each list.
    most_entries : int
        That are ordered by time at once.
    """

    def __init__(self, file: FileWriter, memory: int) -> None:
        self._file = file
        self._sums = ListSums()
        self._time_order = TimeOrderWriter(file, file.path.parent, memory)
        self.most_entries = self._time_order.most_entries
        self.needs_owners = any(file.header.find(name) for name in ("weights", "times"))

    def add(self, columns: Mapping[str, Array], owners: npt.NDArray[np.uint64] | None) -> None:
        """Takes the next entries, by section; `owners` has the node of each, if they are needed."""
        for name, values in columns.items():
            self._file.append(name, values)
        if owners is None:
            return
        if "weights" in columns:
            self._file.append("cum_weights", self._sums.add(owners, columns["weights"]))
        if "times" in columns:
            for begin in range(0, len(owners), self.most_entries):
                part = slice(begin, begin + self.most_entries)
                self._time_order.add(owners[part], columns["times"][part])

    def finish(self, order: NodeOrder) -> None:
        """Writes the last list by time, and the order of the nodes where the file has it."""
        self._time_order.finish()
        if self._file.header.find("node_ids") is not None:
            order.write(self._file)


def _write_indptr(
    file: FileWriter, keys: npt.NDArray[np.uint64], done: int, first: int, stop: int
) -> int:
    """Writes the entries of the nodes [first, stop); `keys` are the sorted ones after `done`."""
    for begin in range(first, stop, _CHUNK):
        file.append("indptr", list_starts(keys, done, begin, min(begin + _CHUNK, stop)))
    return max(first, stop)


def _counting_reversed(
    keys: npt.NDArray[np.uint64] | None, num_nodes: int, most: int
) -> Future[Reversed] | None:
    """Counts beside the writing of the file, which leaves processors idle."""
    if keys is None or not len(keys):
        return None
    pool = ThreadPoolExecutor(1)
    is_exact = max(len(keys), num_nodes) <= most
    counted = pool.submit(_count_reversed, keys, num_nodes if is_exact else None)
    pool.shutdown(wait=False)
    return counted


def _count_reversed(keys: npt.NDArray[np.uint64], num_nodes: int | None) -> Reversed:
    """Of all edges among so many nodes, or of some."""
    if num_nodes is not None:
        return Reversed(2 * count_mutual(keys, num_nodes))
    at = np.random.default_rng(0).integers(0, len(keys), LOOKED_UP)
    wanted = np.sort((keys[at] << _HALF) | (keys[at] >> _HALF))
    wanted = wanted[wanted != (wanted << _HALF) | (wanted >> _HALF)]  # no self-loops
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return Reversed(int(np.count_nonzero(keys[places] == wanted)), len(wanted))


def write_graph(
    path: Path,
    edges: EdgeList,
    owners: NodeOrder,
    neighbors: NodeOrder | None,
    options: WriteOptions,
) -> FileWriter:
    """Sorts an edge list into a file, and frees the memory and disk space of the list.

    Parameters
    ----------
    path : pathlib.Path
        Final path.
    edges : EdgeList
    owners : NodeOrder
        The nodes that have the lists; without `neighbors`, the file has their order.
    neighbors : NodeOrder or None
        Of a graph with types: the nodes that are in the lists.
    options : WriteOptions

    Returns
    -------
    FileWriter
        Sealed, not yet published.
    """
    dtypes, progress, memory = payload_dtypes(edges), options.progress, options.sort_memory
    time_memory = memory // 4 if edges.has_times else 0
    with sealed_file(path, graph_layout(edges, owners, neighbors)) as file:
        writer = EntryWriter(file, time_memory)
        sorter = sort_entries(
            path.parent,
            edges,
            owners,
            neighbors or owners,
            dtypes=dtypes,
            memory=memory - time_memory,
            progress=progress,
        )
        counts = options.notes.lists[path.name] = ListCounts()
        if edges.directed and (neighbors is None or neighbors is owners):
            most = MOST_COUNTED if progress.enabled else _COUNTED_UNSEEN
            counts.reversed = _counting_reversed(sorter.keys_in_memory, owners.num_nodes, most)
        is_mirrored = edges.needs_mirrors
        edges.close()
        size = min(_CHUNK, writer.most_entries) if edges.has_times else _CHUNK
        done = node = 0
        before = _NO_KEY
        with progress.phase("writing graph", file.header.width, "edges") as advance:
            for keys, payload in sort.sorted_pieces(sorter, size):
                node = _write_indptr(file, keys, done, node, int(keys[-1] >> _HALF) + 1)
                done += len(keys)
                columns = dict(zip(dtypes, payload, strict=True))
                indices, repeats = key_neighbors(keys, before, is_mirrored)
                counts.parallel, before = counts.parallel + repeats, int(keys[-1])
                columns = {"indices": indices, **columns}
                writer.add(columns, keys >> _HALF if writer.needs_owners else None)
                advance(len(keys))
            _write_indptr(file, np.empty(0, np.uint64), done, node, file.header.num_nodes + 1)
            writer.finish(owners)
    return file


def _list_begins(sources: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    """Where the list of another source begins."""
    return np.flatnonzero(np.concatenate([[True], sources[1:] != sources[:-1]]))


# Sums of weights


class ListSums:
    """Sums each list separately, entry by entry in float64; lists may span pieces.

    One running sum over all lists, minus its value at the start of each list, would be faster but
    wrong: small weights are lost to rounding when added to the sum of all earlier lists.
    """

    def __init__(self) -> None:
        self._source = -1
        self._sum = 0.0

    def add(self, sources: npt.NDArray[np.uint64], weights: Array) -> npt.NDArray[np.float64]:
        """Running sums of the next entries, (n,) float64.

        Parameters
        ----------
        sources : (n,) uint64
            Not empty, ascending, and not below those of the previous piece.
        weights : (n,) float32
        """
        sums = weights.astype(np.float64)
        if int(sources[0]) == self._source:
            sums[0] += self._sum
        starts = _list_begins(sources)
        lengths = np.diff(starts, append=len(sums))
        short = lengths <= _SHORT
        begins, sizes = starts[short], lengths[short]
        for at in range(1, _SHORT):
            begins, sizes = begins[sizes > at], sizes[sizes > at]
            sums[begins + at] += sums[begins + at - 1]
        for start, length in zip(starts[~short].tolist(), lengths[~short].tolist(), strict=True):
            long_list = sums[start : start + length]
            np.add.accumulate(long_list, out=long_list)
        self._source, self._sum = int(sources[-1]), float(sums[-1])
        return sums


# Order by time


def _time_keys(times: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """New unsigned numbers in the order of signed ones."""
    return np.bitwise_xor(times.view(np.uint64), _SIGN)


def _order_lists(
    sources: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Offsets within each of several complete lists, oldest edge first."""
    starts = _list_begins(sources)
    by_time = sort.sort_stably(_time_keys(times))
    order = by_time[sort.sort_stably(sources[by_time])].astype(np.int64)
    order -= np.repeat(starts, np.diff(starts, append=len(sources)))
    return order


class TimeOrderWriter:
    """Writes ``time_order``: each list sorted by time, equal times in the order of the list.

    The last list of a piece is sorted by itself, in runs, which are merged when its end is known.

    Parameters
    ----------
    file : FileWriter
    folder : pathlib.Path
        For temporary files.
    memory : int
        Bytes that the ordering may take.
    """

    def __init__(self, file: FileWriter, folder: Path, memory: int) -> None:
        self.most_entries = max(_MIN_ENTRIES, memory // _ENTRY_BYTES)
        self._file = file
        self._dtype = id_dtype(file.header.width)
        self._new_runs = partial(sort.EdgeSorter, folder, [self._dtype], memory)
        self._start(np.uint64(0))

    def _start(self, source: np.uint64) -> None:
        """Begins the list of a node, which is the last one until another begins."""
        self._source = source
        self._num_entries = 0  # so far
        self._runs = self._new_runs()

    def add(self, sources: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]) -> None:
        """Takes the next entries, at most `most_entries`.

        Parameters
        ----------
        sources : (n,) uint64
            Not empty, ascending, and not below those of the previous piece.
        times : (n,) int64
        """
        begin = int(np.searchsorted(sources, self._source, "right"))
        self._extend(times[:begin])
        if begin == len(sources):
            return
        self.finish()
        self._start(sources[-1])
        end = int(np.searchsorted(sources, sources[-1], "left"))
        if begin < end:
            self._file.append("time_order", _order_lists(sources[begin:end], times[begin:end]))
        self._extend(times[end:])

    def finish(self) -> None:
        """Writes the last list."""
        for _, (offsets,) in self._runs.merged():
            self._file.append("time_order", offsets)

    def _extend(self, times: npt.NDArray[np.int64]) -> None:
        """Sorts entries of the last list into a run; a second run moves the first to the disk."""
        offsets = np.arange(len(times), dtype=self._dtype) + self._dtype.type(self._num_entries)
        if len(times):
            self._runs.add(_time_keys(times), (offsets,))
        self._num_entries += len(times)
