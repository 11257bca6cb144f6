"""`NeighborSampler`: multi-hop neighbour sampling with relabelling, into NumPy arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.user_input import (
    Fanouts,
    IdArray,
    Sampling,
    SamplingOptions,
    as_fanouts,
    as_ids,
    as_seed,
    as_threads,
    as_times,
    as_typed_fanouts,
)
from graphzero.store.manifest import EDGES, NODES, EdgeType
from graphzero.units import as_count

if TYPE_CHECKING:
    from typing_extensions import Unpack

_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class Subgraph:
    """The sampled neighbourhood of a mini-batch of seeds.

    Attributes
    ----------
    n_id : (num_nodes,) int64
        The user's ids of the nodes; the seeds first, then hop by hop in order of appearance.
    edge_index : (2, num_edges) int64
        Local ids (positions in `n_id`): ``edge_index[0]`` is the sampled neighbour,
        ``edge_index[1]`` the node that it was sampled for. Messages flow from the first to the
        second.
    e_id : (num_edges,) int64 or None
        Positions of the edges in the user's edge list, if the file stores them.
    batch_size : int
        Number of seeds.
    num_sampled_nodes : list of int
        Seeds, then the new nodes of each hop.
    num_sampled_edges : list of int or None
        Edges of each hop; None for an induced subgraph, whose edges belong to no hop.
    stored_id : (num_nodes,) int64
        The same nodes as the files number them. Features are gathered and read ahead by these.
    batch : (num_nodes,) int64 or None
        With disjoint trees: the seed, 0 to batch_size - 1, to whose tree each node belongs.
    pages_missed : int
        Pages of topology that hop read-ahead requested and that were not in memory; 0 without hop
        read-ahead.
    positions : (num_edges,) int64 or None
        Stored positions of the edges in the graph's file: attributes of edges are read by these.
    """

    n_id: IdArray
    edge_index: IdArray
    e_id: IdArray | None
    batch_size: int
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int] | None
    stored_id: IdArray
    batch: IdArray | None = None
    pages_missed: int = 0
    positions: IdArray | None = None

    @property
    def total_nodes(self) -> int:
        """Number of nodes."""
        return len(self.n_id)

    @property
    def total_edges(self) -> int:
        """Number of edges."""
        return int(self.edge_index.shape[1])


@dataclass(frozen=True)
class PaddedHops:
    """The nodes or edges of one type in a mini-batch whose hops are filled up.

    Attributes
    ----------
    real : list of int
        Of each hop, which come first in it.
    sizes : list of int
        Of each hop, with those that are added.
    """

    real: list[int]
    sizes: list[int]

    @property
    def begins(self) -> list[int]:
        """Where each hop begins."""
        return [sum(self.sizes[:h]) for h in range(len(self.sizes))]

    @property
    def places(self) -> IdArray:
        """Where the real ones are among all, (sum(real),) int64."""
        ranges = zip(self.begins, self.real, strict=True)
        return np.concatenate([np.arange(begin, begin + count) for begin, count in ranges])

    def real_of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The values of real nodes or edges, of those of all."""
        return values[self.places]

    def spread(self, values: npt.NDArray[Any], added: Any) -> npt.NDArray[Any]:
        """The values of all, of those of real ones, and that of added ones."""
        out = _core.empty((sum(self.sizes), *values.shape[1:]), values.dtype)
        first = 0
        for begin, count, size in zip(self.begins, self.real, self.sizes, strict=True):
            out[begin : begin + count] = values[first : first + count]
            out[begin + count : begin + size] = added
            first += count
        return out

    def spread_ids(self, ids: IdArray) -> IdArray:
        """Ids of all; added ones have the first, so that it is in range."""
        return self.spread(ids, ids[0] if len(ids) else 0)


@dataclass(frozen=True)
class TypedSubgraph:
    """The sampled neighbourhood of a mini-batch of seeds, by node type and edge type.

    Every node type has local ids of its own: positions in its `n_id`, the seeds first, then hop by
    hop in order of appearance. All dicts have every node type, or every edge type, of the graph.

    Attributes
    ----------
    n_id : dict of str to (num_nodes,) int64
        The user's ids of the nodes of each type.
    stored_id : dict of str to (num_nodes,) int64
        The same nodes as the files number them.
    edge_index : dict of EdgeType to (2, num_edges) int64
        Local ids: ``edge_index[t][0]`` is the sampled neighbour, ``edge_index[t][1]`` the node that
        it was sampled for. Messages flow from the first to the second. Of an edge type (source,
        relation, target) whose incoming edges are stored, these are sources and targets. If the
        outgoing edges are stored, as in graphs without types, the sampled neighbours are of the
        target type, and row 0 has the targets.
    positions : dict of EdgeType to (num_edges,) int64
        Stored positions of the edges in the file of their type.
    e_id : dict of EdgeType to (num_edges,) int64 or None
        Positions in the user's list of edges of this type, if the file stores them.
    num_sampled_nodes : dict of str to list of int
        Seeds, then the new nodes of each hop.
    num_sampled_edges : dict of EdgeType to list of int, or None
        Edges of each hop; None for an induced subgraph, whose edges belong to no hop.
    batch : dict of str to (num_nodes,) int64, or None
        With disjoint trees: the tree of each node. Trees are numbered as the seeds are: those of
        the first node type, then those of the next.
    pages_missed : int
        Pages of topology that hop read-ahead requested and that were not in memory; 0 without hop
        read-ahead.
    padded : dict of str or EdgeType to PaddedHops
        Where hops are filled up with added nodes and edges: those of each type. `stored_id` and
        `positions` are then of real ones alone.
    """

    n_id: dict[str, IdArray]
    stored_id: dict[str, IdArray]
    edge_index: dict[EdgeType, IdArray]
    positions: dict[EdgeType, IdArray]
    e_id: dict[EdgeType, IdArray | None]
    num_sampled_nodes: dict[str, list[int]]
    num_sampled_edges: dict[EdgeType, list[int]] | None
    batch: dict[str, IdArray] | None = None
    pages_missed: int = 0
    padded: dict[str | EdgeType, PaddedHops] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str | EdgeType, list[int]]:
        """Nodes and edges of each hop, by type."""
        edges = self.num_sampled_edges or {}
        return dict((*self.num_sampled_nodes.items(), *edges.items()))

    @property
    def total_nodes(self) -> int:
        """Number of nodes of all types."""
        return sum(map(len, self.n_id.values()))

    @property
    def total_edges(self) -> int:
        """Number of edges of all types."""
        return sum(int(edges.shape[1]) for edges in self.edge_index.values())

    def forget_positions(self) -> None:
        """Drops `positions`, once the attributes of the edges have been found."""
        self.positions.clear()

    def untyped(self) -> Subgraph:
        """The neighbourhood in a graph without types."""
        counts = self.num_sampled_nodes[NODES]
        return Subgraph(
            n_id=self.n_id[NODES],
            edge_index=self.edge_index[EDGES],
            e_id=self.e_id[EDGES],
            batch_size=counts[0],
            num_sampled_nodes=counts,
            num_sampled_edges=(
                None if self.num_sampled_edges is None else self.num_sampled_edges[EDGES]
            ),
            stored_id=self.stored_id[NODES],
            batch=None if self.batch is None else self.batch[NODES],
            pages_missed=self.pages_missed,
            positions=self.positions.get(EDGES),
        )


@dataclass(frozen=True)
class HopReadAhead:
    """Hop read-ahead for one mini-batch, or for a group.

    Attributes
    ----------
    resident_nodes : int
        The topology of stored ids below is in memory, and not requested.
    trust_mincore : bool
        False where ``mincore`` is known to lie: then pages in memory are requested as well.
    direct : DirectHops or None
        Uniform draws read what a hop of all mini-batches needs together, and request nothing.
    """

    resident_nodes: int = 0
    trust_mincore: bool = True
    direct: _core.DirectHops | None = None


class NeighborSampler:
    """Samples a fixed number of neighbours of each node, hop by hop (Hamilton, Ying, Leskovec:
    "Inductive Representation Learning on Large Graphs", NeurIPS 2017).

    A node is expanded once, in the hop after the one that reached it first; with types, by each
    edge type whose lists its type has. Seeds may repeat: each copy is a node of its own in the
    batch, with the same draws. A neighbour that is also a seed has the local id of that seed's
    first copy.

    Parameters
    ----------
    graph : Graph or Dataset
    fanouts : sequence of int, or mapping
        Neighbours per node in each hop; -1 for all, 0 for none. An empty list stands for the seeds
        alone. With types, there may be a list by edge type, ``("user", "rates", "movie")`` or
        "user__rates__movie", where the list of "default" is for all edge types without one.
    seed : int
        Draws are a function of (seed, epoch, batch, hop, edge type, node) and, with disjoint trees,
        of the tree.
    num_threads : int, optional
        Threads that translate ids; each mini-batch is sampled by one. Default: all processors that
        the process may use. Never changes the result.
    sampling : Sampling, optional
        How neighbours are drawn; `options` then have no effect.
    **options
        The fields of `Sampling`. With types, the induced subgraph is not
        available; weights apply to the edge types that have them, times likewise, and the
        neighbours of all others are drawn uniformly.

    Raises
    ------
    ValueError
        If fanouts name too many hops, an unknown edge type, or not all; if a fanout is not
        valid; if an option is not valid for `Sampling`; if weighted, and there are no weights.
    """

    def __init__(
        self,
        graph: Graph | Dataset,
        fanouts: Fanouts,
        *,
        seed: int = 0,
        num_threads: int | None = None,
        sampling: Sampling | None = None,
        **options: Unpack[SamplingOptions],
    ) -> None:
        self.dataset = graph if isinstance(graph, Dataset) else Dataset(graph)
        if self.dataset.is_typed:
            self._fanouts = as_typed_fanouts(fanouts, self.dataset.edge_types)
        else:
            self._fanouts = {EDGES: as_fanouts(fanouts)}
        self.sampling = Sampling(**options) if sampling is None else sampling
        if self.dataset.is_typed and self.sampling.subgraph_type == "induced":
            raise ValueError(
                "subgraph_type='induced' is available for graphs without types only: leave it out"
            )
        edges = self.dataset.edges.values()
        self._graphs = [store.graph for store in edges]
        self._samplings = [self._sampling_of(graph) for graph in self._graphs]
        if self.sampling.weighted and not any(drawn.weighted for drawn in self._samplings):
            raise ValueError(
                f"weighted=True needs weights, and no edge type has them: "
                f"{self.dataset.edge_types}; build the dataset with weights, or leave weighted out"
            )
        self.seed = as_seed(seed)
        self.num_threads = as_threads(num_threads)
        numbers = {name: i for i, name in enumerate(self.dataset.nodes)}
        self._ends = np.array(
            [[numbers[s.owner.node_type], numbers[s.neighbor.node_type]] for s in edges]
        )
        counts = [nodes.num_nodes for nodes in self.dataset.nodes.values()]
        self._num_nodes = np.array(counts, np.int64)
        self._num_hops = max(map(len, self._fanouts.values()), default=0)
        self._hops = np.array([hops or [0] for hops in self._fanouts.values()], np.int64)
        self._sizes: list[Mapping[str | EdgeType, list[int]]] = []
        self._node_sizes: npt.NDArray[np.int64] | None = None
        self._edge_sizes: npt.NDArray[np.int64] | None = None
        self._begin()

    @property
    def hops(self) -> npt.NDArray[np.int64]:
        """Fanouts of each edge type in each hop, (num_edge_types, num_hops)."""
        return self._hops[:, : self._num_hops]

    def pad(self, sizes: Sequence[Mapping[str | EdgeType, list[int]]]) -> None:
        """Fills mini-batches up: to the first of some sizes that a mini-batch fits, if any.

        A size is that of the hops of every node type (seeds first) and of every edge type.
        """
        end = [0] * (self._hops.shape[1] - self._num_hops)  # of the hop that stands for no fanouts
        nodes = [[size[name] + end for name in self.dataset.nodes] for size in sizes]
        edges = [[size[kind] + end for kind in self.dataset.edges] for size in sizes]
        self._sizes = list(sizes)
        self._node_sizes = np.array(nodes, np.int64) if sizes else None
        self._edge_sizes = np.array(edges, np.int64) if sizes else None
        self._begin()

    def _begin(self) -> None:
        # of seeds without and with times; made when they are first sampled
        self._plans: dict[bool, _core.SamplingPlan] = {}
        self._idle: dict[bool, deque[_Workplace]] = {False: deque(), True: deque()}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_plans": None, "_idle": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def _sampling_of(self, graph: Graph) -> Sampling:
        """The options for one edge type: uniform draws where it has no weights."""
        if not self.sampling.weighted:
            return self.sampling
        if self.dataset.is_typed and "weights" not in graph.section_bytes:
            return replace(self.sampling, weighted=False)
        graph._csr.require_weights()
        return self.sampling

    @property
    def fanout_options(self) -> list[int] | dict[str, list[int]]:
        """The fanouts in plain values: a list, or lists by edge type."""
        if not self.dataset.is_typed:
            return list(self._fanouts[EDGES])
        return {"__".join(kind): list(hops) for kind, hops in self._fanouts.items()}

    def sample(
        self,
        seeds: Any,
        *,
        seed_time: Any = None,
        epoch: int = 0,
        batch: int = 0,
        readahead: Sequence[HopReadAhead | None] | None = None,
    ) -> Any:
        """Samples the neighbourhood of one mini-batch.

        Parameters
        ----------
        seeds : (batch_size,) integers, or dict of str to (n,) integers
            The user's ids, with types those of each node type that has seeds; repeats are allowed.
        seed_time : (batch_size,) integers, or dict of str to (n,) integers, optional
            A time for each seed, in the unit of the timestamps: it sees only edges up to its time,
            in all hops of its tree. Edge types without times are sampled as without `seed_time`.
        epoch, batch : int
            Select the random draws.
        readahead : sequence of HopReadAhead, optional
            For each edge type in order: requests the topology of each hop before it is read.
            Loaders use it where the graph is larger than memory.

        Returns
        -------
        Subgraph
            With types, a TypedSubgraph.

        Raises
        ------
        IndexError
            If a seed is out of range.
        ValueError
            If a node type is unknown; if seed_time does not have a time for each seed; if options
            need it (strictly_before, temporal_strategy="last"), and it is missing; if options
            exclude times (weighted, labor, batch_dependency); if there are no timestamps.
        FormatError
            If a file is corrupt.
        """
        if not self.dataset.is_typed:
            seeds = {NODES: seeds}
            seed_time = None if seed_time is None else {NODES: seed_time}
        self._check_types(seeds, "seeds")
        ids = {
            name: as_ids(seeds[name], store.num_nodes, _named("seeds", name))
            for name, store in self.dataset.nodes.items()
            if name in seeds
        }
        self.check_times(seed_time, "seed_time")
        sampled = self.sample_stored(
            self.stored_ids(ids),
            seed_time=None if seed_time is None else self._as_times(seed_time, ids),
            epoch=as_count(epoch, "epoch", 0),
            batch=as_count(batch, "batch", 0),
            readahead=readahead,
        )
        return sampled if self.dataset.is_typed else sampled.untyped()

    def stored_ids(self, seeds: Mapping[str, IdArray]) -> dict[str, IdArray]:
        """Stored ids, by node type, of the user's ids, which must be in range."""
        for graph in self._graphs:
            graph.mapping.check_size()  # tables of ids are read before the core checks
        stores, threads = self.dataset.nodes, self.num_threads
        return {name: stores[name].to_stored(ids, threads) for name, ids in seeds.items()}

    def check_times(self, times: object, name: str) -> None:
        """Raises `ValueError` where the options exclude times of seeds, or need them."""
        sampling = self.sampling
        if times is None:
            for option, without in (("strictly_before", False), ("temporal_strategy", "uniform")):
                value = getattr(sampling, option)
                if value != without:
                    raise ValueError(
                        f"{option}={value!r} needs a time for each seed: give {name}, or leave "
                        f"{option} out"
                    )
        elif sampling.kind is not None:
            raise ValueError(f"{sampling.kind} sampling does not support times: use one of the two")
        elif sampling.batch_dependency > 1:
            raise ValueError(
                "batch_dependency excludes times: trees of other batches belong to other seeds"
            )

    def _check_types(self, named: object, what: str) -> None:
        node_types = self.dataset.node_types
        if not isinstance(named, Mapping):
            raise ValueError(
                f"{what} of a typed graph must be a dict by node type, such as "
                f"{{{node_types[0]!r}: [0, 1]}}, not {type(named).__name__}"
            )
        for node_type in named:
            if node_type not in node_types:
                raise ValueError(f"{what} name {node_type!r}, but the node types are {node_types}")

    def _as_times(
        self, seed_time: Mapping[str, object], ids: Mapping[str, IdArray]
    ) -> dict[str, IdArray]:
        self._check_types(seed_time, "seed_time")
        if set(seed_time) != set(ids):
            raise ValueError(
                f"seed_time must have the node types of seeds, {list(ids)}, not {list(seed_time)}"
            )
        return {
            name: as_times(seed_time[name], len(seeds), _named("seed_time", name))
            for name, seeds in ids.items()
        }

    def sample_stored(
        self,
        seeds: Mapping[str, IdArray],
        *,
        seed_time: Mapping[str, IdArray] | None = None,
        epoch: int = 0,
        batch: int = 0,
        readahead: Sequence[HopReadAhead | None] | None = None,
    ) -> TypedSubgraph:
        """`sample`, by node type also without types, of stored ids and times that were checked."""
        timed = seed_time is not None
        one_batch = [self.seeds_of(seeds, seed_time=seed_time, epoch=epoch, batch=batch)]
        num_seeds = sum(map(len, seeds.values()))
        try:  # threads may share a sampler
            workplace = self._idle[timed].pop()
        except IndexError:
            team = _core.Team(self.num_threads)
            workplace = _Workplace(self.group_sampler(timed=timed), team)
        try:
            results = workplace.sampler.sample(one_batch, workplace.team, _core.Stop(), readahead)
        except (FormatError, MemoryError) as error:
            raise self._explained(error, num_seeds) from None
        finally:
            self._idle[timed].append(workplace)
        return self.as_subgraph(results.pop(), num_seeds)  # an error must not refer to itself

    def seeds_of(
        self,
        seeds: Mapping[str, IdArray],
        *,
        seed_time: Mapping[str, IdArray] | None,
        epoch: int,
        batch: int,
    ) -> _core.Seeds:
        """The seeds of a mini-batch for a `group_sampler`; see `sample_stored`."""
        until = None
        if seed_time is not None:
            until = np.concatenate([seed_time.get(name, _NOTHING) for name in self.dataset.nodes])
        return _core.Seeds(
            self._plan(seed_time is not None),
            [seeds.get(name, _NOTHING) for name in self.dataset.nodes],
            _core.Draws(self.seed, epoch, batch, self.sampling.batch_dependency),
            until,
        )

    def group_sampler(self, *, timed: bool) -> _core.GroupSampler:
        """Samples several mini-batches in one call; `timed` if their seeds have times."""
        node_tables = [nodes.user_table for nodes in self.dataset.nodes.values()]
        edge_tables = [graph._csr.edge_table() for graph in self._graphs]
        return _core.GroupSampler(
            self._plan(timed), node_tables, edge_tables, self._node_sizes, self._edge_sizes
        )

    def _plan(self, timed: bool) -> _core.SamplingPlan:
        if timed not in self._plans:
            plan = _core.SamplingPlan(
                [graph._csr for graph in self._graphs],
                self._ends,
                self._num_nodes,
                self._hops,
                self._samplings,
                self._timed() if timed else None,
            )
            self._plans.setdefault(timed, plan)  # another thread may have been here first
        return self._plans[timed]

    def _timed(self) -> list[bool]:
        """For which edge types the times of seeds count."""
        dataset = self.dataset
        timed = [not dataset.is_typed or "times" in graph.section_bytes for graph in self._graphs]
        if not any(timed):
            raise ValueError(
                f"seed_time needs timestamps, and no edge type has them: "
                f"{dataset.edge_types}; build the dataset with times, or leave seed_time out"
            )
        return timed

    def as_subgraph(self, sampled: _core.Sampled | Exception, num_seeds: int) -> TypedSubgraph:
        """What a `group_sampler` returned for one mini-batch, of so many seeds.

        Raises
        ------
        FormatError
            If a file is corrupt.
        MemoryError
            If there was none for the mini-batch.
        """
        if isinstance(sampled, Exception):
            error = self._explained(sampled, num_seeds)
            try:
                raise error from None
            finally:
                del sampled, error  # it refers to this frame
        node_types, edge_types, hops = self.dataset.nodes, self.dataset.edges, self._num_hops
        is_induced = self.sampling.subgraph_type == "induced"
        num_nodes = [counts[: hops + 1] for counts in sampled.num_sampled_nodes]
        num_edges = [counts[:hops] for counts in sampled.num_sampled_edges]
        trees = sampled.trees
        subgraph = TypedSubgraph(
            n_id=dict(zip(node_types, sampled.user_ids, strict=True)),
            stored_id=dict(zip(node_types, sampled.nodes, strict=True)),
            edge_index=dict(zip(edge_types, sampled.edge_index, strict=True)),
            positions=dict(zip(edge_types, sampled.positions, strict=True)),
            e_id=dict(zip(edge_types, sampled.edge_ids, strict=True)),
            num_sampled_nodes=dict(zip(node_types, num_nodes, strict=True)),
            num_sampled_edges=(
                None if is_induced else dict(zip(edge_types, num_edges, strict=True))
            ),
            batch=None if trees is None else dict(zip(node_types, trees, strict=True)),
            pages_missed=sampled.pages_missed,
        )
        return subgraph if sampled.size < 0 else self._padded(subgraph, sampled.size)

    def _padded(self, subgraph: TypedSubgraph, size: int) -> TypedSubgraph:
        """A subgraph of which the core has filled up the edges, with all else filled up."""
        sizes, counts = self._sizes[size], subgraph.counts
        hops = {kind: PaddedHops(real, sizes[kind]) for kind, real in counts.items()}
        return replace(
            subgraph,
            n_id={name: hops[name].spread_ids(ids) for name, ids in subgraph.n_id.items()},
            e_id={
                kind: None if ids is None else hops[kind].spread_ids(ids)
                for kind, ids in subgraph.e_id.items()
            },
            num_sampled_nodes={name: hops[name].sizes for name in subgraph.n_id},
            num_sampled_edges={kind: hops[kind].sizes for kind in subgraph.e_id},
            padded=hops,
        )

    def _explained(self, error: Exception, num_seeds: int) -> Exception:
        """An error of the core that says which edge type, or which fanouts, it is about."""
        if isinstance(error, MemoryError):
            return MemoryError(
                f"no memory for fanouts={self.fanout_options} of {num_seeds:,} seeds ({error}): "
                f"use smaller fanouts, or fewer seeds in a batch"
            )
        if isinstance(error, FormatError) and self.dataset.is_typed:
            for edge_type, edges in self.dataset.edges.items():
                if edges.graph.path in str(error):
                    return FormatError(f"edge type {edge_type}: {error}")
        return error


@dataclass(frozen=True)
class _Workplace:
    """What one call of a sampler has for itself."""

    sampler: _core.GroupSampler
    team: _core.Team


def _named(what: str, node_type: str) -> str:
    return f"{what}[{node_type!r}]" if node_type else what
