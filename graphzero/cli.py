"""The command ``graphzero``: parses the command line, runs a command, and prints errors.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Sequence

import graphzero
from graphzero.commands.build_commands import BUILD, IMPORT
from graphzero.commands.change_commands import APPEND, REORDER, SET
from graphzero.commands.demo_command import DEMO
from graphzero.commands.inspect_commands import INFO, VERIFY
from graphzero.commands.parsing import Parser, add_command, add_flags, with_options
from graphzero.commands.remote_commands import FETCH, PUBLISH
from graphzero.commands.report_command import REPORT
from graphzero.commands.train_commands import PACK, TRAIN
from graphzero.commands.tune_command import TUNE
from graphzero.units import print_lines, require_local

_EXPECTED = (OSError, ValueError, IndexError, ImportError, MemoryError, RuntimeError)
COMMANDS = (  # in the order of the help
    *(BUILD, IMPORT, APPEND, SET, REORDER, PACK, INFO, VERIFY),
    *(FETCH, PUBLISH, TUNE, TRAIN, REPORT, DEMO),
)


def make_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="graphzero",
        description="Trains graph neural networks on graphs larger than memory.",
        epilog="'graphzero COMMAND --help' explains a command. Start with 'graphzero demo'.",
    )
    parser.add_argument("--version", action="version", version=graphzero.__version__)
    add_flags(parser)
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for command in COMMANDS:
        add_command(commands, command)
    return parser


def _one_line(error: BaseException) -> str:
    """An error as users see it."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    text = str(error).strip()
    if text.startswith("Caught "):  # by a DataLoader worker: the error stands after its traceback
        text = text.rpartition("\n")[2].strip()
    if isinstance(error, _EXPECTED) and text:
        return text
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _let_threads_sleep() -> None:
    """Starts the program again with ``OMP_WAIT_POLICY=passive``, unless the variable is set.

    By default OpenMP's threads spin while they wait for one another, which makes training five
    times slower where other programs need the same processors. The OpenMP runtime reads the
    variable once, when it is loaded; importing this package has loaded it.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _open_closed_streams() -> None:
    """Drops what is printed to a stream that the program was started without, as by ``>&-``.

    Its descriptor would be that of the next file that is opened, and libraries print to it.
    Commands that are run still start without it, because these descriptors are not inherited.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            dropped = open(os.devnull, mode, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
            setattr(sys, name, dropped)


def _fail(message: str, args: argparse.Namespace) -> None:
    print_lines(f"graphzero: {with_options(message, args)}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name. Default: those of this process.

    Returns
    -------
    int
        Exit code.
    """
    _open_closed_streams()
    args = make_parser().parse_args(argv)
    args.started = time.perf_counter()
    if argv is None and args.command in ("train", "demo"):
        _let_threads_sleep()
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _fail(f"warning: {message}", args)
        try:
            require_local(getattr(args, "dir", None) or getattr(args, "path", None) or "")
            code: int | None = args.run(args)
            sys.stdout.flush()
            return code or 0
        except KeyboardInterrupt as error:
            _fail(str(error) or "interrupted", args)
            if argv is None:  # Ctrl-C while the interpreter exits: no traceback from its callbacks
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            return 130
        except BrokenPipeError:
            # The reader of the output has gone; the interpreter flushes at exit and must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 1
        except Exception as error:
            if args.debug:
                print_lines(*traceback.format_exc().rstrip().split("\n"), file=sys.stderr)
            _fail(_one_line(error), args)
            return 1
