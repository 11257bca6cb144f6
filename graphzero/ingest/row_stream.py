"""`Rows`: features or labels of any source, as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["RowChunk", "Rows"]

RowChunk = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class Rows(Protocol):
    """One row for each node.

    Attributes
    ----------
    name : str
    dtype : numpy.dtype
    width : int
    vector : bool
        Whether the table is one-dimensional: a row is a number, not an array of one.
    in_order : bool
        Whether row i belongs to node i, and every node has a row.
    """

    name: str
    dtype: np.dtype[Any]
    width: int
    vector: bool
    in_order: bool

    def count(self) -> int:
        """Number of nodes: the largest id + 1. May read all ids."""
        ...

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Node ids (n,) and rows (n, width), in the order of the input."""
        ...

    def locate(self, row: int) -> str:
        """Place of a row in the input, in words."""
        ...
