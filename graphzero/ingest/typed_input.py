"""What the user gives for a typed graph: nodes and edges by type, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from graphzero.errors import FormatError
from graphzero.ingest.columns import checked_count
from graphzero.ingest.edge_input import EdgeInput, open_edges
from graphzero.ingest.row_input import open_features, open_labels
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.splits import check_split_names
from graphzero.ingest.typed_names import check_name
from graphzero.store.schema import EdgeType

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
    attributes : dict of str to Rows
    splits : dict of str to Any
        Positions or masks, by name of the split.
    """

    edges: EdgeInput
    attributes: dict[str, Rows]
    splits: dict[str, Any]


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
        kind = next(kind for kind in _KINDS if isinstance(error, kind))
        label = f"node type {what!r}" if isinstance(what, str) else f"edge type {what!r}"
        raise kind(f"{label}: {error}") from error


def _node_type(name: str, content: Any, splits: dict[str, Any]) -> NodeTypeInput:
    if not isinstance(content, Mapping):
        raise ValueError(
            f"it is {type(content).__name__}, not a dict of attributes: "
            f"nodes={{{name!r}: {{'x': ...}}}}"
        )
    attributes = {check_name(key, "the name of an attribute"): content[key] for key in content}
    count = attributes.pop("num_nodes", None)
    return NodeTypeInput(
        {key: _rows(key, value) for key, value in attributes.items()},
        splits,
        None if count is None else checked_count(count),
    )


def _rows(name: str, value: Any) -> Rows:
    rows = open_labels(value) if name == "y" else open_features(value)
    if rows.name in ("features", "labels"):
        rows.name = name
    return rows


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


def _edge_type(content: Any, splits: dict[str, Any], options: dict[str, Any]) -> EdgeTypeInput:
    given = dict(content) if isinstance(content, Mapping) else {"edge_index": content}
    if "edge_index" not in given:
        names = ", ".join(map(repr, given)) or "nothing"
        raise ValueError(f"it has no 'edge_index' but {names}: give the edges under that name")
    edge_index = given.pop("edge_index")
    attributes = {check_name(key, "the name of an attribute"): given[key] for key in given}
    rows = {key: _rows(key, value) for key, value in attributes.items()}
    options = {**options, "with_edge_ids": options["with_edge_ids"] or bool(rows or splits)}
    return EdgeTypeInput(open_edges(edge_index, **options), rows, splits)


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
    found_nodes: dict[str, NodeTypeInput] = {}
    for name, content in types.items():
        with naming(name):
            found_nodes[name] = _node_type(name, content, node_splits[name])
    found_edges: dict[EdgeType, EdgeTypeInput] = {}
    for key, content in edge_types.items():
        with naming(key):
            found_edges[key] = _edge_type(content, splits_of_edges[key], options)
    return TypedInput(found_nodes, found_edges)
