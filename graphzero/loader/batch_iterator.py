"""`BatchIterator`: one iteration over mini-batches, which hands them out and counts them."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from graphzero.loader.delivery import AS_SAMPLED, Delivery
from graphzero.loader.epochs import Pass
from graphzero.loader.mini_batch import SampledBatch
from graphzero.loader.preparation import prepare_batches
from graphzero.loader.profiler import waiting
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.states import State, WorkerProgress, read_progress
from graphzero.sampling.order import batch_ids


class BatchIterator(Iterator[SampledBatch]):
    """One iteration over a dataset of seeds, in one process; ``iter(dataset)`` makes it.

    It has the methods that torchdata's ``StatefulDataLoader`` calls. The first ``next`` starts the
    threads. They end with the last mini-batch, or with the iterator: when it is closed or dropped,
    or with the program. Calls from several threads take turns.

    Parameters
    ----------
    batches : SeedBatches
    progress : WorkerProgress
        Where to begin.
    even : bool
        Whether ranks have equally many mini-batches.
    begun : Pass, optional
        The pass that this process has begun; if it is one of several workers, these may have read
        different epochs.
    delivery : Delivery, optional
        What `take` returns is made of each mini-batch in the background by this.
    """

    def __init__(
        self,
        batches: SeedBatches,
        progress: WorkerProgress,
        *,
        even: bool,
        begun: Pass | None = None,
        delivery: Delivery = AS_SAMPLED,
    ) -> None:
        self._source = batches
        self._even = even
        self._begun = begun
        self._delivery = delivery
        self._turn = threading.RLock()
        self._start(progress)

    def _start(self, progress: WorkerProgress) -> None:
        self._progress = progress
        self._taken = progress.taken
        self._process: int | None = None  # which has begun the iteration
        self._has_failed = self._is_closed = False
        numbers = self._numbers(progress)
        self._left = len(numbers)
        self._batches = prepare_batches(
            self._source, progress.share, progress.epoch, numbers, self._delivery
        )

    def _numbers(self, progress: WorkerProgress) -> Sequence[int]:
        """Numbers of the mini-batches that are left."""
        source = self._source
        numbers = batch_ids(
            source.num_batches,
            progress.share,
            progress.first,
            even=self._even,
            drop_last=source.drop_last,
        )
        return numbers[progress.taken :]

    def __iter__(self) -> BatchIterator:
        """Itself."""
        return self

    def __next__(self) -> SampledBatch:
        """The next mini-batch of this worker.

        Raises
        ------
        RuntimeError
            If this process was forked after the first call: the threads are the parent's. If
            workers of the pass have different epochs.
        """
        batch = self.take()
        assert isinstance(batch, SampledBatch)  # nothing else was made of it
        return batch

    def take(self) -> object:
        """As ``next``, what was made of the mini-batch."""
        process = os.getpid()
        if self._process not in (None, process):
            raise RuntimeError(
                "this iteration was begun by the process that forked this one: begin another with "
                "iter()"
            )
        self._process = process
        with self._turn:
            if self._has_failed:
                raise RuntimeError(
                    "this pass has ended with an error: begin another one with iter()"
                )
            try:
                if self._begun is not None and self._left > 0:
                    self._begun.check(self._progress.epoch)
                with waiting(training=False):
                    batch = next(self._batches)
            except Exception as error:
                self._has_failed = not isinstance(error, StopIteration)
                raise
            self._taken += 1
            self._left -= 1
            if self._left == 0 or self._is_closed:
                self._batches.close()
            return batch

    def close(self) -> None:
        """Ends the iteration and its threads, after the calls that they are in.

        It waits for a ``next`` that runs in another thread, which still returns its mini-batch. A
        signal handler that interrupts ``next`` need not wait: ``next`` then ends the iteration. In
        a forked child it does nothing.
        """
        if self._process in (None, os.getpid()):  # else it was inherited
            with self._turn:
                self._is_closed = True
                if inspect.getgeneratorstate(self._batches) != inspect.GEN_RUNNING:
                    self._batches.close()

    def state_dict(self) -> State:
        """The position of the iteration; it counts the mini-batches that ``next`` has returned."""
        progress = replace(self._progress, taken=self._taken)
        return progress.state(self._source.state_options)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continues where `state_dict` was called; the next pass over the dataset is a new epoch.

        The worker must be the same, of as many workers on the same rank.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken on another graph, with another seed, batch_size,
            ... or number of workers or ranks; the message names them.
        """
        source, share = self._source, self._progress.share
        progress = read_progress(state, source.state_options, source.num_batches, share)
        if self._begun is not None:
            self._begun.load(progress)
        self.close()
        self._start(progress)
