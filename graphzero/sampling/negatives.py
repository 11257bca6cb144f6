"""Negatives: pairs of nodes that are not edges, drawn uniformly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_threads
from graphzero.graph.sampling_options import Sampling
from graphzero.graph.typed_dataset import TypedDataset

__all__ = [
    "Pairs",
    "check_sources",
    "draw_destinations",
    "draw_pairs",
    "negatives_key",
    "pair_offsets",
    "pairs_of",
]

_LISTS_LOOKED_AT = 1 << 12  # for short ones


class _Ids(Protocol):
    """The nodes at one end of the edges."""

    @property
    def num_nodes(self) -> int: ...
    def to_stored(self, nodes: IdArray) -> IdArray: ...
    def to_user(self, stored: IdArray) -> IdArray: ...


@dataclass(frozen=True)
class Pairs:
    """The pairs of nodes among which edges and negatives are.

    Attributes
    ----------
    graph : Graph
        The lists of the edges.
    sources, destinations : object
        The nodes at either end: their number, and translation of their ids.
    is_bipartite : bool
        Whether they are of two node types. Else the pair of a node and itself is no negative.
    """

    graph: Graph
    sources: _Ids
    destinations: _Ids
    is_bipartite: bool = False

    @property
    def owners(self) -> _Ids:
        """The end whose nodes have the lists."""
        return self.destinations if self.graph.is_incoming else self.sources

    @property
    def neighbors(self) -> _Ids:
        """The other end."""
        return self.sources if self.graph.is_incoming else self.destinations


def pairs_of(dataset: Dataset, edge_type: Any = None) -> Pairs:
    """The pairs of a dataset; of a typed one, those of an edge type."""
    if isinstance(dataset, TypedDataset):
        edges = dataset.edges[edge_type]
        source, target = dataset.nodes[edge_type[0]], dataset.nodes[edge_type[2]]
        return Pairs(edges.graph, source, target, is_bipartite=source is not target)
    nodes = _Untyped(dataset.graph)
    return Pairs(dataset.graph, nodes, nodes)


@dataclass(frozen=True)
class _Untyped:
    """The nodes of a graph without types."""

    graph: Graph

    @property
    def num_nodes(self) -> int:
        return self.graph.num_nodes

    def to_stored(self, nodes: IdArray) -> IdArray:
        return self.graph._csr.to_stored(nodes)

    def to_user(self, stored: IdArray) -> IdArray:
        return self.graph._csr.to_user(stored)


def negatives_key(seed: int, epoch: int, batch: int) -> int:
    """The key of the draws of one mini-batch."""
    return _core.key("negative", seed, epoch, batch)


def check_sources(pairs: Pairs, edges: IdArray) -> None:
    """Refuses seed edges whose source has an edge to every node."""
    csr, threads = pairs.graph._csr, as_threads(None)
    sources, positives = _stored(pairs, edges)
    if pairs.graph.is_incoming:
        suspects = np.flatnonzero(np.isin(sources, _in_shortest_lists(pairs)))
    else:  # only the longest lists are read: reading one costs more than finding its length
        few = pairs.destinations.num_nodes - 2
        suspects = np.flatnonzero(csr.degrees(sources, threads) >= few)
    drawn = csr.negative_destinations(
        sources[suspects], positives[suspects], 1, 0, pairs.is_bipartite
    )
    for at in suspects[drawn < 0][:1]:
        raise ValueError(
            f"edge_label_index[0][{at}] = {edges[0, at]} has every node as neighbour, and so no "
            f"negatives: leave its edges out, or use neg_sampling='binary'"
        )


def _stored(pairs: Pairs, edges: IdArray) -> tuple[IdArray, IdArray]:
    return pairs.sources.to_stored(edges[0]), pairs.destinations.to_stored(edges[1])


def _in_shortest_lists(pairs: Pairs) -> IdArray:
    """Stored ids with an edge to one of three nodes; whoever has edges to all nodes is among them.

    Of three nodes, at least one is neither the source nor the destination of a seed edge.
    """
    graph = pairs.graph
    step = max(1, graph.num_nodes // _LISTS_LOOKED_AT)
    nodes = np.arange(0, graph.num_nodes, step)
    if len(nodes) < 3:
        return np.arange(pairs.sources.num_nodes)
    csr, threads = graph._csr, as_threads(None)
    shortest = nodes[np.argsort(csr.degrees(nodes, threads), kind="stable")[:3]]
    _, _, found = csr.sample_hop(shortest, -1, Sampling(), _core.Draws(0, 0, 0), 1)
    return found


def pair_offsets(pairs: Pairs) -> IdArray:
    """Where the pairs of each list begin among all negatives; empty for a graph that is not dense.

    If at least half of all pairs are negatives, so few draws are rejected that it is not needed.
    """
    owners, others = pairs.owners.num_nodes, pairs.neighbors.num_nodes
    loops = 0 if pairs.is_bipartite else owners
    if 2 * (pairs.graph.num_edges + loops) <= owners * others:
        return np.empty(0, dtype=np.int64)
    nodes = np.arange(owners)
    counts = pairs.graph._csr.negative_counts(nodes, nodes, as_threads(None), pairs.is_bipartite)
    if counts.sum() == 0:
        raise ValueError("every pair of nodes is an edge of the graph: there are no negatives")
    return np.concatenate([[0], np.cumsum(counts)])


def draw_destinations(pairs: Pairs, edges: IdArray, amount: int, key: int) -> IdArray:
    """For each edge, `amount` nodes to which its source has no edge.

    Parameters
    ----------
    pairs : Pairs
    edges : (2, n) int64
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
    sources, positives = _stored(pairs, edges)
    csr = pairs.graph._csr
    drawn = csr.negative_destinations(sources, positives, amount, key, pairs.is_bipartite)
    return pairs.destinations.to_user(drawn)


def draw_pairs(pairs: Pairs, count: int, offsets: IdArray, key: int) -> IdArray:
    """Pairs of nodes that are not edges, (2, count) int64.

    Parameters
    ----------
    pairs : Pairs
    count : int
    offsets : (num_nodes + 1,) int64, or empty
        From `pair_offsets`.
    key : int
        From `negatives_key`.
    """
    drawn = pairs.graph._csr.negative_pairs(count, offsets, key, pairs.is_bipartite)
    return np.stack([pairs.sources.to_user(drawn[0]), pairs.destinations.to_user(drawn[1])])
