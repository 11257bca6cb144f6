"""The table of an edge list, and what its columns are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any

import numpy as np

from graphzero.ingest.closing import ReadSummary
from graphzero.ingest.edge_columns import choose_columns
from graphzero.ingest.given import is_table, open_given, refuse_frame
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.source import FOR_EDGES, Source, as_source
from graphzero.ingest.sources.array_opening import open_array, open_edge_array, open_id_array
from graphzero.ingest.sources.array_table import ArrayTable
from graphzero.ingest.sources.bad_rows import (
    BadRows,
    bad_rows_of,
    refuse_positions,
    refuse_skipping,
)
from graphzero.ingest.sources.chunks import ChunkTable, is_chunks, refuse_once
from graphzero.ingest.sources.columns import Column, id_column
from graphzero.ingest.sources.members import known_names
from graphzero.ingest.sources.sparse_matrix import SparseMatrix, SparseTable
from graphzero.ingest.sources.streamed_array import AnyArray
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
    shape : (int, int) or None
        Numbers of sources and of targets, where the edges are a matrix.
    summary : ReadSummary or None
        Which columns are read.
    attributes : dict of str to Rows
        The columns of the table that become attributes of the edges.
    bad_rows : BadRows or None
        What becomes of bad records; None where they are errors.
    """

    table: Table
    columns: tuple[Column, ...]
    has_weights: bool
    has_times: bool
    directed: bool = True
    incoming: bool = False
    with_edge_ids: bool = False
    shape: tuple[int, int] | None = None
    summary: ReadSummary | None = None
    attributes: Mapping[str, Rows] = field(default_factory=dict)
    bad_rows: BadRows | None = None

    def count_of(self, end: int) -> tuple[int, str]:
        """The number of sources (end 0) or targets of a matrix, and how it is known."""
        assert self.shape is not None
        rows, columns = self.shape
        return self.shape[end], f"{self.table.name} is a matrix of shape ({rows}, {columns})"


def _source_column(index: int) -> Column:
    return id_column(index, "source id")


def _target_column(index: int) -> Column:
    return id_column(index, "target id")


def _weight_column(index: int, hint: str = "") -> Column:
    return Column(index, WEIGHT_LABEL, np.dtype("<f4"), hint=hint)


def _time_column(index: int, hint: str = "") -> Column:
    return Column(index, "timestamp", np.dtype("<i8"), hint=hint)


def edges_of_table(
    table: Table,
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
    found = choose_columns(
        table, src=src, dst=dst, weight=weight, timestamp=timestamp, edge_attrs=edge_attrs
    )
    columns: list[Column] = [_source_column(found.source), _target_column(found.target)]
    if found.weight is not None:
        hint = "; weight=False ignores the column" if weight is None else ""
        columns.append(_weight_column(found.weight, hint))
    if found.time is not None:
        hint = "; timestamp=False ignores the column" if timestamp is None else ""
        columns.append(_time_column(found.time, hint))
    return EdgeInput(
        table,
        tuple(columns),
        found.weight is not None,
        found.time is not None,
        summary=found.summary,
        attributes={n: column_rows(table, index, n) for n, index in found.attributes.items()},
    )


def _side_array(value: Any, what: str, role: str, num_edges: int) -> AnyArray | None:
    if value is None or value is False:
        return None
    array = open_array(value, what, known_names(role))
    if array.shape != (num_edges,):
        raise ValueError(f"{what} has shape {array.shape} for {num_edges} edges")
    return array


def _from_array(
    array: AnyArray,
    name: str,
    src: str | int | None,
    dst: str | int | None,
    weight: Any,
    timestamp: Any,
    *,
    is_edge_index: bool,
    text_ids: bool,
) -> EdgeInput:
    if array.ndim == 2 and array.shape[0] == 2 and (array.shape[1] != 2 or is_edge_index):
        array = array.T
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"{name} has shape {array.shape}: an edge list is (E, 2) or (2, E)")
    if array.dtype.kind not in ("iuUO" if text_ids else "iu"):
        raise ValueError(
            f"{name} has dtype {array.dtype}: node ids must be integers; where these are whole "
            f"numbers, convert them with edges.astype(numpy.int64)"
        )
    arrays = [array]
    ends = choose_columns(ArrayTable(name, arrays), src=src, dst=dst)
    columns: list[Column] = [_source_column(ends.source), _target_column(ends.target)]
    weights = _side_array(weight, "weight", "edge_weight", len(array))
    times = _side_array(timestamp, "timestamp", "edge_time", len(array))
    if weights is not None:
        columns.append(_weight_column(len(arrays) + 1))
        arrays.append(weights)
    if times is not None:
        columns.append(_time_column(len(arrays) + 1))
        arrays.append(times)
    table = ArrayTable(name, arrays)
    has_weights, has_times = weights is not None, times is not None
    return EdgeInput(table, tuple(columns), has_weights, has_times, summary=ends.summary)


def _from_matrix(
    matrix: SparseMatrix,
    src: str | int | None,
    dst: str | int | None,
    weight: Any,
    timestamp: Any,
) -> EdgeInput:
    if any(given is not None and given is not False for given in (weight, timestamp)):
        raise ValueError(
            f"{matrix.name} is a sparse matrix, whose values are the weights: weight=False "
            f"ignores them; give times, or other weights, in the order of its entries, as "
            f"edges={{'edge_index': matrix, 'edge_time': times}}"
        )
    table = SparseTable(matrix)
    has_weights = table.width > 2 and weight is not False
    ends = choose_columns(
        table,
        src=0 if src is None else src,
        dst=1 if dst is None else dst,
        weight=2 if has_weights else False,
        edge_attrs=[],
    )
    columns = [_source_column(ends.source), _target_column(ends.target)]
    if has_weights:
        columns.append(_weight_column(2))
    return EdgeInput(
        table, tuple(columns), has_weights, False, shape=matrix.shape, summary=ends.summary
    )


def _from_chunks(
    source: Source, columns: Mapping[str, Any], *, is_edge_index: bool, text_ids: bool
) -> EdgeInput:
    if text_ids:
        refuse_once(source.value, "edges", "ids='map' reads edges twice")
    if _is_given(source.weight) or _is_given(source.timestamp):
        raise ValueError(
            "edges is an iterator: give weights and times with its chunks, which are then "
            "dictionaries such as {'src': ..., 'dst': ..., 'weight': ...}"
        )
    if source.edge_attrs:
        raise ValueError(
            "edge_attrs= reads the edge list again, which an iterator does not allow: write it to "
            "a Parquet file, or give the attributes as edges={'edge_index': ..., ...}"
        )
    chunks = ChunkTable("edges", source.value, is_edge_index=is_edge_index)
    return edges_of_table(chunks, edge_attrs=source.edge_attrs, **columns)


def _from_array_source(
    source: Source, columns: Mapping[str, Any], *, is_edge_index: bool, text_ids: bool
) -> EdgeInput:
    value = source.value
    name = fspath(value) if isinstance(value, str | PathLike) else "edges"
    if source.edge_attrs:
        raise ValueError(
            f"edge_attrs= names columns of a table, and {name} is an array: give attributes as "
            f"edges={{'edge_index': ..., 'amount': ...}}"
        )
    refuse_frame(value, name)
    array = (open_id_array if text_ids else open_edge_array)(value, name, known_names("edge_index"))
    if isinstance(array, SparseMatrix):
        if text_ids:
            raise ValueError(
                f"{array.name} is a sparse matrix, whose ids are its rows and columns, from 0: "
                f"leave out ids='map', or give its edges as pairs of ids"
            )
        return _from_matrix(array, **columns)
    return _from_array(array, name, **columns, is_edge_index=is_edge_index, text_ids=text_ids)


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and not isinstance(value, str | int)


def open_edges(
    edges: Any,
    *,
    directed: bool = True,
    incoming: bool = False,
    with_edge_ids: bool = False,
    is_edge_index: bool = False,
    text_ids: bool = False,
    on_bad_rows: str = "raise",
    **options: Any,
) -> EdgeInput:
    """An edge list from a path, an array or a `Source`.

    `options` are the reading options of `Source`, which come second to those that a `Source` has.
    An array of two edges can be read either way: with `is_edge_index` as (2, E), else as (E, 2).
    With `text_ids`, ids are any integers or texts, and are read twice.

    Raises
    ------
    ValueError
        If it is not an edge list, or lacks a column that an option names.
    OSError
        If the file cannot be read.
    """
    bad_rows = bad_rows_of(on_bad_rows)
    if text_ids and bad_rows is not None:
        raise ValueError(
            "on_bad_rows='skip' is for ids='dense': ids='map' reads edges twice, and the ids of a "
            "record that is skipped would be nodes; use on_bad_rows='raise', or correct the edge "
            "list first"
        )
    source = as_source(edges)
    given = source.given()
    source = replace(source, **{name: v for name, v in options.items() if name not in given})
    with_columns = is_table(source.value)
    if isinstance(edges, Source):
        edges.check_options(FOR_EDGES, "the edge list", is_table=with_columns)
    columns = {name: getattr(source, name) for name in ("src", "dst", "weight", "timestamp")}
    if with_columns:
        table = open_given(source, strict=True, of="edge", text_ids=text_ids, bad_rows=bad_rows)
        found = edges_of_table(table, edge_attrs=source.edge_attrs, **columns)
        refuse_positions(bad_rows, found.attributes)
    elif is_chunks(source.value):
        refuse_skipping(bad_rows, "an iterator")
        found = _from_chunks(source, columns, is_edge_index=is_edge_index, text_ids=text_ids)
    else:
        is_path = isinstance(source.value, str | PathLike)
        refuse_skipping(bad_rows, fspath(source.value) if is_path else "arrays")
        found = _from_array_source(source, columns, is_edge_index=is_edge_index, text_ids=text_ids)
    return replace(
        found,
        directed=directed,
        incoming=incoming and directed,
        with_edge_ids=with_edge_ids,
        bad_rows=bad_rows,
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
