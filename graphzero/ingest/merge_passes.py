"""Passes over an edge list that leave edges out: merged ones, self-loops, second directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.aggregation import RowsDiffer, differ
from graphzero.ingest.edge_groups import EdgeGroups, Merging, Output, conflict, ends_of_keys
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.merged_edges import MergedEdges
from graphzero.ingest.sort import EdgeSorter
from graphzero.ingest.sorted_blocks import Block, run_length, sort_bytes, sorted_pieces
from graphzero.ingest.symmetry import (
    Directions,
    NotSymmetricError,
    Pairs,
    pair_keys,
    symmetric_pairs,
)
from graphzero.ingest.write_options import WriteOptions
from graphzero.store.disk_space import require_disk_space

__all__ = ["Passes", "merge_bytes"]

_CHUNK = 1 << 16
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_POSITION = np.dtype(np.uint64)

Array = npt.NDArray[Any]


class Passes:
    """What can be done with an edge list before the sort; each method closes the list.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files.
    edges : EdgeList
    merging : Merging
    merged : MergedEdges or None
        Takes the edges that are merged or dropped.
    options : WriteOptions
    column_memory : int
        Bytes that the columns of the new list may take.
    """

    def __init__(
        self,
        folder: Path,
        edges: EdgeList,
        merging: Merging,
        merged: MergedEdges | None,
        options: WriteOptions,
        column_memory: int,
    ) -> None:
        self.edges = edges
        self.merging = merging
        self.num_edges = len(edges)
        self._folder = folder
        self._merged = merged
        self._options = options
        self._memory = options.sort_memory
        self._column_memory = column_memory
        self._driving = merging.names(edges)

    def without_loops(self) -> EdgeList:
        """The list without its self-loops."""
        with self._new_list() as new:
            for begin in range(0, self.num_edges, _CHUNK):
                source, target, position, driving = self._read(begin, begin + _CHUNK)
                stays = source != target
                if self._merged is not None:
                    self._merged.drop(position[~stays])
                driving = [array[stays] for array in driving]
                new.add(source[stays], target[stays], position[stays], driving)
            return new.finish()

    def paired(self) -> EdgeList | None:
        """A list with both directions of every edge, each pair once; None if one has no partner.

        Raises
        ------
        ValueError
            If the directions of an edge have different weights or times.
        """
        self._require_space()
        columns = [column for _, column in self._driving]
        conflict: ValueError | None = None
        try:
            with (
                self._new_list() as new,
                self._options.progress.phase("pairing edges", self.num_edges, "edges") as advance,
            ):
                pairs = symmetric_pairs(self._folder, self.edges, columns, self._memory)
                for pair in pairs:
                    # Only a symmetric list has directions that could contradict each other.
                    conflict = conflict or self._different(pair)
                    self._add_pair(new, pair)
                    advance(2 * len(pair.keys))
                if conflict is not None:
                    raise conflict
                self._add_loops(new)
                return new.finish()
        except NotSymmetricError:
            if self._merged is not None:
                self._merged.forget()
            return None

    def coalesced(self) -> tuple[EdgeList, Directions, int]:
        """Parallel edges merged, also with how many had their reverse, and dropped self-loops."""
        self._require_space()
        undirected, phase = not self.edges.directed, self._options.progress.phase
        dtypes = [_POSITION, np.dtype(np.bool_), *(column.dtype for _, column in self._driving)]
        run, num_dropped = run_length(dtypes, self._memory), 0
        with closing(EdgeSorter(self._folder, dtypes, self._memory)) as sorter:
            with phase("sorting edges", self.num_edges, "edges") as advance:
                for begin in range(0, self.num_edges, run):
                    source, target, position, driving = self._read(begin, begin + run)
                    if self.merging.plan.drop_self_loops:
                        stays = source != target
                        num_dropped += len(position) - int(np.count_nonzero(stays))
                        if self._merged is not None:
                            self._merged.drop(position[~stays])
                        source, target, position = source[stays], target[stays], position[stays]
                        driving = [array[stays] for array in driving]
                    sorter.spill()
                    if len(position):
                        keys = (pair_keys if undirected else _keys)(source, target)
                        sorter.add(keys, (position, source < target, *driving))
                    advance(min(run, self.num_edges - begin))
            self.edges.close()
            with self._new_list() as new:
                directions = self._merge_sorted(sorted_pieces(sorter), new)
                return new.finish(), directions, num_dropped

    def _merge_sorted(self, blocks: Iterator[Block], new: Output) -> Directions:
        """Writes each group of equal keys as one edge; tells how many edges had their reverse."""
        columns = [(name, column.dtype) for name, column in self._driving]
        groups = EdgeGroups(self.merging, columns, new, self._merged)
        for keys, (position, up, *driving) in blocks:
            groups.add(keys, position, up, driving)
        return groups.finish()

    def _different(self, pair: Pairs) -> ValueError | None:
        """The error about the first of some pairs whose directions have different attributes."""
        for at, (name, _) in enumerate(self._driving, 1):
            bad = np.flatnonzero(differ(pair.up[at], pair.down[at]))
            if len(bad):
                first = int(bad[0])
                ways = (pair.up, pair.down)
                rows = sorted((int(way[0][first]), way[at][first]) for way in ways)
                error = RowsDiffer((rows[0][0], rows[1][0]), (rows[0][1], rows[1][1]))
                return conflict(self.merging, name, error)
        return None

    def _add_pair(self, new: Output, pair: Pairs) -> None:
        """Writes the earlier one of both directions."""
        later = pair.up[0] > pair.down[0]
        position, *driving = (
            np.where(later, down, up) for up, down in zip(pair.up, pair.down, strict=True)
        )
        if self._merged is not None:
            self._merged.add(position, np.where(later, pair.up[0], pair.down[0]))
        new.add(*ends_of_keys(pair.keys), position, driving)

    def _add_loops(self, new: Output) -> None:
        """Writes the self-loops, which have no direction, unless they are dropped."""
        if not self.edges.num_loops:
            return
        for begin in range(0, self.num_edges, _CHUNK):
            source, target, position, driving = self._read(begin, begin + _CHUNK)
            loops = source == target
            if self.merging.plan.drop_self_loops:
                if self._merged is not None:
                    self._merged.drop(position[loops])
                continue
            driving = [array[loops] for array in driving]
            new.add(source[loops], target[loops], position[loops], driving)

    def _read(self, begin: int, end: int) -> tuple[Array, Array, Array, list[Array]]:
        """Sources, targets, positions, weights and times of some edges."""
        end = min(end, self.num_edges)
        driving = [column.read(begin, end) for _, column in self._driving]
        position = np.arange(begin, end, dtype=_POSITION)
        return (
            self.edges.source.read(begin, end),
            self.edges.target.read(begin, end),
            position,
            driving,
        )

    @contextmanager
    def _new_list(self) -> Iterator[Output]:
        """An empty list; what it has is freed after an error, else the earlier list is."""
        new = Output(self._folder, self.edges, self.num_edges, self._column_memory)
        try:
            yield new
        except BaseException:
            new.close()
            raise
        self.edges.close()

    def _require_space(self) -> None:
        """Raises an error unless the disk has room for the sort and for the new list."""
        driving = [column.dtype for _, column in self._driving]
        needed = merge_bytes(self.num_edges, driving, self._memory, self._column_memory)
        require_disk_space(self._folder, needed, "merging edges needs")


def merge_bytes(
    num_edges: int, driving: Sequence[np.dtype[Any]], memory: int, column_memory: int
) -> int:
    """Bytes of temporary disk space that a pass needs: for the sort, and for the new list."""
    needed = sort_bytes(num_edges, [_POSITION, *driving], memory // 2)
    row_bytes = 16 + sum(dtype.itemsize for dtype in driving)
    return needed + (num_edges * row_bytes if num_edges * row_bytes > column_memory else 0)


def _keys(source: Array, target: Array) -> npt.NDArray[np.uint64]:
    """The ends of each edge, source << 32 | target."""
    keys: npt.NDArray[np.uint64] = source.astype(np.uint64)
    keys <<= _HALF
    keys |= target
    return keys
