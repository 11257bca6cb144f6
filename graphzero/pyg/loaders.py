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
from graphzero.pyg.stored_data import StoredData, as_given
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


def _add_masks(nodes: Any, part: StoredData | StoredPart) -> None:
    """The masks of a batch's nodes, as PyG's batches have them."""
    for name, mask in part.masks.items():
        if mask.shape[0] == part.num_nodes and mask.dtype == torch.bool:
            nodes[name] = mask[nodes.n_id]


def _add_kept(output: Any, kept: Mapping[str, Any]) -> None:
    """What has no row for each node or edge, and belongs to every batch."""
    for name, value in kept.items():
        if name not in output and not OF_SEED_EDGES.fullmatch(name):
            output[name] = value


def _restore_booleans(output: Any, names: set[str]) -> None:
    for name in names:
        output[name] = as_given(output[name], name, names)


def _complete(output: Any, dataset: Dataset) -> None:
    """Adds to a batch what `from_data` has kept in memory of the graph."""
    if isinstance(dataset, StoredData):
        _restore_booleans(output, dataset.booleans)
        _add_masks(output, dataset)
        _add_kept(output, dataset.kept)
    elif isinstance(dataset, StoredHeteroData):
        for key in (*dataset.node_types, *dataset.edge_types):
            part = dataset[key]
            _restore_booleans(output[key], part.booleans)
            _add_masks(output[key], part)
            _add_kept(output[key], part.kept)
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
        _complete(output, self.data)
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
