"""Small files by which the processes of a user tell each other what they do.

Each process holds a lock on its files. The lock ends with the process, however it dies, and a file
without its lock is void: whoever reads it removes it. A folder or file of somebody else, or a link,
is not touched: anybody may put one where all users keep temporary files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["ProcessFile", "living_files", "process_folder", "start_ticks"]

_numbers = itertools.count()
_TRIES = 3
_START_TICKS = 19  # in /proc/PID/stat, counted from behind the name, which may have blanks


def process_folder(kind: str, user: int | None = None) -> Path:
    """Where the files of a kind are, of all processes of this user or another."""
    return Path(tempfile.gettempdir()) / f"graphzero-{kind}-{os.getuid() if user is None else user}"


class ProcessFile:
    """A file of this process, which it holds a lock on until `remove`.

    Parameters
    ----------
    kind : str
        What kind of file: it names the folder.
    content : bytes
        What it has at first.

    Attributes
    ----------
    path : Path

    Raises
    ------
    OSError
        If the file cannot be made.
    """

    def __init__(self, kind: str, content: bytes) -> None:
        self._process = os.getpid()
        self.path, self._file = _publish(process_folder(kind), content)

    def fileno(self) -> int:
        """Its descriptor; the lock ends when this or any other one of the file is closed."""
        number: int = self._file.fileno()
        return number

    def replace(self, content: bytes) -> None:
        """Replaces the content; a reader that comes in between finds less."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.fileno(), 0)
            os.pwrite(self.fileno(), content, 0)

    def remove(self) -> None:
        """Removes it; in a forked child, which has no right to it, closes the descriptor only."""
        if self._process == os.getpid():
            with contextlib.suppress(OSError):
                self.path.unlink()
                self.path.parent.rmdir()  # if no other process has a file of this kind
        self._file.close()


def _publish(folder: Path, content: bytes) -> tuple[Path, Any]:
    failure = OSError(f"no file in {folder} could be locked")
    for _ in range(_TRIES):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if not _is_folder_of(folder, None):
                reason = "it is a link, or belongs to another user: remove it"
                raise PermissionError(errno.EPERM, reason, os.fspath(folder))
            path = folder / f"{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"
            file = open(path, "x+b", buffering=0)  # noqa: SIM115 - `remove` closes it
        except OSError as error:  # perhaps another process has just removed the empty folder
            failure = error
            continue
        try:
            # Not flock, whose locks forked children share: this one ends with the process.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():  # else a reader took it for that of a dead process
                if os.pwrite(file.fileno(), content, 0) == len(content):
                    return path, file
                failure = OSError(f"no space is left for {path}")
                path.unlink()
        except OSError as error:
            failure = error
        file.close()
    raise failure


def living_files(kind: str, pid: int | None = None, user: int | None = None) -> Iterator[Any]:
    """The open files of other processes that live; removes those of dead ones.

    Those of this process are left out: closing any descriptor of them would end its lock.

    Parameters
    ----------
    kind : str
    pid : int, optional
        Those of one process only.
    user : int, optional
        Whose processes. Default: this user's.
    """
    own = f"{os.getpid()}-"
    prefix = "" if pid is None else f"{pid}-"
    folder = process_folder(kind, user)
    try:
        paths = list(folder.iterdir()) if _is_folder_of(folder, user) else []
    except OSError:
        return
    for path in paths:
        if path.name.startswith(prefix) and not path.name.startswith(own):
            with contextlib.suppress(OSError), _opened(path) as file:
                if _is_locked(file):
                    yield file
                else:
                    path.unlink()


def _is_folder_of(folder: Path, user: int | None) -> bool:
    """Whether it is a folder, no link to one, and the user's: nobody else can write there."""
    info = folder.lstat()
    return stat.S_ISDIR(info.st_mode) and info.st_uid == (os.geteuid() if user is None else user)


def _opened(path: Path) -> Any:
    """A regular file, no link: opening a device may have effects."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "no regular file", os.fspath(path))
    number = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(number, "r+b", buffering=0)


def _is_locked(file: Any) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def start_ticks(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None where the system does not say.

    With its id it names the process for ever.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(stat.rpartition(b")")[2].split()[_START_TICKS])
