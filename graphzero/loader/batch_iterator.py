"""`BatchIterator`: one iteration over mini-batches, and how far it has come."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphzero.loader.loop_clock import LoopClock
from graphzero.loader.preparation import prepare_batches
from graphzero.loader.profiler_ranges import LoopRanges
from graphzero.loader.publishing import publish_batch, publish_iteration
from graphzero.loader.resume import Progress, State, check_share, read_progress
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.world import in_worker
from graphzero.sampling.order import batch_ids

__all__ = ["BatchIterator"]


class BatchIterator(Iterator[SampledBatch]):
    """One iteration over a `SeedDataset`, in one process; ``iter(dataset)`` makes it.

    It has the methods that torchdata's ``StatefulDataLoader`` calls. The first ``next`` starts the
    threads. They end with the iterator: when it is exhausted, closed, or dropped, or with the
    program. Calls from several threads take turns.

    Parameters
    ----------
    batches : SeedBatches
    progress : Progress
        Where to begin.
    on_load : callable
        Called with the progress that `load_state_dict` goes on with, and whether this worker has
        mini-batches left to give.
    even : bool
        Every rank gets equally many mini-batches.
    observes_loop : bool
        Whether it publishes what the training loop does, as far as it runs in this process.
    """

    def __init__(
        self,
        batches: SeedBatches,
        progress: Progress,
        on_load: Callable[[Progress, bool], object],
        *,
        even: bool,
        observes_loop: bool = True,
    ) -> None:
        self._source = batches
        self._on_load = on_load
        self._even = even
        self._loop = LoopClock(of_dataset=True) if observes_loop and not in_worker() else None
        self._turn = threading.RLock()
        self._ranges = LoopRanges(training=False)
        self._is_running = False
        self._start(progress)

    def _start(self, progress: Progress) -> None:
        self._progress = progress
        self._process: int | None = None  # which has begun the iteration
        self._is_closed = self._has_begun = False
        numbers = self._numbers(progress)
        self._left = iter(numbers)
        self._batches = prepare_batches(self._source, progress.share, progress.epoch, numbers)

    def _numbers(self, progress: Progress) -> Sequence[int]:
        """Of the mini-batches that are left."""
        return batch_ids(
            self._source.num_batches,
            progress.share,
            progress.first,
            even=self._even,
            drop_last=self._source.drop_last,
        )[progress.taken :]

    def __iter__(self) -> BatchIterator:
        """Itself."""
        return self

    def __next__(self) -> SampledBatch:
        """The next mini-batch of this worker.

        Raises
        ------
        RuntimeError
            If this process was forked after the first call: the threads are the parent's.
        """
        if self._is_inherited():
            raise RuntimeError(
                "this iteration was begun by the process that forked this one: begin another with "
                "iter()"
            )
        self._process = os.getpid()
        with self._turn:
            if self._is_running:
                raise ValueError("next() was called by a signal handler that interrupted next()")
            self._is_running = True
            try:
                with self._ranges:
                    batch = self._next()
            finally:
                self._is_running = False
                if self._is_closed:
                    self._batches.close()
            self._progress = replace(self._progress, taken=self._progress.taken + 1)
            return batch

    def _next(self) -> SampledBatch:
        epoch, loop = self._progress.epoch, self._loop
        if not self._has_begun:
            self._describe("")
        batch = next(self._batches) if loop is None else loop.next_of(self._batches)
        if not self._has_begun:
            self._describe(batch.stats.io)
            self._has_begun = True
        publish_batch(batch, epoch, next(self._left))
        if loop is not None:
            loop.handed(epoch)
        return batch

    def _describe(self, io: str) -> None:
        here = self._progress
        num_workers = here.share.num_workers if in_worker() else 0
        publish_iteration(self._source, here.epoch, num_workers, io)

    def close(self) -> None:
        """Ends the iteration and its threads, after the calls that they are in.

        It waits for a ``next`` that runs in another thread, which still returns its mini-batch. A
        signal handler that interrupts ``next`` need not wait: ``next`` then ends the iteration. In
        a forked child it does nothing.
        """
        if self._is_inherited():
            return
        self._is_closed = True
        with self._turn:
            if not self._is_running:
                self._batches.close()

    def _is_inherited(self) -> bool:
        return self._process not in (None, os.getpid())

    def state_dict(self) -> State:
        """The position of the iteration; it counts the mini-batches that ``next`` has returned."""
        return self._progress.state(self._source.state_options)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was called; the next pass over the dataset is a new epoch.

        The worker must be the same, of as many workers on the same rank.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken on another graph, with another seed, batch_size,
            ... or number of workers or ranks; the message names them.
        RuntimeError
            If another worker of the pass has loaded a state of another epoch.
        """
        progress = read_progress(state, self._source.state_options, self._source.num_batches)
        check_share(progress, self._progress.share)
        self._on_load(progress, len(self._numbers(progress)) > 0)
        self.close()
        self._start(progress)
