"""Arrays in unnamed temporary files.

When the process ends, for whatever reason, their disk space is free again.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

__all__ = ["TempColumn", "TempFile", "temp_array"]


class TempFile:
    """An unnamed file that is read and written at byte offsets.

    Parameters
    ----------
    folder : pathlib.Path
        Determines the disk.

    Raises
    ------
    OSError
        With errno and the folder, here and when the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115

    def reserve(self, size: int) -> None:
        """Reserves disk space for size bytes, so that later writes cannot run out of it."""
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, size)
            else:  # macOS
                os.ftruncate(self._file.fileno(), size)
        except OSError as error:
            raise self._named(error) from error

    def write(self, array: npt.NDArray[Any], offset: int) -> None:
        """Writes a non-empty array at a byte offset."""
        view = memoryview(np.ascontiguousarray(array).data).cast("B")
        while view.nbytes:
            try:
                written = os.pwrite(self._file.fileno(), view, offset)
            except OSError as error:
                raise self._named(error) from error
            view, offset = view[written:], offset + written

    def read(self, offset: int, count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """A new array of count elements from a byte offset."""
        array = np.empty(count, dtype)
        view = memoryview(array.view(np.uint8).data)
        while view.nbytes:
            got = os.preadv(self._file.fileno(), [view], offset)
            if got == 0:
                raise OSError(errno.EIO, "a temporary file is shorter than written", self._path())
            view, offset = view[got:], offset + got
        return array

    def map(self, size: int) -> mmap.mmap:
        """A shared writable mapping, which stays valid after `close`."""
        return mmap.mmap(self._file.fileno(), size)

    def close(self) -> None:
        """Frees the disk space."""
        self._file.close()

    def _path(self) -> str:
        return os.fspath(self._folder)

    def _named(self, error: OSError) -> OSError:
        code = error.errno or errno.EIO
        return OSError(code, f"temporary data of the build: {os.strerror(code)}", self._path())


class TempColumn:
    """A growing 1-D array, in memory while it is small, else in a `TempFile`.

    Parameters
    ----------
    folder : pathlib.Path
    dtype : dtype-like
    memory : int
        Bytes of memory that it may take.
    """

    def __init__(self, folder: Path, dtype: npt.DTypeLike, memory: int = 0) -> None:
        self.dtype = np.dtype(dtype)
        self._folder = folder
        self._memory = memory
        self._pieces: list[npt.NDArray[Any]] = []
        self._file: TempFile | None = None
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, array: npt.NDArray[Any]) -> None:
        """Appends a copy of an array, in the column's dtype."""
        piece = np.asarray(array, dtype=self.dtype)
        at = self._length * self.dtype.itemsize
        self._length += len(piece)
        if not len(piece):
            return
        if self._file is None and at + piece.nbytes <= self._memory:
            self._pieces.append(piece.copy())
            return
        if self._file is None:
            self._file = TempFile(self._folder)
            offset = 0
            for earlier in self._pieces:
                self._file.write(earlier, offset)
                offset += earlier.nbytes
            self._pieces = []
        self._file.write(piece, at)

    def read(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Elements [begin, end); read-only by convention."""
        if self._file is not None:
            return self._file.read(begin * self.dtype.itemsize, end - begin, self.dtype)
        if len(self._pieces) != 1:
            self._pieces = [np.concatenate([*self._pieces, np.empty(0, self.dtype)])]
        return self._pieces[0][begin:end]

    def close(self) -> None:
        """Frees memory and disk space."""
        self._pieces = []
        self._length = 0
        if self._file is not None:
            self._file.close()
            self._file = None


def temp_array(folder: Path, count: int, dtype: npt.DTypeLike, memory: int) -> npt.NDArray[Any]:
    """A zeroed 1-D array, in memory up to this size, else mapped from an unnamed file."""
    size = count * np.dtype(dtype).itemsize
    if size <= memory:
        return np.zeros(count, dtype)
    file = TempFile(folder)
    try:
        # A write to a mapped page kills the process if the disk is full.
        file.reserve(size)
        return np.frombuffer(file.map(size), dtype)
    finally:
        file.close()
