"""Batches of one shape: the sizes to which ``pad=`` fills up the hops of mini-batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import Sampling
from graphzero.sampling.sampler import NeighborSampler, TypedSubgraph
from graphzero.store.manifest import EDGES, NODES, EdgeType
from graphzero.units import as_count

LEARNT_BATCHES = 3  # from which "auto" takes sizes: the first batch may take as long as four
_MARGIN = (
    1.03  # over the largest of them: hops of 1,024 seeds differ by about 1 % from batch to batch
)
_MULTIPLE = 64
_NUM_SIZES = 3
_GROWTH = 1.25  # from each size to the next
_FORM = 'pad="auto", or sizes by hop: pad={"nodes": [seeds, hop, ...], "edges": [hop, ...]}'


# Of each node type seeds, then the new nodes of each hop; of each edge type the edges of each hop.
HopSizes: TypeAlias = "dict[str | EdgeType, list[int]]"


def pad_argument(sizes: HopSizes) -> dict[str, Any]:
    """What `pad` takes: lists, or lists by type."""
    if NODES in sizes:
        return {"nodes": sizes[NODES], "edges": sizes[EDGES]}
    nodes = {kind: hops for kind, hops in sizes.items() if isinstance(kind, str)}
    return {"nodes": nodes, "edges": {k: hops for k, hops in sizes.items() if k not in nodes}}


def state_of(sizes: HopSizes) -> dict[str, list[int]]:
    """The sizes in plain values, for a checkpoint."""
    return {k if isinstance(k, str) else "__".join(k): hops for k, hops in sizes.items()}


def as_pad(value: Any) -> str | tuple[Mapping[str, Any], ...] | None:
    """The argument `pad` in one form: None, "auto", or mappings of sizes.

    Raises
    ------
    ValueError
        If it is something else.
    """
    if value is None or (isinstance(value, str) and value == "auto"):
        return value
    sizes = (value,) if isinstance(value, Mapping) else value
    is_sequence = isinstance(sizes, Sequence) and len(sizes) > 0 and not isinstance(sizes, str)
    if is_sequence and all(isinstance(s, Mapping) and {*s} == {"nodes", "edges"} for s in sizes):
        return tuple(sizes)
    raise ValueError(f"pad must be {_FORM}, not {value!r}")


def check_sampling(sampling: Sampling) -> None:
    """Refuses what cannot be filled up.

    Raises
    ------
    ValueError
    """
    if sampling.disjoint:
        raise ValueError(
            "pad excludes disjoint=True: each node is in the tree of a seed, and added ones are in "
            "none. Leave one of the two out"
        )
    if sampling.subgraph_type == "induced":
        raise ValueError(
            "pad excludes subgraph_type='induced', whose edges are of no hop that could be filled "
            "up: leave one of the two out"
        )


def reached(sampler: NeighborSampler, seed_types: Iterable[str]) -> HopSizes:
    """1 for each hop in which a type may have nodes or edges, else 0."""
    stores, seed_types = sampler.dataset.edges, {*seed_types}
    reach: HopSizes = {name: [int(name in seed_types)] for name in sampler.dataset.nodes}
    reach |= {kind: [] for kind in stores}
    for h in range(sampler.hops.shape[1]):
        for fanouts, (kind, store) in zip(sampler.hops, stores.items(), strict=True):
            reach[kind].append(int(fanouts[h] != 0 and reach[store.owner.node_type][h] > 0))
        types = {store.neighbor.node_type for kind, store in stores.items() if reach[kind][h]}
        for name in sampler.dataset.nodes:
            reach[name].append(int(name in types))
    return reach


def learnt_sizes(
    subgraphs: Sequence[TypedSubgraph], reach: HopSizes, least_seeds: Mapping[str, int]
) -> list[HopSizes]:
    """Sizes for mini-batches that are like some, and for larger ones.

    Of the node types in `least_seeds`, no mini-batch has more seeds than these.
    """
    sizes: HopSizes = {}
    for kind, hops in reach.items():
        largest = [max(of_hop) for of_hop in zip(*(s.counts[kind] for s in subgraphs), strict=True)]
        sizes[kind] = [
            _rounded(_MARGIN * count + 1) * is_reached
            for count, is_reached in zip(largest, hops, strict=True)
        ]
    for name, count in least_seeds.items():
        sizes[name][0] = _rounded(count + 1)
    ascending = [sizes]
    while len(ascending) < _NUM_SIZES:
        ascending.append(
            {
                kind: [_rounded(_GROWTH * size) if size else 0 for size in hops]
                for kind, hops in ascending[-1].items()
            }
        )
    return ascending


def _rounded(count: float) -> int:
    return math.ceil(count / _MULTIPLE) * _MULTIPLE


def chosen_sizes(
    pad: Sequence[Mapping[str, Any]],
    dataset: Dataset,
    reach: HopSizes,
    least_seeds: Mapping[str, int],
) -> list[HopSizes]:
    """Sizes that a user has chosen, checked.

    Raises
    ------
    ValueError
        If a size is below 1 where there may be nodes or edges; if hops or types are missing; if
        there is no room for the seeds and one more.
    """
    checked = []
    for sizes in pad:
        nodes, edges = sizes["nodes"], sizes["edges"]
        if not dataset.is_typed:
            nodes, edges = {NODES: nodes}, {EDGES: edges}
        size = _checked(
            {**nodes, **{_edge_type(kind): hops for kind, hops in edges.items()}}, reach
        )
        for name, count in least_seeds.items():
            if size[name][0] <= count:
                raise ValueError(
                    f"pad's first size of nodes must be above the batch size, {count}: at least "
                    f"one node is added to the seeds; it is {size[name][0]}"
                )
        checked.append(size)
    return checked


def _edge_type(kind: Any) -> Any:
    """A name such as "user__rates__movie" as an edge type."""
    return tuple(kind.split("__")) if isinstance(kind, str) and kind else kind


def _checked(sizes: Mapping[Any, Any], reach: HopSizes) -> HopSizes:
    if unknown := [kind for kind in sizes if kind not in reach]:
        raise ValueError(f"pad has sizes of {unknown}, and the types are {[*reach]}")
    checked: HopSizes = {}
    for kind, hops in reach.items():
        named = "pad's nodes" if isinstance(kind, str) else "pad's edges"
        if kind not in (NODES, EDGES):
            named += f" of {kind!r}"
        of_type = [as_count(size, named, 0) for size in sizes.get(kind, [0] * len(hops))]
        if len(of_type) != len(hops):
            raise ValueError(f"{named} must be {len(hops)} sizes, one for each hop: {_FORM}")
        for h, (size, is_reached) in enumerate(zip(of_type, hops, strict=True)):
            if is_reached and size < 1:
                raise ValueError(f"{named} must be at least 1 in hop {h}, not {size}: {_FORM}")
            if size and not is_reached:
                raise ValueError(f"{named} must be 0 in hop {h}, which no seed reaches so")
        checked[kind] = of_type
    return checked
