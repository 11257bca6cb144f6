"""Frames of pandas as arguments of a build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.column_names import IDS, find_known

__all__ = ["edges_of_frame", "nodes_of_frame"]

_RECORDS = 1 << 20


def _check_frame(frame: Any, what: str) -> list[str]:
    """The names of the columns of a frame, all different texts."""
    if not hasattr(frame, "columns") or not hasattr(frame, "index") or not hasattr(frame, "iloc"):
        raise TypeError(f"{what} is {type(frame).__name__}, not a frame of pandas")
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str) or names.count(name) > 1:
            raise ValueError(f"{what} has a column {name!r}: names must be different texts")
    return names


def _named(columns: Any, what: str) -> dict[str, str]:
    """The column for each name."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        return dict(columns)
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise ValueError(f"{what}={columns!r} must be a list of columns, or a dictionary")
    return {name: name for name in columns}


def _as_array(values: Any) -> npt.NDArray[Any]:
    """A column as NumPy has it; pandas' own kinds of numbers as those of NumPy."""
    kind = getattr(values.dtype, "numpy_dtype", None)
    if kind is not None and not values.isna().any():
        return np.asarray(values.to_numpy(dtype=kind))
    return np.asarray(values.to_numpy())


def _values(frame: Any, column: str, what: str) -> npt.NDArray[Any]:
    """The numbers of a column."""
    if column not in frame.columns:
        names = ", ".join(frame.columns)
        raise ValueError(f"{what} has no column {column!r}; it has {names}")
    values = frame[column]
    if values.isna().any() and values.dtype.kind not in "f":
        raise ValueError(f"{what} has gaps in column {column!r}: fill them, or drop the records")
    array = _as_array(values)
    if array.dtype.kind not in "iufb":
        raise ValueError(
            f"{what} has {values.dtype} in column {column!r}: convert it to numbers of a unit that "
            f"you choose, such as frame[{column!r}].astype('category').cat.codes"
        )
    return array


def edges_of_frame(frame: Any, edge_attrs: Any) -> Any:
    """The edges of a frame, and its attributes by name.

    Parameters
    ----------
    frame : pandas.DataFrame
    edge_attrs : list of str, or dict of str to str, or None
        As in `graphzero.build`.

    Raises
    ------
    TypeError
        If it is no frame.
    ValueError
        If a column does not exist, or has no numbers.
    """
    names = _check_frame(frame, "edges")
    attributes = _named(edge_attrs, "edge_attrs")
    values = {name: _values(frame, column, "edges") for name, column in attributes.items()}
    rest = [name for name in names if name not in attributes.values()]
    if not rest:
        raise ValueError("edges has no columns of sources and targets")

    def chunks() -> Iterator[dict[str, npt.NDArray[Any]]]:
        for begin in range(0, max(1, len(frame)), _RECORDS):
            part = frame.iloc[begin : begin + _RECORDS]
            yield {name: _as_array(part[name]) for name in rest}

    return {"edge_index": chunks, **values}


def nodes_of_frame(
    frame: Any,
    *,
    features: Sequence[str] | None,
    labels: str | None,
    node_attrs: Any,
    id_column: str | None,
) -> tuple[dict[str, Any], list[str]]:
    """Attributes of nodes by name, in the order of the nodes; and the columns that are not used.

    Raises
    ------
    TypeError
        If it is no frame.
    ValueError
        If it does not have exactly one record for each node from 0.
    """
    names = _check_frame(frame, "nodes")
    key, order = _order(frame, names, id_column)
    found: dict[str, Any] = {}
    used = [] if key is None else [key]
    if features is not None:
        columns = [features] if isinstance(features, str) else list(features)
        used += columns
        rows = [_values(frame, column, "nodes") for column in columns]
        if not rows:
            raise ValueError("features=[] names no columns")
        found["x"] = np.stack(rows, axis=1)[order]
    if labels is not None:
        used.append(labels)
        found["y"] = _values(frame, labels, "nodes")[order]
    for name, column in _named(node_attrs, "node_attrs").items():
        if name in found:
            raise ValueError(f"node_attrs has {name!r}, which features or labels are already")
        used.append(column)
        found[name] = _values(frame, column, "nodes")[order]
    return found, [name for name in names if name not in used]


def _order(
    frame: Any, names: list[str], id_column: str | None
) -> tuple[str | None, npt.NDArray[np.intp]]:
    """The column of ids, None for the index; and the record of each node."""
    known = [names[index] for index in find_known(names, IDS)]
    if id_column is None and len(known) > 1:
        raise ValueError(f"nodes has {' and '.join(known)}: name one of them with id_column=")
    key = id_column if id_column is not None else (known[0] if known else None)
    where = "the index of nodes" if key is None else f"column {key!r} of nodes"
    ids = np.asarray(frame.index) if key is None else _values(frame, key, "nodes")
    if ids.dtype.kind not in "iu":
        raise ValueError(
            f"{where} has {ids.dtype}, and node ids are integers from 0: number them, as in "
            f"pandas.factorize, in the edges as well"
        )
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    wrong = np.flatnonzero(ordered != np.arange(len(ids)))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(
            f"{where} must have each of 0 to {len(ids) - 1} once: {at} is not there or "
            f"{ordered[at]} is too much; reset_index(drop=True) takes the records in their order"
        )
    return key, order
