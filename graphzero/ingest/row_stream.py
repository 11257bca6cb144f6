"""`Rows`: an attribute of nodes or edges, of any source, as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["RowChunk", "Rows"]

RowChunk = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class Rows(Protocol):
    """One row for each node, or for each edge of an edge list.

    Attributes
    ----------
    name : str
    dtype : numpy.dtype
    width : int
        Numbers in a row.
    row_shape : tuple of int
        Shape of a row: () for a number, (width,) for an array, (4, 8) for a matrix of 32 numbers.
    vector : bool
        Whether a row is a number, not an array of one.
    in_order : bool
        Whether row i belongs to node i, or edge i, and each has a row.
    """

    name: str
    dtype: np.dtype[Any]
    width: int
    row_shape: tuple[int, ...]
    vector: bool
    in_order: bool

    def count(self) -> int:
        """Number of nodes: the largest id + 1; of edges. May read all records."""
        ...

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Ids (n,) and flattened rows (n, width), in the order of the input."""
        ...

    def locate(self, row: int) -> str:
        """Place of a row in the input, in words."""
        ...
