"""`timed`: a loader that publishes what the training loop over it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from graphzero.loader.loop_clock import LoopClock
from graphzero.loader.profiler_ranges import LoopRanges
from graphzero.loader.seed_dataset import SeedDataset

__all__ = ["timed"]


class _Timed(Iterable[Any]):
    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader
        self._passes = 0

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        clock = LoopClock()
        with clock.starting():
            iterator = iter(self._loader)
        self._passes += 1
        return self._observed(iterator, clock, self._passes - 1)

    def _observed(self, iterator: Iterator[Any], clock: LoopClock, epoch: int) -> Iterator[Any]:
        source = getattr(self._loader, "dataset", None)
        ranges = LoopRanges(training=True)
        while True:
            try:
                with ranges:
                    batch = clock.next_of(iterator)
            except StopIteration:
                return
            if isinstance(source, SeedDataset):
                epoch = source.running_epoch  # known once a worker has begun the pass
            clock.handed(epoch)
            yield batch
            del batch  # its memory is needed for the next one


def timed(loader: Iterable[Any]) -> Iterable[Any]:
    """The same mini-batches; publishes how long the loop over them waits and works.

    Ready-made loaders publish it by themselves, and this adds nothing to them. It is for a plain
    ``DataLoader``, or for any other iterable. A dataset that is iterated over in this process
    publishes what it sees by itself, which cannot tell the ``collate_fn`` of a ``DataLoader`` from
    the work of the loop; this can, and counts in its place. The epoch is that of the pass over a
    graphzero dataset, and otherwise the number of the pass over what is returned.

    Parameters
    ----------
    loader : iterable

    Returns
    -------
    iterable
        It can be iterated over as often as the loader, and has its ``len``.
    """
    return _Timed(loader)
