"""`Subgraph`: the sampled neighbourhood of a mini-batch, in NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy.typing as npt

from graphzero.graph.ids import IdArray

__all__ = ["Subgraph"]

_NOT_IN_BATCH = {"not_in_batch": True}


@dataclass(frozen=True)
class Subgraph:
    """The sampled neighbourhood of a mini-batch of seeds.

    Attributes
    ----------
    n_id : (num_nodes,) int64
        The user's ids of the nodes; the seeds first, then hop by hop in order of appearance.
    edge_index : (2, num_edges) int64
        Local ids (positions in `n_id`): ``edge_index[0]`` is the sampled neighbour,
        ``edge_index[1]`` the node that it was sampled for. Messages flow from the first to the
        second.
    e_id : (num_edges,) int64 or None
        Positions of the edges in the user's edge list, if the file stores them.
    batch_size : int
        Number of seeds.
    num_sampled_nodes : list of int
        Seeds, then the new nodes of each hop.
    num_sampled_edges : list of int or None
        Edges of each hop; None for an induced subgraph, whose edges belong to no hop.
    stored_id : (num_nodes,) int64
        The same nodes as the files number them. Features are gathered and read ahead by these.
    batch : (num_nodes,) int64 or None
        With disjoint trees: the seed, 0 to batch_size - 1, to whose tree each node belongs.
    pages_missed : int
        Pages of topology that hop read-ahead requested and that were not in memory; 0 without hop
        read-ahead.
    positions : (num_edges,) int64 or None
        Stored positions of the edges in the graph's file: attributes of edges are read by these.
    """

    n_id: IdArray
    edge_index: IdArray
    e_id: IdArray | None
    batch_size: int
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int] | None
    stored_id: IdArray
    batch: IdArray | None = None
    pages_missed: int = 0
    positions: IdArray | None = field(default=None, metadata=_NOT_IN_BATCH)

    @property
    def optional_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that only some subgraphs have, by name: fields whose default is None.

        A mini-batch has them under the same names. It does not have `positions`.
        """
        values = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.default is None and "not_in_batch" not in each.metadata
        }
        return {name: value for name, value in values.items() if value is not None}
