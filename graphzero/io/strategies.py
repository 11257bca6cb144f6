"""The strategies: each way in which rows come into memory, one class each.

A strategy is a value without state. It says what memory it needs, and opens the reader that one
iteration holds. To add another: a subclass of `Strategy` here, decorated with `_register`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.io.estimate import Estimate
from graphzero.store.resident_prefix import ResidentPrefix

__all__ = [
    "FOR_DATA_IN_MEMORY",
    "FOR_LARGER_DATA",
    "STRATEGIES",
    "Fetched",
    "PageCacheReader",
    "ReadOptions",
    "RowReader",
    "Strategy",
    "pages_read",
    "unavailable_strategies",
]

# Whole rows, or the rows that were read past the page cache, which `place` joins with the others.
Fetched: TypeAlias = "_core.Fetched | npt.NDArray[Any]"

STRATEGIES: dict[str, Strategy] = {}
# What "auto" chooses: the first of these that is available.
FOR_DATA_IN_MEMORY = ("willneed",)
FOR_LARGER_DATA = ("uring", "pread")

_S = TypeVar("_S", bound="type[Strategy]")


class ReadOptions(Protocol):
    """The fields of `Prefetch` that strategies read."""

    @property
    def gap_pages(self) -> int:
        """Pages that are read along to merge two reads into one."""

    @property
    def threads(self) -> int:
        """Threads of "pread"."""


class RowReader(ABC):
    """Reads the rows of one file during one iteration.

    Attributes
    ----------
    past_page_cache : bool
        Whether it makes no use of pages that are read ahead.
    """

    past_page_cache: ClassVar[bool] = False

    @abstractmethod
    def fetch(self, rows: IdArray) -> Fetched:
        """Brings rows into memory, by row number of the file; called in a background thread."""

    @abstractmethod
    def place(self, fetched: Any, num_threads: int) -> npt.NDArray[Any]:
        """All the rows that were fetched, in one array; called when the mini-batch is wanted."""

    def close(self) -> None:
        """Ends the threads, and releases what the reader holds."""
        return


class Strategy(ABC):
    """One way in which rows come into memory.

    Attributes
    ----------
    name : str
        What users call it.
    past_page_cache : bool
        Whether rows are read into memory of the mini-batch. The mini-batches of the lookahead then
        have only the rows that are not resident.
    reads_ahead : bool
        Whether pages of other rows and of the topology are requested before they are touched.
    substitute : str or None
        Name of the strategy that stands in where this one is unavailable.
    """

    name: ClassVar[str]
    past_page_cache: ClassVar[bool] = False
    reads_ahead: ClassVar[bool] = True
    substitute: ClassVar[str | None] = None

    def unavailable(self) -> str | None:
        """Why this process cannot use the strategy; None if it can."""
        return None

    def bytes_needed(self, estimate: Estimate, options: ReadOptions, resident: int) -> int:
        """Memory of all mini-batches under way, and of what makes them.

        Parameters
        ----------
        estimate : Estimate
        options : ReadOptions
        resident : int
            Bytes of the rows' resident prefix.
        """
        del options, resident
        return estimate.bytes_of_whole_batches + estimate.sampling

    @abstractmethod
    def open(
        self,
        store: FeatureStore,
        dtype: npt.DTypeLike | None,
        options: ReadOptions,
        prefix: ResidentPrefix,
    ) -> RowReader:
        """The reader of one iteration; `dtype` float32 converts the rows on their way.

        Rows in pages of `prefix` that are in memory need not be read.

        Raises
        ------
        OSError
            If the operating system refuses what the strategy needs.
        """


def _register(strategy: _S) -> _S:
    STRATEGIES[strategy.name] = strategy()
    return strategy


class PageCacheReader(RowReader):
    """Copies rows from the mapped file; pages that are missing come by page faults."""

    def __init__(self, store: FeatureStore, dtype: npt.DTypeLike | None) -> None:
        self._store = store
        self._dtype = dtype

    def fetch(self, rows: IdArray) -> Fetched:
        """The rows, converted, by the calling thread."""
        return self._store.gather_stored(rows, None, 1, dtype=self._dtype)

    def place(self, fetched: Any, num_threads: int) -> npt.NDArray[Any]:
        """What was fetched, which is complete."""
        del num_threads
        rows: npt.NDArray[Any] = fetched
        return rows


@_register
class PageFaults(Strategy):
    """Page faults of the copy: to compare with."""

    name = "none"
    reads_ahead = False

    def open(
        self,
        store: FeatureStore,
        dtype: npt.DTypeLike | None,
        options: ReadOptions,
        prefix: ResidentPrefix,
    ) -> RowReader:
        """A reader from the mapping."""
        return PageCacheReader(store, dtype)


@_register
class Willneed(Strategy):
    """``MADV_WILLNEED`` for the pages of the next mini-batches (see `PageReadAhead`)."""

    name = "willneed"

    def open(
        self,
        store: FeatureStore,
        dtype: npt.DTypeLike | None,
        options: ReadOptions,
        prefix: ResidentPrefix,
    ) -> RowReader:
        """A reader from the mapping, whose pages have been requested."""
        return PageCacheReader(store, dtype)


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
        options: ReadOptions,
        prefix: ResidentPrefix,
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._conversion = store.conversion(dtype)
        self._gap_pages = options.gap_pages
        self._reader = store.direct_reader(engine, options.threads)

    def fetch(self, rows: IdArray) -> Fetched:
        """The rows that are not in memory, read from the disk."""
        return self._reader.fetch(rows, self._prefix.page_map(), self._gap_pages)

    def place(self, fetched: Any, num_threads: int) -> npt.NDArray[Any]:
        """These and the resident ones in one array, converted."""
        dtype, from_dtype = self._conversion
        out = _core.empty((fetched.num_rows, *self._store.shape[1:]), dtype)
        fetched.place(out.reshape(-1).view(np.uint8), num_threads, from_dtype)
        return out

    def close(self) -> None:
        """Closes the file, and ends the threads or the ring."""
        self._reader.close()


class _Direct(Strategy):
    """What reading past the page cache has in common."""

    past_page_cache = True

    def buffer_bytes(self, options: ReadOptions) -> int:
        """Buffers of the reads under way in one process."""
        raise NotImplementedError

    def bytes_needed(self, estimate: Estimate, options: ReadOptions, resident: int) -> int:
        """As `Strategy.bytes_needed`; the lookahead has only rows that are not resident."""
        buffers = estimate.readers * self.buffer_bytes(options)
        reading = estimate.workers * (buffers + estimate.read_lists)
        return estimate.bytes_of_batches_beyond(resident) + estimate.sampling + reading

    def open(
        self,
        store: FeatureStore,
        dtype: npt.DTypeLike | None,
        options: ReadOptions,
        prefix: ResidentPrefix,
    ) -> RowReader:
        """A reader past the page cache; of rows without bytes, one from the mapping."""
        if store.row_bytes == 0:
            return PageCacheReader(store, dtype)
        return DirectReader(self.name, store, dtype, options, prefix)


@_register
class Pread(_Direct):
    """Reads by several threads."""

    name = "pread"

    def buffer_bytes(self, options: ReadOptions) -> int:
        """One buffer for each thread."""
        return options.threads * _core.BUFFER_BYTES


@_register
class Uring(_Direct):
    """Reads by io_uring, many in flight from one thread."""

    name = "uring"
    substitute = "pread"

    def unavailable(self) -> str | None:
        """Why io_uring is unavailable: not built in, or forbidden."""
        return _core.uring_refusal()

    def buffer_bytes(self, options: ReadOptions) -> int:
        """One buffer for each read in flight."""
        return _core.URING_DEPTH * _core.BUFFER_BYTES


def unavailable_strategies() -> dict[str, str]:
    """The strategies that this process cannot use, by name, and why."""
    reasons = {name: strategy.unavailable() for name, strategy in STRATEGIES.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def pages_read(fetched: Fetched) -> int:
    """Pages that were read from the disk; 0 where the kernel reads, which does not say."""
    return 0 if isinstance(fetched, np.ndarray) else fetched.counts[1]
