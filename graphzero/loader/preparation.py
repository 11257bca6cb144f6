"""Prepares mini-batches in the background: sample, read ahead, fetch; then place their rows."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace

from graphzero.graph.ids import IdArray
from graphzero.io.page_readahead import PagesRequested
from graphzero.io.row_sources import RowKey
from graphzero.io.session import Session
from graphzero.io.strategies import Fetched, pages_read
from graphzero.loader.batch_stats import BatchStats
from graphzero.loader.planning import start_session
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.world import default_threads
from graphzero.sampling.order import Share, batch_positions
from graphzero.sampling.pipeline import Stage
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
        started = time.perf_counter()
        batch = self._batches.sample(
            positions,
            epoch=self._epoch,
            batch=number,
            readahead=self._session.hop_readahead(),
        )
        stats = BatchStats(
            sampled=time.perf_counter() - started,
            topology_missed=batch.subgraph.pages_missed,
            io=self._session.describe(),
        )
        batch = replace(batch, stats=stats)
        return _Sampled(number, batch, self._session.rows.submit(number, batch.subgraph))

    @profiled("graphzero: fetch")
    def fetch(self, sampled: _Sampled) -> _WithRows:
        """Brings the rows into memory, once their pages were requested: then it is faster."""
        rows = self._session.rows
        requested = rows.wait(sampled.requests)
        started = time.perf_counter()
        try:
            fetched = {
                name: rows.fetch(name, sampled.number, sampled.batch.subgraph)
                for name in rows.sources
            }
        finally:
            rows.finish(requested)
        missing = sum(pages.missing for pages in requested)
        stats = replace(
            sampled.batch.stats,
            gathered=time.perf_counter() - started,
            pages_missed=missing + sum(map(pages_read, fetched.values())),
        )
        subgraph = sampled.batch.subgraph.without_positions()
        return _WithRows(replace(sampled.batch, subgraph=subgraph, stats=stats), fetched)

    @profiled("graphzero: place")
    def place(self, prepared: _WithRows) -> SampledBatch:
        """The mini-batch with its rows in arrays; in the training loop's thread."""
        started = time.perf_counter()
        rows = {
            name: self._session.rows.place(name, fetched, self.threads)
            for name, fetched in prepared.fetched.items()
        }
        stats = prepared.batch.stats
        gathered = stats.gathered + time.perf_counter() - started
        return replace(prepared.batch, rows=rows, stats=replace(stats, gathered=gathered))


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
        placed = prepared if session.plan.places_ahead else map(stages.place, prepared)
        for batch in _measure_waiting(placed):
            yield batch
            del batch  # its memory is needed for the next one
            session.count_batch()


def _measure_waiting(batches: Iterator[SampledBatch]) -> Iterator[SampledBatch]:
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        waited = time.perf_counter() - started
        yield replace(batch, stats=replace(batch.stats, waited=waited))
        del batch  # its memory is needed for the next one
