"""The rate of the disk below a file, measured by reads past the page cache."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psutil

from graphzero import _core
from graphzero.units import format_bytes

BLOCK_BYTES = 4096  # of a random read
SEQUENTIAL = {"block_bytes": 1 << 20, "depth": 8, "sequential": True}
LEAST_BYTES = 4 << 20
# Of the whole time: reads that load the file's metadata, many at a time, one at a time, sequential.
SHARES = {"first": 0.05, "many": 0.45, "one": 0.2, "sequential": 0.3}


@dataclass(frozen=True)
class DiskRate:
    """Rates of one disk, seen through one file; None for what was not measured.

    Attributes
    ----------
    path : str
        The file that was read.
    file_bytes : int
    engine : {"uring", "pread"}
        io_uring, or threads.
    depth : int
        Random reads under way at a time.
    reads_per_second, bytes_per_second : float or None
        Of random reads of 4 KiB, `depth` at a time.
    latency_p50, latency_p99 : float or None
        Seconds of a random read alone.
    queued_latency_p50, queued_latency_p99 : float or None
        Seconds of a random read among `depth`.
    sequential_bytes_per_second : float or None
        Of blocks of 1 MiB, one after the other, 8 under way at a time.
    seconds : float
        That the measurement took.
    unavailable : str or None
        Why there are no rates.
    """

    path: str
    file_bytes: int
    engine: str
    depth: int
    reads_per_second: float | None = None
    bytes_per_second: float | None = None
    latency_p50: float | None = None
    latency_p99: float | None = None
    queued_latency_p50: float | None = None
    queued_latency_p99: float | None = None
    sequential_bytes_per_second: float | None = None
    seconds: float = 0.0
    unavailable: str | None = None


def largest_file(paths: Iterable[str | os.PathLike[str]]) -> str:
    """The largest of some files, which `measure_disk` is best given."""
    return max((os.fspath(path) for path in paths), key=os.path.getsize)


def measure_disk(
    path: str | os.PathLike[str], *, seconds: float = 2.5, depth: int = 128
) -> DiskRate:
    """Reads a file for some seconds, past the page cache, at random and from one block to the next.

    Nothing is written. Ctrl-C ends the measurement within about a tenth of a second.

    Parameters
    ----------
    path : path-like
        Best the largest file of a dataset (`largest_file`): the memory of the disk itself, or of
        the machine that lends it, may hold a small file or one that was read just before, and
        answers faster than the disk.
    seconds : float
        Of the whole measurement.
    depth : int
        Random reads under way at a time: 1 to 4096, with threads 1 to 512.

    Returns
    -------
    DiskRate
        With `unavailable` where the file system has no reads past the page cache, such as tmpfs,
        where it answers from elsewhere than the disk, or the file has less than 4 MiB.

    Raises
    ------
    OSError
        If the file cannot be opened or read.
    FormatError
        If the file is truncated meanwhile.
    ValueError
        If an argument is out of range.
    """
    path = os.path.abspath(os.fspath(path))
    if not 0 < seconds < math.inf:
        raise ValueError(f"seconds must be positive and finite, not {seconds}")
    engine = "uring" if _core.uring_refusal() is None else "pread"
    with closing(_core.Mapping(path)) as mapping:  # refuses what is no file
        size = mapping.size
    begun, seed = time.perf_counter(), secrets.randbits(64)

    def rate(unavailable: str | None = None, **rates: float) -> DiskRate:
        spent = time.perf_counter() - begun
        return DiskRate(path, size, engine, depth, **rates, seconds=spent, unavailable=unavailable)

    if size < LEAST_BYTES:
        least = format_bytes(LEAST_BYTES)
        return rate(f"{path} has {format_bytes(size)}: a disk is measured with at least {least}")
    before = _read_bytes()
    found: dict[str, dict[str, Any]] = {}
    for number, (part, share) in enumerate(SHARES.items()):
        options: dict[str, Any] = {"block_bytes": BLOCK_BYTES, "depth": depth}
        options |= {"depth": 1} if part == "one" else {}
        options |= SEQUENTIAL if part == "sequential" else {}
        options |= {"engine": engine, "seed": (seed + number) % 2**64}
        answer = _core.probe_disk(path, seconds=seconds * share, **options)
        if answer is None:
            return rate(f"the file system of {path} has no reads past the page cache")
        found[part] = answer
    many, one, sequential = found["many"], found["one"], found["sequential"]
    after, read = _read_bytes(), sum(part["bytes"] for part in found.values())
    if before is not None and after is not None and after - before < 0.9 * read:
        return rate(
            f"the kernel counted {format_bytes(after - before)} of {format_bytes(read)} as read "
            f"from storage: {path} has holes, or its file system answers from elsewhere"
        )
    return rate(
        reads_per_second=many["reads"] / many["seconds"],
        bytes_per_second=many["bytes"] / many["seconds"],
        latency_p50=one["p50"],
        latency_p99=one["p99"],
        queued_latency_p50=many["p50"],
        queued_latency_p99=many["p99"],
        sequential_bytes_per_second=sequential["bytes"] / sequential["seconds"],
    )


def _read_bytes() -> int | None:
    """Counter: bytes that this process had read from storage; None where it is unknown."""
    try:
        return int(psutil.Process().io_counters().read_bytes)
    except (psutil.Error, OSError, AttributeError):  # macOS has no such counter
        return None
