"""Memory control groups: a limit on the memory and page cache of a process.

Uses version 1 or 2 where a group can be made, and otherwise a systemd scope. A shell enters the
group, so that a process is inside before it imports or maps anything. Of a program that is killed
the empty group stays until the machine starts again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from graphzero.store.free_memory import INTERFACES, MOUNT, Interface, counters_of, memory_groups

REMOVE_SECONDS = 10.0
_MEMBERSHIP = Path("/proc/self/cgroup")
_ENTER = 'echo $$ > "$0" && exec "$@"'  # a group's file, and the command
_WITH_SWAP = {1: "memory.memsw.limit_in_bytes", 2: "memory.swap.max"}


class NoMemoryGroup(RuntimeError):
    """No memory group can be made here; the message says what was tried."""


@dataclass(frozen=True)
class MemoryGroup:
    """A group with a limit.

    Attributes
    ----------
    kind : str
        The interface that made it.
    limit : int
        In bytes.
    prefix : tuple of str
        A command that enters the group and runs the rest of the command line.
    folder : pathlib.Path or None
        The folder of the group's files; None for a systemd scope.
    """

    kind: str
    limit: int
    prefix: tuple[str, ...]
    folder: Path | None = None

    def kills(self) -> int:
        """Number of processes that the kernel has killed for lack of memory; 0 if unknown."""
        files = () if self.folder is None else [self.folder / i.kills for i in INTERFACES]
        return sum(counters_of(path).get("oom_kill", 0) for path in files)


def _make_group(parent: Path, interface: Interface, limit: int) -> MemoryGroup:
    """Makes a group within another; raises OSError on failure."""
    if interface.version == 2:
        # fails without a memory controller
        (parent / "cgroup.subtree_control").write_text("+memory")
    folder = parent / f"graphzero-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir()
    try:
        (folder / interface.limits[0]).write_text(str(limit))
        with suppress(OSError):  # absent if swap is not accounted
            with_swap = limit if interface.version == 1 else 0
            (folder / _WITH_SWAP[interface.version]).write_text(str(with_swap))
        enter = ("/bin/sh", "-c", _ENTER, str(folder / "cgroup.procs"))
        _check_command([*enter, "true"])
    except BaseException:
        folder.rmdir()
        raise
    return MemoryGroup(f"cgroup version {interface.version}", limit, enter, folder)


def _check_command(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from error


def _make_scope(limit: int) -> MemoryGroup:
    program = shutil.which("systemd-run")
    if program is None:
        raise OSError("there is no systemd-run")
    options = ["--scope", "--quiet", "-p", f"MemoryMax={limit}", "-p", "MemorySwapMax=0"]
    prefix = (program, *([] if os.geteuid() == 0 else ["--user"]), *options, "--")
    _check_command([*prefix, "true"])
    return MemoryGroup("systemd-run", limit, prefix)


def _make_any(limit: int) -> MemoryGroup:
    tried = []
    for parent in memory_groups(_MEMBERSHIP, MOUNT):
        for interface in INTERFACES:
            # the root of version 2 has no figures of its own
            sign = interface.usage if interface.version == 1 else "cgroup.controllers"
            if (parent / sign).exists():
                try:
                    return _make_group(parent, interface, limit)
                except OSError as error:
                    tried.append(f"version {interface.version}: {error}")
    try:
        return _make_scope(limit)
    except OSError as error:
        tried.append(str(error))
    raise NoMemoryGroup(
        f"no memory group can be made: {'; '.join(dict.fromkeys(tried))}. Run it as root, or "
        f"without a limit in a container that has one"
    )


def _remove(folder: Path) -> None:
    end = time.monotonic() + REMOVE_SECONDS
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:  # a process has ended, but the kernel has not removed it yet
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@contextmanager
def limited_group(limit: int) -> Iterator[MemoryGroup]:
    """A group that exists within the context; its processes must end before the context does.

    Raises
    ------
    NoMemoryGroup
    """
    group = _make_any(limit)
    if group.folder is None:
        yield group
        return
    try:
        yield group
    finally:
        _remove(group.folder)
