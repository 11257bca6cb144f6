"""Prepares mini-batches in the background: sample, read ahead, fetch; then place their rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from graphzero.graph.ids import IdArray
from graphzero.io.page_readahead import PagesRequested
from graphzero.io.row_sources import RowKey
from graphzero.io.session import Session
from graphzero.io.strategies import Fetched, pages_read
from graphzero.loader.batch_stats import BatchStats
from graphzero.loader.planning import start_session
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.stage_clock import Spent, moment, spent
from graphzero.loader.world import default_threads
from graphzero.sampling.order import Share, batch_positions
from graphzero.sampling.pipeline import Pipeline, Stage
from graphzero.sampling.profiled import profiled

__all__ = ["prepare_batches"]


@dataclass
class _Cost:
    """Of a mini-batch so far; the stages work on it one after the other."""

    topology_missed: int
    io: str
    sampled: float = 0.0
    disk: float = 0.0
    gathered: float = 0.0
    pages_missed: int = 0
    row_bytes: int = 0
    finished: float = 0.0  # when the last stage was

    def gather(self, seconds: Spent) -> None:
        self.gathered += seconds.work
        self.disk += seconds.disk

    def stats(self, waited: float, ready: float, queue_depth: int) -> BatchStats:
        return BatchStats(
            sampled=self.sampled,
            disk=self.disk,
            gathered=self.gathered,
            ready=ready,
            waited=waited,
            queue_depth=queue_depth,
            row_bytes=self.row_bytes,
            pages_missed=self.pages_missed,
            topology_missed=self.topology_missed,
            io=self.io,
        )


@dataclass(frozen=True)
class _Sampled:
    """A mini-batch that was sampled, and the requests for its pages."""

    number: int
    batch: SampledBatch
    cost: _Cost
    requests: list[Future[PagesRequested]]


@dataclass(frozen=True)
class _WithRows:
    """A mini-batch whose rows are in memory, and not in their arrays yet."""

    batch: SampledBatch
    cost: _Cost
    fetched: dict[RowKey, Fetched]


@dataclass(frozen=True)
class _Placed:
    """A mini-batch that has its rows."""

    batch: SampledBatch
    cost: _Cost
    rows: dict[RowKey, npt.NDArray[Any]]


class _Preparation:
    """The stages of an iteration, which run in threads of its session."""

    def __init__(self, batches: SeedBatches, session: Session, epoch: int) -> None:
        self._batches = batches
        self._session = session
        self._epoch = epoch
        self._order: IdArray = batches.epoch_order(epoch)
        self.threads = default_threads(batches.num_threads)

    @profiled("graphzero: sample")
    def sample(self, number: int) -> _Sampled:
        """Samples a mini-batch, and requests the pages of its rows."""
        positions = batch_positions(self._order, number, self._batches.batch_size)
        begun = moment()
        batch = self._batches.sample(
            positions,
            epoch=self._epoch,
            batch=number,
            readahead=self._session.hop_readahead(),
        )
        missed = batch.subgraph.pages_missed
        sampled = moment()
        sampling = spent(begun, sampled, has_read=missed > 0)
        cost = _Cost(missed, self._session.describe(), sampling.work, sampling.disk)
        requests = self._session.rows.submit(number, batch.subgraph)
        if requests:  # otherwise it was no work, and the clocks see how threads take turns
            cost.gather(spent(sampled, moment(), has_read=False))
        return _Sampled(number, batch, cost, requests)

    @profiled("graphzero: fetch")
    def fetch(self, sampled: _Sampled) -> _WithRows:
        """Brings the rows into memory, once their pages were requested: then it is faster."""
        rows, cost = self._session.rows, sampled.cost
        begun = time.perf_counter()
        requested = rows.wait(sampled.requests)
        after = moment()
        missing = sum(pages.missing for pages in requested)
        waited = after.wall - begun
        cost.gather(Spent(0.0, waited) if missing else Spent(waited, 0.0))
        try:
            fetched = {
                name: rows.fetch(name, sampled.number, sampled.batch.subgraph)
                for name in rows.sources
            }
        finally:
            rows.finish(requested)
        read_past = sum(map(pages_read, fetched.values()))
        cost.pages_missed = missing + read_past
        end = moment()
        fetching = spent(after, end, has_read=missing > 0)
        # past the page cache: rows are copied when they are placed, this was reading alone
        cost.gather(Spent(0.0, end.wall - after.wall) if read_past else fetching)
        cost.finished = end.wall
        subgraph = sampled.batch.subgraph.without_positions()
        return _WithRows(replace(sampled.batch, subgraph=subgraph), cost, fetched)

    @profiled("graphzero: place")
    def place(self, prepared: _WithRows) -> _Placed:
        """The mini-batch with its rows in arrays."""
        begun = moment()
        rows, cost = self._session.rows, prepared.cost
        placed = {
            name: rows.place(name, fetched, self.threads)
            for name, fetched in prepared.fetched.items()
        }
        end = moment()
        cost.gather(spent(begun, end, has_read=False))
        cost.finished = end.wall
        cost.row_bytes = sum(
            len(array) * rows.sources[name].store.row_bytes for name, array in placed.items()
        )
        return _Placed(prepared.batch, cost, placed)


def prepare_batches(
    batches: SeedBatches, share: Share, epoch: int, numbers: Sequence[int]
) -> Generator[SampledBatch, None, None]:
    """The mini-batches of an iteration, prepared in the background by a session of its own.

    Parameters
    ----------
    batches : SeedBatches
    share : Share
        Of this process.
    epoch : int
    numbers : sequence of int
        Of the mini-batches in the epoch.
    """
    epoch = batches.sampled_epoch(epoch)
    with closing(start_session(batches, share, epoch, numbers)) as session:
        stages = _Preparation(batches, session, epoch)
        lookahead = batches.prefetch.lookahead
        if session.plan.places_ahead:
            lookahead += 1  # the rows of one are read while those of the one before are placed
        work = [Stage(stages.sample, stages.threads), Stage(stages.fetch, most=lookahead)]
        if session.plan.places_ahead:
            work.append(Stage(stages.place, most=1))
        prepared = session.run_ahead(
            work, numbers, lookahead=max(lookahead, stages.threads) if lookahead else 0
        )
        place = None if session.plan.places_ahead else stages.place
        for batch in _taken(prepared, place):
            yield batch
            del batch  # its memory is needed for the next one
            session.count_batch()


def _taken(
    prepared: Pipeline, place: Callable[[_WithRows], _Placed] | None
) -> Iterator[SampledBatch]:
    """The mini-batches as the consumer takes them, placed by its thread if `place` is given."""
    while True:
        asked = time.perf_counter()
        done: Any = next(prepared, None)
        if done is None:
            return
        ready = time.perf_counter() - done.cost.finished
        queue_depth = prepared.num_finished
        placed: _Placed = done if place is None else place(done)
        del done
        waited = time.perf_counter() - asked
        stats = placed.cost.stats(waited, ready, queue_depth)
        batch = replace(placed.batch, rows=placed.rows, stats=stats)
        del placed
        yield batch
        del batch  # its memory is needed for the next one
