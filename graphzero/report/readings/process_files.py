"""Figures of one process: from its files below ``/proc``, elsewhere from psutil."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from graphzero.report.readings.reasons import Reasons, note

__all__ = [
    "PROC",
    "Ended",
    "Figures",
    "Kernel",
    "System",
    "denied",
    "figures_source",
    "is_kernel_thread",
]

PROC = Path("/proc")
_KB = 1024
_PF_KTHREAD = 0x00200000  # of the kernel's include/linux/sched.h
_PSS = ("pss", "pss_anonymous", "pss_file", "pss_shared")


class Ended(Exception):
    """A process has ended, or waits to be collected by its parent (a zombie)."""


@dataclass(frozen=True)
class Figures:
    """What one process is: enough to tell it from a later one of the same number.

    Attributes
    ----------
    started : float
        When it began, in a unit of the source.
    values : dict of str to int or float
        The figures of a `ProcessReading` that are known.
    collected : dict of str to int or float
        Of children that it has waited for, where the system tells them apart.
    """

    started: float
    values: dict[str, int | float]
    collected: dict[str, int | float] = field(default_factory=dict)


def denied(pid: int, proc: Path = PROC) -> str:
    """Why a process may not be inspected."""
    try:
        ours = (proc / str(pid)).stat().st_uid == os.geteuid()
    except OSError:
        ours = False
    if ours:
        return f"pid {pid} runs with privileges that forbid to inspect it: run as root"
    return f"pid {pid} belongs to another user: run as that user or as root"


def is_kernel_thread(pid: int, proc: Path = PROC) -> bool:
    """Whether this is a thread of the kernel itself, which has no memory of its own."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended or is hidden, or this is not Linux
        return False
    return bool(int(text.rpartition(")")[2].split()[6]) & _PF_KTHREAD)


class Kernel:
    """Reads the files of Linux: some tens of microseconds a process.

    Parameters
    ----------
    proc : path
        Where the kernel shows processes.
    """

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._ticks = os.sysconf("SC_CLK_TCK")

    def read(self, pid: int, unknown: Reasons | None) -> Figures:
        """Memory and counters.

        Raises
        ------
        Ended
        """
        # the name stands in parentheses, and may have blanks and parentheses of its own
        fields = self._text(pid, "stat").rpartition(")")[2].split()
        values: dict[str, int | float] = {
            "major_faults": int(fields[9]),
            "cpu_seconds": (int(fields[11]) + int(fields[12])) / self._ticks,
        }
        collected: dict[str, int | float] = {
            "major_faults": int(fields[10]),
            "cpu_seconds": (int(fields[13]) + int(fields[14])) / self._ticks,
        }
        values |= self._resident(pid, unknown)
        values |= self._permitted(pid, unknown, ("read_bytes",), self._read_bytes)
        return Figures(float(fields[19]), values, collected)

    def read_pss(self, pid: int, unknown: Reasons | None) -> dict[str, int | float]:
        """Memory where shared pages are divided. The kernel visits every page that is mapped."""
        if not (self._proc / "self/smaps_rollup").exists():  # before Linux 4.14
            return System().read_pss(pid, unknown)
        return self._permitted(pid, unknown, (*_PSS, "uss"), self._rollup)

    def _resident(self, pid: int, unknown: Reasons | None) -> dict[str, int | float]:
        lines = _kilobytes(self._text(pid, "status"))
        if "VmRSS" not in lines:
            raise Ended  # a zombie, whose memory is gone
        names = {"anonymous": "RssAnon", "file": "RssFile", "shared": "RssShmem"}
        if "RssAnon" not in lines:
            note(unknown, names, "the kernel is older than 4.5, and does not tell them apart")
            return {"rss": lines["VmRSS"]}
        found: dict[str, int | float] = {key: lines[line] for key, line in names.items()}
        return {"rss": sum(found.values()), **found}

    def _read_bytes(self, pid: int) -> dict[str, int | float]:
        for line in self._text(pid, "io").splitlines():
            name, _, count = line.partition(":")
            if name == "read_bytes":
                return {"read_bytes": int(count)}
        raise FileNotFoundError

    def _rollup(self, pid: int) -> dict[str, int | float]:
        lines = _kilobytes(self._text(pid, "smaps_rollup"))
        if "Pss" not in lines:
            raise FileNotFoundError
        private = ("Private_Clean", "Private_Dirty", "Private_Hugetlb")
        found: dict[str, int | float] = {
            "pss": lines["Pss"],
            "uss": sum(lines.get(name, 0) for name in private),
        }
        parts = {"pss_anonymous": "Pss_Anon", "pss_file": "Pss_File", "pss_shared": "Pss_Shmem"}
        return found | {key: lines[line] for key, line in parts.items() if line in lines}

    def _permitted(
        self,
        pid: int,
        unknown: Reasons | None,
        figures: tuple[str, ...],
        read: Callable[[int], dict[str, int | float]],
    ) -> dict[str, int | float]:
        """Figures that only the owner of a process and root may read."""
        try:
            found = read(pid)
        except PermissionError:
            note(unknown, figures, denied(pid, self._proc))
            return {}
        except FileNotFoundError:
            if not (self._proc / str(pid)).exists():
                raise Ended from None
            note(unknown, figures, "the kernel does not tell it")
            return {}
        missing = [figure for figure in figures if figure not in found]
        note(unknown, missing, "the kernel is older than 5.3, and does not tell it")
        return found

    def _text(self, pid: int, name: str) -> str:
        try:
            with open(f"{self._proc}/{pid}/{name}", encoding="utf-8", errors="replace") as file:
                return file.read()
        except ProcessLookupError:
            raise Ended from None
        except FileNotFoundError:
            if not (self._proc / str(pid)).exists():
                raise Ended from None
            raise


def _kilobytes(text: str) -> dict[str, int]:
    """Lines such as ``VmRSS:  1744 kB``, in bytes."""
    found = {}
    for line in text.splitlines():
        if line.endswith(" kB"):
            name, _, count = line[:-3].partition(":")
            found[name] = int(count) * _KB
    return found


class System:
    """What psutil offers where there is no ``/proc``, as on macOS."""

    def read(self, pid: int, unknown: Reasons | None) -> Figures:
        """Memory and counters.

        Raises
        ------
        Ended
        """
        process = _process(pid)
        values: dict[str, int | float] = {}
        note(unknown, ("anonymous", "file", "shared"), "this system does not tell them apart")
        info = _ask(process, "memory_info", unknown, ("rss", "major_faults"))
        if info is not None:
            values["rss"] = info.rss
            if hasattr(info, "pageins"):
                values["major_faults"] = info.pageins
            else:
                note(unknown, "major_faults", "this system does not tell it")
        times = _ask(process, "cpu_times", unknown, ("cpu_seconds",))
        if times is not None:
            values["cpu_seconds"] = times.user + times.system
        counted = _ask(process, "io_counters", unknown, ("read_bytes",))
        if counted is not None:
            values["read_bytes"] = counted.read_bytes
        return Figures(process.create_time(), values)

    def read_pss(self, pid: int, unknown: Reasons | None) -> dict[str, int | float]:
        """Pages of its own, and each page divided among its processes, as far as known."""
        info = _ask(_process(pid), "memory_full_info", unknown, (*_PSS, "uss"))
        found = {key: getattr(info, key) for key in ("pss", "uss") if hasattr(info, key)}
        missing = [figure for figure in (*_PSS, "uss") if figure not in found]
        note(unknown, missing, "this system does not tell it")
        return found


def _process(pid: int) -> psutil.Process:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            raise Ended
    except psutil.NoSuchProcess:
        raise Ended from None
    return process


def _ask(
    process: psutil.Process, method: str, unknown: Reasons | None, figures: tuple[str, ...]
) -> Any:
    """What a method of psutil answers, or None."""
    if not hasattr(process, method):
        note(unknown, figures, "this system does not tell it")
        return None
    try:
        return getattr(process, method)()
    except psutil.AccessDenied:
        note(unknown, figures, denied(process.pid))
    except psutil.NoSuchProcess:
        raise Ended from None
    return None


def figures_source(proc: Path = PROC) -> Kernel | System:
    """Where figures of processes come from on this system."""
    return Kernel(proc) if (proc / "self/stat").exists() else System()
