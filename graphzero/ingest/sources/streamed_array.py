"""Arrays that can only be read from beginning to end, beside those that are mapped."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

__all__ = ["AnyArray", "StreamedArray", "pieces_of", "require_whole"]

_GRANULARITY = mmap.ALLOCATIONGRANULARITY  # where mappings begin
_READ_BYTES = 1 << 18
_MOST_COLUMNS = 8  # of an array in Fortran order: each needs a stream of its own


@dataclass(frozen=True)
class StreamedArray:
    """An array in a compressed file, which is read in pieces and never held as a whole.

    Attributes
    ----------
    name : str
        For messages.
    shape : tuple of int
    dtype : numpy.dtype
    fortran_order : bool
    open : callable
        Opens the file at the first byte of the values. Each call opens a stream of its own, which
        raises ValueError where the file is damaged.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    open: Callable[[], AbstractContextManager[BinaryIO]]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def T(self) -> StreamedArray:
        """The transposed array: the same bytes in the other order."""
        return replace(self, shape=self.shape[::-1], fortran_order=not self.fortran_order)

    def __len__(self) -> int:
        return self.shape[0]

    def view(self, dtype: npt.DTypeLike) -> StreamedArray:
        """The same bytes as another dtype of the same size."""
        return replace(self, dtype=np.dtype(dtype))

    def pieces(self, max_items: int) -> Generator[npt.NDArray[Any], None, None]:
        """Consecutive pieces along the first axis, of max_items; the last one may be shorter.

        Raises
        ------
        ValueError
            If the file is damaged, or the array lies in Fortran order and has many columns.
        """
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        in_columns = self.fortran_order and self.ndim > 1 and width != 1
        if in_columns and (self.ndim > 2 or width > _MOST_COLUMNS):
            raise ValueError(
                f"{self.name} is compressed and in Fortran order, so that its rows cannot be read "
                f"one after the other: save it with np.ascontiguousarray, or uncompressed"
            )
        if not in_columns:
            with self.open() as stream:
                for begin in range(0, len(self), max_items):
                    count = min(max_items, len(self) - begin)
                    yield self._read(stream, (count, *self.shape[1:]))
            return
        with ExitStack() as streams:
            opened = [streams.enter_context(self.open()) for _ in range(width)]
            for i, stream in enumerate(opened):
                self._skip(stream, i * len(self) * self.dtype.itemsize)
            for begin in range(0, len(self), max_items):
                count = min(max_items, len(self) - begin)
                columns = np.empty((width, count), self.dtype)
                for i, stream in enumerate(opened):
                    columns[i] = self._read(stream, (count,))
                yield columns.T

    def _read(self, stream: BinaryIO, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        array = np.empty(shape, self.dtype)
        if not array.nbytes:
            return array
        view = memoryview(array.reshape(-1).view(np.uint8).data)
        while view.nbytes:
            data = stream.read(min(_READ_BYTES, view.nbytes))
            if not data:
                raise ValueError(f"{self.name} is truncated: it ends before its array does")
            view[: len(data)] = data
            view = view[len(data) :]
        return array

    def _skip(self, stream: BinaryIO, count: int) -> None:
        while count:
            data = stream.read(min(_READ_BYTES, count))
            if not data:
                raise ValueError(f"{self.name} is truncated: it ends before its array does")
            count -= len(data)


def require_whole(array: npt.NDArray[Any]) -> None:
    """Raises an error if the file of a mapped array has become shorter: reading it would kill.

    It is checked before each piece that is read. What is cut off while a piece is read still ends
    the process, with SIGBUS; the earlier dataset is whole all the same.
    """
    if not isinstance(array, np.memmap) or array.filename is None:
        return
    mapped = getattr(array, "_mmap", None)
    try:
        size = os.stat(array.filename).st_size
    except OSError:  # a file that is gone keeps its content while it is mapped
        return
    if mapped is not None and size < array.offset + len(mapped) - array.offset % _GRANULARITY:
        raise ValueError(
            f"{os.fspath(array.filename)} has become shorter while the build read it: build again "
            f"when it is complete"
        )


AnyArray = npt.NDArray[Any] | StreamedArray


def pieces_of(array: AnyArray, max_items: int) -> Generator[npt.NDArray[Any], None, None]:
    """Consecutive pieces of any array along its first axis, of max_items; the last is shorter."""
    if isinstance(array, StreamedArray):
        with closing(array.pieces(max_items)) as pieces:
            yield from pieces
        return
    for begin in range(0, len(array), max_items):
        require_whole(array)
        yield array[begin : begin + max_items]
