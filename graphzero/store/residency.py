"""How much of a mapped file is in the page cache."""

from __future__ import annotations

import mmap
import os

import numpy as np
import numpy.typing as npt

from graphzero import _core

__all__ = ["mincore_is_honest", "residency", "resident_bytes"]


def mincore_is_honest(path: str) -> bool:
    """Whether mincore is reliable: the kernel tells only owners and writers of a file the truth."""
    try:
        return os.stat(path).st_uid == os.geteuid() or os.access(path, os.W_OK)
    except OSError:
        return False


def resident_bytes(mapping: _core.Mapping) -> int | None:
    """Bytes of a mapped file in the page cache, read by any process.

    Returns
    -------
    int or None
        None where this is unknown: to processes that neither own the file nor may write to it,
        the kernel reports every page as resident.
    """
    if not mincore_is_honest(mapping.path):
        return None
    return min(int(mapping.residency(1)[0]) * mmap.PAGESIZE, mapping.size)


def residency(mapping: _core.Mapping, parts: int) -> npt.NDArray[np.float64] | None:
    """Share of each of equally many pages of a mapped file that is in the page cache.

    Parameters
    ----------
    mapping : Mapping
    parts : int
        Number of parts, whose sizes differ by one page at most; for a file of fewer pages, there
        is one part for each page.

    Returns
    -------
    (at most parts,) float64, or None
        None where this is unknown, as of `resident_bytes`.
    """
    if not mincore_is_honest(mapping.path):
        return None
    pages = -(-mapping.size // mmap.PAGESIZE)
    parts = min(parts, pages)
    if parts == 0:
        return np.zeros(0)
    sizes = pages // parts + (np.arange(parts) < pages % parts)
    shares: npt.NDArray[np.float64] = mapping.residency(parts) / sizes
    return shares
