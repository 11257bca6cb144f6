"""The thread that asks for pages: sampling hands it rows and goes on."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from graphzero.features import FeatureStore
from graphzero.ids import IdArray
from graphzero.prefetch import Prefetch
from graphzero.residency import mincore_is_honest

__all__ = ["PagesAsked", "ReadAhead"]

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
    data that is in memory should not pay for being looked up.

    Parameters
    ----------
    stores : sequence of FeatureStore
    prefetch : Prefetch
    """

    def __init__(self, stores: Sequence[FeatureStore], prefetch: Prefetch) -> None:
        self._stores = [(store, mincore_is_honest(store.path)) for store in stores]
        self._row_bytes = sum(store.row_bytes for store in stores)
        self._prefetch = prefetch
        self._outstanding = 0  # bytes that have been submitted and not asked for yet
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        if prefetch.strategy != "none" and self._row_bytes > 0:
            # An executor, because the interpreter waits for its thread at exit; a daemon thread
            # of our own would be torn down in the middle of a call.
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphzero-readahead")

    def submit(self, rows: IdArray) -> Future[PagesAsked]:
        """Asks for rows by row number; never blocks, never fails.

        Rows beyond the budget are left to page faults.
        """
        if self._executor is None:
            nothing: Future[PagesAsked] = Future()
            nothing.set_result(PagesAsked())
            return nothing
        with self._lock:
            room = max(0, self._prefetch.budget_bytes - self._outstanding)
            rows = rows[: room // self._row_bytes]
            self._outstanding += rows.shape[0] * self._row_bytes
        return self._executor.submit(self._ask, rows)

    def _ask(self, rows: IdArray) -> PagesAsked:
        """What the thread does for one request."""
        try:
            asked = self._probe(rows)
            if asked is None or asked.missing:
                asked = self._ask_stores(np.sort(rows))
            return asked
        except OSError as error:
            # Advice only: the gather reads the pages anyway, and reports what is really wrong.
            warnings.warn(f"read-ahead failed: {error}", RuntimeWarning, stacklevel=1)
            return PagesAsked()
        finally:
            with self._lock:
                self._outstanding -= rows.shape[0] * self._row_bytes

    def _probe(self, rows: IdArray) -> PagesAsked | None:
        """What is missing of a few rows; None where that cannot be known, or they are all."""
        if rows.shape[0] <= _PROBES or not all(is_honest for _, is_honest in self._stores):
            return None
        some = np.sort(rows[:: -(-rows.shape[0] // _PROBES)])
        counts = [store.count_missing(some) for store, _ in self._stores]
        return PagesAsked(sum(pages for pages, _ in counts), sum(missing for _, missing in counts))

    def _ask_stores(self, rows: IdArray) -> PagesAsked:
        pages = missing = 0
        for store, is_honest in self._stores:
            asked = store.read_ahead(rows, gap=self._prefetch.gap, trust_mincore=is_honest)
            pages, missing = pages + asked[0], missing + asked[1]
        return PagesAsked(pages, missing)

    def close(self) -> None:
        """Ends the thread after the request that it is working on; drops the others."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None
