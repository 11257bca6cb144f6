"""Writes the files of graphzero 0.2 directly: its own converter reads only CSV.

2^21 rows of 128 columns are over 2 GB of CSV. The benchmark has graphzero 0.2 convert a small CSV
and compares the bytes before it trusts what is written here.
"""

from __future__ import annotations

import os
import struct

import numpy as np
import numpy.typing as npt

__all__ = ["write_features", "write_graph"]

ALIGNMENT = 64
FLOAT32 = 2


def write_graph(
    path: str | os.PathLike[str], degrees: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]
) -> None:
    """Writes an unweighted ``.gl`` file.

    Parameters
    ----------
    path : path-like
    degrees : (num_nodes,) int64
        Out-degrees.
    targets : (num_edges,) int64
        Targets of all edges, ordered by source.
    """
    indptr = np.zeros(degrees.size + 1, dtype="<u8")
    np.cumsum(degrees, out=indptr[1:], dtype="<u8")
    indices_at = -(-(ALIGNMENT + indptr.nbytes) // ALIGNMENT) * ALIGNMENT
    counts = (indptr.nbytes, 8 * targets.size, ALIGNMENT, indices_at, degrees.size, targets.size, 0)
    with open(path, "wb") as file:
        file.write(struct.pack("<8s7Q", b"graphlit", *counts))
        indptr.tofile(file)
        file.write(bytes(indices_at - file.tell()))
        targets.astype("<u8", copy=False).tofile(file)


def write_features(path: str | os.PathLike[str], rows: npt.NDArray[np.float32]) -> None:
    """Writes a ``.gd`` file of (num_nodes, dim) float32 rows."""
    with open(path, "wb") as file:
        file.write(struct.pack("<8sIIQQ", b"GZDATA26", 0, FLOAT32, *rows.shape))
        rows.astype("<f4", copy=False).tofile(file)
