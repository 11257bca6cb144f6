"""Running sums of the weights within each neighbour list, from a stream of pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ListSums"]

_SHORT = 32  # longer lists are summed one by one, shorter ones side by side


class ListSums:
    """Sums each list separately, entry by entry in float64; lists may span pieces.

    One running sum over all lists, minus its value at the start of each list, would be faster but
    wrong: small weights are lost to rounding when added to the sum of all earlier lists.
    """

    def __init__(self) -> None:
        self._source = -1
        self._sum = 0.0

    def add(
        self, sources: npt.NDArray[np.uint64], weights: npt.NDArray[Any]
    ) -> npt.NDArray[np.float64]:
        """Running sums of the next entries, (n,) float64.

        Parameters
        ----------
        sources : (n,) uint64
            Not empty, ascending, and not below those of the previous piece.
        weights : (n,) float32
        """
        sums = weights.astype(np.float64)
        if int(sources[0]) == self._source:
            sums[0] += self._sum
        starts = np.flatnonzero(np.diff(sources, prepend=sources[:1]))
        starts = np.concatenate([[0], starts])
        lengths = np.diff(starts, append=len(sums))
        short = lengths <= _SHORT
        begins, sizes = starts[short], lengths[short]
        for at in range(1, _SHORT):
            begins, sizes = begins[sizes > at], sizes[sizes > at]
            sums[begins + at] += sums[begins + at - 1]
        for start, length in zip(starts[~short].tolist(), lengths[~short].tolist(), strict=True):
            one_list = sums[start : start + length]
            np.add.accumulate(one_list, out=one_list)
        self._source, self._sum = int(sources[-1]), float(sums[-1])
        return sums
