"""What merging passes write: groups of sorted edges as one edge each, in a new edge list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.aggregation import Groups, How, RowsDiffer
from graphzero.ingest.edges import EdgeColumn, EdgeList
from graphzero.ingest.merge_plan import MergePlan
from graphzero.ingest.merged_edges import MergedEdges
from graphzero.ingest.spill import TempColumn
from graphzero.ingest.symmetry import (
    Directions,
)
from graphzero.store.format import id_dtype
from graphzero.store.schema import EDGE_TIME, EDGE_WEIGHT, Driving

__all__ = ["EdgeGroups", "Merging", "Output", "conflict", "ends_of_keys"]

_CHUNK = 1 << 16
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_POSITION = np.dtype(np.uint64)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Merging:
    """What is to be done with an edge list, and what messages need.

    Attributes
    ----------
    plan : MergePlan
    driving : Driving
        Names of the weight and the time.
    locate : callable
        From the position of an edge to its place in the input, in words.
    has_positions : bool
        Whether something else is found by the positions of edges: attributes or splits.
    """

    plan: MergePlan
    driving: Driving
    locate: Callable[[int], str]
    has_positions: bool

    def names(self, edges: EdgeList) -> list[tuple[str, EdgeColumn]]:
        """The columns of an edge list that drive sampling, with their names."""
        weight, time = self.driving.weight or EDGE_WEIGHT, self.driving.time or EDGE_TIME
        columns = ((weight, edges.weight), (time, edges.time))
        return [(name, column) for name, column in columns if column is not None]

    def how(self, name: str) -> How:
        """Of an attribute; without `coalesce`, both directions of an edge must have the same."""
        return self.plan.how[name] if self.plan.coalesce else "equal"


def conflict(merging: Merging, name: str, error: RowsDiffer) -> ValueError:
    """The error about two edges that become one and have different attributes."""
    first, second = error.positions
    places = merging.locate(first), merging.locate(second)
    values = f"{error.values[0]} and {error.values[1]}"
    if merging.plan.coalesce:
        what = "would be merged, because they have the same ends"
        way = f"coalesce={{{name!r}: 'sum'}} (or 'mean', 'min', 'max', 'first', 'last') merges them"
        other = "coalesce=False keeps parallel edges"
    else:
        what = "are the two directions of one undirected edge"
        way = f"directed=True keeps both directions, each with its own {name!r}"
        other = f"coalesce={{{name!r}: 'mean'}} (or 'first', 'max', 'sum', ...) merges them"
    return ValueError(
        f"{places[0]} and {places[1]} (edges {first} and {second}) {what}, and their {name!r} "
        f"differs: {values}. {way}; {other}"
    )


class Output:
    """The columns of a new edge list.

    Parameters
    ----------
    folder : pathlib.Path
    edges : EdgeList
        The earlier one.
    num_edges : int
        Of the earlier one.
    memory : int
        Bytes that the columns may take.
    """

    def __init__(self, folder: Path, edges: EdgeList, num_edges: int, memory: int) -> None:
        dtypes = [np.dtype(np.uint32), np.dtype(np.uint32)]
        dtypes += [column.dtype for column in (edges.weight, edges.time) if column is not None]
        dtypes += [id_dtype(num_edges)] * edges.with_edge_ids
        total = sum(dtype.itemsize for dtype in dtypes)
        self._columns = [TempColumn(folder, one, memory * one.itemsize // total) for one in dtypes]
        self._edges = edges
        self._num_edges = num_edges
        self._num_loops = 0

    def add(self, source: Array, target: Array, position: Array, driving: list[Array]) -> None:
        """Takes edges; `driving` are the weights and the times that they have."""
        values = [source, target, *driving, *([position] * self._edges.with_edge_ids)]
        for column, array in zip(self._columns, values, strict=True):
            column.append(array)
        self._num_loops += int(np.count_nonzero(source == target))

    def finish(self) -> EdgeList:
        """The new edge list; the nodes are those of the earlier one."""
        edges, (source, target, *others) = self._edges, self._columns
        optional = iter(others)
        return replace(
            edges,
            source=source,
            target=target,
            weight=None if edges.weight is None else next(optional),
            time=None if edges.time is None else next(optional),
            position=next(optional) if edges.with_edge_ids else None,
            num_loops=self._num_loops,
            num_user_edges=self._num_edges,
        )

    def close(self) -> None:
        """Frees memory and disk space."""
        for column in self._columns:
            column.close()


class EdgeGroups:
    """Sorted edges become one edge for each group of equal keys.

    Parameters
    ----------
    merging : Merging
    driving : list of (str, dtype)
        Names and dtypes of the columns that drive sampling.
    new : Output
    merged : MergedEdges or None
    """

    def __init__(
        self,
        merging: Merging,
        driving: list[tuple[str, np.dtype[Any]]],
        new: Output,
        merged: MergedEdges | None,
    ) -> None:
        self._new = new
        self._merging = merging
        self._merged = merged
        one = np.dtype(np.uint64)
        self._names = [name for name, _ in driving]
        self._ends = Groups("first", one, 1, "ends")
        self._first = Groups("first", one, 1, "position")
        self._ways = Groups("sum", np.dtype(np.int64), 2, "directions")
        self._driving = [Groups(merging.how(name), dtype, 1, name) for name, dtype in driving]
        self._last: int | None = None  # the key before
        self._kept = np.empty(0, np.uint64)  # the first edge of the group that is not finished
        self._num_edges = self._num_reversed = 0

    def add(self, keys: Array, position: Array, up: Array, driving: list[Array]) -> None:
        """Takes edges, by ascending key; `up` says which lead to the larger id."""
        starts = np.ones(len(keys), np.bool_)
        starts[1:] = keys[1:] != keys[:-1]
        starts[0] = self._last is None or int(keys[0]) != self._last
        self._last = int(keys[-1])
        if self._merged is not None:
            firsts = np.concatenate([self._kept[: int(not starts[0])], position[starts]])
            kept = firsts[np.cumsum(starts) - int(starts[0])]
            self._merged.add(kept[~starts], position[~starts])
            self._kept = firsts[-1:]
        source, target = ends_of_keys(keys)
        ways = np.stack([up, ~up & (source != target)], axis=1).astype(np.int64)
        self._write(
            self._ends.add(starts, position, keys[:, np.newaxis]),
            self._first.add(starts, position, position[:, np.newaxis]),
            self._ways.add(starts, position, ways),
            [
                self._merge(name, groups, starts, position, values)
                for name, groups, values in zip(self._names, self._driving, driving, strict=True)
            ],
        )

    def finish(self) -> Directions:
        """Writes the last edge; returns how many edges had their reverse."""
        driving = [groups.finish() for groups in self._driving]
        self._write(self._ends.finish(), self._first.finish(), self._ways.finish(), driving)
        return Directions(self._num_edges, self._num_reversed)

    def _merge(
        self, name: str, groups: Groups, starts: Array, position: Array, values: Array
    ) -> Array:
        try:
            return groups.add(starts, position, values[:, np.newaxis])
        except RowsDiffer as error:
            raise conflict(self._merging, name, error) from None

    def _write(self, keys: Array, first: Array, ways: Array, driving: list[Array]) -> None:
        self._num_edges += int(ways.sum())
        self._num_reversed += 2 * int(ways.min(axis=1).sum())
        self._new.add(*ends_of_keys(keys[:, 0]), first[:, 0], [values[:, 0] for values in driving])


def ends_of_keys(keys: Array) -> tuple[Array, Array]:
    """Both ends of edges, from keys that have them in their halves."""
    return (keys >> _HALF).astype(np.uint32), (keys & _LOW).astype(np.uint32)
