"""The arguments of a build, opened and checked: nodes and edges by type.

A graph without types has the node type `NODES` and the edge type `EDGES`, and nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from graphzero.errors import FormatError, warn_user
from graphzero.ingest.edges import EdgeColumns, EdgeInput, EdgeList, IdBound, open_edges
from graphzero.ingest.id_map import IdColumns, NodeIds, nodes_in_order, split_nodes
from graphzero.ingest.link_split import LinkSplit, link_splits
from graphzero.ingest.lists import ends_of
from graphzero.ingest.merge import Merging, check_attributes, merge_options
from graphzero.ingest.options import BuildOptions, Source, by_type, check_attribute_name
from graphzero.ingest.rows import NodeReading, Rows, open_attribute, rows_of_array
from graphzero.ingest.sources.columns import (
    MAX_NODES,
    Array,
    ArrayTable,
    DType,
    checked_count,
    is_scipy,
    say_direction,
)
from graphzero.ingest.sources.tables import is_table
from graphzero.store.format import as_dtype, dtype_name
from graphzero.store.manifest import (
    EDGE_TIME,
    EDGE_WEIGHT,
    EDGES,
    NODES,
    EdgeType,
    Layout,
    SampledBy,
)

# What a user gives, by name.
Values = dict[str, Any]
_ERRORS = (FormatError, ValueError, IndexError, TypeError)
_Type = TypeVar("_Type", str, EdgeType)
_SPLIT_NAME = re.compile(r"[A-Za-z0-9_-]+")
# So many nodes take 32 MiB, and no more is lost whatever the ids are.
ALWAYS_NODES = 1 << 22
# Beyond it, one node in so many must be named, even if nothing names a node twice.
NODES_PER_REFERENCE = 16


@dataclass(frozen=True)
class NodeInput:
    """The nodes of one type.

    With mapped ids, `named_by` has the ids of those attributes whose rows have none.
    """

    attributes: dict[str, Rows]
    splits: Values
    num_nodes: int | None
    named_by: Rows | None = None


@dataclass(frozen=True)
class EdgeTypeInput:
    """The edges of one type; `attributes` are those besides weights and times."""

    edges: EdgeInput
    attributes: dict[str, Rows]
    splits: Values
    sampled_by: SampledBy
    merging: Merging
    link_split: LinkSplit | None = None


@dataclass(frozen=True)
class GraphInput:
    """All nodes and edges, by type; and what takes the user's ids to nodes, if they are mapped."""

    nodes: dict[str, NodeInput]
    edges: dict[EdgeType, EdgeTypeInput]
    ids: dict[str, NodeIds] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """How the folder is laid out."""
        return Layout(NODES not in self.nodes)

    def ends(self, edge_type: EdgeType) -> tuple[str, str]:
        """The node types of the first and the second column of an edge list."""
        return ends_of(edge_type, self.edges[edge_type].merging.reverse)


@contextmanager
def naming(what: str | EdgeType) -> Iterator[None]:
    """Adds a node type or an edge type to the message of an error about its input."""
    try:
        yield
    except _ERRORS as error:
        if what in (NODES, EDGES):
            raise
        kind = next(kind for kind in _ERRORS if isinstance(error, kind))
        label = f"node type {what!r}" if isinstance(what, str) else f"edge type {what!r}"
        raise kind(f"{label}: {error}") from error


def check_split_name(name: object) -> None:
    """Raises a ValueError for a name that a split cannot have."""
    if not isinstance(name, str) or not _SPLIT_NAME.fullmatch(name):
        raise ValueError(f"split name {name!r} has other characters than A-Z a-z 0-9 _ -")


# Opening


def open_graph_input(options: BuildOptions) -> GraphInput:
    """Opens every file, and checks what can be checked without reading it.

    Raises
    ------
    ValueError
        Naming what is wrong.
    OSError
        If a file cannot be opened.
    """
    link: dict[EdgeType, LinkSplit] = {}
    if options.edge_splits is not None:
        is_typed = options.is_typed and isinstance(options.edges, Mapping)
        link = link_splits(options.edge_splits, options.edges if is_typed else {EDGES: None})
    if link:
        options = replace(options, edge_splits=None)
    contents = _typed(options) if options.is_typed else _untyped(options)
    node_types, edge_types, splits, edge_splits = contents
    for name in (*(options.splits or ()), *(options.edge_splits or ())):
        check_split_name(name)
    wanted = merge_options(edge_types, options.coalesce, options.drop_self_loops, options.reverse)
    ids = {name: NodeIds() for name in node_types} if options.maps_ids else {}
    nodes: dict[str, NodeInput] = {}
    for name, content in node_types.items():
        with naming(name):
            nodes[name] = _open_nodes(name, content, splits[name], options, ids.get(name))
    opened: dict[EdgeType, EdgeColumns] = {}
    for edge_type, content in edge_types.items():
        with naming(edge_type):
            opened[edge_type] = open_typed_edges(
                edge_type, content, options, wanted[edge_type], ids=ids
            )
    _check_options(options, nodes)
    weights, times = _option_names(options.weight_attrs), _option_names(options.time_attrs)
    _check_sampling_names(weights, times, nodes, opened)
    edges: dict[EdgeType, EdgeTypeInput] = {}
    for edge_type, edge_columns in opened.items():
        merging = wanted[edge_type]
        warn_of_ends(edge_type, edge_columns, merging)
        with naming(edge_type):
            neighbors = nodes[edge_type[0] if options.neighbors != "out" else edge_type[2]]
            sampled_by = _sampling_attributes(edge_columns, neighbors.attributes, weights, times)
            splits_of = edge_splits[edge_type]
            of_type = edges_of_type(edge_columns, options, sampled_by, merging, splits_of)
            edges[edge_type] = replace(of_type, link_split=link.get(edge_type))
    merged_names = {name for of_type in edges.values() for name in of_type.merging.aggregations}
    check_attributes(wanted.values(), merged_names)
    return GraphInput(nodes, edges, ids)


# Nodes and edges by type, and their splits
ByType = tuple[Values, dict[EdgeType, Any], dict[str, Values], dict[EdgeType, Values]]


def _untyped(options: BuildOptions) -> ByType:
    """Of a graph without types: its one node type, and its one edge type."""
    nodes = {} if options.nodes is None else options.nodes
    if not isinstance(nodes, Mapping):
        raise ValueError("nodes must be a dictionary of attributes by name, such as {'x': ...}")
    for name in nodes:
        check_attribute_name(name, "node")  # "num_nodes" is none
    values = {"x": options.features, "y": options.labels}
    for name, option in (("x", "features"), ("y", "labels")):
        if values[name] is not None and nodes.get(name) is not None:
            raise ValueError(f"{option}= is nodes[{name!r}]: give one of the two")
    values |= {name: value for name, value in nodes.items() if value is not None}
    return (
        {NODES: {**values, "num_nodes": options.num_nodes}},
        {EDGES: options.edges},
        {NODES: dict(options.splits or {})},
        {EDGES: dict(options.edge_splits or {})},
    )


def _typed(options: BuildOptions) -> ByType:
    options.check_typed()
    nodes, edges = options.nodes, options.edges
    if not (isinstance(nodes, Mapping) and nodes and isinstance(edges, Mapping) and edges):
        raise ValueError(
            "a typed graph needs nodes={'paper': {'x': ...}, 'author': {}} with every node type, "
            "and edges={('author', 'writes', 'paper'): ...} with at least one edge type"
        )
    for key in edges:
        _check_edge_type(key, nodes)
    return (
        dict(nodes),
        dict(edges),
        _splits_by_type(options.splits, "splits", nodes),
        _splits_by_type(options.edge_splits, "edge_splits", edges),
    )


def _check_edge_type(key: object, nodes: Mapping[str, object]) -> None:
    if not isinstance(key, tuple) or len(key) != 3:
        raise ValueError(
            f"edges= has the key {key!r}: an edge type is (source type, relation, target type)"
        )
    for name in (*nodes, *key):
        if not isinstance(name, str) or not name:
            raise ValueError(f"{name!r} is no name of a type: it must be a text that is not empty")
    for name in key[::2]:
        if name not in nodes:
            raise ValueError(
                f"edge type {key!r} has node type {name!r}, which nodes= does not have; it has "
                f"{', '.join(map(repr, nodes))}. For nodes without attributes, add "
                f"nodes={{{name!r}: {{}}}}"
            )


def _splits_by_type(
    splits: Mapping[str, Any] | None, option: str, types: Collection[_Type]
) -> dict[_Type, Values]:
    """From {split: {type: value}} to {type: {split: value}}."""
    splits_of: dict[_Type, Values] = {key: {} for key in types}
    for name, value in dict(splits or {}).items():
        for key, of_type in by_type(value, f"{option}[{name!r}]", types).items():
            splits_of[key][name] = of_type
    return splits_of


# Attributes


def _open_nodes(
    name: str, content: object, splits: Values, options: BuildOptions, ids: NodeIds | None
) -> NodeInput:
    if not isinstance(content, Mapping):
        raise ValueError(
            f"it is {type(content).__name__}, not a dict of attributes: "
            f"nodes={{{name!r}: {{'x': ...}}}}"
        )
    count = content.get("num_nodes")
    if count is not None and ids is not None:
        raise ValueError(
            f"num_nodes={count} is for ids='dense': with ids='map' the nodes are those that edges "
            f"and attributes name; leave num_nodes out"
        )
    labels = {"x": "features", "y": "labels"} if name == NODES else {}
    dtype = None if options.feature_dtype is None else as_dtype(options.feature_dtype)
    attributes: dict[str, Rows] = {}
    for attribute, value in content.items():
        if attribute == "num_nodes" or value is None:
            continue
        is_x = attribute == "x"
        has_labels = is_x and content.get("y") is not None
        reading = NodeReading(options.id_column, ids, has_labels)
        label = labels.get(attribute, "")
        attributes[attribute] = open_node_attribute(
            value, attribute, dtype if is_x else None, reading, label
        )
    if "x" in attributes and "y" in attributes:
        _check_labels(content, attributes["x"], attributes["y"])
    named_by = None if ids is None else _only_table(content, attributes)
    for attribute, rows in attributes.items():
        if ids is not None and not (named_by and isinstance(rows.table, ArrayTable)):
            require_ids(attribute, rows)
    count = None if count is None else checked_count(count)
    return NodeInput(attributes, splits, count, named_by)


def _only_table(content: Mapping[str, Any], attributes: Mapping[str, Rows]) -> Rows | None:
    """The rows of the only table of nodes with ids, if there is one."""
    with_ids = {name: rows for name, rows in attributes.items() if not rows.in_order}
    values = (getattr(content[name], "value", content[name]) for name in with_ids)
    tables = {str(value) if isinstance(value, str | os.PathLike) else id(value) for value in values}
    return next(iter(with_ids.values())) if len(tables) == 1 else None


def require_ids(attribute: str, rows: Rows) -> None:
    """Refuses rows without node ids, where ids are mapped."""
    if rows.in_order:
        raise ValueError(
            f"{rows.name}: its rows have no node ids, and with ids='map' nodes are numbered by "
            f"their sorted ids. Give attribute {attribute!r} as a table with a column of node "
            f"ids, such as a CSV or Parquet file, or as an array beside one such table, in its "
            f"order; or number the nodes yourself, and build with ids='dense'"
        )


def _check_labels(content: Mapping[str, Any], features: Rows, labels: Rows) -> None:
    """Refuses labels among the features: a model would read them instead of learning them."""
    x, y = (getattr(content[name], "value", content[name]) for name in ("x", "y"))
    are_paths = isinstance(x, str | os.PathLike) and isinstance(y, str | os.PathLike)
    is_same = os.fspath(x) == os.fspath(y) if are_paths else x is y
    of_x = {column.index for column in features.values}
    if is_same and is_table(x) and {column.index for column in labels.values} <= of_x:
        raise ValueError(
            f"{labels.name}: the columns of the labels are among those of the features. Name both: "
            f"features=gz.Source(..., columns=['age', 'height']), labels=gz.Source(..., "
            f"columns='team')"
        )


def open_node_attribute(
    value: Any, attribute: str, dtype: DType | None, reading: NodeReading, label: str = ""
) -> Rows:
    """A named attribute of nodes."""
    check_attribute_name(attribute, "node")
    return open_attribute(value, attribute, dtype, of="node", label=label, reading=reading)


def open_typed_edges(
    edge_type: EdgeType,
    content: Any,
    options: BuildOptions,
    merging: Merging,
    *,
    ids: Mapping[str, NodeIds],
    stored: Collection[str] = (),
) -> EdgeColumns:
    """The edges of a type, with all of their attributes.

    `ids` are those of each node type, where they are mapped; else there are none. Columns with
    `stored` names are attributes without being named.
    """
    by_name = isinstance(content, Mapping) and not is_scipy(content)
    values = dict(content) if by_name else {"edge_index": content}
    edge_index = values.pop("edge_index", None)
    if edge_index is None and by_name:
        raise ValueError(
            f"edges has no 'edge_index', the edge list; it has "
            f"{', '.join(map(repr, values)) or 'nothing'}"
        )
    defaults = options.edge_source
    if isinstance(edge_index, Source) and not options.is_typed:
        for name in defaults.options().keys() & edge_index.options().keys():
            raise ValueError(f"{name}= is given to the build and to the Source of the edges")
    first, second = ends_of(edge_type, merging.reverse)
    source = open_edges(
        edge_index,
        defaults=defaults,
        is_edge_index=by_name or options.is_typed,
        ids=(ids[first], ids[second]) if ids else None,
        stored=set(stored) - values.keys(),
    )
    rows = _open_edge_attributes(values, source.table.num_records)
    stored = [*rows, *source.attributes, *source.sampling_names]
    for name in stored:
        if stored.count(name) > 1:
            raise ValueError(
                f"{source.table.name}: {name!r} would be stored twice: as an attribute, a column "
                f"of edge_attrs, or the column of weights or times. Leave one of them out "
                f"(weight=False and timestamp=False ignore columns), or give it another name"
            )
    return replace(source, attributes={**rows, **source.attributes})


def _open_edge_attributes(values: Values, num_edges: int | None) -> dict[str, Rows]:
    """The attributes that stand beside an edge list. One that is None is none."""
    attributes: dict[str, Rows] = {}
    for name, value in values.items():
        check_attribute_name(name, "edge")
        if value is None:
            continue
        rows = attributes[name] = open_attribute(value, name, of="edge")
        # Found before the long work, where it can be.
        if num_edges is not None and rows.count() != num_edges:
            raise ValueError(
                f"{rows.name} has {rows.count()} rows for {num_edges} edges: every edge needs one"
            )
    return attributes


def warn_of_ends(edge_type: EdgeType, source: EdgeColumns, merging: Merging) -> None:
    """Warns of two columns that are taken in order because their names do not say what they are."""
    if source.ends is None or say_direction(source.ends, ends_of(edge_type, merging.reverse)):
        return
    first, second = source.ends
    start, end = source.ends[::-1] if merging.reverse else source.ends
    where, merged = f"edge type {edge_type}: ", ""
    if edge_type == EDGES:
        where, merged = "", ", and ids in both are of the same nodes (else build a typed graph)"
    warn_user(
        f"{where}{source.table.name} has the columns {first!r} and {second!r}, whose names are not "
        f"recognised: edges go from {start!r} to {end!r}{merged}. src={first!r}, dst={second!r} "
        f"confirms it, and src={second!r}, dst={first!r} reverses it"
    )


def _check_options(options: BuildOptions, nodes: Mapping[str, NodeInput]) -> None:
    """Refuses options about attributes of nodes without such attributes."""
    if options.feature_dtype is not None and not any("x" in n.attributes for n in nodes.values()):
        raise ValueError("feature_dtype needs features")
    all_rows = (rows for of_type in nodes.values() for rows in of_type.attributes.values())
    has_ids = (not rows.in_order for rows in all_rows)
    if options.id_column is not None and options.id_column is not False and not any(has_ids):
        raise ValueError(
            f"id_column={options.id_column!r} is for features, labels and attributes of nodes in "
            f"CSV or other tables, and there are none"
        )


# What drives sampling


def _option_names(value: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Names that an option lists; one name may stand alone. None is the default choice."""
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)


def _check_sampling_names(
    weights: Collection[str] | None,
    times: Collection[str] | None,
    nodes: Mapping[str, NodeInput],
    edges: Mapping[EdgeType, EdgeColumns],
) -> None:
    """Refuses names that no attribute has, that are both, or that nodes and edges have."""
    of_nodes = {name for of_type in nodes.values() for name in of_type.attributes}
    of_edges: set[str] = set()
    for opened in edges.values():
        of_edges.update(opened.attributes, opened.sampling_names)
    for option, wanted, names, what in (
        ("weight_attrs", weights, of_edges, "edge attribute {!r}"),
        ("time_attrs", times, of_edges | of_nodes, "attribute {!r} of edges or nodes"),
    ):
        for name in wanted or ():
            if name not in names:
                listed = ", ".join(sorted(names)) or "none"
                raise ValueError(f"{option}: no {what.format(name)}; there are {listed}")
    for name in {*(weights or ())} & {*(times or ())}:
        raise ValueError(f"{name!r} is in weight_attrs and in time_attrs: it can be one only")
    # Batches of a graph without types have one of each name; and as in PyG, a time is of either.
    for name in sorted(of_nodes & of_edges):
        if NODES in nodes or name in (times or ()):
            raise ValueError(
                f"nodes and edges both have an attribute {name!r}: choose another name for one of "
                f"them, so that it is clear which of them is meant"
            )


def _sampling_attributes(
    edges: EdgeColumns,
    node_rows: Mapping[str, Rows],
    weights: Collection[str] | None,
    times: Collection[str] | None,
) -> SampledBy:
    """The attributes by which the edges of one type are sampled.

    Names that neither these edges nor their neighbours have are for other types. None stands for
    "edge_weight" or "weight", and for "edge_time", "timestamp" or "time" of the edges.
    """
    rows = edges.attributes
    wanted = (EDGE_WEIGHT, "weight") if weights is None else weights
    weight = _only_name(
        [n for n in wanted if n in rows], edges.has_weights, "weight", "weight_attrs"
    )
    wanted = (EDGE_TIME, "timestamp", "time") if times is None else times
    of_nodes = [] if times is None else [name for name in wanted if name in node_rows]
    of_edges = [name for name in wanted if name in rows]
    time = _only_name([*of_edges, *of_nodes], edges.has_times, "timestamp", "time_attrs")
    if of_nodes and time is not None:
        _check_numbers(node_rows[time], time, "time_attrs", "integers")
    return SampledBy(
        EDGE_WEIGHT if edges.has_weights else weight,
        EDGE_TIME if edges.has_times else time,
        "node" if of_nodes else "edge",
    )


def _only_name(names: list[str], has_column: bool, option: str, attrs: str) -> str | None:
    """The only one of these attributes, or None: a column of the edge list is one of them."""
    labels = [*map(repr, names), *["a column of the edge list"] * has_column]
    if len(labels) > 1:
        raise ValueError(
            f"neighbours would be sampled by {' and by '.join(labels)}, and there can be one: name "
            f"it in {attrs}, and leave the others as ordinary attributes, {attrs}=[] if need be; "
            f"{option}=False ignores a column"
        )
    return names[0] if names else None


def _check_numbers(rows: Rows, name: str, option: str, what: str) -> None:
    """Refuses attributes that cannot drive sampling: other shapes than vectors, other dtypes."""
    # bfloat16 has a kind of its own.
    is_wrong = not rows.vector or (what == "integers" and rows.dtype.kind not in "iub")
    if is_wrong or rows.classes is not None:
        content = "texts"
        if rows.classes is None:
            content = f"rows of shape {rows.row_shape} and dtype {dtype_name(rows.dtype)}"
        raise ValueError(
            f"attribute {name!r} has {content}, but neighbours are sampled by vectors of {what}: "
            f"convert it, or leave it out of {option}, {option}=[] if need be, to store it as it is"
        )


def edges_of_type(
    edges: EdgeColumns,
    options: BuildOptions,
    sampled_by: SampledBy,
    merging: Merging,
    splits: Values | None = None,
) -> EdgeTypeInput:
    """Divides attributes of edges into those that drive sampling and the others."""
    rows, splits = edges.attributes, splits or {}
    weight = sampled_by.weight if sampled_by.weight in rows else None
    time = sampled_by.time if sampled_by.time in rows and sampled_by.time_level == "edge" else None
    if weight is not None:
        _check_numbers(rows[weight], weight, "weight_attrs", "numbers")
    if time is not None:
        _check_numbers(rows[time], time, "time_attrs", "integers")
    others = {name: values for name, values in rows.items() if name not in (weight, time)}
    edge_input = EdgeInput(
        edges,
        directed=options.is_directed,
        incoming=options.is_directed and options.neighbors != "out",
        # Other attributes and splits are found by the positions of edges.
        with_edge_ids=options.edge_ids or bool(others or splits),
        weight=None if weight is None else (weight, rows[weight]),
        time=None if time is None else (time, rows[time]),
    )
    merging = merging.of_attributes(others, sampled_by, edges.table.locate)
    return EdgeTypeInput(edge_input, others, splits, sampled_by, merging)


# Mapped ids


def id_sources(graph: GraphInput) -> list[IdColumns]:
    """All columns of node ids, each with its node type."""
    sources: list[IdColumns] = []
    for edge_type, of_type in graph.edges.items():
        source = of_type.edges.source
        columns = [column for column in source.columns if column.is_id]
        sources.append((source.table, list(zip(columns, graph.ends(edge_type), strict=True))))
    for name, nodes in graph.nodes.items():
        for rows in nodes.attributes.values():
            if rows.key is not None:
                sources.append((rows.table, [(rows.key, name)]))
    return sources


def with_nodes(graph: GraphInput, ids: Mapping[str, NodeIds], folder: Path) -> GraphInput:
    """The input with numbers of nodes, and nodes in splits, once the tables of ids are written.

    `folder` is for the nodes of a table, where arrays and masks are in its order.
    """
    nodes = {}
    for name, of_type in graph.nodes.items():
        attributes, order, named_by = dict(of_type.attributes), None, of_type.named_by
        if named_by is not None:
            order = nodes_in_order(named_by, folder)
            for attribute, rows in attributes.items():
                if rows.in_order:
                    attributes[attribute] = _with_ids(rows, order, named_by)
        splits = {
            split: split_nodes(value, ids[name], split, order)
            for split, value in of_type.splits.items()
        }
        nodes[name] = NodeInput(attributes, splits, ids[name].num_nodes or None)
    return GraphInput(nodes, graph.edges, graph.ids)


def _with_ids(rows: Rows, order: Array, named_by: Rows) -> Rows:
    """Rows of an array that are in the order of a table of nodes."""
    if rows.count() != len(order):
        raise ValueError(
            f"{rows.name} has {rows.count()} rows, and {named_by.name}, in whose order they are, "
            f"has {len(order)}: each needs one"
        )
    (column,) = rows.columns
    array = rows.table.columns[column.index]  # type: ignore[attr-defined]
    return rows_of_array(rows.name, array, order).converted(rows.dtype)


# Numbers of nodes


def known_counts(graph: GraphInput) -> dict[str, IdBound]:
    """How many nodes of each type there are, where this is known without reading the edges.

    Raises
    ------
    ValueError
        If numbers contradict each other.
    """
    counts: dict[str, list[tuple[int, str]]] = {name: [] for name in graph.nodes}
    for name, nodes in graph.nodes.items():
        of = f" of {name!r}" if name else ""
        if nodes.num_nodes is not None:
            counts[name].append((nodes.num_nodes, f"num_nodes{of}={nodes.num_nodes}"))
        with naming(name):
            for rows in nodes.attributes.values():
                if rows.in_order:
                    counts[name].append((rows.count(), f"{rows.name}{of} has {rows.count()} rows"))
    for edge_type, of_type in graph.edges.items():
        source = of_type.edges.source
        for end, count in enumerate(source.shape or ()):  # of a matrix
            what = f"of shape {source.shape}, with {count} {('rows', 'columns')[end]}"
            why = f"{source.table.name} is a matrix {what}"
            counts[graph.ends(edge_type)[end]].append((count, why))
    bounds: dict[str, IdBound] = {}
    for name, reasons in counts.items():
        bounds[name] = IdBound()
        for count, why in reasons[:1]:
            bounds[name] = IdBound(count, why)
        for count, why in reasons[1:]:
            if count != bounds[name].count:
                with naming(name):
                    raise ValueError(f"{bounds[name].why}, but {why}: every node needs one")
    return bounds


def final_counts(
    graph: GraphInput, bounds: Mapping[str, IdBound], lists: Mapping[EdgeType, EdgeList]
) -> dict[str, int]:
    """Nodes of each type, once the edges have been read.

    Raises
    ------
    ValueError
        If there are none, too many, or hardly any of them are named.
    """
    counts: dict[str, int] = {}
    for name, nodes in graph.nodes.items():
        with naming(name):
            count = bounds[name].count
            if count is None:
                count = _count_by_ids(name, nodes, graph, lists)
            if not count:
                tables = [
                    of_type.edges.source.table.name
                    for edge_type, of_type in graph.edges.items()
                    if name in edge_type[::2]
                ]
                raise ValueError(
                    f"{' and '.join(tables) or 'it'} has no edges: give num_nodes or an attribute "
                    f"to build a graph of nodes without edges"
                )
            if count > MAX_NODES:
                raise ValueError(f"{count} nodes exceed the limit of 2^32: probably an id is wrong")
            counts[name] = count
    return counts


def are_sparse(count: int, num_references: int) -> bool:
    """Whether so few references to so many nodes are probably a wrong id."""
    return count > max(ALWAYS_NODES, NODES_PER_REFERENCE * num_references)


def _count_by_ids(
    name: str, nodes: NodeInput, graph: GraphInput, lists: Mapping[EdgeType, EdgeList]
) -> int:
    """The largest id + 1, which must not be far above the number of references to nodes."""
    counts = [(rows.count(), rows.name) for rows in nodes.attributes.values()]
    num_references = sum(rows.num_ids for rows in nodes.attributes.values())
    for edge_type, edges in lists.items():
        for end, most in zip(edge_type[::2], edges.max_ids, strict=True):
            if end == name:
                table = graph.edges[edge_type].edges.source.table.name
                counts.append((most + 1, f"the edges of type {edge_type}" if name else table))
                num_references += edges.num_input_edges
    count, where = max(counts, default=(0, ""))
    if are_sparse(count, num_references):
        option = "'num_nodes': " if name else "num_nodes="
        raise ValueError(
            f"Node ids are too sparse: the largest one, in {where}, is {count - 1:,}, with "
            f"only {num_references:,} references to nodes. Use ids='map', which takes such ids "
            f"to 0...N-1; {option}{count} says that there are so many nodes"
        )
    return count
