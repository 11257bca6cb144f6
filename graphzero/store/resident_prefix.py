"""`ResidentPrefix`: the beginning of a range of a mapped file, kept in memory as far as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import PAGESIZE

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.store.residency import mincore_is_honest

__all__ = ["PageMap", "ResidentPrefix", "request_range"]

_MOST_ADVISED_BYTES = 2 << 20  # a longer MADV_WILLNEED is cut silently at the device's limit
_LOOKED_UP = 1 << 20  # pages in one refresh (4 GiB); of a longer prefix, the next ones in turn

PageMap = npt.NDArray[np.uint8]


class ResidentPrefix:
    """The beginning of a range of a mapped file that one iteration wants in memory.

    Nothing is locked: the pages stay in the page cache, and where memory is short the kernel takes
    them back instead of killing a process. `page_map` tells which ones are there.

    Parameters
    ----------
    mapping : _core.Mapping
    origin : int
        Byte of the file where the range begins.

    Attributes
    ----------
    num_bytes : int
        Size that the prefix is to have.
    unknown : str or None
        Why the system does not tell which pages are in memory; None if it does.
    resident_bytes : int
        Bytes of the pages that were in memory when `page_map` was last called.
    """

    def __init__(self, mapping: _core.Mapping, origin: int) -> None:
        self.num_bytes = 0
        self.unknown: str | None = None
        self._mapping = mapping
        self._origin = origin
        self._first_page = origin // PAGESIZE
        self._trust_mincore = mincore_is_honest(mapping.path)
        self._map: PageMap = np.empty(0, np.uint8)
        self.resident_bytes = 0
        self._next_look = 0

    def page_map(self) -> PageMap:
        """Which pages of the prefix are in memory now, from the one on that holds its first byte.

        Returns
        -------
        (num_pages,) uint8
            1 for a page that is in memory, else 0. It does not change any more.
        """
        count = self._pages(self.num_bytes)
        if count == 0:
            self.resident_bytes = 0
            return np.empty(0, np.uint8)
        pages = np.zeros(count, np.uint8)
        begin = 0
        if count > _LOOKED_UP:
            known = self._map[:count]
            pages[: len(known)] = known
            begin = self._next_look if self._next_look < count else 0
        end = min(begin + _LOOKED_UP, count)
        try:
            self._mapping.page_map(
                self._first_page + begin, end - begin, self._trust_mincore, pages[begin:end]
            )
        except OSError as error:
            # Rows that may not be in memory are read like all others.
            self.unknown = str(error)
            pages[begin:end] = 0
        self._next_look = end
        self._map = pages
        self.resident_bytes = int(np.count_nonzero(pages.view(np.bool_))) * PAGESIZE
        return pages

    @property
    def parts(self) -> tuple[ResidentPrefix, ...]:
        """The prefixes of which it consists: itself."""
        return (self,)

    @property
    def lost_bytes(self) -> int:
        """Bytes of the prefix that are not in memory now."""
        self.page_map()
        return max(0, self.num_bytes - self.resident_bytes)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the prefix that are in memory now."""
        self.page_map()
        return min(self.num_bytes, self.resident_bytes)

    @property
    def is_resident(self) -> bool:
        """Whether all pages of the prefix are in memory now."""
        pages = self.page_map()
        return int(np.count_nonzero(pages.view(np.bool_))) == len(pages)

    def resize(self, num_bytes: int) -> None:
        """Sets the size, and gives pages beyond it back to the system."""
        before, self.num_bytes = self.num_bytes, num_bytes
        first, end = self._pages(num_bytes), self._pages(before)
        if end > first:
            begin = (self._first_page + first) * PAGESIZE
            length = min((end - first) * PAGESIZE, self._mapping.size - begin)
            self._mapping.advise("release", begin, length)

    def missing_runs(self, most_bytes: int) -> Iterator[tuple[int, int]]:
        """Byte ranges of the file that belong to the prefix and are not in memory, ascending.

        Parameters
        ----------
        most_bytes : int
            Of one range; longer ones are split.
        """
        missing = np.concatenate([[0], self.page_map() == 0, [0]]).astype(np.int8)
        edges = np.flatnonzero(np.diff(missing))
        for first, end in edges.reshape(-1, 2).tolist():
            begin = (self._first_page + first) * PAGESIZE
            stop = min((self._first_page + end) * PAGESIZE, self._mapping.size)
            for at in range(begin, stop, most_bytes):
                yield at, min(at + most_bytes, stop)

    def reaches(self, begin: int) -> bool:
        """Whether byte `begin` of the file belongs to the prefix."""
        return begin < self._origin + self.num_bytes

    def load(self, begin: int, end: int) -> None:
        """Reads bytes [begin, end) of the file into the page cache.

        Raises
        ------
        OSError
            If they cannot be read.
        """
        request_range(self._mapping, begin, end)
        self._mapping.advise("populate", begin, end - begin)

    def _pages(self, num_bytes: int) -> int:
        if num_bytes == 0:
            return 0
        return -(-(self._origin + num_bytes) // PAGESIZE) - self._first_page


def request_range(mapping: _core.Mapping, begin: int, end: int) -> None:
    """Asks the kernel to read bytes [begin, end) of a file, and returns at once."""
    for at in range(begin, end, _MOST_ADVISED_BYTES):
        mapping.advise("willneed", at, min(_MOST_ADVISED_BYTES, end - at))
