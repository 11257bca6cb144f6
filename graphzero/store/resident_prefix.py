"""`KeptRange`: how much of a range of a mapped file is held in memory, from its beginning on."""

from __future__ import annotations

import numpy as np

from graphzero import _core
from graphzero.store.views import section_view

__all__ = ["KeptRange"]

_PAGE = 4096
_MOST_ADVISED = 2 << 20  # a longer MADV_WILLNEED is cut silently at the device's limit


class KeptRange:
    """The beginning of a range of a mapped file, held in memory.

    Parameters
    ----------
    mapping : _core.Mapping
    origin : int
        Byte of the file where the range begins.
    lock : bool
        Whether it is to be locked (``mlock``). Else it is read, and the kernel may drop it where
        memory is short.

    Attributes
    ----------
    num_bytes : int
        That are held.
    """

    def __init__(self, mapping: _core.Mapping, origin: int, *, lock: bool = True) -> None:
        self.num_bytes = 0
        self._mapping = mapping
        self._origin = origin
        self._may_lock = lock

    @property
    def locked_bytes(self) -> int:
        """Bytes that are held, where they are locked; else 0."""
        return self.num_bytes if self._may_lock else 0

    def ask(self, begin: int, end: int) -> None:
        """Has the kernel read bytes [begin, end) of the range, without waiting for them."""
        for at in range(begin, end, _MOST_ADVISED):
            self._mapping.advise("willneed", self._origin + at, min(_MOST_ADVISED, end - at))

    def keep(self, num_bytes: int) -> None:
        """Holds the first `num_bytes` of the range in memory, and lets go of all others.

        They are only read once where the process may not lock so much.
        """
        origin, begin, end = self._origin, self.num_bytes, num_bytes
        if end > begin:
            try:
                if self._may_lock:
                    self._mapping.lock(origin + begin, end - begin)
            except OSError:
                self._may_lock = False
            if not self._may_lock:
                head = section_view(self._mapping, np.dtype(np.uint8), origin, (end,))
                head[begin:end:_PAGE].max()
        elif end < begin:
            # whole pages: the one that holds the last kept byte stays locked
            first = -(-(origin + end) // _PAGE) * _PAGE
            if origin + begin > first:
                self._mapping.unlock(first, origin + begin - first)
        self.num_bytes = num_bytes
