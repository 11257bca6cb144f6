"""Decompressed text in blocks of whole lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from graphzero.ingest.sources.blanks import SingleBlanks
from graphzero.ingest.sources.compression import open_binary

__all__ = ["line_blocks"]

_BLOCK = 1 << 19
_MOST = 64 << 20
_LINE_END = re.compile(rb"\r\n|\r|\n")


def line_blocks(path: Path, *, skip_lines: int, single_blanks: bool) -> Iterator[bytes]:
    """The lines of a file, which may be compressed, in blocks.

    pyarrow's CSV reader is given such blocks. Over a Python file of its own it comes to hang.

    Parameters
    ----------
    path : pathlib.Path
    skip_lines : int
        Lines to leave out at the beginning.
    single_blanks : bool
        Whether each run of blanks and tabs becomes one, and those at the ends of lines none.

    Raises
    ------
    ValueError
        If the file is damaged, or a line is longer than 64 MiB.
    OSError
        If it cannot be read.
    """
    opened = open_binary(path)
    with SingleBlanks(opened) if single_blanks else opened as file:
        rest = b""
        while data := file.read(_BLOCK) or b"":
            if data.endswith(b"\r"):
                data += file.read(1) or b""  # of one line end
            data = rest + data
            cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            block, rest = data[:cut], data[cut:]
            if len(rest) > _MOST:
                raise ValueError(f"{path} has a line longer than {_MOST >> 20} MiB")
            begin = 0
            for end in _LINE_END.finditer(block) if skip_lines else ():
                skip_lines -= 1
                begin = end.end()
                if not skip_lines:
                    break
            if len(block) > begin:
                yield block[begin:]
        if rest and not skip_lines:
            yield rest
