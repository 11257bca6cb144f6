"""`StoredHeteroData`: a dataset with types that answers to the names of PyG's ``HeteroData``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.data.storage import EdgeStorage, NodeStorage

from graphzero import _core
from graphzero.graph.typed_dataset import EdgeStore, NodeStore, TypedDataset
from graphzero.loader.mini_batch import as_tensor
from graphzero.pyg.description import Described, DescribedGraph
from graphzero.pyg.stored_data import (
    as_given,
    no_such,
    refuse_setting,
    require_whole,
    whole_of_edges,
)

__all__ = ["StoredHeteroData", "StoredPart", "stored_hetero_data"]


class StoredPart:
    """The nodes of one type, or the edges of one: ``data["paper"]``.

    It has what ``data["paper"]`` of the graph had in memory, such as masks. What is stored is read
    from disk when it is asked for, whole and in the user's order. Everything else is what
    `graphzero.open` has of that name, such as ``splits``.

    Attributes
    ----------
    part : NodeStore or EdgeStore
        Of `graphzero.open`.
    masks : dict of str to Tensor
        Masks and ids of splits, by the names that they were given.
    kept : dict
        What else was not stored.
    booleans : set of str
        Names of attributes that were booleans, and are uint8 in the files.
    """

    def __init__(self, part: NodeStore | EdgeStore, described: Described) -> None:
        found = {"masks": described.masks, "kept": described.kept, "booleans": described.booleans}
        vars(self).update(part=part, **found)

    if TYPE_CHECKING:
        part: NodeStore | EdgeStore
        masks: dict[str, Tensor]
        kept: dict[str, Any]
        booleans: set[str]

    @property
    def num_features(self) -> int:
        """Columns of ``x`` of nodes, of ``edge_attr`` of edges; 0 without features."""
        name = "x" if isinstance(self.part, NodeStore) else "edge_attr"
        shape = self.part[name].shape if name in self.part else (0, 0)
        return 1 if len(shape) == 1 else int(shape[-1])

    @property
    def num_node_features(self) -> int:
        """As `num_features`, of nodes."""
        return self.num_features

    @property
    def num_edge_features(self) -> int:
        """As `num_features`, of edges."""
        return self.num_features

    @property
    def edge_index(self) -> Tensor:
        """All edges, (2, num_edges) int64, in the order that they were given; read from disk."""
        if not isinstance(self.part, EdgeStore):
            raise AttributeError(f"{self.part!r} has no edge_index: it has nodes")
        if not self.part.graph.has_edge_ids:
            raise AttributeError("edge_index needs the places of edges: from_data(edge_ids=True)")
        _core.require_memory(self.part.num_edges, 8 * 8, "edge_index")
        return torch.from_numpy(self.part.edge_index())

    def keys(self) -> list[str]:
        """Names of what was given, apart from the number of nodes."""
        edges = ["edge_index"] if isinstance(self.part, EdgeStore) else []
        return [*edges, *self.part, *self.masks, *self.kept]

    def __getitem__(self, name: str) -> Any:
        """Of the name, as attributes are."""
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(name) from error

    def __contains__(self, name: str) -> bool:
        """Whether there is an attribute of the name."""
        return name in self.keys()

    def __getattr__(self, name: str) -> Any:
        """What was kept, then what is stored."""
        if name.startswith("_") or "part" not in vars(self):
            raise AttributeError(name)
        for values in (self.masks, self.kept):
            if name in values:
                return values[name]
        if name in self.part:
            return self._whole(name)
        if hasattr(type(self.part), name) or name in vars(self.part):
            return getattr(self.part, name)
        of = NodeStorage if isinstance(self.part, NodeStore) else EdgeStorage
        raise no_such(name, self.keys(), of, repr(self.part))

    def _whole(self, name: str) -> Tensor:
        if isinstance(self.part, EdgeStore):
            whole = whole_of_edges(self.part[name], self.part.graph, name)
        else:
            require_whole(self.part[name], name)
            rows = self.part.to_stored(np.arange(self.part.num_nodes))
            whole = as_tensor(self.part[name].gather_stored(rows, None, 1))
        return as_given(whole, name, self.booleans)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses attributes, which the files and batches would not have."""
        refuse_setting(name, "data[type]")

    __setitem__ = __setattr__

    def __repr__(self) -> str:
        return f"StoredPart({self.part!r}, also in memory: {[*self.masks, *self.kept]})"


class StoredHeteroData(TypedDataset):
    """A `graphzero.Dataset` with types, with the attributes that scripts read of ``HeteroData``.

    ``data["paper"]`` and ``data["author", "writes", "paper"]`` are `StoredPart`;
    ``data.x_dict`` has an attribute of all types that have it, whole; ``data.name`` is what
    belonged to the whole graph.
    """

    _kept: dict[str, Any]
    _described: dict[Any, Described]

    def __getitem__(self, key: Any) -> StoredPart:
        """The nodes of a type, or the edges of one, also by (source type, target type)."""
        part = super().__getitem__(key)
        name = part.node_type if isinstance(part, NodeStore) else part.edge_type
        return StoredPart(part, self._described[name])

    def metadata(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """Node types and edge types, as ``to_hetero`` takes them."""
        return self.node_types, self.edge_types

    @property
    def kept(self) -> dict[str, Any]:
        """What belongs to the whole graph, and to every batch."""
        return self._kept

    @property
    def num_features(self) -> dict[str, int]:
        """Columns of ``x``, by node type."""
        return {kind: self[kind].num_features for kind in self.node_types}

    @property
    def num_node_features(self) -> dict[str, int]:
        """As `num_features`."""
        return self.num_features

    def collect(self, name: str) -> dict[Any, Any]:
        """An attribute of all types that have it, by type.

        Raises
        ------
        KeyError
            If no type has it.
        """
        parts = {key: self[key] for key in (*self.node_types, *self.edge_types)}
        if name in ("num_nodes", "num_edges"):
            own = self.node_types if name == "num_nodes" else self.edge_types
            return {key: getattr(parts[key], name) for key in own}
        found = {key: part[name] for key, part in parts.items() if name in part}
        if not found:
            raise KeyError(f"no type has an attribute {name!r}")
        return found

    def __getattr__(self, name: str) -> Any:
        """What belongs to the whole graph; ``x_dict`` is ``collect("x")``, and so on."""
        if not name.startswith("_"):
            if name in self._kept:
                return self._kept[name]
            if name.endswith("_dict"):
                try:
                    return self.collect(name.removesuffix("_dict"))
                except KeyError as error:
                    raise AttributeError(error.args[0]) from None
        if callable(getattr(HeteroData, name, None)):
            raise no_such(name, [], HeteroData, "the stored graph")
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses attributes, which the files and batches would not have."""
        if not name.startswith("_"):
            refuse_setting(name)
        super().__setattr__(name, value)


def stored_hetero_data(dataset: Any, graph: DescribedGraph) -> StoredHeteroData:
    """The dataset, with what of the graph is not in its files."""
    dataset.__class__ = StoredHeteroData
    dataset._kept = graph.kept
    dataset._described = {
        key: Described(part.count, booleans=part.booleans, kept=part.kept, masks=part.masks)
        for key, part in [*graph.nodes.items(), *graph.edges.items()]
    }
    found: StoredHeteroData = dataset
    return found
