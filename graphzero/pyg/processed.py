"""A graph in a file that PyG or ``torch.save`` has written, mapped and not loaded."""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

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


def _load(path: Path) -> Any:
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ValueError(
                f"{path} is not a complete file of torch.save, or one in its old format, which "
                f"cannot be mapped: save it again"
            )
    if not hasattr(torch.serialization, "safe_globals"):
        raise ValueError(f"{path}: files of graphs need torch 2.5; give from_data the graph itself")
    try:
        with torch.serialization.safe_globals(_classes()):
            return torch.load(os.fspath(path), map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("Unsupported ")[2].partition(" was not")[0]
        raise ValueError(
            f"{path} has objects of other classes than tensors and PyG's graphs"
            f"{f' ({reason})' if reason else ''}, which are not read, so that no code in a file is "
            f"executed: load it as you trust it, and give from_data the graph"
        ) from None
    except RuntimeError as error:
        reason = str(error).partition(". ")[0][:200]
        raise ValueError(f"{path} is not a complete file of torch.save: {reason}") from None


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
    found = _load(Path(path))
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
