"""For code that is written for PyG: its graphs, its loaders' names and its types of batches.

::

    from graphzero.pyg import NeighborLoader, from_data

Everything that imports torch_geometric is here; the names are imported at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphzero.pyg.convert import from_data
    from graphzero.pyg.data_module import DataModule
    from graphzero.pyg.loaders import LinkNeighborLoader, NeighborLoader
    from graphzero.pyg.subgraph_loaders import (
        ClusterData,
        ClusterLoader,
        GraphSAINTEdgeSampler,
        GraphSAINTNodeSampler,
        GraphSAINTRandomWalkSampler,
        GraphSAINTSampler,
        RandomNodeLoader,
        ShaDowKHopSampler,
    )

__all__ = [
    "ClusterData",
    "ClusterLoader",
    "DataModule",
    "GraphSAINTEdgeSampler",
    "GraphSAINTNodeSampler",
    "GraphSAINTRandomWalkSampler",
    "GraphSAINTSampler",
    "LinkNeighborLoader",
    "NeighborLoader",
    "RandomNodeLoader",
    "ShaDowKHopSampler",
    "from_data",
]

_OTHERS = {
    "DataModule": "graphzero.pyg.data_module",
    "LinkNeighborLoader": "graphzero.pyg.loaders",
    "NeighborLoader": "graphzero.pyg.loaders",
    "from_data": "graphzero.pyg.convert",
}
_MODULES = dict.fromkeys(__all__, "graphzero.pyg.subgraph_loaders") | _OTHERS
# What `from_data` returned, with and without types, before both were `graphzero.Dataset`.
_DATASETS = ("StoredData", "StoredHeteroData")
# What PyG has and is not here, and what comes nearest.
_NEAREST = {
    "LightningNodeData": "DataModule, which takes its arguments",
    "LightningLinkData": "DataModule, which takes its arguments by name",
    "HGTLoader": "NeighborLoader, whose num_neighbors may be a dictionary by edge type",
    "ImbalancedSampler": 'seed_weights="balanced" of NeighborLoader',
    "DynamicBatchSampler": "batch_size of NeighborLoader: the batches of one graph are alike",
    "NodeLoader": "NeighborLoader, which brings its own sampler",
    "LinkLoader": "LinkNeighborLoader, which brings its own sampler",
    "NeighborSampler": "graphzero.NeighborSampler, or NeighborLoader",
    "RandomNodeSampler": "RandomNodeLoader",
    "TemporalDataLoader": "NeighborLoader with time_attr=",
    "ZipLoader": "zip(...) of several loaders",
    "PrefetchLoader": "nothing: the loaders prepare batches in background threads",
    "CachedLoader": "graphzero.pack, which keeps the rows of sampled batches in a file",
    "AffinityMixin": "num_threads= of the loaders",
    "DataLoader": "torch_geometric.loader.DataLoader, for many small graphs",
    "DataListLoader": "torch_geometric.loader.DataListLoader, for many small graphs",
    "DenseDataLoader": "torch_geometric.loader.DenseDataLoader, for many small graphs",
}


def __getattr__(name: str) -> Any:
    if name in _NEAREST:
        raise ImportError(f"graphzero.pyg has no {name}: what comes nearest is {_NEAREST[name]}")
    if name in _DATASETS:
        return importlib.import_module("graphzero").Dataset
    if name not in _MODULES:
        raise AttributeError(f"module 'graphzero.pyg' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
