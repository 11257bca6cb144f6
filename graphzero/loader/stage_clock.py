"""How long a stage of the preparation worked, and how long it waited for the disk.

A thread that is blocked neither computes nor waits for a processor. What it waits for, the system
does not say; if it has read from the disk meanwhile, that is taken to be the disk.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import NamedTuple

try:
    import resource
except ImportError:  # no such module outside of Unix
    resource = None  # type: ignore[assignment]

__all__ = ["Moment", "Spent", "moment", "spent"]

_SCHEDSTAT = "/proc/thread-self/schedstat"
# Elsewhere the faults of the whole process say whether there was any.
_WHOSE = getattr(resource, "RUSAGE_THREAD", getattr(resource, "RUSAGE_SELF", None))


class Moment(NamedTuple):
    """Clocks and counters of the calling thread.

    Attributes
    ----------
    wall : float
        Seconds.
    cpu : float
        Seconds on a processor.
    queued : float
        Seconds ready to run and without a processor; 0 where the system does not say.
    faults : int
        Page faults that read from the disk; 0 where the system does not say.
    """

    wall: float
    cpu: float
    queued: float
    faults: int


class Spent(NamedTuple):
    """The seconds of a stage; their sum is its duration.

    Attributes
    ----------
    work : float
    disk : float
        Waiting for the disk.
    """

    work: float
    disk: float


class _Schedstat:
    """The descriptor by which a thread reads how long it was ready to run; it ends with it."""

    def __init__(self) -> None:
        self.descriptor: int | None = None
        with contextlib.suppress(OSError):
            self.descriptor = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> float:
        if self.descriptor is None:
            return 0.0
        try:
            return int(os.pread(self.descriptor, 64, 0).split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0

    def __del__(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)


class _Here(threading.local):
    def __init__(self) -> None:
        self.schedstat = _Schedstat()


_here = _Here()


def _forget() -> None:
    """In a forked child: the descriptor is that of the parent's thread."""
    global _here
    _here = _Here()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def moment() -> Moment:
    """That of the calling thread, now."""
    faults = 0 if _WHOSE is None else resource.getrusage(_WHOSE).ru_majflt
    queued = _here.schedstat.read()
    return Moment(time.perf_counter(), time.thread_time(), queued, faults)


def spent(begin: Moment, end: Moment, *, has_read: bool) -> Spent:
    """What a thread has done between two moments.

    Parameters
    ----------
    begin, end : Moment
    has_read : bool
        Whether it has read from the disk, as far as is known besides its page faults.
    """
    wall = end.wall - begin.wall
    if not has_read and end.faults == begin.faults:
        return Spent(wall, 0.0)
    blocked = wall - (end.cpu - begin.cpu) - (end.queued - begin.queued)
    disk = min(max(blocked, 0.0), wall)
    return Spent(wall - disk, disk)
