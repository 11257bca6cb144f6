"""``graphzero report``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from graphzero.commands.child import Child, passing_signals_on
from graphzero.commands.options import SubParsers, add_command
from graphzero.store.outputs import Output

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero report -- python train.py --epochs 3
  graphzero report --html report.html --json report.json -- graphzero train data/
  graphzero report --pid 12345
  graphzero report report.json --html report.html
"""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "report",
        run,
        help="run a command, or watch a process, and say where its memory and time went",
        examples=_EXAMPLES,
    )
    parser.usage = (
        "graphzero report [options] -- COMMAND ...\n"
        "       graphzero report [options] --pid PID\n"
        "       graphzero report RECORDING.json [--html FILE]"
    )
    parser.add_argument(
        "target",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="what to run, with all words that follow; its exit code becomes that of this command. "
        "Or a recording that --json has written, to be shown again",
    )
    parser.add_argument(
        "--pid", type=_as_pid, metavar="PID", help="watch this process until it ends, or Ctrl-C"
    )
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


def _as_pid(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a process")
    return int(text)


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
    if (args.pid is None) == (not args.target):
        args.parser.error("give a command to run after '--', or the --pid of a process")
    _files(args).check()
    if args.pid is not None:
        return _watch(args)
    return _run_command(args)


def _is_recording(path: str) -> bool:
    return path.endswith(".json") and not os.access(path, os.X_OK)


def _files(args: argparse.Namespace) -> Any:
    from graphzero.report.report_files import ReportFiles

    given = (("--json", args.json), ("--html", args.html))
    return ReportFiles(*(None if path is None else Output(name, path) for name, path in given))


def _monitor(args: argparse.Namespace, pid: int) -> Any:
    from graphzero.report.monitor import Monitor  # imports what the other commands do not need

    return Monitor(args.dataset, interval=args.interval or 1.0, pid=pid)


def _run_command(args: argparse.Namespace) -> int:
    _monitor(args, os.getpid())  # refuses wrong options before anything is run
    child = Child()
    with passing_signals_on(child):
        try:
            pid = child.start(args.target)
        except FileNotFoundError:
            return _refuse(args.target[0], "there is no such program", _NOT_FOUND)
        except OSError as error:
            return _refuse(args.target[0], error.strerror or str(error), _NOT_EXECUTABLE)
        try:
            _record(args, _monitor(args, pid), child.wait, before="\n")
        finally:
            code = child.wait()  # whatever has become of the recording
    return code


def _record(
    args: argparse.Namespace, monitor: Any, wait: Callable[[], object], *, before: str = ""
) -> None:
    """Records until `wait` returns; prints the summary, also if the files cannot be written."""
    has_begun = False
    try:
        with monitor:
            has_begun = True
            wait()
    finally:
        if has_begun:
            try:
                _files(args).write(monitor.recording)
            finally:
                with suppress(BrokenPipeError):  # the reader of stderr has gone
                    print(f"{before}{monitor.summary}", file=sys.stderr)


def _refuse(program: str, reason: str, code: int) -> int:
    print(f"graphzero: {program}: {reason}", file=sys.stderr)
    return code


def _watch(args: argparse.Namespace) -> int:
    with _ended_like_ctrl_c():
        _record(args, _monitor(args, args.pid), lambda: _wait_for(args.pid))
    return 0


def _wait_for(pid: int) -> None:
    """Until a process has ended, or Ctrl-C."""
    pause = threading.Event()
    with suppress(psutil.NoSuchProcess, KeyboardInterrupt):
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            pause.wait(0.2)


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Signals that end this process, as those of `timeout` do, let it report first."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    taken = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, signal.default_int_handler) for each in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(args: argparse.Namespace) -> int:
    from graphzero.report.recording_file import read_recording
    from graphzero.report.summarize import summarize

    path, *options = args.target
    args.parser.parse_args(options, args)  # those that stand behind it
    if args.target or args.pid is not None:
        args.parser.error("a recording is shown alone")
    files = _files(args)
    files.check()
    recording = read_recording(path)
    files.write(recording)
    print(summarize(recording))
    return 0
