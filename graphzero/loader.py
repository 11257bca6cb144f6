"""`NeighborDataset` and `Collate`: mini-batches through the standard DataLoader.

The dataset samples and asks for pages; the collate function, which the DataLoader calls in the
same process, gathers the rows that have arrived by then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from graphzero.batch import BatchStats, MiniBatch
from graphzero.dataset import Dataset
from graphzero.features import FeatureStore
from graphzero.ids import IdArray, as_count, as_ids
from graphzero.order import Share, batch_ids, batch_positions, epoch_order, num_batches
from graphzero.prefetch import Prefetch
from graphzero.readahead import PagesAsked, ReadAhead
from graphzero.sampler import NeighborSampler, Subgraph
from graphzero.world import current_rank, current_share, default_threads

__all__ = ["Collate", "NeighborDataset", "SampledBatch"]


@dataclass(frozen=True)
class SampledBatch:
    """What `NeighborDataset` yields: a subgraph in NumPy arrays, not yet its rows.

    Attributes
    ----------
    subgraph : Subgraph
    input_id : (batch_size,) int64
        Positions of the seeds in the seed array.
    stats : BatchStats
    """

    subgraph: Subgraph
    input_id: IdArray
    stats: BatchStats


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
    num_threads : int, optional
        Threads that sample. Default: one in a worker, else all processors.

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
        num_threads: int | None = None,
    ) -> None:
        super().__init__()
        self.dataset = dataset
        self.seeds = _as_seeds(seeds, dataset.num_nodes)
        self.batch_size = as_count(batch_size, "batch_size")
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.prefetch = prefetch if prefetch is not None else Prefetch()
        self.num_threads = num_threads
        self.sampler = NeighborSampler(
            dataset.graph, fanouts, replace=replace, seed=seed, num_threads=num_threads
        )
        # In shared memory, because persistent workers never see the object again.
        self._epoch = torch.zeros(1, dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]
        self._rank: tuple[int, int] | None = None

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
        return num_batches(self.seeds.shape[0], self.batch_size, self.drop_last)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker has no process group: it must be told its rank.
        return {**self.__dict__, "_rank": self._rank or current_rank()}

    def __iter__(self) -> Iterator[SampledBatch]:
        share = current_share(*(self._rank or current_rank()))
        self.sampler.num_threads = default_threads(self.num_threads)
        return self._iterate(self.epoch, share)

    def _stores(self) -> list[FeatureStore]:
        """The files whose pages the rows of a batch will touch."""
        stores = [self.dataset.features, self.dataset.labels]
        order = self.dataset.graph.stored_order
        return [store for store in stores if store is not None and store.keeps_order_of(order)]

    def _iterate(self, epoch: int, share: Share) -> Iterator[SampledBatch]:
        order = epoch_order(self.seeds.shape[0], self.shuffle, self.sampler.seed, epoch)
        stores = self._stores()
        for store in stores:
            store.advise(self.prefetch.advice)
        ahead: deque[tuple[Subgraph, IdArray, float, Future[PagesAsked]]] = deque()
        readahead = ReadAhead(stores, self.prefetch)
        try:
            for batch in batch_ids(self._num_batches, share):
                positions = batch_positions(order, batch, self.batch_size)
                started = time.perf_counter()
                subgraph = self.sampler.sample(self.seeds[positions], epoch=epoch, batch=batch)
                sampled = time.perf_counter() - started
                ahead.append((subgraph, positions, sampled, readahead.submit(subgraph.stored_id)))
                if len(ahead) > self.prefetch.lookahead:
                    yield _await_pages(*ahead.popleft())
            while ahead:
                yield _await_pages(*ahead.popleft())
        finally:
            readahead.close()


def _await_pages(
    subgraph: Subgraph, positions: IdArray, sampled: float, asked: Future[PagesAsked]
) -> SampledBatch:
    """A batch whose pages have been asked for; only then is its gather not slower than faults."""
    started = time.perf_counter()
    missing = asked.result().missing
    waited = time.perf_counter() - started
    return SampledBatch(subgraph, positions, BatchStats(sampled, waited, 0.0, missing))


class Collate:
    """Collate function: gathers the rows of a `SampledBatch` into a `MiniBatch` of tensors.

    Parameters
    ----------
    dataset : Dataset
        The one that the `NeighborDataset` samples.
    x, y : bool
        Whether to gather features and labels, where the dataset has them.
    num_threads : int, optional
        Threads that gather. Default: one in a worker, else all processors.
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
        subgraph, stats = sampled.subgraph, sampled.stats
        started = time.perf_counter()
        x = self._gather(self.dataset.features, subgraph) if self.x else None
        y = self._gather(self.dataset.labels, subgraph) if self.y else None
        gathered = time.perf_counter() - started
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
            stats=BatchStats(stats.sampled, stats.waited, gathered, stats.pages_missed),
        )

    def _gather(self, store: FeatureStore | None, subgraph: Subgraph) -> torch.Tensor | None:
        if store is None:
            return None
        if store.keeps_order_of(self.dataset.graph.stored_order):
            rows = subgraph.stored_id
        else:
            rows = store.to_stored(subgraph.n_id)
        threads = default_threads(self.num_threads)
        return torch.from_numpy(store.gather_stored(rows, None, threads))
