"""`NeighborDataset` and `Collate`: mini-batches through the standard DataLoader.

The dataset samples, asks for pages and gathers, in threads that run ahead of the training loop;
the collate function, which the DataLoader calls in the same process, makes tensors of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
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
from graphzero.sampler import NeighborSampler, Subgraph
from graphzero.world import current_rank, current_share, default_threads

__all__ = ["Collate", "NeighborDataset", "SampledBatch", "SeedDataset"]


@dataclass(frozen=True)
class SampledBatch:
    """What datasets of seeds yield: a subgraph and its rows, in NumPy arrays.

    Attributes
    ----------
    subgraph : Subgraph
    input_id : (batch_size,) int64
        Positions of the seeds in the seed array, or of the seed edges in theirs.
    stats : BatchStats
    rows : dict of str to array
        Those that have been gathered: "x" and "y", with one row per node.
    links : dict of str to array
        What a `MiniBatch` says about seed edges, by the names of its fields; empty for seed nodes.
    """

    subgraph: Subgraph
    input_id: IdArray
    stats: BatchStats = field(default_factory=BatchStats)
    rows: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    links: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


def _as_seeds(seeds: Any, num_nodes: int) -> IdArray:
    if seeds is None:
        return np.arange(num_nodes, dtype=np.int64)
    array = np.asarray(seeds)
    if array.dtype == np.bool_:
        if array.shape != (num_nodes,):
            raise ValueError(f"a seed mask must have shape ({num_nodes},), not {array.shape}")
        return np.flatnonzero(array)
    return as_ids(array, num_nodes, "seeds").copy()  # the caller may change theirs


class SeedDataset(IterableDataset[SampledBatch]):
    """What datasets of seeds have in common: order, dealing, epochs, background threads.

    A subclass says how many seeds there are, and makes the batch of some of them.
    """

    def __init__(
        self,
        dataset: Dataset,
        sampler: NeighborSampler,
        num_seeds: int,
        *,
        batch_size: int,
        shuffle: bool,
        drop_last: bool,
        prefetch: Prefetch | None,
        gather: Sequence[str],
        num_threads: int | None,
    ) -> None:
        super().__init__()
        self.dataset = dataset
        self.sampler = sampler
        self.num_seeds = num_seeds
        self.batch_size = as_count(batch_size, "batch_size")
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.gather = tuple(gather)
        if set(self.gather) - {"x", "y"}:
            raise ValueError(f"gather may name 'x' and 'y', not {gather!r}")
        self.prefetch = prefetch if prefetch is not None else Prefetch()
        self.num_threads = None if num_threads is None else as_threads(num_threads)
        # In shared memory, because persistent workers never see the object again.
        self._epoch = torch.zeros(1, dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]
        self._rank: tuple[int, int] | None = None

    def _sample(self, positions: IdArray, epoch: int, batch: int) -> SampledBatch:
        """The batch of the seeds at some positions, without rows; called in any thread."""
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration will run."""
        return int(self._epoch[0])

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the iterations that start from now on, in workers as well."""
        self._epoch[0] = as_count(epoch, "epoch", 0)

    def __len__(self) -> int:
        """Batches of this rank, over all its workers."""
        rank, world_size = self._rank or current_rank()
        return len(batch_ids(self._num_batches, Share(rank, world_size)))

    @property
    def _num_batches(self) -> int:
        return num_batches(self.num_seeds, self.batch_size, self.drop_last)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker has no process group: it must be told its rank.
        return {**self.__dict__, "_rank": self._rank or current_rank()}

    def __iter__(self) -> Iterator[SampledBatch]:
        share = current_share(*(self._rank or current_rank()))
        return self._iterate(self.epoch, share)

    def _stores(self) -> list[FeatureStore]:
        """The files whose pages the rows of a batch will touch."""
        stores = [self.dataset.features, self.dataset.labels]
        order = self.dataset.graph.stored_order
        return [store for store in stores if store is not None and store.keeps_order_of(order)]

    def _iterate(self, epoch: int, share: Share) -> Iterator[SampledBatch]:
        order = epoch_order(self.num_seeds, self.shuffle, self.sampler.seed, epoch)
        stores = self._stores()
        for store in stores:
            store.advise(self.prefetch.advice)
        readahead = ReadAhead(stores, self.prefetch)

        def sample(batch: int) -> tuple[SampledBatch, Future[PagesAsked]]:
            positions = batch_positions(order, batch, self.batch_size)
            started = time.perf_counter()
            sampled = self._sample(positions, epoch, batch)
            stats = BatchStats(sampled=time.perf_counter() - started)
            pages = readahead.submit(sampled.subgraph.stored_id)
            return replace(sampled, stats=stats), pages

        threads = default_threads(self.num_threads)
        lookahead = self.prefetch.lookahead
        batches = run_ahead(
            [Stage(sample, threads), Stage(self._gather)],
            batch_ids(self._num_batches, share),
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


class NeighborDataset(SeedDataset):
    """Mini-batches of sampled neighbourhoods, as a torch ``IterableDataset``.

    Use it with ``DataLoader(dataset, batch_size=None, collate_fn=Collate(ds))``. Batches are dealt
    out to DataLoader workers and to the ranks of an initialised ``torch.distributed`` group; their
    order and content do not depend on how many workers there are. Call `set_epoch` before each
    epoch: it changes the order of the seeds and the draws, in persistent workers as well.

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
    weighted : bool
        Draw neighbours by the weights of their edges.
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
        If fanouts, batch_size or seeds are not what they must be; if weighted, and the graph has
        no weights.
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
        weighted: bool = False,
        seed: int = 0,
        prefetch: Prefetch | None = None,
        gather: Sequence[str] = ("x", "y"),
        num_threads: int | None = None,
    ) -> None:
        self.seeds = _as_seeds(seeds, dataset.num_nodes)
        super().__init__(
            dataset,
            NeighborSampler(
                dataset.graph,
                fanouts,
                replace=replace,
                weighted=weighted,
                seed=seed,
                num_threads=1,
            ),
            self.seeds.shape[0],
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            prefetch=prefetch,
            gather=gather,
            num_threads=num_threads,
        )

    def _sample(self, positions: IdArray, epoch: int, batch: int) -> SampledBatch:
        subgraph = self.sampler.sample(self.seeds[positions], epoch=epoch, batch=batch)
        return SampledBatch(subgraph, positions)


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
        The one that is sampled.
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
                "Collate takes the items of a NeighborDataset or LinkNeighborDataset: "
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
            batch_size=sampled.input_id.shape[0],
            input_id=torch.from_numpy(sampled.input_id),
            num_sampled_nodes=subgraph.num_sampled_nodes,
            num_sampled_edges=subgraph.num_sampled_edges,
            x=x,
            y=y,
            stats=replace(sampled.stats, gathered=gathered),
            **{name: torch.from_numpy(array) for name, array in sampled.links.items()},
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
