"""How the rows of mini-batches come into memory, as an `IOPlan` says."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.dataset import Dataset
from graphzero.features import FeatureStore
from graphzero.ids import IdArray
from graphzero.io_plan import IOPlan
from graphzero.prefetch import Prefetch
from graphzero.readahead import PagesAsked, ReadAhead
from graphzero.resident import ElasticHead
from graphzero.sampler import Subgraph

__all__ = ["RowIO", "gather_rows"]

_DIRECT = ("pread", "uring")


class RowIO:
    """Reads the rows of a dataset's mini-batches during one iteration.

    Only features are ever read past the page cache: a page holds the labels of hundreds of nodes.

    Parameters
    ----------
    dataset : Dataset
    prefetch : Prefetch
    plan : IOPlan
    feature_dtype : dtype-like, optional
        float32, to have the features converted on the way.

    Attributes
    ----------
    plan : IOPlan
        As it is carried out.
    """

    def __init__(
        self,
        dataset: Dataset,
        prefetch: Prefetch,
        plan: IOPlan,
        *,
        feature_dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.plan = plan
        self._dtypes = {"x": feature_dtype, "y": None}
        self._dataset = dataset
        self._gap = prefetch.gap
        self._direct: _core.DirectReader | None = None
        self._head: ElasticHead | None = None
        self._stack = ExitStack()
        features = dataset.features
        stores = {"x": features, "y": dataset.labels}
        self.stores = {name: store for name, store in stores.items() if store is not None}
        order = dataset.graph.stored_order
        ahead = [store for store in self.stores.values() if store.keeps_order_of(order)]
        for store in ahead:
            store.advise(prefetch.advice)
        try:
            if features is not None and plan.strategy in _DIRECT and features.row_bytes > 0:
                self._direct = self._reader_of(features, prefetch)
                self._stack.callback(self._direct.close)
                ahead = [store for store in ahead if store is not features]
            if features is not None and features.row_bytes > 0:
                self._head = ElasticHead(
                    features.head,
                    first=plan.first_resident,
                    most=plan.resident,
                    reserve=plan.reserve,
                )
                self._stack.callback(self._head.close)
            asks = plan.strategy != "none"
            self._readahead = ReadAhead(ahead if asks else [], prefetch, plan.page_cache)
            self._stack.callback(self._readahead.close)
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

    def submit(self, rows: IdArray) -> Future[PagesAsked]:
        """Asks for rows that will be gathered; never blocks, never fails."""
        return self._readahead.submit(rows)

    def finish(self, asked: PagesAsked) -> None:
        """The rows that were asked for have been gathered, or will not be."""
        self._readahead.finish(asked)

    def gather(self, name: str, subgraph: Subgraph) -> tuple[npt.NDArray[Any], int]:
        """The rows "x" or "y" of a batch, and how many pages were read for them from the disk.

        The number is 0 where the kernel reads, which does not say.
        """
        store = self.stores[name]
        if name != "x" or self._direct is None:
            return gather_rows(self._dataset, store, subgraph, 1, dtype=self._dtypes[name]), 0
        rows = _rows_of(self._dataset, store, subgraph)
        dtype, from_dtype = store.conversion(self._dtypes[name])
        out = _core.empty((rows.shape[0], *store.shape[1:]), dtype)
        kept, target = store.kept_rows, out.reshape(-1).view(np.uint8)
        _, read, _ = self._direct.gather(rows, target, kept, self._gap, from_dtype)
        return out, read

    def count_batch(self) -> None:
        """The training loop is done with another mini-batch."""
        if self._head is not None:
            self._head.count_batch()

    def close(self) -> None:
        """Ends the threads; what they are working on is waited for."""
        self._stack.close()


def _rows_of(dataset: Dataset, store: FeatureStore, subgraph: Subgraph) -> IdArray:
    """Row numbers of a subgraph's nodes."""
    if store.keeps_order_of(dataset.graph.stored_order):
        return subgraph.stored_id
    return store.to_stored(subgraph.n_id)


def gather_rows(
    dataset: Dataset,
    store: FeatureStore,
    subgraph: Subgraph,
    num_threads: int,
    *,
    dtype: npt.DTypeLike | None = None,
) -> npt.NDArray[Any]:
    """Rows of a subgraph's nodes, through the mapping."""
    return store.gather_stored(_rows_of(dataset, store, subgraph), None, num_threads, dtype=dtype)
