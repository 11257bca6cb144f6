"""`profile`: torch's profiler, with ranges that show what a training loop does.

A range of torch (``record_function``) that is open when its profiler stops, and is closed while
another session runs, writes to memory that was freed: at least up to torch 2.13. So a range stays
open after ``next`` only where `profile` ends it.
"""

from __future__ import annotations

import threading
from typing import Any

import torch.autograd.profiler
import torch.profiler
from torch.profiler import record_function

_WAITING, _TRAINING = "graphzero: wait for batch", "graphzero: training"


class _Here(threading.local):
    """What the loops and the profiler of one thread share."""

    is_waiting = False  # an iteration may take its mini-batches from another
    profiles = 0  # running `profile`s
    training: Any = None


_here = _Here()


def _end_training() -> None:
    training, _here.training = _here.training, None
    if training is not None:
        training.__exit__(None, None, None)


class profile(torch.profiler.profile):
    """`torch.profiler.profile` that also shows what the loop over mini-batches does.

    Its ranges are "graphzero: wait for batch", which any profiler of torch shows, and "graphzero:
    training", from there to the next mini-batch, both in the thread that iterates. It takes the
    same arguments, and gives the same results, as torch's own.
    """

    def start_trace(self) -> None:
        """Begins a session, as in torch."""
        super().start_trace()
        _here.profiles += 1

    def stop_trace(self) -> None:
        """Ends the session, and the range that is open."""
        _end_training()
        _here.profiles = max(0, _here.profiles - 1)
        super().stop_trace()

    def step(self) -> None:
        """As in torch. What the loop does from here to the next mini-batch is in no range."""
        _end_training()
        super().step()


class LoopRanges:
    """The ranges of a loop over mini-batches: it waits for one, and trains on it until the next.

    A ``with`` block is the waiting. After it, training begins, unless an exception ends the loop.

    Parameters
    ----------
    training : bool
        False: without that range. A DataLoader of torch has a range of its own around `next`,
        which would end within it. Perfetto shows no ranges that overlap but are not nested.
    """

    __slots__ = ("_has_training", "_is_inner", "_training", "_waiting")

    def __init__(self, *, training: bool) -> None:
        self._has_training = training
        self._is_inner = False
        self._waiting: Any = None
        self._training: Any = None

    def __enter__(self) -> None:
        self._is_inner = _here.is_waiting
        if self._is_inner:
            return
        _end_training()
        if getattr(torch.autograd.profiler, "_is_profiler_enabled", False):
            self._waiting = record_function(_WAITING)
            self._waiting.__enter__()
        _here.is_waiting = True

    def __exit__(self, exception: object, *_: object) -> None:
        if self._is_inner:
            return
        _here.is_waiting = False
        if self._waiting is not None:
            self._waiting.__exit__(None, None, None)
            self._waiting = None
        if exception is None and self._has_training and _here.profiles:
            self._training = _here.training = record_function(_TRAINING)
            _here.training.__enter__()

    def __del__(self) -> None:
        if self._training is not None and self._training is _here.training:
            _end_training()
