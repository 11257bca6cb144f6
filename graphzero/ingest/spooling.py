"""Rows that an iterator yields, in an unnamed temporary file: they can be read again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.array_opening import open_array
from graphzero.ingest.sources.chunks import chunks_of, is_chunks, is_frame
from graphzero.ingest.sources.opening import is_table
from graphzero.ingest.sources.sparse_matrix import is_scipy
from graphzero.ingest.sources.streamed_array import StreamedArray
from graphzero.ingest.spill import TempFile

__all__ = ["spool_iterators"]


def spool_iterators(folder: Path, **arguments: Any) -> list[Any]:
    """The arguments of a build, with arrays in place of iterators of rows.

    Rows are needed more than once: they are counted before the edges are read. An iterator of edges
    is left as it is, because edges are read once.

    Parameters
    ----------
    folder : pathlib.Path
        Of the dataset; its disk has the temporary files, as long as the arrays live.
    **arguments
        By name. "edges" is the edge list, or a dictionary with it.

    Returns
    -------
    list
        The arguments, in their order.

    Raises
    ------
    ValueError
        Naming the argument and the chunk, if chunks are not alike.
    OSError
        If the disk is full.
    """
    was_there = folder.exists()
    try:
        return [_spooled(folder, value, name, name == "edges") for name, value in arguments.items()]
    except BaseException:
        if not was_there:
            with suppress(OSError):
                folder.rmdir()
        raise


def _spooled(folder: Path, value: Any, name: str, is_edges: bool) -> Any:
    if isinstance(value, Mapping) and not is_scipy(value):
        return {
            key: _spooled(
                folder,
                inner,
                f"{name}[{key!r}]",
                is_edges and (key == "edge_index" or isinstance(key, tuple)),
            )
            for key, inner in value.items()
        }
    if is_edges or is_table(value) or not is_chunks(value):
        return value
    return _array_of(folder, value, name)


def _array_of(folder: Path, chunks: Any, name: str) -> npt.NDArray[Any]:
    file: TempFile | None = None
    first: npt.NDArray[Any] | None = None
    size = rows = 0
    try:
        for number, chunk in enumerate(chunks_of(chunks, name)):
            array = _checked(chunk, f"{name}, chunk {number}", first)
            if file is None:
                folder.mkdir(parents=True, exist_ok=True)
                first, file = array[:0], TempFile(folder)
            if array.size:
                file.write(array.reshape(-1).view(np.uint8), size)
                size, rows = size + array.nbytes, rows + len(array)
        if file is None or first is None:
            raise ValueError(f"{name} is an iterator without any chunk")
        shape = (rows, *first.shape[1:])
        if not size:
            return np.empty(shape, first.dtype)
        return np.frombuffer(file.map(size), first.dtype).reshape(shape)
    finally:
        if file is not None:
            file.close()


def _checked(chunk: Any, where: str, first: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """A chunk of rows, contiguous and little-endian."""
    if is_frame(chunk):
        raise ValueError(
            f"{where} is a {type(chunk).__name__}: yield arrays, chunk.to_numpy() of the columns "
            f"that are features"
        )
    array = None if isinstance(chunk, str | os.PathLike) else open_array(chunk, where)
    if array is None or isinstance(array, StreamedArray) or array.ndim == 0:
        raise ValueError(f"{where} is {chunk!r}: yield arrays of many rows")
    if array.dtype.names is None:
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if first is not None and (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
        raise ValueError(
            f"{where} has dtype {array.dtype} and rows of shape {array.shape[1:]}, and the chunks "
            f"before it {first.dtype} and {first.shape[1:]}: all must be alike"
        )
    return np.ascontiguousarray(array)
