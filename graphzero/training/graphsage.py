"""`GraphSAGE`, the mean-aggregating model of ``graphzero train``, in plain torch, and its file."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphzero.errors import FormatError
from graphzero.sampling.sampler import as_fanouts as as_fanouts
from graphzero.store.outputs import replaced_file
from graphzero.units import as_count

if TYPE_CHECKING:
    from typing_extensions import Self

_FORMAT = {"format": "graphzero.GraphSAGE", "version": 1}
_ARGUMENTS = {"in_dim", "hidden", "num_classes", "num_layers", "dropout"}


def device_of(name: str) -> torch.device:
    """The device of a name; "auto" is CUDA where it is available, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # also of what torch was built without
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device {name!r} cannot be used: {reason}") from None


class MeanOfNeighbors(nn.Module):
    """Mean of the neighbours' vectors for each of the first nodes; zero for a node without any."""

    def forward(self, x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
        """The means, (num_targets, dim).

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
        self.mean = MeanOfNeighbors()
        self.lin_self = nn.Linear(in_dim, out_dim)
        self.lin_neigh = nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
        """Outputs of the first nodes, (num_targets, out_dim)."""
        neighbors = self.mean(x, edge_index, num_targets)
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
        saved = SavedModel.read(path)
        with _refusing(path), torch.device("meta"):  # no memory, no random numbers for its weights
            model = cls(**saved.arguments)
            model.load_state_dict(saved.state_dict, assign=True)
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
        order = target.argsort(stable=True) if (target[1:] < target[:-1]).any() else None
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


@dataclass(frozen=True)
class SavedModel:
    """A trained `GraphSAGE`, as ``graphzero train --save`` writes it.

    The file is a dict that ``torch.load(path, weights_only=True)`` reads. Its keys are the names
    of these attributes, and ``format`` and ``version``.

    Attributes
    ----------
    arguments : mapping of str to number
        Arguments of `GraphSAGE`: in_dim, hidden, num_classes, num_layers, dropout.
    state_dict : mapping of str to Tensor
        On the CPU.
    fanouts : sequence of int
        Of the batches that the model was trained on.
    feature_dtype : str
        What the features were converted to for the model.
    epoch : int
        The epoch that the weights are of, counted from 1.
    seed : int
        Of the training.
    """

    arguments: Mapping[str, Any]
    state_dict: Mapping[str, Tensor]
    fanouts: list[int]
    feature_dtype: str
    epoch: int
    seed: int

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file, which replaces an earlier one in one step."""
        buffer = io.BytesIO()  # torch would not name the path in its errors
        torch.save({**_FORMAT, **vars(self)}, buffer)
        with replaced_file(path) as file:
            file.write(buffer.getbuffer())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Reads the file; no code in it is run.

        Raises
        ------
        OSError
            If the file cannot be read.
        FormatError
            If it is truncated, foreign, corrupt or of an unknown version.
        """
        with open(path, "rb") as file, _refusing(path):
            content = torch.load(file, map_location="cpu", weights_only=True)
            _check(content)
            return cls(**{name: content[name] for name in cls.__dataclass_fields__})


@contextmanager
def _refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of torch and of hostile content, which are of many kinds, as one that names a file."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise FormatError(
            f"{os.fspath(path)} is not a model that this graphzero reads ({reason}): train again"
        ) from None


def _check(content: Any) -> None:
    """Raises some exception where the content is not what `SavedModel.write` writes."""
    for name, expected in _FORMAT.items():
        if content[name] != expected:
            raise ValueError(
                f"it has {name} {content[name]!r}, this graphzero reads {name} {expected}"
            )
    arguments = content["arguments"]
    if arguments.keys() != _ARGUMENTS:
        raise ValueError(f"its arguments are not {sorted(_ARGUMENTS)}")
    for name in _ARGUMENTS - {"dropout"}:
        as_count(arguments[name], name)
    if not 0 <= float(arguments["dropout"]) <= 1:
        raise ValueError("its dropout is not from 0 to 1")
    as_fanouts(content["fanouts"])
    if len(content["fanouts"]) != arguments["num_layers"]:
        raise ValueError("it has not one fanout for each layer")
