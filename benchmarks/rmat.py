"""R-MAT graphs: Chakrabarti, Zhan, Faloutsos, "R-MAT: A Recursive Model for Graph Mining", 2004."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["edge_chunk", "write_edges"]

QUADRANTS = (0.57, 0.19, 0.19, 0.05)
CHUNK_EDGES = 1 << 20


def edge_chunk(
    rng: np.random.Generator,
    scale: int,
    num_edges: int,
    quadrants: tuple[float, float, float, float] = QUADRANTS,
) -> npt.NDArray[np.int64]:
    """Draws edges by descending into one quadrant of the adjacency matrix per bit of the ids.

    Parameters
    ----------
    rng : numpy.random.Generator
    scale : int
        Bits of a node id: the graph has 2^scale nodes.
    num_edges : int
    quadrants : tuple of float
        Probabilities a, b, c, d of the four quadrants; they sum to 1.

    Returns
    -------
    (num_edges, 2) int64
        Source and target. Low ids have high degrees; repeats and self-loops occur.
    """
    a, b, c, _ = quadrants
    edges = np.zeros((num_edges, 2), dtype=np.int64)
    for _ in range(scale):
        draw = rng.random(num_edges, dtype=np.float32)
        lower = draw >= a + b
        right = ((draw >= a) & ~lower) | (draw >= a + b + c)
        edges <<= 1
        edges[:, 0] |= lower
        edges[:, 1] |= right
    return edges


def write_edges(
    path: str | os.PathLike[str],
    scale: int,
    num_edges: int,
    *,
    seed: int = 0,
    num_nodes: int | None = None,
) -> np.memmap[Any, np.dtype[np.int64]]:
    """Writes an R-MAT edge list in pieces, so that memory stays bounded.

    A random permutation scrambles the ids, so that they do not reveal the degrees.

    Parameters
    ----------
    path : path-like
        The ``.npy`` file to write.
    scale : int
        Bits of a node id.
    num_edges, seed : int
        Equal arguments give equal files.
    num_nodes : int, optional
        At most 2^scale, the default. Edges of nodes beyond, which have the lowest degrees, are
        redrawn.

    Returns
    -------
    (num_edges, 2) int64
        The file, mapped read-only.
    """
    rng = np.random.default_rng(seed)
    scrambled = rng.permutation(1 << scale if num_nodes is None else num_nodes)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.int64, shape=(num_edges, 2))
    begin = 0
    while begin < num_edges:
        drawn = edge_chunk(rng, scale, min(CHUNK_EDGES, num_edges - begin))
        drawn = drawn[drawn.max(axis=1) < scrambled.size]
        out[begin : begin + len(drawn)] = scrambled[drawn]
        begin += len(drawn)
    out.flush()
    edges: np.memmap[Any, np.dtype[np.int64]] = np.load(path, mmap_mode="r")
    return edges
