"""Parallel edges, self-loops and both directions of edges: decided in sorted keys.

Equal edges lie side by side there. What is found is kept by the positions of edges: which were
merged into which earlier ones, and which were dropped. The edge list is then read without these,
and the attributes of the edges that stay are replaced by those of all edges that were merged.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.errors import warn_user
from graphzero.ingest import sort
from graphzero.ingest.edges import EdgeColumn, EdgeList
from graphzero.ingest.options import WriteOptions, by_type
from graphzero.ingest.rows import MergedRows, Rows, as_numbers, classes_of, round_to, span_of
from graphzero.ingest.sort import Array
from graphzero.store.format import dtype_name
from graphzero.store.manifest import EDGES, EdgeChanges, EdgeType, SampledBy

_AGGREGATIONS = ("sum", "mean", "min", "max", "first", "last")
_WAYS = ", ".join(f"'{name}'" for name in _AGGREGATIONS)
_POSITION = np.dtype(np.uint64)
_CHUNK = 1 << 14
_SAMPLED = 1 << 16  # edges, about
_WORK_BYTES = 128  # of each number while rows are merged: sums, copies, indices
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)  # in place of an edge
_STATE_BYTES = 1 << 20  # of merged rows in memory; more are mapped
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


# Options


@dataclass(frozen=True)
class Merging:
    """What is done to one edge list, and what messages need.

    Attributes
    ----------
    coalesce, drop_self_loops, reverse : bool
        The options.
    default : str or None
        The aggregation of all attributes that `by_name` does not have; None: they must be equal.
    by_name : dict of str to str
    aggregations : dict of str to str
        That of each attribute, weights and times among them.
    sampled_by : SampledBy
    locate : callable
        From the position of an edge to its place in the input, in words.
    classes : dict of str to list of str
        The names of classes, by attribute.
    """

    coalesce: bool = False
    default: str | None = None
    by_name: dict[str, str] = field(default_factory=dict)
    drop_self_loops: bool = False
    reverse: bool = False
    aggregations: dict[str, str] = field(default_factory=dict)
    sampled_by: SampledBy = field(default_factory=SampledBy)
    locate: Callable[[int], str] = str
    classes: Mapping[str, list[str]] = field(default_factory=dict)

    def of_attributes(
        self, attributes: Mapping[str, Rows], sampled_by: SampledBy, locate: Callable[[int], str]
    ) -> Merging:
        """What the options mean for the edges of one type.

        Raises
        ------
        ValueError
            For the mean of integers, and for sums of booleans; for both of texts.
        """
        classes = classes_of(attributes)
        dtypes = {name: np.dtype(rows.dtype) for name, rows in attributes.items()}
        time = sampled_by.time if sampled_by.time_level == "edge" else None
        if sampled_by.weight is not None:
            dtypes[sampled_by.weight] = np.dtype(np.float32)
        if time is not None:
            dtypes[time] = np.dtype(np.int64)
        aggregations: dict[str, str] = {}
        for name, dtype in dtypes.items():
            chosen = self.by_name.get(name)
            if chosen is None and not (name == time and self.default in ("sum", "mean")):
                chosen = self.default
            kind = "b" if name in classes else dtype.kind
            if kind in {"sum": "b", "mean": "biu"}.get(chosen or "", ""):
                what = "texts" if name in classes else dtype_name(dtype)
                raise ValueError(
                    f"coalesce={chosen!r} is not for {what}: convert {name!r}, or "
                    f"choose another aggregation of it, such as coalesce={{{name!r}: 'max'}}"
                )
            aggregations[name] = chosen or "equal"
        return replace(
            self, aggregations=aggregations, sampled_by=sampled_by, locate=locate, classes=classes
        )

    def conflict(self, name: str, positions: tuple[int, int], values: list[Any]) -> ValueError:
        """The error for two edges that become one, and of which an attribute differs."""
        if name in self.classes:
            values = [self.classes[name][value] for value in values]
        shown = " and ".join(map(str, values))
        places = [f"{self.locate(at)} (edge {at})" for at in positions]
        other = "coalesce=False keeps parallel edges"
        if not self.coalesce:
            other = f"directed=True keeps both directions, each with its own {name!r}"
        return ValueError(
            f"{' and '.join(places)} become one edge, and their {name!r} differs: {shown}. "
            f"coalesce={{{name!r}: 'first'}} (or another of {_WAYS}) merges them; {other}"
        )


def merge_options(
    types: Collection[EdgeType],
    coalesce: Any = False,
    drop_self_loops: Any = False,
    reverse: Any = False,
) -> dict[EdgeType, Merging]:
    """The options of each edge type; in a typed graph any may be a dictionary by edge type.

    Raises
    ------
    ValueError
        For values that these options cannot have, and for edge types that do not exist.
    """
    merging = _options_by_type(coalesce, "coalesce", types)
    dropping = _options_by_type(drop_self_loops, "drop_self_loops", types)
    reversing = _options_by_type(reverse, "reverse", types)
    options: dict[EdgeType, Merging] = {}
    for edge_type in types:
        # Only edges within a node type may be self-loops.
        drops = _flag(dropping[edge_type], "drop_self_loops") and edge_type[0] == edge_type[2]
        merges = merging[edge_type]
        by_name = dict(merges) if isinstance(merges, Mapping) else {}
        default = merges if isinstance(merges, str) else None
        for aggregation in by_name.values() if default is None else [default]:
            if aggregation not in _AGGREGATIONS:
                raise ValueError(f"coalesce must be one of {_WAYS}, not {aggregation!r}")
        if not isinstance(merges, str | Mapping):
            merges = _flag(merges, "coalesce", f", one of {_WAYS}, or by attribute")
        reverses = _flag(reversing[edge_type], "reverse")
        options[edge_type] = Merging(merges is not False, default, by_name, drops, reverses)
    return options


def _options_by_type(value: Any, option: str, types: Collection[EdgeType]) -> dict[EdgeType, Any]:
    """A dictionary by edge type; a value of another kind is for all of them."""
    names_types = isinstance(value, Mapping) and any(isinstance(key, tuple) for key in value)
    if EDGES in types or not names_types:
        return dict.fromkeys(types, value)
    return {**dict.fromkeys(types, False), **by_type(value, f"{option}=", types)}


def _flag(value: Any, option: str, more: str = "") -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{option}={value!r} must be True or False{more}")
    return bool(value)


def check_attributes(options: Iterable[Merging], names: Collection[str]) -> None:
    """Raises a ValueError for an aggregation of an attribute that no edges have."""
    for name in (name for merging in options for name in merging.by_name if name not in names):
        listed = f"there are {', '.join(sorted(names))}" if names else "there are none"
        raise ValueError(f"coalesce: there is no edge attribute {name!r}; {listed}")


# Which edges become one


def _numbered_ends(edges: EdgeList, step: int) -> Iterator[tuple[Array, Array, Array]]:
    """Numbers, sources and targets of all edges, in pieces."""
    for begin in range(0, edges.num_records, step):
        record, source, target = edges.read(begin, begin + step, "record", "source", "target")
        yield record.astype(_POSITION), source, target


def end_keys(source: Array, target: Array, undirected: bool = True) -> npt.NDArray[np.uint64]:
    """The ends of each edge in 64 bits: the smaller one first if the direction does not matter."""
    low, high = source, target
    if undirected:
        low, high = np.minimum(source, target), np.maximum(source, target)
    keys: npt.NDArray[np.uint64] = (low.astype(np.uint64) << _HALF) | high
    return keys


def share_reversed(edges: EdgeList) -> float:
    """Which part of the edges has its reverse: by a sample of pairs of ends, with both directions.

    Self-loops and parallel edges are not counted.
    """
    limit = np.uint64(min(1.0, _SAMPLED / max(1, edges.num_records)) * 0xFFFFFFFF)
    sample = [np.empty(0, np.uint64)]
    for _, source, target in _numbered_ends(edges, _CHUNK):
        hashes = (end_keys(source, target) * _MULTIPLIER) >> _HALF
        chosen = (hashes <= limit) & (source != target)
        sample.append(np.unique(end_keys(source[chosen], target[chosen], undirected=False)))
    keys = np.unique(np.concatenate(sample))
    has_reverse = np.isin((keys << _HALF) | (keys >> _HALF), keys, assume_unique=True)
    return float(has_reverse.mean()) if len(keys) else 0.0


class MergedEdges:
    """Which edges are merged or dropped, by their positions in the edge list.

    Attributes
    ----------
    removed, kept : (M,) uint64
        Edges that are not stored, ascending, and the first one of the group of each, which stays;
        `_NONE` for a self-loop that is dropped.
    first : (G,) uint64
        The first ones, ascending, each once.
    num_merged : int
    num_loops : int
        Self-loops among the edges that stay.
    """

    def __init__(self, folder: Path, memory: int, num_loops: int) -> None:
        self.folder = folder
        self._memory = memory
        self._unsorted = [sort.TempColumn(folder, _POSITION, memory // 16) for _ in range(3)]
        self.removed = self.kept = self.first = np.empty(0, _POSITION)
        self.num_merged = 0
        self.num_loops = num_loops

    def remove(self, positions: Array, kept: Array | np.uint64 = _NONE) -> None:
        """Takes edges that are not stored, in any order, each with the first one of its group."""
        self._unsorted[0].append(positions)
        self._unsorted[1].append(np.broadcast_to(kept, positions.shape))

    def keep(self, first: Array) -> None:
        """Takes the first edges of groups, in any order, each once."""
        self._unsorted[2].append(first)

    def finish(self) -> None:
        """Sorts what was taken."""
        self.removed, self.kept = sort.sorted_columns(self.folder, self._unsorted[:2], self._memory)
        (self.first,) = sort.sorted_columns(self.folder, self._unsorted[2:], self._memory)

    def group_of(self, begin: int, end: int) -> tuple[Array, Array]:
        """Of the positions [begin, end): those that belong to a group, and its number.

        The first ones of groups stand before the others.
        """
        first, others = (span_of(which, begin, end)[0] for which in (self.first, self.removed))
        merged = self.kept[others] != _NONE
        groups = np.searchsorted(self.first, self.kept[others][merged])
        positions = np.concatenate([self.first[first], self.removed[others][merged]])
        return positions, np.concatenate([np.arange(first.start, first.stop), groups])

    def remap(self, positions: sort.TempColumn, memory: int, split: str) -> sort.TempColumn:
        """Positions of stored edges, for those of a split: of one stored edge the first, once."""
        if not len(self.removed):
            return positions
        stored = sort.TempColumn(self.folder, np.int64, memory)
        seen = sort.temp_array(self.folder, len(self.first), np.bool_, memory)
        changed = dropped = 0
        for begin in range(0, len(positions), _CHUNK):
            chunk = positions.read(begin, min(begin + _CHUNK, len(positions))).astype(_POSITION)
            at, removed = _locate(self.removed, chunk)
            changed += int(np.count_nonzero(removed))
            chunk[removed] = self.kept[at[removed]]
            kept = chunk[chunk != _NONE]
            dropped += len(chunk) - len(kept)
            at, is_first = _locate(self.first, kept)
            in_group = np.flatnonzero(is_first)
            groups, first = np.unique(at[in_group], return_index=True)
            stays = ~is_first
            stays[in_group[first]] = ~seen[groups]
            seen[groups] = True
            stored.append(kept[stays])
        positions.close()
        if changed:
            warn_user(
                f"{split}: {changed - dropped:,} of its positions name edges that were merged into "
                f"earlier ones, whose positions it has instead, once each; {dropped:,} name "
                f"self-loops that were dropped"
            )
        return stored


def _locate(ascending: Array, numbers: Array) -> tuple[Array, Array]:
    """Where each number is, and whether it is there."""
    at = np.searchsorted(ascending, numbers)
    return at, np.searchsorted(ascending, numbers, "right") > at


def _paired(folder: Path, edges: EdgeList, memory: int) -> tuple[Array, Array] | None:
    """Positions of all edges to larger ids, and of the same edges in the other direction.

    None if some edge, self-loops apart, has no partner.
    """
    ways = [[sort.TempColumn(folder, np.uint64, memory // 16) for _ in range(2)] for _ in range(2)]
    for position, source, target in _numbered_ends(edges, _CHUNK):
        ends = end_keys(source, target)
        for (keys, positions), way in zip(ways, (source < target, source > target), strict=True):
            chosen = np.flatnonzero(way)
            keys.append(ends[chosen])
            positions.append(position[chosen])
    if len(ways[0][0]) != len(ways[1][0]):
        return None
    (ups, first), (downs, second) = (sort.sorted_columns(folder, way, memory) for way in ways)
    for begin in range(0, len(ups), _CHUNK):
        if not np.array_equal(ups[begin : begin + _CHUNK], downs[begin : begin + _CHUNK]):
            return None
    return first, second


def _merge_parallel(
    edges: EdgeList, merged: MergedEdges, drops: bool, options: WriteOptions
) -> None:
    """Merges the edges of each key into the first one."""
    run = sort.run_length([_POSITION], options.sort_memory)
    sorter = sort.EdgeSorter(merged.folder, [_POSITION], options.sort_memory)
    with options.progress.phase("merging edges", edges.num_records, "edges") as advance:
        for position, source, target in _numbered_ends(edges, run):
            sorter.spill()
            stays = (source != target) | (not drops)
            keys = end_keys(source, target, undirected=not edges.directed)[stays]
            sorter.add(keys, (position[stays],))
            advance(len(source))
    key, kept = np.empty(0, np.uint64), np.empty(0, _POSITION)  # the last edge before
    is_alone = True  # it was not yet told to be in a group
    for keys, (position,) in sort.sorted_pieces(sorter, _CHUNK):
        keys, position = np.concatenate([key, keys]), np.concatenate([kept, position])
        starts = np.ones(len(keys), np.bool_)
        starts[1:] = keys[1:] != keys[:-1]
        firsts = position[starts][np.cumsum(starts) - 1]
        merged.remove(position[~starts], firsts[~starts])
        begins_group = starts[:-1] & ~starts[1:]
        begins_group[: len(key)] &= is_alone
        merged.keep(position[:-1][begins_group])
        loops = (keys >> _HALF) == (keys & _LOW)
        merged.num_loops -= int(np.count_nonzero(loops & ~starts))
        merged.num_merged += int(np.count_nonzero(~starts))
        key, kept, is_alone = keys[-1:], firsts[-1:], bool(starts[-1])


# Attributes of merged edges


def _temp_rows(folder: Path, count: int, width: int, dtype: np.dtype[np.generic]) -> Array:
    return sort.temp_array(folder, count * width, dtype, _STATE_BYTES).reshape(count, width)


class _Aggregate:
    """Merges the rows of each group; the first one of a group comes first.

    Sums of integers are exact, sums of floats are made in float64, row by row: no result depends
    on the sizes of the pieces. The state is in memory, or mapped from temporary files where it is
    large.
    """

    def __init__(
        self, merged: MergedEdges, merging: Merging, name: str, dtype: np.dtype[Any], width: int
    ) -> None:
        self._merging = merging
        self._aggregation = merging.aggregations[name]
        self._name = name
        self._dtype = dtype
        self._first = merged.first
        self._state = [
            _temp_rows(merged.folder, len(self._first), part.shape[1], part.dtype)
            for part in self._state_of(np.empty((0, width), dtype))
        ]

    def add(self, group: Array, position: Array, rows: Array) -> None:
        """Takes rows, those of a group in the order of their positions."""
        begins = position == self._first[group]
        for part, values in zip(self._state, self._state_of(rows[begins]), strict=True):
            part[group[begins]] = values
        group, position, rows = group[~begins], position[~begins], rows[~begins]
        if self._aggregation == "equal":
            self._compare(group, position, rows)
        elif self._aggregation == "last":
            self._state[0][group] = rows  # of repeated indices, NumPy keeps the last
        else:
            ufunc = {"min": np.minimum, "max": np.maximum}.get(self._aggregation, np.add)
            with np.errstate(over="ignore", invalid="ignore"):
                for part, values in zip(self._state, self._state_of(rows), strict=True):
                    width = part.shape[1]  # ufunc.at is fast over flat arrays
                    at = group[:, np.newaxis] * width + np.arange(width)
                    ufunc.at(part.reshape(-1), at.reshape(-1), values.reshape(-1))

    def _state_of(self, rows: Array) -> list[Array]:
        if self._aggregation not in ("sum", "mean"):
            return [as_numbers(rows)] if self._aggregation in ("min", "max") else [rows]
        if self._dtype.kind in "iu":  # sums that wrap around, and about how large they are
            return [rows.astype(np.uint64 if rows.dtype == np.uint64 else np.int64), rows * 1.0]
        numbers = as_numbers(rows).astype(np.float64)
        return [numbers, np.ones((len(rows), 1), np.int64), np.isinf(numbers)]  # True + True: True

    def _compare(self, group: Array, position: Array, rows: Array) -> None:
        kept, rows = as_numbers(self._state[0][group]), as_numbers(rows)
        different = (rows != kept) & ~(np.isnan(rows) & np.isnan(kept))
        if different.any():
            at, column = np.argwhere(different)[0].tolist()
            positions = int(self._first[group[at]]), int(position[at])
            values = [kept[at, column], rows[at, column]]
            raise self._merging.conflict(self._name, positions, values)

    def result(self, begin: int, end: int) -> Array:
        """A row for each of some groups.

        Raises
        ------
        ValueError
            If one does not fit the dtype.
        """
        state = [part[begin:end] for part in self._state]
        if self._aggregation in ("min", "max"):
            return round_to(state[0], self._dtype)
        if self._aggregation == "last":
            return state[0]
        total, about, *infinite = state
        if self._dtype.kind in "iu":
            bounds = np.iinfo(self._dtype)
            rows = total.astype(self._dtype)
            misfit = (total < bounds.min) | (total > bounds.max)
            misfit |= np.abs(total.astype(np.float64) - about) > 2.0**62  # it has wrapped around
        else:
            rows = round_to(total / about if self._aggregation == "mean" else total, self._dtype)
            misfit = np.isinf(as_numbers(rows)) & ~infinite[0]
        if misfit.any():
            at = self._first[begin + int(np.argwhere(misfit)[0, 0])]
            raise ValueError(
                f"coalesce: the {self._aggregation} of {self._name!r} over edge {at} and those "
                f"that are merged with it does not fit {dtype_name(self._dtype)}: give "
                f"{self._name!r} in a wider dtype, or choose another aggregation, such as 'max'"
            )
        return rows


def _merge_attributes(
    edges: EdgeList,
    attributes: Mapping[str, Rows],
    merging: Merging,
    merged: MergedEdges,
    options: WriteOptions,
) -> tuple[EdgeList, dict[str, Rows]]:
    """The list and its other attributes, with the rows of merged edges merged."""

    def merge(
        name: str, dtype: np.dtype[np.generic], width: int, chunks: Iterable[Array]
    ) -> MergedRows | None:
        if merging.aggregations[name] == "first":
            return None
        aggregate = _Aggregate(merged, merging, name, dtype, width)
        begin = 0
        for chunk in chunks:
            position, group = merged.group_of(begin, begin + len(chunk))
            if len(group):
                rows = chunk[(position - np.uint64(begin)).astype(np.intp)]
                aggregate.add(group, position, rows)
            begin += len(chunk)
        if merging.aggregations[name] == "equal":
            return None
        results = _temp_rows(merged.folder, len(merged.first), width, dtype)
        for begin in range(0, len(results), _CHUNK):
            results[begin : begin + _CHUNK] = aggregate.result(begin, begin + _CHUNK)
        return MergedRows(merged.first, results)

    replaced: dict[str, MergedRows] = {}
    for column, name in {
        "weight": merging.sampled_by.weight,
        "time": merging.sampled_by.time,
    }.items():
        values = edges.columns.get(column)
        if name is not None and values is not None:
            rows = merge(name, values.dtype, 1, _chunks_of(values))
            replaced |= {} if rows is None else {column: rows}
    rows_of: dict[str, Rows] = {}
    with options.progress.phase("merging attributes", len(attributes), "attributes") as advance:
        for name, attribute in attributes.items():
            max_rows = max(1, options.rows_memory // (_WORK_BYTES * (1 + attribute.width)))
            chunks = (chunk for _, chunk in attribute.chunks(max_rows))
            results = merge(name, attribute.dtype, attribute.width, chunks)
            rows_of[name] = attribute.with_replaced(results)
            advance(1)
    return replace(edges, replaced=replaced), rows_of


def _chunks_of(column: EdgeColumn) -> Iterator[Array]:
    for begin in range(0, len(column), _CHUNK):
        yield column.read(begin, min(begin + _CHUNK, len(column)))[:, np.newaxis]


# All of it


@dataclass(frozen=True)
class Prepared:
    """An edge list that is ready for the sort into neighbour lists, and what was done to it.

    `parts` are those of a `LinkSplit`, "train" among them.
    """

    edges: EdgeList
    attributes: dict[str, Rows]
    changes: EdgeChanges
    merged: MergedEdges
    parts: dict[str, EdgeList] = field(default_factory=dict)


def prepare_edges(
    folder: Path,
    edges: EdgeList,
    attributes: Mapping[str, Rows],
    merging: Merging,
    options: WriteOptions,
    *,
    is_whole: bool = True,
) -> Prepared:
    """Does with an edge list what the options say; without them, looks for symmetric lists.

    Of a part of a list, nothing is said, and it is never symmetric.

    Raises
    ------
    ValueError
        If attributes of edges that become one differ, and nothing says how they are merged.
    """
    memory, undirected = options.sort_memory, is_whole and not edges.directed
    if merging.reverse:
        ends = {"source": edges.columns["target"], "target": edges.columns["source"]}
        edges = replace(edges, columns={**edges.columns, **ends}, max_ids=edges.max_ids[::-1])
    drops = merging.drop_self_loops and edges.num_loops > 0
    share = share_reversed(edges) if undirected else 0.0
    pairs = _paired(folder, edges, memory) if share == 1.0 else None
    merged = MergedEdges(folder, memory, edges.num_loops)
    if edges.removed is not None:  # held out
        merged.remove(edges.removed)
    if drops:
        merged.num_loops = 0
        for position, source, target in _numbered_ends(edges, _CHUNK):
            merged.remove(position[source == target])
    if merging.coalesce:
        _merge_parallel(edges, merged, drops, options)
    elif pairs is not None:
        for at in range(0, len(pairs[0]), _CHUNK):
            first, second = (positions[at : at + _CHUNK] for positions in pairs)
            kept = np.minimum(first, second)
            merged.remove(np.maximum(first, second), kept)
            merged.keep(kept)
    merged.finish()
    rows = dict(attributes)
    if len(merged.first):
        edges, rows = _merge_attributes(edges, attributes, merging, merged, options)
    if pairs is not None:
        summed = [name for name, kind in merging.aggregations.items() if kind == "sum"]
        added = f", with {', '.join(summed)} of both directions added" if summed else ""
        warn_user(
            f"the edge list has both directions of every edge, and directed=False makes them one "
            f"edge: each pair was stored once{added}. directed=True stores the list as it is"
        )
    elif share >= 0.5 and not merging.coalesce:
        warn_user(
            f"about {100 * share:.3g} % of the edges have their reverse in the edge list as well. "
            f"directed=False adds the reverse of every edge, so that such pairs are stored twice, "
            f"as parallel edges: coalesce=True stores each once, directed=True stores the list as "
            f"it is"
        )
    changes = EdgeChanges(
        merged.num_merged if merging.coalesce else None,
        edges.num_loops if merging.drop_self_loops else None,
        merging.reverse,
        pairs is not None,
    )
    if len(merged.removed):
        edges = replace(edges, removed=merged.removed, num_loops=merged.num_loops)
    return Prepared(edges, rows, changes, merged)


def prepare_held_out(
    folder: Path, edges: EdgeList, merging: Merging, options: WriteOptions
) -> EdgeList:
    """As `prepare_edges` does it with the edges that stay in the graph, which has said it all."""
    position = edges.columns["position"]

    def locate(record: int) -> str:
        return merging.locate(int(position.read(record, record + 1)[0]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return prepare_edges(folder, edges, {}, replace(merging, locate=locate), options).edges
