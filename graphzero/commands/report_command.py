"""``graphzero report``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from typing import Any

from graphzero.commands.child import Child, passing_signals_on
from graphzero.commands.options import SubParsers, add_command
from graphzero.store.outputs import Output

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero report -- python train.py --epochs 3
  graphzero report --html report.html --json report.json -- graphzero train data/
  graphzero report report.json --html report.html
"""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "report",
        run,
        help="run a command and say where its memory and time went",
        examples=_EXAMPLES,
    )
    parser.usage = (
        "graphzero report [options] -- COMMAND ...\n"
        "       graphzero report RECORDING.json [--html FILE]"
    )
    parser.add_argument(
        "target",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="what to run, with all words that follow; its exit code becomes that of this command. "
        "Or a recording that --json has written, to be shown again",
    )
    parser.add_argument("--pid", help=argparse.SUPPRESS)
    parser.add_argument(
        "--interval",
        type=_as_interval,
        metavar="SECONDS",
        help="between readings (default: 1)",
    )
    parser.add_argument(
        "--dataset",
        action="append",
        default=[],
        metavar="DIR",
        help="whose files to observe; those that graphzero's loaders read are observed anyway",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with charts")
    parser.add_argument("--json", metavar="FILE", help="write the recording")
    parser.set_defaults(parser=parser)


def _as_interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Records, and prints the summary on stderr."""
    if args.target[:1] == ["--"]:
        del args.target[0]
    elif args.target and _is_recording(args.target[0]):
        return _show(args)
    if args.pid is not None:
        args.parser.error(
            "--pid is no longer supported: start the program with 'graphzero report -- COMMAND', "
            "or use gz.Monitor in it"
        )
    if not args.target:
        args.parser.error("give a command to run after '--'")
    _files(args).check()
    return _run_command(args)


def _is_recording(path: str) -> bool:
    return path.endswith(".json") and not os.access(path, os.X_OK)


def _files(args: argparse.Namespace) -> Any:
    from graphzero.report.monitor import ReportFiles

    given = (("--json", args.json), ("--html", args.html))
    return ReportFiles(*(None if path is None else Output(name, path) for name, path in given))


def _run_command(args: argparse.Namespace) -> int:
    from graphzero.report.monitor import (
        CommandMonitor,  # the other commands do not need it
        files_of,
    )

    files_of(args.dataset)  # refuses wrong options before anything is run
    child = Child()
    with passing_signals_on(child), tempfile.TemporaryDirectory(prefix="graphzero-") as folder:
        prefix = os.path.join(folder, "batches")
        try:
            pid = child.start(args.target, {"GRAPHZERO_STATS": prefix})
        except FileNotFoundError:
            return _refuse(args.target[0], "there is no such program", _NOT_FOUND)
        except OSError as error:
            return _refuse(args.target[0], error.strerror or str(error), _NOT_EXECUTABLE)
        try:
            _record(args, CommandMonitor(args.dataset, args.interval or 1.0, pid, prefix), child)
        finally:
            code = child.wait()  # whatever has become of the recording
    return code


def _record(args: argparse.Namespace, monitor: Any, child: Child) -> None:
    """Records until the child ends; prints the summary, also if the files cannot be written."""
    from graphzero.report.summary import summarize

    has_begun = False
    try:
        with monitor:
            has_begun = True
            child.wait()
    finally:
        if has_begun:
            recording = replace(monitor.recording, exit_code=child.wait())
            try:
                _files(args).write(recording)
            finally:
                with suppress(BrokenPipeError):  # the reader of stderr has gone
                    print(f"\n{summarize(recording)}", file=sys.stderr)


def _refuse(program: str, reason: str, code: int) -> int:
    print(f"graphzero: {program}: {reason}", file=sys.stderr)
    return code


def _show(args: argparse.Namespace) -> int:
    from graphzero.report.recording import read_recording
    from graphzero.report.summary import summarize

    path, *options = args.target
    args.parser.parse_args(options, args)  # those that stand behind it
    if args.target:
        args.parser.error("a recording is shown alone")
    files = _files(args)
    files.check()
    recording = read_recording(path)
    files.write(recording)
    print(summarize(recording))
    return 0
