"""Attributes that drive sampling, as further columns of an edge list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.casting import CastRows
from graphzero.ingest.edge_input import EdgeInput
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.table import Chunk, Table, checked
from graphzero.store.format import BFLOAT16

__all__ = ["join_columns"]


def _wrong_count(rows: Rows, count: int | str, num_edges: int | str) -> ValueError:
    return ValueError(f"{rows.name} has {count} rows for {num_edges} edges: every edge needs one")


class _Feed:
    """The numbers of a stream of rows, in pieces of any size."""

    def __init__(self, rows: Rows, max_rows: int) -> None:
        self._rows = rows
        self._chunks = rows.chunks(max_rows)
        self._rest: npt.NDArray[Any] = np.empty(0, rows.dtype)
        self._taken = 0

    def take(self, count: int) -> npt.NDArray[Any]:
        """The next numbers."""
        pieces = [self._rest]
        have = len(self._rest)
        while have < count:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise _wrong_count(
                    self._rows, self._taken + have, f"at least {self._taken + count}"
                )
            pieces.append(chunk[1][:, 0])
            have += len(chunk[1])
        values = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        self._rest = values[count:]
        self._taken += count
        return values[:count]

    def finish(self) -> None:
        """Checks that nothing is left."""
        if len(self._rest) or any(len(rows) for _, rows in self._chunks):
            raise _wrong_count(self._rows, "more", self._taken)


class _JoinedTable:
    """A table with more columns, each from a stream of rows.

    Parameters
    ----------
    table : Table
    rows : sequence of Rows
        Vectors.
    """

    def __init__(self, table: Table, rows: Sequence[Rows]) -> None:
        self.name = table.name
        self.names: Sequence[str] | None = None
        if table.names is not None:
            self.names = [*table.names, *(one.name for one in rows)]
        self.width = table.width + len(rows)
        self.num_records: int | None = table.num_records
        self.dtypes: Sequence[np.dtype[Any] | None] | None = None
        if table.dtypes is not None:
            self.dtypes = [*table.dtypes, *(one.dtype for one in rows)]
        self.first_record: Sequence[str] | None = None
        self._table = table
        self._rows = rows

    def locate(self, record: int) -> str:
        """Where a record (from 0) is, in words."""
        return self._table.locate(record)

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of the size of the table's."""
        first = self._table.width
        own = [column for column in columns if column.index < first]
        feeds = [
            _Feed(self._rows[column.index - first], max_records) if column.index >= first else None
            for column in columns
        ]
        record = 0
        for chunk in self._table.chunks(own, max_records):
            count, values = len(chunk[0]), iter(chunk)
            yield tuple(
                next(values) if feed is None else checked(feed.take(count), column, self, record)
                for feed, column in zip(feeds, columns, strict=True)
            )
            record += count
        for feed in feeds:
            if feed is not None:
                feed.finish()


def join_columns(
    source: EdgeInput,
    weight: Rows | None,
    time: Rows | None,
    *,
    names: tuple[str | None, str | None] = (None, None),
) -> EdgeInput:
    """An edge list with attributes as its weights and times.

    Parameters
    ----------
    source : EdgeInput
        Without the columns that are added.
    weight, time : Rows or None
        Vectors, one number for each edge; `resolve_driving` has checked them.
    names : pair of str
        Of the two attributes, for messages.
    """
    if weight is None and time is None:
        return source
    if weight is not None and weight.dtype == BFLOAT16:
        weight = CastRows(weight, np.dtype(np.float32))
    columns = list(source.columns)
    joined: list[Rows] = []
    for at, rows, name, dtype in (
        (2, weight, names[0], np.dtype("<f4")),
        (len(columns) + 1, time, names[1], np.dtype("<i8")),
    ):
        if rows is not None:
            index = source.table.width + len(joined)
            columns.insert(at, Column(index, f"value of {name!r}", dtype))
            joined.append(rows)
    return replace(
        source,
        table=_JoinedTable(source.table, joined),
        columns=tuple(columns),
        has_weights=source.has_weights or weight is not None,
        has_times=source.has_times or time is not None,
    )
