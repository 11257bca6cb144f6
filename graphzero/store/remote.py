"""Datasets on remote stores: `publish` copies one there, `fetch` brings it to a machine, once.

fsspec opens the stores. A file is fetched in blocks, by several threads, under the staged name that
the manifest has for it, and a journal beside it says which blocks are there: an interrupted fetch
goes on. Every file has its checksums in its header, so that it is known to be whole. The manifest
comes last, as in a build: a folder has the earlier dataset or the new one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graphzero.errors import FormatError, user_line
from graphzero.store.atomic import (
    folder_lock,
    is_staging_name,
    require_disk_space,
    write_atomically,
)
from graphzero.store.format import (
    PAGE_BYTES,
    Header,
    corrupt_sections,
    decode_header,
    verify_file,
)
from graphzero.store.manifest import (
    MANIFEST_NAME,
    FileEntry,
    Manifest,
    finish_renames,
    parse_manifest,
)
from graphzero.units import require_local

BLOCK_BYTES = 8 << 20
_THREADS = 8
_TRIES = 6
_FIRST_PAUSE = 0.25  # seconds before a read is tried again; then twice as long each time
_MOST_VERSIONS = 3  # that may be published while one is fetched
_ORIGIN = "fetched.json"
# Stores with folders of their own; on the others a path is a name.
_WITH_FOLDERS = {"file", "local", "sftp", "ssh", "ftp", "hdfs", "webhdfs", "smb"}

StorageOptions = Mapping[str, Any] | None


class _Store:
    """A folder on a store."""

    def __init__(self, url: str | os.PathLike[str], storage_options: StorageOptions) -> None:
        import fsspec  # which torch brings along

        self.url, mark, query = os.fspath(url).partition("?")
        self.url = self.url.rstrip("/")
        self.is_http = self.url.startswith(("http://", "https://"))
        if mark and not self.is_http:
            raise ValueError(f"{url!r} has a '?': give what it says as storage_options")
        self._end = mark + query
        self.files, self._root = fsspec.core.url_to_fs(self.url, **(storage_options or {}))

    def path_of(self, name: str) -> str:
        """Path of a file, as the file system takes it."""
        return f"{self._root}/{quote(name) if self.is_http else name}{self._end}"

    def read(
        self, name: str, begin: int | None = None, end: int | None = None, *, exact: bool = True
    ) -> bytes:
        """A whole file, or its bytes [begin, end); tried again where it fails."""
        asked = None if begin is None or end is None or not exact else end - begin
        failed: Exception | None = None
        for attempt in range(_TRIES):
            try:
                data: bytes = self.files.cat_file(self.path_of(name), start=begin, end=end)
                if asked is None or len(data) == asked:
                    return data
                failed = EOFError(f"{len(data):,} bytes came where {asked:,} were asked for")
            except FileNotFoundError:
                raise FileNotFoundError(errno.ENOENT, "no such file", self.name_of(name)) from None
            except PermissionError as error:
                raise PermissionError(errno.EACCES, str(error), self.name_of(name)) from None
            except Exception as error:  # each library of a store has its own
                failed = error
            if attempt + 1 < _TRIES:
                time.sleep(_FIRST_PAUSE * 2**attempt)
        raise OSError(
            errno.EIO,
            f"cannot be read, and {_TRIES} times were tried ({failed!r}); what has been fetched is "
            f"kept: fetch again to go on",
            self.name_of(name),
        ) from failed

    def require_ranges(self) -> None:
        """Refuses a simple HTTP server: each block would come with all of the file."""
        if self.is_http and len(self.read(MANIFEST_NAME, 0, 1, exact=False)) != 1:
            raise ValueError(
                f"{self.url}: this server sends whole files only. Use one that serves ranges, such "
                f"as nginx, Apache or Caddy, or copy the folder, and open that"
            )

    def name_of(self, name: str) -> str:
        """A file's address, for messages."""
        return f"{self.url}/{name}"

    def has(self, name: str, file: Path) -> bool:
        """Whether a file is there already: of the same size, with the same header."""
        try:
            size = self.files.size(self.path_of(name))
        except FileNotFoundError:
            return False
        return bool(size == file.stat().st_size) and self.read(name, 0, PAGE_BYTES) == _page(file)

    def manifest(self) -> tuple[bytes, Manifest] | None:
        """The content of the manifest; None where there is no dataset."""
        try:
            text = self.read(MANIFEST_NAME)
        except FileNotFoundError:
            return None
        return text, parse_manifest(text, self.name_of(MANIFEST_NAME))


def _page(file: Path) -> bytes:
    with open(file, "rb") as opened:
        return opened.read(PAGE_BYTES)


@dataclass
class _Copy:
    """A file that is fetched.

    Attributes
    ----------
    entry : FileEntry
    url : str
    page, header : bytes, Header
        The first page, as the store has it.
    path : pathlib.Path
        Where the copy is.
    done : bytearray
        Of each block, whether it is there.
    is_new : bool
        Whether anything of it has been fetched, now or earlier.
    """

    entry: FileEntry
    url: str
    page: bytes
    header: Header
    path: Path
    done: bytearray = field(default_factory=bytearray)
    is_new: bool = True

    @classmethod
    def begin(cls, entry: FileEntry, page: bytes, folder: Path, url: str) -> _Copy:
        """What of a file is in the folder already, by the header page that the store has."""
        try:
            kind = "graph" if entry.name.endswith(".gl") else "features"
            header = decode_header(page, None, kind)
        except FormatError as error:
            raise FormatError(f"{url} {error}: publish the dataset again") from None
        copy = cls(entry, url, page, header, folder / entry.staged)
        count = -(-header.file_bytes // BLOCK_BYTES)
        with suppress(FileNotFoundError):
            if copy.path.stat().st_size == header.file_bytes:
                copy.done = bytearray(copy.journal.read_bytes())
        for path in () if len(copy.done) == count else (folder / entry.name, copy.path):
            with suppress(FileNotFoundError):
                if path.stat().st_size == header.file_bytes and _page(path) == page:
                    copy.path, copy.done = path, bytearray(b"\1" * count)
                    # a file without its journal may have gaps, so its checksums are looked at
                    copy.is_new = path.name == entry.staged
        if len(copy.done) != count:
            copy.done = bytearray(count)
        return copy

    @property
    def journal(self) -> Path:
        """The file that says which blocks are there; named so that builds remove it as well."""
        return self.path.with_name(f".{self.entry.staged}.blocks.gz-staged")

    @property
    def missing_bytes(self) -> int:
        return sum(end - begin for begin, end in self.ranges())

    def ranges(self) -> Iterator[tuple[int, int]]:
        """First byte and end of the blocks that are missing."""
        for block, is_there in enumerate(self.done):
            if not is_there:
                begin = block * BLOCK_BYTES
                yield begin, min(begin + BLOCK_BYTES, self.header.file_bytes)

    def allocate(self) -> None:
        """Reserves the disk space of what is fetched; needed before `write`."""
        with open(self.path, "ab") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, self.header.file_bytes)
            os.ftruncate(file.fileno(), self.header.file_bytes)
        if self.path.name == self.entry.staged:  # what is mended in place needs no journal
            self.journal.write_bytes(self.done)
        self.is_new = True

    def write(self, begin: int, data: bytes) -> None:
        """Writes a block, then notes that it is there."""
        with open(self.path, "r+b") as file:
            file.seek(begin)
            file.write(data)
        block = begin // BLOCK_BYTES
        with suppress(FileNotFoundError), open(self.journal, "r+b") as journal:
            journal.seek(block)
            journal.write(b"\1")
        self.done[block] = 1

    def check(self) -> str | None:
        """Marks what does not have its checksums as missing, and names the first such part."""
        damaged = [(s.offset, s.length, s.name) for s in corrupt_sections(self.path, self.header)]
        if _page(self.path) != self.page:
            damaged.insert(0, (0, PAGE_BYTES, "header"))
        for offset, length, _ in damaged:
            blocks = slice(offset // BLOCK_BYTES, -(-(offset + length) // BLOCK_BYTES))
            self.done[blocks] = bytes(len(self.done[blocks]))
        if damaged and self.journal.exists():
            self.journal.write_bytes(self.done)
        return f"{self.url}: '{damaged[0][2]}'" if damaged else None


@contextmanager
def _pool() -> Iterator[Callable[[Callable[..., Any], Iterable[Any]], list[Any]]]:
    """Calls of a function by several threads; the first error ends what has not begun."""
    pool = ThreadPoolExecutor(_THREADS)
    try:
        yield lambda work, items: list(pool.map(work, items))
    finally:
        pool.shutdown(cancel_futures=True)


def fetch(
    url: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    storage_options: StorageOptions = None,
    progress: bool = False,
) -> None:
    """Copies a dataset from a remote store into a folder: what of it is missing or damaged there.

    Several processes may call this for one folder: one fetches, the others wait for it. Files are
    read in parallel, and checked by their checksums; an interrupted call is gone on with by the
    next. A dataset that is in the folder already is replaced in one step, once the new one is
    whole; all of its files are read and checked, and damaged parts are fetched again.

    Parameters
    ----------
    url : str
        Address of a folder that `publish`, or a copy of a dataset's files, has made: ``s3://...``,
        ``gs://...``, ``hdfs://...``, ``https://...``, whatever fsspec opens; also a path, of a
        shared file system.
    path : path-like
        The folder, on a disk of this machine.
    storage_options : dict, optional
        Of fsspec's file system, such as ``{"anon": True}``.
    progress : bool
        Whether to show a progress bar.

    Raises
    ------
    FileNotFoundError
        If there is no dataset at the address.
    FileExistsError
        If the folder has a dataset that was not fetched, or was changed since.
    FormatError
        If a file on the store is damaged.
    ImportError
        If fsspec needs a package for this store, such as s3fs.
    OSError
        If the store cannot be read, or there is no disk space. What was fetched is kept.
    """
    require_local(path)
    _fetch(_Store(url, storage_options), Path(path), progress, check=True)


def cached_copy(
    url: str | os.PathLike[str],
    cache: str | os.PathLike[str] | None,
    storage_options: StorageOptions,
) -> Path:
    """The folder inside `cache` that has the dataset of an address, as the store has it now.

    Where the store cannot be read, an earlier copy serves, with a warning.
    """
    if cache is None:
        raise ValueError(
            f"{os.fspath(url)!r} is on a remote store, and graphzero maps files of a local disk: "
            f"say where to keep a copy, as in graphzero.open(url, cache='/nvme/graphs')"
        )
    require_local(cache)
    address = os.fspath(url).partition("?")[0].rstrip("/")
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", address.rpartition("/")[2]).lstrip(".-")
    folder = Path(cache) / f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    try:
        _fetch(_Store(url, storage_options), folder, progress=False, check=False)
    except Exception as error:
        here = _manifest_here(folder)
        if here is None or isinstance(error, FileExistsError):
            raise
        warnings.warn(
            f"{address} cannot be read now ({error}): its copy in {folder} is used, which may be "
            f"older",
            UserWarning,
            stacklevel=user_line(),
        )
    return folder


def _manifest_here(folder: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        return (folder / MANIFEST_NAME).read_bytes()
    return None


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _fetch(store: _Store, folder: Path, progress: bool, *, check: bool) -> None:
    """Makes a folder as the store is; with `check`, also files that it has are read."""
    os.makedirs(folder, exist_ok=True)
    with folder_lock(folder, wait=True):
        for _ in range(_MOST_VERSIONS):
            found = store.manifest()
            if found is None:
                raise FileNotFoundError(
                    errno.ENOENT,
                    f"no dataset here (no {MANIFEST_NAME}), unless one is being published now: "
                    f"graphzero publish DIR URL copies one there",
                    store.url,
                )
            text, manifest = found
            here = _manifest_here(folder)
            if here == text and not check:
                return
            if here is not None:
                _require_fetched(folder, here)
            _remove_staged(folder, manifest)
            failed: Exception | None = None
            try:
                copies = _bring(store, folder, manifest, progress, check)
            except (FormatError, FileNotFoundError) as error:
                failed = error
            if store.manifest() == found:  # files and manifest belong together
                break
        else:
            raise BlockingIOError(
                errno.EWOULDBLOCK,
                "was published again and again while it was fetched: fetch it when that has ended",
                store.url,
            )
        if failed is not None:
            raise failed
        for copy in copies:
            if copy.is_new:
                _flush(copy.path)
        _commit(folder, store.url, here, text, manifest)


def _require_fetched(folder: Path, here: bytes) -> None:
    """Nothing that was made here is lost: only what came from a store is replaced."""
    try:
        origin = json.loads((folder / _ORIGIN).read_bytes())
    except FileNotFoundError:
        origin = {"manifests": []}
    if _digest(here) not in origin["manifests"]:
        what = "was changed here since it was fetched" if origin["manifests"] else "was built here"
        raise FileExistsError(
            errno.EEXIST,
            f"the dataset in this folder {what}, and would be replaced: publish it with graphzero "
            f"publish, or choose another folder, or remove this one",
            os.fspath(folder),
        )


def _note_origin(folder: Path, url: str, *manifests: bytes | None) -> None:
    """Notes which datasets of this folder are on a store as well: they may be replaced."""
    digests = [_digest(text) for text in manifests if text is not None]
    origin = {"url": url, "manifests": [*dict.fromkeys(digests)]}
    write_atomically(folder / _ORIGIN, (json.dumps(origin, indent=2) + "\n").encode())


def _remove_staged(folder: Path, manifest: Manifest) -> None:
    """Removes what an interrupted fetch of another version has left."""
    staged = {entry.staged for entry in manifest.entries()}
    kept = staged | {f".{name}.blocks.gz-staged" for name in staged}
    for name in filter(is_staging_name, os.listdir(folder)):
        if name not in kept:
            (folder / name).unlink(missing_ok=True)


def _bring(
    store: _Store, folder: Path, manifest: Manifest, progress: bool, check: bool
) -> list[_Copy]:
    """Fetches what is missing, and again what does not have its checksums."""
    from tqdm.auto import tqdm

    store.require_ranges()
    with _pool() as call:
        entries = manifest.entries()
        pages = call(lambda entry: store.read(entry.name, 0, PAGE_BYTES), entries)
        copies = [
            _Copy.begin(entry, page, folder, store.name_of(entry.name))
            for entry, page in zip(entries, pages, strict=True)
        ]
        size = sum(copy.missing_bytes for copy in copies if not copy.path.exists())
        require_disk_space(folder, size, f"the copy of {store.url} needs")
        with tqdm(
            total=sum(copy.missing_bytes for copy in copies),
            **{"desc": "fetch", "unit": "B", "unit_scale": True, "disable": not progress},
        ) as bar:

            def bring_block(job: tuple[_Copy, tuple[int, int]]) -> None:
                copy, (begin, end) = job
                copy.write(begin, store.read(copy.entry.name, begin, end))
                bar.update(end - begin)

            for _ in range(2):  # once more where it was damaged on the way, or before
                wanted = [copy for copy in copies if copy.missing_bytes]
                for copy in wanted:
                    copy.allocate()
                call(bring_block, [(copy, each) for copy in wanted for each in copy.ranges()])
                checked = [copy for copy in copies if copy.is_new or check]
                damaged = [*filter(None, call(_Copy.check, checked))]
                if not damaged:
                    return copies
    raise FormatError(
        f"{damaged[0]} is corrupt on the store (checksum mismatch): publish the dataset again"
    )


def _flush(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _commit(folder: Path, url: str, here: bytes | None, text: bytes, manifest: Manifest) -> None:
    """Replaces the manifest, and removes what the earlier one alone has named."""
    _note_origin(folder, url, here, text)
    write_atomically(folder / MANIFEST_NAME, text)
    finish_renames(folder, manifest)
    names = {entry.name for entry in manifest.entries()}
    before = [] if here is None else parse_manifest(here, folder / MANIFEST_NAME).entries()
    for name in {entry.name for entry in before} - names:
        (folder / name).unlink(missing_ok=True)
    for name in filter(is_staging_name, os.listdir(folder)):
        (folder / name).unlink(missing_ok=True)


def publish(
    path: str | os.PathLike[str],
    url: str | os.PathLike[str],
    *,
    storage_options: StorageOptions = None,
    progress: bool = False,
) -> None:
    """Copies a dataset to a remote store, from which `fetch` and `graphzero.open` read it.

    Every file is checked by its checksums before. Files that are there already are not copied
    again, so that an interrupted call goes on. A dataset that is there is replaced: its manifest is
    removed first and the new one written last, so that nobody reads a mixture.

    Parameters
    ----------
    path : path-like
        The folder. It cannot be built again meanwhile.
    url : str
        Address of a folder of its own; whatever fsspec writes to.
    storage_options : dict, optional
        Of fsspec's file system.
    progress : bool
        Whether to show a progress bar.

    Raises
    ------
    FormatError
        If a file is damaged, or the address has a ``dataset.json`` of something else.
    FileNotFoundError
        If there is no dataset in the folder.
    """
    from tqdm.auto import tqdm

    require_local(path)
    store, folder = _Store(url, storage_options), Path(path)
    if store.is_http:
        raise ValueError(f"{store.url} cannot be written to: copy the files to the server's disk")
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "no such folder", os.fspath(folder))
    with folder_lock(folder, shared=True, wait=True), _pool() as call:
        text = _manifest_here(folder)
        if text is None:
            raise FileNotFoundError(errno.ENOENT, f"no dataset (no {MANIFEST_NAME})", str(folder))
        manifest, there = parse_manifest(text, folder / MANIFEST_NAME), store.manifest()
        files = {entry.name: entry.resolve(folder) for entry in manifest.entries()}
        call(verify_file, files.values())
        are_there = call(lambda name: store.has(name, files[name]), files)
        names = [name for name, is_there in zip(files, are_there, strict=True) if not is_there]
        if there is not None and there[0] == text and not names:
            return
        if there is not None:
            store.files.rm_file(store.path_of(MANIFEST_NAME))
        protocols = store.files.protocol
        if _WITH_FOLDERS.intersection([protocols] if isinstance(protocols, str) else protocols):
            store.files.makedirs(store.path_of("").rstrip("/"), exist_ok=True)
        with tqdm(
            total=sum(files[name].stat().st_size for name in names),
            **{"desc": "publish", "unit": "B", "unit_scale": True, "disable": not progress},
        ) as bar:

            def put(name: str) -> None:
                store.files.put_file(os.fspath(files[name]), store.path_of(name))
                bar.update(files[name].stat().st_size)

            call(put, names)
        store.files.pipe_file(store.path_of(MANIFEST_NAME), text)
        before = [] if there is None else there[1].entries()
        for name in {entry.name for entry in before} - files.keys():
            with suppress(FileNotFoundError):
                store.files.rm_file(store.path_of(name))
        if (folder / _ORIGIN).exists():
            _note_origin(folder, store.url, text)
