"""`Collate`: the collate function that makes tensors of sampled mini-batches."""

from __future__ import annotations

import torch

from graphzero.graph.dataset import Dataset
from graphzero.loader.mini_batch import MiniBatch, as_tensor
from graphzero.loader.sampled_batch import SampledBatch

__all__ = ["Collate"]


class Collate:
    """Collate function: turns a `SampledBatch` into a `MiniBatch` of tensors.

    The DataLoader calls it in the process that prepared the batch.

    Parameters
    ----------
    dataset : Dataset
        The dataset that is sampled.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __call__(self, sampled: SampledBatch) -> MiniBatch:
        """The mini-batch of one item of the dataset."""
        if not isinstance(sampled, SampledBatch):
            raise TypeError(
                "Collate takes the items of a NeighborDataset or LinkNeighborDataset: "
                "pass batch_size=None to the DataLoader"
            )
        subgraph = sampled.subgraph
        rows = {name: as_tensor(array) for name, array in sampled.rows.items()}
        optional = {**subgraph.optional_arrays, **sampled.fields}
        batch = MiniBatch(
            n_id=torch.from_numpy(subgraph.n_id),
            edge_index=torch.from_numpy(subgraph.edge_index),
            e_id=None if subgraph.e_id is None else torch.from_numpy(subgraph.e_id),
            batch_size=sampled.input_id.shape[0],
            input_id=torch.from_numpy(sampled.input_id),
            num_sampled_nodes=subgraph.num_sampled_nodes,
            num_sampled_edges=subgraph.num_sampled_edges,
            x=rows.pop("x", None),
            y=rows.pop("y", None),
            stats=sampled.stats,
            **{name: torch.from_numpy(array) for name, array in optional.items()},
        )
        for name, tensor in rows.items():
            batch[str(name)] = tensor
        return batch
