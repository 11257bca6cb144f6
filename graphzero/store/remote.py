"""Datasets on remote stores: `publish` copies one there, `fetch` brings it to a machine, once.

A file is fetched in blocks, by several threads, under a staged name of its own, and a journal
beside it says which blocks are there: an interrupted fetch goes on. Every file has its checksums in
its header, and the manifest has that of each header, so that files are known to be whole and of one
version. The folder is committed as by a build: it has the earlier dataset or the new one. Folders
that others may write to are not trusted either: links are not followed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from graphzero.errors import FormatError, user_line
from graphzero.store.atomic import (
    folder_lock,
    is_staging_name,
    require_disk_space,
    write_atomically,
)
from graphzero.store.folder import commit, complete_commit, remove_staged
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
    parse_manifest,
)
from graphzero.store.remote_files import (
    SILENCE_SECONDS,
    RemoteFolder,
    Start,
    StorageOptions,
    address_key,
)
from graphzero.units import require_local

BLOCK_BYTES = 8 << 20
_MOST_VERSIONS = 3  # that may be published while one is fetched
_MOST_WAIT = 45  # seconds until an existing copy serves
_ORIGIN = "fetched.json"
_PART = ".part.gz-staged"
# Stores with folders of their own; on the others a path is a name.
_WITH_FOLDERS = {"sftp", "ssh", "ftp", "hdfs", "webhdfs", "smb"}


# --- one file


class NotPlainError(OSError):
    """A link, or another special file, where a copy has a file."""


def _open_plain(path: Path, flags: int) -> int:
    """A descriptor of a regular file that has no other name; whoever wrote into the folder."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise NotPlainError(
            errno.ELOOP, "is a link, and a copy has files: remove it, and fetch again", str(path)
        ) from None
    facts = os.fstat(descriptor)
    is_shared = flags & os.O_RDWR and facts.st_nlink > 1
    if not stat.S_ISREG(facts.st_mode) or is_shared:
        os.close(descriptor)
        raise NotPlainError(
            errno.EEXIST,
            "is no regular file, or has another name as well: remove it, and fetch again",
            str(path),
        )
    return descriptor


def _read_plain(path: Path, count: int | None = None) -> tuple[bytes, int]:
    """The first bytes of a file of the copy, all by default, and its size."""
    descriptor = _open_plain(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, size if count is None else count, 0), size
    finally:
        os.close(descriptor)


def _write_plain(path: Path, offset: int, data: bytes) -> None:
    """Writes all of data at an offset of a file of the copy."""
    descriptor = _open_plain(path, os.O_RDWR)
    try:
        while data:
            written = os.pwrite(descriptor, data, offset)
            data, offset = data[written:], offset + written
    finally:
        os.close(descriptor)


@dataclass
class _Copy:
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
    def begin(cls, entry: FileEntry, source: str, start: Start, folder: Path, url: str) -> _Copy:
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
        copy = cls(entry, source, url, start.page, header, folder / f".{digest}.part.gz-staged")
        for path in (folder / entry.name, folder / entry.staged):
            with suppress(FileNotFoundError):
                if _read_plain(path, PAGE_BYTES) == (start.page, header.file_bytes):
                    copy.path, copy.is_new = path, path.name == entry.staged
                    copy.done = bytearray(b"\1" * copy.num_blocks)
                    return copy
        with suppress(FileNotFoundError):
            if _read_plain(copy.path, 0)[1] == header.file_bytes:
                copy.done = bytearray(_read_plain(copy.journal, copy.num_blocks + 1)[0])
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
        for path, content in ((self.path, b""), (self.journal, bytes(self.done))):
            path.unlink(missing_ok=True)
            descriptor = _open_plain(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                if path == self.path and hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, self.header.file_bytes)
                os.ftruncate(descriptor, self.header.file_bytes if path == self.path else 0)
                os.pwrite(descriptor, content, 0)
            finally:
                os.close(descriptor)
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
        if _read_plain(self.path, PAGE_BYTES)[0] != self.page:
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
        descriptor = _open_plain(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if self.is_part:
            os.replace(self.path, self.path.with_name(self.entry.staged))


# --- all files of a dataset


def _names_on_store(entry: FileEntry) -> tuple[str, str]:
    """Where a file may be: a build that was killed after its commit leaves staged names."""
    if entry.checksum is None:  # nothing tells the file of the final name from an earlier one
        return entry.staged, entry.name
    return entry.name, entry.staged


def _located(store: RemoteFolder, entry: FileEntry) -> tuple[str, Start]:
    """The name of a file on the store, and its beginning."""
    starts: dict[str, Start] = {}
    for name in _names_on_store(entry):
        with suppress(FileNotFoundError, PermissionError):  # S3 refuses what is not there
            starts[name] = store.start_of(name)
            if entry.describes(starts[name].page):
                return name, starts[name]
    if not starts:
        return entry.name, store.start_of(entry.name)  # whose error says what is wrong
    return next(iter(starts.items()))


def _streamed(store: RemoteFolder, entry: FileEntry, folder: Path) -> _Copy:
    """The copy of a file that is read by one request."""

    def stream(name: str) -> _Copy:
        with store.whole(name) as (pieces, file_bytes):
            beginning = b""
            while len(beginning) < PAGE_BYTES and (piece := next(pieces, b"")):
                beginning += piece
            start = Start(beginning[:PAGE_BYTES], file_bytes)
            copy = _Copy.begin(entry, name, start, folder, store.name_of(name))
            if copy.missing_bytes:
                copy.allocate()
                copy.write_whole(chain([beginning], pieces))
        return copy

    failures: list[FormatError | OSError] = []
    for name in _names_on_store(entry):
        try:
            return store.tried(name, partial(stream, name))
        except (FormatError, FileNotFoundError) as error:
            failures.append(error)
    raise next((error for error in failures if isinstance(error, FormatError)), failures[0])


def _warn_of_whole_files(store: RemoteFolder) -> None:
    warnings.warn(
        f"{store.url}: this server sends whole files only, so that a file whose copy is "
        f"interrupted begins again; nginx, Apache and Caddy send parts of files",
        UserWarning,
        stacklevel=user_line(),
    )


def _bring(
    store: RemoteFolder, folder: Path, manifest: Manifest, progress: bool, check: bool
) -> list[_Copy]:
    """Fetches what is missing, and again what does not have its checksums."""
    if store.sends_ranges is None:
        store.look_for_ranges()
        if not store.sends_ranges:
            _warn_of_whole_files(store)
    entries, copies = manifest.entries(), list[_Copy]()
    if store.sends_ranges:
        located = store.call(partial(_located, store), entries)
        copies = [
            _Copy.begin(entry, name, start, folder, store.name_of(name))
            for entry, (name, start) in zip(entries, located, strict=True)
        ]
        _remove_other_parts(folder, copies)
        size = sum(copy.header.file_bytes for copy in copies if not copy.is_allocated)
        require_disk_space(folder, size, f"the copy of {store.url} needs")
    for _ in range(2):  # once more where it was damaged on the way, or before
        if store.sends_ranges:
            _bring_blocks(store, copies, progress)
        else:
            copies = store.call(lambda entry: _streamed(store, entry, folder), entries)
        checked = [copy for copy in copies if copy.is_new or check]
        damaged = [*filter(None, store.call(_Copy.check, checked, reads=False))]
        if not damaged:
            store.call(_Copy.stage, copies, reads=False)
            return copies
    raise FormatError(
        f"{damaged[0]} is corrupt on the store (checksum mismatch): publish the dataset again"
    )


def _bring_blocks(store: RemoteFolder, copies: list[_Copy], progress: bool) -> None:
    """Fetches the missing blocks of all files."""
    from tqdm.auto import tqdm

    incomplete = [copy for copy in copies if copy.missing_bytes]
    for copy in incomplete:
        copy.allocate()
    with tqdm(
        total=sum(copy.missing_bytes for copy in incomplete),
        desc="copy",
        unit="B",
        unit_scale=True,
        disable=not progress,
    ) as bar:

        def bring_block(job: tuple[_Copy, int, int]) -> None:
            copy, begin, end = job
            data = store.read(copy.source, begin, end)
            store.require_wanted()
            copy.write(begin, data)
            bar.update(end - begin)

        jobs = ((copy, begin, end) for copy in incomplete for begin, end in copy.ranges())
        store.call(bring_block, jobs)


def _remove_other_parts(folder: Path, copies: list[_Copy]) -> None:
    """Removes what an interrupted fetch of another version has left."""
    kept = {copy.entry.staged for copy in copies}
    kept |= {path.name for copy in copies for path in (copy.path, copy.journal)}
    for name in filter(is_staging_name, os.listdir(folder)):
        if name not in kept:
            (folder / name).unlink(missing_ok=True)


# --- fetching


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
    _fetch(RemoteFolder(url, storage_options), Path(path), progress, check=True)


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
    key = address_key(url, storage_options)
    folder = Path(cache) / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    if folder.is_symlink():
        raise NotPlainError(errno.ELOOP, "is a link: remove it, or choose another cache", folder)
    has_copy = _manifest_here(folder) is not None
    try:
        store = RemoteFolder(url, storage_options)
        if has_copy:
            store.silence_seconds = _MOST_WAIT
        if not (has_copy and _is_current(store, folder)):
            _fetch(store, folder, progress=False, check=False)
    except (OSError, FormatError) as error:
        if not has_copy or isinstance(error, FileExistsError | NotPlainError):
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
        return _read_plain(folder / MANIFEST_NAME)[0]
    return None


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _is_current(store: RemoteFolder, folder: Path) -> bool:
    """Whether a copy is that of the store; looks without the lock, for which others may wait."""
    found = store.manifest()
    if found is None or found[0] != _manifest_here(folder):
        return False
    return _is_described(folder, found[1])


def _is_described(folder: Path, manifest: Manifest) -> bool:
    """Whether the files of a folder are those of its manifest."""
    try:
        for entry in manifest.entries():
            entry.check(folder)
    except (FormatError, FileNotFoundError):
        return False
    return True


def _fetch(store: RemoteFolder, folder: Path, progress: bool, *, check: bool) -> None:
    """Makes a folder as the store is; with `check`, also files that it has are read."""
    os.makedirs(folder, exist_ok=True)
    with folder_lock(folder, wait=True):
        here, earlier = _manifest_here(folder), None
        with suppress(FormatError):  # of a later version: `_require_fetched` decides
            earlier = complete_commit(folder)
        if here is not None:
            _require_fetched(folder, here)
        for _ in range(_MOST_VERSIONS):
            found = store.manifest()
            if found is None:
                raise FileNotFoundError(
                    errno.ENOENT,
                    f"no dataset here (no {MANIFEST_NAME}), unless one is being published now: "
                    f"graphzero publish DIR URL copies one there",
                    store.url,
                )
            if not store.is_http:
                store.silence_seconds = SILENCE_SECONDS  # blocks come whole, and may take long
            text, manifest = found
            if here == text and not check and _is_described(folder, manifest):
                remove_staged(folder)
                return  # fetched by another process, for whose lock this one has waited
            failed: Exception | None = None
            try:
                _bring(store, folder, manifest, progress, check)
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
        _note_origin(folder, store.url, here, text)
        commit(folder, earlier, manifest, text)
        remove_staged(folder)


def _origins(folder: Path) -> list[str] | None:
    """Digests of the manifests that came from a store; None if nobody knows any more."""
    try:
        text = _read_plain(folder / _ORIGIN)[0]
    except FileNotFoundError:
        return []
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        digests = json.loads(text)["manifests"]
        if isinstance(digests, list):
            return digests
    warnings.warn(
        f"{folder / _ORIGIN} is damaged: the dataset is fetched anew",
        UserWarning,
        stacklevel=user_line(),
    )
    return None


def _require_fetched(folder: Path, here: bytes) -> None:
    """Nothing that was made here is lost: only what came from a store is replaced."""
    origins = _origins(folder)
    if origins is not None and _digest(here) not in origins:
        what = "was changed here since it was fetched" if origins else "was built here"
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


# --- publishing


def publish(
    path: str | os.PathLike[str],
    url: str | os.PathLike[str],
    *,
    storage_options: StorageOptions = None,
    progress: bool = False,
) -> None:
    """Copies a dataset to a remote store, from which `fetch` and `graphzero.open` read it.

    Every file is checked by its checksums before. Files that are there already are not copied
    again, so that an interrupted call goes on. A dataset that is there is replaced. In a folder of
    a (shared) file system this happens in one step, and who has it open keeps it; elsewhere the
    manifest is removed first and the new one written last, and a mixture is refused when it is
    fetched.

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
    BlockingIOError
        If another process has published to this address at the same time.
    FileNotFoundError
        If there is no dataset in the folder.
    """
    require_local(path)
    store, folder = RemoteFolder(url, storage_options), Path(path)
    if store.is_http:
        raise ValueError(f"{store.url} cannot be written to: copy the files to the server's disk")
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "no such folder", os.fspath(folder))
    if store.local is not None and store.local.exists() and store.local.samefile(folder):
        raise ValueError(f"{folder} cannot be published to itself: give another folder")
    with folder_lock(folder, shared=True, wait=True):
        text = _manifest_here(folder)
        if text is None:
            raise FileNotFoundError(errno.ENOENT, f"no dataset (no {MANIFEST_NAME})", str(folder))
        manifest = parse_manifest(text, folder / MANIFEST_NAME)
        for entry in manifest.entries():
            entry.check(folder)
        files = {entry.name: entry.resolve(folder) for entry in manifest.entries()}
        store.call(verify_file, files.values(), reads=False)
        if store.local is not None:
            _publish_to_folder(folder, store.local, text, manifest, progress)
        else:
            _publish_to_store(store, files, text, progress)
        if (folder / _ORIGIN).exists():
            _note_origin(folder, store.url, text)


def _publish_to_folder(
    source: Path, folder: Path, text: bytes, manifest: Manifest, progress: bool
) -> None:
    """Replaces the dataset of a folder in one step, as a build does."""
    os.makedirs(folder, exist_ok=True)
    with folder_lock(folder, wait=True):
        earlier = complete_commit(folder)
        _bring(RemoteFolder(source, None), folder, manifest, progress, check=False)
        commit(folder, earlier, manifest, text)
        remove_staged(folder)


def _publish_to_store(
    store: RemoteFolder, files: Mapping[str, Path], text: bytes, progress: bool
) -> None:
    """Copies files to a store; the manifest comes last, and all are looked at once more."""
    for _ in range(_MOST_VERSIONS):
        there = store.manifest()
        missing = _missing_on(store, files)
        if there is not None and there[0] == text and not missing:
            return
        _put(store, {name: files[name] for name in missing}, there is not None, progress)
        store.files.pipe_file(store.path_of(MANIFEST_NAME), text)
        if there is not None:
            _remove_obsolete(store, there[1], files, text)
    raise BlockingIOError(
        errno.EWOULDBLOCK,
        "another process publishes to this address: publish again when that has ended",
        store.url,
    )


def _missing_on(store: RemoteFolder, files: Mapping[str, Path]) -> list[str]:
    """Names of the files that a store has not, or otherwise."""
    store.files.invalidate_cache()
    are_there = store.call(lambda name: store.has(name, files[name]), files)
    return [name for name, is_there in zip(files, are_there, strict=True) if not is_there]


def _put(store: RemoteFolder, files: Mapping[str, Path], replaces: bool, progress: bool) -> None:
    """Copies files to a store, without a manifest meanwhile."""
    from tqdm.auto import tqdm

    if replaces:
        with suppress(FileNotFoundError):  # by another process that publishes
            store.files.rm_file(store.path_of(MANIFEST_NAME))
    protocols = store.files.protocol
    if _WITH_FOLDERS.intersection([protocols] if isinstance(protocols, str) else protocols):
        store.files.makedirs(store.path_of("").rstrip("/"), exist_ok=True)
    with tqdm(
        total=sum(path.stat().st_size for path in files.values()),
        desc="publish",
        unit="B",
        unit_scale=True,
        disable=not progress,
    ) as bar:

        def put(name: str) -> None:
            store.files.put_file(os.fspath(files[name]), store.path_of(name))
            bar.update(files[name].stat().st_size)

        store.call(put, files, reads=False)


def _remove_obsolete(
    store: RemoteFolder, earlier: Manifest, files: Mapping[str, Path], text: bytes
) -> None:
    """Removes what the earlier dataset alone has had, while nobody else publishes."""
    found = store.manifest()
    if found is None or found[0] != text:
        return
    for name in {entry.name for entry in earlier.entries()} - files.keys():
        with suppress(FileNotFoundError):
            store.files.rm_file(store.path_of(name))
