"""The layers of a model as functions of mini-batches, for `graphzero.infer`.

A layer is a function of a mini-batch with all neighbours of its seeds, which returns a row for each
seed. A node with more neighbours than fit in memory gets its row from pieces of its neighbours:
PyG's message passing is told to aggregate one piece after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from graphzero.training.graphsage import GraphSAGE, MeanOfNeighbors

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
    of a node itself is added here and not as an edge: it is then there once, however many pieces a
    neighbour list has.
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


# --- the row of a node from pieces of its neighbours


class Pieces:
    """Runs a layer on pieces of the neighbours of one node, and adds up what they aggregate.

    Sums, means, maxima and minima of messages are combined; the attention of PyG's GATConv is
    normalised over all pieces, by the running maximum (Milakov, Gimelshein: "Online normalizer
    calculation for softmax", 2018).

    Parameters
    ----------
    run : callable
        The layer, from a mini-batch to the row of the seed.
    what : str
        For messages: the node and its number of neighbours.
    """

    def __init__(self, run: Callable[[Batch], Tensor | None], what: str) -> None:
        self._run, self._what = run, what
        self._totals: list[_Total] = []  # of each aggregation in the layer, in their order
        self._calls = 0
        self._attention: Tensor | None = None
        self._pieces = 0

    def run(self, batch: Batch) -> Tensor | None:
        """The row as far as it is known after this piece; that of the last one is the result."""
        self._calls = 0
        hooked: set[int] = set()
        with ExitStack() as stack:

            def hook(module: Any, _: object) -> None:
                if id(module) in hooked:
                    return
                if isinstance(module, MeanOfNeighbors):
                    handles = [module.register_forward_hook(self._combine_graphsage)]
                elif hasattr(module, "aggr_module"):
                    self._check(module)
                    handles = [
                        module.register_aggregate_forward_hook(self._combine),
                        module.register_edge_update_forward_hook(self._attend),
                    ]
                else:
                    return
                hooked.add(id(module))
                for handle in handles:
                    stack.callback(handle.remove)

            stack.callback(register_module_forward_pre_hook(hook).remove)
            row = self._run(batch)
        if not hooked and row is not None:
            raise ValueError(f"{self._what}, and no message passing of PyG: {_MORE_MEMORY}")
        self._pieces += 1
        return row

    def _check(self, module: Any) -> None:
        name = type(module).__name__
        names = module.inspector.get_param_names("message")
        needs_group = {"index", "ptr", "dim_size", "size_i"} & set(names)
        reduce = type(module.aggr_module).__name__
        bases: dict[str, Any] = {base.__name__: base for base in type(module).__mro__}
        if (
            bases["MessagePassing"].aggregate is not type(module).aggregate
            or reduce not in _REDUCTIONS
            or needs_group
            or (module.inspector.implements("edge_update") and name != "GATConv")
        ):
            raise ValueError(
                f"{self._what}, and {name} (aggr {reduce}) does not add up from pieces of them: "
                f"{_MORE_MEMORY}"
            )

    def _combine(self, module: Any, inputs: Sequence[Any], out: Tensor) -> Tensor:
        """The aggregate of the seed over this piece and those before it."""
        reduction, dim = type(module.aggr_module).__name__, module.node_dim
        return self._total(reduction, out, dim, inputs[-1]["index"])

    def _combine_graphsage(
        self, module: nn.Module, inputs: tuple[Tensor, Tensor, int], out: Tensor
    ) -> Tensor:
        return self._total("MeanAggregation", out, 0, inputs[1][1])

    def _total(self, reduction: str, out: Tensor, dim: int, target: Tensor) -> Tensor:
        if self._calls == len(self._totals):
            self._totals.append(_Total(reduction))
        total = self._totals[self._calls]
        self._calls += 1
        attention, self._attention = self._attention, None
        if out.shape[dim] == 0:  # of another node type
            return out
        total.add(out.select(dim, 0), int((target == 0).sum()), attention)
        out = out.clone()
        out.select(dim, 0).copy_(total.value)
        return out

    def _attend(self, module: Any, inputs: Sequence[Any], out: Tensor) -> Tensor:
        """The attention of each edge to the seed, not yet normalised."""
        edge_index, _, arguments = inputs
        source, target = edge_index
        if "alpha" in arguments:  # PyG calls hooks with this where it could not compile the module
            alpha_source, alpha_target = arguments["alpha"]
            of_source = alpha_source[source]
            of_target = None if alpha_target is None else alpha_target[target]
        else:
            of_source, of_target = arguments["alpha_j"], arguments["alpha_i"]
        if arguments.get("edge_attr") is not None and module.lin_edge is not None:
            raise ValueError(f"{self._what}, and GATConv has edge_attr: {_MORE_MEMORY}")
        logits = of_source if of_target is None else of_source + of_target
        logits = nn.functional.leaky_relu(logits, module.negative_slope)
        of_seed = target == 0
        if self._pieces and module.add_self_loops:  # it adds one in every piece
            of_seed &= source != 0
        if not of_seed.any():
            self._attention = logits.new_full(logits.shape[1:], -torch.inf)
            return torch.where((target == 0)[:, None], 0, out)
        most = logits[of_seed].max(0).values
        weights = torch.where(of_seed[:, None], (logits - most).exp(), 0)
        self._attention = most + weights[of_seed].sum(0).log()
        normalised = weights / weights[of_seed].sum(0)
        return torch.where((target == 0)[:, None], normalised, out)


_REDUCTIONS = ("SumAggregation", "MeanAggregation", "MaxAggregation", "MinAggregation")
_MORE_MEMORY = (
    "give a larger memory_limit, or layers of PyG whose aggregation is a sum, mean, max or min, or "
    "GATConv without edge_attr"
)


class _Total:
    """The aggregate of several pieces."""

    def __init__(self, reduction: str) -> None:
        self._reduction = reduction
        self._count = 0
        self._sum: Tensor | None = None
        self._weight: Tensor | None = None  # log of the sum of attention

    def add(self, value: Tensor, count: int, weight: Tensor | None) -> None:
        """Adds the aggregate of `count` messages."""
        if count == 0 and self._sum is not None:
            return
        if self._sum is None:
            self._sum, self._count, self._weight = value.clone(), count, weight
        elif weight is not None:
            assert self._weight is not None
            both = torch.logaddexp(self._weight, weight)
            before = (self._weight - both).exp().nan_to_num(0)[:, None]
            after = (weight - both).exp().nan_to_num(0)[:, None]
            self._sum, self._weight = self._sum * before + value * after, both
        elif self._count == 0:
            self._sum, self._count = value.clone(), count
        elif self._reduction == "MeanAggregation":
            self._count += count
            self._sum += (value - self._sum) * (count / self._count)
        elif self._reduction == "SumAggregation":
            self._sum += value
        else:
            pick = torch.maximum if self._reduction == "MaxAggregation" else torch.minimum
            self._sum = pick(self._sum, value)

    @property
    def value(self) -> Tensor:
        """The aggregate so far."""
        assert self._sum is not None
        return self._sum
