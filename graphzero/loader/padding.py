"""Batches of one shape: the sizes to which ``pad=`` fills up the hops of mini-batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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


@dataclass(frozen=True)
class HopSizes:
    """To how many nodes and edges the hops of a mini-batch are filled up.

    Attributes
    ----------
    nodes : dict of str to list of int
        Of every node type: seeds, then the new nodes of each hop.
    edges : dict of EdgeType to list of int
        Of every edge type: those of each hop.
    """

    nodes: dict[str, list[int]]
    edges: dict[EdgeType, list[int]]

    def as_argument(self) -> dict[str, Any]:
        """What `pad` takes: lists, or lists by type."""
        if NODES in self.nodes:
            return {"nodes": self.nodes[NODES], "edges": self.edges[EDGES]}
        return {"nodes": dict(self.nodes), "edges": dict(self.edges)}

    def state(self) -> dict[str, Any]:
        """The same in plain values, for a checkpoint."""
        edges = {"__".join(kind): sizes for kind, sizes in self.edges.items()}
        return {"nodes": dict(self.nodes), "edges": edges}


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
    reasons = {
        "disjoint=True": sampling.disjoint
        and "each node is in the tree of a seed, and added ones belong to none",
        "subgraph_type='induced'": sampling.subgraph_type == "induced"
        and "its edges belong to no hop that could be filled up",
    }
    for option, reason in reasons.items():
        if reason:
            raise ValueError(f"pad excludes {option}: {reason}. Leave one of the two out")


def reached(sampler: NeighborSampler, seed_types: Iterable[str]) -> HopSizes:
    """1 for each hop in which a type may have nodes or edges, else 0."""
    stores, seed_types = sampler.dataset.edges, {*seed_types}
    nodes = {name: [int(name in seed_types)] for name in sampler.dataset.nodes}
    edges: dict[EdgeType, list[int]] = {kind: [] for kind in stores}
    for h in range(sampler.hops.shape[1]):
        for fanouts, (kind, store) in zip(sampler.hops, stores.items(), strict=True):
            edges[kind].append(int(fanouts[h] != 0 and nodes[store.owner.node_type][h] > 0))
        for name, counts in nodes.items():
            reaching = [kind for kind in stores if edges[kind][h]]
            counts.append(int(any(stores[k].neighbor.node_type == name for k in reaching)))
    return HopSizes(nodes, edges)


def learnt_sizes(
    subgraphs: Sequence[TypedSubgraph], reach: HopSizes, least_seeds: Mapping[str, int]
) -> list[HopSizes]:
    """Sizes for mini-batches that are like some, and for larger ones.

    Of the node types in `least_seeds`, no mini-batch has more seeds than these.
    """

    def sizes(counts: Sequence[Sequence[int]], reach: Sequence[int], spare: int) -> list[int]:
        largest = np.max(counts, axis=0).tolist() if len(counts[0]) else []
        return [
            _rounded(count * _MARGIN + spare) if is_reached else 0
            for count, is_reached in zip(largest, reach, strict=True)
        ]

    nodes = {
        name: sizes([subgraph.num_sampled_nodes[name] for subgraph in subgraphs], of_type, 1)
        for name, of_type in reach.nodes.items()
    }
    for name, count in least_seeds.items():
        nodes[name][0] = _rounded(count + 1)
    edges = {
        kind: sizes([(subgraph.num_sampled_edges or {})[kind] for subgraph in subgraphs], hops, 0)
        for kind, hops in reach.edges.items()
    }
    ascending = [HopSizes(nodes, edges)]
    while len(ascending) < _NUM_SIZES:
        largest = ascending[-1]
        ascending.append(HopSizes(_grown(largest.nodes), _grown(largest.edges)))
    return ascending


def _rounded(count: float) -> int:
    return max(1, -int(-count // _MULTIPLE)) * _MULTIPLE


def _grown(sizes: Mapping[Any, Sequence[int]]) -> dict[Any, list[int]]:
    return {
        kind: [_rounded(_GROWTH * size) if size else 0 for size in of_type]
        for kind, of_type in sizes.items()
    }


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
        edges = {_edge_type(kind): hops for kind, hops in edges.items()}
        size = HopSizes(
            _checked(nodes, reach.nodes, "nodes"), _checked(edges, reach.edges, "edges")
        )
        for name, count in least_seeds.items():
            if size.nodes[name][0] <= count:
                raise ValueError(
                    f"pad's first size of nodes must be above the batch size, {count}: at least "
                    f"one node is added to the seeds; it is {size.nodes[name][0]}"
                )
        checked.append(size)
    return checked


def _edge_type(kind: Any) -> Any:
    """A name such as "user__rates__movie" as an edge type."""
    return tuple(kind.split("__")) if isinstance(kind, str) and kind else kind


def _checked(
    sizes: Mapping[Any, Any], reach: Mapping[Any, Sequence[int]], what: str
) -> dict[Any, list[int]]:
    if unknown := [kind for kind in sizes if kind not in reach]:
        raise ValueError(f"pad has {what} of {unknown}, and the types are {list(reach)}")
    checked = {}
    for kind, hops in reach.items():
        named = (
            f"pad's {what} of {kind!r}"
            if len(reach) > 1 or kind not in (NODES, EDGES)
            else (f"pad's {what}")
        )
        if kind not in sizes and any(hops):
            raise ValueError(f"{named} are missing: {_FORM}")
        of_type = [as_count(size, named, 0) for size in sizes.get(kind, [0] * len(hops))]
        if len(of_type) != len(hops):
            raise ValueError(f"{named} must be {len(hops)} sizes, one for each hop: {_FORM}")
        for h, (size, is_reached) in enumerate(zip(of_type, hops, strict=True)):
            if is_reached and size < 1:
                raise ValueError(f"{named} in hop {h} must be at least 1, not {size}")
            if size and not is_reached:
                raise ValueError(f"{named} in hop {h} must be 0: no seed reaches them there")
        checked[kind] = of_type
    return checked
