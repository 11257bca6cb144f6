"""Text whose columns stand apart by any number of blanks and tabs, with one blank between them."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

__all__ = ["SingleBlanks", "cells_between_blanks"]

_BLOCK = 1 << 18
_TABS = bytes.maketrans(b"\t", b" ")


def cells_between_blanks(line: str) -> list[str]:
    """The cells of a line."""
    return [cell for cell in line.strip("\r\n").replace("\t", " ").split(" ") if cell]


def _single(data: bytes) -> bytes:
    """Of each run of blanks one is left, and none at the ends of lines."""
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    for end in (b"\n", b"\r"):
        data = data.replace(b" " + end, end).replace(end + b" ", end)
    return data


class SingleBlanks(io.RawIOBase):
    """A stream with each run of blanks and tabs as one blank, and without those at line ends.

    Parameters
    ----------
    file : BinaryIO
        Closed with this stream.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._ready = b""
        self._at_begin = True  # of a line
        self._blank = False  # whether what was read ended in one that may be at the end of a line

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads at most as many bytes as the buffer has."""
        while not self._ready:
            block = self._file.read(_BLOCK)
            if not block:
                return 0
            data = block.translate(_TABS)
            data = _single(b" " + data if self._blank else data)
            self._blank = data.endswith(b" ")
            data = data.rstrip(b" ")
            self._ready = data.lstrip(b" ") if self._at_begin else data
            if self._ready:
                self._at_begin = self._ready.endswith((b"\n", b"\r"))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        """Closes the file."""
        if not self.closed:
            self._file.close()
        super().close()
