"""The cost of `Prefetch("auto")` if there is nothing to read ahead: all data are in the page cache.

Run ``python -m benchmarks.warm_cache`` from the repository's root, with graphzero installed. The
same batches are loaded with "none" and with "auto", in turns, and a second time with "none": the
difference between the two "none" is the measurement's error. ``--quick`` makes a small graph.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.inputs import Inputs, IntArray, open_warm, prepare
from benchmarks.machine import (
    describe_disk,
    describe_machine,
    others_share,
    read_usage,
    resident_share,
    versions,
)
from benchmarks.options import QUICK_EDGES, QUICK_SCALE, add_graph, require_positive, require_scale
from benchmarks.report import machine_lines, markdown, versions_line, warm_cache_line
from benchmarks.serve import Stopwatch
from benchmarks.timing import Run, spread

if TYPE_CHECKING:
    import graphzero as gz

BASE = "none"
CONTESTANTS = {BASE: "none", "auto": "auto", "none again": "none"}
GOAL = 0.03
ALL_IN_MEMORY = 0.999


@dataclass(frozen=True)
class Cost:
    """How much longer the same batches take than with the first contestant, over pairs of runs.

    Attributes
    ----------
    median, low, high : float
        0.03 for 3 % longer.
    pairs : int
    """

    median: float
    low: float
    high: float
    pairs: int


def cost_of(base: Sequence[Run], runs: Sequence[Run]) -> Cost:
    """The cost of runs relative to base runs of the same batches."""
    ratios = [one.seconds / other.seconds - 1 for other, one in zip(base, runs, strict=True)]
    return Cost(statistics.median(ratios), min(ratios), max(ratios), len(ratios))


def load(
    dataset: gz.Dataset, seeds: IntArray, strategy: str, options: argparse.Namespace
) -> tuple[Run, str]:
    """Loads the batches of some seeds; returns the run and how their rows were read."""
    from torch.utils.data import DataLoader

    import graphzero as gz

    batches = gz.NeighborDataset(
        dataset,
        seeds,
        options.fanouts,
        batch_size=options.batch_size,
        prefetch=gz.Prefetch(strategy),
        num_threads=options.threads,
    )
    collate: Any = gz.Collate(dataset)
    count, io = 0, ""
    with Stopwatch() as watch:
        for batch in DataLoader(batches, batch_size=None, collate_fn=collate):
            count, io = count + 1, batch.stats.io
            del batch  # frees its memory for the next one
    return Run(count, watch.seconds, watch.processor_seconds), io


def run_in_turns(
    dataset: gz.Dataset, inputs: Inputs, options: argparse.Namespace
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """Runs of each contestant, and how rows were read; each turn has its own seeds.

    Each turn starts with another contestant, and the first turn is not counted.
    """
    done: dict[str, list[Run]] = {name: [] for name in CONTESTANTS}
    how: dict[str, str] = {}
    for number in range(options.runs + 1):
        seeds = inputs.seeds(4, number, options.batches * options.batch_size)
        first = number % len(done)
        for name in [*done][first:] + [*done][:first]:
            run, how[name] = load(dataset, seeds, CONTESTANTS[name], options)
            if number > 0:
                done[name].append(run)
    return done, how


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs everything; results and what they were measured on, as plain values."""
    import torch

    import graphzero as gz

    torch.set_num_threads(options.threads)
    inputs = prepare(options.data, scale=options.scale, num_edges=options.edges, dim=options.dim)
    with open_warm(inputs, "hot", "hot") as dataset:
        before = read_usage()
        done, how = run_in_turns(dataset, inputs, options)
        others = others_share(before, read_usage(), os.cpu_count() or 1)
        resident = resident_share(dataset.paths)
    plain = {name: value for name, value in vars(options).items() if not isinstance(value, Path)}
    return {
        "benchmark": "warm_cache",
        "machine": describe_machine(),
        "disk": describe_disk(options.data),
        "cache": {"state": "warm", "resident_share": resident},
        "graph": {"kind": "R-MAT, directed, hot order", **asdict(inputs), "folder": None},
        "settings": plain,
        "versions": {"graphzero": gz.__version__, **versions(["numpy", "torch"])},
        "others_processor_share": others,
        "goal": GOAL,
        "results": {
            name: {
                **asdict(spread(runs)),
                "cost": asdict(cost_of(done[BASE], runs)),
                "io": how[name],
                "seconds": [run.seconds for run in runs],
            }
            for name, runs in done.items()
        },
    }


def heading(found: dict[str, Any]) -> str:
    """What was measured on what, in a few lines."""
    graph, settings = found["graph"], found["settings"]
    return "\n".join(
        [
            *machine_lines(found),
            warm_cache_line(found),
            f"{graph['kind']}, {1 << graph['scale']:,} nodes, {graph['num_edges']:,} edges, "
            f"{graph['dim']} float32 columns",
            f"{settings['threads']} threads, 0 workers, batches of {settings['batch_size']} "
            f"seeds, fanouts {settings['fanouts']}; {settings['runs']} runs of "
            f"{settings['batches']} batches, in turns, each turn with its own seeds",
            versions_line(found["versions"]),
        ]
    )


def table(found: dict[str, Any]) -> str:
    """A row per contestant."""
    rows = [["strategy", "batches/s", "processors", "longer than none", "goal", "rows read by"]]
    for name, one in found["results"].items():
        cost = one["cost"]
        rows.append(
            [
                name,
                f"{one['median']:.3g} ({one['low']:.3g} to {one['high']:.3g})",
                f"{one['cores']:.2f}",
                "-"
                if name == BASE
                else f"{cost['median']:+.1%} ({cost['low']:+.1%} to {cost['high']:+.1%})",
                "-" if name != "auto" else f"< {found['goal']:.0%}",
                one["io"],
            ]
        )
    return markdown(rows)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.warm_cache", description=__doc__)
    add = parser.add_argument
    add_graph(parser)
    add("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--runs", type=int, default=15, help="counted runs of each contestant")
    add("--batches", type=int, default=50, help="of a run")
    add("--threads", type=int, default=2)
    add("--data", type=Path, default=Path(__file__).parent / ".data", help="folder for the graph")
    add("--json", type=Path, help="write the results there as well")
    add("--quick", action="store_true", help="2^16 nodes, 1 M edges, short runs: a smoke test")
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.edges, options.batches = QUICK_SCALE, QUICK_EDGES, 5
        options.batch_size = 256
    require_positive(parser, options, ["runs", "batches", "threads", "batch_size", "dim"])
    require_scale(parser, options)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    options = parse(arguments)
    os.makedirs(options.data, exist_ok=True)
    found = measure(options)
    print(heading(found), end="\n\n")
    print(table(found))
    resident = found["cache"]["resident_share"]
    if resident is not None and resident < ALL_IN_MEMORY:
        print(f"only {resident:.1%} was in the page cache: the cache was not warm", file=sys.stderr)
        return 1
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
