"""Huge pages for topology that fits in memory.

Sampling and walks read a topology at random. With pages of 4 KiB, half of the time of a random read
of several GB is the translation of its address; a page of 2 MiB has one entry where 512 were.
Kernels with large folios (ext4 from Linux 6.16, XFS from 5.18) keep files in such pages if they are
read so. They are page cache like all other: all processes that map the file share them, and where
memory is short the kernel takes them back.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from mmap import PAGESIZE
from pathlib import Path

import numpy as np

from graphzero import _core

_STEP_BYTES = 64 << 20  # read between two looks whether to go on
_STEPS_BEFORE_LOOK = 4
_KEPT = 0.9  # of what was read: with less in memory, the file does not fit
_ENOUGH = 0.9  # of a file: with less in huge pages, it is read again
_REMEDY = "it needs a file system with large folios: ext4 from Linux 6.16, XFS from 5.18"


class HugeTopology:
    """Brings files into memory in huge pages, in the background; `Dataset.huge_topology`.

    Until then, and where the kernel does not do it, the files serve as they are. What is sampled
    does not depend on it.

    Parameters
    ----------
    mappings : sequence of _core.Mapping
        They belong to the caller, who closes them after this.

    Attributes
    ----------
    num_bytes : int
        Of all files.
    """

    def __init__(self, mappings: Sequence[_core.Mapping]) -> None:
        self._mappings = mappings
        self.num_bytes = sum(mapping.size for mapping in mappings)
        self._shortfalls: list[str] = []
        stopped = threading.Event()
        # which does not refer to this object: it may be dropped
        self._thread = threading.Thread(
            target=_load_all,
            args=(mappings, stopped, self._shortfalls),
            name="graphzero-huge",
            daemon=True,
        )
        self._end = weakref.finalize(self, _end, self._thread, stopped)  # at exit, too
        self._thread.start()

    @property
    def shortfall(self) -> str | None:
        """Why not all of the topology is in huge pages, once it is known; None if it is."""
        return next(iter(self._shortfalls), None)

    @property
    def huge_bytes(self) -> int:
        """Bytes of the files that this process has mapped in huge pages now."""
        return sum(map(huge_bytes, self._mappings))

    def wait(self, timeout: float | None = None) -> int:
        """Waits until the files have been read, at most some seconds; returns `huge_bytes`."""
        self._thread.join(timeout)
        return self.huge_bytes

    def close(self) -> None:
        """Ends the thread, after the step that it is in; what is in memory stays there."""
        self._end()

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _nothing, ()  # the pages are shared, and the process that reads them is another


def _nothing() -> None:
    """What a worker gets that has the dataset by value."""


def _end(thread: threading.Thread, stopped: threading.Event) -> None:
    stopped.set()
    if thread is not threading.current_thread():  # where the garbage collector may be
        thread.join()


def _load_all(
    mappings: Sequence[_core.Mapping], stopped: threading.Event, shortfalls: list[str]
) -> None:
    for mapping in mappings:
        try:
            shortfall = _read_in_huge_pages(mapping, stopped.is_set)
        except (OSError, ValueError) as error:
            shortfall = str(error)
        if shortfall is not None and not stopped.is_set():
            shortfalls.append(shortfall)
            warnings.warn(f"topology='huge': {shortfall}", RuntimeWarning, stacklevel=1)


def _read_in_huge_pages(mapping: _core.Mapping, is_stopped: Callable[[], bool]) -> str | None:
    """Reads a file in huge pages, and maps them; says why not all of it is."""
    # Advice for the file's own mapping would have each later page fault read 2 MiB.
    staging = _core.Mapping(mapping.path, mapping.held_at)
    try:
        staging.advise("huge")
        for drops in (False, True):
            for number, begin in enumerate(range(0, mapping.size, _STEP_BYTES), 1):
                length = min(_STEP_BYTES, mapping.size - begin)
                if drops:  # the small pages, which were read before
                    mapping.advise("release", begin, length)
                    staging.advise("release", begin, length)
                staging.advise("populate", begin, length)
                mapping.advise("populate", begin, length)
                if is_stopped():
                    return None
                is_last = begin + length == mapping.size
                looks = is_last or number % _STEPS_BEFORE_LOOK == 0
                if looks and not _is_kept(mapping, begin + length):
                    return "memory is short, and the kernel takes back what was read first"
            if huge_bytes(mapping) >= _ENOUGH * mapping.size:
                return None
    finally:
        staging.close()
    return f"the kernel keeps {mapping.path} in small pages; {_REMEDY}"


def _is_kept(mapping: _core.Mapping, num_bytes: int) -> bool:
    pages = mapping.page_map(0, -(-num_bytes // PAGESIZE))
    return bool(np.count_nonzero(pages) >= _KEPT * len(pages))


def huge_bytes(mapping: _core.Mapping) -> int:
    """Bytes of a mapped file that this process has mapped in huge pages; 0 where unknown."""
    first = np.frombuffer(memoryview(mapping), np.uint8).ctypes.data if mapping.size else 0
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return 0
    return _huge_between(first, first + mapping.size, lines)


def _huge_between(first: int, end: int, lines: Iterable[str]) -> int:
    """Sum of the huge pages of files in a range of addresses, from the lines of ``smaps``."""
    num_bytes, is_inside = 0, False
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "FilePmdMapped:":
            num_bytes += int(value.split()[0]) << 10 if is_inside else 0
        elif "-" in name and not name.endswith(":"):
            begin, _, stop = name.partition("-")
            is_inside = int(begin, 16) < end and int(stop, 16) > first
    return num_bytes
