"""What scripts for graphzero 0.2 use: methods of ``Graph``, and names of arguments.

They are documented and keep working, but are not listed by ``dir`` nor in signatures, so that
autocompletion offers the current names only.

Differences from 0.2, all of them bug fixes: a walk that reaches a dead end repeats its last node
in every later column, a fanout is padded with valid ids, ids out of range raise `IndexError`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.ids import IdArray, as_count
from graphzero.graph.sampled_neighbors import SampledNeighbors
from graphzero.graph.sampling_options import Sampling
from graphzero.store.mapped_file import MappedFile

__all__ = ["LegacyGraphMethods", "OpenedByPath", "either", "unlisted"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def unlisted(old_name: str) -> Callable[[_Function], _Function]:
    """Decorator: leaves an argument's name of 0.2 out of the function's signature."""

    def hide(function: _Function) -> _Function:
        signature = inspect.signature(function)
        shown = [each for each in signature.parameters.values() if each.name != old_name]
        function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return function

    return hide


def either(name: str, value: Any, old_name: str, old_value: Any) -> Any:
    """The argument, given by its name or by its name in 0.2.

    Raises
    ------
    TypeError
        If neither or both were given.
    """
    if (value is None) == (old_value is None):
        raise TypeError(f"give {name} ({old_name} is its name in graphzero 0.2)")
    return value if value is not None else old_value


class OpenedByPath(MappedFile):
    """A mapped file, opened by `path`, or by `filename` as in 0.2."""

    @unlisted("filename")
    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        filename: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(either("path", path, "filename", filename))


class _Graph(Protocol):
    """The members of `Graph` that the methods below use."""

    _legacy_calls: int

    @property
    def path(self) -> str: ...
    @property
    def weights(self) -> npt.NDArray[np.float32] | None: ...
    def lists_of(self, direction: Literal["out"], what: str) -> _Graph: ...
    def degree(self, nodes: int, direction: Literal["out"]) -> int: ...
    def neighbors(self, node: int, direction: Literal["out"]) -> IdArray: ...
    def random_walk(
        self, start: Any, length: int, *, p: float = ..., q: float = ..., seed: int = ...
    ) -> IdArray: ...
    def sample_neighbors(self, seeds: Any, fanout: int, *, seed: int) -> SampledNeighbors: ...
    def batch_random_walk(
        self, start_nodes: Any, walk_length: int, p: float = ..., q: float = ...
    ) -> IdArray: ...
    def _stored_list(self, node: Any) -> tuple[int, int, IdArray]: ...
    def _sample_hop(
        self, seeds: Any, fanout: int, sampling: Sampling, seed: int, *, by_seed: bool
    ) -> SampledNeighbors: ...
    def _legacy_seed(self) -> int: ...


def _listed(names: Iterable[str]) -> list[str]:
    return [each for each in names if each[0] == "_" or each not in vars(LegacyGraphMethods)]


class _ListsCurrentNames(type):
    """Type of classes whose ``dir`` leaves out the methods of 0.2."""

    def __dir__(cls) -> list[str]:
        return _listed(super().__dir__())


class LegacyGraphMethods(metaclass=_ListsCurrentNames):
    """Mixed into `Graph`. 0.2 took no seed: the calls of a graph draw a fixed sequence."""

    _legacy_calls: int = 0

    def __dir__(self) -> list[str]:
        return _listed(super().__dir__())

    def _legacy_seed(self) -> int:
        self._legacy_calls += 1
        return self._legacy_calls

    def get_degree(self: _Graph, node_id: int) -> int:
        """`Graph.degree` of one node: of its out-neighbours, as in all methods of 0.2."""
        return self.degree(node_id, "out")

    def get_neighbours(self: _Graph, node_id: int) -> IdArray:
        """`Graph.neighbors`, the out-neighbours."""
        return self.neighbors(node_id, "out")

    @property
    def has_weights(self: _Graph) -> bool:
        """Whether the file has edge weights."""
        return self.weights is not None

    def get_weights(self: _Graph, node_id: int) -> npt.NDArray[np.float32]:
        """Weights of one node's edges, in the order of `get_neighbours`, (degree,) float32.

        Raises
        ------
        ValueError
            If the graph has no weights.
        """
        lists = self.lists_of("out", "these weights are of edges to")
        if lists.weights is None:
            raise ValueError(f"{self.path} has no edge weights")
        begin, end, neighbors = lists._stored_list(node_id)
        return lists.weights[begin:end][np.argsort(neighbors, kind="stable")]

    def sample_neighbours(self: _Graph, start_node: int, K: int) -> IdArray:
        """Up to K distinct neighbours of one node, (min(K, degree),) int64."""
        sampled = self.lists_of("out", "this samples").sample_neighbors(
            np.array([start_node]), as_count(K, "K"), seed=self._legacy_seed()
        )
        return sampled.indices

    def batch_random_walk(
        self: _Graph, start_nodes: Any, walk_length: int, p: float = 1.0, q: float = 1.0
    ) -> IdArray:
        """Walks of walk_length nodes, the start included, (n, walk_length) int64.

        After a dead end the last node is repeated.
        """
        steps = as_count(walk_length, "walk_length") - 1
        if steps == 0:
            # a step is drawn all the same, to validate the arguments
            return self.random_walk(start_nodes, 1, p=p, q=q)[:, :1].copy()
        walks = self.random_walk(start_nodes, steps, p=p, q=q, seed=self._legacy_seed())
        ended_at = np.where(walks >= 0, np.arange(steps + 1), 0)
        return np.take_along_axis(walks, np.maximum.accumulate(ended_at, axis=1), axis=1)

    def batch_random_walk_uniform(self: _Graph, start_nodes: Any, walk_length: int) -> IdArray:
        """`batch_random_walk` with p = q = 1."""
        return self.batch_random_walk(start_nodes, walk_length)

    def batch_random_fanout(self: _Graph, start_nodes: Any, K: int) -> IdArray:
        """K neighbours of each node, (n, K) int64.

        Without replacement if the degree is at least K. With a smaller degree, all neighbours, and
        then some drawn with replacement; without neighbours, the node itself.
        """
        K = as_count(K, "K")
        lists, seed = self.lists_of("out", "this samples"), self._legacy_seed()
        try:  # the result, and the columns that are compared with each node's count
            _core.require_memory((np.size(start_nodes) + 1) * K, 2 * 8, "neighbours")
        except MemoryError as error:
            raise MemoryError(
                f"no memory for K={K} of {np.size(start_nodes):,} nodes ({error}): "
                f"use a smaller K, or fewer nodes in a call"
            ) from None
        sampled = lists._sample_hop(start_nodes, K, Sampling(), seed, by_seed=True)
        counts = np.diff(sampled.indptr)
        start = np.asarray(start_nodes, dtype=np.int64)
        out = np.repeat(start[:, np.newaxis], K, axis=1)
        column = np.arange(K)
        out[column < counts[:, np.newaxis]] = sampled.indices
        short = np.flatnonzero((counts > 0) & (counts < K))
        if short.size:
            # another seed: the same one would draw the same neighbours in the same places
            again = Sampling(replace=True)
            redrawn = lists._sample_hop(start[short], K, again, ~seed, by_seed=True)
            missing = column >= counts[short, np.newaxis]
            out[short] = np.where(missing, redrawn.indices.reshape(-1, K), out[short])
        return out
