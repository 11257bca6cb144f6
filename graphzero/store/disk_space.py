"""The check of free disk space before long work."""

from __future__ import annotations

import errno
import os
import shutil

__all__ = ["free_disk_space", "require_disk_space"]


def free_disk_space(folder: str | os.PathLike[str]) -> int:
    """Bytes that are free on the disk of a folder."""
    return shutil.disk_usage(folder).free


def require_disk_space(
    folder: str | os.PathLike[str], num_bytes: int, needs: str, advice: str = ""
) -> None:
    """Raises an error unless the disk of a folder has so much free space.

    Parameters
    ----------
    folder : path-like
    num_bytes : int
    needs : str
        Beginning of the message: what needs the space, such as "the build needs".
    advice : str
        End of the message: what to do, such as ": pack fewer epochs".

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    free = free_disk_space(folder)
    if free < num_bytes:
        raise OSError(
            errno.ENOSPC,
            f"{needs} {num_bytes:,} bytes of disk space and {free:,} are free{advice}",
            os.fspath(folder),
        )
