"""graphzero: graph neural networks on graphs larger than memory.

Topology and features stay in files that are memory-mapped; neighbours are sampled in compiled
code; pages are read ahead of the batch that needs them; mini-batches come out of the standard
torch ``DataLoader``. ``graphzero.build`` makes the files, ``graphzero.open`` opens them.

torch is imported by what returns tensors, pyarrow by what reads CSV and Parquet, not before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    from graphzero import _core
except ImportError as error:
    raise ImportError(
        "graphzero's compiled core is missing. If you are in the source folder, its graphzero/ "
        "shadows the installed package: run from another folder, or compile it here with "
        "'pip install -e .'"
    ) from error

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.dataset import open_dataset as open
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.sampled_neighbors import SampledNeighbors
from graphzero.graph.sampling_options import Sampling
from graphzero.include_dir import get_include
from graphzero.io.prefetch import Prefetch
from graphzero.sampling.presample import Presample
from graphzero.sampling.sampler import NeighborSampler, Subgraph
from graphzero.store.format import BFLOAT16

if TYPE_CHECKING:
    from graphzero.api import build, reorder
    from graphzero.ingest.converters import DataType, convert_csv_to_gd, convert_csv_to_gl
    from graphzero.loader.link_neighbor_dataset import LinkNeighborDataset
    from graphzero.loader.mini_batch import BatchStats, MiniBatch
    from graphzero.loader.neighbor_dataset import Collate, NeighborDataset
    from graphzero.loader.seed_dataset import SampledBatch
    from graphzero.packs.packed_dataset import PackedDataset
    from graphzero.packs.packing import pack
    from graphzero.report.memory import MemoryReport, memory_report
    from graphzero.training.graphsage import GraphSAGE

__version__ = "1.0.0.dev0"

__all__ = [
    "BFLOAT16",
    "BatchStats",
    "Collate",
    "DataType",
    "Dataset",
    "FeatureStore",
    "FormatError",
    "Graph",
    "GraphSAGE",
    "LinkNeighborDataset",
    "MemoryReport",
    "MiniBatch",
    "NeighborDataset",
    "NeighborSampler",
    "PackedDataset",
    "Prefetch",
    "Presample",
    "SampledBatch",
    "SampledNeighbors",
    "Sampling",
    "Subgraph",
    "build",
    "convert_csv_to_gd",
    "convert_csv_to_gl",
    "get_include",
    "memory_report",
    "open",
    "pack",
    "reorder",
]

# What needs torch, pyarrow or psutil, and where it lives; imported at first use.
_LAZY = {
    "BatchStats": "graphzero.loader.mini_batch",
    "Collate": "graphzero.loader.neighbor_dataset",
    "DataType": "graphzero.ingest.converters",
    "GraphSAGE": "graphzero.training.graphsage",
    "LinkNeighborDataset": "graphzero.loader.link_neighbor_dataset",
    "MemoryReport": "graphzero.report.memory",
    "MiniBatch": "graphzero.loader.mini_batch",
    "NeighborDataset": "graphzero.loader.neighbor_dataset",
    "PackedDataset": "graphzero.packs.packed_dataset",
    "SampledBatch": "graphzero.loader.seed_dataset",
    "build": "graphzero.api",
    "convert_csv_to_gd": "graphzero.ingest.converters",
    "convert_csv_to_gl": "graphzero.ingest.converters",
    "memory_report": "graphzero.report.memory",
    "pack": "graphzero.packs.packing",
    "reorder": "graphzero.api",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'graphzero' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))
