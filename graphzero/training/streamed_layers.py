"""`StreamedLayer`: what a layer adds up along edges, so that `graphzero.infer` reads rows once.

A layer of this form is a map of the rows of sources, a sum (or mean, maximum, minimum, attention)
along edges, and a map of what comes of it. Layers of PyG that have it are recognised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from graphzero.store.manifest import EdgeType

Reduce: TypeAlias = Literal["sum", "mean", "max", "min", "attention"]
RowMap = Callable[[Tensor], Tensor]
Update = Callable[..., Tensor]  # of what came along edges and of rows

_AGGRS: dict[str, Reduce] = {
    "add": "sum",
    "sum": "sum",
    "mean": "mean",
    "max": "max",
    "min": "min",
}


@dataclass(frozen=True, kw_only=True)
class Messages:
    """What is added up along the edges of one type.

    Attributes
    ----------
    reduce : "sum", "mean", "max", "min" or "attention"
        Nodes without edges get zeros. "attention" is the mean of GATConv: weights are a softmax of
        scores, which are those of the source and the destination together, through a leaky ReLU.
    transform : callable, optional
        The rows that are added, (n, width), of rows of sources, (n, dim): a function of each row
        alone. For attention, with the scores of each head behind them, (n, width + heads).
    edge_weight : str, optional
        An attribute of edges, by which rows are multiplied.
    self_loop : bool
        Whether each node has exactly one loop, whatever the graph has; for "sum" and "attention".
    degree_norm : bool
        Whether rows are divided by the root of the incoming edges plus 1 at both ends, as GCNConv
        does (Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks",
        ICLR 2017); in a graph without types, with `self_loop`.
    scores : callable, optional
        For attention: the scores of destinations, (n, heads), of their rows.
    negative_slope : float
        For attention: of the leaky ReLU.
    """

    reduce: Reduce = "sum"
    transform: RowMap | None = None
    edge_weight: str | None = None
    self_loop: bool = False
    degree_norm: bool = False
    scores: RowMap | None = None
    negative_slope: float = 0.2

    def __post_init__(self) -> None:
        if self.reduce not in {*_AGGRS.values(), "attention"}:
            raise ValueError(f"reduce must be sum, mean, max, min or attention, not {self.reduce}")
        if self.self_loop and self.reduce not in ("sum", "attention"):
            raise ValueError("self_loop is for reduce='sum' and 'attention'")
        if self.degree_norm and not (self.self_loop and self.reduce == "sum"):
            raise ValueError("degree_norm needs reduce='sum' and self_loop=True")
        if (self.scores is None) != (self.reduce != "attention"):
            raise ValueError("scores of destinations belong to reduce='attention'")
        if self.edge_weight is not None and (self.self_loop or self.reduce == "attention"):
            raise ValueError("edge_weight is for layers without self_loop and attention")


@dataclass(frozen=True, kw_only=True)
class StreamedLayer:
    """A layer whose rows `graphzero.infer` streams.

    Attributes
    ----------
    messages : Messages, or dict of them by edge type
    update : callable, or dict of callables by node type
        The rows of some nodes, (n, width), of what came along their edges, (n, width), and of their
        rows in the layer before, (n, dim): a function of each node alone. In a typed graph it gets
        the former as a dict by edge type; types that are not in the dict get no rows.
    modules : sequence of torch.nn.Module
        Which are meanwhile in evaluation mode; their device is the default one.
    """

    messages: Messages | Mapping[EdgeType, Messages]
    update: Update | Mapping[str, Update]
    modules: Sequence[torch.nn.Module] = ()

    @property
    def edge_weights(self) -> set[str]:
        """The attributes of edges that it uses."""
        messages = self.messages
        of_edges = messages.values() if isinstance(messages, Mapping) else [messages]
        return {m.edge_weight for m in of_edges if m.edge_weight is not None}

    @classmethod
    def of(cls, conv: Any, after: RowMap | None = None) -> StreamedLayer:
        """The layer of a SAGEConv, GCNConv, GINConv, GraphConv or GATConv, or a HeteroConv of them.

        Parameters
        ----------
        conv : torch.nn.Module
            Of PyG.
        after : callable, optional
            What follows it, of each row alone, such as ``torch.relu``.

        Raises
        ------
        TypeError
            If it has not this form.
        """
        layer = streamed_hetero(conv) or streamed_conv(conv)
        if layer is None:
            raise TypeError(f"{conv} cannot be streamed: give infer a function of mini-batches")
        modules = [part for part in (conv, after) if isinstance(part, torch.nn.Module)]

        def then(update: Update) -> Update:
            return update if after is None else lambda sums, x: after(update(sums, x))

        if not isinstance(layer.update, Mapping):
            return replace(layer, modules=modules, update=then(layer.update))
        updates = {kind: then(update) for kind, update in layer.update.items()}
        return replace(layer, modules=modules, update=updates)


def streamed_conv(conv: Any) -> StreamedLayer | None:
    """The layer of a convolution of PyG; None if it has not this form."""
    make = _CONVS.get(type(conv).__name__)
    if make is None or not type(conv).__module__.startswith("torch_geometric.nn."):
        return None
    is_plain = conv.flow == "source_to_target" and isinstance(conv.aggr, str)
    hooks = [value for name, value in vars(conv).items() if name.endswith("_hooks")]
    if not is_plain or any(hooks) or conv.aggr not in _AGGRS or conv.decomposed_layers > 1:
        return None
    return make(conv)


def _linear(conv: Any, linear: Any, before: RowMap | None) -> StreamedLayer:
    """A linear map of what is added up, which comes before it where the rows are then narrower."""
    reduce = _AGGRS[conv.aggr]
    is_plain = type(linear).__name__ == "Linear" and not linear._forward_hooks
    is_narrower = is_plain and linear.out_channels < linear.in_channels
    comes_first = is_narrower and reduce in ("sum", "mean")
    of_node = conv.lin_root if hasattr(conv, "lin_root") else getattr(conv, "lin_r", None)

    def weigh(x: Tensor) -> Tensor:
        rows: Tensor = (x if before is None else before(x)) @ linear.weight.t()
        return rows

    def update(sums: Tensor, x: Tensor) -> Tensor:
        if not comes_first:
            sums = linear(sums)
        elif linear.bias is not None:
            sums = sums + linear.bias
        rows = sums if of_node is None else sums + of_node(x)
        is_normal = getattr(conv, "normalize", False)
        return torch.nn.functional.normalize(rows, p=2.0, dim=-1) if is_normal else rows

    messages = Messages(reduce=reduce, transform=weigh if comes_first else before)
    return StreamedLayer(messages=messages, update=update)


def _sage(conv: Any) -> StreamedLayer:
    return _linear(conv, conv.lin_l, (lambda x: conv.lin(x).relu()) if conv.project else None)


def _graph_conv(conv: Any) -> StreamedLayer:
    return _linear(conv, conv.lin_rel, None)


def _gin(conv: Any) -> StreamedLayer:
    return StreamedLayer(
        messages=Messages(reduce=_AGGRS[conv.aggr]),
        update=lambda sums, x: conv.nn(sums + (1 + conv.eps) * x),
    )


def _gcn(conv: Any) -> StreamedLayer | None:
    is_plain = conv.normalize and conv.add_self_loops and not conv.improved
    if not is_plain or _AGGRS[conv.aggr] != "sum":
        return None
    return StreamedLayer(
        messages=Messages(transform=conv.lin, self_loop=True, degree_norm=True),
        update=lambda sums, x: sums if conv.bias is None else sums + conv.bias,
    )


def _gat(conv: Any) -> StreamedLayer | None:
    if conv.edge_dim is not None or _AGGRS[conv.aggr] != "sum":
        return None
    of_sources, of_targets = conv.lin or conv.lin_src, conv.lin or conv.lin_dst

    def heads(rows: Tensor) -> Tensor:
        return rows.view(len(rows), conv.heads, conv.out_channels)

    def transform(x: Tensor) -> Tensor:
        rows = of_sources(x)
        return torch.cat([rows, (heads(rows) * conv.att_src).sum(-1)], dim=1)

    def update(sums: Tensor, x: Tensor) -> Tensor:
        sums = sums if conv.concat else heads(sums).mean(dim=1)
        rows = sums if conv.res is None else sums + conv.res(x)
        return rows if conv.bias is None else rows + conv.bias

    messages = Messages(
        reduce="attention",
        transform=transform,
        self_loop=conv.add_self_loops,
        scores=lambda x: (heads(of_targets(x)) * conv.att_dst).sum(-1),
        negative_slope=conv.negative_slope,
    )
    return StreamedLayer(messages=messages, update=update)


_CONVS: dict[str, Callable[[Any], StreamedLayer | None]] = {
    "SAGEConv": _sage,
    "GraphConv": _graph_conv,
    "GINConv": _gin,
    "GCNConv": _gcn,
    "GATConv": _gat,
}


def typed_conv(conv: Any, kind: EdgeType) -> tuple[Messages, Update] | None:
    """What a convolution adds up along edges of a type, and what comes of it; None as above."""
    layer: Any = streamed_conv(conv)
    if layer is None or layer.messages.degree_norm:
        return None
    is_refused = layer.messages.self_loop and kind[0] != kind[-1]
    return None if is_refused else (layer.messages, layer.update)


def streamed_hetero(conv: Any) -> StreamedLayer | None:
    """The layer of a HeteroConv; None if it is none, or has a convolution of another form."""
    if type(conv).__name__ != "HeteroConv" or not type(conv).__module__.startswith("torch_geo"):
        return None
    if conv.aggr is None:  # rows of two dimensions
        return None
    messages: dict[EdgeType, Messages] = {}
    parts: dict[str, dict[EdgeType, Update]] = {}
    for kind, module in conv.convs.items():
        streamed = typed_conv(module, kind)
        if streamed is None:
            return None
        messages[kind], update = streamed
        parts.setdefault(kind[-1], {})[kind] = update
    group = sys.modules[type(conv).__module__].group

    def update_of(of_edges: Mapping[EdgeType, Update]) -> Update:
        return lambda sums, x: group([u(sums[k], x) for k, u in of_edges.items()], conv.aggr)

    updates = {kind: update_of(of_edges) for kind, of_edges in parts.items()}
    return StreamedLayer(messages=messages, update=updates)


def streamed_of_stack(model: Any, i: int) -> StreamedLayer | None:
    """Layer i of one of torch_geometric.nn.models, with what follows its convolution."""
    layer: Any = streamed_conv(model.convs[i])
    if layer is None:
        return None

    def update(sums: Tensor, x: Tensor) -> Tensor:
        rows = layer.update(sums, x)
        rest = copy(model)  # with a layer that is done, and what follows it
        rest._modules = {**model._modules, "convs": [lambda *_: rows] * (i + 1)}
        after: Tensor = rest.inference_per_layer(i, rows, None, len(rows))
        return after

    return StreamedLayer(messages=layer.messages, update=update)


def streamed_graphsage(layer: Any, is_last: bool) -> StreamedLayer:
    """A layer of `graphzero.GraphSAGE`."""
    linear = layer.lin_neigh
    is_first = linear.out_features < linear.in_features

    def update(sums: Tensor, x: Tensor) -> Tensor:
        rows: Tensor = layer.lin_self(x) + (sums if is_first else linear(sums))
        return rows if is_last else rows.relu()

    messages = Messages(reduce="mean", transform=linear if is_first else None)
    return StreamedLayer(messages=messages, update=update)
