"""Sparse matrices as edge lists: the entry (i, j) is the edge from i to j."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.table import (
    Chunk,
    Column,
    Table,
    checked,
    pieces_of,
    require_whole,
)

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
    first: npt.NDArray[Any]
    second: npt.NDArray[Any]
    values: npt.NDArray[Any] | None

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


def _require_kind(name: str, kind: str, shape: Sequence[int]) -> None:
    if len(shape) != 2:
        raise ValueError(f"{name} is a sparse array of shape {tuple(shape)}: edges are a matrix")
    if kind in _PADDED:
        raise ValueError(
            f"{name} is a {kind.upper()} matrix, which is filled up with zeros: to say which of "
            f"them are edges, give matrix.tocsr() with all stored numbers, or call "
            f"eliminate_zeros() of that first"
        )


def matrix_of_scipy(value: Any, name: str) -> SparseMatrix:
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


def is_scipy_file(file: Any) -> bool:
    """Whether a ``.npz`` file is one of ``scipy.sparse.save_npz``."""
    return {"format", "shape", "data"} <= set(file.names)


def matrix_of_file(file: Any) -> SparseMatrix:
    """A matrix in a file of ``scipy.sparse.save_npz``, which is streamed or mapped.

    Raises
    ------
    ValueError
        If the file is damaged, or the matrix of a kind that has no edges.
    """
    name = os.fspath(file.path)
    kind, shape = file.array("format"), file.array("shape")
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


class SparseTable(Table):
    """The entries of a sparse matrix: source, target and value, in the order they are stored."""

    _MOST_RECORDS = 1 << 16

    def __init__(self, matrix: SparseMatrix) -> None:
        matrix.check()
        self.matrix = matrix
        self.name = matrix.name
        self.width = 2 if matrix.values is None else 3
        self.num_records = len(matrix.second)

    def locate(self, record: int) -> str:
        """An entry by its position from 0."""
        return f"entry {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records entries."""
        matrix, step = self.matrix, min(max_records, self._MOST_RECORDS)
        firsts = pieces_of(matrix.first, step) if matrix.kind == "coo" else self._owners(step)
        at = 0
        for first in firsts:
            end = at + len(first)
            for array in (matrix.second, matrix.values):
                if array is not None:
                    require_whole(array)
            entries: list[Any] = [first, matrix.second[at:end]]
            if matrix.kind == "csc":
                entries.reverse()
            if matrix.values is not None:
                entries.append(_as_numbers(matrix.values[at:end]))
            yield tuple(checked(entries[column.index], column, self, at) for column in columns)
            at = end

    def _owners(self, step: int) -> Iterator[npt.NDArray[Any]]:
        """The row of each entry of a CSR matrix, in pieces of at most so many entries."""
        count, row, at = len(self.matrix.second), 0, 0
        last = np.zeros(1, np.int64)
        for piece in pieces_of(self.matrix.first, step):
            if piece.min() < 0 or piece.max() > count:
                raise ValueError(
                    f"{self.name}: a row would end beyond the {count} entries of the matrix"
                )
            ends = piece.astype(np.int64)
            if row == 0:
                if ends[0] != 0:
                    raise self._invalid(f"its rows begin at entry {ends[0]}, not at 0")
                row = -1  # the first pointer ends no row
            if (np.diff(np.concatenate([last, ends])) < 0).any():
                raise self._invalid("a row would end before it begins")
            last = ends[-1:]
            while at < last[0]:
                end = min(int(last[0]), at + step)
                yield np.searchsorted(ends, np.arange(at, end), side="right") + row
                at = end
            row += len(ends)
        if at != count:
            raise self._invalid(f"its rows have {at} entries, and there are {count}")

    def _invalid(self, why: str) -> ValueError:
        return ValueError(f"{self.name} is not a valid {self.matrix.kind.upper()} matrix: {why}")


def _as_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.view(np.uint8) if values.dtype == np.bool_ else values
