"""``graphzero tune``."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphzero.commands.options import SubParsers, add_command, as_fanouts, shows_progress
from graphzero.commands.signals import ended_by_signals
from graphzero.graph.opening import open_dataset
from graphzero.store.outputs import Output, check_outputs, files_of_dataset, replaced_file
from graphzero.store.tuning_file import TUNING_NAME, require_replaceable, write_tuning
from graphzero.units import parse_size

if TYPE_CHECKING:
    from graphzero.report.tuning.trial import Workload
    from graphzero.report.tuning.tuner import Tuned

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero tune data/ --memory-limit 2GB
  graphzero tune data/ --fanouts 15,10,5 --batch-size 1024 --html tuning.html
  graphzero tune data/ --memory-limit 2GB --step-ms 20 --budget 120
"""


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "tune",
        run,
        help="find the prefetch options that load a dataset's mini-batches fastest on this "
        "machine, by short trials, and write them beside the dataset, where loaders find them",
        examples=_EXAMPLES,
    )
    add = parser.add_argument
    add("dir", help="a dataset folder")
    add(
        "--memory-limit",
        metavar="SIZE",
        help="memory that the training process will have in all, such as 2GB: with its page "
        "cache, mini-batches, interpreter and libraries. Each trial runs under this limit. Take "
        "off what the model will need (default: what the machine has available now)",
    )
    _add_workload_options(parser)
    group = parser.add_argument_group("search")
    group.add_argument(
        "--budget",
        type=_as_seconds,
        default=300.0,
        metavar="SECONDS",
        help="after so long, no further trial begins",
    )
    group.add_argument(
        "--full",
        action="store_true",
        help="measure every setting thoroughly, however long that takes; without it, settings "
        "that are slow in a short trial are not measured further",
    )
    group = parser.add_argument_group("output files")
    group.add_argument(
        "--out",
        metavar="FILE",
        help=f"write the tuning to this file instead of {TUNING_NAME} in the dataset folder, the "
        f"only place where loaders look for it",
    )
    group.add_argument("--html", metavar="FILE", help="write a page with the heat map")
    group.add_argument("--svg", metavar="FILE", help="write the heat map")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _add_workload_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("mini-batches", "as in your training")
    add = group.add_argument
    add(
        "--fanouts",
        type=as_fanouts,
        default="15,10,5",
        metavar="N,N",
        help="neighbours per node in each hop; -1 is all of them, as in --fanouts=-1,10",
    )
    add("--batch-size", type=int, default=1024, metavar="N", help="seed nodes in a mini-batch")
    add(
        "--split",
        metavar="NAME",
        help="split whose nodes are the seeds; 'all' takes all nodes (default: train if there is "
        "such a split, else all)",
    )
    add(
        "--node-type",
        metavar="TYPE",
        help="of a typed graph: node type of the seeds (default: the one that has the split)",
    )
    add(
        "--gather",
        type=lambda text: tuple(text.split(",")),
        metavar="NAME,NAME",
        help="attributes that mini-batches have (default: all)",
    )
    add("--threads", type=int, metavar="N", help="sampling threads (default: all processors)")
    add(
        "--step-ms",
        type=_as_milliseconds,
        default=0.0,
        metavar="MS",
        help="sleep so long for each mini-batch, in place of a model on a GPU; 0 compares how fast "
        "mini-batches are loaded",
    )


def _as_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return seconds


def _as_milliseconds(text: str) -> float:
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = -1.0
    if not 0 <= milliseconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds")
    return milliseconds


def run(args: argparse.Namespace) -> int:
    """Measures, prints the heat map and the choice, and writes them."""
    workload = _workload(args)
    path = Path(args.dir) / TUNING_NAME if args.out is None else Path(args.out)
    outputs = [Output("--out", path)]
    outputs += [Output(f"--{n}", getattr(args, n)) for n in ("html", "svg") if getattr(args, n)]
    with open_dataset(args.dir) as ds:
        check_outputs(outputs, files_of_dataset(ds.paths))
    require_replaceable(path)
    limit = args.memory_limit
    with ended_by_signals():
        tuned = _tune(args, workload, None if limit is None else parse_size(limit, "memory limit"))
    content = tuned.content()
    write_tuning(path, content)
    _write_charts(args, tuned)
    if args.json:
        print(json.dumps(content, indent=2))
        return 0
    for line in _closing_lines(tuned, path, args.out is None):
        print(line)
    return 0


def _workload(args: argparse.Namespace) -> Workload:
    from graphzero.graph.typed_dataset import TypedDataset
    from graphzero.report.tuning.trial import Workload

    with open_dataset(args.dir) as ds:
        stores = ds.nodes.values() if isinstance(ds, TypedDataset) else [ds]
        names = {name for store in stores for name in store.splits}
    split = args.split or ("train" if "train" in names else "all")
    return Workload(
        args.dir,
        args.fanouts,
        args.batch_size,
        split,
        args.node_type,
        gather=args.gather,
        num_threads=args.threads,
        step_ms=args.step_ms,
    )


def _tune(args: argparse.Namespace, workload: Workload, limit: int | None) -> Tuned:
    from graphzero.report.tuning.live_table import LiveTable, PlainLines
    from graphzero.report.tuning.tuner import tune

    options: dict[str, Any] = {
        "memory_limit": limit,
        "seconds": args.budget,
        "full": args.full,
    }
    if args.quiet:
        return tune(workload, **options)
    with LiveTable() if shows_progress(args) else PlainLines() as observer:
        return tune(workload, **options, observer=observer)


def _write_charts(args: argparse.Namespace, tuned: Tuned) -> None:
    if args.svg is not None:
        from graphzero.report.tuning.heat_map import heat_map_svg

        with replaced_file(args.svg) as file:
            file.write(heat_map_svg(tuned).encode())
    if args.html is not None:
        from graphzero.report.tuning.page import tuning_page

        with replaced_file(args.html) as file:
            file.write(tuning_page(tuned).encode())


def _closing_lines(tuned: Tuned, path: Path, is_found: bool) -> Iterator[str]:
    from graphzero.report.tuning.grid import describe
    from graphzero.report.tuning.heat_map import heat_map_lines, seconds_text
    from graphzero.report.tuning.page import conditions

    for name, text in conditions(tuned):
        yield f"{name + ':':14s} {text}"
    yield ""
    yield from heat_map_lines(tuned)
    yield "* the choice; settings that are slow leave early, with figures of shorter trials"
    yield ""
    chosen = tuned.chosen
    seconds = tuned.seconds(chosen)
    rate = "" if seconds is None else f", {seconds_text(seconds)} a mini-batch"
    yield f"chosen: {describe(chosen)}{rate}"
    if tuned.found.left_out:
        yield (
            f"{len(tuned.found.left_out)} settings were not measured, because the time was over: "
            f"give a larger --budget"
        )
    if tuned.fits:
        yield (
            "the dataset fits in memory: these trials show how fast it comes there; once it is "
            "there, all settings are about as fast, so the default stays"
        )
    yield f"{path}: {'loaders of this dataset use it from now on' if is_found else 'written'}"
