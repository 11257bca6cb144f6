"""How the rows of mini-batches come into memory, as an `IOPlan` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.io.limits import MemoryWatch
from graphzero.io.page_readahead import PagesAsked, ReadAhead
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import Prefetch
from graphzero.io.prefix_keeper import ElasticHead
from graphzero.sampling.sampler import Subgraph

__all__ = [
    "Fetched",
    "RowIO",
    "RowSource",
    "gather_rows",
    "pages_read",
    "row_sources",
    "touched_rows",
]

# Rows of one kind that are whole, or of which those that are not resident have been read.
Fetched: TypeAlias = "_core.Fetched | npt.NDArray[Any]"

_DIRECT = ("pread", "uring")


@dataclass(frozen=True)
class RowSource:
    """Where one kind of rows is found during an iteration.

    Attributes
    ----------
    store : FeatureStore
    rows_of : callable
        From the number of a batch in its epoch, and its subgraph, to (num_nodes,) int64: the row
        of the store that each node has.
    ahead : bool
        Whether rows may be asked for ahead: not where `rows_of` has to read a file.
    head : int, optional
        Bytes at the beginning of the rows that are to be resident. Default: as the plan finds best.
    """

    store: FeatureStore
    rows_of: Callable[[int, Subgraph], IdArray]
    ahead: bool = True
    head: int | None = None


def row_sources(dataset: Dataset) -> dict[str, RowSource]:
    """The files of a dataset: features as "x", labels as "y", as far as there are any."""

    def source(store: FeatureStore) -> RowSource:
        if store.keeps_order_of(dataset.graph.stored_order):
            return RowSource(store, _stored_ids)
        return RowSource(store, lambda _, subgraph: store.to_stored(subgraph.n_id), ahead=False)

    stores = {"x": dataset.features, "y": dataset.labels}
    return {name: source(store) for name, store in stores.items() if store is not None}


class RowIO:
    """Reads the rows of mini-batches during one iteration.

    Only features are ever read past the page cache: a page holds the labels of hundreds of nodes.

    Parameters
    ----------
    sources : mapping
        By "x" and "y".
    prefetch : Prefetch
    plan : IOPlan
    feature_dtype : dtype-like, optional
        float32, to have the features converted on the way.
    watch : MemoryWatch, optional
        What earlier iterations of the same loop have left.

    Attributes
    ----------
    plan : IOPlan
        As it is carried out.
    """

    def __init__(
        self,
        sources: Mapping[str, RowSource],
        prefetch: Prefetch,
        plan: IOPlan,
        *,
        feature_dtype: npt.DTypeLike | None = None,
        watch: MemoryWatch | None = None,
    ) -> None:
        self.plan = plan
        self.sources = sources
        self._dtypes = {"x": feature_dtype, "y": None}
        self._gap = prefetch.gap
        self._direct: _core.DirectReader | None = None
        self._head: ElasticHead | None = None
        self._stack = ExitStack()
        features = sources["x"].store if "x" in sources else None
        ahead = [source for source in sources.values() if source.ahead]
        for source in ahead:
            source.store.advise(prefetch.advice)
        try:
            if features is not None and plan.strategy in _DIRECT and features.row_bytes > 0:
                self._direct = self._reader_of(features, prefetch)
                self._stack.callback(self._direct.close)
                ahead = [source for source in ahead if source.store is not features]
            if features is not None and features.row_bytes > 0:
                self._head = ElasticHead(
                    features.head,
                    first=plan.first_resident,
                    most=plan.resident,
                    reserve=plan.reserve,
                    watch=watch,
                )
                self._stack.callback(self._head.close)
            self._readaheads: list[tuple[RowSource, ReadAhead]] = []
            for alike in _with_equal_rows(ahead) if plan.strategy != "none" else []:
                stores = [source.store for source in alike]
                readahead = ReadAhead(stores, prefetch, plan.page_cache)
                self._stack.callback(readahead.close)
                self._readaheads.append((alike[0], readahead))
        except BaseException:
            self._stack.close()
            raise

    def _reader_of(self, features: FeatureStore, prefetch: Prefetch) -> _core.DirectReader:
        """As planned; by threads where a whole ring is refused after all."""
        try:
            return features.direct_reader(self.plan.strategy, prefetch.threads)
        except OSError as error:
            if self.plan.strategy != "uring":
                raise
            reason = f"{self.plan.reason}; io_uring refused a ring ({error})"
            self.plan = replace(self.plan, strategy="pread", reason=reason)
            return features.direct_reader("pread", prefetch.threads)

    def submit(self, batch: int, subgraph: Subgraph) -> list[Future[PagesAsked]]:
        """Asks for the rows of a batch, which will be gathered; never blocks."""
        return [
            readahead.submit(source.rows_of(batch, subgraph))
            for source, readahead in self._readaheads
        ]

    def wait(self, requests: list[Future[PagesAsked]]) -> list[PagesAsked]:
        """What became of the requests of one batch, the first that has not been gathered."""
        return [
            readahead.result(request)
            for (_, readahead), request in zip(self._readaheads, requests, strict=True)
        ]

    def finish(self, asked: list[PagesAsked]) -> None:
        """The rows that were asked for have been gathered, or will not be."""
        for (_, readahead), pages in zip(self._readaheads, asked, strict=True):
            readahead.finish(pages)

    def fetch(self, name: str, batch: int, subgraph: Subgraph) -> Fetched:
        """The rows "x" or "y" of a batch; of those past the page cache, what is not resident.

        A whole batch of rows is several times as large as those of it that must be read: it comes
        to be when it is wanted, by `place`, in the memory that the batch before has left.
        """
        source = self.sources[name]
        rows = source.rows_of(batch, subgraph)
        if name == "x" and self._direct is not None:
            return self._direct.fetch(rows, source.store.kept_rows, self._gap)
        return source.store.gather_stored(rows, None, 1, dtype=self._dtypes[name])

    def place(self, name: str, fetched: Fetched, num_threads: int) -> npt.NDArray[Any]:
        """All the rows of a batch, from what `fetch` has brought."""
        if isinstance(fetched, np.ndarray):
            return fetched
        store = self.sources[name].store
        dtype, from_dtype = store.conversion(self._dtypes[name])
        out = _core.empty((fetched.num_rows, *store.shape[1:]), dtype)
        fetched.place(out.reshape(-1).view(np.uint8), num_threads, from_dtype)
        return out

    def count_batch(self) -> None:
        """The training loop is done with another mini-batch."""
        if self._head is not None:
            self._head.count_batch()

    def close(self) -> None:
        """Ends the threads; what they are working on is waited for."""
        self._stack.close()


def pages_read(fetched: Fetched) -> int:
    """Pages that were read from the disk; 0 where the kernel reads, which does not say."""
    return 0 if isinstance(fetched, np.ndarray) else fetched.counts[1]


def _stored_ids(_: int, subgraph: Subgraph) -> IdArray:
    """Row numbers in files that keep the order of the graph."""
    return subgraph.stored_id


def _with_equal_rows(sources: list[RowSource]) -> list[list[RowSource]]:
    """Those together whose batches have the same row numbers."""
    alike: dict[Callable[[int, Subgraph], IdArray], list[RowSource]] = {}
    for source in sources:
        alike.setdefault(source.rows_of, []).append(source)
    return list(alike.values())


def touched_rows(source: RowSource, batch: int, subgraph: Subgraph) -> npt.NDArray[np.int64]:
    """The rows of a batch, each as the bytes with which it is kept, ascending."""
    return np.sort((source.rows_of(batch, subgraph) + 1) * source.store.row_bytes)


def gather_rows(
    dataset: Dataset,
    store: FeatureStore,
    subgraph: Subgraph,
    num_threads: int,
    *,
    dtype: npt.DTypeLike | None = None,
) -> npt.NDArray[Any]:
    """Rows of a subgraph's nodes, through the mapping."""
    same_order = store.keeps_order_of(dataset.graph.stored_order)
    rows = subgraph.stored_id if same_order else store.to_stored(subgraph.n_id)
    return store.gather_stored(rows, None, num_threads, dtype=dtype)
