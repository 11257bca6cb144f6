"""How much memory is available to this process, in its control groups and on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import PAGESIZE
from pathlib import Path

import psutil

__all__ = ["MemoryWatch", "available_memory", "cgroup_available_memory", "memory_group"]

_SETTLED = 4  # batches, after which a model has taken about all the memory that it ever takes
_SLACK = 0.05  # of what was available at the worst moment
_NO_LIMIT = 1 << 60  # version 1 writes a number of this size where there is none
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class _Interface:
    """The files of one version of control groups.

    Attributes
    ----------
    limits : tuple of str
        Beyond the first of them the kernel kills; beyond the second it slows processes down.
    usage : str
    cached, not_droppable, droppable : tuple of str
        Lines of memory.stat: pages of files; those of them that the kernel cannot drop; and
        memory of the kernel that it can.
    """

    limits: tuple[str, ...]
    usage: str
    cached: str
    not_droppable: tuple[str, ...]
    droppable: tuple[str, ...] = ()


_INTERFACES = (
    _Interface(
        ("memory.limit_in_bytes",),
        "memory.usage_in_bytes",
        "total_cache",
        ("total_shmem", "total_unevictable"),
    ),
    _Interface(
        ("memory.max", "memory.high"),
        "memory.current",
        "file",
        ("shmem", "unevictable"),
        ("slab_reclaimable",),
    ),
)


def available_memory() -> int:
    """Bytes that this process may still allocate before something is killed or slowed down.

    The least of what the machine has available and what each memory control group above the
    process allows beyond its use. Pages of files are not in use, because the kernel drops them
    first; shared memory, locked pages and memory of the kernel are.
    """
    available = int(psutil.virtual_memory().available)
    within = cgroup_available_memory(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
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
        self.least_available = 1 << 62
        self.batches = 0
        self._peak = 0

    @property
    def is_settled(self) -> bool:
        """Whether a model has been trained for long enough to know what it takes."""
        return self.batches >= _SETTLED

    @property
    def room(self) -> int:
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
    for folder in _groups(membership, mount):
        for interface in _INTERFACES:
            found = [_number(folder / name) for name in interface.limits]
            limits = [limit for limit in found if limit is not None and limit < _NO_LIMIT]
            if limits:
                available.append(min(limits) - _in_use(folder, interface))
    return min(available, default=None)


def memory_group(membership: Path = Path("/proc/self/cgroup")) -> str:
    """The memory control group of this process, by name; empty without one."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return ""
    return " ".join(line for line in lines if "memory" in line.split(":")[1] or "::" in line)


def _in_use(folder: Path, interface: _Interface) -> int:
    """Bytes of a control group that the kernel cannot drop."""
    usage = _number(folder / interface.usage) or 0
    counts = _counters(folder / "memory.stat")
    kept = sum(counts.get(name, 0) for name in interface.not_droppable)
    dropped = max(0, counts.get(interface.cached, 0) - kept)
    dropped += sum(counts.get(name, 0) for name in interface.droppable)
    return max(0, usage - dropped)


def _groups(membership: Path, mount: Path) -> Iterator[Path]:
    """Folders of the memory control groups that the process is in, up to the root of each mount."""
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


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # "max"
        return None


def _counters(path: Path) -> dict[str, int]:
    try:
        pairs = (line.split() for line in path.read_text().splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    except (OSError, ValueError):
        return {}
