"""Sparse matrices as edge lists: the entry (i, j) is the edge from i to j."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphzero.ingest.sort import bytes_of, new_spool
from graphzero.ingest.sources.columns import Array, reading

_KINDS = ("coo", "csr", "csc")
_ROWS = 1 << 16  # whose numbers are written in one step


@dataclass(frozen=True)
class SparseMatrix:
    """The entries of a sparse matrix, in the order they are stored.

    Attributes
    ----------
    name : str
        For messages.
    shape : (int, int)
        Number of sources and of targets.
    columns : list of array
        Source, target and, unless edges have no weights, the value of each entry.
    """

    name: str
    shape: tuple[int, int]
    columns: list[Array]


def matrix_of(
    name: str, kind: str, shape: Sequence[int], part: Callable[[str], Array | None]
) -> SparseMatrix:
    """A matrix by its arrays.

    Parameters
    ----------
    name : str
        For messages.
    kind : {"coo", "csr", "csc"}
    shape : sequence of int
    part : callable
        The array of a name that SciPy gives it: "row", "col" and "data" of "coo", "indptr",
        "indices" and "data" of the others. Without "data", edges have no weights.

    Raises
    ------
    ValueError
        If it is of a kind that has no edges, or damaged.
    """
    if len(shape) != 2 or min(shape) < 0 or kind not in _KINDS:
        raise ValueError(
            f"{name} is a {kind.upper()} matrix of shape {tuple(shape)}: edges have two "
            f"dimensions. Give matrix.tocsr(), and before that call eliminate_zeros() if the "
            f"zeros that it is filled up with are no edges"
        )
    shape = (int(shape[0]), int(shape[1]))
    first_name, second_name = ("row", "col") if kind == "coo" else ("indptr", "indices")
    first, second, values = part(first_name), part(second_name), part("data")
    if kind != "coo" and first is not None and second is not None:
        first = _entry_rows(first, shape[kind == "csc"], len(second))
    parts = [second, first] if kind == "csc" else [first, second]
    if values is not None:
        parts.append(values.view(np.uint8) if values.dtype == np.bool_ else values)
    columns = [array for array in parts if array is not None]
    if len(columns) < len(parts) or len({len(column) for column in columns}) > 1:
        raise ValueError(
            f"{name} is not a valid {kind.upper()} matrix of shape {shape}: each entry "
            f"needs a row, a column and a value"
        )
    return SparseMatrix(name, shape, columns)


def _entry_rows(pointers: Array, num_rows: int, count: int) -> Array | None:
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


def matrix_of_parts(name: str, parts: Mapping[str, Callable[[], Array]]) -> SparseMatrix:
    """A matrix by what reads the arrays of a file of ``scipy.sparse.save_npz``."""

    def part(of_scipy: str) -> Array:
        with reading(name, "file of scipy.sparse.save_npz"):
            array = parts[of_scipy]()
            if array.ndim != (of_scipy != "format"):
                raise ValueError(f"{of_scipy} has shape {array.shape}")
            return array

    return matrix_of(name, part("format").astype(np.str_).item(), part("shape").tolist(), part)


def matrix_of_scipy(value: Any, name: str) -> SparseMatrix:
    """A matrix of SciPy, whose columns and values are not copied where it is COO, CSR or CSC."""
    if value.format in ("lil", "dok"):  # lists and dictionaries of Python
        value = value.tocoo()
    return matrix_of(name, value.format, value.shape, lambda part: getattr(value, part))
