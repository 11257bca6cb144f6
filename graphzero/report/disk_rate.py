"""What reads the disk below a file gives, measured past the page cache."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from graphzero import _core
from graphzero.units import format_bytes

__all__ = ["DiskRate", "largest_file", "measure_disk"]

SEQUENTIAL_BYTES, SEQUENTIAL_DEPTH = 1 << 20, 8
LEAST_BLOCKS = 4
BUSY = 0.25  # share of the processors' time
CLEARLY = 0.1  # share of the bytes read that is worth a note
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
    block_bytes : int
        Of a random read.
    depth : int
        Random reads under way at a time.
    engine : {"uring", "pread"}
        io_uring, or threads.
    reads_per_second, bytes_per_second : float or None
        Of random reads, `depth` at a time.
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
    notes : tuple of str
        What a reader of the rates must know.
    """

    path: str
    file_bytes: int
    block_bytes: int
    depth: int
    engine: str
    reads_per_second: float | None = None
    bytes_per_second: float | None = None
    latency_p50: float | None = None
    latency_p99: float | None = None
    queued_latency_p50: float | None = None
    queued_latency_p99: float | None = None
    sequential_bytes_per_second: float | None = None
    seconds: float = 0.0
    unavailable: str | None = None
    notes: tuple[str, ...] = ()


def largest_file(paths: Iterable[str | os.PathLike[str]]) -> str:
    """The largest of some files, which `measure_disk` is best given."""
    return max((os.fspath(path) for path in paths), key=os.path.getsize)


def measure_disk(
    path: str | os.PathLike[str],
    *,
    block_bytes: int = 4096,
    depth: int = 128,
    seconds: float = 2.5,
    engine: str | None = None,
    seed: int | None = None,
) -> DiskRate:
    """Reads a file for some seconds, past the page cache, at random and from one block to the next.

    Nothing is written. Ctrl-C ends the measurement within about a tenth of a second.

    Parameters
    ----------
    path : path-like
        Best the largest file of a dataset (`largest_file`): the memory of the disk itself, or of
        the machine that lends it, may hold a small file or one that was read just before, and
        answers faster than the disk.
    block_bytes : int
        Of a random read: a multiple of 4096.
    depth : int
        Random reads under way at a time: 1 to 4096, with threads 1 to 512.
    seconds : float
        Of the whole measurement.
    engine : {"uring", "pread"}, optional
        Default: io_uring where this process may use it, else threads.
    seed : int, optional
        Which blocks are read is a function of it. Default: others each time.

    Returns
    -------
    DiskRate
        With `unavailable` where the file system has no reads past the page cache, such as tmpfs,
        or the file has fewer than four blocks of 1 MiB (or of `block_bytes`, if this is more).

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
    if engine is None:
        engine = "uring" if _core.uring_refusal() is None else "pread"
    given: dict[str, Any] = {"engine": engine, "block_bytes": block_bytes, "depth": depth}
    with closing(_core.Mapping(path)) as mapping:  # refuses what is no file
        size = mapping.size
    least = LEAST_BLOCKS * max(block_bytes, SEQUENTIAL_BYTES)
    if size < least:
        why = f"{path} has {format_bytes(size)}: too little to measure a disk with, which takes "
        return DiskRate(path, size, **given, unavailable=why + format_bytes(least))
    return _Measurement(path, size, given, seconds, _as_seed(seed)).rate()


def _as_seed(seed: int | None) -> int:
    return secrets.randbits(64) if seed is None else seed


@dataclass(frozen=True)
class _Counters:
    """What the kernel has counted; None where it does not tell.

    Attributes
    ----------
    clock, busy, own : float
        Seconds: of the clock, of the processors' work, and of this process's part of it.
    process : int or None
        Bytes that this process had read from storage.
    device : int or None
        Bytes that anyone has read from the device of the file.
    """

    clock: float
    busy: float
    own: float
    process: int | None
    device: int | None

    @classmethod
    def now(cls, device: str | None) -> _Counters:
        try:
            process = int(psutil.Process().io_counters().read_bytes)
        except (psutil.Error, OSError, AttributeError):  # macOS has no such counter
            process = None
        disks = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
        found = disks.get(device) if device is not None else None
        idle = ("idle", "iowait", "guest", "guest_nice")  # guests are within user and nice
        times = psutil.cpu_times()._asdict()
        busy = sum(seconds for name, seconds in times.items() if name not in idle)
        read = None if found is None else int(found.read_bytes)
        return cls(time.monotonic(), busy, time.process_time(), process, read)

    def others_share(self, before: _Counters) -> float:
        """Of the processors' time, what others took since then."""
        others = (self.busy - before.busy) - (self.own - before.own)
        return others / ((self.clock - before.clock) * (os.cpu_count() or 1))


def _device_of(path: str) -> str | None:
    """The kernel's name of the device that holds a file; None for what is no block device."""
    number = os.stat(path).st_dev
    folder = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return folder.resolve().name if folder.exists() else None


def _notes(before: _Counters, after: _Counters, read: int) -> Iterator[str]:
    """What the kernel's counters say against the rates of `read` bytes."""
    own = read
    if before.process is not None and after.process is not None:
        own = after.process - before.process
        if own < (1 - CLEARLY) * read:
            yield (
                f"the kernel counted {format_bytes(own)} of {format_bytes(read)} as read from "
                f"storage: the file has holes, or its file system answers from memory or from "
                f"elsewhere"
            )
    share = after.others_share(before)
    if share > BUSY:
        yield (
            f"others took {share:.0%} of the processors' time meanwhile: with idle processors the "
            f"disk may give more"
        )
    if before.device is not None and after.device is not None:
        others = after.device - before.device - own
        if others > CLEARLY * read:
            yield (
                f"others read {format_bytes(others)} from the same disk meanwhile, and "
                f"graphzero {format_bytes(own)}: the disk alone gives more"
            )


@dataclass(frozen=True)
class _Measurement:
    path: str
    size: int
    given: dict[str, Any]
    seconds: float
    seed: int

    def probe(self, part: str, **more: Any) -> dict[str, Any] | None:
        number = list(SHARES).index(part)
        arguments = self.given | {"seed": (self.seed + number) % 2**64} | more
        return _core.probe_disk(self.path, seconds=self.seconds * SHARES[part], **arguments)

    def rate(self) -> DiskRate:
        start = time.perf_counter()
        if self.probe("first") is None:
            why = f"the file system of {self.path} has no reads past the page cache"
            return DiskRate(self.path, self.size, **self.given, unavailable=why)
        device = _device_of(self.path)
        before = _Counters.now(device)
        sequence = {"block_bytes": SEQUENTIAL_BYTES, "depth": SEQUENTIAL_DEPTH, "sequential": True}
        many, one = self.probe("many"), self.probe("one", depth=1)
        sequential = self.probe("sequential", **sequence)
        assert many is not None
        assert one is not None
        assert sequential is not None
        read = sum(part["bytes"] for part in (many, one, sequential))
        return DiskRate(
            self.path,
            self.size,
            **self.given | {"depth": many["depth"]},
            reads_per_second=many["reads"] / many["seconds"],
            bytes_per_second=many["bytes"] / many["seconds"],
            latency_p50=one["p50"],
            latency_p99=one["p99"],
            queued_latency_p50=many["p50"],
            queued_latency_p99=many["p99"],
            sequential_bytes_per_second=sequential["bytes"] / sequential["seconds"],
            seconds=time.perf_counter() - start,
            notes=tuple(_notes(before, _Counters.now(device), read)),
        )
