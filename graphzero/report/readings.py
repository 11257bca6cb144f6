"""Readings of a run at one moment: processes, memory groups, files, disks and the machine.

A figure that the system does not have is None. The functions take a dict, `unknown`, and enter the
reason there under the name of the figure, unless one is there.
"""

from __future__ import annotations

import math
import os
import platform
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from graphzero import _core
from graphzero.io.memory import (
    INTERFACES,
    MOUNT,
    Interface,
    counters_of,
    limit_of,
    memory_groups,
    number,
)
from graphzero.report.recording import (
    COUNTERS,
    ENDED,
    Environment,
    FileReading,
    GroupReading,
    ProcessReading,
    Reasons,
    note,
)
from graphzero.store import tuning_file as machine
from graphzero.store.mapped_file import residency, resident_bytes
from graphzero.store.tuning_file import TUNING_NAME, read_tuning
from graphzero.units import format_bytes

PROC = Path("/proc")
DATASET_SUFFIXES = (".gl", ".gd", ".npy")
# Lines of /proc/PID/status and of smaps_rollup, by figure; psutil has not all of them.
_MEMORY = {"anonymous": "RssAnon", "file": "RssFile", "shared": "RssShmem"}
_PSS = {
    "pss": "Pss",
    "pss_anonymous": "Pss_Anon",
    "pss_file": "Pss_File",
    "pss_shared": "Pss_Shmem",
}
_HELPERS = ("resource_tracker", "forkserver")  # of multiprocessing
_PACKAGES = ("graphzero", "numpy", "torch", "torch_geometric")
_disk_of = lru_cache(maxsize=64)(machine.disk_of)
_UNKNOWN = "this system does not tell it"


# --- processes


class ProcessTree:
    """A process and its descendants, for readings again and again.

    A process keeps its name: "main" is the first one, "worker 1" and so on are Python processes
    below it, in the order in which they were seen.
    """

    def __init__(self, pid: int | None = None, *, unknown: Reasons | None = None) -> None:
        self.pid = os.getpid() if pid is None else pid
        self._unknown = unknown
        self._names: dict[psutil.Process, str] = {}
        self._most = dict.fromkeys(COUNTERS, 0.0)  # totals, which never fall

    def read(self, *, with_pss: bool = False) -> tuple[ProcessReading, ...]:
        """All running processes at present, and one with the pid `ENDED`; none if all have ended.

        The latter has the counters of processes that have ended. The kernel adds these to counters
        of their parent when it waits for them, so that running processes have the whole sum.

        Parameters
        ----------
        with_pss : bool
            Also what counts shared pages once. The kernel then visits every page that a process
            has mapped: some milliseconds for each GiB.
        """
        found: list[ProcessReading] = []
        gone = dict.fromkeys(COUNTERS, 0.0)
        for process in self._processes():
            try:
                with process.oneshot():
                    values, of_children = self._counters(process)
                    is_running = process.status() != psutil.STATUS_ZOMBIE
                    if is_running:
                        values |= self._memory(process, with_pss)
                        found.append(ProcessReading(process.pid, self._name(process), **values))
            except psutil.NoSuchProcess:
                continue
            for name in COUNTERS:
                own = 0 if is_running else values.get(name) or 0
                gone[name] += of_children.get(name, 0) + own
        if not found:
            note(self._unknown, "processes", f"there is no process {self.pid}, or it is hidden")
        for name in COUNTERS:
            known = [getattr(reading, name) for reading in found]
            if None not in known:
                total = sum(known) + gone[name]
                self._most[name] = max(self._most[name], total)
                gone[name] += self._most[name] - total
        counted: dict[str, Any] = {
            name: value if name == "cpu_seconds" else int(value) for name, value in gone.items()
        }
        ended = ProcessReading(
            ENDED, "ended", **dict.fromkeys(("rss", *_MEMORY, *_PSS), 0), **counted
        )
        return (*found, ended)

    def _processes(self) -> list[psutil.Process]:
        try:
            first = psutil.Process(self.pid)
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _counters(self, process: psutil.Process) -> tuple[dict[str, Any], dict[str, float]]:
        """Counters of a process, and those of children that it has waited for."""
        values: dict[str, Any] = {}
        of_children: dict[str, float] = {}
        asked: dict[str, Callable[[], tuple[float, float]]] = {
            "cpu_seconds": lambda: _cpu_seconds(process),
            "read_bytes": lambda: (process.io_counters().read_bytes, 0),  # with those of children
            "major_faults": lambda: _major_faults(process),
        }
        for name, ask in asked.items():
            try:
                values[name], of_children[name] = ask()
            except AttributeError:
                note(self._unknown, name, _UNKNOWN)
            except psutil.AccessDenied:
                note(self._unknown, name, _of_another(process.pid))
        return values, of_children

    def _memory(self, process: psutil.Process, with_pss: bool) -> dict[str, int]:
        """Resident memory and its parts; with_pss: also as far as each page is shared."""
        found = self._lines(process.pid, "status", _MEMORY)
        if with_pss:
            found |= self._lines(process.pid, "smaps_rollup", _PSS)
        parts = [found[name] for name in _MEMORY if name in found]
        try:
            found["rss"] = sum(parts) if parts else process.memory_info().rss
        except psutil.AccessDenied:
            note(self._unknown, "rss", _of_another(process.pid))
        return found

    def _lines(self, pid: int, name: str, wanted: Mapping[str, str]) -> dict[str, int]:
        """Lines such as ``RssAnon:  1744 kB`` of a process's file in /proc, in bytes."""
        text = _text_of(pid, name, wanted, self._unknown) or ""
        pairs = (line[:-3].partition(":") for line in text.splitlines() if line.endswith(" kB"))
        lines = {line: int(count) * 1024 for line, _, count in pairs}
        found = {figure: lines[line] for figure, line in wanted.items() if line in lines}
        note(self._unknown, wanted.keys() - found.keys(), _UNKNOWN)
        return found

    def _name(self, process: psutil.Process) -> str:
        if process not in self._names:
            name, command = str(process.name()), " ".join(process.cmdline())
            helper = next((each for each in _HELPERS if f"multiprocessing.{each}" in command), None)
            if helper is not None:
                name = helper.replace("_", " ")
            elif name.startswith(("python", "pt_")):
                workers = sum(known.startswith("worker") for known in self._names.values())
                name = "main" if "main" not in self._names.values() else f"worker {workers + 1}"
            self._names[process] = name
        return self._names[process]


def _text_of(pid: int, name: str, figures: Iterable[str], unknown: Reasons | None) -> str | None:
    """A file of a process in /proc; where it may not be read, the reason for these figures."""
    try:
        return (PROC / str(pid) / name).read_text("utf-8", "surrogateescape")
    except PermissionError:
        note(unknown, figures, _of_another(pid))
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        if (PROC / "self").exists() and not psutil.pid_exists(pid):
            raise psutil.NoSuchProcess(pid) from None
    return None


def _cpu_seconds(process: psutil.Process) -> tuple[float, float]:
    """Time of a process, and of children that it has waited for."""
    times = process.cpu_times()
    return times.user + times.system, times.children_user + times.children_system


def _major_faults(process: psutil.Process) -> tuple[int, int]:
    """Page faults that waited for the disk: of a process, and of children that it has waited for.

    psutil has the former, on macOS only.
    """
    text = _text_of(process.pid, "stat", (), None)
    if text is None:
        return process.memory_info().pageins, 0
    # the name stands in parentheses, and may have blanks and parentheses of its own
    fields = text.rpartition(")")[2].split()
    return int(fields[9]), int(fields[10])


def _of_another(pid: int) -> str:
    return f"pid {pid} belongs to another user: run as that user or as root"


def read_processes(
    pid: int | None = None, *, with_pss: bool = False, unknown: Reasons | None = None
) -> tuple[ProcessReading, ...]:
    """The running processes of a `ProcessTree`, once."""
    found = ProcessTree(pid, unknown=unknown).read(with_pss=with_pss)
    return tuple(reading for reading in found if reading.pid != ENDED)


def mapped_files(pids: Iterable[int], *, unknown: Reasons | None = None) -> tuple[str, ...]:
    """Real paths of the datasets' files that processes have mapped, each file once.

    Files that were deleted or replaced since are left out. psutil has them only with their memory,
    for which the kernel visits every page.
    """
    found: dict[str, None] = {}
    if not (PROC / "self").exists():
        note(unknown, "files", "this system does not tell which files a process has mapped")
    for pid in pids:
        try:
            text = _text_of(pid, "maps", ["files"], unknown) or ""
        except psutil.NoSuchProcess:
            continue
        for line in text.splitlines():
            if line.endswith(DATASET_SUFFIXES):
                # the kernel writes line breaks in octal
                path = line.split(maxsplit=5)[5].replace("\\012", "\n")
                if os.path.exists(path):
                    found[os.path.realpath(path)] = None
                else:  # deleted, or in another container's folders
                    reason = f"{path}, which pid {pid} has mapped, is not visible here"
                    note(unknown, "files", reason)
    return tuple(found)


# --- the memory group


@dataclass(frozen=True)
class BoundingGroup:
    """The memory control group that bounds a process.

    Attributes
    ----------
    folder : pathlib.Path
        Of its files.
    interface : Interface
    inner : tuple of pathlib.Path
        Groups between the process and this one, this one included.
    """

    folder: Path
    interface: Interface
    inner: tuple[Path, ...]

    def read(self, unknown: Reasons | None = None) -> GroupReading:
        """Its figures at present."""
        files = self.interface
        stat = counters_of(self.folder / "memory.stat")
        cached, shared = stat.get(files.cached), stat.get(files.shared)
        # version 1 counts a kill in the group of the process alone, version 2 in all above it
        killers = self.inner if files.version == 1 else (self.folder,)
        kills = [counters_of(folder / files.kills).get("oom_kill") for folder in killers]
        values = {
            "usage": number(self.folder / files.usage),
            "anonymous": stat.get(files.anonymous),
            "file": None if cached is None or shared is None else max(0, cached - shared),
            "shared": shared,
            "refaults": next((stat[name] for name in files.refaults if name in stat), None),
            "kills": None if None in kills else sum(count or 0 for count in kills),
        }
        missing = [f"group.{name}" for name, value in values.items() if value is None]
        note(unknown, missing, f"the files in {self.folder} do not tell it, or may not be read")
        peak = number(self.folder / files.peak)  # after the usage, which is never more
        return GroupReading(files.version, limit_of(self.folder, files), **values, peak=peak)


def find_group(pid: int | None = None, *, unknown: Reasons | None = None) -> BoundingGroup | None:
    """The group with the least limit of those that a process is in, or without limits its own."""
    membership = PROC / str(os.getpid() if pid is None else pid) / "cgroup"
    folders = list(memory_groups(membership, MOUNT))
    inner: list[Path] = []
    found: list[tuple[float, BoundingGroup]] = []
    for folder in folders:
        for interface in INTERFACES:
            if (folder / interface.usage).exists():
                inner.append(folder)
                limit = limit_of(folder, interface)
                group = BoundingGroup(folder, interface, tuple(inner))
                found.append((float("inf") if limit is None else limit, group))
    if found:  # of equal limits, the innermost
        return min(found, key=lambda pair: pair[0])[1]
    reason = "the process is in the root group, whose memory version 2 does not count"
    if not membership.exists():
        reason = "this system has no control groups, or the process has ended"
    elif not folders:
        reason = f"the process is in no memory control group that is visible below {MOUNT}"
    note(unknown, "group", reason)
    return None


# --- files and disks


class CachedFiles:
    """Files whose pages in the page cache are counted, again and again; no page is touched.

    A file that was deleted is left out, with the reason as "page_cache PATH".
    """

    def __init__(
        self, paths: Iterable[str | os.PathLike[str]] = (), unknown: Reasons | None = None
    ) -> None:
        self._most: dict[str, int | None] = {}
        self._unknown = unknown
        self.add(paths)

    def add(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Counts pages of these files as well, from the next reading on."""
        for path in paths:
            self._most.setdefault(os.path.realpath(path), None)

    @property
    def paths(self) -> tuple[str, ...]:
        """All files that were added, as real paths."""
        return tuple(self._most)

    @property
    def size(self) -> int:
        """Bytes of the files that exist."""
        return sum(os.path.getsize(path) for path in self._most if os.path.exists(path))

    def read(self, parts: int = 1) -> tuple[FileReading, ...]:
        """Every file that exists, with the share of each of its parts that is in the page cache.

        For each GiB that is in memory the kernel takes up to twenty milliseconds, and far less
        where it keeps pages in large blocks, as it does for files that are read in sequence.
        """
        found = []
        for path in self.paths:
            reason = "only owners and writers of a file are told which pages are cached"
            size = known = shares = None
            try:
                with closing(_core.Mapping(path)) as mapping:
                    size = mapping.size
                    known = residency(mapping, parts)
            except OSError as error:
                reason = f"the kernel does not tell: {error.strerror}"
                if size is None:
                    is_gone = isinstance(error, FileNotFoundError)
                    how = "was deleted" if is_gone else f"cannot be opened: {error.strerror}"
                    reason = f"the file {how}"
            if known is None:
                note(self._unknown, f"page_cache {path}", reason)
            else:
                self._most[path] = max(known[0], self._most[path] or 0)
                shares = tuple(known[1].tolist())
            if size is not None:
                cached = None if known is None else known[0]
                found.append(FileReading(path, size, cached, shares, self._most[path]))
        return tuple(found)


def device_bytes(path: str | os.PathLike[str], unknown: Reasons | None = None) -> int | None:
    """Counter: bytes that anyone has read from the disk that holds a path."""
    disks = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
    disk = _disk_of(os.fspath(path))
    name = None if disk is None else disk.name
    if disk is None and platform.system() != "Linux" and len(disks) == 1:
        (name,) = disks
    if name in disks:
        return int(disks[name].read_bytes)
    reason = f"the file system of {path} is not on one disk of this machine"
    note(unknown, "device_bytes", reason if disk is None else f"{disk} has no counters")
    return None


# --- the rate of a disk

BLOCK_BYTES = 4096  # of a random read
SEQUENTIAL = {"block_bytes": 1 << 20, "depth": 8, "sequential": True}
LEAST_BYTES = 4 << 20
# Of the whole time: reads that load the file's metadata, many at a time, one at a time, sequential.
SHARES = {"first": 0.05, "many": 0.45, "one": 0.2, "sequential": 0.3}


@dataclass(frozen=True)
class DiskRate:
    """Rates of one disk, seen through one file; None for what was not measured.

    Attributes
    ----------
    path : str
        The file that was read.
    file_bytes : int
    engine : {"uring", "pread"}
        io_uring, or threads.
    depth : int
        Random reads under way at a time.
    reads_per_second, bytes_per_second : float or None
        Of random reads of 4 KiB, `depth` at a time.
    latency_p50, latency_p99 : float or None
        Seconds of a random read alone.
    queued_latency_p50, queued_latency_p99 : float or None
        Seconds of a random read among `depth`.
    sequential_bytes_per_second : float or None
        Of blocks of 1 MiB, one after the other, 8 under way at a time.
    seconds : float
        That the measurement took.
    unavailable : str or None
        Why there are no rates.
    """

    path: str
    file_bytes: int
    engine: str
    depth: int
    reads_per_second: float | None = None
    bytes_per_second: float | None = None
    latency_p50: float | None = None
    latency_p99: float | None = None
    queued_latency_p50: float | None = None
    queued_latency_p99: float | None = None
    sequential_bytes_per_second: float | None = None
    seconds: float = 0.0
    unavailable: str | None = None


def largest_file(paths: Iterable[str | os.PathLike[str]]) -> str:
    """The largest of some files, which `measure_disk` is best given."""
    return max((os.fspath(path) for path in paths), key=os.path.getsize)


def measure_disk(
    path: str | os.PathLike[str], *, seconds: float = 2.5, depth: int = 128
) -> DiskRate:
    """Reads a file for some seconds, past the page cache, at random and from one block to the next.

    Nothing is written. Ctrl-C ends the measurement within about a tenth of a second.

    Parameters
    ----------
    path : path-like
        Best the largest file of a dataset (`largest_file`): the memory of the disk itself, or of
        the machine that lends it, may hold a small file or one that was read just before, and
        answers faster than the disk.
    seconds : float
        Of the whole measurement.
    depth : int
        Random reads under way at a time: 1 to 4096, with threads 1 to 512.

    Returns
    -------
    DiskRate
        With `unavailable` where the file system has no reads past the page cache, such as tmpfs,
        where it answers from elsewhere than the disk, or the file has less than 4 MiB.

    Raises
    ------
    OSError
        If the file cannot be opened or read.
    FormatError
        If the file is truncated meanwhile.
    ValueError
        If an argument is out of range.
    """
    path = os.path.abspath(os.fspath(path))
    if not 0 < seconds < math.inf:
        raise ValueError(f"seconds must be positive and finite, not {seconds}")
    engine = "uring" if _core.uring_refusal() is None else "pread"
    with closing(_core.Mapping(path)) as mapping:  # refuses what is no file
        size = mapping.size
    begun, seed = time.perf_counter(), secrets.randbits(64)

    def rate(unavailable: str | None = None, **rates: float) -> DiskRate:
        spent = time.perf_counter() - begun
        return DiskRate(path, size, engine, depth, **rates, seconds=spent, unavailable=unavailable)

    if size < LEAST_BYTES:
        least = format_bytes(LEAST_BYTES)
        return rate(f"{path} has {format_bytes(size)}: a disk is measured with at least {least}")
    before = _read_bytes()
    found: dict[str, dict[str, Any]] = {}
    for step, (part, share) in enumerate(SHARES.items()):
        options: dict[str, Any] = {"block_bytes": BLOCK_BYTES, "depth": depth}
        options |= {"depth": 1} if part == "one" else {}
        options |= SEQUENTIAL if part == "sequential" else {}
        options |= {"engine": engine, "seed": (seed + step) % 2**64}
        answer = _core.probe_disk(path, seconds=seconds * share, **options)
        if answer is None:
            return rate(f"the file system of {path} has no reads past the page cache")
        found[part] = answer
    many, one, sequential = found["many"], found["one"], found["sequential"]
    after, read = _read_bytes(), sum(part["bytes"] for part in found.values())
    if before is not None and after is not None and after - before < 0.9 * read:
        return rate(
            f"the kernel counted {format_bytes(after - before)} of {format_bytes(read)} as read "
            f"from storage: {path} has holes, or its file system answers from elsewhere"
        )
    return rate(
        reads_per_second=many["reads"] / many["seconds"],
        bytes_per_second=many["bytes"] / many["seconds"],
        latency_p50=one["p50"],
        latency_p99=one["p99"],
        queued_latency_p50=many["p50"],
        queued_latency_p99=many["p99"],
        sequential_bytes_per_second=sequential["bytes"] / sequential["seconds"],
    )


def _read_bytes() -> int | None:
    """Counter: bytes that this process had read from storage; None where it is unknown."""
    (own, *_) = read_processes()
    return own.read_bytes


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
    known = list(figures)
    return None if None in known else sum(figure for figure in known if figure is not None)


def memory_report(dataset: Any) -> MemoryReport:
    """Memory of this process and its children, and page cache of a dataset's files, at present.

    Parameters
    ----------
    dataset : Dataset, NeighborDataset or PackedDataset
        Whose files; those of a `PackedDataset` are the pack's as well.
    """
    readings = read_processes(with_pss=True)
    resident = {one: one.rss for one in readings if one.rss is not None}
    processes = tuple(resident)
    mappings = dataset.mappings
    file, shared = (_sum(getattr(one, name) for one in processes) for name in ("file", "shared"))
    return MemoryReport(
        processes=len(processes),
        resident=sum(resident.values()),
        anonymous=_sum(one.anonymous for one in processes),
        file=_sum((file, shared)),
        page_cache=_sum(resident_bytes(mapping) for mapping in mappings),
        dataset=sum(mapping.size for mapping in mappings),
        pss=_sum(one.pss for one in processes),
        pss_anonymous=_sum(one.pss_anonymous for one in processes),
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
    if report.processes > 1 and report.pss is not None:
        processes = f"{format_bytes(report.pss)}, each page once; {processes}"
    cached = "unknown" if report.page_cache is None else format_bytes(report.page_cache)
    count = f" of {report.processes} processes" if report.processes > 1 else ""
    return (
        f"memory{count}: {processes}; page cache of the dataset's files: "
        f"{cached} of {format_bytes(report.dataset)}"
    )


# --- the machine


def system_name() -> str:
    """Operating system and its version, such as "Linux 6.18.1"."""
    return f"{platform.system()} {platform.release()}"


def versions_of(packages: Iterable[str]) -> dict[str, str | None]:
    """Installed versions, None for a package that is not installed; imports none of them."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def read_environment(
    path: str | os.PathLike[str] | None = None, unknown: Reasons | None = None
) -> Environment:
    """The machine, versions, and the disk of a dataset with the rate that `tune` has measured."""
    disk = None if path is None else machine.disk_of(path)
    mount = None if path is None else machine.mount_of(path)
    found = Environment(
        cpu=machine.cpu_name(),
        cores=machine.usable_cores(),
        memory=int(psutil.virtual_memory().total),
        system=system_name(),
        disk=None if disk is None else machine.disk_model(disk),
        file_system=None if mount is None else mount.fstype,
        disk_rate=None if path is None else _disk_rate(Path(path).parent, unknown),
        versions={
            "python": platform.python_version(),
            **{name: version for name, version in versions_of(_PACKAGES).items() if version},
        },
    )
    missing = [name for name, value in vars(found).items() if value is None]
    note(unknown, missing, "no dataset is known" if path is None else _UNKNOWN)
    return found


def _disk_rate(folder: Path, unknown: Reasons | None) -> float | None:
    """Bytes a second of random reads that the disk of a dataset was measured to give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever opens the dataset is told
        tuning = read_tuning(folder)
    if tuning is None:
        reason = f"it was not measured: graphzero tune {folder} does"
    elif differing := machine.machine_differences(machine.this_machine(folder), tuning.machine):
        reason = f"{TUNING_NAME} is of another machine: {', '.join(differing)}"
    else:
        rate = (tuning.content.get("disk_rate") or {}).get("bytes_per_second")
        if isinstance(rate, int | float) and rate > 0:
            return float(rate)
        reason = f"{TUNING_NAME} does not have it"
    note(unknown, "disk_rate", reason)
    return None
