"""The threads that make prefixes of files resident, and let them grow and shrink."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from mmap import PAGESIZE

from graphzero.io.limits import MemoryWatch
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.resident_prefix import ResidentPrefix

__all__ = ["ElasticPrefix", "PrefixLoader"]

_STEP_BYTES = 4 << 20  # that are pinned in one step: the thread can be stopped between two
_STEPS_REQUESTED = 4  # of the kernel in advance, because pinning alone reads page by page
_SAMPLE_SECONDS = 0.01  # between two readings of the process's own memory
_SAMPLES = 10  # between two readings of all limits


def _grow(prefix: ResidentPrefix, num_bytes: int) -> None:
    """Grows by one step, at most to `num_bytes`, and requests the steps after it."""
    begin = prefix.num_bytes
    prefix.request(begin, min(begin + _STEPS_REQUESTED * _STEP_BYTES, num_bytes))
    prefix.resize(min(begin + _STEP_BYTES, num_bytes))


class PrefixLoader:
    """Makes prefixes of some ranges resident, in a background thread.

    Until then they are read like everything else, so nobody waits for the thread.

    Parameters
    ----------
    goals : sequence of (ResidentPrefix, int)
        The size in bytes that each prefix is to have; larger ones shrink to it at once.
    then : callable
        Called when all are resident; by the background thread, if one was needed.
    """

    def __init__(
        self,
        goals: Sequence[tuple[ResidentPrefix, int]],
        then: Callable[[], object] = lambda: None,
    ) -> None:
        self._goals = goals
        self._then = then
        self._stop = threading.Event()
        self._threads: WorkerThreads | None = None
        self._done: Future[None] | None = None
        for prefix, goal in goals:
            prefix.resize(min(prefix.num_bytes, goal))
        if all(prefix.num_bytes == goal for prefix, goal in goals):
            then()
        else:
            self._threads = WorkerThreads(1, "graphzero-resident", on_stop=self._stop.set)
            self._done = self._threads.submit(self._run)

    def wait(self) -> None:
        """Returns when all are resident."""
        if self._done is not None:
            self._done.result()

    def _run(self) -> None:
        for prefix, goal in self._goals:
            while prefix.num_bytes < goal:
                if self._stop.is_set():
                    return
                _grow(prefix, goal)
        self._then()

    def close(self) -> None:
        """Ends the thread; what is resident stays so."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None


class ElasticPrefix:
    """Keeps as much of a range resident as is available at the process's peaks.

    How much memory a model takes is unknown until it has trained on some mini-batches. If too many
    pages are pinned by then, the process is not slowed down but killed. So the prefix begins small,
    grows while memory is available, and shrinks as soon as it is not. A background thread
    does this; when it ends, the prefix stays as it is.

    Parameters
    ----------
    prefix : ResidentPrefix
        The part that an earlier iteration made resident stays resident.
    first, most : int
        Bytes until the model's memory is known, unless the prefix has a size already; and the
        most bytes that the prefix may have.
    reserve : int
        Bytes for others, besides what they were seen to take.
    watch : MemoryWatch, optional
        The peaks of earlier iterations. They will come again, and a prefix that grew until then
        would push topology out of memory.
    """

    def __init__(
        self,
        prefix: ResidentPrefix,
        *,
        first: int,
        most: int,
        reserve: int,
        watch: MemoryWatch | None = None,
    ) -> None:
        self._prefix = prefix
        self._first = prefix.num_bytes or first
        self._most = most
        self._reserve = reserve
        self._watch = watch if watch is not None else MemoryWatch()
        self._stop = threading.Event()
        self._threads: WorkerThreads | None = None
        prefix.resize(min(prefix.num_bytes, most))
        if most > 0:
            self._threads = WorkerThreads(1, "graphzero-resident", on_stop=self._stop.set)
            self._threads.submit(self._run)

    def count_batch(self) -> None:
        """The training loop has finished another mini-batch."""
        self._watch.batches += 1

    def _run(self) -> None:
        samples = 0
        try:
            while not self._stop.is_set():
                if samples % _SAMPLES == 0:
                    self._watch.sample_limits(self._prefix.pinned_bytes)
                if not self._adapt():
                    self._stop.wait(_SAMPLE_SECONDS)
                self._watch.sample_own()
                samples += 1
        except OSError as error:
            # Rows that are not resident are read like all others, which reports what is wrong.
            warnings.warn(f"making rows resident failed: {error}", RuntimeWarning, stacklevel=1)

    def _adapt(self) -> bool:
        """Shrinks, or grows by a step; returns whether another step is due at once."""
        room = self._watch.room - self._reserve
        allowed = max(0, min(self._most, room) // PAGESIZE * PAGESIZE)
        if not self._watch.is_settled:
            allowed = min(allowed, self._first)
        if allowed > self._prefix.num_bytes:
            _grow(self._prefix, allowed)
        elif allowed < self._prefix.num_bytes:
            self._prefix.resize(allowed)
        return allowed > self._prefix.num_bytes

    def close(self) -> None:
        """Ends the thread; what is resident stays so."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None
