"""How the topology that is sampled comes into memory, as an `IOPlan` says."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from mmap import PAGESIZE

import numpy as np
import numpy.typing as npt

from graphzero.graph.graph import Graph
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import Prefetch
from graphzero.io.prefix_keeper import HeadKeeper
from graphzero.sampling.sampler import Subgraph
from graphzero.store.residency import mincore_is_honest
from graphzero.store.resident_prefix import KeptRange

__all__ = [
    "TopologyHead",
    "TopologyIO",
    "ask_hop_by_hop",
    "head_of",
    "sections_read",
    "touched_topology",
]

_OF_NODES = ("indptr", "node_ids", "node_rank")
_OF_EDGES = ("indices", "edge_ids")


def sections_read(
    graph: Graph, *, weighted: bool, timed: bool, translates_seeds: bool = True
) -> list[str]:
    """Sections of the file that sampling reads; of seeds by stored ids, without their ranks."""
    names = [*_OF_NODES, *_OF_EDGES]
    if not translates_seeds:
        names.remove("node_rank")
    if weighted:
        names.append("cum_weights")
    if timed:
        names += ["times", "time_order"]
    return [name for name in names if name in graph.section_bytes]


@dataclass(frozen=True)
class TopologyHead:
    """What is kept in memory of a file.

    Attributes
    ----------
    goals : list of (KeptRange, int)
        Bytes of each section.
    nodes : int
        Row pointers and lists of the stored ids below are among them.
    """

    goals: list[tuple[KeptRange, int]]
    nodes: int


def head_of(graph: Graph, sections: Sequence[str], num_bytes: int) -> TopologyHead:
    """What is best kept of some sections: all, or tables of nodes and then the lists of hubs."""
    sizes = {name: graph.section_bytes[name] for name in sections}
    if sum(sizes.values()) <= num_bytes:
        return TopologyHead(_goals(graph, sizes), graph.num_nodes)
    # Every batch reads all over the tables of nodes, which are small beside the lists.
    tables = {name: sizes[name] for name in _OF_NODES if name in sizes}
    kept = tables if 2 * sum(tables.values()) <= num_bytes else {}
    left = num_bytes - sum(kept.values())
    nodes = 0
    if graph.stored_order is not None:
        indptr = graph.indptr
        a_node = 0 if "indptr" in kept else graph.section_width("indptr")
        lists = [name for name in sections if name not in tables]
        an_edge = sum(graph.section_width(name) for name in lists)

        def needed(node: int) -> int:
            return node * a_node + int(indptr[node]) * an_edge

        nodes = bisect_right(range(graph.num_nodes + 1), left - a_node, key=needed) - 1
        nodes = max(0, nodes)
        heads = {name: int(indptr[nodes]) * graph.section_width(name) for name in lists}
        if a_node:
            heads["indptr"] = (nodes + 1) * a_node if nodes else 0
        kept = {**kept, **heads}
    return TopologyHead(_goals(graph, kept), nodes)


def touched_topology(
    graph: Graph, sections: Sequence[str], subgraph: Subgraph
) -> npt.NDArray[np.int64]:
    """Pages that sampling has touched, each as the bytes with which `head_of` keeps it.

    Of a list in several pages the first and the last count; where no tables would be kept, they are
    taken to be.

    Returns
    -------
    (num_pages,) int64
        Ascending.
    """
    sizes = {name: graph.section_bytes[name] for name in sections}
    total = sum(sizes.values())
    tables = sum(sizes[name] for name in _OF_NODES if name in sizes)
    lists = [name for name in sections if name not in _OF_NODES]
    an_edge = sum(graph.section_width(name) for name in lists)
    nodes = subgraph.stored_id
    frontier = nodes[: sum(subgraph.num_sampled_nodes[:-1])]
    seeds = nodes[: subgraph.num_sampled_nodes[0]]
    indptr = graph.indptr
    first, after = indptr[frontier].astype(np.int64), indptr[frontier + 1].astype(np.int64)
    edges = np.concatenate([first, after - 1])[np.tile(after > first, 2)]
    prices = [np.empty(0, np.int64)]
    for name in sections:
        width = graph.section_width(name)
        if name in lists:
            pages = np.unique(edges * width // PAGESIZE)
            up_to = tables + (pages + 1) * (PAGESIZE // width) * an_edge
            hubs = np.maximum(2 * tables, up_to)
            prices.append(hubs if graph.stored_order is not None else np.full_like(pages, total))
        else:
            ids = {"indptr": frontier, "node_rank": seeds}.get(name, nodes)
            pages = np.unique(ids * width // PAGESIZE)
            prices.append(np.full_like(pages, 2 * tables))
    return np.sort(np.minimum(np.concatenate(prices), total))


def _goals(graph: Graph, kept: dict[str, int]) -> list[tuple[KeptRange, int]]:
    # sections that were kept before and are not wanted any more are let go
    return [(head, kept.get(name, 0)) for name, head in graph.heads.items()]


def ask_hop_by_hop(graph: Graph, kept_nodes: int | None) -> None:
    """Has batches ask for the topology of each hop, but for that of the first nodes.

    Parameters
    ----------
    graph : Graph
    kept_nodes : int or None
        Stored ids below are in memory. None: nothing is asked for.
    """
    graph._csr.ask_ahead(kept_nodes, mincore_is_honest(graph.path))


class TopologyIO:
    """Keeps the head of a graph's file in memory during one iteration, and has the rest read ahead.

    Parameters
    ----------
    graph : Graph
    sections : sequence of str
        That are read, see `sections_read`.
    prefetch : Prefetch
    plan : IOPlan
    """

    def __init__(
        self, graph: Graph, sections: Sequence[str], prefetch: Prefetch, plan: IOPlan
    ) -> None:
        self._keeper: HeadKeeper | None = None
        graph.advise(prefetch.advice if plan.is_larger else "normal")
        if plan.topology is None:
            ask_hop_by_hop(graph, None)
            return
        head = head_of(graph, sections, plan.topology)
        ask_hop_by_hop(graph, 0)  # until the head is there
        kept = None if head.nodes == graph.num_nodes else head.nodes
        self._keeper = HeadKeeper(head.goals, lambda: ask_hop_by_hop(graph, kept))

    def close(self) -> None:
        """Ends the thread; what is in memory stays."""
        if self._keeper is not None:
            self._keeper.close()
