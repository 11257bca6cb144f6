"""`StoredHeteroData`: a dataset with types that answers to the names of PyG's ``HeteroData``."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from graphzero.pyg.description import Described, DescribedGraph

_Base: Any = importlib.import_module("graphzero.graph.typed_dataset").TypedDataset

__all__ = ["StoredHeteroData", "StoredPart", "stored_hetero_data"]


class StoredPart:
    """The nodes of one type, or the edges of one: ``data["paper"]``.

    It has what ``data["paper"]`` of the graph had in memory, such as masks, and else what the
    dataset's own part of that name has. A node attribute is read whole, in the user's order.
    """

    def __init__(self, part: Any, described: Described) -> None:
        self.part = part
        self.count = described.count
        self.kept = {**described.kept, **described.masks}

    @property
    def num_features(self) -> int:
        """Columns of ``x``; 0 without features."""
        shape = self.part["x"].shape if "x" in self.part else (0, 0)
        return 1 if len(shape) == 1 else int(shape[-1])

    def __getitem__(self, name: str) -> Any:
        """Of the name, as attributes are."""
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(name) from error

    def __contains__(self, name: str) -> bool:
        """Whether there is an attribute of the name."""
        return name in self.kept or name in self.part

    def __getattr__(self, name: str) -> Any:
        """What was kept, then what is stored."""
        if name.startswith("_") or "part" not in vars(self):
            raise AttributeError(name)
        if name in self.kept:
            return self.kept[name]
        if name in self.part and hasattr(self.part, "to_stored"):
            return self._whole(name)
        return getattr(self.part, name)

    def _whole(self, name: str) -> Tensor:
        nodes = torch.arange(self.count).numpy()
        rows = self.part[name].gather_stored(self.part.to_stored(nodes), None, 1)
        return torch.from_numpy(rows)


class StoredHeteroData(_Base):  # type: ignore[misc]
    """A `graphzero.Dataset` with types, with the attributes that scripts read of ``HeteroData``."""

    _kept: dict[str, Any]
    _described: dict[Any, Described]

    def __getitem__(self, key: Any) -> StoredPart:
        """The nodes of a type, or the edges of one."""
        part = super().__getitem__(key)
        return StoredPart(part, self._described[key]) if key in self._described else part

    def metadata(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """Node types and edge types, as ``to_hetero`` takes them."""
        return list(self.node_types), list(self.edge_types)

    def __getattr__(self, name: str) -> Any:
        """What belongs to the whole graph."""
        if not name.startswith("_") and name in self._kept:
            return self._kept[name]
        raise AttributeError(f"the stored graph has no {name!r}")


def stored_hetero_data(dataset: Any, graph: DescribedGraph) -> StoredHeteroData:
    """The dataset, with what of the graph is not in its files."""
    dataset.__class__ = StoredHeteroData
    dataset._kept = graph.kept
    dataset._described = {
        kind: Described(part.count, kept=part.kept, masks=part.masks)
        for kind, part in [*graph.nodes.items(), *graph.edges.items()]
    }
    found: StoredHeteroData = dataset
    return found
