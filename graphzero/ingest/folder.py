"""The dataset folder during a build: its staged files, and ranks that build one together."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from graphzero.errors import user_place
from graphzero.ingest.sources.tables import InputFiles
from graphzero.store.folder import commit, is_committed
from graphzero.store.format import FileWriter, encode_header, header_checksum
from graphzero.store.manifest import MANIFEST_NAME, FileEntry, Manifest
from graphzero.units import require_local

_T = TypeVar("_T")

# How often a rank looks whether another one has built the folder, in seconds.
_POLL = 0.05
# How many builds of a folder a line of the user's program has begun.
_BEGUN: Counter[tuple[str, str]] = Counter()


def entry_of(file: FileWriter) -> FileEntry:
    """Manifest entry of a sealed file."""
    checksum = header_checksum(encode_header(file.header))
    return FileEntry(file.path.name, file.staged_path.name, checksum)


def replace_dataset(
    folder: Path,
    earlier: Manifest | None,
    write: Callable[[list[FileWriter]], Manifest],
    inputs: InputFiles | None = None,
) -> Manifest:
    """Replaces the earlier dataset by a new one, or changes nothing, as `commit`; needs the lock.

    Parameters
    ----------
    folder : pathlib.Path
    earlier : Manifest or None
        Of the dataset in the folder.
    write : callable
        Takes a list, appends each file that it has staged, and returns the new manifest.
    inputs : InputFiles, optional
        What `write` reads, which must not change meanwhile.
    """
    staged: list[FileWriter] = []
    try:
        manifest = write(staged)
        names = Counter(entry.name for entry in manifest.entries())
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(
                f"an edge attribute and an edge split would both be stored in {twice[0]}: choose "
                f"another name for one of them"
            )
        if inputs is not None:
            inputs.require_unchanged()
    except BaseException:
        for file in staged:
            file.discard()
        raise
    try:
        commit(folder, earlier, manifest)
    except BaseException:
        if not is_committed(folder, manifest):
            for file in staged:
                file.discard()
        raise
    return manifest


# --- ranks that build one folder


def once(path: str | os.PathLike[str], write: Callable[[], _T]) -> _T | None:
    """Builds a folder. Of the ranks that do so in one line of their program, the first one builds.

    The others wait, and None is returned to them. No rank waits for one that may never come, so
    that one rank may also build alone, or each a folder of its own. Hosts that do not share the
    folder build one each.

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
    store = _store_of_ranks()
    if store is None:
        return write()
    folder, host = os.path.realpath(path), socket.gethostname()
    line = user_place()
    _BEGUN[folder, line] += 1
    key = f"graphzero/{folder}/{line}/{_BEGUN[folder, line]}"
    told, built = _first(store, key, host, folder, write)
    if told["host"] != host and told["manifest"] != _content(folder):
        told, built = _first(store, f"{key}/{host}", host, folder, write)
    if told["manifest"] != _content(folder):
        raise RuntimeError(
            f"{folder} has changed before all ranks had opened it: give each graph a folder of "
            f"its own, or call torch.distributed.barrier() between builds and changes"
        )
    return built


def _store_of_ranks() -> Any:
    """What the ranks of a program can all read and write; None with one rank, or without torch."""
    group = getattr(sys.modules.get("torch"), "distributed", None)  # never imported for this
    if group is None or not group.is_available():
        return None
    if group.is_initialized():
        return group.distributed_c10d._get_default_store() if group.get_world_size() > 1 else None
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # torchrun's, before any group
        return next(group.rendezvous("env://"))[0]
    return None


def _content(folder: str) -> str | None:
    """What tells one build of a folder from all others: names in it are random."""
    with suppress(OSError):
        return (Path(folder) / MANIFEST_NAME).read_text()
    return None


def _first(
    store: Any, key: str, host: str, folder: str, write: Callable[[], _T]
) -> tuple[dict[str, Any], _T | None]:
    """Calls `write` if no other rank has; else waits for it. What was built, and the result."""
    me, built = {"host": host, "pid": os.getpid()}, None
    first = json.loads(store.compare_set(f"{key}/builder", "", json.dumps(me)))
    if first == me:
        try:
            built = write()
        except BaseException as error:
            store.set(key, json.dumps({"error": f"{type(error).__name__}: {error}"}))
            raise
        store.set(key, json.dumps({"host": host, "manifest": _content(folder)}))
    while not store.check([key]):
        if first["host"] == host and _has_ended(first["pid"]) and not store.check([key]):
            store.set(key, json.dumps({"error": "it has ended meanwhile"}))
        time.sleep(_POLL)
    told: dict[str, Any] = json.loads(store.get(key))
    if "error" in told:
        raise RuntimeError(
            f"{folder} was not built: process {first['pid']} on {first['host']} was to build it "
            f"for all ranks, and failed: {told['error']}"
        )
    return told, built


def _has_ended(pid: int) -> bool:
    import psutil  # only where ranks build

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)  # nobody waited for it
    except psutil.NoSuchProcess:
        return True
