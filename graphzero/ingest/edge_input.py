"""The table of an edge list, and what its columns are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.array_table import ArrayTable, load_array, load_ids
from graphzero.ingest.sources.columns import Column, column_index, id_column
from graphzero.ingest.sources.csv_format import TEXT_IDS
from graphzero.ingest.sources.opening import open_table
from graphzero.ingest.sources.table import Table

__all__ = ["TIME_NAMES", "WEIGHT_LABEL", "EdgeInput", "edges_of_table", "open_edges"]

_ENDPOINT_NAMES = (("src", "dst"), ("source", "target"))
_WEIGHT_NAMES = ("weight",)
WEIGHT_LABEL = "weight"
TIME_NAMES = ("timestamp", "time")


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
    """

    table: Table
    columns: tuple[Column, ...]
    has_weights: bool
    has_times: bool
    directed: bool = True
    incoming: bool = False
    with_edge_ids: bool = False


def _weight_column(index: int) -> Column:
    return Column(index, WEIGHT_LABEL, np.dtype("<f4"))


def _time_column(index: int) -> Column:
    return Column(index, "timestamp", np.dtype("<i8"))


def _endpoints(table: Table, src: str | int | None, dst: str | int | None) -> tuple[Column, Column]:
    names = table.names or ()
    found: tuple[str | int, str | int] = (0, 1)
    for pair in _ENDPOINT_NAMES:
        if src is None and dst is None and all(name in names for name in pair):
            found = pair
            break
    source, target = (found[0] if src is None else src, found[1] if dst is None else dst)
    if table.width < 2 and src is None and dst is None:
        raise ValueError(f"{table.name} has one column: an edge list needs a source and a target")
    return (
        id_column(column_index(source, table.names, table.width, "src", table.name), "source id"),
        id_column(column_index(target, table.names, table.width, "dst", table.name), "target id"),
    )


def _optional(
    table: Table, spec: Any, role: str, known: Sequence[str], taken: Sequence[int]
) -> int | None:
    """Position of the weight or timestamp column, None without one."""
    if spec is False:
        return None
    if spec is not None:
        return column_index(spec, table.names, table.width, role, table.name)
    names = list(table.names or ())
    for name in known:
        if names.count(name) == 1 and names.index(name) not in taken:
            return names.index(name)
    return None


def edges_of_table(
    table: Table,
    *,
    src: str | int | None = None,
    dst: str | int | None = None,
    weight: Any = None,
    timestamp: Any = None,
) -> EdgeInput:
    """An edge list from the columns of a table; the options are those of `graphzero.build`.

    Raises
    ------
    ValueError
        If a column is missing or named twice.
    """
    columns: list[Column] = [*_endpoints(table, src, dst)]
    taken = [column.index for column in columns]
    at_weight = _optional(table, weight, "weight", _WEIGHT_NAMES, taken)
    at_time = _optional(table, timestamp, "timestamp", TIME_NAMES, taken)
    if at_weight is not None:
        columns.append(_weight_column(at_weight))
    if at_time is not None:
        columns.append(_time_column(at_time))
    if len({column.index for column in columns}) != len(columns):
        raise ValueError(f"{table.name}: src, dst, weight and timestamp name one column twice")
    return EdgeInput(table, tuple(columns), at_weight is not None, at_time is not None)


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
    text_ids: bool = False,
) -> EdgeInput:
    if array.ndim == 2 and array.shape[0] == 2 and (array.shape[1] != 2 or is_edge_index):
        array = array.T
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"{name} has shape {array.shape}: an edge list is (E, 2) or (2, E)")
    if array.dtype.kind not in ("iuUO" if text_ids else "iu"):
        raise ValueError(f"{name} has dtype {array.dtype}: node ids must be integers")
    arrays = [array[:, 0], array[:, 1]]
    columns: list[Column] = [*_endpoints(ArrayTable(name, arrays), src, dst)]
    weights = _side_array(weight, "weight", len(array))
    times = _side_array(timestamp, "timestamp", len(array))
    if weights is not None:
        columns.append(_weight_column(len(arrays)))
        arrays.append(weights)
    if times is not None:
        columns.append(_time_column(len(arrays)))
        arrays.append(times)
    table = ArrayTable(name, arrays)
    return EdgeInput(table, tuple(columns), weights is not None, times is not None)


def open_edges(
    edges: Any,
    *,
    src: str | int | None = None,
    dst: str | int | None = None,
    weight: Any = None,
    timestamp: Any = None,
    header: bool | str = "auto",
    delimiter: str = "auto",
    directed: bool = True,
    incoming: bool = False,
    with_edge_ids: bool = False,
    is_edge_index: bool = False,
    text_ids: bool = False,
) -> EdgeInput:
    """An edge list from a path or an array; `EdgeInput` and `graphzero.build` have the options.

    An array of two edges can be read either way: with `is_edge_index` as (2, E), else as (E, 2).
    With `text_ids`, ids may be texts: an array may hold them, and a header is no record.

    Raises
    ------
    ValueError
        If it is not an edge list, or lacks a column that an option names.
    OSError
        If the file cannot be read.
    """
    is_path = isinstance(edges, str | os.PathLike)
    if is_path and Path(edges).suffix.lower() != ".npy":
        if text_ids and header == "auto":
            named = any(isinstance(column, str) for column in (src, dst, weight, timestamp))
            header = True if named else TEXT_IDS
        table = open_table(Path(edges), delimiter=delimiter, header=header, strict=True)
        found = edges_of_table(table, src=src, dst=dst, weight=weight, timestamp=timestamp)
    else:
        name = os.fspath(edges) if is_path else "edges"
        array = load_ids(edges, name) if text_ids else load_array(edges, name)
        found = _from_array(
            array,
            name,
            src,
            dst,
            weight,
            timestamp,
            is_edge_index=is_edge_index,
            text_ids=text_ids,
        )
    return replace(
        found, directed=directed, incoming=incoming and directed, with_edge_ids=with_edge_ids
    )
