"""Ctrl-C in a training: honoured between two batches, and only by the main process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

from graphzero.loader.mini_batch import MiniBatch
from graphzero.loader.stats import watch


class Interrupts:
    """Requests to stop, by SIGINT.

    A request is honoured where `check` is called. If another one comes first, perhaps because
    a batch takes long, that one is honoured at once.
    """

    pending = False

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if one is requested."""
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt

    def _request(self, signum: int, frame: FrameType | None) -> None:
        self.check()
        self.pending = True

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Takes the place of Python's own SIGINT handler; any other handler stays."""
        installed = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        try:
            if installed:
                signal.signal(signal.SIGINT, self._request)
        except ValueError:  # not in the main thread, where no signal arrives
            installed = False
        try:
            yield
        finally:
            if installed:
                signal.signal(signal.SIGINT, signal.default_int_handler)


def start(loader: DataLoader[Any]) -> Iterator[MiniBatch]:
    """Begins a pass over a loader; its workers do not get SIGINT while they start.

    A terminal sends SIGINT to the workers as well. It would end them, with a traceback each, before
    they deliver the batch that the training waits for.
    """
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # workers inherit the mask
    try:
        return iter(watch(loader))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def ignore_interrupts(worker: int) -> None:
    """The ``worker_init_fn``: for workers that a server forks, which inherit its signal mask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
