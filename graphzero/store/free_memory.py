"""How much memory this process may still take: the machine and its control groups say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
_MOST_CONTENT = 1 << 16  # bytes; the longest, memory.stat, has 2 KiB
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
    usage : str
        A file.
    kills : str
        A file with a line ``oom_kill``.
    cached, anonymous, shared : str
        Lines: pages of files, shared memory included; memory of processes; shared memory.
    not_droppable, droppable : tuple of str
        Lines: those of the pages of files that the kernel cannot drop; and memory of the kernel
        that it can.
    """

    version: int
    limits: tuple[str, ...]
    usage: str
    kills: str
    cached: str
    anonymous: str
    shared: str
    not_droppable: tuple[str, ...]
    droppable: tuple[str, ...] = ()


INTERFACES = (
    Interface(
        version=1,
        limits=("memory.limit_in_bytes",),
        usage="memory.usage_in_bytes",
        kills="memory.oom_control",
        cached="total_cache",
        anonymous="total_rss",
        shared="total_shmem",
        not_droppable=("total_shmem", "total_unevictable"),
    ),
    Interface(
        version=2,
        limits=("memory.max", "memory.high"),
        usage="memory.current",
        kills="memory.events",
        cached="file",
        anonymous="anon",
        shared="shmem",
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


def content_of(path: Path | str) -> bytes:
    """What a small file of the kernel says; at a fraction of the cost of `Path.read_text`.

    A training loop pays for it about a hundred times a second.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_CONTENT)
    finally:
        os.close(descriptor)


def limit_of(folder: Path, interface: Interface) -> int | None:
    """Bytes that a group may have, or None without a limit."""
    limits = [number(folder / name) for name in interface.limits]
    return min((limit for limit in limits if limit is not None and limit < _NO_LIMIT), default=None)


def number(path: Path) -> int | None:
    """The number in a file, or None if there is no file, or none in it."""
    try:
        return int(content_of(path))
    except (OSError, ValueError):  # "max"
        return None


def counters_of(path: Path) -> dict[str, int]:
    """Lines of a name and a number; empty if the file cannot be read."""
    try:
        pairs = (line.split() for line in content_of(path).decode().splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    except (OSError, ValueError):
        return {}


def available_memory() -> int:
    """Bytes that this process may still allocate before something is killed or slowed down.

    The least of what the machine has available and what each memory control group above the
    process allows beyond its use. Pages of files are not in use, because the kernel drops them
    first; shared memory, locked pages and memory of the kernel are.
    """
    import psutil  # which `import graphzero` does without

    available = int(psutil.virtual_memory().available)
    within = cgroup_available_memory(Path("/proc/self/cgroup"), MOUNT)
    return available if within is None else max(0, min(available, within))


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


def _in_use(folder: Path, interface: Interface) -> int:
    """Bytes of a control group that the kernel cannot drop."""
    usage = number(folder / interface.usage) or 0
    counts = counters_of(folder / "memory.stat")
    kept = sum(counts.get(name, 0) for name in interface.not_droppable)
    dropped = max(0, counts.get(interface.cached, 0) - kept)
    dropped += sum(counts.get(name, 0) for name in interface.droppable)
    return max(0, usage - dropped)
