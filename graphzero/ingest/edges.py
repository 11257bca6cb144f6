"""Edge lists: the table that has one, which of its columns are what, and its edges as columns.

Columns are found by their names, or as the user says; never by a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from graphzero.ingest.options import (
    FOR_EDGES,
    ReadSummary,
    Source,
    WriteOptions,
    as_source,
    check_attribute_name,
)
from graphzero.ingest.options import Column as ColumnName
from graphzero.ingest.rows import MergedRows, Rows, ValueColumns, as_numbers, rows_of_table, span_of
from graphzero.ingest.sort import TempColumn
from graphzero.ingest.sources.arrays import (
    is_tensor,
    known_names,
    open_array,
    open_edge_array,
    open_id_array,
)
from graphzero.ingest.sources.arrow_table import open_chunks
from graphzero.ingest.sources.codes import codes_of
from graphzero.ingest.sources.columns import (
    IDS,
    TIMES,
    WEIGHTS,
    Array,
    ArrayTable,
    Column,
    DType,
    NodeLookup,
    Table,
    checked,
    find_ends,
    find_names,
    id_column,
    is_chunks,
    is_source_name,
    is_target_name,
)
from graphzero.ingest.sources.sparse_matrix import SparseMatrix
from graphzero.ingest.sources.tables import is_table, open_table
from graphzero.ingest.sources.text_table import HeaderRule
from graphzero.store.format import id_dtype
from graphzero.store.manifest import EDGE_TIME, EDGE_WEIGHT

Read = Callable[[int, int], Array]
_WEIGHT, _TIME = "weight", "timestamp"
_WEIGHT_DTYPE, _TIME_DTYPE = np.dtype("<f4"), np.dtype("<i8")
# What takes the ids of sources, and of targets, to nodes.
EndIds = tuple[NodeLookup, NodeLookup]
_MAX_CHUNK_RECORDS = 1 << 20
_CHUNK = 1 << 16

# Columns


def _find_ends(table: Table, src: ColumnName | None, dst: ColumnName | None) -> tuple[int, int]:
    """Positions of the sources and the targets."""
    names, width, name = table.names, table.width, table.name
    options = {"src": src, "dst": dst}
    ends = [table.index_of(column, end) for end, column in options.items() if column is not None]
    if len(ends) == 1 and width == 2:
        other, unfit = 1 - ends[0], WEIGHTS | TIMES | IDS
        is_wrong = is_source_name if dst is None else is_target_name
        if names is None or not (is_wrong(names[other]) or find_names([names[other]], unfit)):
            ends.insert(src is not None, other)
    if len(ends) == 1:
        raise ValueError(
            f"{name} has {table.described}: give both src= and dst=, by name or position from 0"
        )
    if ends:
        return ends[0], ends[1]
    if width < 2:
        raise ValueError(
            f"{name} has one column: an edge list needs a source and a target "
            f"(delimiter= says what stands between them)"
        )
    if names is not None:
        return find_ends(table)
    if width > 2:
        raise ValueError(
            f"{name} has {width} columns and no header: give src= and dst= as positions, such as "
            f"src=0, dst=1 (and weight=, timestamp= and edge_attrs= for others), or header=True "
            f"if its first line has the names"
        )
    comment = table.commented_names
    if comment is not None and is_target_name(comment[0]) and is_source_name(comment[1]):
        raise ValueError(
            f"{name} has no header, but a comment that names the columns {', '.join(comment)}: "
            f"give src= and dst= as positions, such as src=1, dst=0"
        )
    return 0, 1


def _find_optional(
    table: Table,
    wanted: ColumnName | None,
    role: str,
    names_of_role: frozenset[str],
    taken: Collection[int],
) -> int | None:
    """Position of the weight or timestamp column, None without one."""
    if wanted is not None:
        return table.index_of(wanted, role)
    named = [index for index in table.columns_named(names_of_role) if index not in taken]
    if len(named) > 1:
        several = " and ".join(repr(table.label(index)) for index in named)
        raise ValueError(
            f"{table.name} has {table.described}, of which {several} may each be the {role}: "
            f"name one with {role}=, or ignore them with {role}=False"
        )
    return named[0] if named else None


def _attribute_columns(edge_attrs: object, table: Table) -> dict[str, int]:
    """Positions of the columns that become attributes, by name of the attribute."""
    if isinstance(edge_attrs, str):
        edge_attrs = [edge_attrs]
    if not isinstance(edge_attrs, Collection):
        raise ValueError(f"edge_attrs={edge_attrs!r} must be a list of columns, or a dictionary")
    columns = edge_attrs
    if not isinstance(columns, Mapping):
        columns = {name: name for name in edge_attrs}
    indices: dict[str, int] = {}
    for name, column in columns.items():
        indices[name] = table.index_of(column, "edge_attrs")
        try:
            check_attribute_name(name, "edge")
        except ValueError as error:
            raise ValueError(
                f"{table.name}: {error}, such as edge_attrs={{'another': {name!r}}}"
            ) from None
    return indices


def _summary(
    table: Table,
    read: Mapping[str, Column],
    attributes: Mapping[str, int],
    unneeded: Collection[int],
) -> ReadSummary:
    """What is read of a table, and what is not; of `unneeded` columns the user has said so."""
    names = table.names
    used = [*(column.index for column in read.values()), *attributes.values()]
    rest = [index for index in range(table.width) if index not in used]
    shown = []
    for role, of_role in read.items():
        dates = "" if of_role.codes is None else " (dates as seconds since 1970, UTC)"
        shown.append(f"{role}={_name_or_position(names, of_role.index)}{dates}")
    if attributes:
        shown.append(f"edge_attrs={','.join(attributes)}")
    clauses = [f"read {', '.join(shown)}"]
    if rest:
        clauses.append(f"ignored {', '.join(map(table.label, rest))}")
    unasked = [index for index in rest if index not in unneeded]
    if not unasked:
        return ReadSummary(tuple(clauses))
    columns = [_name_or_position(names, index) for index in unasked]
    example: object = columns
    try:
        for column in columns:
            check_attribute_name(column, "edge")
    except ValueError:
        example = {f"attribute_{i}": column for i, column in enumerate(columns)}
    return ReadSummary(
        tuple(clauses),
        f"{table.name} has columns that are not used: {', '.join(map(table.label, unasked))}",
        f"edge_attrs={example!r} stores them with the edges, edge_attrs=[] says that they are not "
        f"needed",
    )


def _name_or_position(names: Sequence[str] | None, index: int) -> str | int:
    """The name of a column, or its position where that says more."""
    if names is None or not names[index].strip() or list(names).count(names[index]) > 1:
        return index
    return names[index]


# Opening


@dataclass(frozen=True)
class EdgeColumns:
    """A table, and which of its columns are edges.

    Attributes
    ----------
    table : Table
    columns : tuple of Column
        Source and target; then weight and timestamp, where the table has them.
    summary : ReadSummary
    shape : (int, int) or None
        Of a matrix: the numbers of its rows and columns.
    ends : (str, str) or None
        The names of the columns of source and target, unless the user has chosen these.
    attributes : dict of str to Rows
        Of the edges: those that stand beside the table, and columns of it.
    """

    table: Table
    columns: tuple[Column, ...]
    summary: ReadSummary
    shape: tuple[int, int] | None = None
    ends: tuple[str, str] | None = None
    attributes: Mapping[str, Rows] = field(default_factory=dict)

    @property
    def has_weights(self) -> bool:
        """Whether weights come from a column of the table."""
        return any(column.label == _WEIGHT for column in self.columns)

    @property
    def has_times(self) -> bool:
        """Whether times come from a column of the table."""
        return any(column.label == _TIME for column in self.columns)

    @property
    def sampling_names(self) -> list[str]:
        """What weights and times that are columns of the table are called."""
        return [EDGE_WEIGHT] * self.has_weights + [EDGE_TIME] * self.has_times


@dataclass(frozen=True)
class EdgeInput:
    """An edge list that is ready to be read.

    Attributes
    ----------
    source : EdgeColumns
    directed : bool
    incoming : bool
        Whether edges are stored in the lists of their targets.
    with_edge_ids : bool
    weight, time : (str, Rows) or None
        An attribute that is the weight or the time of each edge, with its name.
    """

    source: EdgeColumns
    directed: bool = True
    incoming: bool = False
    with_edge_ids: bool = False
    weight: tuple[str, Rows] | None = None
    time: tuple[str, Rows] | None = None


def edges_of_table(
    table: Table,
    source: Source,
    ids: EndIds | None = None,
    shape: tuple[int, int] | None = None,
    stored: Collection[str] = (),
) -> EdgeColumns:
    """An edge list from the columns that a source names, or else the names in the header.

    `ids` take the ids of sources and of targets to nodes, where they are mapped; `shape` is that
    of a matrix; columns with `stored` names are attributes where the source names none.

    Raises
    ------
    ValueError
        If a column is missing or named twice, or the names do not say what the columns are.
    """
    start, end = _find_ends(table, source.src, source.dst)
    edge_attrs: object = source.edge_attrs
    if edge_attrs is None:
        edge_attrs = [name for name in table.names or () if name in stored]
    attributes = _attribute_columns(edge_attrs, table)
    used = [start, end, *attributes.values()]
    unneeded: list[int] = [] if source.edge_attrs is None else list(range(table.width))
    optional: dict[str, Column] = {}
    roles: list[tuple[str, Any, frozenset[str], DType]] = [
        (_WEIGHT, source.weight, WEIGHTS, _WEIGHT_DTYPE),
        (_TIME, source.timestamp, TIMES, _TIME_DTYPE),
    ]
    # What is named is nothing else; of two that are not named, the weight comes first.
    for role, option, names_of_role, dtype in sorted(roles, key=lambda role: role[1] is None):
        if option is False:
            unneeded += table.columns_named(names_of_role)
        elif (at := _find_optional(table, option, role, names_of_role, used)) is not None:
            used.append(at)
            hint = f"; {role}=False ignores the column, and edge_attrs= stores it as it is"
            optional[role] = column = Column(at, role, dtype, hint=hint)
            if role == _TIME:
                optional[role] = replace(column, codes=codes_of(table, column, texts=False))
    twice = [index for index in used if used.count(index) > 1]
    if twice:
        raise ValueError(
            f"{table.name}: src, dst, weight, timestamp and edge_attrs name one column twice: "
            f"{table.label(twice[0])}; give both src= and dst=, and other columns"
        )
    of_start, of_end = ids or (None, None)
    columns = {
        "src": id_column(start, "source id", of_start),
        "dst": id_column(end, "target id", of_end),
    }
    columns |= {role: optional[role] for role in (_WEIGHT, _TIME) if role in optional}
    names = table.names if source.src is None and source.dst is None else None
    return EdgeColumns(
        table,
        tuple(columns.values()),
        _summary(table, columns, attributes, unneeded),
        shape=shape,
        ends=None if names is None else (names[start], names[end]),
        attributes={
            name: rows_of_table(table, ValueColumns((at,), is_vector=True), name)
            for name, at in attributes.items()
        },
    )


def _edges_of_array(
    array: Array, name: str, source: Source, ids: EndIds | None, *, is_edge_index: bool
) -> EdgeColumns:
    if array.shape == (2, 2) and not is_edge_index:
        raise ValueError(
            f"{name} has shape (2, 2), which may be (2, E) or (E, 2): give "
            f"{{'edge_index': edges}} if the first row has the sources, or "
            f"{{'edge_index': edges.T}} if each row is an edge"
        )
    if array.ndim == 2 and array.shape[0] == 2:
        array = array.T
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"{name} has shape {array.shape}: an edge list is (E, 2) or (2, E), and more of edges "
            f"goes beside it, as in {{'edge_index': ..., 'weight': ...}}"
        )
    if array.dtype.kind not in ("iu" if ids is None else "iuUO"):
        raise ValueError(
            f"{name} has dtype {array.dtype}: node ids must be integers; where these are whole "
            f"numbers, convert them with edges.astype(numpy.int64)"
        )
    arrays = [*array.T]
    ends = replace(source, weight=False, timestamp=False)
    pairs = edges_of_table(ArrayTable(name, [*arrays]), ends, ids)
    columns = [*pairs.columns]
    for role, option, array_name, dtype in (
        (_WEIGHT, source.weight, "edge_weight", _WEIGHT_DTYPE),
        (_TIME, source.timestamp, "edge_time", _TIME_DTYPE),
    ):
        if option is not None and option is not False:
            values = open_array(option, role, known_names(array_name))
            if values.shape != (len(array),):
                raise ValueError(f"{role} has shape {values.shape} for {len(array)} edges")
            columns.append(Column(len(arrays), role, dtype))
            arrays.append(values)
    return replace(pairs, table=ArrayTable(name, arrays), columns=tuple(columns))


def _edges_of_matrix(matrix: SparseMatrix, source: Source) -> EdgeColumns:
    """The entries of a matrix, whose columns the user may still say otherwise."""
    usual = Source(None, src=0, dst=1, weight=2 if len(matrix.columns) > 2 else None, edge_attrs=[])
    table = ArrayTable(matrix.name, matrix.columns, of="entry")
    return edges_of_table(table, source.completed_by(usual), shape=matrix.shape)


def open_edges(
    edges: Any,
    *,
    defaults: Source | None = None,
    is_edge_index: bool = False,
    ids: EndIds | None = None,
    stored: Collection[str] = (),
) -> EdgeColumns:
    """An edge list from a path, an array, an iterator or a `Source`.

    Parameters
    ----------
    edges : object
    defaults : Source, optional
        Has the options for edges that hold where a `Source` of the edges does not have them.
    is_edge_index : bool
        Whether an array of shape (2, 2) has the sources first, as tensors have.
    ids : pair of NodeLookup, optional
        Take ids of sources and of targets, any integers or texts, to nodes.
    stored : collection of str
        Columns with these names are attributes, where `edges` and `defaults` name none.
    """
    source = as_source(edges)
    with_columns = is_table(source.value)
    if isinstance(edges, Source):
        edges.check_options(FOR_EDGES, "the edge list", is_table=with_columns)
    if defaults is not None:
        source = source.completed_by(defaults)
    value = source.value
    if with_columns or is_chunks(value):
        once = ids is None and not source.edge_attrs and not stored
        table: Table
        if with_columns:
            rule = HeaderRule(only_texts=True, text_ids=ids is not None)
            table = open_table(source, rule, of="edge", once=once)
        else:
            table = open_chunks("edges", value, once=once, is_edge_index=is_edge_index)
        return edges_of_table(table, source, ids, stored=stored)
    name = fspath(value) if isinstance(value, str | PathLike) else "edges"
    if source.edge_attrs:
        raise ValueError(
            f"edge_attrs= names columns of a table, and {name} is an array: give attributes as "
            f"edges={{'edge_index': ..., 'amount': ...}}"
        )
    open_ends = open_edge_array if ids is None else open_id_array
    array = open_ends(value, name, known_names("edge_index"))
    if isinstance(array, SparseMatrix):
        return _edges_of_matrix(array, source)
    is_pyg = is_edge_index or is_tensor(value)
    return _edges_of_array(array, name, source, ids, is_edge_index=is_pyg)


# Reading


@dataclass(frozen=True)
class ReadColumn:
    """One value of every edge, which a function reads, from one position to another."""

    dtype: DType
    count: int
    read: Read

    def __len__(self) -> int:
        return self.count

    def close(self) -> None:
        """Does nothing: there is nothing to free."""


EdgeColumn = TempColumn | ReadColumn


@dataclass(frozen=True)
class IdBound:
    """How many nodes ids may name, None if it is not known yet; and how it is known."""

    count: int | None = None
    why: str = ""


@dataclass(frozen=True)
class EdgeList:
    """A validated edge list, in the user's ids and order.

    Attributes
    ----------
    columns : mapping of str to EdgeColumn
        "source" and "target"; "weight" and "time", where edges have them; "position" in the user's
        edge list, unless record i has position i.
    num_loops : int
        Edges from a node to itself.
    max_ids : (int, int)
        Largest source and largest target, -1 without edges.
    directed : bool
        Whether edges are stored in the given direction only.
    incoming : bool
        Whether an edge is stored in the list of its target, which then has its source.
    with_edge_ids : bool
        Whether each edge's position in the user's edge list is stored.
    num_user_edges : int or None
        Edges of the user's edge list, where these are entries of neighbour lists, which have both
        directions of an undirected edge already.
    node_times : (N,) int64 or None
        The time of each node, by the user's ids: that of an entry is its neighbour's. The column
        "time" is not used.
    removed : (R,) uint64 or None
        Records that are not stored, ascending.
    replaced : mapping of str to MergedRows
        By column: the values of merged edges.
    """

    columns: Mapping[str, EdgeColumn]
    num_loops: int
    max_ids: tuple[int, int]
    directed: bool
    incoming: bool
    with_edge_ids: bool
    num_user_edges: int | None = None
    node_times: Array | None = None
    removed: Array | None = None
    replaced: Mapping[str, MergedRows] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.num_records - (0 if self.removed is None else len(self.removed))

    @property
    def num_records(self) -> int:
        """Records that can be read, with those that are not stored."""
        return len(self.columns["source"])

    @property
    def ends(self) -> tuple[str, str]:
        """The end of an edge in whose list it is stored, and the one that the list has."""
        return ("target", "source") if self.incoming else ("source", "target")

    @property
    def num_input_edges(self) -> int:
        """Edges of the user's edge list."""
        return self.num_records if self.num_user_edges is None else self.num_user_edges

    @property
    def needs_mirrors(self) -> bool:
        """Whether the opposite direction of each edge must be added."""
        return not self.directed and self.num_user_edges is None

    @property
    def has_times(self) -> bool:
        """Whether entries have times."""
        return "time" in self.columns or self.node_times is not None

    @property
    def num_stored(self) -> int:
        """Entries of the neighbour lists: a mirrored self-loop is stored once."""
        return 2 * len(self) - self.num_loops if self.needs_mirrors else len(self)

    def read(self, begin: int, end: int, *names: str) -> list[Array]:
        """Columns of the records [begin, end), or their numbers as "record"; without those that are
        not stored.
        """
        end = min(end, self.num_records)
        arrays = []
        for name in names:
            if name in self.columns or name not in ("record", "position"):
                values = self.columns[name].read(begin, end)
            else:  # the number of a record is its position
                values = np.arange(begin, end, dtype=id_dtype(self.num_input_edges))
            if name in self.replaced:
                values = self.replaced[name].into(values, begin)
            arrays.append(values)
        if self.removed is None:
            return arrays
        _, gone = span_of(self.removed, begin, end)
        return [np.delete(array, gone) for array in arrays] if len(gone) else arrays

    def occurrences(self, max_edges: int) -> Iterator[Array]:
        """Every id as often as it occurs in the neighbour lists, in pieces."""
        for begin in range(0, self.num_records, max_edges):
            owner, neighbor = self.read(begin, begin + max_edges, *self.ends)
            yield neighbor
            if self.needs_mirrors:
                yield owner[owner != neighbor]

    def close(self) -> None:
        """Frees memory and disk space."""
        for column in self.columns.values():
            column.close()


def _check_bound(ids: Array, bound: IdBound, column: Column, table: Table, record: int) -> None:
    if bound.count is not None and ids.max() >= bound.count:
        bad = int(np.flatnonzero(ids >= bound.count)[0])
        raise ValueError(
            f"{table.name}, {table.locate(record + bad)}: {column.label} {ids[bad]} is out of "
            f"range for {bound.count} nodes ({bound.why})"
        )


def _check_weights(weights: Array, column: Column, table: Table, record: int) -> None:
    good = np.isfinite(weights) & (weights >= 0)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        what = "is not a finite 32-bit number"
        if np.isfinite(weights[bad]):
            what = "is negative: weights must not be negative"
        place = f"{table.name}, {table.locate(record + bad)}"
        raise ValueError(f"{place}: {column.label} {weights[bad]} {what}{column.hint}")


def _read_attribute(
    of_edges: tuple[str, Rows], table: Table, stored: TempColumn, count: int
) -> None:
    """Reads an attribute that is the weight or the time of each edge."""
    name, rows = of_edges
    is_weight = stored.dtype.kind == "f"
    hint = "; with weight_attrs=[] it is an ordinary attribute" if is_weight else ""
    column = Column(-1, f"value of {name!r}", stored.dtype, hint=hint)
    record = 0
    for _, chunk in rows.chunks(_CHUNK):
        if record + len(chunk) <= count:
            values = checked(as_numbers(chunk[:, 0]), column, table, record)
            if is_weight:
                _check_weights(values, column, table, record)
            stored.append(values)
        record += len(chunk)
    if record != count:
        raise ValueError(f"{rows.name} has {record} rows for {count} edges: every edge needs one")


def read_edges(
    edges: EdgeInput,
    folder: Path,
    options: WriteOptions,
    bounds: tuple[IdBound, IdBound] = (IdBound(), IdBound()),
    num_lists: int = 1,
) -> EdgeList:
    """Reads an edge list once, from beginning to end.

    Parameters
    ----------
    edges : EdgeInput
    folder : pathlib.Path
        For temporary files, if the columns are larger than the memory.
    options : WriteOptions
    bounds : (IdBound, IdBound)
        Of sources and of targets.
    num_lists : int
        Edge lists that are in memory together.

    Raises
    ------
    ValueError
        Naming the file, the line, record or edge, and the wrong value.
    OSError
        If the file cannot be read, or the disk is full.
    """
    source, table, columns = edges.source, edges.source.table, edges.source.columns
    names = ["source", "target"] + ["weight"] * source.has_weights + ["time"] * source.has_times
    dtypes = {name: column.dtype for name, column in zip(names, columns, strict=True)}
    attributes = {"weight": edges.weight, "time": edges.time}
    memory = options.column_memory // num_lists
    if edges.weight is not None:
        dtypes["weight"] = _WEIGHT_DTYPE
    if edges.time is not None:
        dtypes["time"] = _TIME_DTYPE
    edge_bytes = sum(dtype.itemsize for dtype in dtypes.values())
    max_records = max(1024, min(_MAX_CHUNK_RECORDS, memory // (4 * edge_bytes)))
    record, num_loops, max_ids = 0, 0, [-1, -1]
    stored: dict[str, TempColumn] = {
        name: TempColumn(folder, dtype, memory * dtype.itemsize // edge_bytes)
        for name, dtype in dtypes.items()
    }
    with options.progress.phase("reading edges", table.num_records, "edges") as advance:
        for chunk in table.chunks(columns, max_records):
            if not len(chunk[0]):
                continue
            for end, bound in enumerate(bounds):
                _check_bound(chunk[end], bound, columns[end], table, record)
                max_ids[end] = max(max_ids[end], int(chunk[end].max()))
            if source.has_weights:
                _check_weights(chunk[2], columns[2], table, record)
            for name, values in zip(names, chunk, strict=True):
                stored[name].append(values)
            num_loops += int(np.count_nonzero(chunk[0] == chunk[1]))
            record += len(chunk[0])
            advance(len(chunk[0]))
    for name, attribute in attributes.items():
        if attribute is not None:
            _read_attribute(attribute, table, stored[name], record)
    return EdgeList(
        stored,
        num_loops=num_loops,
        max_ids=(max_ids[0], max_ids[1]),
        directed=edges.directed,
        incoming=edges.incoming,
        with_edge_ids=edges.with_edge_ids,
    )
