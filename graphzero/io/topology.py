"""How the topology that is sampled comes into memory: a resident prefix, and hop read-ahead."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from mmap import PAGESIZE

import numpy as np
import numpy.typing as npt

from graphzero.graph.graph import Graph
from graphzero.graph.sampling_options import Sampling
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import Prefetch
from graphzero.sampling.hop_readahead import HopReadAhead
from graphzero.sampling.subgraph import Subgraph
from graphzero.store.residency import mincore_is_honest
from graphzero.store.resident_prefix import ResidentPrefix

__all__ = [
    "TopologyIO",
    "TopologyPrefix",
    "best_prefix",
    "sections_read",
    "touched_topology",
]

_OF_NODES = ("indptr", "node_ids", "node_rank")
_OF_EDGES = ("indices", "edge_ids")


def sections_read(
    graph: Graph, sampling: Sampling, *, timed: bool, translates_seeds: bool = True
) -> list[str]:
    """Sections of the file that sampling reads; `node_rank` only if it translates seeds."""
    names = [*_OF_NODES, *_OF_EDGES]
    if not translates_seeds:
        names.remove("node_rank")
    if sampling.needs_weights:
        names.append("cum_weights")
    if timed:
        names += ["times", "time_order"]
    return [name for name in names if name in graph.section_bytes]


@dataclass(frozen=True)
class TopologyPrefix:
    """What is resident of a graph's file.

    Attributes
    ----------
    goals : dict of str to int
        Bytes of each section.
    nodes : int
        It has the `indptr` entries and neighbour lists of all stored ids below.
    """

    goals: dict[str, int]
    nodes: int


def best_prefix(graph: Graph, sections: Sequence[str], num_bytes: int) -> TopologyPrefix:
    """The best use of some bytes: all sections, or the tables of nodes and then hubs' lists."""
    sizes = {name: graph.section_bytes[name] for name in sections}
    if sum(sizes.values()) <= num_bytes:
        return TopologyPrefix(sizes, graph.num_nodes)
    # Every mini-batch reads all parts of the tables of nodes, which are smaller than the lists.
    tables = {name: sizes[name] for name in _OF_NODES if name in sizes}
    resident = tables if 2 * sum(tables.values()) <= num_bytes else {}
    room = num_bytes - sum(resident.values())
    nodes = 0
    if graph.stored_order is not None:
        indptr = graph.indptr
        a_node = 0 if "indptr" in resident else graph.section_width("indptr")
        lists = [name for name in sections if name not in tables]
        an_edge = sum(graph.section_width(name) for name in lists)

        def needed(node: int) -> int:
            return node * a_node + int(indptr[node]) * an_edge

        nodes = bisect_right(range(graph.num_nodes + 1), room - a_node, key=needed) - 1
        nodes = max(0, nodes)
        prefixes = {name: int(indptr[nodes]) * graph.section_width(name) for name in lists}
        if a_node:
            prefixes["indptr"] = (nodes + 1) * a_node if nodes else 0
        resident = {**resident, **prefixes}
    return TopologyPrefix(resident, nodes)


def touched_topology(
    graph: Graph, sections: Sequence[str], subgraph: Subgraph
) -> npt.NDArray[np.int64]:
    """Pages that sampling touched, each as the least bytes with which `best_prefix` has it.

    Of a list in several pages the first and the last count. The tables of nodes are assumed to be
    resident.

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


class TopologyIO:
    """The resident topology of one iteration, and its hop read-ahead for the rest.

    Parameters
    ----------
    graph : Graph
    sections : sequence of str
        Those that are read, see `sections_read`.
    prefetch : Prefetch
    plan : IOPlan

    Attributes
    ----------
    prefixes : list of (ResidentPrefix, int)
        What is to be resident of each section, for a `PrefixKeeper`.
    """

    def __init__(
        self, graph: Graph, sections: Sequence[str], prefetch: Prefetch, plan: IOPlan
    ) -> None:
        self._graph = graph
        self._is_larger = plan.topology is not None
        self._trust_mincore = mincore_is_honest(graph.path)
        self._nodes = 0
        self.prefixes: list[tuple[ResidentPrefix, int]] = []
        graph.advise(prefetch.advice if plan.is_larger else "normal")
        if plan.topology is not None:
            best = best_prefix(graph, sections, plan.topology)
            self._nodes = best.nodes
            self.prefixes = [
                (graph.new_prefix(name), goal) for name, goal in best.goals.items() if goal > 0
            ]

    def hop_readahead(self) -> HopReadAhead | None:
        """Hop read-ahead for the next mini-batch; None where topology is left to page faults.

        It leaves out nodes only while all of the resident topology is in memory.
        """
        if not self._is_larger:
            return None
        nodes = self._nodes
        if not all(prefix.is_resident for prefix, _ in self.prefixes):
            nodes = 0
        return HopReadAhead(nodes, self._trust_mincore)
