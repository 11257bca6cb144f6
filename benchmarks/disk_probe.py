"""The probe of the disk (`graphzero.report.disk_rate`) against fio: random reads of one file.

Both read past the page cache, in turns, so that what others read at the same time affects both.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fio import ENGINES, NoFio, command, parse_reads, version
from benchmarks.machine import describe_disk, describe_machine, others_share, read_usage, versions
from benchmarks.options import count, require_positive
from benchmarks.report import machine_lines, markdown, versions_line
from benchmarks.serve import Stopwatch

GOAL, GOAL_DEPTH = 0.1, 128
CHUNK = 1 << 24
PROBES = {"probe": "uring", "probe by threads": "pread"}


@dataclass(frozen=True)
class Reads:
    """One run: reads a second, the median seconds of a read, and busy processors."""

    rate: float
    latency: float
    cores: float


def probe(path: Path, engine: str, options: argparse.Namespace, workload: Sequence[int]) -> Reads:
    """A run of the probe; it draws other blocks each time."""
    from graphzero import _core

    block_bytes, depth, seed = workload
    with Stopwatch() as watch:
        found = _core.probe_disk(
            path,
            block_bytes=block_bytes,
            depth=depth,
            seconds=options.seconds,
            engine=engine,
            seed=seed,
        )
    if found is None:
        raise NoFio(f"{path} cannot be read past the page cache: choose another folder by --data")
    cores = watch.processor_seconds / watch.seconds
    return Reads(found["reads"] / found["seconds"], found["p50"], cores)


def run_fio(line: Sequence[str]) -> Reads:
    """A run of fio."""
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoFio((done.stderr or done.stdout).strip())
    reads = parse_reads(done.stdout)
    latency = reads["lat_ns"]["percentile"]["50.000000"] / 1e9
    return Reads(reads["iops"], latency, (reads["usr_cpu"] + reads["sys_cpu"]) / 100)


def fio_engine(path: Path, least_bytes: int) -> str:
    """The first engine by which fio reads the file."""
    reasons = []
    for engine in ENGINES:
        try:
            run_fio(command(path, engine, 0.1, depth=1, block_bytes=least_bytes))
        except NoFio as error:
            reasons.append(f"{engine}: {error}")
            continue
        return engine
    raise NoFio("; ".join(reasons))


def find_file(options: argparse.Namespace) -> Path:
    """The file to read: the user's, or one of random bytes, which is written once."""
    if options.file is not None:
        return Path(options.file)
    path = Path(options.data) / f"disk-probe-{options.bytes}.bin"
    if not path.exists():
        draw = np.random.default_rng(0)
        partial = path.with_suffix(".partial")
        with open(partial, "wb") as file:
            for begin in range(0, options.bytes, CHUNK):
                file.write(draw.bytes(min(CHUNK, options.bytes - begin)))
            os.fsync(file.fileno())
        partial.rename(path)
    return path


def in_turns(contestants: dict[str, Callable[[int], Reads]], runs: int) -> dict[str, list[Reads]]:
    """Runs of all; each turn begins with another one, and the first turn is not counted."""
    done: dict[str, list[Reads]] = {name: [] for name in contestants}
    for number in range(runs + 1):
        first = number % len(done)
        for name in [*done][first:] + [*done][:first]:
            reads = contestants[name](number)
            if number > 0:
                done[name].append(reads)
    return done


def summary(runs: Sequence[Reads], base: Sequence[Reads]) -> dict[str, Any]:
    """Rates of one contestant, and their ratio to those of the same turns of fio."""
    rates = [one.rate for one in runs]
    ratios = [one.rate / other.rate for one, other in zip(runs, base, strict=True)]
    middle = statistics.median(rates) / statistics.median(one.rate for one in base)
    return {
        "median": statistics.median(rates),
        "min": min(rates),
        "max": max(rates),
        "runs": rates,
        "latency": statistics.median(one.latency for one in runs),
        "cores": statistics.median(one.cores for one in runs),
        "ratio": {"of_medians": middle, "min": min(ratios), "max": max(ratios)},
    }


def compare(path: Path, options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """Results by block size and depth, and fio's command lines."""
    from graphzero import _core

    engine, results, lines = fio_engine(path, min(options.blocks)), [], []
    probes = {name: by for name, by in PROBES.items() if by == "pread" or not _core.uring_refusal()}
    for block_bytes in options.blocks:
        for depth in options.depths:
            line = command(path, engine, options.seconds, depth=depth, block_bytes=block_bytes)
            contestants: dict[str, Callable[[int], Reads]] = {
                name: lambda number, by=by, b=block_bytes, d=depth: probe(  # type: ignore[misc]
                    path, by, options, (b, d, number)
                )
                for name, by in probes.items()
            }
            contestants["fio"] = lambda _, line=line: run_fio(line)  # type: ignore[misc]
            done = in_turns(contestants, options.runs)
            contest = {name: summary(runs, done["fio"]) for name, runs in done.items()}
            results.append({"block_bytes": block_bytes, "depth": depth, "contestants": contest})
            lines.append(shlex.join(line))
    return results, lines


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs everything; results and what they were measured on, as plain values."""
    import graphzero as gz

    path = find_file(options)
    before = read_usage()
    results, lines = compare(path, options)
    return {
        "benchmark": "disk_probe",
        "machine": describe_machine(),
        "disk": describe_disk(path.parent),
        "file_bytes": path.stat().st_size,
        "settings": {
            name: value for name, value in vars(options).items() if not isinstance(value, Path)
        },
        "versions": {"graphzero": gz.__version__, "fio": version(), **versions(["numpy"])},
        "others_processor_share": others_share(before, read_usage(), os.cpu_count() or 1),
        "goal": {"within": GOAL, "depth": GOAL_DEPTH},
        "fio": lines,
        "results": results,
    }


def heading(found: dict[str, Any]) -> str:
    """What was measured on what, in a few lines."""
    disk, settings = found["disk"], found["settings"]
    return "\n".join(
        [
            *machine_lines(found),
            f"file of {found['file_bytes'] / 2**30:.2f} GiB on {disk['file_system']} "
            f"({disk['device']}), past the page cache",
            f"{settings['runs']} runs of {settings['seconds']:g} seconds, in turns, each with its "
            f"own blocks; medians (lowest to highest)",
            versions_line(found["versions"]),
            f"fio: {found['fio'][0]}",
        ]
    )


def table(found: dict[str, Any]) -> str:
    """A row per block size, depth and contestant."""
    rows = [["block", "depth", "", "reads/s", "p50, us", "processors", "of fio's", "goal"]]
    for one in found["results"]:
        for name, reads in one["contestants"].items():
            ratio = reads["ratio"]
            rows.append(
                [
                    f"{one['block_bytes'] >> 10} KiB",
                    str(one["depth"]),
                    name,
                    f"{reads['median']:,.0f} ({reads['min']:,.0f} to {reads['max']:,.0f})",
                    f"{reads['latency'] * 1e6:,.0f}",
                    f"{reads['cores']:.2f}",
                    "-"
                    if name == "fio"
                    else f"{ratio['of_medians']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})",
                    _verdict(name, one["depth"], ratio["of_medians"]),
                ]
            )
    return markdown(rows)


def _verdict(name: str, depth: int, ratio: float) -> str:
    if name == "fio" or depth != GOAL_DEPTH:
        return "-"
    met = abs(ratio - 1) <= GOAL
    return f"{1 - GOAL:g} to {1 + GOAL:g}: {'met' if met else 'missed'}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.disk_probe", description=__doc__)
    add = parser.add_argument
    add("--file", type=Path, help="read this file; default: one that is made")
    add("--data", type=Path, default=Path(__file__).parent / ".data", help="folder for the file")
    add("--bytes", type=count, default=2 << 30, help="of the file that is made")
    add("--blocks", type=int, nargs="+", default=[4096, 131072], help="bytes of a read")
    add("--depths", type=int, nargs="+", default=[1, 32, 128], help="reads under way at a time")
    add("--runs", type=int, default=5, help="counted runs of each contestant")
    add("--seconds", type=float, default=2.0, help="of a run")
    add("--json", type=Path, help="write the results there as well")
    add("--quick", action="store_true", help="64 MiB, short runs: a smoke test")
    options = parser.parse_args(arguments)
    if options.quick:
        options.bytes, options.runs, options.seconds = 64 << 20, 1, 0.2
        options.depths = [1, 128]
    require_positive(parser, options, ["bytes", "runs"])
    if options.seconds <= 0:
        parser.error("--seconds must be positive")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    options = parse(arguments)
    os.makedirs(options.data, exist_ok=True)
    try:
        found = measure(options)
    except (NoFio, OSError, ValueError) as error:
        print(f"stopped: {error}", file=sys.stderr)
        return 1
    print(heading(found), end="\n\n")
    print(table(found))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
