"""Readings of a run at one moment: processes, memory groups, files, disks and the machine.

A figure that the system does not have, or does not tell this user, is None.
"""

from __future__ import annotations

import math
import os
import platform
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Protocol, runtime_checkable

import psutil

from graphzero import _core
from graphzero.report.recording import FileReading, GroupReading, ProcessReading
from graphzero.store.free_memory import (
    INTERFACES,
    MOUNT,
    counters_of,
    limit_of,
    memory_groups,
    number,
)
from graphzero.store.manifest import read_manifest
from graphzero.store.mapped_file import residency, resident_bytes
from graphzero.units import available_processors, format_bytes

PROC = Path("/proc")
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")  # what a processor does, by psutil
DATASET_SUFFIXES = (".gl", ".gd", ".npy")
_PACKAGES = ("graphzero", "numpy", "torch", "torch_geometric")


# --- processes


def read_processes(pid: int | None = None, *, with_pss: bool = False) -> tuple[ProcessReading, ...]:
    """A process, by default this one, and its descendants, as far as they run.

    Parameters
    ----------
    pid : int, optional
    with_pss : bool
        Also what counts shared pages once. The kernel then visits every page that a process has
        mapped: some milliseconds for each GiB.
    """
    readings = []
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        for process in (first, *first.children(recursive=True)):
            with suppress(psutil.NoSuchProcess), process.oneshot():
                if process.status() != psutil.STATUS_ZOMBIE:
                    readings.append(_read_process(process, with_pss))
    return tuple(readings)


def _read_process(process: psutil.Process, with_pss: bool) -> ProcessReading:
    memory = _kilobytes(process.pid, "status")
    pss = _kilobytes(process.pid, "smaps_rollup") if with_pss else {}
    return ProcessReading(
        process.pid,
        process.name(),
        rss=process.memory_info().rss,
        anonymous=memory.get("RssAnon"),
        file=memory.get("RssFile"),
        shared=memory.get("RssShmem"),
        pss=pss.get("Pss"),
        pss_anonymous=pss.get("Pss_Anon"),
        pss_file=pss.get("Pss_File"),
        major_faults=_major_faults(process.pid),
        # with those of children that it has waited for
        read_bytes=_unless_refused(lambda: process.io_counters().read_bytes),
        cpu_seconds=sum(process.cpu_times()[:4]),  # with those of children
    )


def _unless_refused(ask: Callable[[], int]) -> int | None:
    """None where the system does not tell, or not this user."""
    try:
        return ask()
    except (AttributeError, psutil.AccessDenied):
        return None


def _text_of(pid: int, name: str) -> str:
    """A file of a process in /proc; empty where it may not be read, or there is none."""
    try:
        return (PROC / str(pid) / name).read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _kilobytes(pid: int, name: str) -> dict[str, int]:
    """Lines such as ``RssAnon:  1744 kB`` of a process's file in /proc, in bytes."""
    lines = (line.split() for line in _text_of(pid, name).splitlines() if line.endswith(" kB"))
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}


def _major_faults(pid: int) -> int | None:
    """Page faults of a process, and of children that it has waited for; psutil does not tell."""
    # the name stands in parentheses, and may have blanks and parentheses of its own
    fields = _text_of(pid, "stat").rpartition(")")[2].split()
    return int(fields[9]) + int(fields[10]) if fields else None


def mapped_files(pids: Iterable[int]) -> list[str]:
    """Real paths of the datasets' files that processes have mapped; psutil visits every page.

    Files that were deleted or replaced since are left out.
    """
    paths: dict[str, None] = {}
    for pid in pids:
        for line in _text_of(pid, "maps").splitlines():
            if line.endswith(DATASET_SUFFIXES):
                # the kernel writes line breaks in octal
                path = line.split(maxsplit=5)[5].replace("\\012", "\n")
                if os.path.exists(path):
                    paths[os.path.realpath(path)] = None
    return list(paths)


def busy_seconds() -> float:
    """Counter: that any program used the processors that this process may use."""
    times = psutil.cpu_times(percpu=True)
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(times))
    of_usable = [time for number, time in enumerate(times) if number in usable]
    return sum(getattr(time, name, 0.0) for time in of_usable for name in _BUSY)


# --- the memory group


def read_group(pid: int | None = None) -> GroupReading | None:
    """The group with the least limit of those that a process is in, or without limits its own."""
    membership = PROC / ("self" if pid is None else str(pid)) / "cgroup"
    groups = [
        (folder, interface)
        for folder in memory_groups(membership, MOUNT)
        for interface in INTERFACES
        if (folder / interface.usage).exists()
    ]
    if not groups:
        return None
    innermost, _ = groups[0]
    # of equal limits, the innermost
    folder, interface = min(groups, key=lambda group: limit_of(group[0], group[1]) or math.inf)
    stat = counters_of(folder / "memory.stat")
    cached, shared = stat.get(interface.cached), stat.get(interface.shared)
    # version 1 counts kills only in the innermost
    kills = counters_of(innermost / interface.kills).get("oom_kill")
    return GroupReading(
        limit=limit_of(folder, interface),
        usage=number(folder / interface.usage),
        file=None if cached is None or shared is None else max(0, cached - shared),
        kills=kills,
    )


# --- files and disks


def read_files(paths: Iterable[str | os.PathLike[str]], parts: int = 1) -> tuple[FileReading, ...]:
    """Every file that can be opened, with how much of it is in the page cache; touches no page.

    For each GiB that is in memory the kernel takes up to twenty milliseconds, and far less where it
    keeps pages in large blocks, as it does for files that are read in sequence.
    """
    readings = []
    for path in paths:
        with suppress(OSError), closing(_core.Mapping(path)) as mapping:
            reading = FileReading(os.fspath(path), mapping.size)
            with suppress(OSError):
                if (cached := residency(mapping, parts)) is not None:
                    page_cache, shares = cached
                    reading = replace(reading, page_cache=page_cache, residency=shares.tolist())
            readings.append(reading)
    return tuple(readings)


def order_of_nodes(paths: Iterable[str]) -> str | None:
    """The order of the nodes of the first dataset that files are of; None if it has drifted."""
    for folder in (parent for path in paths for parent in Path(path).parents[:3]):
        with suppress(OSError, ValueError):
            manifest = read_manifest(folder)
            return None if manifest.has_drifted else manifest.order
    return None


@lru_cache(maxsize=64)
def _device_of(path: str) -> str | None:
    """The name of the device below the mount that shows at a path."""
    device, _ = mount_of(path)
    return None if device is None else os.path.basename(os.path.realpath(device))


def device_bytes(path: str | os.PathLike[str]) -> int | None:
    """Counter: bytes that anyone has read from the disk or partition that holds a path."""
    counters = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
    name = _device_of(os.fspath(path))
    return int(counters[name].read_bytes) if name in counters else None


def disk_rate(path: str | os.PathLike[str], *, seconds: float = 2.0) -> float | None:
    """Bytes a second of random reads of 4 KiB past the page cache, 128 at a time.

    Nothing is written. Ctrl-C ends the measurement within about a tenth of a second.

    Parameters
    ----------
    path : path-like
        Best the largest file of a dataset: the memory of the disk itself, or of the machine that
        lends it, may hold a small file, and answers faster than the disk.
    seconds : float
        Of the whole measurement.

    Returns
    -------
    float or None
        None where the file system has no reads past the page cache, such as tmpfs, where it answers
        from elsewhere than the disk, or the file has less than 4 MiB.

    Raises
    ------
    OSError
        If the file cannot be opened or read.
    FormatError
        If the file is truncated meanwhile.
    """
    with closing(_core.Mapping(path)) as mapping:  # refuses what is no file
        if mapping.size < 4 << 20:
            return None
    engine = "uring" if _core.uring_refusal() is None else "pread"
    begin, read = read_processes()[0].read_bytes, 0
    rate = None
    for share in (0.1, 0.9):  # the first reads load the file's metadata
        figures = _core.probe_disk(
            path, depth=128, seconds=seconds * share, engine=engine, seed=secrets.randbits(64)
        )
        if figures is None:
            return None
        read += figures["bytes"]
        rate = float(figures["bytes"] / figures["seconds"])
    end = read_processes()[0].read_bytes
    answered_elsewhere = begin is not None and end is not None and end - begin < 0.9 * read
    return None if answered_elsewhere else rate  # such as holes


# --- this process


@dataclass(frozen=True)
class MemoryReport:
    """Memory of this process and its children (DataLoader workers), in bytes.

    Attributes
    ----------
    processes : int
        Number of processes.
    resident : int
        Resident set size, summed over the processes. In this sum and its two parts, a page that
        several of them have is counted for each: a forked worker's memory includes what it shares
        with its parent. `pss` counts it once.
    anonymous : int or None
        The part of it that is the processes' own, which the kernel cannot drop. None on systems
        other than Linux, which do not tell it apart.
    file : int or None
        The rest: mapped pages of files (datasets, but also libraries), and the shared memory in
        which workers deliver their batches. The kernel may drop pages of files at any time.
    page_cache : int or None
        Bytes of the dataset's files, and of a pack's, in the kernel's page cache, whether a process
        has them mapped or not; each page is counted once. None where the kernel does not tell, as
        for files of other users.
    dataset : int
        Size of these files.
    pss : int or None
        Proportional set size, summed over the processes: each page once, but for pages that other
        processes of the machine have as well, which count in part. None where the system does not
        tell.
    pss_anonymous : int or None
        The part of it that is the processes' own: what they take from the machine for as long as
        they run.
    """

    processes: int
    resident: int
    anonymous: int | None
    file: int | None
    page_cache: int | None
    dataset: int
    pss: int | None = None
    pss_anonymous: int | None = None


def _sum(figures: Iterable[int | None]) -> int | None:
    """None if one of them is unknown."""
    values = list(figures)
    return None if None in values else sum(value for value in values if value is not None)


@runtime_checkable
class HasFiles(Protocol):
    """What maps the files of a dataset."""

    @property
    def mappings(self) -> Sequence[_core.Mapping]:
        """Of its files."""


def memory_report(dataset: HasFiles) -> MemoryReport:
    """Memory of this process and its children, and page cache of a dataset's files, at present.

    Parameters
    ----------
    dataset : Dataset, NeighborDataset or PackedDataset
        Whose files; those of a `PackedDataset` are the pack's as well.
    """
    processes, mappings = read_processes(with_pss=True), dataset.mappings
    return MemoryReport(
        processes=len(processes),
        resident=sum(process.rss for process in processes),
        anonymous=_sum(process.anonymous for process in processes),
        file=_sum(part for process in processes for part in (process.file, process.shared)),
        page_cache=_sum(resident_bytes(mapping) for mapping in mappings),
        dataset=sum(mapping.size for mapping in mappings),
        pss=_sum(process.pss for process in processes),
        pss_anonymous=_sum(process.pss_anonymous for process in processes),
    )


def format_memory(report: MemoryReport) -> str:
    """A report in one line."""
    if report.anonymous is None or report.file is None:
        processes = f"{format_bytes(report.resident)} resident (not split on this system)"
    else:
        processes = (
            f"{format_bytes(report.anonymous)} anonymous + "
            f"{format_bytes(report.file)} of files mapped (RSS)"
        )
    cached = "unknown" if report.page_cache is None else format_bytes(report.page_cache)
    count = f" of {report.processes} processes" if report.processes > 1 else ""
    return (
        f"memory{count}: {processes}; page cache of the dataset's files: "
        f"{cached} of {format_bytes(report.dataset)}"
    )


# --- the machine


def machine_of(folder: str | os.PathLike[str] | None) -> dict[str, str | int | None]:
    """What decides how fast this process reads a folder; None for what is unknown.

    The processor's name, cores that this process may use, bytes of memory in all, the device that
    holds the folder, such as "/dev/sda1", and its file system.
    """
    disk, file_system = (None, None) if folder is None else mount_of(folder)
    return {
        "cpu": _cpu_name(),
        "cores": available_processors(),
        "memory": psutil.virtual_memory().total,
        "disk": disk,
        "file_system": file_system,
    }


def _cpu_name() -> str | None:
    """The processor's name, or at least its architecture."""
    try:
        with open(PROC / "cpuinfo", errors="replace") as file:
            names = (line.partition(":")[2] for line in file if line.startswith("model name"))
            return next(names).strip()
    except (OSError, StopIteration):  # not Linux, or another architecture
        return platform.machine() or None


def mount_of(path: str | os.PathLike[str]) -> tuple[str | None, str | None]:
    """The device and the file system that show at a path, as far as they are known."""
    place = Path(os.path.realpath(path))
    mounts = psutil.disk_partitions(all=True)
    # a later mount hides an earlier one
    above = [mount for mount in reversed(mounts) if place.is_relative_to(mount.mountpoint)]
    nearest = max(above, key=lambda mount: len(mount.mountpoint), default=None)
    return (nearest.device or None, nearest.fstype or None) if nearest else (None, None)


def installed_versions() -> dict[str, str]:
    """Of Python, and of packages that are installed; imports none of them."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def read_environment(folder: str | os.PathLike[str] | None) -> dict[str, object]:
    """The machine, the disk of a dataset, and versions."""
    return {
        **machine_of(folder),
        "system": f"{platform.system()} {platform.release()}",
        **installed_versions(),
    }
