"""Memory limits as users write them, and the disk space that a build needs."""

from __future__ import annotations

import errno
import os
import shutil

from graphzero.units import parse_size

__all__ = ["MIN_LIMIT", "parse_bytes", "require_disk_space"]

MIN_LIMIT = 1 << 20


def parse_bytes(size: int | str) -> int:
    """Bytes of a memory limit.

    Parameters
    ----------
    size : int or str
        As `graphzero.units.parse_size` takes it.

    Raises
    ------
    ValueError
        If it is not such a size, or less than 1 MiB.
    """
    count = parse_size(size, "memory limit")
    if count < MIN_LIMIT:
        raise ValueError(f"memory limit {size!r} is too small: the least is 1MiB")
    return count


def require_disk_space(folder: str | os.PathLike[str], needed: int) -> None:
    """Refuses work that cannot fit on a folder's disk.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            errno.ENOSPC,
            f"the build needs {needed:,} bytes of disk space and {free:,} are free",
            os.fspath(folder),
        )
