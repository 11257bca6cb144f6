"""`RowIO`: reads the rows of mini-batches during one iteration, as its plan says."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from graphzero.io.page_readahead import PageReadAhead, PagesRequested
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import Prefetch
from graphzero.io.prefix_group import PrefixGroup
from graphzero.io.row_sources import RowKey, RowSource
from graphzero.io.strategies import STRATEGIES, Fetched, PageCacheReader, RowReader
from graphzero.sampling.any_subgraph import AnySubgraph
from graphzero.sampling.profiled import profiled
from graphzero.store.resident_prefix import ResidentPrefix

__all__ = ["RowIO"]


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
    prefix : ResidentPrefix, PrefixGroup or None
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
            name: source.store.new_prefix() for name, source in sources.items() if source.is_managed
        }
        self.prefix = self._resident_prefix()
        self._readers: dict[RowKey, RowReader] = {}
        self._readaheads: list[tuple[RowSource, PageReadAhead]] = []
        self._stack = ExitStack()
        for source in sources.values():
            if source.reads_ahead:
                source.store.advise(prefetch.advice)
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
                reader = PageCacheReader(source.store, dtype)
            self._stack.callback(reader.close)
            self._readers[name] = reader

    def _resident_prefix(self) -> ResidentPrefix | PrefixGroup | None:
        """Of all managed rows, or of those alone whose prefix has a size of its own."""
        sizes = {
            name: source.num_bytes
            for name, source in self.sources.items()
            if source.is_managed and source.num_bytes > 0
        }
        own = {
            name: source.prefix_bytes
            for name, source in self.sources.items()
            if name in sizes and source.prefix_bytes is not None
        }
        chosen = list(own or sizes)
        if len(chosen) <= 1:
            return self._prefixes[chosen[0]] if chosen else None
        return PrefixGroup([self._prefixes[name] for name in chosen], list((own or sizes).values()))

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
        room = self.plan.page_cache
        large = sum(any(source.is_managed for source in group) for group in alike.values())
        for group in alike.values():
            stores = [source.store for source in group]
            readahead = PageReadAhead(stores, prefetch, room and room // max(1, large))
            self._stack.callback(readahead.close)
            self._readaheads.append((group[0], readahead))

    def submit(self, batch: int, subgraph: AnySubgraph) -> list[Future[PagesRequested]]:
        """Requests the pages of a mini-batch's rows; never blocks."""
        return [
            readahead.submit(source.rows_of(batch, subgraph))
            for source, readahead in self._readaheads
        ]

    @profiled("graphzero: disk wait")
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

    def fetch(self, name: RowKey, batch: int, subgraph: AnySubgraph) -> Fetched:
        """Brings an attribute's rows of a mini-batch into memory; see `RowReader.fetch`."""
        reader = self._readers[name]
        with profiled("graphzero: disk wait" if reader.past_page_cache else "graphzero: gather"):
            return reader.fetch(self.sources[name].rows_of(batch, subgraph))

    def place(self, name: RowKey, fetched: Fetched, num_threads: int) -> npt.NDArray[Any]:
        """All the rows of a mini-batch in one array; see `RowReader.place`."""
        reader = self._readers[name]
        if not reader.past_page_cache:  # `fetch` has gathered them
            return reader.place(fetched, num_threads)
        with profiled("graphzero: gather"):
            return reader.place(fetched, num_threads)

    def close(self) -> None:
        """Ends the threads, after the calls that they are in."""
        self._stack.close()
