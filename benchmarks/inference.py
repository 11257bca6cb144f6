"""Inference for every node under a memory limit that the kernel enforces, and without one.

A two-layer GraphSAGE over all neighbours of an R-MAT graph, by `graphzero.infer`, each run in a
process of its own from a cold cache, the two in turn. The limit comes on top of the anonymous
memory that the process has before. Runs of a kind must write the same bytes, and the two kinds the
same rows up to rounding.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

import graphzero as gz
from benchmarks import machine, timing
from benchmarks.inputs import build_once, prepare
from graphzero.report.limited_memory import limited_group

LIMITED, FREE = "limited", "free"


def read_bytes() -> int:
    """What this process has read from disks."""
    text = Path("/proc/self/io").read_text()
    return int(text.partition("read_bytes: ")[2].split()[0])


def run_child(dataset: str, out: str, limit: int, dim: int, hidden: int) -> None:
    """Infers in this process, and prints what it took as JSON."""
    torch.manual_seed(0)
    with gz.open(dataset) as ds:
        model = gz.GraphSAGE(dim, hidden, 16, 2).eval()
        before, read = machine.anonymous_bytes(), read_bytes()
        with machine.PeakAnonymous() as watched, machine.Stopwatch() as watch:
            gz.infer(model, ds, out, memory_limit=limit or None).close()
    answer = {"seconds": watch.seconds, "before": before, "peak": watched.peak}
    print(json.dumps(answer | {"read": read_bytes() - read}))


def run(options: argparse.Namespace, dataset: Path, out: Path, limit: int) -> dict[str, Any]:
    """One run in a process of its own; in a memory group if there is a limit."""
    arguments = [dataset, out, limit * options.share, options.dim, options.hidden]
    command = [sys.executable, "-m", "benchmarks.inference", "--child", *map(str, arguments)]
    files = [path for path in dataset.iterdir() if path.is_file()]
    time.sleep(1.0)  # pages that are being read cannot be dropped
    machine.drop_cached(files)
    with ExitStack() as stack:
        if limit:
            group = stack.enter_context(limited_group(limit + options.own))
            command = [*group.prefix, *command]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    answer["crc"] = 0
    with open(out, "rb") as file:
        while block := file.read(1 << 24):
            answer["crc"] = zlib.crc32(block, answer["crc"])
    machine.drop_cached([out])
    return answer


def largest_difference(one: Path, other: Path) -> float:
    """Between the rows of two files, as a part of the largest number in a row."""
    worst = 0.0
    with gz.FeatureStore(one) as rows, gz.FeatureStore(other) as others:
        for first in range(0, rows.num_nodes, 1 << 20):
            chunk = rows[first : first + (1 << 20)]
            difference = np.abs(chunk - others[first : first + (1 << 20)]).max(axis=1)
            worst = max(worst, float((difference / np.abs(chunk).max(axis=1)).max()))
    return worst


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs both in turn."""
    inputs = prepare(
        options.data, num_nodes=1 << options.scale, num_edges=options.edges, dim=options.dim
    )
    dataset = build_once(inputs, "in-lists", neighbors="in", order="hot")
    results: dict[str, list[dict[str, Any]]] = {FREE: [], LIMITED: []}
    with tempfile.TemporaryDirectory(dir=options.data) as folder:
        out = {name: Path(folder) / f"{name}.gd" for name in results}
        for number in range(options.runs + 1):
            for name, limit in ((FREE, 0), (LIMITED, options.limit))[:: 1 if number % 2 else -1]:
                if number == 0:
                    if name == FREE:  # says what the process needs by itself
                        options.own = run(options, dataset, out[name], 0)["before"]
                    continue
                results[name].append(run(options, dataset, out[name], limit))
                print(f"{name}: {results[name][-1]}", file=sys.stderr)
        difference = largest_difference(out[FREE], out[LIMITED])
    if difference > 1e-5 or any(len({a["crc"] for a in each}) > 1 for each in results.values()):
        raise RuntimeError(f"the runs have written different rows ({difference:.2g})")
    return machine.conditions(
        "inference",
        options.data,
        settings=timing.settings(options),
        results=results,
        difference=difference,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["--child"]:
        dataset, out, *numbers = given[1:]
        run_child(dataset, out, *(int(float(each)) for each in numbers))
        return 0
    parser = timing.parser_of("benchmarks.inference", __doc__)
    add = parser.add_argument
    add("--hidden", type=int, default=64)
    add("--limit", type=timing.count, default=10**9, help="bytes beyond the process's own")
    add("--share", type=float, default=0.9, help="of the limit that is given to infer")
    options = parser.parse_args(given)
    if options.quick:
        options.scale, options.edges = timing.QUICK_SCALE, timing.QUICK_EDGES
    options.data.mkdir(parents=True, exist_ok=True)
    found = measure(options)
    seconds = {
        name: [answer["seconds"] for answer in answers]
        for name, answers in found["results"].items()
    }
    ratios = [a / b for a, b in zip(seconds[LIMITED], seconds[FREE], strict=True)]
    lines = [f"R-MAT, {1 << options.scale:,} nodes, {options.edges:,} edges, {options.dim} columns"]
    print(machine.heading(found, lines), end="\n\n")
    for name, each in seconds.items():
        print(f"{name}: {timing.span(each)} s")
        print(f"{name}: {timing.span([a['read'] / 1e9 for a in found['results'][name]])} GB read")
    print(f"ratio of a pair: {timing.span(ratios)}")
    print(
        f"largest difference of a number, as a part of its row's largest: {found['difference']:.2g}"
    )
    timing.write_json(options, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
