"""What a measurement ran on: processor, memory, disk, file system, and page cache."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil

from graphzero.report.readings.environment import system_name
from graphzero.report.readings.environment import versions_of as versions
from graphzero.report.readings.page_cache import CachedFiles
from graphzero.report.readings.storage import find_device, find_mount
from graphzero.store.machine import cpu_name, usable_cores

__all__ = [
    "Usage",
    "describe_disk",
    "describe_machine",
    "drop_cached",
    "others_share",
    "read_usage",
    "resident_share",
    "versions",
]


@dataclass(frozen=True)
class Usage:
    """A reading of clock and processors, in seconds.

    Attributes
    ----------
    clock : float
        Wall time.
    busy : float
        Processor time of all processes, and time taken by the hypervisor.
    own : float
        Processor time of this process and its living children.
    """

    clock: float
    busy: float
    own: float


def read_usage() -> Usage:
    """The current clock and processor times."""
    # guest and guest_nice are within user and nice.
    idle = ("idle", "iowait", "guest", "guest_nice")
    times = psutil.cpu_times()._asdict()
    busy = sum(seconds for name, seconds in times.items() if name not in idle)
    this = psutil.Process()
    used = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return Usage(time.monotonic(), busy, sum(one.user + one.system for one in used))


def others_share(before: Usage, after: Usage, processors: int) -> float:
    """Share of processor time that other processes took between two readings.

    A benchmark of two threads on two cores means little while other processes run.
    """
    others = (after.busy - before.busy) - (after.own - before.own)
    return max(0.0, others) / ((after.clock - before.clock) * processors)


def describe_machine() -> dict[str, Any]:
    """Processor, usable cores, memory in bytes, kernel and Python."""
    return {
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": system_name(),
        "python": platform.python_version(),
    }


def describe_disk(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Device and file system that hold a folder, and settings of the device's queue.

    ``rotational`` and ``read_ahead_kb`` (the kernel's own read-ahead) are None if unknown.
    """
    mount, device = find_mount(folder), find_device(folder)
    readahead = None if device is None else device.readahead_bytes
    return {
        "device": None if mount is None else mount.source,
        "file_system": None if mount is None else mount.file_system,
        "rotational": None if device is None else device.rotational,
        "read_ahead_kb": None if readahead is None else readahead // 1024,
    }


def resident_share(paths: Iterable[str | os.PathLike[str]]) -> float | None:
    """Share of the pages of some files that the page cache holds, or None if unknown."""
    files = list(paths)
    with CachedFiles(files) as cached:
        found = cached.read()
        total = sum(os.path.getsize(path) for path in cached.paths)
        known = len(found) == len(cached.paths)
    return sum(found.values()) / total if known and total else None


def drop_cached(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Drops files from the page cache; pages that a process has mapped stay."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # dirty pages cannot be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
