"""Splits: named lists of nodes such as train, val and test, each in its own ``.gd`` file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.columns import Column
from graphzero.ingest.spill import TempColumn
from graphzero.ingest.tables import load_array, open_table
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.format import FLAG_VECTOR, layout

__all__ = ["check_split_names", "write_split"]

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_CHUNK = 1 << 20


def check_split_names(splits: Mapping[str, Any]) -> None:
    """Raises ValueError for names that cannot be part of a file name.

    Raises
    ------
    ValueError
    """
    for name in splits:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"split name {name!r} has other characters than A-Z a-z 0-9 _ -")


def _from_array(array: npt.NDArray[Any], name: str, num_nodes: int) -> Iterator[npt.NDArray[Any]]:
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}: it must be one-dimensional")
    if array.dtype == np.bool_ and len(array) != num_nodes:
        raise ValueError(f"{name} is a mask of {len(array)} values for {num_nodes} nodes")
    if array.dtype.kind not in "iub" and len(array):
        raise ValueError(f"{name} has dtype {array.dtype}: it must hold node ids or a boolean mask")
    is_mask = array.dtype == np.bool_
    if not is_mask and 2 < len(array) == num_nodes and array.min() >= 0 and array.max() <= 1:
        raise ValueError(f"{name} looks like a mask of integers: convert it to bool")
    for begin in range(0, len(array), _CHUNK):
        part = array[begin : begin + _CHUNK]
        yield np.flatnonzero(part) + begin if is_mask else part


def _ids(value: Any, name: str, num_nodes: int) -> Iterator[npt.NDArray[Any]]:
    if not isinstance(value, str | os.PathLike):
        yield from _from_array(load_array(value, name), name, num_nodes)
        return
    path = Path(value)
    if path.suffix.lower() == ".npy":
        yield from _from_array(load_array(path, name), f"{name} ({path})", num_nodes)
        return
    table = open_table(path)
    if table.width != 1:
        raise ValueError(
            f"{name} ({path}) has {table.width} columns: it must have one, of node ids"
        )
    for (ids,) in table.chunks([Column(0, "node id", np.dtype(np.int64))], _CHUNK):
        yield ids


def write_split(path: Path, name: str, value: Any, num_nodes: int, *, memory: int) -> FileWriter:
    """Writes a split: the user's ids in the user's order.

    Parameters
    ----------
    path : pathlib.Path
    name : str
    value : path, array or tensor
        Node ids, or a boolean mask with a value for each node.
    num_nodes : int
    memory : int
        Bytes.

    Returns
    -------
    FileWriter
        Sealed, not yet published.

    Raises
    ------
    IndexError
        If a node does not exist.
    ValueError
        If the value is neither ids nor a mask.
    """
    split = f"split {name!r}"
    with closing(TempColumn(path.parent, np.int64, memory)) as nodes:
        for ids in _ids(value, split, num_nodes):
            outside = np.flatnonzero((ids < 0) | (ids >= num_nodes))
            if len(outside):
                bad = int(outside[0])
                raise IndexError(
                    f"{split}, position {len(nodes) + bad}: node {ids[bad]} is out of range for "
                    f"{num_nodes} nodes"
                )
            nodes.append(ids)
        count = len(nodes)
        header = layout(
            "features", [("rows", "<i8", count)], num_nodes=count, width=1, flags=FLAG_VECTOR
        )
        with sealed_file(path, header) as file:
            for begin in range(0, count, _CHUNK):
                file.append("rows", nodes.read(begin, min(begin + _CHUNK, count)))
    return file
