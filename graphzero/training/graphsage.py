"""`GraphSAGE`: the mean-aggregating model of ``graphzero train``, in plain torch."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphzero.errors import FormatError
from graphzero.training.saved_model import read_saved_model

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["GraphSAGE"]


def mean_of_neighbors(x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
    """Mean of the neighbours' vectors for each of the first nodes; zero for a node without any.

    Parameters
    ----------
    x : (num_nodes, dim) floating
    edge_index : (2, num_edges) int64
        Sources in ``edge_index[0]``; targets in ``edge_index[1]``, ascending and below
        `num_targets`, as the sampler returns them.
    num_targets : int

    Returns
    -------
    (num_targets, dim)
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
        own: Tensor = self.lin_self(self.dropout(x[:num_targets]))
        theirs: Tensor = self.lin_neigh(self.dropout(neighbors))
        return own + theirs


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

    Attributes
    ----------
    arguments : dict of str to number
        The arguments above, by name.
    """

    def __init__(
        self, in_dim: int, hidden: int, num_classes: int, num_layers: int, *, dropout: float = 0.3
    ) -> None:
        super().__init__()
        self.arguments: dict[str, Any] = {
            "in_dim": int(in_dim),
            "hidden": int(hidden),
            "num_classes": int(num_classes),
            "num_layers": int(num_layers),
            "dropout": float(dropout),
        }
        widths = [in_dim, *[hidden] * (num_layers - 1), num_classes]
        self.layers = nn.ModuleList(
            SageLayer(*ends, dropout) for ends in itertools.pairwise(widths)
        )

    @classmethod
    def from_saved(cls, path: str | os.PathLike[str]) -> Self:
        """The model that ``graphzero train --save`` has written, on the CPU.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        GraphSAGE
            In evaluation mode. Torch's random generator is not used.

        Raises
        ------
        OSError
            If the file cannot be read.
        FormatError
            If it is truncated, foreign, corrupt or of an unknown version.
        """
        saved = read_saved_model(path)
        try:
            with torch.device("meta"):  # no memory and no random numbers for weights to be replaced
                model = cls(**saved.arguments)
            model.load_state_dict(saved.state_dict, assign=True)
        except Exception as error:  # torch raises many kinds for hostile weights
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise FormatError(f"{os.fspath(path)} is corrupt ({reason}): train again") from None
        return model.eval()

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
            Targets, ``edge_index[1]``, ascending, as in a `MiniBatch`.
        num_sampled_nodes, num_sampled_edges : sequence of int, optional
            Those of the `MiniBatch`. With them each layer computes only what the seeds need, and
            the result is for the seeds alone.

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
