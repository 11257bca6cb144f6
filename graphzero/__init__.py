"""graphzero: graph neural networks on graphs larger than memory.

Topology and features stay in memory-mapped files; neighbours are sampled in compiled code; pages
are read before the batch that needs them; the standard torch ``DataLoader`` returns mini-batches.
``graphzero.build`` writes the files, ``graphzero.open`` opens them.

torch and pyarrow are imported at the first use of a name that needs them.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from graphzero import _core
except ImportError as error:
    from graphzero.openmp import load_for

    load_for(error)
    from graphzero import _core

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset, TypedDataset, open_dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph, SampledNeighbors
from graphzero.graph.user_input import Sampling
from graphzero.io.prefetch import Prefetch
from graphzero.pyg.facade import GraphFacade
from graphzero.sampling.presample import Presample
from graphzero.sampling.sampler import NeighborSampler, Subgraph
from graphzero.store.format import BFLOAT16

if TYPE_CHECKING:
    from graphzero.api import (
        append,
        build,
        drop_attribute,
        from_ogb,
        remap_edge_ids,
        reorder,
        set_attribute,
        set_split,
    )
    from graphzero.ingest.link_split import LinkSplit
    from graphzero.ingest.options import Source
    from graphzero.loader.link_dataset import LinkNeighborDataset
    from graphzero.loader.mini_batch import Collate, MiniBatch, SampledBatch, TypedMiniBatch
    from graphzero.loader.neighbor_dataset import NeighborDataset
    from graphzero.loader.neighbor_loader import LinkNeighborLoader, NeighborLoader
    from graphzero.loader.profiler import profile
    from graphzero.loader.stats import BatchStats
    from graphzero.loader.subgraph_loader import SubgraphLoader
    from graphzero.loader.walk_dataset import WalkDataset, WalkLoader
    from graphzero.packs.packing import PackedDataset, pack
    from graphzero.report.monitor import Monitor
    from graphzero.report.readings import MemoryReport, memory_report
    from graphzero.report.verify import Finding, verify
    from graphzero.store.remote import fetch, publish
    from graphzero.training.graphsage import GraphSAGE
    from graphzero.training.infer import infer

__version__ = "1.0.0rc1"

open = open_dataset
Dataset.facade_of = GraphFacade.of_files

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
    "LinkSplit",
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
    "SubgraphLoader",
    "TypedDataset",
    "TypedMiniBatch",
    "WalkDataset",
    "WalkLoader",
    "append",
    "build",
    "drop_attribute",
    "fetch",
    "from_ogb",
    "get_include",
    "infer",
    "memory_report",
    "pack",
    "profile",
    "publish",
    "remap_edge_ids",
    "reorder",
    "set_attribute",
    "set_split",
    "verify",
]

# Names that are imported at their first use, because their modules need torch, pyarrow or psutil.
_LAZY = {
    name: module
    for module, names in {
        "graphzero.api": (
            *("append", "build", "drop_attribute", "from_ogb", "remap_edge_ids", "reorder"),
            *("set_attribute", "set_split"),
        ),
        "graphzero.compat02": ("DataType", "convert_csv_to_gd", "convert_csv_to_gl"),
        "graphzero.ingest.link_split": ("LinkSplit",),
        "graphzero.ingest.options": ("Source",),
        "graphzero.loader.link_dataset": ("LinkNeighborDataset",),
        "graphzero.loader.mini_batch": ("Collate", "MiniBatch", "SampledBatch", "TypedMiniBatch"),
        "graphzero.loader.neighbor_dataset": ("NeighborDataset",),
        "graphzero.loader.neighbor_loader": ("LinkNeighborLoader", "NeighborLoader"),
        "graphzero.loader.profiler": ("profile",),
        "graphzero.loader.stats": ("BatchStats",),
        "graphzero.loader.subgraph_loader": ("SubgraphLoader",),
        "graphzero.loader.walk_dataset": ("WalkDataset", "WalkLoader"),
        "graphzero.packs.packing": ("PackedDataset", "pack"),
        "graphzero.report.readings": ("MemoryReport", "memory_report"),
        "graphzero.report.monitor": ("Monitor",),
        "graphzero.report.verify": ("Finding", "verify"),
        "graphzero.store.remote": ("fetch", "publish"),
        "graphzero.training.graphsage": ("GraphSAGE",),
        "graphzero.training.infer": ("infer",),
    }.items()
    for name in names
}


def get_include() -> str:
    """Folder to pass to a C compiler (``-I``) for ``#include "graphzero/format.h"``.

    Returns
    -------
    str
        The headers installed with the package, or those of the source tree if the package is used
        from there.
    """
    package = Path(__file__).resolve().parent
    installed = package / "include"
    return str(installed if installed.is_dir() else package.parent / "include")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'graphzero' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open", "__version__"])  # no names of 0.2, and of no imports
