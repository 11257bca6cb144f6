"""What a measurement ran on: processor, memory, disk, file system, and page cache."""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import psutil

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
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu_name(),
        "cores": cores,
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe_disk(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Device and file system that hold a folder, and settings of the device's queue.

    ``rotational`` and ``read_ahead_kb`` (the kernel's own read-ahead) are None if unknown.
    """
    path = Path(folder).resolve()
    holding = [
        mount for mount in psutil.disk_partitions(all=True) if path.is_relative_to(mount.mountpoint)
    ]
    if not holding:
        nothing = ("device", "file_system", "rotational", "read_ahead_kb")
        return dict.fromkeys(nothing)
    # Of two mounts on one folder, the later one is visible.
    mount = max(enumerate(holding), key=lambda item: (len(item[1].mountpoint), item[0]))[1]
    rotational, read_ahead_kb = (_queue(path, name) for name in ("rotational", "read_ahead_kb"))
    return {
        "device": mount.device,
        "file_system": mount.fstype,
        "rotational": None if rotational is None else rotational == 1,
        "read_ahead_kb": read_ahead_kb,
    }


def _queue(path: Path, name: str) -> int | None:
    number = path.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    for folder in (block, block.resolve().parent):
        setting = folder / "queue" / name
        if setting.exists():
            return int(setting.read_text())
    return None


def resident_share(paths: Iterable[str | os.PathLike[str]]) -> float | None:
    """Share of the pages of some files that the page cache holds, or None if unknown."""
    mincore = getattr(ctypes.CDLL(None, use_errno=True), "mincore", None)
    if mincore is None:
        return None
    mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    total = resident = 0
    for path in paths:
        size = os.path.getsize(path)
        if size == 0:
            continue
        mapped = np.memmap(path, dtype=np.uint8, mode="r")
        pages = np.zeros(-(-size // os.sysconf("SC_PAGE_SIZE")), dtype=np.uint8)
        if mincore(mapped.ctypes.data, size, pages.ctypes.data) != 0:
            return None
        total += pages.size
        resident += int((pages & 1).sum())
    return resident / total if total else None


def drop_cached(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Drops files from the page cache; pages that a process has mapped stay."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # dirty pages cannot be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Installed versions of packages, None for one that is not installed."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found
