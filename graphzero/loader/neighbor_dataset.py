"""`NeighborDataset`: mini-batches around nodes, for the standard DataLoader."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray, as_times
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_sources import RowKey
from graphzero.loader.neighborhoods import check_times, neighborhoods_of, sampler_of
from graphzero.loader.pyg_arguments import refuse_keywords
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.sampling.hop_readahead import HopReadAhead

if TYPE_CHECKING:
    from graphzero.graph.sampling_options import SamplingOptions, Unpack

__all__ = ["NeighborDataset"]


class NeighborDataset(SeedDataset):
    """Mini-batches of sampled neighbourhoods, as a torch ``IterableDataset``.

    Use it with ``DataLoader(dataset, batch_size=None, collate_fn=Collate(ds))``. DataLoader workers
    share the batches of an epoch, and so do ranks with ``distributed=True``. The order and content
    of the batches do not depend on the number of workers or ranks. Call `set_epoch` before each
    epoch: it changes the order of the seeds and the draws, in persistent workers as well.

    An interrupted epoch is resumed at its next batch, byte for byte:

    - with torchdata's ``StatefulDataLoader`` and as many ranks and workers as before, by its own
      ``state_dict()`` and ``load_state_dict(state)``;
    - with other ranks or workers, or a plain ``DataLoader``, by `resume`, which takes the state of
      a ``StatefulDataLoader`` (of rank 0) or what `state_after` gave.

    Parameters
    ----------
    dataset : Dataset
        From `graphzero.open`.
    seeds : (num_seeds,) integers, or (num_nodes,) bool, optional
        Nodes to make predictions for, or a mask of them. Default: all nodes. In a typed graph, a
        pair of a node type and these, such as ``("paper", ids)``, or the node type alone.
    fanouts : sequence of int, or mapping
        Neighbours per node in each hop; -1 for all. In a typed graph also by edge type, as in
        `TypedNeighborSampler`.
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
        batch_size: int = 1024,
        shuffle: bool = False,
        drop_last: bool = False,
        input_time: Any = None,
        seed: int = 0,
        prefetch: Prefetch | None = None,
        gather: Sequence[str] | None = None,
        feature_dtype: npt.DTypeLike | None = None,
        num_threads: int | None = None,
        distributed: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        even: bool = True,
        **options: Unpack[SamplingOptions],
    ) -> None:
        refuse_keywords(type(self), options)
        how = {"seed": seed, "num_threads": 1, **options}
        self._neighborhoods = neighborhoods_of(dataset, seeds)
        self.seeds = self._neighborhoods.seeds
        super().__init__(
            dataset,
            sampler_of(dataset, fanouts, how),
            self.seeds.shape[0],
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            prefetch=prefetch,
            gather=gather,
            feature_dtype=feature_dtype,
            num_threads=num_threads,
            distributed=distributed,
            rank=rank,
            world_size=world_size,
            even=even,
        )
        self.translates_seeds = self._neighborhoods.translates_seeds
        if input_time is None:
            self.sampler.sampling.check_untimed(": give input_time, or")
        else:
            self.sampler.sampling.check_timed()
            check_times(dataset)
            self.input_time = as_times(input_time, self.num_seeds, "input_time").copy()

    @property
    def input_type(self) -> str | None:
        """Node type of the seeds, in a typed graph."""
        return self._neighborhoods.input_type

    def sample(
        self,
        positions: IdArray,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None = None,
    ) -> SampledBatch:
        """The sampled neighbourhoods of the seeds at some positions."""
        times = None if self.input_time is None else self.input_time[positions]
        around, kind = self._neighborhoods, self._neighborhoods.input_type
        subgraph = around.sample(
            self.sampler, positions, times, epoch=epoch, batch=batch, readahead=readahead
        )
        fields: dict[RowKey, Any] = {}
        if times is not None:
            fields["seed_time" if kind is None else (kind, "seed_time")] = times
        return SampledBatch(subgraph, positions, fields=fields, input_type=kind)

    def seed_options(self) -> dict[str, Any]:
        """Checksums of the seeds and their times."""
        times = {} if self.input_time is None else {"times_crc": zlib.crc32(self.input_time.data)}
        kind = self._neighborhoods.input_type
        typed = {} if kind is None else {"input_type": kind}
        return {"seeds_crc": zlib.crc32(self.seeds.data), **times, **typed}
