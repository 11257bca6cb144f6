"""Sparse matrices as edge lists: the entry (i, j) is the edge from i to j."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.table import (
    ArrayTable,
    Chunk,
    Column,
    pieces_of,
    require_whole,
)

_PARTS = {"coo": ("row", "col"), "csr": ("indptr", "indices"), "csc": ("indptr", "indices")}
_POINTERS = 1 << 16  # that are checked in one step


class SparseMatrix(ArrayTable):
    """The entries of a sparse matrix: source, target and value, in the order they are stored.

    Parameters
    ----------
    name : str
        For messages.
    kind : {"coo", "csr", "csc"}
    shape : sequence of int
        Number of sources and of targets.
    part : callable
        The array of a name that SciPy gives it: "row", "col" and "data" of "coo", "indptr",
        "indices" and "data" of the others.

    Raises
    ------
    ValueError
        If it is of a kind that has no edges, or damaged.
    """

    def __init__(
        self, name: str, kind: str, shape: Sequence[Any], part: Callable[[str], Any]
    ) -> None:
        if len(shape) != 2:
            raise ValueError(
                f"{name} is a sparse array of shape {tuple(shape)}: edges are a matrix"
            )
        if kind not in _PARTS:
            raise ValueError(
                f"{name} is a {kind.upper()} matrix. Give matrix.tocsr(), and before that call "
                f"eliminate_zeros() if the zeros that it is filled up with are no edges"
            )
        self.shape = (int(shape[0]), int(shape[1]))
        first, second, values = (part(one) for one in (*_PARTS[kind], "data"))
        count = len(second)
        heads = count if kind == "coo" else self.shape[kind == "csc"] + 1
        for array, expected in ((first, heads), (second, count), (values, count)):
            if array.shape != (expected,):
                raise ValueError(
                    f"{name} is not a valid {kind.upper()} matrix of shape {self.shape}: it has an "
                    f"array of shape {array.shape} in place of ({expected},)"
                )
        self._kind = kind
        self._pointers = None if kind == "coo" else first
        arrays: list[Any] = [first if kind == "coo" else _Owners(first, count), second]
        if kind == "csc":
            arrays.reverse()
        arrays.append(values.view(np.uint8) if values.dtype == np.bool_ else values)
        super().__init__(name, arrays)

    def locate(self, record: int) -> str:
        """An entry by its position from 0."""
        return f"entry {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records entries."""
        if self._pointers is not None:
            last = 0
            for piece in pieces_of(self._pointers, _POINTERS):
                ends = piece.astype(np.int64)  # what is beyond it becomes negative
                if ends[0] < last or (np.diff(ends) < 0).any():
                    last = -1
                    break
                last = int(ends[-1])
            if self._pointers[0] != 0 or last != self.num_records:
                raise ValueError(
                    f"{self.name} is not a valid {self._kind.upper()} matrix: its rows must begin "
                    f"one after the other, from entry 0 to the end of {self.num_records}"
                )
        yield from super().chunks(columns, max_records)


class _Owners:
    """The row of each entry, by where rows begin: an array that is computed as it is read."""

    dtype = np.dtype(np.int64)

    def __init__(self, pointers: npt.NDArray[Any], count: int) -> None:
        self._pointers = pointers.astype(pointers.dtype.newbyteorder("="), copy=False)
        self.shape = (count,)

    def __getitem__(self, piece: slice) -> npt.NDArray[Any]:
        require_whole(self._pointers)
        # Of the pointers' own dtype, else NumPy would cast all of them.
        entries = np.arange(*piece.indices(self.shape[0]), dtype=self._pointers.dtype)
        low, high = np.searchsorted(self._pointers, entries[[0, -1]], side="right").tolist()
        owners: npt.NDArray[Any] = np.searchsorted(self._pointers[low:high], entries, side="right")
        owners += low - 1
        return owners


def matrix_of_scipy(value: Any, name: str) -> SparseMatrix:
    """A matrix of SciPy, not copied where it is COO, CSR or CSC."""
    if value.format in ("lil", "dok"):  # lists and dictionaries of Python
        value = value.tocoo()
    return SparseMatrix(name, value.format, value.shape, lambda part: getattr(value, part))
