"""`PrefixGroup`: the resident prefixes of several files, as one whose size is divided."""

from __future__ import annotations

from collections.abc import Sequence
from mmap import PAGESIZE

from graphzero.store.resident_prefix import ResidentPrefix

__all__ = ["PrefixGroup"]


class PrefixGroup:
    """Resident prefixes that share one size, in proportion to the sizes of their files.

    Parameters
    ----------
    prefixes : sequence of ResidentPrefix
    sizes : sequence of int
        Bytes of the rows of each file.

    Attributes
    ----------
    num_bytes : int
        Size that all prefixes are to have together.
    """

    def __init__(self, prefixes: Sequence[ResidentPrefix], sizes: Sequence[int]) -> None:
        self.parts = tuple(prefixes)
        self._sizes = tuple(sizes)
        self._total = sum(sizes)
        self.num_bytes = 0

    def resize(self, num_bytes: int) -> None:
        """Sets the size, and divides it."""
        self.num_bytes = num_bytes
        for prefix, size in zip(self.parts, self._sizes, strict=True):
            share = size if num_bytes >= self._total else num_bytes * size // self._total
            # a part of a page is no use, but at the end of a file
            prefix.resize(share if share == size else share // PAGESIZE * PAGESIZE)

    @property
    def resident_bytes(self) -> int:
        """Bytes of the prefixes that were in memory when their pages were last looked up."""
        return sum(prefix.resident_bytes for prefix in self.parts)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the prefixes that are in memory now."""
        return sum(prefix.kept_bytes for prefix in self.parts)

    @property
    def lost_bytes(self) -> int:
        """Bytes of the prefixes that are not in memory now."""
        return sum(prefix.lost_bytes for prefix in self.parts)

    @property
    def unknown(self) -> str | None:
        """Why the system does not tell which pages of a prefix are in memory; None if it does."""
        return next((prefix.unknown for prefix in self.parts if prefix.unknown), None)
