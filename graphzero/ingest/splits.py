"""Splits: named lists of nodes or edges, such as train, val and test, in ``.gd`` files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.ingest.mapped_splits import MappedSplit
from graphzero.ingest.sources.array_table import load_array
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.opening import open_table
from graphzero.ingest.spill import TempColumn
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.format import FLAG_VECTOR, layout

__all__ = ["check_split_names", "write_split"]

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


def _from_array(
    array: npt.NDArray[Any], name: str, count: int, of: str
) -> Iterator[npt.NDArray[Any]]:
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}: it must be one-dimensional")
    if array.dtype == np.bool_ and len(array) != count:
        raise ValueError(f"{name} is a mask of {len(array)} values for {count} {of}s")
    if array.dtype.kind not in "iub" and len(array):
        held = _HELD[of]
        raise ValueError(f"{name} has dtype {array.dtype}: it must hold {held} or a boolean mask")
    is_mask = array.dtype == np.bool_
    if not is_mask and 2 < len(array) == count and array.min() >= 0 and array.max() <= 1:
        raise ValueError(f"{name} looks like a mask of integers: convert it to bool")
    for begin in range(0, len(array), _CHUNK):
        part = array[begin : begin + _CHUNK]
        yield np.flatnonzero(part) + begin if is_mask else part


def _ids(value: Any, name: str, count: int, of: str) -> Iterator[npt.NDArray[Any]]:
    if isinstance(value, MappedSplit):
        yield from value.pieces(name)
        return
    if not isinstance(value, str | os.PathLike):
        yield from _from_array(load_array(value, name), name, count, of)
        return
    path = Path(value)
    if path.suffix.lower() == ".npy":
        yield from _from_array(load_array(path, name), f"{name} ({path})", count, of)
        return
    table = open_table(path)
    if table.width != 1:
        raise ValueError(
            f"{name} ({path}) has {table.width} columns: it must have one, of {_HELD[of]}"
        )
    for (ids,) in table.chunks([Column(0, "node id", np.dtype(np.int64))], _CHUNK):
        yield ids


def write_split(
    path: Path,
    name: str,
    value: Any,
    count: int,
    *,
    memory: int,
    of: Literal["node", "edge"] = "node",
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
    with closing(TempColumn(path.parent, np.int64, memory)) as nodes:
        for ids in _ids(value, split, count, of):
            outside = np.flatnonzero((ids < 0) | (ids >= count))
            if len(outside):
                bad = int(outside[0])
                raise IndexError(
                    f"{split}, position {len(nodes) + bad}: {of} {ids[bad]} is out of range for "
                    f"{count} {of}s"
                )
            nodes.append(ids)
        size = len(nodes)
        header = layout(
            "features", [("rows", "<i8", size)], num_nodes=size, width=1, flags=FLAG_VECTOR
        )
        with sealed_file(path, header) as file:
            for begin in range(0, size, _CHUNK):
                file.append("rows", nodes.read(begin, min(begin + _CHUNK, size)))
    return file
