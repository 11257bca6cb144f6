"""``graphzero tune``."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from graphzero.commands.parsing import add_batch_options, add_option, ended_by_signals
from graphzero.graph.dataset import open_dataset
from graphzero.store.outputs import Output, check_outputs, files_of_dataset, replaced_file
from graphzero.store.tuning_file import TUNING_NAME, content_of
from graphzero.units import format_bytes, parse_size, print_lines

if TYPE_CHECKING:
    from graphzero.report.tune import Tuned

HELP = (
    "find the prefetch options that load a dataset's mini-batches fastest on this machine, by "
    "short trials, and write them beside the dataset, where loaders find them"
)
EXAMPLES = """\
  graphzero tune data/ --memory-limit 2GB
  graphzero tune data/ --fanouts 15,10,5 --batch-size 1024 --csv trials.csv
  graphzero tune data/ --memory-limit 2GB --step-ms 20 --budget 120
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add = partial(add_option, parser)
    add("dir", "a dataset folder")
    add(
        "--memory-limit SIZE",
        "memory that the training process will have in all, such as 2GB: with its page cache, "
        "mini-batches, interpreter and libraries. Each trial runs under this limit. Take off what "
        "the model will need (default: what the machine has available now)",
    )
    group = parser.add_argument_group("mini-batches", "as in your training")
    add = partial(add_option, group)
    add_batch_options(group)
    add(
        "--split NAME",
        "split whose nodes are the seeds; 'all' takes all nodes (default: train if there is such a "
        "split, else all)",
    )
    add("--gather NAME,NAME", "attributes that mini-batches have (default: all)")
    add("--threads N", "sampling threads (default: all processors)")
    add(
        "--step-ms X",
        "sleep so many milliseconds for each mini-batch, in place of a model on a GPU; 0 compares "
        "how fast mini-batches are loaded",
        default=0.0,
    )
    add = partial(add_option, parser.add_argument_group("trials"))
    add(
        "--budget SECONDS",
        "trials are as long as all of them together allow in this time, a quarter of a second to a "
        "minute",
        default=300.0,
    )
    add("--trials N", "trials of each setting, at least 3", default=3)
    add = partial(add_option, parser.add_argument_group("output files"))
    add(
        "--out FILE",
        f"write the tuning to this file instead of {TUNING_NAME} in the dataset folder, the only "
        f"place where loaders look for it",
    )
    add("--csv FILE", "write a row for each trial")
    add_option(parser, "--json", "print the result as JSON")


def _require_replaceable(path: Path) -> None:
    """Refuses to write where there is a file that no `tune` has written, and that is not empty."""
    try:
        if path.exists() and path.stat().st_size > 0:
            content_of(path)
    except (OSError, ValueError, RecursionError) as error:
        reason = "graphzero tune did not write this file: rename it, or write to another with --out"
        raise FileExistsError(errno.EEXIST, reason, os.fspath(path)) from error


def run(args: argparse.Namespace) -> int:
    """Measures, prints a table and the choice, and writes them."""
    from graphzero.report.tune import Workload, csv_rows, csv_text, tune

    path = Path(args.dir) / TUNING_NAME if args.out is None else Path(args.out)
    outputs = [Output("--out", path), *([Output("--csv", args.csv)] if args.csv else [])]
    with open_dataset(args.dir) as ds:
        check_outputs(outputs, files_of_dataset(ds.paths))
        has_train = any("train" in store.splits for store in ds.nodes.values())
    _require_replaceable(path)
    work = Workload(
        *(args.dir, args.fanouts, args.batch_size),
        args.split or ("train" if has_train else "all"),
        args.node_type,
        gather=args.gather,
        num_threads=args.threads,
        step_ms=args.step_ms,
    )
    with ended_by_signals():
        tuned = tune(
            work,
            memory_limit=args.memory_limit and parse_size(args.memory_limit, "memory limit"),
            seconds=args.budget,
            rounds=args.trials,
            say=lambda text: None if args.quiet else print_lines(text, file=sys.stderr),
        )
    content = tuned.content()
    with replaced_file(path) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())
    if args.csv is not None:
        with replaced_file(args.csv) as file:
            file.write(csv_text(csv_rows(tuned.trials)).encode())
    if args.json:
        print(json.dumps(content, indent=2))
        return 0
    print_lines(*_closing_lines(tuned, path, args.out is None))
    return 0


def _closing_lines(tuned: Tuned, path: Path, is_found: bool) -> Iterator[str]:
    from graphzero.report.tune import describe

    limit = "no limit" if tuned.memory_limit is None else format_bytes(tuned.memory_limit)
    how = f", by {tuned.group}" if tuned.group else ""
    yield f"memory: {limit}{how}; {format_bytes(tuned.available)} available to the trials"
    for name, reason in tuned.unavailable.items():
        yield f"{name} was not compared: {reason}"
    if tuned.disk_rate is not None:
        yield f"disk: {format_bytes(round(tuned.disk_rate))}/s of random reads"
    yield ""
    yield from tuned.lines()
    yield ""
    yield f"chosen: {describe(tuned.chosen)}, {tuned.seconds[tuned.chosen]:.4f} s a mini-batch"
    if tuned.fits:
        yield (
            "the dataset fits in memory: these trials show how fast it comes there; once it is "
            "there, all settings are about as fast, so the default stays"
        )
    yield f"{path}: {'loaders of this dataset use it from now on' if is_found else 'written'}"
