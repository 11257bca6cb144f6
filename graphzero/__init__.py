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

from graphzero.dataset import Dataset
from graphzero.dataset import open_dataset as open
from graphzero.errors import FormatError
from graphzero.features import FeatureStore
from graphzero.format import BFLOAT16
from graphzero.graph import Graph, SampledNeighbors
from graphzero.include_dir import get_include
from graphzero.prefetch import Prefetch
from graphzero.presample import Presample
from graphzero.sampler import NeighborSampler, Subgraph
from graphzero.sampling import Sampling

if TYPE_CHECKING:
    from graphzero.api import build, reorder
    from graphzero.batch import BatchStats, MiniBatch
    from graphzero.ingest.converters import DataType, convert_csv_to_gd, convert_csv_to_gl
    from graphzero.links import LinkNeighborDataset
    from graphzero.loader import Collate, NeighborDataset
    from graphzero.memory import MemoryReport, memory_report
    from graphzero.packed import PackedDataset
    from graphzero.packing import pack
    from graphzero.seed_dataset import SampledBatch

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
    "BatchStats": "graphzero.batch",
    "Collate": "graphzero.loader",
    "DataType": "graphzero.ingest.converters",
    "LinkNeighborDataset": "graphzero.links",
    "MemoryReport": "graphzero.memory",
    "MiniBatch": "graphzero.batch",
    "NeighborDataset": "graphzero.loader",
    "PackedDataset": "graphzero.packed",
    "SampledBatch": "graphzero.seed_dataset",
    "build": "graphzero.api",
    "convert_csv_to_gd": "graphzero.ingest.converters",
    "convert_csv_to_gl": "graphzero.ingest.converters",
    "memory_report": "graphzero.memory",
    "pack": "graphzero.packing",
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
