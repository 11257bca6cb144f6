"""Text in blocks of whole lines, for pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from graphzero.ingest.sources.blanks import SingleBlanks

__all__ = ["text_blocks"]

_BLOCK = 1 << 19
_MOST = 64 << 20


def text_blocks(file: BinaryIO | SingleBlanks, name: str) -> Iterator[bytes]:
    """The lines of a stream, in blocks.

    pyarrow's CSV reader is given such blocks. Over a Python file of its own it comes to hang.

    Parameters
    ----------
    file : BinaryIO or SingleBlanks
    name : str
        For messages.

    Raises
    ------
    ValueError
        If a line is longer than 64 MiB.
    OSError
        If it cannot be read.
    """
    rest = b""
    while data := file.read(_BLOCK) or b"":
        if data.endswith(b"\r"):
            data += file.read(1) or b""  # of one line end
        data = rest + data
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        block, rest = data[:cut], data[cut:]
        if len(rest) > _MOST:
            raise ValueError(f"{name} has a line longer than {_MOST >> 20} MiB")
        if block:
            yield block
    if rest:
        yield rest
