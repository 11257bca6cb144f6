"""`TypedNeighborSampler`: multi-hop neighbour sampling in a typed graph, into NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_count, as_ids, as_threads, as_times
from graphzero.graph.sampling_options import Sampling, as_seed
from graphzero.sampling.hop_readahead import HopReadAhead
from graphzero.sampling.idle_batches import IdleBatches
from graphzero.sampling.typed_fanouts import as_typed_fanouts
from graphzero.sampling.typed_subgraph import EdgeType, TypedSubgraph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphzero.graph.sampling_options import SamplingOptions, Unpack

__all__ = ["TypedLists", "TypedNeighborSampler"]


@dataclass(frozen=True)
class TypedLists:
    """The neighbour lists of a typed graph, as a sampler needs them.

    Attributes
    ----------
    node_types : tuple of str
    num_nodes : dict of str to int
        Nodes of each type.
    graphs : dict of EdgeType to Graph
        The file of each edge type; their order is that of the draws.
    incoming : dict of EdgeType to bool
        Whether the lists have the sources of the target type's incoming edges; else they have the
        targets of the source type's outgoing ones.
    to_user, to_stored : callable
        Translate ids of a node type, ``to_user(node_type, ids)``.
    """

    node_types: tuple[str, ...]
    num_nodes: dict[str, int]
    graphs: dict[EdgeType, Graph]
    incoming: dict[EdgeType, bool]
    to_user: Callable[[str, IdArray], IdArray]
    to_stored: Callable[[str, IdArray], IdArray]

    def owner(self, edge_type: EdgeType) -> str:
        """The node type that has the lists of an edge type."""
        return edge_type[2] if self.incoming[edge_type] else edge_type[0]

    def neighbor(self, edge_type: EdgeType) -> str:
        """The node type of the neighbours in these lists."""
        return edge_type[0] if self.incoming[edge_type] else edge_type[2]


class TypedNeighborSampler:
    """Samples neighbours of every edge type, hop by hop.

    In each hop the nodes that the last one reached first are expanded by each edge type whose lists
    their type has, each node once. Seeds may repeat: each copy is a node of its own in the batch,
    with the same draws.

    Parameters
    ----------
    lists : TypedLists
    fanouts : sequence of int, or mapping
        Neighbours per node in each hop, of each edge type: a list for all, or a list by edge type,
        ``("user", "rates", "movie")`` or "user__rates__movie". The list of "default" is for all
        edge types without one. -1 takes all neighbours, 0 none in this hop.
    seed : int
        Draws are a function of (seed, epoch, batch, hop, edge type, node) and, with disjoint trees,
        of the tree.
    num_threads : int, optional
        Threads that translate positions to edge ids; each mini-batch is sampled by one. Default:
        all processors that the process may use. Never changes the result.
    **options
        How neighbours are drawn: the fields of `Sampling`, except that the induced subgraph is not
        available. Weights apply to the edge types that have them, times likewise; the neighbours
        of all others are drawn uniformly.

    Raises
    ------
    ValueError
        If fanouts name no hop, too many, an unknown edge type, or not all; if an option is not
        valid for `Sampling`; if weighted, and no edge type has weights.
    """

    def __init__(
        self,
        lists: TypedLists,
        fanouts: Sequence[int] | Mapping[Any, Sequence[int]],
        *,
        seed: int = 0,
        num_threads: int | None = None,
        **options: Unpack[SamplingOptions],
    ) -> None:
        self.lists = lists
        self.edge_types = tuple(lists.graphs)
        self.fanouts = as_typed_fanouts(fanouts, self.edge_types)
        self.sampling = Sampling(**options)
        if self.sampling.subgraph_type == "induced":
            raise ValueError(
                "subgraph_type='induced' is available for graphs without types only: leave it out"
            )
        self.samplings = tuple(self._sampling_of(graph) for graph in lists.graphs.values())
        if self.sampling.weighted and not any(each.weighted for each in self.samplings):
            raise ValueError(
                f"weighted=True needs weights, and no edge type has them: {list(self.edge_types)}; "
                f"build the dataset with weights, or leave weighted out"
            )
        self.seed = as_seed(seed)
        self.num_threads = as_threads(num_threads)
        numbers = {node_type: i for i, node_type in enumerate(lists.node_types)}
        self._ends = np.array(
            [[numbers[lists.owner(t)], numbers[lists.neighbor(t)]] for t in self.edge_types]
        )
        self._num_nodes = np.array([lists.num_nodes[t] for t in lists.node_types], np.int64)
        self._idle_batches = IdleBatches()

    def _sampling_of(self, graph: Graph) -> Sampling:
        """The options for one edge type: uniform draws where it has no weights."""
        if not self.sampling.weighted:
            return self.sampling
        if "weights" not in graph.section_bytes:
            return replace(self.sampling, weighted=False)
        graph._csr.require_weights()
        return self.sampling

    def sample(
        self,
        seeds: Mapping[str, Any],
        *,
        seed_time: Mapping[str, Any] | None = None,
        epoch: int = 0,
        batch: int = 0,
        readaheads: Mapping[EdgeType, HopReadAhead | None] | None = None,
    ) -> TypedSubgraph:
        """Samples the neighbourhood of one mini-batch.

        Parameters
        ----------
        seeds : dict of str to (n,) integers
            The user's ids of each node type that has seeds; repeats are allowed.
        seed_time : dict of str to (n,) integers, optional
            A time for each seed: it sees only edges up to its time, in all hops of its tree. Edge
            types without times are sampled as without `seed_time`.
        epoch, batch : int
            Select the random draws.
        readaheads : dict of EdgeType to HopReadAhead, optional
            Requests the topology of each hop before it is read.

        Returns
        -------
        TypedSubgraph

        Raises
        ------
        IndexError
            If a seed is out of range.
        ValueError
            If a node type is unknown; if seed_time does not have a time for each seed; if options
            need it (strictly_before, temporal_strategy="last"), and it is missing; if options
            exclude times (weighted, labor, batch_dependency); if no edge type has timestamps.
        FormatError
            If a file is corrupt.
        """
        self._check_types(seeds, "seeds")
        lists = self.lists
        ids = {
            node_type: as_ids(seeds[node_type], lists.num_nodes[node_type], f"seeds[{node_type!r}]")
            for node_type in lists.node_types
            if node_type in seeds
        }
        times = None if seed_time is None else self._as_times(seed_time, ids)
        epoch, batch = as_count(epoch, "epoch", 0), as_count(batch, "batch", 0)
        if times is None:
            self.sampling.check_untimed(": give seed_time, or")
        stored = {node_type: lists.to_stored(node_type, each) for node_type, each in ids.items()}
        return self.sample_stored(
            stored, seed_time=times, epoch=epoch, batch=batch, readaheads=readaheads
        )

    def _check_types(self, given: Mapping[str, Any], name: str) -> None:
        node_types = list(self.lists.node_types)
        if not isinstance(given, Mapping):
            raise ValueError(
                f"{name} of a typed graph must be a dict by node type, such as "
                f"{{{node_types[0]!r}: [0, 1]}}, not {type(given).__name__}"
            )
        for node_type in given:
            if node_type not in node_types:
                raise ValueError(f"{name} name {node_type!r}, but the node types are {node_types}")

    def _as_times(
        self, seed_time: Mapping[str, Any], ids: Mapping[str, IdArray]
    ) -> dict[str, IdArray]:
        self._check_types(seed_time, "seed_time")
        self.sampling.check_timed()
        if set(seed_time) != set(ids):
            raise ValueError(
                f"seed_time must have the node types of seeds, {list(ids)}, not {list(seed_time)}"
            )
        return {
            node_type: as_times(seed_time[node_type], len(each), f"seed_time[{node_type!r}]")
            for node_type, each in ids.items()
        }

    def sample_stored(
        self,
        stored: Mapping[str, IdArray],
        *,
        seed_time: Mapping[str, IdArray] | None = None,
        epoch: int,
        batch: int,
        readaheads: Mapping[EdgeType, HopReadAhead | None] | None = None,
    ) -> TypedSubgraph:
        """As `sample`, with the stored ids of the seeds."""
        lists, nothing = self.lists, np.empty(0, np.int64)
        graphs = list(lists.graphs.values())
        timed = [seed_time is not None and "times" in graph.section_bytes for graph in graphs]
        until = None
        if seed_time is not None:
            if not any(timed):
                raise ValueError(
                    f"seed_time needs timestamps, and no edge type has them: "
                    f"{list(self.edge_types)}; build the dataset with times, or leave seed_time out"
                )
            until = np.concatenate([seed_time.get(t, nothing) for t in lists.node_types])
        with self._explained(stored), self._idle_batches.one() as worker:
            sampled = worker.sample_typed(
                [graph._csr for graph in graphs],
                self._ends,
                self._num_nodes,
                [stored.get(node_type, nothing) for node_type in lists.node_types],
                np.array(list(self.fanouts.values()), np.int64),
                self.samplings,
                timed,
                _core.Draws(self.seed, epoch, batch, self.sampling.batch_dependency),
                until,
                None if readaheads is None else [readaheads.get(t) for t in self.edge_types],
            )
        return self._as_subgraph(*sampled)

    def _as_subgraph(
        self,
        nodes: list[IdArray],
        edge_index: list[IdArray],
        positions: list[IdArray],
        trees: list[IdArray] | None,
        num_nodes: list[list[int]],
        num_edges: list[list[int]],
        missed: int,
    ) -> TypedSubgraph:
        lists, node_types, edge_types = self.lists, self.lists.node_types, self.edge_types
        stored = dict(zip(node_types, nodes, strict=True))
        at = dict(zip(edge_types, positions, strict=True))
        return TypedSubgraph(
            n_id={node_type: lists.to_user(node_type, ids) for node_type, ids in stored.items()},
            stored_id=stored,
            edge_index=dict(zip(edge_types, edge_index, strict=True)),
            positions=at,
            e_id={
                edge_type: graph._csr.edge_ids(at[edge_type], self.num_threads)
                for edge_type, graph in lists.graphs.items()
            },
            num_sampled_nodes=dict(zip(node_types, num_nodes, strict=True)),
            num_sampled_edges=dict(zip(edge_types, num_edges, strict=True)),
            batch=None if trees is None else dict(zip(node_types, trees, strict=True)),
            pages_missed=missed,
        )

    @contextmanager
    def _explained(self, stored: Mapping[str, IdArray]) -> Iterator[None]:
        """Has errors of the core say which edge type, or which fanouts, they are about."""
        try:
            yield
        except MemoryError as error:
            count = sum(len(ids) for ids in stored.values())
            raise MemoryError(
                f"no memory for fanouts={self.fanouts} of {count:,} seeds ({error}): "
                f"use smaller fanouts, or fewer seeds in a batch"
            ) from None
        except FormatError as error:
            named = [t for t, graph in self.lists.graphs.items() if graph.path in str(error)]
            if not named:
                raise
            raise FormatError(f"edge type {named[0]}: {error}") from None
