"""Memory control groups: a limit on the memory and page cache of a process.

Uses version 1 or 2 where a group can be made, and otherwise a systemd scope. This file is also the
program that enters a group: ``python limited_memory.py PROCS COMMAND...``. It needs only the
standard library, so that a process is inside the group before it imports or maps anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MemoryGroup", "NoMemoryGroup", "locked", "memory_group", "own_name", "remove_left"]

REMOVE_SECONDS = 10.0
_PREFIX = "graphzero-"
_MAKING_SECONDS = 60.0  # so old is no folder that is being made, and not yet locked
# By version of the interface: limit, limit with swap, and the names of two counts in memory.stat.
FILES = {
    1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", ("rss", "cache")),
    2: ("memory.max", "memory.swap.max", ("anon", "file")),
}


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

    def usage(self) -> dict[str, int]:
        """Bytes that are charged now: {"anonymous": ..., "file": ...}; empty if unknown."""
        if self.folder is None:
            return {}
        stat = _read_counts(self.folder / "memory.stat")
        names = FILES[1 if (self.folder / FILES[1][0]).exists() else 2][2]
        return {key: stat[name] for key, name in zip(("anonymous", "file"), names, strict=True)}

    def kills(self) -> int:
        """Number of processes that the kernel has killed for lack of memory; 0 if unknown."""
        if self.folder is None:
            return 0
        for name in ("memory.oom_control", "memory.events"):
            if (self.folder / name).exists():
                return _read_counts(self.folder / name).get("oom_kill", 0)
        return 0


def _read_counts(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in path.read_text().splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def hierarchies(mounts: str, own: str) -> list[tuple[int, list[Path]]]:
    """Folders in which a memory group may be made, by hierarchy.

    Parameters
    ----------
    mounts, own : str
        Contents of ``/proc/mounts`` and ``/proc/self/cgroup``.

    Returns
    -------
    list of (int, list of pathlib.Path)
        For each hierarchy, its version and the possible parents of a new group: the group of this
        process, its ancestors, the root.
    """
    paths: dict[int, str] = {}
    for line in own.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            paths[2] = path
        elif "memory" in controllers.split(","):
            paths[1] = path
    found = []
    for line in mounts.splitlines():
        _, mount, kind, flags, *_ = line.split()
        if kind == "cgroup2":
            version = 2
        elif kind == "cgroup" and "memory" in flags.split(","):
            version = 1
        else:
            continue
        inner = Path(paths.get(version, "/"))
        parents = [Path(mount) / part.relative_to("/") for part in (inner, *inner.parents)]
        found.append((version, parents))
    return found


def own_name(prefix: str) -> str:
    """A name for a folder of this process, which says when it was made."""
    return f"{prefix}{os.getpid()}-{time.monotonic_ns()}"


def remove_left(parent: Path, prefix: str, remove: Callable[[Path], object]) -> None:
    """Removes folders with an `own_name` whose makers were killed: nobody has them `locked`."""
    for folder in parent.glob(f"{prefix}*"):
        made = folder.name.rpartition("-")[2]
        # The clock begins again with the machine: a folder of the future is of the past.
        if made.isdecimal() and abs(time.monotonic_ns() - int(made)) > _MAKING_SECONDS * 1e9:
            with contextlib.suppress(OSError), locked(folder):
                remove(folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Whoever makes a folder keeps a lock on it, which ends with the process."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _make(version: int, parent: Path, limit: int) -> MemoryGroup:
    """Makes a group within another; raises OSError on failure."""
    if version == 2:
        if "memory" not in (parent / "cgroup.controllers").read_text().split():
            raise OSError(f"{parent} has no memory controller")
        if "memory" not in (parent / "cgroup.subtree_control").read_text().split():
            (parent / "cgroup.subtree_control").write_text("+memory")
    remove_left(parent, _PREFIX, os.rmdir)
    folder = parent / own_name(_PREFIX)
    folder.mkdir()
    try:
        most, with_swap, _ = FILES[version]
        (folder / most).write_text(str(limit))
        # Absent if swap is not accounted.
        with contextlib.suppress(OSError):
            (folder / with_swap).write_text(str(limit if version == 1 else 0))
        enter = (sys.executable, "-I", str(Path(__file__).resolve()), str(folder / "cgroup.procs"))
        _try([*enter, "true"])
    except BaseException:
        folder.rmdir()
        raise
    return MemoryGroup(f"cgroup version {version}", limit, enter, folder)


def _try(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:]
        raise OSError(f"{command[0]}: {' '.join(last)}") from error
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]}: no answer") from error


def _scope(limit: int) -> MemoryGroup:
    program = shutil.which("systemd-run")
    if program is None:
        raise OSError("there is no systemd-run")
    options = ["--scope", "--quiet", "-p", f"MemoryMax={limit}", "-p", "MemorySwapMax=0"]
    prefix = (program, *([] if os.geteuid() == 0 else ["--user"]), *options, "--")
    _try([*prefix, "true"])
    return MemoryGroup("systemd-run", limit, prefix)


def _find(limit: int) -> MemoryGroup:
    tried = []
    try:
        mounts, own = (Path(f"/proc/{name}").read_text() for name in ("mounts", "self/cgroup"))
    except OSError as error:
        raise NoMemoryGroup(f"no memory group can be made: {error}") from None
    for version, parents in hierarchies(mounts, own):
        for parent in parents:
            try:
                return _make(version, parent, limit)
            except OSError as error:
                tried.append(f"version {version}: {error}")
    try:
        return _scope(limit)
    except OSError as error:
        tried.append(str(error))
    raise NoMemoryGroup(f"no memory group can be made: {'; '.join(dict.fromkeys(tried))}")


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        (folder / "memory.force_empty").write_text("0")  # version 1 only
    end = time.monotonic() + REMOVE_SECONDS
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # a process has ended, but the kernel has not removed it yet
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """A group that exists within the context; its processes must end before the context does.

    Raises
    ------
    NoMemoryGroup
    """
    group = _find(limit)
    if group.folder is None:
        yield group
        return
    try:
        with locked(group.folder):
            yield group
    finally:
        _remove(group.folder)


def enter(procs: str, command: Sequence[str]) -> None:
    """Moves this process into a group and replaces it by another program."""
    with open(procs, "w") as file:
        file.write(str(os.getpid()))
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    enter(sys.argv[1], sys.argv[2:])
