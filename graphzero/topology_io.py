"""How the topology that is sampled comes into memory, as an `IOPlan` says."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from graphzero.graph import Graph
from graphzero.io_plan import IOPlan
from graphzero.kept import KeptRange
from graphzero.prefetch import Prefetch
from graphzero.residency import mincore_is_honest
from graphzero.resident import HeadKeeper

__all__ = ["TopologyHead", "TopologyIO", "ask_hop_by_hop", "head_of", "sections_read"]

_OF_NODES = ("indptr", "node_ids", "node_rank")
_OF_EDGES = ("indices", "edge_ids")


def sections_read(graph: Graph, *, weighted: bool, timed: bool) -> list[str]:
    """Sections of the file that sampling reads."""
    names = [*_OF_NODES, *_OF_EDGES]
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
