"""`GraphSAGE`: the mean-aggregating model of ``graphzero train``, in plain torch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["GraphSAGE"]


def mean_of_neighbors(x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
    """Mean of the sources' rows for each of the first nodes; zero where a node has no edge.

    Parameters
    ----------
    x : (num_nodes, dim) floating
    edge_index : (2, num_edges) int64
        Targets (row 1) ascending and below `num_targets`, as the sampler gives them.
    num_targets : int

    Returns
    -------
    (num_targets, dim)
    """
    source, target = edge_index
    starts = torch.searchsorted(target, torch.arange(num_targets, device=target.device))
    # Never makes the (num_edges, dim) matrix of messages, which index_add_ would.
    return F.embedding_bag(source, x, starts, mode="mean")


class SageLayer(nn.Module):
    """One layer: a linear map of the node itself plus one of the mean of its neighbours."""

    def __init__(self, in_dim: int, out_dim: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.lin_self = nn.Linear(in_dim, out_dim)
        self.lin_neigh = nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
        """Outputs of the first nodes, (num_targets, out_dim)."""
        neighbors = mean_of_neighbors(x, edge_index, num_targets)
        # Dropped after the mean: drawing for every source row would take longer than all the rest.
        own: Tensor = self.lin_self(self.dropout(x[:num_targets]))
        theirs: Tensor = self.lin_neigh(self.dropout(neighbors))
        return own + theirs


class GraphSAGE(nn.Module):
    """GraphSAGE with the mean aggregator (Hamilton, Ying, Leskovec: "Inductive Representation
    Learning on Large Graphs", NeurIPS 2017).

    Parameters
    ----------
    in_dim : int
        Numbers in a feature row.
    hidden : int
        Width of the layers between.
    num_classes : int
    num_layers : int
        As many as the sampler has fanouts.
    dropout : float
        Share of the inputs of every linear map that is zeroed while training.
    """

    def __init__(
        self, in_dim: int, hidden: int, num_classes: int, num_layers: int, *, dropout: float = 0.3
    ) -> None:
        super().__init__()
        widths = [in_dim, *[hidden] * (num_layers - 1), num_classes]
        self.layers = nn.ModuleList(
            SageLayer(*ends, dropout) for ends in itertools.pairwise(widths)
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
            Targets (row 1) ascending, as in a `MiniBatch`.
        num_sampled_nodes, num_sampled_edges : sequence of int, optional
            Those of the `MiniBatch`. With them each layer computes only what the seeds need, and
            the result has the seeds' rows alone.

        Returns
        -------
        (batch_size, num_classes) or (num_nodes, num_classes)
        """
        num_layers = len(self.layers)
        num_targets, num_edges = x.shape[0], edge_index.shape[1]
        for i, layer in enumerate(self.layers):
            if num_sampled_nodes is not None and num_sampled_edges is not None:
                hops = num_layers - i
                num_targets = sum(num_sampled_nodes[:hops])
                num_edges = sum(num_sampled_edges[:hops])
            x = layer(x, edge_index[:, :num_edges], num_targets)
            if i < num_layers - 1:
                x = x.relu()
        return x
