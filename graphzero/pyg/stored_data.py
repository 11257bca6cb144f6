"""`StoredData`: a dataset that answers to the names that PyG's ``Data`` has in a script."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.loader.mini_batch import OF_DATA, as_tensor
from graphzero.pyg.description import DescribedGraph

__all__ = [
    "StoredData",
    "as_given",
    "no_such",
    "refuse_setting",
    "require_whole",
    "stored_data",
    "whole_of_edges",
]


def _row_bytes(store: FeatureStore) -> int:
    return store.dtype.itemsize * int(np.prod(store.shape[1:]))


def require_whole(store: FeatureStore, name: str) -> None:
    """Refuses to read an attribute for which there is no memory.

    Raises
    ------
    MemoryError
    """
    try:
        _core.require_memory(store.num_nodes, _row_bytes(store), name)
    except MemoryError as error:
        raise MemoryError(
            f"data.{name} reads all of {name} from disk ({error}): a batch of a loader has the "
            f"rows of its nodes, and data.num_features the number of columns"
        ) from None


def _whole(store: FeatureStore, name: str) -> Tensor:
    """All rows of an attribute, in the order of the user's ids."""
    require_whole(store, name)
    return as_tensor(store.gather(np.arange(store.num_nodes)))


def as_given(rows: Tensor, name: str, booleans: set[str]) -> Tensor:
    """Booleans again, where the attribute of a name had them; not copied."""
    return rows.view(torch.bool) if name in booleans else rows


def whole_of_edges(store: FeatureStore, graph: Graph, name: str) -> Tensor:
    """All rows of an edge attribute, in the order of the edge list."""
    if not graph.has_edge_ids:
        raise AttributeError(f"{name} needs the places of edges: from_data(edge_ids=True)")
    _core.require_memory(2 * store.shape[0], max(8, _row_bytes(store)), name)
    positions = graph._csr.edge_ids(np.arange(graph.num_edges), 1)
    stored = store.get_tensor()
    rows = np.empty(stored.shape, stored.dtype)
    rows[positions] = stored
    return as_tensor(rows)


def refuse_setting(name: str, where: str = "data") -> None:
    """Says that what is set now would not be in the files, and so in no batch.

    Raises
    ------
    AttributeError
    """
    raise AttributeError(
        f"{where}.{name} cannot be set: the graph is stored, and batches would not have it. Set it "
        f"before from_data, or in transform= of a loader"
    )


def no_such(name: str, names: list[str], of: type, what: str) -> AttributeError:
    """The error for a name that a stored graph lacks; `of` is the class that it stands for."""
    if callable(getattr(of, name, None)):
        return AttributeError(
            f"{what} has no {name}(), which PyG has for graphs in memory: call it before "
            f"from_data, or on a batch"
        )
    return AttributeError(f"{what} has no {name!r}; it has {', '.join(names)}")


class StoredData(Dataset):
    """A `graphzero.Dataset` with the attributes that scripts read of the graph they were built of.

    It comes from `from_data`. What belongs to a whole graph is what ``data`` had, in memory:
    ``data.train_mask`` and other masks and ids of splits, ``edge_label_index``, numbers and texts.
    What is stored is read from disk when it is asked for: ``data.y``, ``data.edge_index`` and
    other attributes, whole. A dataset that `graphzero.open` has opened has only what is stored, by
    graphzero's names: ``input_nodes="train"``.
    """

    _kept: dict[str, Any]
    _masks: dict[str, Tensor]
    _booleans: set[str]

    @property
    def num_features(self) -> int:
        """Columns of ``x``; 0 without features."""
        return 0 if self.features is None else self.features.feature_dim

    @property
    def num_node_features(self) -> int:
        """As `num_features`."""
        return self.num_features

    @property
    def num_edge_features(self) -> int:
        """Columns of ``edge_attr``; 0 without it."""
        store = self.edge_attributes.get("edge_attr")
        return 0 if store is None else store.feature_dim

    def keys(self) -> list[str]:
        """Names of what was given, apart from the number of nodes."""
        return ["edge_index", *self.attributes, *self.edge_attributes, *self._masks, *self._kept]

    def __contains__(self, name: str) -> bool:
        """Whether `keys` has the name."""
        return name in self.keys()

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses attributes, which the files and batches would not have."""
        if not name.startswith("_"):
            refuse_setting(name)
        super().__setattr__(name, value)

    @property
    def edge_index(self) -> Tensor:
        """All edges, (2, num_edges) int64, in the order that they were given; read from disk."""
        _core.require_memory(self.num_edges, 5 * 8, "edge_index")
        nodes = np.arange(self.num_nodes)
        hop = self.graph.sample_neighbors(nodes, -1)
        if hop.e_id is None:
            raise AttributeError("edge_index needs the places of edges: from_data(edge_ids=True)")
        edge_index = np.empty((2, self.num_edges), np.int64)
        edge_index[0, hop.e_id] = hop.indices
        edge_index[1, hop.e_id] = np.repeat(nodes, np.diff(hop.indptr))
        return torch.from_numpy(edge_index)

    def __getattr__(self, name: str) -> Any:
        """Masks and what belongs to the graph; then what is stored; None as in PyG's ``Data``."""
        if name.startswith("_"):
            raise AttributeError(name)
        for values in (self._masks, self._kept):
            if name in values:
                return values[name]
        of_nodes = vars(self).get("attributes", {})
        if name in of_nodes:
            return as_given(_whole(of_nodes[name], name), name, self._booleans)
        of_edges = vars(self).get("edge_attributes", {})
        if name in of_edges:
            whole = whole_of_edges(of_edges[name], self.graph, name)
            return as_given(whole, name, self._booleans)
        if name in OF_DATA:
            return None
        raise no_such(name, self.keys(), Data, "the stored graph")

    @property
    def kept(self) -> dict[str, Any]:
        """What belongs to the whole graph, and to every batch."""
        return self._kept

    @property
    def booleans(self) -> set[str]:
        """Names of attributes that were booleans, and are uint8 in the files."""
        return self._booleans

    @property
    def masks(self) -> dict[str, Tensor]:
        """Masks and ids of the splits, by the names that they were given."""
        return self._masks


def stored_data(dataset: Dataset, graph: DescribedGraph) -> StoredData:
    """The dataset, with what of the graph is not in its files."""
    dataset.__class__ = StoredData
    assert isinstance(dataset, StoredData)
    dataset._kept = graph.kept
    dataset._masks = graph.nodes[None].masks
    dataset._booleans = graph.nodes[None].booleans | graph.edges[None].booleans
    return dataset
