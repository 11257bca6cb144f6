"""`Collate`: the collate function that makes tensors of sampled mini-batches."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.io.row_sources import gather_rows
from graphzero.loader.mini_batch import MiniBatch, as_tensor
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.world import default_threads

__all__ = ["Collate"]


class Collate:
    """Collate function: turns a `SampledBatch` into a `MiniBatch` of tensors.

    The DataLoader calls it in the process that prepared the batch.

    Parameters
    ----------
    dataset : Dataset
        The dataset that is sampled.
    x, y : bool
        Whether the batch has features and labels, where the dataset has them.
    num_threads : int, optional
        Threads that gather the rows that were not gathered in the background. Default: one in a
        worker, otherwise all processors.
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
                "pass batch_size=None to the DataLoader"
            )
        subgraph = sampled.subgraph
        started = time.perf_counter()
        x = self._rows("x", self.dataset.features, sampled) if self.x else None
        y = self._rows("y", self.dataset.labels, sampled) if self.y else None
        gathered = sampled.stats.gathered + time.perf_counter() - started
        optional = {**subgraph.optional_arrays, **sampled.fields}
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
            **{name: torch.from_numpy(array) for name, array in optional.items()},
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
