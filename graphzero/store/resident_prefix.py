"""`ResidentPrefix`: how much of a range of a mapped file is resident, from its beginning on."""

from __future__ import annotations

from mmap import PAGESIZE

import numpy as np

from graphzero import _core
from graphzero.store.views import section_view

__all__ = ["ResidentPrefix"]

_MOST_ADVISED_BYTES = 2 << 20  # a longer MADV_WILLNEED is cut silently at the device's limit


class ResidentPrefix:
    """The beginning of a range of a mapped file, resident in memory.

    Parameters
    ----------
    mapping : _core.Mapping
    origin : int
        Byte of the file where the range begins.
    pin : bool
        Whether to pin the prefix (``mlock``). Otherwise it is only read, and the kernel may drop
        it where memory is short.

    Attributes
    ----------
    num_bytes : int
        Size of the prefix.
    """

    def __init__(self, mapping: _core.Mapping, origin: int, *, pin: bool = True) -> None:
        self.num_bytes = 0
        self._mapping = mapping
        self._origin = origin
        self._may_pin = pin

    @property
    def pinned_bytes(self) -> int:
        """Size of the prefix if it is pinned, else 0."""
        return self.num_bytes if self._may_pin else 0

    def request(self, begin: int, end: int) -> None:
        """Asks the kernel to read bytes [begin, end) of the range, and returns at once."""
        for at in range(begin, end, _MOST_ADVISED_BYTES):
            length = min(_MOST_ADVISED_BYTES, end - at)
            self._mapping.advise("willneed", self._origin + at, length)

    def resize(self, num_bytes: int) -> None:
        """Makes the first `num_bytes` of the range resident, and releases the bytes beyond them.

        Where the process may not pin so much, the bytes are read once and not pinned.
        """
        origin, begin, end = self._origin, self.num_bytes, num_bytes
        if end > begin:
            try:
                if self._may_pin:
                    self._mapping.lock(origin + begin, end - begin)
            except OSError:
                self._may_pin = False
            if not self._may_pin:
                prefix = section_view(self._mapping, np.dtype(np.uint8), origin, (end,))
                prefix[begin:end:PAGESIZE].max()
        elif end < begin:
            # whole pages: the one that holds the last byte of the prefix stays pinned
            first = -(-(origin + end) // PAGESIZE) * PAGESIZE
            if origin + begin > first:
                self._mapping.unlock(first, origin + begin - first)
        self.num_bytes = num_bytes
