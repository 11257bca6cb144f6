"""What the system tells about a run, at one moment.

A figure that the system does not tell is None. The functions take a dict, `unknown`, and enter the
reason there under the name of the figure, unless one is there.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from graphzero import _core
from graphzero.io.limits import (
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
_MEMORY = ("rss", "anonymous", "file", "shared", "pss", "pss_anonymous", "pss_file", "pss_shared")
_PSS = {
    **{"pss": ("Pss",), "pss_anonymous": ("Pss_Anon",), "pss_file": ("Pss_File",)},
    "pss_shared": ("Pss_Shmem",),
    "uss": ("Private_Clean", "Private_Dirty"),
}
_HELPERS = ("resource_tracker", "forkserver")  # of multiprocessing
_PACKAGES = ("graphzero", "numpy", "torch", "torch_geometric")
_disk_of = lru_cache(maxsize=64)(machine.disk_of)
_SECTOR = 512  # the unit of the kernel's counters, whatever the disk's own is
_UNTOLD = "this system does not tell it"


class _Ended(Exception):
    """A process has ended."""


# --- processes


class ProcessTree:
    """A process and its descendants, for readings again and again.

    A process keeps its name: "main" is the first one, "worker 1" and so on are Python processes
    below it, in the order in which they were seen.
    """

    def __init__(
        self, pid: int | None = None, *, unknown: Reasons | None = None, proc: Path = PROC
    ) -> None:
        self.pid = os.getpid() if pid is None else pid
        self._unknown = unknown
        self._proc = proc
        self._names: dict[tuple[int, float], str] = {}
        self._most = dict.fromkeys(COUNTERS, 0.0)  # totals, which never fall

    def pids(self) -> Iterator[int]:
        """The process and its descendants, parents before children.

        The kernel lists the children of each thread; psutil would ask all processes.
        """
        waiting = [self.pid]
        while waiting:
            pid = waiting.pop()
            yield pid
            try:
                tasks = os.listdir(self._proc / str(pid) / "task")
                for task in tasks:
                    children = (self._proc / str(pid) / "task" / task / "children").read_text()
                    waiting += map(int, children.split())
            except (FileNotFoundError, ProcessLookupError):  # ended, or not Linux
                if not (self._proc / "self").exists():
                    children_of = psutil.Process(pid).children if psutil.pid_exists(pid) else list
                    waiting += [each.pid for each in children_of()]

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
        for pid in self.pids():
            try:
                values, of_children = self._figures(pid)
            except (_Ended, psutil.NoSuchProcess):
                continue
            for name, value in of_children.items():
                gone[name] += value
            if "rss" not in values and self._is_zombie(pid):
                gone = {name: value + (values.get(name) or 0) for name, value in gone.items()}
                continue
            if with_pss:
                values |= self._pss(pid)
            found.append(ProcessReading(pid, self._name(pid), **values))
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
        ended = ProcessReading(ENDED, "ended", **dict.fromkeys((*_MEMORY, "uss"), 0), **counted)
        return (*found, ended)

    def _figures(self, pid: int) -> tuple[dict[str, Any], dict[str, float]]:
        """Memory and counters of a process, and the counters of children that it has waited for."""
        if not (self._proc / "self/stat").exists():
            return self._figures_without_proc(pid), {}
        # the name stands in parentheses, and may have blanks and parentheses of its own
        fields = self._text(pid, "stat").rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        values: dict[str, Any] = {
            "major_faults": int(fields[9]),
            "cpu_seconds": (int(fields[11]) + int(fields[12])) / ticks,
        }
        of_children = {
            "major_faults": int(fields[10]),
            "cpu_seconds": (int(fields[13]) + int(fields[14])) / ticks,
        }
        lines = _kilobytes(self._text(pid, "status"))
        parts = {"anonymous": "RssAnon", "file": "RssFile", "shared": "RssShmem"}
        if "RssAnon" in lines:
            values |= {name: lines[line] for name, line in parts.items()}
            values["rss"] = sum(lines[line] for line in parts.values())
        elif "VmRSS" in lines:
            note(self._unknown, parts, "the kernel is older than 4.5, and does not tell them apart")
            values["rss"] = lines["VmRSS"]
        text = self._permitted(pid, "io", ("read_bytes",))
        if text is not None:  # with what children have read
            values["read_bytes"] = int(text.partition("\nread_bytes:")[2].split()[0])
        return values, of_children

    def _figures_without_proc(self, pid: int) -> dict[str, Any]:
        """What psutil tells on other systems."""
        process = psutil.Process(pid)
        note(self._unknown, ("anonymous", "file", "shared"), "this system does not tell them apart")
        values: dict[str, Any] = {}
        asked: dict[str, Callable[[], Any]] = {
            "rss": lambda: process.memory_info().rss,
            "major_faults": lambda: process.memory_info().pageins,
            "cpu_seconds": lambda: sum(process.cpu_times()[:2]),
            "read_bytes": lambda: process.io_counters().read_bytes,
        }
        for name, ask in asked.items():
            try:
                values[name] = ask()
            except AttributeError:
                note(self._unknown, name, _UNTOLD)
            except psutil.AccessDenied:
                note(self._unknown, name, f"pid {pid} may not be inspected: run as root")
        return values

    def _pss(self, pid: int) -> dict[str, int]:
        """Memory where each page is divided among the processes that have it."""
        text = self._permitted(pid, "smaps_rollup", _PSS)
        if text is None:
            return {}
        lines = _kilobytes(text)
        found = {
            name: sum(lines.get(line, 0) for line in wanted)
            for name, wanted in _PSS.items()
            if wanted[0] in lines
        }
        note(
            self._unknown, _PSS.keys() - found.keys(), "the kernel is older than 5.3: no such line"
        )
        return found

    def _permitted(self, pid: int, name: str, figures: Iterable[str]) -> str | None:
        """A file that only the owner of a process and root may read."""
        try:
            return self._text(pid, name)
        except PermissionError:
            reason = f"pid {pid} belongs to another user: run as that user or as root"
            note(self._unknown, figures, reason)
        except (FileNotFoundError, NotADirectoryError):
            note(self._unknown, figures, _UNTOLD)
        return None

    def _text(self, pid: int, name: str) -> str:
        folder = self._proc / str(pid)
        try:
            return (folder / name).read_text(encoding="utf-8", errors="replace")
        except ProcessLookupError:
            raise _Ended from None
        except FileNotFoundError:
            if not folder.exists() and (self._proc / "self").exists():
                raise _Ended from None
            raise

    def _is_zombie(self, pid: int) -> bool:
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return True

    def _name(self, pid: int) -> str:
        try:
            process = psutil.Process(pid)
            key, name = (pid, process.create_time()), str(process.name())
            if key in self._names:
                return self._names[key]
            command = " ".join(process.cmdline())
        except psutil.Error:
            return str(pid)
        helper = next((each for each in _HELPERS if f"multiprocessing.{each}" in command), None)
        if name.startswith(("python", "pt_")):
            workers = sum(known.startswith("worker") for known in self._names.values())
            name = "main" if "main" not in self._names.values() else f"worker {workers + 1}"
        self._names[key] = name if helper is None else helper.replace("_", " ")
        return self._names[key]


def _kilobytes(text: str) -> dict[str, int]:
    """Lines such as ``VmRSS:  1744 kB``, in bytes."""
    pairs = (line[:-3].partition(":") for line in text.splitlines() if line.endswith(" kB"))
    return {name: int(count) * 1024 for name, _, count in pairs}


def read_processes(
    pid: int | None = None,
    *,
    with_pss: bool = False,
    unknown: Reasons | None = None,
    proc: Path = PROC,
) -> tuple[ProcessReading, ...]:
    """The running processes of a `ProcessTree`, once."""
    found = ProcessTree(pid, unknown=unknown, proc=proc).read(with_pss=with_pss)
    return tuple(reading for reading in found if reading.pid != ENDED)


def mapped_files(
    pids: Iterable[int], *, proc: Path = PROC, unknown: Reasons | None = None
) -> tuple[str, ...]:
    """Real paths of the datasets' files that processes have mapped, each file once.

    Files that were deleted or replaced since are left out.
    """
    found: dict[tuple[int, int], str] = {}
    if not (proc / "self").exists():
        note(unknown, "files", "this system does not tell which files a process has mapped")
        return ()
    for pid in pids:
        try:
            lines = (proc / str(pid) / "maps").read_text("utf-8", "surrogateescape").splitlines()
        except PermissionError:
            reason = f"pid {pid} belongs to another user: run as that user or as root"
            note(unknown, "files", reason)
            continue
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = (line.split(maxsplit=5) for line in lines if line.endswith(DATASET_SUFFIXES))
        # the kernel writes line breaks in octal
        for path in dict.fromkeys(each[5].replace("\\012", "\n") for each in fields):
            try:
                info = os.stat(path)
                found.setdefault((info.st_dev, info.st_ino), os.path.realpath(path))
            except OSError:  # deleted, or in another container's folders
                reason = f"{path}, which pid {pid} has mapped, is not visible here"
                note(unknown, "files", reason)
    return tuple(found.values())


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


def find_group(
    pid: int | None = None,
    *,
    proc: Path = PROC,
    mount: Path = MOUNT,
    unknown: Reasons | None = None,
) -> BoundingGroup | None:
    """The group with the least limit of those that a process is in, or without limits its own."""
    membership = proc / str(os.getpid() if pid is None else pid) / "cgroup"
    inner: list[Path] = []
    found: list[tuple[float, BoundingGroup]] = []
    for folder in memory_groups(membership, mount):
        for interface in INTERFACES:
            if (folder / interface.usage).exists():
                inner.append(folder)
                limit = limit_of(folder, interface)
                group = BoundingGroup(folder, interface, tuple(inner))
                found.append((float("inf") if limit is None else limit, group))
    if found:  # of equal limits, the innermost
        return min(found, key=lambda pair: pair[0])[1]
    if not membership.exists():
        reason = "this system has no control groups, or the process has ended"
    elif next(memory_groups(membership, mount), None) is None:
        reason = f"the process is in no memory control group that is visible below {mount}"
    else:
        reason = "the process is in the root group, whose memory version 2 does not count"
    note(unknown, "group", reason)
    return None


# --- files and disks


class CachedFiles:
    """Files whose pages in the page cache are counted, again and again; no page is touched.

    They are kept open. A file that was replaced meanwhile is opened anew; one that was deleted is
    left out, with the reason as "page_cache PATH".
    """

    def __init__(
        self, paths: Iterable[str | os.PathLike[str]] = (), unknown: Reasons | None = None
    ) -> None:
        self._files: dict[str, tuple[_core.Mapping, tuple[int, int, int]] | None] = {}
        self._most: dict[str, int] = {}
        self._unknown = unknown
        self.add(paths)

    def add(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Counts pages of these files as well, from the next reading on."""
        for path in paths:
            self._files.setdefault(os.path.realpath(path), None)

    @property
    def paths(self) -> tuple[str, ...]:
        """All files that were added, as real paths."""
        return tuple(self._files)

    @property
    def size(self) -> int:
        """Bytes of the files that exist."""
        return sum(os.path.getsize(path) for path in self._files if os.path.exists(path))

    def read(self, parts: int = 1) -> tuple[FileReading, ...]:
        """Every file that exists, with the share of each of its parts that is in the page cache.

        For each GiB that is in memory the kernel takes up to twenty milliseconds, and far less
        where it keeps pages in large blocks, as it does for files that are read in sequence.
        """
        found = []
        for path in self.paths:
            mapping = self._opened(path)
            if mapping is None:
                continue
            known, reason = (
                None,
                "only owners and writers of a file are told which pages are cached",
            )
            try:
                known = residency(mapping, parts)
            except OSError as error:
                reason = f"the kernel does not tell: {error.strerror}"
            if known is None:
                note(self._unknown, f"page_cache {path}", reason)
                found.append(FileReading(path, mapping.size, None, None, self._most.get(path)))
                continue
            self._most[path] = max(known[0], self._most.get(path, 0))
            shares = tuple(known[1].tolist())
            found.append(FileReading(path, mapping.size, known[0], shares, self._most[path]))
        return tuple(found)

    def close(self) -> None:
        """Closes all files."""
        for path in self._files:
            self._drop(path)

    def _opened(self, path: str) -> _core.Mapping | None:
        """The file that stands at a path now; one that has grown or shrunk is mapped anew, too."""
        try:
            info = os.stat(path)
            identity = (info.st_dev, info.st_ino, info.st_size)
            known = self._files[path]
            if known is None or known[1] != identity:
                self._drop(path)
                known = self._files[path] = (_core.Mapping(path), identity)
        except OSError as error:
            self._drop(path)
            is_gone = isinstance(error, FileNotFoundError)
            reason = "was deleted" if is_gone else f"cannot be opened: {error.strerror}"
            note(self._unknown, f"page_cache {path}", f"the file {reason}")
            return None
        return known[0]

    def _drop(self, path: str) -> None:
        known, self._files[path] = self._files[path], None
        if known is not None:
            known[0].close()


def device_bytes(path: str | os.PathLike[str], unknown: Reasons | None = None) -> int | None:
    """Counter: bytes that anyone has read from the disk that holds a path."""
    disk = _disk_of(os.fspath(path))
    try:
        if disk is not None:
            return int((disk / "stat").read_text().split()[2]) * _SECTOR
        reason = f"the file system of {path} is not on one disk of this machine"
        disks = psutil.disk_io_counters(perdisk=True) or {}
        if platform.system() != "Linux" and len(disks) == 1:
            return int(next(iter(disks.values())).read_bytes)
    except (OSError, ValueError, IndexError):
        reason = f"{disk}/stat cannot be read"
    note(unknown, "device_bytes", reason)
    return None


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
    queue = None if disk is None else disk / "queue"
    kilobytes = None if queue is None else number(queue / "read_ahead_kb")
    # virtual disks say that they turn, because that is their default
    turns = None if queue is None or disk_is_virtual(queue) else number(queue / "rotational")
    found = Environment(
        cpu=machine.cpu_name(),
        cores=machine.usable_cores(),
        memory=int(psutil.virtual_memory().total),
        system=system_name(),
        disk=None if disk is None else machine.disk_model(disk),
        file_system=None if mount is None else mount.file_system,
        mount_options=None if mount is None else mount.options,
        rotational=None if turns is None else turns == 1,
        readahead_bytes=None if kilobytes is None else kilobytes * 1024,
        disk_rate=None if path is None else _disk_rate(Path(path).parent, unknown),
        versions={
            "python": platform.python_version(),
            **{name: version for name, version in versions_of(_PACKAGES).items() if version},
        },
    )
    missing = [name for name, value in vars(found).items() if value is None]
    note(unknown, missing, "no dataset is known" if path is None else _UNTOLD)
    return found


def disk_is_virtual(queue: Path) -> bool:
    """Whether a disk has no maker."""
    return not (queue.parent / "device/model").exists() and not queue.parent.name.startswith("nvme")


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
