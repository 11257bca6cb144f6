"""Tables as streams of Arrow: Parquet and IPC files, datasets, frames and all other streams."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from graphzero.ingest.sources.arrays import Spool
from graphzero.ingest.sources.table import USERS_ERROR, Chunk, Column, Table, checked

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
    is_file : bool
        Whether an error of pyarrow means that a file is damaged.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        read: ReadBatches,
        num_records: int | None = None,
        *,
        is_file: bool = True,
    ) -> None:
        self.name = name
        self.names: Sequence[str] | None = tuple(schema.names)
        self.width = len(schema.names)
        self.num_records = num_records
        self._types = schema.types
        self.read = read
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
            yield from self.read(indices, max_records)
        except (pa.ArrowException, OSError) as error:
            if getattr(error, USERS_ERROR, False) or (isinstance(error, OSError) and error.errno):
                raise
            if not self._is_file:
                raise ValueError(f"{self.name} cannot be read: {error}") from None
            raise ValueError(f"{self.name} is damaged: {error}") from None

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


def _from(module: str, *kinds: str) -> tuple[type, ...]:
    """Types of a package, without importing it: who has no such object has not imported it."""
    loaded = sys.modules.get(module)
    found = (getattr(loaded, kind, None) for kind in kinds)
    return tuple(kind for kind in found if isinstance(kind, type))


def is_frame(value: Any) -> bool:
    """Whether a value is a table in memory, a stream of one, or a pandas Series with its index.

    Everything with named columns that exports an Arrow stream is one: pandas, polars, relations of
    DuckDB, results of ADBC. A stream of a single series, without names, is not.
    """
    known = (
        pa.RecordBatch,
        *_from("pyarrow.dataset", "Dataset"),
        *_from("pandas", "DataFrame", "Series"),
        *_from("polars", "LazyFrame"),
    )
    return isinstance(value, known) or (
        hasattr(value, "__arrow_c_stream__")
        and any(hasattr(value, name) for name in ("columns", "column_names", "schema"))
    )


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
    if isinstance(value, _from("pandas", "DataFrame", "Series")):
        _check_index(value, name, of)
        return _open_pandas(value, name)
    if isinstance(value, _from("polars", "LazyFrame")):
        raise ValueError(
            f"{name} is not computed yet: give frame.collect(), or write it with "
            f"frame.sink_parquet('edges.parquet'), which streams, and give that file"
        )
    if isinstance(value, _from("pyarrow.dataset", "Dataset")):
        return _open_dataset(value, name)
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    elif isinstance(value, _from("polars", "DataFrame")):
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

    return ArrowTable(name, table.schema, read, table.num_rows, is_file=False)


def _open_dataset(dataset: Any, name: str) -> ArrowTable:
    names = dataset.schema.names
    options = {}
    if getattr(getattr(dataset, "format", None), "type_name", None) == "parquet":
        # By default pyarrow reads whole row groups.
        (scan,) = _from("pyarrow.dataset", "ParquetFragmentScanOptions")
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

    return ArrowTable(name, dataset.schema, read, is_file=False)


def once_table(name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> ArrowTable:
    """The records of a stream, which are read once."""
    was_read: list[bool] = []

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        if was_read:
            raise ValueError(f"{name} can be read only once: write it to a file first")
        was_read.append(True)
        for batch in batches:
            yield batch.select(list(indices))

    return ArrowTable(name, schema, read, is_file=False)


def spooled_table(name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> ArrowTable:
    """The records of a stream that can be read once, written to a temporary file."""
    num_records = 0
    with closing(Spool()) as spool:
        with pa.ipc.new_stream(_Sink(spool), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                num_records += batch.num_rows
        data = pa.py_buffer(spool.array(np.dtype(np.uint8), (spool.size,)))

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        for batch in pa.ipc.open_stream(data):
            yield batch.select(list(indices))

    return ArrowTable(name, schema, read, num_records, is_file=False)


class _Sink(io.RawIOBase):
    """A spool as a file that is written."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._spool.write(np.frombuffer(data, np.uint8))
        return len(data)


def _check_index(value: Any, name: str, of: str) -> None:
    """Refuses an index that says which node or edge a record is, or may say it."""
    index = value.index
    named = [str(one) for one in index.names if one is not None]
    is_range = isinstance(index, _from("pandas", "RangeIndex"))
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

    table = ArrowTable(name, schema, read, len(frame), is_file=False)
    if isinstance(frame.columns, _from("pandas", "RangeIndex")):
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
