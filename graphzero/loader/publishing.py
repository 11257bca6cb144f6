"""What an iteration publishes in the batch log of its process."""

from __future__ import annotations

import os
import time

from graphzero.loader.batch_log import BatchRecord, batch_log
from graphzero.loader.batch_totals import BatchTotals
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_batches import SeedBatches
from graphzero.sampling.any_subgraph import AnySubgraph

__all__ = ["publish_batch", "publish_iteration"]


def publish_iteration(batches: SeedBatches, epoch: int, num_workers: int, io: str) -> None:
    """Publishes the files that an iteration reads, and its options.

    Parameters
    ----------
    batches : SeedBatches
    epoch : int
    num_workers : int
        Of its DataLoader.
    io : str
        What the plan came to; empty until it is made.
    """
    graphs = [file.graph.path for file in batches.topology]
    rows = [source.store.path for source in batches.row_sources(epoch).values()]
    options = {
        "fanouts": str(batches.sampler.fanout_options),
        "batch_size": str(batches.batch_size),
        "num_workers": str(num_workers),
        "prefetch": str(batches.prefetch),
    }
    batch_log().describe(map(os.path.realpath, [*graphs, *rows]), options, io)


def publish_batch(batch: SampledBatch, epoch: int, number: int) -> None:
    """Publishes what one mini-batch has cost, when it is handed over."""
    stats = batch.stats
    seeds = len(batch.input_id)
    nodes, edges = _counts(batch.subgraph)
    sums = BatchTotals(
        batches=1,
        sampling=stats.sampled,
        disk=stats.disk,
        gathering=stats.gathered,
        ready=stats.ready,
        pages_missed=stats.pages_missed,
        topology_missed=stats.topology_missed,
        row_bytes=stats.row_bytes,
        queue_depth=stats.queue_depth,
        seeds=seeds,
        nodes=nodes,
        edges=edges,
    )
    record = BatchRecord(
        time=time.monotonic(),
        epoch=epoch,
        batch=number,
        sampled=stats.sampled,
        disk=stats.disk,
        gathered=stats.gathered,
        ready=stats.ready,
        waited=stats.waited,
        pages_missed=stats.pages_missed,
        topology_missed=stats.topology_missed,
        queue_depth=stats.queue_depth,
        row_bytes=stats.row_bytes,
        seeds=seeds,
        nodes=nodes,
        edges=edges,
    )
    batch_log().add(epoch, sums, record)


def _counts(subgraph: AnySubgraph) -> tuple[int, int]:
    """Nodes and edges, of all types."""
    if isinstance(subgraph.n_id, dict):
        nodes = sum(len(ids) for ids in subgraph.n_id.values())
        return nodes, sum(edges.shape[1] for edges in subgraph.edge_index.values())
    return len(subgraph.n_id), subgraph.edge_index.shape[1]
