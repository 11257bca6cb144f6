"""External sort of edges by (source, target), ties in input order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero._core import sort_keys
from graphzero.ingest.processors import available_processors
from graphzero.ingest.spill import TempColumn

__all__ = ["EdgeSorter", "stable_order"]

Keys = npt.NDArray[np.uint64]
Payload = tuple[npt.NDArray[Any], ...]

_MIN_BLOCK = 16


def stable_order(keys: Keys) -> npt.NDArray[np.uint32]:
    """The permutation that sorts 64-bit keys stably; for fewer than 2^32 keys."""
    return _sort_stably(keys.copy())


def _sort_stably(keys: Keys) -> npt.NDArray[np.uint32]:
    """Sorts keys in place; returns where each one was."""
    order = np.arange(len(keys), dtype=np.uint32)
    sort_keys(keys, order, available_processors())
    return order


@dataclass
class _Cursor:
    """Position in a sorted run that is read in blocks."""

    at: int
    end: int
    keys: Keys
    payload: Payload

    @property
    def has_more(self) -> bool:
        return self.at < self.end


class EdgeSorter:
    """Sorts batches into runs and merges the runs.

    The key of an edge is source << 32 | target; any 64-bit number is possible. The payload are
    arrays that are permuted like the keys.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if there are several runs.
    payload_dtypes : sequence of dtype
    memory : int
        Bytes that a merge may take.
    """

    def __init__(self, folder: Path, payload_dtypes: Sequence[npt.DTypeLike], memory: int) -> None:
        self._keys = TempColumn(folder, np.uint64)
        self._payload = [TempColumn(folder, dtype) for dtype in payload_dtypes]
        self._ends: list[int] = []
        self._memory = memory
        self._last: tuple[Keys, Payload] | None = None

    def add(self, keys: Keys, payload: Payload) -> None:
        """Sorts one batch into a run; the keys are sorted in place."""
        self.spill()
        if payload:
            order = _sort_stably(keys)
            payload = tuple(array[order] for array in payload)
        else:
            keys.sort()  # NumPy sorts plain integers with vector instructions
        self._last = keys, payload

    def spill(self) -> None:
        """Moves the last run from memory to the disk."""
        if self._last is None:
            return
        keys, payload = self._last
        self._last = None
        self._keys.append(keys)
        for column, array in zip(self._payload, payload, strict=True):
            column.append(array)
        self._ends.append(len(self._keys))

    def merged(self) -> Iterator[tuple[Keys, Payload]]:
        """All edges in order, in blocks."""
        if not self._ends:
            if self._last is not None:
                yield self._last
            return
        self.spill()
        begins = [0, *self._ends[:-1]]
        empty = self._read(0, 0)
        runs = [_Cursor(begin, end, *empty) for begin, end in zip(begins, self._ends, strict=True)]
        entry_bytes = 8 + sum(column.dtype.itemsize for column in self._payload)
        # In memory at the same time: blocks as read, their concatenation, and its sort.
        block = max(_MIN_BLOCK, self._memory // (len(runs) * (3 * entry_bytes + 40)))
        while True:
            runs = [run for run in runs if run.has_more or len(run.keys)]
            if not runs:
                return
            for run in runs:
                self._refill(run, block)
            yield self._join(_take_smallest(runs))

    def close(self) -> None:
        """Frees memory and disk space."""
        self._last = None
        for column in (self._keys, *self._payload):
            column.close()

    def _read(self, begin: int, end: int) -> tuple[Keys, Payload]:
        payload = tuple(column.read(begin, end) for column in self._payload)
        return self._keys.read(begin, end), payload

    def _refill(self, run: _Cursor, block: int) -> None:
        unused = len(run.keys)
        if unused > block // 2 or not run.has_more:
            return
        stop = min(run.end, run.at + block - unused)
        run.keys, run.payload = self._read(run.at - unused, stop)
        run.at = stop

    def _join(self, pieces: list[tuple[Keys, Payload]]) -> tuple[Keys, Payload]:
        keys = np.concatenate([piece[0] for piece in pieces])
        if len(pieces) == 1:
            return keys, pieces[0][1]
        if not self._payload:
            keys.sort()
            return keys, ()
        order = _sort_stably(keys)
        columns = zip(*(piece[1] for piece in pieces), strict=True)
        return keys, tuple(np.concatenate(column)[order] for column in columns)


def _take_smallest(runs: list[_Cursor]) -> list[tuple[Keys, Payload]]:
    """Cuts from every run the edges that can be output now.

    The limit is the smallest last key of all blocks: the rest of that run may have keys just above
    it. Edges of later runs that equal the limit must wait too, so that ties stay in input order.
    """
    limit = np.uint64(0)
    open_runs = [i for i, run in enumerate(runs) if run.has_more]
    if open_runs:
        first_open = min(open_runs, key=lambda i: (runs[i].keys[-1], i))
        limit = runs[first_open].keys[-1]
    pieces = []
    for i, run in enumerate(runs):
        if not open_runs:
            cut = len(run.keys)
        else:
            cut = int(np.searchsorted(run.keys, limit, "right" if i <= first_open else "left"))
        if cut:
            pieces.append((run.keys[:cut], tuple(array[:cut] for array in run.payload)))
            run.keys = run.keys[cut:]
            run.payload = tuple(array[cut:] for array in run.payload)
    return pieces
