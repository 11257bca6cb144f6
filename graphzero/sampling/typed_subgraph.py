"""`TypedSubgraph`: the sampled neighbourhood of a mini-batch of a typed graph, in NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from graphzero.graph.ids import IdArray

__all__ = ["EdgeType", "TypedSubgraph"]

EdgeType: TypeAlias = tuple[str, str, str]
"""Source type, relation, target type."""


@dataclass(frozen=True)
class TypedSubgraph:
    """The sampled neighbourhood of a mini-batch of seeds in a typed graph.

    Every node type has local ids of its own: positions in its `n_id`, the seeds first, then hop by
    hop in order of appearance. All dicts have every node type, or every edge type, of the graph.

    Attributes
    ----------
    n_id : dict of str to (num_nodes,) int64
        The user's ids of the nodes of each type.
    stored_id : dict of str to (num_nodes,) int64
        The same nodes as the files number them.
    edge_index : dict of EdgeType to (2, num_edges) int64
        Local ids: ``edge_index[t][0]`` is the sampled neighbour, ``edge_index[t][1]`` the node that
        it was sampled for. Messages flow from the first to the second. Of an edge type (source,
        relation, target) whose incoming edges are stored, these are sources and targets. If the
        outgoing edges are stored, as in graphs without types, the sampled neighbours are of the
        target type, and row 0 has the targets.
    positions : dict of EdgeType to (num_edges,) int64
        Stored positions of the edges in the file of their type.
    e_id : dict of EdgeType to (num_edges,) int64 or None
        Positions in the user's list of edges of this type, if the file stores them.
    num_sampled_nodes : dict of str to list of int
        Seeds, then the new nodes of each hop.
    num_sampled_edges : dict of EdgeType to list of int
        Edges of each hop.
    batch : dict of str to (num_nodes,) int64, or None
        With disjoint trees: the tree of each node. Trees are numbered as the seeds are: those of
        the first node type, then those of the next.
    pages_missed : int
        Pages of topology that hop read-ahead requested and that were not in memory; 0 without hop
        read-ahead.
    """

    n_id: dict[str, IdArray]
    stored_id: dict[str, IdArray]
    edge_index: dict[EdgeType, IdArray]
    positions: dict[EdgeType, IdArray]
    e_id: dict[EdgeType, IdArray | None]
    num_sampled_nodes: dict[str, list[int]]
    num_sampled_edges: dict[EdgeType, list[int]]
    batch: dict[str, IdArray] | None = None
    pages_missed: int = 0
