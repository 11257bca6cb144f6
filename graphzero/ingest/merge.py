"""Parallel edges, self-loops and both directions of edges: decided in sorted keys.

Equal edges lie side by side there. What is found is kept by the positions of edges: which were
merged into which earlier ones, and which were dropped. The edge list is then read without these,
and the attributes of the edges that stay are replaced by those of all edges that were merged.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from graphzero.ingest.edges import EdgeColumn, EdgeList
from graphzero.ingest.options import Advance, WriteOptions
from graphzero.ingest.rows import as_numbers, round_to
from graphzero.ingest.sort import (
    EdgeSorter,
    TempColumn,
    run_length,
    sorted_columns,
    sorted_pieces,
    temp_array,
)
from graphzero.store.format import dtype_name
from graphzero.store.manifest import EDGES, Driving, EdgeChanges, EdgeType

How = Literal["equal", "sum", "mean", "min", "max", "first", "last"]
Array = npt.NDArray[Any]
_AGGREGATIONS = ("sum", "mean", "min", "max", "first", "last")
_WAYS = ", ".join(f"'{name}'" for name in _AGGREGATIONS)
_POSITION = np.dtype(np.uint64)
_CHUNK = 1 << 14
_SAMPLED = 1 << 16  # edges, about
_WORK_BYTES = 128  # of each number while rows are merged: sums, copies, indices
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)  # in place of an edge


# Options


@dataclass(frozen=True)
class MergeOptions:
    """The options `coalesce`, `drop_self_loops` and `reverse` for one edge list.

    `one` is the aggregation of all attributes that `by_name` does not have; None: they must be
    equal.
    """

    coalesce: bool = False
    one: str | None = None
    by_name: dict[str, str] = field(default_factory=dict)
    drop_self_loops: bool = False
    reverse: bool = False


def merge_options(
    types: Collection[EdgeType],
    coalesce: Any = False,
    drop_self_loops: Any = False,
    reverse: Any = False,
) -> dict[EdgeType, MergeOptions]:
    """The options of each edge type; in a typed graph any may be a dictionary by edge type.

    Raises
    ------
    ValueError
        For values that these options cannot have, and for edge types that do not exist, or have no
        self-loops.
    """
    if EDGES not in types and reverse is not False and not isinstance(reverse, Mapping):
        example = next(iter(types))
        raise ValueError(
            f"reverse={reverse!r}: name the edge types of a typed graph whose lists have the "
            f"target first: reverse={{{example!r}: True}}. For messages the other way, add "
            f"another edge type: ({example[2]!r}, 'rev_{example[1]}', {example[0]!r})"
        )
    merging = _by_edge_type(coalesce, "coalesce", types)
    dropping = _by_edge_type(drop_self_loops, "drop_self_loops", types)
    reversing = _by_edge_type(reverse, "reverse", types)
    found: dict[EdgeType, MergeOptions] = {}
    for edge_type in types:
        drops = _flag(dropping[edge_type], "drop_self_loops")
        if drops and edge_type[0] != edge_type[2]:
            if isinstance(drop_self_loops, Mapping):
                raise ValueError(
                    f"drop_self_loops names {edge_type!r}, which leads from one node type to "
                    f"another: it has no self-loops"
                )
            drops = False
        merges, one, by_name = _aggregations(merging[edge_type])
        reverses = _flag(reversing[edge_type], "reverse")
        found[edge_type] = MergeOptions(merges, one, by_name, drops, reverses)
    return found


def _by_edge_type(value: Any, option: str, types: Collection[EdgeType]) -> dict[EdgeType, Any]:
    """A dictionary by edge type; a value of another kind is for all of them."""
    by_type = isinstance(value, Mapping) and any(isinstance(key, tuple) for key in value)
    if EDGES in types or not by_type:
        return dict.fromkeys(types, value)
    for key in value:
        if key not in types:
            raise ValueError(
                f"{option} names {key!r}, which is none of the edge types "
                f"{', '.join(map(repr, types))}"
            )
    return {edge_type: value.get(edge_type, False) for edge_type in types}


def _aggregations(coalesce: Any) -> tuple[bool, str | None, dict[str, str]]:
    """Whether edges are merged; the aggregation of all attributes, and those by name."""
    if isinstance(coalesce, str):
        return True, _aggregation(coalesce, "coalesce"), {}
    if not isinstance(coalesce, Mapping):
        more = f", one of {_WAYS}, or a dictionary of these by attribute"
        return _flag(coalesce, "coalesce", more), None, {}
    for name in coalesce:
        if not isinstance(name, str):
            raise ValueError(
                f"coalesce names {name!r}: it is a dictionary by attribute, such as "
                f"{{'edge_weight': 'sum'}}"
            )
    by_name = {name: _aggregation(how, f"coalesce[{name!r}]") for name, how in coalesce.items()}
    return True, None, by_name


def _flag(value: Any, option: str, more: str = "") -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{option}={value!r} must be True or False{more}")
    return bool(value)


def _aggregation(value: Any, option: str) -> str:
    if isinstance(value, str) and value in _AGGREGATIONS:
        return value
    hints = {"any": "; 'first' takes one of the values", "add": "; 'sum' adds"}
    hint = hints.get(value, "") if isinstance(value, str) else ""
    raise ValueError(f"{option} must be one of {_WAYS}, not {value!r}{hint}")


def check_attributes(options: Iterable[MergeOptions], names: Collection[str]) -> None:
    """Raises a ValueError for an aggregation of an attribute that no edges have."""
    for name in dict.fromkeys(name for one in options for name in one.by_name):
        if name not in names:
            there = f"there are {', '.join(sorted(names))}" if names else "there are none"
            raise ValueError(f"coalesce: there is no edge attribute {name!r}; {there}")


@dataclass(frozen=True)
class Merging:
    """What is done to one edge list, and what messages need.

    Attributes
    ----------
    options : MergeOptions
    how : dict of str to str
        The aggregation of each attribute, weights and times among them.
    driving : Driving
    locate : callable
        From the position of an edge to its place in the input, in words.
    """

    options: MergeOptions
    how: dict[str, How]
    driving: Driving
    locate: Callable[[int], str]

    def how_of(self, name: str) -> How:
        """Without `coalesce`, both directions of an edge must have equal attributes."""
        return self.how[name] if self.options.coalesce else "equal"

    def conflict(self, name: str, positions: tuple[int, int], values: str) -> ValueError:
        """The error for two edges that become one, and of which an attribute differs."""
        first, second = positions
        if self.options.coalesce:
            what = "would be merged, because they have the same ends"
            way = f"coalesce={{{name!r}: 'sum'}} (or another of {_WAYS}) merges them"
            other = "coalesce=False keeps parallel edges"
        else:
            what = "are the two directions of one undirected edge"
            way = f"directed=True keeps both directions, each with its own {name!r}"
            other = f"coalesce={{{name!r}: 'mean'}} (or 'first', 'max', 'sum', ...) merges them"
        return ValueError(
            f"{self.locate(first)} and {self.locate(second)} (edges {first} and {second}) {what}, "
            f"and their {name!r} differs: {values}. {way}; {other}"
        )


def merging_of(
    options: MergeOptions,
    attributes: Mapping[str, Any],
    driving: Driving,
    locate: Callable[[int], str],
) -> Merging:
    """What the options mean for the edges of one type.

    Raises
    ------
    ValueError
        For the mean of integers, and for sums of booleans.
    """
    dtypes = {name: np.dtype(rows.dtype) for name, rows in attributes.items()}
    time = driving.time if driving.time_level == "edge" else None
    if driving.weight is not None:
        dtypes[driving.weight] = np.dtype(np.float32)
    if time is not None:
        dtypes[time] = np.dtype(np.int64)
    how: dict[str, How] = {}
    for name, dtype in dtypes.items():
        chosen = options.by_name.get(name)
        if chosen is None and not (name == time and options.one in ("sum", "mean")):
            chosen = options.one
        if chosen in ("sum", "mean") and dtype == np.bool_:
            raise ValueError(
                f"coalesce={chosen!r} needs numbers; {name!r} is bool. Give {name!r} as numbers, "
                f"or choose coalesce={{{name!r}: 'max'}}, which is true where one is"
            )
        if chosen == "mean" and dtype.kind in "iu":
            raise ValueError(
                f"coalesce='mean' needs a float attribute; {name!r} is {dtype_name(dtype)}. Give "
                f"{name!r} as floats, or choose another aggregation of it, such as "
                f"coalesce={{{name!r}: 'sum'}}"
            )
        how[name] = cast(How, chosen or "equal")
    return Merging(options, how, driving, locate)


# Which edges become one


def _keys(source: Array, target: Array, undirected: bool = True) -> npt.NDArray[np.uint64]:
    """The ends of each edge in 64 bits: the smaller one first if the direction does not matter."""
    low, high = source, target
    if undirected:
        low, high = np.minimum(source, target), np.maximum(source, target)
    keys: npt.NDArray[np.uint64] = low.astype(np.uint64)
    keys <<= _HALF
    keys |= high
    return keys


def _hash(source: Array, target: Array) -> npt.NDArray[np.uint32]:
    """A number of 32 bits for each pair of ends, whichever way the edge leads."""
    found = (source + target) * np.uint32(0x9E3779B1)
    found ^= found >> np.uint32(15)
    found += (source ^ target) * np.uint32(0x85EBCA6B)
    found ^= found >> np.uint32(13)
    found *= np.uint32(0xC2B2AE35)
    return found


@dataclass(frozen=True)
class Directions:
    """How many of some edges have their reverse among them; a part of all unless `exact`."""

    num_edges: int = 0
    num_reversed: int = 0
    exact: bool = True

    @property
    def may_be_symmetric(self) -> bool:
        """Whether every one of them has its reverse."""
        return 0 < self.num_edges == self.num_reversed

    def __str__(self) -> str:
        if self.exact:
            return f"{self.num_reversed:,} of {self.num_edges:,} edges"
        return f"about {100 * self.num_reversed / self.num_edges:.3g} % of the edges"


def sampled_directions(edges: EdgeList) -> Directions:
    """How many edges have their reverse, by a sample of pairs of ends with all of their edges."""
    share = min(1.0, _SAMPLED / max(1, edges.num_records))
    limit = np.uint32(share * 0xFFFFFFFF)
    sample = [np.empty((2, 0), np.uint64)]  # both ends, and how many edges there are
    for begin in range(0, edges.num_records, _CHUNK):
        source, target = edges.read(begin, begin + _CHUNK, "source", "target")
        chosen = (_hash(source, target) <= limit) & (source != target)
        keys = _keys(source[chosen], target[chosen], undirected=False)
        sample.append(np.stack(np.unique(keys, return_counts=True)).astype(np.uint64))
    keys, counts = np.concatenate(sample, axis=1)
    source, target = keys >> _HALF, keys & _LOW
    pairs, of_pair = np.unique(_keys(source, target), return_inverse=True)
    ups, downs = np.zeros((2, len(pairs)), np.int64)
    np.add.at(ups, of_pair[source < target], counts[source < target].astype(np.int64))
    np.add.at(downs, of_pair[source > target], counts[source > target].astype(np.int64))
    return Directions(
        int(ups.sum() + downs.sum()), 2 * int(np.minimum(ups, downs).sum()), share == 1
    )


class MergedEdges:
    """The edges that are not stored, by their positions in the edge list.

    Attributes
    ----------
    removed, kept : (M,) uint64
        Edges that are not stored, ascending, and the earlier one that each of them was merged into;
        `_NONE` for a self-loop that was dropped.
    first : (G,) uint64
        The earlier ones, ascending, each once: every one stands for a group of edges.
    num_merged : int
    num_loops : int
        Self-loops among the edges that stay.
    """

    def __init__(self, folder: Path, memory: int, num_loops: int) -> None:
        self._folder = folder
        self._memory = memory
        self._found = [TempColumn(folder, _POSITION, memory // 16) for _ in range(3)]
        self.removed = self.kept = self.first = np.empty(0, _POSITION)
        self.num_merged = 0
        self.num_loops = num_loops

    def merge(self, positions: Array, kept: Array, first: Array) -> None:
        """Takes edges, those that they are merged into, and which of these begin a group."""
        for column, found in zip(self._found, (positions, kept, first), strict=True):
            column.append(found)
        self.num_merged += len(positions)

    def drop(self, positions: Array) -> None:
        """Takes self-loops that are dropped."""
        self._found[0].append(positions)
        self._found[1].append(np.full(len(positions), _NONE))
        self.num_loops -= len(positions)

    def finish(self) -> None:
        """Sorts what was taken."""
        self.removed, self.kept = sorted_columns(self._folder, self._found[:2], self._memory)
        (self.first,) = sorted_columns(self._folder, self._found[2:], self._memory)

    def close(self) -> None:
        """Frees disk space."""
        for column in self._found:
            column.close()

    def group_of(self, begin: int, end: int) -> tuple[Array, Array]:
        """Of the positions [begin, end) that belong to a group: positions, first ones of groups
        before others, and the number of their group.
        """
        span = np.array([begin, end], _POSITION)
        low, high = np.searchsorted(self.first, span).tolist()
        start, stop = np.searchsorted(self.removed, span).tolist()
        merged = self.kept[start:stop] != _NONE
        others = np.searchsorted(self.first, self.kept[start:stop][merged])
        position = np.concatenate([self.first[low:high], self.removed[start:stop][merged]])
        return position, np.concatenate([np.arange(low, high), others])

    def remap(self, positions: TempColumn, memory: int, split: str) -> TempColumn:
        """Positions of stored edges, for those of a split: of one stored edge the first, once."""
        if not len(self.removed):
            return positions
        found = TempColumn(self._folder, np.int64, memory)
        seen = temp_array(self._folder, len(self.first), np.bool_, memory)
        moved = left_out = 0
        for begin in range(0, len(positions), _CHUNK):
            chunk = positions.read(begin, min(begin + _CHUNK, len(positions))).astype(_POSITION)
            removed, at = _find(self.removed, chunk)
            chunk[removed] = self.kept[at[removed]]
            dropped = chunk == _NONE
            left_out += int(np.count_nonzero(dropped))
            moved += int(np.count_nonzero(removed & ~dropped))
            in_group, group = _find(self.first, chunk)
            new = np.flatnonzero(in_group)
            new = new[~seen[group[new]]]
            groups, at = np.unique(group[new], return_index=True)
            seen[groups] = True
            stays = ~in_group & ~dropped
            stays[new[at]] = True
            found.append(chunk[stays])
        positions.close()
        if moved or left_out:
            _warn(
                f"{split}: of its positions, {moved:,} named an edge that was merged into an "
                f"earlier one, and were replaced by that of the earlier one, once each; "
                f"{left_out:,} named a self-loop that was dropped, and were left out"
            )
        return found


def _find(ascending: Array, numbers: Array) -> tuple[Array, Array]:
    """Whether each number is there, and where."""
    if not len(ascending):
        return np.zeros(len(numbers), np.bool_), np.zeros(len(numbers), np.int64)
    at = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return ascending[at] == numbers, at


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)


Block = tuple[npt.NDArray[np.uint64], Array, npt.NDArray[np.bool_]]


def _sorted_edges(
    folder: Path, edges: EdgeList, merged: MergedEdges, drops: bool, memory: int, advance: Advance
) -> Iterator[Block]:
    """Keys, positions, and whether an edge leads to the larger id; dropped self-loops left out."""
    dtypes = [_POSITION, np.dtype(np.bool_)]
    run = run_length(dtypes, memory)
    with closing(EdgeSorter(folder, dtypes, memory)) as sorter:
        for begin in range(0, edges.num_records, run):
            sorter.spill()
            source, target = edges.read(begin, begin + run, "source", "target")
            position = np.arange(begin, begin + len(source), dtype=_POSITION)
            if drops:
                stays = source != target
                merged.drop(position[~stays])
                source, target, position = source[stays], target[stays], position[stays]
            if len(position):
                keys = _keys(source, target, undirected=not edges.directed)
                sorter.add(keys, (position, source < target))
            advance(len(source))
        for keys, (position, up) in sorted_pieces(sorter, _CHUNK):
            yield keys, position, up


def _merge_parallel(blocks: Iterable[Block], merged: MergedEdges) -> bool:
    """Merges the edges of each key; whether both directions of every key are equally many."""
    key, kept = np.empty(0, np.uint64), np.empty(0, _POSITION)  # the last group, of earlier blocks
    balance, alone, symmetric = np.empty(0, np.int64), True, True
    for keys, position, up in blocks:
        loops = (keys >> _HALF) == (keys & _LOW)
        ways = up.astype(np.int64) - (~up & ~loops)
        balance = np.concatenate([balance, balance.sum() + np.cumsum(ways)])
        keys, position = np.concatenate([key, keys]), np.concatenate([kept, position])
        starts = np.ones(len(keys), np.bool_)
        starts[1:] = keys[1:] != keys[:-1]
        symmetric &= not balance[:-1][starts[1:]].any()
        firsts = position[starts][np.cumsum(starts) - 1]
        begins_group = starts[:-1] & ~starts[1:]
        begins_group[:1] &= alone
        merged.merge(position[~starts], firsts[~starts], position[:-1][begins_group])
        merged.num_loops -= int(np.count_nonzero(loops & ~starts[-len(loops) :]))
        key, kept, balance, alone = keys[-1:], firsts[-1:], balance[-1:], bool(starts[-1])
    return symmetric and not balance.any()


def _merge_pairs(blocks: Iterable[Block], merged: MergedEdges) -> bool:
    """Merges both directions of every edge, the n-th one up with the n-th one down of each key.

    Returns whether all edges but self-loops have a partner.
    """
    rest = [(np.empty(0, np.uint64), np.empty(0, _POSITION))] * 2  # without a partner so far
    for keys, position, up in blocks:
        down = ~up & ((keys >> _HALF) != (keys & _LOW))
        (ups, first), (downs, second) = (
            (np.concatenate([before[0], keys[way]]), np.concatenate([before[1], position[way]]))
            for before, way in zip(rest, (up, down), strict=True)
        )
        count = min(len(ups), len(downs))
        kept = np.minimum(first[:count], second[:count])
        merged.merge(np.maximum(first[:count], second[:count]), kept, kept)
        rest = [(ups[count:], first[count:]), (downs[count:], second[count:])]
        # What has none yet must be of the last key, of which there may be more edges.
        late = rest[0][0] if len(rest[0][0]) else rest[1][0]
        if not np.array_equal(ups[:count], downs[:count]) or (len(late) and late[0] != keys[-1]):
            return False
    return not len(rest[0][0]) and not len(rest[1][0])


# Attributes of merged edges


class _Aggregate:
    """Merges the rows of each group; the first one of a group comes first.

    Sums of integers are exact, sums of floats are made in float64, row by row: no result depends
    on the sizes of the pieces. The state is in memory, or mapped from temporary files where it is
    large.
    """

    def __init__(
        self,
        folder: Path,
        merging: Merging,
        name: str,
        dtype: np.dtype[Any],
        width: int,
        first: Array,
        memory: int,
    ) -> None:
        self._merging = merging
        self._how = merging.how_of(name)
        self._name = name
        self._dtype = dtype
        self._first = first
        self._state = [
            temp_array(folder, len(first) * part.shape[1], part.dtype, memory // 4).reshape(
                len(first), part.shape[1]
            )
            for part in self._state_of(np.empty((0, width), dtype))
        ]

    def add(self, group: Array, position: Array, rows: Array) -> None:
        """Takes rows, those of a group in the order of their positions."""
        begins = position == self._first[group]
        for part, values in zip(self._state, self._state_of(rows[begins]), strict=True):
            part[group[begins]] = values
        group, position, rows = group[~begins], position[~begins], rows[~begins]
        if self._how == "equal":
            self._compare(group, position, rows)
        elif self._how == "last":
            self._state[0][group] = rows  # of repeated indices, NumPy keeps the last
        else:
            ufuncs: tuple[np.ufunc, ...] = (np.add, np.add, np.logical_or)
            if self._how in ("min", "max"):
                ufuncs = (np.minimum if self._how == "min" else np.maximum,)
            with np.errstate(over="ignore", invalid="ignore"):
                for ufunc, part, values in zip(
                    ufuncs, self._state, self._state_of(rows), strict=False
                ):
                    width = part.shape[1]  # ufunc.at is fast over flat arrays
                    at = group[:, np.newaxis] * width + np.arange(width)
                    ufunc.at(part.reshape(-1), at.reshape(-1), values.reshape(-1))

    def _state_of(self, rows: Array) -> list[Array]:
        if self._how not in ("sum", "mean"):
            return [as_numbers(rows)] if self._how in ("min", "max") else [rows]
        if self._dtype.kind in "iu":  # sums that wrap around, and about how large they are
            return [rows.astype(np.uint64 if rows.dtype == np.uint64 else np.int64), rows * 1.0]
        numbers = as_numbers(rows).astype(np.float64)
        return [numbers, np.ones((len(rows), 1), np.int64), np.isinf(numbers)]

    def _compare(self, group: Array, position: Array, rows: Array) -> None:
        kept, rows = as_numbers(self._state[0][group]), as_numbers(rows)
        different = rows != kept
        if rows.dtype.kind == "f":
            different &= ~(np.isnan(rows) & np.isnan(kept))
        if different.any():
            at, column = np.argwhere(different)[0].tolist()
            positions = int(self._first[group[at]]), int(position[at])
            values = f"{kept[at, column]} and {rows[at, column]}"
            raise self._merging.conflict(self._name, positions, values)

    def result(self, begin: int, end: int) -> Array:
        """A row for each of some groups.

        Raises
        ------
        ValueError
            If one does not fit the dtype.
        """
        state = [part[begin:end] for part in self._state]
        if self._how in ("min", "max"):
            return round_to(state[0], self._dtype)
        if self._how not in ("sum", "mean"):
            return state[0]
        if self._dtype.kind in "iu":
            total, about = state
            bounds = np.iinfo(self._dtype)
            found = total.astype(self._dtype)
            misfit = (total < bounds.min) | (total > bounds.max)
            misfit |= np.abs(total.astype(np.float64) - about) > 2.0**62  # it has wrapped around
        else:
            total, count, infinite = state
            found = round_to(total / count if self._how == "mean" else total, self._dtype)
            misfit = np.isinf(as_numbers(found)) & ~infinite
        if misfit.any():
            at = self._first[begin + int(np.argwhere(misfit)[0, 0])]
            raise ValueError(
                f"coalesce: the {self._how} of {self._name!r} over edge {at} and those "
                f"that are merged with it does not fit {dtype_name(self._dtype)}: give "
                f"{self._name!r} in a wider dtype, or choose another aggregation, such as 'max'"
            )
        return found


@dataclass(frozen=True)
class MergedRows:
    """A row for each group of merged edges, which replaces that of its first edge."""

    first: Array
    rows: Array

    def into(self, rows: Array, begin: int) -> Array:
        """Rows of the edges from `begin` on, with those of merged edges replaced."""
        span = np.array([begin, begin + len(rows)], _POSITION)
        low, high = np.searchsorted(self.first, span).tolist()
        if low == high:
            return rows
        found = rows.copy()
        at = (self.first[low:high] - np.uint64(begin)).astype(np.intp)
        found[at] = self.rows[low:high].reshape(high - low, *rows.shape[1:])
        return found


def _merge_attributes(
    folder: Path,
    edges: EdgeList,
    attributes: Mapping[str, Any],
    merging: Merging,
    merged: MergedEdges,
    options: WriteOptions,
) -> tuple[EdgeList, dict[str, Any]]:
    """The list and its other attributes, with the rows of merged edges merged."""
    memory = options.rows_memory

    def merge(name: str, dtype: Any, width: int, chunks: Iterable[Array]) -> MergedRows | None:
        aggregate = _Aggregate(folder, merging, name, dtype, width, merged.first, memory // 2)
        begin = 0
        for chunk in chunks:
            position, group = merged.group_of(begin, begin + len(chunk))
            rows = chunk[(position - np.uint64(begin)).astype(np.intp)]
            if len(group):
                aggregate.add(group, position, rows)
            begin += len(chunk)
        if merging.how_of(name) == "equal":
            return None
        count = len(merged.first)
        found = temp_array(folder, count * width, dtype, 1 << 20).reshape(count, width)
        for begin in range(0, count, _CHUNK):
            found[begin : begin + _CHUNK] = aggregate.result(begin, begin + _CHUNK)
        return MergedRows(merged.first, found)

    replaced: dict[str, MergedRows] = {}
    columns = (merging.driving.weight, edges.weight), (merging.driving.time, edges.time)
    for field_of, (name, column) in zip(("weight", "time"), columns, strict=True):
        if name is not None and column is not None and merging.how_of(name) != "first":
            found = merge(name, column.dtype, 1, _chunks_of(column))
            replaced |= {} if found is None else {field_of: found}
    rows_of = dict(attributes)
    with options.progress.phase("merging attributes", len(rows_of), "attributes") as advance:
        for name, rows in attributes.items():
            if merging.how_of(name) != "first":
                max_rows = max(1, memory // (_WORK_BYTES * (1 + rows.width)))
                chunks = (chunk for _, chunk in rows.chunks(max_rows))
                rows_of[name] = rows.with_replaced(merge(name, rows.dtype, rows.width, chunks))
            advance(1)
    return replace(edges, replaced=replaced), rows_of


def _chunks_of(column: EdgeColumn) -> Iterator[Array]:
    for begin in range(0, len(column), _CHUNK):
        yield column.read(begin, min(begin + _CHUNK, len(column)))[:, np.newaxis]


# All of it


@dataclass(frozen=True)
class Prepared:
    """An edge list that is ready for the sort into neighbour lists, and what was done to it."""

    edges: EdgeList
    attributes: dict[str, Any]
    changes: EdgeChanges
    merged: MergedEdges


def prepare_edges(
    folder: Path,
    edges: EdgeList,
    attributes: Mapping[str, Any],
    merging: Merging,
    options: WriteOptions,
) -> Prepared:
    """Does with an edge list what the options say; without them, looks for symmetric lists.

    Raises
    ------
    ValueError
        If attributes of edges that become one differ, and nothing says how they are merged.
    """
    wanted, memory, undirected = merging.options, options.sort_memory, not edges.directed
    if wanted.reverse:
        source, target = edges.target, edges.source
        edges = replace(edges, source=source, target=target, max_ids=edges.max_ids[::-1])
    drops = wanted.drop_self_loops and edges.num_loops > 0
    directions, symmetric = Directions(), False
    if undirected and not wanted.coalesce:
        directions = sampled_directions(edges)
    with ExitStack() as temporary:
        merged = temporary.enter_context(closing(MergedEdges(folder, memory, edges.num_loops)))
        if wanted.coalesce or directions.may_be_symmetric:
            with options.progress.phase("merging edges", edges.num_records, "edges") as advance:
                blocks = _sorted_edges(folder, edges, merged, drops, memory, advance)
                merge = _merge_parallel if wanted.coalesce else _merge_pairs
                symmetric = merge(blocks, merged) and undirected
                symmetric &= edges.num_loops < edges.num_records
        if not (wanted.coalesce or symmetric):
            _warn_of_reverse(directions)
            merged = temporary.enter_context(closing(MergedEdges(folder, memory, edges.num_loops)))
            for begin in range(0, edges.num_records if drops else 0, _CHUNK):
                ends = edges.read(begin, begin + _CHUNK, "source", "target")
                merged.drop(np.flatnonzero(ends[0] == ends[1]).astype(_POSITION) + np.uint64(begin))
        merged.finish()
        rows = dict(attributes)
        if len(merged.first):
            edges, rows = _merge_attributes(folder, edges, attributes, merging, merged, options)
    if symmetric and wanted.coalesce:
        summed = [name for name, how in merging.how.items() if how == "sum"]
        added = f", and {', '.join(summed)} of both directions are added" if summed else ""
        _warn(
            f"the edge list has both directions of every edge, and directed=False makes them one "
            f"edge: they were merged{added}. directed=True keeps the directions apart"
        )
    elif symmetric:
        _warn(
            f"the edge list has both directions of each of its {len(merged.first):,} undirected "
            f"edges, which directed=False adds by itself: each was stored once. directed=True "
            f"stores the list as it is, without this warning"
        )
    changes = EdgeChanges(
        merged.num_merged if wanted.coalesce else None,
        edges.num_loops if wanted.drop_self_loops else None,
        wanted.reverse,
        symmetric,
    )
    if len(merged.removed):
        edges = replace(edges, removed=merged.removed, num_loops=merged.num_loops)
    return Prepared(edges, rows, changes, merged)


def _warn_of_reverse(directions: Directions) -> None:
    if 0 < directions.num_edges <= 2 * directions.num_reversed:
        _warn(
            f"{directions} have their reverse in the edge list as well, and the others do not. "
            f"directed=False adds the reverse of every edge, so that such pairs are stored twice, "
            f"as parallel edges: coalesce=True stores each once, directed=True stores the list as "
            f"it is"
        )
