"""The table of an edge list, and what its columns are."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.attribute_names import check_attribute_name
from graphzero.ingest.closing import ReadSummary
from graphzero.ingest.given import (
    AnyTable,
    commented_names,
    is_npy,
    is_table,
    open_given,
    refuse_frame,
)
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.source import FOR_EDGES, Source, as_source
from graphzero.ingest.sources.array_table import ArrayTable, load_array
from graphzero.ingest.sources.column_names import (
    IDS,
    TIMES,
    WEIGHTS,
    describe_columns,
    find_ends,
    find_known,
    is_source_name,
    is_target_name,
    label_of,
)
from graphzero.ingest.sources.columns import Column, column_index, id_column
from graphzero.ingest.sources.table import Table
from graphzero.ingest.table_rows import column_rows

__all__ = ["WEIGHT_LABEL", "EdgeInput", "edges_of_table", "open_edges", "with_columns"]

WEIGHT_LABEL = "weight"


@dataclass(frozen=True)
class EdgeInput:
    """An edge list that is ready to be read.

    Attributes
    ----------
    table : Table
    columns : tuple of Column
        Source, target, then weight and time if the edges have them.
    has_weights, has_times : bool
    directed : bool
        Whether edges are stored in the given direction only.
    incoming : bool
        Whether an edge is stored in the list of its target, not of its source.
    with_edge_ids : bool
        Whether each edge's position in the edge list is stored.
    summary : ReadSummary or None
        Which columns are read.
    attributes : dict of str to Rows
        The columns of the table that become attributes of the edges.
    """

    table: Table
    columns: tuple[Column, ...]
    has_weights: bool
    has_times: bool
    directed: bool = True
    incoming: bool = False
    with_edge_ids: bool = False
    summary: ReadSummary | None = None
    attributes: Mapping[str, Rows] = field(default_factory=dict)


def _weight_column(index: int, hint: str = "") -> Column:
    return Column(index, WEIGHT_LABEL, np.dtype("<f4"), hint=hint)


def _time_column(index: int, hint: str = "") -> Column:
    return Column(index, "timestamp", np.dtype("<i8"), hint=hint)


def _other_end(table: Table, given: int, *, given_is_source: bool) -> int:
    """The column of the other end, where the user names one only."""
    names, role = table.names, "dst" if given_is_source else "src"
    if names is None and table.width == 2:
        return int(given_is_source)
    if names is not None and table.width == 2:
        other = 1 - given
        wrong = is_source_name if given_is_source else is_target_name
        if not wrong(names[other]) and not find_known([names[other]], IDS | WEIGHTS | TIMES):
            return other
    raise ValueError(
        f"{table.name} has {_columns_of(table)}: give {role}= as well, by name or position from 0"
    )


def _columns_of(table: Table) -> str:
    if table.names is None:
        return f"{table.width} columns and no header"
    return f"the columns {describe_columns(table.names)}"


def _check_comment(table: Table) -> None:
    """Refuses two columns without a header below a comment that names them the other way round."""
    names = commented_names(table)
    if names is not None and is_target_name(names[0]) and is_source_name(names[1]):
        raise ValueError(
            f"{table.name} has no header, but a comment that names the columns {', '.join(names)}: "
            f"give src= and dst= as positions, such as src=1, dst=0"
        )


def _ends(table: Table, src: str | int | None, dst: str | int | None) -> tuple[int, int]:
    """Positions of the sources and the targets."""
    names, width, name = table.names, table.width, table.name
    if width < 2 and src is None and dst is None:
        raise ValueError(
            f"{name} has one column: an edge list needs a source and a target "
            f"(delimiter= says what stands between them)"
        )
    if src is None and dst is None:
        if names is not None:
            return find_ends(names, name)
        if width == 2:
            _check_comment(table)
            return 0, 1
        raise ValueError(
            f"{name} has {width} columns and no header: give src= and dst= as positions, such as "
            f"src=0, dst=1 (and weight=, timestamp= and edge_attrs= for others), or header=True "
            f"if its first line has the names"
        )
    source = None if src is None else column_index(src, names, width, "src", name)
    target = None if dst is None else column_index(dst, names, width, "dst", name)
    if source is None and target is not None:
        source = _other_end(table, target, given_is_source=False)
    if target is None and source is not None:
        target = _other_end(table, source, given_is_source=True)
    assert source is not None
    assert target is not None
    if source == target:
        raise ValueError(f"{name}: src and dst name one column twice: give both src= and dst=")
    return source, target


def _optional(
    table: Table, spec: Any, role: str, known: frozenset[str], taken: Collection[int]
) -> int | None:
    """Position of the weight or timestamp column, None without one."""
    if spec is False:
        return None
    names = table.names
    if spec is not None:
        return column_index(spec, names, table.width, role, table.name)
    found = [index for index in find_known(names or (), known) if index not in taken]
    if len(found) > 1:
        several = " and ".join(repr(label_of(names, index)) for index in found)
        raise ValueError(
            f"{table.name} has {_columns_of(table)}, of which {several} may each be the {role}: "
            f"name one with {role}=, or ignore them with {role}=False"
        )
    return found[0] if found else None


def _attribute_columns(edge_attrs: Any, table: Table) -> dict[str, int]:
    """Positions of the columns that become attributes, by name of the attribute."""
    if edge_attrs is None:
        return {}
    if isinstance(edge_attrs, str):
        edge_attrs = [edge_attrs]
    if not isinstance(edge_attrs, Iterable):
        raise ValueError(
            f"edge_attrs={edge_attrs!r} must be a list of columns, or a dictionary of columns by "
            f"name of the attribute"
        )
    columns = edge_attrs if isinstance(edge_attrs, Mapping) else {one: one for one in edge_attrs}
    found: dict[str, int] = {}
    for name, column in columns.items():
        if not isinstance(name, str):
            raise ValueError(
                f"edge_attrs has {name!r}, which is no name: give columns without names as a "
                f"dictionary, such as edge_attrs={{'amount': {name!r}}}"
            )
        at = column_index(column, table.names, table.width, "edge_attrs", table.name)
        try:
            check_attribute_name(name, "edge")
        except ValueError as error:
            raise ValueError(
                f"{table.name}: {error}, such as edge_attrs={{'another': {name!r}}}"
            ) from None
        found[name] = at
    if not isinstance(edge_attrs, Mapping) and len(found) != len(list(edge_attrs)):
        raise ValueError(f"edge_attrs={edge_attrs!r} has a name twice")
    return found


def edges_of_table(
    table: AnyTable,
    *,
    src: str | int | None = None,
    dst: str | int | None = None,
    weight: Any = None,
    timestamp: Any = None,
    edge_attrs: Any = None,
) -> EdgeInput:
    """An edge list from the columns of a table; the options are those of `graphzero.build`.

    Raises
    ------
    ValueError
        If a column is missing or named twice, or the names do not say what the columns are.
    """
    source, target = _ends(table, src, dst)
    attributes = _attribute_columns(edge_attrs, table)
    taken = [source, target, *attributes.values()]
    at_weight = _optional(table, weight, "weight", WEIGHTS, taken)
    at_time = _optional(table, timestamp, "timestamp", TIMES, taken)
    columns: list[Column] = [id_column(source, "source id"), id_column(target, "target id")]
    if at_weight is not None:
        hint = "; weight=False ignores the column" if weight is None else ""
        columns.append(_weight_column(at_weight, hint))
    if at_time is not None:
        hint = "; timestamp=False ignores the column" if timestamp is None else ""
        columns.append(_time_column(at_time, hint))
    used = [*(column.index for column in columns), *attributes.values()]
    if len(set(used)) != len(used):
        raise ValueError(
            f"{table.name}: src, dst, weight, timestamp and edge_attrs name one column twice"
        )
    found = EdgeInput(table, tuple(columns), at_weight is not None, at_time is not None)
    refused: list[int] = []
    for spec, known in ((weight, WEIGHTS), (timestamp, TIMES)):
        refused += find_known(table.names or (), known) if spec is False else []
    unneeded = refused if edge_attrs is None else range(table.width)
    summary = _summary(found, attributes, unneeded)
    rows = {name: column_rows(table, index, name) for name, index in attributes.items()}
    return replace(found, summary=summary, attributes=rows)


def _summary(
    found: EdgeInput, attributes: Mapping[str, int], unneeded: Collection[int] = ()
) -> ReadSummary:
    """What is read of a table, and what is not; of `unneeded` columns the user has said so."""
    table, names = found.table, found.table.names
    roles = ["src", "dst"] + ["weight"] * found.has_weights + ["timestamp"] * found.has_times
    read = [(role, column.index) for role, column in zip(roles, found.columns, strict=True)]
    used = {index for _, index in [*read, *attributes.items()]}
    rest = [index for index in range(table.width) if index not in used]
    unasked = [index for index in rest if index not in unneeded]
    shown = [(role, _place(names, index)) for role, index in read]
    if attributes:
        shown.append(("edge_attrs", ",".join(attributes)))
    return ReadSummary(
        table.name,
        tuple(shown),
        tuple(label_of(names, index) for index in rest),
        _example(names, unasked),
        tuple(label_of(names, index) for index in unasked),
    )


def _place(names: Sequence[str] | None, index: int) -> str:
    return str(index) if names is None or not names[index].strip() else names[index]


def _example(names: Sequence[str] | None, indices: Sequence[int]) -> str:
    """`edge_attrs` that would store some columns, as Python code."""
    columns: list[str | int] = [
        index if names is None or list(names).count(names[index]) > 1 or not names[index].strip()
        else names[index]
        for index in indices
    ]  # fmt: skip
    if all(isinstance(column, str) and column.isidentifier() for column in columns):
        return repr(columns)
    return repr({f"attribute_{i}": column for i, column in enumerate(columns)})


def _side_array(value: Any, what: str, num_edges: int) -> npt.NDArray[Any] | None:
    if value is None or value is False:
        return None
    array = load_array(value, what)
    if array.shape != (num_edges,):
        raise ValueError(f"{what} has shape {array.shape} for {num_edges} edges")
    return array


def _from_array(
    array: npt.NDArray[Any],
    name: str,
    src: str | int | None,
    dst: str | int | None,
    weight: Any,
    timestamp: Any,
    *,
    is_edge_index: bool,
) -> EdgeInput:
    if array.ndim == 2 and array.shape[0] == 2 and (array.shape[1] != 2 or is_edge_index):
        array = array.T
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"{name} has shape {array.shape}: an edge list is (E, 2) or (2, E)")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} has dtype {array.dtype}: node ids must be integers")
    arrays = [array[:, 0], array[:, 1]]
    source, target = _ends(ArrayTable(name, arrays), src, dst)
    columns: list[Column] = [id_column(source, "source id"), id_column(target, "target id")]
    weights = _side_array(weight, "weight", len(array))
    times = _side_array(timestamp, "timestamp", len(array))
    if weights is not None:
        columns.append(_weight_column(len(arrays)))
        arrays.append(weights)
    if times is not None:
        columns.append(_time_column(len(arrays)))
        arrays.append(times)
    table = ArrayTable(name, arrays)
    found = EdgeInput(table, tuple(columns), weights is not None, times is not None)
    return replace(found, summary=_summary(found, {}))


def open_edges(
    edges: Any,
    *,
    directed: bool = True,
    incoming: bool = False,
    with_edge_ids: bool = False,
    is_edge_index: bool = False,
    **options: Any,
) -> EdgeInput:
    """An edge list from a path, an array or a `Source`.

    `options` are the reading options of `Source`, which come second to those that a `Source` has.
    An array of two edges can be read either way: with `is_edge_index` as (2, E), else as (E, 2).

    Raises
    ------
    ValueError
        If it is not an edge list, or lacks a column that an option names.
    OSError
        If the file cannot be read.
    """
    source = as_source(edges)
    given = source.given()
    source = replace(source, **{name: v for name, v in options.items() if name not in given})
    with_columns = is_table(source.value)
    if isinstance(edges, Source):
        edges.check_options(FOR_EDGES, "the edge list", is_table=with_columns)
    columns = {name: getattr(source, name) for name in ("src", "dst", "weight", "timestamp")}
    if with_columns:
        table = open_given(source, strict=True)
        found = edges_of_table(table, edge_attrs=source.edge_attrs, **columns)
    else:
        name = os.fspath(source.value) if is_npy(source.value) else "edges"
        if source.edge_attrs:
            raise ValueError(
                f"edge_attrs= names columns of a table, and {name} is an array: give attributes "
                f"as edges={{'edge_index': ..., 'amount': ...}}"
            )
        refuse_frame(source.value, name)
        array = load_array(source.value, name)
        found = _from_array(array, name, **columns, is_edge_index=is_edge_index)
    return replace(
        found, directed=directed, incoming=incoming and directed, with_edge_ids=with_edge_ids
    )


def with_columns(attributes: Mapping[str, Rows], source: EdgeInput) -> dict[str, Rows]:
    """The attributes of edges that are given by themselves, and those of the edge list's columns.

    Raises
    ------
    ValueError
        If one name is given both ways.
    """
    for name in source.attributes:
        if name in attributes:
            raise ValueError(
                f"{source.table.name}: {name!r} is in edge_attrs and is given as an attribute as "
                f"well: leave one of them out, or give it another name"
            )
    return {**attributes, **source.attributes}
