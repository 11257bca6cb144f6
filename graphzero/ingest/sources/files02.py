"""Files of graphzero 0.2, as its converters wrote them.

``.gl``: 64 bytes, "graphlit" and seven uint64 (bytes of the row pointers and of the neighbours,
where each begins, nodes, stored edges, whether there are weights), then uint64 row pointers, uint64
neighbours and float32 weights, each from a multiple of 64 bytes. ``.gd``: 32 bytes, "GZDATA26", a
uint32 0, a uint32 dtype code, uint64 rows and columns, then the rows. The layout is that of files
which graphzero 0.2.0 itself wrote.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.sparse_matrix import SparseMatrix
from graphzero.store.format import MAGIC

__all__ = ["features_of_02", "graph_of_02"]

_GRAPH = struct.Struct("<8s7Q")
_ROWS = struct.Struct("<8sIIQQ")
_DTYPES = {0: "<i4", 1: "<i8", 2: "<f4", 3: "<f8"}


def _header(
    path: Path, kind: struct.Struct, magic: bytes, what: str
) -> tuple[tuple[Any, ...], int]:
    """The fields behind the magic number, and the size of the file."""
    with open(path, "rb") as file:
        head, size = file.read(kind.size), os.fstat(file.fileno()).st_size
    if head[:8] in MAGIC.values():
        raise ValueError(
            f"{path} is a file of this version, part of a dataset already: graphzero.open opens "
            f"its folder, and graphzero.reorder writes it in another order"
        )
    if len(head) < kind.size or head[:8] != magic:
        raise ValueError(f"{path} is not a {what} file of graphzero 0.2")
    return kind.unpack(head)[1:], size


def _mapped(path: Path, dtype: str, begin: int, shape: tuple[int, ...], size: int) -> Any:
    count = 1
    for length in shape:
        count *= length
    end = begin + count * np.dtype(dtype).itemsize
    if end > size:
        raise ValueError(f"{path} is truncated: it has {size:,} bytes, not {end:,}; convert again")
    return np.memmap(path, dtype, "r", begin, shape) if count else np.empty(shape, dtype)


def graph_of_02(path: Path) -> SparseMatrix:
    """The stored edges of a ``.gl`` file, which has both directions of an undirected edge.

    Raises
    ------
    ValueError
        If it is none, or truncated.
    OSError
        If it cannot be read.
    """
    fields, size = _header(path, _GRAPH, b"graphlit", "graph")
    pointer_bytes, index_bytes, pointers_at, indices_at, nodes, edges, weighted = fields
    if (pointer_bytes, index_bytes) != (8 * (nodes + 1), 8 * edges) or weighted not in (0, 1):
        raise ValueError(f"{path} is damaged: its header contradicts itself; convert again")
    pointers = _mapped(path, "<u8", pointers_at, (nodes + 1,), size)
    indices = _mapped(path, "<u8", indices_at, (edges,), size)
    weights_at = -(-(indices_at + index_bytes) // 64) * 64
    weights = _mapped(path, "<f4", weights_at, (edges,), size) if weighted else None
    return SparseMatrix(os.fspath(path), "csr", (nodes, nodes), pointers, indices, weights)


def features_of_02(path: Path) -> npt.NDArray[Any]:
    """The rows of a ``.gd`` file, mapped.

    Raises
    ------
    ValueError
        If it is none, or truncated.
    OSError
        If it cannot be read.
    """
    (_, code, rows, columns), size = _header(path, _ROWS, b"GZDATA26", "feature")
    if code not in _DTYPES:
        raise ValueError(f"{path} is damaged: it has dtype code {code}; convert again")
    array: npt.NDArray[Any] = _mapped(path, _DTYPES[code], _ROWS.size, (rows, columns), size)
    return array
