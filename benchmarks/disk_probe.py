"""The library's own probe of a disk against fio: random reads of one file, in turns.

Both read past the page cache. This module also runs fio for other benchmarks.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import machine, timing

GOALS = {"fio": 0.9}
BLOCK_BYTES, DEPTH = 4096, 128
ENGINES = ("io_uring", "libaio")  # of fio, in the order of preference
PROBES = {"probe": "uring", "probe by threads": "pread"}


class NoFio(RuntimeError):
    """fio is not installed or cannot read the file; the message says which."""


def command(
    path: str | os.PathLike[str],
    engine: str,
    seconds: float,
    *,
    depth: int = DEPTH,
    block_bytes: int = BLOCK_BYTES,
) -> list[str]:
    """fio's command line of random reads past the page cache.

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
        "output-format": "json",
    }
    return [program, "--readonly", *(f"--{name}={value}" for name, value in options.items())]


def parse_reads(output: str) -> timing.Run:
    """The reads of a second, from fio's JSON output, which may follow warnings."""
    begin = output.find("{")
    try:
        job = json.loads(output[begin:])["jobs"][0]
        cores = (job.get("usr_cpu", 0.0) + job.get("sys_cpu", 0.0)) / 100
        return timing.Run(float(job["read"]["iops"]), 1.0, cores)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise NoFio(f"fio's answer cannot be read: {error!r}") from error


def run_fio(line: Sequence[str]) -> timing.Run:
    """A run of fio.

    Raises
    ------
    NoFio
    """
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoFio(" ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[:1]))
    return parse_reads(done.stdout)


def fio_engine(path: str | os.PathLike[str], block_bytes: int = BLOCK_BYTES) -> str:
    """The first engine by which fio reads the file.

    Raises
    ------
    NoFio
    """
    reasons = []
    for engine in ENGINES:
        try:
            run_fio(command(path, engine, 0.1, depth=1, block_bytes=block_bytes))
        except NoFio as error:
            reasons.append(f"{engine}: {error}")
        else:
            return engine
    raise NoFio(f"fio cannot read {os.fspath(path)} past the page cache ({'; '.join(reasons)})")


def disk_rate(path: str | os.PathLike[str], *, seconds: float = 4.0, runs: int = 3) -> float:
    """Median random reads of 4 KiB a second at depth 128.

    The file should be as large as the data: the disk's own cache may hold a small one.

    Raises
    ------
    NoFio
    """
    line = command(path, fio_engine(path), seconds)
    return median(run_fio(line).rate for _ in range(runs))


def probe(path: Path, engine: str, seconds: float, block_bytes: int, depth: int) -> Any:
    """A contestant: a run of the probe, which draws other blocks each time."""
    from graphzero import _core

    def run(number: int) -> timing.Run:
        with machine.Stopwatch() as watch:
            found = _core.probe_disk(
                path,
                block_bytes=block_bytes,
                depth=depth,
                seconds=seconds,
                engine=engine,
                seed=number,
            )
        if found is None:
            raise NoFio(f"{path} cannot be read past the page cache: choose another folder")
        cores = watch.processor_seconds / watch.seconds
        return timing.Run(found["reads"], found["seconds"], cores * found["seconds"])

    return run


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs everything; results and what they were measured on."""
    from graphzero import _core

    path = options.file
    engine, results = fio_engine(path, min(options.blocks)), []
    probes = {name: by for name, by in PROBES.items() if by == "pread" or not _core.uring_refusal()}
    with machine.OtherProcesses() as others:
        for block_bytes in options.blocks:
            for depth in options.depths:
                line = command(path, engine, options.seconds, depth=depth, block_bytes=block_bytes)
                contestants: dict[str, Callable[[int], timing.Run]] = {
                    name: probe(path, by, options.seconds, block_bytes, depth)
                    for name, by in probes.items()
                }
                contestants["fio"] = lambda _, line=line: run_fio(line)  # type: ignore[misc]
                name = f"{block_bytes >> 10} KiB, depth {depth}"
                results.append(
                    timing.compare(name, "reads/s", contestants, options.runs, goals=GOALS)
                )
    return machine.conditions(
        "disk_probe",
        path.parent,
        file_bytes=path.stat().st_size,
        settings=timing.settings(options),
        others_share=others.share,
        fio=shlex.join(line),
        results=results,
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = timing.parser_of("benchmarks.disk_probe", __doc__, scale=None)
    add = parser.add_argument
    add("--file", type=Path, required=True, help="the file to read, such as data/features.gd")
    add("--blocks", type=int, nargs="+", default=[4096, 131072], help="bytes of a read")
    add("--depths", type=int, nargs="+", default=[1, 32, 128], help="reads under way at a time")
    add("--seconds", type=float, default=2.0, help="of a run")
    options = parser.parse_args(arguments)
    if options.quick:
        options.runs, options.seconds = 1, 0.2
        options.depths = [1, 128]
    timing.require_positive(parser, options, ["runs"])
    if options.seconds <= 0:
        parser.error("--seconds must be positive")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    options = parse(arguments)
    try:
        found = measure(options)
    except (NoFio, OSError, ValueError) as error:
        print(f"stopped: {error}", file=sys.stderr)
        return 1
    line = (
        f"file of {found['file_bytes'] / 2**30:.2f} GiB, past the page cache; medians of "
        f"{options.runs} runs of {options.seconds:g} seconds, each with its own blocks"
    )
    results, names = found["results"], [*PROBES, "fio"]
    print(
        machine.heading(found, [line, found["fio"]]), timing.rate_table(results, names), sep="\n\n"
    )
    print("", timing.ratio_table(results, names), sep="\n")
    timing.write_json(options, {**found, "results": [result.plain() for result in results]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
