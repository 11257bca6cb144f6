"""`MiniBatch`: what a training loop gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphzero.loader.batch_stats import BatchStats
from graphzero.store.format import BFLOAT16

__all__ = ["MiniBatch", "as_tensor"]


def as_tensor(rows: npt.NDArray[Any]) -> Tensor:
    """A tensor over the memory of gathered rows, torch.bfloat16 where they hold its bits."""
    if rows.dtype == BFLOAT16:
        return torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(rows)


@dataclass(frozen=True, eq=False, repr=False)
class MiniBatch:
    """A sampled subgraph with its features and labels.

    It follows the contract of PyG's NeighborLoader, or of its LinkNeighborLoader where the seeds
    are edges.

    Attributes
    ----------
    n_id : (num_nodes,) int64
        The user's ids of the nodes, the seeds first.
    edge_index : (2, num_edges) int64
        Local ids: row 0 the source (the sampled neighbour), row 1 the target. This is the direction
        of the edge list, unless the dataset was built with ``neighbors="out"``.
    e_id : (num_edges,) int64 or None
        Positions in the user's edge list, if the file has them.
    batch_size : int
        Number of seeds. They are the first batch_size nodes, those to make predictions for. With
        seed edges it is the number of these, and num_sampled_nodes[0] that of the seed nodes.
    input_id : (batch_size,) int64
        Positions of the seeds in the seed array, or of the seed edges in theirs.
    num_sampled_nodes : list of int
        Seeds, then new nodes per hop.
    num_sampled_edges : list of int or None
        Edges per hop; None for an induced subgraph, whose edges belong to no hop.
    x : (num_nodes, dim) or None
        Features of the nodes.
    y : (num_nodes,) or None
        Labels of the nodes.
    stats : BatchStats
    batch : (num_nodes,) int64 or None
        For disjoint trees: the seed, 0 to batch_size - 1, to whose tree each node belongs.
    seed_time : (batch_size,) int64 or None
        The times of the seeds, where they have any.
    edge_label_index : (2, num_labels) int64 or None
        Seed edges, then binary negatives: local ids of sources and destinations.
    edge_label : (num_labels, ...) or None
        Labels of these, 0 for negatives.
    src_index, dst_pos_index : (batch_size,) int64 or None
        Triplets: local ids of both ends of each seed edge.
    dst_neg_index : (batch_size,) or (batch_size, amount) int64 or None
        Triplets: local ids of the negative destinations of each source.
    """

    n_id: Tensor
    edge_index: Tensor
    e_id: Tensor | None
    batch_size: int
    input_id: Tensor
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int] | None
    x: Tensor | None
    y: Tensor | None
    stats: BatchStats
    batch: Tensor | None = None
    seed_time: Tensor | None = None
    edge_label_index: Tensor | None = None
    edge_label: Tensor | None = None
    src_index: Tensor | None = None
    dst_pos_index: Tensor | None = None
    dst_neg_index: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """Nodes in the batch, seeds included."""
        return self.n_id.shape[0]

    @property
    def num_edges(self) -> int:
        """Edges in the batch."""
        return self.edge_index.shape[1]

    @property
    def optional_tensors(self) -> dict[str, Tensor]:
        """The tensors that only some batches have, by name: fields whose default is None."""
        optional = {field.name for field in fields(self) if field.default is None}
        return {name: tensor for name, tensor in self._tensors().items() if name in optional}

    def __repr__(self) -> str:
        """Shapes of the tensors, as PyG shows them, and the counts."""
        shapes = [f"{name}={list(tensor.shape)}" for name, tensor in self._tensors().items()]
        names = ("batch_size", "num_sampled_nodes", "num_sampled_edges")
        counts = [f"{name}={getattr(self, name)}" for name in names]
        return f"MiniBatch({', '.join([*shapes, *counts])})"

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def _map(self, function: Callable[[Tensor], Tensor]) -> MiniBatch:
        changed: dict[str, Any] = {name: function(t) for name, t in self._tensors().items()}
        return replace(self, **changed)

    def to(self, device: torch.device | str | int, *, non_blocking: bool = False) -> MiniBatch:
        """The same batch with its tensors on a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self, device: Any = None) -> MiniBatch:
        """The same batch in page-locked memory; the DataLoader calls this for pin_memory=True."""
        return self._map(lambda tensor: tensor.pin_memory())

    def to_pyg(self) -> Any:
        """The same batch as a ``torch_geometric.data.Data``.

        It has the attributes that NeighborLoader or LinkNeighborLoader would give it.

        Raises
        ------
        ImportError
            If torch_geometric is not installed.
        """
        from graphzero.pyg.data import make_data  # torch_geometric is optional

        names = ("x", "edge_index", "y", "n_id", "e_id", "input_id")
        counts = ("num_sampled_nodes", "num_sampled_edges", "batch_size")
        always = {name: getattr(self, name) for name in (*names, *counts)}
        return make_data(self.num_nodes, {**always, **self.optional_tensors})
