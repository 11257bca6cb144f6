"""`SeedDataset`: mini-batches of seeds as a torch ``IterableDataset``, with epochs and ranks."""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

from torch.utils.data import IterableDataset

from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import Fanouts
from graphzero.loader.agreement import SharedPasses
from graphzero.loader.arguments import Batching
from graphzero.loader.batch_iterator import BatchIterator
from graphzero.loader.delivery import AS_SAMPLED, Delivery
from graphzero.loader.epochs import Epochs
from graphzero.loader.mini_batch import SampledBatch
from graphzero.loader.ranks import (
    ParentGroup,
    current_group,
    current_share,
    group_for_workers,
    in_worker,
)
from graphzero.loader.seed_batches import SeedBatches
from graphzero.loader.states import GRAPH, Position, State, WorkerProgress, read_position
from graphzero.sampling.order import Share, batch_ids
from graphzero.units import as_count


class SeedDataset(SeedBatches, IterableDataset[SampledBatch]):
    """What datasets of seeds have in common: mini-batches, their epochs, and the ranks.

    A subclass says how many seeds there are, and samples the mini-batch of some of them.

    Attributes
    ----------
    ranks : Ranks
    """

    def __init__(
        self, dataset: Dataset, num_seeds: int, fanouts: Fanouts, batching: Batching
    ) -> None:
        super().__init__(dataset, num_seeds, fanouts, batching)
        self.ranks = batching.ranks
        self._shared = SharedPasses() if self.ranks.distributed else None
        self._epochs = Epochs()
        self.parent: ParentGroup = None  # in a process that was spawned

    @property
    def epoch(self) -> int:
        """The epoch of the next pass: while a pass runs, of the one after it."""
        return self.position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass, in workers as well.

        A pass begins when ``iter`` is called, of the dataset or of a ``DataLoader`` over it. It is
        a whole epoch, unless it is the one that `resume` continues.

        Without it, a pass in this process is the epoch after the one before; the first one is epoch
        0. A pass of DataLoader workers has an epoch that follows from torch's seed then: other
        batches in each pass, and no state. Ranks that share an epoch need `set_epoch` before each
        pass of workers.

        Parameters
        ----------
        epoch : int
            At least 0; also that of an earlier pass, which is then repeated.

        Raises
        ------
        RuntimeError
            If accelerate calls this, and would divide the batches among the processes.
        ValueError
            If another rank shares the epochs, and has another dataset, argument or epoch.
        """
        _refuse_accelerate()
        epoch = as_count(epoch, "epoch", 0)
        self._compare_ranks(epoch)  # workers, which begin a pass, do not have the store
        position = self.position
        self._epochs.choose(position if position.epoch == epoch else Position(epoch, 0))

    def state_after(self, taken: int) -> State:
        """State for `resume`, after the training loop has taken some batches of the running pass.

        The running pass is the one that began last; if none has begun since `set_epoch` or
        `resume`, it is the next one. With DataLoader workers, call `set_epoch` before each pass.

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

        Raises
        ------
        RuntimeError
            If DataLoader workers may have begun the pass, and `set_epoch` was not called. If they
            begin another one after ``state_after(0)`` without it, the pass raises this error.
        """
        taken = as_count(taken, "taken", 0)
        _, world_size = self.rank_and_size
        begin = self._epochs.last(taken)
        done = min(self.num_batches, begin.batches + taken * world_size)
        return replace(begin, batches=done).state(self.state_options)

    def resume(self, state: Mapping[str, object]) -> None:
        """Resumes an interrupted epoch, with any number of ranks and workers.

        Every rank loads the same state, that of rank 0. The next pass yields the remaining batches
        of the state's epoch, unless `set_epoch` chooses another one; those after it are whole.
        ``len`` is still that of a whole epoch.

        Parameters
        ----------
        state : mapping
            From `state_after`, from the ``state_dict`` of an iterator of this dataset, or from
            that of a ``StatefulDataLoader``.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken on another graph, with another seed, batch_size,
            ...; the message names them. If DataLoader workers had drawn its epoch, without
            `set_epoch`.
        """
        self._epochs.choose(read_position(state, self.state_options, self.num_batches))

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch, over all its workers.

        Raises
        ------
        ValueError
            As at the beginning of an iteration, if it is not known how ranks share the epoch.
        """
        rank, world_size = self._checked_rank()
        return len(self.batches_of(Share(rank, world_size)))

    def batches_of(self, share: Share, first: int = 0) -> Sequence[int]:
        """Numbers of the batches of an epoch that are of a share, of those from `first` on."""
        even, drop_last = self.ranks.even, self.drop_last
        return batch_ids(self.num_batches, share, first, even=even, drop_last=drop_last)

    @property
    def position(self) -> Position:
        """Where the next pass begins, over all ranks."""
        return self._epochs.next

    @property
    def rank_and_size(self) -> tuple[int, int]:
        """Rank of this process, and the number of ranks that share an epoch."""
        return self.ranks.find(self.parent)

    def _checked_rank(self) -> tuple[int, int]:
        """`rank_and_size`; says what `even` does to the epoch, once and by one rank."""
        rank, world_size = self.rank_and_size
        warning = self.ranks.check_rounds(self.num_batches, world_size, self.drop_last)
        if warning is not None and rank == 0 and self._epochs.warn_once():
            warnings.warn(warning, stacklevel=3)
        return rank, world_size

    def _compare_ranks(self, epoch: int | None = None) -> None:
        """Refuses a pass, by default the next, that another rank begins with something else."""
        group = current_group()
        if self._shared is None or in_worker() or group is None or group[1] == 1:
            return
        if self.rank_and_size != group:  # ranks that the user has named
            return
        files = {
            f"{key}": zlib.crc32(repr(source.store.identity).encode())
            for key, source in SeedBatches.row_sources(self, 0).items()  # not those of a pack
        }
        epoch = self.position.epoch if epoch is None else epoch
        options = {**self.state_options, "even": self.ranks.even, "epoch": epoch}
        files["edges"] = options.pop(GRAPH)
        self._shared.compare(group[0], {"options": options, "dataset": files})

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "parent": group_for_workers()}

    def __copy__(self) -> SeedDataset:
        copied = self.__class__.__new__(self.__class__)
        copied.__dict__.update(self.__dict__, _epochs=copy(self._epochs))
        return copied

    def begin_pass(self) -> WorkerProgress:
        """Begins a pass in this process, whose workers `iterate`: its epoch, position and rank."""
        self.dataset.require_unedited(self.gather)
        rank, world_size = self._checked_rank()
        self._compare_ranks()
        _ = self.hop_sizes  # found before workers start, which have them then
        begin = self._epochs.begin(shared_by_ranks=False).position
        return WorkerProgress(begin.epoch, begin.batches, 0, Share(rank, world_size))

    def iterate(self, progress: WorkerProgress, delivery: Delivery = AS_SAMPLED) -> BatchIterator:
        """A worker's share of a pass that `begin_pass` has begun, in the parent or here.

        What it takes is made of each mini-batch in the background by `delivery`.
        """
        return BatchIterator(self, progress, even=self.ranks.even, delivery=delivery)

    def __iter__(self) -> BatchIterator:
        self.dataset.require_unedited(self.gather)
        rank, world_size = self._checked_rank()
        self._compare_ranks()
        _ = self.hop_sizes
        begun = self._epochs.begin(shared_by_ranks=world_size > 1)
        progress = WorkerProgress(
            begun.position.epoch, begun.position.batches, 0, current_share(rank, world_size)
        )
        return BatchIterator(self, progress, even=self.ranks.even, begun=begun)


# Classes of accelerate.data_loader: of the first, each process takes some items of every round;
# the second cuts the tensors of a batch into a piece for each process.
_WRAPPERS = ("IterableDatasetShard", "DataLoaderDispatcher")


def _refuse_accelerate() -> None:
    """Raises an error if the caller was called by a wrapper of accelerate that divides batches.

    accelerate leaves no other trace: it makes a DataLoader of its own over the dataset, and tells
    the dataset the epoch before each pass.

    Raises
    ------
    RuntimeError
        That says what to pass to ``prepare``.
    """
    caller = sys._getframe(2)
    is_of_accelerate = str(caller.f_globals.get("__name__")).startswith("accelerate.")
    if is_of_accelerate and type(caller.f_locals.get("self")).__name__ in _WRAPPERS:
        raise RuntimeError(
            "accelerate would divide the batches of this dataset among the processes, which "
            "the dataset does by itself. Keep its DataLoader out of prepare: model, optimizer = "
            "accelerator.prepare(model, optimizer). Make the dataset with distributed=True (and "
            "even=False for evaluation), and move each batch: batch.to(accelerator.device)"
        )
