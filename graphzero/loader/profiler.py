"""`profile`: torch's profiler, with ranges that show what a training loop does.

A range of torch (``record_function``) that is open when its profiler stops, and is closed while
another session runs, writes to memory that was freed: at least up to torch 2.13. So a range stays
open after ``next`` only where `profile` ends it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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


def end_training() -> None:
    """Ends the range of training that is open in this thread, if any."""
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
        end_training()
        _here.profiles = max(0, _here.profiles - 1)
        super().stop_trace()

    def step(self) -> None:
        """As in torch. What the loop does from here to the next mini-batch is in no range."""
        end_training()
        super().step()


def is_profiled() -> bool:
    """Whether a profiler of torch runs, in any thread."""
    return bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", False))


def waiting(*, training: bool) -> AbstractContextManager[object]:
    """The range of a loop that waits for a mini-batch, where a profiler of torch runs.

    After it, training begins, unless an exception ends the loop. If the iteration takes its
    mini-batches from another one, the outer one alone has ranges.

    Parameters
    ----------
    training : bool
        False: without that range. A DataLoader of torch has a range of its own around `next`,
        which would end within it. Perfetto shows no ranges that overlap but are not nested.
    """
    if is_profiled() or _here.training is not None:
        return _waiting(training=training)
    return _NO_RANGE


_NO_RANGE = nullcontext()


@contextmanager
def _waiting(*, training: bool) -> Iterator[None]:
    if _here.is_waiting:
        yield
        return
    end_training()
    _here.is_waiting = True
    try:
        with record_function(_WAITING):
            yield
    finally:
        _here.is_waiting = False
    if training and _here.profiles:
        _here.training = record_function(_TRAINING)
        _here.training.__enter__()
