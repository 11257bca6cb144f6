"""The order of time within each neighbour list, while the lists pass by in pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sort import EdgeSorter, stable_order
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import id_dtype

__all__ = ["TimeOrderWriter"]

_ENTRY_BYTES = 96  # times held, keys, copies and permutations while a run is sorted
_MIN_ENTRIES = 1024
_SIGN = np.uint64(1 << 63)


def _keys(times: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Unsigned numbers in the order of signed ones."""
    keys: npt.NDArray[np.uint64] = times.view(np.uint64) ^ _SIGN
    return keys


def _order_lists(
    sources: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Offsets within each of several whole lists, the oldest entry first."""
    starts = np.flatnonzero(sources[1:] != sources[:-1]) + 1
    starts = np.concatenate([[0], starts])
    order = stable_order(_keys(times))
    order = order[stable_order(sources[order])]
    order -= np.repeat(starts, np.diff(starts, append=len(sources)))
    return order


class TimeOrderWriter:
    """Writes ``time_order``: each list by itself, by time, equal times in the order of the list.

    The last list of a piece is held until its end is seen. One that is longer than what can be
    sorted at once becomes runs on the disk, which are merged.

    Parameters
    ----------
    file : FileWriter
    folder : pathlib.Path
        On whose disk the runs live.
    memory : int
        Bytes that the ordering may take.
    """

    def __init__(self, file: FileWriter, folder: Path, memory: int) -> None:
        self._file = file
        self._folder = folder
        self._memory = memory
        self._most = max(_MIN_ENTRIES, memory // _ENTRY_BYTES)
        self._dtype = id_dtype(file.header.width)
        self._source = -1
        self._start_list()

    def _start_list(self) -> None:
        self._held: list[npt.NDArray[np.int64]] = []
        self._num_held = 0
        self._num_sorted = 0
        self._runs = EdgeSorter(self._folder, [self._dtype], self._memory)

    def add(self, sources: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]) -> None:
        """The next entries.

        Parameters
        ----------
        sources : (n,) uint64
            Ascending, and on from those of the piece before.
        times : (n,) int64
        """
        for begin in range(0, len(sources), self._most):
            cut = slice(begin, begin + self._most)
            self._add(sources[cut], times[cut])

    def finish(self) -> None:
        """The end of the last list."""
        if not self._num_held:
            return
        self._sort_held()
        for _, (offsets,) in self._runs.merged():
            self._file.append("time_order", offsets)
        self.close()
        self._start_list()

    def close(self) -> None:
        """Gives memory and disk space back."""
        self._runs.close()

    def _add(self, sources: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]) -> None:
        begin = 0
        if int(sources[0]) == self._source:
            begin = int(np.searchsorted(sources, sources[0], "right"))
            self._hold(times[:begin])
            if begin == len(sources):
                return
        self.finish()
        end = int(np.searchsorted(sources, sources[-1], "left"))
        if begin < end:
            self._file.append("time_order", _order_lists(sources[begin:end], times[begin:end]))
        self._source = int(sources[-1])
        self._hold(times[end:])

    def _hold(self, times: npt.NDArray[np.int64]) -> None:
        if self._num_held + len(times) > self._most:
            self._sort_held()
        self._held.append(times.copy())  # a view would keep the whole piece
        self._num_held += len(times)

    def _sort_held(self) -> None:
        """What is held becomes a sorted run; only a second one moves the first to the disk."""
        keys = _keys(np.concatenate(self._held))
        self._held = []
        end = self._num_sorted + self._num_held
        self._runs.add(keys, (np.arange(self._num_sorted, end, dtype=self._dtype),))
        self._num_sorted, self._num_held = end, 0
