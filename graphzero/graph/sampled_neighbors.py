"""`SampledNeighbors`: the result of one hop of sampling."""

from __future__ import annotations

from dataclasses import dataclass

from graphzero.graph.ids import IdArray

__all__ = ["SampledNeighbors"]


@dataclass(frozen=True)
class SampledNeighbors:
    """One hop of sampled neighbours, in the layout of CSR: a neighbour list for each seed.

    Attributes
    ----------
    indptr : (num_seeds + 1,) int64
        The neighbours of ``seeds[i]`` are ``indices[indptr[i]:indptr[i + 1]]``.
    indices : (num_edges,) int64
        The user's ids of the sampled neighbours. Only the *set* of each seed is random, not the
        order within it.
    e_id : (num_edges,) int64 or None
        Positions in the user's edge list, if the file has them.
    """

    indptr: IdArray
    indices: IdArray
    e_id: IdArray | None
