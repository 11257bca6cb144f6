"""Features, labels and other attributes as streams of rows."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.ingest.casting import CastRows
from graphzero.ingest.row_stream import RowChunk, Rows
from graphzero.ingest.sources.array_table import load_numpy, require_numbers, require_whole
from graphzero.ingest.sources.columns import Column, id_column
from graphzero.ingest.sources.csv_format import is_number
from graphzero.ingest.sources.csv_table import CsvTable
from graphzero.ingest.sources.opening import open_table
from graphzero.ingest.sources.parquet_table import ParquetTable
from graphzero.ingest.sources.table import Table
from graphzero.store.format import BFLOAT16, dtype_code, dtype_name

__all__ = [
    "ArrayRows",
    "PartRows",
    "TableRows",
    "count_classes",
    "features_of_table",
    "open_attribute",
    "open_features",
    "open_labels",
]

Open = Callable[[Any, str, np.dtype[Any] | None], Rows]

_COUNT_ROWS = 1 << 16
_MOST_DIMS = 31  # of an array of rows: what `FeatureStore` opens


class ArrayRows:
    """Rows of an array, mapped or in memory.

    Parameters
    ----------
    name : str
    array : (N,), (N, width) or (N, ...) array
    """

    in_order = True

    def __init__(self, name: str, array: npt.NDArray[Any]) -> None:
        if not 0 < array.ndim <= _MOST_DIMS or 0 in array.shape[1:]:
            raise ValueError(
                f"{name} has shape {array.shape}: it must be (rows, columns), or a vector, or have "
                f"more dimensions, none of them empty"
            )
        if array.dtype == np.bool_:
            array = array.view(np.uint8)
        try:
            dtype_code(array.dtype)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        self.name = name
        self.dtype = array.dtype.newbyteorder("<")
        self.row_shape = array.shape[1:]
        self.vector = array.ndim == 1
        self.width = math.prod(self.row_shape)
        self._array = array

    def count(self) -> int:
        """Rows."""
        return len(self._array)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Slices of the array."""
        for begin in range(0, len(self._array), max_rows):
            require_whole(self._array)
            rows = self._array[begin : begin + max_rows]
            yield np.arange(begin, begin + len(rows)), rows.reshape(len(rows), self.width)

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

    def __init__(self, table: Table, values: list[Column], *, vector: bool, keyed: bool) -> None:
        self.name = table.name
        self.dtype = values[0].dtype
        self.width = len(values)
        self.row_shape: tuple[int, ...] = () if vector else (self.width,)
        self.vector = vector
        self.in_order = not keyed
        self.table = table
        self.keys = [id_column(0, "node id")] if keyed else []
        self._values = values

    def count(self) -> int:
        """The largest id + 1, or the number of records if these have no ids."""
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
            for i, column in enumerate(values):
                rows[:, i] = column
            yield np.arange(row, row + len(rows)) if self.in_order else chunk[0], rows
            row += len(rows)

    def locate(self, row: int) -> str:
        """The line or record of the file."""
        return self.table.locate(row)


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


class PartRows:
    """The rows of several sources, one after the other.

    Parameters
    ----------
    name : str
    parts : sequence of Rows
        At least one, all of one dtype and shape.
    """

    def __init__(self, name: str, parts: Sequence[Rows]) -> None:
        first = parts[0]
        for part in parts[1:]:
            if (part.dtype, part.row_shape) != (first.dtype, first.row_shape):
                raise ValueError(
                    f"{name}: {part.name} has rows of shape {part.row_shape} and dtype "
                    f"{dtype_name(part.dtype)}, {first.name} of shape {first.row_shape} and dtype "
                    f"{dtype_name(first.dtype)}: the parts of one attribute must be alike"
                )
            if not part.in_order == first.in_order:
                raise ValueError(f"{name}: some parts have node ids, others have none")
        self.name = name
        self.dtype = first.dtype
        self.width = first.width
        self.row_shape = first.row_shape
        self.vector = first.vector
        self.in_order = first.in_order
        self.parts = parts

    def count(self) -> int:
        """Rows, or the largest id + 1."""
        counts = [part.count() for part in self.parts]
        return sum(counts) if self.in_order else max(counts)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Pieces of the parts."""
        row = 0
        for part in self.parts:
            for ids, rows in part.chunks(max_rows):
                yield np.arange(row, row + len(rows)) if self.in_order else ids, rows
                row += len(rows)

    def locate(self, row: int) -> str:
        """A row by its number from 0 over all parts."""
        return f"row {row} of all parts"


def _parts_of(value: Any) -> list[Any] | None:
    """The parts of a value that is given as several files or matrices; None for one source."""
    if not isinstance(value, list | tuple) or not value:
        return None
    if all(isinstance(part, str | os.PathLike) and Path(part).suffix for part in value):
        return list(value)
    # A list of vectors is one matrix, as ever.
    if all(len(getattr(part, "shape", ())) > 1 for part in value):
        return list(value)
    return None


def _in_parts(value: Any, name: str, dtype: np.dtype[Any] | None, open_part: Open) -> Rows:
    """The rows of one source, or of several, in another dtype if one is given."""
    parts = _parts_of(value)
    rows: Rows
    if parts is None:
        rows = open_part(value, name, dtype)
    else:
        rows = PartRows(name, [open_part(v, f"{name}[{i}]", dtype) for i, v in enumerate(parts)])
    return rows if dtype is None or dtype == rows.dtype else CastRows(rows, dtype)


def open_features(
    value: Any,
    dtype: np.dtype[Any] | None = None,
    name: str = "features",
    *,
    header: str = "auto",
) -> Rows:
    """Features from a path, an array or a tensor, or from several files or matrices of rows.

    Parameters
    ----------
    value : path, array or tensor, or list of these
    dtype : numpy.dtype, optional
        Dtype of the format to convert to. Default: CSV values become float32, others are unchanged.
    name : str
        For messages.
    header : str
        Of CSV files, as `sniff_csv` takes it.

    Raises
    ------
    ValueError
        If there are no features, or their dtype cannot be stored or converted.
    OSError
        If the file cannot be read.
    """

    def open_part(part: Any, label: str, dtype: np.dtype[Any] | None) -> Rows:
        if not _is_table(part):
            return _array_rows(part, label, dtype)
        return features_of_table(open_table(Path(part), header=header), _parsed_as(dtype))

    return _in_parts(value, name, dtype, open_part)


def _array_rows(value: Any, name: str, dtype: np.dtype[Any] | None) -> Rows:
    name = os.fspath(value) if _is_npy(value) else name
    return ArrayRows(name, _feature_array(value, name, dtype))


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


def open_labels(value: Any, name: str = "labels", *, header: str = "auto") -> Rows:
    """Labels from a path, an array or a tensor, or from several files or matrices of rows.

    A table has one column of labels in the order of the nodes, or a node id followed by the label.
    In a CSV file, the first label decides whether all are integers or floats.

    Raises
    ------
    ValueError
        If the dtype cannot be stored.
    OSError
        If the file cannot be read.
    """

    def open_part(part: Any, label: str, dtype: np.dtype[Any] | None) -> Rows:
        if not _is_table(part):
            return _array_rows(part, label, dtype)
        table = open_table(Path(part), header=header)
        return _values_of_table(table, "label", dtype, keyed=table.width > 1)

    return _in_parts(value, name, None, open_part)


def _values_of_table(
    table: CsvTable | ParquetTable, label: str, dtype: np.dtype[Any] | None, *, keyed: bool
) -> TableRows:
    """Values of all columns but the node id; the first record of a CSV file decides their dtype."""
    parsed: npt.DTypeLike
    if isinstance(table, ParquetTable):
        parsed = _parquet_dtype(table, int(keyed))
    elif dtype is not None:
        parsed = _parsed_as(dtype)
    else:
        cells = (table.source.first_record or ())[int(keyed) :]
        fractions = any(is_number(cell) and not cell.strip(" -").isdigit() for cell in cells)
        parsed = np.float32 if fractions else np.int64
    values = [Column(i, label, np.dtype(parsed)) for i in range(int(keyed), table.width)]
    return TableRows(table, values, vector=len(values) == 1, keyed=keyed)


def open_attribute(
    value: Any,
    name: str,
    dtype: np.dtype[Any] | None = None,
    *,
    of: Literal["node", "edge"],
    header: str = "auto",
) -> Rows:
    """A named attribute of nodes or edges.

    Parameters
    ----------
    value : path, array or tensor, or list of these
        A list of files, or of arrays of two dimensions or more, has the rows one after the other.
    name : str
        The attribute's: "x" is read as `open_features` does. Another table of nodes has one column
        in the order of the nodes, or the node id first. A table of edges has a record for each
        edge, in the order of the edge list, and all of its columns are values.
    dtype : numpy.dtype, optional
        Dtype of the format to convert to. Default: "x" and "edge_attr" of a CSV file become
        float32; the first record decides whether others are integers or floats; arrays and Parquet
        files keep their dtype.
    of : {"node", "edge"}
    header : str
        Of CSV files, as `sniff_csv` takes it.

    Raises
    ------
    ValueError
        If the dtype cannot be stored or converted, or the parts are not alike.
    OSError
        If a file cannot be read.
    """
    if of == "node" and name == "x":
        return open_features(value, dtype, "node attribute 'x'", header=header)

    def open_part(part: Any, label: str, dtype: np.dtype[Any] | None) -> Rows:
        if not _is_table(part):
            return _array_rows(part, label, dtype)
        table = open_table(Path(part), header=header)
        if of == "edge" and name == "edge_attr" and dtype is None:
            dtype = np.dtype(np.float32)
        return _values_of_table(table, name, dtype, keyed=of == "node" and table.width > 1)

    return _in_parts(value, f"{of} attribute {name!r}", dtype, open_part)


def count_classes(labels: Rows) -> int | None:
    """Largest label + 1; None if labels are not integers, or all are negative."""
    if labels.dtype.kind not in "iu" or not labels.vector:
        return None
    largest = -1
    for _, rows in labels.chunks(_COUNT_ROWS):
        if len(rows):
            largest = max(largest, int(rows.max()))
    return largest + 1 if largest >= 0 else None
