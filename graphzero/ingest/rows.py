"""`Rows`: a named attribute of nodes or edges, from arrays or tables, as a stream of rows."""

from __future__ import annotations

import keyword
import math
import os
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from graphzero.ingest.options import FOR_NODES, FOR_VALUES, Source, as_source
from graphzero.ingest.sources.arrays import known_names, open_array
from graphzero.ingest.sources.table import (
    IDS,
    LABELS,
    ArrayTable,
    Chunk,
    Column,
    Table,
    column_index,
    columns_of,
    find_known,
    id_column,
    is_array_file,
    is_source_name,
    is_target_name,
    label_of,
    unnamed_columns,
)
from graphzero.ingest.sources.tables import PartTable, is_table, open_table
from graphzero.ingest.sources.text_table import is_number
from graphzero.store.format import BFLOAT16, dtype_name

Array = npt.NDArray[Any]
_COUNT_ROWS = 1 << 16
_MOST_DIMS = 31  # of an array of rows: what `FeatureStore` opens
WITHOUT_LABELS = (
    "Name the columns that are features, features=gz.Source(..., columns=['age', 'height']), or "
    "leave that one out of the table or the array"
)
_PIECE = 1 << 16  # numbers that are converted in one step


class Rows:
    """One row for each node, or for each edge of an edge list: some columns of a table.

    Parameters
    ----------
    table : Table
    values : sequence of Column
        A row is their numbers, side by side.
    key : int, optional
        The column of node ids; without it, row i is that of node i, or of edge i.
    vector : bool
        Whether a row is one number.
    dtype : numpy.dtype, optional
        To convert to: floats to floats, integers to integers or floats.

    Attributes
    ----------
    width : int
        Numbers in a row.
    row_shape : tuple of int
    keys : list of Column
        The column of node ids, if there is one.
    in_order : bool
        Whether rows have no ids.
    replaced : object or None
        From `with_replaced`.

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
        key: int | None = None,
        vector: bool = False,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        own, shape = values[0].dtype.base, values[0].dtype.shape
        self.name = table.name
        self.table = table
        self.width = sum(math.prod(column.dtype.shape) for column in values)
        if not self.width:
            raise ValueError(f"{self.name} has no records, or its first list has no numbers")
        if dtype is not None and dtype.kind in "iu" and own.kind not in "iub":
            raise ValueError(
                f"{self.name}: {dtype_name(own)} numbers cannot be stored as {dtype} without loss "
                f"of their fractions; scale and round them first"
            )
        if dtype == np.bool_ != own:
            raise ValueError(
                f"{self.name}: {dtype_name(own)} numbers are not stored as bool: compare them "
                f"first, as in x != 0"
            )
        self.dtype = own if dtype is None else dtype
        self.row_shape: tuple[int, ...] = (self.width,)
        if vector or (len(values) == 1 and shape):
            self.row_shape = shape
        self.vector = vector
        self.in_order = key is None
        self.replaced: Any = None
        self.user_id: Callable[[int], str] = str
        self._own = own
        self.keys = [] if key is None else [id_column(key, "node id")]
        self._values = list(values)
        self._count: int | None = None
        self.num_ids = 0  # once they are counted

    @property
    def columns(self) -> set[int]:
        """Those of the table that a row has."""
        return {column.index for column in self._values}

    def count(self) -> int:
        """The number of rows, or the largest id + 1; may read all records, once."""
        if self._count is None and self.in_order:
            self._count = self.table.num_records
        if self._count is None:
            chunks = self.table.chunks(self.keys or self._values, _COUNT_ROWS)
            if self.in_order:
                self._count = sum(len(chunk[0]) for chunk in chunks)
            else:
                self._count = 0
                for ids in (chunk[0] for chunk in chunks if len(chunk[0])):
                    self._count = max(self._count, int(ids.max()) + 1)
                    self.num_ids += len(ids)
        return self._count

    def chunks(self, max_rows: int) -> Iterator[tuple[Array, Array]]:
        """Ids (n,) and flattened rows (n, width), in the order of the input."""
        ratio = -(-self._own.itemsize // self.dtype.itemsize)
        row = 0
        for chunk in self.table.chunks([*self.keys, *self._values], max(1, max_rows // ratio)):
            parts = [part.reshape(len(part), -1) for part in chunk[len(self.keys) :]]
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1, dtype=self._own)
            ids = np.arange(row, row + len(rows)) if self.in_order else chunk[0]
            if self.dtype != self._own:
                rows = self._cast(rows, row)
            if self.replaced is not None:
                rows = self.replaced.into(rows, row)
            yield ids, rows
            row += len(rows)

    @property
    def array(self) -> Array | None:
        """The array that has these very rows, in which others than the next can be read."""
        is_plain = self.in_order and self.dtype == self._own and self.replaced is None
        if not is_plain or not isinstance(self.table, ArrayTable):
            return None
        array: Array = self.table.columns[self._values[0].index]
        return array if array.flags.c_contiguous else None

    def column_name(self, at: int) -> str:
        """What messages call one of the numbers of a row."""
        has_names = self.table.names is not None and len(self._values) == self.width
        name = label_of(self.table.names, self._values[at].index) if has_names else ""
        return f"{self.name}, column {name!r}" if name else f"{self.name}, column {at}"

    def with_ids(self, table: Table, count: int, user_id: Callable[[int], str]) -> Rows:
        """The same rows of a table that has node numbers in place of the user's ids."""
        found = copy(self)
        found.table, found._count, found.user_id = table, count, user_id
        return found

    def converted(self, dtype: np.dtype[Any]) -> Rows:
        """The same rows in another dtype, as the constructor has it."""
        key = self.keys[0].index if self.keys else None
        return Rows(self.table, self._values, key=key, vector=self.vector, dtype=dtype)

    def with_replaced(self, replaced: Any) -> Rows:
        """The same rows, some of which ``replaced.into(rows, begin)`` replaces."""
        if replaced is None:
            return self
        found = copy(self)
        found.replaced = replaced
        return found

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


def count_classes(labels: Rows) -> int | None:
    """Largest label + 1; None if labels are not integers, or all are negative."""
    if labels.dtype.kind not in "iub" or not labels.vector:
        return None
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


def round_to(values: Array, dtype: np.dtype[Any]) -> Array:
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


Kind = Literal["node", "edge"]

# Names

# What a mini-batch has besides the attributes of its nodes and edges.
_OF_MINI_BATCH = """
    n_id edge_index e_id batch_size input_id num_sampled_nodes num_sampled_edges stats batch
    seed_time edge_label_index edge_label edge_label_time src_index dst_pos_index dst_neg_index
    num_nodes num_edges num_features keys to_dict to cpu cuda pin_memory clone
    to_pyg
"""
# Methods and properties of PyG's Data and HeteroData: `MiniBatch.to_pyg` makes these.
_OF_PYG = """
    adj_t apply apply_ coalesce collect concat connected_components contains_isolated_nodes
    contains_self_loops contiguous coo csc csr debug detach detach_ edge_attrs edge_items
    edge_stores edge_subgraph edge_type_subgraph edge_types face from_dict generate_ids
    get_all_edge_attrs get_all_tensor_attrs get_edge_index get_edge_store get_node_store get_tensor
    get_tensor_size has_isolated_nodes has_self_loops input_type is_coalesced is_cuda is_directed
    is_edge_attr is_node_attr is_sorted is_sorted_by_time is_undirected metadata multi_get_tensor
    node_attrs node_items node_offsets node_stores node_type_subgraph node_types num_edge_features
    num_edge_types num_faces num_node_features num_node_types ptr put_edge_index put_tensor
    record_stream remove_edge_index remove_tensor rename requires_grad_ set_value_dict
    share_memory_ size snapshot sort sort_by_time stores stores_as subgraph to_heterogeneous
    to_homogeneous to_namedtuple up_to update update_tensor validate view
"""
RESERVED = frozenset((_OF_MINI_BATCH + _OF_PYG).split())
# Names that PyG's Data has for one of the two only.
_OF_ONE = {
    "node": frozenset(["x", "y", "pos"]),
    "edge": frozenset(["edge_attr", "edge_weight", "edge_time"]),
}


def check_attribute_name(name: Any, of: Kind) -> None:
    """Raises a ValueError for a name that an attribute in a mini-batch cannot have."""
    what = f"{of} attribute {name!r}"
    is_identifier = isinstance(name, str) and name.isidentifier() and name.isascii()
    if not is_identifier or keyword.iskeyword(name) or name.startswith("_"):
        raise ValueError(
            f"{what}: the name must be a Python identifier of ASCII letters, such as 'year'"
        )
    if name in RESERVED:
        raise ValueError(f"{what}: a mini-batch has something else of this name: choose another")
    other: Kind = "edge" if of == "node" else "node"
    if name in _OF_ONE[other]:
        raise ValueError(f"{what}: this is a name of {other} attributes: choose another")


# Opening


def open_attribute(
    value: Any,
    name: str,
    dtype: np.dtype[Any] | None = None,
    *,
    of: Kind,
    label: str = "",
    id_column: Any = None,
    text_ids: bool = False,
    has_labels: bool = False,
) -> Rows:
    """A named attribute of nodes or edges, in another dtype if one is given.

    `label` is what messages call it; `id_column` and `text_ids` are those of the build. With
    `has_labels`, labels stand beside it, and no column may have their name.

    Raises
    ------
    ValueError
        If its shape, dtype or columns do not fit.
    OSError
        If a file cannot be read.
    """
    label = label or f"{of} attribute {name!r}"
    are_sources = isinstance(value, list | tuple) and any(isinstance(one, Source) for one in value)
    parts = value if are_sources else [value]
    # Models compute in float32, whatever a table has; who makes an array chooses its dtype.
    if name == "x" and dtype is None and any(is_table(as_source(part).value) for part in parts):
        dtype = np.dtype(np.float32)
    if are_sources:
        how: Any = {"of": of, "label": label, "id_column": id_column, "text_ids": text_ids}
        how["has_labels"] = has_labels
        return _joined(
            label, [open_attribute(part, name, dtype, **how) for part in parts], name, dtype
        )
    source = as_source(value)
    with_columns = is_table(source.value)
    source.check_options(FOR_NODES if of == "node" else FOR_VALUES, label, is_table=with_columns)
    if not with_columns:
        return _open_arrays(source.value, label, known_names(name, of), dtype)
    if of == "edge":
        table = open_table(source, of="edge")
        return rows_of_table(table, _columns_of(table, source, of), name, dtype)
    named = source if source.id_column is not None else replace(source, id_column=id_column)
    table = open_table(named, text_ids=text_ids)
    # The build's own `id_column` is for tables that may have ids.
    if table.width > 1 or id_column is False:
        source = named
    if name == "x" and table.width < 2 and source.id_column is not False and not _is_list(table):
        raise ValueError(
            f"{table.name} has one column: features are a node id and their values; "
            f"id_column=False says that they are in the order of the nodes, without ids"
        )
    found = _columns_of(table, source, of)
    if has_labels and source.columns is None:
        _refuse_names_of_labels(table, found.values)
    return rows_of_table(table, found, name, dtype)


class _PickedTable(Table):
    """The columns of some rows, ids first, wherever their table has them."""

    def __init__(self, rows: Rows) -> None:
        self.name, self.num_records = rows.table.name, rows.table.num_records
        self._table, self._columns = rows.table, [*rows.keys, *rows._values]
        self.width = len(self._columns)

    @property
    def dtypes(self) -> list[np.dtype[Any]]:
        """Of the columns, as they are read."""
        return [column.dtype for column in self._columns]

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns."""
        asked = [replace(column, index=self._columns[column.index].index) for column in columns]
        return self._table.chunks(asked, max_records)

    def locate(self, record: int) -> str:
        """Where a record is in the table."""
        return self._table.locate(record)


def _joined(label: str, parts: Sequence[Rows], name: str, dtype: np.dtype[Any] | None) -> Rows:
    """The rows of several sources, one after the other."""
    first = parts[0]
    for part in parts:
        if (part.in_order, part.row_shape) != (first.in_order, first.row_shape):
            raise ValueError(
                f"{label}: {first.name} and {part.name} have rows of different shapes, or not "
                f"both have node ids"
            )
    table, begin = PartTable(label, list(map(_PickedTable, parts))), len(first.keys)
    one = first.vector or bool(first._values[0].dtype.shape)
    found = ValueColumns(tuple(range(begin, table.width)), 0 if begin else None, one)
    return rows_of_table(table, found, name, dtype)


def open_split(value: Any, split: str, name: str, held: str) -> Rows:
    """The ids, positions or mask of a split; `held` says in messages what it must hold."""
    source = as_source(value)
    with_columns = is_table(source.value)
    source.check_options(FOR_VALUES, split, is_table=with_columns)
    if not with_columns:
        return _open_arrays(source.value, split, known_names(name, "split"), None)
    table = open_table(source)
    found = ValueColumns((split_column(table, source, split, held),), one=True)
    return rows_of_table(table, found, "node id")


def _open_arrays(value: Any, label: str, names: Sequence[str], dtype: np.dtype[Any] | None) -> Rows:
    """The rows of an array, or of several, one after the other; a list of vectors is a matrix."""
    is_list = isinstance(value, list | tuple) and bool(value)
    several = is_list and (
        all(map(is_array_file, value)) or all(len(getattr(one, "shape", ())) > 1 for one in value)
    )
    tables: list[Table] = []
    for i, one in enumerate(value if several else [value]):
        where = f"{label}[{i}]" if several else label
        where = os.fspath(one) if isinstance(one, str | os.PathLike) else where
        tables.append(_table_of_array(where, open_array(one, where, names, dtype)))
    if any(table.dtypes != tables[0].dtypes for table in tables):
        kinds = ", ".join(f"{table.dtypes} in {table.name}" for table in tables)
        raise ValueError(f"{label} has rows of several dtypes or shapes: {kinds:.1000}")
    table = PartTable(label, tables) if several else tables[0]
    return rows_of_table(table, ValueColumns((0,), one=True), "value", dtype)


def _table_of_array(name: str, array: Any, ids: Array | None = None) -> ArrayTable:
    """A table of one column, which has the rows of an array; and of a second one, of ids."""
    row_bytes = math.prod(array.shape[1:]) * array.dtype.itemsize
    if not 0 < array.ndim <= _MOST_DIMS or not row_bytes < 1 << 31 or 0 in array.shape[1:]:
        raise ValueError(
            f"{name} has shape {array.shape}: it must be (rows, columns), or a vector, or have "
            f"more dimensions, none of them empty, and rows of less than 2 GiB"
        )
    return ArrayTable(name, [array] if ids is None else [array, ids], of="row")


def rows_of_array(
    name: str, array: Array, ids: Array | None = None, dtype: np.dtype[Any] | None = None
) -> Rows:
    """The rows of an array: in order, or with an id for each."""
    found = ValueColumns((0,), None if ids is None else 1, one=True)
    return rows_of_table(_table_of_array(name, array, ids), found, "value", dtype)


class ValueColumns(NamedTuple):
    """Positions of the columns of a table that are read.

    `key` is that of the node ids, None if the records are in order; `one` says whether a record has
    a number and not a row of numbers, None if the user has not said it.
    """

    values: tuple[int, ...]
    key: int | None = None
    one: bool | None = None


def _key(table: Table, id_column: Any) -> int | None:
    """Position of the node ids: as the user says, else by name, else refused."""
    if id_column is False:
        return None
    if id_column is not None:
        return column_index(id_column, table.names, table.width, "id_column", table.name)
    found = find_known(table.names or (), IDS)
    if table.width == 1 and not found:
        return None
    if table.width > 1 and len(found) == 1:
        return found[0]
    raise ValueError(
        f"{table.name} has {columns_of(table)}, and it is not clear which is the node id: "
        f"id_column=0 says that the first column has the ids (a name does as well), "
        f"id_column=False that the records are in the order of the nodes"
    )


def _chosen(table: Table, columns: Any) -> tuple[int, ...]:
    """The columns that the user names."""
    specs = [columns] if isinstance(columns, str | int) else columns
    if not isinstance(specs, Sequence) or not specs:
        raise ValueError(f"columns={columns!r} must be a column, or a list of columns")
    found = [column_index(c, table.names, table.width, "columns", table.name) for c in specs]
    if len(set(found)) != len(found):
        raise ValueError(f"{table.name}: columns={columns!r} names one column twice")
    return tuple(found)


def _check_names(table: Table, values: Sequence[int], of: Kind) -> None:
    """Refuses columns that would be values by default, although their names say otherwise."""
    names = table.names
    if names is None:
        return
    shown = [names[index] for index in values]
    odd = [values[i] for i in [*unnamed_columns(shown), *find_known(shown, IDS)]]
    odd += [i for i in values if names[i] in table.of_folders]
    if of == "edge":
        odd += [i for i in values if is_source_name(names[i]) or is_target_name(names[i])]
        odd += [values[i] for i in find_known(shown, frozenset(["edgeid", "eid"]))]
    if odd and table.width > 1:
        places = [name if name.strip() else index for index, name in enumerate(names)]
        raise ValueError(
            f"{table.name} has {columns_of(table)}, and {label_of(names, odd[0])!r} is probably an "
            f"index, ids or a partition: columns={[places[i] for i in values if i not in odd]} "
            f"says which columns are values; of nodes, id_column= says which has the ids"
        )


def _refuse_names_of_labels(table: Table, values: Sequence[int]) -> None:
    """Refuses features with the name of labels, but for coordinates x and y."""
    shown = [(table.names or ())[index] for index in values] if table.names else []
    is_coordinate = bool(find_known(shown, frozenset(["x"])))
    for at in find_known(shown, LABELS - {"y"} if is_coordinate else LABELS):
        raise ValueError(
            f"{table.name}: column {shown[at]!r} is among the features, and labels are given, "
            f"too: a model would read them instead of learning them. {WITHOUT_LABELS}"
        )


def _columns_of(table: Table, source: Source, of: Kind) -> ValueColumns:
    """Of a table of nodes; or of one of edges, whose records are in the order of the edge list."""
    key = _key(table, source.id_column) if of == "node" else None
    if source.columns is not None:
        found = _chosen(table, source.columns)
        if key in found:
            name = label_of(table.names, key or 0)
            raise ValueError(f"{table.name}: {name!r} is in columns= and has the node ids")
        return ValueColumns(found, key, one=isinstance(source.columns, str | int))
    values = tuple(index for index in range(table.width) if index != key)
    if not values:
        raise ValueError(
            f"{table.name} has one column, which has the node ids: there are no values"
        )
    _check_names(table, values, of)
    return ValueColumns(values, key)


def split_column(table: Table, source: Source, name: str, held: str) -> int:
    """The one column of a split; `held` says what it must hold."""
    found = range(table.width) if source.columns is None else _chosen(table, source.columns)
    if len(found) != 1:
        raise ValueError(
            f"{name} ({table.name}) has {len(found)} columns: it must have one, of {held}, or "
            f"gz.Source(..., columns=...) says which it is"
        )
    return found[0]


def _is_list(table: Table) -> bool:
    """Whether a table has one column, of lists: these are no ids."""
    return table.width == 1 and bool(table.dtypes and table.dtypes[0] and table.dtypes[0].shape)


def _parsed_as(
    table: Table, found: ValueColumns, name: str, dtype: np.dtype[Any] | None
) -> npt.DTypeLike:
    """Dtype to parse text as, so that values are rounded only once, if at all."""
    if dtype is not None:
        return np.int64 if dtype.kind in "iu" else np.float32 if dtype == np.float32 else np.float64
    first = table.first_record or ()
    cells = [first[index] for index in found.values if index < len(first)]
    fractions = any(is_number(cell) and not cell.strip(" -").isdigit() for cell in cells)
    return np.float64 if fractions or name == "edge_attr" else np.int64


def rows_of_table(
    table: Table, found: ValueColumns, name: str, dtype: np.dtype[Any] | None = None
) -> Rows:
    """The values of some columns: text is parsed, other values are those of their own dtype.

    Without a dtype, the first record of text decides between two of 64 bits.
    """
    if table.dtypes is None:
        kinds = [np.dtype(_parsed_as(table, found, name, dtype))] * len(found.values)
    else:
        kinds = []
        for index in found.values:
            kind = table.dtypes[index]
            if kind is None:
                raise ValueError(
                    f"{table.name}: column {label_of(table.names, index)!r} does not hold numbers: "
                    f"make them of it, as numpy.unique(column, return_inverse=True)[1] does of "
                    f"texts and categories, or leave it out; of nodes, gz.Source(..., columns=...) "
                    f"says which columns are values"
                )
            kinds.append(kind)
        base = np.result_type(*(kind.base for kind in kinds))
        kinds = [np.dtype((base, kind.shape)) for kind in kinds]
    labels = ["label" if name == "y" else name] * len(kinds)
    if name == "x":
        labels = [f"feature {i}" for i in range(len(kinds))]
    values = list(map(Column, found.values, labels, kinds))
    one = found.one if found.one is not None else name != "x"
    is_number = len(values) == 1 and not kinds[0].shape
    return Rows(table, values, key=found.key, vector=one and is_number, dtype=dtype)


def column_rows(table: Table, index: int, name: str) -> Rows:
    """A column of an edge list as an attribute of the edges."""
    return rows_of_table(table, ValueColumns((index,), one=True), name)
