"""Rows that are found by a column of node ids: where these are, and the same rows by other ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy

from graphzero.ingest.casting import CastRows
from graphzero.ingest.row_input import PartRows, TableRows
from graphzero.ingest.row_stream import RowChunk, Rows
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.table import Table

__all__ = ["RenamedRows", "id_columns"]


def id_columns(rows: Rows) -> list[tuple[Table, Column]]:
    """The columns of node ids, with their tables: several where the rows come in parts."""
    if isinstance(rows, CastRows):
        return id_columns(rows.rows)
    if isinstance(rows, PartRows):
        return [pair for part in rows.parts for pair in id_columns(part)]
    return [(rows.table, key) for key in rows.keys] if isinstance(rows, TableRows) else []


def _over(rows: Rows, change: Callable[[Table, Column], Table]) -> Rows:
    """The same rows of changed tables."""
    if isinstance(rows, CastRows):
        return CastRows(_over(rows.rows, change), rows.dtype)
    if isinstance(rows, PartRows):
        return PartRows(rows.name, [_over(part, change) for part in rows.parts])
    if not isinstance(rows, TableRows):
        return rows
    changed = copy(rows)
    for key in rows.keys:
        changed.table = change(rows.table, key)
    return changed


class RenamedRows:
    """Rows whose ids are translated to the nodes that have them.

    Parameters
    ----------
    rows : Rows
    change : callable
        From a table, and its column of ids, to the same table with nodes in this column.
    count : int
        Nodes.
    user_id : callable
        The user's id of a node, for messages.
    """

    def __init__(
        self,
        rows: Rows,
        change: Callable[[Table, Column], Table],
        count: int,
        user_id: Callable[[int], str],
    ) -> None:
        self.name = rows.name
        self.dtype = rows.dtype
        self.width = rows.width
        self.row_shape = rows.row_shape
        self.vector = rows.vector
        self.in_order = rows.in_order
        self.user_id = user_id
        self._count = count
        self._rows = _over(rows, change)

    def count(self) -> int:
        """Nodes."""
        return self._count

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Pieces of the rows."""
        return self._rows.chunks(max_rows)

    def locate(self, row: int) -> str:
        """Place of a row in the input, in words."""
        return self._rows.locate(row)
