"""A naive version of what a build does to an edge list before it sorts it: one edge at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Differ(Exception):
    """Merged edges have different values, and nothing says what to do: (name, two positions)."""


@dataclass
class Merged:
    """The edges that are stored, in the order of their positions in the edge list."""

    edges: np.ndarray[Any, Any]
    positions: np.ndarray[Any, Any]
    attributes: dict[str, np.ndarray[Any, Any]]
    kept_of: dict[int, int | None] = field(default_factory=dict)  # None: dropped
    num_merged: int = 0
    symmetric: bool = False


def is_symmetric(edges: Any) -> bool:
    """Whether every edge that is no self-loop has its reverse, each equally often."""
    pairs = [(int(u), int(v)) for u, v in np.asarray(edges).reshape(-1, 2) if u != v]
    return bool(pairs) and Counter(pairs) == Counter((v, u) for u, v in pairs)


def aggregate(values: list[Any], how: str, dtype: np.dtype[Any]) -> Any:
    """Rows of one dtype and shape; `OverflowError` if the result does not fit."""
    if how in ("first", "equal"):
        return values[0]
    if how == "last":
        return values[-1]
    rows = np.array([np.asarray(value).reshape(-1) for value in values], dtype)
    found = []
    for column in rows.T.tolist():
        total = column[0]
        for value in column[1:]:
            total = {"min": min, "max": max}.get(how, lambda a, b: a + b)(total, value)
        found.append(total / len(column) if how == "mean" else total)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        if any(not bounds.min <= value <= bounds.max for value in found):
            raise OverflowError
    return np.array(found).astype(dtype).reshape(np.shape(values[0]))


def _groups(rows: list[tuple[int, int, int]], directed: bool) -> list[list[int]]:
    """Positions of the edges with the same ends."""
    found: dict[Any, list[int]] = {}
    for i, u, v in rows:
        found.setdefault((u, v) if directed else (min(u, v), max(u, v)), []).append(i)
    return list(found.values())


def _pairs(rows: list[tuple[int, int, int]]) -> list[list[int]]:
    """Positions of both directions of each edge; a self-loop is alone."""
    ways: dict[Any, tuple[list[int], list[int]]] = {}
    loops = [[i] for i, u, v in rows if u == v]
    for i, u, v in rows:
        if u != v:
            ways.setdefault((min(u, v), max(u, v)), ([], []))[u > v].append(i)
    both = [sorted(pair) for up, down in ways.values() for pair in zip(up, down, strict=True)]
    return both + loops


def merge(
    edges: Any,
    attributes: dict[str, np.ndarray[Any, Any]],
    *,
    directed: bool = True,
    coalesce: bool = False,
    how: dict[str, str] | None = None,
    drop_self_loops: bool = False,
    reverse: bool = False,
) -> Merged:
    """What `graphzero.build` stores; attributes without an aggregation must be equal."""
    ends = [(int(u), int(v)) for u, v in np.asarray(edges).reshape(-1, 2)]
    if reverse:
        ends = [(v, u) for u, v in ends]
    rows = [(i, u, v) for i, (u, v) in enumerate(ends)]
    kept_of: dict[int, int | None] = {}
    if drop_self_loops:
        kept_of |= {i: None for i, u, v in rows if u == v}
        rows = [(i, u, v) for i, u, v in rows if u != v]
    symmetric = not directed and is_symmetric([(u, v) for _, u, v in rows])
    if coalesce:
        groups = _groups(rows, directed)
    else:
        groups = _pairs(rows) if symmetric else [[i] for i, _, _ in rows]
    groups.sort()
    found: dict[str, list[Any]] = {name: [] for name in attributes}
    for group in groups:
        kept_of |= {i: group[0] for i in group}
        for name, values in attributes.items():
            one = (how or {}).get(name, "equal") if coalesce else "equal"
            for i in group if one == "equal" else []:
                if not np.array_equal(values[i], values[group[0]]):
                    raise Differ(name, group[0], i)
            found[name].append(aggregate([values[i] for i in group], one, values.dtype))
    stored = [ends[group[0]] for group in groups]
    stored = stored if directed else [(min(pair), max(pair)) for pair in stored]
    return Merged(
        np.array(stored, np.int64).reshape(-1, 2),
        np.array([group[0] for group in groups], np.int64),
        {
            name: np.array(rows_, values.dtype).reshape(len(groups), *values.shape[1:])
            for (name, values), rows_ in zip(attributes.items(), found.values(), strict=True)
        },
        kept_of,
        sum(len(group) - 1 for group in groups),
        symmetric,
    )


def remap(split: list[int], merged: Merged) -> list[int]:
    """Positions of stored edges: of the positions that one edge was merged from, the first."""
    sizes = Counter(merged.kept_of.values())
    found: list[int] = []
    for i in split:
        kept = merged.kept_of[i]
        if kept is not None and not (sizes[kept] > 1 and kept in found):
            found.append(kept)
    return found
