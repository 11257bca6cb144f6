"""`GraphSAGE`, the mean-aggregating model of ``graphzero train``, in plain torch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def device_of(name: str) -> torch.device:
    """The device of a name; "auto" is CUDA where it is available, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # also of what torch was built without
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device {name!r} cannot be used: {reason}") from None


def mean_of_neighbors(x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
    """Mean of the neighbours' vectors for each of the first nodes; zero for a node without any.

    Parameters
    ----------
    x : (num_nodes, dim) floating
    edge_index : (2, num_edges) int64
        Sources in ``edge_index[0]``; targets in ``edge_index[1]``, ascending and below
        `num_targets`, as the sampler returns them.
    num_targets : int
    """
    source, target = edge_index
    starts = torch.searchsorted(target, torch.arange(num_targets, device=target.device))
    # index_add_ would need the (num_edges, dim) matrix of messages in memory.
    return F.embedding_bag(source, x, starts, mode="mean")


class SageLayer(nn.Module):
    """One layer: a linear map of the node's own vector plus one of its neighbours' mean."""

    def __init__(self, in_dim: int, out_dim: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.lin_self = nn.Linear(in_dim, out_dim)
        self.lin_neigh = nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
        """Outputs of the first nodes, (num_targets, out_dim)."""
        neighbors = mean_of_neighbors(x, edge_index, num_targets)
        # Dropout comes after the mean: drawing for every source would take longer than the rest.
        of_nodes: Tensor = self.lin_self(self.dropout(x[:num_targets]))
        of_neighbors: Tensor = self.lin_neigh(self.dropout(neighbors))
        return of_nodes + of_neighbors


class GraphSAGE(nn.Module):
    """GraphSAGE with the mean aggregator.

    Hamilton, Ying, Leskovec: "Inductive Representation Learning on Large Graphs", NeurIPS 2017.

    Parameters
    ----------
    in_dim : int
        Length of a feature row.
    hidden : int
        Length of the vectors between two layers.
    num_classes : int
    num_layers : int
        Must equal the number of the sampler's fanouts.
    dropout : float
        Share of the inputs of every linear map that is set to zero while training.
    """

    def __init__(
        self, in_dim: int, hidden: int, num_classes: int, num_layers: int, *, dropout: float = 0.3
    ) -> None:
        super().__init__()
        widths = [in_dim, *[hidden] * (num_layers - 1), num_classes]
        self.layers = nn.ModuleList(
            SageLayer(in_width, out_width, dropout)
            for in_width, out_width in itertools.pairwise(widths)
        )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        num_sampled_nodes: Sequence[int] | None = None,
        num_sampled_edges: Sequence[int] | None = None,
    ) -> Tensor:
        """Class scores.

        Parameters
        ----------
        x : (num_nodes, in_dim) floating
        edge_index : (2, num_edges) int64
            Sources and targets, in any order; no copy is made where the targets ascend, as they do
            in a `MiniBatch`.
        num_sampled_nodes, num_sampled_edges : sequence of int, optional
            Those of the `MiniBatch`. With them each layer computes only what the seeds need, and
            the result is for the seeds alone.

        Returns
        -------
        (batch_size, num_classes) or (num_nodes, num_classes)
        """
        num_layers = len(self.layers)
        num_targets, num_edges = x.shape[0], edge_index.shape[1]
        target = edge_index[1]
        # what is captured has run before, on batches of the same loader
        is_captured = target.is_cuda and torch.cuda.is_current_stream_capturing()
        ascends = is_captured or not (target[1:] < target[:-1]).any()
        order = None if ascends else target.argsort(stable=True)
        for i, layer in enumerate(self.layers):
            if num_sampled_nodes is not None and num_sampled_edges is not None:
                hops = num_layers - i
                num_targets = sum(num_sampled_nodes[:hops])
                num_edges = sum(num_sampled_edges[:hops])
            # a layer has the first edges of the user's order, whatever order they are summed in
            edges = slice(num_edges) if order is None else order[order < num_edges]
            x = layer(x, edge_index[:, edges], num_targets)
            if i < num_layers - 1:
                x = x.relu()
        return x
