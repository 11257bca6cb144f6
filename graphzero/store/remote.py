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
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from graphzero.errors import FormatError, warn_user
from graphzero.store.atomic import (
    folder_lock,
    is_staging_name,
    require_disk_space,
    write_atomically,
)
from graphzero.store.file_copy import FileCopy, NotPlainError, read_plain
from graphzero.store.folder import commit, complete_commit, remove_staged
from graphzero.store.format import PAGE_BYTES, verify_file
from graphzero.store.manifest import MANIFEST_NAME, FileEntry, Manifest, parse_manifest
from graphzero.store.remote_files import (
    SILENCE_SECONDS,
    RemoteFolder,
    Start,
    StorageOptions,
    address_key,
)
from graphzero.units import require_local

if TYPE_CHECKING:
    from tqdm.auto import tqdm

_MOST_VERSIONS = 3  # that may be published while one is fetched
_MOST_WAIT = 45  # seconds until an existing copy serves
_ORIGIN = "fetched.json"
# Stores with folders of their own; on the others a path is a name.
_WITH_FOLDERS = {"sftp", "ssh", "ftp", "hdfs", "webhdfs", "smb"}


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


def _streamed(store: RemoteFolder, entry: FileEntry, folder: Path) -> FileCopy:
    """The copy of a file that is read by one request."""

    def stream(name: str) -> FileCopy:
        with store.whole(name) as (pieces, file_bytes):
            beginning = b""
            while len(beginning) < PAGE_BYTES and (piece := next(pieces, b"")):
                beginning += piece
            start = Start(beginning[:PAGE_BYTES], file_bytes)
            copy = FileCopy.begin(entry, name, start, folder, store.name_of(name))
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


def _bring(
    store: RemoteFolder, folder: Path, manifest: Manifest, progress: bool, check: bool
) -> list[FileCopy]:
    """Fetches what is missing, and again what does not have its checksums."""
    if store.sends_ranges is None:
        store.look_for_ranges()
        if not store.sends_ranges:
            warn_user(
                f"{store.url}: this server sends whole files only, so that a file whose copy is "
                f"interrupted begins again; nginx, Apache and Caddy send parts of files"
            )
    entries, copies = manifest.entries(), list[FileCopy]()
    if store.sends_ranges:
        located = store.call(partial(_located, store), entries)
        copies = [
            FileCopy.begin(entry, name, start, folder, store.name_of(name))
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
        damaged = [*filter(None, store.call(FileCopy.check, checked, reads=False))]
        if not damaged:
            store.call(FileCopy.stage, copies, reads=False)
            return copies
    raise FormatError(
        f"{damaged[0]} is corrupt on the store (checksum mismatch): publish the dataset again"
    )


def _progress_bar(work: str, num_bytes: int, is_shown: bool) -> tqdm[NoReturn]:
    from tqdm.auto import tqdm

    return tqdm(total=num_bytes, desc=work, unit="B", unit_scale=True, disable=not is_shown)


def _bring_blocks(store: RemoteFolder, copies: list[FileCopy], progress: bool) -> None:
    """Fetches the missing blocks of all files."""
    incomplete = [copy for copy in copies if copy.missing_bytes]
    for copy in incomplete:
        copy.allocate()
    num_bytes = sum(copy.missing_bytes for copy in incomplete)
    with _progress_bar("copy", num_bytes, progress) as bar:

        def bring_block(job: tuple[FileCopy, int, int]) -> None:
            copy, begin, end = job
            data = store.read(copy.source, begin, end)
            store.require_wanted()
            copy.write(begin, data)
            bar.update(end - begin)

        jobs = ((copy, begin, end) for copy in incomplete for begin, end in copy.ranges())
        store.call(bring_block, jobs)


def _remove_other_parts(folder: Path, copies: list[FileCopy]) -> None:
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
    folder = Path(cache) / f"{name}-{_sha256(key.encode())[:12]}"
    if folder.is_symlink():
        raise NotPlainError(errno.ELOOP, "is a link: remove it, or choose another cache", folder)
    has_copy = _local_manifest(folder) is not None
    try:
        store = RemoteFolder(url, storage_options)
        if has_copy:
            store.silence_seconds = _MOST_WAIT
        if not (has_copy and _is_current(store, folder)):
            _fetch(store, folder, progress=False, check=False)
    except (OSError, FormatError) as error:
        if not has_copy or isinstance(error, FileExistsError | NotPlainError):
            raise
        warn_user(
            f"{address} cannot be read now ({error}): its copy in {folder} is used, which may be "
            f"older"
        )
    return folder


def _local_manifest(folder: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        return read_plain(folder / MANIFEST_NAME)[0]
    return None


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _is_current(store: RemoteFolder, folder: Path) -> bool:
    """Whether a copy is that of the store; looks without the lock, for which others may wait."""
    published = store.manifest()
    if published is None or published.text != _local_manifest(folder):
        return False
    return _is_described(folder, published.manifest)


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
        local_text = _local_manifest(folder)
        earlier = None
        with suppress(FormatError):  # of a later version: `_require_fetched` decides
            earlier = complete_commit(folder)
        if local_text is not None:
            _require_fetched(folder, local_text)
        for _ in range(_MOST_VERSIONS):
            published = store.manifest()
            if published is None:
                raise FileNotFoundError(
                    errno.ENOENT,
                    f"no dataset here (no {MANIFEST_NAME}), unless one is being published now: "
                    f"graphzero publish DIR URL copies one there",
                    store.url,
                )
            if not store.is_http:
                store.silence_seconds = SILENCE_SECONDS  # blocks come whole, and may take long
            manifest = published.manifest
            if local_text == published.text and not check and _is_described(folder, manifest):
                remove_staged(folder)
                return  # fetched by another process, for whose lock this one has waited
            failed: Exception | None = None
            try:
                _bring(store, folder, manifest, progress, check)
            except (FormatError, FileNotFoundError) as error:
                failed = error
            if store.manifest() == published:  # files and manifest belong together
                break
        else:
            raise BlockingIOError(
                errno.EWOULDBLOCK,
                "was published again and again while it was fetched: fetch it when that has ended",
                store.url,
            )
        if failed is not None:
            raise failed
        earlier_texts = [] if local_text is None else [local_text]
        _note_origin(folder, store.url, [*earlier_texts, published.text])
        commit(folder, earlier, manifest, published.text)
        remove_staged(folder)


def _origins(folder: Path) -> list[str] | None:
    """Digests of the manifests that came from a store; None if nobody knows any more."""
    try:
        text = read_plain(folder / _ORIGIN)[0]
    except FileNotFoundError:
        return []
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        digests = json.loads(text)["manifests"]
        if isinstance(digests, list):
            return digests
    warn_user(f"{folder / _ORIGIN} is damaged: the dataset is fetched anew")
    return None


def _require_fetched(folder: Path, text: bytes) -> None:
    """Nothing that was made here is lost: only what came from a store is replaced."""
    origins = _origins(folder)
    if origins is not None and _sha256(text) not in origins:
        what = "was changed here since it was fetched" if origins else "was built here"
        raise FileExistsError(
            errno.EEXIST,
            f"the dataset in this folder {what}, and would be replaced: publish it with graphzero "
            f"publish, or choose another folder, or remove this one",
            os.fspath(folder),
        )


def _note_origin(folder: Path, url: str, manifests: Iterable[bytes]) -> None:
    """Notes which datasets of this folder are on a store as well: they may be replaced."""
    digests = dict.fromkeys(map(_sha256, manifests))
    origin = {"url": url, "manifests": [*digests]}
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
        text = _local_manifest(folder)
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
            _note_origin(folder, store.url, [text])


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
        earlier = store.manifest()
        missing = _missing_on(store, files)
        if earlier is not None and earlier.text == text and not missing:
            return
        _put(store, {name: files[name] for name in missing}, earlier is not None, progress)
        store.files.pipe_file(store.path_of(MANIFEST_NAME), text)
        if earlier is not None:
            _remove_obsolete(store, earlier.manifest, files, text)
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
    if replaces:
        with suppress(FileNotFoundError):  # by another process that publishes
            store.files.rm_file(store.path_of(MANIFEST_NAME))
    protocols = store.files.protocol
    if _WITH_FOLDERS.intersection([protocols] if isinstance(protocols, str) else protocols):
        store.files.makedirs(store.path_of("").rstrip("/"), exist_ok=True)
    num_bytes = sum(path.stat().st_size for path in files.values())
    with _progress_bar("publish", num_bytes, progress) as bar:

        def put(name: str) -> None:
            store.files.put_file(os.fspath(files[name]), store.path_of(name))
            bar.update(files[name].stat().st_size)

        store.call(put, files, reads=False)


def _remove_obsolete(
    store: RemoteFolder, earlier: Manifest, files: Mapping[str, Path], text: bytes
) -> None:
    """Removes what the earlier dataset alone has had, while nobody else publishes."""
    published = store.manifest()
    if published is None or published.text != text:
        return
    for name in {entry.name for entry in earlier.entries()} - files.keys():
        with suppress(FileNotFoundError):
            store.files.rm_file(store.path_of(name))
