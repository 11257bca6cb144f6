"""How much memory this process may take: its control groups, the machine, and shared memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import PAGESIZE
from pathlib import Path

import psutil

from graphzero.units import format_bytes

MOUNT = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60  # version 1 writes a number of this size where there is none


@dataclass(frozen=True)
class Interface:
    """The files of one version of control groups, and lines of its ``memory.stat``.

    Version 1 has sums over a group and those below it under names of their own.

    Attributes
    ----------
    version : int
    limits : tuple of str
        Files. Beyond the first of them the kernel kills; beyond the second it slows processes down.
    usage, peak : str
        Files; the most that was used is in newer kernels only (version 2: Linux 5.19).
    kills : str
        A file with a line ``oom_kill``.
    cached, anonymous, shared : str
        Lines: pages of files, shared memory included; memory of processes; shared memory.
    refaults : tuple of str
        Lines, newest kernels first: pages of files that had to be read again.
    not_droppable, droppable : tuple of str
        Lines: those of the pages of files that the kernel cannot drop; and memory of the kernel
        that it can.
    """

    version: int
    limits: tuple[str, ...]
    usage: str
    peak: str
    kills: str
    cached: str
    anonymous: str
    shared: str
    refaults: tuple[str, ...]
    not_droppable: tuple[str, ...]
    droppable: tuple[str, ...] = ()


INTERFACES = (
    Interface(
        version=1,
        limits=("memory.limit_in_bytes",),
        usage="memory.usage_in_bytes",
        peak="memory.max_usage_in_bytes",
        kills="memory.oom_control",
        cached="total_cache",
        anonymous="total_rss",
        shared="total_shmem",
        refaults=("total_workingset_refault_file", "total_workingset_refault"),
        not_droppable=("total_shmem", "total_unevictable"),
    ),
    Interface(
        version=2,
        limits=("memory.max", "memory.high"),
        usage="memory.current",
        peak="memory.peak",
        kills="memory.events",
        cached="file",
        anonymous="anon",
        shared="shmem",
        refaults=("workingset_refault_file", "workingset_refault"),
        not_droppable=("shmem", "unevictable"),
        droppable=("slab_reclaimable",),
    ),
)


def memory_groups(membership: Path, mount: Path) -> Iterator[Path]:
    """Folders of the memory control groups that a process is in, up to the root of each mount.

    Parameters
    ----------
    membership : path
        ``/proc/PID/cgroup``.
    mount : path
        Where control groups are mounted.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if "memory" in names:
            root = mount / "memory"
        elif controllers == "":
            root = mount / "unified" if (mount / "unified").is_dir() else mount
        else:
            continue
        # in a container the path may be that of the host, and only the root visible
        relative = Path(path.lstrip("/"))
        for part in (relative, *relative.parents):
            if (root / part).is_dir():
                yield root / part


def limit_of(folder: Path, interface: Interface) -> int | None:
    """Bytes that a group may have, or None without a limit."""
    found = [number(folder / name) for name in interface.limits]
    return min((limit for limit in found if limit is not None and limit < _NO_LIMIT), default=None)


def number(path: Path) -> int | None:
    """The number in a file, or None if there is no file, or none in it."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # "max"
        return None


def counters_of(path: Path) -> dict[str, int]:
    """Lines of a name and a number; empty if the file cannot be read."""
    try:
        pairs = (line.split() for line in path.read_text().splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    except (OSError, ValueError):
        return {}


UNKNOWN = 1 << 62
_SETTLED = 4  # batches, after which a model has taken about all the memory that it ever takes
_SLACK = 0.05  # of what was available at the worst moment
_STATM = Path("/proc/self/statm")


def available_memory() -> int:
    """Bytes that this process may still allocate before something is killed or slowed down.

    The least of what the machine has available and what each memory control group above the
    process allows beyond its use. Pages of files are not in use, because the kernel drops them
    first; shared memory, locked pages and memory of the kernel are.
    """
    available = int(psutil.virtual_memory().available)
    within = cgroup_available_memory(Path("/proc/self/cgroup"), MOUNT)
    return available if within is None else max(0, min(available, within))


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

    @property
    def is_settled(self) -> bool:
        """Whether a model has been trained for long enough to know what it takes."""
        return self.batches >= _SETTLED

    @property
    def available(self) -> int:
        """Bytes for files: what was available, less a safety margin."""
        return int((1 - _SLACK) * self.least_available)

    def sample_own(self) -> None:
        """Reads the process's own memory; some microseconds."""
        self._peak = max(self._peak, _anonymous_bytes())

    def sample_limits(self) -> None:
        """Reads what is available, and subtracts the peak since the last reading."""
        self.sample_own()
        beyond = self._peak - _anonymous_bytes()
        self.least_available = min(self.least_available, available_memory() - beyond)
        self._peak = 0


def _anonymous_bytes() -> int:
    """Resident memory of the process that does not belong to files."""
    try:
        _, resident, of_files, *_ = _STATM.read_text().split()
    except OSError:  # not Linux: memory of files counts as well, and less is resident than could be
        return int(psutil.Process().memory_info().rss)
    return (int(resident) - int(of_files)) * PAGESIZE


def cgroup_available_memory(membership: Path, mount: Path) -> int | None:
    """What the control groups allow beyond what is used, or None where there is no limit.

    Parameters
    ----------
    membership : path
        ``/proc/self/cgroup``.
    mount : path
        Where control groups are mounted.
    """
    available = []
    for folder in memory_groups(membership, mount):
        for interface in INTERFACES:
            limit = limit_of(folder, interface)
            if limit is not None:
                available.append(limit - _in_use(folder, interface))
    return min(available, default=None)


def memory_group(membership: Path = Path("/proc/self/cgroup")) -> str:
    """The memory control group of this process, by name; empty without one."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return ""
    return " ".join(line for line in lines if "memory" in line.split(":")[1] or "::" in line)


def _in_use(folder: Path, interface: Interface) -> int:
    """Bytes of a control group that the kernel cannot drop."""
    usage = number(folder / interface.usage) or 0
    counts = counters_of(folder / "memory.stat")
    kept = sum(counts.get(name, 0) for name in interface.not_droppable)
    dropped = max(0, counts.get(interface.cached, 0) - kept)
    dropped += sum(counts.get(name, 0) for name in interface.droppable)
    return max(0, usage - dropped)


SHARED_MEMORY = Path("/dev/shm")  # where torch puts tensors that go from process to process
_IN_USE = 1
_REMEDY = (
    "use a smaller prefetch_factor or batch_size, num_workers=0 (graphzero's own threads prepare "
    "batches in parallel), or more shared memory (docker run --shm-size)"
)


def shared_memory_bytes(folder: Path = SHARED_MEMORY) -> int | None:
    """Size of the shared memory, in bytes; None where there is no such file system."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


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
    needed = (workers * queued + _IN_USE) * batch_bytes
    if total is not None and needed > total:
        raise OSError(
            errno.ENOSPC,
            f"the shared memory has {format_bytes(total)}, and {workers} DataLoader workers with "
            f"prefetch_factor={queued} need {format_bytes(needed)} for mini-batches of "
            f"{format_bytes(batch_bytes)}: {_REMEDY}",
            str(folder),
        )


def check_free_shared_memory(batch_bytes: int, folder: Path = SHARED_MEMORY) -> None:
    """Refuses to send a mini-batch for which there is not enough shared memory left.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    try:
        found = os.statvfs(folder)
    except OSError:
        return
    free = found.f_bavail * found.f_frsize
    if found.f_blocks and batch_bytes > free:
        used = found.f_blocks * found.f_frsize - free
        raise OSError(
            errno.ENOSPC,
            f"a mini-batch of {format_bytes(batch_bytes)} does not fit in the shared memory, in "
            f"which {format_bytes(used)} are used, by the mini-batches that DataLoader workers "
            f"have prepared among others, and {format_bytes(free)} are free: {_REMEDY}",
            str(folder),
        )
