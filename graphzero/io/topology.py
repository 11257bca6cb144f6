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
from graphzero.io.prefixes import PrefixLoader
from graphzero.sampling.subgraph import Subgraph
from graphzero.store.residency import mincore_is_honest
from graphzero.store.resident_prefix import ResidentPrefix

__all__ = [
    "TopologyIO",
    "TopologyPrefix",
    "best_prefix",
    "sections_read",
    "set_hop_readahead",
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
    goals : list of (ResidentPrefix, int)
        Bytes of each section.
    nodes : int
        It has the `indptr` entries and neighbour lists of all stored ids below.
    """

    goals: list[tuple[ResidentPrefix, int]]
    nodes: int


def best_prefix(graph: Graph, sections: Sequence[str], num_bytes: int) -> TopologyPrefix:
    """The best use of some bytes: all sections, or the tables of nodes and then hubs' lists."""
    sizes = {name: graph.section_bytes[name] for name in sections}
    if sum(sizes.values()) <= num_bytes:
        return TopologyPrefix(_goals(graph, sizes), graph.num_nodes)
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
    return TopologyPrefix(_goals(graph, resident), nodes)


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


def _goals(graph: Graph, resident: dict[str, int]) -> list[tuple[ResidentPrefix, int]]:
    # sections that an earlier iteration needed and this one does not shrink to nothing
    return [(prefix, resident.get(name, 0)) for name, prefix in graph.resident_prefixes.items()]


def set_hop_readahead(graph: Graph, resident_nodes: int | None) -> None:
    """Switches hop read-ahead on or off: mini-batches request the topology of each hop first.

    Parameters
    ----------
    graph : Graph
    resident_nodes : int or None
        The topology of stored ids below is resident, and not requested. None: hop read-ahead is
        off.
    """
    graph._csr.set_hop_readahead(resident_nodes, mincore_is_honest(graph.path))


class TopologyIO:
    """The resident topology of one iteration, and its hop read-ahead for the rest.

    Parameters
    ----------
    graph : Graph
    sections : sequence of str
        Those that are read, see `sections_read`.
    prefetch : Prefetch
    plan : IOPlan
    """

    def __init__(
        self, graph: Graph, sections: Sequence[str], prefetch: Prefetch, plan: IOPlan
    ) -> None:
        self._loader: PrefixLoader | None = None
        graph.advise(prefetch.advice if plan.is_larger else "normal")
        if plan.topology is None:
            set_hop_readahead(graph, None)
            return
        prefix = best_prefix(graph, sections, plan.topology)
        set_hop_readahead(graph, 0)  # until the prefix is resident
        resident_nodes = None if prefix.nodes == graph.num_nodes else prefix.nodes
        self._loader = PrefixLoader(prefix.goals, lambda: set_hop_readahead(graph, resident_nodes))

    def close(self) -> None:
        """Ends the thread; what is resident stays so."""
        if self._loader is not None:
            self._loader.close()
