"""`LoopClock`: what a training loop does, seen from the iterator that gives it mini-batches."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from graphzero.loader.batch_log import batch_log
from graphzero.loader.batch_totals import BatchTotals

__all__ = ["LoopClock"]

_T = TypeVar("_T")


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
        self._waited = self._training = 0.0  # not published yet
        self._epoch = 0  # of the mini-batch that it got last
        self._is_observed = False  # by another clock, in the iterator that this one times
        self._since = _Mark()  # the last moment at which the loop asked or got something
        self._has_batch = False

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While the loop waits for its iterator: this counts with the first mini-batch."""
        since = _Mark()
        yield
        now = _Mark()
        self._waited = now.own_seconds(since)
        now.count(self._waited)

    def next_of(self, batches: Iterator[_T]) -> _T:
        """The loop asks for a mini-batch; whatever ``next`` raises is raised."""
        now = _Mark()
        if self._has_batch and not self._is_observed:
            self._training = now.own_seconds(self._since)
            now.count(self._training)
        self._has_batch = False
        self._since = now
        try:
            return next(batches)
        except BaseException:
            self._publish_training()
            raise

    def handed(self, epoch: int) -> None:
        """It gets the mini-batch, of this epoch."""
        now = _Mark()
        self._is_observed = now.has_steps_since(self._since)
        if epoch != self._epoch or self._is_observed:
            self._publish_training()
        self._epoch = epoch
        if not self._is_observed:
            stall = now.own_seconds(self._since)
            now.count(stall, steps=1)
            stall, training = stall + self._waited, self._training
            self._waited = self._training = 0.0
            batch_log().add(epoch, BatchTotals(steps=1, stall=stall, training=training))
        self._has_batch = True
        self._since = now

    def _publish_training(self) -> None:
        training, self._training = self._training, 0.0
        if training:
            batch_log().add(self._epoch, BatchTotals(training=training))


class _Mark:
    """A moment of a thread."""

    __slots__ = ("counted", "steps", "thread", "wall")

    def __init__(self) -> None:
        self.wall = time.perf_counter()
        self.thread = (os.getpid(), threading.get_ident())
        self.counted = _here.seconds
        self.steps = _here.steps

    def count(self, seconds: float, steps: int = 0) -> None:
        """They belong to what ends now."""
        _here.seconds += seconds
        _here.steps += steps
        self.counted, self.steps = _here.seconds, _here.steps

    def own_seconds(self, since: _Mark) -> float:
        """Since an earlier moment, without those that were counted meanwhile."""
        if self.thread[0] != since.thread[0]:
            return 0.0  # the process was forked: its parent publishes them
        same = self.thread == since.thread
        counted = self.counted - since.counted if same else 0.0
        return max(0.0, self.wall - since.wall - counted)

    def has_steps_since(self, since: _Mark) -> bool:
        return self.thread == since.thread and self.steps != since.steps
