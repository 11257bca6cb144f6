"""The folder of a dataset while it changes: recovery from a killed writer, and the commit.

Builds, changes, fetches and publishing to a local disk all commit here, under the folder's lock. Of
ranks that build or change one folder together, one does it, and the others wait.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from graphzero.errors import FormatError
from graphzero.store.atomic import is_staging_name, write_atomically
from graphzero.store.manifest import (
    MANIFEST_NAME,
    Manifest,
    encode_manifest,
    finish_renames,
    read_manifest,
)
from graphzero.units import require_local

_T = TypeVar("_T")

# How often a rank looks whether another one has built the folder, in seconds.
_POLL = 0.05


def complete_commit(folder: Path) -> Manifest | None:
    """Gives the files of a committed dataset their names, which a kill prevents; needs the lock.

    Returns
    -------
    Manifest or None
        Of the dataset in the folder.

    Raises
    ------
    FormatError
        If this version cannot read the manifest. Nothing was changed.
    """
    try:
        manifest = read_manifest(folder)
    except FileNotFoundError:
        return None
    finish_renames(folder, manifest)
    return manifest


def remove_staged(folder: Path) -> None:
    """Removes what killed writers have left; after `complete_commit`, under the same lock."""
    for name in filter(is_staging_name, os.listdir(folder)):
        (folder / name).unlink(missing_ok=True)


def recover(folder: Path) -> Manifest | None:
    """Completes a killed build that was committed, else removes its files; needs the lock.

    Returns
    -------
    Manifest or None
        Of the dataset in the folder.
    """
    try:
        manifest = complete_commit(folder)
    except FormatError:
        # Perhaps of a later version, whose staged files are in use: leave all files alone.
        return None
    remove_staged(folder)
    return manifest


def recover_dataset(folder: Path) -> Manifest:
    """The dataset that is about to change, after `recover`; needs the lock.

    Raises
    ------
    FileNotFoundError
        If the folder has none.
    FormatError
        If this version cannot read it, or files of several versions lie together.
    """
    recover(folder)
    manifest = read_manifest(folder)
    for entry in manifest.entries():
        with suppress(FileNotFoundError):  # it may be what the change mends
            entry.check(folder)
    return manifest


def is_committed(folder: Path, manifest: Manifest) -> bool:
    """Whether this is the manifest of a folder."""
    with suppress(FileNotFoundError, FormatError):
        return read_manifest(folder) == manifest
    return False


def commit(
    folder: Path, earlier: Manifest | None, manifest: Manifest, text: bytes | None = None
) -> None:
    """Replaces the manifest by one of staged files, and gives these their names; needs the lock.

    Whatever interrupts this: until the manifest is replaced, the earlier dataset is complete; from
    then on, the new one is.

    Parameters
    ----------
    folder : pathlib.Path
    earlier : Manifest or None
        Of the dataset in the folder.
    manifest : Manifest
        Each of its files is in the folder, under the staged or the final name.
    text : bytes, optional
        The content of the manifest, where it was read elsewhere.
    """
    names = {entry.name for entry in manifest.entries()}
    before = [] if earlier is None else earlier.entries()
    obsolete = [entry for entry in before if entry.name not in names]
    try:
        # Under its staged name, each is found by the earlier manifest, and removed by `recover`
        # once there is another.
        for entry in obsolete:
            with suppress(FileNotFoundError):
                os.rename(folder / entry.name, folder / entry.staged)
        write_atomically(folder / MANIFEST_NAME, text or encode_manifest(manifest))
    except BaseException:
        if earlier is not None and not is_committed(folder, manifest):
            finish_renames(folder, earlier)
        raise
    try:
        finish_renames(folder, manifest)
    except KeyboardInterrupt:
        # The dataset is complete either way; finish the renames all the same.
        finish_renames(folder, manifest)
        raise
    for entry in obsolete:
        (folder / entry.staged).unlink(missing_ok=True)


# Ranks that build one folder


class _RankStore(Protocol):
    """A ``torch.distributed.Store``: what the ranks of a program can all read and write."""

    def add(self, key: str, amount: int) -> int: ...

    def check(self, keys: list[str]) -> bool: ...

    def compare_set(self, key: str, expected: str, desired: str) -> bytes: ...

    def get(self, key: str) -> bytes: ...

    def set(self, key: str, value: str) -> None: ...


# What the rank that builds tells the others: "host" and "manifest" that was built, or "error".
_Outcome = dict[str, str | None]


def once(path: str | os.PathLike[str], write: Callable[[], _T]) -> _T | None:
    """Builds a folder. Of the ranks that do so, the first one builds.

    The others wait, and None is returned to them. The first build of a folder by one rank is the
    first build of it by the others, and so on. No rank waits for one that may never come, so that
    one rank may also build alone, or each a folder of its own. Hosts that do not share the folder
    build one each.

    Parameters
    ----------
    path : path-like
    write : callable
        Builds the folder.

    Raises
    ------
    RuntimeError
        If the rank that builds has failed or ended, or has built the folder again since.
    """
    require_local(path)
    store, rank = _store_of_ranks()
    if store is None:
        return write()
    folder, host = os.path.realpath(path), socket.gethostname()
    number = store.add(f"graphzero/{folder}/builds of rank {rank}", 1)
    key = f"graphzero/{folder}/{number}"
    outcome, result = _first(store, key, host, folder, write)
    if outcome["host"] != host and outcome["manifest"] != _content(folder):
        outcome, result = _first(store, f"{key}/{host}", host, folder, write)
    if outcome["manifest"] != _content(folder):
        raise RuntimeError(
            f"{folder} has changed before all ranks had opened it: give each graph a folder of "
            f"its own, or call torch.distributed.barrier() between builds and changes"
        )
    return result


def _store_of_ranks() -> tuple[_RankStore | None, int]:
    """The store and the rank of this process; no store with one rank, or without torch."""
    group = getattr(sys.modules.get("torch"), "distributed", None)  # never imported for this
    if group is None or not group.is_available():
        return None, 0
    if group.is_initialized():
        if group.get_world_size() == 1:
            return None, 0
        return group.distributed_c10d._get_default_store(), group.get_rank()
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # torchrun's, before any group
        store, rank, _ = next(group.rendezvous("env://"))
        return store, rank
    return None, 0


def _content(folder: str) -> str | None:
    """What tells one build of a folder from all others: names in it are random."""
    with suppress(OSError):
        return (Path(folder) / MANIFEST_NAME).read_text()
    return None


def _first(
    store: _RankStore, key: str, host: str, folder: str, write: Callable[[], _T]
) -> tuple[_Outcome, _T | None]:
    """Calls `write` if no other rank has; else waits for it. What was built, and the result."""
    process, result = {"host": host, "pid": os.getpid()}, None
    builder = json.loads(store.compare_set(f"{key}/builder", "", json.dumps(process)))
    if builder == process:
        try:
            result = write()
        except BaseException as error:
            store.set(key, json.dumps({"error": f"{type(error).__name__}: {error}"}))
            raise
        store.set(key, json.dumps({"host": host, "manifest": _content(folder)}))
    while not store.check([key]):
        if (
            builder["host"] == host
            and _process_has_ended(builder["pid"])
            and not store.check([key])
        ):
            store.set(key, json.dumps({"error": "it has ended meanwhile"}))
        time.sleep(_POLL)
    outcome: _Outcome = json.loads(store.get(key))
    if "error" in outcome:
        raise RuntimeError(
            f"{folder} was not built: process {builder['pid']} on {builder['host']} was to build "
            f"it for all ranks, and failed: {outcome['error']}"
        )
    return outcome, result


def _process_has_ended(pid: int) -> bool:
    import psutil  # only where ranks build

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)  # nobody waited for it
    except psutil.NoSuchProcess:
        return True
