"""Sections of files are copied with new rows in between, and lists with new entries.

The stored lists keep their order: the entries of new edges are sorted alone, and each finds its
place by a binary search in its list.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.ingest import sort
from graphzero.ingest.dataset_files import StoredGraph, map_section
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.lists import EntryWriter, NodeOrder, payload_dtypes, sort_entries
from graphzero.ingest.options import WriteOptions
from graphzero.ingest.sort import Array
from graphzero.store.format import FileWriter, Header
from graphzero.units import available_processors, refuse_mask

_CHUNK = 1 << 20
_PIECE_BYTES = 8 << 20
_SEARCHED = 1 << 18  # entries whose places are looked for at once
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
NO_POSITIONS = np.empty(0, np.int64)


# Rows of sections


class StoredSection:
    """A section of a file, which is compared with its checksum when all of it has been read.

    Else a new checksum would hide damage.

    Parameters
    ----------
    path : pathlib.Path
    header : Header
    name : str
        Of the section.
    width : int
        Elements of a row; rows of one element are numbers.
    change : callable, optional
        What becomes of rows.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        name: str,
        *,
        width: int | None = None,
        change: Callable[[Array], Array] | None = None,
    ) -> None:
        section = header.find(name)
        count, self._expected = (0, 0) if section is None else (section.count, section.crc)
        array = map_section(path, header, name, count)
        self._rows = array if width is None else array.reshape(-1, width)
        self._path, self._name, self._change = path, name, change
        self._crc = 0
        self.row_bytes = array.itemsize * (width or 1)

    def __len__(self) -> int:
        return len(self._rows)

    def next(self, begin: int, end: int) -> Array:
        """The rows [begin, end), where `begin` is the end of the piece before.

        Raises
        ------
        FormatError
            With the last piece, if the section is damaged.
        """
        rows = self._rows[begin:end]
        self._crc = zlib.crc32(sort.bytes_of(rows).data, self._crc)
        if end == len(self) and self._crc != self._expected:
            raise FormatError(
                f"{self._path}: section {self._name!r} is corrupt (checksum mismatch): build the "
                f"dataset again"
            )
        return rows if self._change is None else self._change(rows)

    def pieces(self) -> Iterator[Array]:
        """All rows."""
        for begin in range(0, len(self), _CHUNK):
            yield self.next(begin, min(begin + _CHUNK, len(self)))


def verify_sections(path: Path, header: Header, *names: str) -> None:
    """Raises a FormatError if one of these sections is damaged, where the file has it."""
    for name in names:
        if header.find(name) is not None:
            for _ in StoredSection(path, header, name).pieces():
                pass


@dataclass(frozen=True)
class NumberSection:
    """The numbers from 0, as a section has them."""

    count: int
    row_bytes = 8

    def __len__(self) -> int:
        return self.count

    def next(self, begin: int, end: int) -> Array:
        """The numbers [begin, end)."""
        return np.arange(begin, end)


@dataclass(frozen=True)
class PickedRows:
    """Rows of an array in the order of positions, the least of which is `first`."""

    array: Array
    positions: Array
    first: int

    def __getitem__(self, part: slice, /) -> Array:
        rows: Array = self.array[self.positions[part] - self.first]
        return rows


RowSection = StoredSection | NumberSection  # whose rows are read once, from the first to the last
NewRows = Array | PickedRows | Sequence[int]  # which are read in pieces


def merged_pieces(
    stored: Sequence[RowSection],
    new: Sequence[NewRows],
    places: Array,
    removed: Array = NO_POSITIONS,
    locate: Callable[[int], object] = lambda end: None,
) -> Iterator[list[Array]]:
    """The rows of sections of one length with new rows among them, in pieces that are not empty.

    Parameters
    ----------
    stored, new : sequence
        The stored rows and the new ones of each section.
    places : (n,) int64
        How many stored rows stand before each new one, ascending.
    removed : (r,) int64
        Stored rows that are left out, ascending.
    locate : callable
        Called with the end of a piece, before `places` is looked at up to there.
    """
    count = len(stored[0])
    step = max(1, _PIECE_BYTES // sum(section.row_bytes for section in stored))
    begin = low = 0
    while begin < count or low < len(places):
        end = min(begin + step, count)
        locate(end)
        high = int(np.searchsorted(places, end)) if end < count else len(places)
        if high - low > step:
            high = low + step
            end = int(places[high])
        first, last = np.searchsorted(removed, [begin, end]).tolist()
        left_out = removed[first:last] - begin
        at = places[low:high] - begin
        at += np.arange(high - low) - np.searchsorted(left_out, at)
        is_stored = np.ones(end - begin - len(left_out) + high - low, np.bool_)
        is_stored[at] = False
        piece = []
        for section, new_rows in zip(stored, new, strict=True):
            rows = section.next(begin, end)
            rows = np.delete(rows, left_out, axis=0) if len(left_out) else rows
            if low < high:
                both = np.empty((len(is_stored), *rows.shape[1:]), rows.dtype)
                both[is_stored] = rows
                both[at] = new_rows[low:high]
                rows = both
            piece.append(rows)
        if len(is_stored):  # all of a piece may be left out
            yield piece
        begin, low = end, high


# Edges that leave


def removed_positions(value: Any, num_edges: int | None = None) -> Array:
    """Positions of edges, or a mask of them, as ascending positions, each once.

    Raises
    ------
    IndexError
        If one is out of range.
    ValueError
        If it is neither.
    """
    array = np.asarray(value)
    is_mask = array.dtype == np.bool_
    if array.ndim != 1 or (array.dtype.kind not in "iub" and array.size):
        raise ValueError(
            f"remove_edges must be positions in the edge list, or a mask of it, not {array.dtype} "
            f"of shape {array.shape}"
        )
    if is_mask and num_edges not in (None, len(array)):
        raise ValueError(f"remove_edges is a mask of {len(array)} values for {num_edges} edges")
    if not is_mask and num_edges is not None:
        refuse_mask([array], len(array), num_edges, "remove_edges")
    positions = np.flatnonzero(array) if is_mask else np.unique(array.astype(np.int64))
    limit = 1 << 62 if num_edges is None else num_edges
    for position in positions[(positions < 0) | (positions >= limit)][:1]:
        raise IndexError(f"remove_edges: edge {position} is out of range for {num_edges} edges")
    return positions


def positions_after(removed: Array, positions: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Positions in the edge list after edges were removed, -1 for those, int64."""
    positions = np.asarray(positions)
    moved = positions.astype(np.int64)
    if len(removed):
        before = np.searchsorted(removed, positions)
        moved -= before
        moved[np.searchsorted(removed, positions, "right") > before] = -1
    return moved


def entries_of(graph: StoredGraph, removed: Array) -> Array:
    """The entries of some edges in the lists, ascending."""
    entries = [NO_POSITIONS]
    for begin in range(0, graph.header.width if len(removed) else 0, _CHUNK):
        ids = graph.edge_ids(begin, min(begin + _CHUNK, graph.header.width))
        entries.append(begin + np.flatnonzero(positions_after(removed, ids) < 0))
    return np.concatenate(entries)


# Entries of lists


@dataclass
class EntryChanges:
    """Sorted entries that join the lists of a graph, and stored ones that leave them.

    Attributes
    ----------
    places : (n,) int64
        How many stored entries stand before each new one. The first `num_located` of them are
        known, the others larger than any.
    columns : dict of str to (n,) array
        "owners" and "neighbors", as stored ids, and sections of the graph file.
    removed : (r,) int64
        Stored entries, ascending.
    removed_edges : (e,) int64
        The positions of their edges, ascending.
    num_merged : int
        Edges that are stored already.
    """

    places: Array = field(default_factory=lambda: NO_POSITIONS)
    columns: dict[str, Array] = field(default_factory=dict)
    removed: Array = field(default_factory=lambda: NO_POSITIONS)
    removed_edges: Array = field(default_factory=lambda: NO_POSITIONS)
    num_located: int = 0
    num_merged: int = 0

    def __post_init__(self) -> None:
        for name in ("owners", "neighbors", "edge_ids", "weights", "times"):
            self.columns.setdefault(name, NO_POSITIONS)

    @property
    def num_added(self) -> int:
        """How many entries more there will be."""
        return len(self.places) - len(self.removed)

    def locate(self, graph: StoredGraph, end: int) -> None:
        """Finds the places before an entry, which are then read anyhow, or all."""
        places, width = self.places, graph.header.width
        while (first := self.num_located) < len(places) and (
            end == width or not first or places[first - 1] < end
        ):
            part = slice(first, first + _SEARCHED)
            owners, neighbors = self.columns["owners"][part], self.columns["neighbors"][part]
            places[part] = _places(graph, owners, neighbors)
            self.num_located = min(part.stop, len(places))

    def without_stored(self, graph: StoredGraph) -> EntryChanges:
        """Those of edges that are not stored yet."""
        header = graph.header
        self.locate(graph, header.width)
        indptr = map_section(graph.path, header, "indptr", header.num_nodes + 1)
        indices = map_section(graph.path, header, "indices", header.width)
        count = num_merged = 0
        for begin in range(0, len(self.places), _SEARCHED):
            part = slice(begin, begin + _SEARCHED)
            neighbors, last = self.columns["neighbors"][part], self.places[part] - 1
            owners = self.columns["owners"][part].astype(np.int64)
            is_stored = last >= indptr[np.minimum(owners, header.num_nodes)]
            is_stored[is_stored] = indices[last[is_stored]] == neighbors[is_stored]
            is_stored &= ~np.isin(last, self.removed)
            num_merged += int((is_stored & (graph.is_directed | (owners <= neighbors))).sum())
            end = count + int(np.count_nonzero(~is_stored))
            for array in (self.places, *self.columns.values()):
                if len(array):
                    array[count:end] = array[part][~is_stored]
            count = end
        columns = {name: array[:count] for name, array in self.columns.items()}
        return replace(
            self,
            places=self.places[:count],
            columns=columns,
            num_located=count,
            num_merged=num_merged,
        )


def sorted_entries(
    folder: Path, edges: EdgeList, owners: NodeOrder, neighbors: NodeOrder, options: WriteOptions
) -> EntryChanges:
    """The entries of new edges, sorted, whose places are not known yet."""
    memory = options.sort_memory // 2
    dtypes = payload_dtypes(edges)
    if "edge_ids" in dtypes:
        dtypes["edge_ids"] = np.dtype(np.int64)
    sorter = sort_entries(
        folder, edges, owners, neighbors, dtypes=dtypes, memory=memory, progress=options.progress
    )
    of_entries = partial(sort.temp_array, folder, edges.num_stored, memory=memory // 8)
    places = of_entries(dtype=np.int64)
    places[:] = np.iinfo(np.int64).max
    dtypes = {"owners": np.dtype(np.uint32), "neighbors": np.dtype(np.uint32), **dtypes}
    columns = {name: of_entries(dtype=dtype) for name, dtype in dtypes.items()}
    done = 0
    for keys, payload in sort.sorted_pieces(sorter, _SEARCHED):
        part = slice(done, done + len(keys))
        for name, values in zip(dtypes, (keys >> _HALF, keys & _LOW, *payload), strict=True):
            columns[name][part] = values
        done += len(keys)
    return EntryChanges(places, columns)


def _places(graph: StoredGraph, owners: Array, neighbors: Array) -> Array:
    """How many stored entries stand before those of such ends: equal ones do."""
    header = graph.header
    indptr = map_section(graph.path, header, "indptr", header.num_nodes + 1)
    indices = map_section(graph.path, header, "indices", header.width)
    try:
        return _core.entry_places(indptr, indices, owners, neighbors, available_processors())
    except FormatError:
        raise FormatError(f"{graph.path} is corrupt: build the dataset again") from None


def write_merged_lists(
    file: FileWriter,
    graph: StoredGraph,
    entries: EntryChanges,
    order: NodeOrder,
    options: WriteOptions,
) -> None:
    """Writes the lists of a graph with new entries; `order` is that of the nodes that have them."""
    memory = options.sort_memory // 4
    starts = _write_starts(file, graph, entries, memory)
    columns = {"indices": entries.columns["neighbors"], **entries.columns}
    names = [name for name in ("indices", "edge_ids", "weights", "times") if file.header.find(name)]
    changes = {"edge_ids": partial(positions_after, entries.removed_edges)}
    sections = [
        StoredSection(graph.path, graph.header, name, change=changes.get(name)) for name in names
    ]
    new, locate = [columns[name] for name in names], partial(entries.locate, graph)
    pieces = merged_pieces(sections, new, entries.places, entries.removed, locate)
    writer, done = EntryWriter(file, memory), 0
    # Each piece is written in a thread while the next one is made.
    with (
        options.progress.phase(f"writing {file.path.name}", file.header.width, "edges") as advance,
        ThreadPoolExecutor(1) as thread,
    ):
        written = thread.submit(lambda: None)
        for piece in pieces:
            end = done + len(piece[0])
            owners = _owners(starts, done, end) if writer.needs_owners else None
            written.result()
            written = thread.submit(writer.add, dict(zip(names, piece, strict=True)), owners)
            advance(end - done)
            done = end
        written.result()
    writer.finish(order)


def _write_starts(
    file: FileWriter, graph: StoredGraph, entries: EntryChanges, memory: int
) -> Array:
    """Writes where each list begins, and returns it."""
    count, owners = file.header.num_nodes + 1, entries.columns["owners"]
    starts = sort.temp_array(file.path.parent, count, np.int64, memory)
    done = 0
    for piece in StoredSection(graph.path, graph.header, "indptr").pieces():
        starts[done : done + len(piece)] = piece
        done += len(piece)
    starts[done:] = starts[done - 1]  # of new nodes
    for begin in range(0, count, _CHUNK):
        end = min(begin + _CHUNK, count)
        starts[begin:end] -= np.searchsorted(entries.removed, starts[begin:end])
        low, high = np.searchsorted(owners, [begin, end - 1]).tolist()
        counts = np.bincount(owners[low:high] - begin, minlength=end - begin)
        starts[begin:end] += low + np.cumsum(counts) - counts
        file.append("indptr", starts[begin:end])
    return starts


def _owners(starts: Array, begin: int, end: int) -> npt.NDArray[np.uint64]:
    """The nodes in whose lists the entries [begin, end) are."""
    first, last = (int(np.searchsorted(starts, at, "right")) - 1 for at in (begin, end - 1))
    bounds = np.clip(starts[first : last + 2], begin, end)
    return np.repeat(np.arange(first, last + 1, dtype=np.uint64), np.diff(bounds))
