"""Text in blocks of whole lines."""

from __future__ import annotations

import io
import re
from typing import Any, BinaryIO

from graphzero._core import PARSE_PADDING

__all__ = ["LineBlocks"]

_LEAST_BYTES = 16
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LONGEST_LINE = 16 << 20


class _Joined(io.RawIOBase):
    """Bytes, then a file."""

    def __init__(self, first: bytes, file: BinaryIO) -> None:
        self._first = first
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._first[: len(buffer)] or self._file.read(len(buffer))
        self._first = self._first[len(data) :]
        buffer[: len(data)] = data
        return len(data)


class LineBlocks:
    """Reads a file in blocks of whole lines, in a buffer that is used again for every block.

    Parameters
    ----------
    file : BinaryIO
        A byte order mark at its begin is left out.
    skip_lines : int
        Lines at its begin that are left out.
    block_bytes : int
        Of a block; more where a line is longer.
    numbered : bool
        Whether lines are counted.

    Attributes
    ----------
    buffer : bytearray
        The block, from its begin; other bytes follow.
    line : int
        The number (from 1) of the first line of the block, if lines are counted.
    """

    def __init__(
        self, file: BinaryIO, skip_lines: int, block_bytes: int, *, numbered: bool = False
    ) -> None:
        self.buffer = bytearray(max(block_bytes, _LEAST_BYTES) + PARSE_PADDING)
        self.line = 1
        self._file = file
        self._numbered = numbered
        self._filled = 0
        self._ended = False
        self._skip(skip_lines)

    def fill(self) -> int:
        """Reads on; returns the bytes of whole lines, 0 at the end or before an overlong line.

        The last line gets a line feed if it has none.
        """
        while True:
            self._read()
            end = self.buffer.rfind(b"\n", 0, self._filled) + 1
            if end or self._ended or len(self.buffer) > _LONGEST_LINE:
                return end
            self._grow()

    @property
    def has_more(self) -> bool:
        """Whether anything is left that has been read."""
        return self._filled > 0

    def take(self, count: int) -> None:
        """Drops whole lines from the block's begin: so many bytes."""
        if self._numbered:
            self.line += self.buffer.count(b"\n", 0, count)
        self._drop(count)

    def rest(self) -> BinaryIO:
        """What has not been taken, as a stream."""
        return io.BufferedReader(_Joined(bytes(self.buffer[: self._filled]), self._file))

    def _drop(self, count: int) -> None:
        left = self._filled - count
        self.buffer[:left] = self.buffer[count : self._filled]
        self._filled = left

    def _read(self) -> None:
        room = memoryview(self.buffer)[: len(self.buffer) - PARSE_PADDING]
        while not self._ended and self._filled < len(room):
            got = self._file.readinto(room[self._filled :])  # type: ignore[attr-defined]
            self._filled += got
            if not got:
                self._ended = True
                if self._filled and self.buffer[self._filled - 1] != ord("\n"):
                    self.buffer[self._filled] = ord("\n")
                    self._filled += 1

    def _grow(self) -> None:
        self.buffer += bytes(len(self.buffer) - PARSE_PADDING)

    def _skip(self, count: int) -> None:
        self._read()
        if self.buffer.startswith(_BOM):
            self._drop(len(_BOM))
        while count:
            found = _LINE_END.search(self.buffer, 0, self._filled)
            # A line feed may follow a carriage return at the end of what has been read.
            if (found is None or found.end() == self._filled) and not self._ended:
                self._read()
                if self._filled == len(self.buffer) - PARSE_PADDING:
                    self._grow()
                    self._read()
                continue
            self._drop(self._filled if found is None else found.end())
            self.line += 1
            count -= 1
