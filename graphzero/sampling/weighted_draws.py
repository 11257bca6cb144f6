"""`WeightedDraws`: items drawn by weight, with replacement."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.graph.ids import IdArray

__all__ = ["WeightedDraws", "as_fractions"]


def as_fractions(draws: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Random bits as numbers from 0 up to, but not including, 1."""
    return (draws >> np.uint64(11)).astype(np.float64) * 2.0**-53


class WeightedDraws:
    """Draws items in proportion to weights, with replacement.

    Parameters
    ----------
    weights : (num_items,) numbers
        They need not add up to 1.
    num_items : int
    name, items : str
        For messages: what the weights are called, and what they are of, such as "seeds".

    Attributes
    ----------
    crc : int
        Of the weights.

    Raises
    ------
    ValueError
        If there is not one for each item, if one is negative or not finite, or if all are 0.
    """

    def __init__(self, weights: Any, num_items: int, name: str, items: str) -> None:
        values = np.asarray(weights)
        if values.shape != (num_items,) or values.dtype.kind not in "biuf":
            raise ValueError(
                f"{name} must hold a number for each of the {num_items} {items}, not "
                f"{values.dtype} of shape {values.shape}"
            )
        values = values.astype(np.float64)
        wrong = ~(np.isfinite(values) & (values >= 0))
        if wrong.any():
            at = int(wrong.argmax())
            raise ValueError(f"{name}[{at}] = {values[at]}: weights are finite, at least 0")
        self._sums = np.cumsum(values)
        if num_items and not 0 < self._sums[-1] < np.inf:
            raise ValueError(
                f"{name} add up to {self._sums[-1]}: at least one must be above 0, and their "
                f"sum finite"
            )
        self.crc = zlib.crc32(self._sums.data)

    def __len__(self) -> int:
        return len(self._sums)

    def items(self, draws: npt.NDArray[np.uint64]) -> IdArray:
        """The items that some draws choose, (n,) int64; there must be at least one item."""
        below = as_fractions(draws) * self._sums[-1]
        found = np.searchsorted(self._sums, below, side="right")
        last = np.searchsorted(self._sums, self._sums[-1])  # rounding may lead past the last one
        chosen: IdArray = np.minimum(found, last).astype(np.int64, copy=False)
        return chosen
