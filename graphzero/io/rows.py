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
from graphzero.io.row_sources import RowSource
from graphzero.io.strategies import STRATEGIES, Fetched, PageCacheReader, RowReader
from graphzero.sampling.subgraph import Subgraph
from graphzero.store.resident_prefix import ResidentPrefix

__all__ = ["RowIO"]


class RowIO:
    """Reads the rows of mini-batches during one iteration.

    The strategy of the plan reads the features. All other rows come through the page cache: a page
    holds the labels of hundreds of nodes.

    Parameters
    ----------
    sources : mapping
        By "x" and "y".
    prefetch : Prefetch
    plan : IOPlan
    feature_dtype : dtype-like, optional
        float32, to convert the features on their way.

    Attributes
    ----------
    plan : IOPlan
        As it is carried out: a substitute may stand in for its strategy.
    prefix : ResidentPrefix or None
        Of the features; a `PrefixKeeper` keeps it in memory.
    """

    def __init__(
        self,
        sources: Mapping[str, RowSource],
        prefetch: Prefetch,
        plan: IOPlan,
        *,
        feature_dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.plan = plan
        self.sources = sources
        self.prefix: ResidentPrefix | None = None
        if "x" in sources and sources["x"].store.row_bytes > 0:
            self.prefix = sources["x"].store.new_prefix()
        self._readers: dict[str, RowReader] = {}
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
            if name == "x":
                reader = self._open_features(source, prefetch, feature_dtype)
            else:
                reader = PageCacheReader(source.store, None)
            self._stack.callback(reader.close)
            self._readers[name] = reader

    def _open_features(
        self, source: RowSource, prefetch: Prefetch, dtype: npt.DTypeLike | None
    ) -> RowReader:
        """By the strategy of the plan, or by its substitute if the system refuses it after all."""
        strategy = self.plan.strategy
        prefix = self.prefix if self.prefix is not None else source.store.new_prefix()
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
        for group in alike.values():
            stores = [source.store for source in group]
            readahead = PageReadAhead(stores, prefetch, self.plan.page_cache)
            self._stack.callback(readahead.close)
            self._readaheads.append((group[0], readahead))

    def submit(self, batch: int, subgraph: Subgraph) -> list[Future[PagesRequested]]:
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

    def fetch(self, name: str, batch: int, subgraph: Subgraph) -> Fetched:
        """Brings the rows "x" or "y" of a mini-batch into memory; see `RowReader.fetch`."""
        return self._readers[name].fetch(self.sources[name].rows_of(batch, subgraph))

    def place(self, name: str, fetched: Fetched, num_threads: int) -> npt.NDArray[Any]:
        """All the rows of a mini-batch in one array; see `RowReader.place`."""
        return self._readers[name].place(fetched, num_threads)

    def close(self) -> None:
        """Ends the threads, after the calls that they are in."""
        self._stack.close()
