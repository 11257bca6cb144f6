"""How much memory this process may still use: what its control groups and the machine leave."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path

import psutil

__all__ = ["MemoryWatch", "cgroup_memory_left", "memory_left"]

# Version 1, then version 2: file of the limit, and the line of memory.stat that counts what
# cannot be dropped. Page cache is charged too, but gives way.
_FILES = (("memory.limit_in_bytes", "total_rss"), ("memory.max", "anon"))
_SETTLED = 4  # batches, after which a model has taken about all the memory that it will
_SLACK = 0.05  # of what was left at the worst moment
_NO_LIMIT = 1 << 60  # version 1 writes a number of this size where there is none
_STATM = Path("/proc/self/statm")


def memory_left(locked: int = 0) -> int:
    """Bytes that this process may still use before something is dropped or killed.

    The least of what the machine has available and what each memory control group above the
    process allows beyond its anonymous memory.

    Parameters
    ----------
    locked : int
        Bytes of files that the process has locked and could let go.
    """
    available = int(psutil.virtual_memory().available) + locked
    within = cgroup_memory_left(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return available if within is None else max(0, min(available, within))


class MemoryWatch:
    """The least memory that was left at any moment, however short.

    What a model takes comes and goes with each mini-batch, in less time than a look at all limits
    should be taken: between two of these, the process's own anonymous memory is looked at.

    Attributes
    ----------
    least_left : int
        Bytes, as of `memory_left`.
    batches : int
        Mini-batches that have been trained on meanwhile.
    """

    def __init__(self) -> None:
        self.least_left = 1 << 62
        self.batches = 0
        self._peak = 0

    @property
    def is_settled(self) -> bool:
        """Whether a model has been seen to take what it takes."""
        return self.batches >= _SETTLED

    @property
    def room(self) -> int:
        """Bytes that may be locked or cached: what was left, but for a part that is left alone."""
        return int((1 - _SLACK) * self.least_left)

    def glance(self) -> None:
        """Takes note of the process's own memory; some microseconds."""
        self._peak = max(self._peak, _anonymous_bytes())

    def look(self, locked: int) -> None:
        """Takes note of what is left, and would have been left at the peak since the last look."""
        self.glance()
        beyond = self._peak - _anonymous_bytes()
        self.least_left = min(self.least_left, memory_left(locked) - beyond)
        self._peak = 0


def _anonymous_bytes() -> int:
    """Resident memory of the process that is not of files."""
    try:
        _, resident, of_files, *_ = _STATM.read_text().split()
    except OSError:  # not Linux: memory of files counts as well, and less is kept than could be
        return int(psutil.Process().memory_info().rss)
    return (int(resident) - int(of_files)) * PAGESIZE


def cgroup_memory_left(membership: Path, mount: Path) -> int | None:
    """What the control groups leave, or None where there is no limit.

    Parameters
    ----------
    membership : path
        ``/proc/self/cgroup``.
    mount : path
        Where control groups are mounted.
    """
    left = []
    for folder in _groups(membership, mount):
        for limit_file, counted in _FILES:
            limit = _number(folder / limit_file)
            if limit is not None and limit < _NO_LIMIT:
                left.append(limit - (_counter(folder / "memory.stat", counted) or 0))
    return min(left, default=None)


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
        # in a container the path may be that of the host, and only the root be visible
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
