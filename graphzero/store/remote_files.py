"""Files of a folder on a remote store, or a path: read in bounded pieces, by threads, with tries.

fsspec opens the stores. Nothing that a store sends is trusted: no answer is read beyond what was
asked for, and one that stays away for too long is an error. All calls are made by threads that
nobody waits for at the end: the caller's thread can always be interrupted.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote

from graphzero.errors import FormatError
from graphzero.store.format import PAGE_BYTES
from graphzero.store.manifest import MANIFEST_NAME, Manifest, parse_manifest

THREADS = 8
TRIES = 6
FIRST_PAUSE = 0.25  # seconds before a read is tried again; then twice as long each time
STALL_SECONDS = 30  # without a byte, after which a read of an HTTP server is tried again
SILENCE_SECONDS = 300  # without a byte of any read, after which all are given up
_TICK = 0.2  # seconds between looks at whether anything came
_LAST_WAIT = 2  # seconds for threads to end, after an error
_PIECE_BYTES = 1 << 20
_MOST_MANIFEST_BYTES = 4 << 20
# What goes wrong with a copy, where a store is read and a copy is written at once.
_OF_THIS_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ELOOP, errno.EEXIST}

StorageOptions = Mapping[str, object] | None
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _Response(Protocol):
    """Of aiohttp: what a server says before the body."""

    status: int
    headers: Mapping[str, str]


class _Answer(Protocol):
    """Of fsspec: a file that is read from an HTTP server."""

    r: _Response

    def read(self, length: int) -> bytes: ...


@dataclass(frozen=True)
class Start:
    """The beginning of a file.

    Attributes
    ----------
    page : bytes
        At most the first `PAGE_BYTES`.
    file_bytes : int or None
        The size of the file; None where the store does not say it.
    """

    page: bytes
    file_bytes: int | None


@dataclass(frozen=True)
class PublishedManifest:
    """The manifest of a dataset on a store.

    Attributes
    ----------
    text : bytes
        Its content.
    manifest : Manifest
        What it says.
    """

    text: bytes
    manifest: Manifest


class RemoteFolder:
    """A folder on a store.

    Parameters
    ----------
    url : str
        Its address, or a path.
    storage_options : dict, optional
        Of fsspec's file system.

    Attributes
    ----------
    url : str
        Without the query.
    is_http : bool
    local : pathlib.Path or None
        The folder, where the address is that of a path.
    files : fsspec.AbstractFileSystem
    silence_seconds : float
        Without a byte, after which all reads are given up.
    sends_ranges : bool or None
        Whether parts of files can be read; None until `look_for_ranges`.

    Raises
    ------
    ValueError
        If the address has a query and is not that of an HTTP server, or fsspec does not know it.
    ImportError
        If fsspec needs a package for this store.
    OSError
        If the store cannot be reached.
    """

    def __init__(self, url: str | os.PathLike[str], storage_options: StorageOptions) -> None:
        import fsspec  # which torch brings along

        self.url, mark, query = os.fspath(url).partition("?")
        self.url = self.url.rstrip("/")
        self.is_http = self.url.startswith(("http://", "https://"))
        if mark and not self.is_http:
            raise ValueError(f"{url!r} has a '?': give what it says as storage_options")
        self._query = mark + query
        try:
            self.files, self._root = fsspec.core.url_to_fs(self.url, **(storage_options or {}))
        except (ValueError, TypeError, ImportError, OSError):
            raise
        except Exception as error:  # each library of a store has its own
            raise OSError(errno.EIO, f"cannot be reached ({error!r})", self.url) from error
        protocols = self.files.protocol
        is_local = "file" in ([protocols] if isinstance(protocols, str) else protocols)
        self.local = Path(self._root) if is_local else None
        self.sends_ranges: bool | None = None
        self.silence_seconds: float = SILENCE_SECONDS
        self._of_thread = threading.local()
        self._last_heard = time.monotonic()

    def path_of(self, name: str) -> str:
        """Path of a file, as the file system takes it."""
        return f"{self._root}/{quote(name) if self.is_http else name}{self._query}"

    def name_of(self, name: str) -> str:
        """A file's address, for messages."""
        return f"{self.url}/{name}"

    # --- threads

    def call(
        self, work: Callable[[_Item], _Result], items: Iterable[_Item], *, reads: bool = True
    ) -> list[_Result]:
        """Results of a function by several threads; the first error ends what has not begun.

        Parameters
        ----------
        work : callable
        items : iterable
        reads : bool
            Whether `work` waits for the store, so that a silence is an error.

        Raises
        ------
        TimeoutError
            If the store has sent nothing for `silence_seconds`.
        """
        waiting = list(enumerate(items))
        waiting.reverse()
        results: dict[int, _Result] = {}
        finished: queue.SimpleQueue[tuple[int, _Result | None, BaseException | None]]
        finished = queue.SimpleQueue()

        stopped = threading.Event()

        def run() -> None:
            self._of_thread.stopped = stopped
            while not stopped.is_set():
                try:
                    position, item = waiting.pop()
                except IndexError:
                    return
                try:
                    finished.put((position, work(item), None))
                except BaseException as error:
                    finished.put((position, None, error))

        count = len(waiting)
        # not a pool of concurrent.futures, whose threads are waited for as the program ends
        threads = [threading.Thread(target=run, daemon=True) for _ in range(min(THREADS, count))]
        self._hear()
        try:
            for thread in threads:
                thread.start()
            while len(results) < count:
                try:
                    position, result, error = finished.get(timeout=_TICK)
                except queue.Empty:
                    if reads:
                        self._require_heard()
                    continue
                if error is not None:
                    raise error
                results[position] = result  # type: ignore[assignment]
        except BaseException:
            stopped.set()
            end = time.monotonic() + _LAST_WAIT
            for thread in threads:
                if thread.ident is not None:
                    thread.join(max(0, end - time.monotonic()))
            raise
        return [results[position] for position in range(count)]

    def _hear(self) -> None:
        self._last_heard = time.monotonic()

    def _require_heard(self) -> None:
        silence = time.monotonic() - self._last_heard
        if silence > self.silence_seconds:
            raise TimeoutError(
                errno.ETIMEDOUT,
                f"sent nothing for {silence:.0f} seconds; what has been fetched is kept: fetch "
                f"again to go on",
                self.url,
            )

    def require_wanted(self) -> None:
        """Ends a thread whose work is not wanted any more."""
        if self._of_thread.stopped.is_set():
            raise InterruptedError(errno.EINTR, "was given up", self.url)

    def tried(self, name: str, read: Callable[[], _Result]) -> _Result:
        """The result of a read, which is tried again where it fails."""
        failed: Exception | None = None
        for attempt in range(TRIES):
            self.require_wanted()
            try:
                result = read()
            except FileNotFoundError:
                raise FileNotFoundError(errno.ENOENT, "no such file", self.name_of(name)) from None
            except PermissionError as error:
                raise PermissionError(errno.EACCES, str(error), self.name_of(name)) from None
            except FormatError:
                raise
            except Exception as error:  # each library of a store has its own
                if isinstance(error, OSError) and error.errno in _OF_THIS_MACHINE:
                    raise
                failed = error
            else:
                self._hear()
                return result
            if attempt + 1 < TRIES:
                self._of_thread.stopped.wait(FIRST_PAUSE * 2**attempt)
        raise OSError(
            errno.EIO,
            f"cannot be read, and {TRIES} times were tried ({failed!r}); what has been fetched is "
            f"kept: fetch again to go on",
            self.name_of(name),
        ) from failed

    # --- reads, by threads

    def read(self, name: str, begin: int, end: int) -> bytes:
        """Bytes [begin, end) of a file; tried again where it fails.

        Raises
        ------
        FileNotFoundError, PermissionError
        OSError
            If it could not be read by any of the tries.
        """

        def read_exactly() -> bytes:
            data = self._read_at_most(name, begin, end).page
            if len(data) != end - begin:
                raise EOFError(f"{len(data):,} bytes came where {end - begin:,} were asked for")
            return data

        return self.tried(name, read_exactly)

    def start_of(self, name: str) -> Start:
        """The first page and the size of a file; tried again where it fails."""

        def read_start() -> Start:
            start = self._read_at_most(name, 0, PAGE_BYTES)
            if self.is_http:
                return start
            return Start(start.page, self.files.info(self.path_of(name)).get("size"))

        return self.tried(name, read_start)

    def manifest(self) -> PublishedManifest | None:
        """The manifest; None where there is no dataset.

        Raises
        ------
        FormatError
            If it is the manifest of something else, or damaged.
        """
        address = self.name_of(MANIFEST_NAME)

        def read_manifest(name: str) -> bytes | None:
            try:
                return self.tried(name, lambda: self._read_small(name))
            except FileNotFoundError:
                return None

        (text,) = self.call(read_manifest, [MANIFEST_NAME])
        if text is None:
            return None
        if len(text) > _MOST_MANIFEST_BYTES:
            raise FormatError(
                f"{address} has more than {_MOST_MANIFEST_BYTES:,} bytes: it is no manifest"
            )
        return PublishedManifest(text, parse_manifest(text, address))

    def _read_small(self, name: str) -> bytes:
        """A small file; of a large one only as much as shows that it is too large."""
        most = _MOST_MANIFEST_BYTES + 1
        if not self.is_http:
            return self._read_at_most(name, 0, most).page
        with self._answer(name, None) as answer:
            return b"".join(self._pieces(answer, most))

    def look_for_ranges(self) -> None:
        """Finds out whether parts of files can be read: simple HTTP servers send whole ones."""
        if self.is_http:
            self.call(
                lambda name: self.tried(name, partial(self._read_at_most, name, 0, 1)),
                [MANIFEST_NAME],
            )
        else:
            self.sends_ranges = True

    def _read_at_most(self, name: str, begin: int, end: int) -> Start:
        """Bytes [begin, end) of a file, fewer where it ends before."""
        path = self.path_of(name)
        if not self.is_http:
            data: bytes = self.files.cat_file(path, start=begin, end=end)
            if len(data) > end - begin:
                raise EOFError(f"{len(data):,} bytes came where {end - begin:,} were asked for")
            return Start(data, None)
        with self._answer(name, f"bytes={begin}-{end - 1}") as answer:
            is_range = answer.r.status == 206
            if not is_range and begin:
                raise EOFError("the server sends whole files only")
            self.sends_ranges = is_range
            data = b"".join(self._pieces(answer, end - begin))
            if is_range and len(data) == end - begin and answer.read(1):
                raise EOFError(f"more than the {end - begin:,} bytes came that were asked for")
            return Start(data, _file_bytes(answer.r))

    @contextmanager
    def whole(self, name: str) -> Iterator[tuple[Iterator[bytes], int | None]]:
        """The pieces of a file, one after the other, by one request; and its size."""
        with self._answer(name, None) as answer:
            yield self._pieces(answer, None), _file_bytes(answer.r)

    @contextmanager
    def _answer(self, name: str, byte_range: str | None) -> Iterator[_Answer]:
        """The answer of an HTTP server; its ``r`` has status and headers."""
        import aiohttp  # of fsspec's file system for http

        headers = {**self.files.kwargs.get("headers", {}), "Accept-Encoding": "identity"}
        if byte_range is not None:
            headers["Range"] = byte_range
        # a size, so that the server is not asked for it before
        answer = self.files.open(
            self.path_of(name),
            block_size=0,
            size=1,
            headers=headers,
            timeout=aiohttp.ClientTimeout(sock_connect=STALL_SECONDS, sock_read=STALL_SECONDS),
        )
        try:
            yield answer
        finally:
            answer.close()

    def _pieces(self, answer: _Answer, most: int | None) -> Iterator[bytes]:
        """Pieces of an answer until its end, or until there are `most` bytes."""
        count = 0
        while most is None or count < most:
            wanted = _PIECE_BYTES if most is None else min(_PIECE_BYTES, most - count)
            piece = answer.read(wanted)
            if not piece:
                return
            self._hear()
            self.require_wanted()
            count += len(piece)
            yield piece

    # --- writes

    def has(self, name: str, file: Path) -> bool:
        """Whether a file is there already: of the same size, with the same header."""
        try:
            start = self.start_of(name)
        except FileNotFoundError:
            return False
        with open(file, "rb") as opened:
            page = opened.read(PAGE_BYTES)
        return start == Start(page, file.stat().st_size)


def address_key(url: str | os.PathLike[str], storage_options: StorageOptions) -> str:
    """What tells a folder on a store from others: the address, its query, and the options."""
    address, mark, query = os.fspath(url).partition("?")
    options = json.dumps(storage_options or {}, sort_keys=True, default=_stable_text)
    return address.rstrip("/") + mark + query + ("" if options == "{}" else f" {options}")


def _stable_text(value: object) -> str:
    """The same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _file_bytes(response: _Response) -> int | None:
    """The size of a file, as the headers of an answer have it."""
    total = response.headers.get("Content-Range", "").rpartition("/")[2]
    if response.status != 206:
        total = response.headers.get("Content-Length", "")
    return int(total) if re.fullmatch("[0-9]{1,19}", total) else None
