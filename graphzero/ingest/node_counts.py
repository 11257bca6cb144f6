"""How many nodes there are: as the user says, as rows and matrices say, or the largest id + 1."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from graphzero.ingest.edges import EdgeList, IdBound
from graphzero.ingest.graph_input import GraphInput
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.sources.columns import MAX_NODES
from graphzero.ingest.sparse_ids import refuse_sparse_ids
from graphzero.ingest.typed_input import NodeTypeInput, TypedInput, naming
from graphzero.store.schema import EdgeType

__all__ = ["final_count", "known_bound", "type_bounds", "type_counts"]

Known = list[tuple[int, str]]


def _agreed(known: Known) -> IdBound:
    """The number that several sources say, with where it is known from."""
    for count, why in known[1:]:
        if count != known[0][0]:
            raise ValueError(f"{known[0][1]}, but {why}: every node needs one")
    return IdBound(*known[0]) if known else IdBound()


def known_bound(given: GraphInput) -> IdBound:
    """The number of nodes, where it is known without reading the edges.

    Raises
    ------
    ValueError
        If two sources contradict each other.
    """
    known: Known = []
    if given.num_nodes is not None:
        known.append((given.num_nodes, f"num_nodes={given.num_nodes}"))
    for rows in given.tables.values():
        if rows.in_order:
            count = rows.count()
            known.append((count, f"{rows.name} has {count} rows"))
    if given.source.shape is not None:
        known.append(given.source.count_of(0))
    return _agreed(known)


def _require_possible(count: int) -> None:
    if count > MAX_NODES:
        raise ValueError(f"{count} nodes exceed the limit of 2^32: probably an id is wrong")


def final_count(known: int | None, edges: EdgeList, tables: Iterable[Rows], name: str) -> int:
    """The number of nodes, once the edges have been read.

    Raises
    ------
    ValueError
        If there are none, too many, or hardly any of them can be named.
    """
    count = known
    if count is None:
        rows_of = list(tables)
        counts = {name: edges.max_id + 1} | {rows.name: rows.count() for rows in rows_of}
        largest = max(counts, key=lambda one: counts[one])
        count = counts[largest]
        refuse_sparse_ids(count, 2 * edges.num_input_edges, rows_of, largest=largest)
    if count == 0:
        raise ValueError(
            f"{name} has no edges: give num_nodes or features to build a graph without edges"
        )
    _require_possible(count)
    return count


def type_bounds(given: TypedInput, turned: Collection[EdgeType] = ()) -> dict[str, IdBound]:
    """How many nodes of each type there are, where this is known without reading the edges.

    Parameters
    ----------
    given : TypedInput
    turned : collection of (str, str, str)
        Edge types whose lists have the targets first.

    Raises
    ------
    ValueError
        If two sources contradict each other.
    """
    known: dict[str, Known] = {name: [] for name in given.nodes}
    for name, nodes in given.nodes.items():
        with naming(name):
            if nodes.num_nodes is not None:
                known[name].append((nodes.num_nodes, f"num_nodes of {name!r} is {nodes.num_nodes}"))
            for attribute, rows in nodes.attributes.items():
                if rows.in_order:
                    count = rows.count()
                    known[name].append((count, f"{attribute!r} of {name!r} has {count} rows"))
    for edge_type, one in given.edges.items():
        if one.edges.shape is not None:
            first, last = edge_type[0], edge_type[2]
            for i, end in enumerate((last, first) if edge_type in turned else (first, last)):
                known[end].append(one.edges.count_of(i))
    bounds: dict[str, IdBound] = {}
    for name, counts in known.items():
        with naming(name):
            bounds[name] = _agreed(counts)
    return bounds


def type_counts(
    given: TypedInput, bounds: Mapping[str, IdBound], lists: Mapping[EdgeType, EdgeList]
) -> dict[str, int]:
    """Nodes of each type, once the edges have been read.

    Raises
    ------
    ValueError
        If there are none of a type, too many, or hardly any of them can be named.
    """
    found: dict[str, int] = {}
    for name, nodes in given.nodes.items():
        with naming(name):
            found[name] = _type_count(name, nodes, bounds[name], lists)
    return found


def _type_count(
    name: str, nodes: NodeTypeInput, bound: IdBound, lists: Mapping[EdgeType, EdgeList]
) -> int:
    count = bound.count
    if count is None:
        rows_of, num_ends = list(nodes.attributes.values()), 0
        counts = {rows.name: rows.count() for rows in rows_of}
        for edge_type, edges in lists.items():
            for end, most in zip((edge_type[0], edge_type[2]), edges.max_ids, strict=True):
                if end == name:
                    key = f"the edges of type {edge_type!r}"
                    counts[key] = max(counts.get(key, 0), most + 1)
                    num_ends += edges.num_input_edges
        largest = max(counts, key=lambda one: counts[one], default="")
        count = counts.get(largest, 0)
        refuse_sparse_ids(count, num_ends, rows_of, largest=largest, option="'num_nodes': ")
    if count == 0:
        raise ValueError("it has no nodes: give 'num_nodes', an attribute or edges")
    _require_possible(count)
    return count
