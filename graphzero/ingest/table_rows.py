"""Rows of values from the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.given import AnyTable
from graphzero.ingest.row_stream import RowChunk, Rows
from graphzero.ingest.sources.columns import Column, id_column
from graphzero.ingest.sources.csv_format import is_number
from graphzero.ingest.sources.parquet_table import ParquetTable
from graphzero.ingest.value_columns import ValueColumns

__all__ = [
    "TableRows",
    "attribute_dtype",
    "column_rows",
    "feature_rows",
    "features_of_table",
    "parsed_as",
    "values_of_table",
]

_COUNT_ROWS = 1 << 16


class TableRows:
    """Rows of a CSV or Parquet table.

    Parameters
    ----------
    table : CsvTable or ParquetTable
    values : list of Column
        All of one dtype.
    vector : bool
    key : int or None
        Position of the node ids; None if record i is that of node i, or of edge i.
    """

    def __init__(
        self, table: AnyTable, values: list[Column], *, vector: bool, key: int | None
    ) -> None:
        self.name = table.name
        self.dtype = values[0].dtype
        self.width = len(values)
        self.row_shape: tuple[int, ...] = () if vector else (self.width,)
        self.vector = vector
        self.in_order = key is None
        self._table = table
        self._keys = [] if key is None else [id_column(key, "node id")]
        self._values = values

    def count(self) -> int:
        """The largest id + 1, or the number of records if these have no ids."""
        if self.in_order:
            if self._table.num_records is not None:
                return self._table.num_records
            return sum(len(chunk[0]) for chunk in self._table.chunks(self._values, _COUNT_ROWS))
        largest = -1
        for (ids,) in self._table.chunks(self._keys, _COUNT_ROWS):
            if len(ids):
                largest = max(largest, int(ids.max()))
        return largest + 1

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Pieces of the table."""
        row = 0
        for chunk in self._table.chunks([*self._keys, *self._values], max_rows):
            values = chunk[len(self._keys) :]
            rows = np.empty((len(values[0]), self.width), self.dtype)
            for i, column in enumerate(values):
                rows[:, i] = column
            yield np.arange(row, row + len(rows)) if self.in_order else chunk[0], rows
            row += len(rows)

    def locate(self, row: int) -> str:
        """The line or record of the file."""
        return self._table.locate(row)


def _parquet_dtype(table: ParquetTable, values: Sequence[int]) -> np.dtype[Any]:
    for index in values:
        if table.dtypes[index] is None:
            raise ValueError(
                f"{table.name}: column {(table.names or ())[index]!r} does not hold numbers: "
                f"gz.Source(..., columns=...) says which columns are values"
            )
    return np.result_type(*(table.dtypes[index] for index in values))


def parsed_as(dtype: np.dtype[Any] | None) -> npt.DTypeLike:
    """Dtype to parse CSV values as, so that they are rounded only once."""
    if dtype is None or dtype == np.float32:
        return np.float32
    return np.int64 if dtype.kind in "iu" else np.float64


def features_of_table(table: AnyTable, dtype: npt.DTypeLike = np.float32) -> TableRows:
    """Features from a table whose first column is the node id, as graphzero 0.2 has them.

    CSV values are parsed as ``dtype``; Parquet columns keep their dtype.

    Raises
    ------
    ValueError
        If there is no other column.
    """
    if table.width < 2:
        raise ValueError(f"{table.name} has one column: features are a node id and their values")
    return feature_rows(table, ValueColumns(tuple(range(1, table.width)), 0), dtype)


def feature_rows(table: AnyTable, found: ValueColumns, dtype: npt.DTypeLike) -> TableRows:
    """Features from some columns; CSV values are parsed as ``dtype``, others keep theirs."""
    if isinstance(table, ParquetTable):
        dtype = _parquet_dtype(table, found.values)
    values = [Column(at, f"feature {i}", np.dtype(dtype)) for i, at in enumerate(found.values)]
    return TableRows(table, values, vector=bool(found.one), key=found.key)


def values_of_table(
    table: AnyTable, found: ValueColumns, label: str, dtype: np.dtype[Any] | None
) -> TableRows:
    """Values of some columns; the first record of a CSV file decides their dtype."""
    parsed: npt.DTypeLike
    if isinstance(table, ParquetTable):
        parsed = _parquet_dtype(table, found.values)
    elif dtype is not None:
        parsed = parsed_as(dtype)
    else:
        first = table.source.first_record or ()
        cells = [first[index] for index in found.values if index < len(first)]
        fractions = any(is_number(cell) and not cell.strip(" -").isdigit() for cell in cells)
        parsed = np.float32 if fractions else np.int64
    values = [Column(index, label, np.dtype(parsed)) for index in found.values]
    vector = len(values) == 1 if found.one is None else found.one
    return TableRows(table, values, vector=vector, key=found.key)


def column_rows(table: AnyTable, index: int, name: str) -> Rows:
    """A column of an edge list as an attribute of the edges."""
    return values_of_table(table, ValueColumns((index,), one=True), name, attribute_dtype(name))


def attribute_dtype(name: str) -> np.dtype[Any] | None:
    """Dtype that an edge attribute of a CSV file has, whatever its first record is."""
    return np.dtype(np.float32) if name == "edge_attr" else None
