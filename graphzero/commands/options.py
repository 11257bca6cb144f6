"""Parsers of option values, and options that several commands share."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.graph.graph import Graph
from graphzero.io.prefetch import Prefetch
from graphzero.sampling.presample import Presample
from graphzero.store.format import DTYPES, dtype_name
from graphzero.units import format_bytes

SubParsers = Any  # the class is private in argparse
_STORED = {
    "in": "in-neighbours sampled",
    "out": "out-neighbours sampled",
    "both": "in-neighbours sampled, out-neighbours stored as well",
}


def add_flags(parser: argparse.ArgumentParser, **defaults: Any) -> None:
    """Adds the flags that are allowed before and after the command."""
    for flags, text in (
        (["--debug"], "show tracebacks"),
        (["-q", "--quiet"], "print results and errors only"),
        (["--no-progress"], "show no progress bars"),
    ):
        parser.add_argument(*flags, action="store_true", help=text, **defaults)


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows the defaults of options that have one; keeps the line breaks of the examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False or action.default == []:
            return action.help
        return super()._get_help_string(action)


def add_command(
    commands: SubParsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    examples: str,
) -> argparse.ArgumentParser:
    """A parser for one command, with examples below its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog="examples:\n" + examples,
        formatter_class=_Formatter,
    )
    # No default: else a flag before the command would be reset here.
    add_flags(parser, default=argparse.SUPPRESS)
    parser.set_defaults(run=run)
    return parser


def add_order_options(
    parser: argparse.ArgumentParser, order: str | None = None, neighbors: str | None = None
) -> None:
    """Adds neighbours, order of nodes, presampling and memory limit; arguments are defaults."""
    parser.add_argument(
        "--neighbors",
        choices=("in", "out", "both"),
        default=neighbors,
        help="neighbours that a directed graph stores and samples: sources of incoming edges (as "
        "PyG), targets of outgoing edges, or both (walks need out or both)"
        + ("" if neighbors else " (default: those that it has)"),
    )
    parser.add_argument(
        "--order",
        choices=("hot", "input", "presample"),
        default=order,
        required=order is None,
        help="order of nodes: by occurrences in the sampled neighbour lists, by id, or by visits "
        "in a few sampled epochs",
    )
    parser.add_argument("--memory-limit", default="2GB", metavar="SIZE", help="memory to use")
    group = parser.add_argument_group(
        "order presample",
        "how visits are counted, from the split 'train' (of every node type that has one) or all "
        "nodes: choose as in training",
    )
    default = Presample()
    group.add_argument(
        "--fanouts",
        type=as_fanouts,
        metavar="N,N,...",
        help=f"neighbours per node in each hop (default: {','.join(map(str, default.fanouts))})",
    )
    for name, meaning in (
        ("batch_size", "seeds of a mini-batch"),
        ("epochs", "epochs to sample"),
        ("min_batches", "minimum of mini-batches; more epochs are sampled if needed"),
        ("max_batches", "maximum of mini-batches"),
        ("seed", "seed of the random draws"),
    ):
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=int,
            metavar="N",
            help=f"{meaning} (default: {getattr(default, name)})",
        )


def add_storage_options(parser: argparse.ArgumentParser) -> None:
    """Adds what builds and imports store of features and edges."""
    parser.add_argument(
        "--feature-dtype",
        choices=[dtype_name(dtype) for dtype in DTYPES.values()],
        metavar="DTYPE",
        help="dtype to store features in, such as float16 or bfloat16 (default: that of the input)",
    )
    parser.add_argument(
        "--edge-ids", action="store_true", help="store each edge's position in the edge list"
    )


def add_batch_options(group: Any) -> None:
    """Adds fanouts, batch size and node type of the seeds, to a parser or a group of one."""
    group.add_argument(
        "--fanouts",
        type=as_fanouts,
        default="15,10,5",
        metavar="N,N",
        help="neighbours per node in each hop; -1 is all of them, as in --fanouts=-1,10",
    )
    group.add_argument(
        "--batch-size", type=int, default=1024, metavar="N", help="seed nodes in a mini-batch"
    )
    group.add_argument(
        "--node-type",
        metavar="TYPE",
        help="of a typed graph: node type of the seeds (default: the one that has the split)",
    )


def order_options(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `build` and `reorder` for the options of `add_order_options`."""
    counting = {
        field.name: getattr(args, field.name)
        for field in fields(Presample)
        if getattr(args, field.name) is not None
    }
    return {
        "neighbors": args.neighbors,
        "order": args.order,
        "presample": Presample(**counting) if counting else None,
        "memory_limit": args.memory_limit,
        "progress": shows_progress(args),
    }


def describe_direction(graph: Graph | Dataset) -> str:
    """How a graph's neighbour lists follow its edges, for a line that a user reads."""
    if isinstance(graph, Dataset):
        if graph.is_typed:
            return f"directed, {_STORED[graph.neighbors]}"
        graph = graph.graph
    if not graph.is_directed:
        return "undirected, both directions stored"
    return f"directed, {_STORED[graph.stored_neighbors]}"


def print_built(path: str, lines: Iterable[str], started: float) -> None:
    """Prints a summary of a dataset that was built, and the closing lines of its build."""
    with open_dataset(path) as ds:
        nodes, edges = f"{ds.num_nodes:,} nodes", f"{ds.num_edges:,} edges"
        if ds.is_typed:
            nodes, edges = f"{nodes} of {len(ds.nodes)} types", f"{edges} of {len(ds.edges)} types"
        else:
            edges = f"{edges} ({ds.graph.num_input_edges:,} in the edge list)"
        size = format_bytes(sum(mapping.size for mapping in ds.mappings))
        print(
            f"{path}: {nodes}, {edges}, {describe_direction(ds)}, {size}, "
            f"in {time.perf_counter() - started:.1f} s"
        )
    for line in lines:
        print(line)


def shows_progress(args: argparse.Namespace) -> bool:
    """Whether to show progress bars: on a terminal, unless they are switched off."""
    return not (args.quiet or args.no_progress) and sys.stderr.isatty()


def as_fanouts(text: str) -> list[int]:
    """``"10,10"`` as a list; -1 means all neighbours."""
    try:
        fanouts = [int(part) for part in text.split(",")]
    except ValueError:
        fanouts = []
    if not fanouts or any(fanout < 1 and fanout != -1 for fanout in fanouts):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of fanouts: write it like 10,10 (-1 for all neighbours)"
        )
    return fanouts


def as_prefetch(text: str) -> Prefetch:
    """``"uring:lookahead=2,resident=2GB"``: a strategy and, after a colon, fields of `Prefetch`."""
    strategy, _, options = text.partition(":")
    names = {field.name for field in fields(Prefetch)} - {"strategy"}
    values: dict[str, Any] = {"strategy": strategy}
    try:
        for option in filter(None, options.split(",")):
            name, _, value = option.partition("=")
            if name not in names:
                raise ValueError(f"{name!r} is not one of {sorted(names)}")
            values[name] = _number_or_text(value)
        return Prefetch(**values)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def _number_or_text(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
