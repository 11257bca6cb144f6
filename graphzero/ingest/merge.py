"""Parallel edges, self-loops and both directions of edges: decided in sorted keys.

Equal edges lie side by side there. What is found is kept by the positions of edges: which were
merged into which earlier ones, and which were dropped. The edge list is then read without these,
and the attributes of the edges that stay are replaced by those of all edges that were merged.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from graphzero.ingest.edges import EdgeColumn, EdgeList
from graphzero.ingest.options import WriteOptions
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
from graphzero.store.manifest import EDGE_TIME, EDGE_WEIGHT, Driving, EdgeChanges, EdgeType

How = Literal["equal", "sum", "mean", "min", "max", "first", "last"]
Array = npt.NDArray[Any]
_AGGREGATIONS = ("sum", "mean", "min", "max", "first", "last")
_WAYS = ", ".join(f"'{name}'" for name in _AGGREGATIONS)
_POSITION = np.dtype(np.uint64)
_CHUNK = 1 << 14
_MOST_SAMPLED = 1 << 16
_WORK_BYTES = 128  # of each number while rows are merged: sums, copies, indices
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


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
    coalesce: Any = False, drop_self_loops: Any = False, reverse: Any = False
) -> MergeOptions:
    """The options of one edge list, checked.

    Raises
    ------
    ValueError
        For values that these options cannot have.
    """
    one: str | None = None
    by_name: dict[str, str] = {}
    merges = True
    if isinstance(coalesce, Mapping):
        for name, how in coalesce.items():
            if not isinstance(name, str):
                raise ValueError(
                    f"coalesce names {name!r}: it is a dictionary by attribute, such as "
                    f"{{'edge_weight': 'sum'}}"
                )
            by_name[name] = _aggregation(how, f"coalesce[{name!r}]")
    elif isinstance(coalesce, str):
        one = _aggregation(coalesce, "coalesce")
    else:
        more = f", one of {_WAYS}, or a dictionary of these by attribute"
        merges = _flag(coalesce, "coalesce", more)
    drop = _flag(drop_self_loops, "drop_self_loops")
    return MergeOptions(merges, one, by_name, drop, _flag(reverse, "reverse"))


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


def typed_merge_options(
    types: Collection[EdgeType],
    coalesce: Any = False,
    drop_self_loops: Any = False,
    reverse: Any = False,
) -> dict[EdgeType, MergeOptions]:
    """The options of each edge type; any of them may be a dictionary by edge type.

    Raises
    ------
    ValueError
        Also for edge types that do not exist, or have no self-loops.
    """
    if reverse is not False and not isinstance(reverse, Mapping):
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
        drop, same = dropping[edge_type], edge_type[0] == edge_type[2]
        if isinstance(drop_self_loops, Mapping) and drop is True and not same:
            raise ValueError(
                f"drop_self_loops names {edge_type!r}, which leads from one node type to another: "
                f"it has no self-loops"
            )
        drop = drop and same if isinstance(drop, bool) else drop
        found[edge_type] = merge_options(merging[edge_type], drop, reversing[edge_type])
    return found


def _by_edge_type(value: Any, option: str, types: Collection[EdgeType]) -> dict[EdgeType, Any]:
    """A dictionary by edge type; a value of another kind is for all of them."""
    if not isinstance(value, Mapping) or not any(isinstance(key, tuple) for key in value):
        return dict.fromkeys(types, value)
    for key in value:
        if key not in types:
            raise ValueError(
                f"{option} names {key!r}, which is none of the edge types "
                f"{', '.join(map(repr, types))}"
            )
    return {edge_type: value.get(edge_type, False) for edge_type in types}


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
        The aggregation of each attribute.
    driving : Driving
    locate : callable
        From the position of an edge to its place in the input, in words.
    """

    options: MergeOptions
    how: dict[str, How]
    driving: Driving
    locate: Callable[[int], str]

    def columns(self, edges: EdgeList) -> list[tuple[str, str, EdgeColumn]]:
        """Field, name and column of the weights and times."""
        weight, time = self.driving.weight or EDGE_WEIGHT, self.driving.time or EDGE_TIME
        columns = (("weight", weight, edges.weight), ("time", time, edges.time))
        return [(of, name, column) for of, name, column in columns if column is not None]

    def how_of(self, name: str) -> How:
        """Without `coalesce`, both directions of an edge must have equal attributes."""
        return self.how[name] if self.options.coalesce else "equal"


def merging_of(
    options: MergeOptions,
    attributes: Mapping[str, Any],
    has_weights: bool,
    has_times: bool,
    driving: Driving,
    locate: Callable[[int], str],
) -> Merging:
    """What the options mean for the edges of one type.

    Raises
    ------
    ValueError
        For the mean of integers.
    """
    dtypes = {name: np.dtype(rows.dtype) for name, rows in attributes.items()}
    weight, time = driving.weight or EDGE_WEIGHT, driving.time or EDGE_TIME
    dtypes |= {weight: np.dtype(np.float32)} if has_weights else {}
    dtypes |= {time: np.dtype(np.int64)} if has_times else {}
    how: dict[str, How] = {}
    for name, dtype in dtypes.items():
        chosen = options.by_name.get(name)
        if chosen is None and not (has_times and name == time and options.one in ("sum", "mean")):
            chosen = options.one
        if chosen == "mean" and dtype.kind in "iu":
            raise ValueError(
                f"coalesce='mean' needs a float attribute; {name!r} is {dtype_name(dtype)}. Give "
                f"{name!r} as floats, or choose another aggregation of it, such as "
                f"coalesce={{{name!r}: 'sum'}}"
            )
        how[name] = cast(How, chosen or "equal")
    return Merging(options, how, driving, locate)


# Which edges become one


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

    @property
    def mostly(self) -> bool:
        """Whether at least half have their reverse, and not all."""
        return self.num_edges <= 2 * self.num_reversed < 2 * self.num_edges

    def __str__(self) -> str:
        if self.exact:
            return f"{self.num_reversed:,} of {self.num_edges:,} edges"
        return f"about {100 * self.num_reversed / self.num_edges:.3g} % of the edges"


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


def sampled_directions(edges: EdgeList) -> Directions:
    """How many edges have their reverse, by a sample of pairs of ends with all of their edges."""
    keys, up = np.empty(0, np.uint64), np.empty(0, np.bool_)
    limit, exact = np.uint32(0xFFFFFFFF), True
    sample, count = [(keys, up)], 0
    for begin in range(0, edges.num_records, _CHUNK):
        source, target = edges.read(begin, begin + _CHUNK, "source", "target")
        chosen = (_hash(source, target) <= limit) & (source != target)
        source, target = source[chosen], target[chosen]
        sample.append((_keys(source, target), source < target))
        count += len(source)
        while count > _MOST_SAMPLED and limit:
            limit, exact = limit >> np.uint32(1), False
            keys, up = (np.concatenate(arrays) for arrays in zip(*sample, strict=True))
            stays = _hash((keys >> _HALF).astype(np.uint32), keys.astype(np.uint32)) <= limit
            sample, count = [(keys[stays], up[stays])], int(np.count_nonzero(stays))
    keys, up = (np.concatenate(arrays) for arrays in zip(*sample, strict=True))
    pairs, of_pair = np.unique(keys, return_inverse=True)
    ups = np.bincount(of_pair[up], minlength=len(pairs))
    downs = np.bincount(of_pair[~up], minlength=len(pairs))
    return Directions(len(keys), 2 * int(np.minimum(ups, downs).sum()), exact)


class MergedEdges:
    """The edges that are not stored, by their positions in the edge list.

    Attributes
    ----------
    position, kept : (M,) uint64
        Edges that were merged into an earlier one, ascending, and that earlier one.
    first : (G,) uint64
        The earlier ones, ascending, each once.
    dropped : (D,) uint64
        Self-loops that were dropped, ascending.
    num_loops : int
        Self-loops among the edges that stay.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self._folder = folder
        self._memory = memory
        self._found = [TempColumn(folder, _POSITION, memory // 16) for _ in range(2)]
        self._firsts = TempColumn(folder, _POSITION, memory // 16)
        self._dropped = TempColumn(folder, _POSITION, memory // 16)
        self.position = self.kept = self.first = self.dropped = np.empty(0, _POSITION)
        self.num_loops = 0

    def add(self, position: Array, kept: Array, first: Array) -> None:
        """Takes merged edges, and those that begin a group of equal ones."""
        self._found[0].append(position)
        self._found[1].append(kept)
        self._firsts.append(first)

    def drop(self, positions: Array) -> None:
        """Takes edges that are dropped, in ascending order."""
        self._dropped.append(positions)

    def finish(self) -> None:
        """Sorts what was taken."""
        self.position, self.kept = sorted_columns(self._folder, self._found, self._memory)
        (self.first,) = sorted_columns(self._folder, [self._firsts], self._memory)
        (self.dropped,) = sorted_columns(self._folder, [self._dropped], self._memory)

    def close(self) -> None:
        """Frees disk space."""
        for column in (*self._found, self._firsts, self._dropped):
            column.close()

    def removed(self) -> Array:
        """All edges that are not stored, ascending."""
        if not len(self.dropped) or not len(self.position):
            return self.position if len(self.position) else self.dropped
        both = TempColumn(self._folder, _POSITION, self._memory // 16)
        for array in (self.position, self.dropped):
            for begin in range(0, len(array), _CHUNK):
                both.append(array[begin : begin + _CHUNK])
        return sorted_columns(self._folder, [both], self._memory)[0]

    def group_of(self, begin: int, end: int) -> tuple[Array, Array]:
        """Of the positions [begin, end) that belong to a group: positions, first ones of groups
        before others, and the number of their group.
        """
        low, high = np.searchsorted(self.first, np.array([begin, end], _POSITION)).tolist()
        start, stop = np.searchsorted(self.position, np.array([begin, end], _POSITION)).tolist()
        position = np.concatenate([self.first[low:high], self.position[start:stop]])
        others = np.searchsorted(self.first, self.kept[start:stop])
        return position, np.concatenate([np.arange(low, high), others])

    def remap(self, positions: TempColumn, memory: int, split: str) -> TempColumn:
        """Positions of stored edges, for those of a split: of one stored edge the first, once."""
        if not len(self.position) and not len(self.dropped):
            return positions
        found = TempColumn(self._folder, np.int64, memory)
        seen = temp_array(self._folder, len(self.first), np.bool_, memory)
        moved = left_out = 0
        for begin in range(0, len(positions), _CHUNK):
            chunk = positions.read(begin, min(begin + _CHUNK, len(positions))).astype(_POSITION)
            stays = ~_find(self.dropped, chunk)[0]
            left_out += len(chunk) - int(np.count_nonzero(stays))
            merged, at = _find(self.position, chunk)
            moved += int(np.count_nonzero(merged))
            if len(self.kept):
                chunk = np.where(merged, self.kept[at], chunk)
            in_group, group = _find(self.first, chunk)
            again = in_group.copy()
            again[in_group] = seen[group[in_group]]
            indices = np.flatnonzero(in_group & ~again)
            _, firsts = np.unique(group[indices], return_index=True)
            stays &= ~in_group
            stays[indices[firsts]] = True
            seen[group[in_group]] = True
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


def _sorted_edges(
    folder: Path, edges: EdgeList, merged: MergedEdges, merging: Merging, memory: int, advance: Any
) -> Iterator[tuple[Array, Array, Array]]:
    """Keys, positions, and whether an edge leads to the larger id; dropped self-loops left out."""
    dtypes = [_POSITION, np.dtype(np.bool_)]
    run = run_length(dtypes, memory)
    with closing(EdgeSorter(folder, dtypes, memory)) as sorter:
        for begin in range(0, edges.num_records, run):
            sorter.spill()
            source, target = edges.read(begin, begin + run, "source", "target")
            position = np.arange(begin, begin + len(source), dtype=_POSITION)
            if merging.options.drop_self_loops:
                stays = source != target
                merged.drop(position[~stays])
                source, target, position = source[stays], target[stays], position[stays]
            if len(position):
                keys = _keys(source, target, undirected=not edges.directed)
                sorter.add(keys, (position, source < target))
            advance(len(source))
        for keys, (position, up) in sorted_pieces(sorter):
            yield keys, position, up


def _find_parallel(
    blocks: Iterable[tuple[Array, Array, Array]], merged: MergedEdges
) -> tuple[Directions, int]:
    """Merges the edges of each key; how many had their reverse, and how many stay."""
    last, kept, alone = None, np.empty(0, _POSITION), False  # of the group before
    ways = np.zeros((1, 2), np.int64)
    num_edges = num_reversed = num_kept = 0
    for keys, position, up in blocks:
        starts = np.ones(len(keys), np.bool_)
        starts[1:] = keys[1:] != keys[:-1]
        starts[0] = last is None or int(keys[0]) != last
        last = int(keys[-1])
        firsts = np.concatenate([kept[: int(not starts[0])], position[starts]])
        of_group = firsts[np.cumsum(starts) - int(starts[0])]
        begins_group = np.concatenate([[alone], starts[:-1]]) & ~starts  # the second of a group
        merged.add(position[~starts], of_group[~starts], of_group[begins_group])
        kept, alone = firsts[-1:], bool(starts[-1])
        num_kept += int(np.count_nonzero(starts))
        loops = (keys >> _HALF) == (keys & _LOW)
        merged.num_loops += int(np.count_nonzero(loops & starts))
        at = np.flatnonzero(starts) if starts[0] else np.insert(np.flatnonzero(starts), 0, 0)
        sums = np.add.reduceat(np.stack([up, ~up & ~loops], 1).astype(np.int64), at, axis=0)
        if starts[0]:
            sums = np.concatenate([ways, sums])
        else:
            sums[0] += ways[0]
        num_edges += int(sums[:-1].sum())
        num_reversed += 2 * int(sums[:-1].min(axis=1).sum())
        ways = sums[-1:]
    num_edges, num_reversed = num_edges + int(ways.sum()), num_reversed + 2 * int(ways.min())
    return Directions(num_edges, num_reversed), num_kept


def _find_pairs(blocks: Iterable[tuple[Array, Array, Array]], merged: MergedEdges) -> bool:
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
        merged.add(np.maximum(first[:count], second[:count]), kept, kept)
        rest = [(ups[count:], first[count:]), (downs[count:], second[count:])]
        # What has none yet must be of the last key, of which there may be more edges.
        late = rest[0][0] if len(rest[0][0]) else rest[1][0]
        if not np.array_equal(ups[:count], downs[:count]) or (len(late) and late[0] != keys[-1]):
            return False
    return not len(rest[0][0]) and not len(rest[1][0])


# Attributes of merged edges


class _RowsDiffer(Exception):
    """Two rows of a group differ that must be equal: their positions, and numbers that differ."""

    def __init__(self, positions: tuple[int, int], values: tuple[Any, Any]) -> None:
        super().__init__(positions, values)
        self.positions, self.values = positions, values


def _conflict(merging: Merging, name: str, error: _RowsDiffer) -> ValueError:
    first, second = error.positions
    places = merging.locate(first), merging.locate(second)
    values = f"{error.values[0]} and {error.values[1]}"
    if merging.options.coalesce:
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


def _differ(rows: Array, others: Array) -> npt.NDArray[np.bool_]:
    """Which numbers differ; NaN is equal to NaN."""
    rows, others = as_numbers(rows), as_numbers(others)
    found: npt.NDArray[np.bool_] = rows != others
    if rows.dtype.kind == "f":
        found &= ~(np.isnan(rows) & np.isnan(others))
    return found


class _Aggregate:
    """Merges the rows of each group; the first one of a group comes first.

    Sums of integers are exact, sums of floats are made in float64, row by row: no result depends
    on the sizes of the pieces. The state is in memory, or mapped from temporary files where it is
    large.
    """

    def __init__(
        self,
        folder: Path,
        how: How,
        dtype: np.dtype[Any],
        width: int,
        name: str,
        first: Array,
        memory: int,
    ) -> None:
        self._how = how
        self._dtype = dtype
        self._name = name
        self._first = first
        empty = self._state_of(np.empty((0, width), dtype))
        self._state = [
            temp_array(folder, len(first) * part.shape[1], part.dtype, memory // 4).reshape(
                len(first), part.shape[1]
            )
            for part in empty
        ]

    def add(self, group: Array, position: Array, rows: Array) -> None:
        """Takes rows, those of a group in the order of their positions."""
        begins = position == self._first[group]
        for part, values in zip(self._state, self._state_of(rows[begins]), strict=True):
            part[group[begins]] = values
        group, position, rows = group[~begins], position[~begins], rows[~begins]
        if not len(group):
            return
        if self._how == "equal":
            self._compare(group, position, rows)
        elif self._how == "last":
            self._state[0][group] = rows  # of repeated indices, NumPy keeps the last
        elif self._how != "first":
            ufuncs: tuple[np.ufunc, ...] = (np.add, np.logical_or, np.add)
            if self._how in ("min", "max"):
                ufuncs = (np.minimum if self._how == "min" else np.maximum,)
            elif self._dtype.kind in "iu":
                ufuncs = (np.add, np.add)
            with np.errstate(over="ignore", invalid="ignore"):
                for ufunc, part, values in zip(
                    ufuncs, self._state, self._state_of(rows), strict=True
                ):
                    width = part.shape[1]  # ufunc.at is fast over flat arrays
                    at = group[:, np.newaxis] * width + np.arange(width)
                    ufunc.at(part.reshape(-1), at.reshape(-1), values.reshape(-1))

    def _state_of(self, rows: Array) -> list[Array]:
        if self._how == "sum" and self._dtype.kind in "iu":
            # high * 2^32 + low, so that 2^31 of them can be added without overflow
            if rows.dtype == np.uint64:
                return [(rows >> _HALF).astype(np.int64), (rows & _LOW).astype(np.int64)]
            wide = rows.astype(np.int64)
            return [wide >> 32, wide & np.int64(0xFFFFFFFF)]
        if self._how in ("sum", "mean"):
            numbers = as_numbers(rows).astype(np.float64)
            return [numbers, np.isinf(numbers), np.ones((len(rows), 1), np.int64)]
        return [as_numbers(rows)] if self._how in ("min", "max") else [rows]

    def _compare(self, group: Array, position: Array, rows: Array) -> None:
        different = _differ(rows, self._state[0][group])
        if different.any():
            at, column = np.argwhere(different)[0].tolist()
            values = as_numbers(self._state[0][group[at : at + 1]])[0, column]
            other = as_numbers(rows[at : at + 1])[0, column]
            raise _RowsDiffer((int(self._first[group[at]]), int(position[at])), (values, other))

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
            found, misfit = _sums(state[0], state[1], self._dtype)
        else:
            total, infinite, count = state
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


def _sums(
    high: npt.NDArray[np.int64], low: npt.NDArray[np.int64], dtype: np.dtype[Any]
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Sums from their halves, and which of them do not fit."""
    high, low = high + (low >> 32), low & np.int64(0xFFFFFFFF)
    signed = dtype != np.uint64
    most = 1 << (31 if signed else 32)
    misfit = (high < (-most if signed else 0)) | (high >= most)
    wide: Array = (high.astype(np.uint64) << _HALF) | low.astype(np.uint64)
    if signed:
        wide = wide.view(np.int64)
        bounds = np.iinfo(dtype)
        misfit |= (wide < bounds.min) | (wide > bounds.max)
    return wide.astype(dtype), misfit


class Replaced:
    """The rows of all groups of merged edges, which replace those of their first edges."""

    def __init__(self, folder: Path, first: Array, dtype: np.dtype[Any], width: int) -> None:
        self._first = first
        self._dtype = dtype
        self._width = width
        self._values = TempColumn(folder, np.uint8, 1 << 20)

    def append(self, rows: Array) -> None:
        """Takes the rows of the next groups."""
        self._values.append(np.ascontiguousarray(rows).view(np.uint8).reshape(-1))

    def into(self, rows: Array, begin: int) -> Array:
        """Rows of the edges from `begin` on, with those of merged edges replaced."""
        span = np.array([begin, begin + len(rows)], _POSITION)
        low, high = np.searchsorted(self._first, span).tolist()
        if low == high:
            return rows
        size = self._width * self._dtype.itemsize
        values = self._values.read(low * size, high * size).view(self._dtype)
        found = rows.copy()
        found[(self._first[low:high] - np.uint64(begin)).astype(np.intp)] = values.reshape(
            high - low, *rows.shape[1:]
        )
        return found

    def close(self) -> None:
        """Frees disk space."""
        self._values.close()


def _merged_values(
    folder: Path,
    chunks: Iterable[Array],
    how: How,
    dtype: np.dtype[Any],
    width: int,
    name: str,
    merged: MergedEdges,
    memory: int,
) -> tuple[Replaced | None, int]:
    """Merges rows, (n, width) in the order of the edge list; also counts the rows."""
    aggregate = _Aggregate(folder, how, dtype, width, name, merged.first, memory)
    begin = 0
    for chunk in chunks:
        position, group = merged.group_of(begin, begin + len(chunk))
        rows = chunk[(position - np.uint64(begin)).astype(np.intp)]
        aggregate.add(group, position, rows)
        begin += len(chunk)
    if how == "equal":
        return None, begin
    out = Replaced(folder, merged.first, dtype, width)
    try:
        for at in range(0, len(merged.first), _CHUNK):
            out.append(aggregate.result(at, at + _CHUNK))
    except BaseException:
        out.close()
        raise
    return out, begin


class _ReplacedColumn:
    """A column of edges with the values of merged edges replaced."""

    def __init__(self, column: EdgeColumn, replaced: Replaced) -> None:
        self.dtype = column.dtype
        self._column = column
        self._replaced = replaced

    def __len__(self) -> int:
        return len(self._column)

    def read(self, begin: int, end: int) -> Array:
        """Values [begin, end)."""
        return self._replaced.into(self._column.read(begin, end), begin)

    def close(self) -> None:
        """Frees memory and disk space."""
        self._column.close()
        self._replaced.close()


# All of it


@dataclass(frozen=True)
class Prepared:
    """An edge list that is ready for the sort into neighbour lists, and what was done to it."""

    edges: EdgeList
    attributes: dict[str, Any]
    changes: EdgeChanges
    merged: MergedEdges | None = None

    def remap(self, positions: TempColumn, memory: int, split: str) -> TempColumn:
        """Positions of stored edges, from positions in the edge list; `write_split` calls it."""
        return positions if self.merged is None else self.merged.remap(positions, memory, split)

    def close(self) -> None:
        """Frees memory and disk space."""
        self.edges.close()
        for rows in self.attributes.values():
            if rows.replaced is not None:
                rows.replaced.close()


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
    wanted, memory = merging.options, options.sort_memory
    changes = EdgeChanges(reversed=wanted.reverse)
    if wanted.reverse:
        source, target = edges.target, edges.source
        edges = replace(edges, source=source, target=target, max_ids=edges.max_ids[::-1])
    directions = Directions()
    if not edges.directed and not wanted.coalesce:
        directions = sampled_directions(edges)
    drops = wanted.drop_self_loops and edges.num_loops > 0
    if wanted.drop_self_loops:
        changes = replace(changes, num_self_loops_dropped=edges.num_loops)
    if not (wanted.coalesce or drops or directions.may_be_symmetric):
        _warn_of_reverse(directions)
        return Prepared(edges, dict(attributes), changes)
    merged, message = MergedEdges(folder, memory), ""
    phase = options.progress.phase
    try:
        if wanted.coalesce:
            with phase("merging edges", edges.num_records, "edges") as advance:
                blocks = _sorted_edges(folder, edges, merged, merging, memory, advance)
                directions, num_kept = _find_parallel(blocks, merged)
            dropped = edges.num_loops if drops else 0
            changes = replace(changes, num_merged=edges.num_records - dropped - num_kept)
            if not edges.directed and directions.may_be_symmetric:
                changes = replace(changes, symmetric=True)
                summed = [name for name, how in merging.how.items() if how == "sum"]
                added = f", and {', '.join(summed)} of both directions are added" if summed else ""
                message = (
                    f"the edge list has both directions of every edge, and directed=False makes "
                    f"them one edge: they were merged{added}. directed=True keeps the directions "
                    f"apart"
                )
        else:
            merged.num_loops = 0 if drops else edges.num_loops
            if directions.may_be_symmetric:
                with phase("pairing edges", edges.num_records, "edges") as advance:
                    blocks = _sorted_edges(folder, edges, merged, merging, memory, advance)
                    symmetric = _find_pairs(blocks, merged)
                    changes = replace(changes, symmetric=symmetric)
                if not symmetric:
                    merged.close()
                    _warn_of_reverse(replace(directions, exact=False))
                    if not drops:
                        return Prepared(edges, dict(attributes), changes)
                    _drop_loops(edges, merged)
            else:
                _warn_of_reverse(directions)
                _drop_loops(edges, merged)
        merged.finish()
        if changes.symmetric and not wanted.coalesce:
            message = (
                f"the edge list has both directions of each of its {len(merged.first):,} "
                f"undirected edges, which directed=False adds by itself: each was stored once. "
                f"directed=True stores the list as it is, without this warning"
            )
        columns, rows = _merged_attributes(folder, edges, attributes, merging, merged, options)
    finally:
        merged.close()
    if message:
        _warn(message)
    edges = replace(edges, removed=merged.removed(), num_loops=merged.num_loops)
    if "weight" in columns:
        edges = replace(edges, weight=columns["weight"])
    if "time" in columns:
        edges = replace(edges, time=columns["time"])
    return Prepared(edges, rows, changes, merged)


def _warn_of_reverse(directions: Directions) -> None:
    if directions.mostly or directions.may_be_symmetric:
        _warn(
            f"{directions} have their reverse in the edge list as well, and the others do not. "
            f"directed=False adds the reverse of every edge, so that such pairs are stored twice, "
            f"as parallel edges: coalesce=True stores each once, directed=True stores the list as "
            f"it is"
        )


def _drop_loops(edges: EdgeList, merged: MergedEdges) -> None:
    for begin in range(0, edges.num_records, _CHUNK):
        source, target = edges.read(begin, begin + _CHUNK, "source", "target")
        merged.drop(np.flatnonzero(source == target).astype(_POSITION) + np.uint64(begin))


def _merged_attributes(
    folder: Path,
    edges: EdgeList,
    attributes: Mapping[str, Any],
    merging: Merging,
    merged: MergedEdges,
    options: WriteOptions,
) -> tuple[dict[str, EdgeColumn], dict[str, Any]]:
    """Weights and times, and the other attributes, with those of merged edges merged."""
    columns: dict[str, EdgeColumn] = {}
    found = dict(attributes)
    if not len(merged.first):
        return columns, found
    memory, num_edges = options.rows_memory, edges.num_records

    def merge(chunks: Iterator[Array], name: str, dtype: Any, width: int) -> tuple[Any, int]:
        how = merging.how_of(name)
        try:
            return _merged_values(folder, chunks, how, dtype, width, name, merged, memory // 2)
        except _RowsDiffer as error:
            raise _conflict(merging, name, error) from None

    try:
        for of, name, column in merging.columns(edges):
            if merging.how_of(name) != "first":
                replaced, _ = merge(_chunks_of(column), name, column.dtype, 1)
                if replaced is not None:
                    columns[of] = _ReplacedColumn(column, replaced)
        with options.progress.phase("merging attributes", len(found), "attributes") as advance:
            for name, rows in attributes.items():
                if merging.how_of(name) != "first":
                    max_rows = max(1, memory // (_WORK_BYTES * (1 + rows.width)))
                    chunks = (chunk for _, chunk in rows.chunks(max_rows))
                    replaced, count = merge(chunks, name, rows.dtype, rows.width)
                    found[name] = rows.with_replaced(replaced)
                    if count != num_edges:
                        raise ValueError(
                            f"{rows.name} has {count} rows for {num_edges} edges: every edge "
                            f"needs one"
                        )
                advance(1)
    except BaseException:
        for column in columns.values():
            column.close()
        for name in found:
            if found[name] is not attributes[name] and found[name].replaced is not None:
                found[name].replaced.close()
        raise
    return columns, found


def _chunks_of(column: EdgeColumn) -> Iterator[Array]:
    for begin in range(0, len(column), _CHUNK):
        yield column.read(begin, min(begin + _CHUNK, len(column)))[:, np.newaxis]
