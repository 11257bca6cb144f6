"""Checks of sampled results against the edge list: a fast but wrong answer does not count.

Each check gets the seeds and the arrays of one run of any contestant, checks an evenly spaced
selection of their edges, and returns the amount of work done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.inputs import Inputs, IntArray, feature_rows, labels_of

__all__ = ["WrongResult", "check_one_hop", "check_subgraph", "check_walks"]

Arrays = Mapping[str, npt.NDArray[Any]]

CHECKED_EDGES = 20_000


class WrongResult(RuntimeError):
    """A result that cannot come from the graph."""


def _demand(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise WrongResult(what)


def _selection(size: int) -> IntArray:
    return np.linspace(0, size - 1, min(size, CHECKED_EDGES)).astype(np.int64)


def _demand_edges(inputs: Inputs, source: IntArray, target: IntArray) -> None:
    at = _selection(source.size)
    _demand(inputs.has_edges(source[at], target[at]), "an edge that the graph does not have")


def check_walks(inputs: Inputs, seeds: IntArray, arrays: Arrays, length: int) -> int:
    """Number of steps taken in `walks`, (n, length + 1) int64; dead ends take none."""
    walks = arrays["walks"]
    _demand(walks.shape == (seeds.size, length + 1), f"walks of the wrong shape {walks.shape}")
    _demand((walks[:, 0] == seeds).all(), "a walk that does not begin at its start")
    before, after = walks[:, :-1], walks[:, 1:]
    going = np.logical_and.accumulate(inputs.degrees[before] > 0, axis=1)
    stays = (after == -1) | (after == before)
    _demand((going | stays).all(), "a step out of a dead end")
    _demand_edges(inputs, before[going], after[going])
    return int(going.sum())


def check_one_hop(inputs: Inputs, seeds: IntArray, arrays: Arrays, fanout: int) -> int:
    """Number of edges from `target`, the seeds repeated, to `source`, their neighbours."""
    source, target = arrays["source"], arrays["target"]
    expected = np.minimum(inputs.degrees[seeds], fanout)
    _demand(np.array_equal(target, np.repeat(seeds, expected)), "a wrong number of neighbours")
    _demand_edges(inputs, target, source)
    return int(source.size)


def check_subgraph(
    inputs: Inputs, seeds: IntArray, arrays: Arrays, fanouts: list[int], with_rows: bool
) -> int:
    """Number of batches in `seeds`, (batches, batch_size); the arrays are those of the last."""
    n_id, (source, target) = arrays["n_id"], arrays["edge_index"]
    batch = seeds[-1]
    _demand(np.array_equal(n_id[: batch.size], batch), "seeds that are not the first nodes")
    _demand(np.unique(n_id).size == n_id.size, "a node with two numbers")
    sampled = np.bincount(target, minlength=n_id.size)
    expected = np.minimum(inputs.degrees[batch], fanouts[0])
    _demand((sampled[: batch.size] == expected).all(), "a wrong number of neighbours")
    _demand_edges(inputs, n_id[target], n_id[source])
    if with_rows:
        rows = feature_rows(n_id, inputs.dim)
        _demand(np.array_equal(arrays["x"], rows), "a row that is not its node's")
        _demand(np.array_equal(arrays["y"], labels_of(n_id)), "a label that is not its node's")
    return len(seeds)
