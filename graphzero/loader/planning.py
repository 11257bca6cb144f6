"""From `SeedBatches` to the session of one iteration: probe, then plan, then start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphzero.io.budget import budget
from graphzero.io.estimate import BatchSetup, Estimate
from graphzero.io.plan import AS_REQUESTED, IOPlan, make_plan
from graphzero.io.probe import is_large, probe_batch, probe_files
from graphzero.io.session import Session
from graphzero.io.shared_memory import check_shared_memory, shared_memory_bytes
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.world import current_family, default_threads, in_worker
from graphzero.sampling.any_subgraph import AnySubgraph
from graphzero.sampling.hop_readahead import HopReadAhead
from graphzero.sampling.order import Share
from graphzero.store.residency import mincore_is_honest

__all__ = ["batch_setup", "plan_iteration", "start_session"]

_PLENTY_SHARED = 4 << 30  # bytes: in so much shared memory, the mini-batches of workers fit


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

    Raises
    ------
    FormatError
        If a file that is read has become shorter since it was opened.
    """
    sources = batches.row_sources(epoch)
    for mapping in {*batches.dataset.mappings, *(s.store.mapping for s in sources.values())}:
        mapping.check_size()
    return Session(
        batches.topology,
        sources,
        batches.prefetch,
        plan_iteration(batches, share, epoch, numbers),
        feature_dtype=batches.feature_dtype,
        family=current_family(),
        loop=batches,
    )


def plan_iteration(
    batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]
) -> IOPlan:
    """How an iteration reads, see `start_session`."""
    plan = make_plan(batches.prefetch, _probe(batches, share, epoch, numbers))
    note = batches.prefetch_note
    if not note:
        return plan
    if plan.reason.startswith(AS_REQUESTED):
        return replace(plan, reason=note + plan.reason.removeprefix(AS_REQUESTED))
    return replace(plan, reason=f"{plan.reason}; {note}")


def _probe(batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]) -> Estimate:
    files, sources = batches.topology, batches.row_sources(epoch)
    topology = sum(file.num_bytes for file in files)
    estimate = probe_files(batches.prefetch, sources, topology, budget().room_learnt(batches))
    may_be_too_small = in_worker() and (shared_memory_bytes() or _PLENTY_SHARED) < _PLENTY_SHARED
    if not (is_large(estimate) or may_be_too_small) or len(numbers) == 0:
        return estimate

    hop_readahead = tuple(HopReadAhead(0, mincore_is_honest(file.graph.path)) for file in files)

    def sample(number: int) -> AnySubgraph:
        positions = batches.positions(epoch, number)
        return batches.sample(
            positions, epoch=epoch, batch=number, readahead=hop_readahead
        ).subgraph

    estimate = probe_batch(
        estimate,
        batch_setup(batches, share),
        files,
        batches.prefetch,
        sources,
        batches.feature_dtype,
        numbers[0],
        sample,
    )
    if in_worker():
        check_shared_memory(estimate.batch, share.num_workers)
    return estimate


def batch_setup(batches: SeedBatches, share: Share) -> BatchSetup:
    """What the memory of mini-batches depends on, besides the size of one."""
    return BatchSetup(
        lookahead=batches.prefetch.lookahead,
        workers=share.num_workers,
        threads=default_threads(batches.num_threads),
    )
