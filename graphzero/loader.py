"""`NeighborDataset` and `Collate`: mini-batches through the standard DataLoader.

The dataset samples, asks for pages and gathers, in threads that run ahead of the training loop;
the collate function, which the DataLoader calls in the same process, makes tensors of it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import IterableDataset

from graphzero.batch import BatchStats, MiniBatch
from graphzero.dataset import Dataset
from graphzero.features import FeatureStore
from graphzero.ids import IdArray, as_count, as_ids, as_threads
from graphzero.order import Share, batch_ids, batch_positions, epoch_order, num_batches
from graphzero.pipeline import Stage, run_ahead
from graphzero.prefetch import Prefetch
from graphzero.readahead import PagesAsked, ReadAhead
from graphzero.resume import (
    Position,
    Progress,
    State,
    check_share,
    read_position,
    read_progress,
)
from graphzero.sampler import NeighborSampler, Subgraph
from graphzero.world import current_rank, current_share, default_threads

__all__ = ["BatchIterator", "Collate", "NeighborDataset", "SampledBatch"]


@dataclass(frozen=True)
class SampledBatch:
    """What `NeighborDataset` yields: a subgraph and its rows, in NumPy arrays.

    Attributes
    ----------
    subgraph : Subgraph
    input_id : (batch_size,) int64
        Positions of the seeds in the seed array.
    stats : BatchStats
    rows : dict of str to array
        Those that have been gathered: "x" and "y", with one row per node.
    """

    subgraph: Subgraph
    input_id: IdArray
    stats: BatchStats
    rows: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


def _as_seeds(seeds: Any, num_nodes: int) -> IdArray:
    if seeds is None:
        return np.arange(num_nodes, dtype=np.int64)
    array = np.asarray(seeds)
    if array.dtype == np.bool_:
        if array.shape != (num_nodes,):
            raise ValueError(f"a seed mask must have shape ({num_nodes},), not {array.shape}")
        return np.flatnonzero(array)
    return as_ids(array, num_nodes, "seeds").copy()  # the caller may change theirs


class NeighborDataset(IterableDataset[SampledBatch]):
    """Mini-batches of sampled neighbourhoods, as a torch ``IterableDataset``.

    Use it with ``DataLoader(dataset, batch_size=None, collate_fn=Collate(ds))``. Batches are dealt
    out to DataLoader workers and to the ranks of an initialised ``torch.distributed`` group; their
    order and content do not depend on how many workers there are. Call `set_epoch` before each
    epoch: it changes the order of the seeds and the draws, in persistent workers as well.

    An epoch that was broken off is resumed at its next batch, byte for byte:

    - with torchdata's ``StatefulDataLoader`` and as many ranks and workers as before, by its own
      ``state_dict()`` and ``load_state_dict(state)``;
    - with other ranks or workers, or a plain ``DataLoader``, by `resume`, which takes the state of
      a ``StatefulDataLoader`` (of rank 0) or what `state_after` gave.

    Parameters
    ----------
    dataset : Dataset
        From `graphzero.open`.
    seeds : (num_seeds,) integers, or (num_nodes,) bool, optional
        Nodes to make predictions for, or a mask of them. Default: all nodes.
    fanouts : sequence of int
        Neighbours per node in each hop; -1 for all.
    batch_size : int
        Seeds in a batch.
    shuffle : bool
        Permute the seeds, anew for each epoch.
    drop_last : bool
        Leave out the last batch where it is short.
    replace : bool
        Draw neighbours with replacement.
    seed : int
        Order and draws are functions of (seed, epoch).
    prefetch : Prefetch
        How pages are read ahead.
    gather : sequence of {"x", "y"}
        Which rows to gather in the background, where the dataset has them: features, labels.
        `Collate` gathers what it wants and does not find.
    num_threads : int, optional
        Threads that sample, a batch each, in the background. Default: one in a worker, else all
        processors.

    Raises
    ------
    IndexError
        If a seed is out of range.
    ValueError
        If fanouts, batch_size or seeds are not what they must be.
    """

    def __init__(
        self,
        dataset: Dataset,
        seeds: Any = None,
        fanouts: Sequence[int] = (15, 10, 5),
        *,
        batch_size: int = 1024,
        shuffle: bool = False,
        drop_last: bool = False,
        replace: bool = False,
        seed: int = 0,
        prefetch: Prefetch | None = None,
        gather: Sequence[str] = ("x", "y"),
        num_threads: int | None = None,
    ) -> None:
        super().__init__()
        self.dataset = dataset
        self.seeds = _as_seeds(seeds, dataset.num_nodes)
        self.batch_size = as_count(batch_size, "batch_size")
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.gather = tuple(gather)
        if set(self.gather) - {"x", "y"}:
            raise ValueError(f"gather may name 'x' and 'y', not {gather!r}")
        self.prefetch = prefetch if prefetch is not None else Prefetch()
        self.num_threads = None if num_threads is None else as_threads(num_threads)
        self.sampler = NeighborSampler(
            dataset.graph, fanouts, replace=replace, seed=seed, num_threads=1
        )
        # Epoch, and its batches that are done: a Position. In shared memory, because persistent
        # workers never see the object again.
        self._position = torch.zeros(2, dtype=torch.int64)
        self._position.share_memory_()  # type: ignore[no-untyped-call]
        self._rank: tuple[int, int] | None = None

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration will run."""
        return int(self._position[0])

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the iterations that start from now on, in workers as well.

        A whole epoch, unless it is the one that `resume` goes on with.
        """
        epoch = as_count(epoch, "epoch", 0)
        if epoch != self.epoch:
            self._set_position(Position(epoch, 0))

    def state_after(self, taken: int) -> State:
        """State for `resume`, when the training loop has taken some batches of this iteration.

        It is not called ``state_dict``, because a ``StatefulDataLoader`` would then restore the
        dataset's epoch over the one that `set_epoch` has chosen since.

        Parameters
        ----------
        taken : int
            Batches that the loop of this rank has been given since it began to iterate over a
            ``DataLoader`` of this dataset; the other ranks are taken to be in step. (Batches that
            have been prepared and not given do not count.) A ``StatefulDataLoader`` counts by
            itself: store its state.

        Returns
        -------
        dict
            Of plain numbers, strings and lists.
        """
        taken = as_count(taken, "taken", 0)
        _, world_size = self._rank or current_rank()
        here = self._read_position()
        done = min(self._num_batches, here.batches + taken * world_size)
        return replace(here, batches=done).state(self._options)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes on where a state was taken, with any number of ranks and workers.

        Every rank loads the same state: that of rank 0. Iterations of the state's epoch now yield
        what was left of it; each other epoch, once chosen by `set_epoch`, is whole. ``len`` stays
        that of a whole epoch.

        Parameters
        ----------
        state : mapping
            From `state_after`, from the ``state_dict`` of an iterator of this dataset, or from
            that of a ``StatefulDataLoader``.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken with another seed, batch_size, ...; names them.
        """
        self._set_position(read_position(state, self._options, self._num_batches))

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch, over all its workers."""
        rank, world_size = self._rank or current_rank()
        return len(batch_ids(self._num_batches, Share(rank, world_size)))

    @property
    def _num_batches(self) -> int:
        return num_batches(self.seeds.shape[0], self.batch_size, self.drop_last)

    def _read_position(self) -> Position:
        epoch, batches = self._position.tolist()
        return Position(epoch, batches)

    def _set_position(self, position: Position) -> None:
        self._position[:] = torch.tensor([position.epoch, position.batches])

    @cached_property
    def _options(self) -> dict[str, Any]:
        """All that the batches of an epoch are a function of."""
        return {
            "num_nodes": self.dataset.graph.num_nodes,
            "num_edges": self.dataset.graph.num_edges,
            "num_seeds": self.seeds.shape[0],
            "seeds_crc": zlib.crc32(np.ascontiguousarray(self.seeds).data),
            "fanouts": list(self.sampler.fanouts),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            "replace": self.sampler.replace,
            "seed": self.sampler.seed,
        }

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker has no process group: it must be told its rank.
        return {**self.__dict__, "_rank": self._rank or current_rank()}

    def __iter__(self) -> BatchIterator:
        share = current_share(*(self._rank or current_rank()))
        here = self._read_position()
        return BatchIterator(self, Progress(here.epoch, here.batches, 0, share))

    def _stores(self) -> list[FeatureStore]:
        """The files whose pages the rows of a batch will touch."""
        stores = [self.dataset.features, self.dataset.labels]
        order = self.dataset.graph.stored_order
        return [store for store in stores if store is not None and store.keeps_order_of(order)]

    def _iterate(self, epoch: int, batch_ids: range) -> Generator[SampledBatch, None, None]:
        order = epoch_order(self.seeds.shape[0], self.shuffle, self.sampler.seed, epoch)
        stores = self._stores()
        for store in stores:
            store.advise(self.prefetch.advice)
        readahead = ReadAhead(stores, self.prefetch)

        def sample(batch: int) -> tuple[SampledBatch, Future[PagesAsked]]:
            positions = batch_positions(order, batch, self.batch_size)
            started = time.perf_counter()
            subgraph = self.sampler.sample(self.seeds[positions], epoch=epoch, batch=batch)
            stats = BatchStats(sampled=time.perf_counter() - started)
            return SampledBatch(subgraph, positions, stats), readahead.submit(subgraph.stored_id)

        threads = default_threads(self.num_threads)
        lookahead = self.prefetch.lookahead
        batches = run_ahead(
            [Stage(sample, threads), Stage(self._gather)],
            batch_ids,
            ahead=max(lookahead, threads) if lookahead else 0,
        )
        # Closed from the right: the threads that submit, then the thread that they submit to.
        with closing(readahead), closing(batches):
            yield from _measure_waiting(batches)

    def _gather(self, sampled: tuple[SampledBatch, Future[PagesAsked]]) -> SampledBatch:
        """The batch with its rows, once their pages have been asked for: then it is faster."""
        batch, asked = sampled
        missing = asked.result().missing
        started = time.perf_counter()
        rows = {
            name: gather_rows(self.dataset, store, batch.subgraph, 1)
            for name, store in (("x", self.dataset.features), ("y", self.dataset.labels))
            if name in self.gather and store is not None
        }
        gathered = time.perf_counter() - started
        stats = replace(batch.stats, gathered=gathered, pages_missed=missing)
        return replace(batch, rows=rows, stats=stats)


class BatchIterator(Iterator[SampledBatch]):
    """One iteration over a `NeighborDataset`, in one process; ``iter(dataset)`` makes it.

    It has the methods that torchdata's ``StatefulDataLoader`` asks iterators for. Threads are
    started by the first ``next``, and gone when the iterator is.

    Parameters
    ----------
    dataset : NeighborDataset
    progress : Progress
        Where to begin.
    """

    def __init__(self, dataset: NeighborDataset, progress: Progress) -> None:
        self._dataset = dataset
        self._start(progress)

    def _start(self, progress: Progress) -> None:
        self._progress = progress
        total = self._dataset._num_batches
        left = batch_ids(total, progress.share, progress.first)[progress.taken :]
        self._batches = self._dataset._iterate(progress.epoch, left)

    def __iter__(self) -> BatchIterator:
        """Itself."""
        return self

    def __next__(self) -> SampledBatch:
        """The next batch of this worker."""
        batch = next(self._batches)
        self._progress = replace(self._progress, taken=self._progress.taken + 1)
        return batch

    def close(self) -> None:
        """Ends the iteration, and its threads; calls that have begun are waited for."""
        self._batches.close()

    def state_dict(self) -> State:
        """Where the iteration stands, counting the batches that ``next`` has returned."""
        return self._progress.state(self._dataset._options)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state_dict` was called, in the same worker of as many on the same rank.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken with another seed, batch_size, ... or number of
            workers or ranks; names them.
        """
        total = self._dataset._num_batches
        progress = read_progress(state, self._dataset._options, total)
        check_share(progress, self._progress.share)
        self.close()
        self._start(progress)


def gather_rows(
    dataset: Dataset, store: FeatureStore, subgraph: Subgraph, num_threads: int
) -> npt.NDArray[Any]:
    """Rows of a subgraph's nodes; without translation where the store is in the graph's order."""
    if store.keeps_order_of(dataset.graph.stored_order):
        return store.gather_stored(subgraph.stored_id, None, num_threads)
    return store.gather_stored(store.to_stored(subgraph.n_id), None, num_threads)


def _measure_waiting(batches: Iterator[SampledBatch]) -> Iterator[SampledBatch]:
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        waited = time.perf_counter() - started
        yield replace(batch, stats=replace(batch.stats, waited=waited))
        del batch  # its memory is wanted for the next one


class Collate:
    """Collate function: makes a `SampledBatch` a `MiniBatch` of tensors.

    Parameters
    ----------
    dataset : Dataset
        The one that the `NeighborDataset` samples.
    x, y : bool
        Whether the batch has features and labels, where the dataset has them.
    num_threads : int, optional
        Threads that gather what has not been gathered in the background. Default: one in a worker,
        else all processors.
    """

    def __init__(
        self, dataset: Dataset, x: bool = True, y: bool = True, *, num_threads: int | None = None
    ) -> None:
        self.dataset = dataset
        self.x = x
        self.y = y
        self.num_threads = num_threads

    def __call__(self, sampled: SampledBatch) -> MiniBatch:
        """The mini-batch of one item of the dataset."""
        if not isinstance(sampled, SampledBatch):
            raise TypeError(
                "Collate takes the items of a NeighborDataset: "
                "pass batch_size=None to the DataLoader, whose batches are already made"
            )
        subgraph = sampled.subgraph
        started = time.perf_counter()
        x = self._rows("x", self.dataset.features, sampled) if self.x else None
        y = self._rows("y", self.dataset.labels, sampled) if self.y else None
        gathered = sampled.stats.gathered + time.perf_counter() - started
        return MiniBatch(
            n_id=torch.from_numpy(subgraph.n_id),
            edge_index=torch.from_numpy(subgraph.edge_index),
            e_id=None if subgraph.e_id is None else torch.from_numpy(subgraph.e_id),
            batch_size=subgraph.batch_size,
            input_id=torch.from_numpy(sampled.input_id),
            num_sampled_nodes=subgraph.num_sampled_nodes,
            num_sampled_edges=subgraph.num_sampled_edges,
            x=x,
            y=y,
            stats=replace(sampled.stats, gathered=gathered),
        )

    def _rows(
        self, name: str, store: FeatureStore | None, sampled: SampledBatch
    ) -> torch.Tensor | None:
        if store is None:
            return None
        rows = sampled.rows.get(name)
        if rows is None:
            threads = default_threads(self.num_threads)
            rows = gather_rows(self.dataset, store, sampled.subgraph, threads)
        return torch.from_numpy(rows)
