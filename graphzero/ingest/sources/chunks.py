"""Edge lists that an iterator yields in chunks."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.table import Chunk, checked

__all__ = ["ChunkTable", "chunks_of", "is_chunks", "is_frame", "is_users_error", "refuse_once"]

_MARK = "_graphzero_raised_by_iterator"


def is_chunks(value: Any) -> bool:
    """Whether a value is an iterator of chunks, or a function that returns one."""
    return hasattr(value, "__next__") or (
        callable(value) and not hasattr(value, "shape") and not hasattr(value, "__fspath__")
    )


def refuse_once(value: Any, name: str, why: str) -> None:
    """Refuses an iterator that can be read once, but no function that returns one.

    Raises
    ------
    ValueError
    """
    if hasattr(value, "__next__"):
        raise ValueError(
            f"{name} is an iterator, which can be read once, and {why}: give a function that "
            f"returns an iterator, or a file"
        )


def is_users_error(error: BaseException) -> bool:
    """Whether the user's own iterator raised an error, which is then passed on unchanged."""
    return getattr(error, _MARK, False) is True


def chunks_of(value: Iterator[Any] | Callable[[], Any], name: str) -> Iterator[Any]:
    """The chunks of an iterator, or of the one that a function returns.

    Raises
    ------
    ValueError
        If the function returns something else.
    """
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
    """Marks errors that the user's iterator raises."""
    try:
        yield
    except BaseException as error:
        with suppress(AttributeError):
            setattr(error, _MARK, True)
        raise


class ChunkTable:
    """The edges that an iterator yields.

    A chunk is a pair of equally long vectors, sources and targets; or an array of shape (2, n) or
    (n, 2); or a dictionary of equally long vectors, the columns by name, or a table of pandas,
    polars or Arrow with such columns. All are of one kind.

    Parameters
    ----------
    name : str
    source : iterator, or function that returns one
        Of an iterator, the edges can be read only once.
    is_edge_index : bool
        Whether arrays have the shape (2, n) anyway.

    Raises
    ------
    ValueError
        If the first chunk is none of these.
    """

    dtypes = None
    first_record = None

    def __init__(
        self, name: str, source: Iterator[Any] | Callable[[], Any], *, is_edge_index: bool = False
    ) -> None:
        self.name = name
        self.names: Sequence[str] | None = None
        self.width = 2
        self.num_records: int | None = None
        self._source = source
        self._transposed: bool | None = True if is_edge_index else None  # arrays are (2, n)
        self._begins: list[int] = []
        self._taken = False
        self._first: Iterator[Any] | None = chunks_of(source, name)
        first = _by_name(next(self._first, None))
        self._first = itertools.chain([] if first is None else [first], self._first)
        if isinstance(first, Mapping):
            self.names = tuple(map(str, first))
            self.width = len(self.names)
        if first is not None:
            self._vectors(first, 0)

    def locate(self, record: int) -> str:
        """An edge by its chunk, and its position in it, both from 0."""
        chunk = bisect_right(self._begins, record) - 1
        return f"chunk {chunk}, edge {record - self._begins[chunk]}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records edges."""
        record, self._begins = 0, []
        for number, chunk in enumerate(self._chunks()):
            self._begins.append(record)
            vectors = self._vectors(chunk, number)
            for column in columns:
                self._check_dtype(vectors[column.index], column, number)
            count = len(vectors[0]) if vectors else 0
            for begin in range(0, count, max_records):
                yield tuple(
                    checked(
                        vectors[column.index][begin : begin + max_records],
                        column,
                        self,
                        record + begin,
                    )
                    for column in columns
                )
            record += count

    def _chunks(self) -> Iterator[Any]:
        chunks, self._first = self._first, None
        if chunks is not None:
            return chunks
        refuse_once(self._source, self.name, "is needed again")
        return chunks_of(self._source, self.name)

    def _check_dtype(self, vector: npt.NDArray[Any], column: Column, number: int) -> None:
        if column.is_raw:
            return
        kinds = "iuf" if column.dtype.kind == "f" else "iu"
        if len(vector) and vector.dtype.kind not in kinds:
            raise ValueError(
                f"{self.name}, chunk {number}: the {column.label} has dtype {vector.dtype}, and "
                f"must be {'a number' if 'f' in kinds else 'an integer'}"
            )

    def _vectors(self, chunk: Any, number: int) -> list[npt.NDArray[Any]]:
        """The columns of a chunk."""
        where, chunk = f"{self.name}, chunk {number}", _by_name(chunk)
        if isinstance(chunk, Mapping) != (self.names is not None):
            raise ValueError(f"{where} is {_described(chunk)}, and earlier chunks are not alike")
        if isinstance(chunk, Mapping):
            names = tuple(map(str, chunk))
            if sorted(names) != sorted(self.names or ()):
                raise ValueError(
                    f"{where} has columns {', '.join(names)}, and chunk 0 has "
                    f"{', '.join(self.names or ())}"
                )
            by_name = dict(zip(names, chunk.values(), strict=True))
            vectors = [np.asarray(by_name[name]) for name in self.names or ()]
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


def is_frame(chunk: Any) -> bool:
    """Whether a value is a table of pandas, polars or Arrow."""
    return not isinstance(chunk, Mapping) and (
        (hasattr(chunk, "columns") and hasattr(chunk, "dtypes"))
        or (hasattr(chunk, "schema") and hasattr(chunk, "column"))
    )


def _by_name(chunk: Any) -> Any:
    """The columns of a table by name, so that their order means nothing; others as they are."""
    if not is_frame(chunk):
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
