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
from graphzero.ingest.sources.array_table import load_numpy, require_numbers
from graphzero.ingest.sources.columns import Column, id_column
from graphzero.ingest.sources.csv_format import is_number
from graphzero.ingest.sources.opening import is_table, open_table
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
            rows = self._array[begin : begin + max_rows]
            yield np.arange(begin, begin + len(rows)), rows.reshape(len(rows), self.width)

    def locate(self, row: int) -> str:
        """A row by its number from 0."""
        return f"row {row}"


class TableRows:
    """Rows of a table.

    Parameters
    ----------
    table : Table
    values : list of Column
        All of one dtype.
    vector : bool
    keyed : bool
        Whether the first column is the node id; otherwise row i is node i's.
    """

    def __init__(self, table: Table, values: list[Column], *, vector: bool, keyed: bool) -> None:
        self.name = table.name
        self.dtype = values[0].dtype.base
        self._widths = [math.prod(column.dtype.shape) for column in values]
        self.width = sum(self._widths)
        if not self.width:
            raise ValueError(f"{table.name} has no records, or its first list has no numbers")
        self.row_shape: tuple[int, ...] = () if vector else (self.width,)
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
            begin = 0
            for width, column in zip(self._widths, values, strict=True):
                rows[:, begin : begin + width] = column.reshape(len(rows), width)
                begin += width
            yield np.arange(row, row + len(rows)) if self.in_order else chunk[0], rows
            row += len(rows)

    def locate(self, row: int) -> str:
        """The line or record of the file."""
        return self._table.locate(row)


def _is_npy(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and Path(value).suffix.lower() == ".npy"


def _value_columns(
    table: Table, first: int, labels: Sequence[str], dtype: npt.DTypeLike
) -> list[Column]:
    """Columns from the first on: text in a dtype, all others in the one that holds their own."""
    if table.dtypes is None:
        kinds = [np.dtype(dtype)] * (table.width - first)
    else:
        own = []
        for i, kind in enumerate(table.dtypes[first:], first):
            if kind is None:
                name = i if table.names is None else table.names[i]
                raise ValueError(f"{table.name}: column {name!r} does not hold numbers")
            own.append(kind)
        base = np.result_type(*(kind.base for kind in own))
        kinds = [np.dtype((base, kind.shape)) for kind in own]
    return [Column(first + i, labels[i], kind) for i, kind in enumerate(kinds)]


def _is_one_list(table: Table) -> bool:
    return table.width == 1 and bool(table.dtypes and table.dtypes[0] and table.dtypes[0].shape)


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
        self._parts = parts

    def count(self) -> int:
        """Rows, or the largest id + 1."""
        counts = [part.count() for part in self._parts]
        return sum(counts) if self.in_order else max(counts)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Pieces of the parts."""
        row = 0
        for part in self._parts:
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
    parts = None if is_table(value) else _parts_of(value)
    rows: Rows
    if parts is None:
        rows = open_part(value, name, dtype)
    else:
        rows = PartRows(name, [open_part(v, f"{name}[{i}]", dtype) for i, v in enumerate(parts)])
    return rows if dtype is None or dtype == rows.dtype else CastRows(rows, dtype)


def open_features(value: Any, dtype: np.dtype[Any] | None = None, name: str = "features") -> Rows:
    """Features from a path, an array or a tensor, or from several files or matrices of rows.

    Parameters
    ----------
    value : path, array or tensor, or list of these
    dtype : numpy.dtype, optional
        Dtype of the format to convert to. Default: CSV values become float32, others are unchanged.
    name : str
        For messages.

    Raises
    ------
    ValueError
        If there are no features, or their dtype cannot be stored or converted.
    OSError
        If the file cannot be read.
    """
    return _in_parts(value, name, dtype, _features_of)


def _features_of(value: Any, name: str, dtype: np.dtype[Any] | None) -> Rows:
    if not is_table(value):
        return _array_rows(value, name, dtype)
    return features_of_table(open_table(value), _parsed_as(dtype))


def _array_rows(value: Any, name: str, dtype: np.dtype[Any] | None) -> Rows:
    name = os.fspath(value) if _is_npy(value) else name
    return ArrayRows(name, _feature_array(value, name, dtype))


def _parsed_as(dtype: np.dtype[Any] | None) -> npt.DTypeLike:
    """Dtype to parse CSV values as, so that they are rounded only once."""
    if dtype is None or dtype == np.float32:
        return np.float32
    return np.int64 if dtype.kind in "iu" else np.float64


def features_of_table(table: Table, dtype: npt.DTypeLike = np.float32) -> TableRows:
    """Features from a table whose first column is the node id.

    CSV values are parsed as ``dtype``; Parquet columns keep their dtype.

    Raises
    ------
    ValueError
        If there is no other column.
    """
    keyed = not _is_one_list(table)  # a list is no id
    if table.width < 2 and keyed:
        raise ValueError(f"{table.name} has one column: features are a node id and their values")
    labels = [f"feature {i}" for i in range(table.width)]
    values = _value_columns(table, int(keyed), labels, dtype)
    return TableRows(table, values, vector=False, keyed=keyed)


def open_labels(value: Any, name: str = "labels") -> Rows:
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
    return _in_parts(value, name, None, _labels_of)


def _labels_of(value: Any, name: str, dtype: np.dtype[Any] | None) -> Rows:
    if not is_table(value):
        return _array_rows(value, name, dtype)
    table = open_table(value)
    return _values_of_table(table, "label", dtype, keyed=table.width > 1)


def _values_of_table(
    table: Table, label: str, dtype: np.dtype[Any] | None, *, keyed: bool
) -> TableRows:
    """Values of all columns but the node id; the first record of text decides its dtype."""
    parsed: npt.DTypeLike
    if dtype is not None:
        parsed = _parsed_as(dtype)
    else:
        cells = (table.first_record or ())[int(keyed) :]
        fractions = any(is_number(cell) and not cell.strip(" -").isdigit() for cell in cells)
        parsed = np.float32 if fractions else np.int64
    values = _value_columns(table, int(keyed), [label] * table.width, parsed)
    vector = len(values) == 1 and not values[0].dtype.shape
    return TableRows(table, values, vector=vector, keyed=keyed)


def open_attribute(
    value: Any, name: str, dtype: np.dtype[Any] | None = None, *, of: Literal["node", "edge"]
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

    Raises
    ------
    ValueError
        If the dtype cannot be stored or converted, or the parts are not alike.
    OSError
        If a file cannot be read.
    """
    if of == "node" and name == "x":
        return open_features(value, dtype, "node attribute 'x'")

    def open_part(part: Any, label: str, dtype: np.dtype[Any] | None) -> Rows:
        if not is_table(part):
            return _array_rows(part, label, dtype)
        table = open_table(part)
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
