"""Arrays and NumPy files, as tables and as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.table import Chunk, checked

__all__ = ["ArrayTable", "load_array", "load_ids", "load_numpy", "require_numbers", "require_whole"]


class ArrayTable:
    """Equally long 1-D arrays, in memory or mapped from files.

    Parameters
    ----------
    name : str
    arrays : sequence of array
    """

    def __init__(self, name: str, arrays: Sequence[npt.NDArray[Any]]) -> None:
        self.name = name
        self.names: Sequence[str] | None = None
        self._arrays = arrays
        self.width = len(arrays)
        self.num_records: int | None = len(arrays[0])

    def locate(self, record: int) -> str:
        """An edge by its position from 0: edges are what arrays are read as."""
        return f"edge {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records records."""
        for begin in range(0, len(self._arrays[0]), max_records):
            for column in columns:
                require_whole(self._arrays[column.index])
            yield tuple(
                checked(
                    self._arrays[column.index][begin : begin + max_records], column, self, begin
                )
                for column in columns
            )


def load_array(value: Any, what: str) -> npt.NDArray[Any]:
    """An array from a ``.npy`` path (mapped, read-only), an array, a tensor or a list.

    Raises
    ------
    ValueError
        If the file is not a complete NumPy file of numbers, or the value not an array of numbers.
    OSError
        If the file cannot be read.
    """
    if isinstance(value, str | os.PathLike):
        return require_numbers(load_numpy(value), os.fspath(value))
    return require_numbers(np.asarray(value), what)


def require_whole(array: npt.NDArray[Any]) -> None:
    """Raises an error if the file of a mapped array has become shorter: reading it would kill.

    It is checked before each piece that is read. What is cut off while a piece is read still ends
    the process, with SIGBUS; the earlier dataset is whole all the same.

    Raises
    ------
    ValueError
        Naming the file.
    """
    if not isinstance(array, np.memmap) or array.filename is None:
        return
    mapped = getattr(array, "_mmap", None)
    try:
        size = os.stat(array.filename).st_size
    except OSError:  # a file that is gone keeps its content while it is mapped
        return
    if mapped is not None and size < len(mapped):
        raise ValueError(
            f"{os.fspath(array.filename)} has become shorter while the build read it: build again "
            f"when it is complete"
        )


def load_ids(value: Any, what: str) -> npt.NDArray[Any]:
    """As `load_array`, of ids as they are: integers of any type, or texts.

    Raises
    ------
    ValueError
        If the file is not a complete NumPy file, or the values are neither.
    OSError
        If the file cannot be read.
    """
    is_path = isinstance(value, str | os.PathLike)
    array = load_numpy(value) if is_path else np.asarray(value)
    if not is_path and array.dtype.kind == "f" and not hasattr(value, "dtype"):
        array = np.asarray(value, dtype=object)  # Python's integers of 2^63 and more beside others
    if array.dtype.kind not in "iubUO":
        name = os.fspath(value) if is_path else what
        raise ValueError(f"{name} has dtype {array.dtype}: ids must be integers or texts")
    return array


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


def require_numbers(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Returns the array.

    Raises
    ------
    ValueError
        If it does not hold numbers.
    """
    if array.dtype.kind not in "iufb":
        raise ValueError(f"{name} has dtype {array.dtype}: it must hold numbers")
    return array
