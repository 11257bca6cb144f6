"""`NeighborDataset`: mini-batches around nodes, as a torch ``IterableDataset``."""

from __future__ import annotations

import zlib

import numpy as np
from typing_extensions import Unpack

from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import Fanouts, IdArray, Values
from graphzero.io.row_io import RowKey
from graphzero.loader.arguments import Batching, DatasetOptions, check_keywords
from graphzero.loader.seed_batches import BatchRequest, BatchSeeds
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.loader.seeds import as_seed_nodes


class NeighborDataset(SeedDataset):
    """Mini-batches of sampled neighbourhoods, as a torch ``IterableDataset``.

    Use it with ``DataLoader(dataset, batch_size=None, collate_fn=Collate(ds))``. DataLoader workers
    share the batches of an epoch, and so do ranks with ``distributed=True``. The order and content
    of the batches of an epoch do not depend on the number of workers or ranks. Call `set_epoch`
    before each epoch: it changes the order of the seeds and the draws, in persistent workers as
    well.

    An interrupted epoch is resumed at its next batch, byte for byte:

    - with torchdata's ``StatefulDataLoader`` and as many ranks and workers as before, by its own
      ``state_dict()`` and ``load_state_dict(state)``;
    - with other ranks or workers, or a plain ``DataLoader``, by `resume`, which takes the state of
      a ``StatefulDataLoader`` (of rank 0) or what `state_after` gave.

    Parameters
    ----------
    dataset : Dataset
        From `graphzero.open`.
    seeds : (num_seeds,) integers, (num_nodes,) bool, str, or pair, optional
        Nodes to make predictions for, a mask of them, or the name of a split. Default: all nodes.
        In a typed graph, a pair of a node type and these, such as ``("paper", ids)``, or the node
        type alone.
    fanouts : sequence of int, or mapping
        Neighbours per node in each hop; -1 for all. In a typed graph also by edge type, as in
        `NeighborSampler`.
    batch_size : int
        Seeds in a batch.
    shuffle : bool
        Permute the seeds, anew for each epoch.
    drop_last : bool
        Drop the last batch if it is short.
    input_time : (num_seeds,) integers, optional
        A time for each seed, in the unit of the graph's timestamps. Each seed then has a tree of
        its own, which has only edges up to its time.
    seed : int
        Order and draws are functions of (seed, epoch).
    prefetch : Prefetch, optional
        How pages are read ahead. Default: `Prefetch()`.
    gather : sequence of str, optional
        Names of the attributes that mini-batches have: "x", "y", "edge_attr", ... Default: all that
        the dataset has.
    feature_dtype : {None, "float32"}
        "float32" converts narrower (or wider) features on the way; None leaves them as stored.
    pad : "auto", mapping, or sequence of mappings, optional
        Fills the hops of mini-batches up, so that their shapes do not change: to sizes of one's
        own, ``{"nodes": [seeds, hop, ...], "edges": [hop, ...]}``, in a typed graph lists by type,
        or to the first of several that a mini-batch fits; "auto" takes three from the first
        mini-batches. One that is larger comes as it is, see ``batch.stats.oversized``. Added nodes
        follow the real ones of their hop, and added edges go from these to added ones of the hop
        before: outputs and gradients of real nodes stay as they are, but for what mixes all nodes
        (BatchNorm, GraphNorm, PairNorm, PyG's LayerNorm with ``mode="graph"``, LSTM aggregation).
        They have in `n_id` the id of the seed that comes first (of other types, that of their
        first node), in `y` -100, where it can be negative, which ``cross_entropy`` ignores, and 0
        in all other attributes, times included. Added edges have the first of `e_id`, and 0 in all
        attributes, weights included. Where labels are classes, the last mini-batch is filled up to
        `batch_size` seeds; `input_id` has the real ones alone, so that what is written by it must
        be ``[:len(batch.input_id)]``. Disjoint trees, times of seeds and
        induced subgraphs exclude it.
    num_threads : int, optional
        Threads that sample in the background, each a whole batch. Default: one in a worker,
        otherwise all processors.
    distributed : bool, optional
        True deals the batches to the ranks of ``torch.distributed``, or to those that `rank` and
        `world_size` name. False gives this process all seeds: because they have been split over
        the ranks already, or because it works alone. None, the default, is False with one rank;
        with several it is an error. Ranks are found when an iteration begins.
    rank, world_size : int, optional
        Which of how many ranks this is, if these are not the global ranks: those of a data-parallel
        group, for example. They imply ``distributed=True``.
    even : bool
        True gives every rank equally many batches, as ``DistributedDataParallel`` needs it: the
        last round is filled with the first batches of the epoch, as often as needed, or dropped
        with ``drop_last=True``. A warning says so where this is more than 5 % of an epoch. False
        yields each seed once over all ranks, for evaluation and prediction.
    batching : Batching, optional
        From a ready-made loader: all options from `batch_size` on, which it has checked.
    **options
        How neighbours are drawn: the fields of `Sampling`, such as ``replace=True``.

    Raises
    ------
    IndexError
        If a seed is out of range.
    TypeError
        If an argument is unknown; names what it is called here.
    ValueError
        If an argument is invalid or contradicts another; if an option needs times, and there are
        none; if weighted, and the graph has no weights; if seeds have times, and the graph has no
        timestamps. When an iteration begins, and from ``len``: if there are several ranks and
        `distributed` is None; if no batch is left for them. When an iteration begins: if a rank
        that shares the epoch has another dataset, argument, seed or epoch.
    """

    input_type: str

    def __init__(
        self,
        dataset: Dataset,
        seeds: object = None,
        fanouts: Fanouts = (15, 10, 5),
        *,
        input_time: object = None,
        batching: Batching | None = None,
        **options: Unpack[DatasetOptions],
    ) -> None:
        check_keywords(type(self), options, DatasetOptions.__annotations__)
        nodes = as_seed_nodes(seeds, dataset)
        self.input_type, self.seeds = nodes.node_type, nodes.ids
        super().__init__(dataset, len(nodes.ids), fanouts, batching or Batching.of(options))
        self._stored_seeds: IdArray | None = None
        # More stored ids than the graph's table of ranks are not kept: then each mini-batch reads
        # the table in as many places as it has seeds.
        if dataset.is_typed or self.seeds.nbytes <= dataset.graph.section_bytes.get("node_rank", 0):
            order = np.argsort(self.seeds)  # the table is read once, from its beginning to its end
            self._stored_seeds = np.empty_like(self.seeds)
            self._stored_seeds[order] = dataset.nodes[self.input_type].to_stored(self.seeds[order])
        self.translates_seeds = self._stored_seeds is None
        self.take_times("input_time", input_time)

    def seeds_of(self, request: BatchRequest) -> BatchSeeds:
        """The seeds at some positions."""
        kind, positions = self.input_type, request.positions
        if self._stored_seeds is None:
            nodes = self.sampler.stored_ids({kind: self.seeds[positions]})
        else:
            nodes = {kind: self._stored_seeds[positions]}
        if self.input_time is None:
            return BatchSeeds(positions, nodes)
        times = self.input_time[positions]
        fields: dict[RowKey, Values] = {(kind, "seed_time"): times}
        return BatchSeeds(positions, nodes, {kind: times}, fields=fields)

    @property
    def least_seeds(self) -> dict[str, int]:
        """As many seeds as there are in a mini-batch."""
        return {self.input_type: self.batch_size}

    @property
    def filled_size(self) -> int:
        """All have `batch_size` seeds where labels are classes, of which -100 is none."""
        labels = self.dataset.nodes[self.input_type].attributes.get("y")
        if labels is None or (self.gather is not None and "y" not in self.gather):
            return 0
        is_class = labels.dtype.kind == "i" and labels.feature_dim == 1
        return self.batch_size if is_class else 0

    def seed_options(self) -> dict[str, object]:
        """Checksums of the seeds and their times."""
        times = {} if self.input_time is None else {"times_crc": zlib.crc32(self.input_time.data)}
        typed = {"input_type": self.input_type} if self.dataset.is_typed else {}
        return {"seeds_crc": zlib.crc32(self.seeds.data), **times, **typed}
