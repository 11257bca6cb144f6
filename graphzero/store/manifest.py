"""``dataset.json``: which files make up a dataset, and the commit point of a build.

A build first writes every file under a staged name, then replaces ``dataset.json``, then renames
the staged files. Readers of the manifest prefer a staged name if that file still exists. So a
build that is killed before it replaces ``dataset.json`` leaves the earlier dataset, and a build
that is killed later leaves the new one.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from graphzero.errors import FormatError
from graphzero.store.atomic import replace_file, sync_folder, write_atomically
from graphzero.store.manifest_content import WRONG, content_of, parse_manifest
from graphzero.store.schema import (
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    Neighbors,
    NodeTable,
    Presampling,
    TypedManifest,
)

__all__ = [
    "MANIFEST_NAME",
    "AnyManifest",
    "EdgeTable",
    "EdgeType",
    "FileEntry",
    "Manifest",
    "Neighbors",
    "NodeTable",
    "Presampling",
    "TypedManifest",
    "finish_renames",
    "open_build",
    "read_manifest",
    "read_untyped",
    "write_manifest",
]

MANIFEST_NAME = "dataset.json"
_FORMAT = "graphzero-dataset"
# Version 1 does not say which neighbours are stored; where it cannot, it is written again.
_VERSIONS = (1, 2)
_MOST_TRIES = 100  # a rebuild, and each file that it renames, can fail one of them

AnyManifest = Manifest | TypedManifest

_T = TypeVar("_T")


def read_manifest(folder: str | os.PathLike[str]) -> AnyManifest:
    """The manifest of a dataset folder.

    Raises
    ------
    FileNotFoundError
        If the folder has no ``dataset.json``.
    FormatError
        If this version cannot read it.
    """
    path = Path(folder) / MANIFEST_NAME
    if path.exists() and not path.is_file():  # reading a pipe would wait for its writer
        raise FormatError(f"{path} is not a regular file: remove it, and build the dataset again")
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            2, f"no dataset here (no {MANIFEST_NAME}): build one with graphzero.build", str(folder)
        ) from None
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r:.80}")
        version = content["version"]
    except WRONG as error:
        raise FormatError(f"{path} is not a graphzero dataset: {error}; build it again") from None
    if isinstance(version, bool) or version not in _VERSIONS:
        raise FormatError(
            f"{path} has version {version!r:.80}, this graphzero reads versions 1 and 2: "
            f"use the graphzero that wrote it, or build it again"
        )
    try:
        return parse_manifest(content)
    except WRONG as error:
        raise FormatError(f"{path} is corrupt ({error!r}): build the dataset again") from None


def read_untyped(folder: str | os.PathLike[str], what: str) -> Manifest:
    """`read_manifest`, for what does not know node types and edge types.

    Parameters
    ----------
    folder : path-like
    what : str
        Beginning of the message, such as "reports of misses are".

    Raises
    ------
    ValueError
        If the dataset is typed.
    """
    manifest = read_manifest(folder)
    if isinstance(manifest, TypedManifest):
        raise ValueError(f"{what} for graphs without types only, and {folder} has node types")
    return manifest


def open_build(
    folder: str | os.PathLike[str],
    open_files: Callable[[AnyManifest], _T],
    close: Callable[[_T], object],
) -> _T:
    """Opens files of a dataset that all belong to one build, also while a rebuild replaces them.

    Parameters
    ----------
    folder : path-like
    open_files : callable
        Opens what the manifest names, by `FileEntry.resolve`; leaves nothing open if it raises.
    close : callable
        Closes what `open_files` returned, where it may be of two builds.

    Raises
    ------
    BlockingIOError
        If the dataset was replaced again and again meanwhile.
    FileNotFoundError, FormatError
        As `read_manifest`, and whatever `open_files` raises.
    """
    manifest = read_manifest(folder)
    for _ in range(_MOST_TRIES):
        found = [entry.resolve(Path(folder)) for entry in manifest.entries()]
        failure: Exception | None = None
        try:
            opened = open_files(manifest)
        except (OSError, ValueError) as error:
            failure = error
        before, manifest = manifest, read_manifest(folder)
        if manifest == before:
            if failure is None:
                return opened
            if found == [entry.resolve(Path(folder)) for entry in manifest.entries()]:
                raise failure
        elif failure is None:
            close(opened)
    raise BlockingIOError(
        errno.EWOULDBLOCK,
        f"the dataset was replaced {_MOST_TRIES} times while it was being opened: "
        f"open it when the builds have ended",
        os.fspath(folder),
    )


def write_manifest(folder: str | os.PathLike[str], manifest: AnyManifest) -> None:
    """Replaces ``dataset.json``: from then on, readers see the files that it names."""
    content = {"format": _FORMAT, **content_of(manifest)}
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(Path(folder) / MANIFEST_NAME, text.encode())


def finish_renames(folder: str | os.PathLike[str], manifest: AnyManifest) -> None:
    """Renames every file of a written manifest to its final name; can be repeated after a crash."""
    folder = Path(folder)
    for entry in manifest.entries():
        staged = folder / entry.staged
        if staged.exists():
            replace_file(staged, folder / entry.name)
    sync_folder(folder)
