"""Columns sorted by 64-bit keys in bounded memory, as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sort import EdgeSorter

__all__ = ["Block", "run_length", "sort_bytes", "sorted_blocks", "sorted_pieces"]

Block = tuple[npt.NDArray[np.uint64], tuple[npt.NDArray[Any], ...]]

_MIN_RUN = 1024
_CHUNK = 1 << 14


def run_length(dtypes: Sequence[np.dtype[Any]], memory: int) -> int:
    """Entries that can be sorted at once: keys, copies and permutations counted."""
    return max(_MIN_RUN, memory // (64 + 4 * sum(dtype.itemsize for dtype in dtypes)))


def sort_bytes(count: int, dtypes: Sequence[np.dtype[Any]], memory: int) -> int:
    """Bytes of temporary disk space that a sort takes; 0 where one run is enough."""
    if count <= run_length(dtypes, memory):
        return 0
    return count * (8 + sum(dtype.itemsize for dtype in dtypes))


def sorted_pieces(sorter: EdgeSorter) -> Iterator[Block]:
    """What a sorter has, in pieces that leave memory for work on them."""
    for keys, payload in sorter.merged():
        for begin in range(0, len(keys), _CHUNK):
            end = begin + _CHUNK
            yield keys[begin:end], tuple(array[begin:end] for array in payload)


def sorted_blocks(
    folder: Path,
    count: int,
    read: Callable[[int, int], Block],
    dtypes: Sequence[np.dtype[Any]],
    memory: int,
) -> Iterator[Block]:
    """Sorts entries by their keys, ties in input order.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files.
    count : int
    read : callable
        Takes begin and end, and returns new arrays: keys, and a tuple of payload.
    dtypes : sequence of numpy.dtype
        Of the payload.
    memory : int
        Bytes.
    """
    run = run_length(dtypes, memory)
    with closing(EdgeSorter(folder, list(dtypes), memory)) as sorter:
        for begin in range(0, count, run):
            sorter.spill()
            sorter.add(*read(begin, min(begin + run, count)))
        yield from sorted_pieces(sorter)
