"""`MappedFile`: base class of `Graph` and `FeatureStore`, which are mapped files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from graphzero import _core
from graphzero.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ClosedAtExit", "MappedFile"]


class ClosedAtExit:
    """A context manager that closes itself."""

    def close(self) -> None:
        """Unmaps the files."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except BufferError:
            # The traceback of the first error may hold arrays; report that error, not this one.
            if kind is None:
                raise


class MappedFile(ClosedAtExit):
    """A file that is mapped and never loaded; pickled by its path.

    Raises
    ------
    FormatError
        If the file is not of the expected format.
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
        """Checks the header and finds the sections."""
        raise NotImplementedError

    @property
    def identity(self) -> tuple[Any, ...]:
        """Fingerprint of the file's content: counts and checksums from its header."""
        raise NotImplementedError

    @property
    def mapping(self) -> _core.Mapping:
        """The mapped file, for its size and what is resident of it."""
        return self._mapping

    @property
    def path(self) -> str:
        """Absolute path of the file."""
        return self._mapping.path

    def advise(self, advice: str) -> None:
        """``madvise`` for the whole file: "normal", "random" or "sequential"."""
        self._mapping.advise(advice)

    def close(self) -> None:
        """Unmaps the file; the object cannot be used afterwards.

        Raises
        ------
        BufferError
            While arrays over the file exist.
        """
        self._mapping.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.path, self.identity)


def _reopen(kind: type[MappedFile], path: str, expected: tuple[Any, ...]) -> MappedFile:
    """Opens the file that was pickled; raises an error if another file has replaced it."""
    opened = kind(path)
    if opened.identity != expected:
        opened.close()
        raise FormatError(
            f"{path} was replaced by another file while it was in use: open the dataset again"
        )
    return opened
