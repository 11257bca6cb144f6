"""`GraphInput`: the arguments of a build, opened and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphzero.ingest.attribute_names import check_attribute_name, check_distinct, file_stem
from graphzero.ingest.attributes import as_names, check_known, resolve_driving
from graphzero.ingest.edge_input import EdgeInput, open_edges, with_columns
from graphzero.ingest.joined import join_columns
from graphzero.ingest.row_input import (
    check_id_column,
    open_attribute,
    open_features,
    open_labels,
)
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.source import FOR_EDGES, Source
from graphzero.ingest.sources.bad_rows import refuse_positions
from graphzero.ingest.sources.sparse_matrix import is_scipy
from graphzero.ingest.splits import check_split_names
from graphzero.store.format import as_dtype
from graphzero.store.schema import EDGE_TIME, EDGE_WEIGHT, Driving

__all__ = ["GraphInput", "open_graph_input"]

_FIRST = {"x": 0, "y": 1}


@dataclass(frozen=True)
class GraphInput:
    """What a graph without types is built from.

    Attributes
    ----------
    source : EdgeInput
        The edges, with the attributes that drive sampling.
    nodes : dict of str to Rows
        By name: features as "x", labels as "y".
    edges : dict of str to Rows
        By name; without those that drive sampling.
    driving : Driving
    splits, edge_splits : dict
        By name, as the user gave them.
    num_nodes : int or None
        If the user gave it.
    """

    source: EdgeInput
    nodes: dict[str, Rows]
    edges: dict[str, Rows]
    driving: Driving
    splits: dict[str, Any]
    edge_splits: dict[str, Any]
    num_nodes: int | None

    @property
    def tables(self) -> dict[str, Rows]:
        """The rows of nodes by the names of their files, without suffix."""
        return {file_stem(name, "node"): rows for name, rows in self.nodes.items()}

    @property
    def node_times(self) -> Rows | None:
        """The attribute of the nodes that is the time of the edges to them."""
        driving = self.driving
        return self.nodes[driving.time] if driving.time and driving.time_level == "node" else None

    def file_names(self) -> list[str]:
        """Files of a build besides graphs and visits.

        Raises
        ------
        ValueError
            If two of them have one name.
        """
        stems = [*self.tables, *(file_stem(name, "edge") for name in self.edges)]
        stems += [f"split_{name}" for name in self.splits]
        stems += [f"edge_split_{name}" for name in self.edge_splits]
        for stem in stems:
            if stems.count(stem) > 1:
                raise ValueError(
                    f"an edge attribute and an edge split would both be stored in {stem}.gd: "
                    f"choose another name for one of them"
                )
        return [f"{stem}.gd" for stem in stems]


def _edge_values(edges: Any) -> tuple[Any, dict[str, Any]]:
    """The edge list, and what comes with it by name."""
    if not isinstance(edges, Mapping) or is_scipy(edges):
        return edges, {}
    if edges.get("edge_index") is None:
        raise ValueError(
            f"edges has no 'edge_index', the edge list; it has {', '.join(map(str, edges))}"
        )
    values = {name: value for name, value in edges.items() if name != "edge_index"}
    return edges["edge_index"], _checked_names(values, "edge")


def _node_values(nodes: Any, features: Any, labels: Any) -> dict[str, Any]:
    if nodes is not None and not isinstance(nodes, Mapping):
        raise ValueError("nodes must be a dictionary of attributes by name, such as {'x': ...}")
    values = _checked_names(nodes or {}, "node")
    for name, option, value in (("x", "features", features), ("y", "labels", labels)):
        if value is not None:
            if name in values:
                raise ValueError(f"{option}= is nodes[{name!r}]: give one of the two")
            values[name] = value
    # Features and labels first, as ever.
    return {name: values[name] for name in sorted(values, key=lambda name: _FIRST.get(name, 2))}


def _checked_names(values: Mapping[Any, Any], of: Any) -> dict[str, Any]:
    for name in values:
        check_attribute_name(name, of)
    return {name: value for name, value in values.items() if value is not None}


def _open_node(name: str, value: Any, feature_dtype: Any, id_column: Any, text_ids: bool) -> Rows:
    if name == "x":
        dtype = None if feature_dtype is None else as_dtype(feature_dtype)
        return open_features(value, dtype, id_column=id_column, text_ids=text_ids)
    if name == "y":
        return open_labels(value, id_column=id_column, text_ids=text_ids)
    return open_attribute(value, name, of="node", id_column=id_column, text_ids=text_ids)


def _check_options_once(edge_list: Any, options: Mapping[str, Any]) -> None:
    """Refuses options of the edge list that both the build and its `Source` have."""
    if not isinstance(edge_list, Source):
        return
    given = edge_list.given()
    of_build = Source(None, **{name: options[name] for name in FOR_EDGES}).given()
    for name in of_build:
        if name in given:
            raise ValueError(f"{name}= is given to the build and to the Source of the edges")


def _check_edge_counts(source: EdgeInput, edges: Mapping[str, Rows]) -> None:
    """Finds a wrong number of rows before the long work, where the number of edges is known."""
    num_edges = source.table.num_records
    for rows in edges.values():
        if num_edges is not None and rows.count() != num_edges:
            raise ValueError(
                f"{rows.name} has {rows.count()} rows for {num_edges} edges: every edge needs one"
            )


def _add_driving(
    source: EdgeInput, nodes: Mapping[str, Rows], edges: dict[str, Rows], options: dict[str, Any]
) -> tuple[EdgeInput, Driving]:
    """Chooses the attributes that drive sampling, and takes those of the edges out of `edges`."""
    weights, times = (as_names(options[name], name) for name in ("weight_attrs", "time_attrs"))
    columns = [EDGE_WEIGHT] * source.has_weights + [EDGE_TIME] * source.has_times
    for column in columns:
        if column in edges or column in nodes:
            raise ValueError(
                f"the edge list has a column that is stored as {column!r}, and there is an "
                f"attribute {column!r}: weight=False or timestamp=False ignores the column"
            )
    check_known(weights, times, [*edges, *columns], nodes)
    driving = resolve_driving(edges, weights, times, node_attrs=nodes)
    for name, has_column, of_column, of_attribute in (
        (driving.weight, source.has_weights, "weight", "weight_attrs"),
        (driving.time, source.has_times, "timestamp", "time_attrs"),
    ):
        if name is not None and has_column:
            raise ValueError(
                f"neighbours would be sampled by {name!r} and by a column of the edge list: "
                f"{of_column}=False ignores the column; {of_attribute}=[] leaves {name!r} an "
                f"ordinary attribute"
            )
    weight = edges.pop(driving.weight) if driving.weight else None
    time = edges.pop(driving.time) if driving.time and driving.time_level == "edge" else None
    names = driving.weight, driving.time
    return join_columns(source, weight, time, names=names), driving


def open_graph_input(
    edges: Any,
    features: Any,
    labels: Any,
    splits: Mapping[str, Any] | None,
    *,
    nodes: Any,
    edge_splits: Mapping[str, Any] | None,
    num_nodes: int | None,
    feature_dtype: Any,
    weight_attrs: Any,
    time_attrs: Any,
    id_column: Any = None,
    **edge_options: Any,
) -> GraphInput:
    """Opens the arguments of `graphzero.build`; `edge_options` are those of `open_edges`.

    Raises
    ------
    ValueError
        If an argument is wrong, or two contradict each other.
    OSError
        If a file cannot be read.
    """
    named_splits, named_edge_splits = dict(splits or {}), dict(edge_splits or {})
    check_split_names(named_splits)
    check_split_names(named_edge_splits)
    edge_list, edge_values = _edge_values(edges)
    node_values = _node_values(nodes, features, labels)
    if feature_dtype is not None and "x" not in node_values:
        raise ValueError("feature_dtype needs features")
    _check_options_once(edge_list, edge_options)
    check_id_column(id_column, node_values.values())
    source = open_edges(edge_list, is_edge_index=edge_list is not edges, **edge_options)
    refuse_positions(
        source.bad_rows, [*edge_values, *(f"edge_splits[{name!r}]" for name in named_edge_splits)]
    )
    if source.shape is not None and source.shape[0] != source.shape[1]:
        raise ValueError(
            f"{source.count_of(0)[1]}: edges between nodes of one kind are a square matrix; where "
            f"rows and columns are different nodes, build a typed graph"
        )
    of_edges = {name: open_attribute(v, name, of="edge") for name, v in edge_values.items()}
    _check_edge_counts(source, of_edges)
    of_edges = with_columns(of_edges, source)
    check_distinct(node_values, of_edges)
    text_ids = bool(edge_options.get("text_ids"))
    of_nodes = {
        name: _open_node(name, v, feature_dtype, id_column, text_ids)
        for name, v in node_values.items()
    }
    driven = {"weight_attrs": weight_attrs, "time_attrs": time_attrs}
    source, driving = _add_driving(source, of_nodes, of_edges, driven)
    if of_edges or named_edge_splits:  # both are found by the positions of edges
        source = replace(source, with_edge_ids=True)
    return GraphInput(
        source, of_nodes, of_edges, driving, named_splits, named_edge_splits, num_nodes
    )
