"""How the parts of a ready-made loader fit torch's ``DataLoader``.

The batch sampler, in the process that iterates, begins each pass and so decides its epoch. For each
mini-batch it hands out a ticket, which the DataLoader takes to a worker, or to this process. There
`Seeds` prepares the mini-batches of the pass in the background, and gives one for each ticket.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing.reduction import ForkingPickler
from typing import Any, overload

import torch.utils.data
from torch.utils.data import DistributedSampler, get_worker_info

from graphzero.loader.batch_iterator import BatchIterator
from graphzero.loader.remade import in_several_processes
from graphzero.loader.resume import Progress
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.sampling.order import Share, batch_ids

__all__ = ["REMADE", "Pass", "SeedBatchSampler", "Seeds", "Ticket", "seed_sampler"]

_numbers = itertools.count()

REMADE = (
    "a library has put the parts of a graphzero loader into a DataLoader of its own, which deals "
    "its batches out in another way. Let the loader itself deal them to the ranks: make it with "
    "distributed=True (and even=False for evaluation), and keep it out of what the library "
    "prepares: accelerator.prepare(model, optimizer), Trainer(use_distributed_sampler=False), "
    "Fabric.setup_dataloaders(..., use_distributed_sampler=False)"
)


@dataclass(frozen=True)
class Pass:
    """One pass over a loader.

    Attributes
    ----------
    number : int
        Distinguishes it from the other passes of the process that iterates.
    progress : Progress
        Where it begins, and the rank.
    total : int
        Mini-batches of this rank.
    """

    number: int
    progress: Progress
    total: int


class Ticket(Sequence[int]):
    """Stands for one mini-batch; the items are the positions of its seeds.

    Libraries that look at what a batch sampler yields see them: Lightning hands them to prediction
    writers. They are computed only then.

    Parameters
    ----------
    run : Pass
    turn : int
        Mini-batches of this rank before it in the pass.
    places : range
        Places of its seeds in the order of the epoch.
    source : SeedDataset or None
        None in a worker, which needs no positions.
    """

    def __init__(self, run: Pass, turn: int, places: range, source: SeedDataset | None) -> None:
        self.run = run
        self.turn = turn
        self._places = places
        self._source = source

    @cached_property
    def _positions(self) -> Sequence[int]:
        if self._source is None:
            return self._places
        order = self._source.epoch_order(self.run.progress.epoch)
        positions: list[int] = order[self._places.start : self._places.stop].tolist()
        return positions

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        return self._positions[at]

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def _for_worker(ticket: Ticket) -> tuple[Any, ...]:
    return Ticket, (ticket.run, ticket.turn, ticket._places, None)


ForkingPickler.register(Ticket, _for_worker)  # of the queues between processes, and nothing else


@dataclass
class _Running:
    """A worker's share of a pass."""

    iterator: BatchIterator
    share: Share
    total: int
    taken: int = 0
    has_failed: bool = False

    @property
    def next_turn(self) -> int:
        return self.share.worker + self.taken * self.share.num_workers


class Seeds(torch.utils.data.Dataset[SampledBatch]):
    """The seeds of a loader: its ``dataset`` attribute.

    ``len`` is the number of seeds, over all ranks.

    Attributes
    ----------
    source : SeedDataset
    """

    def __init__(self, source: SeedDataset) -> None:
        self.source = source
        self._running: dict[int, _Running] = {}

    def __len__(self) -> int:
        return self.source.num_seeds

    def __repr__(self) -> str:
        return f"Seeds({len(self)})"

    def __getitem__(self, position: int) -> SampledBatch:
        """Not possible: seeds come in mini-batches.

        Raises
        ------
        RuntimeError
        """
        raise RuntimeError(REMADE)

    def __getitems__(self, ticket: Ticket) -> SampledBatch:
        """The next mini-batch of a pass."""
        if not isinstance(ticket, Ticket):
            raise RuntimeError(REMADE)
        number = ticket.run.number
        running = self._running.get(number) or self._start(ticket.run)
        if running.has_failed:
            raise RuntimeError("this pass has ended with an error: begin another one with iter()")
        if ticket.turn != running.next_turn:
            raise RuntimeError(
                f"batch {running.next_turn} of the pass was to come next, and batch {ticket.turn} "
                f"was asked for: {REMADE}"
            )
        running.has_failed = True
        batch = next(running.iterator)
        running.has_failed = False
        running.taken += 1
        if running.next_turn >= running.total:
            self.end(number)
        return batch

    def _start(self, run: Pass) -> _Running:
        info = get_worker_info()
        share = run.progress.share
        if info is not None:
            self._running.clear()  # what a persistent worker had of the pass before
            share = replace(share, worker=info.id, num_workers=info.num_workers)
        iterator = self.source.iterate(replace(run.progress, share=share))
        self._running[run.number] = running = _Running(iterator, share, run.total)
        return running

    def end(self, number: int) -> None:
        """Ends a pass in this process: its threads end with the iterator."""
        self._running.pop(number, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": {}}


class _SeedSampler(torch.utils.data.Sampler[int]):
    """Positions of the seeds in the order of the next pass: the ``sampler`` of a loader."""

    def __init__(self, seeds: Seeds) -> None:
        self.seeds = seeds

    def __iter__(self) -> Iterator[int]:
        source = self.seeds.source
        yield from source.epoch_order(source.epoch).tolist()

    def __len__(self) -> int:
        return len(self.seeds)


class _DealtSeedSampler(_SeedSampler, DistributedSampler[int]):
    """That of a loader that deals to the ranks by itself, so that Lightning leaves it as it is."""

    def set_epoch(self, epoch: int) -> None:
        """Does nothing: the passes of a loader count themselves."""


def seed_sampler(seeds: Seeds) -> torch.utils.data.Sampler[int]:
    """The ``sampler`` of a loader, for libraries that look at it."""
    return (_DealtSeedSampler if seeds.source.ranks.distributed else _SeedSampler)(seeds)


class SeedBatchSampler(torch.utils.data.Sampler[Sequence[int]]):
    """Begins the passes of a loader, and hands out their tickets.

    Parameters
    ----------
    sampler : Sampler
        Of the same loader.
    batch_size : int
        Seeds in a batch.
    drop_last : bool
        Whether a short last batch is dropped.

    Raises
    ------
    RuntimeError
        If it is another sampler, which a library has put in its place.
    """

    def __init__(
        self, sampler: torch.utils.data.Sampler[int], batch_size: int, drop_last: bool
    ) -> None:
        if not isinstance(sampler, _SeedSampler):
            raise RuntimeError(REMADE)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.bind(sampler)

    def bind(self, sampler: torch.utils.data.Sampler[int]) -> None:
        """From now on it is that of another loader, by whose sampler it is known."""
        assert isinstance(sampler, _SeedSampler)
        self.sampler = sampler
        self._seeds = sampler.seeds
        self._reserved: Pass | None = None
        self._waiting: Pass | None = None

    def begin(self) -> Pass:
        """Begins a pass, and so decides its epoch."""
        source = self._seeds.source
        progress = source.begin_pass()
        even, drop_last = source.ranks.even, source.drop_last
        total = len(
            batch_ids(
                source.num_batches, progress.share, progress.first, even=even, drop_last=drop_last
            )
        )
        return Pass(next(_numbers), progress, total)

    @contextmanager
    def reserved(self, run: Pass) -> Iterator[None]:
        """While it lasts, ``iter`` is for a pass that has begun."""
        self._reserved = self._waiting = run
        try:
            yield
        finally:
            self._reserved = None

    def __iter__(self) -> Iterator[Sequence[int]]:
        """The tickets of the pass that it is reserved for; else it begins one itself.

        Raises
        ------
        RuntimeError
            If no loader of ours iterates over it, in one of several processes.
        """
        if self._reserved is None and self._waiting is None and in_several_processes():
            raise RuntimeError(REMADE)
        if self._reserved is not None:
            self._waiting = None
        return self._tickets(self._reserved)

    def _tickets(self, run: Pass | None) -> Iterator[Sequence[int]]:
        if run is None:  # it is in a wrapper, which may have called iter later than the loader's
            run, self._waiting = self._waiting or self.begin(), None
        source, share = self._seeds.source, run.progress.share
        first, step, size = run.progress.first + share.rank, share.world_size, source.batch_size
        try:
            for turn in range(run.total):
                at = (first + turn * step) % max(source.num_batches, 1) * size
                end = min(at + size, source.num_seeds)
                yield Ticket(run, turn, range(at, end), None if source.is_ordered else source)
        finally:
            self._seeds.end(run.number)

    def __len__(self) -> int:
        return len(self._seeds.source)
