"""The head of a file that is kept in memory: in hot order, the rows that are wanted most."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from graphzero import _core
from graphzero.features import FeatureStore

__all__ = ["HeadKeeper"]

_STEP = 4 << 20  # bytes that are locked at a time: the thread can be stopped between two
_STEPS_AHEAD = 4  # that the kernel has been asked to read, for locking alone reads page by page


class HeadKeeper:
    """Reads files into memory in a background thread, from their beginning, and keeps them there.

    Rows that are not there yet are read like all others, so that nobody waits for the thread.

    Parameters
    ----------
    store : FeatureStore
        Its rows are locked in memory, where the process may (``RLIMIT_MEMLOCK``), or only read.
    num_bytes : int
        Of its rows; what an earlier iteration kept beyond that is let go.
    whole : sequence of _core.Mapping
        Files that are read whole before, and not locked.
    """

    def __init__(
        self, store: FeatureStore, num_bytes: int, whole: tuple[_core.Mapping, ...] = ()
    ) -> None:
        self._store = store
        self._goal = min(num_bytes // store.row_bytes, store.num_nodes) if store.row_bytes else 0
        self._whole = whole
        self._stop = threading.Event()
        self._executor: ThreadPoolExecutor | None = None
        self._done: Future[None] | None = None
        store.keep_rows(min(store.kept_rows, self._goal))
        if store.kept_rows < self._goal or whole:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphzero-resident")
            self._done = self._executor.submit(self._run)

    @property
    def rows(self) -> int:
        """Rows at the head of the file that are in memory by now."""
        return self._store.kept_rows

    def wait(self) -> None:
        """Returns when all is read."""
        if self._done is not None:
            self._done.result()

    def _run(self) -> None:
        for mapping in self._whole:
            for offset in range(0, mapping.size, _STEP):
                if self._stop.is_set():
                    return
                mapping.advise("willneed", offset, min(_STEP, mapping.size - offset))
        rows = max(1, _STEP // self._store.row_bytes)
        for first in range(self._store.kept_rows, self._goal, rows):
            if self._stop.is_set():
                return
            self._store.ask_for_rows(first, min(first + _STEPS_AHEAD * rows, self._goal))
            self._store.keep_rows(min(first + rows, self._goal))

    def close(self) -> None:
        """Ends the thread; what is in memory stays."""
        self._stop.set()
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None
