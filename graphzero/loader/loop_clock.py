"""`LoopClock`: what a training loop does, seen from the iterator that gives it mini-batches."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from graphzero.loader.batch_log import batch_log
from graphzero.loader.batch_totals import BatchTotals

__all__ = ["LoopClock"]


class _Thread(threading.local):
    """What the clocks of one thread have counted."""

    def __init__(self) -> None:
        self.steps = 0
        self.seconds = 0.0


_here = _Thread()


class LoopClock:
    """Publishes how long a loop waits for its mini-batches, and how long it works on them.

    Loops may be nested or interleaved in a thread: no second of it counts twice. Of a mini-batch
    whose successor is never asked for, the work does not count.
    """

    def __init__(self) -> None:
        self._waited = 0.0  # not published yet
        self._is_observed = False  # by another clock, in the iterator that this one times
        self._since = _Mark()
        self._has_batch = False

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While the loop waits for its iterator: this counts with the first mini-batch."""
        since = _Mark()
        yield
        self._waited = _Mark().own_seconds(since)
        _here.seconds += self._waited

    def asked(self, epoch: int) -> None:
        """The loop asks for a mini-batch, of an epoch."""
        now = _Mark()
        if self._has_batch and not self._is_observed:
            training = now.own_seconds(self._since)
            batch_log().add(epoch, BatchTotals(training=training))
            _here.seconds += training
        self._has_batch = False
        self._since = _Mark()

    def handed(self, epoch: int) -> None:
        """It gets one."""
        now = _Mark()
        self._is_observed = now.has_steps_since(self._since)
        if not self._is_observed:
            stall = now.own_seconds(self._since)
            batch_log().add(epoch, BatchTotals(steps=1, stall=stall + self._waited))
            _here.seconds += stall
            _here.steps += 1
        self._waited, self._has_batch = 0.0, True
        self._since = _Mark()


class _Mark:
    """A moment of a thread."""

    __slots__ = ("counted", "steps", "thread", "wall")

    def __init__(self) -> None:
        self.wall = time.perf_counter()
        self.thread = (os.getpid(), threading.get_ident())
        self.counted = _here.seconds
        self.steps = _here.steps

    def own_seconds(self, since: _Mark) -> float:
        """Since an earlier moment, without those that were counted meanwhile."""
        if self.thread[0] != since.thread[0]:
            return 0.0  # the process was forked: its parent publishes them
        same = self.thread == since.thread
        counted = self.counted - since.counted if same else 0.0
        return max(0.0, self.wall - since.wall - counted)

    def has_steps_since(self, since: _Mark) -> bool:
        return self.thread == since.thread and self.steps != since.steps
