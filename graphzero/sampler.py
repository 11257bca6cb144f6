"""`NeighborSampler`: multi-hop neighbour sampling with relabelling, into NumPy arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphzero import _core
from graphzero.graph import Graph, check_fanout, check_seed
from graphzero.ids import IdArray, as_count, as_ids, as_threads

__all__ = ["NeighborSampler", "Subgraph"]


@dataclass(frozen=True)
class Subgraph:
    """The sampled neighbourhood of a mini-batch of seeds.

    Attributes
    ----------
    n_id : (num_nodes,) int64
        The user's ids of the nodes; the seeds first, then hop by hop in order of appearance.
    edge_index : (2, num_edges) int64
        Local ids (positions in `n_id`): row 0 the sampled neighbour, row 1 the node that it was
        sampled for. Messages flow from row 0 to row 1.
    e_id : (num_edges,) int64 or None
        Rows of the user's edge list, if the file keeps them.
    batch_size : int
        Number of seeds.
    num_sampled_nodes : list of int
        Seeds, then the new nodes of each hop.
    num_sampled_edges : list of int
        Edges of each hop.
    stored_id : (num_nodes,) int64
        `n_id` as the files number them: what features are gathered and read ahead by.
    """

    n_id: IdArray
    edge_index: IdArray
    e_id: IdArray | None
    batch_size: int
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]
    stored_id: IdArray


class NeighborSampler:
    """Samples a fixed number of neighbours of each node, hop by hop (Hamilton, Ying, Leskovec:
    "Inductive Representation Learning on Large Graphs", NeurIPS 2017).

    A node is expanded once, in the hop after the one that reached it first. Seeds may repeat: each
    copy is a node of its own in the batch, with the same draws; a neighbour that is a seed takes
    the number of the seed's first copy.

    Parameters
    ----------
    graph : Graph
    fanouts : sequence of int
        Neighbours per node in each hop; -1 for all.
    replace : bool
        Draw neighbours with replacement.
    seed : int
        Draws are a function of (seed, epoch, batch, hop, node).
    num_threads : int, optional
        Default: all processors of the process. Never changes the result.

    Raises
    ------
    ValueError
        If fanouts are empty, or not positive or -1.
    """

    def __init__(
        self,
        graph: Graph,
        fanouts: Sequence[int],
        *,
        replace: bool = False,
        seed: int = 0,
        num_threads: int | None = None,
    ) -> None:
        self.graph = graph
        self.fanouts = [check_fanout(fanout) for fanout in fanouts]
        if not self.fanouts:
            raise ValueError("fanouts must name at least one hop, such as [15, 10]")
        self.replace = bool(replace)
        self.seed = check_seed(seed)
        self.num_threads = as_threads(num_threads)
        # A map a running call: samplers may be shared by threads, a map may not.
        self._idle_maps: deque[_core.IdMap] = deque()

    def sample(self, seeds: Any, *, epoch: int = 0, batch: int = 0) -> Subgraph:
        """Samples the neighbourhood of one mini-batch.

        Parameters
        ----------
        seeds : (batch_size,) integers
            The user's ids; repeats are allowed.
        epoch, batch : int
            Which draws to use.

        Returns
        -------
        Subgraph

        Raises
        ------
        IndexError
            If a seed is out of range.
        FormatError
            If the file turns out to be corrupt.
        """
        ids = as_ids(seeds, self.graph.num_nodes, "seeds")
        epoch, batch = as_count(epoch, "epoch", 0), as_count(batch, "batch", 0)
        key = _core.key("sample", self.seed, epoch, batch)
        stored = self.graph._csr.to_stored(ids, self.num_threads)
        idmap = self._idle_maps.pop() if self._idle_maps else _core.IdMap()
        try:
            return self._sample_hops(stored, key, idmap)
        finally:
            self._idle_maps.append(idmap)

    def _sample_hops(self, seeds: IdArray, key: int, idmap: _core.IdMap) -> Subgraph:
        csr, threads = self.graph._csr, self.num_threads
        idmap.start(seeds)
        nodes, sources, targets, edges = [seeds], [], [], []
        num_nodes, frontier = seeds.shape[0], seeds
        for hop, fanout in enumerate(self.fanouts):
            offsets, positions, neighbors = csr.sample_hop(
                frontier, fanout, self.replace, _core.stream(key, hop), threads
            )
            local, new = idmap.relabel(neighbors, num_nodes)
            first = num_nodes - frontier.shape[0]
            targets.append(np.repeat(np.arange(first, num_nodes), np.diff(offsets)))
            sources.append(local)
            edges.append(positions)
            nodes.append(new)
            frontier, num_nodes = new, num_nodes + new.shape[0]
        stored_id = np.concatenate(nodes)
        return Subgraph(
            n_id=csr.to_user(stored_id, threads),
            edge_index=np.stack([np.concatenate(sources), np.concatenate(targets)]),
            e_id=csr.edge_ids(np.concatenate(edges), threads),
            batch_size=seeds.shape[0],
            num_sampled_nodes=[part.shape[0] for part in nodes],
            num_sampled_edges=[part.shape[0] for part in sources],
            stored_id=stored_id,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle_maps": deque()}
