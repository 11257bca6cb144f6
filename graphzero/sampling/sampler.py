"""`NeighborSampler`: multi-hop neighbour sampling with relabelling, into NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphzero import _core
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_count, as_ids, as_threads, as_times
from graphzero.graph.sampling_options import Sampling, as_fanouts, as_seed
from graphzero.sampling.hop_readahead import HopReadAhead
from graphzero.sampling.idle_batches import IdleBatches
from graphzero.sampling.subgraph import Subgraph

if TYPE_CHECKING:
    from graphzero.graph.sampling_options import SamplingOptions, Unpack

__all__ = ["NeighborSampler"]


class NeighborSampler:
    """Samples a fixed number of neighbours of each node, hop by hop (Hamilton, Ying, Leskovec:
    "Inductive Representation Learning on Large Graphs", NeurIPS 2017).

    A node is expanded once, in the hop after the one that reached it first. Seeds may repeat: each
    copy is a node of its own in the batch, with the same draws. A neighbour that is also a seed
    has the local id of that seed's first copy.

    Parameters
    ----------
    graph : Graph
    fanouts : sequence of int
        Neighbours per node in each hop; -1 for all.
    seed : int
        Draws are a function of (seed, epoch, batch, hop, node) and, with disjoint trees, of the
        tree.
    num_threads : int, optional
        Threads that translate ids; each mini-batch is sampled by one. Default: all processors that
        the process may use. Never changes the result.
    **options
        How neighbours are drawn: the fields of `Sampling`.

    Raises
    ------
    ValueError
        If there are no fanouts or too many; if a fanout is neither positive nor -1; if an option
        is not valid for `Sampling`; if weighted, and the file has no weights.
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
        self.fanouts = as_fanouts(fanouts)
        if not 1 <= len(self.fanouts) <= _core.MOST_HOPS:
            raise ValueError(
                f"fanouts must name at least one hop, such as [15, 10], and at most "
                f"{_core.MOST_HOPS}"
            )
        self.sampling = Sampling(**options)
        if self.sampling.needs_weights:
            graph._csr.require_weights()
        self.seed = as_seed(seed)
        self.num_threads = as_threads(num_threads)
        self._idle_batches = IdleBatches()

    def sample(
        self,
        seeds: Any,
        *,
        seed_time: Any = None,
        epoch: int = 0,
        batch: int = 0,
        readahead: HopReadAhead | None = None,
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
            Select the random draws.
        readahead : HopReadAhead, optional
            Requests the topology of each hop before it is read. Loaders use it where the graph is
            larger than memory.

        Returns
        -------
        Subgraph

        Raises
        ------
        IndexError
            If a seed is out of range.
        ValueError
            If seed_time has another length than seeds; if options need it (strictly_before,
            temporal_strategy="last"), and it is missing; if options exclude times (weighted, labor,
            batch_dependency); if the file has no timestamps.
        FormatError
            If the file is corrupt.
        """
        ids = as_ids(seeds, self.graph.num_nodes, "seeds")
        epoch, batch = as_count(epoch, "epoch", 0), as_count(batch, "batch", 0)
        if seed_time is None:
            self.sampling.check_untimed(": give seed_time, or")
        else:
            self.sampling.check_timed()
            seed_time = as_times(seed_time, ids.shape[0], "seed_time")
        self.graph.mapping.check_size()  # the table of ids is read before the core checks
        stored = self.graph._csr.to_stored(ids, self.num_threads)
        return self.sample_stored(
            stored, seed_time=seed_time, epoch=epoch, batch=batch, readahead=readahead
        )

    def sample_stored(
        self,
        stored: IdArray,
        *,
        seed_time: IdArray | None = None,
        epoch: int,
        batch: int,
        readahead: HopReadAhead | None = None,
    ) -> Subgraph:
        """As `sample`, with the stored ids of the seeds, which must be in range."""
        draws = _core.Draws(self.seed, epoch, batch, self.sampling.batch_dependency)
        fanouts = np.array(self.fanouts)
        try:
            with self._idle_batches.one() as worker:
                nodes, edge_index, positions, trees, num_nodes, num_edges, missed = worker.sample(
                    self.graph._csr, stored, fanouts, self.sampling, draws, seed_time, readahead
                )
        except MemoryError as error:
            raise MemoryError(
                f"no memory for fanouts={self.fanouts} of {len(stored):,} seeds ({error}): "
                f"use smaller fanouts, or fewer seeds in a batch"
            ) from None
        csr, threads = self.graph._csr, self.num_threads
        induced = self.sampling.subgraph_type == "induced"
        return Subgraph(
            n_id=csr.to_user(nodes, threads),
            edge_index=edge_index,
            e_id=csr.edge_ids(positions, threads),
            batch_size=num_nodes[0],
            num_sampled_nodes=num_nodes,
            num_sampled_edges=None if induced else num_edges,
            stored_id=nodes,
            batch=trees,
            pages_missed=missed,
            positions=positions,
        )
