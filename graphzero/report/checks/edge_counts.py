"""Whether the edges of a file are all edges of the edge list, by the ids that they have."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import partial

import numpy as np

from graphzero import _core
from graphzero.report.checks.blocks import Workers

__all__ = ["EdgeTotals", "find_repeated", "is_complete"]

_STEP = 1 << 20
_MOST_COUNTS = 64 << 20  # bytes: ids that are counted in one pass


@dataclass(frozen=True)
class EdgeTotals:
    """Sums over all stored edges, see `graphzero._core.EdgeLists.sums`."""

    forward: int = 0
    backward: int = 0
    edge_ids: int = 0
    loops: int = 0

    @staticmethod
    def of(lists: _core.EdgeLists, num_edges: int, workers: Workers) -> EdgeTotals:
        """The sums of a whole file."""
        found = EdgeTotals()
        for _, _, sums in workers.in_order(lists.sums, num_edges, _STEP):
            pairs = zip(astuple(found), sums, strict=True)
            found = EdgeTotals(*((a + b) % 2**64 for a, b in pairs))
        return found


def is_complete(
    found: EdgeTotals, num_edges: int, num_input: int, per_loop: int, workers: Workers
) -> bool:
    """Whether each of the input edges is there, as often as it must.

    Parameters
    ----------
    found : EdgeTotals
    num_edges, num_input : int
        Stored edges, and edges of the edge list.
    per_loop : int
        How often each input edge counts: 2 for an undirected graph, in which a self-loop is stored
        once and counts twice.
    workers : Workers
    """
    if num_edges + (per_loop - 1) * found.loops != per_loop * num_input:
        return False
    expected = sum(sums for _, _, sums in workers.in_order(_core.sum_numbers, num_input, _STEP))
    return per_loop * expected % 2**64 == found.edge_ids


def find_repeated(
    lists: _core.EdgeLists, num_edges: int, num_input: int, per_loop: int, workers: Workers
) -> int:
    """First stored edge whose id is there too often, or -1; ids are counted in bounded memory."""
    first = -1
    for low in range(0, num_input, _MOST_COUNTS):
        counts = np.zeros(min(_MOST_COUNTS, num_input - low), np.uint8)
        for begin in range(0, num_edges, _STEP):
            end = min(begin + _STEP, num_edges)
            lists.count_edge_ids(counts, low, begin, end)
        if counts.max(initial=0) <= per_loop:
            continue
        find = partial(lists.first_repeated, counts, low, per_loop)
        search = workers.in_order(find, num_edges, _STEP)
        found = next((entry for _, _, entry in search if entry >= 0), -1)
        first = found if first < 0 or 0 <= found < first else first
    return first
