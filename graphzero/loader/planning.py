"""From `SeedBatches` to the session of one iteration: probe, then plan, then start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from graphzero.graph.dataset import Dataset
from graphzero.io.estimate import BatchSetup, Estimate
from graphzero.io.plan import IOPlan, make_plan
from graphzero.io.probe import is_large, probe_batch, probe_files
from graphzero.io.session import Session
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.world import default_threads
from graphzero.sampling.order import Share
from graphzero.sampling.subgraph import Subgraph

__all__ = ["batch_setup", "plan_iteration", "start_session"]


def start_session(
    batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]
) -> Session:
    """The session of an iteration; each process starts its own.

    Parameters
    ----------
    batches : SeedBatches
    share : Share
    epoch : int
    numbers : sequence of int
        Of the mini-batches in the epoch.
    """
    return Session(
        batches.dataset.graph,
        batches.topology_sections,
        batches.row_sources(epoch),
        batches.prefetch,
        plan_iteration(batches, share, epoch, numbers),
        feature_dtype=batches.feature_dtype,
        watch=batches.memory_watch,
    )


def plan_iteration(
    batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]
) -> IOPlan:
    """How an iteration reads, see `start_session`."""
    return make_plan(batches.prefetch, _probe(batches, share, epoch, numbers))


def _probe(batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]) -> Estimate:
    graph, sections = batches.dataset.graph, batches.topology_sections
    sources = batches.row_sources(epoch)
    topology = sum(graph.section_bytes[name] for name in sections)
    estimate = probe_files(batches.prefetch, sources, topology, batches.memory_watch)
    if not is_large(estimate) or len(numbers) == 0:
        return estimate

    def sample(number: int) -> Subgraph:
        positions = batches.positions(epoch, number)
        return batches.sample(positions, epoch=epoch, batch=number).subgraph

    return probe_batch(
        estimate,
        batch_setup(batches, share),
        graph,
        sections,
        batches.prefetch,
        sources.get("x"),
        numbers[0],
        sample,
    )


def batch_setup(batches: SeedBatches, share: Share) -> BatchSetup:
    """What the memory of mini-batches depends on, besides the size of one."""
    features = batches.dataset.features
    return BatchSetup(
        row_bytes=_row_bytes(batches.dataset, batches.feature_dtype),
        stored_row_bytes=0 if features is None else features.row_bytes,
        lookahead=batches.prefetch.lookahead,
        workers=share.num_workers,
        threads=default_threads(batches.num_threads),
    )


def _row_bytes(dataset: Dataset, feature_dtype: npt.DTypeLike | None) -> int:
    """Bytes of one node in a mini-batch: its features as they are converted, and its labels."""
    wanted = ((dataset.features, feature_dtype), (dataset.labels, None))
    return sum(
        store.feature_dim * store.conversion(dtype)[0].itemsize
        for store, dtype in wanted
        if store is not None
    )
