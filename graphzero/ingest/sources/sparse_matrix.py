"""Sparse matrices as edge lists: the entry (i, j) is the edge from i to j."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.array_table import MOST_RECORDS
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.npz_file import NpzFile
from graphzero.ingest.sources.streamed_array import AnyArray, pieces_of
from graphzero.ingest.sources.table import Chunk, checked

__all__ = ["SparseMatrix", "SparseTable", "is_scipy", "is_scipy_file", "of_scipy", "of_scipy_file"]

_PADDED = ("bsr", "dia")


@dataclass(frozen=True)
class SparseMatrix:
    """A sparse matrix, in memory or in a file.

    Attributes
    ----------
    name : str
        For messages.
    kind : {"coo", "csr", "csc"}
    shape : (int, int)
        Number of sources and of targets.
    first, second : array
        "coo": the row and the column of each entry. "csr": where the entries of each row begin and
        end, and the column of each. "csc": the same by columns.
    values : array or None
        Of the entries.
    """

    name: str
    kind: str
    shape: tuple[int, int]
    first: AnyArray
    second: AnyArray
    values: AnyArray | None

    def check(self) -> None:
        """Raises an error if the arrays do not have the shapes of a matrix.

        Raises
        ------
        ValueError
        """
        count = len(self.second)
        heads = count if self.kind == "coo" else self.shape[self.kind == "csc"] + 1
        for array, expected in ((self.first, heads), (self.second, count), (self.values, count)):
            if array is None:
                continue
            if array.shape != (expected,):
                raise ValueError(
                    f"{self.name} is not a valid {self.kind.upper()} matrix of shape {self.shape}: "
                    f"it has an array of shape {array.shape} in place of ({expected},)"
                )
        for array in (self.first, self.second):
            if array.dtype.kind not in "iu":
                raise ValueError(f"{self.name} has indices of dtype {array.dtype}, not integers")


def is_scipy(value: Any) -> bool:
    """Whether a value is a sparse matrix or array of SciPy, or behaves as one."""
    return hasattr(value, "tocoo") and hasattr(value, "format") and hasattr(value, "shape")


def _require_kind(name: str, kind: str, shape: Sequence[int]) -> None:
    if len(shape) != 2:
        raise ValueError(f"{name} is a sparse array of shape {tuple(shape)}: edges are a matrix")
    if kind in _PADDED:
        raise ValueError(
            f"{name} is a {kind.upper()} matrix, which is filled up with zeros: to say which of "
            f"them are edges, give matrix.tocsr() with all stored numbers, or call "
            f"eliminate_zeros() of that first"
        )


def of_scipy(value: Any, name: str) -> SparseMatrix:
    """A matrix of SciPy, not copied where it is COO, CSR or CSC.

    Raises
    ------
    ValueError
        If it is not a matrix of such a kind.
    """
    _require_kind(name, value.format, value.shape)
    if value.format not in ("coo", "csr", "csc"):  # lists and dictionaries of Python
        value = value.tocoo()
    shape = int(value.shape[0]), int(value.shape[1])
    if value.format == "coo":
        return SparseMatrix(name, "coo", shape, value.row, value.col, value.data)
    return SparseMatrix(name, value.format, shape, value.indptr, value.indices, value.data)


def is_scipy_file(file: NpzFile) -> bool:
    """Whether a ``.npz`` file is one of ``scipy.sparse.save_npz``."""
    return {"format", "shape", "data"} <= set(file.names)


def of_scipy_file(file: NpzFile) -> SparseMatrix:
    """A matrix in a file of ``scipy.sparse.save_npz``, which is streamed or mapped.

    Raises
    ------
    ValueError
        If the file is damaged, or the matrix of a kind that has no edges.
    """
    name = os.fspath(file.path)
    kind, shape = file.value("format"), file.value("shape")
    text = kind.astype(np.str_).item() if kind.size == 1 and kind.dtype.kind in "SU" else ""
    if shape.ndim != 1 or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise ValueError(f"{name} is not a sparse matrix: its shape is {shape}")
    _require_kind(name, text, shape.tolist())
    parts = {"coo": ("row", "col"), "csr": ("indptr", "indices"), "csc": ("indptr", "indices")}
    first, second = parts.get(text, ("", ""))
    if first not in file.names or second not in file.names:
        raise ValueError(
            f"{name} is not a sparse matrix as scipy.sparse.save_npz writes it: it has the format "
            f"{text!r} and {', '.join(file.names)}"
        )
    arrays = [file.array(part) for part in (first, second, "data")]
    return SparseMatrix(name, text, (int(shape[0]), int(shape[1])), *arrays)


class SparseTable:
    """The entries of a sparse matrix: source, target and value, in the order they are stored.

    Parameters
    ----------
    matrix : SparseMatrix
    """

    dtypes = None
    first_record = None

    def __init__(self, matrix: SparseMatrix) -> None:
        matrix.check()
        self.matrix = matrix
        self.name = matrix.name
        self.names: Sequence[str] | None = None
        self.width = 2 if matrix.values is None else 3
        self.num_records: int | None = len(matrix.second)

    def locate(self, record: int) -> str:
        """An entry by its position from 0."""
        return f"entry {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records entries."""
        record, most = 0, min(max_records, MOST_RECORDS)
        with_values = any(column.index == 2 for column in columns)
        with closing(self._pieces(most, with_values=with_values)) as pieces:
            for piece in pieces:
                yield tuple(
                    checked(_as_numbers(piece[column.index]), column, self, record)
                    for column in columns
                )
                record += len(piece[0])

    def _pieces(
        self, most: int, *, with_values: bool
    ) -> Generator[tuple[npt.NDArray[Any], ...], None, None]:
        matrix = self.matrix
        with ExitStack() as opened:

            def feed(array: AnyArray) -> _Feed:
                pieces = pieces_of(array, most)
                opened.callback(pieces.close)
                return _Feed(pieces)

            second = feed(matrix.second)
            values = [feed(matrix.values)] if with_values and matrix.values is not None else []
            heads = (
                pieces_of(matrix.first, most)
                if matrix.kind == "coo"
                else self._owners(pieces_of(matrix.first, most), most)
            )
            with closing(heads):
                for first in heads:
                    others = second.take(len(first))
                    rest = [value.take(len(first)) for value in values]
                    if matrix.kind == "csc":
                        first, others = others, first
                    yield (first, others, *rest)

    def _owners(
        self, pointers: Iterator[npt.NDArray[Any]], most: int
    ) -> Generator[npt.NDArray[Any], None, None]:
        """The row of each entry of a CSR matrix, in pieces of at most so many entries."""
        count, row, at = len(self.matrix.second), 0, 0
        last: npt.NDArray[np.int64] | None = None
        for piece in pointers:
            ends = _as_pointers(piece, count, self.name)
            if last is None:
                if ends[0] != 0:
                    raise self._invalid(f"its rows begin at entry {ends[0]}, not at 0")
                last, ends = ends[:1], ends[1:]
            begins = np.concatenate([last, ends])
            if (np.diff(begins) < 0).any():
                raise self._invalid("a row would end before it begins")
            last = begins[-1:]
            stop = int(last[0])
            while at < stop:
                end = min(stop, at + most)
                found = np.searchsorted(ends, np.arange(at, end), side="right") + row
                yield found
                at = end
            row += len(ends)
        if at != count:
            raise self._invalid(f"its rows have {at} entries, and there are {count}")

    def _invalid(self, why: str) -> ValueError:
        return ValueError(f"{self.name} is not a valid {self.matrix.kind.upper()} matrix: {why}")


def _as_pointers(piece: npt.NDArray[Any], count: int, name: str) -> npt.NDArray[np.int64]:
    if len(piece) and (piece.min() < 0 or piece.max() > count):
        raise ValueError(f"{name}: a row would end beyond the {count} entries of the matrix")
    return piece.astype(np.int64)


def _as_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.view(np.uint8) if values.dtype == np.bool_ else values


class _Feed:
    """Pieces of an array, cut anew."""

    def __init__(self, pieces: Iterator[npt.NDArray[Any]]) -> None:
        self._pieces = pieces
        self._rest: npt.NDArray[Any] | None = None

    def take(self, count: int) -> npt.NDArray[Any]:
        """The next values; the array has as many."""
        taken: list[npt.NDArray[Any]] = []
        while count:
            if self._rest is None or not len(self._rest):
                self._rest = next(self._pieces)
            taken.append(self._rest[:count])
            self._rest = self._rest[count:]
            count -= len(taken[-1])
        return taken[0] if len(taken) == 1 else np.concatenate(taken)
