"""`MappedFile`: what a graph and its rows have in common, being mapped files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from graphzero import _core
from graphzero.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ClosedAtExit", "MappedFile"]


class ClosedAtExit:
    """What a ``with`` block closes."""

    def close(self) -> None:
        """Unmaps what is open."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except BufferError:
            # The traceback of what went wrong may hold arrays, and says more than they do.
            if kind is None:
                raise


class MappedFile(ClosedAtExit):
    """A file that is mapped and never loaded; pickled by its path.

    Raises
    ------
    FormatError
        If the file is not what it must be.
    OSError
        If it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._mapping = _core.Mapping(path)
        try:
            self._read_header()
        except BaseException:
            self._mapping.close()
            raise

    def _read_header(self) -> None:
        """Checks the mapped file, and finds what is where."""
        raise NotImplementedError

    @property
    def identity(self) -> tuple[Any, ...]:
        """Fingerprint of the file's content: counts and checksums from its header."""
        raise NotImplementedError

    @property
    def path(self) -> str:
        """Absolute path of the file."""
        return self._mapping.path

    def advise(self, advice: str) -> None:
        """``madvise`` for the whole file: "normal", "random" or "sequential"."""
        self._mapping.advise(advice)

    def close(self) -> None:
        """Unmaps the file, which cannot be used here afterwards.

        Raises
        ------
        BufferError
            While arrays over the file exist.
        """
        self._mapping.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.path, self.identity)


def _reopen(kind: type[MappedFile], path: str, expected: tuple[Any, ...]) -> MappedFile:
    """The file that was pickled; one that has replaced it is refused."""
    opened = kind(path)
    if opened.identity != expected:
        opened.close()
        raise FormatError(
            f"{path} was replaced by another file while it was in use: open the dataset again"
        )
    return opened
