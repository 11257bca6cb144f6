"""The layers of a model, for `graphzero.infer`.

A layer is streamed (see `StreamedLayer`), or is a function of a mini-batch with all neighbours of
its seeds, which returns a row for each seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from graphzero.training.graphsage import GraphSAGE
from graphzero.training.streamed_fx import layers_of_graph
from graphzero.training.streamed_layers import (
    StreamedLayer,
    streamed_conv,
    streamed_graphsage,
    streamed_hetero,
    streamed_of_stack,
)

# A mini-batch, whose attributes depend on the dataset.
Batch = Any
Layer = Callable[[Batch], object]

DEPENDS_ON_MORE = (
    "{} gives a node other rows (by {:.2g}) when other nodes are in the batch, too: it depends on "
    "more than the neighbours of a node, as GCNConv and norms over all nodes do, or dropout or "
    "batch norm is in training mode. Call model.eval(), give PyG's GCN as a whole model, and use "
    "norms of a node alone, such as LayerNorm(mode='node'), and torch.nn.Dropout, since to_hetero "
    "has functional.dropout stay in training mode; or compute "
    "model(data.x, data.edge_index) of the whole graph at once"
)
DEGREE = "in_degree"  # the node attribute with the incoming edges of each node, self-loops left out
_WRITE_LAYERS = """give a list with a function for each layer, which returns a row for each seed:
    layers = [
        lambda batch: model.conv1(batch.x, batch.edge_index).relu(),
        lambda batch: model.conv2(batch.x, batch.edge_index),
    ]  # of x_dict and edge_index_dict in a typed graph
    graphzero.infer(layers, ds, out=...)
or graphzero.StreamedLayer for each;
call model.eval() before, and give edge attributes that they use as gather=["x", "edge_attr"]"""


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """What all layers have in common."""

    gather: tuple[str, ...]
    limit: int | None
    device: torch.device
    widest: int  # of what is known to be computed for an edge
    dtype: str  # of the files


def layers_of(model: object) -> list[Layer | StreamedLayer]:
    """The layers of a model: streamed ones, and functions of mini-batches.

    Parameters
    ----------
    model : sequence of callables, GraphSAGE, one of torch_geometric.nn.models, or of ``to_hetero``
        Such as PyG's ``GraphSAGE``, ``GCN``, ``GAT`` and ``GIN``.

    Raises
    ------
    TypeError
        If it is another model; shows the functions to write.
    ValueError
        If its result is not that of its last layer.
    """
    if isinstance(model, GraphSAGE):
        last = len(model.layers) - 1
        return [streamed_graphsage(layer, i == last) for i, layer in enumerate(model.layers)]
    if hasattr(model, "inference_per_layer") and hasattr(model, "convs"):
        return _layers_of_pyg(model)
    if isinstance(model, fx.GraphModule):
        try:
            return [*layers_of_graph(model)]
        except TypeError as error:
            raise TypeError(f"the model cannot be streamed: {error}; {_WRITE_LAYERS}") from error
    if isinstance(model, Sequence) and model:
        layers = [_layer_of(layer) for layer in model]
        if all(isinstance(layer, StreamedLayer) or callable(layer) for layer in layers):
            return layers
    raise TypeError(f"the layers of {type(model).__name__} are not known: {_WRITE_LAYERS}")


def _layer_of(layer: Any) -> Any:
    """A convolution of PyG as a layer; others are as they are."""
    streamed = streamed_hetero(layer) or streamed_conv(layer)
    if streamed is None and type(layer).__name__ == "HeteroConv":
        return lambda batch: layer(batch.x_dict, batch.edge_index_dict)
    return layer if streamed is None else streamed


def _layers_of_pyg(model: Any) -> list[Layer | StreamedLayer]:
    if model.jk_mode not in (None, "last"):
        raise ValueError(
            f"jk={model.jk_mode!r} needs the rows of all layers at once: {_WRITE_LAYERS}"
        )
    layers: list[Layer | StreamedLayer] = []
    for i, conv in enumerate(model.convs):
        streamed = streamed_of_stack(model, i)
        if streamed is None and type(conv).__name__ == "GCNConv":
            raise ValueError(f"{conv} is a GCNConv of other options: {_WRITE_LAYERS}")
        if getattr(conv, "edge_dim", None) is not None:
            raise ValueError(f"{conv} has edge_dim, but no edge_attr here: {_WRITE_LAYERS}")
        layers.append(partial(_pyg_layer, model, i) if streamed is None else streamed)
    return layers


@contextmanager
def evaluating(models: Sequence[nn.Module]) -> Iterator[None]:
    """Has modules in evaluation mode, without gradients; afterwards they are as before."""
    modules = {module: module.training for model in models for module in model.modules()}
    try:
        for module in modules:
            module.training = False
        with torch.no_grad():
            yield
    finally:
        for module, training in modules.items():
            module.training = training


def _pyg_layer(model: Any, i: int, batch: Batch) -> object:
    return model.inference_per_layer(i, batch.x, batch.edge_index, batch.batch_size)


def rows_of(layer: Layer, batch: Batch, node_type: str, name: str) -> Tensor | None:
    """What a layer returns for the seeds of a mini-batch, (batch_size,) or (batch_size, width).

    In a typed graph it may return a dictionary by node type; None if it has no rows for this one.

    Raises
    ------
    ValueError
        If these are no rows of the seeds.
    """
    is_typed = not hasattr(batch, "edge_index")
    seeds = batch[node_type] if is_typed else batch
    rows = layer(batch)
    if isinstance(rows, dict):
        rows = rows.get(node_type)
    if rows is None and is_typed:
        return None
    counts = (seeds.batch_size, len(seeds.n_id))
    if not isinstance(rows, Tensor) or rows.dim() not in (1, 2) or len(rows) not in counts:
        shown = list(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        of_type = f" of type {node_type!r}" if node_type else ""
        raise ValueError(
            f"{name} must return a row for each seed of a batch, (batch_size, width), or for each "
            f"of its nodes{of_type}: here for {counts[0]} seeds or {counts[1]} nodes, not {shown}"
        )
    return rows[: seeds.batch_size]
