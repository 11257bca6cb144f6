"""`Recording`: everything that a `Monitor` has seen of one run, and its JSON form.

A figure that the system does not provide is None, and `Recording.unknown` says why. Counters
(faults, bytes read, seconds of processor time) count from the start of their process or machine, so
that the difference of two readings is what happened between them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphzero.errors import FormatError
from graphzero.loader.stats import BatchTotals

VERSION = 2
FORMAT = "graphzero.Recording"
Reasons = dict[str, str]  # figure -> why it is unknown

ENDED = 0  # in place of a pid: the processes that have ended, with what they counted
COUNTERS = ("major_faults", "read_bytes", "cpu_seconds")


@dataclass(frozen=True)
class ProcessReading:
    """One process at one moment; bytes, but for the counters.

    Attributes
    ----------
    pid : int
    name : str
        What the process is called in reports.
    rss : int or None
        Resident set size: `anonymous` + `file` + `shared`.
    anonymous, file, shared : int or None
        Parts of it: the process's own memory; mapped pages of files, shared with the page cache;
        shared memory. Pages that a fork shares stand in the figures of both processes.
    pss, pss_anonymous, pss_file, pss_shared : int or None
        The same, where each page is divided among the processes that have it: the sum over
        processes counts every page once.
    major_faults : int or None
        Counter: page faults that waited for the disk.
    read_bytes : int or None
        Counter: bytes that the process has caused to be read from storage.
    cpu_seconds : float or None
        Counter: user and system time.
    """

    pid: int
    name: str
    rss: int | None = None
    anonymous: int | None = None
    file: int | None = None
    shared: int | None = None
    pss: int | None = None
    pss_anonymous: int | None = None
    pss_file: int | None = None
    pss_shared: int | None = None
    major_faults: int | None = None
    read_bytes: int | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class GroupReading:
    """The memory control group that bounds a run, at one moment.

    Attributes
    ----------
    version : int
        Of the interface, 1 or 2.
    limit : int or None
        Bytes; None without a limit.
    usage : int or None
        Bytes that are charged to the group.
    anonymous, file, shared : int or None
        Parts of it: memory of processes; pages of files; shared memory. The rest is the kernel's.
    refaults : int or None
        Counter: pages of files that had to be read again (``workingset_refault``).
    kills : int or None
        Counter: processes that the kernel has killed.
    peak : int or None
        The most that `usage` has ever been, as the kernel keeps it. None on older kernels, and in
        older recordings.
    """

    version: int
    limit: int | None = None
    usage: int | None = None
    anonymous: int | None = None
    file: int | None = None
    refaults: int | None = None
    kills: int | None = None
    shared: int | None = None
    peak: int | None = None


@dataclass(frozen=True)
class Reading:
    """Everything at one moment.

    Attributes
    ----------
    seconds : float
        Since the recording began.
    processes : tuple of ProcessReading
        The process and its children, and with the pid `ENDED`, those of them that have ended: they
        take no memory, and their counters are as they were last seen, with what their parents have
        got beyond that. So the sum of a counter over all of these never falls.
    available : int or None
        Bytes of memory that the machine has available.
    group : GroupReading or None
    page_cache : dict of str to int, or None
        Bytes of each file in the page cache, by path, each page once; without the files of which
        this is unknown. None where no look was taken at this moment.
    device_bytes : int or None
        Counter: bytes that were read from the device that holds the dataset, by anyone.
    batches : BatchTotals
        Counter: of all processes, since the recording began.
    """

    seconds: float
    processes: tuple[ProcessReading, ...]
    available: int | None
    group: GroupReading | None
    page_cache: dict[str, int] | None = None
    device_bytes: int | None = None
    batches: BatchTotals = field(kw_only=True)


@dataclass(frozen=True)
class FileReading:
    """One file of the dataset, at the end of the recording.

    Attributes
    ----------
    path : str
    size : int
        In bytes.
    page_cache : int or None
        Bytes of it in the page cache.
    residency : tuple of float, or None
        Share of each of equally many pages, from the beginning to the end of the file, that is in
        the page cache.
    most_cached : int or None
        The most bytes of it that were in the page cache at any reading.
    """

    path: str
    size: int
    page_cache: int | None = None
    residency: tuple[float, ...] | None = None
    most_cached: int | None = None


@dataclass(frozen=True)
class Environment:
    """What a reader needs to judge the figures; None for what is unknown.

    Attributes
    ----------
    cpu : str or None
    cores : int or None
        That the process may use.
    memory : int or None
        Bytes.
    system : str
        Operating system and kernel.
    disk, file_system : str or None
        Model of the disk that holds the dataset, and its file system.
    disk_rate : float or None
        Bytes a second of random reads that the disk was measured to give.
    versions : dict of str to str
        Of Python and packages.
    """

    cpu: str | None = None
    cores: int | None = None
    memory: int | None = None
    system: str = ""
    disk: str | None = None
    file_system: str | None = None
    disk_rate: float | None = None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """One run, from the beginning of a `Monitor` to its end.

    Attributes
    ----------
    command : tuple of str
        The command line of the observed process.
    started : str
        ISO 8601, UTC.
    seconds : float
    environment : Environment
    readings : tuple of Reading
        In the order of time; of long runs some are left out, evenly, never the first or the last.
    files : tuple of FileReading
    epochs : dict of int to BatchTotals
        By epoch of the training loop's passes.
    options : dict of str to str
        Of the iterations that were seen: fanouts, batch size, workers, prefetch, plan.
    own_cpu_seconds : float
        What the recording itself took.
    unknown : dict of str to str
        Figures that are unknown, and why.
    exit_code : int or None
        Of a command; 128 and the number of the signal that has ended it. None for a `Monitor`.
    """

    command: tuple[str, ...]
    started: str
    seconds: float
    environment: Environment
    readings: tuple[Reading, ...]
    files: tuple[FileReading, ...]
    epochs: dict[int, BatchTotals]
    options: dict[str, str] = field(default_factory=dict)
    own_cpu_seconds: float = 0.0
    unknown: dict[str, str] = field(default_factory=dict)
    exit_code: int | None = None


def note(unknown: Reasons | None, figures: str | Iterable[str], reason: str) -> None:
    """Enters why figures are unknown; the first reason of a figure stays."""
    if unknown is not None:
        for figure in (figures,) if isinstance(figures, str) else figures:
            unknown.setdefault(figure, reason)


def from_json(text: str | bytes) -> Recording:
    """The recording that `to_json` has written; its summary is computed anew.

    Raises
    ------
    FormatError
        If it is none, of a version that is not known, or a field of it is missing.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FormatError(f"is no recording: it lacks 'format': {FORMAT!r}")
    version = content.get("version")
    if version != VERSION:
        raise FormatError(
            f"is a recording of version {version!r}, and this graphzero reads version {VERSION}: "
            f"use the graphzero that wrote it, or record again"
        )
    try:
        return _decoded(content["recording"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"is a recording that is not complete: {error}") from None


def _decoded(found: dict[str, Any]) -> Recording:
    """The recording that `asdict` and JSON have made plain."""

    def reading(each: dict[str, Any]) -> Reading:
        processes = tuple(ProcessReading(**process) for process in each["processes"])
        group = None if each["group"] is None else GroupReading(**each["group"])
        made = {"processes": processes, "group": group, "batches": BatchTotals(**each["batches"])}
        return Reading(**{**each, **made})

    def file(each: dict[str, Any]) -> FileReading:
        shares = each["residency"]
        return FileReading(**{**each, "residency": None if shares is None else tuple(shares)})

    made = {
        "command": tuple(found["command"]),
        "environment": Environment(**found["environment"]),
        "readings": tuple(map(reading, found["readings"])),
        "files": tuple(map(file, found["files"])),
        "epochs": {int(epoch): BatchTotals(**each) for epoch, each in found["epochs"].items()},
    }
    return Recording(**{**found, **made})


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Reads a file of `write_recording`.

    Raises
    ------
    FormatError
        As `from_json`, with the path.
    """
    try:
        return from_json(Path(path).read_bytes())
    except FormatError as error:
        raise FormatError(f"{os.fspath(path)} {error}") from None
