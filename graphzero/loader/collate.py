"""`Collate`: the collate function that makes tensors of sampled mini-batches."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch

from graphzero.graph.dataset import Dataset
from graphzero.loader.mini_batch import MiniBatch, as_tensor
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.typed_mini_batch import AttributeStore, TypedMiniBatch
from graphzero.sampling.subgraph import Subgraph
from graphzero.sampling.typed_subgraph import TypedSubgraph
from graphzero.store.schema import EdgeType

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

    def __call__(self, sampled: SampledBatch) -> MiniBatch | TypedMiniBatch:
        """The mini-batch of one item of the dataset."""
        if not isinstance(sampled, SampledBatch):
            raise TypeError(
                "Collate takes the items of a NeighborDataset or LinkNeighborDataset: "
                "pass batch_size=None to the DataLoader"
            )
        if isinstance(sampled.subgraph, TypedSubgraph):
            return _typed_batch(sampled, sampled.subgraph)
        return _batch(sampled, sampled.subgraph)


def _batch(sampled: SampledBatch, subgraph: Subgraph) -> MiniBatch:
    rows = {name: as_tensor(array) for name, array in sampled.rows.items()}
    optional: dict[Any, npt.NDArray[Any]] = {**subgraph.optional_arrays}
    optional.update(sampled.fields)
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
        **{str(name): torch.from_numpy(array) for name, array in optional.items()},
    )
    for name, tensor in rows.items():
        batch[str(name)] = tensor
    return batch


def _typed_batch(sampled: SampledBatch, subgraph: TypedSubgraph) -> TypedMiniBatch:
    nodes = {
        kind: AttributeStore(
            n_id=torch.from_numpy(ids),
            num_sampled_nodes=subgraph.num_sampled_nodes[kind],
            batch=None if subgraph.batch is None else torch.from_numpy(subgraph.batch[kind]),
        )
        for kind, ids in subgraph.n_id.items()
    }
    edges: dict[EdgeType, AttributeStore] = {}
    for edge_type, edge_index in subgraph.edge_index.items():
        e_id = subgraph.e_id[edge_type]
        edges[edge_type] = AttributeStore(
            edge_index=torch.from_numpy(edge_index),
            e_id=None if e_id is None else torch.from_numpy(e_id),
            num_sampled_edges=subgraph.num_sampled_edges[edge_type],
        )
    batch = TypedMiniBatch(nodes, edges, sampled.input_type, sampled.stats)
    batch.input_id = torch.from_numpy(sampled.input_id)
    batch[sampled.input_type]["batch_size"] = sampled.input_id.shape[0]
    for arrays in (sampled.rows, sampled.fields):
        for key, array in arrays.items():
            batch[key[0]][key[1]] = as_tensor(array)
    return batch
