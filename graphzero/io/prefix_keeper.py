"""Parts of files that are kept in memory, such as the rows that are wanted most."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from mmap import PAGESIZE

from graphzero.io.limits import MemoryWatch
from graphzero.store.resident_prefix import KeptRange

__all__ = ["ElasticHead", "HeadKeeper"]

_STEP = 4 << 20  # bytes that are locked at a time: the thread can be stopped between two
_GLANCE_SECONDS = 0.01  # between two looks at the process's own memory
_GLANCES = 10  # between two looks at all limits
_STEPS_AHEAD = 4  # that the kernel has been asked to read, for locking alone reads page by page


class HeadKeeper:
    """Reads the beginnings of ranges into memory, in a background thread, and keeps them there.

    What is not there yet is read like all else, so that nobody waits for the thread.

    Parameters
    ----------
    goals : sequence of (KeptRange, int)
        How many bytes of each are kept; what was kept beyond that is let go.
    then : callable
        Called when all are in memory, in the background thread where there is one.
    """

    def __init__(
        self, goals: Sequence[tuple[KeptRange, int]], then: Callable[[], object] = lambda: None
    ) -> None:
        self._goals = goals
        self._then = then
        self._stop = threading.Event()
        self._executor: ThreadPoolExecutor | None = None
        self._done: Future[None] | None = None
        for kept, goal in goals:
            kept.keep(min(kept.num_bytes, goal))
        if all(kept.num_bytes == goal for kept, goal in goals):
            then()
        else:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphzero-resident")
            self._done = self._executor.submit(self._run)

    def wait(self) -> None:
        """Returns when all is read."""
        if self._done is not None:
            self._done.result()

    def _run(self) -> None:
        for kept, goal in self._goals:
            for begin in range(kept.num_bytes, goal, _STEP):
                if self._stop.is_set():
                    return
                kept.ask(begin, min(begin + _STEPS_AHEAD * _STEP, goal))
                kept.keep(min(begin + _STEP, goal))
        self._then()

    def close(self) -> None:
        """Ends the thread; what is in memory stays."""
        self._stop.set()
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None


class ElasticHead:
    """Keeps as much of the beginning of a range in memory as the process leaves at its peaks.

    How much a model takes is not known before it has been trained for some batches, and locked
    pages that it then lacks are no slowdown but the end of the process. So the range begins small,
    grows when the batches have been seen to leave room for more, and shrinks as soon as they do
    not. It grows and shrinks in a background thread, and stays as it is when that ends.

    Parameters
    ----------
    kept : KeptRange
        What an earlier iteration kept of it stays.
    first, most : int
        Bytes that are kept until the model is known, where no earlier iteration has found out how
        many it leaves; and at most.
    reserve : int
        Bytes that are left to others beyond what has been seen to be taken.
    watch : MemoryWatch, optional
        What earlier iterations have seen: a peak of theirs will come again, and a head that grew
        until then would have driven topology out of memory.
    """

    def __init__(
        self,
        kept: KeptRange,
        *,
        first: int,
        most: int,
        reserve: int,
        watch: MemoryWatch | None = None,
    ) -> None:
        self._kept = kept
        self._first = kept.num_bytes or first
        self._most = most
        self._reserve = reserve
        self._watch = watch if watch is not None else MemoryWatch()
        self._stop = threading.Event()
        self._executor: ThreadPoolExecutor | None = None
        kept.keep(min(kept.num_bytes, most))
        if most > 0:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphzero-resident")
            self._executor.submit(self._run)

    def count_batch(self) -> None:
        """The training loop is done with another mini-batch."""
        self._watch.batches += 1

    def _run(self) -> None:
        glances = 0
        try:
            while not self._stop.is_set():
                if glances % _GLANCES == 0:
                    self._watch.look(self._kept.locked_bytes)
                if not self._adapt():
                    self._stop.wait(_GLANCE_SECONDS)
                self._watch.glance()
                glances += 1
        except OSError as error:
            # Rows that are not kept are read like all others, and that says what is really wrong.
            warnings.warn(f"keeping rows in memory failed: {error}", RuntimeWarning, stacklevel=1)

    def _adapt(self) -> bool:
        """Keeps less, or a step more; whether there is another step to be made at once."""
        left = self._watch.room - self._reserve
        allowed = max(0, min(self._most, left) // PAGESIZE * PAGESIZE)
        if not self._watch.is_settled:
            allowed = min(allowed, self._first)
        if allowed > self._kept.num_bytes:
            begin = self._kept.num_bytes
            self._kept.ask(begin, min(begin + _STEPS_AHEAD * _STEP, allowed))
            self._kept.keep(min(begin + _STEP, allowed))
        elif allowed < self._kept.num_bytes:
            self._kept.keep(allowed)
        return allowed > self._kept.num_bytes

    def close(self) -> None:
        """Ends the thread; what is in memory stays."""
        self._stop.set()
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None
