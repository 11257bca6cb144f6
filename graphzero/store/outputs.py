"""Files that a command writes after long work: checked before it begins, replaced in one step."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from graphzero.errors import FormatError
from graphzero.store.atomic import StagedFile, refuse_special
from graphzero.store.manifest import MANIFEST_NAME, read_manifest

_ELSEWHERE = "choose another path"


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
    read-only, too little space.

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
    for output in outputs:
        _check_kind(output)
    for i, output in enumerate(outputs):
        for other in outputs[:i]:
            if _is_same_file(output.path, other.path):
                raise ValueError(
                    f"{other.option} and {output.option} are the same file, "
                    f"{os.fspath(output.path)}: choose another path for one of them"
                )
    for used in inputs:
        for output in outputs:
            if _is_same_file(output.path, used):
                raise ValueError(
                    f"{output.option} would replace {os.fspath(used)}, which is read: {_ELSEWHERE}"
                )
    with ExitStack() as stack:
        for output in outputs:
            stack.callback(_try_to_write(output).discard)


def _refusal(code: int, output: Output, reason: str) -> OSError:
    return OSError(code, f"{output.option} cannot be written: {reason}", os.fspath(output.path))


def _check_kind(output: Output) -> None:
    """Refuses what is no regular file, and a folder that is not there."""
    try:
        refuse_special(output.path)
    except OSError as error:
        raise _refusal(error.errno or 0, output, error.strerror or "") from None
    folder = output.target.parent
    if not folder.exists():
        raise _refusal(
            errno.ENOENT,
            output,
            f"the folder {folder} does not exist; make it, or {_ELSEWHERE}",
        )
    if not folder.is_dir():
        raise _refusal(errno.ENOTDIR, output, f"{folder} is not a folder; {_ELSEWHERE}")
    if os.fspath(output.path).endswith(os.sep):
        raise _refusal(errno.EISDIR, output, "this is a folder; add the name of a file")
    if not output.target.exists():
        return
    if not os.access(output.target, os.W_OK):
        reason = f"the file exists and is read-only; allow writing to it, or {_ELSEWHERE}"
        raise _refusal(errno.EACCES, output, reason)


def _is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def _try_to_write(output: Output) -> StagedFile:
    try:
        return StagedFile(output.target)
    except OSError as error:
        code = error.errno or 0
        raise _refusal(code, output, f"{os.strerror(code)}; {_ELSEWHERE}") from error


@contextmanager
def writing(output: Output) -> Iterator[None]:
    """Errors of the block, which writes an output after the work, say which one and what to do.

    Raises
    ------
    OSError
        With errno and path, for every OSError of the block.
    """
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        reason = os.strerror(code) if code else str(error)
        advice = _ELSEWHERE
        if not output.target.parent.exists():
            reason, advice = "its folder is gone", f"keep the folder until the end, or {_ELSEWHERE}"
        elif code in (errno.ENOSPC, errno.EDQUOT):
            advice = f"free some, or {_ELSEWHERE}"
        message = f"{reason}: {output.option} was not written; {advice}"
        raise OSError(code, message, os.fspath(output.path)) from error


def files_of_dataset(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Opened files, and all other files of the datasets that they belong to.

    Parameters
    ----------
    paths : iterable of path-like
        As `Dataset.paths` lists them; they are part of the result.
    """
    opened = [Path(path) for path in paths]
    files = set(opened)
    for folder in {path.parent for path in opened}:
        try:
            manifest = read_manifest(folder)
        except (OSError, FormatError):  # files that do not belong to a dataset folder
            continue
        files.add(folder / MANIFEST_NAME)
        files.update(folder / entry.name for entry in manifest.entries())
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
    staged = StagedFile(os.path.realpath(path))
    try:
        with os.fdopen(os.dup(staged.fd), "w+b") as file:
            yield file
        staged.seal()
        staged.publish()
    except BaseException as error:
        staged.discard()
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error
        raise
