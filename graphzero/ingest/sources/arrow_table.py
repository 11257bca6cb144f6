"""Tables as streams of Arrow: Parquet and IPC files, datasets, frames and all other streams."""

from __future__ import annotations

import io
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from graphzero.ingest.sort import TempColumn, new_spool
from graphzero.ingest.sources.columns import (
    Array,
    Chunk,
    Column,
    DType,
    Table,
    checked,
    chunks_of,
    is_frame,
    reading,
    types_of,
)

ReadBatches = Callable[[list[str], int], Iterator[pa.RecordBatch]]

# Larger batches are no faster, and pyarrow takes several times their size.
_BATCH_BYTES, _LEAST_RECORDS = 1 << 20, 256
_TEXT_BYTES = 32  # of an id that may be a text, on average
_CHUNK_RECORDS = 1 << 20  # of a chunk that an iterator yields
_CAST = "cast it first, to numbers whose unit you choose"


class ArrowTable(Table):
    """Records of a schema, read in batches as often as asked.

    Parameters
    ----------
    name : str
        For messages.
    schema : pyarrow.Schema
    batches : callable
        Makes batches of at most so many records, with the columns of some names, in that order.
    num_records : int or None
        None if it is unknown.
    has_names : bool
        Whether the names of the schema are those of the user's columns.
    chunk_begins : list of int, optional
        Of chunks that an iterator yields: the first record of each that has been read.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        batches: ReadBatches,
        num_records: int | None = None,
        *,
        has_names: bool = True,
        chunk_begins: list[int] | None = None,
    ) -> None:
        self.name = name
        self.names = tuple(schema.names) if has_names else None
        self.width = len(schema.names)
        self.num_records = num_records
        kinds = zip(schema.names, map(_storage_type, schema.types), strict=True)
        self.schema = pa.schema(list(kinds))
        self.batches = batches
        self._chunk_begins = chunk_begins
        if self.width == 0:
            raise ValueError(f"{name} is empty: it has no columns")

    @cached_property
    def dtypes(self) -> Sequence[DType | None]:
        """Of each column; of lists, as long as that of the first record, with their shape."""
        kinds = self.schema.types
        lists = [i for i, kind in enumerate(kinds) if _is_list(kind)]
        batches = self._stored_batches(lists, 1) if lists else iter(())
        first = next((batch for batch in batches if batch.num_rows), None)
        lengths = {}
        if first is not None:
            cells = [pa.compute.list_value_length(column)[0] for column in first.columns]
            lengths = {i: cell.as_py() for i, cell in zip(lists, cells, strict=True)}
        return [_numpy_dtype(kind, lengths.get(i)) for i, kind in enumerate(kinds)]

    def _stored_batches(self, indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        names = [self.schema.names[index] for index in indices]
        for name in names:
            if self.schema.names.count(name) > 1:
                raise ValueError(
                    f"{self.name} has more than one column {name!r}: rename one of them"
                )
        try:
            yield from map(_of_storage, self.batches(names, max_records))
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise ValueError(f"{self.name} is damaged, or cannot be read: {error}") from None

    def locate(self, record: int) -> str:
        """The number of a record, in its chunk where there are chunks."""
        if self._chunk_begins is None:
            return super().locate(record)
        chunk = bisect_right(self._chunk_begins, record) - 1
        return f"chunk {chunk}, edge {record - self._chunk_begins[chunk]}"

    def read(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records records; lists as (n, length)."""
        for column in columns:
            self._check(column)
        record_bytes = sum(
            _TEXT_BYTES if column.is_raw else column.dtype.itemsize for column in columns
        )
        max_records = min(max_records, max(_LEAST_RECORDS, _BATCH_BYTES // record_bytes))
        record = 0
        for batch in self._stored_batches([column.index for column in columns], max_records):
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
        kind = self.schema.types[column.index]
        if column.is_raw and not pa.types.is_null(kind):
            return
        dtype = self.dtypes[column.index]
        item = _item_type(kind)
        is_bool = pa.types.is_boolean(item)
        if dtype is None or dtype.shape != column.dtype.shape or (is_bool and column.is_id):
            hint = "ids='map' takes any integers and texts" if column.is_id else _CAST
            raise ValueError(
                f"{self.name}: the {column.label} has type {kind}, not a number type: {hint}"
            )

    def _values(self, array: pa.Array, column: Column, record: int) -> Array | pa.Array:
        if column.is_raw and pa.types.is_dictionary(array.type):
            array = _decoded_texts(array)  # whose values may be null
        if array.null_count:
            place = self.locate(record + pa.compute.index(array.is_null(), True).as_py())
            raise ValueError(f"{self.name}, {place}: an empty cell is not {column.expected()}")
        if column.is_raw and not pa.types.is_integer(array.type):
            return array
        if not column.dtype.shape:
            return checked(_numbers(array), column, self, record)
        length = column.dtype.shape[0]
        values = array.flatten()
        odd = np.flatnonzero(_numbers(pa.compute.list_value_length(array)) != length)
        if len(odd) or values.null_count:
            null = pa.compute.index(values.is_null(), True).as_py()
            at = int(odd[0]) if len(odd) else null // length
            raise ValueError(
                f"{self.name}, {self.locate(record + at)}: the {column.label} is not a list of "
                f"{length} numbers, as that of the first record"
            )
        numbers = _numbers(values).astype(column.dtype.base, copy=False)
        return numbers.reshape(len(array), length)


def _decoded_texts(array: pa.DictionaryArray) -> pa.Array:
    values = array.dictionary
    if str(values.type) == "string_view":
        values = values.cast(pa.large_string())  # pyarrow decodes no views
    return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()


def _storage_type(kind: pa.DataType) -> pa.DataType:
    """Of an extension type, such as a tensor of Ray Data, what it is stored as."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _of_storage(batch: pa.RecordBatch) -> pa.RecordBatch:
    if not any(isinstance(kind, pa.BaseExtensionType) for kind in batch.schema.types):
        return batch
    columns = [getattr(column, "storage", column) for column in batch.columns]
    return pa.record_batch(columns, batch.schema.names)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _item_type(kind: pa.DataType) -> pa.DataType:
    item = kind.value_type if _is_list(kind) else kind
    return item.value_type if pa.types.is_dictionary(item) else item


def _numpy_dtype(kind: pa.DataType, length: int | None) -> DType | None:
    """Of the numbers in a column."""
    item = _item_type(kind)
    if pa.types.is_boolean(item):
        dtype: DType = np.dtype(np.bool_)
    elif pa.types.is_integer(item) or pa.types.is_floating(item):
        dtype = np.dtype(item.to_pandas_dtype())
    else:
        return None
    return np.dtype((dtype, (length or 0,))) if _is_list(kind) else dtype


def _numbers(array: pa.Array) -> Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    numbers: Array = array.to_numpy(zero_copy_only=False)
    return numbers


# --- files

_BUFFER = 1 << 18
_FILE = b"ARROW1"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def open_parquet(path: Path) -> ArrowTable:
    """The records of a Parquet file, read page by page; it is open only while it is read."""

    def opened() -> pa.parquet.ParquetFile:
        file = str(path) if isinstance(path, Path) else path.open()
        # Else pyarrow reads whole row groups ahead.
        return pa.parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)

    with reading(path, "Parquet file"), opened() as file:
        schema, num_records = file.schema_arrow, file.metadata.num_rows

    def read(names: list[str], max_records: int) -> Iterator[pa.RecordBatch]:
        with opened() as file:
            # Threads would read each column ahead.
            batches = file.iter_batches(batch_size=max_records, columns=names, use_threads=False)
            yield from (batch.select(names) for batch in batches)

    return ArrowTable(str(path), schema, read, num_records)


def open_ipc(path: Path) -> ArrowTable:
    """The records of an Arrow IPC file or stream, Feather among them, mapped, batch by batch."""
    with path.open("rb") as file:
        is_file = (begin := file.read(len(_FILE))) == _FILE
    if begin[:4] == b"FEA1":
        again = "write it again with pyarrow.feather.write_feather"
        raise ValueError(f"{path} is a Feather file of version 1: {again}")

    def opened(names: Sequence[str] | None) -> pa.RecordBatchReader | pa.RecordBatchFileReader:
        # pyarrow's own threads would decompress whole batches ahead.
        included = None if names is None else sorted({schema.names.index(name) for name in names})
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
        open_kind = pa.ipc.open_file if is_file else pa.ipc.open_stream
        file = pa.memory_map(str(path)) if isinstance(path, Path) else path.open()
        return open_kind(file, options=options)

    def read(names: list[str], max_records: int) -> Iterator[pa.RecordBatch]:
        source = opened(names)
        batches = map(source.get_batch, range(source.num_record_batches)) if is_file else source
        yield from map(lambda batch: batch.select(names), batches)  # keeps no batch itself

    with reading(path, f"Arrow IPC {'file' if is_file else 'stream'}"), path.open("rb") as file:
        schema = opened(None).schema
        file.seek(-len(_END_OF_STREAM), 2)
        # A stream that was cut short between two batches looks complete to pyarrow.
        if not is_file and file.read() != _END_OF_STREAM:
            raise OSError("it has no end-of-stream marker, because its writer was not closed")
    return ArrowTable(str(path), schema, read)


# --- tables in memory, and streams

_SAMPLE = 1000  # records of a column of objects, whose type is to be found


def open_frame(value: Any, of: Literal["node", "edge"], *, once: bool = False) -> ArrowTable:
    """The records of a table in memory or of a stream.

    Parameters
    ----------
    of : {"node", "edge"}
        What a record belongs to.
    once : bool
        Whether it is read once only. Otherwise a stream is spooled.
    """
    name = f"the {type(value).__module__.partition('.')[0]} {type(value).__name__}"
    if isinstance(value, types_of("pandas", "DataFrame", "Series")):
        _check_index(value, name, of)
        return _open_pandas(value, name)
    if isinstance(value, types_of("pyarrow.dataset", "Dataset")):
        return _open_dataset(value, name)
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    elif isinstance(value, types_of("polars", "DataFrame")):
        value = pa.table(value)
    if isinstance(value, pa.Table):
        return ArrowTable(
            name,
            value.schema,
            lambda names, most: iter(value.select(names).to_batches(max_chunksize=most)),
            value.num_rows,
        )
    try:
        reader = pa.RecordBatchReader.from_stream(value)
        batches, num_records = _stream_batches(name, reader.schema, reader, once=once)
        return ArrowTable(name, reader.schema, batches, num_records)
    except pa.ArrowException as error:
        raise ValueError(f"{name} cannot be read: {error}") from None


def _open_dataset(dataset: Any, name: str) -> ArrowTable:
    """The records of a dataset of pyarrow, one batch and one file ahead.

    By default pyarrow reads 16 batches and 4 files ahead. Files of the user's own are not read so:
    of Parquet, it decodes whole row groups at once.
    """

    def batches(names: list[str], max_records: int) -> Iterator[pa.RecordBatch]:
        yield from dataset.to_batches(
            columns=names,
            batch_size=max_records,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )

    return ArrowTable(name, dataset.schema, batches)


def _stream_batches(
    name: str, schema: pa.Schema, stream: Iterable[pa.RecordBatch], *, once: bool
) -> tuple[ReadBatches, int | None]:
    """What reads a stream, and its number of records: spooled, unless it is read once only."""
    num_records = None
    unread = [stream]
    if not once:
        with closing(new_spool()) as spool:
            with pa.ipc.new_stream(_Sink(spool), schema) as writer:
                num_records = 0
                for batch in stream:
                    writer.write_batch(batch)
                    num_records += batch.num_rows
            data = pa.py_buffer(spool.array())

    def batches(names: list[str], max_records: int) -> Iterator[pa.RecordBatch]:
        if once and not unread:
            raise ValueError(f"{name} can be read only once: write it to a file first")
        source = unread.pop() if once else pa.ipc.open_stream(data)
        yield from (batch.select(names) for batch in source)

    return batches, num_records


class _Sink(io.RawIOBase):
    """A spool as a file that is written."""

    def __init__(self, spool: TempColumn) -> None:
        self._spool = spool

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._spool.append(np.frombuffer(data, np.uint8))
        return len(data)


def _check_index(value: Any, name: str, of: str) -> None:
    """Refuses an index that says which node or edge a record is, or may say it."""
    index: Any = value.index
    named = ", ".join(str(level) for level in index.names if level is not None)
    is_range = isinstance(index, types_of("pandas", "RangeIndex"))
    counts = is_range and (index.start, index.step) == (0, 1)
    if named or (of == "node" and not counts):
        raise ValueError(
            f"{name} has {f'the index {named}' if named else 'an index of its own'}, and records "
            f"are not found by it: give frame.reset_index(), where it is a column, or "
            f"frame.reset_index(drop=True) if it does not matter"
        )


def _open_pandas(frame: Any, name: str) -> ArrowTable:
    if frame.ndim == 1:  # a column without a name
        frame = frame.to_frame(0).set_axis(range(1), axis=1)
    labels = [str(label) for label in frame.columns]
    columns = [frame.iloc[:, at] for at in range(len(labels))]
    schema = pa.schema(list(zip(labels, map(_pandas_type, columns), strict=True)))

    def read(names: list[str], max_records: int) -> Iterator[pa.RecordBatch]:
        chosen = [columns[labels.index(name)] for name in names]
        for begin in range(0, len(frame), max_records):
            parts = (column.iloc[begin : begin + max_records] for column in chosen)
            kinds = (schema.field(name).type for name in names)
            yield pa.record_batch(list(map(_pandas_array, parts, kinds)), names)

    has_names = not isinstance(frame.columns, types_of("pandas", "RangeIndex"))
    return ArrowTable(name, schema, read, len(frame), has_names=has_names)


def _pandas_type(column: Any) -> pa.DataType:
    try:
        return _pandas_array(column.iloc[:_SAMPLE], None).type
    except (pa.ArrowException, TypeError):  # objects of several kinds
        return pa.null()


def _pandas_array(column: Any, kind: pa.DataType | None) -> pa.Array:
    # NaN among NumPy's numbers is a number, and not an empty cell.
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return pa.array(np.ascontiguousarray(column.to_numpy()), type=kind, from_pandas=False)
    if column.dtype == object and kind is not None and pa.types.is_integer(kind):
        untyped = pa.array(column, from_pandas=True)
        if pa.types.is_floating(untyped.type):  # with type= Arrow cuts off fractions
            return untyped.cast(kind)
    array = pa.array(column, type=kind, from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


# --- chunks of edges


def open_chunks(
    name: str, source: Any, *, once: bool = False, is_edge_index: bool = False
) -> ArrowTable:
    """The edges that an iterator yields, or one that a function returns.

    A chunk is a pair of equally long vectors, sources and targets, or both as one array of shape
    (2, n) or (n, 2), or a table with the columns by name, also as a dictionary. All are of one
    kind; with `is_edge_index`, arrays have shape (2, n). With `once` the edges are read once only;
    otherwise they are spooled.
    """
    begins: list[int] = []
    across = True if is_edge_index else None
    batches = _batches_of(chunks_of(source, name), name, begins, across)
    first = next(batches, None)
    if first is None:
        first = pa.record_batch([pa.array([], pa.int64())] * 2, _PAIR)
    schema, stream = first.schema, itertools.chain([first], batches)
    try:
        reread, num_records = _stream_batches(name, schema, stream, once=once)
    except pa.ArrowException as error:  # of another schema
        raise ValueError(f"{name}: all chunks must have the same types: {error}") from None
    has_names = schema.names != _PAIR
    return ArrowTable(name, schema, reread, num_records, has_names=has_names, chunk_begins=begins)


_PAIR = ["first of a pair", "second of a pair"]  # of columns without names


def _batches_of(
    chunks: Iterator[Any], name: str, begins: list[int], across: bool | None
) -> Iterator[pa.RecordBatch]:
    """Records of chunks, and in `begins` where each begins.

    `across` is whether arrays have shape (2, n), None if none has said it.
    """
    count = 0
    names, of_first = None, None  # columns, and which of them are booleans
    for number, chunk in enumerate(chunks):
        where = f"{name}, chunk {number}"
        try:
            if isinstance(chunk, Mapping):
                chunk = pa.table({str(key): np.asarray(chunk[key]) for key in chunk})
            elif not is_frame(chunk):
                if hasattr(chunk, "shape"):
                    across = _is_across(tuple(chunk.shape), across)
                    chunk = chunk if across else chunk.T
                sources, targets = map(np.asarray, chunk)
                chunk = pa.table([sources, targets], _PAIR)
            table = open_frame(chunk, "edge", once=True)
            flags = {field.name for field in table.schema if pa.types.is_boolean(field.type)}
            names, of_first = names or table.schema.names, flags if of_first is None else of_first
            if sorted(table.schema.names) != sorted(names) or flags != of_first:
                raise ValueError(f"its columns are not those of chunk 0, {', '.join(names)}")
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(
                f"{where} cannot be read: {error}. Yield pairs of equally long vectors, sources "
                f"and targets, or tables, such as {{'src': ..., 'dst': ..., 'weight': ...}}"
            ) from None
        begins.append(count)
        for batch in table.batches(names, _CHUNK_RECORDS):
            count += batch.num_rows
            yield batch


def _is_across(shape: tuple[int, ...], earlier: bool | None) -> bool:
    """Whether an array of edges has shape (2, n), and not (n, 2), as earlier ones have."""
    if len(shape) != 2 or 2 not in shape:
        raise ValueError(f"it has shape {shape}, and not (2, n) or (n, 2)")
    is_across = earlier if shape == (2, 2) else shape[0] == 2
    if is_across is None:
        raise ValueError("it has shape (2, 2), which may be (2, n) or (n, 2)")
    if is_across != earlier and earlier is not None:
        raise ValueError(f"it has shape {shape}, and earlier ones the other way")
    return is_across
