"""The disk's rate of random reads, measured by fio, which strategies are compared with."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from dataclasses import dataclass
from typing import Any

__all__ = ["NoFio", "ReadRate", "read_rate"]

DEPTH = 128
BLOCK_BYTES = 4096


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


def _command(program: str, path: str, engine: str, seconds: float) -> list[str]:
    options = {
        "name": "random-read",
        "filename": path,
        "rw": "randread",
        "bs": BLOCK_BYTES,
        "direct": 1,
        "ioengine": engine,
        "iodepth": DEPTH,
        "runtime": seconds,
        "time_based": 1,
        "randrepeat": 0,
        "norandommap": 1,
        "output-format": "json",
    }
    return [program, "--readonly", *(f"--{name}={value}" for name, value in options.items())]


def parse_iops(output: str) -> float:
    """Reads per second from fio's JSON output, which may follow warnings."""
    begin = output.find("{")
    try:
        answer: dict[str, Any] = json.loads(output[begin:]) if begin >= 0 else {}
        return float(answer["jobs"][0]["read"]["iops"])
    except (ValueError, KeyError, IndexError) as error:
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
    program = shutil.which("fio")
    if program is None:
        raise NoFio("fio is not installed: nothing says what the disk itself can do")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    reasons = []
    for engine in ("io_uring", "libaio"):
        command, iops = _command(program, os.fspath(path), engine, seconds), []
        for _ in range(runs):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                lines = (done.stderr.strip() or done.stdout.strip()).splitlines()[:1]
                reasons.append(f"{engine}: {' '.join(lines)}")
                break
            iops.append(parse_iops(done.stdout))
        else:
            return ReadRate(engine, tuple(iops), version.stdout.strip())
    raise NoFio(f"fio cannot read {os.fspath(path)} past the page cache ({'; '.join(reasons)})")
