"""`NeighborDataset`: mini-batches around nodes, as a torch ``IterableDataset``."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import IterableDataset

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import IdArray, Sampling, as_seed, as_times
from graphzero.io.row_io import RowKey
from graphzero.loader.arguments import as_seed_ids, as_seed_nodes, refuse_keywords
from graphzero.loader.epochs import (
    Epochs,
    ParentGroup,
    Position,
    Progress,
    Ranks,
    State,
    current_share,
    read_position,
)
from graphzero.loader.iteration import BatchIterator, SeedBatches
from graphzero.loader.mini_batch import SampledBatch
from graphzero.sampling.negatives import WeightedDraws
from graphzero.sampling.order import Share, batch_ids
from graphzero.sampling.sampler import HopReadAhead, NeighborSampler
from graphzero.units import as_count

if TYPE_CHECKING:
    from graphzero.graph.user_input import Unpack
    from graphzero.loader.arguments import DatasetOptions

# Classes of accelerate.data_loader: of the first, each process takes some items of every round;
# the second cuts the tensors of a batch into a piece for each process.
_WRAPPERS = ("IterableDatasetShard", "DataLoaderDispatcher")

_OF_SAMPLING = [option.name for option in fields(Sampling)]


class SeedDataset(SeedBatches, IterableDataset[SampledBatch]):
    """What datasets of seeds have in common: the epoch, resuming it, ranks and workers.

    Attributes
    ----------
    ranks : Ranks
    """

    def __init__(
        self,
        dataset: Dataset,
        num_seeds: int,
        fanouts: Any,
        *,
        seed: int = 0,
        distributed: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        even: bool = True,
        **options: Any,
    ) -> None:
        if dataset.is_typed and dataset.neighbors == "out":
            raise ValueError(
                "mini-batches of a typed graph need in-neighbours, along whose edges messages "
                "flow: build the dataset with neighbors='in', or give the edge types in reverse"
            )
        sampling = {name: options.pop(name) for name in _OF_SAMPLING if name in options}
        sampler = NeighborSampler(dataset, fanouts, seed=seed, num_threads=1, **sampling)
        super().__init__(dataset, sampler, num_seeds, **options)
        self.ranks = Ranks(distributed, rank, world_size, even)
        self._epochs = Epochs()
        self.parent: ParentGroup | None = None  # in a process that was spawned
        self._weights: WeightedDraws | None = None

    def weigh_seeds(self, weights: Any) -> None:
        """Draws the seeds of every epoch by weight, as torch's ``WeightedRandomSampler`` does.

        An epoch has as many draws as there are seeds: a seed may come several times, or not at all.

        Raises
        ------
        ValueError
            If there is not one for each seed, if one is negative or not finite, or if all are 0.
        """
        self._weights = WeightedDraws(weights, self.num_seeds, "seed_weights", "seeds")

    def reseed(self, seed: int) -> None:
        """Changes the seed; in a copy of the sampler, which iterations may be using."""
        self.sampler = copy(self.sampler)
        self.sampler.seed = as_seed(seed)
        for cached in ("options", "state_options"):
            self.__dict__.pop(cached, None)

    def epoch_order(self, epoch: int) -> IdArray:
        """Positions in the seed array in the order of an epoch, (num_seeds,) int64."""
        if self._weights is None:
            return super().epoch_order(epoch)
        if self.num_seeds == 0:
            return np.empty(0, dtype=np.int64)
        stream = _core.stream(_core.key("shuffle", self.sampler.seed, epoch, 0), 0)
        return self._weights.items(_core.draws(stream, self.num_seeds))

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

        A pass begins when ``iter`` is called, of the dataset or of a ``DataLoader`` over it. It is
        a whole epoch, unless it is the one that `resume` continues.

        Without it, a pass in this process is the epoch after the one before; the first one is epoch
        0. Passes of DataLoader workers have epochs that follow from torch's seed then: other
        batches in each pass. Ranks that share an epoch need `set_epoch` with workers.

        Parameters
        ----------
        epoch : int
            At least 0; also that of an earlier pass, which is then repeated.

        Raises
        ------
        RuntimeError
            If accelerate calls this, and would divide the batches among the processes.
        """
        _refuse_accelerate()
        epoch = as_count(epoch, "epoch", 0)
        here = self.position
        self._epochs.choose(here if here.epoch == epoch else Position(epoch, 0))

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
        here = self._epochs.last(taken)
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
    def rank_and_size(self) -> tuple[int, int]:
        """Rank of this process, and the number of ranks that share an epoch."""
        return self.ranks.find(self.parent)

    def _checked_rank(self) -> tuple[int, int]:
        """`rank_and_size`; says what `even` does to the epoch, once and by one rank."""
        rank, world_size = self.rank_and_size
        self.ranks.check_rounds(self.num_batches, rank, world_size, self.drop_last, self._epochs)
        return rank, world_size

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "parent": ParentGroup.of_this_process()}

    def __copy__(self) -> SeedDataset:
        copied = self.__class__.__new__(self.__class__)
        copied.__dict__.update(self.__dict__, _epochs=copy(self._epochs))
        return copied

    def begin_pass(self) -> Progress:
        """Begins a pass in this process, whose workers `iterate`: its epoch, position and rank."""
        self.dataset.require_unedited(self.gather)
        share = Share(*self._checked_rank())
        here = self._epochs.begin(shared_by_ranks=False).position
        return Progress(here.epoch, here.batches, 0, share)

    def iterate(self, progress: Progress) -> BatchIterator:
        """A worker's share of a pass that `begin_pass` has begun, in the parent or here."""
        return BatchIterator(self, progress, even=self.ranks.even)

    def __iter__(self) -> BatchIterator:
        self.dataset.require_unedited(self.gather)
        share = current_share(*self._checked_rank())
        begun = self._epochs.begin(shared_by_ranks=share.world_size > 1)
        here = begun.position
        return BatchIterator(
            self,
            Progress(here.epoch, here.batches, 0, share),
            even=self.ranks.even,
            on_load=partial(self._epochs.load, begun),
            check=None if share.num_workers == 1 else partial(self._epochs.check, begun),
            observes_loop=True,
        )


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
    if not str(caller.f_globals.get("__name__")).startswith("accelerate."):
        return
    if type(caller.f_locals.get("self")).__name__ in _WRAPPERS:
        raise RuntimeError(
            "accelerate would divide the batches of this dataset among the processes, which "
            "the dataset does by itself. Keep its DataLoader out of prepare: model, optimizer = "
            "accelerator.prepare(model, optimizer). Make the dataset with distributed=True (and "
            "even=False for evaluation), and move each batch: batch.to(accelerator.device)"
        )


def check_times(dataset: Dataset) -> None:
    """Refuses times of seeds where no edge has any.

    Raises
    ------
    ValueError
    """
    if not dataset.is_typed:
        dataset.graph._csr.require_time_order()
    elif all(edges.graph.times is None for edges in dataset.edges.values()):
        raise ValueError(
            "seeds have times, and no edge type does: build the dataset with time_attrs="
        )


class NeighborDataset(SeedDataset):
    """Mini-batches of sampled neighbourhoods, as a torch ``IterableDataset``.

    Use it with ``DataLoader(dataset, batch_size=None, collate_fn=Collate(ds))``. DataLoader workers
    share the batches of an epoch, and so do ranks with ``distributed=True``. The order and content
    of the batches of an epoch do not depend on the number of workers or ranks. Call `set_epoch`
    before each epoch: it changes the order of the seeds and the draws, in persistent workers as
    well.

    An interrupted epoch is resumed at its next batch, byte for byte:

    - with torchdata's ``StatefulDataLoader`` and as many ranks and workers as before, by its own
      ``state_dict()`` and ``load_state_dict(state)``;
    - with other ranks or workers, or a plain ``DataLoader``, by `resume`, which takes the state of
      a ``StatefulDataLoader`` (of rank 0) or what `state_after` gave.

    Parameters
    ----------
    dataset : Dataset
        From `graphzero.open`.
    seeds : (num_seeds,) integers, (num_nodes,) bool, str, or pair, optional
        Nodes to make predictions for, a mask of them, or the name of a split. Default: all nodes.
        In a typed graph, a pair of a node type and these, such as ``("paper", ids)``, or the node
        type alone.
    fanouts : sequence of int, or mapping
        Neighbours per node in each hop; -1 for all. In a typed graph also by edge type, as in
        `NeighborSampler`.
    batch_size : int
        Seeds in a batch.
    shuffle : bool
        Permute the seeds, anew for each epoch.
    drop_last : bool
        Drop the last batch if it is short.
    input_time : (num_seeds,) integers, optional
        A time for each seed, in the unit of the graph's timestamps. Each seed then has a tree of
        its own, which has only edges up to its time.
    seed : int
        Order and draws are functions of (seed, epoch).
    prefetch : Prefetch, optional
        How pages are read ahead. Default: as `graphzero tune` has found (`Dataset.tuning`), else
        `Prefetch()`.
    gather : sequence of str, optional
        Names of the attributes that mini-batches have: "x", "y", "edge_attr", ... Default: all that
        the dataset has.
    feature_dtype : {None, "float32"}
        "float32" converts narrower (or wider) features on the way; None leaves them as stored.
    num_threads : int, optional
        Threads that sample in the background, each a whole batch. Default: one in a worker,
        otherwise all processors.
    distributed : bool, optional
        True deals the batches to the ranks of ``torch.distributed``, or to those that `rank` and
        `world_size` name. False gives this process all seeds: because they have been split over
        the ranks already, or because it works alone. None, the default, is False with one rank;
        with several it is an error. Ranks are found when an iteration begins.
    rank, world_size : int, optional
        Which of how many ranks this is, if these are not the global ranks: those of a data-parallel
        group, for example. They imply ``distributed=True``.
    even : bool
        True gives every rank equally many batches, as ``DistributedDataParallel`` needs it: the
        last round is filled with the first batches of the epoch, as often as needed, or dropped
        with ``drop_last=True``. A warning says so where this is more than 5 % of an epoch. False
        yields each seed once over all ranks, for evaluation and prediction.
    **options
        How neighbours are drawn: the fields of `Sampling`, such as ``replace=True``.

    Raises
    ------
    IndexError
        If a seed is out of range.
    TypeError
        If an argument is unknown; names what it is called here.
    ValueError
        If an argument is invalid or contradicts another; if an option needs times, and there are
        none; if weighted, and the graph has no weights; if seeds have times, and the graph has no
        timestamps. When an iteration begins, and from ``len``: if there are several ranks and
        `distributed` is None; if no batch is left for them.
    """

    def __init__(
        self,
        dataset: Dataset,
        seeds: Any = None,
        fanouts: Sequence[int] | Mapping[Any, Sequence[int]] = (15, 10, 5),
        *,
        input_time: Any = None,
        **options: Unpack[DatasetOptions],
    ) -> None:
        refuse_keywords(type(self), options)
        nodes = as_seed_nodes(seeds, dataset)
        self._kind = nodes.node_type
        self.input_type = self._kind if dataset.is_typed else None
        store = dataset.nodes[self._kind]
        self.seeds = as_seed_ids(nodes.nodes, store.num_nodes)
        super().__init__(dataset, self.seeds.shape[0], fanouts, **options)
        self._stored_seeds: IdArray | None = None
        # More stored ids than the graph's table of ranks are not kept: then each mini-batch reads
        # the table in as many places as it has seeds.
        if dataset.is_typed or self.seeds.nbytes <= dataset.graph.section_bytes.get("node_rank", 0):
            order = np.argsort(self.seeds)  # the table is read once, from its beginning to its end
            self._stored_seeds = np.empty_like(self.seeds)
            self._stored_seeds[order] = store.to_stored(self.seeds[order])
        self.translates_seeds = self._stored_seeds is None
        if input_time is None:
            self.sampler.sampling.check_untimed(": give input_time, or")
        else:
            self.sampler.sampling.check_timed()
            check_times(dataset)
            self.input_time = as_times(input_time, self.num_seeds, "input_time").copy()

    def sample(
        self,
        positions: IdArray,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None = None,
    ) -> SampledBatch:
        """The sampled neighbourhoods of the seeds at some positions."""
        how: Any = {"epoch": epoch, "batch": batch, "readahead": readahead, "seed_time": None}
        fields: dict[RowKey, Any] = {}
        if self.input_time is not None:
            times = self.input_time[positions]
            how["seed_time"] = {self._kind: times}
            fields["seed_time" if self.input_type is None else (self._kind, "seed_time")] = times
        if self._stored_seeds is None:
            found = self.sampler.sample_types({self._kind: self.seeds[positions]}, **how)
        else:
            found = self.sampler.sample_stored({self._kind: self._stored_seeds[positions]}, **how)
        return SampledBatch(found, positions, fields=fields, input_type=self.input_type)

    def seed_options(self) -> dict[str, Any]:
        """Checksums of the seeds and their times."""
        times = {} if self.input_time is None else {"times_crc": zlib.crc32(self.input_time.data)}
        typed = {} if self.input_type is None else {"input_type": self.input_type}
        return {"seeds_crc": zlib.crc32(self.seeds.data), **times, **typed}
