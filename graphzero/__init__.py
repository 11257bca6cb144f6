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

from graphzero.errors import FormatError as FormatError
from graphzero.graph.dataset import Dataset as Dataset
from graphzero.graph.dataset import TypedDataset as TypedDataset
from graphzero.graph.dataset import open_dataset
from graphzero.graph.features import FeatureStore as FeatureStore
from graphzero.graph.graph import Graph as Graph
from graphzero.graph.graph import SampledNeighbors as SampledNeighbors
from graphzero.graph.user_input import Sampling as Sampling
from graphzero.io.prefetch import Prefetch as Prefetch
from graphzero.pyg.facade import GraphFacade
from graphzero.sampling.presample import Presample as Presample
from graphzero.sampling.sampler import NeighborSampler as NeighborSampler
from graphzero.sampling.sampler import Subgraph as Subgraph
from graphzero.store.format import BFLOAT16 as BFLOAT16

if TYPE_CHECKING:
    from graphzero.api import append as append
    from graphzero.api import build as build
    from graphzero.api import drop_attribute as drop_attribute
    from graphzero.api import from_ogb as from_ogb
    from graphzero.api import remap_edge_ids as remap_edge_ids
    from graphzero.api import reorder as reorder
    from graphzero.api import set_attribute as set_attribute
    from graphzero.api import set_split as set_split
    from graphzero.ingest.link_split import LinkSplit as LinkSplit
    from graphzero.ingest.options import Source as Source
    from graphzero.loader.device import DeviceLoader as DeviceLoader
    from graphzero.loader.link_dataset import LinkNeighborDataset as LinkNeighborDataset
    from graphzero.loader.mini_batch import Collate as Collate
    from graphzero.loader.mini_batch import MiniBatch as MiniBatch
    from graphzero.loader.mini_batch import SampledBatch as SampledBatch
    from graphzero.loader.mini_batch import TypedMiniBatch as TypedMiniBatch
    from graphzero.loader.neighbor_dataset import NeighborDataset as NeighborDataset
    from graphzero.loader.neighbor_loader import LinkNeighborLoader as LinkNeighborLoader
    from graphzero.loader.neighbor_loader import NeighborLoader as NeighborLoader
    from graphzero.loader.profiler import profile as profile
    from graphzero.loader.stats import BatchStats as BatchStats
    from graphzero.loader.subgraph_loader import SubgraphLoader as SubgraphLoader
    from graphzero.loader.walk_dataset import WalkDataset as WalkDataset
    from graphzero.loader.walk_dataset import WalkLoader as WalkLoader
    from graphzero.packs.packing import PackedDataset as PackedDataset
    from graphzero.packs.packing import pack as pack
    from graphzero.report.monitor import Monitor as Monitor
    from graphzero.report.readings import MemoryReport as MemoryReport
    from graphzero.report.readings import memory_report as memory_report
    from graphzero.report.verify import Finding as Finding
    from graphzero.report.verify import verify as verify
    from graphzero.store.remote import fetch as fetch
    from graphzero.store.remote import publish as publish
    from graphzero.training.captured_step import CapturedStep as CapturedStep
    from graphzero.training.graphsage import GraphSAGE as GraphSAGE
    from graphzero.training.infer import infer as infer
    from graphzero.training.streamed_layers import Messages as Messages
    from graphzero.training.streamed_layers import StreamedLayer as StreamedLayer

__version__ = "1.0.0rc1"

open = open_dataset
Dataset.facade_of = GraphFacade.of_files

# Names that are imported at their first use, because their modules need torch, pyarrow or psutil.
_LAZY = {
    name: module
    for module, names in {
        "graphzero.api": (
            *("append", "build", "drop_attribute", "from_ogb", "remap_edge_ids", "reorder"),
            *("set_attribute", "set_split"),
        ),
        "graphzero.ingest.link_split": ("LinkSplit",),
        "graphzero.ingest.options": ("Source",),
        "graphzero.loader.device": ("DeviceLoader",),
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
        "graphzero.training.captured_step": ("CapturedStep",),
        "graphzero.training.graphsage": ("GraphSAGE",),
        "graphzero.training.infer": ("infer",),
        "graphzero.training.streamed_layers": ("Messages", "StreamedLayer"),
    }.items()
    for name in names
}
_OF_02 = dict.fromkeys(["DataType", "convert_csv_to_gd", "convert_csv_to_gl"], "graphzero.compat02")
# What ``from graphzero import *`` imports: neither names of 0.2, nor what would hide a built-in.
__all__ = ["BFLOAT16", "Dataset", "FeatureStore", "FormatError", "Graph", "NeighborSampler"]
__all__ += ["Prefetch", "Presample", "SampledNeighbors", "Sampling", "Subgraph", "TypedDataset"]
__all__ += ["get_include", *_LAZY]


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
    module = _LAZY.get(name) or _OF_02.get(name)
    if module is None:
        raise AttributeError(f"module 'graphzero' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open", "__version__"])  # no names of 0.2, and of no imports
