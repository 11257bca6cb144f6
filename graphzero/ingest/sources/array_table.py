"""Arrays and NumPy files, as tables and as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.streamed_array import AnyArray, pieces_of
from graphzero.ingest.sources.table import Chunk, checked

__all__ = ["MOST_RECORDS", "ArrayTable", "load_numpy"]

# Small pieces of a mapped file are still in memory when they are read again, to be converted.
MOST_RECORDS = 1 << 16


class ArrayTable:
    """Equally long arrays, in memory, mapped or streamed from files.

    Parameters
    ----------
    name : str
    arrays : sequence of array
        Of one dimension, a column each, or of shape (E, columns).
    """

    def __init__(self, name: str, arrays: Sequence[AnyArray]) -> None:
        self.name = name
        self.names: Sequence[str] | None = None
        self._columns = [
            (part, None if array.ndim == 1 else i)
            for part, array in enumerate(arrays)
            for i in range(1 if array.ndim == 1 else array.shape[1])
        ]
        self._arrays = arrays
        self.width = len(self._columns)
        self.num_records: int | None = len(arrays[0])
        self.dtypes: Sequence[np.dtype[Any] | None] | None = [array.dtype for array in arrays]
        self.first_record: Sequence[str] | None = None

    def locate(self, record: int) -> str:
        """An edge by its position from 0: edges are what arrays are read as."""
        return f"edge {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records records."""
        max_records = min(max_records, MOST_RECORDS)
        parts = sorted({self._columns[column.index][0] for column in columns})
        begin = 0
        with ExitStack() as opened:
            streams = [
                opened.enter_context(closing(pieces_of(self._arrays[part], max_records)))
                for part in parts
            ]
            for pieces in zip(*streams, strict=True):
                piece_of = dict(zip(parts, pieces, strict=True))
                yield tuple(
                    checked(_column(piece_of, self._columns[column.index]), column, self, begin)
                    for column in columns
                )
                begin += len(pieces[0])


def _column(pieces: dict[int, npt.NDArray[Any]], place: tuple[int, int | None]) -> npt.NDArray[Any]:
    part, column = place
    return pieces[part] if column is None else pieces[part][:, column]


def load_numpy(path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """An array of any dtype but objects, mapped, from a ``.npy`` path.

    Raises
    ------
    ValueError
        If the file is not a complete NumPy file.
    OSError
        If the file cannot be read.
    """
    name = os.fspath(path)
    try:
        array = np.load(name, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, str(error), name) from None
    except Exception as error:  # NumPy parses Python, which raises many kinds
        reason = str(error)[:200] or type(error).__name__
        raise ValueError(f"{name} is not a complete NumPy file of numbers: {reason}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} holds several arrays: give one .npy file")
    return array
