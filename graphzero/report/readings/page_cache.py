"""How much of files is in the page cache, and which parts of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphzero import _core
from graphzero.report.readings.reasons import Reasons, note
from graphzero.report.recording import FileReading
from graphzero.store.residency import residency

__all__ = ["CachedFiles"]

_LIES = "the kernel tells only owners and writers of a file which pages are in memory"


@dataclass
class _Open:
    """A file that is kept mapped; no page of it is touched."""

    mapping: _core.Mapping
    identity: tuple[int, int]
    most: int | None = None


class CachedFiles:
    """Files whose pages in the page cache are counted, again and again.

    They are kept open. A file that was replaced meanwhile is opened anew; one that was deleted is
    left out, with the reason.

    Parameters
    ----------
    paths : iterable of str or os.PathLike
    unknown : dict of str to str, optional
        Gets the reason, as "page_cache PATH", for each file of which nothing is known.
    """

    def __init__(
        self, paths: Iterable[str | os.PathLike[str]] = (), unknown: Reasons | None = None
    ) -> None:
        self._files: dict[str, _Open | None] = {}
        self._unknown = unknown
        self.add(paths)

    def add(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Counts pages of these files as well, from the next reading on."""
        for path in paths:
            self._files.setdefault(os.path.realpath(path), None)

    @property
    def paths(self) -> tuple[str, ...]:
        """All files that were added, as real paths."""
        return tuple(self._files)

    def read(self) -> dict[str, int]:
        """Bytes in the page cache, by path; without the files of which this is unknown.

        For each GiB that is in memory the kernel takes up to twenty milliseconds, and far less
        where it keeps pages in large blocks, as it does for files that are read in sequence.
        """
        found = {path: self._look(path, file, 1)[0] for path, file in self._present()}
        return {path: count for path, count in found.items() if count is not None}

    def read_parts(self, parts: int) -> tuple[FileReading, ...]:
        """Every file that exists, with the share of each of its parts that is in the page cache.

        Parameters
        ----------
        parts : int
            See `graphzero.store.residency.residency`.
        """
        found = []
        for path, file in self._present():
            count, shares = self._look(path, file, parts)
            found.append(FileReading(path, file.mapping.size, count, shares, file.most))
        return tuple(found)

    def close(self) -> None:
        """Closes all files."""
        for path in self._files:
            self._drop(path)

    def __enter__(self) -> CachedFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look(
        self, path: str, file: _Open, parts: int
    ) -> tuple[int | None, tuple[float, ...] | None]:
        """Bytes of a file in the page cache, and the share of each part."""
        try:
            found = residency(file.mapping, parts)
        except OSError as error:
            self._note(path, f"the kernel does not tell: {error.strerror}")
            return None, None
        if found is None:
            self._note(path, _LIES)
            return None, None
        count, shares = found
        file.most = max(count, file.most or 0)
        return count, tuple(shares.tolist())

    def _present(self) -> Iterator[tuple[str, _Open]]:
        for path in tuple(self._files):
            file = self._opened(path)
            if file is not None:
                yield path, file

    def _opened(self, path: str) -> _Open | None:
        """The file that stands at a path now."""
        try:
            info = os.stat(path)
            known = self._files[path]
            identity = (info.st_dev, info.st_ino)
            # a file that has grown or shrunk is mapped anew, too
            if known and known.identity == identity and known.mapping.size == info.st_size:
                return known
            self._drop(path)
            file = self._files[path] = _Open(_core.Mapping(path), identity)
        except FileNotFoundError:
            self._drop(path)
            self._note(path, "the file was deleted")
            return None
        except OSError as error:
            self._drop(path)
            self._note(path, f"the file cannot be opened: {error.strerror}")
            return None
        return file

    def _drop(self, path: str) -> None:
        file = self._files[path]
        self._files[path] = None
        if file is not None:
            file.mapping.close()

    def _note(self, path: str, reason: str) -> None:
        note(self._unknown, f"page_cache {path}", reason)
