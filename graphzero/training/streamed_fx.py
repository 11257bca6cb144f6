"""The layers of a model that PyG's ``to_hetero`` made, for `graphzero.infer`.

The calls of the model are walked once, with symbols in place of rows and edges. A layer is what
comes between two files of rows: the convolutions of one depth, and maps of each row around them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from torch import Tensor, fx
from torch.fx.node import map_aggregate, map_arg

from graphzero.store.manifest import EdgeType
from graphzero.training.streamed_layers import Messages, RowMap, StreamedLayer, Update, typed_conv


@dataclass(frozen=True)
class _Edges:
    """The edges of one type, and what comes along them."""

    kind: EdgeType


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of nodes of one type: features, or what a function of other rows returns."""

    node_type: str
    inputs: Sequence[_Rows] = ()
    function: Callable[..., Tensor] | None = None
    arguments: Any = ((), {})  # by position and by name

    @cached_property
    def depth(self) -> int:
        """Convolutions on the longest way from the features."""
        return max((rows.depth for rows in self.inputs), default=0) + isinstance(self, _Conv)

    @cached_property
    def bases(self) -> frozenset[_Rows]:
        """All rows of which it can be computed, each alone and without messages; itself, too."""
        if isinstance(self, _Conv) or not self.inputs:
            return frozenset([self])
        return frozenset.intersection(*(rows.bases for rows in self.inputs)) | {self}


@dataclass(frozen=True, eq=False, kw_only=True)
class _Conv(_Rows):
    """What a convolution returns for rows of sources and of destinations.

    Its function is its update, of edges and the latter.
    """

    kind: EdgeType
    messages: Messages


class _Argument:
    """An argument of the model, which has a value for each node type or edge type."""

    def get(self, kind: str | EdgeType, default: object) -> _Rows | _Edges:
        return _Rows(kind) if isinstance(kind, str) else _Edges(kind)


def layers_of_graph(model: fx.GraphModule) -> list[StreamedLayer]:
    """The layers of a model of ``to_hetero``.

    Raises
    ------
    TypeError
        If they cannot be streamed; says why.
    """
    values: dict[fx.Node, Any] = {}
    for node in model.graph.nodes:
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        values[node] = _value_of(model, node, args, kwargs)
    if len({value for value in values.values() if isinstance(value, _Argument)}) > 2:
        raise TypeError("it needs more arguments than x and edge_index")
    rows = list(dict.fromkeys(value for value in values.values() if isinstance(value, _Rows)))
    result = values.popitem()[1]
    outputs = list(filter(None, result.values())) if isinstance(result, dict) else [result]
    if not all(isinstance(output, _Rows) for output in outputs):
        raise TypeError("it does not return rows by node type")
    before = {features.node_type: features for features in rows if not features.inputs}
    layers = []
    for depth in range(1, 1 + max((output.depth for output in outputs), default=0)):
        later = [end for value in rows if value.depth > depth for end in value.inputs]
        after = _bases([value for value in (*outputs, *later) if value.depth <= depth], rows)
        convs = [value for value in rows if isinstance(value, _Conv) and value.depth == depth]
        layers.append(_layer(convs, before, after))
        before = after
    if not layers:
        raise TypeError("it has no convolutions")
    return layers


def _value_of(
    model: fx.GraphModule, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> object:
    """What a node of the graph of calls stands for."""
    if node.op in ("placeholder", "output"):
        return args[0] if args else _Argument()
    function: Any = node.target
    if node.op == "call_module":
        function = model.get_submodule(function)
    elif node.op == "call_method":
        owner = Tensor if isinstance(args[0], (_Rows, _Edges)) else type(args[0])
        function = getattr(owner, function)
    symbols: list[object] = []
    map_aggregate((args, kwargs), symbols.append)
    rows = [symbol for symbol in symbols if isinstance(symbol, _Rows)]
    is_typed = any(isinstance(symbol, (_Edges, _Argument)) for symbol in symbols)
    is_part = function is operator.getitem and not isinstance(args[0], _Rows)
    name = getattr(function, "__name__", type(function).__name__)
    if is_part or name in ("get", "get_dict", "TrimToLayer") or not (rows or is_typed):
        return function(*args, **kwargs)
    if is_typed:
        return _conv(node.name, function, *args, *kwargs.values())
    if len(node_types := {value.node_type for value in rows}) > 1:
        raise TypeError(f"{node.name} joins rows of {' and '.join(sorted(node_types))}")
    return _Rows(rows[0].node_type, rows, function, (args, kwargs))


def _conv(name: str, module: Any, x: Any, edges: object = None, *others: object) -> _Conv:
    ends = x if isinstance(x, tuple) else (x, x)
    are_rows = all(isinstance(end, _Rows) for end in ends)
    if not are_rows or not isinstance(edges, _Edges) or any(value is not None for value in others):
        raise TypeError(f"{name} is no convolution of rows and edges alone, without edge weights")
    conv = typed_conv(module, edges.kind)
    if conv is None:
        raise TypeError(f"{name}, {module}, has not the form of a graphzero.StreamedLayer")
    messages, update = conv
    arguments: Any = ((edges, ends[1]), {})
    return _Conv(edges.kind[-1], ends, update, arguments, kind=edges.kind, messages=messages)


def _bases(needed: Sequence[_Rows], rows: Sequence[_Rows]) -> dict[str, _Rows]:
    """By node type, the last rows of which all that is needed can be computed."""
    bases: dict[str, frozenset[_Rows]] = {}
    for value in needed:
        bases[value.node_type] = bases.get(value.node_type, value.bases) & value.bases
        if not bases[value.node_type]:
            raise TypeError(
                f"{value.node_type!r} has rows of several depths that are needed later, as by "
                f"JumpingKnowledge and skip connections over several convolutions"
            )
    return {kind: max(of_type, key=rows.index) for kind, of_type in bases.items()}


def _layer(
    convs: Sequence[_Conv], before: Mapping[str, _Rows], after: Mapping[str, _Rows]
) -> StreamedLayer:
    """The layer between two files."""

    def update_of(end: _Rows) -> Update:
        start = before[end.node_type]
        return lambda sums, x: _computed({start: x}, sums, end)

    def map_of(end: _Rows, then: RowMap | None) -> RowMap:
        update = update_of(end)
        return lambda x: update({}, x) if then is None else then(update({}, x))

    messages: dict[EdgeType, Messages] = {}
    for conv in convs:
        if conv.kind in messages:
            raise TypeError(f"several convolutions of the same depth are along {conv.kind}")
        (source, target), scores = conv.inputs, conv.messages.scores
        messages[conv.kind] = replace(
            conv.messages,
            transform=map_of(source, conv.messages.transform),
            scores=None if scores is None else map_of(target, scores),
        )
    return StreamedLayer(
        messages=messages, update={kind: update_of(end) for kind, end in after.items()}
    )


def _computed(rows: dict[_Rows, Tensor], sums: Mapping[EdgeType, Tensor], symbol: object) -> Any:
    """What a symbol stands for; others are as they are."""
    if isinstance(symbol, _Edges):
        return sums[symbol.kind]
    if not isinstance(symbol, _Rows):
        return symbol
    if symbol not in rows:
        assert symbol.function is not None
        args, kwargs = map_aggregate(symbol.arguments, partial(_computed, rows, sums))
        rows[symbol] = symbol.function(*args, **kwargs)
    return rows[symbol]
