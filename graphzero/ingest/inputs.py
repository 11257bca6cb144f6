"""The files that a build reads: they must be the same from its beginning to its end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["InputFiles"]

_State = tuple[int, int, int, int]


def _paths(value: Any) -> Iterator[str]:
    """Everything in an argument that may be the path of a file."""
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _paths(one)
    elif isinstance(value, list | tuple):
        for one in value[:_MOST_PARTS]:
            if isinstance(one, str | os.PathLike):
                yield from _paths(one)


_MOST_PARTS = 100_000  # a list that is longer is one of values


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
        Arguments: paths, or dictionaries and lists with them; others are ignored.
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
