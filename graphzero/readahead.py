"""The thread that asks for pages: sampling hands it rows and goes on."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

import numpy as np

from graphzero.features import FeatureStore
from graphzero.ids import IdArray
from graphzero.prefetch import Prefetch

__all__ = ["ReadAhead", "Ticket"]

_MOST_SKIPPED = 32


def _mincore_is_honest(path: str) -> bool:
    """Whether mincore tells the truth: the kernel does so to owners and writers of a file only."""
    try:
        return os.stat(path).st_uid == os.geteuid() or os.access(path, os.W_OK)
    except OSError:
        return False


@dataclass
class Ticket:
    """One request for the rows of one batch, and what became of it.

    Attributes
    ----------
    pages, missing : int
        Pages that the rows cover, and those that were not in the page cache when asked for.
        0 if the request was skipped.
    """

    rows: IdArray | None
    num_bytes: int
    pages: int = 0
    missing: int = 0
    done: threading.Event = field(default_factory=threading.Event)


class ReadAhead:
    """Reads ahead the rows of some stores that keep their rows in the same order.

    While nothing is ever missing, requests are skipped, at most 32 in a row: data that is in
    memory should not pay for being looked up.

    Parameters
    ----------
    stores : sequence of FeatureStore
    prefetch : Prefetch
    """

    def __init__(self, stores: Sequence[FeatureStore], prefetch: Prefetch) -> None:
        self._stores = [(store, _mincore_is_honest(store.path)) for store in stores]
        self._row_bytes = sum(store.row_bytes for store in stores)
        self._prefetch = prefetch
        self._queue: SimpleQueue[Ticket | None] = SimpleQueue()
        self._outstanding = 0  # bytes; only the submitting thread and finished tickets change it
        self._lock = threading.Lock()
        self._to_skip = self._skipping = 0
        self._thread: threading.Thread | None = None
        if prefetch.strategy == "willneed" and self._row_bytes > 0:
            self._thread = threading.Thread(
                target=self._work, name="graphzero-readahead", daemon=True
            )
            self._thread.start()

    def submit(self, rows: IdArray) -> Ticket:
        """Asks for rows by row number; never blocks, never fails.

        Rows beyond the budget are left out.
        """
        with self._lock:
            room = max(0, self._prefetch.budget - self._outstanding)
            if self._row_bytes > 0:
                rows = rows[: room // self._row_bytes]
            ticket = Ticket(rows, rows.shape[0] * self._row_bytes)
            self._outstanding += ticket.num_bytes
        if self._thread is None:
            self._finish(ticket)
        else:
            self._queue.put(ticket)
        return ticket

    def _finish(self, ticket: Ticket) -> None:
        with self._lock:
            self._outstanding -= ticket.num_bytes
        ticket.rows = None
        ticket.done.set()

    def _work(self) -> None:
        while (ticket := self._queue.get()) is not None:
            try:
                self._ask(ticket)
            except Exception as error:
                # Advice only: the gather reads the pages anyway, and reports what is really wrong.
                warnings.warn(f"read-ahead failed: {error}", RuntimeWarning, stacklevel=1)
            finally:
                self._finish(ticket)

    def _ask(self, ticket: Ticket) -> None:
        assert ticket.rows is not None
        if self._to_skip > 0:
            self._to_skip -= 1
            return
        rows = np.sort(ticket.rows)
        for store, is_honest in self._stores:
            pages, missing, _ = store.read_ahead(
                rows, gap=self._prefetch.gap, trust_mincore=is_honest
            )
            ticket.pages += pages
            ticket.missing += missing
        self._skipping = 0 if ticket.missing else min(2 * self._skipping + 1, _MOST_SKIPPED)
        self._to_skip = self._skipping

    def close(self) -> None:
        """Ends the thread after the request that it is working on."""
        if self._thread is None:
            return
        while not self._queue.empty():  # what is still waiting is not wanted any more
            ticket = self._queue.get()
            if ticket is not None:
                self._finish(ticket)
        self._queue.put(None)
        self._thread.join()
        self._thread = None
