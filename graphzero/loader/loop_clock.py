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
        self.seconds = 0.0
        self.asking: int | None = None  # process in which the iterator of a clock runs
        self.epoch: int | None = None  # that an inner clock has told it


_here = _Thread()


@contextmanager
def _asking() -> Iterator[None]:
    _here.asking = os.getpid()
    try:
        yield
    finally:
        _here.asking = None


def _is_inner() -> bool:
    return _here.asking == os.getpid()  # a child may be forked meanwhile


class LoopClock:
    """Publishes how long a loop waits for its mini-batches, and how long it works on them.

    Loops may be nested or interleaved in a thread: no second of it counts twice. Where an iterator
    takes its mini-batches from another one that has a clock, the outer clock alone counts: it is
    the one that the loop sees. Of a mini-batch whose successor is never asked for, the work does
    not count.

    Parameters
    ----------
    of_dataset : bool
        It is in the iterator of a dataset, so that a ``DataLoader`` may work on its mini-batches
        before the loop does.
    """

    def __init__(self, *, of_dataset: bool = False) -> None:
        self._of_dataset = of_dataset
        self._waited = self._training = 0.0  # not published yet
        self._epoch = 0  # of the mini-batch that it got last
        self._since = _Mark()  # the last moment at which the loop asked or got something
        self._has_batch = False

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While the loop waits for its iterator: this counts with the first mini-batch."""
        if _is_inner():
            yield
            return
        since = _Mark()
        with _asking():
            yield
        now = _Mark()
        self._waited = now.own_seconds(since)
        now.count(self._waited)

    def next_of(self, batches: Iterator[_T]) -> _T:
        """The loop asks for a mini-batch; whatever ``next`` raises is raised."""
        if _is_inner():
            self._has_batch = False
            return next(batches)
        now = _Mark()
        if self._has_batch:
            self._training = now.own_seconds(self._since)
            now.count(self._training)
        self._has_batch = False
        self._since = now
        _here.epoch = None
        try:
            with _asking():
                return next(batches)
        except BaseException:
            self._publish_training()
            raise

    def handed(self, epoch: int) -> None:
        """It gets the mini-batch, of this epoch, unless an inner clock knows better."""
        if _is_inner():
            _here.epoch = epoch
            return
        now = _Mark()
        epoch = epoch if _here.epoch is None else _here.epoch
        if epoch != self._epoch:
            self._publish_training()
        self._epoch = epoch
        stall = now.own_seconds(self._since)
        now.count(stall)
        worked = self._worked()
        batch_log().add(epoch, BatchTotals(steps=1, stall=stall + self._waited) + worked)
        self._waited = 0.0
        self._has_batch = True
        self._since = now

    def _publish_training(self) -> None:
        if self._training:
            batch_log().add(self._epoch, self._worked())

    def _worked(self) -> BatchTotals:
        """What is to be published of its work."""
        training, self._training = self._training, 0.0
        return BatchTotals(training=training, unsplit=training if self._of_dataset else 0.0)


class _Mark:
    """A moment of a thread."""

    __slots__ = ("counted", "thread", "wall")

    def __init__(self) -> None:
        self.wall = time.perf_counter()
        self.thread = (os.getpid(), threading.get_ident())
        self.counted = _here.seconds

    def count(self, seconds: float) -> None:
        """They belong to what ends now."""
        _here.seconds += seconds
        self.counted = _here.seconds

    def own_seconds(self, since: _Mark) -> float:
        """Since an earlier moment, without those that were counted meanwhile."""
        if self.thread[0] != since.thread[0]:
            return 0.0  # the process was forked: its parent publishes them
        same = self.thread == since.thread
        counted = self.counted - since.counted if same else 0.0
        return max(0.0, self.wall - since.wall - counted)
