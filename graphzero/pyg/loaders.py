"""`NeighborLoader` and `LinkNeighborLoader` by PyG's contract, with its type of batches."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch_geometric.loader as of_pyg

import graphzero.loader.neighbor_loader as ready
from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import Values
from graphzero.loader.arguments import LoaderArguments
from graphzero.loader.mini_batch import AnyBatch, TypedMiniBatch
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.neighbor_loader import SeedLoader
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.pyg.facade import is_seed_edges


def _complete(output: Any, data: Dataset) -> None:
    """Adds to a batch the masks, and what has no row for each node or edge."""
    for key in data.nodes:
        nodes = data.facade[key]
        of_nodes = output[key] if data.is_typed else output
        for name in nodes.masks():
            if name.endswith("_mask"):
                of_nodes[name] = torch.from_numpy(nodes.is_in(name, of_nodes.n_id.numpy()))
                if "node_mask" in of_nodes:
                    of_nodes[name] &= of_nodes.node_mask
        _add_kept(of_nodes, nodes.kept())
    for edge_type in data.edges if data.is_typed else ():
        _add_kept(output[edge_type], data.facade[edge_type].kept())
    _add_kept(output, data.facade.kept())


def _add_kept(output: Any, kept: Mapping[str, object]) -> None:
    for name, value in kept.items():
        if name not in output and not is_seed_edges(name):
            output[name] = value


class _PyGLoader(SeedLoader):
    """What makes a loader PyG's: the type of its batches, and that it never splits the seeds."""

    _distributed = False

    def _begin(
        self, arguments: LoaderArguments, source: SeedDataset, input_id: Values | None = None
    ) -> None:
        _ = source.dataset.facade  # made now: later two threads might make one each
        super()._begin(arguments, source, input_id)

    @property
    def data(self) -> Dataset:
        """The dataset."""
        return self._source.dataset

    @property
    def node_sampler(self) -> SimpleNamespace:
        """Its ``num_neighbors`` are read by `inference` of PyG's models.

        Raises
        ------
        ValueError
            If the batches are not all seeds in their order, which the results would be taken for.
        """
        source = self._source
        assert isinstance(source, NeighborDataset)  # PyG's models ask loaders of nodes
        nodes = source.seeds[source.epoch_order(0)]
        in_order = np.array_equal(nodes, np.arange(len(nodes))) and not source.shuffle
        if not in_order or source.drop_last or source.rank_and_size[1] > 1:
            raise ValueError(
                "inference takes the batches of all nodes in their order: make a loader for it "
                "without shuffle, drop_last and distributed, and with input_nodes=None, "
                "num_neighbors=[-1] and gather=[]"
            )
        return SimpleNamespace(num_neighbors=source.sampler.fanout_options)

    @staticmethod
    def _make_output(batch: AnyBatch, dataset: Dataset, whole: bool) -> Any:
        output = batch.to_pyg()
        for kind in dataset.nodes:
            store = batch[kind] if isinstance(batch, TypedMiniBatch) else batch
            if "real_nodes" in store:
                (output[kind] if dataset.is_typed else output).node_mask = store.node_mask
        if whole:
            _complete(output, dataset)
        return output


class NeighborLoader(_PyGLoader, ready.NeighborLoader, of_pyg.NeighborLoader):  # type: ignore[misc]
    """PyG's NeighborLoader over a dataset in files: it yields ``Data``, or ``HeteroData``.

    The arguments are those of `graphzero.NeighborLoader`, which are PyG's and some more; `data` is
    the result of `from_data`, or a dataset of `graphzero.open`. `transform` gets what is yielded.

    As in PyG, every process samples all the seeds that it is given: split them by rank, or say
    ``distributed=True`` and have the batches dealt out.
    """


class LinkNeighborLoader(_PyGLoader, ready.LinkNeighborLoader, of_pyg.LinkNeighborLoader):  # type: ignore[misc]
    """PyG's LinkNeighborLoader over a dataset in files: it yields ``Data``, or ``HeteroData``.

    As `NeighborLoader`, around edges: the arguments are those of `graphzero.LinkNeighborLoader`.
    """
