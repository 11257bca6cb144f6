"""Signals while processes are below this one: passed on to a command, or cleaned up after."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

_ENDING = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
_CLEANING_SECONDS = 15.0  # longer than the removal of a memory group is tried
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


class Child:
    """A command with this process's input and output."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []  # signals that came before it was started

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Starts it, with further variables in its environment; its pid.

        Raises
        ------
        FileNotFoundError, PermissionError
            If there is no such program, or it may not be run.
        """
        self._process = subprocess.Popen(command, env={**os.environ, **environment})
        for number in self._early:
            self.send(number)
        return self._process.pid

    def send(self, number: int) -> None:
        """Sends it a signal."""
        if self._process is None:
            self._early.append(number)
        else:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def wait(self) -> int:
        """Waits for its end; its exit code, or 128 and the number of the signal that ended it."""
        assert self._process is not None
        code = self._process.wait()
        return 128 - code if code < 0 else code


@contextmanager
def passing_signals_on(child: Child) -> Iterator[None]:
    """Passes signals on to a child; this process lives on to report.

    Ctrl-C on a terminal sends SIGINT to the child as well as to this process: it is passed on only
    if it came from elsewhere.
    """

    def pass_on(number: int, _: FrameType | None) -> None:
        if number != signal.SIGINT or not _has_keyboard():
            child.send(number)

    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    # what this process ignores, as nohup has it do, its child ignores too
    taken = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_keyboard() -> bool:
    """Whether Ctrl-C on a terminal reaches this process and its child."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C and other requests to end leave no process and no memory group behind.

    Nor do further ones, which would interrupt the cleaning up. Each is a `KeyboardInterrupt`.
    """
    last = -math.inf

    def interrupt(*_: object) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _CLEANING_SECONDS:
            last = now
            raise KeyboardInterrupt

    wanted = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in wanted}  # nohup ignores one
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
