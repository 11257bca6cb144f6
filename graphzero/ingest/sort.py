"""External sort of edges by 64-bit keys, and arrays in unnamed temporary files.

The disk space of such a file is free again when nothing refers to it, when the build ends at the
latest (`spooling_near`), and when the process ends, for whatever reason.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from graphzero._core import sort_keys
from graphzero.store.atomic import reserve_space, write_at
from graphzero.units import available_processors

Array = npt.NDArray[Any]

# Temporary files


_SPOOL_MEMORY = 1 << 18  # bytes of an array that is not worth a file
# Where spools of a build are, and what closes its files, which a traceback may still refer to.
_of_build: ContextVar[tuple[Path, ExitStack] | None] = ContextVar("of_build", default=None)


def close_with_build(close: Callable[[], object]) -> None:
    """Calls this when the build ends, if there is one."""
    if (build := _of_build.get()) is not None:
        build[1].callback(close)


class TempFile:
    """An unnamed file that is read and written at byte offsets.

    Parameters
    ----------
    folder : pathlib.Path
        Determines the disk.

    Raises
    ------
    OSError
        With errno and the folder, here and when the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self.close = weakref.finalize(self, self._file.close)
        close_with_build(self.close)

    def reserve(self, size: int) -> None:
        """Reserves disk space for size bytes, so that later writes cannot run out of it."""
        with self._naming():
            reserve_space(self._file.fileno(), size)

    def write(self, array: Array, offset: int) -> None:
        """Writes an array at a byte offset."""
        with self._naming():
            write_at(self._file.fileno(), bytes_of(array).data, offset)

    def read(self, offset: int, count: int, dtype: np.dtype[np.generic]) -> Array:
        """A new array of count elements from a byte offset."""
        array = np.empty(count, dtype)
        view = memoryview(array.view(np.uint8).data)
        with self._naming():
            while view.nbytes:
                got = os.preadv(self._file.fileno(), [view], offset)
                if got == 0:  # shorter than written
                    raise OSError(errno.EIO, "")
                view, offset = view[got:], offset + got
        return array

    def map(self, size: int, access: int = mmap.ACCESS_WRITE) -> mmap.mmap:
        """A shared mapping, which stays valid after `close`."""
        return mmap.mmap(self._file.fileno(), size, access=access)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Names the folder in errors."""
        try:
            yield
        except OSError as error:
            code = error.errno or errno.EIO
            reason = f"temporary data of the build: {os.strerror(code)}"
            raise OSError(code, reason, os.fspath(self._folder)) from error


class TempColumn:
    """A growing 1-D array, in memory while it is small, else in a `TempFile`.

    Parameters
    ----------
    folder : pathlib.Path
    dtype : dtype-like
    memory : int
        Bytes of memory that it may take.
    """

    def __init__(self, folder: Path, dtype: npt.DTypeLike, memory: int = 0) -> None:
        self.dtype = np.dtype(dtype)
        self._folder = folder
        self._memory = memory
        self._pieces: list[Array] = []
        self._file: TempFile | None = None
        self._length = 0
        self._written = 0  # bytes in the file

    def __len__(self) -> int:
        return self._length

    def append(self, array: Array) -> None:
        """Appends a copy of an array, in the column's dtype."""
        piece = np.asarray(array, dtype=self.dtype)
        self._length += len(piece)
        if self._file is None and self._length * self.dtype.itemsize <= self._memory:
            self._pieces.append(piece.copy())
            return
        if self._file is None:
            self._file = TempFile(self._folder)
        for unwritten in (*self._pieces, piece):
            self._file.write(unwritten, self._written)
            self._written += unwritten.nbytes
        self._pieces = []

    def read(self, begin: int, end: int) -> Array:
        """Elements [begin, end); read-only by convention."""
        if self._file is not None:
            return self._file.read(begin * self.dtype.itemsize, end - begin, self.dtype)
        if len(self._pieces) != 1:
            self._pieces = [np.concatenate([*self._pieces, np.empty(0, self.dtype)])]
        return self._pieces[0][begin:end]

    def array(self) -> Array:
        """All elements, read-only, mapped if they are in a file; valid after `close`."""
        if self._file is None:
            elements = self.read(0, self._length)
        else:
            mapped = self._file.map(self._length * self.dtype.itemsize, mmap.ACCESS_READ)
            elements = np.frombuffer(mapped, self.dtype)
        elements.flags.writeable = False
        return elements

    def close(self) -> None:
        """Frees memory and disk space."""
        self._pieces = []
        self._length = self._written = 0
        if self._file is not None:
            self._file.close()
            self._file = None


@contextmanager
def spooling_near(folder: Path) -> Iterator[None]:
    """A build: spools are on the disk of its folder, which need not exist yet; else in TMPDIR."""
    folder = folder.absolute()
    near = next(path for path in (folder, *folder.parents) if path.is_dir())
    with ExitStack() as temporary:
        token = _of_build.set((near, temporary))
        try:
            yield
        finally:
            _of_build.reset(token)


def new_spool() -> TempColumn:
    """Bytes of what cannot be mapped: it is written once, and is an array from then on."""
    folder, _ = _of_build.get() or (Path(tempfile.gettempdir()), None)
    return TempColumn(folder, np.uint8, _SPOOL_MEMORY)


def bytes_of(array: Array) -> npt.NDArray[np.uint8]:
    """The bytes of an array, in C order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def temp_array(folder: Path, count: int, dtype: npt.DTypeLike, memory: int) -> Array:
    """A zeroed 1-D array, in memory up to this size, else mapped from an unnamed file."""
    size = count * np.dtype(dtype).itemsize
    if size <= memory:
        return np.zeros(count, dtype)
    file = TempFile(folder)
    # A write to a mapped page kills the process if the disk is full.
    file.reserve(size)
    return np.frombuffer(file.map(size), dtype)


# The sort


Keys = npt.NDArray[np.uint64]
Payload = tuple[Array, ...]

_MIN_BLOCK = 16
_MIN_RUN = 1024
_PIECE = 1 << 16


def sort_stably(keys: Keys) -> npt.NDArray[np.uint32]:
    """Sorts 64-bit keys in place, fewer than 2^32; returns where each one was."""
    order = np.arange(len(keys), dtype=np.uint32)
    sort_keys(keys, order, available_processors())
    return order


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
            order = sort_stably(keys)
            payload = tuple(array[order] for array in payload)
        else:
            sort_keys(keys, None, available_processors())
        self._last = keys, payload

    @property
    def keys_in_memory(self) -> Keys | None:
        """All keys, sorted, where they are in memory."""
        return None if self._ends or self._last is None else self._last[0]

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
        entry_bytes = 8 + sum(column.dtype.itemsize for column in self._payload)
        # In memory at the same time: blocks as read, their concatenation, and its sort.
        block = max(_MIN_BLOCK, self._memory // (len(self._ends) * (3 * entry_bytes + 40)))
        at = [0, *self._ends[:-1]]  # what comes next of each run
        blocks = [self._read(0, 0)] * len(at)
        while True:
            for i, end in enumerate(self._ends):
                count = len(blocks[i][0])
                if count <= block // 2 and at[i] + count < end:
                    blocks[i] = self._read(at[i], min(end, at[i] + block))
            cuts = self._cuts(at, [keys for keys, _ in blocks])
            if not any(cuts):
                return
            yield self._join(
                [
                    (keys[:cut], tuple(array[:cut] for array in payload))
                    for (keys, payload), cut in zip(blocks, cuts, strict=True)
                    if cut
                ]
            )
            for i, cut in enumerate(cuts):
                keys, payload = blocks[i]
                blocks[i] = keys[cut:], tuple(array[cut:] for array in payload)
                at[i] += cut

    def _cuts(self, at: list[int], blocks: list[Keys]) -> list[int]:
        """How much of each run's block can be output now.

        The limit is the smallest last key of all blocks: the rest of that run may have keys just
        above it. Edges of later runs that equal the limit must wait too, so that ties stay in input
        order.
        """
        open_runs = [
            (keys[-1], i) for i, keys in enumerate(blocks) if at[i] + len(keys) < self._ends[i]
        ]
        if not open_runs:
            return [len(keys) for keys in blocks]
        limit, first = min(open_runs)
        return [
            int(np.searchsorted(keys, limit, "right" if i <= first else "left"))
            for i, keys in enumerate(blocks)
        ]

    def _read(self, begin: int, end: int) -> tuple[Keys, Payload]:
        payload = tuple(column.read(begin, end) for column in self._payload)
        return self._keys.read(begin, end), payload

    def _join(self, pieces: list[tuple[Keys, Payload]]) -> tuple[Keys, Payload]:
        keys = np.concatenate([piece[0] for piece in pieces])
        if len(pieces) == 1:
            return keys, pieces[0][1]
        if not self._payload:
            sort_keys(keys, None, available_processors())
            return keys, ()
        order = sort_stably(keys)
        return keys, tuple(
            np.concatenate([payload[column] for _, payload in pieces])[order]
            for column in range(len(self._payload))
        )


def run_length(dtypes: Sequence[np.dtype[np.generic]], memory: int) -> int:
    """Entries that can be sorted at once: keys, copies and permutations counted."""
    payload_bytes = sum(dtype.itemsize for dtype in dtypes)
    return max(_MIN_RUN, memory // (32 + (32 + 3 * payload_bytes if dtypes else 0)))


def sorted_pieces(sorter: EdgeSorter, size: int) -> Iterator[tuple[Keys, Payload]]:
    """What a sorter has, in pieces that leave memory for work on them."""
    for keys, payload in sorter.merged():
        for begin in range(0, len(keys), size):
            cut = slice(begin, begin + size)
            yield keys[cut], tuple(array[cut] for array in payload)


def sorted_columns(folder: Path, columns: Sequence[TempColumn], memory: int) -> list[Array]:
    """Columns sorted by the first one, of uint64; they are closed.

    The arrays are in memory where they are small, else mapped from unnamed files.
    """
    count, dtypes = len(columns[0]), [column.dtype for column in columns[1:]]
    arrays = [temp_array(folder, count, column.dtype, memory // 16) for column in columns]
    run, at = run_length(dtypes, memory // 2), 0
    sorter = EdgeSorter(folder, dtypes, memory // 2)
    for begin in range(0, count, run):
        sorter.spill()
        keys, *rest = (column.read(begin, min(begin + run, count)) for column in columns)
        sorter.add(keys.copy(), tuple(rest))
    for column in columns:
        column.close()
    for keys, payload in sorted_pieces(sorter, _PIECE):
        for array, values in zip(arrays, (keys, *payload), strict=True):
            array[at : at + len(keys)] = values
        at += len(keys)
    return arrays
