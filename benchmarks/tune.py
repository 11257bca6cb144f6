"""How good the choice of ``graphzero tune`` is: against the best setting of the full grid.

Run ``python -m benchmarks.tune`` from the repository's root, with graphzero installed, where a
memory cgroup can be made. It uses the data of ``benchmarks.out_of_core``, which it writes if need
be. It tunes; measures every setting of the grid as long as a finalist, in a random order; and
compares the choice with the best of the grid in turns, because the best of many noisy figures looks
better than it is. ``--quick`` takes a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import graphzero as gz
from benchmarks.disk_inputs import build_order, prepare_disk
from benchmarks.machine import (
    describe_disk,
    describe_machine,
    others_share,
    read_usage,
    versions,
)
from benchmarks.options import count, require_positive
from benchmarks.report import machine_lines, markdown, versions_line
from graphzero.report.tuning.grid import describe
from graphzero.report.tuning.halving import ratios
from graphzero.report.tuning.live_table import PlainLines, disk_line
from graphzero.report.tuning.trial import Trials, Workload
from graphzero.report.tuning.tuner import Tuned, tune

GOAL = 0.05
LIMIT_SHARE = 5 / 16  # of the features, as in benchmarks.out_of_core
QUICK_LIMIT = 24 << 20
WARM_UP = 6

Times = dict[gz.Prefetch, list[float]]


def measure_grid(
    trials: Trials, settings: Sequence[gz.Prefetch], options: argparse.Namespace
) -> tuple[Times, dict[str, str]]:
    """Seconds a mini-batch of every setting, round by round; and why others have none."""
    rng = random.Random(options.seed)
    times: Times = {}
    failed: dict[str, str] = {}
    for number in range(options.grid_rounds):
        order = [one for one in settings if describe(one) not in failed]
        rng.shuffle(order)
        for setting in order:
            result = trials.run(
                setting, batches=options.batches, warm_up=WARM_UP, seconds=options.most_seconds
            )
            if result.seconds_per_batch is None:
                failed[describe(setting)] = result.reason or ""
            else:
                times.setdefault(setting, []).append(result.seconds_per_batch)
            say(f"grid, round {number + 1}: {describe(setting)}: {_text(result.seconds_per_batch)}")
    return times, failed


def compare(
    trials: Trials, settings: Sequence[gz.Prefetch], options: argparse.Namespace
) -> tuple[Times, list[float]]:
    """Seconds a mini-batch of a few settings in turns, and of the first at the end of each turn.

    The first against itself shows how much of a difference is noise. Turns in which one failed do
    not count.
    """
    times: Times = {setting: [] for setting in settings}
    again: list[float] = []
    for number in range(options.turns):
        turn: list[float] = []
        for setting in [*settings, settings[0]]:
            result = trials.run(
                setting, batches=options.batches, warm_up=WARM_UP, seconds=options.most_seconds
            )
            say(f"turn {number + 1}: {describe(setting)}: {_text(result.seconds_per_batch)}")
            if result.seconds_per_batch is not None:
                turn.append(result.seconds_per_batch)
        if len(turn) == len(settings) + 1:
            for setting, seconds in zip(settings, turn, strict=False):
                times[setting].append(seconds)
            again.append(turn[-1])
    return times, again


def _text(seconds: float | None) -> str:
    return "failed" if seconds is None else f"{seconds:.4f} s/batch"


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def best_of(times: Times, number: int) -> list[gz.Prefetch]:
    """The settings with the lowest medians."""
    return sorted(times, key=lambda setting: median(times[setting]))[:number]


def losses(
    chosen: gz.Prefetch, grid: Times, turns: Times, again: Sequence[float]
) -> dict[str, float | None]:
    """How much slower the choice is than the best, as a share: by the grid alone, and in turns.

    Also than itself: ``itself``. None where the choice has no figure.
    """
    found: dict[str, float | None] = {"grid": None, "turns": None, "itself": None}
    if chosen in grid:
        best = min(median(times) for times in grid.values())
        found["grid"] = median(grid[chosen]) / best - 1
    if turns.get(chosen):
        compared = ratios(turns)
        found["turns"] = compared[chosen] / min(compared.values()) - 1
        found["itself"] = median(a / b for a, b in zip(again, turns[chosen], strict=True)) - 1
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Tunes, measures the grid, compares; results as plain values."""
    inputs = prepare_disk(
        options.data, num_nodes=options.nodes, num_edges=options.edges, dim=options.dim
    )
    folder = build_order(inputs, options.order)
    work = Workload(str(folder), options.fanouts, options.batch_size, num_threads=options.threads)
    with Trials(work) as unlimited:
        say("measuring the process's own memory ...")
        own = unlimited.own_memory() or 0
    usage = read_usage()
    tuned = tune(
        work, memory_limit=options.limit + own, seconds=options.budget, observer=PlainLines()
    )
    others_tuning = others_share(usage, read_usage(), os.cpu_count() or 1)
    with Trials(work, memory_limit=options.limit + own) as trials:
        grid, failed = measure_grid(trials, tuned.settings, options)
        finalists = list(dict.fromkeys([tuned.found.best, *best_of(grid, options.compared)]))
        turns, again = compare(trials, finalists, options)
    others = others_share(usage, read_usage(), os.cpu_count() or 1)
    plain = {name: value for name, value in vars(options).items() if not isinstance(value, Path)}
    return {
        "benchmark": "tune",
        "machine": describe_machine(),
        "disk": describe_disk(options.data),
        "others_processor_share": others,
        "others_processor_share_while_tuning": others_tuning,
        "settings": plain,
        "graph": {"nodes": inputs.num_nodes, "edges": inputs.num_edges, "dim": inputs.dim},
        "memory": {"limit": options.limit, "own_anonymous": own, "group": tuned.group},
        "not_limited": tuned.no_group,
        "disk_rate": disk_line(tuned.disk),
        "chosen": describe(tuned.found.best),
        "trials": len(tuned.records),
        "tuning_seconds": sum(record.result.wall_seconds for record in tuned.records),
        "tuned": _tuned_times(tuned),
        "grid": {describe(one): times for one, times in grid.items()},
        "failed": failed,
        "turns": {describe(one): times for one, times in turns.items()},
        "again": again,
        "losses": losses(tuned.found.best, grid, turns, again),
        "versions": {"graphzero": gz.__version__, **versions(["numpy", "torch"])},
    }


def _tuned_times(tuned: Tuned) -> dict[str, float | None]:
    return {describe(one): tuned.seconds(one) for one in tuned.settings}


def report(found: dict[str, Any]) -> str:
    """Conditions, a table of settings, and the two losses."""
    memory, graph, settings = found["memory"], found["graph"], found["settings"]
    lines = [
        *machine_lines(found),
        f"data on {found['disk']['file_system']} ({found['disk']['device']}); {found['disk_rate']}",
        f"{graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['dim']} float32 columns, "
        f"{settings['order']} order",
        f"limit {memory['limit'] / 2**20:,.0f} MiB by {memory['group'] or 'none'}, plus "
        f"{memory['own_anonymous'] / 2**20:,.0f} MiB of the process's own; files dropped from the "
        f"page cache before each trial",
        f"batches of {settings['batch_size']} seeds, fanouts {settings['fanouts']}; of a trial, "
        f"{settings['batches']} after {WARM_UP} to {4 * WARM_UP} of warming up",
        versions_line(found["versions"]),
    ]
    if found["not_limited"]:
        lines.append(f"the page cache was NOT limited: {found['not_limited']}")
    header = ["setting", "tuning, s/batch", "grid, s/batch", "in turns, s/batch", ""]
    grid, turns = found["grid"], found["turns"]
    order = sorted(grid, key=lambda name: median(grid[name]))
    rows = [header]
    for name in order:
        rows.append(
            [
                name,
                _cell(found["tuned"].get(name)),
                _cell(median(grid[name])),
                _cell(median(turns[name]) if turns.get(name) else None),
                "chosen" if name == found["chosen"] else "",
            ]
        )
    rows += [[name, "-", why, "-", ""] for name, why in found["failed"].items()]
    lines += ["", markdown(rows), ""]
    lines.append(
        f"chosen by {found['trials']} trials in {found['tuning_seconds']:.0f} s: {found['chosen']}"
    )
    for name, text in (("grid", "of the full grid"), ("turns", "in turns")):
        loss = found["losses"][name]
        if loss is None:
            lines.append(f"against the best {text}: unknown, because the choice failed there")
        else:
            verdict = "within" if loss <= GOAL else "beyond"
            lines.append(f"against the best {text}: {loss:+.1%}, {verdict} {GOAL:.0%}")
    if found["losses"]["itself"] is not None:
        lines.append(f"against itself in the same turns: {found['losses']['itself']:+.1%}")
    return "\n".join(lines)


def _cell(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.4f}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tune", description=__doc__)
    add = parser.add_argument
    add("--nodes", type=count, default=1 << 22, help="such as 11e6")
    add("--edges", type=count, default=64_000_000, help="such as 64e6")
    add("--dim", type=int, default=128, help="float32 columns of the rows")
    add("--order", default="hot", help="order of nodes")
    add("--limit", type=count, help="bytes besides the process's own; default: 5/16 of the rows")
    add("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--threads", type=int, default=2)
    add("--budget", type=float, default=360.0, help="seconds of tuning")
    add("--batches", type=int, default=24, help="of a trial outside of tuning")
    add("--most-seconds", type=float, default=4.0, help="of warming up, and of measuring, a trial")
    add("--grid-rounds", type=int, default=1, help="how often the full grid is measured")
    add("--compared", type=int, default=3, help="best of the grid that the choice meets in turns")
    add("--turns", type=int, default=4)
    add("--seed", type=int, default=0, help="of the order of the grid")
    add("--data", type=Path, default=Path(__file__).parent / ".data", help="folder for the data")
    add("--json", type=Path, help="write the results there as well")
    add("--quick", action="store_true", help="2^16 nodes, 1 M edges, small batches: a smoke test")
    options = parser.parse_args(arguments)
    if options.quick:
        options.nodes, options.edges = 1 << 16, 1_000_000
        options.batch_size, options.fanouts = 32, [5, 5]
        options.budget, options.most_seconds, options.batches, options.turns = 15.0, 0.2, 4, 2
        options.limit = options.limit or QUICK_LIMIT
    names = ["nodes", "edges", "dim", "threads", "batches", "grid_rounds", "compared", "turns"]
    require_positive(parser, options, names)
    if options.limit is None:
        options.limit = int(options.nodes * options.dim * 4 * LIMIT_SHARE)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; 1 if the choice is farther from the best than the goal."""
    options = parse(arguments)
    os.makedirs(options.data, exist_ok=True)
    found = measure(options)
    print(report(found))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    loss = found["losses"]["turns"]
    return 0 if loss is not None and (loss <= GOAL or options.quick) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave no group and no process behind
    sys.exit(main())
