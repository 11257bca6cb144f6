"""Memory limits as users write them, and the disk space that a build needs."""

from __future__ import annotations

import errno
import os
import re
import shutil

__all__ = ["MIN_LIMIT", "parse_bytes", "require_disk_space"]

MIN_LIMIT = 1 << 20
_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(size: int | str) -> int:
    """Bytes of a memory limit.

    Parameters
    ----------
    size : int or str
        A number of bytes, or a number with one of the units B, KB, MB, GB, TB (powers of 1000),
        KiB, MiB, GiB, TiB (powers of 1024), such as ``"2GB"`` or ``"512 MiB"``.

    Raises
    ------
    ValueError
        If it is not such a size, or less than 1 MiB.
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if match is None or match[2].upper() not in _UNITS:
            raise ValueError(
                f"memory limit {size!r} is not a size: write it like '2GB' or '512MiB'"
            )
        count = int(float(match[1]) * _UNITS[match[2].upper()])
    elif isinstance(size, int) and not isinstance(size, bool):
        count = size
    else:
        raise ValueError(
            f"memory limit {size!r} is neither a number of bytes nor a text like '2GB'"
        )
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
