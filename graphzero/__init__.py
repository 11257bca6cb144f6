"""graphzero: graph neural networks on graphs larger than memory.

Topology and features stay in memory-mapped files; neighbours are sampled in compiled code; pages
are read before the batch that needs them; the standard torch ``DataLoader`` returns mini-batches.
``graphzero.build`` writes the files, ``graphzero.open`` opens them.

torch and pyarrow are imported at the first use of a name that needs them.
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
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.opening import open_dataset
from graphzero.graph.sampled_neighbors import SampledNeighbors
from graphzero.graph.sampling_options import Sampling
from graphzero.graph.typed_dataset import TypedDataset
from graphzero.include_dir import get_include
from graphzero.io.prefetch import Prefetch
from graphzero.sampling.presample import Presample
from graphzero.sampling.sampler import NeighborSampler
from graphzero.sampling.subgraph import Subgraph
from graphzero.store.format import BFLOAT16

if TYPE_CHECKING:
    from graphzero.api import build, reorder
    from graphzero.datasets import from_graphbolt, from_ogb, from_pandas, from_scipy
    from graphzero.ingest.converters import DataType as DataType
    from graphzero.ingest.converters import convert_csv_to_gd as convert_csv_to_gd
    from graphzero.ingest.converters import convert_csv_to_gl as convert_csv_to_gl
    from graphzero.ingest.source import Source
    from graphzero.loader.batch_stats import BatchStats
    from graphzero.loader.collate import Collate
    from graphzero.loader.link_neighbor_dataset import LinkNeighborDataset
    from graphzero.loader.link_neighbor_loader import LinkNeighborLoader
    from graphzero.loader.mini_batch import MiniBatch
    from graphzero.loader.neighbor_dataset import NeighborDataset
    from graphzero.loader.neighbor_loader import NeighborLoader
    from graphzero.loader.profiler_ranges import profile
    from graphzero.loader.sampled_batch import SampledBatch
    from graphzero.loader.typed_mini_batch import TypedMiniBatch
    from graphzero.packs.packed_dataset import PackedDataset
    from graphzero.packs.packing import pack
    from graphzero.report.checks.finding import Finding
    from graphzero.report.memory import MemoryReport, memory_report
    from graphzero.report.monitor import Monitor
    from graphzero.report.verify import verify
    from graphzero.training.graphsage import GraphSAGE

__version__ = "1.0.0.dev0"

open = open_dataset

# What ``from graphzero import *`` imports: neither names of 0.2, nor what would hide a built-in.
__all__ = [
    "BFLOAT16",
    "BatchStats",
    "Collate",
    "Dataset",
    "FeatureStore",
    "Finding",
    "FormatError",
    "Graph",
    "GraphSAGE",
    "LinkNeighborDataset",
    "LinkNeighborLoader",
    "MemoryReport",
    "MiniBatch",
    "Monitor",
    "NeighborDataset",
    "NeighborLoader",
    "NeighborSampler",
    "PackedDataset",
    "Prefetch",
    "Presample",
    "SampledBatch",
    "SampledNeighbors",
    "Sampling",
    "Source",
    "Subgraph",
    "TypedDataset",
    "TypedMiniBatch",
    "build",
    "from_graphbolt",
    "from_ogb",
    "from_pandas",
    "from_scipy",
    "get_include",
    "memory_report",
    "pack",
    "profile",
    "reorder",
    "verify",
]

# Names whose modules need torch, pyarrow or psutil, with these modules; imported at first use.
_LAZY = {
    "BatchStats": "graphzero.loader.batch_stats",
    "Collate": "graphzero.loader.collate",
    "DataType": "graphzero.ingest.converters",
    "Finding": "graphzero.report.checks.finding",
    "GraphSAGE": "graphzero.training.graphsage",
    "LinkNeighborDataset": "graphzero.loader.link_neighbor_dataset",
    "LinkNeighborLoader": "graphzero.loader.link_neighbor_loader",
    "MemoryReport": "graphzero.report.memory",
    "MiniBatch": "graphzero.loader.mini_batch",
    "Monitor": "graphzero.report.monitor",
    "NeighborDataset": "graphzero.loader.neighbor_dataset",
    "NeighborLoader": "graphzero.loader.neighbor_loader",
    "PackedDataset": "graphzero.packs.packed_dataset",
    "SampledBatch": "graphzero.loader.sampled_batch",
    "Source": "graphzero.ingest.source",
    "TypedMiniBatch": "graphzero.loader.typed_mini_batch",
    "build": "graphzero.api",
    "convert_csv_to_gd": "graphzero.ingest.converters",
    "convert_csv_to_gl": "graphzero.ingest.converters",
    "from_graphbolt": "graphzero.datasets",
    "from_ogb": "graphzero.datasets",
    "from_pandas": "graphzero.datasets",
    "from_scipy": "graphzero.datasets",
    "memory_report": "graphzero.report.memory",
    "pack": "graphzero.packs.packing",
    "profile": "graphzero.loader.profiler_ranges",
    "reorder": "graphzero.api",
    "verify": "graphzero.report.verify",
}

# Not listed by ``dir``, and so not offered by autocompletion: names of 0.2, and of this module's
# own imports.
_UNLISTED = {
    *("DataType", "convert_csv_to_gd", "convert_csv_to_gl"),
    *("Any", "TYPE_CHECKING", "annotations", "importlib", "open_dataset"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'graphzero' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((set(globals()) | set(_LAZY)) - _UNLISTED)
