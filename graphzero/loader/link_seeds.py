"""Seed edges as seeds of a sampler: both ends, their negatives, and where they are in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray, as_ids
from graphzero.graph.typed_dataset import TypedDataset
from graphzero.sampling.any_subgraph import AnySubgraph
from graphzero.sampling.hop_readahead import HopReadAhead
from graphzero.sampling.subgraph import Subgraph
from graphzero.store.schema import EdgeType

__all__ = ["Ends", "sample_ends", "seed_edges_of"]


@dataclass(frozen=True)
class Ends:
    """Both ends of the seed edges of a mini-batch, and of their negatives.

    Attributes
    ----------
    sources, destinations : (n,) and (m,) int64
        The user's ids: seed edges first.
    of_sources, of_destinations : (n,) and (m,) int64
        The seed edge, 0 to batch_size - 1, that each of them belongs to.
    """

    sources: IdArray
    destinations: IdArray
    of_sources: IdArray
    of_destinations: IdArray


def seed_edges_of(dataset: Dataset, given: Any) -> tuple[EdgeType | None, IdArray]:
    """The edge type, None without types, and the seed edges, (2, n) int64.

    Raises
    ------
    ValueError
        If they have another shape; if a typed graph's have no edge type.
    IndexError
        If an end is out of range.
    """
    if not isinstance(dataset, TypedDataset):
        return None, _checked(given, dataset.num_nodes, dataset.num_nodes)
    kind, edges = _type_and_edges(dataset, given)
    if edges is None:
        return kind, dataset.edges[kind].edge_index()
    counts = [dataset.nodes[end].num_nodes for end in (kind[0], kind[2])]
    return kind, _checked(edges, *counts)


def _checked(edges: Any, num_sources: int, num_destinations: int) -> IdArray:
    shape = np.shape(edges)
    if len(shape) != 2 or shape[0] != 2:
        raise ValueError(
            f"edge_label_index must have shape (2, n), sources above destinations, not {shape}"
        )
    counts = (num_sources, num_destinations)
    ends = [as_ids(edges[i], counts[i], f"edge_label_index[{i}]") for i in (0, 1)]
    return np.stack(ends)


def _type_and_edges(dataset: TypedDataset, given: Any) -> tuple[EdgeType, Any]:
    """An edge type and its seed edges, None for all of its edges."""
    pairs = [(given, None)]  # the type alone
    if isinstance(given, Sequence) and len(given) == 2:
        pairs.append((given[0], given[1]))
    for name, edges in pairs:
        is_name = isinstance(name, str) or (
            isinstance(name, tuple) and all(isinstance(part, str) for part in name)
        )
        if is_name:
            try:
                return dataset.edge_type_of(name), edges
            except KeyError as error:
                raise ValueError(f"edge_label_index: {error.args[0]}") from None
    raise ValueError(
        f"the seed edges of a typed graph are of one edge type: give (edge type, edges), or the "
        f"type alone for all of its edges; the edge types are {dataset.edge_types}"
    )


def sample_ends(
    sampler: Any,
    edge_type: EdgeType | None,
    ends: Ends,
    times: IdArray | None,
    *,
    epoch: int,
    batch: int,
    readahead: Sequence[HopReadAhead] | None,
) -> tuple[AnySubgraph, IdArray, IdArray]:
    """The neighbourhood of both ends.

    With a time for each seed edge, each end has a tree of its own; else each node is a seed once.

    Returns
    -------
    AnySubgraph
        Its `batch`, with times, has the seed edge to whose trees a node belongs.
    (n,) int64, (m,) int64
        Local ids of the sources and the destinations.
    """
    types = [None] if edge_type is None else list(dict.fromkeys((edge_type[0], edge_type[2])))
    both = [(ends.sources, ends.of_sources), (ends.destinations, ends.of_destinations)]
    if len(types) == 1:
        merged = tuple(np.concatenate(parts) for parts in zip(*both, strict=True))
        both = [(merged[0], merged[1])]
    seeds, local = {}, []
    for kind, (nodes, _) in zip(types, both, strict=True):
        if times is None:
            seeds[kind], where = np.unique(nodes, return_inverse=True)
        else:
            seeds[kind], where = nodes, np.arange(len(nodes))
        local.append(where)
    if len(types) == 1:
        local = list(np.split(local[0], [len(ends.sources)]))
    seed_time = None
    if times is not None:
        seed_time = {kind: times[links] for kind, (_, links) in zip(types, both, strict=True)}
    how = {"epoch": epoch, "batch": batch}
    if edge_type is None:
        one_time = None if seed_time is None else seed_time[None]
        ahead: Any = None if readahead is None else readahead[0]
        subgraph: AnySubgraph = sampler.sample(
            seeds[None], seed_time=one_time, readahead=ahead, **how
        )
    else:
        ahead = None
        if readahead is not None:
            ahead = dict(zip(sampler.edge_types, readahead, strict=True))
        subgraph = sampler.sample(seeds, seed_time=seed_time, readaheads=ahead, **how)
    if times is not None:
        links_of = {kind: links for kind, (_, links) in zip(types, both, strict=True)}
        subgraph = _with_links(subgraph, links_of)
    return subgraph, local[0], local[1]


def _with_links(subgraph: AnySubgraph, links_of: dict[Any, IdArray]) -> AnySubgraph:
    """Has `batch` number seed edges, not trees."""
    if isinstance(subgraph, Subgraph):
        assert subgraph.batch is not None
        return replace(subgraph, batch=links_of[None][subgraph.batch])
    assert subgraph.batch is not None
    # trees are numbered over the node types in their order
    of_tree = np.concatenate([links_of[kind] for kind in subgraph.batch if kind in links_of])
    return replace(subgraph, batch={kind: of_tree[trees] for kind, trees in subgraph.batch.items()})
