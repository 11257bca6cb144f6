"""Files that appear complete or not at all, and the lock of a folder.

A file is written under a temporary name in its final folder, flushed to the disk,
and renamed to its final name; the folder is flushed too. At every moment, also after a crash, a
reader sees the earlier file or the new one, never a part of one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

_SUFFIX = ".gz-staged"
_SPECIAL_FILE = (
    "this is a folder, a device or another special file, or an open file of a process; choose the "
    "path of a regular file"
)
# Where descriptors of processes are. /dev/shm is a folder like any other.
_OPEN_FILES = re.compile("/dev/(stdin|stdout|stderr|fd/.*)|/proc/.*", re.DOTALL)


def is_staging_name(name: str) -> bool:
    """Whether this is the name of an unfinished `StagedFile`."""
    return name.startswith(".") and name.endswith(_SUFFIX)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Flushes a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_special(path: str | os.PathLike[str]) -> None:
    """Refuses a path whose file is neither missing nor regular: a rename would replace it.

    Raises
    ------
    OSError
        With errno and path: a folder, a device, a pipe, a socket, or a link to one of them; also
        an open file such as ``/dev/stdout``, whose writer would go on in the file replaced.
    """
    names = [os.path.abspath(path)]
    with suppress(OSError):  # no link
        names.append(os.path.join(os.path.dirname(names[0]), os.readlink(path)))
    mode = stat.S_IFREG  # of a missing file, or a link that leads nowhere; making it says the rest
    with suppress(OSError):
        mode = os.stat(path).st_mode
    if os.fspath(path).endswith(os.sep):
        mode = stat.S_IFDIR
    if not stat.S_ISREG(mode) or any(_OPEN_FILES.fullmatch(name) for name in names):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, _SPECIAL_FILE, os.fspath(path))


def replace_file(staged: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """``os.replace`` that replaces regular files and links to them only; see `refuse_special`."""
    refuse_special(path)
    try:
        os.replace(staged, path)
    except OSError as error:
        raise _of_path(error, path) from error


def _of_path(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """The same error with the final path: the unfinished file means nothing to the user."""
    code = error.errno or 0
    return OSError(code, os.strerror(code), os.fspath(path))


def reserve_space(descriptor: int, num_bytes: int) -> None:
    """Gives an open file this size, and disk space for it where the system can."""
    if num_bytes > 0 and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, num_bytes)
    os.ftruncate(descriptor, num_bytes)


def write_at(descriptor: int, data: memoryview, offset: int) -> None:
    """Writes all of data at a byte offset of an open file."""
    while data.nbytes:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


class StagedFile:
    """An unfinished file, in the folder of its final path.

    A context manager: at the end of the block the file is published under its final name in one
    step; if the block raises, the file is removed.

    Parameters
    ----------
    path : path-like
        The final path. Its folder must exist.
    size : int, optional
        Bytes to reserve at once, so that a full disk is detected before the work.

    Attributes
    ----------
    path, staged_path : pathlib.Path
    fd : int
        Open for reading and writing until `seal`.

    Raises
    ------
    OSError
        With errno and path: no such folder, no permission, no space; or the path has a folder, a
        device or another special file.
    """

    _open = False

    def __init__(self, path: str | os.PathLike[str], size: int = 0) -> None:
        self.path = Path(path)
        self._process = os.getpid()
        refuse_special(self.path)
        name = f".{self.path.name}.{secrets.token_hex(6)}{_SUFFIX}"
        self.staged_path = self.path.with_name(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self.fd = os.open(self.staged_path, flags, 0o644)
            self._open = True
            reserve_space(self.fd, size)
        except BaseException as error:
            with suppress(OSError):  # where it could not be made, it is not there either
                self.discard()
            if isinstance(error, OSError):
                raise _of_path(error, self.path) from error
            raise

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Writes all of data at a byte offset."""
        try:
            write_at(self.fd, memoryview(data).cast("B"), offset)
        except OSError as error:
            raise _of_path(error, self.path) from error

    def seal(self) -> None:
        """Flushes the content to the disk and closes the descriptor; the name stays staged."""
        os.fsync(self.fd)
        os.close(self.fd)
        self._open = False

    def publish(self) -> None:
        """Renames the sealed file to its final name, replacing a file there; removed on failure."""
        try:
            replace_file(self.staged_path, self.path)
            sync_folder(self.path.parent)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Removes the unfinished file; harmless after `publish`."""
        if self._open:
            os.close(self.fd)
            self._open = False
        self.staged_path.unlink(missing_ok=True)

    def __del__(self) -> None:
        # Ctrl-C may come before anybody has the object; a forked child has no part in the file
        if self._open and self._process == os.getpid():
            with suppress(OSError):
                self.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Publishes the file, or removes it after an error."""
        try:
            if kind is None:
                self.seal()
                self.publish()
        finally:
            self.discard()


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replaces the content of a small file in one step."""
    with StagedFile(path) as staged:
        staged.write(data, 0)


def require_disk_space(folder: str | os.PathLike[str], num_bytes: int, needs: str) -> None:
    """Raises an error unless the disk of a folder has so much free space.

    Parameters
    ----------
    folder : path-like
    num_bytes : int
    needs : str
        Beginning of the message: what needs the space, such as "the build needs".

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise OSError(
            errno.ENOSPC,
            f"{needs} {num_bytes:,} bytes of disk space and {free:,} are free",
            os.fspath(folder),
        )


@contextmanager
def folder_lock(folder: Path, *, shared: bool = False, wait: bool = False) -> Iterator[None]:
    """Locks a folder against builds; the lock ends with the process at the latest.

    Parameters
    ----------
    folder : pathlib.Path
    shared : bool
        For writers of single files: several at the same time, but not during a build or a
        measurement.
    wait : bool
        Whether to wait for the lock instead.

    Raises
    ------
    BlockingIOError
        With the folder, if another process is building there, or has the lock that this one wants
        for itself.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                errno.EWOULDBLOCK,
                "another build, conversion or measurement (graphzero tune) uses this folder: wait "
                "until it ends. If ranks build it together, import torch before under torchrun, or "
                "call init_process_group: then one of them builds, and the others wait",
                os.fspath(folder),
            ) from None
        yield
    finally:
        os.close(descriptor)
