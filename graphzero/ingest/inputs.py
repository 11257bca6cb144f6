"""The files that a build reads: they must be the same from its beginning to its end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from graphzero.ingest.source import Source
from graphzero.ingest.sources.array_opening import is_array_file
from graphzero.ingest.sources.files import files_of
from graphzero.ingest.sources.members import split_member
from graphzero.ingest.sources.sparse_matrix import is_scipy

__all__ = ["InputFiles"]

_State = tuple[int, int, int, int]


_MOST_PARTS = 100_000  # a list that is longer is one of values


def _paths(value: Any) -> Iterator[str]:
    """Everything in an argument that may be the path of a file."""
    if isinstance(value, Source):
        for one in (value.value, value.weight, value.timestamp):
            yield from _paths(one)
    elif isinstance(value, str | os.PathLike):
        yield from _files(value)
    elif isinstance(value, Mapping) and not is_scipy(value):
        for one in value.values():
            yield from _paths(one)
    elif isinstance(value, list | tuple):
        for one in value[:_MOST_PARTS]:
            if isinstance(one, str | os.PathLike | Source):
                yield from _paths(one)


def _files(path: str | os.PathLike[str]) -> Iterator[str]:
    """The files of a folder or a pattern, the file of an array in it, or the path itself."""
    if is_array_file(path):
        yield os.fspath(split_member(path)[0])
        return
    try:
        parts = files_of(path)
    except (OSError, ValueError):  # which is said when it is opened
        return
    yield from (os.fspath(part.path) for part in parts)


def _state(path: str) -> _State | None:
    """What changes with the content of a regular file; None for anything else."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class InputFiles:
    """The state of the files that arguments of a build name, when they were opened.

    Parameters
    ----------
    *values
        Arguments: paths, sources, or dictionaries and lists with them; others are ignored.
    """

    def __init__(self, *values: Any) -> None:
        states = {path: _state(path) for value in values for path in _paths(value)}
        self._states = {path: state for path, state in states.items() if state is not None}

    def require_unchanged(self) -> None:
        """Raises an error if a file has other content than at first, or is shorter.

        A file that is gone was read from its beginning to its end all the same: an open file keeps
        its content.

        Raises
        ------
        ValueError
            Naming the file.
        """
        for path, before in self._states.items():
            now = _state(path)
            if now is not None and now != before:
                raise ValueError(
                    f"{path} has changed while the build read it: build again when it is complete"
                )
