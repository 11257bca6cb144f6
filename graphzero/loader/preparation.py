"""Prepares mini-batches in the background: sample, read ahead, fetch; then place their rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

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


@dataclass(frozen=True)
class _Sampled:
    """A mini-batch that was sampled, and the requests for its pages."""

    number: int
    batch: SampledBatch
    requests: list[Future[PagesRequested]]


@dataclass(frozen=True)
class _WithRows:
    """A mini-batch whose rows are in memory, and not in their arrays yet."""

    batch: SampledBatch
    fetched: dict[RowKey, Fetched]
    finished: float  # when they were


@dataclass(frozen=True)
class _Placed:
    """A mini-batch that is complete."""

    batch: SampledBatch
    finished: float


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
        time_sampling = spent(begun, sampled, has_read=missed > 0)
        requests = self._session.rows.submit(number, batch.subgraph)
        time_looking = spent(sampled, moment(), has_read=False)
        stats = BatchStats(
            sampled=time_sampling.work,
            disk=time_sampling.disk + time_looking.disk,
            gathered=time_looking.work,
            topology_missed=missed,
            io=self._session.describe(),
        )
        return _Sampled(number, replace(batch, stats=stats), requests)

    @profiled("graphzero: fetch")
    def fetch(self, sampled: _Sampled) -> _WithRows:
        """Brings the rows into memory, once their pages were requested: then it is faster."""
        rows = self._session.rows
        begun = moment()
        requested = rows.wait(sampled.requests)
        missing = sum(pages.missing for pages in requested)
        after = moment()
        wall = after.wall - begun.wall
        waited = Spent(0.0, wall) if missing else Spent(wall, 0.0)
        try:
            fetched = {
                name: rows.fetch(name, sampled.number, sampled.batch.subgraph)
                for name in rows.sources
            }
        finally:
            rows.finish(requested)
        missing += sum(map(pages_read, fetched.values()))
        end = moment()
        time_fetching = spent(after, end, has_read=missing > 0)
        stats = sampled.batch.stats
        stats = replace(
            stats,
            disk=stats.disk + waited.disk + time_fetching.disk,
            gathered=stats.gathered + waited.work + time_fetching.work,
            pages_missed=missing,
        )
        subgraph = sampled.batch.subgraph.without_positions()
        return _WithRows(replace(sampled.batch, subgraph=subgraph, stats=stats), fetched, end.wall)

    @profiled("graphzero: place")
    def place(self, prepared: _WithRows) -> _Placed:
        """The mini-batch with its rows in arrays."""
        begun = moment()
        session_rows = self._session.rows
        rows = {
            name: session_rows.place(name, fetched, self.threads)
            for name, fetched in prepared.fetched.items()
        }
        end = moment()
        time_placing = spent(begun, end, has_read=False)
        stats = prepared.batch.stats
        stats = replace(
            stats,
            disk=stats.disk + time_placing.disk,
            gathered=stats.gathered + time_placing.work,
            row_bytes=sum(
                len(placed) * session_rows.sources[name].store.row_bytes
                for name, placed in rows.items()
            ),
        )
        return _Placed(replace(prepared.batch, rows=rows, stats=stats), end.wall)


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
        depth, ready = prepared.num_finished, time.perf_counter() - done.finished
        placed: _Placed = done if place is None else place(done)
        del done
        waited = time.perf_counter() - asked
        stats = replace(placed.batch.stats, waited=waited, ready=ready, queue_depth=depth)
        batch = replace(placed.batch, stats=stats)
        del placed
        yield batch
        del batch  # its memory is needed for the next one
