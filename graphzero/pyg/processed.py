"""A graph in a file that PyG or ``torch.save`` has written, mapped and not loaded."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_geometric.data import Data, HeteroData

from graphzero.ingest.sources.torch_file import load_torch

__all__ = ["open_graph_file"]

# The only classes besides tensors and containers that are read.
_CLASSES = {
    "data": ("Data", "DataEdgeAttr", "DataTensorAttr"),
    "hetero_data": ("HeteroData",),
    "storage": ("BaseStorage", "GlobalStorage", "NodeStorage", "EdgeStorage"),
    "feature_store": ("TensorAttr", "_FieldStatus"),
    "graph_store": ("EdgeAttr", "EdgeLayout"),
}


def _classes() -> list[Any]:
    found = []
    for module, names in _CLASSES.items():
        home = importlib.import_module(f"torch_geometric.data.{module}")
        found += [getattr(home, name) for name in names if hasattr(home, name)]
    return found


def _count(slices: Any) -> int:
    """Number of graphs, of which the slices say where each begins."""
    if isinstance(slices, Mapping):
        return max(map(_count, slices.values()), default=1)
    return 1 if slices is None else len(slices) - 1


def open_graph_file(path: str | os.PathLike[str]) -> Data | HeteroData:
    """The one graph in a file, its tensors mapped.

    Parameters
    ----------
    path : path-like
        A processed file of an `InMemoryDataset`, or one of ``torch.save`` of a graph or of its
        ``to_dict()``.

    Raises
    ------
    ValueError
        If it holds no graph, several, or other objects.
    OSError
        If it cannot be read.
    """
    found = load_torch(Path(path), _classes())
    if isinstance(found, tuple) and 2 <= len(found) <= 4:
        count = _count(found[1])
        if count != 1:
            raise ValueError(
                f"{path} holds {count:,} graphs, and a dataset folder holds one: choose it, as in "
                f"from_data(dataset[0], path)"
            )
        found = found[0]
    if isinstance(found, Mapping):
        typed = any(isinstance(value, Mapping) for value in found.values())
        found = HeteroData.from_dict(found) if typed else Data.from_dict(found)
    if not isinstance(found, Data | HeteroData):
        raise ValueError(f"{path} holds {type(found).__name__}, and no graph of PyG")
    return found
