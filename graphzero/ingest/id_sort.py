"""The distinct ids among many, in ascending order and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graphzero.ingest.sort import EdgeSorter
from graphzero.ingest.spill import TempColumn
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.id_table import id_table_layout

__all__ = ["DistinctIntegers", "DistinctTexts", "bytes_of"]

_SIGN = np.uint64(1 << 63)
_LEAST_BLOCK = 16
_BLOCK = 1 << 18
# Bytes of scratch for each id of 8 bytes that is sorted, or each byte of text.
_SORT_FACTOR = 4


def _without_repetitions(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each of some ascending numbers once."""
    is_first = np.concatenate([np.ones(min(1, len(keys)), np.bool_), keys[1:] != keys[:-1]])
    found: npt.NDArray[np.uint64] = keys[is_first]
    return found


def _ascending(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each number once, ascending: a sort, as the hash table of `numpy.unique` is much slower."""
    return _without_repetitions(np.sort(keys))


class DistinctIntegers:
    """Takes integers of 64 bits in any order, and writes each of them once, ascending.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if the distinct integers are larger than the memory.
    memory : int
        Bytes.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self._most = max(1024, memory // (8 * _SORT_FACTOR))
        self._pieces: list[npt.NDArray[np.uint64]] = []
        self._count = 0
        self._runs = EdgeSorter(folder, [], memory // 2)
        self._spilled = False
        self._sorted = TempColumn(folder, np.uint64, memory // 4)
        self.negative = self.huge = False

    def add(self, ids: npt.NDArray[Any]) -> None:
        """Takes int64 or uint64 integers; the caller looks whether both `negative` and `huge`."""
        if not len(ids):
            return
        if ids.dtype.kind == "i":
            self.negative |= bool(ids.min() < 0)
        else:
            self.huge |= bool(ids.max() >= _SIGN)
        for begin in range(0, len(ids), self._most):
            piece = _ascending(ids[begin : begin + self._most].view(np.uint64))
            self._pieces.append(piece)
            self._count += len(piece)
            if self._count >= self._most:
                self._reduce()

    def _reduce(self) -> None:
        """Drops repetitions; what is many after it goes to the disk."""
        whole = _ascending(np.concatenate(self._pieces))
        if len(whole) > self._most // 2:
            self._runs.add(whole, ())
            self._runs.spill()
            self._spilled, self._pieces, self._count = True, [], 0
        else:
            self._pieces, self._count = [whole], len(whole)

    def _collect(self) -> None:
        whole = _ascending(np.concatenate([*self._pieces, np.empty(0, np.uint64)]))
        self._pieces = []
        if not self._spilled:
            self._sorted.append(whole)
            return
        self._runs.add(whole, ())
        last: np.uint64 | None = None
        for keys, _ in self._runs.merged():
            keys = _without_repetitions(keys)
            if len(keys) and keys[0] == last:
                keys = keys[1:]
            if len(keys):
                last = keys[-1]
                self._sorted.append(keys)

    def write(self, path: Path) -> FileWriter:
        """The file of the table, sealed: int64, or uint64 if one of them is 2^63 or more."""
        self._collect()
        count = len(self._sorted)
        first = self._first_negative() if self.negative else count
        dtype: npt.DTypeLike = "<u8" if self.huge else "<i8"
        with sealed_file(path, id_table_layout(count, dtype)) as file:
            for start, stop in ((first, count), (0, first)):
                for begin in range(start, stop, _BLOCK):
                    keys = self._sorted.read(begin, min(begin + _BLOCK, stop))
                    file.append("rows", keys.view(np.dtype(dtype)))
        return file

    def _first_negative(self) -> int:
        """Where negative numbers begin: as unsigned ones they stand behind the others."""
        low, high = 0, len(self._sorted)
        while low < high:
            middle = (low + high) // 2
            if self._sorted.read(middle, middle + 1)[0] >= _SIGN:
                high = middle
            else:
                low = middle + 1
        return low

    def close(self) -> None:
        """Frees memory and disk space."""
        self._pieces = []
        self._runs.close()
        self._sorted.close()


def _distinct(pieces: list[pa.Array]) -> pa.Array:
    """Each text once, ascending by bytes."""
    pool = pa.system_memory_pool()
    found = pc.unique(pa.chunked_array(pieces, pa.large_binary()), memory_pool=pool)
    return pc.take(found, pc.array_sort_indices(found, memory_pool=pool), memory_pool=pool)


def bytes_of(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """The bytes of all texts of a large_binary array, and the end of each in them."""
    _, offsets, data = texts.buffers()
    found = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    begin, end = int(found[0]), int(found[-1])
    if begin == end:
        return np.empty(0, np.uint8), np.zeros(len(texts), np.uint64)
    ends = (found[1:] - begin).astype(np.uint64)
    return np.frombuffer(data, np.uint8, end - begin, begin), ends


class _TextColumn:
    """A growing array of texts, in temporary files where it is large."""

    def __init__(self, folder: Path, memory: int) -> None:
        self.data = TempColumn(folder, np.uint8, memory // 2)
        self.ends = TempColumn(folder, np.uint64, memory // 2)

    def __len__(self) -> int:
        return len(self.ends)

    def append(self, texts: pa.Array) -> None:
        data, ends = bytes_of(texts)
        self.ends.append(ends + np.uint64(len(self.data)))
        self.data.append(data)

    def read(self, begin: int, end: int) -> pa.Array:
        first = int(self.ends.read(begin - 1, begin)[0]) if begin else 0
        ends = self.ends.read(begin, end).astype(np.int64)
        offsets = np.concatenate([[0], ends - first])
        data = self.data.read(first, int(ends[-1]) if len(ends) else first)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
        return pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)

    def close(self) -> None:
        self.data.close()
        self.ends.close()


@dataclass
class _Run:
    """Position in a sorted run that is read in blocks."""

    at: int
    end: int
    block: pa.Array

    @property
    def has_more(self) -> bool:
        return self.at < self.end


def _count_up_to(texts: pa.Array, limit: bytes) -> int:
    low, high = 0, len(texts)
    while low < high:
        middle = (low + high) // 2
        if texts[middle].as_py() <= limit:
            low = middle + 1
        else:
            high = middle
    return low


class DistinctTexts:
    """Takes texts in any order, and writes each of them once, ascending by UTF-8 bytes.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if the distinct texts are larger than the memory.
    memory : int
        Bytes.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self._memory = memory
        self._most = max(1 << 14, memory // _SORT_FACTOR)
        self._pieces: list[pa.Array] = []
        self._bytes = 0
        self._runs = _TextColumn(folder, 0)
        self._ends: list[int] = []
        self._sorted = _TextColumn(folder, memory // 8)

    def add(self, texts: pa.Array) -> None:
        """Takes a large_binary array."""
        self._pieces.append(_distinct([texts]))
        self._bytes += self._pieces[-1].nbytes
        if self._bytes >= self._most:
            self._reduce()

    def _reduce(self) -> None:
        whole = _distinct(self._pieces)
        if whole.nbytes > self._most // 2:
            self._spill(whole)
            self._pieces, self._bytes = [], 0
        else:
            self._pieces, self._bytes = [whole], whole.nbytes

    def _spill(self, texts: pa.Array) -> None:
        self._runs.append(texts)
        self._ends.append(len(self._runs))

    def _collect(self) -> None:
        whole = _distinct(self._pieces)
        self._pieces = []
        if not self._ends:
            self._sorted.append(whole)
            return
        if len(whole):
            self._spill(whole)
        for texts in self._merged():
            self._sorted.append(texts)

    def _merged(self) -> Iterator[pa.Array]:
        """All texts in ascending blocks, each once: a run has a text once."""
        size = len(self._runs.data) + 8 * len(self._runs)
        mean = max(1, size // len(self._runs))
        empty = self._runs.read(0, 0)
        begins = [0, *self._ends[:-1]]
        runs = [_Run(begin, end, empty) for begin, end in zip(begins, self._ends, strict=True)]
        # In memory at the same time: blocks as read, their concatenation, and its order.
        block = max(_LEAST_BLOCK, self._memory // (len(runs) * (4 * mean + 16)))
        while runs:
            for run in runs:
                if not len(run.block) and run.has_more:
                    stop = min(run.end, run.at + block)
                    run.block, run.at = self._runs.read(run.at, stop), stop
            # The rest of a run may have texts just above the last one of its block.
            limits = [run.block[-1].as_py() for run in runs if run.has_more]
            pieces = []
            for run in runs:
                cut = _count_up_to(run.block, min(limits)) if limits else len(run.block)
                pieces.append(run.block[:cut])
                run.block = run.block[cut:]
            yield _distinct(pieces)
            runs = [run for run in runs if run.has_more or len(run.block)]

    def write(self, path: Path) -> FileWriter:
        """The file of the table, sealed."""
        self._collect()
        ends, data = self._sorted.ends, self._sorted.data
        with sealed_file(path, id_table_layout(len(ends), "<u8", len(data))) as file:
            for name, column in (("rows", ends), ("text", data)):
                for begin in range(0, len(column), _BLOCK):
                    file.append(name, column.read(begin, min(begin + _BLOCK, len(column))))
        return file

    def close(self) -> None:
        """Frees memory and disk space."""
        self._pieces = []
        self._runs.close()
        self._sorted.close()
