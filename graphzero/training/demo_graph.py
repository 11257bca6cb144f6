"""A synthetic graph whose neighbours tell the labels, for ``graphzero demo`` and for tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.store.atomic import refuse_special

__all__ = ["DemoFiles", "write_demo"]

_BLOCK = 1 << 16
_INSIDE = 0.7  # share of the edges whose ends are drawn from the same community
_SIGNAL = 0.6  # norm of a class's mean feature vector; the noise has deviation 1 in every column
_TAIL = 2.5  # exponent of the power law of the degrees

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DemoFiles:
    """The input files that `write_demo` writes: what a user of graphzero would begin with."""

    edges: Path
    features: Path
    labels: Path
    splits: dict[str, Path]

    @classmethod
    def in_folder(cls, folder: str | os.PathLike[str]) -> DemoFiles:
        """Paths of the files in a folder, whether they exist or not."""
        folder = Path(folder)
        return cls(
            edges=folder / "edges.csv",
            features=folder / "features.npy",
            labels=folder / "labels.npy",
            splits={name: folder / f"{name}.npy" for name in ("train", "val", "test")},
        )

    @property
    def paths(self) -> list[Path]:
        """Every file."""
        return [self.edges, self.features, self.labels, *self.splits.values()]


@dataclass(frozen=True)
class _Communities:
    """Nodes grouped by community, each with a weight: how likely it is to be an edge's end.

    Attributes
    ----------
    members : (num_nodes,) int64
        Nodes, community by community.
    starts : (num_communities + 1,) int64
        Position in `members` where each community begins.
    weights : (num_nodes + 1,) float64
        Cumulative sum of the weights of `members`, starting with 0.
    """

    members: Ints
    starts: Ints
    weights: Floats

    def draw(self, rng: np.random.Generator, low: Any, high: Any, count: int) -> Ints:
        """Positions in `members`, drawn by weight; `low` and `high` bound the cumulative sum."""
        drawn = rng.random(count) * (high - low) + low
        after = np.searchsorted(self.weights, drawn, side="right")
        positions: Ints = np.minimum(after, self.members.size) - 1
        return positions


def _communities(rng: np.random.Generator, labels: Ints, num_classes: int) -> _Communities:
    members = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[members], np.arange(num_classes + 1))
    # Capped, so that no node gets more than a small share of all edges.
    weights = np.minimum(rng.pareto(_TAIL - 1, labels.size) + 1, labels.size**0.5)
    return _Communities(members, starts, np.concatenate([[0.0], np.cumsum(weights)]))


def _edges(rng: np.random.Generator, groups: _Communities, count: int) -> npt.NDArray[np.int64]:
    """(count, 2) node ids."""
    source = groups.draw(rng, 0.0, groups.weights[-1], count)
    community = np.searchsorted(groups.starts, source, side="right") - 1
    inside = rng.random(count) < _INSIDE
    low = np.where(inside, groups.weights[groups.starts[community]], 0.0)
    high = np.where(inside, groups.weights[groups.starts[community + 1]], groups.weights[-1])
    target = groups.draw(rng, low, high, count)
    return groups.members[np.stack([source, target], axis=1)]


def _write_edges(
    path: Path,
    rng: np.random.Generator,
    groups: _Communities,
    count: int,
    advance: Callable[[int], object],
) -> None:
    with open(path, "w") as file:
        file.write("src,dst\n")
        for begin in range(0, count, _BLOCK):
            pairs = _edges(rng, groups, min(_BLOCK, count - begin))
            file.write("".join(map("%d,%d\n".__mod__, map(tuple, pairs.tolist()))))
            advance(len(pairs))


def _write_features(path: Path, rng: np.random.Generator, labels: Ints, means: Floats) -> None:
    shape = (labels.size, means.shape[1])
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    for begin in range(0, labels.size, _BLOCK):
        part = labels[begin : begin + _BLOCK]
        noise = rng.standard_normal((part.size, shape[1]), dtype=np.float32)
        rows[begin : begin + part.size] = means[part] + noise
    rows.flush()


def write_demo(
    folder: str | os.PathLike[str],
    *,
    num_nodes: int = 200_000,
    num_edges: int = 3_000_000,
    dim: int = 128,
    num_classes: int = 16,
    seed: int = 0,
    advance: Callable[[int], object] = lambda count: None,
) -> DemoFiles:
    """Writes ``edges.csv`` and ``.npy`` files of a synthetic graph with communities.

    A node's class is its community. The degrees follow a power law, and seven of ten edges stay
    within a community. A feature row is the mean of the class plus noise. There is so much noise
    that a node's own features say little about its class; those of its neighbours say more.

    Parameters
    ----------
    folder : path-like
        Created if it does not exist.
    num_nodes, num_edges : int
    dim : int
        Features of a node.
    num_classes : int
    seed : int
    advance : callable, optional
        Called after each block of edges with their number.

    Returns
    -------
    DemoFiles

    Raises
    ------
    ValueError
        If a size is not positive, or there are more classes than nodes.
    OSError
        If a file of one of these names is no regular file.
    """
    for name, value in (("num_nodes", num_nodes), ("num_edges", num_edges), ("dim", dim)):
        if value < 1:
            raise ValueError(f"{name} must be positive, not {value}")
    if not 2 <= num_classes <= num_nodes:
        raise ValueError(f"there must be 2 to {num_nodes} classes, not {num_classes}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in DemoFiles.in_folder(folder).paths:
        refuse_special(path)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(num_nodes) % num_classes)
    files = DemoFiles.in_folder(folder)
    _write_edges(files.edges, rng, _communities(rng, labels, num_classes), num_edges, advance)
    means = rng.standard_normal((num_classes, dim))
    means *= _SIGNAL / np.linalg.norm(means, axis=1, keepdims=True)
    _write_features(files.features, rng, labels, means)
    np.save(files.labels, labels)
    parts = np.split(rng.permutation(num_nodes), [num_nodes * 6 // 10, num_nodes * 8 // 10])
    for name, nodes in zip(files.splits, parts, strict=True):
        np.save(files.splits[name], np.sort(nodes))
    return files
