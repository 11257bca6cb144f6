"""Negatives: pairs of nodes that are not edges, drawn uniformly, by weight, or by time."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.features import FeatureStore
from graphzero.graph.nodes_and_edges import EdgeStore
from graphzero.graph.user_input import IdArray, Sampling, as_array, as_threads
from graphzero.units import as_count

_LISTS_LOOKED_AT = 1 << 12  # for short ones
_TRIES = 2000  # of each negative


_NAMES = ("mode", "amount", "src_weight", "dst_weight")


@dataclass(frozen=True)
class NegativeOptions:
    """How negatives are drawn: options of `LinkNeighborDataset`, which describes them, checked.

    Raises
    ------
    ValueError
        If an option is invalid, or has no meaning without another.
    """

    mode: Literal["binary", "triplet"] | None = None
    amount: float = 1
    src_weight: object = None
    dst_weight: object = None

    def __post_init__(self) -> None:
        if self.mode not in (None, "binary", "triplet"):
            raise ValueError(f"neg_sampling must be None, 'binary' or 'triplet', not {self.mode!r}")
        object.__setattr__(self, "amount", self._checked_amount())
        weights = {"src_weight": self.src_weight, "dst_weight": self.dst_weight}
        names = [name for name, values in weights.items() if values is not None]
        if names and self.mode is None:
            raise ValueError(f"{' and '.join(names)} draw negatives: give neg_sampling as well")
        if self.src_weight is not None and self.mode == "triplet":
            raise ValueError("triplets draw destinations only: leave src_weight out")

    def _checked_amount(self) -> float:
        amount: Any = self.amount
        if self.mode == "triplet":
            return as_count(amount, "amount")
        is_number = isinstance(amount, Real) and not isinstance(amount, bool)
        if not (is_number and math.isfinite(amount) and amount > 0):
            raise ValueError(f"amount must be a positive number, not {amount!r}")
        return float(amount)


def as_negative_options(neg_sampling: object, ratio: float | None) -> NegativeOptions:
    """How negatives are drawn, from any way in which PyG takes it.

    Raises
    ------
    ValueError
        If both are given, or no mode.
    """
    if ratio is not None and ratio != 0:
        if neg_sampling is not None:
            raise ValueError("give neg_sampling or neg_sampling_ratio, not both")
        neg_sampling = ("binary", ratio)
    if neg_sampling is None:
        return NegativeOptions()
    values: dict[str, Any]
    if isinstance(neg_sampling, str):
        values = {"mode": neg_sampling}
    elif isinstance(neg_sampling, (tuple, list)):
        values = dict(zip(_NAMES, neg_sampling, strict=False))
    elif isinstance(neg_sampling, Mapping):
        values = dict(neg_sampling)
    else:
        values = {name: getattr(neg_sampling, name, None) for name in _NAMES}
    mode = values.get("mode")
    if mode is None or not set(values) <= set(_NAMES):
        raise ValueError(
            f"neg_sampling must be 'binary', 'triplet', (mode, amount), a dict of {_NAMES}, or "
            f"PyG's NegativeSampling, not {neg_sampling!r}"
        )
    return NegativeOptions(
        mode=getattr(mode, "value", mode),  # of PyG's enum
        amount=values.get("amount", 1),
        src_weight=values.get("src_weight"),
        dst_weight=values.get("dst_weight"),
    )


def is_bipartite(edges: EdgeStore) -> bool:
    """Whether edges are between two node types; else a node and itself are no negative."""
    return edges.source is not edges.target


def negatives_key(seed: int, epoch: int, batch: int) -> int:
    """The key of the draws of one mini-batch."""
    return _core.key("negative", seed, epoch, batch)


def check_sources(edges: EdgeStore, seed_edges: IdArray) -> None:
    """Refuses seed edges whose source has an edge to every node."""
    csr, threads = edges.graph._csr, as_threads(None)
    sources, positives = _stored_ends(edges, seed_edges)
    if edges.graph.is_incoming:
        suspects = np.flatnonzero(np.isin(sources, _in_shortest_lists(edges)))
    else:  # only the longest lists are read: reading one costs more than finding its length
        few = edges.target.num_nodes - 2
        suspects = np.flatnonzero(csr.degrees(sources, threads) >= few)
    drawn = csr.negative_destinations(
        sources[suspects], positives[suspects], 1, 0, is_bipartite(edges)
    )
    for at in suspects[drawn < 0][:1]:
        raise ValueError(
            f"edge_label_index[0][{at}] = {seed_edges[0, at]} has every node as neighbour, and so "
            f"no negatives: leave its edges out, or use neg_sampling='binary'"
        )


def _stored_ends(edges: EdgeStore, seed_edges: IdArray) -> tuple[IdArray, IdArray]:
    return edges.source.to_stored(seed_edges[0]), edges.target.to_stored(seed_edges[1])


def _in_shortest_lists(edges: EdgeStore) -> IdArray:
    """Stored ids with an edge to one of three nodes; whoever has edges to all nodes is among them.

    Of three nodes, at least one is neither the source nor the destination of a seed edge.
    """
    graph = edges.graph
    step = max(1, graph.num_nodes // _LISTS_LOOKED_AT)
    nodes = np.arange(0, graph.num_nodes, step)
    if len(nodes) < 3:
        return np.arange(edges.source.num_nodes)
    csr, threads = graph._csr, as_threads(None)
    shortest = nodes[np.argsort(csr.degrees(nodes, threads), kind="stable")[:3]]
    _, _, neighbors = csr.sample_hop(shortest, -1, Sampling(), _core.Draws(0, 0, 0), 1)
    return neighbors


def pair_offsets(edges: EdgeStore) -> IdArray:
    """Where the pairs of each list begin among all negatives; empty for a graph that is not dense.

    If at least half of all pairs are negatives, so few draws are rejected that it is not needed.
    """
    owners, others = edges.owner.num_nodes, edges.neighbor.num_nodes
    loops = 0 if is_bipartite(edges) else owners
    if 2 * (edges.graph.num_edges + loops) <= owners * others:
        return np.empty(0, dtype=np.int64)
    nodes = np.arange(owners)
    counts = edges.graph._csr.negative_counts(nodes, nodes, as_threads(None), is_bipartite(edges))
    if counts.sum() == 0:
        raise ValueError("every pair of nodes is an edge of the graph: there are no negatives")
    return np.concatenate([[0], np.cumsum(counts)])


def draw_destinations(edges: EdgeStore, seed_edges: IdArray, amount: int, key: int) -> IdArray:
    """For each edge, `amount` nodes to which its source has no edge.

    Parameters
    ----------
    edges : EdgeStore
    seed_edges : (2, n) int64
        Sources and destinations in the user's ids, which must be in range. The destination of an
        edge is never drawn for it.
    amount : int
    key : int
        From `negatives_key`.

    Returns
    -------
    (n * amount,) int64
        One edge after the other.
    """
    sources, positives = _stored_ends(edges, seed_edges)
    csr = edges.graph._csr
    drawn = csr.negative_destinations(sources, positives, amount, key, is_bipartite(edges))
    return edges.target.to_user(drawn)


def draw_pairs(edges: EdgeStore, count: int, offsets: IdArray, key: int) -> IdArray:
    """Pairs of nodes that are not edges, (2, count) int64.

    Parameters
    ----------
    edges : EdgeStore
    count : int
    offsets : (num_nodes + 1,) int64, or empty
        From `pair_offsets`.
    key : int
        From `negatives_key`.
    """
    drawn = edges.graph._csr.negative_pairs(count, offsets, key, is_bipartite(edges))
    return np.stack([edges.source.to_user(drawn[0]), edges.target.to_user(drawn[1])])


def as_fractions(draws: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Random bits as numbers from 0 up to, but not including, 1."""
    return (draws >> np.uint64(11)).astype(np.float64) * 2.0**-53


class WeightedDraws:
    """Draws items in proportion to weights, with replacement.

    Parameters
    ----------
    weights : (num_items,) numbers
        They need not add up to 1.
    num_items : int
    name, items : str
        For messages: what the weights are called, and what they are of, such as "seeds".

    Attributes
    ----------
    crc : int
        Of the weights.

    Raises
    ------
    ValueError
        If there is not one for each item, if one is negative or not finite, or if all are 0.
    """

    def __init__(self, weights: object, num_items: int, name: str, items: str) -> None:
        values = as_array(weights)
        if values.shape != (num_items,) or values.dtype.kind not in "biuf":
            raise ValueError(
                f"{name} must hold a number for each of the {num_items} {items}, not "
                f"{values.dtype} of shape {values.shape}"
            )
        numbers = values.astype(np.float64)
        wrong = ~(np.isfinite(numbers) & (numbers >= 0))
        if wrong.any():
            at = int(wrong.argmax())
            raise ValueError(f"{name}[{at}] = {numbers[at]}: weights are finite, at least 0")
        self._sums = np.cumsum(numbers)
        if num_items and not 0 < self._sums[-1] < np.inf:
            raise ValueError(
                f"{name} add up to {self._sums[-1]}: at least one must be above 0, and their "
                f"sum finite"
            )
        self.crc = zlib.crc32(self._sums.data)

    def __len__(self) -> int:
        return len(self._sums)

    def items(self, draws: npt.NDArray[np.uint64]) -> IdArray:
        """The items that some draws choose, (n,) int64; there must be at least one item."""
        below = as_fractions(draws) * self._sums[-1]
        places = np.searchsorted(self._sums, below, side="right")
        last = np.searchsorted(self._sums, self._sums[-1])  # rounding may lead past the last one
        chosen: IdArray = np.minimum(places, last).astype(np.int64, copy=False)
        return chosen


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
    edges: EdgeStore,
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
    edges : EdgeStore
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
    negatives = np.empty((2, count), dtype=np.int64)
    pending = np.arange(count)
    for attempt in range(_TRIES):
        if len(pending) == 0:
            return negatives
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
        if not is_bipartite(edges):
            wrong |= sources == destinations
        wrong |= _are_edges(edges, sources, destinations)
        negatives[:, pending] = sources, destinations
        pending = pending[wrong]
    if len(pending) == 0:
        return negatives
    raise ValueError(
        f"no negative was found in {_TRIES:,} draws"
        f"{'' if seed_edges is None else f' for the source {seed_edges[0, pending[0]]}'}: nearly "
        f"all pairs that the weights, or the times of the nodes, allow are edges; give more nodes "
        f"a weight, or leave src_weight and dst_weight out"
    )


def _are_edges(edges: EdgeStore, sources: IdArray, destinations: IdArray) -> npt.NDArray[np.bool_]:
    """Whether pairs are edges, by binary searches in the lists, which are sorted."""
    owners, others = edges.source.to_stored(sources), edges.target.to_stored(destinations)
    if edges.graph.is_incoming:
        owners, others = others, owners
    indptr, indices = edges.graph.indptr, edges.graph.indices
    degrees = edges.graph._csr.degrees(owners, as_threads(None))  # refuses corrupt lists
    low = indptr[owners].astype(np.int64)
    end, high = low + degrees, low + degrees
    while (open_ := low < high).any():  # the first neighbour that is not below
        middle = (low[open_] + high[open_]) // 2
        below = indices[middle] < others[open_]
        low[open_] = np.where(below, middle + 1, low[open_])
        high[open_] = np.where(below, high[open_], middle)
    is_edge = low < end
    is_edge[is_edge] = indices[low[is_edge]] == others[is_edge]
    return is_edge
