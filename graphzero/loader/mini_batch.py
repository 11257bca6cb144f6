"""`MiniBatch`: what a training loop gets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphzero.loader.batch_stats import BatchStats
from graphzero.store.format import BFLOAT16

__all__ = ["OF_DATA", "MiniBatch", "applied", "as_tensor"]


def as_tensor(rows: npt.NDArray[Any]) -> Tensor:
    """A tensor over the memory of gathered rows, torch.bfloat16 where they hold its bits."""
    if rows.dtype == BFLOAT16:
        return torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(rows)


# Properties of torch_geometric.data.Data that are None where a graph lacks them.
OF_DATA = frozenset({"edge_weight", "edge_attr", "edge_time", "edge_type", "time", "pos", "face"})


@dataclass(eq=False, repr=False)
class MiniBatch:
    """A sampled subgraph with its features and labels.

    It follows the contract of PyG's NeighborLoader, or of its LinkNeighborLoader where the seeds
    are edges. In a training loop it behaves as a ``torch_geometric.data.Data``: attributes can be
    set, new ones too; ``batch["x"]`` is ``batch.x``; `to`, `cpu`, `cuda` and `pin_memory` change
    the batch itself, and return it.

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
    edge_label_time : (num_labels,) int64 or None
        Times of these, where seed edges have any.
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
    edge_label_time: Tensor | None = None
    src_index: Tensor | None = None
    dst_pos_index: Tensor | None = None
    dst_neg_index: Tensor | None = None

    if not TYPE_CHECKING:  # for which a class with __getattr__ has every attribute

        def __getattr__(self, name: str) -> Any:
            """None for what the batch lacks, of the attributes that PyG's Data always has."""
            if name in OF_DATA:
                return None
            raise AttributeError(f"the batch has no {name!r}, but {', '.join(self.keys())}")

    @property
    def num_nodes(self) -> int:
        """Nodes in the batch, seeds included."""
        return self.n_id.shape[0]

    @property
    def num_edges(self) -> int:
        """Edges in the batch."""
        return self.edge_index.shape[1]

    @property
    def num_features(self) -> int:
        """Columns of `x`; 0 without features."""
        if self.x is None:
            return 0
        return 1 if self.x.dim() == 1 else self.x.shape[-1]

    def keys(self) -> list[str]:
        """Names of the attributes that the batch has, those that were set included.

        What is None is left out, and so is `stats`, which is not of the graph.
        """
        return [name for name, value in vars(self).items() if name != "stats" and value is not None]

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Names and values of the attributes that `keys` names."""
        return iter(self.to_dict().items())

    def __contains__(self, name: str) -> bool:
        """Whether `keys` has the name."""
        return name in self.keys()

    def __getitem__(self, name: str) -> Any:
        """The attribute; a KeyError if the batch does not have it, or it is None."""
        value = vars(self).get(name)
        if value is None:
            raise KeyError(f"the batch has no {name!r}, but {', '.join(self.keys())}")
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        """Sets the attribute."""
        setattr(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """The attributes that `keys` names, not copied."""
        return {name: vars(self)[name] for name in self.keys()}

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
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def _apply(self, function: Callable[[Tensor], Tensor]) -> MiniBatch:
        for name, value in vars(self).items():
            setattr(self, name, applied(function, value))
        return self

    def to(
        self, device: torch.device | str | int | None, *, non_blocking: bool = False
    ) -> MiniBatch:
        """Moves all tensors to a device, and returns the batch."""
        return self._apply(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def cpu(self) -> MiniBatch:
        """Moves all tensors to the processor's memory, and returns the batch."""
        return self.to("cpu")

    def cuda(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> MiniBatch:
        """Moves all tensors to a GPU (default: the current one), and returns the batch."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def pin_memory(self, device: Any = None) -> MiniBatch:
        """Moves all tensors to page-locked memory; the DataLoader calls this for pin_memory=True.

        Returns
        -------
        MiniBatch
            The batch itself.
        """
        return self._apply(lambda tensor: tensor.pin_memory())

    def clone(self) -> MiniBatch:
        """A copy of the batch with copies of its tensors."""
        return copy.copy(self)._apply(torch.clone)

    def to_pyg(self) -> Any:
        """The same batch as a ``torch_geometric.data.Data``.

        It has the attributes that NeighborLoader or LinkNeighborLoader would give it, and those
        that were set, all without copies.

        Raises
        ------
        ImportError
            If torch_geometric is not installed.
        """
        from graphzero.pyg.data import make_data  # torch_geometric is optional

        return make_data(self.num_nodes, self.to_dict())


def applied(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """A tensor's result, also in lists, tuples and dictionaries; other values as they are."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {name: applied(function, one) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(applied(function, one) for one in value)
    return value
