"""Mapped files: their base class, views of them, and what of them is in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from mmap import PAGESIZE
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.store.format import DTYPES, Dtype, Section
from graphzero.units import by_either_name

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST_ADVISED_BYTES = 2 << 20  # a longer MADV_WILLNEED is cut silently at the device's limit
_LEAST_GAP = 16  # pages between two ranges that are read; each costs two calls
_LOOKED_UP = 1 << 20  # pages in one refresh (4 GiB); of a longer prefix, the next ones in turn

PageMap = npt.NDArray[np.uint8]
Identity: TypeAlias = tuple[object, ...]  # two are compared, and not looked into
_Path = str | os.PathLike[str]
_Opened = _core.Mapping


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
    """A file that is mapped and never loaded; pickled by its path, and by where it is open now.

    Attributes
    ----------
    identity : tuple
        Fingerprint of the file's content: counts and checksums from its header.
    mapping : _core.Mapping
        For its size and what is resident of it.
    path : str
        Absolute path of the file.

    Raises
    ------
    FormatError
        If the file is not of the expected format.
    OSError
        If it cannot be opened.
    """

    identity: Identity
    _sections: Mapping[str, Section] = MappingProxyType({})  # of a .npy file

    def __init__(
        self, path: _Path | _Opened | None = None, *, filename: _Path | None = None
    ) -> None:
        file = by_either_name("path", path, filename)
        self.mapping = file if isinstance(file, _Opened) else _core.Mapping(file)
        self.path: str = self.mapping.path
        try:
            self._read_header()
        except BaseException:
            self.mapping.close()
            raise

    def _read_header(self) -> None:
        """Checks the header and finds the sections."""
        raise NotImplementedError

    def _take_header(self, header: Mapping[str, Any]) -> None:
        """Takes the sections and the fingerprint of a file from its header."""
        self._sections = {
            name: Section(name, dtype, byte, count, length, crc)
            for name, dtype, byte, count, length, crc in header["sections"]
        }
        checksums = tuple(section.crc for section in self._sections.values())
        self.identity = (header["num_nodes"], header["width"], checksums)

    def _view(self, name: str) -> Any:
        """A section of the file as a read-only array, None where there is none."""
        section = self._sections.get(name)
        if section is None:
            return None
        dtype = DTYPES[section.dtype]
        return section_view(self.mapping, dtype, section.offset, (section.count,))

    @property
    def stored_order(self) -> tuple[int, int, int] | None:
        """Fingerprint of the order of nodes in the file; None for the user's order."""
        rank = self._sections.get("node_rank")
        return None if rank is None else (rank.dtype, rank.count, rank.crc)

    def close(self) -> None:
        """Unmaps the file; the object cannot be used afterwards.

        Raises
        ------
        BufferError
            While arrays over the file exist.
        """
        self.mapping.close()

    def __reduce__(self) -> tuple[object, ...]:
        return reopen, (type(self), self.path, self.identity, self.mapping.held_at)


def reopen(
    open_file: Callable[[_Path | _Opened], MappedFile],
    path: str,
    expected: Identity,
    held_at: str | None = None,
) -> MappedFile:
    """Opens the file that was pickled, also if another one has replaced it meanwhile.

    So workers that are spawned later have the files of the process that spawns them.

    Raises
    ------
    FormatError
        If it was replaced, and the process that has pickled it does not have it open any more.
    """
    for place in (held_at, None):
        with suppress(FormatError, OSError):
            file = open_file(_core.Mapping(path, place))
            if file.identity == expected:
                return file
            file.close()
    open_file(path).close()  # whose error says what is wrong
    raise FormatError(
        f"{path} was replaced by another file while it was in use: open the dataset again"
    )


def section(name: str, doc: str) -> Any:
    """A property that is a view of a section: see `MappedFile._view`."""
    return property(lambda file: file._view(name), doc=doc)


def section_view(
    mapping: _core.Mapping, dtype: Dtype, offset: int, shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """A read-only array over part of a mapped file; it keeps the mapping alive."""
    # np.ndarray(buffer=...) would keep the mapping, but not its count of views
    view = np.frombuffer(memoryview(mapping), dtype, math.prod(shape), offset)
    return view.reshape(shape)


def mincore_is_honest(path: str) -> bool:
    """Whether mincore is reliable: the kernel tells only owners and writers of a file the truth."""
    try:
        return os.stat(path).st_uid == os.geteuid() or os.access(path, os.W_OK)
    except OSError:
        return False


def resident_bytes(mapping: _core.Mapping) -> int | None:
    """Bytes of a mapped file in the page cache, read by any process.

    Returns
    -------
    int or None
        None where this is unknown: to processes that neither own the file nor may write to it,
        the kernel reports every page as resident.
    """
    whole = residency(mapping, 1)
    return None if whole is None else whole[0]


def residency(mapping: _core.Mapping, parts: int) -> tuple[int, npt.NDArray[np.float64]] | None:
    """How much of a mapped file, and of each part of it, is in the page cache.

    Parameters
    ----------
    mapping : Mapping
    parts : int
        Number of parts, whose sizes differ by one page at most; a file of fewer pages has a part
        for each page.

    Returns
    -------
    int
        Bytes of the whole file.
    (at most parts,) float64
        Share of the pages of each part.

    None instead of both where this is unknown, as of `resident_bytes`.
    """
    if not mincore_is_honest(mapping.path):
        return None
    num_pages = -(-mapping.size // PAGESIZE)
    parts = min(parts, num_pages)
    if parts == 0:
        return 0, np.zeros(0)
    sizes = num_pages // parts + (np.arange(parts) < num_pages % parts)
    cached = mapping.residency(parts)
    return min(int(cached.sum()) * PAGESIZE, mapping.size), cached / sizes


class ResidentPrefix:
    """The beginning of a range of a mapped file that one iteration wants in memory.

    Nothing is locked: the pages stay in the page cache, and where memory is short the kernel takes
    them back instead of killing a process. `page_map` tells which ones are there.

    Parameters
    ----------
    mapping : _core.Mapping
    origin : int
        Byte of the file where the range begins.
    left_out : int
        First bytes of the range that nobody reads: the prefix begins after them.

    Attributes
    ----------
    num_bytes : int
        Size that the prefix is to have.
    unknown : str or None
        Why the system does not tell which pages are in memory; None if it does.
    resident_bytes : int
        Bytes of the pages that were in memory when `page_map` was last called.
    """

    def __init__(self, mapping: _core.Mapping, origin: int, left_out: int = 0) -> None:
        self.num_bytes = 0
        self.unknown: str | None = None
        self._mapping = mapping
        self._begin = origin + left_out
        self._first_page = origin // PAGESIZE
        self._left_out = self._begin // PAGESIZE - self._first_page  # pages
        self._trust_mincore = mincore_is_honest(mapping.path)
        self._map: PageMap = np.empty(0, np.uint8)
        self.resident_bytes = 0
        self._next_look = 0

    def page_map(self) -> PageMap:
        """Which pages of the prefix are in memory now, from the one on that holds byte `origin`.

        Returns
        -------
        (num_pages,) uint8
            1 for a page that is in memory, else 0, as for those before the prefix. It does not
            change any more.
        """
        count = self._pages(self.num_bytes)
        pages = np.zeros(count, np.uint8)
        begin = min(self._left_out, count)
        if count - begin > _LOOKED_UP:
            before = self._map[:count]
            pages[: len(before)] = before
            begin = self._next_look if begin <= self._next_look < count else begin
        end = min(begin + _LOOKED_UP, count)
        try:
            self._mapping.page_map(
                self._first_page + begin, end - begin, self._trust_mincore, pages[begin:end]
            )
        except OSError as error:
            # Rows that may not be in memory are read like all others.
            self.unknown = str(error)
            pages[begin:end] = 0
        self._next_look = end
        self._map = pages
        self.resident_bytes = int(np.count_nonzero(pages)) * PAGESIZE
        return pages

    @property
    def path(self) -> str:
        """Of the file."""
        return self._mapping.path

    @property
    def parts(self) -> tuple[ResidentPrefix, ...]:
        """The prefixes of which it consists: itself."""
        return (self,)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the prefix that are in memory now."""
        self.page_map()
        return min(self.num_bytes, self.resident_bytes)

    @property
    def lost_bytes(self) -> int:
        """Bytes of the prefix that are not in memory now."""
        return self.num_bytes - self.kept_bytes

    def resize(self, num_bytes: int) -> None:
        """Sets the size, and gives pages beyond it back to the system."""
        before, self.num_bytes = self.num_bytes, num_bytes
        self.release(num_bytes, before)

    def release(self, first_byte: int, end_byte: int) -> None:
        """Gives pages of the range back to the system, which are no part of the prefix."""
        first, end = self._pages(first_byte), self._pages(end_byte)
        if end > first:
            begin = (self._first_page + first) * PAGESIZE
            length = min((end - first) * PAGESIZE, self._mapping.size - begin)
            self._mapping.advise("release", begin, length)

    def missing_runs(self, window: int) -> Iterator[list[list[int]]]:
        """Ranges [begin, end) of bytes of the file that are to be in memory and are not, ascending.

        Parameters
        ----------
        window : int
            Bytes. The ranges within so many come together; few pages that are in memory do not
            divide one.
        """
        is_missing = self.page_map() == 0
        is_missing[: self._left_out] = False
        begins = np.arange(0, len(is_missing), window // PAGESIZE)
        for first in begins[np.logical_or.reduceat(is_missing, begins)].tolist():
            within = is_missing[first : first + window // PAGESIZE]
            edges = np.flatnonzero(np.diff(within, prepend=False, append=False))
            gaps = edges[1:-1].reshape(-1, 2)
            gaps = gaps[gaps[:, 1] - gaps[:, 0] > _LEAST_GAP]
            pages = np.concatenate([edges[:1], gaps.ravel(), edges[-1:]]).reshape(-1, 2)
            pages += self._first_page + first
            yield np.minimum(pages * PAGESIZE, self._mapping.size).tolist()

    def reaches(self, begin: int) -> bool:
        """Whether byte `begin` of the file belongs to the prefix."""
        return begin < self._begin + self.num_bytes

    def load(self, runs: Sequence[Sequence[int]]) -> None:
        """Reads ranges of bytes of the file into the page cache; all are requested first.

        Raises
        ------
        OSError
            If they cannot be read.
        """
        for begin, end in runs:
            request_range(self._mapping, begin, end)
        for begin, end in runs:
            self._mapping.advise("populate", begin, end - begin)

    def _pages(self, num_bytes: int) -> int:
        if num_bytes == 0:
            return self._left_out
        return -(-(self._begin + num_bytes) // PAGESIZE) - self._first_page


def request_range(mapping: _core.Mapping, begin: int, end: int) -> None:
    """Asks the kernel to read bytes [begin, end) of a file, and returns at once."""
    for at in range(begin, end, _MOST_ADVISED_BYTES):
        mapping.advise("willneed", at, min(_MOST_ADVISED_BYTES, end - at))


class PrefixGroup:
    """Resident prefixes that share one size, in proportion to the sizes of their files.

    Attributes
    ----------
    parts : tuple of ResidentPrefix
    num_bytes : int
        Size that all prefixes are to have together.
    """

    def __init__(self, prefixes: Sequence[ResidentPrefix], sizes: Sequence[int]) -> None:
        self.parts = tuple(prefixes)
        self._sizes = tuple(sizes)
        self._total = sum(sizes)
        self.num_bytes = 0

    def resize(self, num_bytes: int) -> None:
        """Sets the size, and divides it."""
        self.num_bytes = num_bytes
        for prefix, size in zip(self.parts, self._sizes, strict=True):
            prefix.resize(self._share(num_bytes, size))

    def release_beyond(self, num_bytes: int) -> None:
        """Gives pages beyond so many bytes back to the system, whoever has read them."""
        for prefix, size in zip(self.parts, self._sizes, strict=True):
            prefix.release(self._share(num_bytes, size), size)

    def _share(self, num_bytes: int, size: int) -> int:
        """Bytes of a file of some size."""
        share = size if num_bytes >= self._total else num_bytes * size // self._total
        # a part of a page is no use, but at the end of a file
        return share if share == size else share // PAGESIZE * PAGESIZE

    @property
    def resident_bytes(self) -> int:
        """Bytes of the prefixes that were in memory when their pages were last looked up."""
        return sum(prefix.resident_bytes for prefix in self.parts)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the prefixes that are in memory now."""
        return sum(prefix.kept_bytes for prefix in self.parts)

    @property
    def lost_bytes(self) -> int:
        """Bytes of the prefixes that are not in memory now."""
        return sum(prefix.lost_bytes for prefix in self.parts)

    @property
    def unknown(self) -> str | None:
        """Why the system does not tell which pages of a prefix are in memory; None if it does."""
        return next((prefix.unknown for prefix in self.parts if prefix.unknown), None)
