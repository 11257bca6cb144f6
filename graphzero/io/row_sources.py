"""`RowSource`: in which file, and in which of its rows, the nodes of a mini-batch are found."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.sampling.subgraph import Subgraph

__all__ = ["RowSource", "gather_rows", "row_sources", "touched_rows"]

_GRAPH_ORDER = "order of the graph"


@dataclass(frozen=True)
class RowSource:
    """Where one kind of rows is found during an iteration.

    Attributes
    ----------
    store : FeatureStore
    rows_of : callable
        From the number of a mini-batch in its epoch, and its subgraph, to (num_nodes,) int64: the
        row of the store that each node has.
    numbering : hashable
        Equal for sources whose `rows_of` gives the same numbers.
    reads_ahead : bool
        Whether rows may be requested ahead: not where `rows_of` has to read a file.
    prefix_bytes : int, optional
        Size of the resident prefix. Default: what the plan finds best.
    """

    store: FeatureStore
    rows_of: Callable[[int, Subgraph], IdArray]
    numbering: Hashable
    reads_ahead: bool = True
    prefix_bytes: int | None = None


def row_sources(dataset: Dataset) -> dict[str, RowSource]:
    """The files of a dataset: features as "x", labels as "y", as far as there are any."""

    def source(store: FeatureStore) -> RowSource:
        if store.keeps_order_of(dataset.graph.stored_order):
            return RowSource(store, _stored_ids, _GRAPH_ORDER)
        return RowSource(
            store,
            lambda _, subgraph: store.to_stored(subgraph.n_id),
            store.path,
            reads_ahead=False,
        )

    stores = {"x": dataset.features, "y": dataset.labels}
    return {name: source(store) for name, store in stores.items() if store is not None}


def _stored_ids(_: int, subgraph: Subgraph) -> IdArray:
    """Row numbers in files that have the order of the graph."""
    return subgraph.stored_id


def touched_rows(source: RowSource, batch: int, subgraph: Subgraph) -> npt.NDArray[np.int64]:
    """The rows of a mini-batch, ascending, each as the size of the shortest prefix that has it."""
    return np.sort((source.rows_of(batch, subgraph) + 1) * source.store.row_bytes)


def gather_rows(
    dataset: Dataset,
    store: FeatureStore,
    subgraph: Subgraph,
    num_threads: int,
    *,
    dtype: npt.DTypeLike | None = None,
) -> npt.NDArray[Any]:
    """Rows of a subgraph's nodes, copied from the mapping."""
    same_order = store.keeps_order_of(dataset.graph.stored_order)
    rows = subgraph.stored_id if same_order else store.to_stored(subgraph.n_id)
    return store.gather_stored(rows, None, num_threads, dtype=dtype)
