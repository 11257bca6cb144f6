"""How much of a mapped file is in the page cache."""

from __future__ import annotations

import mmap
import os

from graphzero import _core

__all__ = ["mincore_is_honest", "resident_bytes"]


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
    return min(mapping.resident_pages() * mmap.PAGESIZE, mapping.size)
