"""How much memory is available to this process, in its control groups and on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path

import psutil

__all__ = ["MemoryWatch", "available_memory", "cgroup_available_memory"]

# Version 1, then version 2: file of the limit, and the line of memory.stat that counts what the
# kernel cannot drop. It charges the page cache too, but drops it first.
_FILES = (("memory.limit_in_bytes", "total_rss"), ("memory.max", "anon"))
_SETTLED = 4  # batches, after which a model has taken about all the memory that it ever takes
_SLACK = 0.05  # of what was available at the worst moment
_NO_LIMIT = 1 << 60  # version 1 writes a number of this size where there is none
_STATM = Path("/proc/self/statm")


def available_memory(pinned: int = 0) -> int:
    """Bytes that this process may still allocate before something is dropped or killed.

    The least of what the machine has available and what each memory control group above the
    process allows beyond its anonymous memory.

    Parameters
    ----------
    pinned : int
        Bytes of files that the process has pinned and can release.
    """
    available = int(psutil.virtual_memory().available) + pinned
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

    def sample_limits(self, pinned: int) -> None:
        """Reads what is available, and subtracts the peak since the last reading."""
        self.sample_own()
        beyond = self._peak - _anonymous_bytes()
        self.least_available = min(self.least_available, available_memory(pinned) - beyond)
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
        for limit_file, counted in _FILES:
            limit = _number(folder / limit_file)
            if limit is not None and limit < _NO_LIMIT:
                available.append(limit - (_counter(folder / "memory.stat", counted) or 0))
    return min(available, default=None)


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


def _counter(path: Path, name: str) -> int | None:
    try:
        fields = dict(line.split() for line in path.read_text().splitlines())
        return int(fields[name])
    except (OSError, ValueError, KeyError):
        return None
