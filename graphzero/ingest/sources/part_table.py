"""Several files with the same columns as one table."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.table import Chunk, Table, checked, most_records

__all__ = ["PartTable"]

_INTEGER = re.compile(r"-?[0-9]{1,18}")


class PartTable:
    """The records of several tables, one after the other.

    Columns are matched by name where there are names, in any order. Partitions, such as a folder
    ``year=2020`` has, are further columns, unless the files have them.

    Parameters
    ----------
    name : str
        For messages.
    tables : sequence of Table
        At least one.
    partitions : sequence of dict of str to str
        One for each table, with the same names.

    Raises
    ------
    ValueError
        If the tables have different columns.
    """

    def __init__(
        self, name: str, tables: Sequence[Table], partitions: Sequence[dict[str, str]]
    ) -> None:
        first = tables[0]
        self.name = name
        self._tables = tables
        self._orders = [_order(table, first) for table in tables]
        added = [key for key in partitions[0] if key not in (first.names or ())]
        if added and first.names is None:
            raise ValueError(
                f"{name} has folders of partitions ({', '.join(added)}) over files without a "
                f"header, whose columns have no names: give the files as a list"
            )
        self._added = [[partition[key] for key in added] for partition in partitions]
        self._own = first.width
        self.names: Sequence[str] | None = None
        if first.names is not None:
            self.names = (*first.names, *added)
        self.width = first.width + len(added)
        counts = [table.num_records for table in tables]
        self.num_records: int | None = None
        if None not in counts:
            self.num_records = sum(count or 0 for count in counts)
        records = (table.first_record for table in tables)
        self.first_record = next((one for one in records if one is not None), None)
        if self.first_record is not None:
            self.first_record = (*self.first_record, *self._added[0])
        # Of files of text: see `CsvTable`.
        self.text_bytes = _sum_of([getattr(table, "text_bytes", None) for table in tables])
        self.most_records = _sum_of([most_records(table) for table in tables])
        self._starts = [0]
        self._dtypes: Sequence[np.dtype[Any] | None] | None = None

    @property
    def dtypes(self) -> Sequence[np.dtype[Any] | None] | None:
        """Of the columns, those that hold the numbers of all files."""
        if self._tables[0].dtypes is None:
            return None
        if self._dtypes is None:
            own = [
                [(table.dtypes or ())[order[i]] for table, order in self._pairs()]
                for i in range(self._own)
            ]
            added = zip(*self._added, strict=True)
            self._dtypes = [
                *(_common(kinds) for kinds in own),
                *(
                    np.dtype(np.int64) if all(map(_INTEGER.fullmatch, cells)) else None
                    for cells in added
                ),
            ]
        return self._dtypes

    def _pairs(self) -> Iterator[tuple[Table, list[int]]]:
        return zip(self._tables, self._orders, strict=True)

    def locate(self, record: int) -> str:
        """The file of a record, and where it is in there."""
        at = bisect_right(self._starts, record) - 1
        table = self._tables[at]
        return f"{table.name}, {table.locate(record - self._starts[at])}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, file by file."""
        record = 0
        for at, (table, order) in enumerate(self._pairs()):
            self._starts[at:] = [record]
            own = [
                _moved(column, order[column.index])
                for column in columns
                if column.index < self._own
            ]
            # Files without any own column that is asked for are read for their numbers of records.
            asked = own or [_moved(columns[0], order[0])]
            for chunk in table.chunks(asked, max_records):
                count, values = len(chunk[0]), iter(chunk)
                yield tuple(
                    next(values) if column.index < self._own else self._cells(at, column, count)
                    for column in columns
                )
                record += count

    def _cells(self, at: int, column: Column, count: int) -> Any:
        """The cell of a partition, as often as the file has records."""
        cell = self._added[at][column.index - self._own]
        if column.is_raw:
            return pa.repeat(pa.scalar(cell, pa.large_string()), count)
        if not _INTEGER.fullmatch(cell):
            raise ValueError(
                f"{self._tables[at].name}: {cell!r}, the name of its folder, is not "
                f"{column.expected()}"
            )
        return checked(np.full(count, int(cell)), column, self, self._starts[at])


def _sum_of(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _moved(column: Column, index: int) -> Column:
    return replace(column, index=index)


def _common(kinds: Sequence[np.dtype[Any] | None]) -> np.dtype[Any] | None:
    """The dtype that holds the numbers of all; None if one has none."""
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    # Lists of other lengths are found where they are read.
    shape = next((kind.shape for kind in known if kind.shape != (0,)), known[0].shape)
    return np.dtype((np.result_type(*(kind.base for kind in known)), shape))


def _columns_of(table: Table) -> str:
    if table.names is None:
        return f"{table.width} columns and no header"
    return f"the columns {', '.join(table.names)}"


def _order(table: Table, first: Table) -> list[int]:
    """Positions of a table's columns in the order of the first table's."""
    names, wanted = table.names, first.names
    same = (names is None) == (wanted is None) and table.width == first.width
    if (table.dtypes is None) != (first.dtypes is None):
        raise ValueError(f"{first.name} and {table.name} are files of different kinds")
    if not same or (names is not None and sorted(names) != sorted(wanted or ())):
        raise ValueError(
            f"{first.name} has {_columns_of(first)}, but {table.name} has {_columns_of(table)}: "
            f"the files of one table must have the same columns"
        )
    if names is None or list(names) == list(wanted or ()):
        return list(range(table.width))
    if len(set(names)) < len(names):
        raise ValueError(f"{table.name} has {_columns_of(table)}: two have one name")
    return [list(names).index(name) for name in wanted or ()]
