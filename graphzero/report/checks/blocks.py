"""Reads a file through in blocks, which threads check side by side."""

from __future__ import annotations

import mmap
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.report.checks.crc import combine
from graphzero.report.checks.finding import Finding
from graphzero.store.format import DTYPES, Header

__all__ = ["CORRUPT", "Check", "CheckedFile", "Group", "Outcome", "Workers", "run_group"]

_BLOCK_BYTES = 4 << 20
CORRUPT = "is corrupt (checksum mismatch)"

Array = npt.NDArray[Any]
Advance = Callable[[int], object]
_T = TypeVar("_T")


class Workers:
    """Threads that check blocks, and the progress of the whole.

    Parameters
    ----------
    num_threads : int
    advance : callable
        Called with the number of bytes after each block.
    """

    def __init__(self, num_threads: int, advance: Advance) -> None:
        self._pool = ThreadPoolExecutor(num_threads, "verify")
        self._most = 2 * num_threads
        self.advance = advance
        self.num_bytes = 0

    def count(self, num_bytes: int) -> None:
        """Notes that so many bytes have been checked."""
        self.num_bytes += num_bytes
        self.advance(num_bytes)

    def in_order(
        self, do: Callable[[int, int], _T], count: int, step: int
    ) -> Iterator[tuple[int, int, _T]]:
        """Calls ``do(begin, end)`` for ranges of [0, count); yields the results in order."""
        running: deque[tuple[int, int, Future[_T]]] = deque()
        for begin in range(0, count, step):
            end = min(begin + step, count)
            running.append((begin, end, self._pool.submit(do, begin, end)))
            if len(running) > self._most:
                first, last, future = running.popleft()
                yield first, last, future.result()
        while running:
            first, last, future = running.popleft()
            yield first, last, future.result()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


class CheckedFile:
    """A file whose header is intact, mapped while it is checked.

    Parameters
    ----------
    path : str
    header : Header
    """

    def __init__(self, path: str, header: Header) -> None:
        self.path, self.header = path, header
        self._file = open(path, "rb")  # noqa: SIM115
        self._map = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            self._map.madvise(mmap.MADV_SEQUENTIAL)

    def array(self, name: str) -> Array:
        """The entries of a section, a view."""
        section = self.header.find(name)
        if section is None:
            raise KeyError(name)
        dtype = DTYPES[section.dtype]
        if section.count == 0:
            return np.empty(0, dtype)
        return np.frombuffer(self._map, dtype, section.count, section.offset)

    def bytes_of(self, name: str) -> Array:
        """The bytes of a section, a view."""
        section = self.header.find(name)
        if section is None or section.length == 0:
            return np.empty(0, np.uint8)
        return np.frombuffer(self._map, np.uint8, section.length, section.offset)

    def arrays(self, names: Sequence[str]) -> dict[str, Array]:
        """Those of these sections that the file has."""
        return {name: self.array(name) for name in names if self.header.find(name) is not None}

    def offset_of(self, name: str, entry: int) -> int:
        """First byte of an entry."""
        section = self.header.find(name)
        assert section is not None
        return section.offset + entry * DTYPES[section.dtype].itemsize

    def finding(self, name: str, entry: int, message: str) -> Finding:
        """A fault of an entry of a section."""
        return Finding(self.path, name, self.offset_of(name, entry), message)

    def check_size(self) -> None:
        """Raises FormatError if the file has become shorter: to read on would be a SIGBUS."""
        if os.fstat(self._file.fileno()).st_size < self.header.file_bytes:
            raise FormatError(f"{self.path} was truncated while it was being checked")

    def forget(self, name: str, begin: int, end: int) -> None:
        """Unmaps pages of entries, which stay in the page cache, so that memory stays small."""
        if hasattr(mmap, "MADV_DONTNEED"):
            first = self.offset_of(name, begin) // mmap.PAGESIZE * mmap.PAGESIZE
            length = self.offset_of(name, end) - first
            if length > 0:
                self._map.madvise(mmap.MADV_DONTNEED, first, length)

    def close(self) -> None:
        """Closes the file, which is unmapped with the last array over it."""
        del self._map
        self._file.close()


@dataclass(frozen=True)
class Check:
    """A check of the entries of a section.

    Attributes
    ----------
    section : str
    first_fault : callable
        First faulty entry of a range [begin, end), or -1. Runs in threads.
    message : callable
        What is wrong with an entry.
    needs : tuple of str
        Other sections that the check reads: where one of these is faulty, so is its result.
    """

    section: str
    first_fault: Callable[[int, int], int]
    message: Callable[[int], str]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """Sections of equally many entries, or multiples of them, which are read through together.

    Attributes
    ----------
    names : sequence of str
    checks : sequence of Check
        Each section has at most one.
    totals : callable, optional
        Numbers of a range of entries, which are added over all ranges modulo 2^64.
    """

    names: Sequence[str]
    checks: Sequence[Check] = ()
    totals: Callable[[int, int], tuple[int, ...]] | None = None


@dataclass
class Outcome:
    """What a group gave.

    Attributes
    ----------
    findings : dict of str to Finding
        By section.
    totals : tuple of int
    """

    findings: dict[str, Finding] = field(default_factory=dict)
    totals: tuple[int, ...] = ()


class _Block:
    """Checks one block of a group."""

    def __init__(self, file: CheckedFile, group: Group, arrays: Mapping[str, Array]) -> None:
        self.file, self.group = file, group
        self.bytes = {name: file.bytes_of(name) for name in arrays}
        self.widths = {name: array.itemsize for name, array in arrays.items()}

    def __call__(self, begin: int, end: int) -> tuple[list[int], list[int], tuple[int, ...]]:
        """Checksums of sections, first faults of checks, and totals."""
        self.file.check_size()
        crcs = []
        for name, data in self.bytes.items():
            width = self.widths[name]
            crcs.append(zlib.crc32(data[begin * width : end * width].data))
        faults = [check.first_fault(begin, end) for check in self.group.checks]
        totals = () if self.group.totals is None else self.group.totals(begin, end)
        return crcs, faults, totals

    def forget(self, begin: int, end: int) -> None:
        for name in self.bytes:
            self.file.forget(name, begin, end)


def run_group(file: CheckedFile, group: Group, workers: Workers) -> Outcome:
    """Reads some sections through: checksums, the first fault of each, and totals."""
    arrays = file.arrays(group.names)
    block = _Block(file, group, arrays)
    count = max((len(array) for array in arrays.values()), default=0)
    entry_bytes = max(1, sum(block.widths.values()))
    crcs = dict.fromkeys(arrays, 0)
    faults = [-1] * len(group.checks)
    totals: tuple[int, ...] = ()
    for begin, end, found in workers.in_order(block, count, max(1, _BLOCK_BYTES // entry_bytes)):
        for name, crc in zip(crcs, found[0], strict=True):
            crcs[name] = combine(crcs[name], crc, (end - begin) * block.widths[name])
        faults = [new if old < 0 else old for old, new in zip(faults, found[1], strict=True)]
        sums = totals or (0,) * len(found[2])
        totals = tuple((a + b) % 2**64 for a, b in zip(sums, found[2], strict=True))
        block.forget(begin, end)
        workers.count((end - begin) * entry_bytes)
    return Outcome(_findings(file, group, crcs, faults), totals)


def _findings(
    file: CheckedFile, group: Group, crcs: Mapping[str, int], faults: Sequence[int]
) -> dict[str, Finding]:
    """At most one finding a section: where its checksum is wrong, this is the fault."""
    found = {}
    stored = {section.name: section.crc for section in file.header.sections}
    wrong = [name for name, crc in crcs.items() if stored[name] != crc]
    for name in wrong:
        found[name] = file.finding(name, 0, f"section '{name}' {CORRUPT}: build the file again")
    for check, entry in zip(group.checks, faults, strict=True):
        if entry < 0:
            continue
        text = check.message(entry)
        if check.section in wrong:
            text = f"section '{check.section}' {CORRUPT}, and {text}"
        elif any(name in found for name in check.needs):
            continue
        found[check.section] = file.finding(check.section, entry, f"{text}: build the file again")
    return found
