"""Negatives whose nodes are drawn by weight, or among the nodes that exist at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.sampling.negatives import Pairs
from graphzero.sampling.weighted_draws import WeightedDraws, as_fractions

__all__ = ["Candidates", "choose_negatives"]

_TRIES = 2000  # of each negative


@dataclass(frozen=True)
class Candidates:
    """How nodes are drawn for one end of negatives.

    Attributes
    ----------
    num_nodes : int
    weights : WeightedDraws or None
        Of the nodes; None draws them uniformly.
    times : tuple of FeatureStore
        Times of the nodes: those later than the time of the seed edge are not drawn.
    """

    num_nodes: int
    weights: WeightedDraws | None = None
    times: tuple[FeatureStore, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether any node may be drawn, with the same probability."""
        return self.weights is None and not self.times

    def draw(self, draws: npt.NDArray[np.uint64]) -> IdArray:
        """The user's ids of the nodes that some random bits choose."""
        if self.weights is not None:
            return self.weights.items(draws)
        drawn: IdArray = (as_fractions(draws) * self.num_nodes).astype(np.int64)
        return np.minimum(drawn, self.num_nodes - 1)

    def are_later(self, nodes: IdArray, times: IdArray | None) -> npt.NDArray[np.bool_]:
        """Whether nodes are later than times, one for each."""
        later = np.zeros(len(nodes), dtype=bool)
        for store in self.times if times is not None else ():
            later |= store.gather(nodes) > times
        return later


def choose_negatives(
    pairs: Pairs,
    ends: tuple[Candidates, Candidates],
    count: int,
    times: IdArray | None,
    key: int,
    *,
    seed_edges: IdArray | None = None,
) -> IdArray:
    """Pairs of nodes that are not edges, (2, count) int64, the user's ids.

    Both ends are drawn independently, and pairs that are edges, or are later than their time, are
    drawn again. Negative i is a function of the key and i.

    Parameters
    ----------
    pairs : Pairs
    ends : (Candidates, Candidates)
        Of the sources, and of the destinations.
    count : int
    times : (count,) int64, optional
        A time for each negative.
    key : int
        From `negatives_key`.
    seed_edges : (2, count) int64, optional
        Keep its sources, and draw destinations other than its own.

    Raises
    ------
    ValueError
        If none was found for a negative.
    """
    found = np.empty((2, count), dtype=np.int64)
    pending = np.arange(count)
    for attempt in range(_TRIES):
        if len(pending) == 0:
            return found
        draws = _core.draws(_core.stream(key, attempt), 2 * (int(pending[-1]) + 1))
        drawn = draws.reshape(-1, 2)[pending]
        sources, destinations = (end.draw(drawn[:, i]) for i, end in enumerate(ends))
        at = None if times is None else times[pending]
        wrong = ends[1].are_later(destinations, at)
        if seed_edges is None:
            wrong |= ends[0].are_later(sources, at)
        else:
            sources = seed_edges[0, pending]
            wrong |= destinations == seed_edges[1, pending]
        if not pairs.is_bipartite:
            wrong |= sources == destinations
        wrong |= _are_edges(pairs, sources, destinations)
        found[:, pending] = sources, destinations
        pending = pending[wrong]
    if len(pending) == 0:
        return found
    raise ValueError(
        f"no negative was found in {_TRIES:,} draws"
        f"{'' if seed_edges is None else f' for the source {seed_edges[0, pending[0]]}'}: nearly "
        f"all pairs that the weights, or the times of the nodes, allow are edges; give more nodes "
        f"a weight, or leave src_weight and dst_weight out"
    )


def _are_edges(pairs: Pairs, sources: IdArray, destinations: IdArray) -> npt.NDArray[np.bool_]:
    """Whether pairs are edges, by binary searches in the lists, which are sorted."""
    owners, others = pairs.sources.to_stored(sources), pairs.destinations.to_stored(destinations)
    if pairs.graph.is_incoming:
        owners, others = others, owners
    indptr, indices = pairs.graph.indptr, pairs.graph.indices
    low, end = indptr[owners].astype(np.int64), indptr[owners + 1].astype(np.int64)
    high = end.copy()
    while (open_ := low < high).any():  # the first neighbour that is not below
        middle = (low[open_] + high[open_]) // 2
        below = indices[middle] < others[open_]
        low[open_] = np.where(below, middle + 1, low[open_])
        high[open_] = np.where(below, high[open_], middle)
    is_edge = low < end
    is_edge[is_edge] = indices[low[is_edge]] == others[is_edge]
    return is_edge
