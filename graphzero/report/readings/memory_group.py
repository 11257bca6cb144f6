"""The memory control group that bounds a process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from graphzero.io.control_groups import (
    INTERFACES,
    MOUNT,
    Interface,
    counters_of,
    limit_of,
    memory_groups,
    number,
)
from graphzero.report.readings.process_files import PROC
from graphzero.report.readings.reasons import Reasons, note
from graphzero.report.recording import GroupReading

__all__ = ["BoundingGroup", "find_group", "read_group"]

_FIGURES = ("usage", "anonymous", "file", "shared", "refaults", "kills")


@dataclass(frozen=True)
class BoundingGroup:
    """A memory control group.

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
        values = {
            "usage": number(self.folder / files.usage),
            "anonymous": stat.get(files.anonymous),
            "file": None if cached is None or shared is None else max(0, cached - shared),
            "shared": shared,
            "refaults": next((stat[name] for name in files.refaults if name in stat), None),
            "kills": self._kills(),
        }
        for name in _FIGURES:
            if values[name] is None:
                reason = f"the files in {self.folder} do not tell it, or may not be read"
                note(unknown, f"group.{name}", reason)
        peak = number(self.folder / files.peak)  # after the usage, which is never more
        return GroupReading(files.version, limit_of(self.folder, files), **values, peak=peak)

    def _kills(self) -> int | None:
        """Version 1 counts a kill in the group of the process alone, version 2 in all above it."""
        folders = self.inner if self.interface.version == 1 else (self.folder,)
        counts = [counters_of(folder / self.interface.kills).get("oom_kill") for folder in folders]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None


def find_group(
    pid: int | None = None,
    *,
    proc: Path = PROC,
    mount: Path = MOUNT,
    unknown: Reasons | None = None,
) -> BoundingGroup | None:
    """The group with the least limit of those that a process is in, or without limits its own.

    Parameters
    ----------
    pid : int, optional
        Default: this process.
    proc, mount : path
        Where the kernel shows processes and control groups.
    unknown : dict of str to str, optional
        Gets the reason, as "group", if there is none.
    """
    membership = proc / str(os.getpid() if pid is None else pid) / "cgroup"
    inner: list[Path] = []
    found: list[tuple[int | None, BoundingGroup]] = []
    for folder in memory_groups(membership, mount):
        for interface in INTERFACES:
            if (folder / interface.usage).exists():
                inner.append(folder)
                group = BoundingGroup(folder, interface, tuple(inner))
                found.append((limit_of(folder, interface), group))
    if not found:
        note(unknown, "group", _why_none(membership, mount))
        return None
    limited = [(limit, group) for limit, group in found if limit is not None]
    # of equal limits, the innermost
    return min(limited, key=lambda pair: pair[0])[1] if limited else found[0][1]


def _why_none(membership: Path, mount: Path) -> str:
    try:
        membership.read_text()
    except FileNotFoundError:
        return "this system has no control groups, or the process has ended"
    except OSError as error:
        return f"{membership} cannot be read: {error.strerror}"
    if next(memory_groups(membership, mount), None) is None:
        return f"the process is in no memory control group that is visible below {mount}"
    return "the process is in the root group, whose memory version 2 does not count"


def read_group(
    pid: int | None = None,
    *,
    proc: Path = PROC,
    mount: Path = MOUNT,
    unknown: Reasons | None = None,
) -> GroupReading | None:
    """The group of `find_group`, once."""
    group = find_group(pid, proc=proc, mount=mount, unknown=unknown)
    return None if group is None else group.read(unknown)
