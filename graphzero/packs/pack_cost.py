"""What a pack costs and saves: disk space, and the reads of a batch with and without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from mmap import PAGESIZE

import numpy as np

from graphzero.graph.ids import IdArray

__all__ = ["PackCost", "Reads", "count_reads", "mean_of", "sum_of"]

_READ_BYTES = 1 << 16  # the longest read past the page cache


@dataclass(frozen=True)
class Reads:
    """The disk reads for the rows of one batch.

    Attributes
    ----------
    pages, reads : float
        Distinct pages, and the runs of neighbouring pages that are read at once.
    """

    pages: float
    reads: float

    @property
    def num_bytes(self) -> float:
        """Size of the pages."""
        return self.pages * PAGESIZE


def count_reads(rows: IdArray, row_bytes: int) -> Reads:
    """Reads of ascending, distinct rows of a file whose first row begins on a page."""
    if rows.shape[0] == 0:
        return Reads(0, 0)
    first = rows * row_bytes // PAGESIZE
    last = (rows * row_bytes + row_bytes - 1) // PAGESIZE
    before = np.concatenate([[-2], last[:-1]])
    pages = last - np.maximum(first, before + 1) + 1
    runs = np.add.reduceat(pages, np.flatnonzero(first > before + 1))
    return Reads(int(pages.sum()), int((-(-runs * PAGESIZE // _READ_BYTES)).sum()))


def mean_of(found: Sequence[Reads]) -> Reads:
    """The mean of some batches."""
    count = len(found)
    return Reads(sum(each.pages for each in found) / count, sum(e.reads for e in found) / count)


def sum_of(found: Sequence[Reads]) -> Reads:
    """The sum over some files."""
    return Reads(sum(each.pages for each in found), sum(each.reads for each in found))


@dataclass(frozen=True)
class PackCost:
    """The disk space that a pack takes, and the reads that it saves, estimated from some batches.

    Attributes
    ----------
    batches, rows : int
        Batches to be packed, and rows of all files of the pack.
    resident_bytes : int
        Bytes of the first rows of each attribute, which are not repeated in the batches.
    file_bytes : int
        Size of the pack.
    unpacked, packed : Reads
        Reads of a full batch, on average, with these rows resident.
    """

    batches: int
    rows: int
    resident_bytes: int
    file_bytes: int
    unpacked: Reads
    packed: Reads
