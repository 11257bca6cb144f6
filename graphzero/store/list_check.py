"""Checks that neighbour lists are sorted and have ids in range; a checksum cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["find_bad_list"]

_BLOCK = 1 << 18


def find_bad_list(
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    num_neighbors: int,
    progress: Callable[[int], object] | None = None,
) -> tuple[int, str] | None:
    """First stored node whose list is invalid, and how; None if all lists are valid.

    Parameters
    ----------
    indptr : (num_nodes + 1,) uint32 or uint64
        From 0 to num_edges.
    indices : (num_edges,) uint32 or uint64
    num_neighbors : int
        Ids are below it.
    progress : callable, optional
        Called with the number of edges after each piece.
    """
    for node in range(0, len(indptr) - 1, _BLOCK):
        ends = indptr[node : node + _BLOCK + 1].astype(np.int64)
        descents = np.flatnonzero((ends[1:] < ends[:-1]) | (ends[1:] > len(indices)))
        if len(descents):
            return node + int(descents[0]), "does not end after its beginning"
        first, last = int(ends[0]), int(ends[-1])
        for begin in range(first, last, _BLOCK):
            # One entry of the previous block, so that it is compared with the first of this one.
            start, stop = max(begin - 1, first), min(begin + _BLOCK, last)
            part = indices[start:stop]
            outside = np.flatnonzero(part >= num_neighbors)
            if len(outside):
                entry = start + int(outside[0])
                return node + _list_of(ends, entry), f"has an id out of range for {num_neighbors}"
            later = start + 1 + np.flatnonzero(part[1:] < part[:-1])
            unsorted = later[ends[np.searchsorted(ends, later)] != later]
            if len(unsorted):
                return node + _list_of(ends, int(unsorted[0])), "is not sorted by id"
            if progress is not None:
                progress(stop - begin)
    return None


def _list_of(ends: npt.NDArray[np.int64], entry: int) -> int:
    return int(np.searchsorted(ends, entry, "right")) - 1
