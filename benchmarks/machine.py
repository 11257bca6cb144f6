"""What a benchmark ran on, and what it cost: machine, disk, page cache, clocks and counters."""

from __future__ import annotations

import mmap
import os
import platform
import resource
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

Paths = Iterable[str | os.PathLike[str]]

WATCH_SECONDS = 0.02


class Stopwatch:
    """Wall time and processor time of all threads of this process in a ``with`` block."""

    seconds = 0.0
    processor_seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._processor_begin = time.process_time()
        self._begin = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._begin
        self.processor_seconds = time.process_time() - self._processor_begin


@dataclass(frozen=True)
class Counters:
    """The kernel's counters at one moment; a result is the difference of two.

    Attributes
    ----------
    seconds, processor_seconds : float
        Wall clock, and processor time of all threads of this process.
    read_bytes : int
        Bytes that this process has read from a device, including the kernel's own read-ahead.
    major_faults : int
        Major page faults of all threads of this process.
    device_reads : int
        Requests that the device has completed for any process; 0 if unknown.
    """

    seconds: float
    processor_seconds: float
    read_bytes: int
    major_faults: int
    device_reads: int

    def since(self, before: Counters) -> Counters:
        """The difference from an earlier reading."""
        earlier = asdict(before)
        return Counters(**{name: now - earlier[name] for name, now in asdict(self).items()})


def read_counters(folder: str | os.PathLike[str]) -> Counters:
    """All counters now; the device is the one that holds the folder."""
    number = os.stat(folder).st_dev
    stat = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return Counters(
        seconds=time.perf_counter(),
        processor_seconds=time.process_time(),
        read_bytes=int(io["read_bytes"]),
        major_faults=resource.getrusage(resource.RUSAGE_SELF).ru_majflt,
        device_reads=int(stat.read_text().split()[0]) if stat.exists() else 0,
    )


class PeakAnonymous:
    """The most anonymous memory of this process during a ``with`` block, in bytes: `peak`."""

    peak = 0

    def __enter__(self) -> PeakAnonymous:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, anonymous_bytes())
            if self._done.wait(WATCH_SECONDS):
                return

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.peak = max(self.peak, anonymous_bytes())


def anonymous_bytes() -> int:
    """Anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status does not report anonymous memory")


class OtherProcesses:
    """The share of processor time that other processes took during a ``with`` block: `share`.

    A benchmark of two threads on two cores means little while other processes run.
    """

    share = 0.0

    def __enter__(self) -> OtherProcesses:
        self._begin = time.monotonic(), _busy_seconds() - _own_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        elapsed = (time.monotonic() - self._begin[0]) * (os.cpu_count() or 1)
        self.share = max(0.0, _busy_seconds() - _own_seconds() - self._begin[1]) / elapsed


def _busy_seconds() -> float:
    # guest and guest_nice are within user and nice.
    idle = ("idle", "iowait", "guest", "guest_nice")
    times = psutil.cpu_times()._asdict()
    return float(sum(seconds for name, seconds in times.items() if name not in idle))


def _own_seconds() -> float:
    this = psutil.Process()
    used = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return float(sum(one.user + one.system + one.children_user for one in used))


def describe_machine() -> dict[str, Any]:
    """Processor, usable cores, memory in bytes, kernel and Python."""
    models = (
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    return {
        "cpu": next(models, platform.processor() or platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def describe_disk(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Device and file system of a folder, and the kernel's read-ahead of the device in KiB."""
    real = Path(folder).resolve()
    mounts = {Path(part.mountpoint): part for part in psutil.disk_partitions(all=True)}
    mount = next((mounts[parent] for parent in (real, *real.parents) if parent in mounts), None)
    number = os.stat(folder).st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    queues = (place / "queue" / "read_ahead_kb" for place in (device, device.parent))
    return {
        "device": None if mount is None else mount.device,
        "file_system": None if mount is None else mount.fstype,
        "read_ahead_kb": next((int(path.read_text()) for path in queues if path.exists()), None),
    }


def versions(packages: Iterable[str] = ("graphzero", "numpy", "torch")) -> dict[str, str | None]:
    """Installed versions, None for a package that is not installed; imports none of them."""
    installed = {dist.metadata["Name"]: dist.version for dist in metadata.distributions()}
    return {package: installed.get(package) for package in packages}


def resident_share(paths: Paths) -> float | None:
    """Share of the pages of some files that the page cache holds, or None if unknown."""
    from graphzero import _core

    resident = total = 0
    for path in paths:
        mapping = _core.Mapping(os.fspath(path))
        try:
            resident += mapping.resident_pages()
            total += -(-mapping.size // mmap.PAGESIZE)
        except OSError:
            return None
        finally:
            mapping.close()
    return resident / total if total else None


def read_through(paths: Paths) -> None:
    """Reads every page of some files, so that the page cache holds them."""
    buffer = bytearray(4 << 20)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def drop_cached(paths: Paths) -> None:
    """Drops files from the page cache; pages that a process has mapped stay."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # dirty pages cannot be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def conditions(benchmark: str, folder: str | os.PathLike[str], **more: Any) -> dict[str, Any]:
    """What every benchmark writes beside its results: machine, disk, versions, and `more`."""
    return {
        "benchmark": benchmark,
        "machine": describe_machine(),
        "disk": describe_disk(folder),
        "versions": versions(),
        **more,
    }


def heading(found: Mapping[str, Any], lines: Sequence[str] = ()) -> str:
    """`conditions` in a few lines, then the benchmark's own."""
    machine, disk = found["machine"], found["disk"]
    first = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.1f} GiB, "
        f"{machine['kernel']}, Python {machine['python']}",
        f"data on {disk['file_system']} ({disk['device']}), read-ahead {disk['read_ahead_kb']} KiB",
        ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
    ]
    if "others_share" in found:
        first.append(f"other processes took {found['others_share']:.0%} of the processors' time")
    return "\n".join([*first, *lines])
