"""Prepares the mini-batches of an iteration: plans, samples, fetches and places their rows.

`prepare_batches` does it in background threads, which belong to a session.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing
from dataclasses import dataclass, field, replace

from graphzero import _core
from graphzero.graph.features import as_booleans
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
from graphzero.loader.pipeline import GroupPipeline, Sizes
from graphzero.loader.ranks import default_threads, in_worker
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.shared_blocks import WORKER_BLOCKS
from graphzero.loader.stats import BatchStats
from graphzero.sampling.order import Share
from graphzero.sampling.sampler import HopReadAhead, TypedSubgraph
from graphzero.sampling.threads import WorkerThreads
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
        files=files,
        prefetch=batches.prefetch,
        sources=sources,
        feature_dtype=batches.feature_dtype,
        number=numbers[0],
        sample=sample,
        workers=share.num_workers,
        threads=default_threads(batches.num_threads),
    )
    if in_worker():
        check_shared_memory(estimate.batch, share.num_workers, batches.queued)
    return estimate


# --- sample, read, place


@dataclass
class Preparing:
    """A mini-batch on its way, and what it has cost.

    Attributes
    ----------
    number : int
        In its epoch.
    batch : SampledBatch or None
        None with an `error`.
    error : Exception or None
        Without the traceback, whose frames would keep files open.
    requests : list of Future
        Pages that were requested for its rows.
    requested : list of PagesRequested
        The outcome of these requests, until the rows are placed.
    fetched : dict
        Its rows in memory, until they are placed.
    sampled, gathered, disk : float
        Seconds that threads have sampled, looked up and copied rows, and waited for the disk.
    topology_missed, pages_missed : int
        Pages that were not in memory.
    io : str
        How its rows are read.
    row_bytes, num_bytes : int
        Of its rows as they are stored; of its arrays.
    finished : float
        When it was placed.
    """

    number: int
    batch: SampledBatch | None = None
    error: Exception | None = None
    requests: list[Future[PagesRequested]] = field(default_factory=list)
    requested: list[PagesRequested] = field(default_factory=list)
    fetched: dict[RowKey, Fetched] = field(default_factory=dict)
    sampled: float = 0.0
    gathered: float = 0.0
    disk: float = 0.0
    topology_missed: int = 0
    pages_missed: int = 0
    io: str = ""
    row_bytes: int = 0
    num_bytes: int = 0
    finished: float = 0.0

    @property
    def seconds(self) -> float:
        """That threads have sampled."""
        return self.sampled

    @property
    def subgraph(self) -> TypedSubgraph:
        """The sampled subgraph of a mini-batch without an error."""
        assert self.batch is not None
        return self.batch.by_type


class Preparation:
    """The phases of an iteration; see `Phases`."""

    def __init__(self, batches: SeedBatches, session: Session, epoch: int) -> None:
        self.stop = _core.Stop()
        self.threads = default_threads(batches.num_threads)
        self._batches = batches
        self._session = session
        self._epoch = epoch
        self._order = batches.epoch_order(epoch)
        self._team = _core.Team(self.threads)
        self._second_team: _core.Team | None = None  # for placing while others are sampled
        self._sampler = batches.group_sampler()
        self._empty = WORKER_BLOCKS.empty if in_worker() else _core.empty
        self._helpers = WorkerThreads(self.threads, "graphzero-sample")

    def close(self) -> None:
        """Ends the threads that sample."""
        self._helpers.close()

    def sample(self, numbers: Sequence[int]) -> list[Preparing]:
        """Samples mini-batches, and requests the pages of their rows."""
        readahead = self._session.topology.hop_readahead()
        if self._sampler is None:
            return self._sample_apart(numbers, readahead)
        positions = [self._batches.positions_of(self._order, number) for number in numbers]
        try:
            seeds = [
                self._batches.seeds_at(places, epoch=self._epoch, batch=number)
                for places, number in zip(positions, numbers, strict=True)
            ]
            sampled = self._sampler.sample(seeds, self._team, self.stop, readahead)
        except Exception as error:
            if len(numbers) > 1:
                return [item for number in numbers for item in self.sample([number])]
            return [Preparing(numbers[0], error=error.with_traceback(None))]
        items = []
        for places, number, arrays in zip(positions, numbers, sampled, strict=False):
            item = Preparing(number)
            try:
                item.batch = self._batches.batch_of(places, arrays)
            except Exception as error:
                item.error = error.with_traceback(None)
            if item.error is None and isinstance(arrays, _core.Sampled):
                self._request(item, arrays.seconds, arrays.disk_seconds)
            items.append(item)
        return items

    def _sample_apart(
        self, numbers: Sequence[int], readahead: Sequence[HopReadAhead] | None
    ) -> list[Preparing]:
        """Mini-batches whose sampling has steps in Python, each by a thread."""
        if len(numbers) == 1:
            return [self._sample_one(numbers[0], readahead)]
        calls = [self._helpers.submit(self._sample_one, number, readahead) for number in numbers]
        try:
            return [call.result() for call in calls]
        except CancelledError:  # the iteration is being closed
            return []

    def _sample_one(self, number: int, readahead: Sequence[HopReadAhead] | None) -> Preparing:
        item = Preparing(number)
        begun = _core.Clock()
        try:
            item.batch = self._batches.sample(
                self._batches.positions_of(self._order, number),
                epoch=self._epoch,
                batch=number,
                readahead=readahead,
            )
        except Exception as error:
            item.error = error.with_traceback(None)
        else:
            worked, waited = begun.spent(has_read=item.subgraph.pages_missed > 0)
            self._request(item, worked, waited)
        return item

    def _request(self, item: Preparing, worked: float, waited: float) -> None:
        item.sampled, item.disk = worked, waited
        item.topology_missed = item.subgraph.pages_missed
        item.io = self._session.describe()
        item.requests = self._session.rows.submit(item.number, item.subgraph)

    def must_read(self, items: Sequence[Preparing]) -> bool:
        """Whether rows are read past the page cache, or requested pages are on their way."""
        if self._session.rows.reads_past_page_cache:
            return True
        return not all(request.done() for item in items for request in item.requests)

    def read(self, items: Sequence[Preparing]) -> None:
        """Brings the rows of a group into memory, each page once."""
        sound = [item for item in items if item.error is None]
        try:
            self._wait(sound)
            self._fetch(sound)
        except Exception as error:
            if len(sound) == 1:
                sound[0].error = error.with_traceback(None)
                return
            for item in sound:
                self.read([item])

    def _wait(self, items: Sequence[Preparing]) -> None:
        """For the pages that were requested: then it is faster."""
        rows = self._session.rows
        for item in items:
            begun = time.perf_counter()
            item.requested = rows.wait(item.requests)
            missing = sum(pages.missing for pages in item.requested)
            if missing:
                item.disk += time.perf_counter() - begun
                item.pages_missed += missing

    def _fetch(self, items: Sequence[Preparing]) -> None:
        rows, begun = self._session.rows, time.perf_counter()
        for name in rows.sources:
            fetched = rows.fetch(name, [(item.number, item.subgraph) for item in items])
            for item, of_item in zip(items, fetched, strict=True):
                item.fetched[name] = of_item
        if not rows.reads_past_page_cache:
            return
        pages = [sum(map(pages_read, item.fetched.values())) for item in items]
        seconds = time.perf_counter() - begun
        for item, count in zip(items, pages, strict=True):
            item.pages_missed += count
            item.disk += seconds * count / max(1, sum(pages))

    def place(self, items: Sequence[Preparing], *, apart: bool = False) -> None:
        """Puts the rows of mini-batches into arrays; `apart` beside the team that samples."""
        sound = [item for item in items if item.error is None]
        if apart and self._second_team is None:
            self._second_team = _core.Team(self.threads)
        team = self._second_team if apart else None
        try:
            self._place(sound, self._team if team is None else team)
        except Exception as error:
            if len(sound) == 1:
                sound[0].error = error.with_traceback(None)
                return
            for item in sound:
                self.place([item], apart=apart)

    def _place(self, items: Sequence[Preparing], team: _core.Team) -> None:
        rows, fills = self._session.rows, _core.Fills(len(items))
        placed = [
            {
                name: rows.add(name, of_item, fills, i, self._empty)
                for name, of_item in item.fetched.items()
            }
            for i, item in enumerate(items)
        ]
        spent = fills.run(team, self.stop).tolist()
        finished = time.perf_counter()
        for item, arrays, (worked, waited) in zip(items, placed, spent, strict=True):
            assert item.batch is not None
            rows.finish(item.requested)
            item.gathered, item.disk = item.gathered + worked, item.disk + waited
            if waited > 0:
                rows.look_again()
            item.row_bytes = sum(
                len(array) * rows.sources[name].store.row_bytes for name, array in arrays.items()
            )
            item.finished = finished
            item.fetched, item.requests, item.requested = {}, [], []
            item.num_bytes = item.row_bytes + item.subgraph.total_edges * 32
            item.batch = replace(
                item.batch,
                rows={name: as_booleans(array) for name, array in arrays.items()},
                by_type=item.subgraph.without_positions(),
            )


def prepare_batches(
    batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]
) -> Generator[SampledBatch, None, None]:
    """The mini-batches with some numbers, prepared in the background by a session of its own."""
    num_workers = share.num_workers if in_worker() else 0
    drawn_epoch = batches.sampled_epoch(epoch)
    with closing(start_session(batches, share, drawn_epoch, numbers)) as session:
        phases = session.enter(Preparation(batches, session, drawn_epoch))
        sizes = Sizes(
            lookahead=batches.prefetch.lookahead,
            group=session.plan.group,
            threads=phases.threads,
            reads=session.rows.reads_past_page_cache,
            fits=not session.plan.is_larger,
            # a worker takes shared memory only for what is sent
            places_ahead=not in_worker()
            and (session.plan.places_ahead or not session.plan.is_larger),
        )
        prepared = session.enter(GroupPipeline(phases, numbers, sizes, phases.stop))
        while True:
            asked = time.perf_counter()
            item = next(prepared, None)
            if item is None:
                return
            taken = time.perf_counter()
            assert item.batch is not None
            stats = BatchStats(
                sampled=item.sampled,
                disk=item.disk,
                gathered=item.gathered,
                ready=taken - item.finished,
                waited=taken - asked,
                queue_depth=prepared.num_finished,
                row_bytes=item.row_bytes,
                pages_missed=item.pages_missed,
                topology_missed=item.topology_missed,
                io=item.io,
                epoch=epoch,
                number=item.number,
                num_seeds=len(item.batch.input_id),
                num_nodes=item.subgraph.total_nodes,
                num_edges=item.subgraph.total_edges,
                num_workers=num_workers,
                num_threads=phases.threads,
            )
            batch = replace(item.batch, stats=stats)
            del item
            yield batch
            del batch  # its memory is needed for the next one
            session.count_batch()
