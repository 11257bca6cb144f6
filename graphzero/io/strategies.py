"""The strategies: each way in which rows come into memory, and the reader that it opens.

To add another: a reader, an entry in `STRATEGIES`, and its name in `io.prefetch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.store.mapped_file import ResidentPrefix

# Whole rows, or the rows that were read past the page cache, which `place` joins with the others.
Fetched: TypeAlias = "_core.Fetched | npt.NDArray[Any]"


class RowReader:
    """Copies the rows of one file from its mapping; missing pages come by page faults.

    Attributes
    ----------
    past_page_cache : bool
        Whether it makes no use of pages that are read ahead.
    """

    past_page_cache = False

    def __init__(self, store: FeatureStore, dtype: npt.DTypeLike | None) -> None:
        self._store = store
        self._dtype = dtype

    def fetch(self, rows: IdArray) -> Fetched:
        """Brings rows into memory, by row number of the file; called in a background thread."""
        return self._store.gather_stored(rows, None, 1, dtype=self._dtype)

    def place(self, fetched: Any, num_threads: int) -> npt.NDArray[Any]:
        """All the rows that were fetched, in one array; called when the mini-batch is wanted."""
        del num_threads
        rows: npt.NDArray[Any] = fetched
        return rows

    def close(self) -> None:
        """Ends the threads, and releases what the reader holds."""


class DirectReader(RowReader):
    """Reads the rows that are not resident past the page cache (``O_DIRECT``).

    A mini-batch has several times as many rows as must be read for it. So `fetch` brings those
    only, and `place` makes the whole array when it is wanted, in memory that the mini-batch before
    has released.
    """

    past_page_cache = True

    def __init__(
        self,
        engine: str,
        store: FeatureStore,
        dtype: npt.DTypeLike | None,
        options: Prefetch,
        prefix: ResidentPrefix,
    ) -> None:
        super().__init__(store, dtype)
        self._prefix = prefix
        self._gap_pages = options.gap_pages
        self._reader = store.direct_reader(engine, options.threads)

    def fetch(self, rows: IdArray) -> Fetched:
        """The rows that are not in memory, read from the disk."""
        return self._reader.fetch(rows, self._prefix.page_map(), self._gap_pages)

    def place(self, fetched: Any, num_threads: int) -> npt.NDArray[Any]:
        """These and the resident ones in one array, converted."""
        dtype, from_dtype = self._store.conversion(self._dtype)
        out = _core.empty((fetched.num_rows, *self._store.shape[1:]), dtype)
        fetched.place(out.reshape(-1).view(np.uint8), num_threads, from_dtype)
        return out

    def close(self) -> None:
        """Closes the file, and ends the threads or the ring."""
        self._reader.close()


@dataclass(frozen=True)
class Strategy:
    """One way in which rows come into memory.

    Attributes
    ----------
    name : str
        What users call it.
    reads_ahead : bool
        Whether pages of rows and of the topology are requested before they are touched.
    past_page_cache : bool
        Whether rows are read into memory of the mini-batch. The mini-batches of the lookahead then
        have only the rows that are not resident.
    substitute : str or None
        Name of the strategy that stands in where this one is unavailable.
    """

    name: str
    reads_ahead: bool = True
    past_page_cache: bool = False
    substitute: str | None = None

    def unavailable(self) -> str | None:
        """Why this process cannot use the strategy; None if it can."""
        return _core.uring_refusal() if self.name == "uring" else None

    def buffer_bytes(self, options: Prefetch) -> int:
        """Buffers of the reads under way in one process, for one file."""
        if not self.past_page_cache:
            return 0
        reads = _core.URING_DEPTH if self.name == "uring" else options.threads
        return reads * _core.BUFFER_BYTES

    def open(
        self,
        store: FeatureStore,
        dtype: npt.DTypeLike | None,
        options: Prefetch,
        prefix: ResidentPrefix,
    ) -> RowReader:
        """The reader of one iteration; `dtype` float32 converts the rows on their way.

        Rows in pages of `prefix` that are in memory need not be read.

        Raises
        ------
        OSError
            If the operating system refuses what the strategy needs.
        """
        if self.past_page_cache and store.row_bytes > 0:
            return DirectReader(self.name, store, dtype, options, prefix)
        return RowReader(store, dtype)


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy("none", reads_ahead=False),
        Strategy("willneed"),
        Strategy("pread", past_page_cache=True),
        Strategy("uring", past_page_cache=True, substitute="pread"),
    )
}
# What "auto" chooses: the first of these that is available.
FOR_DATA_IN_MEMORY = ("willneed",)
FOR_LARGER_DATA = ("uring", "pread")


def unavailable_strategies() -> dict[str, str]:
    """The strategies that this process cannot use, by name, and why."""
    reasons = {name: strategy.unavailable() for name, strategy in STRATEGIES.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def pages_read(fetched: Fetched) -> int:
    """Pages that were read from the disk; 0 where the kernel reads, which does not say."""
    return 0 if isinstance(fetched, np.ndarray) else fetched.counts[1]
