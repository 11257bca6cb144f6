"""Prefetch settings x datasets x memory limits, to one CSV table with a row for each trial.

Run ``python -m benchmarks.prefetch_sweep`` from the repository's root, with graphzero installed. It
is the measurement of ``graphzero tune`` with settings, datasets and limits of your own: every trial
runs cold in a process of its own, and each round has every setting once. A limit needs a place
where a memory cgroup can be made: root, a delegated group, or systemd-run. The table is written
after each dataset and limit.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from graphzero.commands.parsing import ended_by_signals, parse_fanouts
from graphzero.io.prefetch import STRATEGIES, Prefetch
from graphzero.report.tune import Trial, Workload, tune
from graphzero.store.outputs import Output, check_outputs, replaced_file
from graphzero.units import parse_size


def as_limit(text: str) -> int | None:
    """``"640MB"`` in bytes; None for "none"."""
    try:
        return None if text == "none" else parse_size(text, "--limits")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read_grid(path: Path) -> list[Prefetch]:
    """The settings of a JSON file.

    It has a list of objects with fields of `Prefetch`, or one object whose lists are combined:
    ``{"strategy": ["uring", "willneed"], "lookahead": [1, 2]}`` is four settings.

    Raises
    ------
    ValueError
        If it is neither, or a setting is wrong; the message names it.
    """
    try:
        found = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if isinstance(found, dict):
        lists = [value if isinstance(value, list) else [value] for value in found.values()]
        found = [dict(zip(found, values, strict=True)) for values in itertools.product(*lists)]
    names = {field.name for field in fields(Prefetch)}
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{path} has neither a list of settings nor an object of lists")
    settings = []
    for one in found:
        if unknown := sorted(set(one) - names):
            raise ValueError(f"{path}: {unknown} are not among {sorted(names)}")
        try:
            settings.append(Prefetch(**one))
        except ValueError as error:
            raise ValueError(f"{path}: {one}: {error}") from None
    return settings


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; exits with a message where something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prefetch_sweep", description=__doc__
    )
    add = parser.add_argument
    add("--datasets", nargs="+", required=True, metavar="DIR")
    add("--limits", type=as_limit, nargs="+", default=[None], metavar="SIZE", help="none: no limit")
    add("--prefetch", choices=("auto", *STRATEGIES), nargs="+", default=[], help="without options")
    add("--grid", type=Path, help="JSON file with settings that have options")
    add("--repeats", type=int, default=5)
    add("--fanouts", type=parse_fanouts, default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--split", default="train", help="whose nodes are the seeds; all: all nodes")
    add("--node-type", help="of a typed graph: type of the seeds; default: the one with the split")
    add("--threads", type=int, help="that sample")
    add("--step-ms", type=float, default=0.0, help="sleep a mini-batch, in place of a model")
    add("--out", type=Path, required=True, help="the table, a .csv file")
    options = parser.parse_args(arguments)
    try:
        options.settings = [Prefetch(strategy) for strategy in options.prefetch]
        if options.grid:
            options.settings += read_grid(options.grid)
        check_outputs([Output("--out", options.out)])
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except ValueError as error:
        parser.error(str(error))
    if not options.settings:
        parser.error("no setting: give --prefetch or --grid")
    return options


def row_of(trial: Trial, folder: str, limit: int | None) -> dict[str, object]:
    """A row of the table, by column."""
    figures = trial.plain()
    del figures["setting"], figures["seconds"], figures["stats"]
    place = {"dataset": folder, "limit_bytes": limit}
    return {**place, **asdict(trial.setting), **trial.stats, **figures}


def csv_text(rows: Sequence[dict[str, object]]) -> str:
    """Rows as CSV."""
    text = io.StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the sweep; the exit code."""
    options = parse(arguments)
    rows = []
    with ended_by_signals():
        for folder, limit in itertools.product(options.datasets, options.limits):
            work = Workload(
                *(folder, options.fanouts, options.batch_size, options.split, options.node_type),
                num_threads=options.threads,
                step_ms=options.step_ms,
            )
            try:
                tuned = tune(
                    work,
                    memory_limit=limit,
                    seconds=math.inf,
                    rounds=options.repeats,
                    settings=options.settings,
                    disk=False,
                    say=lambda text: print(text, flush=True),
                )
            except (OSError, RuntimeError, ValueError) as error:
                print(f"{folder}: {error}", file=sys.stderr)
                return 1
            rows += [row_of(trial, folder, limit) for trial in tuned.trials]
            with replaced_file(options.out) as file:
                file.write(csv_text(rows).encode())
            print("\n".join(tuned.lines()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
