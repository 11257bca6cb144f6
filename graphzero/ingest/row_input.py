"""Features and labels as streams of rows with their node ids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.casting import CastRows
from graphzero.ingest.columns import Column, id_column
from graphzero.ingest.csv_format import is_number
from graphzero.ingest.row_stream import RowChunk, Rows
from graphzero.ingest.tables import (
    CsvTable,
    ParquetTable,
    load_array,
    load_numpy,
    open_table,
    require_numbers,
)
from graphzero.store.format import BFLOAT16, dtype_code

__all__ = [
    "ArrayRows",
    "TableRows",
    "count_classes",
    "features_of_table",
    "open_features",
    "open_labels",
]

_COUNT_ROWS = 1 << 16


class ArrayRows:
    """Rows of an array, mapped or in memory.

    Parameters
    ----------
    name : str
    array : (N, width) or (N,) array
    """

    in_order = True

    def __init__(self, name: str, array: npt.NDArray[Any]) -> None:
        if array.ndim not in (1, 2) or 0 in array.shape[1:]:
            raise ValueError(f"{name} has shape {array.shape}: it must be (nodes, columns)")
        if array.dtype == np.bool_:
            array = array.view(np.uint8)
        try:
            dtype_code(array.dtype)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        self.name = name
        self.dtype = array.dtype.newbyteorder("<")
        self.vector = array.ndim == 1
        self._array = array[:, np.newaxis] if self.vector else array
        self.width = self._array.shape[1]

    def count(self) -> int:
        """Rows."""
        return len(self._array)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Slices of the array."""
        for begin in range(0, len(self._array), max_rows):
            rows = self._array[begin : begin + max_rows]
            yield np.arange(begin, begin + len(rows)), rows

    def locate(self, row: int) -> str:
        """A row by its number from 0."""
        return f"row {row}"


class TableRows:
    """Rows of a CSV or Parquet table.

    Parameters
    ----------
    table : CsvTable or ParquetTable
    values : list of Column
        All of one dtype.
    vector : bool
    keyed : bool
        Whether the first column is the node id; otherwise row i is node i's.
    """

    def __init__(
        self, table: CsvTable | ParquetTable, values: list[Column], *, vector: bool, keyed: bool
    ) -> None:
        self.name = table.name
        self.dtype = values[0].dtype
        self.width = len(values)
        self.vector = vector
        self.in_order = not keyed
        self._table = table
        self._keys = [id_column(0, "node id")] if keyed else []
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


def _is_npy(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and Path(value).suffix.lower() == ".npy"


def _is_table(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and not _is_npy(value)


def _parquet_dtype(table: ParquetTable, first: int) -> np.dtype[Any]:
    for name, dtype in zip((table.names or ())[first:], table.dtypes[first:], strict=True):
        if dtype is None:
            raise ValueError(f"{table.name}: column {name!r} does not hold numbers")
    return np.result_type(*table.dtypes[first:])


def _feature_array(value: Any, name: str, dtype: np.dtype[Any] | None) -> npt.NDArray[Any]:
    """`load_array` that also accepts bfloat16 of ml_dtypes, torch, and this package."""
    if str(getattr(value, "dtype", None)) == "torch.bfloat16":
        int16 = value[:0].short().dtype  # torch's; it is not imported here
        return np.asarray(value.detach().cpu().contiguous().view(int16)).view(BFLOAT16)
    array = load_numpy(value) if _is_npy(value) else np.asarray(value)
    if array.dtype == "V2":
        # np.save stores ml_dtypes' bfloat16 like this, and any other dtype of two bytes.
        if dtype != BFLOAT16:
            raise ValueError(
                f"{name} has dtype |V2, two bytes of unknown meaning: if they are bfloat16, "
                f"pass feature_dtype='bfloat16'"
            )
        return array.view(BFLOAT16)
    if array.dtype == BFLOAT16 or array.dtype.name == "bfloat16":
        return array.view(BFLOAT16)
    return require_numbers(array, name)


def open_features(value: Any, dtype: np.dtype[Any] | None = None) -> Rows:
    """Features from a path, an array or a tensor.

    Parameters
    ----------
    value : path, array or tensor
    dtype : numpy.dtype, optional
        Dtype of the format to convert to. Default: CSV values become float32, others are unchanged.

    Raises
    ------
    ValueError
        If there are no features, or their dtype cannot be stored or converted.
    OSError
        If the file cannot be read.
    """
    rows: Rows
    if not _is_table(value):
        name = os.fspath(value) if _is_npy(value) else "features"
        rows = ArrayRows(name, _feature_array(value, name, dtype))
    else:
        rows = features_of_table(open_table(Path(value)), _parsed_as(dtype))
    return rows if dtype is None or dtype == rows.dtype else CastRows(rows, dtype)


def _parsed_as(dtype: np.dtype[Any] | None) -> npt.DTypeLike:
    """Dtype to parse CSV values as, so that they are rounded only once."""
    if dtype is None or dtype == np.float32:
        return np.float32
    return np.int64 if dtype.kind in "iu" else np.float64


def features_of_table(
    table: CsvTable | ParquetTable, dtype: npt.DTypeLike = np.float32
) -> TableRows:
    """Features from a table whose first column is the node id.

    CSV values are parsed as ``dtype``; Parquet columns keep their dtype.

    Raises
    ------
    ValueError
        If there is no other column.
    """
    if table.width < 2:
        raise ValueError(f"{table.name} has one column: features are a node id and their values")
    if isinstance(table, ParquetTable):
        dtype = _parquet_dtype(table, 1)
    values = [Column(i, f"feature {i - 1}", np.dtype(dtype)) for i in range(1, table.width)]
    return TableRows(table, values, vector=False, keyed=True)


def open_labels(value: Any) -> Rows:
    """Labels from a path, an array or a tensor.

    A table has one column of labels in the order of the nodes, or a node id followed by the label.
    In a CSV file, the first label decides whether all are integers or floats.

    Raises
    ------
    ValueError
        If the dtype cannot be stored.
    OSError
        If the file cannot be read.
    """
    if not _is_table(value):
        name = os.fspath(value) if _is_npy(value) else "labels"
        return ArrayRows(name, load_array(value, name))
    table = open_table(Path(value))
    keyed = table.width > 1
    if isinstance(table, ParquetTable):
        dtype = _parquet_dtype(table, int(keyed))
    else:
        cells = (table.source.first_record or ())[int(keyed) :]
        fractions = any(is_number(cell) and not cell.strip(" -").isdigit() for cell in cells)
        dtype = np.dtype(np.float32 if fractions else np.int64)
    values = [Column(i, "label", dtype) for i in range(int(keyed), table.width)]
    return TableRows(table, values, vector=len(values) == 1, keyed=keyed)


def count_classes(labels: Rows) -> int | None:
    """Largest label + 1; None if labels are not integers, or all are negative."""
    if labels.dtype.kind not in "iu" or not labels.vector:
        return None
    largest = -1
    for _, rows in labels.chunks(_COUNT_ROWS):
        if len(rows):
            largest = max(largest, int(rows.max()))
    return largest + 1 if largest >= 0 else None
