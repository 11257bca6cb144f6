"""The cache state in which every trial begins: no page of the dataset's files in memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from graphzero import _core
from graphzero.store.manifest import read_manifest
from graphzero.store.residency import resident_bytes

__all__ = ["dataset_files", "drop_files", "share_in_memory"]

_ATTEMPTS = 3
_ENOUGH = 0.01  # of the files' bytes: what the kernel reads along, such as the headers


def dataset_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The files that ``dataset.json`` names.

    Raises
    ------
    FileNotFoundError, FormatError
        As `read_manifest`.
    """
    return [entry.resolve(Path(folder)) for entry in read_manifest(folder).entries()]


def drop_files(paths: Iterable[str | os.PathLike[str]]) -> float | None:
    """Drops files from the page cache. Pages that a process has mapped and used stay.

    Returns
    -------
    float or None
        Share of their bytes that is in memory afterwards; None if this is unknown.
    """
    found, stayed = list(paths), None
    for attempt in range(_ATTEMPTS):
        time.sleep(0.2 * attempt)  # pages that are being read cannot be dropped
        for path in found:
            _drop(path)
        stayed = share_in_memory(found)
        if stayed is None or stayed <= _ENOUGH:
            break
    return stayed


def share_in_memory(paths: Iterable[str | os.PathLike[str]]) -> float | None:
    """Share of the bytes of files that is in the page cache; None if this is unknown."""
    total = cached = 0
    for path in paths:
        with closing(_core.Mapping(path)) as mapping:
            resident = resident_bytes(mapping)
            if resident is None:
                return None
            total += mapping.size
            cached += resident
    return cached / total if total else 0.0


def _drop(path: str | os.PathLike[str]) -> None:
    if not hasattr(os, "posix_fadvise"):  # macOS
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # pages that are not on the disk yet cannot be dropped
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
