"""Files that a command writes after long work: checked before it begins, replaced in one step."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from graphzero.errors import FormatError
from graphzero.store.atomic import StagedFile, refuse_special
from graphzero.store.manifest import MANIFEST_NAME, read_manifest


@dataclass(frozen=True)
class Output:
    """A file that is to be written.

    Attributes
    ----------
    option : str
        The option that names it, as its user writes it: for messages.
    path : str or path-like
    """

    option: str
    path: str | os.PathLike[str]

    @property
    def target(self) -> Path:
        """The file itself, where `path` is a symbolic link."""
        return Path(os.path.realpath(self.path))


def check_outputs(outputs: Sequence[Output], inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Checks that files can be written, and leaves nothing behind.

    An unfinished file is made in each folder and removed again, all of them at the same time, so
    that whatever would refuse the real ones is found now: permissions, a file system that is
    read-only or has no room for another file.

    Parameters
    ----------
    outputs : sequence of Output
    inputs : iterable of path-like
        Files that must not be replaced, because the work reads them.

    Raises
    ------
    OSError
        With errno and path: the folder does not exist or may not be written to, the path is a
        directory, a device or another special file, or there is no space.
    ValueError
        If two outputs are the same file, or one is among the inputs.
    """
    taken = {Path(os.path.realpath(used)): f"{os.fspath(used)}, which is read" for used in inputs}
    with ExitStack() as stack:
        for output in outputs:
            if output.target in taken:
                raise ValueError(
                    f"{output.option} would replace {taken[output.target]}: choose another path"
                )
            taken[output.target] = f"{os.fspath(output.path)}, which is {output.option} as well"
            try:
                refuse_special(output.path)
                if output.target.exists() and not os.access(output.target, os.W_OK):
                    raise PermissionError(errno.EACCES, "the file exists and is read-only")
                stack.callback(StagedFile(output.target).discard)
            except OSError as error:
                reason = f"{output.option} cannot be written: {error.strerror}; choose another path"
                raise OSError(error.errno, reason, os.fspath(output.path)) from error


def files_of_dataset(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Opened files, and all other files of the datasets that they belong to.

    Parameters
    ----------
    paths : iterable of path-like
        As `Dataset.paths` lists them; they are part of the result.
    """
    files = {Path(path) for path in paths}
    for folder in {path.parent for path in files}:
        with suppress(OSError, FormatError):  # of files that do not belong to a dataset folder
            names = [entry.name for entry in read_manifest(folder).entries()]
            files.update(folder / name for name in (MANIFEST_NAME, *names))
    return sorted(files)


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to; it takes the place of an earlier one when the block ends without error.

    Where `path` is a symbolic link, the file that it points to is replaced.

    Raises
    ------
    OSError
        With errno and path.
    """
    refuse_special(path)
    try:
        with (
            StagedFile(os.path.realpath(path)) as staged,
            os.fdopen(os.dup(staged.fd), "w+b") as file,
        ):
            yield file
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error
        raise
