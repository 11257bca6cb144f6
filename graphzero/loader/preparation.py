"""Prepares the mini-batches of an iteration: plans, samples, fetches and places their rows.

`prepare_batches` does it in background threads, which belong to a session.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice

from graphzero import _core
from graphzero.graph.features import as_booleans
from graphzero.graph.user_input import Values
from graphzero.io.memory import (
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
    return Session(
        batches.topology,
        sources,
        batches.prefetch,
        plan_iteration(batches, share, epoch, numbers, sources),
        feature_dtype=batches.feature_dtype,
        ranks=ranks_of_host(os.environ, share.world_size),
        loop=batches,
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
        request = batches.request(epoch, number, readahead=hop_readahead)
        return batches.sample(request).by_type

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
    seeds : BatchSeeds or None
        What it is sampled around, until it is sampled.
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
    sampled, gathered, disk : float
        Seconds that threads have sampled, looked up and copied rows, and waited for the disk.
    topology_missed, pages_missed : int
        Pages that were not in memory.
    io : str
        How its rows are read.
    row_bytes, num_bytes : int
        Of its rows as they are stored; of its arrays.
    num_seeds, num_nodes, num_edges : int
    oversized : int
        1 if it was larger than all sizes of `pad`.
    finished : float
        When it was placed.
    """

    number: int
    seeds: BatchSeeds | None = None
    batch: SampledBatch | None = None
    output: object = None
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
    num_seeds: int = 0
    num_nodes: int = 0
    num_edges: int = 0
    oversized: int = 0
    finished: float = 0.0

    @property
    def seconds(self) -> float:
        """That threads have sampled."""
        return self.sampled

    @property
    def structure_bytes(self) -> int:
        """Of the edges and ids of a mini-batch without an error."""
        return structure_bytes(self.num_nodes, self.num_edges)

    @property
    def subgraph(self) -> TypedSubgraph:
        """The sampled subgraph of a mini-batch without an error."""
        assert self.batch is not None
        return self.batch.by_type


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
        item.sampled, item.disk = begun.spent(has_read=False)
        self._drawing = time.thread_time() - busy + item.disk  # without the time of other threads
        return item

    def _sample(self, items: Sequence[Preparing], readahead: Sequence[HopReadAhead] | None) -> None:
        """Samples around the seeds of a group, in one call into the core."""
        try:
            seeds = [self._core_seeds(item) for item in items]
            sampled = self._sampler.sample(seeds, self._team, self.stop, readahead)
            if self._session.plan.is_larger:
                self._sampler.release()
        except Exception as error:
            if len(items) == 1:
                items[0].error = error.with_traceback(None)
                return
            for item in items:
                self._sample([item], readahead)
            return
        pairs = zip(items, sampled, strict=False)  # nothing is sampled if it was stopped
        if len(items) == 1 or self._finishing < _SECONDS_OF_A_THREAD:
            for item, arrays in pairs:
                self._finish(item, arrays)
            return
        calls = [self._helpers.submit(self._finish, item, arrays) for item, arrays in pairs]
        for call in calls:
            call.result()

    def _core_seeds(self, item: Preparing) -> _core.Seeds:
        assert item.seeds is not None
        return self._batches.sampler.seeds_of(
            item.seeds.nodes, seed_time=item.seeds.times, epoch=self._epoch, batch=item.number
        )

    def _finish(self, item: Preparing, sampled: _core.Sampled | Exception) -> None:
        """Makes a mini-batch of what was sampled around its seeds."""
        assert item.seeds is not None
        begun, busy = _core.Clock(), time.thread_time()
        try:
            subgraph = self._batches.sampler.as_subgraph(sampled, item.seeds.num_nodes)
            item.batch = self._batches.batch_of(item.seeds, subgraph)
        except Exception as error:
            item.error = error.with_traceback(None)
            return
        assert isinstance(sampled, _core.Sampled)
        item.num_seeds, item.seeds = len(item.seeds.input_id), None
        worked, waited = begun.spent(has_read=False)
        self._finishing = time.thread_time() - busy + waited
        item.sampled += sampled.seconds + worked
        item.disk += sampled.disk_seconds + waited
        item.topology_missed = subgraph.pages_missed
        item.num_nodes, item.num_edges = subgraph.total_nodes, subgraph.total_edges
        item.oversized = int(bool(self._batches.hop_sizes) and not subgraph.padded)
        item.io = self._session.describe()
        item.requests = self._session.rows.submit(item.number, subgraph)

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
            if self._session.topology.reads_hops:
                self._note_bytes(items)
            return
        pages = [sum(map(pages_read, item.fetched.values())) for item in items]
        seconds = time.perf_counter() - begun
        for item, count in zip(items, pages, strict=True):
            item.pages_missed += count
            item.disk += seconds * count / max(1, sum(pages))
        self._note_bytes(items)

    def _note_bytes(self, items: Sequence[Preparing]) -> None:
        """What one of these takes until it is placed."""
        sizes = [
            item.structure_bytes
            + sum(map(bytes_read, item.fetched.values()))
            + self._session.topology.reads_hops * bytes_of_hops(item.num_nodes, item.num_edges)
            for item in items
        ]
        self._bytes_before_placing = max(sizes, default=0)

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
            item.gathered, item.disk = item.gathered + worked, item.disk + waited
            if waited > 0:
                rows.look_again()
            for name, array in arrays.items():
                item.row_bytes += len(array) * rows.sources[name].store.row_bytes
                item.batch.rows[name] = as_booleans(array)
            item.subgraph.forget_positions()
            item.num_bytes = item.row_bytes + item.structure_bytes
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
            batch = item.output
            sent = batch if isinstance(batch, Sent) else None
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
                num_seeds=item.num_seeds,
                num_nodes=item.num_nodes,
                num_edges=item.num_edges,
                num_workers=num_workers,
                num_threads=phases.threads,
                oversized=item.oversized,
                sent_bytes=0 if sent is None else sent.num_bytes,
                copied=0.0 if sent is None else sent.copy_seconds,
            )
            give_stats(batch if sent is None else sent.batch, stats)
            hand_out(stats)
            del item, sent
            yield batch
            del batch  # its memory is needed for the next one
            session.count_batch()
