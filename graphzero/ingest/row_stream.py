"""`Rows`: features or labels as a stream, whatever they come from."""

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
        Whether a row is a single value and not an array of one.
    in_order : bool
        Whether row i is node i's and no node lacks one.
    """

    name: str
    dtype: np.dtype[Any]
    width: int
    vector: bool
    in_order: bool

    def count(self) -> int:
        """Nodes: one more than the largest id. May have to read the ids."""
        ...

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Node ids (n,) and rows (n, width), in the order of the input."""
        ...

    def locate(self, row: int) -> str:
        """Where a row of the input is, in words."""
        ...
