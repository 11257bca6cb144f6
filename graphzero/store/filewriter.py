"""Writes ``.gl`` and ``.gd`` files: sections in any interleaving, the header last."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType

import numpy as np
import numpy.typing as npt

from graphzero.store.atomic import StagedFile
from graphzero.store.format import CHUNK_BYTES, DTYPES, Header, encode_header

__all__ = ["FileWriter", "sealed_file"]


class FileWriter:
    """Writes a file of a known layout, section by section, in any interleaving.

    A context manager: at the end of the block the file is published under its final name in one
    step; if the block raises, the file is removed. Callers that publish several files together
    use `seal` and `publish`.

    Parameters
    ----------
    path : path-like
    header : Header
        From `graphzero.store.format.layout`.

    Raises
    ------
    OSError
        With errno and path; a full disk is detected here, before anything is written.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header) -> None:
        self.header = header
        self._index = {section.name: i for i, section in enumerate(header.sections)}
        self._written = [0] * len(header.sections)
        self._crc = [0] * len(header.sections)
        self._sealed = False
        self.staged = StagedFile(path, header.file_bytes)

    def append(self, name: str, array: npt.ArrayLike) -> None:
        """Appends elements to a section, converting them to its dtype.

        Raises
        ------
        ValueError
            If there are more than the layout has.
        """
        index = self._index[name]
        section = self.header.sections[index]
        data = np.ascontiguousarray(array, dtype=DTYPES[section.dtype]).reshape(-1)
        at = self._written[index]
        if data.nbytes > section.length - at:
            raise ValueError(f"more than {section.count} elements for section '{name}'")
        if data.nbytes == 0:
            return  # a memoryview without elements cannot be cast
        view = data.data.cast("B")
        for begin in range(0, data.nbytes, CHUNK_BYTES):
            chunk = view[begin : begin + CHUNK_BYTES]
            self._crc[index] = zlib.crc32(chunk, self._crc[index])
            self.staged.write(chunk, section.offset + at + begin)
        self._written[index] += data.nbytes

    def resize(self, num_nodes: int) -> None:
        """Changes the number of rows of a feature file, for writers that do not know it beforehand.

        "rows" must be the last section, and must not be written beyond its new end.
        """
        header, rows = self.header, self.header.sections[-1]
        count = num_nodes * header.width
        length = count * DTYPES[rows.dtype].itemsize
        self.header = replace(
            header,
            num_nodes=num_nodes,
            file_bytes=rows.offset + length,
            sections=(*header.sections[:-1], replace(rows, count=count, length=length)),
        )

    def seal(self) -> None:
        """Writes the header and flushes everything, still under the temporary name.

        Raises
        ------
        ValueError
            If a section is not complete.
        """
        sections = []
        for section, written, crc in zip(
            self.header.sections, self._written, self._crc, strict=True
        ):
            if written != section.length:
                raise ValueError(f"section '{section.name}' is not complete")
            sections.append(replace(section, crc=crc))
        self.header = replace(self.header, sections=tuple(sections))
        self.staged.write(encode_header(self.header), 0)
        self.staged.seal(self.header.file_bytes)
        self._sealed = True

    def publish(self) -> None:
        """Renames the sealed file to its final name; removed on failure."""
        self.staged.publish()

    def discard(self) -> None:
        """Removes the unfinished file."""
        self.staged.discard()

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.discard()
            return
        try:
            if not self._sealed:
                self.seal()
        except BaseException:
            self.discard()
            raise
        self.publish()


@contextmanager
def sealed_file(path: str | os.PathLike[str], header: Header) -> Iterator[FileWriter]:
    """A file that is sealed, not published, when the block ends, and removed if the block raises.

    Parameters
    ----------
    path : path-like
    header : Header
        From `graphzero.store.format.layout`.
    """
    file = FileWriter(path, header)
    try:
        yield file
        file.seal()
    except BaseException:
        file.discard()
        raise
