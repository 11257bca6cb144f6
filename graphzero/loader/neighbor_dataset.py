"""`NeighborDataset` and `Collate`: mini-batches around nodes through the standard DataLoader.

The dataset prepares batches in the background; the collate function, which the DataLoader calls in
the same process, makes tensors of them.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_ids, as_times
from graphzero.io.prefetch import Prefetch
from graphzero.io.rows import gather_rows
from graphzero.loader.mini_batch import MiniBatch, as_tensor
from graphzero.loader.seed_dataset import SampledBatch, SeedDataset
from graphzero.loader.world import default_threads
from graphzero.sampling.sampler import NeighborSampler

if TYPE_CHECKING:
    from graphzero.graph.sampling_options import SamplingOptions, Unpack

__all__ = ["Collate", "NeighborDataset"]


def _as_seeds(seeds: Any, num_nodes: int) -> IdArray:
    if seeds is None:
        return np.arange(num_nodes, dtype=np.int64)
    array = np.asarray(seeds)
    if array.dtype == np.bool_:
        if array.shape != (num_nodes,):
            raise ValueError(f"a seed mask must have shape ({num_nodes},), not {array.shape}")
        return np.flatnonzero(array)
    return as_ids(array, num_nodes, "seeds").copy()  # the caller may change theirs


def _stored_ahead(seeds: IdArray, graph: Graph) -> IdArray | None:
    """The graph's stored ids of seeds, where they take less memory than the table of all nodes.

    Otherwise each batch would touch that table in as many places as it has seeds.
    """
    if seeds.nbytes > graph.section_bytes.get("node_rank", 0):
        return None
    order = np.argsort(seeds)  # the table is read once, from its beginning to its end
    stored = np.empty_like(seeds)
    stored[order] = graph._csr.to_stored(seeds[order])
    return stored


class NeighborDataset(SeedDataset):
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
    input_time : (num_seeds,) integers, optional
        A time for each seed, in the unit of the graph's timestamps: the seed then sees only the
        edges up to it, in a tree of its own.
    seed : int
        Order and draws are functions of (seed, epoch).
    prefetch : Prefetch
        How pages are read ahead.
    gather : sequence of {"x", "y"}
        Which rows to gather in the background, where the dataset has them: features, labels.
        `Collate` gathers what it wants and does not find.
    feature_dtype : {None, "float32"}
        "float32" converts narrower (or wider) features on the way; None leaves them as stored.
    num_threads : int, optional
        Threads that sample, a batch each, in the background. Default: one in a worker, else all
        processors.
    **options
        How neighbours are drawn: the fields of `Sampling`, such as ``replace=True``.

    Raises
    ------
    IndexError
        If a seed is out of range.
    ValueError
        If fanouts, batch_size, seeds or their times, or options are not what they must be; if
        weighted, and the graph has no weights; if seeds have times, and it has no timestamps.
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
        input_time: Any = None,
        seed: int = 0,
        prefetch: Prefetch | None = None,
        gather: Sequence[str] = ("x", "y"),
        feature_dtype: npt.DTypeLike | None = None,
        num_threads: int | None = None,
        **options: Unpack[SamplingOptions],
    ) -> None:
        self.seeds = _as_seeds(seeds, dataset.num_nodes)
        super().__init__(
            dataset,
            NeighborSampler(dataset.graph, fanouts, seed=seed, num_threads=1, **options),
            self.seeds.shape[0],
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            prefetch=prefetch,
            gather=gather,
            feature_dtype=feature_dtype,
            num_threads=num_threads,
        )
        self._stored_seeds = _stored_ahead(self.seeds, dataset.graph)
        self._translates_seeds = self._stored_seeds is None
        if input_time is not None:
            self.sampler.sampling.check_timed()
            dataset.graph._csr.require_time_order()
            self.input_time = as_times(input_time, self.num_seeds, "input_time").copy()

    def _sample(self, positions: IdArray, epoch: int, batch: int) -> SampledBatch:
        times = None if self.input_time is None else self.input_time[positions]
        how: Any = {"seed_time": times, "epoch": epoch, "batch": batch}
        if self._stored_seeds is None:
            subgraph = self.sampler.sample(self.seeds[positions], **how)
        else:
            subgraph = self.sampler.sample_stored(self._stored_seeds[positions], **how)
        return SampledBatch(
            subgraph, positions, fields={} if times is None else {"seed_time": times}
        )

    def _seed_options(self) -> dict[str, Any]:
        times = {} if self.input_time is None else {"times_crc": zlib.crc32(self.input_time.data)}
        return {"seeds_crc": zlib.crc32(self.seeds.data), **times}


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
            batch=None if subgraph.batch is None else torch.from_numpy(subgraph.batch),
            **{name: torch.from_numpy(array) for name, array in sampled.fields.items()},
        )

    def _rows(
        self, name: str, store: FeatureStore | None, sampled: SampledBatch
    ) -> torch.Tensor | None:
        if store is None:
            return None
        rows = sampled.rows.get(name)
        if rows is None:
            threads = default_threads(self.num_threads)
            dtype = sampled.feature_dtype if name == "x" else None
            rows = gather_rows(self.dataset, store, sampled.subgraph, threads, dtype=dtype)
        return as_tensor(rows)
