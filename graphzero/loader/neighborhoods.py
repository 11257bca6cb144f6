"""Neighbourhoods of seed nodes, with or without types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_ids
from graphzero.graph.typed_dataset import TypedDataset
from graphzero.sampling.any_subgraph import AnySubgraph
from graphzero.sampling.hop_readahead import HopReadAhead
from graphzero.sampling.sampler import NeighborSampler
from graphzero.sampling.typed_sampler import TypedLists, TypedNeighborSampler

__all__ = [
    "Neighborhoods",
    "as_seed_ids",
    "check_times",
    "neighborhoods_of",
    "sampler_of",
    "typed_lists",
]


class Neighborhoods(Protocol):
    """The sampled neighbourhoods of an array of seed nodes.

    Attributes
    ----------
    seeds : (num_seeds,) int64
        The user's ids.
    translates_seeds : bool
        Whether the seeds of each mini-batch are translated into stored ids.
    """

    seeds: IdArray
    translates_seeds: bool

    @property
    def input_type(self) -> str | None:
        """Node type of the seeds, in a typed graph."""

    def sample(
        self,
        sampler: Any,
        positions: IdArray,
        times: IdArray | None,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None,
    ) -> AnySubgraph:
        """The neighbourhood of the seeds at some positions, with a time for each or None."""


def neighborhoods_of(dataset: Dataset, seeds: Any) -> Neighborhoods:
    """Around the seeds that a user names.

    Parameters
    ----------
    dataset : Dataset
    seeds : (n,) integers, (num_nodes,) bool, or None
        Of a typed graph: a node type, or a pair of one and these.
    """
    if isinstance(dataset, TypedDataset):
        return _Typed(dataset, seeds)
    return _Untyped(dataset.graph, seeds)


def sampler_of(
    dataset: Dataset, fanouts: Any, options: Mapping[str, Any]
) -> NeighborSampler | TypedNeighborSampler:
    """The sampler of a dataset, with or without types."""
    if isinstance(dataset, TypedDataset):
        return TypedNeighborSampler(typed_lists(dataset), fanouts, **options)
    return NeighborSampler(dataset.graph, fanouts, **options)


def check_times(dataset: Dataset) -> None:
    """Refuses times of seeds where no edge has any.

    Raises
    ------
    ValueError
    """
    if not isinstance(dataset, TypedDataset):
        dataset.graph._csr.require_time_order()
    elif all(edges.graph.times is None for edges in dataset.edges.values()):
        raise ValueError(
            "seeds have times, and no edge type does: build the dataset with time_attrs="
        )


def typed_lists(dataset: TypedDataset) -> TypedLists:
    """What a sampler needs of a typed dataset.

    Raises
    ------
    ValueError
        If its lists have out-neighbours: messages would flow against the edges, between types that
        models do not expect.
    """
    if dataset.neighbors == "out":
        raise ValueError(
            "mini-batches of a typed graph need in-neighbours, along whose edges messages flow: "
            "build the dataset with neighbors='in', or give the edge types in reverse"
        )
    return TypedLists(
        node_types=tuple(dataset.nodes),
        num_nodes={name: store.num_nodes for name, store in dataset.nodes.items()},
        graphs={name: store.graph for name, store in dataset.edges.items()},
        incoming={name: store.graph.is_incoming for name, store in dataset.edges.items()},
        to_user=dataset.to_user,
        to_stored=dataset.to_stored,
    )


def as_seed_ids(seeds: Any, num_nodes: int) -> IdArray:
    """Seeds as ids, (n,) int64, a copy: from ids, a mask, or None for all nodes."""
    if seeds is None:
        return np.arange(num_nodes, dtype=np.int64)
    array = np.asarray(seeds)
    if array.dtype == np.bool_:
        if array.shape != (num_nodes,):
            raise ValueError(f"a seed mask must have shape ({num_nodes},), not {array.shape}")
        return np.flatnonzero(array)
    return as_ids(array, num_nodes, "seeds").copy()  # the caller may change theirs


def _stored_seeds(seeds: IdArray, graph: Graph) -> IdArray | None:
    """The graph's stored ids of seeds; None where they take more memory than its table of ranks.

    Without them, each batch reads the table in as many places as it has seeds.
    """
    if seeds.nbytes > graph.section_bytes.get("node_rank", 0):
        return None
    order = np.argsort(seeds)  # the table is read once, from its beginning to its end
    stored = np.empty_like(seeds)
    stored[order] = graph._csr.to_stored(seeds[order])
    return stored


class _Untyped:
    """Around the nodes of a graph without types."""

    input_type: str | None = None

    def __init__(self, graph: Graph, seeds: Any) -> None:
        self.seeds = as_seed_ids(seeds, graph.num_nodes)
        self._stored_seeds = _stored_seeds(self.seeds, graph)
        self.translates_seeds = self._stored_seeds is None

    def sample(
        self,
        sampler: Any,
        positions: IdArray,
        times: IdArray | None,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None,
    ) -> AnySubgraph:
        """See `Neighborhoods`."""
        how: Any = {
            "seed_time": times,
            "epoch": epoch,
            "batch": batch,
            "readahead": None if readahead is None else readahead[0],
        }
        if self._stored_seeds is None:
            subgraph: AnySubgraph = sampler.sample(self.seeds[positions], **how)
        else:
            subgraph = sampler.sample_stored(self._stored_seeds[positions], **how)
        return subgraph


class _Typed:
    """Around the nodes of one type."""

    translates_seeds = False

    def __init__(self, dataset: TypedDataset, seeds: Any) -> None:
        kind, ids = _type_and_ids(dataset, seeds)
        self.input_type: str = kind
        nodes = dataset.nodes[kind]
        self.seeds = as_seed_ids(ids, nodes.num_nodes)
        self._stored_seeds = nodes.to_stored(self.seeds)

    def sample(
        self,
        sampler: Any,
        positions: IdArray,
        times: IdArray | None,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None,
    ) -> AnySubgraph:
        """See `Neighborhoods`."""
        kind = self.input_type
        ahead = None
        if readahead is not None:
            ahead = dict(zip(sampler.edge_types, readahead, strict=True))
        subgraph: AnySubgraph = sampler.sample_stored(
            {kind: self._stored_seeds[positions]},
            seed_time=None if times is None else {kind: times},
            epoch=epoch,
            batch=batch,
            readaheads=ahead,
        )
        return subgraph


def _type_and_ids(dataset: TypedDataset, seeds: Any) -> tuple[str, Any]:
    """A node type and its seeds, None for all of its nodes."""
    kind, ids = (seeds, None) if isinstance(seeds, str) else ("", None)
    if isinstance(seeds, tuple) and len(seeds) == 2 and isinstance(seeds[0], str):
        kind, ids = seeds
    if kind not in dataset.nodes:
        named = f", not {kind!r}" if kind else ""
        raise ValueError(
            f"the seeds of a typed graph are of one node type: give (node type, ids), or the type "
            f"alone for all of its nodes; the node types are {dataset.node_types}{named}"
        )
    return kind, ids
