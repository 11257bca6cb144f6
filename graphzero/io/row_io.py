"""`RowIO`: where the rows of mini-batches are, and how they are read during one iteration."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from mmap import PAGESIZE
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.user_input import IdArray
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import STRATEGIES, Allocator, Fetched, Prefetch, RowReader
from graphzero.sampling.sampler import PaddedHops, TypedSubgraph
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.manifest import EdgeType
from graphzero.store.mapped_file import PrefixGroup, ResidentPrefix, mincore_is_honest

# The name of an attribute; in a typed graph with the node type or edge type before it.
RowKey: TypeAlias = "str | tuple[Any, str]"

# A node's row of fewer bytes comes through the page cache: a page there has more than 64 of them.
_STRATEGY_BYTES = 64


@dataclass(frozen=True)
class RowSource:
    """Where one attribute is found during an iteration.

    Attributes
    ----------
    store : FeatureStore
    rows_of : callable
        From the number of a mini-batch in its epoch, and its subgraph, to (n,) int64: the rows of
        the store that the nodes or edges of the mini-batch have.
    numbering : hashable
        Equal for sources whose `rows_of` gives the same numbers.
    reads_ahead : bool
        Whether rows may be requested ahead: not where `rows_of` has to read a file.
    prefix_bytes : int, optional
        Size of the resident prefix. Default: what the plan finds best.
    is_managed : bool
        Whether the strategy of the plan reads the rows, and a part of them may be resident. Other
        rows come through the page cache.
    is_converted : bool
        Whether `feature_dtype` converts them.
    kind : str, tuple or None
        The node type or edge type whose nodes or edges have them, where hops may be filled up.
    is_label : bool
        Whether they are labels, of which added nodes have none.
    first_row : int
        Those before it are never read: a device has them.
    """

    store: FeatureStore
    rows_of: Callable[[int, Any], IdArray]
    numbering: Hashable
    reads_ahead: bool = True
    prefix_bytes: int | None = None
    is_managed: bool = False
    is_converted: bool = False
    kind: str | EdgeType | None = None
    is_label: bool = False
    first_row: int = 0

    def padded_hops(self, subgraph: TypedSubgraph) -> PaddedHops | None:
        """The hops of a mini-batch's nodes or edges, where they are filled up."""
        return None if self.kind is None else subgraph.padded.get(self.kind)

    @property
    def num_bytes(self) -> int:
        """Size of all rows from the first one on."""
        return (self.store.num_nodes - self.first_row) * self.store.row_bytes


def row_sources(dataset: Dataset) -> dict[RowKey, RowSource]:
    """The files of all attributes of a dataset, by name; of a typed one, by type and name."""
    sources: dict[RowKey, RowSource] = {}

    def key(kind: Any, name: str) -> RowKey:
        return (kind, name) if dataset.is_typed else name

    for kind, nodes in dataset.nodes.items():
        for name, store in nodes.attributes.items():
            in_order, is_features = nodes.keeps_order_of(store), name == "x"
            sources[key(kind, name)] = RowSource(
                store,
                partial(_rows_of_nodes if in_order else _translated_rows, kind, store),
                kind if in_order else store.path,
                reads_ahead=in_order,
                is_managed=is_features or store.row_bytes >= _STRATEGY_BYTES,
                is_converted=is_features,
                kind=kind,
                is_label=name == "y",
            )
    for edge_type, edges in dataset.edges.items():
        for (
            name,
            store,
        ) in edges.attributes.items():  # too many for the page cache, however small they are
            rows_of = partial(_rows_of_edges, edge_type)
            sources[key(edge_type, name)] = RowSource(
                store, rows_of, edge_type, is_managed=True, kind=edge_type, is_label=name == "y"
            )
    return sources


def _rows_of_nodes(kind: str, _: FeatureStore, batch: int, subgraph: TypedSubgraph) -> IdArray:
    return subgraph.stored_id[kind]


def _translated_rows(kind: str, store: FeatureStore, _: int, subgraph: TypedSubgraph) -> IdArray:
    hops, n_id = subgraph.padded.get(kind), subgraph.n_id[kind]
    return store.to_stored(n_id if hops is None else hops.real_of(n_id))


def _rows_of_edges(kind: EdgeType, batch: int, subgraph: TypedSubgraph) -> IdArray:
    return subgraph.positions[kind]


def managed_bytes(sources: Mapping[RowKey, RowSource]) -> int:
    """Bytes of all rows that the strategy of the plan reads."""
    return sum(source.num_bytes for source in sources.values() if source.is_managed)


def touched_rows(
    sources: Mapping[RowKey, RowSource], batch: int, subgraph: Any
) -> npt.NDArray[np.int64]:
    """The managed rows of a mini-batch, each as the least resident bytes with which it is resident.

    Resident bytes are divided among the sources in proportion to their sizes, see `PrefixGroup`.

    Returns
    -------
    (num_rows,) int64
        Ascending.
    """
    total = managed_bytes(sources)
    ends = [np.empty(0, np.int64)]
    for source in sources.values():
        if source.is_managed and source.num_bytes > 0:
            rows = source.rows_of(batch, subgraph) - source.first_row
            last_bytes = (rows + 1) * source.store.row_bytes
            if source.num_bytes < total:
                last_bytes = np.ceil(last_bytes * (total / source.num_bytes)).astype(np.int64)
            ends.append(last_bytes)
    return np.sort(np.concatenate(ends))


_ROWS_A_TURN = 4096  # between two checks of the limit
_PROBES = 128  # if 1 page in 20 is missing, this many rows find none missing 1 time in 700
_QUIET = 8  # requests in a row that find nothing missing, after which not all of them look
_LOOKS = 8  # then each of so many requests looks
_WHOLE_LOOKS = 256  # requests in a row that find nothing missing; then all rows are looked at


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


class _InFlight:
    """Bounds the bytes of pages that were missing, requested, and not copied yet."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._taken_bytes = 0
        self._urgent = 0  # threads that wait for a request
        self._is_closed = False
        self._changed = threading.Condition()

    def wait(self, own_bytes: int) -> bool:
        """Until pages may be requested: of others, none or few enough; False when closed."""
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
        """Meanwhile nobody waits."""
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

    It looks up a few rows of a request first, and the others only if one of these is missing. Where
    requests find nothing missing, most of the next ones do not look at all: data in memory should
    not pay for it. Where memory is short, pages that are read too early are dropped before they are
    used. So the pages that were requested and not yet copied are bounded, and requests beyond the
    bound wait.

    Parameters
    ----------
    stores : sequence of FeatureStore
    prefetch : Prefetch
    most_bytes : int, optional
        Bytes of pages that fit in memory, a second bound besides `Prefetch.readahead_limit`.
    """

    def __init__(
        self, stores: Sequence[FeatureStore], prefetch: Prefetch, most_bytes: int | None = None
    ) -> None:
        self._stores = [(store, mincore_is_honest(store.path)) for store in stores]
        self._row_bytes = sum(store.row_bytes for store in stores)
        self._prefetch = prefetch
        limit = prefetch.readahead_limit_bytes
        self._in_flight = _InFlight(limit if most_bytes is None else min(most_bytes, limit))
        self._threads = WorkerThreads(1, "graphzero-readahead", on_stop=self._in_flight.close)
        self._quiet = 0  # requests in a row that found nothing missing
        self._is_in_memory = False  # all rows were found there

    def submit(self, rows: IdArray) -> Future[PagesRequested]:
        """Requests rows by row number; never blocks, never fails.

        Rows of one request beyond the limit are left to page faults.
        """
        if self._row_bytes == 0 or self._is_in_memory:
            return _NOTHING_MISSED
        if self._quiet >= _QUIET and self._quiet % _LOOKS:
            self._quiet += 1
            return _NOTHING_MISSED
        rows = rows[: self._prefetch.readahead_limit_bytes // self._row_bytes]
        # Here, not in the thread: waking it costs more than the look-up.
        probed = self._probe(rows)
        if probed is not None and not probed.missing:
            if self._quiet % _WHOLE_LOOKS == _QUIET:
                self._threads.submit(self._look_at_all)
            self._quiet += 1
            return _done(probed)
        self._quiet = 0
        return self._threads.submit(self._request, rows)

    def look_again(self) -> None:
        """Page faults have read what was not in memory: one of the next requests looks."""
        self._is_in_memory = False
        self._quiet = min(self._quiet, _QUIET + _LOOKS)

    def _look_at_all(self) -> None:
        """Where all rows are in memory, requests no longer look."""
        with suppress(OSError):
            self._is_in_memory = all(
                is_honest and _is_in_memory(store) for store, is_honest in self._stores
            )

    def result(self, request: Future[PagesRequested]) -> PagesRequested:
        """The outcome of a request, once the rows of all mini-batches before it were copied.

        Threads that sample side by side may have submitted later mini-batches before it. Their rows
        are copied after it, so no request waits for their pages until it is done.
        """
        if request.done():
            return request.result()
        with self._in_flight.unbounded():
            return request.result()

    def finish(self, requested: PagesRequested) -> None:
        """The rows of a request were copied: others may be requested instead."""
        if requested.missing:
            self._in_flight.take(-requested.missing * PAGESIZE)

    def _request(self, rows: IdArray) -> PagesRequested:
        """The thread's work for one request."""
        done = PagesRequested()
        try:
            rows = np.sort(rows)
            for begin in range(0, rows.shape[0], _ROWS_A_TURN):
                if not self._in_flight.wait(done.missing * PAGESIZE):
                    break
                part = self._request_part(rows[begin : begin + _ROWS_A_TURN])
                done = PagesRequested(done.pages + part.pages, done.missing + part.missing)
                self._in_flight.take(part.missing * PAGESIZE)
        except OSError as error:
            # Advice only: the copy reads the pages anyway, and reports what is really wrong.
            warnings.warn(f"read-ahead failed: {error}", RuntimeWarning, stacklevel=1)
        return done

    def _probe(self, rows: IdArray) -> PagesRequested | None:
        """What is missing of a few rows; None where that is unknown."""
        if not all(is_honest for _, is_honest in self._stores):
            return None
        some = np.sort(rows[:: max(1, -(-rows.shape[0] // _PROBES))])
        try:
            counts = [store.read_ahead(some, only_count=True) for store, _ in self._stores]
        except OSError:
            return None  # the thread meets the same error, and warns
        pages, missing, _ = (sum(part) for part in zip(*counts, strict=True))
        return PagesRequested(pages, missing)

    def _request_part(self, rows: IdArray) -> PagesRequested:
        pages = missing = 0
        for store, is_honest in self._stores:
            done = store.read_ahead(
                rows, gap_pages=self._prefetch.gap_pages or 0, trust_mincore=is_honest
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


def _is_in_memory(store: FeatureStore) -> bool:
    first = store.origin // PAGESIZE
    last = -(-(store.origin + store.num_nodes * store.row_bytes) // PAGESIZE)
    return bool(store.mapping.page_map(first, last - first).all())


_NOTHING_MISSED = _done(PagesRequested())


class RowIO:
    """Reads the rows of mini-batches during one iteration.

    The strategy of the plan reads features, and other large rows. Small ones come through the page
    cache: a page holds the labels of hundreds of nodes.

    Parameters
    ----------
    sources : mapping
        By the names of attributes.
    prefetch : Prefetch
    plan : IOPlan
    feature_dtype : dtype-like, optional
        float32, to convert the features on their way.

    Attributes
    ----------
    plan : IOPlan
        As it is carried out: a substitute may stand in for its strategy.
    prefix : PrefixGroup
        Of the rows that the strategy reads; a `PrefixKeeper` keeps it in memory.
    """

    def __init__(
        self,
        sources: Mapping[RowKey, RowSource],
        prefetch: Prefetch,
        plan: IOPlan,
        *,
        feature_dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.plan = plan
        self.sources = sources
        self._prefixes = {
            name: ResidentPrefix(
                source.store.mapping,
                source.store.origin,
                source.first_row * source.store.row_bytes,
            )
            for name, source in sources.items()
            if source.is_managed
        }
        self.prefix = self._resident_prefix()
        self._readers: dict[RowKey, RowReader] = {}
        self._readaheads: list[tuple[RowSource, PageReadAhead]] = []
        self._stack = ExitStack()
        for source in sources.values():
            if source.reads_ahead:
                source.store.mapping.advise(prefetch.advice)
        try:
            self._open_readers(prefetch, feature_dtype)
            self._start_readaheads(prefetch)
        except BaseException:
            self._stack.close()
            raise

    def _open_readers(self, prefetch: Prefetch, feature_dtype: npt.DTypeLike | None) -> None:
        for name, source in self.sources.items():
            dtype = feature_dtype if source.is_converted else None
            if source.is_managed:
                reader = self._open_managed(name, source, prefetch, dtype)
            else:
                reader = RowReader(source.store, dtype)
            self._stack.callback(reader.close)
            self._readers[name] = reader

    def _resident_prefix(self) -> PrefixGroup:
        """Of all managed rows, or of those alone whose prefix has a size of its own."""
        sizes = {
            name: (source.prefix_bytes, source.num_bytes)
            for name, source in self.sources.items()
            if source.is_managed and source.num_bytes > 0
        }
        fixed = {name: of_prefix for name, (of_prefix, _) in sizes.items() if of_prefix is not None}
        chosen = fixed or {name: whole for name, (_, whole) in sizes.items()}
        return PrefixGroup([self._prefixes[name] for name in chosen], list(chosen.values()))

    def _open_managed(
        self, name: RowKey, source: RowSource, prefetch: Prefetch, dtype: npt.DTypeLike | None
    ) -> RowReader:
        """By the strategy of the plan, or by its substitute if the system refuses it after all."""
        strategy = self.plan.strategy
        prefix = self._prefixes[name]
        try:
            return strategy.open(source.store, dtype, prefetch, prefix)
        except OSError as error:
            if strategy.substitute is None:
                raise
            substitute = STRATEGIES[strategy.substitute]
            reason = f"{self.plan.reason}; {strategy.name} was refused ({error})"
            self.plan = replace(self.plan, strategy=substitute, reason=reason)
            return substitute.open(source.store, dtype, prefetch, prefix)

    def _start_readaheads(self, prefetch: Prefetch) -> None:
        """Rows that come through the page cache; those with the same numbers are one request."""
        if not self.plan.strategy.reads_ahead:
            return
        alike: dict[Hashable, list[RowSource]] = {}
        for name, source in self.sources.items():
            if source.reads_ahead and not self._readers[name].past_page_cache:
                alike.setdefault(source.numbering, []).append(source)
        most = self.plan.page_cache
        large = sum(any(source.is_managed for source in group) for group in alike.values())
        for group in alike.values():
            stores = [source.store for source in group]
            readahead = PageReadAhead(stores, prefetch, most and most // max(1, large))
            self._stack.callback(readahead.close)
            self._readaheads.append((group[0], readahead))

    def submit(self, batch: int, subgraph: TypedSubgraph) -> list[Future[PagesRequested]]:
        """Requests the pages of a mini-batch's rows; never blocks."""
        return [
            readahead.submit(source.rows_of(batch, subgraph))
            for source, readahead in self._readaheads
        ]

    def wait(self, requests: list[Future[PagesRequested]]) -> list[PagesRequested]:
        """The outcome of the requests of one mini-batch, the first whose rows were not copied."""
        return [
            readahead.result(request)
            for (_, readahead), request in zip(self._readaheads, requests, strict=True)
        ]

    def finish(self, requested: list[PagesRequested]) -> None:
        """The rows of these requests were copied, or will not be."""
        for (_, readahead), pages in zip(self._readaheads, requested, strict=True):
            readahead.finish(pages)

    def look_again(self) -> None:
        """Pages that were in memory are not any more."""
        for _, readahead in self._readaheads:
            readahead.look_again()

    @property
    def reads_past_page_cache(self) -> bool:
        """Whether some rows are read past the page cache."""
        return any(reader.past_page_cache for reader in self._readers.values())

    def fetch(self, name: RowKey, group: Sequence[tuple[int, TypedSubgraph]]) -> list[Fetched]:
        """Brings an attribute's rows of a group into memory: of numbered mini-batches."""
        source = self.sources[name]
        return self._readers[name].fetch([source.rows_of(*numbered) for numbered in group])

    def add(
        self,
        name: RowKey,
        fetched: Fetched,
        fills: _core.Fills,
        batch: int,
        empty: Allocator,
        *,
        subgraph: TypedSubgraph,
    ) -> npt.NDArray[np.generic]:
        """The array that will have the rows of a mini-batch; see `RowReader.add`."""
        source = self.sources[name]
        hops = source.padded_hops(subgraph)
        return self._readers[name].add(
            fetched, fills, batch, empty, hops=hops, is_label=source.is_label
        )

    def placed_bytes(self, name: RowKey, fetched: Fetched, subgraph: TypedSubgraph) -> int:
        """Bytes of the array of `add`."""
        hops = self.sources[name].padded_hops(subgraph)
        shape, dtype = self._readers[name].shape_and_dtype(fetched, hops)
        return math.prod(shape) * dtype.itemsize

    def close(self) -> None:
        """Ends the threads, after the calls that they are in."""
        self._stack.close()
