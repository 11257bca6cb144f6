"""Memory control groups of a process, in both versions of their interface."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["INTERFACES", "MOUNT", "Interface", "counters_of", "limit_of", "memory_groups", "number"]

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
