"""Iterators of the user: chunks of edges as a table, chunks of rows as an array."""

from __future__ import annotations

import itertools
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphzero.ingest.sources.arrays import Spool, open_array
from graphzero.ingest.sources.arrow_table import ArrowTable, once_table, spooled_table
from graphzero.ingest.sources.sparse_matrix import is_scipy
from graphzero.ingest.sources.table import USERS_ERROR, Column
from graphzero.ingest.sources.tables import is_table


def is_chunks(value: Any) -> bool:
    """Whether a value is an iterator of chunks, or a function that returns one."""
    return hasattr(value, "__next__") or (
        callable(value) and not hasattr(value, "shape") and not hasattr(value, "__fspath__")
    )


def _chunks_of(value: Iterator[Any] | Callable[[], Any], name: str) -> Iterator[Any]:
    """The chunks of an iterator, or of the one that a function returns."""
    iterator: Any = value
    if not hasattr(value, "__next__"):
        with _marked():
            returned = value()
        if not hasattr(returned, "__iter__") or hasattr(returned, "shape"):
            raise ValueError(
                f"{name} is a function that returns {type(returned).__name__}, not an iterator"
            )
        with _marked():
            iterator = iter(returned)
    while True:
        with _marked():
            try:
                chunk = next(iterator)
            except StopIteration:
                return
        yield chunk


@contextmanager
def _marked() -> Iterator[None]:
    """Marks errors that the user's iterator raises: they are passed on unchanged."""
    try:
        yield
    except BaseException as error:
        with suppress(AttributeError):
            setattr(error, USERS_ERROR, True)
        raise


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
        batches = self._batches_of(_chunks_of(source, name), alike=not once)
        first = next(batches, None)
        if first is None:
            schema, batches = pa.schema([("0", pa.int64()), ("1", pa.int64())]), iter(())
        else:
            schema, batches = first.schema, itertools.chain([first], batches)
        table = (once_table if once else spooled_table)(name, schema, batches)
        super().__init__(name, schema, table.read, table.num_records, is_file=False)
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
        kinds = "iuf" if column.dtype.kind == "f" else "iu"
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


# --- chunks of rows


def spool_iterators(**arguments: Any) -> list[Any]:
    """The arguments of a build, with arrays in place of iterators of rows.

    Rows are needed more than once: they are counted before the edges are read. An iterator of edges
    ("edges", or in a dictionary of that name) is left as it is, because edges are read once.
    """
    return [_spooled(value, name, name == "edges") for name, value in arguments.items()]


def _spooled(value: Any, name: str, is_edges: bool) -> Any:
    if isinstance(value, Mapping) and not is_scipy(value):
        return {
            key: _spooled(
                inner,
                f"{name}[{key!r}]",
                is_edges and (key == "edge_index" or isinstance(key, tuple)),
            )
            for key, inner in value.items()
        }
    if is_edges or is_table(value) or not is_chunks(value):
        return value
    return _array_of(value, name)


def _array_of(chunks: Any, name: str) -> npt.NDArray[Any]:
    first: npt.NDArray[Any] | None = None
    rows = 0
    with closing(Spool()) as spool:
        for number, chunk in enumerate(_chunks_of(chunks, name)):
            array = _checked(chunk, f"{name}, chunk {number}", first)
            first = array[:0] if first is None else first
            spool.write(array)
            rows += len(array)
        if first is None:
            raise ValueError(f"{name} is an iterator without any chunk")
        return spool.array(first.dtype, (rows, *first.shape[1:]))


def _checked(chunk: Any, where: str, first: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """A chunk of rows, contiguous and little-endian."""
    if _is_frame(chunk):
        raise ValueError(
            f"{where} is a {type(chunk).__name__}: yield arrays, chunk.to_numpy() of the columns "
            f"that are features"
        )
    array = None if isinstance(chunk, str | os.PathLike) else open_array(chunk, where)
    if array is None or array.ndim == 0:
        raise ValueError(f"{where} is {chunk!r}: yield arrays of many rows")
    if array.dtype.names is None:
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if first is not None and (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
        raise ValueError(
            f"{where} has dtype {array.dtype} and rows of shape {array.shape[1:]}, and the chunks "
            f"before it {first.dtype} and {first.shape[1:]}: all must be alike"
        )
    return array
