"""What reads the disk below a file gives, measured past the page cache."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from graphzero import _core
from graphzero.units import format_bytes

__all__ = ["DiskRate", "largest_file", "measure_disk"]

SEQUENTIAL_BYTES, SEQUENTIAL_DEPTH = 1 << 20, 8
LEAST_BLOCKS = 4
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
    if seed is None:
        return secrets.randbits(64)
    return seed


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
        if self.probe("first") is None:
            why = f"the file system of {self.path} has no reads past the page cache"
            return DiskRate(self.path, self.size, **self.given, unavailable=why)
        sequence = {"block_bytes": SEQUENTIAL_BYTES, "depth": SEQUENTIAL_DEPTH, "sequential": True}
        many, one = self.probe("many"), self.probe("one", depth=1)
        sequential = self.probe("sequential", **sequence)
        assert many is not None
        assert one is not None
        assert sequential is not None
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
            seconds=self.seconds,
        )
