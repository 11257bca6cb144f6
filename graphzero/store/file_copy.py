"""One file of a dataset while it is copied into a folder that others may write to.

A part has a staged name of its own, made of what the file will be, and a journal beside it that
says which blocks are there. Links are not followed, neither is written into a file with another
name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from graphzero.errors import FormatError
from graphzero.store.atomic import require_disk_space, reserve_space, write_at
from graphzero.store.format import PAGE_BYTES, Header, corrupt_sections, decode_header
from graphzero.store.manifest import FileEntry
from graphzero.store.remote_files import Start

BLOCK_BYTES = 8 << 20
_PART = ".part.gz-staged"


class NotPlainError(OSError):
    """A link, or another special file, where a copy has a file."""


@contextmanager
def _plain_file(path: Path, flags: int) -> Iterator[int]:
    """The descriptor of a regular file that has no other name; whoever wrote into the folder."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise NotPlainError(
            errno.ELOOP, "is a link, and a copy has files: remove it, and fetch again", str(path)
        ) from None
    try:
        facts = os.fstat(descriptor)
        is_shared = flags & os.O_RDWR and facts.st_nlink > 1
        if not stat.S_ISREG(facts.st_mode) or is_shared:
            raise NotPlainError(
                errno.EEXIST,
                "is no regular file, or has another name as well: remove it, and fetch again",
                str(path),
            )
        yield descriptor
    finally:
        os.close(descriptor)


def read_plain(path: Path, count: int | None = None) -> tuple[bytes, int]:
    """The first bytes of a file of the copy, all by default, and its size."""
    with _plain_file(path, os.O_RDONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, size if count is None else count, 0), size


def _write_plain(path: Path, offset: int, data: bytes) -> None:
    """Writes all of data at an offset of a file of the copy."""
    with _plain_file(path, os.O_RDWR) as descriptor:
        write_at(descriptor, memoryview(data), offset)


def _create_plain(path: Path, num_bytes: int) -> None:
    """Makes a file of the copy, with disk space for its bytes, in place of an earlier one."""
    path.unlink(missing_ok=True)
    with _plain_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as descriptor:
        reserve_space(descriptor, num_bytes)


@dataclass
class FileCopy:
    """A file that is fetched.

    Attributes
    ----------
    entry : FileEntry
    source : str
        Its name on the store.
    url : str
    page, header : bytes, Header
        The first page, as the store has it.
    path : pathlib.Path
        Where the copy is.
    done : bytearray
        Of each block, whether it is there.
    is_new : bool
        Whether anything of it has been fetched, now or earlier.
    is_allocated : bool
        Whether the disk space is reserved.
    """

    entry: FileEntry
    source: str
    url: str
    page: bytes
    header: Header
    path: Path
    done: bytearray = field(default_factory=bytearray)
    is_new: bool = True
    is_allocated: bool = True

    @classmethod
    def begin(cls, entry: FileEntry, source: str, start: Start, folder: Path, url: str) -> FileCopy:
        """What of a file is in the folder already, by the first page that the store has.

        Raises
        ------
        FormatError
            If the file on the store is damaged, or not the one that the manifest describes.
        """
        try:
            kind = "graph" if entry.name.endswith(".gl") else "features"
            header = decode_header(start.page, start.file_bytes, kind)
        except FormatError as error:
            raise FormatError(f"{url} {error}: publish the dataset again") from None
        entry.require_described(start.page, url)
        digest = hashlib.sha256(entry.name.encode() + start.page).hexdigest()[:24]
        copy = cls(entry, source, url, start.page, header, folder / f".{digest}{_PART}")
        for path in (folder / entry.name, folder / entry.staged):
            with suppress(FileNotFoundError):
                if read_plain(path, PAGE_BYTES) == (start.page, header.file_bytes):
                    copy.path, copy.is_new = path, path.name == entry.staged
                    copy.done = bytearray(b"\1" * copy.num_blocks)
                    return copy
        with suppress(FileNotFoundError):
            if read_plain(copy.path, 0)[1] == header.file_bytes:
                copy.done = bytearray(read_plain(copy.journal, copy.num_blocks + 1)[0])
        if len(copy.done) != copy.num_blocks:
            # before blocks are counted: a header may claim any size
            require_disk_space(folder, header.file_bytes, f"the copy of {url} needs")
            copy.done = bytearray(copy.num_blocks)
            copy.is_allocated = False
        return copy

    @property
    def num_blocks(self) -> int:
        """Blocks of the file, there or not."""
        return -(-self.header.file_bytes // BLOCK_BYTES)

    @property
    def is_part(self) -> bool:
        """Whether the copy has a name of its own until it is whole."""
        return self.path.name.endswith(_PART)

    @property
    def journal(self) -> Path:
        """The file that says which blocks of a part are there."""
        return self.path.with_name(self.path.name.removesuffix(_PART) + ".blocks.gz-staged")

    @property
    def missing_bytes(self) -> int:
        """Bytes of the blocks that are missing."""
        return sum(end - begin for begin, end in self.ranges())

    def ranges(self) -> Iterator[tuple[int, int]]:
        """First byte and end of the blocks that are missing."""
        for block, is_there in enumerate(self.done):
            if not is_there:
                begin = block * BLOCK_BYTES
                yield begin, min(begin + BLOCK_BYTES, self.header.file_bytes)

    def allocate(self) -> None:
        """Reserves the disk space of what is fetched; needed before anything is written."""
        self.is_new = True
        if self.is_allocated:
            return
        _create_plain(self.path, self.header.file_bytes)
        _create_plain(self.journal, 0)
        self._write_journal()
        self.is_allocated = True

    def write(self, begin: int, data: bytes) -> None:
        """Writes a block, then notes that it is there."""
        _write_plain(self.path, begin, data)
        block = begin // BLOCK_BYTES
        if self.is_part:
            _write_plain(self.journal, block, b"\1")
        self.done[block] = 1

    def write_whole(self, pieces: Iterator[bytes]) -> None:
        """Writes a file from its beginning, then notes that it is there.

        Raises
        ------
        EOFError
            If it has fewer bytes than its header says, or more.
        """
        end = 0
        for piece in pieces:
            if end + len(piece) > self.header.file_bytes:
                raise EOFError(f"more than the {self.header.file_bytes:,} bytes of the header came")
            _write_plain(self.path, end, piece)
            end += len(piece)
        if end != self.header.file_bytes:
            raise EOFError(f"{end:,} bytes came of {self.header.file_bytes:,}")
        self.done[:] = b"\1" * len(self.done)
        self._write_journal()

    def _write_journal(self) -> None:
        if self.is_part:
            _write_plain(self.journal, 0, bytes(self.done))

    def check(self) -> str | None:
        """Marks what does not have its checksums as missing, and names the first such part."""
        damaged = [(s.offset, s.length, s.name) for s in corrupt_sections(self.path, self.header)]
        if read_plain(self.path, PAGE_BYTES)[0] != self.page:
            damaged.insert(0, (0, PAGE_BYTES, "header"))
        for offset, length, _ in damaged:
            blocks = slice(offset // BLOCK_BYTES, -(-(offset + length) // BLOCK_BYTES))
            self.done[blocks] = bytes(len(self.done[blocks]))
        if not damaged:
            return None
        self._write_journal()
        return f"{self.url}: '{damaged[0][2]}'"

    def stage(self) -> None:
        """Flushes what was fetched to the disk, under the name that the manifest has for it."""
        if not self.is_new:
            return
        with _plain_file(self.path, os.O_RDONLY) as descriptor:
            os.fsync(descriptor)
        if self.is_part:
            os.replace(self.path, self.path.with_name(self.entry.staged))
