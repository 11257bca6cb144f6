"""`Recording`: everything that a `Monitor` has seen of one run, and its JSON form.

A figure that the system does not provide is None. Counters (faults, bytes read, seconds of
processor time) count from the start of their process or machine, so that the difference of two
readings is what happened between them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphzero.errors import FormatError
from graphzero.loader.stats import BatchTotals

VERSION = 3
FORMAT = "graphzero.Recording"


@dataclass(frozen=True)
class ProcessReading:
    """One process at one moment; bytes, but for the counters.

    Counters have what ended children have counted, once the process has waited for them.

    Attributes
    ----------
    pid : int
    name : str
        Of its program.
    rss : int
        Resident set size: `anonymous` + `file` + `shared`.
    anonymous, file, shared : int or None
        Parts of it: the process's own memory; mapped pages of files, shared with the page cache;
        shared memory. Pages that a fork shares stand in the figures of both processes.
    pss, pss_anonymous, pss_file : int or None
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
    rss: int
    anonymous: int | None = None
    file: int | None = None
    shared: int | None = None
    pss: int | None = None
    pss_anonymous: int | None = None
    pss_file: int | None = None
    major_faults: int | None = None
    read_bytes: int | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class GroupReading:
    """The memory control group that bounds a run, at one moment.

    Attributes
    ----------
    limit : int or None
        Bytes; None without a limit.
    usage : int or None
        Bytes that are charged to the group.
    file : int or None
        The pages of files in it.
    kills : int or None
        Counter: processes that the kernel has killed.
    """

    limit: int | None = None
    usage: int | None = None
    file: int | None = None
    kills: int | None = None


@dataclass(frozen=True)
class Reading:
    """Everything at one moment.

    Attributes
    ----------
    seconds : float
        Since the recording began.
    processes : tuple of ProcessReading
        The process and its children, as far as they run.
    available : int
        Bytes of memory that the machine has available.
    group : GroupReading or None
    page_cache : dict of str to int, or None
        Bytes of each file in the page cache, by path, each page once; without the files of which
        this is unknown. None where no look was taken at this moment.
    device_bytes : int or None
        Counter: bytes that were read from the device that holds the dataset, by anyone.
    batches : BatchTotals
        Counter: of all processes, since the recording began.
    busy_seconds : float or None
        Counter: that any program used the processors that the process may use.
    """

    seconds: float
    processes: tuple[ProcessReading, ...]
    available: int
    group: GroupReading | None = None
    page_cache: dict[str, int] | None = None
    device_bytes: int | None = None
    batches: BatchTotals = field(default_factory=BatchTotals)
    busy_seconds: float | None = None


@dataclass(frozen=True)
class FileReading:
    """One file of the dataset, at the end of the recording.

    Attributes
    ----------
    path : str
    size : int
        In bytes.
    page_cache : int or None
        Bytes of it in the page cache. The kernel tells only owners and writers of a file.
    residency : list of float, or None
        Share of each of equally many pages, from the beginning to the end of the file, that is in
        the page cache.
    """

    path: str
    size: int
    page_cache: int | None = None
    residency: list[float] | None = None


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
    environment : dict of str to str, int, float or None
        What a reader needs to judge the figures: the machine with the disk that holds the dataset,
        and versions.
    readings : tuple of Reading
        In the order of time; of long runs some are left out, evenly, never the first or the last.
    files : tuple of FileReading
    epochs : dict of int to BatchTotals
        By epoch of the training loop's passes.
    options : dict of str to str
        Of the iterations that were seen: workers, threads, plan. The order of the dataset's nodes,
        and ``OMP_WAIT_POLICY``, where they are known.
    exit_code : int or None
        Of a command; 128 and the number of the signal that has ended it. None for a `Monitor`.
    """

    command: tuple[str, ...]
    started: str
    seconds: float
    environment: dict[str, object]
    readings: tuple[Reading, ...]
    files: tuple[FileReading, ...] = ()
    epochs: dict[int, BatchTotals] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    exit_code: int | None = None


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file of `write_recording`; its summary is computed anew.

    Raises
    ------
    FormatError
        If it is none, of a version that is not known, or a field of it is missing.
    """
    name = os.fspath(path)
    try:
        content = json.loads(Path(path).read_bytes())
        kind = content["format"], content["version"]
        if kind == (FORMAT, VERSION):
            return _recording_of(content["recording"])
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{name} is not a whole recording: {error!r:.200}") from None
    raise FormatError(
        f"{name} is of the format and version {kind!r:.80}, not {FORMAT!r} and {VERSION}: record "
        f"again, or use the graphzero that wrote it"
    )


def _recording_of(content: dict[str, Any]) -> Recording:
    """The recording that `asdict` and JSON have made plain."""
    recording = Recording(**content)
    epochs = content["epochs"].items()
    return replace(
        recording,
        command=tuple(recording.command),
        readings=tuple(_reading_of(reading) for reading in content["readings"]),
        files=tuple(FileReading(**file) for file in content["files"]),
        epochs={int(epoch): BatchTotals(**totals) for epoch, totals in epochs},
    )


def _reading_of(content: dict[str, Any]) -> Reading:
    group = content["group"]
    return replace(
        Reading(**content),
        processes=tuple(ProcessReading(**process) for process in content["processes"]),
        group=None if group is None else GroupReading(**group),
        batches=BatchTotals(**content["batches"]),
    )
