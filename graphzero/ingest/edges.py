"""The first pass over an edge list: validate it, and keep it in compact columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphzero.ingest.columns import Column
from graphzero.ingest.edge_input import EdgeInput
from graphzero.ingest.progress import Progress
from graphzero.ingest.sizes import require_disk_space
from graphzero.ingest.spill import TempColumn
from graphzero.ingest.tables import Table

__all__ = ["EdgeColumn", "EdgeList", "read_edges"]

_MAX_CHUNK_ROWS = 1 << 20


class EdgeColumn(Protocol):
    """One value of every edge, read in pieces.

    Attributes
    ----------
    dtype : numpy.dtype
    """

    dtype: np.dtype[Any]

    def __len__(self) -> int: ...

    def read(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Values [begin, end); not to be written to."""
        ...

    def close(self) -> None:
        """Gives memory and disk space back."""
        ...


@dataclass(frozen=True)
class EdgeList:
    """A validated edge list, in the user's ids and order.

    Attributes
    ----------
    source, target : EdgeColumn of uint32
    weight, time : EdgeColumn or None
    num_loops : int
        Edges from a node to itself.
    max_id : int
        Largest id, -1 without edges.
    row : EdgeColumn or None
        Of the user's edge list, for each edge; None where edge i is row i.
    stored_rows : int or None
        None for the user's own edge list. For the entries of neighbour lists, which have both
        directions already, the rows that they were made from.
    """

    source: EdgeColumn
    target: EdgeColumn
    weight: EdgeColumn | None
    time: EdgeColumn | None
    num_loops: int
    max_id: int
    row: EdgeColumn | None = None
    stored_rows: int | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def num_input_edges(self) -> int:
        """Rows of the user's edge list."""
        return len(self) if self.stored_rows is None else self.stored_rows

    def needs_mirrors(self, directed: bool) -> bool:
        """Whether the other direction of each edge is still to be made."""
        return not directed and self.stored_rows is None

    def num_stored(self, directed: bool) -> int:
        """Entries of the neighbour lists: a mirrored self-loop is stored once."""
        return 2 * len(self) - self.num_loops if self.needs_mirrors(directed) else len(self)

    def occurrences(self, directed: bool, max_rows: int) -> Iterator[npt.NDArray[Any]]:
        """Every id as often as it occurs in the neighbour lists, in pieces."""
        for begin in range(0, len(self), max_rows):
            end = min(begin + max_rows, len(self))
            target = self.target.read(begin, end)
            yield target
            if self.needs_mirrors(directed):
                source = self.source.read(begin, end)
                yield source[source != target]

    def close(self) -> None:
        """Gives memory and disk space back."""
        for column in (self.source, self.target, self.weight, self.time, self.row):
            if column is not None:
                column.close()


def _check_bound(
    ids: npt.NDArray[Any], bound: int, why: str, column: Column, table: Table, row: int
) -> None:
    if ids.max() >= bound:
        bad = int(np.flatnonzero(ids >= bound)[0])
        raise ValueError(
            f"{table.name}, {table.locate(row + bad)}: {column.label} {ids[bad]} is out of range "
            f"for {bound} nodes ({why})"
        )


def _check_weights(weights: npt.NDArray[Any], table: Table, row: int) -> None:
    good = np.isfinite(weights) & (weights >= 0)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        what = (
            "is negative: weights must not be negative"
            if np.isfinite(weights[bad])
            else "is not a finite 32-bit number"
        )
        raise ValueError(f"{table.name}, {table.locate(row + bad)}: weight {weights[bad]} {what}")


def _fill(
    kept: list[TempColumn],
    edges: EdgeInput,
    max_rows: int,
    bound: int | None,
    why: str,
    progress: Progress,
) -> tuple[int, int]:
    """Reads all rows; returns the number of self-loops and the largest id."""
    table, columns = edges.table, edges.columns
    row, num_loops, max_id = 0, 0, -1
    with progress.phase("reading edges", table.num_rows) as advance:
        for chunk in table.chunks(columns, max_rows):
            if not len(chunk[0]):
                continue
            for ids, column in zip(chunk[:2], columns[:2], strict=True):
                if bound is not None:
                    _check_bound(ids, bound, why, column, table, row)
                max_id = max(max_id, int(ids.max()))
            if edges.has_weights:
                _check_weights(chunk[2], table, row)
            for column_store, values in zip(kept, chunk, strict=True):
                column_store.append(values)
            num_loops += int(np.count_nonzero(chunk[0] == chunk[1]))
            row += len(chunk[0])
            advance(len(chunk[0]))
    return num_loops, max_id


def read_edges(
    edges: EdgeInput,
    folder: Path,
    *,
    memory: int,
    bound: int | None,
    why: str,
    progress: Progress,
) -> EdgeList:
    """Reads an edge list once, from begin to end.

    Parameters
    ----------
    edges : EdgeInput
    folder : pathlib.Path
        On whose disk the columns live if they are larger than the memory.
    memory : int
        Bytes that the columns may take.
    bound : int or None
        Number of nodes, if it is known already.
    why : str
        How it is known, for a message.
    progress : Progress

    Raises
    ------
    ValueError
        Naming the file, the line or row, and the value that is wrong.
    OSError
        If the file cannot be read, or the disk is full.
    """
    table, columns = edges.table, edges.columns
    row_bytes = sum(column.dtype.itemsize for column in columns)
    if table.num_rows is not None and table.num_rows * row_bytes > memory:
        require_disk_space(folder, table.num_rows * row_bytes)
    kept = [
        TempColumn(folder, column.dtype, memory * column.dtype.itemsize // row_bytes)
        for column in columns
    ]
    max_rows = max(1024, min(_MAX_CHUNK_ROWS, memory // (4 * row_bytes)))
    try:
        num_loops, max_id = _fill(kept, edges, max_rows, bound, why, progress)
    except BaseException:
        for column_store in kept:
            column_store.close()
        raise
    optional = iter(kept[2:])
    weight = next(optional) if edges.has_weights else None
    time = next(optional) if edges.has_times else None
    return EdgeList(kept[0], kept[1], weight, time, num_loops, max_id)
