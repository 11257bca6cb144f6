"""`SampledNeighbors`: what one hop of sampling returns."""

from __future__ import annotations

from dataclasses import dataclass

from graphzero.graph.ids import IdArray

__all__ = ["SampledNeighbors"]


@dataclass(frozen=True)
class SampledNeighbors:
    """One hop of sampled neighbours, as compressed sparse rows over the seeds.

    Attributes
    ----------
    indptr : (num_seeds + 1,) int64
        The neighbours of ``seeds[i]`` are ``indices[indptr[i]:indptr[i + 1]]``.
    indices : (num_edges,) int64
        The user's ids of the sampled neighbours. What is random is each seed's *set*, not the
        order within it.
    e_id : (num_edges,) int64 or None
        Rows of the user's edge list, if the file keeps them.
    """

    indptr: IdArray
    indices: IdArray
    e_id: IdArray | None
