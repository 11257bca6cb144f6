"""A process and those that it has started: their memory, faults, bytes read and processor time."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from graphzero.report.readings.counters import Counters
from graphzero.report.readings.inherited import Counted, Inherited
from graphzero.report.readings.process_files import PROC, Ended, Figures, figures_source
from graphzero.report.readings.reasons import Reasons, note
from graphzero.report.recording import ProcessReading

__all__ = ["ProcessTree", "descendants", "read_processes"]

_COLLECTED = ("major_faults", "cpu_seconds")  # told apart from those of children
_FORK_SERVER = "fork server"
# What helpers of multiprocessing are called, by what stands in their command line.
_HELPERS = {
    "multiprocessing.resource_tracker": "resource tracker",
    "multiprocessing.forkserver": _FORK_SERVER,
}


def descendants(pid: int, proc: Path = PROC) -> dict[int, int]:
    """Processes below one, and itself: the parent of each, by pid, parents before children.

    The kernel's list of children may for once lack one while another ends.
    """
    try:
        return _from_kernel(pid, proc)
    except OSError:  # not Linux, or a kernel without lists of children
        pass
    found = {pid: 0}
    try:
        for child in psutil.Process(pid).children(recursive=True):
            found[child.pid] = child.ppid()
    except psutil.Error:  # it has ended
        pass
    return found


def _from_kernel(pid: int, proc: Path) -> dict[int, int]:
    """From the lists of children that each thread has: psutil asks all processes of the machine."""
    with open(f"{proc}/{pid}/task/{pid}/children") as file:  # raises if there are no lists
        file.read()
    found = {pid: 0}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for child in _children(parent, proc):
            if child not in found:
                found[child] = parent
                waiting.append(child)
    return found


def _children(pid: int, proc: Path) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"{proc}/{pid}/task"):
            with open(f"{proc}/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass  # a thread, or the whole process, has ended
    return found


@dataclass(frozen=True)
class _Known:
    """A process that was seen before."""

    started: float
    name: str


class ProcessTree:
    """A process and its descendants, for readings again and again.

    A process keeps its name: "main" is the first Python process from the top, "worker 1" and so on
    are those below it, in the order in which they were seen.

    Parameters
    ----------
    pid : int, optional
        Default: this process.
    unknown : dict of str to str, optional
        Gets the reasons for figures that are unknown.
    proc : path
        Where the kernel shows processes.

    Attributes
    ----------
    counters : Counters
        Sums over the processes, those that have ended included.
    """

    def __init__(
        self, pid: int | None = None, *, unknown: Reasons | None = None, proc: Path = PROC
    ) -> None:
        self.pid = os.getpid() if pid is None else pid
        self.counters = Counters()
        self._unknown = unknown
        self._proc = proc
        self._source = figures_source(proc)
        self._known: dict[int, _Known] = {}
        self._workers = 0
        self._has_main = False
        self._inherited_reads = Inherited()
        self._inherited = {name: Inherited() for name in _COLLECTED}

    def read(self, *, with_pss: bool = False) -> tuple[ProcessReading, ...]:
        """All processes at present; empty if the first one has ended.

        Parameters
        ----------
        with_pss : bool
            Also what counts shared pages once. The kernel then visits every page that a process
            has mapped: some milliseconds for each GiB.
        """
        readings = []
        seen: dict[int, Figures] = {}
        parents = descendants(self.pid, self._proc)
        for pid, parent in parents.items():
            try:
                figures = self._source.read(pid, self._unknown)
                values = dict(figures.values)
                if with_pss:
                    values |= self._source.read_pss(pid, self._unknown)
                name = self._name(pid, parent, figures)
            except Ended:
                if pid == self.pid:
                    note(self._unknown, "processes", f"there is no process {pid}, or it is hidden")
                continue
            seen[pid] = figures
            readings.append(ProcessReading(pid, name, **values))  # type: ignore[arg-type]
        readings = self._with_own_reads(readings, parents)
        self.counters.update(readings, self._unseen(seen, parents))
        return tuple(readings)

    def _with_own_reads(
        self, readings: list[ProcessReading], parents: dict[int, int]
    ) -> list[ProcessReading]:
        """The kernel adds what children have read to what their parent has read."""
        known = {
            reading.pid: Counted(parents[reading.pid], reading.read_bytes)
            for reading in readings
            if reading.read_bytes is not None
        }
        self._inherited_reads.update(known, parents)
        own = {pid: int(self._inherited_reads.beyond(pid)) for pid in known}
        return [replace(one, read_bytes=own.get(one.pid, one.read_bytes)) for one in readings]

    def _unseen(self, seen: dict[int, Figures], parents: dict[int, int]) -> dict[str, int | float]:
        """What children counted that have ended, before they were first seen or after the last."""
        for name, inherited in self._inherited.items():
            counted = {
                pid: Counted(parents[pid], figures.collected[name], figures.values[name])
                for pid, figures in seen.items()
                if name in figures.collected
            }
            inherited.update(counted, parents)
        return {name: inherited.unseen for name, inherited in self._inherited.items()}

    def _name(self, pid: int, parent: int, figures: Figures) -> str:
        known = self._known.get(pid)
        if known is None or known.started != figures.started:
            known = self._known[pid] = _Known(figures.started, self._new_name(pid, parent))
        return known.name

    def _new_name(self, pid: int, parent: int) -> str:
        name, command = _command(pid)
        for sign, helper in _HELPERS.items():
            # a fork server's children have its command line
            of_server = parent in self._known and self._known[parent].name == _FORK_SERVER
            if sign in command and not of_server:
                return helper
        program = os.path.basename(command.partition(" ")[0])
        if not (name.lower().startswith(("python", "pt_")) or program.lower().startswith("python")):
            return name
        if not self._has_main:
            self._has_main = True
            return "main"
        self._workers += 1
        return f"worker {self._workers}"


def _command(pid: int) -> tuple[str, str]:
    """Name of a process, and its command line as far as it may be seen."""
    try:
        process = psutil.Process(pid)
        name = str(process.name())
    except psutil.NoSuchProcess:
        raise Ended from None
    except psutil.AccessDenied:
        return str(pid), ""
    try:
        return name, " ".join(process.cmdline())
    except psutil.Error:
        return name, ""


def read_processes(
    pid: int | None = None,
    *,
    with_pss: bool = False,
    unknown: Reasons | None = None,
    proc: Path = PROC,
) -> tuple[ProcessReading, ...]:
    """A process and its descendants, once; see `ProcessTree`."""
    return ProcessTree(pid, unknown=unknown, proc=proc).read(with_pss=with_pss)
