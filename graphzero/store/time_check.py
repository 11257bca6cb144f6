"""Checks that ``time_order`` sorts each neighbour list by time; a checksum cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["first_unordered"]

_BLOCK = 1 << 18


def _first_bad_list(
    ends: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    time_order: npt.NDArray[Any],
    begin: int,
    stop: int,
) -> int | None:
    """List of the first entry in [begin, stop) that is out of range, or not after the previous."""
    low = int(np.searchsorted(ends, begin, "right")) - 1
    high = int(np.searchsorted(ends, stop, "left"))
    lists = np.repeat(np.arange(low, high), np.diff(ends[low : high + 1].clip(begin, stop)))
    offsets = time_order[begin:stop].astype(np.int64)
    bad = (offsets < 0) | (offsets >= ends[lists + 1] - ends[lists])
    offsets[bad] = 0
    seen = times[ends[lists] + offsets]
    after = seen[1:] > seen[:-1]
    after |= (seen[1:] == seen[:-1]) & (offsets[1:] > offsets[:-1])
    bad[1:] |= ~after & (lists[1:] == lists[:-1])
    return int(lists[bad.argmax()]) if bad.any() else None


def first_unordered(
    indptr: npt.NDArray[Any],
    times: npt.NDArray[np.int64],
    time_order: npt.NDArray[Any],
    progress: Callable[[int], object] | None = None,
) -> int | None:
    """First stored node whose list is not sorted by time; None if all are.

    Entries that ascend strictly by (time, offset) are distinct; if they are also in range, they
    are a permutation of the list.

    Parameters
    ----------
    indptr : (num_nodes + 1,) uint32 or uint64
        From 0 to num_edges.
    times : (num_edges,) int64
    time_order : (num_edges,) uint32 or uint64
    progress : callable, optional
        Called with the number of edges after each piece.

    Returns
    -------
    int or None
        Also a node whose ``indptr`` entries descend.
    """
    for node in range(0, len(indptr) - 1, _BLOCK):
        ends = indptr[node : node + _BLOCK + 1].astype(np.int64)
        descents = np.flatnonzero((ends[1:] < ends[:-1]) | (ends[1:] > len(times)))
        if len(descents):
            return node + int(descents[0])
        last = int(ends[-1])
        for begin in range(int(ends[0]), last, _BLOCK):
            # One entry of the previous block, so that it is compared with the first of this one.
            found = _first_bad_list(
                ends, times, time_order, max(begin - 1, int(ends[0])), min(begin + _BLOCK, last)
            )
            if found is not None:
                return node + found
            if progress is not None:
                progress(min(_BLOCK, last - begin))
    return None
