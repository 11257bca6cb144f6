"""``graphzero tune``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from graphzero.commands.parsing import (
    Command,
    add_batch_options,
    add_option,
    ended_by_signals,
    options_as,
)
from graphzero.graph.dataset import open_dataset
from graphzero.store.outputs import Output, check_outputs, files_of_dataset, replaced_file
from graphzero.units import format_bytes, parse_size, print_lines

if TYPE_CHECKING:
    from graphzero.report.tune import Tuned


def _add_tune_options(parser: argparse.ArgumentParser) -> None:
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
    add("--threads N", "sampling threads (default: all processors)", dest="num_threads")
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
        "minute; if it is too short for all settings, the slower ones have one trial or none",
        default=300.0,
    )
    add("--trials N", "trials of each setting, at least 3", default=3)
    add_option(parser, "--csv FILE", "write a row for each trial")
    add_option(parser, "--json", "print the result as JSON")


def _tune(args: argparse.Namespace) -> None:
    """Find the prefetch options that load a dataset's mini-batches fastest on this machine, by
    short trials, and print them for loaders and for graphzero train.

    graphzero tune data/ --memory-limit 2GB
    graphzero tune data/ --fanouts 15,10,5 --batch-size 1024 --csv trials.csv
    graphzero tune data/ --memory-limit 2GB --step-ms 20 --budget 120
    """
    from graphzero.report.tune import Workload, csv_rows, csv_text, tune

    outputs = [] if args.csv is None else [Output("--csv", args.csv)]
    with open_dataset(args.dir) as ds:
        check_outputs(outputs, files_of_dataset(ds.paths))
        has_train = any("train" in store.splits for store in ds.nodes.values())
    args.folder, args.split = args.dir, args.split or ("train" if has_train else "all")
    work = options_as(Workload, args)
    assert work is not None
    with ended_by_signals():
        tuned = tune(
            work,
            memory_limit=args.memory_limit and parse_size(args.memory_limit, "memory limit"),
            seconds=args.budget,
            rounds=args.trials,
            say=lambda text: None if args.quiet else print_lines(text, file=sys.stderr),
        )
    if args.csv is not None:
        with replaced_file(args.csv) as file:
            file.write(csv_text(csv_rows(tuned.trials)).encode())
    if args.json:
        print(json.dumps(tuned.content(), indent=2))
    else:
        print_lines(*_lines_of_choice(tuned))


def _lines_of_choice(tuned: Tuned) -> Iterator[str]:
    from graphzero.report.tune import as_argument

    limit = "no limit" if tuned.memory_limit is None else format_bytes(tuned.memory_limit)
    interface = f", by {tuned.group}" if tuned.group else ""
    yield f"memory: {limit}{interface}; {format_bytes(tuned.available)} available to the trials"
    for name, reason in tuned.unavailable.items():
        yield f"{name} was not compared: {reason}"
    if tuned.disk_rate is not None:
        yield f"disk: {format_bytes(round(tuned.disk_rate))}/s of random reads"
    yield ""
    yield from tuned.lines()
    yield ""
    if tuned.fits:
        yield (
            "the dataset fits in memory: these trials show how fast it comes there; once it is "
            "there, all settings are about as fast, so the default stays"
        )
    yield f"chosen, with {tuned.seconds[tuned.chosen]:.4f} s a mini-batch:"
    yield as_argument(tuned.chosen)


TUNE = Command("tune", _add_tune_options, _tune)
