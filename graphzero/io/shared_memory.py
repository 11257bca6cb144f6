"""Whether the mini-batches of DataLoader workers fit in the system's shared memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from graphzero.units import format_bytes

__all__ = ["SHARED_MEMORY", "check_shared_memory", "shared_memory_bytes"]

SHARED_MEMORY = Path("/dev/shm")  # where torch puts tensors that go from process to process
_QUEUED = 2  # mini-batches of each worker on their way: DataLoader's prefetch_factor
_IN_USE = 1


def shared_memory_bytes(folder: Path = SHARED_MEMORY) -> int | None:
    """Size of the shared memory, in bytes; None where there is no such file system."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def check_shared_memory(batch_bytes: int, workers: int, folder: Path = SHARED_MEMORY) -> None:
    """Refuses workers whose mini-batches do not fit, before the first of them is sent.

    The kernel kills a worker that writes beyond the end of the shared memory (SIGBUS).

    Parameters
    ----------
    batch_bytes : int
        One mini-batch with its rows.
    workers : int
        Of the DataLoader.
    folder : path
        Where shared memory is mounted.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    total = shared_memory_bytes(folder)
    needed = (workers * _QUEUED + _IN_USE) * batch_bytes
    if total is not None and needed > total:
        raise OSError(
            errno.ENOSPC,
            f"the shared memory has {format_bytes(total)}, and {workers} DataLoader workers need "
            f"{format_bytes(needed)} for mini-batches of {format_bytes(batch_bytes)}: use "
            f"num_workers=0 (graphzero's own threads prepare batches in parallel), a smaller "
            f"batch_size, or more shared memory (docker run --shm-size)",
            str(folder),
        )
