"""``graphzero report``: records a command that runs as a child, or shows a recording again."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial

from graphzero.commands.parsing import Command, add_option, handling_signals
from graphzero.store.outputs import Output
from graphzero.units import print_lines

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def _add_report_options(parser: argparse.ArgumentParser) -> None:
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


def _report(args: argparse.Namespace) -> int | None:
    """Run a command and say where its memory and time went.

    graphzero report -- python train.py --epochs 3
    graphzero report --html report.html --json report.json -- graphzero train data/
    graphzero report report.json --html report.html
    """
    first = next(iter(args.target), "")
    if first == "--":
        del args.target[0]
    elif first.endswith(".json") and not os.access(first, os.X_OK):  # else it is a program
        _show(args)
        return None
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
    with tempfile.TemporaryDirectory(prefix="graphzero-") as folder:
        prefix = os.path.join(folder, "batches")
        try:
            child = subprocess.Popen(args.target, env={**os.environ, "GRAPHZERO_STATS": prefix})
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            reason = "there is no such program" if is_missing else error.strerror or str(error)
            print_lines(f"graphzero: {args.target[0]}: {reason}", file=sys.stderr)
            return _NOT_FOUND if is_missing else _NOT_EXECUTABLE
        with _passing_signals_on(child):
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


def _passing_signals_on(child: subprocess.Popen[bytes]) -> AbstractContextManager[None]:
    """Passes signals on to a command: this process reports.

    Ctrl-C on a terminal sends SIGINT to the command as well as to this process: it is passed on
    only if it came from elsewhere.
    """

    def pass_on(number: int, _: object) -> None:
        if number != signal.SIGINT or not _has_keyboard():
            child.send_signal(number)

    return handling_signals(_SIGNALS, pass_on)


def _has_keyboard() -> bool:
    """Whether Ctrl-C on a terminal reaches this process and its child."""
    with suppress(OSError), open("/dev/tty", "rb", buffering=0) as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def _show(args: argparse.Namespace) -> None:
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


REPORT = Command("report", _add_report_options, _report)
