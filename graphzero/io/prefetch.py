"""`Prefetch`, every option about how rows come into memory, and the strategies among them.

To add another strategy: an entry in `STRATEGIES`, and a reader if it reads in another way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from mmap import PAGESIZE
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.features import FeatureStore
from graphzero.graph.user_input import IdArray
from graphzero.sampling.sampler import PaddedHops
from graphzero.store.format import BFLOAT16
from graphzero.store.mapped_file import ResidentPrefix
from graphzero.units import as_count, html_table, parse_size

_ADVICE = ("normal", "random", "sequential")
_MOST_THREADS = 4096  # MOST_IN_FLIGHT of `core/direct.pxi`
_MOST_LOOKAHEAD = (1 << 31) - 1
_MOST_GROUPED = 1024

# A read takes the processor about 3 us, however long it is; pages of a gap are not even copied.
# With gaps of this length a mini-batch takes half as many reads, and the disk brings 1.6 times as
# many pages. Longer ones save hardly more.
_GAP_PAGES = (12 << 10) // PAGESIZE


@dataclass(frozen=True)
class Prefetch:
    """How the rows of a mini-batch are read before they are needed.

    Attributes
    ----------
    strategy : {"auto", "none", "willneed", "pread", "uring"}
        "none": page faults read the pages when rows are copied. "willneed": a background thread
        advises the kernel (``MADV_WILLNEED``) to read the pages of the next mini-batches, sorted
        and in merged runs. "uring" and "pread": a background thread reads these runs past the page
        cache (``O_DIRECT``), by io_uring or by `threads` threads; when the mini-batch is wanted,
        they are joined with the resident rows. "auto": "willneed" for a dataset that fits in
        memory, otherwise "uring", or "pread" where io_uring is unavailable. ``batch.stats.io``
        says what was chosen, and why.
    lookahead : int
        Mini-batches whose rows are in memory before they are wanted ("uring" and "pread" keep only
        those that are not resident). As many are sampled, or one for each sampling thread if these
        are more. A larger number hides more latency and takes more memory. 0: each mini-batch is
        prepared when the loop requests it.
    group : int, optional
        Mini-batches whose rows, and hops of uniform draws, "uring" and "pread" read together, so
        that each page is read once for all of them. Default: as many, up to 32, as memory is worth
        more to than to resident rows and topology.
    readahead_limit : int or str
        Bytes (or ``"1GB"``) of pages that "willneed" may have requested for mini-batches that have
        not been copied yet; later mini-batches wait. Rows of a single mini-batch beyond the limit
        are left to page faults. The plan may set a lower limit.
    gap_pages : int, optional
        Longest gap, in pages, that is read along to merge two runs into one. Default: 12 KiB where
        "uring" and "pread" read rows; 0 where pages come into the page cache, and take memory.
    resident : int, str or float, optional
        Size of the features' resident prefix: the first rows of the file, which in hot order are
        the hottest. A number of at most 1 is a fraction of the file (1 is everything), a larger
        integer or a text such as ``"2GB"`` is bytes. It is kept in the page cache, from which
        the kernel may take pages back. It is never larger than memory allows; ``batch.stats.io``
        says so where that is less than requested.
        Default: as much as memory allows where "auto" reads past the page cache, otherwise
        nothing.
    memory_limit : int or str, optional
        Bytes that resident rows, mini-batches under way and buffers may take together. With 0
        nothing stays resident; ``batch.stats.io`` says that no memory is available. Default:
        what the process's control groups and the machine have available when an iteration begins.
    threads : int
        Threads of "pread": 1 to 4096.
    advice : {"random", "normal", "sequential"}
        ``madvise`` for the feature files while they are read. "random" stops the kernel from
        reading around each page.

    Raises
    ------
    ValueError
        If a value is not one of these, negative, or too large.
    """

    strategy: str = "auto"
    lookahead: int = 1
    group: int | None = None
    readahead_limit: int | str = 1 << 30
    gap_pages: int | None = None
    resident: int | str | float | None = None
    memory_limit: int | str | None = None
    threads: int = 16
    advice: str = "random"

    def __post_init__(self) -> None:
        strategies = ("auto", *STRATEGIES)
        if self.strategy not in strategies:
            raise ValueError(f"strategy must be one of {strategies}, not {self.strategy!r}")
        if self.advice not in _ADVICE:
            raise ValueError(f"advice must be one of {_ADVICE}, not {self.advice!r}")
        object.__setattr__(self, "resident", as_share(self.resident, "resident"))
        for name in ("readahead_limit", "memory_limit"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, parse_size(value, name))
        as_count(self.lookahead, "lookahead", 0, _MOST_LOOKAHEAD)
        if self.group is not None:
            as_count(self.group, "group", 1, _MOST_GROUPED)
            if self.group > 1 and self.lookahead == 0:
                raise ValueError(
                    f"lookahead=0 prepares one mini-batch when it is wanted: leave "
                    f"group={self.group} out, or use lookahead=1"
                )
        as_count(self.readahead_limit, "readahead_limit", 0)
        as_count(self.threads, "threads", 1, _MOST_THREADS)
        for name in ("gap_pages", "memory_limit"):
            if getattr(self, name) is not None:
                as_count(getattr(self, name), name, 0)

    def resident_bytes(self, total: int) -> int | None:
        """`resident` in bytes, for a file with `total` bytes of rows; None if it is not given."""
        if isinstance(self.resident, float):
            return int(self.resident * total)
        assert not isinstance(self.resident, str)
        return self.resident

    def _repr_html_(self) -> str:
        """A row for each option, for notebooks."""
        rows = [[field.name, getattr(self, field.name), field.default] for field in fields(self)]
        return "Prefetch\n" + html_table(rows, ["option", "value", "default"])

    @property
    def readahead_limit_bytes(self) -> int:
        """`readahead_limit` as a number."""
        return int(self.readahead_limit)

    @property
    def memory_limit_bytes(self) -> int | None:
        """`memory_limit` as a number."""
        return None if self.memory_limit is None else int(self.memory_limit)


def as_share(value: object, name: str) -> int | float | None:
    """A part of some rows: bytes as an integer, a fraction as a float; sizes may be texts.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if value is None:
        return None
    if isinstance(value, str):
        text = value
        try:
            value = float(text)
        except ValueError:
            return parse_size(text, name)
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a fraction or bytes, not {value!r}")
    number = float(value)
    if 0 <= number <= 1:
        return number
    if number < 0 or number != int(number):
        raise ValueError(
            f"{name} must be a fraction from 0 to 1, or a whole number of bytes above 1, "
            f"not {value!r}"
        )
    return int(number)


# The numbers of rows that are copied from the mapping, or those that were read past the page cache.
Fetched: TypeAlias = "_core.Fetched | IdArray"
# Makes an array of a shape and dtype, as ``numpy.empty``.
Allocator: TypeAlias = Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[np.generic]]


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

    def fetch(self, rows: Sequence[IdArray]) -> list[Fetched]:
        """Brings the rows of a group of mini-batches into memory, by row number of the file."""
        return list(rows)

    def add(
        self,
        fetched: Fetched,
        fills: _core.Fills,
        batch: int,
        empty: Allocator,
        *,
        hops: PaddedHops | None = None,
        is_label: bool = False,
    ) -> npt.NDArray[np.generic]:
        """The array that `fills` will fill with the rows of a mini-batch, `batch` of the fills.

        Where `hops` are filled up, added rows are those of `added_row`.
        """
        _, from_dtype = self._store.conversion(self._dtype)
        shape, dtype = self.shape_and_dtype(fetched, hops)
        out = empty(shape, dtype)
        if out.size == 0:
            return out
        num_bytes = out.reshape(-1).view(np.uint8)
        if hops is None:
            self._store.add_to(fills, batch, fetched, num_bytes, from_dtype)
            return out
        row = added_row(dtype, self._store.shape[1:], is_label=is_label)
        row_bytes = row.reshape(-1).view(np.uint8)
        parts = _parts(fetched, hops.real)
        for part, real, begin, size in zip(parts, hops.real, hops.begins, hops.sizes, strict=True):
            first_added = (begin + real) * row.nbytes
            of_part = num_bytes[begin * row.nbytes : first_added]
            self._store.add_to(fills, batch, part, of_part, from_dtype)
            fills.repeat(batch, row_bytes, num_bytes[first_added : (begin + size) * row.nbytes])
        return out

    def shape_and_dtype(
        self, fetched: Fetched, hops: PaddedHops | None
    ) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
        """Of the array of `add`."""
        count = len(fetched) if isinstance(fetched, np.ndarray) else fetched.num_rows
        if hops is not None:
            count = sum(hops.sizes)
        return (count, *self._store.shape[1:]), self._store.conversion(self._dtype)[0]

    def close(self) -> None:
        """Ends the threads, and releases what the reader holds."""


def _parts(rows: Fetched, counts: Sequence[int]) -> Sequence[Fetched]:
    """So many rows after the other."""
    if isinstance(rows, np.ndarray):
        return np.split(rows, np.cumsum(counts)[:-1])
    return rows.split(list(counts))


def added_row(dtype: np.dtype[Any], shape: Sequence[int], *, is_label: bool) -> npt.NDArray[Any]:
    """The row of an added node or edge: zeros, or -100 in labels that can be negative.

    -100 is what ``torch.nn.functional.cross_entropy`` ignores by default.
    """
    row = np.zeros(tuple(shape), dtype)
    if is_label and dtype == BFLOAT16:
        row.view(np.uint16)[...] = np.float32(-100).view(np.uint32) >> 16
    elif is_label and dtype.kind in "if":
        row[...] = -100
    return row


def gap_pages_of(options: Prefetch) -> int:
    """Pages that a read past the page cache may run over to merge two reads."""
    return _GAP_PAGES if options.gap_pages is None else options.gap_pages


def direct_reader(store: FeatureStore, engine: str, threads: int) -> _core.DirectReader:
    """Reads rows of a file past the page cache, by "uring" or "pread"."""
    return _core.DirectReader(
        store.mapping,
        store.origin,
        store.row_bytes,
        store.num_nodes,
        engine=engine,
        threads=threads,
    )


class DirectRowReader(RowReader):
    """Reads the rows that are not resident past the page cache (``O_DIRECT``).

    A mini-batch has several times as many rows as must be read for it. So `fetch` brings those
    only, each page once for the whole group.
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
        self._gap_pages = gap_pages_of(options)
        self._reader = direct_reader(store, engine, options.threads)

    def fetch(self, rows: Sequence[IdArray]) -> list[Fetched]:
        """The rows that are not in memory, read from the disk."""
        together = rows[0] if len(rows) == 1 else np.concatenate(rows)
        fetched = self._reader.fetch(together, self._prefix.page_map(), self._gap_pages)
        return list(fetched.split([len(of_batch) for of_batch in rows]))

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
            return DirectRowReader(self.name, store, dtype, options, prefix)
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
    """Pages of rows, without gaps, that were read; 0 where the kernel reads, which does not say."""
    return 0 if isinstance(fetched, np.ndarray) else fetched.counts[0]


def bytes_read(fetched: Fetched) -> int:
    """Memory of the rows that were read; 0 where the kernel reads."""
    return 0 if isinstance(fetched, np.ndarray) else fetched.num_bytes
