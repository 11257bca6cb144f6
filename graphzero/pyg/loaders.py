"""`NeighborLoader` and `LinkNeighborLoader` with PyG's arguments, and PyG's types of batches."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.data import Data, HeteroData

import graphzero.loader.link_neighbor_loader as links
import graphzero.loader.neighbor_loader as nodes
from graphzero.graph.dataset import Dataset
from graphzero.loader.mini_batch import MiniBatch
from graphzero.pyg.stored_data import StoredData

__all__ = ["LinkNeighborLoader", "NeighborLoader", "check_stored"]


def check_stored(data: Any, loader: str) -> None:
    """Refuses a graph in memory; shows the line that stores it."""
    if isinstance(data, Data | HeteroData):
        raise TypeError(
            f"{loader} samples a graph that is stored in files, and this one is in memory; add "
            f'this line before it:\n\n    data = graphzero.pyg.from_data(data, "store")\n'
        )
    if isinstance(data, tuple):
        raise TypeError(
            f"{loader} takes no (FeatureStore, GraphStore): build a dataset with graphzero.build "
            f"or graphzero.pyg.from_data"
        )
    if not isinstance(data, Dataset):
        raise TypeError(
            f"{loader} takes the result of graphzero.pyg.from_data, or a dataset of "
            f"graphzero.open, not {type(data).__name__}"
        )
