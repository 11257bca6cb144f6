"""`SubgraphLoader`: mini-batches that are all edges among the nodes of given sets."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from typing_extensions import Unpack

from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import IdArray, Sampling, as_ids
from graphzero.loader.arguments import Batching, SeedLoaderOptions
from graphzero.loader.neighbor_loader import SeedLoader
from graphzero.loader.seed_batches import BatchRequest, BatchSeeds
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.store.manifest import NODES
from graphzero.units import refuse_mask


class SubgraphDataset(SeedDataset):
    """The subgraphs that some sets of nodes induce; a mini-batch is that of `batch_size` sets.

    A subclass may say by `sets_at` which nodes the sets have.

    Parameters
    ----------
    dataset : Dataset
    num_sets : int
    batching : Batching
    """

    def __init__(self, dataset: Dataset, num_sets: int, batching: Batching) -> None:
        dataset.require_untyped("subgraphs of sets of nodes are sampled")
        induced = replace(batching, sampling=Sampling(subgraph_type="induced"))
        super().__init__(dataset, num_sets, [], induced)

    def sets_at(self, positions: IdArray, epoch: int) -> list[IdArray]:
        """The nodes of the sets at some positions, by the user's ids."""
        raise NotImplementedError

    def seeds_of(self, request: BatchRequest) -> BatchSeeds:
        """The nodes of the sets at some positions, each once."""
        sets = self.sets_at(request.positions, request.epoch)
        nodes = np.concatenate([np.empty(0, np.int64), *sets])
        of_set = np.repeat(request.positions, [len(ids) for ids in sets])
        first = np.sort(np.unique(nodes, return_index=True)[1])
        return BatchSeeds(of_set[first], self.sampler.stored_ids({NODES: nodes[first]}))


class _ListedSets(SubgraphDataset):
    """Sets that are kept in memory, one after the other."""

    def __init__(self, dataset: Dataset, sets: Iterable[object], batching: Batching) -> None:
        if isinstance(sets, str | bytes | dict):
            raise TypeError(f"sets must be an iterable of arrays of node ids, not {sets!r:.80}")
        arrays = [as_ids(ids, dataset.num_nodes, f"sets[{i}]") for i, ids in enumerate(sets)]
        for i, ids in enumerate(arrays):
            refuse_mask([ids], len(ids), dataset.num_nodes, f"sets[{i}]")
        self._ids = np.concatenate([np.empty(0, np.int64), *arrays])
        self._ends = np.cumsum([0, *map(len, arrays)])
        super().__init__(dataset, len(arrays), batching)

    def sets_at(self, positions: IdArray, epoch: int) -> list[IdArray]:
        return [self._ids[self._ends[at] : self._ends[at + 1]] for at in positions]

    def seed_options(self) -> dict[str, object]:
        return {"seeds_crc": zlib.crc32(self._ids.data, zlib.crc32(self._ends.data))}


class SingleNodes(SubgraphDataset):
    """Every node is a set of its own."""

    def sets_at(self, positions: IdArray, epoch: int) -> list[IdArray]:
        """The node of each position."""
        return [positions[i : i + 1] for i in range(len(positions))]

    def seed_options(self) -> dict[str, object]:
        """Nothing else than the graph."""
        return {}


class SubgraphLoader(SeedLoader):
    """A DataLoader of induced subgraphs: all edges among the nodes of each set.

    Rows and neighbour lists are read ahead as by `NeighborLoader`, and passes, workers, ranks and
    resuming are those of `NeighborLoader`: every set is in one mini-batch of a pass.

    Parameters
    ----------
    dataset : Dataset
        Without types; from `graphzero.open`.
    sets : iterable of (n,) integers
        The user's ids of the nodes of each set. It is read once, and takes 8 bytes of memory for
        each node. A node that is several times in the sets of a mini-batch is in it once.
    batch_size : int
        Sets in a mini-batch, which has the edges between them as well.
    shuffle, drop_last : bool
        As in `NeighborLoader`, for sets.
    transform : callable, optional
        Gets the batch, in the worker, and returns what the training loop gets.
    **options
        ``seed``, ``prefetch``, ``gather``, ``feature_dtype``, ``num_threads``, those of ranks and
        of torch's DataLoader, as in `NeighborLoader`.

    Raises
    ------
    IndexError
        If a node is out of range; with its set.
    ValueError
        If the graph has types.
    TypeError
        If `sets` is no iterable of arrays, or an option is unknown.

    Notes
    -----
    Batches are `MiniBatch`. ``input_id`` is the number of the set of each node, and ``batch_size``
    the number of all nodes.
    """

    _options = SeedLoaderOptions

    def __init__(
        self,
        dataset: Dataset | None = None,
        sets: Iterable[object] | None = None,
        **options: Unpack[SeedLoaderOptions],
    ) -> None:
        arguments = self._arguments_of(dataset, options, sets=sets)
        if arguments.get("sets") is None:
            raise TypeError("sets is missing: an iterable of arrays of node ids")
        batching = Batching.of(arguments.values)
        self._begin(arguments, _ListedSets(arguments.dataset, arguments.get("sets"), batching))
