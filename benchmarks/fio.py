"""The disk's rate of random reads, measured by fio, which strategies are compared with."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from dataclasses import dataclass
from typing import Any

__all__ = ["ENGINES", "NoFio", "ReadRate", "command", "parse_reads", "read_rate", "version"]

DEPTH = 128
BLOCK_BYTES = 4096
ENGINES = ("io_uring", "libaio")  # in the order of preference


class NoFio(RuntimeError):
    """fio is not installed or cannot read the file; the message says which."""


@dataclass(frozen=True)
class ReadRate:
    """Random reads of 4 KiB past the page cache, 128 at a time.

    Attributes
    ----------
    engine : str
        Of fio: io_uring or libaio.
    iops : tuple of float
        Reads a second, by run.
    version : str
    """

    engine: str
    iops: tuple[float, ...]
    version: str

    @property
    def median(self) -> float:
        """Reads a second."""
        return statistics.median(self.iops)


def command(
    path: str | os.PathLike[str],
    engine: str,
    seconds: float,
    *,
    depth: int = DEPTH,
    block_bytes: int = BLOCK_BYTES,
) -> list[str]:
    """The command line of random reads past the page cache.

    Raises
    ------
    NoFio
        If fio is not installed.
    """
    program = shutil.which("fio")
    if program is None:
        raise NoFio("fio is not installed: nothing says what the disk itself can do")
    options = {
        "name": "random-read",
        "filename": os.fspath(path),
        "rw": "randread",
        "bs": block_bytes,
        "direct": 1,
        "ioengine": engine,
        "iodepth": depth,
        "runtime": seconds,
        "time_based": 1,
        "randrepeat": 0,
        "norandommap": 1,
        "lat_percentiles": 1,
        "output-format": "json",
    }
    return [program, "--readonly", *(f"--{name}={value}" for name, value in options.items())]


def version() -> str:
    """Of fio, which must be installed."""
    done = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def parse_reads(output: str) -> dict[str, Any]:
    """What fio's JSON output, which may follow warnings, says of the reads and the processors."""
    begin = output.find("{")
    try:
        answer: dict[str, Any] = json.loads(output[begin:]) if begin >= 0 else {}
        job = answer["jobs"][0]
        return {"usr_cpu": 0.0, "sys_cpu": 0.0, **job, **job["read"]}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise NoFio(f"fio's answer cannot be read: {error!r}") from error


def parse_iops(output: str) -> float:
    """Reads per second."""
    try:
        return float(parse_reads(output)["iops"])
    except (ValueError, KeyError) as error:
        raise NoFio(f"fio's answer cannot be read: {error!r}") from error


def read_rate(path: str | os.PathLike[str], *, seconds: float = 4.0, runs: int = 3) -> ReadRate:
    """Reads a file at random; nothing is written.

    Parameters
    ----------
    path : path-like
        A file on that disk, as large as the data: the disk's own cache may hold a small file.
    seconds : float
        Of each run.
    runs : int

    Raises
    ------
    NoFio
    """
    reasons = []
    for engine in ENGINES:
        line, iops = command(path, engine, seconds), []
        for _ in range(runs):
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                lines = (done.stderr.strip() or done.stdout.strip()).splitlines()[:1]
                reasons.append(f"{engine}: {' '.join(lines)}")
                break
            iops.append(parse_iops(done.stdout))
        else:
            return ReadRate(engine, tuple(iops), version())
    raise NoFio(f"fio cannot read {os.fspath(path)} past the page cache ({'; '.join(reasons)})")
