"""Which files of datasets processes have mapped."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from graphzero.report.readings.process_files import PROC, denied
from graphzero.report.readings.reasons import Reasons, note

__all__ = ["DATASET_SUFFIXES", "mapped_files"]

DATASET_SUFFIXES = (".gl", ".gd", ".npy")


def mapped_files(
    pids: Iterable[int], *, proc: Path = PROC, unknown: Reasons | None = None
) -> tuple[str, ...]:
    """Paths of the datasets' files that processes have mapped, each file once.

    Files that were deleted or replaced since are left out.

    Parameters
    ----------
    pids : iterable of int
    proc : path
        Where the kernel shows processes.
    unknown : dict of str to str, optional
        Gets the reason, as "files", for processes of which this is unknown.

    Returns
    -------
    tuple of str
        Real paths, in the order in which they were found.
    """
    found: dict[tuple[int, int], str] = {}
    if not (proc / "self").exists():
        note(unknown, "files", "this system does not tell which files a process has mapped")
        return ()
    for pid in pids:
        for path in _paths(pid, proc, unknown):
            try:
                info = os.stat(path)
            except OSError:  # deleted, or in another container's folders
                note(unknown, "files", f"{path}, which pid {pid} has mapped, is not visible here")
                continue
            found.setdefault((info.st_dev, info.st_ino), os.path.realpath(path))
    return tuple(found.values())


def _paths(pid: int, proc: Path, unknown: Reasons | None) -> dict[str, None]:
    """As the kernel names them."""
    found: dict[str, None] = {}
    try:
        with open(f"{proc}/{pid}/maps", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                fields = line.rstrip("\n").split(maxsplit=5)
                if len(fields) == 6 and fields[5].endswith(DATASET_SUFFIXES):
                    found[_decoded(fields[5])] = None
    except PermissionError:
        note(unknown, "files", denied(pid, proc))
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
    return found


def _decoded(path: str) -> str:
    """The kernel writes line breaks in octal."""
    return path.replace("\\012", "\n")
