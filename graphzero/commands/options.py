"""Parsers of option values, and options that several commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from graphzero.graph.graph import Graph
from graphzero.graph.typed_dataset import TypedDataset
from graphzero.io.prefetch import Prefetch
from graphzero.sampling.presample import Presample

__all__ = [
    "SubParsers",
    "add_command",
    "add_flags",
    "add_neighbors_option",
    "add_order_options",
    "as_column",
    "as_fanouts",
    "as_prefetch",
    "as_size",
    "as_split",
    "describe_direction",
    "presample_of",
    "shows_progress",
]

SubParsers = Any  # the class is private in argparse
Run = Callable[[argparse.Namespace], int]
_STORED = {
    "in": "in-neighbours sampled",
    "out": "out-neighbours sampled",
    "both": "in-neighbours sampled, out-neighbours stored as well",
}


def add_flags(parser: argparse.ArgumentParser, **defaults: Any) -> None:
    """Adds the flags that are allowed before and after the command."""
    parser.add_argument("--debug", action="store_true", help="show tracebacks", **defaults)
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print results and errors only", **defaults
    )
    parser.add_argument(
        "--no-progress", action="store_true", help="show no progress bars", **defaults
    )


def add_command(
    commands: SubParsers, name: str, run: Run, *, help: str, examples: str
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


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows the defaults of options that have one; keeps the line breaks of the examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False or action.default == []:
            return action.help
        return super()._get_help_string(action)


def add_order_options(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Adds the order of nodes, required if there is no default, and the memory limit."""
    parser.add_argument(
        "--order",
        choices=("hot", "input", "presample"),
        default=default,
        required=default is None,
        help="order of nodes: by occurrences in the sampled neighbour lists, by id, or by visits "
        "in a few sampled epochs",
    )
    parser.add_argument("--memory-limit", default="2GB", metavar="SIZE", help="memory to use")
    _add_presample_options(parser)


def add_neighbors_option(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Adds which neighbours a directed graph stores."""
    parser.add_argument(
        "--neighbors",
        choices=("in", "out", "both"),
        default=default,
        help="neighbours that a directed graph stores and samples: sources of incoming edges (as "
        "PyG), targets of outgoing edges, or both (walks need out or both)"
        + ("" if default else " (default: those that it has)"),
    )


def _add_presample_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `Presample`; `presample_of` reads them."""
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


def presample_of(args: argparse.Namespace) -> Presample | None:
    """`Presample` from the command line; None if it has none of its options."""
    given = {
        field.name: getattr(args, field.name)
        for field in fields(Presample)
        if getattr(args, field.name) is not None
    }
    return Presample(**given) if given else None


def describe_direction(graph: Graph | TypedDataset) -> str:
    """How a graph's neighbour lists follow its edges, for a line that a user reads."""
    if isinstance(graph, TypedDataset):
        return f"directed, {_STORED[graph.neighbors]}"
    if not graph.is_directed:
        return "undirected, both directions stored"
    return f"directed, {_STORED[graph.stored_neighbors]}"


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


def as_size(text: str) -> int | float | str | None:
    """``"2GB"``, a number of bytes, or a fraction such as ``"0.2"``: as `Prefetch.resident`."""
    try:
        return Prefetch(resident=text).resident
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _number_or_text(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def as_split(text: str) -> tuple[str, str]:
    """``"train=train_idx.npy"`` as a name and a path."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE, such as train=train.npy")
    return name, path


def as_coalesce(text: str) -> str | dict[str, str]:
    """``"sum"``, or ``"edge_weight=sum,edge_time=min"`` by attribute, as `coalesce=` takes it."""
    if "=" not in text:
        return text
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and how for name, _, how in pairs):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither an aggregation nor NAME=AGG, such as edge_weight=sum"
        )
    return {name: how for name, _, how in pairs}


def as_column(text: str) -> str | int:
    """A column's position from 0 if the text is a number, else its name."""
    return int(text) if text.isdecimal() else text
