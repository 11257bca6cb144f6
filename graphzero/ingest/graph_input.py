"""The arguments of a build, opened and checked: nodes and edges by type.

A graph without types has the node type `NODES` and the edge type `EDGES`, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from graphzero.errors import FormatError
from graphzero.ingest.edges import EdgeInput, EdgeList, IdBound, open_edges
from graphzero.ingest.id_map import MappedSplit, MappedTable, NodeIds
from graphzero.ingest.merge import (
    MergeOptions,
    Merging,
    check_attributes,
    merge_options,
    merging_of,
)
from graphzero.ingest.options import FOR_EDGES, BuildOptions, Source
from graphzero.ingest.rows import (
    Rows,
    check_attribute_name,
    open_attribute,
    sources_of,
)
from graphzero.ingest.sources.table import (
    MAX_NODES,
    Column,
    Table,
    checked_count,
    is_scipy,
)
from graphzero.ingest.sources.tables import is_table
from graphzero.store.format import as_dtype, dtype_name
from graphzero.store.manifest import EDGE_TIME, EDGE_WEIGHT, EDGES, NODES, Driving, EdgeType, Layout

_ERRORS = (FormatError, ValueError, IndexError, TypeError)
_CHUNK = 1 << 16
_FIRST = {"x": 0, "y": 1}
_SPLIT_NAME = re.compile(r"[A-Za-z0-9_-]+")
# So many nodes take 32 MiB, and no more is lost whatever the ids are.
_ALWAYS_NODES = 1 << 22
# Beyond it, one node in so many must be named, even if nothing names a node twice.
_NODES_PER_REFERENCE = 16


@dataclass(frozen=True)
class NodeInput:
    """The nodes of one type."""

    attributes: dict[str, Rows]
    splits: dict[str, Any]
    num_nodes: int | None


@dataclass(frozen=True)
class EdgeTypeInput:
    """The edges of one type; `attributes` are those besides weights and times."""

    edges: EdgeInput
    attributes: dict[str, Rows]
    splits: dict[str, Any]
    driving: Driving
    merging: Merging

    @property
    def is_reversed(self) -> bool:
        """Whether the list has the targets first."""
        return self.merging.options.reverse


@dataclass(frozen=True)
class GraphInput:
    """All nodes and edges, by type."""

    nodes: dict[str, NodeInput]
    edges: dict[EdgeType, EdgeTypeInput]

    @property
    def layout(self) -> Layout:
        """How the folder is laid out."""
        return Layout(NODES not in self.nodes)

    @property
    def is_directed(self) -> bool:
        """Whether edges are stored in the given direction only."""
        return all(one.edges.directed for one in self.edges.values())

    def ends(self, edge_type: EdgeType) -> tuple[str, str]:
        """The node types of the first and the second column of an edge list."""
        first, _, last = edge_type
        return (last, first) if self.edges[edge_type].is_reversed else (first, last)


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
    is_typed = options.is_typed
    if is_typed:
        options.check_typed()
        node_types, edge_types, splits, edge_splits = _types(options)
        all_values = [
            v for one in node_types.values() if isinstance(one, Mapping) for v in one.values()
        ]
    else:
        _check_split_names(options.splits or {})
        _check_split_names(options.edge_splits or {})
        values = _untyped_nodes(options)
        node_types, edge_types = {NODES: values}, {EDGES: options.edges}
        splits = {NODES: dict(options.splits or {})}
        edge_splits = {EDGES: dict(options.edge_splits or {})}
        all_values = [value for name, value in values.items() if name != "num_nodes"]
        if options.feature_dtype is not None and "x" not in values:
            raise ValueError("feature_dtype needs features")
    wanted = merge_options(edge_types, options.coalesce, options.drop_self_loops, options.reverse)
    check_id_column(options.id_column, all_values)
    edges: dict[EdgeType, tuple[EdgeInput, dict[str, Rows]]] = {}
    nodes: dict[str, NodeInput] = {}

    def open_all_nodes() -> None:
        for name, content in node_types.items():
            with naming(name):
                nodes[name] = _open_nodes(name, content, splits[name], options)

    if is_typed:
        open_all_nodes()
    for edge_type, content in edge_types.items():
        with naming(edge_type):
            edges[edge_type] = _open_edges(content, options, is_typed)
    if not is_typed:
        _check_distinct(values, edges[EDGES][1])
        open_all_nodes()
    names = tuple(as_names(getattr(options, n), n) for n in ("weight_attrs", "time_attrs"))
    _check_driving(names, nodes, edges)
    found: dict[EdgeType, EdgeTypeInput] = {}
    for edge_type, (source, rows) in edges.items():
        with naming(edge_type):
            neighbors = nodes[edge_type[0] if options.neighbors != "out" else edge_type[2]]
            found[edge_type] = _drive(
                source, rows, neighbors.attributes, edge_splits[edge_type], names, wanted[edge_type]
            )
    check_attributes(wanted.values(), {n for one in found.values() for n in one.merging.how})
    if options.maps_ids:
        _check_mapped(nodes)
    return GraphInput(nodes, found)


def check_id_column(id_column: Any, values: Iterable[Any]) -> None:
    """Raises a ValueError for an `id_column` of the build if no attribute of nodes is a table."""
    if id_column is None:
        return
    of_values = [sources_of(value) for value in values]
    sources = [s for one in of_values for s in ([one] if isinstance(one, Source) else one)]
    if not any(is_table(source.value) for source in sources):
        raise ValueError(
            f"id_column={id_column!r} is for features, labels and attributes of nodes in CSV or "
            f"other tables, and there are none"
        )


# Columns of tables


def _untyped_nodes(options: BuildOptions) -> dict[str, Any]:
    nodes = options.nodes
    if nodes is not None and not isinstance(nodes, Mapping):
        raise ValueError("nodes must be a dictionary of attributes by name, such as {'x': ...}")
    values = {}
    for name, value in (nodes or {}).items():
        check_attribute_name(name, "node")
        if value is not None:
            values[name] = value
    for name, option in (("x", "features"), ("y", "labels")):
        value = getattr(options, option)
        if value is not None:
            if name in values:
                raise ValueError(f"{option}= is nodes[{name!r}]: give one of the two")
            values[name] = value
    values = {name: values[name] for name in sorted(values, key=lambda name: _FIRST.get(name, 2))}
    return values if options.num_nodes is None else {**values, "num_nodes": options.num_nodes}


def _types(options: BuildOptions) -> tuple[dict[str, Any], dict[EdgeType, Any], Any, Any]:
    """Nodes, edges and their splits, by type."""
    nodes, edges = options.nodes, options.edges
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
    node_types = {_check_name(name, "a node type"): nodes[name] for name in nodes}
    edge_types = {_edge_type(key, node_types): edges[key] for key in edges}
    splits = _by_type(options.splits, "splits", node_types)
    edge_splits = _by_type(options.edge_splits, "edge_splits", edge_types)
    return node_types, edge_types, splits, edge_splits


def _check_split_names(splits: Mapping[str, Any]) -> None:
    """Raises a ValueError for names that cannot be part of a file name."""
    for name in splits:
        if not isinstance(name, str) or not _SPLIT_NAME.fullmatch(name):
            raise ValueError(f"split name {name!r} has other characters than A-Z a-z 0-9 _ -")


def _check_name(name: object, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"{what} is {name!r}: it must be a text that is not empty")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is {name!r}, which is no valid Unicode text") from None
    return name


def _edge_type(key: Any, nodes: Mapping[str, Any]) -> EdgeType:
    if not isinstance(key, tuple) or len(key) != 3:
        raise ValueError(
            f"edges= has the key {key!r}: an edge type is (source type, relation, target type)"
        )
    source, relation, target = (_check_name(name, f"a part of edge type {key!r}") for name in key)
    for name in (source, target):
        if name not in nodes:
            raise ValueError(
                f"edge type {key!r} has node type {name!r}, which nodes= does not have; it has "
                f"{', '.join(map(repr, nodes)) or 'none'}. For nodes without attributes, add "
                f"nodes={{{name!r}: {{}}}}"
            )
    return source, relation, target


def _by_type(splits: Any, option: str, types: Mapping[Any, Any]) -> dict[Any, dict[str, Any]]:
    """From {split: {type: value}} to {type: {split: value}}."""
    named = dict(splits or {})
    _check_split_names(named)
    found: dict[Any, dict[str, Any]] = {key: {} for key in types}
    for name, by_type in named.items():
        if not isinstance(by_type, Mapping):
            raise ValueError(
                f"{option}[{name!r}] must be a dict by type in a typed graph: "
                f"{option}={{{name!r}: {{{next(iter(types))!r}: ...}}}}"
            )
        for key, value in by_type.items():
            if key not in found:
                raise ValueError(
                    f"{option}[{name!r}] names {key!r}, which is none of the types "
                    f"{', '.join(map(repr, types))}"
                )
            found[key][name] = value
    return found


def _open_nodes(
    name: str, content: Any, splits: dict[str, Any], options: BuildOptions
) -> NodeInput:
    if not isinstance(content, Mapping):
        raise ValueError(
            f"it is {type(content).__name__}, not a dict of attributes: "
            f"nodes={{{name!r}: {{'x': ...}}}}"
        )
    count = content.get("num_nodes")
    labels = {"x": "features", "y": "labels"} if name == NODES else {}
    dtype = None if options.feature_dtype is None else as_dtype(options.feature_dtype)
    values = {key: value for key, value in content.items() if key != "num_nodes"}
    for attribute in values:
        check_attribute_name(attribute, "node")
    rows = {
        attribute: open_attribute(
            value,
            attribute,
            dtype if attribute == "x" else None,
            of="node",
            label=labels.get(attribute, ""),
            id_column=options.id_column,
            text_ids=options.maps_ids,
        )
        for attribute, value in values.items()
        if value is not None
    }
    return NodeInput(rows, splits, None if count is None else checked_count(count))


def _open_edges(
    content: Any, options: BuildOptions, is_typed: bool
) -> tuple[EdgeInput, dict[str, Rows]]:
    """The edges of a type, and all of their attributes."""
    by_name = isinstance(content, Mapping) and not is_scipy(content)
    values = dict(content) if by_name else {"edge_index": content}
    edge_index = values.pop("edge_index", None)
    if edge_index is None and by_name:
        raise ValueError(
            f"edges has no 'edge_index', the edge list; it has "
            f"{', '.join(map(repr, values)) or 'nothing'}"
        )
    for name in values:
        check_attribute_name(name, "edge")
    of_build = {name: getattr(options, name) for name in FOR_EDGES}
    if isinstance(edge_index, Source) and not is_typed:
        own = edge_index.options()
        for name in Source(None, **of_build).options():
            if name in own:
                raise ValueError(f"{name}= is given to the build and to the Source of the edges")
    source = open_edges(
        edge_index,
        directed=options.directed,
        incoming=options.neighbors != "out",
        with_edge_ids=options.edge_ids,
        is_edge_index=by_name or is_typed,
        text_ids=options.maps_ids,
        **of_build,
    )
    if source.shape is not None and source.shape[0] != source.shape[1] and not is_typed:
        raise ValueError(
            f"{source.count_of(0)[1]}: edges between nodes of one kind are a square matrix; where "
            f"rows and columns are different nodes, build a typed graph"
        )
    rows = {
        name: open_attribute(value, name, of="edge")
        for name, value in values.items()
        if value is not None
    }
    num_edges = source.table.num_records
    for one in rows.values():  # found before the long work, where it can be
        if num_edges is not None and one.count() != num_edges:
            raise ValueError(
                f"{one.name} has {one.count()} rows for {num_edges} edges: every edge needs one"
            )
    for name in source.attributes:
        if name in rows:
            raise ValueError(
                f"{source.table.name}: {name!r} is in edge_attrs and is given as an attribute as "
                f"well: leave one of them out, or give it another name"
            )
    return source, {**rows, **source.attributes}


def _check_distinct(node_names: Collection[str], edge_names: Collection[str]) -> None:
    both = sorted(set(node_names) & set(edge_names))
    if both:
        raise ValueError(
            f"nodes and edges both have an attribute {both[0]!r}, and a mini-batch has one of "
            f"each name: choose another name for one of them"
        )


def as_names(value: str | Iterable[str] | None, option: str) -> tuple[str, ...] | None:
    """Names that an option lists; one name may stand alone. None is the default choice."""
    if value is None:
        return None
    names = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{option}={value!r} must be a list of names of attributes")
    if len(set(names)) != len(names):
        raise ValueError(f"{option}={value!r} has a name twice")
    return names


def check_known(
    weight_attrs: Collection[str] | None,
    time_attrs: Collection[str] | None,
    edge_names: Collection[str],
    node_names: Collection[str],
) -> None:
    """Raises a ValueError for a name that no attribute has, or that would be weight and time."""
    for name in weight_attrs or ():
        if name in (time_attrs or ()):
            raise ValueError(f"{name!r} is in weight_attrs and in time_attrs: it can be one only")
        if name not in edge_names:
            hint = ": it is one of the nodes" if name in node_names else ""
            raise ValueError(
                f"weight_attrs: there is no edge attribute {name!r}{hint}; {_listed(edge_names)}"
            )
    for name in time_attrs or ():
        if name not in edge_names and name not in node_names:
            raise ValueError(
                f"time_attrs: there is no attribute {name!r} of edges or nodes; "
                f"{_listed([*edge_names, *node_names])}"
            )


def _listed(names: Collection[str]) -> str:
    return f"there are {', '.join(sorted(names))}" if names else "there are none"


def resolve_driving(
    edge_attrs: Mapping[str, Rows],
    weight_attrs: Collection[str] | None,
    time_attrs: Collection[str] | None,
    node_attrs: Mapping[str, Rows],
) -> Driving:
    """The attributes by which the edges of one type are sampled.

    Names that neither these edges nor their neighbours have are for other types. None stands for
    "edge_weight" or "weight", and for "edge_time", "timestamp" or "time" of the edges.

    Raises
    ------
    ValueError
        If two attributes would be the weight, or the time, or one is no vector of such numbers.
    """
    wanted = (EDGE_WEIGHT, "weight") if weight_attrs is None else weight_attrs
    weight = _one([n for n in wanted if n in edge_attrs], "weight_attrs", "weights")
    wanted = (EDGE_TIME, "timestamp", "time") if time_attrs is None else time_attrs
    of_edges = [name for name in wanted if name in edge_attrs]
    of_nodes = [] if time_attrs is None else [name for name in wanted if name in node_attrs]
    time = _one([*of_edges, *of_nodes], "time_attrs", "times")
    if weight is not None:
        _check_numbers(edge_attrs[weight], weight, "weight_attrs", "numbers")
    if time is not None:
        rows = edge_attrs[time] if of_edges else node_attrs[time]
        _check_numbers(rows, time, "time_attrs", "integers")
    return Driving(weight, time, "node" if of_nodes else "edge")


def _one(chosen: Collection[str], option: str, what: str) -> str | None:
    if len(chosen) > 1:
        names = " and ".join(map(repr, chosen))
        raise ValueError(
            f"{names} would both be {what} by which neighbours are sampled, and there can "
            f"be one: name it in {option}, and leave the others as ordinary attributes"
        )
    return next(iter(chosen), None)


def _check_numbers(rows: Rows, name: str, option: str, what: str) -> None:
    """Refuses attributes that cannot drive sampling: other shapes than vectors, other dtypes."""
    is_float = rows.dtype.kind not in "iub"  # bfloat16 has a kind of its own
    if not rows.vector or (what == "integers" and is_float):
        raise ValueError(
            f"attribute {name!r} has rows of shape {rows.row_shape} and dtype "
            f"{dtype_name(rows.dtype)}, but neighbours are sampled by vectors of {what}: convert "
            f"it, or leave it out of {option}, {option}=[] if need be, to store it as it is"
        )


def _check_driving(
    names: tuple[Any, ...],
    nodes: Mapping[str, NodeInput],
    edges: Mapping[EdgeType, tuple[EdgeInput, dict[str, Rows]]],
) -> None:
    """Refuses names that no attribute has, and times that nodes and edges have, as PyG does."""
    of_nodes = {name for one in nodes.values() for name in one.attributes}
    of_edges = {name for _, rows in edges.values() for name in rows}
    if NODES in nodes:
        source = edges[EDGES][0]
        of_edges |= {EDGE_WEIGHT} if source.has_weights else set()
        of_edges |= {EDGE_TIME} if source.has_times else set()
    weights, times = names
    check_known(weights, times, of_edges, of_nodes)
    for name in times or ():
        if name in of_nodes and name in of_edges:
            raise ValueError(
                f"time_attrs: both nodes and edges have {name!r}: give the times of either "
                f"another name, so that it is clear which of them drive sampling"
            )


def _drive(
    source: EdgeInput,
    rows: dict[str, Rows],
    node_rows: dict[str, Rows],
    splits: dict[str, Any],
    names: tuple[Any, ...],
    wanted: MergeOptions,
) -> EdgeTypeInput:
    """Divides attributes of edges into those that drive sampling and the others."""
    chosen = resolve_driving(rows, names[0], names[1], node_rows)
    for has_column, name, other, option, attrs in (
        (source.has_weights, EDGE_WEIGHT, chosen.weight, "weight", "weight_attrs"),
        (source.has_times, EDGE_TIME, chosen.time, "timestamp", "time_attrs"),
    ):
        if has_column and (name in rows or name in node_rows):
            raise ValueError(
                f"the edge list has a column that is stored as {name!r}, and there is an "
                f"attribute {name!r}: {option}=False ignores the column"
            )
        if has_column and other is not None:
            raise ValueError(
                f"neighbours would be sampled by {other!r} and by a column of the edge list: "
                f"{option}=False ignores the column; {attrs}=[] leaves {other!r} an ordinary "
                f"attribute"
            )
    by_edge = chosen.time if chosen.time_level == "edge" else None
    driving = Driving(
        EDGE_WEIGHT if source.has_weights else chosen.weight,
        EDGE_TIME if source.has_times else chosen.time,
        chosen.time_level,
    )
    others = {name: one for name, one in rows.items() if name not in (chosen.weight, by_edge)}
    source = replace(
        source,
        weight=None if chosen.weight is None else (chosen.weight, rows[chosen.weight]),
        time=None if by_edge is None else (by_edge, rows[by_edge]),
        # Both are found by the positions of edges.
        with_edge_ids=source.with_edge_ids or bool(others or splits),
    )
    merging = merging_of(wanted, others, driving, source.table.locate)
    return EdgeTypeInput(source, others, splits, driving, merging)


# Mapped ids


def _check_mapped(nodes: Mapping[str, NodeInput]) -> None:
    """Refuses what has no meaning where ids are mapped."""
    for name, one in nodes.items():
        with naming(name):
            if one.num_nodes is not None:
                raise ValueError(
                    f"num_nodes={one.num_nodes} is for ids='dense': with ids='map' the nodes are "
                    f"those that edges and attributes name; leave num_nodes out"
                )
            for attribute, rows in one.attributes.items():
                if rows.in_order:
                    raise ValueError(
                        f"{rows.name}: its rows have no node ids, and with ids='map' nodes are "
                        f"numbered by their sorted ids. Give attribute {attribute!r} as a table "
                        f"with a column of node ids, such as a CSV or Parquet file; or number the "
                        f"nodes yourself, and build with ids='dense'"
                    )


def id_sources(given: GraphInput) -> list[tuple[Table, list[tuple[Column, str]]]]:
    """All columns of node ids, each with its node type."""
    found = []
    for edge_type, one in given.edges.items():
        columns = [column for column in one.edges.columns if column.is_id]
        found.append((one.edges.table, list(zip(columns, given.ends(edge_type), strict=True))))
    for name, nodes in given.nodes.items():
        for rows in nodes.attributes.values():
            found += [(table, [(column, name)]) for table, column in rows.id_columns()]
    return found


def with_nodes(given: GraphInput, ids: Mapping[str, NodeIds]) -> GraphInput:
    """The input with nodes in place of the user's ids."""

    def rows_of(rows: Rows, of: NodeIds) -> Rows:
        def change(table: Table, column: Column) -> Table:
            return MappedTable(table, {column.index: of})

        return rows.with_ids(change, len(of.table), of.table.shown)

    nodes = {
        name: NodeInput(
            {key: rows_of(rows, ids[name]) for key, rows in one.attributes.items()},
            {key: MappedSplit(value, ids[name]) for key, value in one.splits.items()},
            len(ids[name].table) or None,
        )
        for name, one in given.nodes.items()
    }
    edges = {}
    for edge_type, one in given.edges.items():
        columns = [column.index for column in one.edges.columns if column.is_id]
        of_columns = zip(columns, (ids[name] for name in given.ends(edge_type)), strict=True)
        table = MappedTable(one.edges.table, dict(of_columns))
        edges[edge_type] = replace(one, edges=replace(one.edges, table=table))
    return GraphInput(nodes, edges)


# Numbers of nodes


def known_counts(given: GraphInput) -> dict[str, IdBound]:
    """How many nodes of each type there are, where this is known without reading the edges.

    Raises
    ------
    ValueError
        If numbers contradict each other.
    """
    known: dict[str, list[tuple[int, str]]] = {name: [] for name in given.nodes}
    for name, nodes in given.nodes.items():
        of = f" of {name!r}" if name else ""
        with naming(name):
            if nodes.num_nodes is not None:
                known[name].append((nodes.num_nodes, f"num_nodes{of}={nodes.num_nodes}"))
            for attribute, rows in nodes.attributes.items():
                if rows.in_order:
                    count = rows.count()
                    label = f"{attribute!r}{of}" if of else rows.name
                    known[name].append((count, f"{label} has {count} rows"))
    for edge_type, one in given.edges.items():
        if one.edges.shape is not None:
            ends = given.ends(edge_type)
            for i in range(1 if ends == (NODES, NODES) else 2):
                known[ends[i]].append(one.edges.count_of(i))
    for name, counts in known.items():
        with naming(name):
            for count, why in counts[1:]:
                if count != counts[0][0]:
                    raise ValueError(f"{counts[0][1]}, but {why}: every node needs one")
    return {name: IdBound(*counts[0]) if counts else IdBound() for name, counts in known.items()}


def final_counts(
    given: GraphInput, known: Mapping[str, IdBound], lists: Mapping[EdgeType, EdgeList]
) -> dict[str, int]:
    """Nodes of each type, once the edges have been read.

    Raises
    ------
    ValueError
        If there are none, too many, or hardly any of them are named.
    """
    found: dict[str, int] = {}
    for name, nodes in given.nodes.items():
        with naming(name):
            count = known[name].count
            if count is None:
                count = _largest_id(name, nodes, given, lists) + 1
            if not count and not name:
                raise ValueError(
                    f"{given.edges[EDGES].edges.table.name} has no edges: give num_nodes or "
                    f"features to build a graph without edges"
                )
            if not count:
                raise ValueError("it has no nodes: give 'num_nodes', an attribute or edges")
            if count > MAX_NODES:
                raise ValueError(f"{count} nodes exceed the limit of 2^32: probably an id is wrong")
            found[name] = count
    return found


def _largest_id(
    name: str, nodes: NodeInput, given: GraphInput, lists: Mapping[EdgeType, EdgeList]
) -> int:
    """The largest id of a type, which must not be far above the number of references to nodes."""
    rows_of, num_references = list(nodes.attributes.values()), 0
    counts = {rows.name: rows.count() for rows in rows_of}
    for edge_type, edges in lists.items():
        for end, most in zip((edge_type[0], edge_type[2]), edges.max_ids, strict=True):
            if end == name:
                key = (
                    f"the edges of type {edge_type!r}"
                    if name
                    else given.edges[EDGES].edges.table.name
                )
                counts[key] = max(counts.get(key, 0), most + 1)
                num_references += edges.num_input_edges
    where = max(counts, key=lambda one: counts[one], default="")
    count = counts.get(where, 0)
    if count > max(_ALWAYS_NODES, _NODES_PER_REFERENCE * num_references):
        num_references += sum(_num_ids(rows) for rows in rows_of)
        if count > _NODES_PER_REFERENCE * num_references:
            option = "'num_nodes': " if name else "num_nodes="
            raise ValueError(
                f"Node ids are too sparse: the largest one, in {where}, is {count - 1:,}, with "
                f"only {num_references:,} references to nodes. Use ids='map', which takes such ids "
                f"to 0...N-1; {option}{count} says that there are so many nodes"
            )
    return count - 1


def _num_ids(rows: Rows) -> int:
    """Records with a node id."""
    count = 0
    for table, column in rows.id_columns():
        known = table.num_records
        if known is None:
            known = sum(len(ids) for (ids,) in table.chunks([column], _CHUNK))
        count += known
    return count


def file_names(given: GraphInput, options: BuildOptions) -> list[str]:
    """Names of all files that the build will write.

    Raises
    ------
    ValueError
        If two files would have one name, or a name is too long.
    """
    layout, names = given.layout, []
    for name, nodes in given.nodes.items():
        with naming(name):
            names += [layout.node_rows(name, attribute) for attribute in nodes.attributes]
            names += [layout.split(name, split) for split in nodes.splits]
            names += [layout.ids(name)] * (options.order != "input" and not layout.order_in_graph)
            names += [layout.visits(name)] * (options.presample is not None)
            names += [layout.id_map(name)] * options.maps_ids
    for edge_type, one in given.edges.items():
        with naming(edge_type):
            names.append(layout.graph(edge_type))
            names += [layout.edge_rows(edge_type, attribute) for attribute in one.attributes]
            names += [layout.split(edge_type, split) for split in one.splits]
    if options.directed and options.neighbors == "both":
        names.append(layout.out_graph)
    if options.extras is not None:
        names.append(layout.extras)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"an edge attribute and an edge split would both be stored in {name}: choose "
                f"another name for one of them"
            )
    return names
