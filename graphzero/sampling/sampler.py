"""`NeighborSampler`: multi-hop neighbour sampling with relabelling, into NumPy arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from graphzero import _core
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_count, as_ids, as_threads, as_times
from graphzero.graph.sampling_options import Sampling, as_fanout, as_seed

if TYPE_CHECKING:
    from graphzero.graph.sampling_options import SamplingOptions, Unpack

__all__ = ["NeighborSampler", "Subgraph"]

_T = TypeVar("_T")


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
    num_sampled_edges : list of int or None
        Edges of each hop; None of an induced subgraph, whose edges belong to none.
    stored_id : (num_nodes,) int64
        `n_id` as the files number them: what features are gathered and read ahead by.
    batch : (num_nodes,) int64 or None
        Of disjoint trees: the seed, 0 to batch_size - 1, to whose tree each node belongs.
    pages_missed : int
        Pages of topology that had to be read for it, where they were asked for ahead.
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
    seed : int
        Draws are a function of (seed, epoch, batch, hop, node), and of the tree where these are
        disjoint.
    num_threads : int, optional
        Default: all processors of the process. Never changes the result.
    **options
        How neighbours are drawn: the fields of `Sampling`.

    Raises
    ------
    ValueError
        If fanouts are empty, or not positive or -1; if options are not those of `Sampling`; if
        weighted, and the file has no weights.
    """

    def __init__(
        self,
        graph: Graph,
        fanouts: Sequence[int],
        *,
        seed: int = 0,
        num_threads: int | None = None,
        **options: Unpack[SamplingOptions],
    ) -> None:
        self.graph = graph
        self.fanouts = [as_fanout(fanout) for fanout in fanouts]
        if not 1 <= len(self.fanouts) <= _core.MOST_HOPS:
            raise ValueError(
                f"fanouts must name at least one hop, such as [15, 10], and at most "
                f"{_core.MOST_HOPS}"
            )
        self.sampling = Sampling(**options)
        if self.sampling.weighted:
            graph._csr.require_weights()
        self.seed = as_seed(seed)
        self.num_threads = as_threads(num_threads)
        # One a running call: samplers may be shared by threads, their working memory may not.
        self._idle_maps: deque[_core.IdMap] = deque()
        self._idle_batches: deque[_core.Batch] = deque()

    def sample(
        self, seeds: Any, *, seed_time: Any = None, epoch: int = 0, batch: int = 0
    ) -> Subgraph:
        """Samples the neighbourhood of one mini-batch.

        Parameters
        ----------
        seeds : (batch_size,) integers
            The user's ids; repeats are allowed.
        seed_time : (batch_size,) integers, optional
            In the unit of the graph's timestamps: each seed sees only the edges up to its time, in
            all hops of its tree.
        epoch, batch : int
            Which draws to use.

        Returns
        -------
        Subgraph

        Raises
        ------
        IndexError
            If a seed is out of range.
        ValueError
            If seed_time has another length, or cannot be had: with weighted or labor, or from a
            file without timestamps.
        FormatError
            If the file turns out to be corrupt.
        """
        ids = as_ids(seeds, self.graph.num_nodes, "seeds")
        epoch, batch = as_count(epoch, "epoch", 0), as_count(batch, "batch", 0)
        if seed_time is not None:
            self.sampling.check_timed()
            seed_time = as_times(seed_time, ids.shape[0], "seed_time")
        stored = self.graph._csr.to_stored(ids, self.num_threads)
        return self.sample_stored(stored, seed_time=seed_time, epoch=epoch, batch=batch)

    def sample_stored(
        self, stored: IdArray, *, seed_time: IdArray | None = None, epoch: int, batch: int
    ) -> Subgraph:
        """`sample` by stored ids of the seeds, which must be in range."""
        draws = _core.Draws(self.seed, epoch, batch, self.sampling.batch_dependency)
        if self.num_threads == 1 or seed_time is not None or self.sampling.needs_whole_batches:
            return self._sample_whole(stored, draws, seed_time)
        return self._sample_hops(stored, draws)

    def _sample_whole(
        self, seeds: IdArray, draws: _core.Draws, seed_time: IdArray | None
    ) -> Subgraph:
        """The batch in one call of the core, by one thread."""
        batch = _take(self._idle_batches, _core.Batch)
        fanouts = np.array(self.fanouts)
        try:
            nodes, edge_index, positions, trees, num_nodes, num_edges, missed = batch.sample(
                self.graph._csr, seeds, fanouts, self.sampling, draws, seed_time
            )
        finally:
            self._idle_batches.append(batch)
        induced = self.sampling.subgraph_type == "induced"
        hop_edges = None if induced else num_edges
        return self._subgraph(nodes, edge_index, positions, num_nodes, hop_edges, trees, missed)

    def _sample_hops(self, seeds: IdArray, draws: _core.Draws) -> Subgraph:
        """The same batch, the threads sharing each hop: for large batches one at a time."""
        idmap = _take(self._idle_maps, _core.IdMap)
        try:
            return self._share_hops(seeds, draws, idmap)
        finally:
            self._idle_maps.append(idmap)

    def _share_hops(self, seeds: IdArray, draws: _core.Draws, idmap: _core.IdMap) -> Subgraph:
        csr, threads = self.graph._csr, self.num_threads
        idmap.start(seeds, csr.is_wide)
        num_sampled_nodes, num_nodes, frontier = [seeds.shape[0]], seeds.shape[0], seeds
        sources, targets, edges = [], [], []
        for hop, fanout in enumerate(self.fanouts):
            offsets, positions, neighbors = csr.sample_hop(
                frontier, fanout, self.sampling, draws.hop(hop), threads
            )
            sources.append(idmap.relabel(neighbors))
            first = num_nodes - frontier.shape[0]
            targets.append(np.repeat(np.arange(first, num_nodes), np.diff(offsets)))
            edges.append(positions)
            frontier = idmap.nodes(num_nodes)
            num_nodes += frontier.shape[0]
            num_sampled_nodes.append(frontier.shape[0])
        return self._subgraph(
            idmap.nodes(),
            np.stack([np.concatenate(sources), np.concatenate(targets)]),
            np.concatenate(edges),
            num_sampled_nodes,
            [part.shape[0] for part in sources],
        )

    def _subgraph(
        self,
        nodes: IdArray,
        edge_index: IdArray,
        positions: IdArray,
        num_sampled_nodes: list[int],
        num_sampled_edges: list[int] | None,
        trees: IdArray | None = None,
        pages_missed: int = 0,
    ) -> Subgraph:
        """Stored ids and positions become the user's."""
        csr = self.graph._csr
        return Subgraph(
            n_id=csr.to_user(nodes, self.num_threads),
            edge_index=edge_index,
            e_id=csr.edge_ids(positions, self.num_threads),
            batch_size=num_sampled_nodes[0],
            num_sampled_nodes=num_sampled_nodes,
            num_sampled_edges=num_sampled_edges,
            stored_id=nodes,
            batch=trees,
            pages_missed=pages_missed,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle_maps": deque(), "_idle_batches": deque()}


def _take(idle: deque[_T], make: Callable[[], _T]) -> _T:
    try:
        return idle.pop()
    except IndexError:
        return make()
