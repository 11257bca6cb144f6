"""`SeedDataset`: the mini-batches of seeds as a torch ``IterableDataset`` that can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from torch.utils.data import IterableDataset

from graphzero.graph.ids import IdArray, as_count
from graphzero.graph.sampling_options import as_seed
from graphzero.loader.batch_iterator import BatchIterator
from graphzero.loader.epochs import Epochs
from graphzero.loader.ranks import OnceFlag, Ranks
from graphzero.loader.remade import refuse_accelerate
from graphzero.loader.resume import Position, Progress, State, read_position
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.seed_weights import SeedWeights
from graphzero.loader.world import ParentGroup, current_share
from graphzero.sampling.order import Share, batch_ids

__all__ = ["SeedDataset"]


class SeedDataset(SeedBatches, IterableDataset[SampledBatch]):
    """What datasets of seeds have in common: the epoch, resuming it, ranks and workers.

    Attributes
    ----------
    ranks : Ranks
    """

    def __init__(
        self,
        *args: Any,
        distributed: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        even: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.ranks = Ranks(distributed, rank, world_size, even)
        self._epochs = Epochs()
        self._told: ParentGroup | None = None
        self._weights: SeedWeights | None = None
        self._warned = OnceFlag()

    def weigh_seeds(self, weights: Any) -> None:
        """Draws the seeds of every epoch by weight, with replacement: see `SeedWeights`."""
        self._weights = SeedWeights(weights, self.num_seeds)

    def reseed(self, seed: int) -> None:
        """Changes the seed; in a copy of the sampler, which iterations may be using."""
        self.sampler = copy(self.sampler)
        self.sampler.seed = as_seed(seed)
        for cached in ("options", "state_options"):
            self.__dict__.pop(cached, None)

    @property
    def is_ordered(self) -> bool:
        """Whether the seeds come in their own order."""
        return not self.shuffle and self._weights is None

    def epoch_order(self, epoch: int) -> IdArray:
        """Positions in the seed array in the order of an epoch, (num_seeds,) int64."""
        if self._weights is None:
            return super().epoch_order(epoch)
        return self._weights.order(self.sampler.seed, epoch)

    @cached_property
    def options(self) -> dict[str, Any]:
        """All that the mini-batches of an epoch are a function of, in plain values."""
        weights = {} if self._weights is None else {"seed_weights_crc": self._weights.crc}
        return {**super().options, **weights}

    @property
    def epoch(self) -> int:
        """The epoch of the next pass: while a pass runs, of the one after it."""
        return self.position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass, in workers as well; those after it count on.

        Without it, every pass is the epoch after the one before; the first one is epoch 0. It
        begins when ``iter`` is called, of the dataset or of a ``DataLoader`` over it. It is a whole
        epoch, unless it is the one that `resume` continues.

        Parameters
        ----------
        epoch : int
            At least 0; also that of an earlier pass, which is then repeated.

        Raises
        ------
        RuntimeError
            If accelerate calls this, and would divide the batches among the processes.
        """
        refuse_accelerate()
        epoch = as_count(epoch, "epoch", 0)
        here = self.position
        self._epochs.choose(here if here.epoch == epoch else Position(epoch, 0))

    def state_after(self, taken: int) -> State:
        """State for `resume`, after the training loop has taken some batches of the running pass.

        The running pass is the one that began last; if none has begun since `set_epoch` or
        `resume`, it is the next one.

        It is not called ``state_dict``, because a ``StatefulDataLoader`` would then restore the
        dataset's epoch over the one that `set_epoch` has chosen since.

        Parameters
        ----------
        taken : int
            Batches that the loop of this rank was given since it began to iterate over a
            ``DataLoader`` of this dataset. The other ranks must be in step. Batches that were
            prepared and not given do not count. A ``StatefulDataLoader`` counts by itself: store
            its state.

        Returns
        -------
        dict
            Plain numbers, strings and lists.
        """
        taken = as_count(taken, "taken", 0)
        _, world_size = self.rank_and_size
        here = self._epochs.last
        done = min(self.num_batches, here.batches + taken * world_size)
        return replace(here, batches=done).state(self.state_options)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Resumes an interrupted epoch, with any number of ranks and workers.

        Every rank loads the same state, that of rank 0. The next pass yields the remaining batches
        of the state's epoch, unless `set_epoch` chooses another one. The pass after it is the next
        epoch, and whole. ``len`` is still that of a whole epoch.

        Parameters
        ----------
        state : mapping
            From `state_after`, from the ``state_dict`` of an iterator of this dataset, or from
            that of a ``StatefulDataLoader``.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken on another graph, with another seed, batch_size,
            ...; the message names them.
        """
        self._epochs.choose(read_position(state, self.state_options, self.num_batches))

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch, over all its workers.

        Raises
        ------
        ValueError
            As at the beginning of an iteration, if it is not known how ranks share the epoch.
        """
        share = Share(*self._checked_rank())
        even, drop_last = self.ranks.even, self.drop_last
        return len(batch_ids(self.num_batches, share, even=even, drop_last=drop_last))

    @property
    def position(self) -> Position:
        """Where the next pass begins, over all ranks."""
        return self._epochs.next

    @property
    def running_epoch(self) -> int:
        """That of the pass that began last, in this process or its DataLoader workers."""
        return self._epochs.last.epoch

    @property
    def rank_and_size(self) -> tuple[int, int]:
        """Rank of this process, and the number of ranks that share an epoch."""
        return self.ranks.find(self._told)

    def _checked_rank(self) -> tuple[int, int]:
        """`rank_and_size`; says what `even` does to the epoch, once and by one rank."""
        rank, world_size = self.rank_and_size
        self.ranks.check_rounds(self.num_batches, rank, world_size, self.drop_last, self._warned)
        return rank, world_size

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_told": ParentGroup.of_this_process()}

    def __copy__(self) -> SeedDataset:
        copied = self.__class__.__new__(self.__class__)
        copied.__dict__.update(self.__dict__, _epochs=copy(self._epochs))
        return copied

    def begin_pass(self) -> Progress:
        """Begins a pass in this process, whose workers `iterate`: its epoch, position and rank."""
        share = Share(*self._checked_rank())
        here = self._epochs.begin().position
        return Progress(here.epoch, here.batches, 0, share)

    def iterate(self, progress: Progress) -> BatchIterator:
        """A worker's share of a pass that `begin_pass` has begun, in the parent or here."""
        even = self.ranks.even
        return BatchIterator(self, progress, lambda *_: None, even=even, observes_loop=False)

    def __iter__(self) -> BatchIterator:
        share = current_share(*self._checked_rank())
        begun = self._epochs.begin()
        here = begun.position
        progress = Progress(here.epoch, here.batches, 0, share)
        load = partial(self._epochs.load, begun)
        return BatchIterator(self, progress, load, even=self.ranks.even)
