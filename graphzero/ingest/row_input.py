"""Features, labels and other attributes as streams of rows."""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.ingest.casting import CastRows
from graphzero.ingest.given import is_table, open_given, refuse_frame
from graphzero.ingest.row_stream import RowChunk, Rows
from graphzero.ingest.source import FOR_NODES, FOR_VALUES, Source, as_source
from graphzero.ingest.sources.array_opening import open_array
from graphzero.ingest.sources.members import known_names
from graphzero.ingest.sources.streamed_array import (
    AnyArray,
    StreamedArray,
    pieces_of,
    require_whole,
)
from graphzero.ingest.sources.table import Table
from graphzero.ingest.table_rows import (
    TableRows,
    attribute_dtype,
    feature_rows,
    features_of_table,
    is_one_list,
    parsed_as,
    values_of_table,
)
from graphzero.ingest.value_columns import edge_value_columns, node_value_columns
from graphzero.store.format import dtype_code, dtype_name

__all__ = [
    "ArrayRows",
    "PartRows",
    "TableRows",
    "check_id_column",
    "count_classes",
    "features_of_table",
    "open_attribute",
    "open_features",
    "open_labels",
]

Open = Callable[[Source, str, np.dtype[Any] | None], Rows]

_COUNT_ROWS = 1 << 16
_MOST_PASSES_OF_FILE = 3  # with the block file, its rows would be read twice and written once
_MOST_PASSES = 1 << 10
_MOST_DIMS = 31  # of an array of rows: what `FeatureStore` opens


class ArrayRows:
    """Rows of an array: mapped, streamed or in memory.

    Parameters
    ----------
    name : str
    array : (N,), (N, width) or (N, ...) array
    """

    in_order = True

    def __init__(self, name: str, array: AnyArray) -> None:
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
        self.most_passes = _most_passes(array)
        self._array = array

    def count(self) -> int:
        """Rows."""
        return len(self._array)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Slices of the array."""
        begin = 0
        for rows in pieces_of(self._array, max_rows):
            yield np.arange(begin, begin + len(rows)), rows.reshape(len(rows), self.width)
            begin += len(rows)

    def pick(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows of ascending ids, where the array can be read in any order."""
        assert not isinstance(self._array, StreamedArray)  # which has no passes
        require_whole(self._array)
        rows = np.asarray(self._array[ids])
        return rows.reshape(len(ids), self.width)

    def locate(self, row: int) -> str:
        """A row by its number from 0."""
        return f"row {row}"


def _most_passes(array: AnyArray) -> int:
    """For `PickableRows`: a pass over a file takes what it takes the disk to read it."""
    if isinstance(array, StreamedArray) or not array.flags.c_contiguous:
        return 0
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.owndata:
            return _MOST_PASSES
        owner = owner.base
    return _MOST_PASSES_OF_FILE  # mapped, or of another library


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
        self._begins: list[int] = []  # the first row of each part that was read

    def count(self) -> int:
        """Rows, or the largest id + 1."""
        counts = [part.count() for part in self.parts]
        return sum(counts) if self.in_order else max(counts)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Pieces of the parts."""
        row = 0
        self._begins = []
        for part in self.parts:
            self._begins.append(row)
            for ids, rows in part.chunks(max_rows):
                yield np.arange(row, row + len(rows)) if self.in_order else ids, rows
                row += len(rows)

    def locate(self, row: int) -> str:
        """The place of a row that was read in its part."""
        at = bisect_right(self._begins, row) - 1
        part = self.parts[at]
        return f"{part.name}, {part.locate(row - self._begins[at])}"


def _is_file(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and bool(Path(value).suffix)


def _parts_of(value: Any) -> list[Any] | None:
    """The parts of a value that is given as several files or matrices; None for one source."""
    if not isinstance(value, list | tuple) or not value:
        return None
    if all(isinstance(part, Source) or _is_file(part) for part in value):
        return list(value)
    # A list of vectors is one matrix, as ever.
    if all(len(getattr(part, "shape", ())) > 1 for part in value):
        return list(value)
    return None


def _sources_of(value: Any) -> Source | list[Source]:
    """The source of a value, or those of its parts, which have the options of the whole."""
    given = value.value if isinstance(value, Source) else value
    parts = None if is_table(given) else _parts_of(given)
    if parts is None:
        return as_source(value)
    if isinstance(value, Source):
        return [replace(value, value=part) for part in parts]
    return [as_source(part) for part in parts]


def _in_parts(value: Any, name: str, dtype: np.dtype[Any] | None, open_part: Open) -> Rows:
    """The rows of one source, or of several, in another dtype if one is given."""
    sources = _sources_of(value)
    rows: Rows
    if isinstance(sources, Source):
        rows = open_part(sources, name, dtype)
    else:
        rows = PartRows(name, [open_part(s, f"{name}[{i}]", dtype) for i, s in enumerate(sources)])
    return rows if dtype is None or dtype == rows.dtype else CastRows(rows, dtype)


def open_features(
    value: Any,
    dtype: np.dtype[Any] | None = None,
    name: str = "features",
    *,
    id_column: Any = None,
    text_ids: bool = False,
) -> Rows:
    """Features from a path, an array or a tensor, or from several files or matrices of rows.

    Parameters
    ----------
    value : path, array or tensor, `Source`, or list of these
    dtype : numpy.dtype, optional
        Dtype of the format to convert to. Default: CSV values become float32, others are unchanged.
    name : str
        For messages.
    id_column : str, int or False, optional
        That of tables whose `Source` does not say it.
    text_ids : bool
        Whether ids may be texts, so that a record can look like a header.

    Raises
    ------
    ValueError
        If there are no features, or their dtype cannot be stored or converted.
    OSError
        If the file cannot be read.
    """

    def open_part(source: Source, label: str, dtype: np.dtype[Any] | None) -> Rows:
        table = _node_table(source, label, id_column, text_ids)
        if table is None:
            return _array_rows(source.value, label, dtype, known_names("x"))
        source = _with_id_column(source, table, id_column)
        if table.width < 2 and source.id_column is not False and not is_one_list(table):
            raise ValueError(
                f"{table.name} has one column: features are a node id and their values; "
                f"id_column=False says that they are in the order of the nodes, without ids"
            )
        return feature_rows(table, node_value_columns(table, source), parsed_as(dtype))

    return _in_parts(value, name, dtype, open_part)


def _node_table(source: Source, label: str, id_column: Any, text_ids: bool) -> Table | None:
    """The table of a node attribute, None for an array."""
    with_columns = is_table(source.value)
    source.check_options(FOR_NODES, label, is_table=with_columns)
    if not with_columns:
        return None
    named = source if source.id_column is not None else replace(source, id_column=id_column)
    return open_given(named, text_ids=text_ids)


def _array_rows(value: Any, name: str, dtype: np.dtype[Any] | None, names: Sequence[str]) -> Rows:
    refuse_frame(value, name)
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else name
    return ArrayRows(name, open_array(value, name, names, dtype=dtype))


def check_id_column(id_column: Any, values: Iterable[Any]) -> None:
    """Refuses an `id_column` of the build if no attribute of the nodes is a table.

    Raises
    ------
    ValueError
    """
    if id_column is None:
        return
    of_values = [_sources_of(value) for value in values]
    sources = [s for one in of_values for s in ([one] if isinstance(one, Source) else one)]
    if not any(is_table(source.value) for source in sources):
        raise ValueError(
            f"id_column={id_column!r} is for features, labels and attributes of nodes in CSV or "
            f"other tables, and there are none"
        )


def _with_id_column(source: Source, table: Table, id_column: Any) -> Source:
    """The source with the build's own `id_column`, where it says nothing and there may be ids."""
    if source.id_column is not None or (table.width == 1 and id_column is not False):
        return source
    return replace(source, id_column=id_column)


def open_labels(
    value: Any, name: str = "labels", *, id_column: Any = None, text_ids: bool = False
) -> Rows:
    """Labels from a path, an array or a tensor, or from several files or matrices of rows.

    A table has one column of labels in the order of the nodes, or node ids and labels. In a CSV
    file, the first label decides whether all are integers or floats.

    Raises
    ------
    ValueError
        If the dtype cannot be stored.
    OSError
        If the file cannot be read.
    """
    return _in_parts(value, name, None, _opener("label", "node", id_column, text_ids))


def _opener(label: str, of: Literal["node", "edge"], id_column: Any, text_ids: bool) -> Open:
    """How one source of an attribute is opened."""
    role = "y" if label == "label" else label

    def open_part(source: Source, name: str, dtype: np.dtype[Any] | None) -> Rows:
        if of == "node":
            table = _node_table(source, name, id_column, text_ids)
        else:
            source.check_options(FOR_VALUES, name, is_table=is_table(source.value))
            table = open_given(source, of="edge") if is_table(source.value) else None
            dtype = attribute_dtype(label) if dtype is None else dtype
        if table is None:
            return _array_rows(source.value, name, dtype, known_names(role, of))
        if of == "edge":
            return values_of_table(table, edge_value_columns(table, source), label, dtype)
        source = _with_id_column(source, table, id_column)
        return values_of_table(table, node_value_columns(table, source), label, dtype)

    return open_part


def open_attribute(
    value: Any,
    name: str,
    dtype: np.dtype[Any] | None = None,
    *,
    of: Literal["node", "edge"],
    id_column: Any = None,
    text_ids: bool = False,
) -> Rows:
    """A named attribute of nodes or edges.

    Parameters
    ----------
    value : path, array or tensor, `Source`, or list of these
        A list of files, or of arrays of two dimensions or more, has the rows one after the other.
    name : str
        The attribute's: "x" is read as `open_features` does. Another table of nodes has one column
        in the order of the nodes, or node ids as well. A table of edges has a record for each
        edge, in the order of the edge list, and all of its columns are values.
    dtype : numpy.dtype, optional
        Dtype of the format to convert to. Default: "x" and "edge_attr" of a CSV file become
        float32; the first record decides whether others are integers or floats; arrays and Parquet
        files keep their dtype.
    of : {"node", "edge"}
    id_column : str, int or False, optional
        That of tables of nodes whose `Source` does not say it.
    text_ids : bool
        Whether ids of nodes may be texts, so that a record can look like a header.

    Raises
    ------
    ValueError
        If the dtype cannot be stored or converted, or the parts are not alike.
    OSError
        If a file cannot be read.
    """
    if of == "node" and name == "x":
        return open_features(
            value, dtype, "node attribute 'x'", id_column=id_column, text_ids=text_ids
        )
    open_part = _opener(name, of, id_column, text_ids)
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
