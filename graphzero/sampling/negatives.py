"""Negatives: pairs of nodes that are not edges, drawn uniformly."""

from __future__ import annotations

import numpy as np

from graphzero import _core
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_threads
from graphzero.graph.sampling_options import Sampling

__all__ = ["check_sources", "draw_destinations", "draw_pairs", "negatives_key", "pair_offsets"]

_LISTS_LOOKED_AT = 1 << 12  # for short ones


def negatives_key(seed: int, epoch: int, batch: int) -> int:
    """The key of the draws of one mini-batch."""
    return _core.key("negative", seed, epoch, batch)


def check_sources(graph: Graph, edges: IdArray) -> None:
    """Refuses seed edges whose source has an edge to every node."""
    csr, threads = graph._csr, as_threads(None)
    sources, positives = (csr.to_stored(ends, threads) for ends in edges)
    if graph.is_incoming:
        suspects = np.flatnonzero(np.isin(sources, _in_shortest_lists(graph)))
    else:  # only the longest lists are read: reading one costs more than finding its length
        suspects = np.flatnonzero(csr.degrees(sources, threads) >= graph.num_nodes - 2)
    drawn = csr.negative_destinations(sources[suspects], positives[suspects], 1, 0)
    for at in suspects[drawn < 0][:1]:
        raise ValueError(
            f"edge_label_index[0][{at}] = {edges[0, at]} has every node as neighbour, and so no "
            f"negatives: leave its edges out, or use neg_sampling='binary'"
        )


def _in_shortest_lists(graph: Graph) -> IdArray:
    """Stored ids with an edge to one of three nodes; whoever has edges to all nodes is among them.

    Of three nodes, at least one is neither the source nor the destination of a seed edge.
    """
    step = max(1, graph.num_nodes // _LISTS_LOOKED_AT)
    nodes = np.arange(0, graph.num_nodes, step)
    if len(nodes) < 3:
        return np.arange(graph.num_nodes)
    csr, threads = graph._csr, as_threads(None)
    shortest = nodes[np.argsort(csr.degrees(nodes, threads), kind="stable")[:3]]
    _, _, found = csr.sample_hop(shortest, -1, Sampling(), _core.Draws(0, 0, 0), 1)
    return found


def pair_offsets(graph: Graph) -> IdArray:
    """Where the pairs of each list begin among all negatives; empty for a graph that is not dense.

    If at least half of all pairs are negatives, so few draws are rejected that it is not needed.
    """
    num_nodes = graph.num_nodes
    if 2 * (graph.num_edges + num_nodes) <= num_nodes**2:
        return np.empty(0, dtype=np.int64)
    nodes = np.arange(num_nodes)
    counts = graph._csr.negative_counts(nodes, nodes, as_threads(None))
    if counts.sum() == 0:
        raise ValueError("every pair of nodes is an edge of the graph: there are no negatives")
    return np.concatenate([[0], np.cumsum(counts)])


def draw_destinations(graph: Graph, edges: IdArray, amount: int, key: int) -> IdArray:
    """For each edge, `amount` nodes to which its source has no edge.

    Parameters
    ----------
    graph : Graph
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
    csr = graph._csr
    sources, positives = (csr.to_stored(ends) for ends in edges)
    return csr.to_user(csr.negative_destinations(sources, positives, amount, key))


def draw_pairs(graph: Graph, count: int, offsets: IdArray, key: int) -> IdArray:
    """Pairs of nodes that are not edges, (2, count) int64.

    Parameters
    ----------
    graph : Graph
    count : int
    offsets : (num_nodes + 1,) int64, or empty
        From `pair_offsets`.
    key : int
        From `negatives_key`.
    """
    csr = graph._csr
    return csr.to_user(csr.negative_pairs(count, offsets, key))
