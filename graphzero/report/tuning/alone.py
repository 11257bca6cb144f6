"""Only one measurement of a dataset at a time: two would slow each other down."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["measuring_alone"]


@contextmanager
def measuring_alone(files: Sequence[Path]) -> Iterator[None]:
    """Locks a dataset against other measurements; the lock ends with the process at the latest.

    Builds lock the folder, so the lock is on one of the dataset's files. Training does not ask
    for it. File systems that cannot lock a file for reading are left unlocked.

    Parameters
    ----------
    files : sequence of pathlib.Path
        The dataset's.

    Raises
    ------
    BlockingIOError
        With the path, if another process measures the dataset.
    """
    path = min(files)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                errno.EWOULDBLOCK,
                "another tuning or sweep measures this dataset, and both would have wrong "
                "figures: wait until it ends",
                os.fspath(path.parent),
            ) from None
        except OSError:  # such as NFS, which wants to write
            pass
        yield
    finally:
        os.close(descriptor)
