"""Which columns of an edge list are what: by their names, or as the user says; never by a guess."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphzero.ingest.attribute_names import check_attribute_name
from graphzero.ingest.closing import ReadSummary
from graphzero.ingest.given import commented_names
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
from graphzero.ingest.sources.columns import column_index
from graphzero.ingest.sources.table import Table

__all__ = ["EdgeColumns", "choose_columns"]


@dataclass(frozen=True)
class EdgeColumns:
    """Positions of the columns of an edge list.

    Attributes
    ----------
    source, target : int
    weight, time : int or None
    attributes : dict of str to int
        Columns that become attributes of the edges, by name of the attribute.
    summary : ReadSummary or None
        What is to be said of them.
    """

    source: int
    target: int
    weight: int | None = None
    time: int | None = None
    attributes: Mapping[str, int] = field(default_factory=dict)
    summary: ReadSummary | None = None

    def used(self) -> list[int]:
        """All positions."""
        found = [self.source, self.target, self.weight, self.time, *self.attributes.values()]
        return [index for index in found if index is not None]


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
    table: Table, spec: Any, role: str, known: frozenset[str], taken: Collection[int | None]
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
    if not isinstance(edge_attrs, Collection):
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
    if not isinstance(edge_attrs, Mapping) and len(found) != len(edge_attrs):
        raise ValueError(f"edge_attrs={edge_attrs!r} has a name twice")
    return found


def choose_columns(
    table: Table,
    *,
    src: str | int | None = None,
    dst: str | int | None = None,
    weight: Any = None,
    timestamp: Any = None,
    edge_attrs: Any = None,
) -> EdgeColumns:
    """The columns that options name, or else the names in the header.

    Raises
    ------
    ValueError
        If a column is missing or named twice, or the names do not say what the columns are.
    """
    source, target = _ends(table, src, dst)
    attributes = _attribute_columns(edge_attrs, table)
    taken: list[int | None] = [source, target, *attributes.values()]
    if weight is None:  # a time that is named is no weight
        at_time = _optional(table, timestamp, "timestamp", TIMES, taken)
        at_weight = _optional(table, None, "weight", WEIGHTS, [*taken, at_time])
    else:
        at_weight = _optional(table, weight, "weight", WEIGHTS, taken)
        at_time = _optional(table, timestamp, "timestamp", TIMES, [*taken, at_weight])
    found = EdgeColumns(source, target, at_weight, at_time, attributes)
    twice = [index for index in found.used() if found.used().count(index) > 1]
    if twice:
        raise ValueError(
            f"{table.name}: src, dst, weight, timestamp and edge_attrs name one column twice: "
            f"{label_of(table.names, twice[0])}"
        )
    unneeded: list[int] = []
    for spec, known in ((weight, WEIGHTS), (timestamp, TIMES)):
        unneeded += find_known(table.names or (), known) if spec is False else []
    asked = unneeded if edge_attrs is None else range(table.width)
    return replace(found, summary=_summary(table, found, asked))


def _summary(table: Table, found: EdgeColumns, unneeded: Collection[int]) -> ReadSummary:
    """What is read of a table, and what is not; of `unneeded` columns the user has said so."""
    names = table.names
    rest = [index for index in range(table.width) if index not in found.used()]
    unasked = [index for index in rest if index not in unneeded]
    roles = ("src", found.source), ("dst", found.target), ("weight", found.weight)
    shown = [
        (role, _place(names, index))
        for role, index in (*roles, ("timestamp", found.time))
        if index is not None
    ]
    if found.attributes:
        shown.append(("edge_attrs", ",".join(found.attributes)))
    return ReadSummary(
        table.name,
        tuple(shown),
        tuple(label_of(names, index) for index in rest),
        _example(names, unasked),
        tuple(label_of(names, index) for index in unasked),
    )


def _place(names: Sequence[str] | None, index: int) -> str:
    return str(index) if names is None or not names[index].strip() else names[index]


def _is_attribute_name(name: str | int) -> bool:
    try:
        check_attribute_name(name, "edge")
    except ValueError:
        return False
    return True


def _example(names: Sequence[str] | None, indices: Sequence[int]) -> str:
    """`edge_attrs` that would store some columns, as Python code."""
    columns: list[str | int] = [
        index if names is None or list(names).count(names[index]) > 1 or not names[index].strip()
        else names[index]
        for index in indices
    ]  # fmt: skip
    if all(map(_is_attribute_name, columns)):
        return repr(columns)
    return repr({f"attribute_{i}": column for i, column in enumerate(columns)})
