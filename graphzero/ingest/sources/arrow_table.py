"""Tables as streams of Arrow: Parquet and IPC files, datasets, frames and all other streams."""

from __future__ import annotations

import io
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from graphzero.ingest.sort import TempColumn, new_spool
from graphzero.ingest.sources.table import (
    USERS_ERROR,
    Chunk,
    Column,
    Table,
    checked,
    chunks_of,
    types_of,
)

ReadBatches = Callable[[Sequence[int], int], Iterator[pa.RecordBatch]]

# Larger batches are no faster, and pyarrow takes several times their size.
_BATCH_BYTES, _LEAST_RECORDS = 1 << 20, 256
_TEXT_BYTES = 32  # of an id that may be a text, on average
_CAST = "cast it first, to numbers whose unit you choose"


class ArrowTable(Table):
    """Records of a schema, read in batches as often as asked.

    Parameters
    ----------
    name : str
        For messages.
    schema : pyarrow.Schema
    read : callable
        Makes batches of at most so many records, with the columns at some positions, in that order.
    num_records : int or None
        None if it is unknown.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        read: ReadBatches,
        num_records: int | None = None,
    ) -> None:
        self.name = name
        self.names: Sequence[str] | None = tuple(schema.names)
        self.width = len(schema.names)
        self.num_records = num_records
        self._types = schema.types
        self.read = read
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
            yield from self.read(indices, max_records)
        except (pa.ArrowException, OSError) as error:
            if getattr(error, USERS_ERROR, False) or (isinstance(error, OSError) and error.errno):
                raise
            raise ValueError(f"{self.name} is damaged, or cannot be read: {error}") from None

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
        item = _item_type(kind)
        is_bool = pa.types.is_boolean(item)
        if dtype is None or dtype.shape != column.dtype.shape or (is_bool and column.is_id):
            is_quantity = pa.types.is_temporal(item) or pa.types.is_decimal(item)
            hint = f": {_CAST}" if is_quantity else ""
            if column.is_id and not hint:
                hint = ": ids='map' takes any integers and texts"
            raise ValueError(
                f"{self.name}: the {column.label} has type {kind}, not a number type{hint}"
            )

    def _values(self, array: pa.Array, column: Column, record: int) -> npt.NDArray[Any]:
        if column.is_raw and pa.types.is_dictionary(array.type):
            array = _decoded(array)  # whose values may be null
        if array.null_count:
            place = self.locate(record + _first_null(array))
            raise ValueError(f"{self.name}, {place}: an empty cell is not {column.expected()}")
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


def _numpy_dtype(kind: pa.DataType, length: int | None) -> np.dtype[Any] | None:
    """Of the numbers in a column."""
    item = _item_type(kind)
    if pa.types.is_boolean(item):
        dtype: np.dtype[Any] = np.dtype(np.bool_)
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


# --- files

_BUFFER = 1 << 18
_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def open_parquet(path: Path) -> ArrowTable:
    """The records of a Parquet file, read page by page; it is open only while it is read."""

    def opened() -> pa.parquet.ParquetFile:
        file = str(path) if isinstance(path, Path) else path.open()
        # Else pyarrow reads whole row groups ahead.
        return pa.parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)

    try:
        with opened() as file:
            schema, num_records = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a complete Parquet file: {error}") from None

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        names = _unique_names(path, schema, indices)
        with opened() as file:
            # Threads would read each column ahead.
            batches = file.iter_batches(batch_size=max_records, columns=names, use_threads=False)
            yield from (batch.select(names) for batch in batches)

    return ArrowTable(str(path), schema, read, num_records)


def open_ipc(path: Path) -> ArrowTable:
    """The records of an Arrow IPC file or stream, Feather among them, mapped, batch by batch."""
    with path.open("rb") as file:
        magic = file.read(len(_FILE))
    if magic.startswith(_FEATHER_1):
        raise ValueError(
            f"{path} is a Feather file of version 1: write it again with "
            f"pyarrow.feather.write_feather, which writes version 2"
        )
    is_file = magic == _FILE

    def opened(indices: Sequence[int] | None) -> Any:
        # pyarrow's own threads would decompress whole batches ahead.
        included = None if indices is None else sorted(set(indices))
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
        open_kind = pa.ipc.open_file if is_file else pa.ipc.open_stream
        file = pa.memory_map(str(path)) if isinstance(path, Path) else path.open()
        return open_kind(file, options=options)

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        names = _unique_names(path, schema, indices)
        source = opened(indices)
        batches = map(source.get_batch, range(source.num_record_batches)) if is_file else source
        yield from map(lambda batch: batch.select(names), batches)  # keeps no batch itself

    try:
        schema = opened(None).schema
        if not is_file:
            _check_end(path)
    except (pa.ArrowException, OSError) as error:
        kind = "file" if is_file else "stream"
        raise ValueError(f"{path} is not a complete Arrow IPC {kind}: {error}") from None
    return ArrowTable(str(path), schema, read)


def _unique_names(path: Path, schema: pa.Schema, indices: Sequence[int]) -> list[str]:
    names = [schema.names[index] for index in indices]
    for name in names:
        if schema.names.count(name) > 1:
            raise ValueError(f"{path} has more than one column {name!r}: rename one of them")
    return names


def _check_end(path: Path) -> None:
    """A stream that was cut short between two batches looks complete to pyarrow."""
    with path.open("rb") as file:
        file.seek(-len(_END_OF_STREAM), 2)
        if file.read() != _END_OF_STREAM:
            raise ValueError(
                f"{path} is not a complete Arrow IPC stream: it has no end-of-stream marker. It "
                f"was cut short, or its writer was not closed: write it again"
            )


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
    if isinstance(value, types_of("polars", "LazyFrame")):
        raise ValueError(
            f"{name} is not computed yet: give frame.collect(), or write it with "
            f"frame.sink_parquet('edges.parquet'), which streams, and give that file"
        )
    if isinstance(value, types_of("pyarrow.dataset", "Dataset")):
        return _open_dataset(value, name)
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    elif isinstance(value, types_of("polars", "DataFrame")):
        value = pa.table(value)
    if isinstance(value, pa.Table):
        return _open_arrow(value, name)
    try:
        reader = pa.RecordBatchReader.from_stream(value)
        return (once_table if once else spooled_table)(name, reader.schema, reader)
    except pa.ArrowException as error:
        raise ValueError(f"{name} cannot be read: {error}") from None


def _open_arrow(table: pa.Table, name: str) -> ArrowTable:
    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        yield from table.select(list(indices)).to_batches(max_chunksize=max_records)

    return ArrowTable(name, table.schema, read, table.num_rows)


def _open_dataset(dataset: Any, name: str) -> ArrowTable:
    names = dataset.schema.names
    options = {}
    if getattr(getattr(dataset, "format", None), "type_name", None) == "parquet":
        # By default pyarrow reads whole row groups.
        (scan,) = types_of("pyarrow.dataset", "ParquetFragmentScanOptions")
        options["fragment_scan_options"] = scan(
            use_buffered_stream=True, buffer_size=_BUFFER, pre_buffer=False
        )

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        # One batch and one file ahead: by default pyarrow reads 16 batches and 4 files.
        yield from dataset.to_batches(
            columns=[names[index] for index in indices],
            batch_size=max_records,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
            **options,
        )

    return ArrowTable(name, dataset.schema, read)


def once_table(name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> ArrowTable:
    """The records of a stream, which are read once."""
    was_read: list[bool] = []

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        if was_read:
            raise ValueError(f"{name} can be read only once: write it to a file first")
        was_read.append(True)
        for batch in batches:
            yield batch.select(list(indices))

    return ArrowTable(name, schema, read)


def spooled_table(name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> ArrowTable:
    """The records of a stream that can be read once, written to a temporary file."""
    num_records = 0
    with closing(new_spool()) as spool:
        with pa.ipc.new_stream(_Sink(spool), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                num_records += batch.num_rows
        data = pa.py_buffer(spool.array())

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        for batch in pa.ipc.open_stream(data):
            yield batch.select(list(indices))

    return ArrowTable(name, schema, read, num_records)


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
    index = value.index
    named = [str(one) for one in index.names if one is not None]
    is_range = isinstance(index, types_of("pandas", "RangeIndex"))
    if named:
        raise ValueError(
            f"{name} has the index {', '.join(named)}: give frame.reset_index(), where it is a "
            f"column, or frame.reset_index(drop=True) if it does not matter"
        )
    if of == "node" and not (is_range and index.start == 0 and index.step == 1):
        raise ValueError(
            f"{name} has an index of its own, and records are not found by it: give "
            f"frame.reset_index(), where it is a column, or frame.reset_index(drop=True) if it "
            f"does not matter"
        )


def _open_pandas(frame: Any, name: str) -> ArrowTable:
    if frame.ndim == 1:  # a column without a name
        frame = frame.to_frame(0).set_axis(range(1), axis=1)
    columns = [frame.iloc[:, at] for at in range(frame.shape[1])]
    names = [str(label) for label in frame.columns]
    kinds = [_pandas_type(column) for column in columns]
    schema = pa.schema(list(zip(names, kinds, strict=True)))

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(frame), max_records):
            parts = [columns[at].iloc[begin : begin + max_records] for at in indices]
            arrays = [
                _pandas_array(part, kinds[at]) for part, at in zip(parts, indices, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=[names[at] for at in indices])

    table = ArrowTable(name, schema, read, len(frame))
    if isinstance(frame.columns, types_of("pandas", "RangeIndex")):
        table.names = None
    return table


def _pandas_type(column: Any) -> pa.DataType:
    try:
        return _pandas_array(column.iloc[:_SAMPLE], None).type
    except (pa.ArrowException, TypeError):  # objects of several kinds
        return pa.null()


def _pandas_array(column: Any, kind: pa.DataType | None) -> pa.Array:
    # NaN among NumPy's numbers is a number, and not an empty cell.
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return pa.array(np.ascontiguousarray(column.to_numpy()), type=kind, from_pandas=False)
    array = pa.array(column, type=kind, from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


# --- chunks of edges


class ChunkTable(ArrowTable):
    """The edges that an iterator yields.

    A chunk is a pair of equally long vectors, sources and targets; or an array of shape (2, n) or
    (n, 2); or a dictionary of equally long vectors, the columns by name, or a table of pandas,
    polars or Arrow with such columns. All are of one kind.

    Parameters
    ----------
    name : str
    source : iterator, or function that returns one
    is_edge_index : bool
        Whether arrays have the shape (2, n) anyway.
    once : bool
        Whether the edges are read once only. Otherwise they are spooled.
    """

    def __init__(
        self,
        name: str,
        source: Iterator[Any] | Callable[[], Any],
        *,
        is_edge_index: bool = False,
        once: bool = False,
    ) -> None:
        self.name = name
        self._keys: list[str] | None = None
        self._transposed: bool | None = True if is_edge_index else None  # arrays are (2, n)
        self._begins: list[int] = []
        batches = self._batches_of(chunks_of(source, name), alike=not once)
        first = next(batches, None)
        if first is None:
            schema, batches = pa.schema([("0", pa.int64()), ("1", pa.int64())]), iter(())
        else:
            schema, batches = first.schema, itertools.chain([first], batches)
        table = (once_table if once else spooled_table)(name, schema, batches)
        super().__init__(name, schema, table.read, table.num_records)
        if self._keys is None:
            self.names = None

    def locate(self, record: int) -> str:
        """An edge by its chunk, and its position in it, both from 0."""
        chunk = bisect_right(self._begins, record) - 1
        return f"chunk {chunk}, edge {record - self._begins[chunk]}"

    def _batches_of(self, chunks: Iterator[Any], *, alike: bool) -> Iterator[pa.RecordBatch]:
        record, types = 0, None
        for number, chunk in enumerate(chunks):
            vectors = self._vectors(chunk, number)
            self._begins.append(record)
            record += len(vectors[0]) if vectors else 0
            where = f"{self.name}, chunk {number}"
            try:
                arrays = [pa.array(vector) for vector in vectors]
            except (pa.ArrowException, TypeError) as error:
                raise ValueError(f"{where} cannot be read: {error}") from None
            batch = pa.RecordBatch.from_arrays(arrays, self._keys or ["0", "1"])
            types = batch.schema.types if types is None else types
            if alike and batch.num_rows and batch.schema.types != types:
                raise ValueError(
                    f"{where} has columns of types {_listed(batch.schema.types)}, and chunk 0 of "
                    f"types {_listed(types)}: all must be alike"
                )
            if batch.num_rows or number == 0:
                yield batch

    def _values(self, array: pa.Array, column: Column, record: int) -> npt.NDArray[Any]:
        kinds = {"f": "iuf", "b": "b"}.get(column.dtype.kind, "iu")
        dtype = np.dtype(array.type.to_pandas_dtype())
        if not column.is_raw and dtype.kind not in kinds:
            raise ValueError(
                f"{self.name}, {self.locate(record).partition(',')[0]}: the {column.label} has "
                f"dtype {dtype}, and must be {'a number' if 'f' in kinds else 'an integer'}"
            )
        return super()._values(array, column, record)

    def _vectors(self, chunk: Any, number: int) -> list[npt.NDArray[Any]]:
        """The columns of a chunk."""
        where, chunk = f"{self.name}, chunk {number}", _by_name(chunk)
        if number == 0 and isinstance(chunk, Mapping):
            self._keys = list(map(str, chunk))
        if isinstance(chunk, Mapping) != (self._keys is not None):
            raise ValueError(f"{where} is {_described(chunk)}, and earlier chunks are not alike")
        if isinstance(chunk, Mapping):
            names = tuple(map(str, chunk))
            if sorted(names) != sorted(self._keys or ()):
                raise ValueError(
                    f"{where} has columns {', '.join(names)}, and chunk 0 has "
                    f"{', '.join(self._keys or ())}"
                )
            by_name = dict(zip(names, chunk.values(), strict=True))
            vectors = [np.asarray(by_name[name]) for name in self._keys or ()]
        elif isinstance(chunk, tuple | list):
            vectors = [np.asarray(column) for column in chunk]
            if len(vectors) != 2 or any(vector.ndim != 1 for vector in vectors):
                raise ValueError(
                    f"{where} is {_described(chunk)}: yield a pair of vectors, sources and "
                    f"targets, or a dictionary such as {{'src': ..., 'dst': ..., 'weight': ...}}"
                )
        else:
            vectors = self._split(np.asarray(chunk), where)
        if any(vector.ndim != 1 or len(vector) != len(vectors[0]) for vector in vectors):
            shapes = " and ".join(str(vector.shape) for vector in vectors)
            raise ValueError(f"{where} has columns of shapes {shapes}: they must be equally long")
        return vectors

    def _split(self, array: npt.NDArray[Any], where: str) -> list[npt.NDArray[Any]]:
        if array.ndim != 2 or 2 not in array.shape:
            raise ValueError(
                f"{where} is {_described(array)}: yield arrays of shape (2, n) or (n, 2), or "
                f"pairs of vectors"
            )
        if array.shape != (2, 2):
            transposed = array.shape[0] == 2
            if self._transposed not in (None, transposed):
                raise ValueError(f"{where} has shape {array.shape}, and earlier ones the other way")
            self._transposed = transposed
        if self._transposed is None:
            raise ValueError(
                f"{where} has shape (2, 2), which may be (2, n) or (n, 2): yield pairs of vectors"
            )
        return list(array) if self._transposed else list(array.T)


def _is_frame(chunk: Any) -> bool:
    """Whether a value is a table of pandas, polars or Arrow."""
    return not isinstance(chunk, Mapping) and (
        (hasattr(chunk, "columns") and hasattr(chunk, "dtypes"))
        or (hasattr(chunk, "schema") and hasattr(chunk, "column"))
    )


def _by_name(chunk: Any) -> Any:
    """The columns of a table by name, so that their order means nothing; others as they are."""
    if not _is_frame(chunk):
        return chunk
    if hasattr(chunk, "schema") and hasattr(chunk, "column"):
        return {name: np.asarray(chunk.column(name)) for name in chunk.schema.names}
    return {name: np.asarray(chunk[name]) for name in chunk.columns}


def _described(chunk: Any) -> str:
    if isinstance(chunk, Mapping):
        return "a dictionary"
    if isinstance(chunk, tuple | list):
        return f"a {type(chunk).__name__} of {len(chunk)}"
    shape = getattr(chunk, "shape", None)
    return type(chunk).__name__ if shape is None else f"an array of shape {tuple(shape)}"


def _listed(types: list[pa.DataType]) -> str:
    return ", ".join(map(str, types))
