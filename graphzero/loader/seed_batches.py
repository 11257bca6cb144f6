"""Which mini-batches an epoch has: a function of the dataset, the seeds and the options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy.typing as npt

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import Fanouts, IdArray, Values, as_seed, as_times
from graphzero.io.prefetch import added_row
from graphzero.io.row_io import RowKey, RowSource, row_sources
from graphzero.io.session import TopologyFile, topology_files
from graphzero.loader.arguments import Batching
from graphzero.loader.mini_batch import Kind, SampledBatch
from graphzero.loader.padding import (
    LEARNT_BATCHES,
    HopSizes,
    check_sampling,
    chosen_sizes,
    learnt_sizes,
    pad_argument,
    reached,
    state_of,
)
from graphzero.loader.states import GRAPH
from graphzero.sampling.negatives import WeightedDraws
from graphzero.sampling.order import batch_positions, epoch_order, num_batches
from graphzero.sampling.sampler import HopReadAhead, NeighborSampler, TypedSubgraph
from graphzero.store.manifest import NODES


@dataclass(frozen=True, kw_only=True)
class BatchRequest:
    """Which mini-batch is wanted.

    Attributes
    ----------
    positions : (n,) int64
        Of its seeds, among those of the dataset.
    epoch, batch : int
        On which all that is drawn depends.
    readahead : sequence of HopReadAhead, optional
        How each file of `topology` is requested before it is read.
    """

    positions: IdArray
    epoch: int
    batch: int
    readahead: Sequence[HopReadAhead] | None = None


@dataclass(frozen=True)
class BatchSeeds:
    """What a mini-batch is sampled around.

    Attributes
    ----------
    input_id : (n,) int64
        `input_id` of the `SampledBatch`.
    nodes : dict of str to (n,) int64
        Stored ids by node type.
    times : dict of str to (n,) int64, or None
        A time for each of these nodes.
    trees : (n,) int64 or None
        What `batch` of the subgraph has for each tree; None has their numbers.
    fields : dict
        `fields` of the `SampledBatch`, as far as they do not depend on what is sampled.
    """

    input_id: IdArray
    nodes: Mapping[str, IdArray]
    times: Mapping[str, IdArray] | None = None
    trees: IdArray | None = None
    fields: dict[RowKey, Values] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        """Nodes of all types."""
        return sum(map(len, self.nodes.values()))


class SeedBatches:
    """What datasets of seeds have in common: mini-batches as a function of options.

    A subclass says how many seeds there are, and what the mini-batch of some of them is sampled
    around: `seeds_of`. Mini-batches are sampled in groups, by one call into the core for all of
    them. What then remains to be done is `batch_of`.

    Attributes
    ----------
    dataset : Dataset
    sampler : NeighborSampler
    batching : Batching
        The options; those that follow are among them.
    num_seeds, batch_size : int
    shuffle, drop_last : bool
    prefetch : Prefetch
    gather : tuple of str, or None
        The attributes that mini-batches have; None for all.
    feature_dtype : numpy.dtype or None
    num_threads : int or None
    input_time : (num_seeds,) int64 or None
        The times of the seeds, in subclasses whose seeds have times.
    input_type : str or tuple
        The node type or edge type of the seeds.
    queued : int
        Mini-batches that each DataLoader worker prepares ahead: its ``prefetch_factor``.
    """

    input_time: IdArray | None = None
    input_type: Kind = NODES
    translates_seeds = True  # for each mini-batch, into the graph's stored ids
    queued = 2

    def __init__(
        self, dataset: Dataset, num_seeds: int, fanouts: Fanouts, batching: Batching
    ) -> None:
        if dataset.is_typed and dataset.neighbors == "out":
            raise ValueError(
                "mini-batches of a typed graph need in-neighbours, along whose edges messages "
                "flow: build the dataset with neighbors='in', or give the edge types in reverse"
            )
        dataset.warn_of_direction()
        self.dataset = dataset
        self.sampler = NeighborSampler(
            dataset, fanouts, seed=batching.seed, num_threads=1, sampling=batching.sampling
        )
        self.num_seeds = num_seeds
        batching.check_gather(dataset)
        self.batching = batching
        self.batch_size = batching.batch_size
        self.shuffle = batching.shuffle
        self.drop_last = batching.drop_last
        self.gather = batching.gather
        self.feature_dtype = batching.feature_dtype
        self.prefetch = batching.prefetch
        self.num_threads = batching.num_threads
        if batching.pad is not None:
            check_sampling(batching.sampling)
            if batching.pad != "auto":
                _ = self.hop_sizes  # checked now
        self._weights: WeightedDraws | None = None

    def weigh_seeds(self, weights: Any) -> None:
        """Draws the seeds of every epoch by weight, as torch's ``WeightedRandomSampler`` does.

        An epoch has as many draws as there are seeds: a seed may come several times, or not at all.

        Raises
        ------
        ValueError
            If there is not one for each seed, if one is negative or not finite, or if all are 0.
        """
        self._weights = WeightedDraws(weights, self.num_seeds, "seed_weights", "seeds")

    def take_times(self, name: str, times: Any) -> None:
        """Gives the seeds times, by which they are sampled; `name` is what users call them.

        Raises
        ------
        ValueError
            If there are none and an option needs them; if the graph or the seeds do not have them.
        """
        self.sampler.check_times(times, name)
        if times is None:
            return
        if self.batching.pad is not None:
            raise ValueError(
                f"pad excludes {name}: seeds with times have disjoint trees, and added nodes are "
                f"in none. Leave one of the two out"
            )
        graphs = [edges.graph for edges in self.dataset.edges.values()]
        for graph in [graph for graph in graphs if graph.times is not None] or graphs[:1]:
            graph._csr.require_time_order()
        self.input_time = as_times(times, self.num_seeds, name).copy()

    def reseed(self, seed: int) -> None:
        """Changes the seed; in a copy of the sampler, which iterations may be using."""
        self.sampler = copy(self.sampler)
        self.sampler.seed = as_seed(seed)
        if self.batching.pad == "auto":
            self.__dict__.pop("hop_sizes", None)
        for cached in ("options", "state_options"):
            self.__dict__.pop(cached, None)

    @property
    def seed_types(self) -> list[str]:
        """The node types of the seeds."""
        kind = self.input_type
        return [kind] if isinstance(kind, str) else [kind[0], kind[2]]

    @cached_property
    def hop_sizes(self) -> list[HopSizes] | None:
        """What mini-batches are filled up to, the smallest first; None without `pad`.

        Those of "auto" are found by sampling the first mini-batches of epoch 0, whatever the epoch.
        """
        pad = self.batching.pad
        if pad is None:
            return None
        reach = reached(self.sampler, self.seed_types)
        if isinstance(pad, str):
            self.sampler = copy(self.sampler)
            self.sampler.pad([])
            subgraphs = [
                self.sample(self.request(0, number)).by_type
                for number in range(min(LEARNT_BATCHES, self.num_batches))
            ]
            sizes = learnt_sizes(subgraphs, reach, self.least_seeds) if subgraphs else []
        else:
            sizes = chosen_sizes(pad, self.dataset, reach, self.least_seeds)
        self.sampler.pad(sizes)
        return sizes

    @property
    def sizes(self) -> list[dict[str, Any]] | None:
        """The sizes to which `pad` fills mini-batches up, as it takes them, the smallest first.

        With "auto" the first use samples a few mini-batches. None without `pad`.
        """
        return None if self.hop_sizes is None else [*map(pad_argument, self.hop_sizes)]

    @property
    def least_seeds(self) -> dict[str, int]:
        """Seeds of each node type that a size must have room for, where their number is known."""
        return {}

    def sample(self, request: BatchRequest) -> SampledBatch:
        """A mini-batch without rows: a group of one."""
        seeds = self.seeds_of(request)
        subgraph = self.sampler.sample_stored(
            seeds.nodes,
            seed_time=seeds.times,
            epoch=request.epoch,
            batch=request.batch,
            readahead=request.readahead,
        )
        return self.batch_of(seeds, subgraph)

    def seeds_of(self, request: BatchRequest) -> BatchSeeds:
        """What a mini-batch is sampled around; called in any thread."""
        raise NotImplementedError

    def batch_of(self, seeds: BatchSeeds, subgraph: TypedSubgraph) -> SampledBatch:
        """The mini-batch of a subgraph that was sampled around some seeds, without rows."""
        trees = seeds.trees
        if trees is not None and subgraph.batch is not None:
            by_type = {name: trees[numbers] for name, numbers in subgraph.batch.items()}
            subgraph = replace(subgraph, batch=by_type)
        num_seeds = len(seeds.input_id)
        return SampledBatch(
            subgraph,
            seeds.input_id,
            fields=seeds.fields,
            input_type=self.input_type,
            batch_size=max(num_seeds, self.filled_size if subgraph.padded else 0),
        )

    @property
    def filled_size(self) -> int:
        """To how many seeds padded mini-batches are filled up; 0 where they keep their number."""
        return 0

    def seed_options(self) -> dict[str, Any]:
        """What distinguishes the seeds from others, in plain numbers and strings."""
        raise NotImplementedError

    def with_rows(self, sampled: SampledBatch, num_threads: int) -> SampledBatch:
        """A mini-batch outside of an iteration, with its rows, gathered from the mapped files."""
        rows: dict[RowKey, npt.NDArray[Any]] = {}
        for name, source in self.row_sources(0).items():
            wanted = source.rows_of(0, sampled.by_type)
            dtype = self.feature_dtype if source.is_converted else None
            array = source.store.gather_stored(wanted, None, num_threads, dtype=dtype)
            if (hops := source.padded_hops(sampled.by_type)) is not None:
                row = added_row(array.dtype, array.shape[1:], is_label=source.is_label)
                array = hops.spread(array, row)
            rows[name] = array
        return replace(sampled, rows=rows)

    def sampled_epoch(self, epoch: int) -> int:
        """The epoch whose order and draws an epoch has: itself, unless a subclass repeats some."""
        return epoch

    def row_sources(self, epoch: int) -> dict[RowKey, RowSource]:
        """Where the rows of an epoch's mini-batches are found, by the names of attributes."""
        del epoch
        sources = row_sources(self.dataset)
        if self.gather is None:
            return sources
        return {key: source for key, source in sources.items() if _name(key) in self.gather}

    @property
    def mappings(self) -> list[_core.Mapping]:
        """A mapping of every file that is sampled or read: the dataset's, and those of a pack."""
        mappings = {mapping.path: mapping for mapping in self.dataset.mappings}
        for source in self.row_sources(0).values():
            mappings.setdefault(source.store.mapping.path, source.store.mapping)
        return list(mappings.values())

    @property
    def num_batches(self) -> int:
        """Mini-batches of an epoch, over all ranks."""
        return num_batches(self.num_seeds, self.batch_size, self.drop_last)

    @cached_property
    def options(self) -> dict[str, Any]:
        """All that the mini-batches of an epoch are a function of, in plain values."""
        return {
            "num_nodes": self.dataset.num_nodes,
            "num_edges": self.dataset.num_edges,
            "num_seeds": self.num_seeds,
            **self.seed_options(),
            "fanouts": self.sampler.fanout_options,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            **asdict(self.sampler.sampling),
            "seed": self.sampler.seed,
            **({} if self._weights is None else {"seed_weights_crc": self._weights.crc}),
        }

    @cached_property
    def state_options(self) -> dict[str, Any]:
        """`options`, and a fingerprint of the graph as far as the mini-batches depend on it."""
        prints = [
            file.graph.fingerprint({*file.sections} - {"node_rank"})  # the inverse of node_ids
            for file in self.topology
        ]
        sizes = self.hop_sizes
        pad = {} if sizes is None else {"pad": [*map(state_of, sizes)]}
        return {**self.options, **pad, GRAPH: "-".join(prints)}

    @property
    def topology(self) -> list[TopologyFile]:
        """What sampling reads of the graph's files."""
        return topology_files(
            self.dataset,
            self.sampler.sampling,
            timed=self.input_time is not None,
            translates_seeds=self.translates_seeds,
        )

    def epoch_order(self, epoch: int) -> IdArray:
        """Positions in the seed array in the order of an epoch, (num_seeds,) int64."""
        seed = self.sampler.seed
        if self._weights is None or self.num_seeds == 0:
            return epoch_order(self.num_seeds, self.shuffle, seed, epoch)
        stream = _core.stream(_core.key("shuffle", seed, epoch, 0), 0)
        return self._weights.items(_core.draws(stream, self.num_seeds))

    def request(
        self, epoch: int, batch: int, *, readahead: Sequence[HopReadAhead] | None = None
    ) -> BatchRequest:
        """One mini-batch of an epoch."""
        positions = self.positions_of(self.epoch_order(epoch), batch)
        return BatchRequest(positions=positions, epoch=epoch, batch=batch, readahead=readahead)

    def positions_of(self, order: IdArray, batch: int) -> IdArray:
        """Positions in the seed array of one mini-batch, (batch_size,) int64."""
        return batch_positions(order, batch, self.batch_size)


def _name(key: RowKey) -> str:
    """Name of an attribute, without the type."""
    return key if isinstance(key, str) else key[1]
