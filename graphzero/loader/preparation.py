"""Prepares the mini-batches of an iteration: plans, samples, fetches and places their rows.

`prepare_batches` does it in background threads, which belong to a session.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy.typing as npt

from graphzero.io.memory import (
    LEARNT_MEMORY,
    check_shared_memory,
    ranks_of_host,
    shared_memory_bytes,
)
from graphzero.io.plan import Estimate, IOPlan, make_plan
from graphzero.io.prefetch import Fetched, pages_read
from graphzero.io.row_io import PagesRequested, RowKey
from graphzero.io.session import Session, is_large, probe_batch, probe_files
from graphzero.loader.mini_batch import SampledBatch
from graphzero.loader.profiler import range_of
from graphzero.loader.ranks import default_threads, in_worker
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.stats import BatchStats
from graphzero.sampling.order import Share
from graphzero.sampling.sampler import HopReadAhead, TypedSubgraph
from graphzero.sampling.threads import Stage
from graphzero.store.mapped_file import mincore_is_honest

_PLENTY_SHARED = 4 << 30  # bytes: in so much shared memory, the mini-batches of workers fit


def start_session(
    batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]
) -> Session:
    """The session of an iteration over the mini-batches with some numbers; one for each process.

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
        ranks=ranks_of_host(os.environ, share.world_size),
        loop=batches,
    )


def plan_iteration(
    batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]
) -> IOPlan:
    """How an iteration reads, see `start_session`."""
    return make_plan(batches.prefetch, _probe(batches, share, epoch, numbers))


def _probe(batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]) -> Estimate:
    """Sizes of the files; where they matter, also the size of the first mini-batch."""
    files, sources = batches.topology, batches.row_sources(epoch)
    topology = sum(file.num_bytes for file in files)
    before = LEARNT_MEMORY.available_before(batches)
    estimate = probe_files(batches.prefetch, sources, topology, before)
    may_be_too_small = in_worker() and (shared_memory_bytes() or _PLENTY_SHARED) < _PLENTY_SHARED
    if not (is_large(estimate) or may_be_too_small) or len(numbers) == 0:
        return estimate

    hop_readahead = tuple(HopReadAhead(0, mincore_is_honest(file.graph.path)) for file in files)

    def sample(number: int) -> TypedSubgraph:
        positions = batches.positions(epoch, number)
        return batches.sample(positions, epoch=epoch, batch=number, readahead=hop_readahead).by_type

    estimate = probe_batch(
        estimate,
        files,
        batches.prefetch,
        sources,
        batches.feature_dtype,
        numbers[0],
        sample,
        workers=share.num_workers,
        threads=default_threads(batches.num_threads),
    )
    if in_worker():
        check_shared_memory(estimate.batch, share.num_workers, batches.queued)
    return estimate


# --- what a stage costs

_SCHEDSTAT = "/proc/thread-self/schedstat"
# Elsewhere the faults of the whole process say whether there was any.
_WHOSE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


class Moment(NamedTuple):
    """Clocks and counters of the calling thread.

    Attributes
    ----------
    wall, cpu : float
        Seconds, and seconds on a processor.
    queued : float
        Seconds ready to run and without a processor; 0 where the system does not say.
    faults : int
        Page faults that read from the disk.
    """

    wall: float
    cpu: float
    queued: float
    faults: int


def _queued() -> float:
    try:
        descriptor = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(descriptor, 64).split()[1]) / 1e9
        finally:
            os.close(descriptor)
    except (OSError, IndexError, ValueError):
        return 0.0


def moment() -> Moment:
    """That of the calling thread, now."""
    faults = resource.getrusage(_WHOSE).ru_majflt
    return Moment(time.perf_counter(), time.thread_time(), _queued(), faults)


def spent(begin: Moment, end: Moment, *, has_read: bool) -> tuple[float, float]:
    """Seconds that a thread has worked, and waited for the disk, between two moments.

    A thread that is blocked neither computes nor waits for a processor. What it waits for, the
    system does not say; if it has read from the disk meanwhile (`has_read`, or page faults), that
    is taken to be the disk.
    """
    wall = end.wall - begin.wall
    if not has_read and end.faults == begin.faults:
        return wall, 0.0
    blocked = wall - (end.cpu - begin.cpu) - (end.queued - begin.queued)
    disk = min(max(blocked, 0.0), wall)
    return wall - disk, disk


# --- sample, fetch, place


@dataclass
class _Item:
    """A mini-batch on its way; the stages work on it one after the other."""

    number: int
    batch: SampledBatch
    costs: dict[str, Any]  # fields of its `BatchStats`
    requests: list[Future[PagesRequested]] = field(default_factory=list)
    fetched: dict[RowKey, Fetched] = field(default_factory=dict)
    rows: dict[RowKey, npt.NDArray[Any]] = field(default_factory=dict)
    finished: float = 0.0  # when the last stage was

    def gather(self, work: float, disk: float) -> None:
        self.costs["gathered"] += work
        self.costs["disk"] += disk


class Preparation:
    """The stages of an iteration, which run in threads of its session."""

    def __init__(self, batches: SeedBatches, session: Session, epoch: int) -> None:
        self._batches = batches
        self._session = session
        self._epoch = epoch
        self._order = batches.epoch_order(epoch)
        self.threads = default_threads(batches.num_threads)

    def sample(self, number: int) -> _Item:
        """Samples a mini-batch, and requests the pages of its rows."""
        positions = self._batches.positions_of(self._order, number)
        begun = moment()
        batch = self._batches.sample(
            positions,
            epoch=self._epoch,
            batch=number,
            readahead=self._session.topology.hop_readahead(),
        )
        sampled = moment()
        missed = batch.by_type.pages_missed
        work, disk = spent(begun, sampled, has_read=missed > 0)
        costs = {"sampled": work, "disk": disk, "gathered": 0.0, "topology_missed": missed}
        item = _Item(number, batch, {**costs, "io": self._session.describe()})
        item.requests = self._session.rows.submit(number, batch.by_type)
        if item.requests:  # otherwise it was no work, and the clocks see how threads take turns
            item.gather(*spent(sampled, moment(), has_read=False))
        return item

    def fetch(self, item: _Item) -> _Item:
        """Brings the rows into memory, once their pages were requested: then it is faster."""
        rows = self._session.rows
        begun = time.perf_counter()
        requested = rows.wait(item.requests)
        after = moment()
        missing = sum(pages.missing for pages in requested)
        waited = after.wall - begun
        item.gather(*((0.0, waited) if missing else (waited, 0.0)))
        subgraph = item.batch.by_type
        try:
            item.fetched = {name: rows.fetch(name, item.number, subgraph) for name in rows.sources}
        finally:
            rows.finish(requested)
        read_past = sum(map(pages_read, item.fetched.values()))
        item.costs["pages_missed"] = missing + read_past
        end = moment()
        if read_past:  # past the page cache: rows are copied when they are placed
            item.gather(0.0, end.wall - after.wall)
        else:
            item.gather(*spent(after, end, has_read=missing > 0))
        item.finished = end.wall
        item.batch = replace(item.batch, by_type=subgraph.without_positions())
        return item

    def place(self, item: _Item) -> _Item:
        """Puts the rows of a mini-batch in arrays."""
        begun, rows = moment(), self._session.rows
        fetched, item.fetched = item.fetched, {}
        item.rows = {name: rows.place(name, each, self.threads) for name, each in fetched.items()}
        end = moment()
        item.gather(*spent(begun, end, has_read=False))
        item.finished = end.wall
        item.costs["row_bytes"] = sum(
            len(array) * rows.sources[name].store.row_bytes for name, array in item.rows.items()
        )
        return item


def prepare_batches(
    batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]
) -> Generator[SampledBatch, None, None]:
    """The mini-batches with some numbers, prepared in the background by a session of its own."""
    shown = BatchStats(
        epoch=epoch,
        num_workers=share.num_workers if in_worker() else 0,
        num_threads=default_threads(batches.num_threads),
    )
    epoch = batches.sampled_epoch(epoch)
    with closing(start_session(batches, share, epoch, numbers)) as session:
        stages = Preparation(batches, session, epoch)
        lookahead = batches.prefetch.lookahead
        if session.plan.places_ahead:
            lookahead += 1  # the rows of one are read while those of the one before are placed
        work = [Stage(stages.sample, stages.threads), Stage(stages.fetch, most=lookahead)]
        if session.plan.places_ahead:
            work.append(Stage(stages.place, most=1))
        if lookahead:
            # in memory one more is sampled meanwhile: threads would wait for the rows of another
            lookahead = max(lookahead, stages.threads) + (not session.plan.is_larger)
        prepared = session.run_ahead(work, numbers, lookahead=lookahead)
        while True:
            asked = time.perf_counter()
            item: _Item | None = next(prepared, None)
            if item is None:
                return
            ready, queue_depth = time.perf_counter() - item.finished, prepared.num_finished
            if not session.plan.places_ahead:
                with range_of("graphzero: place"):
                    stages.place(item)
            stats = replace(
                shown,
                **item.costs,
                ready=ready,
                waited=time.perf_counter() - asked,
                queue_depth=queue_depth,
                number=item.number,
                num_seeds=len(item.batch.input_id),
                num_nodes=item.batch.by_type.total_nodes,
                num_edges=item.batch.by_type.total_edges,
            )
            batch = replace(item.batch, rows=item.rows, stats=stats)
            del item
            yield batch
            del batch  # its memory is needed for the next one
            session.count_batch()
