"""Prepares the mini-batches of an iteration: plans, samples, fetches and places their rows.

`prepare_batches` does it in background threads, which belong to a session.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from graphzero import _core
from graphzero.graph.features import as_booleans
from graphzero.graph.user_input import Values
from graphzero.io.memory import (
    FEWER_FROM_WORKERS,
    LEARNT_MEMORY,
    check_shared_memory,
    ranks_of_host,
    shared_memory_bytes,
)
from graphzero.io.plan import Estimate, IOPlan, bytes_of_hops, make_plan, structure_bytes
from graphzero.io.prefetch import Fetched, bytes_read, pages_read
from graphzero.io.row_io import PagesRequested, RowKey, RowSource
from graphzero.io.session import Session, is_large, probe_batch, probe_files
from graphzero.loader.delivery import (
    AS_SAMPLED,
    Delivery,
    Move,
    bytes_of_block,
    copied,
    moves_of_structure,
)
from graphzero.loader.device import Sent
from graphzero.loader.mini_batch import SampledBatch, give_stats
from graphzero.loader.pipeline import GroupPipeline, Sizes
from graphzero.loader.ranks import default_threads, in_worker
from graphzero.loader.seed_batches import BatchRequest, BatchSeeds, SeedBatches
from graphzero.loader.shared_blocks import WORKER_BLOCKS
from graphzero.loader.stats import BatchStats, hand_out
from graphzero.sampling.order import Share
from graphzero.sampling.sampler import HopReadAhead, TypedSubgraph
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.mapped_file import mincore_is_honest
from graphzero.units import format_bytes

_SECONDS_OF_A_THREAD = 1e-4  # what takes less is done before a thread is woken for it
_PLENTY_SHARED = 4 << 30  # bytes: in so much shared memory, the mini-batches of workers fit


def start_session(
    batches: SeedBatches,
    share: Share,
    epoch: int,
    numbers: Sequence[int],
    delivery: Delivery = AS_SAMPLED,
) -> Session:
    """The session of an iteration over the mini-batches with some numbers; one for each process.

    Raises
    ------
    FormatError
        If a file that is read has become shorter since it was opened.
    """
    sources = delivery.sent_sources(batches.row_sources(epoch))
    for mapping in {*batches.dataset.mappings, *(s.store.mapping for s in sources.values())}:
        mapping.check_size()
    plan = plan_iteration(batches, share, epoch, numbers, sources)
    if plan.is_larger and plan.in_flight > plan.usable and share.worker == 0:
        warnings.warn(_too_many_batches(plan, batches, share), stacklevel=2)
    return Session(
        batches.topology,
        sources,
        batches.prefetch,
        plan,
        feature_dtype=batches.feature_dtype,
        ranks=ranks_of_host(os.environ, share.world_size),
        loop=batches,
    )


def _too_many_batches(plan: IOPlan, batches: SeedBatches, share: Share) -> str:
    memory = f"have {format_bytes(plan.usable)} of memory: a process may be killed"
    if batches.prefetch.memory_limit is not None:
        memory = f"memory_limit leaves them {format_bytes(plan.usable)}"
    remedy = "use a smaller batch_size or fewer neighbours"
    if in_worker():
        workers = f"num_workers={share.num_workers} and prefetch_factor={batches.queued}"
        remedy = f"with {workers}: {FEWER_FROM_WORKERS}"
    return (
        f"mini-batches take up to {format_bytes(plan.in_flight)} together, and {memory}; {remedy}"
    )


def plan_iteration(
    batches: SeedBatches,
    share: Share,
    epoch: int,
    numbers: Sequence[int],
    sources: Mapping[RowKey, RowSource],
) -> IOPlan:
    """How an iteration reads rows from their sources, see `start_session`."""
    return make_plan(batches.prefetch, _probe(batches, share, epoch, numbers, sources))


def _probe(
    batches: SeedBatches,
    share: Share,
    epoch: int,
    numbers: Sequence[int],
    sources: Mapping[RowKey, RowSource],
) -> Estimate:
    """Sizes of the files; where they matter, also the size of the first mini-batch."""
    files = batches.topology
    before = LEARNT_MEMORY.available_before(batches)
    estimate = probe_files(batches.prefetch, sources, files, before)
    may_be_too_small = in_worker() and (shared_memory_bytes() or _PLENTY_SHARED) < _PLENTY_SHARED
    if not (is_large(estimate) or may_be_too_small) or len(numbers) == 0:
        return estimate

    hop_readahead = tuple(HopReadAhead(0, mincore_is_honest(file.graph.path)) for file in files)

    def sample(number: int) -> TypedSubgraph:
        return batches.sample(batches.request(epoch, number, readahead=hop_readahead)).by_type

    estimate = probe_batch(
        estimate,
        files=files,
        prefetch=batches.prefetch,
        sources=sources,
        feature_dtype=batches.feature_dtype,
        number=numbers[0],
        sample=sample,
        workers=share.num_workers,
        queued=batches.queued,
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
    seeds : BatchSeeds or None
        What it is sampled around, until it is sampled.
    drawn : Sampled, Exception or None
        What was drawn around them, until `batch` is made of it.
    batch : SampledBatch or None
        None with an `error`, and once `output` is made.
    output : object
        What the loop gets.
    error : Exception or None
        Without the traceback, whose frames would keep files open.
    requests : list of Future
        Pages that were requested for its rows.
    requested : list of PagesRequested
        The outcome of these requests, until the rows are placed.
    fetched : dict
        Its rows in memory, until they are placed.
    stats : BatchStats
        What it has cost so far.
    finished : float
        When it was placed.
    """

    number: int
    seeds: BatchSeeds | None = None
    drawn: _core.Sampled | Exception | None = None
    batch: SampledBatch | None = None
    output: object = None
    error: Exception | None = None
    requests: list[Future[PagesRequested]] = field(default_factory=list)
    requested: list[PagesRequested] = field(default_factory=list)
    fetched: dict[RowKey, Fetched] = field(default_factory=dict)
    stats: BatchStats = field(default_factory=BatchStats)
    finished: float = 0.0

    @property
    def seconds(self) -> float:
        """That threads have sampled."""
        return self.stats.sampled

    @property
    def num_bytes(self) -> int:
        """Of its arrays, once it is placed."""
        return self.stats.row_bytes + self.structure_bytes

    @property
    def structure_bytes(self) -> int:
        """Of the edges and ids of a mini-batch without an error."""
        return structure_bytes(self.stats.num_nodes, self.stats.num_edges)

    @property
    def subgraph(self) -> TypedSubgraph:
        """The sampled subgraph of a mini-batch without an error."""
        assert self.batch is not None
        return self.batch.by_type


def _together_or_alone(
    items: Sequence[Preparing], work: Callable[[Sequence[Preparing]], None]
) -> None:
    """Work on mini-batches without an error; one by one if it fails, so that one has the error."""
    sound = [item for item in items if item.error is None]
    try:
        work(sound)
    except Exception as error:
        if len(sound) == 1:
            sound[0].error = error.with_traceback(None)
            return
        for item in sound:
            _together_or_alone([item], work)


class Preparation:
    """The phases of an iteration over mini-batches with some numbers; see `Phases`.

    The last one is to make what the loop gets.
    """

    def __init__(
        self,
        batches: SeedBatches,
        session: Session,
        epoch: int,
        numbers: Sequence[int],
        delivery: Delivery,
    ) -> None:
        self.stop = _core.Stop()
        self.threads = default_threads(batches.num_threads)
        self._batches = batches
        self._session = session
        self._epoch = epoch
        self._delivery = delivery
        # of all rows, also of those that a device has
        self._sources = batches.row_sources(epoch) if delivery.device_rows is not None else {}
        self._order = batches.epoch_order(epoch)
        self._team = _core.Team(self.threads)
        self._second_team: _core.Team | None = None  # for placing while others are sampled
        self._sampler = batches.sampler.group_sampler(timed=batches.input_time is not None)
        self._empty = WORKER_BLOCKS.empty if in_worker() else _core.empty
        self._helpers = WorkerThreads(self.threads, "graphzero-sample")
        self._bytes_before_placing = 0  # of the largest mini-batch of the last group
        self._next = iter(numbers)
        self._ahead: deque[Future[Preparing]] = deque()  # whose seeds are being drawn
        self._drawing = self._finishing = 0.0  # seconds of the last of these steps

    def close(self) -> None:
        """Ends the threads of steps in Python, and gives the memory of sampling back."""
        self._helpers.close()
        self._sampler.release()

    def most_in_group(self) -> int:
        """How many may be read together now; 0 where memory is short: only a wanted one."""
        return self._session.most_in_group(self._bytes_before_placing)

    def sample(self, numbers: Sequence[int]) -> list[Preparing]:
        """Samples mini-batches, and requests the pages of their rows."""
        readahead = self._session.topology.hop_readahead()
        try:
            items = self._begin_next(len(numbers), readahead)
            self._sample([item for item in items if item.error is None], readahead)
        except CancelledError:  # the iteration is being closed
            return []
        return [] if self.stop else items

    def _begin_next(self, count: int, readahead: Sequence[HopReadAhead] | None) -> list[Preparing]:
        """The next mini-batches, with their seeds.

        What takes long to draw is drawn by threads, ahead while other mini-batches are sampled.
        """
        if count > 1 and self._drawing >= _SECONDS_OF_A_THREAD:
            most = count if self._session.plan.is_larger else 2 * count
            numbers = islice(self._next, max(0, most - len(self._ahead)))
            self._ahead += [self._helpers.submit(self._begin, n, readahead) for n in numbers]
        ahead = [self._ahead.popleft() for _ in range(min(count, len(self._ahead)))]
        rest = [self._begin(n, readahead) for n in islice(self._next, count - len(ahead))]
        return [call.result() for call in ahead] + rest

    def _begin(self, number: int, readahead: Sequence[HopReadAhead] | None) -> Preparing:
        """A mini-batch with its seeds."""
        item, begun, busy = Preparing(number), _core.Clock(), time.thread_time()
        try:
            positions = self._batches.positions_of(self._order, number)
            request = BatchRequest(
                positions=positions, epoch=self._epoch, batch=number, readahead=readahead
            )
            item.seeds = self._batches.seeds_of(request)
        except Exception as error:
            item.error = error.with_traceback(None)
        item.stats.sampled, item.stats.disk = begun.spent(has_read=False)
        # without the time of other threads
        self._drawing = time.thread_time() - busy + item.stats.disk
        return item

    def _sample(self, items: Sequence[Preparing], readahead: Sequence[HopReadAhead] | None) -> None:
        """Samples around the seeds of a group."""
        _together_or_alone(items, partial(self._draw, readahead=readahead))
        drawn = [item for item in items if item.drawn is not None]  # none if it was stopped
        if len(drawn) == 1 or self._finishing < _SECONDS_OF_A_THREAD:
            for item in drawn:
                self._finish(item)
            return
        for call in [self._helpers.submit(self._finish, item) for item in drawn]:
            call.result()

    def _draw(self, items: Sequence[Preparing], readahead: Sequence[HopReadAhead] | None) -> None:
        """Draws around the seeds, in one call into the core."""
        seeds = [self._core_seeds(item) for item in items]
        drawn = self._sampler.sample(seeds, self._team, self.stop, readahead)
        if self._session.plan.is_larger:
            self._sampler.release()
        for item, arrays in zip(items, drawn, strict=False):
            item.drawn = arrays

    def _core_seeds(self, item: Preparing) -> _core.Seeds:
        assert item.seeds is not None
        return self._batches.sampler.seeds_of(
            item.seeds.nodes, seed_time=item.seeds.times, epoch=self._epoch, batch=item.number
        )

    def _finish(self, item: Preparing) -> None:
        """Makes a mini-batch of what was drawn around its seeds."""
        begun, busy, stats = _core.Clock(), time.thread_time(), item.stats
        drawn, item.drawn = item.drawn, None
        assert item.seeds is not None
        assert drawn is not None
        try:
            subgraph = self._batches.sampler.as_subgraph(drawn, item.seeds.num_nodes)
            item.batch = self._batches.batch_of(item.seeds, subgraph)
        except Exception as error:
            item.error = error.with_traceback(None)
            return
        assert isinstance(drawn, _core.Sampled)
        stats.num_seeds = len(item.seeds.input_id)
        item.seeds = None
        worked, waited = begun.spent(has_read=False)
        self._finishing = time.thread_time() - busy + waited
        stats.sampled += drawn.seconds + worked
        stats.disk += drawn.disk_seconds + waited
        stats.topology_missed = subgraph.pages_missed
        stats.num_nodes, stats.num_edges = subgraph.total_nodes, subgraph.total_edges
        stats.oversized = int(bool(self._batches.hop_sizes) and not subgraph.padded)
        stats.io = self._session.describe()
        item.requests = self._session.rows.submit(item.number, subgraph)

    def must_read(self, items: Sequence[Preparing]) -> bool:
        """Whether rows are read past the page cache, or requested pages are on their way."""
        if self._session.rows.reads_past_page_cache:
            return True
        return not all(request.done() for item in items for request in item.requests)

    def read(self, items: Sequence[Preparing]) -> None:
        """Brings the rows of a group into memory, each page once."""
        _together_or_alone(items, self._read)

    def _read(self, items: Sequence[Preparing]) -> None:
        self._wait(items)
        self._fetch(items)

    def _wait(self, items: Sequence[Preparing]) -> None:
        """For the pages that were requested: then it is faster."""
        rows = self._session.rows
        for item in items:
            begun = time.perf_counter()
            item.requested = rows.wait(item.requests)
            missing = sum(pages.missing for pages in item.requested)
            if missing:
                item.stats.disk += time.perf_counter() - begun
                item.stats.pages_missed += missing

    def _fetch(self, items: Sequence[Preparing]) -> None:
        rows, begun = self._session.rows, time.perf_counter()
        for name in rows.sources:
            fetched = rows.fetch(name, [(item.number, item.subgraph) for item in items])
            for item, of_item in zip(items, fetched, strict=True):
                item.fetched[name] = of_item
        if not rows.reads_past_page_cache:
            if self._session.topology.reads_hops:
                self._note_bytes(items)
            return
        pages = [sum(map(pages_read, item.fetched.values())) for item in items]
        seconds = time.perf_counter() - begun
        for item, count in zip(items, pages, strict=True):
            item.stats.pages_missed += count
            item.stats.disk += seconds * count / max(1, sum(pages))
        self._note_bytes(items)

    def _note_bytes(self, items: Sequence[Preparing]) -> None:
        """What one of these takes until it is placed."""
        sizes = [
            item.structure_bytes
            + sum(map(bytes_read, item.fetched.values()))
            + self._session.topology.reads_hops
            * bytes_of_hops(item.stats.num_nodes, item.stats.num_edges)
            for item in items
        ]
        self._bytes_before_placing = max(sizes, default=0)

    def place(self, items: Sequence[Preparing], *, apart: bool = False) -> None:
        """Puts the rows of mini-batches into arrays; `apart` beside the team that samples."""
        if apart and self._second_team is None:
            self._second_team = _core.Team(self.threads)
        team = self._second_team if apart else None
        _together_or_alone(items, partial(self._place, team=team or self._team))
        if self._session.plan.is_larger:
            _core.trim_pool()  # idle memory is worth more as a part of the resident rows

    def _place(self, items: Sequence[Preparing], team: _core.Team) -> None:
        rows, fills = self._session.rows, _core.Fills(len(items))
        moves: list[Move] = []
        placed = [self._add(item, fills, i, moves) for i, item in enumerate(items)]
        spent = fills.run(team, self.stop).tolist()
        for move in moves:
            move.arrays[move.kind] = move.moved
        finished = time.perf_counter()
        for item, arrays, (worked, waited) in zip(items, placed, spent, strict=True):
            assert item.batch is not None
            rows.finish(item.requested)
            item.stats.gathered += worked
            item.stats.disk += waited
            if waited > 0:
                rows.look_again()
            for name, array in arrays.items():
                item.stats.row_bytes += len(array) * rows.sources[name].store.row_bytes
                item.batch.rows[name] = as_booleans(array)
            item.subgraph.forget_positions()
            item.finished = finished
            item.fetched, item.requests, item.requested = {}, [], []
            self._make_output(item, item.batch)

    def _add(
        self, item: Preparing, fills: _core.Fills, number: int, moves: list[Move]
    ) -> dict[RowKey, Values]:
        """The arrays that will have the rows of a mini-batch, `number` of the fills."""
        rows, empty, batch, delivery = self._session.rows, self._empty, item.batch, self._delivery
        assert batch is not None
        if delivery.device_rows is not None:
            batch.splits.update(
                delivery.device_rows.splits(self._sources, item.number, batch.by_type)
            )
        if delivery.new_block is not None:
            sizes = [
                rows.placed_bytes(name, of_item, batch.by_type)
                for name, of_item in item.fetched.items()
            ]
            block = delivery.new_block(bytes_of_block(batch, sizes))
            empty = block.empty
            fields = {name: copied(array, empty) for name, array in batch.fields.items()}
            input_id = copied(batch.input_id, empty)
            item.batch = batch = replace(batch, block=block, fields=fields, input_id=input_id)
            moves += moves_of_structure(batch.by_type, block, fills, number)
        return {
            name: rows.add(name, of_item, fills, number, empty, subgraph=batch.by_type)
            for name, of_item in item.fetched.items()
        }

    def _make_output(self, item: Preparing, batch: SampledBatch) -> None:
        item.batch = None
        try:
            item.output = self._delivery.make(batch)
        except Exception as error:
            item.error = error.with_traceback(None)


def prepare_batches(
    batches: SeedBatches,
    share: Share,
    epoch: int,
    numbers: Sequence[int],
    delivery: Delivery = AS_SAMPLED,
) -> Generator[object, None, None]:
    """What is made of the mini-batches with some numbers, in the background, by a session.

    It gets the cost of its mini-batch in place of the ``stats`` that it has.
    """
    num_workers = share.num_workers if in_worker() else 0
    drawn_epoch = batches.sampled_epoch(epoch)
    with closing(start_session(batches, share, drawn_epoch, numbers, delivery)) as session:
        phases = session.enter(Preparation(batches, session, drawn_epoch, numbers, delivery))
        sizes = Sizes(
            lookahead=batches.prefetch.lookahead,
            threads=phases.threads,
            reads=session.rows.reads_past_page_cache,
            reads_hops=session.topology.reads_hops,
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
            batch, stats = item.output, item.stats
            sent = batch if isinstance(batch, Sent) else None
            stats.epoch, stats.number = epoch, item.number
            stats.num_workers, stats.num_threads = num_workers, phases.threads
            stats.ready, stats.waited = taken - item.finished, taken - asked
            stats.queue_depth = prepared.num_finished
            if sent is not None:
                stats.sent_bytes, stats.copied = sent.num_bytes, sent.copy_seconds
            give_stats(batch if sent is None else sent.batch, stats)
            hand_out(stats)
            del item, sent
            yield batch
            del batch  # its memory is needed for the next one
            session.count_batch()
