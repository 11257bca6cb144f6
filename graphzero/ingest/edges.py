"""The first pass over an edge list: validates it and stores it in compact columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphzero.ingest.edge_input import WEIGHT_LABEL, EdgeInput
from graphzero.ingest.progress import Progress
from graphzero.ingest.sources.bad_rows import MOST_EXAMPLES, BadRows
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.table import Chunk, Table
from graphzero.ingest.spill import TempColumn
from graphzero.store.disk_space import require_disk_space

__all__ = ["EdgeColumn", "EdgeList", "IdBound", "read_edges"]

_MAX_CHUNK_RECORDS = 1 << 20


class EdgeColumn(Protocol):
    """One value of every edge, read in pieces.

    Attributes
    ----------
    dtype : numpy.dtype
    """

    dtype: np.dtype[Any]

    def __len__(self) -> int: ...

    def read(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Values [begin, end); read-only by convention."""
        ...

    def close(self) -> None:
        """Frees memory and disk space."""
        ...


@dataclass(frozen=True)
class IdBound:
    """The number of nodes that ids of an end of edges may name.

    Attributes
    ----------
    count : int or None
        None if it is not known before the edges are.
    why : str
        How it is known, for messages.
    """

    count: int | None = None
    why: str = ""


@dataclass(frozen=True)
class EdgeList:
    """A validated edge list, in the user's ids and order.

    Attributes
    ----------
    source, target : EdgeColumn of uint32
    weight, time : EdgeColumn or None
    num_loops : int
        Edges from a node to itself.
    max_ids : (int, int)
        Largest source and largest target, -1 without edges.
    directed : bool
        Whether edges are stored in the given direction only.
    incoming : bool
        Whether an edge is stored in the list of its target, which then has its source.
    with_edge_ids : bool
        Whether each edge's position in the user's edge list is stored.
    position : EdgeColumn or None
        Each edge's position in the user's edge list; None where edge i has position i.
    num_user_edges : int or None
        Edges of the user's edge list, where these are not all of them, or entries of lists.
    has_both : bool
        Whether these are the entries of neighbour lists, which have both directions of an
        undirected edge already.
    node_times : (N,) int64 or None
        The time of each node, by the user's ids: that of an entry is its neighbour's. `time` is not
        used.
    """

    source: EdgeColumn
    target: EdgeColumn
    weight: EdgeColumn | None
    time: EdgeColumn | None
    num_loops: int
    max_ids: tuple[int, int]
    directed: bool
    incoming: bool
    with_edge_ids: bool
    position: EdgeColumn | None = None
    num_user_edges: int | None = None
    has_both: bool = False
    node_times: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def max_id(self) -> int:
        """Largest id, where both ends are nodes of one kind."""
        return max(self.max_ids)

    @property
    def owner(self) -> EdgeColumn:
        """The end of each edge in whose list it is stored."""
        return self.target if self.incoming else self.source

    @property
    def neighbor(self) -> EdgeColumn:
        """The other end, which the list has."""
        return self.source if self.incoming else self.target

    @property
    def num_input_edges(self) -> int:
        """Edges of the user's edge list."""
        return len(self) if self.num_user_edges is None else self.num_user_edges

    @property
    def needs_mirrors(self) -> bool:
        """Whether the opposite direction of each edge must be added."""
        return not self.directed and not self.has_both

    @property
    def has_times(self) -> bool:
        """Whether entries have times."""
        return self.time is not None or self.node_times is not None

    @property
    def num_stored(self) -> int:
        """Entries of the neighbour lists: a mirrored self-loop is stored once."""
        return 2 * len(self) - self.num_loops if self.needs_mirrors else len(self)

    def occurrences(self, max_edges: int) -> Iterator[npt.NDArray[Any]]:
        """Every id as often as it occurs in the neighbour lists, in pieces."""
        for begin in range(0, len(self), max_edges):
            end = min(begin + max_edges, len(self))
            neighbor = self.neighbor.read(begin, end)
            yield neighbor
            if self.needs_mirrors:
                owner = self.owner.read(begin, end)
                yield owner[owner != neighbor]

    def close(self) -> None:
        """Frees memory and disk space."""
        for column in (self.source, self.target, self.weight, self.time, self.position):
            if column is not None:
                column.close()


def _beyond(value: Any, bound: IdBound, column: Column) -> str:
    return f"{column.label} {value} is out of range for {bound.count} nodes ({bound.why})"


def _check_bound(
    ids: npt.NDArray[Any], bound: IdBound, column: Column, table: Table, record: int
) -> None:
    if bound.count is not None and ids.max() >= bound.count:
        bad = int(np.flatnonzero(ids >= bound.count)[0])
        place = f"{table.name}, {table.locate(record + bad)}"
        raise ValueError(f"{place}: {_beyond(ids[bad], bound, column)}")


def _are_weights(weights: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    good: npt.NDArray[np.bool_] = np.isfinite(weights) & (weights >= 0)
    return good


def _no_weight(value: Any, column: Column) -> str:
    what = (
        "is negative: weights must not be negative"
        if np.isfinite(value)
        else "is not a finite 32-bit number"
    )
    if column.label != WEIGHT_LABEL:
        what += "; with weight_attrs=[] it is an ordinary attribute"
    return f"{column.label} {value} {what}"


def _check_weights(weights: npt.NDArray[Any], column: Column, table: Table, record: int) -> None:
    good = _are_weights(weights)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        place = f"{table.name}, {table.locate(record + bad)}"
        raise ValueError(f"{place}: {_no_weight(weights[bad], column)}")


def _good_edges(
    chunk: Chunk, edges: EdgeInput, bounds: tuple[IdBound, IdBound], bad_rows: BadRows
) -> Chunk:
    """The edges of a chunk without those that the checks would refuse."""
    good = np.ones(len(chunk[0]), np.bool_)
    for ids, column, bound in zip(chunk, edges.columns, bounds, strict=False):
        if bound.count is not None:
            bad = np.flatnonzero(good & (ids >= bound.count))
            values = ids[bad[:MOST_EXAMPLES]]
            bad_rows.add_of_chunk(
                bad, [_beyond(value, bound, column) for value in values[:MOST_EXAMPLES]]
            )
            good[bad] = False
    if edges.has_weights:
        bad = np.flatnonzero(good & ~_are_weights(chunk[2]))
        values = chunk[2][bad[:MOST_EXAMPLES]]
        bad_rows.add_of_chunk(
            bad, [_no_weight(value, edges.columns[2]) for value in values[:MOST_EXAMPLES]]
        )
        good[bad] = False
    return chunk if good.all() else tuple(array[good] for array in chunk)


def _fill(
    stored: list[TempColumn],
    edges: EdgeInput,
    max_records: int,
    bounds: tuple[IdBound, IdBound],
    progress: Progress,
) -> tuple[int, tuple[int, int]]:
    """Reads all edges; returns the number of self-loops, the largest source and target."""
    table, columns = edges.table, edges.columns
    record, num_loops, max_ids = 0, 0, [-1, -1]
    with progress.phase("reading edges", table.num_records, "edges") as advance:
        for chunk in table.chunks(columns, max_records):
            if not len(chunk[0]):
                continue
            if edges.bad_rows is not None:
                chunk = _good_edges(chunk, edges, bounds, edges.bad_rows)
                if not len(chunk[0]):
                    continue
            for end, (ids, column, bound) in enumerate(zip(chunk, columns, bounds, strict=False)):
                _check_bound(ids, bound, column, table, record)
                max_ids[end] = max(max_ids[end], int(ids.max()))
            if edges.has_weights:
                _check_weights(chunk[2], columns[2], table, record)
            for column_store, values in zip(stored, chunk, strict=True):
                column_store.append(values)
            num_loops += int(np.count_nonzero(chunk[0] == chunk[1]))
            record += len(chunk[0])
            advance(len(chunk[0]))
    return num_loops, (max_ids[0], max_ids[1])


def read_edges(
    edges: EdgeInput,
    folder: Path,
    *,
    memory: int,
    bounds: tuple[IdBound, IdBound],
    progress: Progress,
) -> EdgeList:
    """Reads an edge list once, from beginning to end.

    Parameters
    ----------
    edges : EdgeInput
    folder : pathlib.Path
        For temporary files, if the columns are larger than the memory.
    memory : int
        Bytes that the columns may take.
    bounds : (IdBound, IdBound)
        Of sources and of targets.
    progress : Progress

    Raises
    ------
    ValueError
        Naming the file, the line, record or edge, and the wrong value.
    OSError
        If the file cannot be read, or the disk is full.
    """
    table, columns = edges.table, edges.columns
    edge_bytes = sum(column.dtype.itemsize for column in columns)
    if table.num_records is not None and table.num_records * edge_bytes > memory:
        require_disk_space(folder, table.num_records * edge_bytes, "the build needs")
    stored = [
        TempColumn(folder, column.dtype, memory * column.dtype.itemsize // edge_bytes)
        for column in columns
    ]
    max_records = max(1024, min(_MAX_CHUNK_RECORDS, memory // (4 * edge_bytes)))
    try:
        num_loops, max_ids = _fill(stored, edges, max_records, bounds, progress)
    except BaseException:
        for column_store in stored:
            column_store.close()
        raise
    if edges.bad_rows is not None and edges.bad_rows.skipped().count:
        warnings.warn(str(edges.bad_rows.skipped()), stacklevel=2)
    optional = iter(stored[2:])
    return EdgeList(
        source=stored[0],
        target=stored[1],
        weight=next(optional) if edges.has_weights else None,
        time=next(optional) if edges.has_times else None,
        num_loops=num_loops,
        max_ids=max_ids,
        directed=edges.directed,
        incoming=edges.incoming,
        with_edge_ids=edges.with_edge_ids,
    )
