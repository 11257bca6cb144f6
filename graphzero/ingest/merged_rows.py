"""Attributes of merged edges: one row of each group, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.aggregation import Groups, How
from graphzero.ingest.merged_edges import MergedEdges, Slots
from graphzero.ingest.row_stream import RowChunk, Rows
from graphzero.ingest.rows import Placement, block_rows
from graphzero.ingest.spill import TempColumn

__all__ = ["MergedRows", "merged_rows"]

_WORK = 128  # bytes of each number while rows are merged: sums, copies, indices


class MergedRows:
    """Rows of edges, with other rows at some positions; a `Rows`.

    Parameters
    ----------
    rows : Rows
        In the order of the edge list.
    kept : TempColumn of uint64
        The positions, ascending.
    values : TempColumn
        The bytes of their rows.
    """

    def __init__(self, rows: Rows, kept: TempColumn, values: TempColumn) -> None:
        self.name = rows.name
        self.dtype = rows.dtype
        self.width = rows.width
        self.row_shape = rows.row_shape
        self.vector = rows.vector
        self.in_order = rows.in_order
        self._rows = rows
        self._kept = kept
        self._values = values

    def count(self) -> int:
        """Edges."""
        return self._rows.count()

    def locate(self, row: int) -> str:
        """Place of a row in the input, in words."""
        return self._rows.locate(row)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Pieces of the rows."""
        at, begin, row_bytes = 0, 0, self.width * self.dtype.itemsize
        for ids, chunk in self._rows.chunks(max_rows):
            end = begin + len(chunk)
            kept = self._kept.read(at, min(at + len(chunk), len(self._kept)))
            kept = kept[: np.searchsorted(kept, np.uint64(end))]
            if len(kept):
                data = self._values.read(at * row_bytes, (at + len(kept)) * row_bytes)
                chunk = chunk.copy()
                chunk[(kept - np.uint64(begin)).astype(np.intp)] = data.view(self.dtype).reshape(
                    len(kept), self.width
                )
            at, begin = at + len(kept), end
            yield ids, chunk

    def close(self) -> None:
        """Frees the disk space."""
        self._kept.close()
        self._values.close()


def _placed(rows: Rows, slots: Slots, num_edges: int, placement: Placement, max_rows: int) -> None:
    """Brings the rows of merged edges to their slots."""
    at = begin = 0
    for _, chunk in rows.chunks(max_rows):
        end = begin + len(chunk)
        row = slots.row.read(at, min(at + len(chunk), len(slots.row)))
        row = row[: np.searchsorted(row, np.uint64(end))]
        if len(row):
            slot = slots.slot.read(at, at + len(row)).astype(np.int64)
            placement.add(slot, chunk[(row - np.uint64(begin)).astype(np.intp)])
        at, begin = at + len(row), end
    if begin != num_edges:
        raise ValueError(
            f"{rows.name} has {begin} rows for {num_edges} edges: every edge needs one"
        )


def _add_groups(
    groups: Groups, slots: Slots, blocks: Iterator[npt.NDArray[Any]], keep: Callable[..., None]
) -> None:
    """Merges the rows of slots; `keep` takes the positions of groups, and their rows."""
    at, last = 0, -1
    for block in blocks:
        kept = slots.kept.read(at, at + len(block))
        starts = np.ones(len(kept), np.bool_)
        starts[1:] = kept[1:] != kept[:-1]
        starts[0] = int(kept[0]) != last
        positions = slots.position.read(at, at + len(block))
        keep(kept[starts], groups.add(starts, positions, block))
        at, last = at + len(block), int(kept[-1])
    keep(np.empty(0, np.uint64), groups.finish())


def merged_rows(
    folder: Path,
    rows: Rows,
    merged: MergedEdges,
    how: How,
    *,
    num_edges: int,
    name: str,
    memory: int,
) -> Rows:
    """The rows of an attribute, with those of merged edges merged.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files.
    rows : Rows
        A row for each edge of the edge list. They are read here, and again from the result.
    merged : MergedEdges
    how : How
    num_edges : int
        Of the edge list.
    name : str
        Of the attribute, for messages.
    memory : int
        Bytes.

    Returns
    -------
    Rows
        To be closed, if it is a `MergedRows`.

    Raises
    ------
    RowsDiffer
    ValueError
        If there are not as many rows as edges, or a result does not fit the dtype.
    """
    if how == "first" or not len(merged):
        return rows
    slots = merged.slots()
    num_slots = len(slots.kept)
    max_rows = max(1, min(memory // (_WORK * (1 + rows.width)), block_rows(rows, memory // 2)))
    groups = Groups(how, rows.dtype, rows.width, name)
    placement = Placement(folder, rows, num_slots, memory // 4)
    out = TempColumn(folder, np.uint64), TempColumn(folder, np.uint8)

    def keep(kept: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        if how != "equal":
            out[0].append(kept)
            out[1].append(np.ascontiguousarray(values).view(np.uint8).reshape(-1))

    try:
        with closing(placement):
            _placed(rows, slots, num_edges, placement, max_rows)
            _add_groups(groups, slots, _pieces(placement.blocks(), max_rows), keep)
    except BaseException:
        for column in out:
            column.close()
        raise
    if how == "equal":
        for column in out:
            column.close()
        return rows
    return MergedRows(rows, *out)


def _pieces(blocks: Iterator[npt.NDArray[Any]], max_rows: int) -> Iterator[npt.NDArray[Any]]:
    for block in blocks:
        for begin in range(0, len(block), max_rows):
            yield block[begin : begin + max_rows]
