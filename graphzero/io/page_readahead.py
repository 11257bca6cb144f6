"""The thread that asks for pages: sampling hands it rows and goes on."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from mmap import PAGESIZE

import numpy as np

from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.store.residency import mincore_is_honest

__all__ = ["PagesAsked", "ReadAhead"]

_ROWS_A_TURN = 4096  # between two looks at how much room there is
_PROBES = 128  # where one page in twenty is missing, so many rows miss it once in 700 times


@dataclass(frozen=True)
class PagesAsked:
    """What became of one request.

    Attributes
    ----------
    pages, missing : int
        Pages that were looked at, and those that were not in the page cache then.
    """

    pages: int = 0
    missing: int = 0


class ReadAhead:
    """Reads ahead the rows of some stores that keep their rows in the same order.

    A few rows of a request are looked up first, and the others only if one of these is missing:
    data that is in memory should not pay for being looked up. Pages that are read too early are
    dropped before they are used where memory is short: what has been asked for and not gathered
    is bounded, and what is beyond waits.

    Parameters
    ----------
    stores : sequence of FeatureStore
    prefetch : Prefetch
    room : int, optional
        Bytes of pages that fit in memory, in addition to `prefetch.budget`.
    """

    def __init__(
        self, stores: Sequence[FeatureStore], prefetch: Prefetch, room: int | None = None
    ) -> None:
        self._stores = [(store, mincore_is_honest(store.path)) for store in stores]
        self._row_bytes = sum(store.row_bytes for store in stores)
        self._prefetch = prefetch
        self._most = prefetch.budget_bytes if room is None else min(room, prefetch.budget_bytes)
        self._outstanding = 0  # bytes of pages that were missing, asked for, and not gathered yet
        self._changed = threading.Condition()
        self._is_closed = False
        self._waiting = 0  # calls of `result`
        self._executor: ThreadPoolExecutor | None = None
        if prefetch.strategy != "none" and self._row_bytes > 0:
            # An executor, because the interpreter waits for its thread at exit; a daemon thread
            # of our own would be torn down in the middle of a call.
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphzero-readahead")

    def submit(self, rows: IdArray) -> Future[PagesAsked]:
        """Asks for rows by row number; never blocks, never fails.

        Rows of one request beyond the budget are left to page faults.
        """
        if self._executor is None:
            return _done(PagesAsked())
        rows = rows[: self._prefetch.budget_bytes // self._row_bytes]
        # Here, not in the thread: waking it costs more than the look.
        probed = self._probe(rows)
        if probed is not None and not probed.missing:
            return _done(probed)
        return self._executor.submit(self._ask, rows)

    def result(self, request: Future[PagesAsked]) -> PagesAsked:
        """What became of a request, when the rows of all batches before it have been gathered.

        Threads that sample side by side may have submitted later batches before it. These are
        gathered after it, so no request waits for their room until it is done.
        """
        with self._changed:
            self._waiting += 1
            self._changed.notify()
        try:
            return request.result()
        finally:
            with self._changed:
                self._waiting -= 1

    def finish(self, asked: PagesAsked) -> None:
        """The rows of a request have been gathered: others may take the room of its pages."""
        with self._changed:
            self._outstanding -= asked.missing * PAGESIZE
            self._changed.notify()

    def _ask(self, rows: IdArray) -> PagesAsked:
        """What the thread does for one request."""
        done = PagesAsked()
        try:
            rows = np.sort(rows)
            for begin in range(0, rows.shape[0], _ROWS_A_TURN):
                if not self._wait_for_room(done.missing * PAGESIZE):
                    break
                part = self._ask_stores(rows[begin : begin + _ROWS_A_TURN])
                done = PagesAsked(done.pages + part.pages, done.missing + part.missing)
                with self._changed:
                    self._outstanding += part.missing * PAGESIZE
        except OSError as error:
            # Advice only: the gather reads the pages anyway, and reports what is really wrong.
            warnings.warn(f"read-ahead failed: {error}", RuntimeWarning, stacklevel=1)
        return done

    def _wait_for_room(self, own: int) -> bool:
        """Until there is room, or nothing but the request's own bytes; False when closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_closed
                    or self._waiting > 0
                    or self._outstanding <= own
                    or self._outstanding < self._most
                )
            )
            return not self._is_closed

    def _probe(self, rows: IdArray) -> PagesAsked | None:
        """What is missing of a few rows; None where that cannot be known, or they are all."""
        if rows.shape[0] <= _PROBES or not all(is_honest for _, is_honest in self._stores):
            return None
        some = np.sort(rows[:: -(-rows.shape[0] // _PROBES)])
        try:
            counts = [store.count_missing(some) for store, _ in self._stores]
        except OSError:
            return None  # the thread meets it as well, and says so
        return PagesAsked(sum(pages for pages, _ in counts), sum(missing for _, missing in counts))

    def _ask_stores(self, rows: IdArray) -> PagesAsked:
        pages = missing = 0
        for store, is_honest in self._stores:
            asked = store.read_ahead(rows, gap=self._prefetch.gap, trust_mincore=is_honest)
            pages, missing = pages + asked[0], missing + asked[1]
        return PagesAsked(pages, missing)

    def close(self) -> None:
        """Ends the thread after the call that it is in; drops the other requests."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None


def _done(result: PagesAsked) -> Future[PagesAsked]:
    future: Future[PagesAsked] = Future()
    future.set_result(result)
    return future
