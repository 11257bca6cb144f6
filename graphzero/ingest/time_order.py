"""Writes the order by time within each neighbour list, from a stream of pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sort import EdgeSorter, stable_order
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import id_dtype

__all__ = ["TimeOrderWriter"]

_ENTRY_BYTES = 96  # of an edge while a run is sorted: time, keys, copies and permutations
_MIN_ENTRIES = 1024
_SIGN = np.uint64(1 << 63)


def _keys(times: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Unsigned numbers in the order of signed ones."""
    keys: npt.NDArray[np.uint64] = times.view(np.uint64) ^ _SIGN
    return keys


def _order_lists(
    sources: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Offsets within each of several complete lists, oldest edge first."""
    starts = np.flatnonzero(sources[1:] != sources[:-1]) + 1
    starts = np.concatenate([[0], starts])
    by_time = stable_order(_keys(times))
    order = by_time[stable_order(sources[by_time])].astype(np.int64)
    order -= np.repeat(starts, np.diff(starts, append=len(sources)))
    return order


class TimeOrderWriter:
    """Writes ``time_order``: each list sorted by time, equal times in the order of the list.

    The last list of a piece waits in memory until its end is known. A list that is too long to be
    sorted in memory is sorted in runs on the disk, which are merged.

    Parameters
    ----------
    file : FileWriter
    folder : pathlib.Path
        For temporary files.
    memory : int
        Bytes that the ordering may take.
    """

    def __init__(self, file: FileWriter, folder: Path, memory: int) -> None:
        self._file = file
        self._folder = folder
        self._memory = memory
        self._max_entries = max(_MIN_ENTRIES, memory // _ENTRY_BYTES)
        self._dtype = id_dtype(file.header.width)
        self._source = -1
        self._start_list()

    def _start_list(self) -> None:
        self._waiting: list[npt.NDArray[np.int64]] = []
        self._num_waiting = 0
        self._num_sorted = 0
        self._runs = EdgeSorter(self._folder, [self._dtype], self._memory)

    def add(self, sources: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]) -> None:
        """Takes the next entries.

        Parameters
        ----------
        sources : (n,) uint64
            Ascending, and not below those of the previous piece.
        times : (n,) int64
        """
        for begin in range(0, len(sources), self._max_entries):
            cut = slice(begin, begin + self._max_entries)
            self._add(sources[cut], times[cut])

    def finish(self) -> None:
        """Writes the last list."""
        if not self._num_waiting:
            return
        self._sort_waiting()
        for _, (offsets,) in self._runs.merged():
            self._file.append("time_order", offsets)
        self.close()
        self._start_list()

    def close(self) -> None:
        """Frees memory and disk space."""
        self._runs.close()

    def _add(self, sources: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]) -> None:
        begin = 0
        if int(sources[0]) == self._source:
            begin = int(np.searchsorted(sources, sources[0], "right"))
            self._wait(times[:begin])
            if begin == len(sources):
                return
        self.finish()
        end = int(np.searchsorted(sources, sources[-1], "left"))
        if begin < end:
            self._file.append("time_order", _order_lists(sources[begin:end], times[begin:end]))
        self._source = int(sources[-1])
        self._wait(times[end:])

    def _wait(self, times: npt.NDArray[np.int64]) -> None:
        if self._num_waiting + len(times) > self._max_entries:
            self._sort_waiting()
        self._waiting.append(times.copy())  # a view would keep the whole piece in memory
        self._num_waiting += len(times)

    def _sort_waiting(self) -> None:
        """Sorts the waiting times into a run; only a second run moves the first to the disk."""
        keys = _keys(np.concatenate(self._waiting))
        self._waiting = []
        end = self._num_sorted + self._num_waiting
        self._runs.add(keys, (np.arange(self._num_sorted, end, dtype=self._dtype),))
        self._num_sorted, self._num_waiting = end, 0
