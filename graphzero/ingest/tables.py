"""CSV and Parquet files, NumPy files and arrays as streams of column chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from graphzero.ingest.columns import Column
from graphzero.ingest.csv_errors import find_bad_line, line_of_record
from graphzero.ingest.csv_format import CsvFormat, sniff_csv

__all__ = [
    "ArrayTable",
    "Chunk",
    "CsvTable",
    "ParquetTable",
    "Table",
    "checked",
    "is_csv",
    "load_array",
    "load_numpy",
    "open_table",
    "require_numbers",
]

_BLOCK_BYTES = 1 << 18
_ARROW = {np.dtype(name): pa.type_for_alias(name) for name in (
    "int32", "int64", "uint32", "float32", "float64"
)}  # fmt: skip

Chunk = tuple[npt.NDArray[Any], ...]


class Table(Protocol):
    """Records with named or numbered columns.

    Attributes
    ----------
    name : str
        For messages.
    names : sequence of str or None
        Of the columns.
    width : int
        Columns.
    num_records : int or None
        None if it is unknown before the table is read.
    """

    name: str
    names: Sequence[str] | None
    width: int
    num_records: int | None

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, checked and converted to the columns' dtypes."""
        ...

    def locate(self, record: int) -> str:
        """Where a record (from 0) is, in words."""
        ...


def is_csv(path: Path) -> bool:
    """Whether a file has the name of a CSV file, plain or gzip."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in {".csv", ".tsv", ".txt"}


def open_table(
    path: Path, *, delimiter: str = "auto", header: bool | str = "auto", strict: bool = False
) -> CsvTable | ParquetTable:
    """A CSV or Parquet file as a table.

    Raises
    ------
    ValueError
        If it is neither, is damaged, or has no columns.
    OSError
        If it cannot be read.
    """
    with open(path, "rb"):
        pass
    if is_csv(path):
        return CsvTable(sniff_csv(path, delimiter=delimiter, header=header, strict=strict))
    if path.suffix.lower() == ".parquet":
        return ParquetTable(path)
    raise ValueError(
        f"{path}: the name does not end in .csv, .tsv, .txt (or one of them and .gz), "
        f".parquet or .npy"
    )


def checked(
    values: npt.NDArray[Any], column: Column, table: Table, record: int
) -> npt.NDArray[Any]:
    """Values in a column's dtype; `record` is the number of the first one."""
    if column.dtype.kind == "f":
        if values.dtype.kind not in "iuf":
            raise ValueError(f"{table.name}: the {column.label} has dtype {values.dtype}")
        with np.errstate(over="ignore"):
            return values.astype(column.dtype, copy=False)
    if values.dtype.kind not in "iu":
        raise ValueError(
            f"{table.name}: the {column.label} has dtype {values.dtype}; it must be an integer one"
        )
    bounds = np.iinfo(column.dtype)
    if len(values) and (values.min() < bounds.min or values.max() > bounds.max):
        bad = np.flatnonzero((values < bounds.min) | (values > bounds.max))[0]
        place = table.locate(record + int(bad))
        raise ValueError(f"{table.name}, {place}: {values[bad]} is not {column.expected()}")
    return values.astype(column.dtype, copy=False)


class CsvTable:
    """The records of a CSV file.

    Parameters
    ----------
    source : CsvFormat
    """

    def __init__(self, source: CsvFormat) -> None:
        self.source = source
        self.name = os.fspath(source.path)
        self.names: Sequence[str] | None = source.names
        self.width = source.width
        self.num_records: int | None = None if source.first_record is not None else 0

    def locate(self, record: int) -> str:
        """The line of a record, such as "line 7"."""
        return f"line {line_of_record(self.source, record)}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of the size of pyarrow's blocks."""
        if self.source.first_record is None:
            return
        try:
            with self._open(columns) as reader:
                for batch in reader:
                    yield tuple(
                        batch.column(i).to_numpy(zero_copy_only=False) for i in range(len(columns))
                    )
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            found = find_bad_line(self.source, columns)
            raise ValueError(found or f"{self.name}: {error}") from None

    def _open(self, columns: Sequence[Column]) -> pa.csv.CSVStreamingReader:
        source = self.source
        names = [str(i) for i in range(source.width)]
        read = [names[column.index] for column in columns]
        return pa.csv.open_csv(
            pa.input_stream(self.name, compression="detect"),
            read_options=pa.csv.ReadOptions(
                column_names=names,
                skip_rows=source.skip_lines,
                block_size=max(_BLOCK_BYTES, 8 * source.longest_line),
            ),
            parse_options=pa.csv.ParseOptions(delimiter=source.delimiter),
            convert_options=pa.csv.ConvertOptions(
                column_types={
                    name: _ARROW[column.dtype] for name, column in zip(read, columns, strict=True)
                },
                include_columns=read,
                null_values=[],
                strings_can_be_null=False,
            ),
            # pyarrow's own pools retain freed blocks, tens of megabytes.
            memory_pool=pa.system_memory_pool(),
        )


class ParquetTable:
    """The records of a Parquet file.

    Parameters
    ----------
    path : pathlib.Path
    """

    def __init__(self, path: Path) -> None:
        self.name = os.fspath(path)
        try:
            self._file = pa.parquet.ParquetFile(path, buffer_size=_BLOCK_BYTES)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a complete Parquet file: {error}") from None
        schema = self._file.schema_arrow
        self.names: Sequence[str] | None = tuple(schema.names)
        self.dtypes = tuple(_numpy_dtype(kind) for kind in schema.types)
        self.width = len(schema.names)
        self.num_records: int | None = self._file.metadata.num_rows
        if self.width == 0:
            raise ValueError(f"{path} is empty: it has no columns")

    def locate(self, record: int) -> str:
        """A record by its number from 0."""
        return f"record {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records records."""
        schema = self._file.schema_arrow
        for column in columns:
            if self.dtypes[column.index] is None:
                kind = schema.types[column.index]
                raise ValueError(
                    f"{self.name}: the {column.label} has type {kind}, not a number type"
                )
        record = 0
        names = [schema.names[column.index] for column in columns]
        try:
            for batch in self._file.iter_batches(batch_size=max_records, columns=names):
                yield tuple(
                    self._values(batch.column(name), column, record)
                    for name, column in zip(names, columns, strict=True)
                )
                record += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self.name} is damaged: {error}") from None

    def _values(self, array: pa.Array, column: Column, record: int) -> npt.NDArray[Any]:
        if array.null_count:
            bad = record + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(
                f"{self.name}, {self.locate(bad)}: an empty cell is not {column.expected()}"
            )
        return checked(array.to_numpy(zero_copy_only=False), column, self, record)


def _numpy_dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return None


class ArrayTable:
    """Equally long 1-D arrays, in memory or mapped from files.

    Parameters
    ----------
    name : str
    arrays : sequence of array
    """

    def __init__(self, name: str, arrays: Sequence[npt.NDArray[Any]]) -> None:
        self.name = name
        self.names: Sequence[str] | None = None
        self._arrays = arrays
        self.width = len(arrays)
        self.num_records: int | None = len(arrays[0])

    def locate(self, record: int) -> str:
        """An edge by its position from 0: edges are what arrays are read as."""
        return f"edge {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records records."""
        for begin in range(0, len(self._arrays[0]), max_records):
            yield tuple(
                checked(
                    self._arrays[column.index][begin : begin + max_records], column, self, begin
                )
                for column in columns
            )


def load_array(value: Any, what: str) -> npt.NDArray[Any]:
    """An array from a ``.npy`` path (mapped, read-only), an array, a tensor or a list.

    Raises
    ------
    ValueError
        If the file is not a complete NumPy file of numbers, or the value not an array of numbers.
    OSError
        If the file cannot be read.
    """
    if isinstance(value, str | os.PathLike):
        return require_numbers(load_numpy(value), os.fspath(value))
    return require_numbers(np.asarray(value), what)


def load_numpy(path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """An array of any dtype but objects, mapped, from a ``.npy`` path.

    Raises
    ------
    ValueError
        If the file is not a complete NumPy file.
    OSError
        If the file cannot be read.
    """
    name = os.fspath(path)
    try:
        array = np.load(name, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, str(error), name) from None
    except Exception as error:  # NumPy parses Python, which raises many kinds
        reason = str(error)[:200] or type(error).__name__
        raise ValueError(f"{name} is not a complete NumPy file of numbers: {reason}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} holds several arrays: give one .npy file")
    return array


def require_numbers(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Returns the array.

    Raises
    ------
    ValueError
        If it does not hold numbers.
    """
    if array.dtype.kind not in "iufb":
        raise ValueError(f"{name} has dtype {array.dtype}: it must hold numbers")
    return array
