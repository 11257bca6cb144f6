"""What a measurement needs: no other one of the same dataset, and files that stay the same."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.ingest.folder import folder_lock
from graphzero.report.tuning.cache_state import dataset_files
from graphzero.store.tuning_file import files_digest

__all__ = ["measuring_alone", "unchanged_files"]


@contextmanager
def measuring_alone(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Locks a dataset against builds and other measurements.

    The locks end with the process at the latest. Builds lock the folder for themselves, and
    measurements only share that lock, so they lock one of the dataset's files as well. Training
    does not ask for either. File systems that cannot lock what is only read are left unlocked.

    Parameters
    ----------
    folder : path-like
        Of the dataset.

    Raises
    ------
    BlockingIOError
        With the path, if another process builds or measures the dataset.
    FileNotFoundError, FormatError
        If there is no dataset.
    """
    with ExitStack() as locks:
        try:
            locks.enter_context(folder_lock(Path(folder), shared=True))
        except BlockingIOError:
            raise
        except OSError:  # such as a file system without locks
            pass
        locks.enter_context(_locked_file(min(dataset_files(folder))))
        yield


@contextmanager
def _locked_file(path: Path) -> Iterator[None]:
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


@contextmanager
def unchanged_files(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Requires that the files of a dataset are the same when the block ends as when it began.

    Also where the block ends with an error, which other files may have caused.

    Raises
    ------
    RuntimeError
        If files were replaced or removed meanwhile, which locks cannot prevent.
    """
    before = _digest(folder)
    try:
        yield
    except Exception as error:
        _require(folder, before, error)
        raise
    _require(folder, before, None)


def _require(folder: str | os.PathLike[str], before: str, cause: Exception | None) -> None:
    after = None
    with suppress(OSError, FormatError):
        after = _digest(folder)
    if after != before:
        raise RuntimeError(
            f"{os.fspath(folder)}: files of the dataset were replaced or removed during the "
            f"measurement, which is of no use now; nothing was written: run it again"
        ) from cause


def _digest(folder: str | os.PathLike[str]) -> str:
    with ExitStack() as stack:
        return files_digest(
            stack.enter_context(closing(_core.Mapping(path))) for path in dataset_files(folder)
        )
