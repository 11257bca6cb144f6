"""`BatchIterator`: one iteration over mini-batches, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from graphzero.loader.preparation import prepare_batches
from graphzero.loader.resume import Progress, State, check_share, read_progress
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_batches import SeedBatches
from graphzero.sampling.order import batch_ids

__all__ = ["BatchIterator"]


class BatchIterator(Iterator[SampledBatch]):
    """One iteration over a `SeedDataset`, in one process; ``iter(dataset)`` makes it.

    It has the methods that torchdata's ``StatefulDataLoader`` calls. The first ``next`` starts the
    threads; they end with the iterator.

    Parameters
    ----------
    batches : SeedBatches
    progress : Progress
        Where to begin.
    even : bool
        Every rank gets equally many mini-batches.
    """

    def __init__(self, batches: SeedBatches, progress: Progress, *, even: bool) -> None:
        self._source = batches
        self._even = even
        self._start(progress)

    def _start(self, progress: Progress) -> None:
        self._progress = progress
        numbers = batch_ids(
            self._source.num_batches,
            progress.share,
            progress.first,
            even=self._even,
            drop_last=self._source.drop_last,
        )[progress.taken :]
        self._batches = prepare_batches(self._source, progress.share, progress.epoch, numbers)

    def __iter__(self) -> BatchIterator:
        """Itself."""
        return self

    def __next__(self) -> SampledBatch:
        """The next mini-batch of this worker."""
        batch = next(self._batches)
        self._progress = replace(self._progress, taken=self._progress.taken + 1)
        return batch

    def close(self) -> None:
        """Ends the iteration and its threads, after the calls that they are in."""
        self._batches.close()

    def state_dict(self) -> State:
        """The position of the iteration; it counts the mini-batches that ``next`` has returned."""
        return self._progress.state(self._source.options)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was called.

        The worker must be the same, of as many workers on the same rank.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken with another seed, batch_size, ... or number of
            workers or ranks; the message names them.
        """
        progress = read_progress(state, self._source.options, self._source.num_batches)
        check_share(progress, self._progress.share)
        self.close()
        self._start(progress)
