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
    found = residency(mapping, 1)
    return None if found is None else found[0]


def residency(mapping: _core.Mapping, parts: int) -> tuple[int, npt.NDArray[np.float64]] | None:
    """How much of a mapped file, and of each part of it, is in the page cache.

    Parameters
    ----------
    mapping : Mapping
    parts : int
        Number of parts, whose sizes differ by one page at most; a file of fewer pages has a part
        for each page.

    Returns
    -------
    int
        Bytes of the whole file.
    (at most parts,) float64
        Share of the pages of each part.

    None instead of both where this is unknown, as of `resident_bytes`.
    """
    if not mincore_is_honest(mapping.path):
        return None
    num_pages = -(-mapping.size // mmap.PAGESIZE)
    parts = min(parts, num_pages)
    if parts == 0:
        return 0, np.zeros(0)
    sizes = num_pages // parts + (np.arange(parts) < num_pages % parts)
    cached = mapping.residency(parts)
    return min(int(cached.sum()) * mmap.PAGESIZE, mapping.size), cached / sizes
