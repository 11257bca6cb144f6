"""Splits: named lists of nodes or edges, such as train, val and test, in ``.gd`` files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.ingest.given import is_table, open_given, refuse_frame
from graphzero.ingest.mapped_splits import MappedSplit
from graphzero.ingest.source import FOR_VALUES, as_source
from graphzero.ingest.sources.array_opening import open_array
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.members import known_names
from graphzero.ingest.sources.streamed_array import AnyArray, pieces_of
from graphzero.ingest.spill import TempColumn
from graphzero.ingest.value_columns import id_values_column
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.format import FLAG_VECTOR, layout

__all__ = ["Remap", "check_split_names", "write_split"]

Remap = Callable[[TempColumn, int, str], TempColumn]

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_CHUNK = 1 << 20
_HELD = {"node": "node ids", "edge": "positions in the edge list"}


def check_split_names(splits: Mapping[str, Any]) -> None:
    """Raises ValueError for names that cannot be part of a file name.

    Raises
    ------
    ValueError
    """
    for name in splits:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"split name {name!r} has other characters than A-Z a-z 0-9 _ -")


def _from_array(array: AnyArray, name: str, count: int, of: str) -> Iterator[npt.NDArray[Any]]:
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}: it must be one-dimensional")
    if array.dtype == np.bool_ and len(array) != count:
        raise ValueError(f"{name} is a mask of {len(array)} values for {count} {of}s")
    if array.dtype.kind not in "iub" and len(array):
        held = _HELD[of]
        raise ValueError(f"{name} has dtype {array.dtype}: it must hold {held} or a boolean mask")
    is_mask = array.dtype == np.bool_
    if not is_mask and 2 < len(array) == count and _are_bits(array):
        raise ValueError(f"{name} looks like a mask of integers: convert it to bool")
    begin = 0
    for part in pieces_of(array, _CHUNK):
        yield np.flatnonzero(part) + begin if is_mask else part
        begin += len(part)


def _are_bits(array: AnyArray) -> bool:
    return all(part.min() >= 0 and part.max() <= 1 for part in pieces_of(array, _CHUNK))


def _ids(value: Any, split: str, name: str, count: int, of: str) -> Iterator[npt.NDArray[Any]]:
    if isinstance(value, MappedSplit):
        yield from value.pieces(split, name)
        return
    source = as_source(value)
    with_columns = is_table(source.value)
    source.check_options(FOR_VALUES, split, is_table=with_columns)
    if not with_columns:
        refuse_frame(source.value, split)
        is_path = isinstance(source.value, str | os.PathLike)
        label = f"{split} ({source.value})" if is_path else split
        array = open_array(source.value, split, known_names(name, "split"))
        yield from _from_array(array, label, count, of)
        return
    table = open_given(source)
    at = id_values_column(table, source, split, _HELD[of])
    for (ids,) in table.chunks([Column(at, "node id", np.dtype(np.int64))], _CHUNK):
        yield ids


def write_split(
    path: Path,
    name: str,
    value: Any,
    count: int,
    *,
    memory: int,
    of: Literal["node", "edge"] = "node",
    remap: Remap | None = None,
) -> FileWriter:
    """Writes a split: the user's node ids, or positions in the edge list, in the user's order.

    Parameters
    ----------
    path : pathlib.Path
    name : str
    value : path, array or tensor
        Node ids or positions, or a boolean mask with a value for each node or edge.
    count : int
        Nodes, or edges of the edge list.
    memory : int
        Bytes.
    of : {"node", "edge"}
    remap : callable, optional
        Takes the column of positions, the memory and the name of the split, and returns the column
        to store; it closes the first one if it is not the same.

    Returns
    -------
    FileWriter
        Sealed, not yet published.

    Raises
    ------
    IndexError
        If a node or an edge does not exist.
    ValueError
        If the value is neither ids nor a mask.
    """
    split = f"split {name!r}" if of == "node" else f"edge split {name!r}"
    with ExitStack() as temporary:
        nodes = TempColumn(path.parent, np.int64, memory)
        temporary.callback(nodes.close)
        for ids in _ids(value, split, name, count, of):
            outside = np.flatnonzero((ids < 0) | (ids >= count))
            if len(outside):
                bad = int(outside[0])
                raise IndexError(
                    f"{split}, position {len(nodes) + bad}: {of} {ids[bad]} is out of range for "
                    f"{count} {of}s"
                )
            nodes.append(ids)
        if remap is not None:
            nodes = remap(nodes, memory, split)
            temporary.callback(nodes.close)
        size = len(nodes)
        header = layout(
            "features", [("rows", "<i8", size)], num_nodes=size, width=1, flags=FLAG_VECTOR
        )
        with sealed_file(path, header) as file:
            for begin in range(0, size, _CHUNK):
                file.append("rows", nodes.read(begin, min(begin + _CHUNK, size)))
    return file
