"""Which edges of an edge list were merged into which, for what else is found by their positions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sorted_blocks import Block, sorted_blocks
from graphzero.ingest.spill import TempColumn

__all__ = ["MergedEdges", "Slots"]

_CHUNK = 1 << 16
_POSITION = np.dtype(np.uint64)


@dataclass(frozen=True)
class Slots:
    """The edges of all groups of merged edges, each group's one after the other.

    Attributes
    ----------
    kept, position : TempColumn of uint64
        By slot: the position of the edge that the group became, ascending; and that of the edge.
    row, slot, kept_of_row : TempColumn of uint64
        The positions of all these edges, ascending, with the slot and the group of each.
    """

    kept: TempColumn
    position: TempColumn
    row: TempColumn
    slot: TempColumn
    kept_of_row: TempColumn

    def close(self) -> None:
        """Frees the disk space."""
        for column in (self.kept, self.position, self.row, self.slot, self.kept_of_row):
            column.close()


class MergedEdges:
    """Collects merged and dropped edges by their positions in the edge list.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files.
    memory : int
        Bytes that a sort may take.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self._folder = folder
        self._memory = memory
        self._kept = TempColumn(folder, _POSITION)
        self._merged = TempColumn(folder, _POSITION)
        self._slots: Slots | None = None
        self.dropped = TempColumn(folder, _POSITION)  # ascending

    def __len__(self) -> int:
        """Edges that were merged into an earlier one."""
        return len(self._merged)

    def add(self, kept: npt.NDArray[Any], merged: npt.NDArray[Any]) -> None:
        """Takes edges and the earlier ones that they were merged into; of a group in order."""
        self._kept.append(kept)
        self._merged.append(merged)

    def drop(self, positions: npt.NDArray[Any]) -> None:
        """Takes edges that are not stored, in ascending order."""
        self.dropped.append(positions)

    def forget(self) -> None:
        """Empties the collection."""
        for column in (self._kept, self._merged, self.dropped):
            column.close()

    def slots(self) -> Slots:
        """The groups; sorted when they are first asked for."""
        if self._slots is None:
            self._slots = self._sorted()
        return self._slots

    def close(self) -> None:
        """Frees the disk space."""
        self.forget()
        if self._slots is not None:
            self._slots.close()

    def _sorted(self) -> Slots:
        slots = Slots(*(TempColumn(self._folder, _POSITION) for _ in range(5)))
        for kept, position in self._by_group():
            slots.kept.append(kept)
            slots.position.append(position)

        def read(begin: int, end: int) -> Block:
            numbers = np.arange(begin, end, dtype=_POSITION)
            return slots.position.read(begin, end).copy(), (numbers, slots.kept.read(begin, end))

        count, dtypes = len(slots.kept), [_POSITION, _POSITION]
        for row, (slot, kept) in sorted_blocks(self._folder, count, read, dtypes, self._memory):
            slots.row.append(row)
            slots.slot.append(slot)
            slots.kept_of_row.append(kept)
        return slots

    def _by_group(self) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """The group and the position of every edge; the kept one first in its group."""

        def read(begin: int, end: int) -> Block:
            return self._kept.read(begin, end).copy(), (self._merged.read(begin, end),)

        last = -1  # the group of the block before
        blocks = sorted_blocks(self._folder, len(self._kept), read, [_POSITION], self._memory)
        for kept, (merged,) in blocks:
            starts = np.ones(len(kept), np.bool_)
            starts[1:] = kept[1:] != kept[:-1]
            starts[0] = int(kept[0]) != last
            last = int(kept[-1])
            first = np.flatnonzero(starts)
            yield np.insert(kept, first, kept[first]), np.insert(merged, first, kept[first])

    def remap(self, positions: TempColumn, memory: int) -> tuple[TempColumn, int, int]:
        """A list of positions, with those of merged edges replaced by those of the kept ones.

        Several positions that one edge was merged from become one, where the first of them was.
        Positions of dropped edges are left out.

        Parameters
        ----------
        positions : TempColumn of int64
            Closed before this returns.
        memory : int
            Bytes that the result may have, and a sort.

        Returns
        -------
        (TempColumn of int64, int, int)
            With how many positions were replaced or joined, and left out.
        """
        found = TempColumn(self._folder, np.int64, memory)
        moved = left_out = 0
        kept_at = TempColumn(self._folder, _POSITION), TempColumn(self._folder, _POSITION)
        with closing(kept_at[0]), closing(kept_at[1]):
            flags = TempColumn(self._folder, np.uint8)
            with closing(flags):
                for at, kept, merged, dropped in self._joined(positions, memory):
                    stays = ~dropped
                    left_out += int(np.count_nonzero(dropped))
                    moved += int(np.count_nonzero(merged & (kept != at[0])))
                    kept_at[0].append(kept[stays])
                    kept_at[1].append(at[1][stays])
                    flags.append(merged[stays])
                positions.close()
                distinct = self._distinct(kept_at, flags, memory)
            with closing(distinct[0]), closing(distinct[1]):

                def read(begin: int, end: int) -> Block:
                    index = distinct[1].read(begin, end).copy()
                    return index, (distinct[0].read(begin, end),)

                count = len(distinct[0])
                for _, (kept,) in sorted_blocks(self._folder, count, read, [_POSITION], memory):
                    found.append(kept.astype(np.int64))
        return found, moved, left_out

    def _joined(self, positions: TempColumn, memory: int) -> Iterator[Any]:
        """((position, index), kept, of a merged group, dropped), by ascending position."""

        def read(begin: int, end: int) -> Block:
            index = np.arange(begin, end, dtype=_POSITION)
            return positions.read(begin, end).astype(_POSITION), (index,)

        slots = self.slots()
        merged, dropped = _Ascending(slots.row, slots.kept_of_row), _Ascending(self.dropped)
        for keys, (index,) in sorted_blocks(
            self._folder, len(positions), read, [_POSITION], memory
        ):
            is_merged, kept = merged.find(keys)
            yield (keys, index), np.where(is_merged, kept, keys), is_merged, dropped.find(keys)[0]

    def _distinct(
        self, kept_at: tuple[TempColumn, TempColumn], flags: TempColumn, memory: int
    ) -> tuple[TempColumn, TempColumn]:
        """Of each merged edge the entry with the smallest index; all entries of others."""
        out = TempColumn(self._folder, _POSITION), TempColumn(self._folder, _POSITION)
        dtypes: list[np.dtype[Any]] = [_POSITION, np.dtype(np.uint8)]

        def by_index(begin: int, end: int) -> Block:
            others = kept_at[0].read(begin, end), flags.read(begin, end)
            return kept_at[1].read(begin, end).copy(), others

        # First by index, then stably by edge: the first entry of an edge has the smallest index.
        first = [TempColumn(self._folder, dtype) for dtype in (_POSITION, *dtypes)]
        count = len(flags)
        for index, (kept, flag) in sorted_blocks(self._folder, count, by_index, dtypes, memory):
            for column, values in zip(first, (kept, index, flag), strict=True):
                column.append(values)

        def by_edge(begin: int, end: int) -> Block:
            others = first[1].read(begin, end), first[2].read(begin, end)
            return first[0].read(begin, end).copy(), others

        last = -1
        for kept, (index, flag) in sorted_blocks(self._folder, count, by_edge, dtypes, memory):
            stays = flag == 0
            stays[1:] |= kept[1:] != kept[:-1]
            stays[0] |= int(kept[0]) != last
            last = int(kept[-1])
            out[0].append(kept[stays])
            out[1].append(index[stays])
        for column in first:
            column.close()
        return out


class _Ascending:
    """Finds ascending numbers in an ascending column, which is read once, in pieces.

    Parameters
    ----------
    column : TempColumn of uint64
    values : TempColumn of uint64, optional
        A value for each number; default: the number.
    """

    def __init__(self, column: TempColumn, values: TempColumn | None = None) -> None:
        self._column = column
        self._values = column if values is None else values
        self._at = 0
        self._numbers = self._found = np.empty(0, _POSITION)

    def find(
        self, numbers: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
        """Whether the column has each of the numbers, and its value; none is below earlier ones."""
        known = np.zeros(len(numbers), np.bool_)
        found = numbers.copy()
        done = 0
        while done < len(numbers):
            self._load(numbers[done])
            if not len(self._numbers):
                break
            # What this piece can decide: up to its last number.
            end = done + int(np.searchsorted(numbers[done:], self._numbers[-1], "right"))
            at = np.searchsorted(self._numbers, numbers[done:end])
            equal = self._numbers[at] == numbers[done:end]
            known[done:end] = equal
            found[done:end][equal] = self._found[at[equal]]
            done = end
        return known, found

    def _load(self, number: np.uint64) -> None:
        """Reads on to the piece whose last number is not below this one; empty at the end."""
        while not len(self._numbers) or self._numbers[-1] < number:
            end = min(self._at + _CHUNK, len(self._column))
            self._numbers = self._column.read(self._at, end)
            self._found = self._values.read(self._at, end)
            if self._at == end:
                return
            self._at = end
