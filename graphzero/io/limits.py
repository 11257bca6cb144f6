"""How much memory is available to this process, in its control groups and on the machine."""

from __future__ import annotations

from mmap import PAGESIZE
from pathlib import Path

import psutil

from graphzero.io.control_groups import (
    INTERFACES,
    MOUNT,
    Interface,
    counters_of,
    limit_of,
    memory_groups,
    number,
)

__all__ = ["MemoryWatch", "available_memory", "cgroup_available_memory", "memory_group"]

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
