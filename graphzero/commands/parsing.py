"""What commands share: parsers of options and their values, closing lines, signals."""

from __future__ import annotations

import argparse
import inspect
import re
import shlex
import signal
import sys
import textwrap
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.graph.graph import Graph
from graphzero.io.prefetch import STRATEGIES, Prefetch
from graphzero.sampling.presample import Presample
from graphzero.store.format import DTYPES, dtype_name
from graphzero.units import format_bytes, print_lines, printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Options = TypeVar("_Options", bound="DataclassInstance")
OptionGroup = argparse.ArgumentParser | argparse._ArgumentGroup

_STORED = {
    "in": "in-neighbours sampled",
    "out": "out-neighbours sampled",
    "both": "in-neighbours sampled, out-neighbours stored as well",
}


@dataclass(frozen=True)
class Command:
    """A sub-command.

    Attributes
    ----------
    name : str
    add_options : callable
        Adds its options to its parser.
    run : callable
        Gets the parsed command line; returns an exit code, or None for 0. Its docstring is the help
        of the command: a paragraph, and examples.
    """

    name: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Namespace], int | None]


def _require_first(action: argparse.Action, args: Namespace) -> None:
    """Refuses an option that a command line has twice: the last would hold without a word."""
    names = vars(args).setdefault("single_options", set())
    if action.option_strings and action.dest in names:
        raise argparse.ArgumentError(action, "is given twice: leave one of them out")
    names.add(action.dest)


class _Single(argparse.Action):
    """Stores the only value of an option."""

    def __call__(self, parser: object, args: Namespace, value: object, name: object = "") -> None:
        _require_first(self, args)
        setattr(args, self.dest, value)


class Switch(argparse.BooleanOptionalAction):
    """The only ``--name`` or ``--no-name``."""

    def __call__(self, parser: Any, args: Namespace, value: Any, name: str | None = None) -> None:
        """Stores whether it is the first."""
        _require_first(self, args)
        super().__call__(parser, args, value, name)


class NamedValues(argparse.Action):
    """Collects names and values of a repeated option, each name once."""

    def __call__(self, parser: object, args: Namespace, pair: Any, option: object = "") -> None:
        """Adds a pair to those that stand before it."""
        name, value = pair
        pairs = getattr(args, self.dest)
        if name in pairs:
            raise argparse.ArgumentError(self, f"{name!r} is given twice: leave one of them out")
        setattr(args, self.dest, {**pairs, name: value})


class Names(argparse.Action):
    """Collects the values of a repeated option; "none" stands for an empty list."""

    def __call__(self, parser: object, args: Namespace, value: Any, option: object = "") -> None:
        """Adds a name to those that stand before it."""
        names = getattr(args, self.dest)
        if names is not None and "none" in (value, *(names or ["none"])):
            raise argparse.ArgumentError(self, "'none' is given beside names: leave it or them out")
        setattr(args, self.dest, [] if value == "none" else [*(names or []), value])


class Parser(argparse.ArgumentParser):
    """A parser that takes an option once, unless its action collects values."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in (None, "store"):
            self.register("action", name, _Single)

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit code 2, after one line of usage."""
        positional = [action for action in self._actions if not action.option_strings]
        words = " ".join(str(action.metavar or action.dest) for action in positional)
        usage = f"usage: {self.prog} [options] {words} ('{self.prog} --help' has all options)"
        self.exit(2, f"{usage}\n{self.prog}: error: {printable(message)}\n")


def add_flags(parser: argparse.ArgumentParser, default: bool | str = False) -> None:
    """Adds the flags that are allowed before and after the command."""
    add = partial(parser.add_argument, action="store_true", default=default)
    add("--debug", help="show tracebacks")
    add("-q", "--quiet", help="print results and errors only")
    add("--no-progress", help="show no progress bars")


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows the defaults of options that have one; keeps the line breaks of the examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, [], {}) or isinstance(action.default, bool):
            return action.help
        return super()._get_help_string(action)


def add_command(commands: argparse._SubParsersAction[Parser], command: Command) -> None:
    """Adds a command with its help, examples and options."""
    explanation, _, examples = (inspect.getdoc(command.run) or "").partition("\n\n")
    parser = commands.add_parser(
        command.name,
        help=explanation[:1].lower() + explanation[1:].rstrip("."),
        description=explanation,
        epilog="examples:\n" + textwrap.indent(examples, "  "),
        formatter_class=_Formatter,
    )
    # No default: else a flag before the command would be reset here.
    add_flags(parser, default=argparse.SUPPRESS)
    parser.set_defaults(run=command.run)
    command.add_options(parser)
    parser.set_defaults(option_actions=[a for a in parser._actions if a.option_strings])


# Of a message: a call, whose arguments are not those of the command, or an argument of Python.
_ARGUMENT = re.compile(
    r"[\w.]+\([^()]*\)|(?<![\w.'/-])(\w+)=('[^']*'|\[(?:'[^']*'(?:, )?)*\]|\w+)?(?![\w./({['\"])"
)
_EXAMPLE = re.compile(r", as in gz\.Source\([^()]*\)")
_SOURCE = re.compile(r"(?:(\w+)=)?gz\.Source\(\.\.\., (\w+)=(.*?)\)")


def with_options(message: str, args: Namespace) -> str:
    """A message that names arguments of Python, with the options of the command instead.

    With ``--from``, arguments are entries of the file.
    """
    if getattr(args, "description", None) is not None:
        return message
    actions: list[argparse.Action] = args.option_actions
    names = {action.dest for action in actions}

    def option(match: re.Match[str]) -> str:
        alike = [action for action in actions if action.dest == match[1]]
        return _as_option(alike, match[2]) if alike else match[0]

    def source(match: re.Match[str]) -> str:
        what, name, value = match.groups()
        if name in names:
            return f"{name}={'' if '...' in value else value}"
        return f"{what or 'NAME'} = {{path = ..., {name} = {value}}} in a file for --from"

    return _ARGUMENT.sub(option, _SOURCE.sub(source, _EXAMPLE.sub("", message)))


def _as_option(actions: Sequence[argparse.Action], value: str | None) -> str:
    """An option as a command line has it, with a value that is written in Python.

    Parameters
    ----------
    actions : sequence of argparse.Action
        Those that set what the value is of.
    value : str or None
    """
    for action in actions:
        if action.nargs == 0 and (isinstance(action, Switch) or value in (None, str(action.const))):
            return action.option_strings[-1 if value == "False" else 0]
    name = actions[0].option_strings[0]
    if actions[0].nargs == 0:
        return f"no {name}"
    if value in (None, "True"):
        return name
    words = re.findall("'([^']*)'", value) or ["none" if value in ("False", "[]") else value]
    if actions[0].metavar == "NAME,NAME":
        words = [",".join(words)]
    return " ".join(f"{name} {shlex.quote(word)}" for word in words)


def add_option(to: OptionGroup, words: str, help: str, **options: Any) -> None:
    """Adds an option to a parser or a group, written as in its help: ``"--epochs N"``.

    What the second word stands for is its type; an option of one word is a flag.
    """
    name, _, metavar = words.partition(" ")
    if metavar and "choices" not in options:
        options = {"metavar": metavar, "type": _TYPES.get(metavar), **options}
    elif name.startswith("--") and not metavar:
        options.setdefault("action", "store_true")
    to.add_argument(name, help=help, **options)


def add_order_options(
    parser: argparse.ArgumentParser, order: str | None = None, neighbors: str | None = None
) -> None:
    """Adds neighbours, order of nodes, presampling and memory limit; arguments are defaults."""
    add_option(
        parser,
        "--neighbors NAME",
        "neighbours that a directed graph stores and samples: sources of incoming edges (as PyG), "
        "targets of outgoing edges, or both (walks need out or both)"
        + ("" if neighbors else " (default: those that it has)"),
        choices=("in", "out", "both"),
        default=neighbors,
    )
    add_option(
        parser,
        "--order NAME",
        "order of nodes: by occurrences in the sampled neighbour lists, by id, or by visits in a "
        "few sampled epochs",
        choices=("hot", "input", "presample"),
        default=order,
        required=order is None,
    )
    add_option(parser, "--memory-limit SIZE", "memory to use", default="2GB")
    group = parser.add_argument_group(
        "order presample",
        "how visits are counted, from the split 'train' (of every node type that has one) or all "
        "nodes: choose as in training",
    )
    default = Presample()
    fanouts = ",".join(map(str, default.fanouts))
    add_option(group, "--fanouts N,N", f"neighbours per node in each hop (default: {fanouts})")
    for name, meaning in (
        ("batch_size", "seeds of a mini-batch"),
        ("epochs", "epochs to sample"),
        ("min_batches", "minimum of mini-batches; more epochs are sampled if needed"),
        ("max_batches", "maximum of mini-batches"),
        ("seed", "seed of the random draws"),
    ):
        text = f"{meaning} (default: {getattr(default, name)})"
        add_option(group, f"--{name.replace('_', '-')} N", text)


def add_storage_options(parser: argparse.ArgumentParser) -> None:
    """Adds what builds and imports store of features and edges."""
    parser.add_argument(
        "--feature-dtype",
        choices=[dtype_name(dtype) for dtype in DTYPES.values() if dtype.kind != "b"],
        metavar="DTYPE",
        help="dtype to store features in, such as float16 or bfloat16 (default: float32 for "
        "tables, else that of the input)",
    )
    add_option(parser, "--edge-ids", "store each edge's position in the edge list")


def add_batch_options(group: OptionGroup) -> None:
    """Adds fanouts, batch size and node type of the seeds, to a parser or a group of one."""
    add_option(
        group,
        "--fanouts N,N",
        "neighbours per node in each hop; -1 is all of them, as in --fanouts=-1,10",
        default="15,10,5",
    )
    add_option(group, "--batch-size N", "seed nodes in a mini-batch", default=1024)
    text = "of a typed graph: node type of the seeds (default: the one that has the split)"
    add_option(group, "--node-type TYPE", text)


def add_prefetch_options(to: OptionGroup, resident: str, memory_limit: str) -> None:
    """Adds the options of a `Prefetch`; two of them with the help that the command has."""
    add_option(
        to,
        "--prefetch STRATEGY",
        "how rows are read (default: auto); graphzero.Prefetch has further options in Python",
        choices=("auto", *STRATEGIES),
        dest="strategy",
    )
    text = f"mini-batches that are read ahead (default: {Prefetch().lookahead})"
    add_option(to, "--lookahead N", text)
    text = "mini-batches that are read together (default: as memory allows)"
    add_option(to, "--group N", text)
    add_option(to, "--resident SIZE", resident)
    add_option(to, "--memory-limit SIZE", memory_limit)


def options_as(kind: type[_Options], args: Namespace) -> _Options | None:
    """What the command line says of the fields of a dataclass; None if it says nothing."""
    values = {field.name: getattr(args, field.name, None) for field in fields(kind)}
    chosen = {name: value for name, value in values.items() if value is not None}
    return kind(**chosen) if chosen else None


def order_options(args: Namespace) -> dict[str, Any]:
    """The values of the options of `add_order_options`, but ``neighbors``.

    Raises
    ------
    ValueError
        If it says how to presample for another order.
    """
    presample = options_as(Presample, args)
    if presample is not None and args.order != "presample":
        raise ValueError("--fanouts, --epochs and the like are for --order presample")
    return {
        "order": args.order,
        "presample": presample,
        "memory_limit": args.memory_limit,
        "progress": shows_progress(args),
    }


def describe_direction(graph: Graph | Dataset) -> str:
    """How a graph's neighbour lists follow its edges, for a line that a user reads."""
    if isinstance(graph, Dataset):
        graph = next(iter(graph.edges.values())).graph
    if not graph.is_directed:
        return "undirected, both directions stored"
    return f"directed, {_STORED[graph.stored_neighbors]}"


def print_built(args: Namespace, path: str, lines: Iterable[str] = (), *, order: str = "") -> None:
    """Prints a summary of a dataset that was written, and the closing lines of its build."""
    with open_dataset(path) as ds:
        nodes, edges = f"{ds.num_nodes:,} nodes", f"{ds.num_edges:,} edges"
        if ds.is_typed:
            nodes, edges = f"{nodes} of {len(ds.nodes)} types", f"{edges} of {len(ds.edges)} types"
        else:
            edges = f"{edges} ({ds.graph.num_input_edges:,} in the edge list)"
        size = format_bytes(sum(mapping.size for mapping in ds.mappings))
        direction, seconds = describe_direction(ds), time.perf_counter() - args.started
    built = f"{path}: {nodes}{order}, {edges}, {direction}, {size}, in {seconds:.1f} s"
    print_lines(built, *lines)


def shows_progress(args: Namespace) -> bool:
    """Whether to show progress bars: on a terminal, unless they are switched off."""
    return not (args.quiet or args.no_progress) and sys.stderr.isatty()


@contextmanager
def handling_signals(names: Iterable[str], handle: Callable[..., None]) -> Iterator[None]:
    """Handles signals in the block, but for those that this process ignores, as nohup has it do."""
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    handled = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C and other requests to end leave no process and no memory group behind.

    The first is a `KeyboardInterrupt`. Further ones would interrupt the cleaning up.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP")

    def interrupt(*_: object) -> None:
        for name in names:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        raise KeyboardInterrupt

    with handling_signals(names, interrupt):
        yield


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], None]]:
    """Ctrl-C waits until the function is called; pressed again before that, it ends at once."""
    pressed = threading.Event()

    def press(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    def check() -> None:
        if pressed.is_set():
            pressed.clear()
            raise KeyboardInterrupt

    with handling_signals(("SIGINT",), press):
        yield check


def parse_fanouts(text: str) -> list[int]:
    """``"10,10"`` as a list; -1 means all neighbours."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of fanouts: write it like 10,10 (-1 for all neighbours)"
        ) from None


def as_column(text: str) -> str | int:
    """A column's position from 0 if the text is a number, else its name."""
    return int(text) if text.isdecimal() else text


# What the second word of an option stands for; a text, if it is not here.
_TYPES: dict[str, Callable[[str], object]] = {
    "N": int,
    "X": float,
    "N,N": parse_fanouts,
    "NAME,NAME": lambda text: tuple(text.split(",")),
    "SECONDS": float,
    "COL": as_column,
}
