"""How much memory this process may still use: what its control groups and the machine leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

__all__ = ["cgroup_memory_left", "memory_left"]

# Version 1, then version 2: file of the limit, and the line of memory.stat that counts what
# cannot be dropped. Page cache is charged too, but gives way.
_FILES = (("memory.limit_in_bytes", "total_rss"), ("memory.max", "anon"))
_NO_LIMIT = 1 << 60  # version 1 writes a number of this size where there is none


def memory_left() -> int:
    """Bytes that this process may still use before something is dropped or killed.

    The least of what the machine has available and what each memory control group above the
    process allows beyond its anonymous memory.
    """
    available = int(psutil.virtual_memory().available)
    within = cgroup_memory_left(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return available if within is None else max(0, min(available, within))


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
