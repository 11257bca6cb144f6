"""`Rows`: a named attribute of nodes or edges, from arrays or tables, as a stream of rows."""

from __future__ import annotations

import keyword
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from graphzero.ingest.options import FOR_NODES, FOR_VALUES, Source, as_source
from graphzero.ingest.sources.arrays import known_names, open_array
from graphzero.ingest.sources.table import (
    IDS,
    Column,
    Table,
    column_index,
    columns_of,
    find_known,
    id_column,
    is_source_name,
    is_target_name,
    label_of,
    pieces_of,
    require_whole,
    unnamed_columns,
)
from graphzero.ingest.sources.tables import is_table, open_table
from graphzero.ingest.sources.text_table import is_number
from graphzero.store.format import BFLOAT16, dtype_code, dtype_name

Array = npt.NDArray[Any]
RowChunk = tuple[Array, Array]
_COUNT_ROWS = 1 << 16
_MOST_PASSES_OF_FILE = 3  # with the block file, its rows would be read twice and written once
_MOST_PASSES = 1 << 10
_MOST_DIMS = 31  # of an array of rows: what `FeatureStore` opens
_PIECE = 1 << 16  # numbers that are converted in one step


class ArrayPart:
    """Rows of an array: in the order of the ids, or with an id for each row."""

    def __init__(self, name: str, array: Any, ids: Array | None = None) -> None:
        if not 0 < array.ndim <= _MOST_DIMS or 0 in array.shape[1:]:
            raise ValueError(
                f"{name} has shape {array.shape}: it must be (rows, columns), or a vector, or have "
                f"more dimensions, none of them empty"
            )
        try:
            dtype_code(array.dtype)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        self.name = name
        self.dtype = array.dtype.newbyteorder("<")
        self.row_shape = array.shape[1:]
        self.vector = array.ndim == 1
        self.in_order = ids is None
        self._array = array
        self._ids = ids

    def count(self) -> int:
        """Rows."""
        return len(self._array)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Slices of the array."""
        begin, width = 0, math.prod(self.row_shape)
        for rows in pieces_of(self._array, max_rows):
            end = begin + len(rows)
            ids = np.arange(begin, end) if self._ids is None else self._ids[begin:end]
            yield ids, rows.reshape(len(rows), width)
            begin = end

    @property
    def most_passes(self) -> int:
        """How often the array may be read: a pass over a file takes the disk's time."""
        if not self.in_order or not self._array.flags.c_contiguous:
            return 0
        owner: Any = self._array
        while isinstance(owner, np.ndarray):
            if owner.flags.owndata:
                return _MOST_PASSES
            owner = owner.base
        return _MOST_PASSES_OF_FILE  # mapped, or of another library

    def pick(self, ids: Array) -> Array:
        """Flattened rows of ascending ids."""
        require_whole(self._array)
        return np.asarray(self._array[ids]).reshape(len(ids), -1)

    def locate(self, row: int) -> str:
        """A row by its number from 0."""
        return f"row {row}"


class TablePart:
    """Rows of some columns of a table, which has ids in the column `key`, or is in order."""

    def __init__(
        self, table: Table, values: Sequence[Column], *, vector: bool, key: int | None
    ) -> None:
        self.name = table.name
        self.dtype = values[0].dtype.base
        self._widths = [math.prod(column.dtype.shape) for column in values]
        width = sum(self._widths)
        if not width:
            raise ValueError(f"{table.name} has no records, or its first list has no numbers")
        self.row_shape: tuple[int, ...] = () if vector else (width,)
        self.vector = vector
        self.in_order = key is None
        self.most_passes = 0
        self.table = table
        self.keys = [] if key is None else [id_column(key, "node id")]
        self._values = list(values)
        self._counted: int | None = None

    def count(self) -> int:
        """The largest id + 1, or the number of records if these have no ids."""
        if self._counted is None:  # a build asks more than once, and text must be read for it
            columns = self.keys or self._values
            if self.in_order and self.table.num_records is not None:
                self._counted = self.table.num_records
            elif self.in_order:
                self._counted = sum(len(c[0]) for c in self.table.chunks(columns, _COUNT_ROWS))
            else:
                chunks = self.table.chunks(columns, _COUNT_ROWS)
                self._counted = max((int(ids.max()) for (ids,) in chunks if len(ids)), default=-1)
                self._counted += 1
        return self._counted

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Pieces of the table."""
        row = 0
        for chunk in self.table.chunks([*self.keys, *self._values], max_rows):
            values = chunk[len(self.keys) :]
            rows = np.empty((len(values[0]), sum(self._widths)), self.dtype)
            begin = 0
            for width, column in zip(self._widths, values, strict=True):
                rows[:, begin : begin + width] = column.reshape(len(rows), width)
                begin += width
            yield np.arange(row, row + len(rows)) if self.in_order else chunk[0], rows
            row += len(rows)

    def locate(self, row: int) -> str:
        """The line or record of the file."""
        return self.table.locate(row)


Part = ArrayPart | TablePart


class Rows:
    """One row for each node, or for each edge of an edge list.

    Parameters
    ----------
    name : str
        For messages, where there are several parts.
    parts : sequence of ArrayPart or TablePart
        Their rows follow each other.
    dtype : numpy.dtype, optional
        To convert to: floats to floats, integers to integers or floats.

    Attributes
    ----------
    width : int
        Numbers in a row.
    row_shape : tuple of int
    vector : bool
        Whether a row is one number.
    in_order : bool
        Whether row i is that of node i, or of edge i; else rows have ids.
    replaced : object or None
        From `with_replaced`.

    Raises
    ------
    ValueError
        If the parts are not alike, or floats would become integers.
    """

    def __init__(
        self, name: str, parts: Sequence[Part], dtype: np.dtype[Any] | None = None
    ) -> None:
        first = parts[0]
        for part in parts[1:]:
            if (part.dtype, part.row_shape) != (first.dtype, first.row_shape):
                raise ValueError(
                    f"{name}: {part.name} has rows of shape {part.row_shape} and dtype "
                    f"{dtype_name(part.dtype)}, {first.name} of shape {first.row_shape} and dtype "
                    f"{dtype_name(first.dtype)}: the parts of one attribute must be alike"
                )
            if part.in_order != first.in_order:
                raise ValueError(f"{name}: some parts have node ids, others have none")
        self.name = name if len(parts) > 1 else first.name
        if dtype is not None and dtype.kind in "iu" and first.dtype.kind not in "iub":
            raise ValueError(
                f"{self.name}: {dtype_name(first.dtype)} numbers cannot be stored as {dtype} "
                f"without loss of their fractions; scale and round them first"
            )
        if dtype == np.bool_ != first.dtype:
            raise ValueError(
                f"{self.name}: {dtype_name(first.dtype)} numbers are not stored as bool: compare "
                f"them first, as in x != 0"
            )
        self.parts = list(parts)
        self.dtype = first.dtype if dtype is None else dtype
        self.row_shape = first.row_shape
        self.width = math.prod(first.row_shape)
        self.vector = first.vector
        self.in_order = first.in_order
        self.replaced: Any = None
        self.user_id: Callable[[int], str] = str
        self._is_cast = self.dtype != first.dtype
        self._num_nodes: int | None = None
        self._begins: list[int] = []  # the first row of each part that was read

    def count(self) -> int:
        """The number of rows, or the largest id + 1; may read all records."""
        if self._num_nodes is not None:
            return self._num_nodes
        counts = [part.count() for part in self.parts]
        return sum(counts) if self.in_order else max(counts)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Ids (n,) and flattened rows (n, width), in the order of the input."""
        if self._is_cast:
            ratio = -(-self.parts[0].dtype.itemsize // self.dtype.itemsize)
            max_rows = max(1, max_rows // ratio)
        row = 0
        self._begins = []
        for part in self.parts:
            self._begins.append(row)
            for ids, rows in part.chunks(max_rows):
                if self.in_order:
                    ids = np.arange(row, row + len(rows))
                if self._is_cast:
                    rows = self._cast(rows, row)
                if self.replaced is not None:
                    rows = self.replaced.into(rows, row)
                yield ids, rows
                row += len(rows)

    def locate(self, row: int) -> str:
        """The place in the input of a row that was read."""
        if len(self.parts) == 1:
            return self.parts[0].locate(row)
        at = bisect_right(self._begins, row) - 1
        part = self.parts[at]
        return f"{part.name}, {part.locate(row - self._begins[at])}"

    @property
    def most_passes(self) -> int:
        """How often `pick` may go through all rows; 0 where rows cannot be picked."""
        is_plain = len(self.parts) == 1 and not self._is_cast and self.replaced is None
        return self.parts[0].most_passes if is_plain else 0

    def pick(self, ids: Array) -> Array:
        """Flattened rows of ascending ids."""
        part = self.parts[0]
        assert isinstance(part, ArrayPart)
        return part.pick(ids)

    def id_columns(self) -> list[tuple[Table, Column]]:
        """The columns of node ids, with their tables."""
        tables = [part for part in self.parts if isinstance(part, TablePart)]
        return [(part.table, key) for part in tables for key in part.keys]

    def with_ids(
        self, change: Callable[[Table, Column], Table], count: int, user_id: Callable[[int], str]
    ) -> Rows:
        """The same rows of changed tables, which have node numbers in place of the user's ids."""
        found = copy(self)
        found.parts, found._num_nodes, found.user_id = [], count, user_id
        for part in self.parts:
            changed = copy(part)
            if isinstance(changed, TablePart) and changed.keys:
                changed.table = change(changed.table, changed.keys[0])
            found.parts.append(changed)
        return found

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
                raise ValueError(
                    f"{self.name}, {self.locate(row + begin + at)}: {values[at, column]} does not "
                    f"fit {dtype_name(self.dtype)}: use a wider feature_dtype, or scale the "
                    f"features"
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
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{what}: the name must be a Python identifier, such as 'year'")
    if name.startswith("_") or not name.isascii():
        raise ValueError(f"{what}: the name must begin with a letter, and have ASCII letters only")
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
) -> Rows:
    """A named attribute of nodes or edges, in another dtype if one is given.

    `label` is what messages call it; `id_column` and `text_ids` are those of the build.

    Raises
    ------
    ValueError
        If its shape, dtype or columns do not fit.
    OSError
        If a file cannot be read.
    """
    label = label or f"{of} attribute {name!r}"
    parse_as = np.dtype(np.float32) if of == "edge" and name == "edge_attr" else None

    def open_part(source: Source, label: str) -> Part:
        with_columns = is_table(source.value)
        source.check_options(
            FOR_NODES if of == "node" else FOR_VALUES, label, is_table=with_columns
        )
        if not with_columns:
            is_path = isinstance(source.value, str | os.PathLike)
            label = os.fspath(source.value) if is_path else label
            array = open_array(source.value, label, known_names(name, of), dtype=dtype or parse_as)
            return ArrayPart(label, array)
        if of == "edge":
            table = open_table(source, of="edge")
            found = _edge_columns(table, source)
            return values_of_table(table, found, name, dtype or parse_as)
        named = source if source.id_column is not None else replace(source, id_column=id_column)
        table = open_table(named, text_ids=text_ids)
        # The build's own `id_column` is for tables that may have ids.
        if source.id_column is None and (table.width > 1 or id_column is False):
            source = named
        if name != "x":
            return values_of_table(table, _node_columns(table, source), name, dtype)
        if table.width < 2 and source.id_column is not False and not is_one_list(table):
            raise ValueError(
                f"{table.name} has one column: features are a node id and their values; "
                f"id_column=False says that they are in the order of the nodes, without ids"
            )
        return feature_rows(table, _node_columns(table, source), _parsed_as(dtype))

    sources = sources_of(value)
    if isinstance(sources, Source):
        return Rows(label, [open_part(sources, label)], dtype)
    return Rows(label, [open_part(s, f"{label}[{i}]") for i, s in enumerate(sources)], dtype)


def sources_of(value: Any) -> Source | list[Source]:
    """The source of a value, or those of its parts, which have the options of the whole."""
    whole = value.value if isinstance(value, Source) else value
    is_list = isinstance(whole, list | tuple) and bool(whole) and not is_table(whole)
    # A list of vectors is one matrix.
    if not is_list or not (
        all(isinstance(part, Source) or _is_file(part) for part in whole)
        or all(len(getattr(part, "shape", ())) > 1 for part in whole)
    ):
        return as_source(value)
    if isinstance(value, Source):
        return [replace(value, value=part) for part in whole]
    return [as_source(part) for part in whole]


def _is_file(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and bool(Path(value).suffix)


class ValueColumns(NamedTuple):
    """Positions of the columns of a table that are read.

    `key` is that of the node ids, None if the records are in order; `one` says whether a record has
    a number and not a row of numbers, None if the user has not said it.
    """

    values: tuple[int, ...]
    key: int | None = None
    one: bool | None = None


def _has(table: Table) -> str:
    return f"{table.name} has {columns_of(table)}"


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
    if table.width == 1 and found:
        raise ValueError(
            f"{table.name} has one column, named {label_of(table.names, 0)!r} like node ids: "
            f"id_column=False says that it has values, in the order of the nodes"
        )
    if found or table.width == 1:
        return found[0] if found else None
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


def _check_names(table: Table, values: Sequence[int], of: Kind) -> None:
    """Refuses columns that would be values by default, although their names say otherwise."""
    names = table.names
    if names is None:
        return
    shown = [names[index] for index in values]
    odd = [values[i] for i in [*unnamed_columns(shown), *find_known(shown, IDS)]]
    if of == "edge":
        odd += [i for i in values if is_source_name(names[i]) or is_target_name(names[i])]
        odd += [values[i] for i in find_known(shown, frozenset(["edgeid", "eid"]))]
    if odd and table.width > 1:
        places = [name if name.strip() else index for index, name in enumerate(names)]
        kind = "no values of edges"
        way = ""
        if of == "node":
            kind = "no values of nodes, but an index or ids"
            way = f", or id_column={places[odd[0]]!r} that it has the ids"
        raise ValueError(
            f"{_has(table)}, and {label_of(names, odd[0])!r} is probably {kind}: "
            f"columns={[places[i] for i in values if i not in odd]} says which columns are "
            f"values{way}"
        )


def _node_columns(table: Table, source: Source) -> ValueColumns:
    key = _key(table, source.id_column)
    if source.columns is not None:
        found = _chosen(table, source.columns)
        if key in found.values:
            name = label_of(table.names, key or 0)
            raise ValueError(f"{table.name}: {name!r} is in columns= and has the node ids")
        return found._replace(key=key)
    values = tuple(index for index in range(table.width) if index != key)
    if not values:
        raise ValueError(
            f"{table.name} has one column, which has the node ids: there are no values"
        )
    if source.id_column is not False or table.width > 1:
        _check_names(table, values, "node")
    return ValueColumns(values, key)


def _edge_columns(table: Table, source: Source) -> ValueColumns:
    """Of a table whose records are in the order of the edge list."""
    if source.columns is not None:
        return _chosen(table, source.columns)
    values = tuple(range(table.width))
    _check_names(table, values, "edge")
    return ValueColumns(values)


def split_column(table: Table, source: Source, name: str, held: str) -> int:
    """The one column of a split; `held` says what it must hold."""
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


def is_one_list(table: Table) -> bool:
    """Whether a table has one column, of lists: these are no ids."""
    return table.width == 1 and bool(table.dtypes and table.dtypes[0] and table.dtypes[0].shape)


def _parsed_as(dtype: np.dtype[Any] | None) -> npt.DTypeLike:
    """Dtype to parse text as, so that values are rounded only once."""
    if dtype is None or dtype == np.float32:
        return np.float32
    return np.int64 if dtype.kind in "iu" else np.float64


def _columns(
    table: Table, places: Sequence[int], labels: Sequence[str], dtype: npt.DTypeLike
) -> list[Column]:
    """Columns to read: text as a dtype, all others as the one that holds their own."""
    kinds = [np.dtype(dtype)] * len(places)
    if table.dtypes is not None:
        own: list[np.dtype[Any]] = []
        for index in places:
            kind = table.dtypes[index]
            if kind is None:
                raise ValueError(
                    f"{table.name}: column {label_of(table.names, index)!r} does not hold numbers: "
                    f"make them of it, as numpy.unique(column, return_inverse=True)[1] does of "
                    f"texts and categories, or leave it out; of nodes, gz.Source(..., columns=...) "
                    f"says which columns are values"
                )
            own.append(kind)
        base = np.result_type(*(kind.base for kind in own))
        kinds = [np.dtype((base, kind.shape)) for kind in own]
    return [Column(*column) for column in zip(places, labels, kinds, strict=True)]


def feature_rows(table: Table, found: ValueColumns, dtype: npt.DTypeLike) -> TablePart:
    """Features from some columns; text is parsed as a dtype, other values keep theirs."""
    labels = [f"feature {i}" for i in range(len(found.values))]
    values = _columns(table, found.values, labels, dtype)
    return TablePart(table, values, vector=bool(found.one) and _is_number(values), key=found.key)


def values_of_table(
    table: Table, found: ValueColumns, name: str, dtype: np.dtype[Any] | None
) -> TablePart:
    """Values of some columns; without a dtype, the first record of text decides between two."""
    parsed = _parsed_as(dtype)
    if dtype is None:
        first = table.first_record or ()
        cells = [first[index] for index in found.values if index < len(first)]
        fractions = any(is_number(cell) and not cell.strip(" -").isdigit() for cell in cells)
        parsed = np.float32 if fractions else np.int64
    label = "label" if name == "y" else name
    values = _columns(table, found.values, [label] * len(found.values), parsed)
    return TablePart(
        table, values, vector=_is_number(values) and found.one is not False, key=found.key
    )


def _is_number(values: Sequence[Column]) -> bool:
    return len(values) == 1 and not values[0].dtype.shape


def column_rows(table: Table, index: int, name: str) -> Rows:
    """A column of an edge list as an attribute of the edges."""
    dtype = np.dtype(np.float32) if name == "edge_attr" else None
    return Rows(name, [values_of_table(table, ValueColumns((index,), one=True), name, dtype)])


# Weights and times
