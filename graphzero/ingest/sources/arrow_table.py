"""Record batches of Arrow as tables: what Parquet and Arrow files and frames in memory have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.table import Chunk, checked

__all__ = ["ArrowTable", "ReadBatches"]

# Batches of at most so many records, with the columns at some positions, in that order.
ReadBatches = Callable[[Sequence[int], int], Iterator[pa.RecordBatch]]

# Larger batches are no faster, and pyarrow takes several times their size.
_BATCH_BYTES, _LEAST_RECORDS = 1 << 20, 256
_TEXT_BYTES = 32  # of an id that may be a text, on average
_CAST = "cast it first, to numbers whose unit you choose"


class ArrowTable:
    """Records of a schema, read in batches as often as asked.

    Parameters
    ----------
    name : str
        For messages.
    schema : pyarrow.Schema
    read : callable
        Makes the batches.
    num_records : int or None
        None if it is unknown.
    is_file : bool
        Whether an error of pyarrow means that a file is damaged.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        read: ReadBatches,
        num_records: int | None,
        *,
        is_file: bool = True,
    ) -> None:
        self.name = name
        self.names: Sequence[str] | None = tuple(schema.names)
        self.width = len(schema.names)
        self.num_records = num_records
        self.first_record: Sequence[str] | None = None
        self._types = schema.types
        self._read = read
        self._is_file = is_file
        self._dtypes: tuple[np.dtype[Any] | None, ...] | None = None
        if self.width == 0:
            raise ValueError(f"{name} is empty: it has no columns")

    @property
    def dtypes(self) -> Sequence[np.dtype[Any] | None]:
        """Of each column; of lists, as long as that of the first record, with their shape."""
        if self._dtypes is None:
            lists = [i for i, kind in enumerate(self._types) if _is_list(kind)]
            lengths = self._first_lengths(lists) if lists else {}
            self._dtypes = tuple(
                _numpy_dtype(kind, lengths.get(i)) for i, kind in enumerate(self._types)
            )
        return self._dtypes

    def _first_lengths(self, lists: Sequence[int]) -> dict[int, int]:
        for batch in self._batches(lists, 1):
            if batch.num_rows:
                cells = (batch.column(at)[0] for at in range(len(lists)))
                return {
                    i: len(cell.values) if cell.is_valid else 0
                    for i, cell in zip(lists, cells, strict=True)
                }
        return {}

    def _batches(self, indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._read(indices, max_records)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            if not self._is_file:
                raise ValueError(f"{self.name} cannot be read: {error}") from None
            raise ValueError(f"{self.name} is damaged: {error}") from None

    def locate(self, record: int) -> str:
        """A record by its number from 0."""
        return f"record {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records records; lists as (n, length)."""
        for column in columns:
            self._check(column)
        record_bytes = sum(
            _TEXT_BYTES if column.is_raw else column.dtype.itemsize for column in columns
        )
        max_records = min(max_records, max(_LEAST_RECORDS, _BATCH_BYTES // record_bytes))
        record = 0
        for batch in self._batches([column.index for column in columns], max_records):
            for begin in range(0, batch.num_rows, max_records):
                part = batch.slice(begin, max_records)
                yield tuple(
                    self._values(part.column(at), column, record)
                    for at, column in enumerate(columns)
                )
                record += part.num_rows
                del part
            del batch  # before the next one is read

    def _check(self, column: Column) -> None:
        kind = self._types[column.index]
        if column.is_raw and not pa.types.is_null(kind):
            return
        dtype = self.dtypes[column.index]
        is_bool = pa.types.is_boolean(_item_type(kind))
        if dtype is None or dtype.shape != column.dtype.shape or (is_bool and column.is_id):
            hint = f": {_CAST}" if _is_quantity(kind) else ""
            if column.is_id and not hint:
                hint = ": ids='map' takes any integers and texts"
            raise ValueError(
                f"{self.name}: the {column.label} has type {kind}, not a number type{hint}"
            )

    def _values(self, array: pa.Array, column: Column, record: int) -> npt.NDArray[Any]:
        if column.is_raw and pa.types.is_dictionary(array.type):
            array = _decoded(array)  # whose values may be null
        if array.null_count:
            raise ValueError(
                f"{self._place(array, record)}: an empty cell is not {column.expected()}"
            )
        if column.is_raw and not pa.types.is_integer(array.type):
            return array  # type: ignore[no-any-return]  # Arrow's texts, as `Column.raw` says
        if not column.dtype.shape:
            return checked(_numbers(array), column, self, record)
        length = column.dtype.shape[0]
        if not pa.types.is_fixed_size_list(array.type):
            lengths = _numbers(pa.compute.list_value_length(array))
            odd = np.flatnonzero(lengths != length)
            if len(odd):
                at = int(odd[0])
                raise ValueError(
                    f"{self.name}, {self.locate(record + at)}: {lengths[at]} numbers for the "
                    f"{column.label}, but the first record has {length}"
                )
        values = array.flatten()
        if values.null_count:
            at = _first_null(values) // length
            raise ValueError(
                f"{self.name}, {self.locate(record + at)}: an empty number for the {column.label}"
            )
        numbers = _numbers(values).astype(column.dtype.base, copy=False)
        return numbers.reshape(len(array), length)

    def _place(self, array: pa.Array, record: int) -> str:
        return f"{self.name}, {self.locate(record + _first_null(array))}"


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    values = array.dictionary
    if hasattr(pa.types, "is_string_view") and pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())  # pyarrow decodes no views
    return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()


def _first_null(array: pa.Array) -> int:
    return int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _item_type(kind: pa.DataType) -> pa.DataType:
    item = kind.value_type if _is_list(kind) else kind
    return item.value_type if pa.types.is_dictionary(item) else item


def _is_quantity(kind: pa.DataType) -> bool:
    """Whether it holds numbers of some unit, or with a scale."""
    item = _item_type(kind)
    return bool(pa.types.is_temporal(item) or pa.types.is_decimal(item))


def _numpy_dtype(kind: pa.DataType, length: int | None) -> np.dtype[Any] | None:
    """Of the numbers in a column; bool becomes uint8, as in arrays."""
    item = _item_type(kind)
    if pa.types.is_boolean(item):
        dtype: np.dtype[Any] = np.dtype(np.uint8)
    elif pa.types.is_integer(item) or pa.types.is_floating(item):
        dtype = np.dtype(item.to_pandas_dtype())
    else:
        return None
    return np.dtype((dtype, (length or 0,))) if _is_list(kind) else dtype


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers
