"""``graphzero report``: records a command that runs as a child, or shows a recording again."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import FrameType

from graphzero.commands.parsing import add_option, handling_signals
from graphzero.store.outputs import Output
from graphzero.units import print_lines

HELP = "run a command and say where its memory and time went"
EXAMPLES = """\
  graphzero report -- python train.py --epochs 3
  graphzero report --html report.html --json report.json -- graphzero train data/
  graphzero report report.json --html report.html
"""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_Start = Callable[[Sequence[str], Mapping[str, str]], subprocess.Popen[bytes]]
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
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
    add = partial(add_option, parser)
    add("--interval SECONDS", "between readings", default=1.0)
    text = "whose files to observe; those that graphzero's loaders read are observed anyway"
    add("--dataset DIR", text, action="append", default=[])
    add("--html FILE", "write a page with charts")
    add("--json FILE", "write the recording")
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Records a command, and prints the summary on stderr; or prints that of a recording."""
    first = next(iter(args.target), "")
    if first == "--":
        del args.target[0]
    elif first.endswith(".json") and not os.access(first, os.X_OK):  # else it is a program
        return _show(args)
    if not args.target:
        args.parser.error("give a command to run after '--'")
    return _run_command(args)


def _checked_outputs(args: argparse.Namespace) -> list[Output]:
    from graphzero.report.monitor import check_reports  # the other commands do not need it

    paths = {"--json": args.json, "--html": args.html}
    outputs = [Output(name, path) for name, path in paths.items() if path is not None]
    check_reports(outputs)
    return outputs


def _run_command(args: argparse.Namespace) -> int:
    from graphzero.report import monitor
    from graphzero.report.summary import summarize

    monitor.check_interval(args.interval)  # all of it before anything is run
    outputs, files = _checked_outputs(args), monitor.observed_files(args.dataset)
    with _passing_signals_on() as start, tempfile.TemporaryDirectory(prefix="graphzero-") as folder:
        prefix = os.path.join(folder, "batches")
        try:
            child = start(args.target, {**os.environ, "GRAPHZERO_STATS": prefix})
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            reason = "there is no such program" if is_missing else error.strerror or str(error)
            print_lines(f"graphzero: {args.target[0]}: {reason}", file=sys.stderr)
            return _NOT_FOUND if is_missing else _NOT_EXECUTABLE
        try:
            batches = monitor.Batches(prefix)
            recorder = monitor.Recorder(child.pid, files, batches, args.interval)
            recorder.begin()
            recorder.run(lambda seconds: _wait_for(child, seconds))
        finally:
            code = child.wait()  # whatever has become of the recording
        code = 128 - code if code < 0 else code  # of a signal
        recording = replace(recorder.recording(is_last=True), exit_code=code)
    try:
        monitor.write_reports(outputs, recording)
    finally:
        with suppress(BrokenPipeError):  # the reader of stderr has gone
            print_lines("", *str(summarize(recording)).split("\n"), file=sys.stderr)
    return code


def _wait_for(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether a child ends within so long."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(seconds)
    return child.returncode is not None


@contextmanager
def _passing_signals_on() -> Iterator[_Start]:
    """A function that starts a command, to which signals are passed on: this process reports.

    Ctrl-C on a terminal sends SIGINT to the command as well as to this process: it is passed on
    only if it came from elsewhere.
    """
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def start(command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen(command, env=env))
        for number in early:
            children[0].send_signal(number)
        return children[0]

    def pass_on(number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and _has_keyboard():
            return
        if children:
            children[0].send_signal(number)
        else:
            early.append(number)

    with handling_signals(_SIGNALS, pass_on):
        yield start


def _has_keyboard() -> bool:
    """Whether Ctrl-C on a terminal reaches this process and its child."""
    with suppress(OSError), open("/dev/tty", "rb", buffering=0) as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def _show(args: argparse.Namespace) -> int:
    from graphzero.report.monitor import write_reports
    from graphzero.report.recording import read_recording
    from graphzero.report.summary import summarize

    path, *options = args.target
    args.parser.parse_args(options, args)  # those that stand behind it
    if args.target:
        args.parser.error("a recording is shown alone")
    outputs, recording = _checked_outputs(args), read_recording(path)
    write_reports(outputs, recording)
    print_lines(*str(summarize(recording)).split("\n"))
    return 0
