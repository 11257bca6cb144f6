"""`WalkDataset` and `WalkLoader`: random walks and negatives, to learn embeddings of nodes."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor
from typing_extensions import Unpack

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import IdArray, Sampling, Values, as_walk_bias
from graphzero.io.row_io import RowKey
from graphzero.io.session import TopologyFile
from graphzero.loader.arguments import Batching, SeedLoaderOptions, SeedOptions, check_keywords
from graphzero.loader.mini_batch import AnyBatch, MiniBatch
from graphzero.loader.neighbor_loader import SeedLoader
from graphzero.loader.seed_batches import BatchRequest, BatchSeeds
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.loader.seeds import as_seed_nodes
from graphzero.sampling.negatives import negatives_key
from graphzero.sampling.walks import FOLLOW, walked_graph
from graphzero.store.manifest import NODES
from graphzero.units import as_count


class WalkDataset(SeedDataset):
    """Random walks from nodes, in windows, and as many negatives: node2vec and DeepWalk.

    It is used like `NeighborDataset`: the same `Collate`, order, epochs, ranks, workers and
    resuming. A mini-batch is a `MiniBatch` with the start nodes as ``n_id``, and with the two
    arrays that PyG's ``Node2Vec.loader`` yields, of the user's ids:

    - ``pos_rw``, (num_windows, context_size) int64: all windows of the walks, first those of the
      first walk. Each node of a window is a positive pair with the first one.
    - ``neg_rw``, (num_windows * num_negative_samples, context_size) int64: windows of walks whose
      nodes after the start are drawn uniformly from all nodes.

    With ``context_size=walk_length``, the rows are the walks themselves, without copies of their
    nodes: a loss that forms the pairs after it has looked up the embeddings reads each once
    (examples/node2vec.py).

    Walks follow the edges. In a directed graph they need out-neighbours, unless both directions of
    every edge are in it, which is checked by reading its lists once. A walk that comes to a dead
    end stays there, as in PyG: the rest of it repeats that node. Every epoch has other walks.

    Parameters
    ----------
    dataset : Dataset
        Without types; from `graphzero.open`.
    seeds : (num_seeds,) integers, (num_nodes,) bool, or str, optional
        Where walks start: nodes, a mask of them, or the name of a split. Default: at all nodes.
    walk_length : int
        Nodes of each walk, its start included.
    context_size : int, optional
        Nodes of each window, at most walk_length. Default: walk_length.
    walks_per_node : int
        Walks from each start.
    p, q : float
        Return and in-out parameters of node2vec (Grover, Leskovec, KDD 2016). Both 1, the default,
        are the uniform walks of DeepWalk (Perozzi, Al-Rfou, Skiena, KDD 2014).
    num_negative_samples : int
        Negative walks for each walk; 0 for none.
    weighted : bool
        Step in proportion to the weights of the edges (times the bias of p and q).
    **options
        ``batch_size`` (start nodes in a mini-batch), ``shuffle``, ``drop_last``, ``seed``,
        ``prefetch``, ``num_threads`` and those of ranks, as in `NeighborDataset`.

    Raises
    ------
    IndexError
        If a start is out of range.
    MemoryError
        When a mini-batch is larger than the memory of the machine.
    TypeError
        If an argument is unknown.
    ValueError
        If an argument is invalid; if the graph has types, or does not have out-neighbours; if
        weighted, and there are no weights.
    """

    def __init__(
        self,
        dataset: Dataset,
        seeds: object = None,
        *,
        walk_length: int,
        context_size: int | None = None,
        walks_per_node: int = 1,
        p: float = 1.0,
        q: float = 1.0,
        num_negative_samples: int = 1,
        weighted: bool = False,
        **options: Unpack[SeedOptions],
    ) -> None:
        check_keywords(type(self), options, SeedOptions.__annotations__)
        dataset.require_untyped("random walks are drawn")
        # weights may differ between the two directions of an edge
        lists = dataset.graph.lists_of("out", FOLLOW) if weighted else walked_graph(dataset)
        self._graph = lists
        self.walk_length = as_count(walk_length, "walk_length", 2)
        self.context_size = (
            self.walk_length if context_size is None else as_count(context_size, "context_size", 2)
        )
        if self.context_size > self.walk_length:
            raise ValueError(
                f"context_size={context_size} is more than walk_length={walk_length}: a window is "
                f"a part of a walk"
            )
        self.walks_per_node = as_count(walks_per_node, "walks_per_node")
        self.num_negative_samples = as_count(num_negative_samples, "num_negative_samples", 0)
        self.p, self.q = as_walk_bias(p, "p"), as_walk_bias(q, "q")
        self.weighted = bool(weighted)
        if self.weighted:
            self._graph._csr.require_weights()
        self.seeds = as_seed_nodes(seeds, dataset).ids
        options.setdefault("gather", ())
        batching = replace(Batching.of(options), sampling=Sampling(weighted=self.weighted))
        super().__init__(dataset, len(self.seeds), [], batching)

    @property
    def topology(self) -> list[TopologyFile]:
        """The file with the out-neighbours."""
        sizes = self._graph.section_bytes
        return [
            replace(
                file,
                graph=self._graph,
                sections=tuple(name for name in file.sections if name in sizes),
                is_uniform=False,
            )
            for file in super().topology
        ]

    def seeds_of(self, request: BatchRequest) -> BatchSeeds:
        """The seeds at some positions, the walks from them, and their negatives."""
        csr, seed, starts = self._graph._csr, self.sampler.seed, self.seeds[request.positions]
        readahead = request.readahead
        windows = self.walk_length - self.context_size + 1
        count = len(starts) * self.walks_per_node
        _core.require_memory(
            count * windows * self.context_size * (1 + self.num_negative_samples), 8, "nodes"
        )
        walks = csr.walk(
            np.repeat(csr.to_stored(starts, 1), self.walks_per_node),
            self.walk_length - 1,
            self.p,
            self.q,
            _core.key("walk", seed, request.epoch, request.batch),
            1,
            self.weighted,
            to_user=True,
            repeat=True,
            ahead_from=0 if readahead is None else 1,
            trust_mincore=readahead is None or readahead[0].trust_mincore,
        )
        fields: dict[RowKey, Values] = {(NODES, "pos_rw"): self._windows(walks)}
        if self.num_negative_samples:
            drawn = _core.draws_below(
                negatives_key(seed, request.epoch, request.batch),
                self.dataset.num_nodes,
                count * self.num_negative_samples,
                self.walk_length,
            )
            drawn[:, 0] = np.repeat(starts, self.walks_per_node * self.num_negative_samples)
            fields[NODES, "neg_rw"] = self._windows(drawn)
        nodes = self.sampler.stored_ids({NODES: starts})
        return BatchSeeds(request.positions, nodes, fields=fields)

    def _windows(self, walks: IdArray) -> IdArray:
        """All windows of some walks, (num_walks * num_windows, context_size)."""
        if self.context_size == self.walk_length:
            return walks
        views = np.lib.stride_tricks.sliding_window_view(walks, self.context_size, axis=1)
        windows = _core.empty(views.shape, np.int64)
        windows[:] = views
        return windows.reshape(-1, self.context_size)

    def seed_options(self) -> dict[str, object]:
        """A checksum of the seeds, and how walks are drawn."""
        names = ("walk_length", "context_size", "walks_per_node", "p", "q", "num_negative_samples")
        return {
            "seeds_crc": zlib.crc32(self.seeds.data),
            **{name: getattr(self, name) for name in names},
        }


class _WalkBatch(NamedTuple):
    pos_rw: Tensor
    neg_rw: Tensor


class WalkBatch(_WalkBatch):  # not the tuple itself, which could not hold ``stats``
    """What PyG's ``Node2Vec.loader`` yields: ``pos_rw`` and ``neg_rw``, see `WalkDataset`."""


class WalkOptions(SeedOptions, total=False):
    """The options of `WalkDataset`."""

    walk_length: int
    context_size: int | None
    walks_per_node: int
    p: float
    q: float
    num_negative_samples: int
    weighted: bool


class WalkLoaderOptions(WalkOptions, SeedLoaderOptions, total=False):
    """The options of `WalkLoader`."""


class WalkLoader(SeedLoader):
    """A DataLoader of random walks, in place of PyG's ``Node2Vec(...).loader(...)``.

    It is `WalkDataset` in a ``torch.utils.data.DataLoader``, and yields pairs of tensors: ``for
    pos_rw, neg_rw in loader: loss = model.loss(pos_rw, neg_rw)``. Passes, workers, ranks and
    resuming are those of `NeighborLoader`.

    Parameters
    ----------
    dataset : Dataset
        Without types; from `graphzero.open`.
    seeds : optional
        Where walks start, as in `WalkDataset`.
    **options
        The arguments of `WalkDataset`, ``transform`` (gets the pair, in the worker), and those of
        torch's DataLoader.

    Raises
    ------
    TypeError
        If `walk_length` is missing, or an argument is unknown.
    ValueError, IndexError
        As in `WalkDataset`.
    """

    _options = WalkLoaderOptions

    def __init__(
        self,
        dataset: Dataset | None = None,
        seeds: object = None,
        **options: Unpack[WalkLoaderOptions],
    ) -> None:
        arguments = self._arguments_of(dataset, options, seeds=seeds)
        if "walk_length" not in arguments.values:
            raise TypeError("walk_length is missing: nodes of each walk, such as 20")
        # the pair has both
        as_count(arguments.values.get("num_negative_samples", 1), "num_negative_samples")
        of_walks = arguments.options(WalkOptions.__annotations__)
        walks = WalkDataset(arguments.dataset, arguments.get("seeds"), **of_walks)
        self._begin(arguments, walks)

    @staticmethod
    def _make_output(batch: AnyBatch, dataset: Dataset, whole: bool) -> object:
        del dataset, whole
        assert isinstance(batch, MiniBatch)
        return WalkBatch(batch["pos_rw"], batch["neg_rw"])
