"""What memory a training loop leaves, how many share it, and shared memory.

`MemoryWatch` follows it while an iteration runs; `LearntMemory` keeps what it has seen for the next
iteration of the same loop.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Mapping
from mmap import PAGESIZE
from pathlib import Path
from weakref import WeakKeyDictionary

import psutil

from graphzero.store.free_memory import available_memory, content_of
from graphzero.units import format_bytes

UNKNOWN = 1 << 62
_SETTLED = 4  # batches, after which a model has taken about all the memory that it ever takes
_RECENT = 16  # readings, in which a loop has trained on several mini-batches
_SLACK = 0.05  # of what was available at the worst moment
_TAKEN = 0.9  # of what is planned for mini-batches, of which the largest is yet to come
_STATM = "/proc/self/statm"


class MemoryWatch:
    """The least memory that was available at any moment, however short.

    The memory of a model comes and goes with each mini-batch. Reading all limits that often costs
    too much; between two readings, the process's own anonymous memory is read.

    Attributes
    ----------
    least_available : int
        Bytes, as of `available_memory`.
    batches : int
        Mini-batches that were trained on meanwhile.
    """

    def __init__(self) -> None:
        self.least_available = UNKNOWN
        self.batches = 0
        self._peak = 0
        self._recent: deque[int] = deque(maxlen=_RECENT)

    @property
    def is_settled(self) -> bool:
        """Whether a model has been trained for long enough to know what it takes."""
        return self.batches >= _SETTLED

    @property
    def available(self) -> int:
        """Bytes for files: what was available, less a safety margin."""
        return int((1 - _SLACK) * self.least_available)

    @property
    def recently_available(self) -> int:
        """The least of the last readings, in which a model had all its memory; or what is now."""
        return min(self._recent, default=UNKNOWN)

    def sample_process(self) -> None:
        """Reads the process's own memory; some microseconds."""
        self._peak = max(self._peak, _anonymous_bytes())

    def sample_limits(self) -> None:
        """Reads what is available, and subtracts the peak since the last reading."""
        self.sample_process()
        beyond = self._peak - _anonymous_bytes()
        available = available_memory() - beyond
        self._recent.append(available)
        self.least_available = min(self.least_available, available)
        self._peak = 0


class LearntMemory:
    """What iterations have seen of the memory, for the next one of the same loop."""

    def __init__(self) -> None:
        self._available: WeakKeyDictionary[object, int] = WeakKeyDictionary()

    def available_before(self, loop: object) -> int | None:
        """Bytes for files and mini-batches that earlier iterations of a loop had; or None."""
        return self._available.get(loop)

    def learn(self, loop: object, watch: MemoryWatch, in_flight: int = 0) -> None:
        """Keeps what an iteration has seen for the next one of the same loop.

        That may divide it anew, together with what mini-batches took, `in_flight`.
        """
        if watch.is_settled and watch.least_available < UNKNOWN:
            self._available[loop] = watch.available + int(_TAKEN * in_flight)


LEARNT_MEMORY = LearntMemory()  # of this process


def _anonymous_bytes() -> int:
    """Resident memory of the process that does not belong to files."""
    try:
        _, resident, of_files, *_ = content_of(_STATM).split()
    except OSError:  # not Linux: memory of files counts as well, and less is resident than could be
        return int(psutil.Process().memory_info().rss)
    return (int(resident) - int(of_files)) * PAGESIZE


_ADDRESSES_OF_THIS_HOST = ("localhost", "127.0.0.1", "::1")


def ranks_of_host(environment: Mapping[str, str], world_size: int) -> int:
    """How many ranks of a distributed run share the memory of this machine, as far as is known.

    Parameters
    ----------
    environment : mapping of str to str
        Variables: ``LOCAL_WORLD_SIZE``, which torchrun sets; else ``MASTER_ADDR``, at which all
        ranks meet.
    world_size : int
        Ranks that share an epoch.
    """
    local = environment.get("LOCAL_WORLD_SIZE", "")
    if local.isdecimal():
        return max(1, int(local))
    return world_size if environment.get("MASTER_ADDR") in _ADDRESSES_OF_THIS_HOST else 1


SHARED_MEMORY = Path("/dev/shm")  # where torch puts tensors that go from process to process
_BATCHES_IN_USE = 1
FEWER_FROM_WORKERS = (
    "use num_workers=0 (graphzero's own threads prepare batches in parallel), or a smaller "
    "prefetch_factor or batch_size"
)
_REMEDY = f"{FEWER_FROM_WORKERS}, or more shared memory (docker run --shm-size)"


def shared_memory_bytes(folder: Path = SHARED_MEMORY) -> int | None:
    """Size of the shared memory, in bytes; None where there is no such file system."""
    try:
        system = os.statvfs(folder)
    except OSError:
        return None
    return system.f_blocks * system.f_frsize


def is_shared_memory_scarce(folder: Path = SHARED_MEMORY) -> bool:
    """Whether half of the shared memory is used, so that workers should keep nothing for later."""
    try:
        system = os.statvfs(folder)
    except OSError:
        return True
    return 2 * system.f_bavail < system.f_blocks


def check_shared_memory(
    batch_bytes: int, workers: int, queued: int, folder: Path = SHARED_MEMORY
) -> None:
    """Refuses workers whose mini-batches do not fit, before the first of them is sent.

    The kernel kills a worker that writes beyond the end of the shared memory (SIGBUS).

    Parameters
    ----------
    batch_bytes : int
        One mini-batch with its rows.
    workers : int
        Of the DataLoader.
    queued : int
        Mini-batches that each of them prepares ahead: its ``prefetch_factor``.
    folder : path
        Where shared memory is mounted.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    total = shared_memory_bytes(folder)
    needed = (workers * queued + _BATCHES_IN_USE) * batch_bytes
    if total is not None and needed > total:
        raise OSError(
            errno.ENOSPC,
            f"the shared memory has {format_bytes(total)}, and {workers} DataLoader workers with "
            f"prefetch_factor={queued} need {format_bytes(needed)} for mini-batches of "
            f"{format_bytes(batch_bytes)}: {_REMEDY}",
            str(folder),
        )


def shared_memory_is_full(batch_bytes: int, folder: Path = SHARED_MEMORY) -> OSError:
    """The error for a mini-batch that found no shared memory, with ``errno.ENOSPC``."""
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    used = system.f_blocks * system.f_frsize - free
    return OSError(
        errno.ENOSPC,
        f"a mini-batch of {format_bytes(batch_bytes)} does not fit in the shared memory, in "
        f"which {format_bytes(used)} are used, by the mini-batches that DataLoader workers "
        f"have prepared among others, and {format_bytes(free)} are free: {_REMEDY}",
        str(folder),
    )
