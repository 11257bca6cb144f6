"""Tables in memory: those of pyarrow, pandas, polars, and others that export Arrow streams."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from graphzero.ingest.sources.arrow_table import ArrowTable

__all__ = ["is_frame", "open_frame"]

_SAMPLE = 1000
_BUFFER = 1 << 18


def _from(module: str, *kinds: str) -> tuple[type, ...]:
    """Types of a package, without importing it: who has no such object has not imported it."""
    loaded = sys.modules.get(module)
    found = (getattr(loaded, kind, None) for kind in kinds)
    return tuple(kind for kind in found if isinstance(kind, type))


def is_frame(value: Any) -> bool:
    """Whether a value is a table in memory, or a pandas Series, whose index counts."""
    own = (pa.Table, pa.RecordBatch, pa.RecordBatchReader, *_from("pyarrow.dataset", "Dataset"))
    pandas, polars = (
        _from("pandas", "DataFrame", "Series"),
        _from("polars", "DataFrame", "LazyFrame"),
    )
    if isinstance(value, (*own, *pandas, *polars)):
        return True
    # An Arrow stream of a series is no table.
    return hasattr(value, "__arrow_c_stream__") and (
        hasattr(value, "columns") or hasattr(value, "column_names")
    )


def open_frame(value: Any, of: Literal["node", "edge"]) -> ArrowTable:
    """The records of a table in memory; `of` says what a record belongs to.

    Raises
    ------
    ValueError
        If it cannot be streamed, or has an index that would be lost.
    """
    name = f"the {type(value).__module__.partition('.')[0]} {type(value).__name__}"
    is_frame_of_pandas = isinstance(value, _from("pandas", "DataFrame"))
    if is_frame_of_pandas or isinstance(value, _from("pandas", "Series")):
        _check_index(value, name, of)
        return _open_pandas(value if is_frame_of_pandas else _framed(value), name)
    if isinstance(value, _from("polars", "LazyFrame")):
        raise ValueError(
            f"{name} is not computed yet: give frame.collect(), or write it with "
            f"frame.sink_parquet('edges.parquet'), which streams, and give that file"
        )
    if isinstance(value, pa.RecordBatchReader):
        return _open_reader(value, name)
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    if isinstance(value, _from("pyarrow.dataset", "Dataset")):
        return _open_dataset(value, name)
    if not isinstance(value, pa.Table):
        return _open_stream(value, name)
    return _open_arrow(value, name)


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

    return ArrowTable(name, dataset.schema, read, None, is_file=False)


def _open_reader(reader: pa.RecordBatchReader, name: str) -> ArrowTable:
    taken: list[bool] = []

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        if taken:
            raise ValueError(
                f"{name} can be read only once, and this is read more than once: give "
                f"reader.read_all(), or a file"
            )
        taken.append(True)
        for batch in reader:
            yield batch.select(list(indices))

    return ArrowTable(name, reader.schema, read, None, is_file=False)


def _open_stream(value: Any, name: str) -> ArrowTable:
    """Of an object with Arrow's stream interface, such as a frame of polars."""

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        for batch in pa.RecordBatchReader.from_stream(value):
            yield batch.select(list(indices))

    schema = pa.RecordBatchReader.from_stream(value).schema
    return ArrowTable(name, schema, read, None, is_file=False)


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


def _framed(series: Any) -> Any:
    """A frame of a column without a name."""
    return series.to_frame(0).set_axis(range(1), axis=1)


def _open_pandas(frame: Any, name: str) -> ArrowTable:
    columns = [frame.iloc[:, at] for at in range(frame.shape[1])]
    kinds = [_pandas_type(column) for column in columns]
    unnamed = isinstance(frame.columns, _from("pandas", "RangeIndex"))
    names = [str(label) for label in frame.columns]
    schema = pa.schema([pa.field(*pair) for pair in zip(names, kinds, strict=True)])

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(frame), max_records):
            arrays = [
                _pandas_array(columns[at].iloc[begin : begin + max_records], kinds[at])
                for at in indices
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=[names[at] for at in indices])

    table = ArrowTable(name, schema, read, len(frame), is_file=False)
    if unnamed:
        table.names = None
    return table


def _is_numpy(column: Any) -> bool:
    """Whether a column holds numbers as NumPy has them: NaN is then a number, no empty cell."""
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"


def _pandas_type(column: Any) -> pa.DataType:
    if _is_numpy(column):
        return pa.from_numpy_dtype(column.dtype)
    try:
        return _pandas_array(column.iloc[:_SAMPLE], None).type
    except (pa.ArrowException, TypeError):  # objects of several kinds
        return pa.null()


def _pandas_array(column: Any, kind: pa.DataType | None) -> pa.Array:
    if _is_numpy(column):
        return pa.array(np.ascontiguousarray(column.to_numpy()), type=kind, from_pandas=False)
    array = pa.array(column, type=kind, from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
