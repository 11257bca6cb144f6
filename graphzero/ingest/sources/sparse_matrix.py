"""Sparse matrices as edge lists: the entry (i, j) is the edge from i to j."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sort import bytes_of, new_spool
from graphzero.ingest.sources.table import ArrayTable, reading

_KINDS = ("coo", "csr", "csc")
_ROWS = 1 << 16  # whose numbers are written in one step


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
        "indices" and "data" of the others. Without "data", edges have no weights.

    Raises
    ------
    ValueError
        If it is of a kind that has no edges, or damaged.
    """

    def __init__(
        self, name: str, kind: str, shape: Sequence[Any], part: Callable[[str], Any]
    ) -> None:
        if len(shape) != 2 or min(shape) < 0 or kind not in _KINDS:
            raise ValueError(
                f"{name} is a {kind.upper()} matrix of shape {tuple(shape)}: edges have two "
                f"dimensions. Give matrix.tocsr(), and before that call eliminate_zeros() if the "
                f"zeros that it is filled up with are no edges"
            )
        self.shape = (int(shape[0]), int(shape[1]))
        names = ("row", "col") if kind == "coo" else ("indptr", "indices")
        first, second, values = (part(one) for one in (*names, "data"))
        given = [] if values is None else [values]
        if kind != "coo":
            first = _rows(first, self.shape[kind == "csc"], len(second))
        if first is None or any(len(one) != len(first) for one in (second, *given)):
            raise ValueError(
                f"{name} is not a valid {kind.upper()} matrix of shape {self.shape}: each entry "
                f"needs a row, a column and a value"
            )
        ends = [second, first] if kind == "csc" else [first, second]
        given = [one.view(np.uint8) if one.dtype == np.bool_ else one for one in given]
        super().__init__(name, [*ends, *given], of="entry")


def _rows(pointers: npt.NDArray[Any], num_rows: int, count: int) -> npt.NDArray[Any] | None:
    """The row of each entry, by where rows begin; None if these are no rows one after the other."""
    if len(pointers) != num_rows + 1 or pointers[0] != 0 or pointers[-1] != count:
        return None
    with closing(new_spool()) as spool:
        for begin in range(0, num_rows, _ROWS):
            ends = pointers[begin : begin + _ROWS + 1]
            lengths = np.diff(ends)
            if lengths.min() < 0 or ends[-1] > count:
                return None
            rows = np.arange(begin, begin + len(lengths), dtype=np.uint32)
            spool.append(bytes_of(np.repeat(rows, lengths)))
        return spool.array().view(np.uint32)


def matrix_of_parts(name: str, parts: Mapping[str, Callable[[], Any]]) -> SparseMatrix:
    """A matrix by what reads the arrays of a file of ``scipy.sparse.save_npz``."""

    def part(one: str) -> Any:
        with reading(name, "file of scipy.sparse.save_npz"):
            array = parts[one]()
            if array.ndim != (one != "format"):
                raise ValueError(f"{one} has shape {array.shape}")
            return array

    return SparseMatrix(name, part("format").astype(np.str_).item(), part("shape").tolist(), part)


def matrix_of_scipy(value: Any, name: str) -> SparseMatrix:
    """A matrix of SciPy, whose columns and values are not copied where it is COO, CSR or CSC."""
    if value.format in ("lil", "dok"):  # lists and dictionaries of Python
        value = value.tocoo()
    return SparseMatrix(name, value.format, value.shape, lambda part: getattr(value, part))
