"""Which columns of a table of nodes or edges are values, and which is the node id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphzero.ingest.source import Source
from graphzero.ingest.sources.column_names import (
    IDS,
    describe_columns,
    find_known,
    is_source_name,
    is_target_name,
    label_of,
    unnamed_columns,
)
from graphzero.ingest.sources.columns import column_index
from graphzero.ingest.sources.table import Table

__all__ = ["ValueColumns", "edge_value_columns", "id_values_column", "node_value_columns"]


@dataclass(frozen=True)
class ValueColumns:
    """The columns of a table that are read.

    Attributes
    ----------
    values : tuple of int
        Positions of the values.
    key : int or None
        Position of the node ids; None if the records are in order.
    one : bool or None
        Whether a record has a number, not a row of numbers; None if the user has not said it.
    """

    values: tuple[int, ...]
    key: int | None = None
    one: bool | None = None


def _has(table: Table) -> str:
    if table.names is None:
        return f"{table.name} has {table.width} columns and no header"
    return f"{table.name} has the columns {describe_columns(table.names)}"


def _key(table: Table, id_column: Any) -> int | None:
    """Position of the node ids: as the user says, else by name, else refused."""
    if id_column is False:
        return None
    if id_column is not None:
        return column_index(id_column, table.names, table.width, "id_column", table.name)
    found = find_known(table.names or (), IDS)
    if len(found) > 1:
        several = " and ".join(repr(label_of(table.names, index)) for index in found)
        raise ValueError(
            f"{_has(table)}, of which {several} may each be the node id: name one with id_column="
        )
    if table.width == 1:
        if not found:
            return None
        raise ValueError(
            f"{table.name} has one column, named {label_of(table.names, 0)!r} like node ids: "
            f"id_column=False says that it has values, in the order of the nodes"
        )
    if found:
        return found[0]
    raise ValueError(
        f"{_has(table)}, and nothing says which is the node id: id_column=0 says that the first "
        f"column has the ids (a name does as well), id_column=False that the records are in the "
        f"order of the nodes"
    )


def _chosen(table: Table, columns: Any) -> ValueColumns:
    """The columns that the user names."""
    one = isinstance(columns, str | int)
    specs = [columns] if one else columns
    if not isinstance(specs, Sequence) or not specs:
        raise ValueError(f"columns={columns!r} must be a column, or a list of columns")
    found = [column_index(c, table.names, table.width, "columns", table.name) for c in specs]
    if len(set(found)) != len(found):
        raise ValueError(f"{table.name}: columns={columns!r} names one column twice")
    return ValueColumns(tuple(found), one=one)


def _check_names(table: Table, values: Sequence[int], *, of_edges: bool) -> None:
    """Refuses columns that would be values by default, although their names say otherwise."""
    names = table.names
    if names is None:
        return
    shown = [names[index] for index in values]
    odd = [values[i] for i in [*unnamed_columns(shown), *find_known(shown, IDS)]]
    if of_edges:
        odd += [i for i in values if is_source_name(names[i]) or is_target_name(names[i])]
        odd += [values[i] for i in find_known(shown, frozenset(["edgeid", "eid"]))]
    if odd and table.width > 1:
        kind = "no values of edges" if of_edges else "no values of nodes, but an index or ids"
        way = "" if of_edges else f", or id_column={_place(names, odd[0])!r} that it has the ids"
        raise ValueError(
            f"{_has(table)}, and {label_of(names, odd[0])!r} is probably {kind}: "
            f"columns={[_place(names, i) for i in values if i not in odd]} says which columns are "
            f"values{way}"
        )


def _place(names: Sequence[str], index: int) -> str | int:
    return names[index] if names[index].strip() else index


def node_value_columns(table: Table, source: Source) -> ValueColumns:
    """The columns of a table of nodes.

    Raises
    ------
    ValueError
        If nothing says which column has the node ids, or a column does not exist.
    """
    key = _key(table, source.id_column)
    if source.columns is not None:
        found = _chosen(table, source.columns)
        if key in found.values:
            name = label_of(table.names, key or 0)
            raise ValueError(f"{table.name}: {name!r} is in columns= and has the node ids")
        return ValueColumns(found.values, key, found.one)
    values = tuple(index for index in range(table.width) if index != key)
    if not values:
        raise ValueError(
            f"{table.name} has one column, which has the node ids: there are no values"
        )
    if source.id_column is not False or table.width > 1:
        _check_names(table, values, of_edges=False)
    return ValueColumns(values, key)


def edge_value_columns(table: Table, source: Source) -> ValueColumns:
    """The columns of a table of edges, whose records are in the order of the edge list.

    Raises
    ------
    ValueError
        If a column does not exist, or is named like ids.
    """
    if source.columns is not None:
        return _chosen(table, source.columns)
    values = tuple(range(table.width))
    _check_names(table, values, of_edges=True)
    return ValueColumns(values)


def id_values_column(table: Table, source: Source, name: str, held: str) -> int:
    """The one column of a split.

    Raises
    ------
    ValueError
        If there are several, and the user has not said which it is.
    """
    if source.columns is not None:
        found = _chosen(table, source.columns)
        if len(found.values) != 1:
            raise ValueError(f"{name}: columns={source.columns!r} must be one column, of {held}")
        return found.values[0]
    if table.width != 1:
        raise ValueError(
            f"{name} ({table.name}) has {table.width} columns: it must have one, of {held}, or "
            f"gz.Source(..., columns=...) says which it is"
        )
    return 0
