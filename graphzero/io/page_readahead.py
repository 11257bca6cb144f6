"""Page read-ahead: the thread that requests pages, so that sampling need not wait for the disk."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import PAGESIZE

import numpy as np

from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.sampling.profiled import profiled
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.residency import mincore_is_honest

__all__ = ["PageReadAhead", "PagesRequested"]

_ROWS_A_TURN = 4096  # between two checks of the limit
_PROBES = 128  # if 1 page in 20 is missing, this many rows find none missing 1 time in 700


@dataclass(frozen=True)
class PagesRequested:
    """The outcome of one request.

    Attributes
    ----------
    pages, missing : int
        Pages that were looked up, and those that were not in the page cache then.
    """

    pages: int = 0
    missing: int = 0


class _Room:
    """Bounds the bytes of pages that were missing, requested, and not copied yet."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._taken_bytes = 0
        self._urgent = 0  # threads that wait for a request
        self._is_closed = False
        self._changed = threading.Condition()

    def wait(self, own_bytes: int) -> bool:
        """Until there is room, or only the request's own pages take it; False when closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_closed
                    or self._urgent > 0
                    or self._taken_bytes <= own_bytes
                    or self._taken_bytes < self._most_bytes
                )
            )
            return not self._is_closed

    def take(self, num_bytes: int) -> None:
        """Pages were requested; a negative number: they were copied."""
        with self._changed:
            self._taken_bytes += num_bytes
            self._changed.notify()

    @contextmanager
    def unbounded(self) -> Iterator[None]:
        """Meanwhile nobody waits for room."""
        with self._changed:
            self._urgent += 1
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._urgent -= 1

    def close(self) -> None:
        """Ends the waiting."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()


class PageReadAhead:
    """Requests the pages of rows of some stores that have their rows in the same order.

    It looks up a few rows of a request first, and the others only if one of these is missing: data
    in memory should not pay for the look-up. Where memory is short, pages that are read too early
    are dropped before they are used. So the pages that were requested and not yet copied are
    bounded, and requests beyond the bound wait.

    Parameters
    ----------
    stores : sequence of FeatureStore
    prefetch : Prefetch
    room : int, optional
        Bytes of pages that fit in memory, a second bound besides `Prefetch.readahead_limit`.
    """

    def __init__(
        self, stores: Sequence[FeatureStore], prefetch: Prefetch, room: int | None = None
    ) -> None:
        self._stores = [(store, mincore_is_honest(store.path)) for store in stores]
        self._row_bytes = sum(store.row_bytes for store in stores)
        self._prefetch = prefetch
        limit = prefetch.readahead_limit_bytes
        self._room = _Room(limit if room is None else min(room, limit))
        self._threads = WorkerThreads(1, "graphzero-readahead", on_stop=self._room.close)

    def submit(self, rows: IdArray) -> Future[PagesRequested]:
        """Requests rows by row number; never blocks, never fails.

        Rows of one request beyond the limit are left to page faults.
        """
        if self._row_bytes == 0:
            return _done(PagesRequested())
        rows = rows[: self._prefetch.readahead_limit_bytes // self._row_bytes]
        # Here, not in the thread: waking it costs more than the look-up.
        probed = self._probe(rows)
        if probed is not None and not probed.missing:
            return _done(probed)
        return self._threads.submit(self._request, rows)

    def result(self, request: Future[PagesRequested]) -> PagesRequested:
        """The outcome of a request, once the rows of all mini-batches before it were copied.

        Threads that sample side by side may have submitted later mini-batches before it. Their rows
        are copied after it, so no request waits for their room until it is done.
        """
        with self._room.unbounded():
            return request.result()

    def finish(self, requested: PagesRequested) -> None:
        """The rows of a request were copied: others may take the room of its pages."""
        self._room.take(-requested.missing * PAGESIZE)

    @profiled("graphzero: read ahead")
    def _request(self, rows: IdArray) -> PagesRequested:
        """The thread's work for one request."""
        done = PagesRequested()
        try:
            rows = np.sort(rows)
            for begin in range(0, rows.shape[0], _ROWS_A_TURN):
                if not self._room.wait(done.missing * PAGESIZE):
                    break
                part = self._request_part(rows[begin : begin + _ROWS_A_TURN])
                done = PagesRequested(done.pages + part.pages, done.missing + part.missing)
                self._room.take(part.missing * PAGESIZE)
        except OSError as error:
            # Advice only: the copy reads the pages anyway, and reports what is really wrong.
            warnings.warn(f"read-ahead failed: {error}", RuntimeWarning, stacklevel=1)
        return done

    def _probe(self, rows: IdArray) -> PagesRequested | None:
        """What is missing of a few rows; None where that is unknown, or there are no more rows."""
        if rows.shape[0] <= _PROBES or not all(is_honest for _, is_honest in self._stores):
            return None
        some = np.sort(rows[:: -(-rows.shape[0] // _PROBES)])
        try:
            counts = [store.count_missing(some) for store, _ in self._stores]
        except OSError:
            return None  # the thread meets the same error, and warns
        pages, missing = (sum(part) for part in zip(*counts, strict=True))
        return PagesRequested(pages, missing)

    def _request_part(self, rows: IdArray) -> PagesRequested:
        pages = missing = 0
        for store, is_honest in self._stores:
            done = store.read_ahead(
                rows, gap_pages=self._prefetch.gap_pages, trust_mincore=is_honest
            )
            pages, missing = pages + done[0], missing + done[1]
        return PagesRequested(pages, missing)

    def close(self) -> None:
        """Ends the thread after its current call; drops the other requests."""
        self._threads.close()


def _done(result: PagesRequested) -> Future[PagesRequested]:
    future: Future[PagesRequested] = Future()
    future.set_result(result)
    return future
