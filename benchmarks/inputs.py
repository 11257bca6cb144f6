"""The graph and the rows of a benchmark, and the ground truth for its results."""

from __future__ import annotations

import json
import mmap
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from benchmarks import files02, rmat

if TYPE_CHECKING:
    import graphzero as gz

__all__ = ["Inputs", "feature_rows", "labels_of", "open_built", "open_warm", "prepare"]

IntArray = npt.NDArray[np.int64]

CHUNK_ROWS = 1 << 14
NUM_CLASSES = 47


def feature_rows(nodes: IntArray, dim: int) -> npt.NDArray[np.float32]:
    """Rows of some nodes, computed from node and column so that any row can be checked.

    Parameters
    ----------
    nodes : (n,) int64
    dim : int

    Returns
    -------
    (n, dim) float32
    """
    values = (nodes[:, None] * 131 + np.arange(dim)) % 8191
    return (values / np.float32(8191)).astype(np.float32)


def labels_of(nodes: IntArray) -> IntArray:
    """Classes of some nodes, (n,) int64, computed from the node."""
    return nodes * 7919 % NUM_CLASSES


@dataclass(frozen=True)
class Inputs:
    """Files of one R-MAT graph in one folder.

    Attributes
    ----------
    folder : str
    scale, num_edges, dim, seed : int
        2^scale nodes, directed edges, columns of the rows, seed of the generator.
    """

    folder: str
    scale: int
    num_edges: int
    dim: int
    seed: int

    @property
    def num_nodes(self) -> int:
        """2^scale."""
        return 1 << self.scale

    def path(self, name: str) -> Path:
        """Path of one file in the folder."""
        return Path(self.folder) / name

    @cached_property
    def keys(self) -> IntArray:
        """source * num_nodes + target of every edge, sorted, (num_edges,) int64."""
        return np.load(self.path("keys.npy"))  # type: ignore[no-any-return]

    @cached_property
    def degrees(self) -> IntArray:
        """Out-degrees, (num_nodes,) int64."""
        return np.load(self.path("degrees.npy"))  # type: ignore[no-any-return]

    def seeds(self, purpose: int, number: int, count: int) -> IntArray:
        """Distinct nodes that have neighbours, (count,) int64, by purpose and run number."""
        rng = np.random.default_rng([self.seed, purpose, number])
        nodes = np.flatnonzero(self.degrees)
        return rng.choice(nodes, min(count, nodes.size), replace=False)

    def has_edges(self, source: IntArray, target: IntArray) -> bool:
        """Whether every pair is an edge of the graph."""
        if source.size == 0:
            return True
        if min(source.min(), target.min()) < 0 or target.max() >= self.num_nodes:
            return False
        keys = source * self.num_nodes + target
        at = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return bool((self.keys[at] == keys).all())


def prepare(
    folder: str | os.PathLike[str], *, scale: int, num_edges: int, dim: int, seed: int = 0
) -> Inputs:
    """Writes the files of a graph, unless an earlier call has written them.

    Beside ``edges.npy``, ``features.npy`` and ``labels.npy``, these are ``keys.npy`` and
    ``degrees.npy``, which results are checked against, and the files of graphzero 0.2.
    """
    home = Path(folder) / f"rmat-{scale}-{num_edges}-{dim}-{seed}"
    inputs = Inputs(str(home), scale, num_edges, dim, seed)
    marker = home / "inputs.json"
    if not marker.exists():
        home.mkdir(parents=True, exist_ok=True)
        _write_graph(inputs)
        _write_features(inputs)
        marker.write_text(json.dumps(asdict(inputs)))
    np.save(inputs.path("labels.npy"), labels_of(np.arange(inputs.num_nodes)))
    return inputs


def open_built(inputs: Inputs, name: str, order: Literal["hot", "input"]) -> gz.Dataset:
    """The dataset that graphzero builds from the inputs, once, in this folder and order."""
    import graphzero as gz

    folder = inputs.path(name)
    if not (folder / "dataset.json").exists():
        gz.build(
            folder,
            edges=inputs.path("edges.npy"),
            features=inputs.path("features.npy"),
            labels=inputs.path("labels.npy"),
            directed=True,
            neighbors="out",  # which walks need; the contestants sample the same lists
            order=order,
        )
    return gz.open(folder)


def open_warm(inputs: Inputs, name: str, order: Literal["hot", "input"]) -> gz.Dataset:
    """As `open_built`, after a read of every page of its files."""
    dataset = open_built(inputs, name, order)
    for path in dataset.paths:
        np.memmap(path, dtype=np.uint8, mode="r")[:: mmap.PAGESIZE].max()
    return dataset


def _write_graph(inputs: Inputs) -> None:
    edges = rmat.write_edges(
        inputs.path("edges.npy"), inputs.scale, inputs.num_edges, seed=inputs.seed
    )
    keys = edges[:, 0] * inputs.num_nodes + edges[:, 1]
    keys.sort()
    np.save(inputs.path("keys.npy"), keys)
    degrees = np.bincount(keys >> inputs.scale, minlength=inputs.num_nodes)
    np.save(inputs.path("degrees.npy"), degrees)
    files02.write_graph(inputs.path("graph02.gl"), degrees, keys & (inputs.num_nodes - 1))


def _write_features(inputs: Inputs) -> None:
    shape = (inputs.num_nodes, inputs.dim)
    rows: np.memmap[Any, Any] = np.lib.format.open_memmap(
        inputs.path("features.npy"), mode="w+", dtype=np.float32, shape=shape
    )
    for begin in range(0, inputs.num_nodes, CHUNK_ROWS):
        nodes = np.arange(begin, min(begin + CHUNK_ROWS, inputs.num_nodes))
        rows[begin : begin + nodes.size] = feature_rows(nodes, inputs.dim)
    rows.flush()
    files02.write_features(inputs.path("features02.gd"), rows)
