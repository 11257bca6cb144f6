"""The command ``graphzero``: parses the command line, runs a command, and prints errors.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module

import graphzero
from graphzero.commands.parsing import add_command, add_flags

_EPILOG = "'graphzero COMMAND --help' explains a command. Start with 'graphzero demo'."
# Each is a module of `graphzero.commands`; in the order of the help.
_COMMANDS = (
    *("build", "import", "reorder", "pack", "info"),
    *("verify", "tune", "train", "infer", "report", "demo"),
)
_EXPECTED = (OSError, ValueError, IndexError, ImportError, MemoryError, RuntimeError)


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="graphzero",
        description="Trains graph neural networks on graphs larger than memory.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=graphzero.__version__)
    add_flags(parser)
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for name in _COMMANDS:
        add_command(commands, name, import_module(f"graphzero.commands.{name}_command"))
    return parser


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    # A DataLoader worker's error carries its traceback; the last line is the error itself.
    text = str(error).strip().rpartition("\n")[2].strip()
    if isinstance(error, _EXPECTED) and text:
        return text
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _fail(message: str) -> None:
    print(f"graphzero: {message}", file=sys.stderr)


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
    if argv is None and args.command in ("train", "infer", "demo"):
        _let_threads_sleep()
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _fail(f"warning: {message}")
        try:
            code: int = args.run(args)
            sys.stdout.flush()
            return code
        except KeyboardInterrupt as error:
            _fail(str(error) or "interrupted")
            if argv is None:  # Ctrl-C while the interpreter exits: no traceback from its callbacks
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            return 130
        except BrokenPipeError:
            # The reader of the output has gone; the interpreter flushes at exit and must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 1
        except Exception as error:
            if args.debug:
                traceback.print_exc()
            _fail(_one_line(error))
            return 1


if __name__ == "__main__":
    sys.exit(main())
