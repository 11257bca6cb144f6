"""Rows of values from the columns of a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.row_stream import RowChunk, Rows
from graphzero.ingest.sources.column_names import label_of
from graphzero.ingest.sources.columns import Column, id_column
from graphzero.ingest.sources.csv_format import is_number
from graphzero.ingest.sources.table import Table
from graphzero.ingest.value_columns import ValueColumns

__all__ = [
    "TableRows",
    "attribute_dtype",
    "column_rows",
    "feature_rows",
    "features_of_table",
    "is_one_list",
    "parsed_as",
    "values_of_table",
]

_COUNT_ROWS = 1 << 16


class TableRows:
    """Rows of a table.

    Parameters
    ----------
    table : Table
    values : list of Column
        All of one dtype.
    vector : bool
    key : int or None
        Position of the node ids; None if record i is that of node i, or of edge i.
    """

    def __init__(
        self, table: Table, values: list[Column], *, vector: bool, key: int | None
    ) -> None:
        self.name = table.name
        self.dtype = values[0].dtype.base
        self._widths = [math.prod(column.dtype.shape) for column in values]
        self.width = sum(self._widths)
        if not self.width:
            raise ValueError(f"{table.name} has no records, or its first list has no numbers")
        self.row_shape: tuple[int, ...] = () if vector else (self.width,)
        self.vector = vector
        self.in_order = key is None
        self.table = table
        self.keys = [] if key is None else [id_column(key, "node id")]
        self._values = values
        self._counted: int | None = None

    def count(self) -> int:
        """The largest id + 1, or the number of records if these have no ids."""
        if self._counted is None:  # a build asks more than once, and text must be read for it
            self._counted = self._count()
        return self._counted

    def _count(self) -> int:
        if self.in_order:
            if self.table.num_records is not None:
                return self.table.num_records
            return sum(len(chunk[0]) for chunk in self.table.chunks(self._values, _COUNT_ROWS))
        largest = -1
        for (ids,) in self.table.chunks(self.keys, _COUNT_ROWS):
            if len(ids):
                largest = max(largest, int(ids.max()))
        return largest + 1

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Pieces of the table."""
        row = 0
        for chunk in self.table.chunks([*self.keys, *self._values], max_rows):
            values = chunk[len(self.keys) :]
            rows = np.empty((len(values[0]), self.width), self.dtype)
            begin = 0
            for width, column in zip(self._widths, values, strict=True):
                rows[:, begin : begin + width] = column.reshape(len(rows), width)
                begin += width
            yield np.arange(row, row + len(rows)) if self.in_order else chunk[0], rows
            row += len(rows)

    def locate(self, row: int) -> str:
        """The line or record of the file."""
        return self.table.locate(row)


def _columns(
    table: Table, places: Sequence[int], labels: Sequence[str], dtype: npt.DTypeLike
) -> list[Column]:
    """Columns to read: text as a dtype, all others as the one that holds their own."""
    kinds = [np.dtype(dtype)] * len(places)
    if table.dtypes is not None:
        own = [_number_dtype(table, index, table.dtypes[index]) for index in places]
        base = np.result_type(*(kind.base for kind in own))
        kinds = [np.dtype((base, kind.shape)) for kind in own]
    return [Column(*column) for column in zip(places, labels, kinds, strict=True)]


def _number_dtype(table: Table, index: int, dtype: np.dtype[Any] | None) -> np.dtype[Any]:
    if dtype is None:
        raise ValueError(
            f"{table.name}: column {label_of(table.names, index)!r} does not hold numbers: "
            f"gz.Source(..., columns=...) says which columns are values"
        )
    return dtype


def is_one_list(table: Table) -> bool:
    """Whether a table has one column, of lists: these are no ids."""
    return table.width == 1 and bool(table.dtypes and table.dtypes[0] and table.dtypes[0].shape)


def parsed_as(dtype: np.dtype[Any] | None) -> npt.DTypeLike:
    """Dtype to parse CSV values as, so that they are rounded only once."""
    if dtype is None or dtype == np.float32:
        return np.float32
    return np.int64 if dtype.kind in "iu" else np.float64


def features_of_table(table: Table, dtype: npt.DTypeLike = np.float32) -> TableRows:
    """Features from a table whose first column is the node id, as graphzero 0.2 has them.

    CSV values are parsed as ``dtype``; Parquet columns keep their dtype.

    Raises
    ------
    ValueError
        If there is no other column.
    """
    if is_one_list(table):
        return feature_rows(table, ValueColumns((0,)), dtype)
    if table.width < 2:
        raise ValueError(f"{table.name} has one column: features are a node id and their values")
    return feature_rows(table, ValueColumns(tuple(range(1, table.width)), 0), dtype)


def feature_rows(table: Table, found: ValueColumns, dtype: npt.DTypeLike) -> TableRows:
    """Features from some columns; values of text are parsed as ``dtype``, others keep theirs."""
    labels = [f"feature {i}" for i in range(len(found.values))]
    values = _columns(table, found.values, labels, dtype)
    return TableRows(table, values, vector=bool(found.one) and _is_number(values), key=found.key)


def _is_number(values: Sequence[Column]) -> bool:
    return len(values) == 1 and not values[0].dtype.shape


def values_of_table(
    table: Table, found: ValueColumns, label: str, dtype: np.dtype[Any] | None
) -> TableRows:
    """Values of some columns; the first record of text decides their dtype."""
    parsed: npt.DTypeLike
    if dtype is not None:
        parsed = parsed_as(dtype)
    else:
        first = table.first_record or ()
        cells = [first[index] for index in found.values if index < len(first)]
        fractions = any(is_number(cell) and not cell.strip(" -").isdigit() for cell in cells)
        parsed = np.float32 if fractions else np.int64
    values = _columns(table, found.values, [label] * len(found.values), parsed)
    vector = _is_number(values) and found.one is not False
    return TableRows(table, values, vector=vector, key=found.key)


def column_rows(table: Table, index: int, name: str) -> Rows:
    """A column of an edge list as an attribute of the edges."""
    return values_of_table(table, ValueColumns((index,), one=True), name, attribute_dtype(name))


def attribute_dtype(name: str) -> np.dtype[Any] | None:
    """Dtype that an edge attribute of a CSV file has, whatever its first record is."""
    return np.dtype(np.float32) if name == "edge_attr" else None
