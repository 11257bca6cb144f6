"""The layers of a model as functions of mini-batches, for `graphzero.infer`.

A layer is a function of a mini-batch with all neighbours of its seeds, which returns a row for each
seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphzero.training.graphsage import GraphSAGE

# A mini-batch, whose attributes depend on the dataset.
Batch = Any
Layer = Callable[[Batch], object]

DEGREE = "in_degree"  # the node attribute with the incoming edges of each node, self-loops left out
_WRITE_LAYERS = """give a list with a function for each layer, which returns a row for each seed:
    layers = [
        lambda batch: model.conv1(batch.x, batch.edge_index).relu(),
        lambda batch: model.conv2(batch.x, batch.edge_index),
    ]
    graphzero.infer(layers, ds, out=...)
call model.eval() before, and give edge attributes that they use as gather=["x", "edge_attr"]"""


def layers_of(model: object) -> tuple[list[Layer], bool]:
    """The layers of a model, and whether they need the attribute `DEGREE`.

    Parameters
    ----------
    model : sequence of callables, GraphSAGE, or one of torch_geometric.nn.models
        Such as PyG's ``GraphSAGE``, ``GCN``, ``GAT`` and ``GIN``.

    Raises
    ------
    TypeError
        If it is another model; shows the functions to write.
    ValueError
        If its result is not that of its last layer.
    """
    if isinstance(model, GraphSAGE):
        return [partial(_graphsage_layer, model, i) for i in range(len(model.layers))], False
    if hasattr(model, "inference_per_layer") and hasattr(model, "convs"):
        return _layers_of_pyg(model)
    if isinstance(model, Sequence) and model and all(map(callable, model)):
        return list(model), False
    raise TypeError(f"the layers of {type(model).__name__} are not known: {_WRITE_LAYERS}")


def _layers_of_pyg(model: Any) -> tuple[list[Layer], bool]:
    if model.jk_mode not in (None, "last"):
        raise ValueError(
            f"jk={model.jk_mode!r} needs the rows of all layers at once: {_WRITE_LAYERS}"
        )
    layers: list[Layer] = []
    needs_degrees = False
    for i, conv in enumerate(model.convs):
        is_gcn = type(conv).__name__ == "GCNConv"
        if is_gcn and (conv.improved or not conv.normalize or not conv.add_self_loops):
            raise ValueError(f"{conv} is a GCNConv of other options: {_WRITE_LAYERS}")
        if getattr(conv, "edge_dim", None) is not None:
            raise ValueError(f"{conv} has edge_dim, but no edge_attr here: {_WRITE_LAYERS}")
        layers.append(partial(_pyg_gcn_layer if is_gcn else _pyg_layer, model, i))
        needs_degrees |= is_gcn
    return layers, needs_degrees


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


def _graphsage_layer(model: GraphSAGE, i: int, batch: Batch) -> Tensor:
    edge_index = batch.edge_index[:, : batch.num_sampled_edges[0]]  # those of the seeds
    x: Tensor = batch.x.reshape(len(batch.x), -1).float()
    x = model.layers[i](x, edge_index, batch.batch_size)
    return x.relu() if i < len(model.layers) - 1 else x


def _pyg_layer(model: Any, i: int, batch: Batch) -> object:
    return model.inference_per_layer(i, batch.x, batch.edge_index, batch.batch_size)


def _pyg_gcn_layer(model: Any, i: int, batch: Batch) -> object:
    """A layer with a GCNConv, whose weights depend on the degrees of both ends of an edge.

    In a mini-batch the sources have few of their edges, so the degrees are an attribute. The term
    of a node itself is added here and not as an edge.
    """
    conv, x = model.convs[i], batch.x
    scale = (batch[DEGREE].to(x.dtype) + 1).rsqrt()
    edge_index = batch.edge_index[:, batch.edge_index[0] != batch.edge_index[1]]
    weighted = copy(conv)
    weighted.normalize = False
    of_neighbors = weighted(x, edge_index, scale[edge_index].prod(0))[: batch.batch_size]
    of_node = scale[: batch.batch_size, None] ** 2 * conv.lin(x[: batch.batch_size])
    rest = copy(model)  # with a layer that is done, and what follows it
    rest._modules = {**model._modules, "convs": [lambda *_: of_neighbors + of_node] * (i + 1)}
    return rest.inference_per_layer(i, x, edge_index, batch.batch_size)


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
