"""`NeighborLoader` and `LinkNeighborLoader` by PyG's contract, with its type of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

import graphzero.loader.link_neighbor_loader as links
import graphzero.loader.neighbor_loader as nodes
from graphzero.graph.dataset import Dataset
from graphzero.loader.mini_batch import MiniBatch
from graphzero.loader.seed_loader import SeedLoader
from graphzero.loader.typed_mini_batch import TypedMiniBatch
from graphzero.pyg.description import OF_SEED_EDGES
from graphzero.pyg.stored_data import StoredData
from graphzero.pyg.stored_hetero_data import StoredHeteroData, StoredPart

__all__ = ["LinkNeighborLoader", "NeighborLoader", "check_stored"]

def check_stored(data: Any, name: str) -> None:
    """Refuses a graph in memory, and shows the line that stores it.

    Raises
    ------
    TypeError
    """
    if isinstance(data, Data | HeteroData):
        raise TypeError(
            f"{name} samples a graph that is stored in files, and this one is in memory. Add this "
            f'line before it:\n\n    data = graphzero.pyg.from_data(data, "store")\n'
        )
    if isinstance(data, tuple):
        raise TypeError(
            f"{name} takes no (FeatureStore, GraphStore): it takes the result of "
            f"graphzero.pyg.from_data, or a dataset that graphzero.build has written"
        )


def _add_part(output: Any, n_id: Any, count: int, part: StoredData | StoredPart) -> None:
    """What PyG's batches have of nodes in memory: masks of their own, and what has no rows."""
    for name, mask in part.masks.items():
        if mask.shape[0] == count and mask.dtype == torch.bool:
            output[name] = mask[n_id]
    _add_kept(output, part.kept)


def _add_kept(output: Any, kept: Mapping[str, Any]) -> None:
    for name, value in kept.items():
        if name not in output and not OF_SEED_EDGES.fullmatch(name):
            output[name] = value


def _add_in_memory(output: Any, dataset: Dataset) -> None:
    """Adds to a batch what `from_data` has kept in memory."""
    if isinstance(dataset, StoredData):
        _add_part(output, output.n_id, dataset.num_nodes, dataset)
    elif isinstance(dataset, StoredHeteroData):
        for node_type in dataset.node_types:
            nodes, part = output[node_type], dataset[node_type]
            _add_part(nodes, nodes.n_id, part.num_nodes, part)
        for edge_type in dataset.edge_types:
            _add_kept(output[edge_type], dataset[edge_type].kept)
        _add_kept(output, dataset.kept)


class _PyGLoader(SeedLoader):
    """What makes a loader PyG's: the type of its batches, and that it never splits the seeds."""

    @property
    def data(self) -> Dataset:
        """The dataset."""
        return self._source.dataset

    def _take(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        taken = dict(arguments)
        check_stored(taken["other"].get("data", taken["dataset"]), type(self).__name__)
        if all(taken[name] is None for name in ("distributed", "rank", "world_size")):
            taken["distributed"] = False
        return super()._take(taken)

    def _make_output(self, batch: MiniBatch | TypedMiniBatch) -> Any:
        output = batch.to_pyg()
        _add_in_memory(output, self.data)
        return output


class NeighborLoader(_PyGLoader, nodes.NeighborLoader):
    """PyG's NeighborLoader over a dataset in files: it yields ``Data``, or ``HeteroData``.

    The arguments are those of `graphzero.NeighborLoader`, which are PyG's and some more; `data` is
    the result of `from_data`, or a dataset of `graphzero.open`. `transform` gets what is yielded.

    As in PyG, every process samples all the seeds that it is given: split them by rank, or say
    ``distributed=True`` and have the batches dealt out.
    """


class LinkNeighborLoader(_PyGLoader, links.LinkNeighborLoader):
    """PyG's LinkNeighborLoader over a dataset in files: it yields ``Data``, or ``HeteroData``.

    As `NeighborLoader`, around edges: the arguments are those of `graphzero.LinkNeighborLoader`.
    """
