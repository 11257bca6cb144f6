"""Ctrl-C while a model is trained: honoured between two batches, and only by the main process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

from graphzero.loader.mini_batch import MiniBatch
from graphzero.loader.timed import timed
from graphzero.training.reports import TrainReport

__all__ = ["Interrupts", "TrainingInterrupted", "ignore_interrupts", "start"]


class TrainingInterrupted(KeyboardInterrupt):
    """Raised by `train` after Ctrl-C, when the outputs have been written.

    Attributes
    ----------
    report : TrainReport or None
        Of the epochs that had ended; None if there was none, in which case nothing was written.
    """

    def __init__(self, report: TrainReport | None) -> None:
        self.report = report
        if report is None:
            super().__init__("interrupted before the first epoch ended: nothing was written")
        else:
            super().__init__(f"interrupted after epoch {len(report.epochs)}")


class Interrupts:
    """Requests to stop, by SIGINT.

    A request is honoured where `check` is called. If another one comes first, perhaps because
    a batch takes long, that one is honoured at once.
    """

    def __init__(self) -> None:
        self._pending = False

    @property
    def pending(self) -> bool:
        """Whether a request has not been honoured yet."""
        return self._pending

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if one is requested."""
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _request(self, signum: int, frame: FrameType | None) -> None:
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt
        self._pending = True

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Takes the place of Python's own SIGINT handler; any other handler stays."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        try:
            signal.signal(signal.SIGINT, self._request)
        except ValueError:  # not in the main thread, where no signal arrives
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def start(loader: DataLoader[Any]) -> Iterator[MiniBatch]:
    """Begins a pass over a loader; its workers do not get SIGINT while they start.

    A terminal sends SIGINT to the workers as well. It would end them, with a traceback each, before
    they deliver the batch that the training waits for.
    """
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # workers inherit the mask
    try:
        return iter(timed(loader))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def ignore_interrupts(worker: int) -> None:
    """The ``worker_init_fn``: for workers that a server forks, which inherit its signal mask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
