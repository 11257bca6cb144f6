"""What the user gives for a typed graph: nodes and edges by type, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from graphzero.errors import FormatError
from graphzero.ingest.attribute_names import check_attribute_name
from graphzero.ingest.attributes import as_names, check_known, resolve_driving
from graphzero.ingest.edge_input import EdgeInput, open_edges, with_columns
from graphzero.ingest.joined import join_columns
from graphzero.ingest.row_input import check_id_column, open_attribute
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.sources.chunks import is_users_error
from graphzero.ingest.sources.columns import checked_count
from graphzero.ingest.sources.sparse_matrix import is_scipy
from graphzero.ingest.splits import check_split_names
from graphzero.ingest.typed_names import check_name
from graphzero.store.schema import EDGE_TIME, EDGE_WEIGHT, Driving, EdgeType

__all__ = [
    "EdgeTypeInput",
    "NodeTypeInput",
    "TypedInput",
    "naming",
    "open_typed_input",
]

_KINDS = (FormatError, ValueError, IndexError, TypeError)


@dataclass(frozen=True)
class NodeTypeInput:
    """The nodes of one type.

    Attributes
    ----------
    attributes : dict of str to Rows
    splits : dict of str to Any
        Node ids or masks, by name of the split.
    num_nodes : int or None
        None where attributes or edges say it.
    """

    attributes: dict[str, Rows]
    splits: dict[str, Any]
    num_nodes: int | None


@dataclass(frozen=True)
class EdgeTypeInput:
    """The edges of one type.

    Attributes
    ----------
    edges : EdgeInput
        With the weights and times that drive sampling.
    attributes : dict of str to Rows
        The others.
    splits : dict of str to Any
        Positions or masks, by name of the split.
    driving : Driving
    """

    edges: EdgeInput
    attributes: dict[str, Rows]
    splits: dict[str, Any]
    driving: Driving


@dataclass(frozen=True)
class TypedInput:
    """All nodes and edges, by type."""

    nodes: dict[str, NodeTypeInput]
    edges: dict[EdgeType, EdgeTypeInput]


@contextmanager
def naming(what: str | EdgeType) -> Iterator[None]:
    """Adds a node type or an edge type to the message of an error about its input."""
    try:
        yield
    except _KINDS as error:
        if is_users_error(error):
            raise
        kind = next(kind for kind in _KINDS if isinstance(error, kind))
        label = f"node type {what!r}" if isinstance(what, str) else f"edge type {what!r}"
        raise kind(f"{label}: {error}") from error


def _node_type(
    name: str,
    content: Any,
    splits: dict[str, Any],
    feature_dtype: np.dtype[Any] | None,
    id_column: Any,
    text_ids: bool,
) -> NodeTypeInput:
    if not isinstance(content, Mapping):
        raise ValueError(
            f"it is {type(content).__name__}, not a dict of attributes: "
            f"nodes={{{name!r}: {{'x': ...}}}}"
        )
    given = dict(content)
    count = given.pop("num_nodes", None)
    num_nodes = None if count is None else checked_count(count)
    attributes = _attributes(given, "node", feature_dtype, id_column, text_ids)
    return NodeTypeInput(attributes, splits, num_nodes)


def _attributes(
    content: Mapping[Any, Any],
    of: Literal["node", "edge"],
    feature_dtype: np.dtype[Any] | None = None,
    id_column: Any = None,
    text_ids: bool = False,
) -> dict[str, Rows]:
    for name in content:
        check_attribute_name(name, of)
    dtypes = {"x": feature_dtype} if of == "node" else {}
    return {
        name: open_attribute(
            value, name, dtypes.get(name), of=of, id_column=id_column, text_ids=text_ids
        )
        for name, value in content.items()
        if value is not None
    }


def _edge_type_names(key: Any, nodes: Mapping[str, Any]) -> EdgeType:
    if not isinstance(key, tuple) or len(key) != 3:
        raise ValueError(
            f"edges= has the key {key!r}: an edge type is (source type, relation, target type)"
        )
    source, relation, target = (check_name(name, f"a part of edge type {key!r}") for name in key)
    for name in (source, target):
        if name not in nodes:
            raise ValueError(
                f"edge type {key!r} has node type {name!r}, which nodes= does not have; it has "
                f"{', '.join(map(repr, nodes)) or 'none'}. For nodes without attributes, add "
                f"nodes={{{name!r}: {{}}}}"
            )
    return source, relation, target


@dataclass(frozen=True)
class _Driving:
    """The options `weight_attrs` and `time_attrs`."""

    weights: tuple[str, ...] | None
    times: tuple[str, ...] | None


def _open_edges(content: Any, options: dict[str, Any]) -> tuple[EdgeInput, dict[str, Rows]]:
    """The edges of a type, and all of their attributes."""
    by_name = isinstance(content, Mapping) and not is_scipy(content)
    given = dict(content) if by_name else {"edge_index": content}
    if "edge_index" not in given:
        names = ", ".join(map(repr, given)) or "nothing"
        raise ValueError(f"it has no 'edge_index' but {names}: give the edges under that name")
    source = open_edges(given.pop("edge_index"), is_edge_index=True, **options)
    return source, with_columns(_attributes(given, "edge"), source)


def _drive(
    source: EdgeInput,
    rows: dict[str, Rows],
    node_rows: dict[str, Rows],
    splits: dict[str, Any],
    driving: _Driving,
) -> EdgeTypeInput:
    """Divides attributes of edges into those that drive sampling and the others."""
    chosen = resolve_driving(rows, driving.weights, driving.times, node_attrs=node_rows)
    by_edge = chosen.time if chosen.time_level == "edge" else None
    for has_column, name, other, option in (
        (source.has_weights, EDGE_WEIGHT, chosen.weight, "weight"),
        (source.has_times, EDGE_TIME, chosen.time, "timestamp"),
    ):
        if has_column and (other is not None or name in rows):
            raise ValueError(
                f"{source.table.name} has a column for {option}s, and attribute "
                f"{other or name!r} would be there as well: leave one out, or ignore such columns "
                f"with {option}=False"
            )
    names = Driving(
        EDGE_WEIGHT if source.has_weights else chosen.weight,
        EDGE_TIME if source.has_times else chosen.time,
        chosen.time_level,
    )
    joined = join_columns(
        source,
        None if chosen.weight is None else rows[chosen.weight],
        None if by_edge is None else rows[by_edge],
        names=(chosen.weight, by_edge),
    )
    others = {name: one for name, one in rows.items() if name not in (chosen.weight, by_edge)}
    # Both are found by the positions of edges.
    joined = replace(joined, with_edge_ids=joined.with_edge_ids or bool(others or splits))
    return EdgeTypeInput(joined, others, splits, names)


def _check_driving(
    driving: _Driving,
    nodes: Mapping[str, NodeTypeInput],
    edges: Mapping[EdgeType, tuple[EdgeInput, dict[str, Rows]]],
) -> None:
    """Refuses names that no attribute has, and times that nodes and edges have, as PyG does."""
    of_nodes = {name for one in nodes.values() for name in one.attributes}
    of_edges = {name for _, rows in edges.values() for name in rows}
    check_known(driving.weights, driving.times, of_edges, of_nodes)
    for name in driving.times or ():
        if name in of_nodes and name in of_edges:
            raise ValueError(
                f"time_attrs: both nodes and edges have {name!r}: give the times of either "
                f"another name, so that it is clear which of them drive sampling"
            )


def _by_type(splits: Any, option: str, types: Mapping[Any, Any], example: str) -> dict[Any, Any]:
    """From {split: {type: value}} to {type: {split: value}}."""
    named = dict(splits or {})
    check_split_names(named)
    found: dict[Any, dict[str, Any]] = {key: {} for key in types}
    for name, by_type in named.items():
        if not isinstance(by_type, Mapping):
            raise ValueError(
                f"{option}[{name!r}] must be a dict by type in a typed graph: "
                f"{option}={{{name!r}: {{{example}: ...}}}}"
            )
        for key, value in by_type.items():
            if key not in found:
                raise ValueError(
                    f"{option}[{name!r}] names {key!r}, which is none of the types "
                    f"{', '.join(map(repr, types))}"
                )
            found[key][name] = value
    return found


def open_typed_input(
    nodes: Any,
    edges: Any,
    splits: Any,
    edge_splits: Any,
    weight_attrs: Any = None,
    time_attrs: Any = None,
    feature_dtype: np.dtype[Any] | None = None,
    id_column: Any = None,
    **options: Any,
) -> TypedInput:
    """Opens every file and checks what can be checked without reading it.

    Parameters
    ----------
    nodes : mapping of str to mapping
        Attributes by node type.
    edges : mapping of (str, str, str) to mapping, path or array
        Edges with their attributes, by edge type.
    splits, edge_splits : mapping of str to mapping, or None
        By name and type.
    weight_attrs, time_attrs : str, iterable of str, or None
        Of all types: see `resolve_driving`.
    feature_dtype : numpy.dtype, optional
        To store each "x" as. Default: as it is.
    id_column : str, int or False, optional
        Of tables of nodes whose `Source` does not say it.
    **options
        Of `open_edges`.

    Raises
    ------
    ValueError
        Naming the type: it lacks something, or has something that cannot be stored.
    OSError
        If a file cannot be read.
    """
    if not isinstance(nodes, Mapping) or not nodes:
        raise ValueError(
            "a typed graph needs nodes={'paper': {'x': ...}, ...}, with every node type that "
            "edges= names; {} for nodes without attributes"
        )
    if not isinstance(edges, Mapping) or not edges:
        raise ValueError(
            "a typed graph needs edges={('author', 'writes', 'paper'): ..., ...} with at least "
            "one edge type"
        )
    types = {check_name(name, "a node type"): nodes[name] for name in nodes}
    edge_types = {_edge_type_names(key, types): edges[key] for key in edges}
    node_splits = _by_type(splits, "splits", types, repr(next(iter(types))))
    splits_of_edges = _by_type(edge_splits, "edge_splits", edge_types, repr(next(iter(edge_types))))
    check_id_column(
        id_column,
        (v for one in types.values() if isinstance(one, Mapping) for v in one.values()),
    )
    found_nodes: dict[str, NodeTypeInput] = {}
    text_ids = bool(options.get("text_ids"))
    for name, content in types.items():
        with naming(name):
            found_nodes[name] = _node_type(
                name, content, node_splits[name], feature_dtype, id_column, text_ids
            )
    driving = _Driving(as_names(weight_attrs, "weight_attrs"), as_names(time_attrs, "time_attrs"))
    opened: dict[EdgeType, tuple[EdgeInput, dict[str, Rows]]] = {}
    for key, content in edge_types.items():
        with naming(key):
            opened[key] = _open_edges(content, options)
    _check_driving(driving, found_nodes, opened)
    found_edges: dict[EdgeType, EdgeTypeInput] = {}
    for key, (source, rows) in opened.items():
        neighbors = found_nodes[key[0] if source.incoming else key[2]].attributes
        with naming(key):
            found_edges[key] = _drive(source, rows, neighbors, splits_of_edges[key], driving)
    return TypedInput(found_nodes, found_edges)
