"""`Observed`: a process with its children, the machine below it, and the files that it reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from graphzero.report.readings.environment import read_environment
from graphzero.report.readings.files import mapped_files
from graphzero.report.readings.memory_group import find_group
from graphzero.report.readings.page_cache import CachedFiles
from graphzero.report.readings.process_files import is_kernel_thread
from graphzero.report.readings.processes import ProcessTree, descendants
from graphzero.report.readings.reasons import Reasons, note
from graphzero.report.readings.storage import Device, find_device
from graphzero.report.readings.system import read_system
from graphzero.report.recording import (
    Environment,
    FileReading,
    GroupReading,
    ProcessReading,
    SystemReading,
)
from graphzero.store.manifest import read_manifest

__all__ = ["Observed", "files_of"]

_PARTS = 512  # of a file's map


class Observed:
    """Where the readings of one process and its children come from.

    Parameters
    ----------
    pid : int
    files : sequence of str
        Of the dataset, as far as they are known.

    Attributes
    ----------
    user : int or None
        Whose process it is, if not this user's.

    Raises
    ------
    ProcessLookupError
        If there is no such process.
    ValueError
        If it is a thread of the kernel.
    """

    def __init__(self, pid: int, files: Sequence[str] = ()) -> None:
        self._unknown: Reasons = {}
        self._pid = pid
        try:
            self._process = psutil.Process(pid)
            user = self._process.uids().real
        except psutil.NoSuchProcess:
            raise ProcessLookupError(f"there is no process {pid}") from None
        except psutil.AccessDenied:
            user = os.getuid()
        if is_kernel_thread(pid):
            raise ValueError(
                f"process {pid} is a thread of the kernel, which has no memory of its own: "
                f"name the process of a program"
            )
        self.user = None if user == os.getuid() else user
        self._tree = ProcessTree(pid, unknown=self._unknown)
        self._group = find_group(pid, unknown=self._unknown)
        self._files = CachedFiles(files, self._unknown)
        self._device: Device | None = None
        self._was_seen = False
        self._size = _size_of(self._files.paths)
        self._find_device()

    @property
    def unknown(self) -> Mapping[str, str]:
        """Figures that are unknown, and why."""
        reasons = dict(self._unknown)
        if self._was_seen:
            reasons.pop("processes", None)  # that it has ended since is no fault
        if not self._files.paths:
            reasons.setdefault("page_cache", "no file of a dataset was seen")
            reasons.setdefault("device_bytes", "no file of a dataset was seen")
        return reasons

    def command(self) -> tuple[str, ...]:
        """The command line of the observed process."""
        try:
            return tuple(self._process.cmdline())
        except psutil.Error:
            return ()

    def pids(self) -> Sequence[int]:
        """The process and its children; nothing once the process has ended."""
        try:
            if self._pid != os.getpid() and not self._process.is_running():
                return ()
        except psutil.Error:
            return ()
        return tuple(descendants(self._pid))

    def processes(self, *, with_pss: bool) -> tuple[ProcessReading, ...]:
        """Readings of them, and of those that have ended."""
        found = self._tree.read(with_pss=with_pss)
        self._was_seen = self._was_seen or bool(found)
        return (*found, self._tree.counters.ended)

    def system(self) -> SystemReading:
        """The machine's memory."""
        return read_system(self._unknown)

    def group(self) -> GroupReading | None:
        """The memory group that bounds the process."""
        return None if self._group is None else self._group.read(self._unknown)

    def device_bytes(self) -> int | None:
        """What was read from the disk that has the dataset, by anyone."""
        return None if self._device is None else self._device.bytes_read(self._unknown)

    def add_files(self, paths: Iterable[str]) -> None:
        """Observes further files."""
        before = self._files.paths
        self._files.add(paths)
        if self._files.paths != before:
            self._size = _size_of(self._files.paths)
            self._find_device()

    def add_mapped_files(self, pids: Iterable[int]) -> None:
        """Observes the files of datasets that processes have mapped."""
        self.add_files(mapped_files(pids, unknown=self._unknown))

    @property
    def size(self) -> int:
        """Of the observed files, in bytes."""
        return self._size

    def page_cache(self) -> dict[str, int]:
        """Bytes of the observed files in the page cache, without those where it is unknown."""
        return self._files.read()

    def files(self) -> tuple[FileReading, ...]:
        """The observed files, with maps of their residency."""
        found = self._files.read_parts(_PARTS)
        if self._files.paths and not found:
            note(self._unknown, "files", "the dataset's files were deleted, or cannot be opened")
        return found

    def environment(self) -> Environment:
        """The machine, and the disk that has the dataset."""
        paths = self._files.paths
        return read_environment(paths[0] if paths else None, self._unknown)

    def close(self) -> None:
        """Closes the files."""
        self._files.close()

    def _find_device(self) -> None:
        paths = self._files.paths
        if self._device is None and paths and "device_bytes" not in self._unknown:
            self._device = find_device(paths[0], unknown=self._unknown)


def _size_of(paths: Iterable[str]) -> int:
    total = 0
    for path in paths:
        with suppress(OSError):  # it was deleted
            total += os.stat(path).st_size
    return total


def files_of(dataset: Any) -> tuple[str, ...]:
    """The files of what `Monitor` takes as its dataset.

    Raises
    ------
    TypeError
        If it is none of these.
    FormatError
        If a folder is no dataset.
    FileNotFoundError
        If there is nothing at a path.
    """
    if dataset is None:
        return ()
    if isinstance(dataset, list | tuple):
        return tuple(path for each in dataset for path in files_of(each))
    if hasattr(dataset, "mappings"):
        return tuple(os.path.realpath(mapping.path) for mapping in dataset.mappings)
    if not isinstance(dataset, str | os.PathLike):
        raise TypeError(
            f"dataset must be a path, a Dataset, or a list of these, not {type(dataset).__name__}"
        )
    path = Path(dataset)
    if path.is_dir():
        return tuple(os.path.realpath(e.resolve(path)) for e in read_manifest(path).entries())
    return (os.path.realpath(path.resolve(strict=True)),)
