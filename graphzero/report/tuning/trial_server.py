"""`TrialServer`: the process that forks a process for each trial, as seen from outside."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphzero.report.tuning.limited_memory import locked, own_name, remove_left

__all__ = ["Answer", "TrialServer"]

_PREFIX = "graphzero-trials-"
# The path of this process: -c alone would put the current folder first, with whatever is in it.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:-1]; "
    "from graphzero.report.tuning.trial_process import main; main()"
)


@dataclass(frozen=True)
class Answer:
    """How a trial has ended.

    Attributes
    ----------
    code : int or None
        Exit status, negative for a signal; None where it was ended after its time.
    figures : dict or None
        From `trial_process.measure`, where the status is 0.
    errors : str
        What it has printed.
    """

    code: int | None
    figures: dict[str, Any] | None
    errors: str


class TrialServer:
    """Starts the process, and ends it and its trial with `close`.

    Parameters
    ----------
    prefix : sequence of str
        A command that enters a memory group and runs the rest of the command line.
    """

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._stack = ExitStack()
        self._folder = self._stack.enter_context(_temporary_folder())
        self._read = b""
        self._trial: int | None = None
        self._alive: int | None
        alive, self._alive = os.pipe()
        # OpenMP's waiting threads would otherwise take the time of those that read.
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
        path = [part for part in sys.path if isinstance(part, str)]
        try:
            with open(self._path("server"), "wb") as errors:
                self._process = subprocess.Popen(
                    [*prefix, sys.executable, "-c", _PROGRAM, *path, str(alive)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                    pass_fds=[alive],
                )
        except BaseException:
            self._stack.close()
            raise
        finally:
            os.close(alive)

    @property
    def is_running(self) -> bool:
        """Whether it can take a request."""
        return self._process.poll() is None

    def call(self, request: dict[str, Any], seconds: float) -> Answer:
        """Runs a trial.

        Parameters
        ----------
        request : dict
            Of `trial_process.measure`.
        seconds : float
            After so long the trial is ended.
        """
        end = time.monotonic() + seconds
        paths = {name: self._path(name) for name in ("answer", "errors")}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps(request | paths) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            return self._dead()
        trial = self._line(end)
        if trial is None:
            return self._dead()
        self._trial = int(trial)
        code = self._line(end)
        if code is None and self.is_running:
            self._end_trial()
            self._line(time.monotonic() + 10)
            return Answer(None, None, self._text("errors"))
        self._trial = None
        if code is None:
            return self._dead()
        figures = json.loads(self._text("answer")) if int(code) == 0 else None
        return Answer(int(code), figures, self._text("errors"))

    def close(self) -> None:
        """Ends the process and its trial, and waits for both; does nothing a second time."""
        if self._alive is None:
            return
        self._end_trial()
        alive, self._alive = self._alive, None
        os.close(alive)  # a trial that is about to begin, or has lost its server, ends as well
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._stack.close()

    def _end_trial(self) -> None:
        # The server has not waited for it yet: the number is still the trial's.
        if self._trial is not None and self.is_running:
            with suppress(ProcessLookupError):
                os.kill(self._trial, signal.SIGKILL)
        self._trial = None

    def _dead(self) -> Answer:
        """The server is gone, for example for lack of memory, or does not answer."""
        self._process.kill()
        return Answer(self._process.wait(), None, self._text("server"))

    def _line(self, end: float) -> str | None:
        """The next line that it prints; None if there is none in time, or no more."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._read:
            left = end - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                return None
            part = os.read(descriptor, 4096)
            if not part:
                self._process.wait()
                return None
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _text(self, name: str) -> str:
        try:
            return Path(self._path(name)).read_text(errors="replace")
        except FileNotFoundError:
            return ""


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A folder for the context; those of processes that were killed are removed before."""
    parent = Path(tempfile.gettempdir())
    remove_left(parent, _PREFIX, shutil.rmtree)
    folder = parent / own_name(_PREFIX)
    folder.mkdir(mode=0o700)
    try:
        with ExitStack() as lock:
            with suppress(OSError):  # a file system without locks, where nobody removes it
                lock.enter_context(locked(folder))
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
