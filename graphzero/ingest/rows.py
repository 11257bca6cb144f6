"""`Rows`: a named attribute of nodes or edges, from arrays or tables, as a stream of rows."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.options import FOR_NODES, FOR_VALUES, AttributeOf, Source, as_source
from graphzero.ingest.options import Column as ColumnName
from graphzero.ingest.sources.arrays import known_names, open_array
from graphzero.ingest.sources.codes import Classes, codes_of
from graphzero.ingest.sources.columns import (
    IDS,
    LABELS,
    Array,
    ArrayTable,
    Column,
    DType,
    JoinedTable,
    NodeLookup,
    Part,
    Table,
    find_names,
    id_column,
    is_array_file,
    is_source_name,
    is_target_name,
    unnamed_columns,
    without_index,
)
from graphzero.ingest.sources.tables import is_table, open_table
from graphzero.ingest.sources.text_table import HeaderRule, is_number
from graphzero.store.format import BFLOAT16, dtype_name

_COUNT_ROWS = 1 << 16
_MOST_DIMS = 31  # of an array of rows: what `FeatureStore` opens
WITHOUT_LABELS = (
    "Name the columns that are features, features=gz.Source(..., columns=['age', 'height']), or "
    "leave that one out of the table or the array"
)
_PIECE = 1 << 16  # numbers that are converted in one step


def span_of(ascending: Array, begin: int, end: int) -> tuple[slice, Array]:
    """Which of ascending numbers are in [begin, end), and how far they are from `begin`."""
    low, high = np.searchsorted(ascending, np.array([begin, end], np.uint64)).tolist()
    return slice(low, high), (ascending[low:high] - np.uint64(begin)).astype(np.intp)


@dataclass(frozen=True)
class MergedRows:
    """A row for each group of merged edges, which replaces that of its first edge."""

    first: Array
    rows: Array

    def into(self, rows: Array, begin: int) -> Array:
        """Rows of the edges from `begin` on, with those of merged edges replaced."""
        which, at = span_of(self.first, begin, begin + len(rows))
        if not len(at):
            return rows
        replaced = rows.copy()
        replaced[at] = self.rows[which].reshape((len(at), *rows.shape[1:]))
        return replaced


class Rows:
    """One row for each node, or for each edge of an edge list: some columns of a table.

    Parameters
    ----------
    table : Table
    values : sequence of Column
        A row is their numbers, side by side.
    key : Column, optional
        That of node ids; without it, row i is that of node i, or of edge i.
    vector : bool
        Whether a row is one number.
    dtype : numpy.dtype, optional
        To convert to: floats to floats, integers to integers or floats.

    Attributes
    ----------
    name : str
        Of the table, for messages.
    width : int
        Numbers in a row.
    row_shape : tuple of int
    in_order : bool
        Whether rows have no ids.
    num_ids : int
        Of a key whose ids are not mapped, once `count` has counted them.

    Raises
    ------
    ValueError
        If there are no numbers, or floats would become integers.
    """

    def __init__(
        self,
        table: Table,
        values: Sequence[Column],
        *,
        key: Column | None = None,
        vector: bool = False,
        dtype: DType | None = None,
    ) -> None:
        stored, shape = values[0].dtype.base, values[0].dtype.shape
        self.name, self.table = table.name, table
        self.width = sum(math.prod(column.dtype.shape) for column in values)
        if not self.width:
            raise ValueError(f"{self.name} has no records, or its first list has no numbers")
        if dtype is not None and dtype.kind in "iu" and stored.kind not in "iub":
            raise ValueError(
                f"{self.name}: {dtype_name(stored)} numbers cannot be stored as {dtype} without "
                f"loss of their fractions; scale and round them first"
            )
        if dtype == np.bool_ != stored:
            raise ValueError(
                f"{self.name}: {dtype_name(stored)} numbers are not stored as bool: compare them "
                f"first, as in x != 0"
            )
        self.dtype = stored if dtype is None else dtype
        self.row_shape: tuple[int, ...] = (self.width,)
        if vector or (len(values) == 1 and shape):
            self.row_shape = shape
        self.values, self.key, self.vector = values, key, vector
        self.num_ids = 0
        self._stored_dtype = stored
        self._replacement: MergedRows | None = None
        self._count: int | None = None

    @property
    def classes(self) -> Classes | None:
        """The classes that texts were made to."""
        codes = self.values[0].codes
        return codes if isinstance(codes, Classes) else None

    @property
    def in_order(self) -> bool:
        """Whether rows have no ids."""
        return self.key is None

    @property
    def columns(self) -> list[Column]:
        """Those that are read: of the node ids, if there is one, and of the values."""
        return [*self.values] if self.key is None else [self.key, *self.values]

    def count(self) -> int:
        """The number of rows, or of the nodes that they may have; may read all records, once.

        Nodes are as many as mapped ids, or the largest id + 1.
        """
        if self._count is None:
            self._count = self._count_records() if self.key is None else self._count_nodes(self.key)
        return self._count

    def _count_records(self) -> int:
        if self.table.num_records is not None:
            return self.table.num_records
        return sum(len(chunk[0]) for chunk in self.table.chunks(self.values, _COUNT_ROWS))

    def _count_nodes(self, key: Column) -> int:
        if key.ids is not None:
            return key.ids.num_nodes
        count = 0
        for (ids,) in self.table.chunks([key], _COUNT_ROWS):
            if len(ids):
                count = max(count, int(ids.max()) + 1)
                self.num_ids += len(ids)
        return count

    def user_id(self, node: int) -> str:
        """What the user calls a node, for messages."""
        mapped = None if self.key is None else self.key.ids
        return str(node) if mapped is None else mapped.shown(node)

    def chunks(self, max_rows: int) -> Iterator[tuple[Array, Array]]:
        """Ids (n,) and flattened rows (n, width), in the order of the input."""
        ratio = -(-self._stored_dtype.itemsize // self.dtype.itemsize)
        num_keys = 0 if self.in_order else 1
        row = 0
        for chunk in self.table.chunks(self.columns, max(1, max_rows // ratio)):
            parts = [part.reshape(len(part), -1) for part in chunk[num_keys:]]
            rows = parts[0]
            if len(parts) > 1:
                rows = np.concatenate(parts, axis=1, dtype=self._stored_dtype)
            ids = np.arange(row, row + len(rows)) if self.in_order else chunk[0]
            if self.dtype != self._stored_dtype:
                rows = self._cast(rows, row)
            if self._replacement is not None:
                rows = self._replacement.into(rows, row)
            yield ids, rows
            row += len(rows)

    @property
    def array(self) -> Array | None:
        """The array that has these very rows, in which others than the next can be read."""
        is_plain = self.in_order and self.dtype == self._stored_dtype and self._replacement is None
        is_plain = is_plain and self.values[0].codes is None
        if not is_plain or not isinstance(self.table, ArrayTable):
            return None
        array = self.table.columns[self.values[0].index]
        return array if array.flags.c_contiguous else None

    def column_name(self, at: int) -> str:
        """What messages call one of the numbers of a row."""
        has_names = self.table.names is not None and len(self.values) == self.width
        name = self.table.label(self.values[at].index) if has_names else ""
        return f"{self.name}, column {name!r}" if name else f"{self.name}, column {at}"

    def converted(self, dtype: DType) -> Rows:
        """The same rows in another dtype, as the constructor has it."""
        return Rows(self.table, self.values, key=self.key, vector=self.vector, dtype=dtype)

    def with_decimals(self) -> Rows:
        """The same rows of text, with decimals where they began with integers."""
        values = [replace(column, dtype=np.dtype(np.float64)) for column in self.values]
        rows = Rows(self.table, values, key=self.key, vector=self.vector)
        return rows.with_replaced(self._replacement)

    def with_replaced(self, replacement: MergedRows | None) -> Rows:
        """The same rows, with other values of merged edges."""
        rows = copy(self)
        rows._replacement = replacement
        return rows

    def _cast(self, rows: Array, row: int) -> Array:
        """Converts rows; `row` is the number of the first."""
        out = np.empty(rows.shape, self.dtype)
        step = max(1, _PIECE // self.width)
        for begin in range(0, len(rows), step):
            values = as_numbers(rows[begin : begin + step])
            if self.dtype.kind in "iu":
                bounds = np.iinfo(self.dtype)
                misfit = (values < bounds.min) | (values > bounds.max)
                cast = values.astype(self.dtype)
            else:
                cast = round_to(values, self.dtype)
                misfit = _is_infinite(cast) & ~np.isinf(values)
            if misfit.any():
                at, column = np.argwhere(misfit)[0].tolist()
                place = f"{self.name}, {self.table.locate(row + begin + at)}"
                raise ValueError(
                    f"{place}: {values[at, column]} does not fit {dtype_name(self.dtype)}: use a "
                    f"wider feature_dtype, or scale the features"
                )
            out[begin : begin + step] = cast
        return out


def classes_of(attributes: Mapping[str, Rows]) -> dict[str, list[str]]:
    """The names of classes, by attribute."""
    return {
        name: rows.classes.names for name, rows in attributes.items() if rows.classes is not None
    }


def count_classes(labels: Rows) -> int | None:
    """Largest label + 1; None if labels are not integers, or all are negative."""
    if labels.dtype.kind not in "iub" or not labels.vector:
        return None
    if labels.classes is not None:
        return len(labels.classes.names)
    largest = max(
        (int(rows.max()) for _, rows in labels.chunks(_COUNT_ROWS) if len(rows)), default=-1
    )
    return largest + 1 if largest >= 0 else None


# Conversion of numbers


def as_numbers(rows: Array) -> Array:
    """The same numbers as NumPy computes with them: bfloat16 as float32, bool as uint8."""
    if rows.dtype != BFLOAT16:
        return rows.view(np.uint8) if rows.dtype == np.bool_ else rows
    wide = np.ascontiguousarray(rows).view(np.uint16).astype(np.uint32)
    wide <<= np.uint32(16)  # a bfloat16 is the upper half of a float32
    return wide.view(np.float32)


def round_to(values: Array, dtype: DType) -> Array:
    """Numbers in a floating dtype, rounded to nearest, ties to even; infinite if too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _to_bfloat16(values) if dtype == BFLOAT16 else values.astype(dtype)


def _to_bfloat16(values: Array) -> Array:
    if values.dtype != np.float32:
        values = _rounded_to_odd(values.astype(np.float64, copy=False))
    bits = np.ascontiguousarray(values).view(np.uint32)
    high = bits >> np.uint32(16)
    # carries into the upper half if above the middle, or at the middle if that half is odd
    rounded = ((bits + (np.uint32(0x7FFF) + (high & np.uint32(1)))) >> np.uint32(16)).astype("<u2")
    is_nan = np.isnan(values)
    rounded[is_nan] = high[is_nan] | np.uint32(0x40)  # else a NaN could lose all its bits
    return rounded.view(BFLOAT16)


def _rounded_to_odd(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """float64 rounded to odd as float32, so that a second rounding gives the correct result.

    If bits are lost, the last bit is set (Boldo and Melquiond, IEEE Trans. Computers 2008).
    """
    single = values.astype(np.float32)
    back = single.astype(np.float64)
    bits = single.view(np.uint32)
    bits -= np.abs(back) > np.abs(values)  # towards zero first
    bits |= back != values
    return single


def _is_infinite(values: Array) -> npt.NDArray[np.bool_]:
    if values.dtype != BFLOAT16:
        return np.isinf(values)
    infinite: npt.NDArray[np.bool_] = (values.view(np.uint16) & np.uint16(0x7FFF)) == 0x7F80
    return infinite


# Opening


@dataclass(frozen=True)
class NodeReading:
    """How tables with attributes of nodes are read.

    Attributes
    ----------
    id_column : str, int, False or None
        That of the build.
    ids : NodeLookup or None
        What takes ids of nodes to nodes, where they are mapped.
    has_labels : bool
        Whether labels stand beside the attribute, so that no column may have their name.
    """

    id_column: ColumnName | bool | None = None
    ids: NodeLookup | None = None
    has_labels: bool = False


_PLAIN = NodeReading()


def open_attribute(
    value: Any,
    name: str,
    dtype: DType | None = None,
    *,
    of: AttributeOf,
    label: str = "",
    reading: NodeReading = _PLAIN,
) -> Rows:
    """A named attribute of nodes or edges, in another dtype if one is given.

    `label` is what messages call it; `reading` is for attributes of nodes.

    Raises
    ------
    ValueError
        If its shape, dtype or columns do not fit.
    OSError
        If a file cannot be read.
    """
    label = label or f"{of} attribute {name!r}"
    several = isinstance(value, list | tuple) and any(isinstance(part, Source) for part in value)
    sources = [as_source(part) for part in (value if several else [value])]
    # Models compute in float32, whatever a table has; who makes an array chooses its dtype.
    if name == "x" and dtype is None and any(is_table(source.value) for source in sources):
        dtype = np.dtype(np.float32)
    rows = []
    for source in sources:
        with_columns = is_table(source.value)
        allowed = FOR_NODES if of == "node" else FOR_VALUES
        source.check_options(allowed, label, is_table=with_columns)
        if not with_columns:
            may_be_texts = name != "x" and dtype is None
            array = _array_of_texts(source.value, label) if may_be_texts else None
            if array is None:
                rows.append(_open_arrays(source.value, label, known_names(name, of), dtype))
            else:
                texts = ArrayTable(label, [array], of="row")
                rows.append(rows_of_table(texts, ValueColumns((0,), is_vector=True), name))
        elif of == "edge":
            table = open_table(source, of="edge")
            rows.append(rows_of_table(table, _columns_of(table, source, of), name, dtype))
        else:
            rows.append(_open_node_table(source, name, dtype, reading))
    return _joined_rows(label, rows, name, dtype) if several else rows[0]


def _array_of_texts(value: Any, label: str) -> Array | None:
    """A vector of texts or of NumPy's dates, as objects, if it is one."""
    is_list = isinstance(value, list) and len(value) > 0 and not all(map(is_array_file, value))
    if is_list and isinstance(value[0], str):
        value = np.array(value, object)  # else NumPy makes texts of numbers among them
    elif is_list and isinstance(value[0], np.datetime64):
        value = np.array(value)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or not len(value):
        return None
    if value.dtype.kind == "M":
        value = np.datetime_as_string(value)
    if value.dtype.kind not in "UT" and not isinstance(value[0], str):
        return None
    texts: Array = value.astype(object)
    for at, cell in enumerate(value if value.dtype == object else ()):
        if not isinstance(cell, str):
            raise ValueError(f"{label}, row {at}: {cell!r} is no text as the first one is")
    return texts


def _open_node_table(source: Source, name: str, dtype: DType | None, reading: NodeReading) -> Rows:
    completed = source.completed_by(Source(None, id_column=reading.id_column))
    table = open_table(completed, HeaderRule(text_ids=reading.ids is not None))
    # The build's own `id_column` is for tables that may have ids.
    if table.width > 1 or reading.id_column is False:
        source = completed
    if name == "x" and table.width < 2 and source.id_column is not False and not _has_lists(table):
        raise ValueError(
            f"{table.name} has one column: features are a node id and their values; "
            f"id_column=False says that they are in the order of the nodes, without ids"
        )
    columns = _columns_of(table, source, "node")
    if reading.has_labels and source.columns is None:
        _refuse_names_of_labels(table, columns.values)
    return rows_of_table(table, columns, name, dtype, reading.ids)


def _joined_rows(label: str, parts: Sequence[Rows], name: str, dtype: DType | None) -> Rows:
    """The rows of several sources, one after the other."""
    first = parts[0]
    for part in parts:
        kinds = [(rows.in_order, rows.row_shape, rows.classes is None) for rows in (first, part)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"{label}: {first.name} and {part.name} have rows of different shapes, or not "
                f"both have node ids, or texts"
            )
    table = JoinedTable(label, [_part_of(part) for part in parts])
    begin = 0 if first.key is None else 1
    is_vector = first.vector or bool(first.values[0].dtype.shape)
    columns = ValueColumns(tuple(range(begin, table.width)), 0 if begin else None, is_vector)
    ids = None if first.key is None else first.key.ids
    return rows_of_table(table, columns, name, dtype, ids)


def _part_of(rows: Rows) -> Part:
    """The columns of some rows, the ids first, wherever their table has them."""
    columns = rows.columns
    indices = [column.index for column in columns]
    kinds = [column.dtype if column.codes is None else np.dtype(object) for column in columns]
    return Part(rows.table, indices, parsed_as=kinds)


def open_split(value: Any, split: str, name: str, held: str) -> Rows:
    """The ids, positions or mask of a split; `held` says in messages what it must hold."""
    source = as_source(without_index(value))
    with_columns = is_table(source.value)
    source.check_options(FOR_VALUES, split, is_table=with_columns)
    if not with_columns:
        return _open_arrays(source.value, split, known_names(name, "split"), None)
    table = open_table(source)
    columns = ValueColumns((split_column(table, source, split, held),), is_vector=True)
    return rows_of_table(table, columns, "node id")


def _open_arrays(value: Any, label: str, names: Sequence[str], dtype: DType | None) -> Rows:
    """The rows of an array, or of several, one after the other; a list of vectors is a matrix."""
    is_list = isinstance(value, list | tuple) and bool(value)
    several = is_list and (
        all(map(is_array_file, value)) or all(len(getattr(part, "shape", ())) > 1 for part in value)
    )
    tables: list[Table] = []
    for i, part in enumerate(value if several else [value]):
        where = f"{label}[{i}]" if several else label
        where = os.fspath(part) if isinstance(part, str | os.PathLike) else where
        tables.append(_table_of_array(where, open_array(part, where, names, dtype)))
    if any(table.dtypes != tables[0].dtypes for table in tables):
        kinds = ", ".join(f"{table.dtypes} in {table.name}" for table in tables)
        raise ValueError(f"{label} has rows of several dtypes or shapes: {kinds:.1000}")
    table = JoinedTable(label, [Part(part, [0]) for part in tables]) if several else tables[0]
    return rows_of_table(table, ValueColumns((0,), is_vector=True), "value", dtype)


def _table_of_array(name: str, array: Array, ids: Array | None = None) -> ArrayTable:
    """A table of one column, which has the rows of an array; and of a second one, of ids."""
    row_bytes = math.prod(array.shape[1:]) * array.dtype.itemsize
    if not 0 < array.ndim <= _MOST_DIMS or not row_bytes < 1 << 31 or 0 in array.shape[1:]:
        raise ValueError(
            f"{name} has shape {array.shape}: it must be (rows, columns), or a vector, or have "
            f"more dimensions, none of them empty, and rows of less than 2 GiB"
        )
    return ArrayTable(name, [array] if ids is None else [array, ids], of="row")


def rows_of_array(name: str, array: Array, ids: Array | None = None) -> Rows:
    """The rows of an array: in order, or with an id for each."""
    columns = ValueColumns((0,), None if ids is None else 1, is_vector=True)
    return rows_of_table(_table_of_array(name, array, ids), columns, "value")


@dataclass(frozen=True)
class ValueColumns:
    """Positions of the columns of a table that are read.

    `key` is that of the node ids, None if the records are in order; `is_vector` says whether a
    record has a number and not a row of numbers, None if the user has not said it.
    """

    values: tuple[int, ...]
    key: int | None = None
    is_vector: bool | None = None


def _key(table: Table, id_column: ColumnName | bool | None) -> int | None:
    """Position of the node ids: as the user says, else by name, else refused."""
    if id_column is False:
        return None
    if id_column is not None:
        return table.index_of(id_column, "id_column")
    named = table.columns_named(IDS)
    if table.width == 1 and not named:
        return None
    if table.width > 1 and len(named) == 1:
        return named[0]
    raise ValueError(
        f"{table.name} has {table.described}, and it is not clear which is the node id: "
        f"id_column=0 says that the first column has the ids (a name does as well), "
        f"id_column=False that the records are in the order of the nodes"
    )


def _chosen_columns(table: Table, columns: object) -> tuple[int, ...]:
    """The columns that the user names."""
    specs = [columns] if isinstance(columns, str | int) else columns
    if not isinstance(specs, Sequence) or not specs:
        raise ValueError(f"columns={columns!r} must be a column, or a list of columns")
    indices = [table.index_of(column, "columns") for column in specs]
    if len(set(indices)) != len(indices):
        raise ValueError(f"{table.name}: columns={columns!r} names one column twice")
    return tuple(indices)


def _refuse_names_of_ids(table: Table, values: Sequence[int], of: AttributeOf) -> None:
    """Refuses columns that would be values by default, although their names say otherwise."""
    names = table.names
    if names is None:
        return
    shown = [names[index] for index in values]
    odd = [values[i] for i in [*unnamed_columns(shown), *find_names(shown, IDS)]]
    odd += [i for i in values if names[i] in table.of_folders]
    if of == "edge":
        odd += [i for i in values if is_source_name(names[i]) or is_target_name(names[i])]
        odd += [values[i] for i in find_names(shown, frozenset(["edgeid", "eid"]))]
    if odd and table.width > 1:
        places = [name if name.strip() else index for index, name in enumerate(names)]
        raise ValueError(
            f"{table.name} has {table.described}, and {table.label(odd[0])!r} is probably an "
            f"index, ids or a partition: columns={[places[i] for i in values if i not in odd]} "
            f"says which columns are values; of nodes, id_column= says which has the ids"
        )


def _refuse_names_of_labels(table: Table, values: Sequence[int]) -> None:
    """Refuses features with the name of labels, but for coordinates x and y."""
    shown = [(table.names or ())[index] for index in values] if table.names else []
    is_coordinate = bool(find_names(shown, frozenset(["x"])))
    for at in find_names(shown, LABELS - {"y"} if is_coordinate else LABELS):
        raise ValueError(
            f"{table.name}: column {shown[at]!r} is among the features, and labels are given, "
            f"too: a model would read them instead of learning them. {WITHOUT_LABELS}"
        )


def _columns_of(table: Table, source: Source, of: AttributeOf) -> ValueColumns:
    """Of a table of nodes; or of one of edges, whose records are in the order of the edge list."""
    key = _key(table, source.id_column) if of == "node" else None
    if source.columns is not None:
        chosen = _chosen_columns(table, source.columns)
        if key in chosen:
            name = table.label(key or 0)
            raise ValueError(f"{table.name}: {name!r} is in columns= and has the node ids")
        return ValueColumns(chosen, key, is_vector=isinstance(source.columns, str | int))
    values = tuple(index for index in range(table.width) if index != key)
    if not values:
        raise ValueError(
            f"{table.name} has one column, which has the node ids: there are no values"
        )
    _refuse_names_of_ids(table, values, of)
    return ValueColumns(values, key)


def split_column(table: Table, source: Source, name: str, held: str) -> int:
    """The one column of a split; `held` says what it must hold."""
    columns: Sequence[int] = range(table.width)
    if source.columns is not None:
        columns = _chosen_columns(table, source.columns)
    if len(columns) != 1:
        raise ValueError(
            f"{name} ({table.name}) has {len(columns)} columns: it must have one, of {held}, or "
            f"gz.Source(..., columns=...) says which it is"
        )
    return columns[0]


def _has_lists(table: Table) -> bool:
    """Whether a table has one column, of lists: these are no ids."""
    return table.width == 1 and bool(table.dtypes and table.dtypes[0] and table.dtypes[0].shape)


def _text_dtype(table: Table, values: Sequence[int], name: str, dtype: DType | None) -> DType:
    """Dtype to parse text as, so that values are rounded only once, if at all."""
    if dtype is not None and dtype.kind in "iu":
        return np.dtype(np.int64)
    if dtype is not None:
        return np.dtype(np.float32 if dtype == np.float32 else np.float64)
    first = table.first_record or ()
    cells = [first[index] for index in values if index < len(first)]
    fractions = any(is_number(cell) and not cell.strip(" -").isdigit() for cell in cells)
    return np.dtype(np.float64 if fractions or name == "edge_attr" else np.int64)


def _hint_of_text(table: Table, at: int, name: str) -> str:
    """What to do about a cell of text that is no number of its column."""
    place = f"; column {table.label(at)!r}" if table.names else f"; column {at}"
    if name == "x":
        return f"{place} is a feature: gz.Source(..., columns=[...]) says which columns are"
    return f"{place} begins with numbers, so that all must be: correct the cell, or leave it out"


def _number_dtypes(
    table: Table, values: Sequence[int], stored: Sequence[DType | None]
) -> list[DType]:
    """Dtypes of columns of numbers, which differ in their shapes only."""
    kinds = []
    for index in values:
        kind = stored[index]
        if kind is None:
            raise ValueError(
                f"{table.name}: column {table.label(index)!r} does not hold numbers: "
                f"make them of it, as numpy.unique(column, return_inverse=True)[1] does of "
                f"texts and categories, or leave it out; of nodes, gz.Source(..., columns=...) "
                f"says which columns are values"
            )
        kinds.append(kind)
    base = np.result_type(*(kind.base for kind in kinds))
    return [np.dtype((base, kind.shape)) for kind in kinds]


def rows_of_table(
    table: Table,
    columns: ValueColumns,
    name: str,
    dtype: DType | None = None,
    ids: NodeLookup | None = None,
) -> Rows:
    """The values of some columns: text is parsed, other values are those of their own dtype.

    Without a dtype, the first record of text decides between two of 64 bits, dates as seconds, and
    texts as classes. `ids` take the ids of nodes to nodes, where they are mapped.
    """
    stored = table.dtypes
    if len(columns.values) == 1 and name not in ("x", "node id") and dtype is None:
        label = "label" if name == "y" else name
        column = Column(columns.values[0], label, np.dtype(np.int64))
        codes = codes_of(table, column, texts=True)
        if codes is not None:
            key = None if columns.key is None else id_column(columns.key, "node id", ids)
            return Rows(table, [replace(column, codes=codes)], key=key, vector=True)
    if stored is None:
        kinds = [_text_dtype(table, columns.values, name, dtype)] * len(columns.values)
    else:
        kinds = _number_dtypes(table, columns.values, stored)
    labels = ["label" if name == "y" else name] * len(kinds)
    if name == "x":
        labels = [f"feature {i}" for i in range(len(kinds))]
    values = [
        Column(
            at,
            label,
            kind,
            hint="" if stored is not None else _hint_of_text(table, at, name),
            may_widen=stored is None and dtype is None and name != "y",
        )
        for at, label, kind in zip(columns.values, labels, kinds, strict=True)
    ]
    key = None if columns.key is None else id_column(columns.key, "node id", ids)
    is_vector = name != "x" if columns.is_vector is None else columns.is_vector
    has_one_number = len(values) == 1 and not kinds[0].shape
    return Rows(table, values, key=key, vector=is_vector and has_one_number, dtype=dtype)
