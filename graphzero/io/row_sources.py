"""`RowSource`: in which file, and in which of its rows, a mini-batch finds an attribute."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.graph.typed_dataset import EdgeStore, NodeStore, TypedDataset

__all__ = ["RowKey", "RowSource", "managed_bytes", "row_sources", "touched_rows"]

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
    """

    store: FeatureStore
    rows_of: Callable[[int, Any], IdArray]
    numbering: Hashable
    reads_ahead: bool = True
    prefix_bytes: int | None = None
    is_managed: bool = False
    is_converted: bool = False

    @property
    def num_bytes(self) -> int:
        """Size of all rows."""
        return self.store.num_nodes * self.store.row_bytes


def row_sources(dataset: Dataset) -> dict[RowKey, RowSource]:
    """The files of all attributes of a dataset, by name; of a typed one, by type and name."""
    sources: dict[RowKey, RowSource] = {}
    if isinstance(dataset, TypedDataset):
        for kind, nodes in dataset.nodes.items():
            for name, store in nodes.items():
                sources[kind, name] = _of_typed_nodes(nodes, name, store)
        for edge_type, edges in dataset.edges.items():
            for name, store in edges.items():
                sources[edge_type, name] = _of_typed_edges(edges, store)
        return sources
    for name, store in dataset.attributes.items():
        sources[name] = _of_nodes(dataset, name, store)
    for name, store in dataset.edge_attributes.items():
        sources[name] = _of_edges(store, lambda _, subgraph: subgraph.positions, "edges")
    return sources


def _source(
    name: str,
    store: FeatureStore,
    rows_of: Callable[[int, Any], IdArray],
    numbering: Hashable,
    *,
    reads_ahead: bool = True,
) -> RowSource:
    is_features = name == "x"
    return RowSource(
        store,
        rows_of,
        numbering,
        reads_ahead=reads_ahead,
        is_managed=is_features or store.row_bytes >= _STRATEGY_BYTES,
        is_converted=is_features,
    )


def _of_edges(
    store: FeatureStore, rows_of: Callable[[int, Any], IdArray], numbering: Hashable
) -> RowSource:
    """Rows of edges, of which there are too many for the page cache, however small they are."""
    return RowSource(store, rows_of, numbering, is_managed=True)


def _of_nodes(dataset: Dataset, name: str, store: FeatureStore) -> RowSource:
    if store.keeps_order_of(dataset.graph.stored_order):
        return _source(name, store, lambda _, subgraph: subgraph.stored_id, "nodes")
    return _source(
        name,
        store,
        lambda _, subgraph: store.to_stored(subgraph.n_id),
        store.path,
        reads_ahead=False,
    )


def _of_typed_nodes(nodes: NodeStore, name: str, store: FeatureStore) -> RowSource:
    kind = nodes.node_type
    return _source(name, store, lambda _, subgraph: subgraph.stored_id[kind], kind)


def _of_typed_edges(edges: EdgeStore, store: FeatureStore) -> RowSource:
    kind = edges.edge_type
    return _of_edges(store, lambda _, subgraph: subgraph.positions[kind], kind)


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
            own = (source.rows_of(batch, subgraph) + 1) * source.store.row_bytes
            if source.num_bytes < total:
                own = np.ceil(own * (total / source.num_bytes)).astype(np.int64)
            ends.append(own)
    return np.sort(np.concatenate(ends))
