"""Parts of files that are kept in memory, such as the rows that are wanted most."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from graphzero.kept import KeptRange

__all__ = ["HeadKeeper"]

_STEP = 4 << 20  # bytes that are locked at a time: the thread can be stopped between two
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
