"""How the topology that is sampled comes into memory: a resident prefix, and hop read-ahead."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from mmap import PAGESIZE

import numpy as np

from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray
from graphzero.graph.sampling_options import Sampling
from graphzero.graph.typed_dataset import EdgeStore, TypedDataset
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import Prefetch
from graphzero.sampling.any_subgraph import AnySubgraph
from graphzero.sampling.hop_readahead import HopReadAhead
from graphzero.sampling.subgraph import Subgraph
from graphzero.sampling.typed_subgraph import TypedSubgraph
from graphzero.store.residency import mincore_is_honest
from graphzero.store.resident_prefix import ResidentPrefix

__all__ = [
    "TopologyFile",
    "TopologyIO",
    "TopologyPrefix",
    "TouchedNodes",
    "best_prefix",
    "sections_read",
    "topology_files",
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


@dataclass(frozen=True)
class TouchedNodes:
    """What sampling a mini-batch touches of the lists of a file, by stored ids.

    Attributes
    ----------
    seeds : (n,) int64
        Which are translated.
    frontier : (n,) int64
        Whose lists are read.
    nodes : (n,) int64
        Whose ids are looked up.
    is_hot : bool
        Whether hubs have the lowest ids.
    """

    seeds: IdArray
    frontier: IdArray
    nodes: IdArray
    is_hot: bool


@dataclass(frozen=True)
class TopologyFile:
    """A graph file that sampling reads.

    Attributes
    ----------
    graph : Graph
    sections : tuple of str
        Those that are read, see `sections_read`.
    is_hot : bool
        Whether hubs have the lowest ids.
    touched : callable
        From a subgraph to what sampling it has touched.
    """

    graph: Graph
    sections: tuple[str, ...]
    is_hot: bool
    touched: Callable[[AnySubgraph], TouchedNodes]

    @property
    def num_bytes(self) -> int:
        """Bytes of the sections that are read."""
        return sum(self.graph.section_bytes[name] for name in self.sections)


def topology_files(
    dataset: Dataset, sampling: Sampling, *, timed: bool, translates_seeds: bool = True
) -> list[TopologyFile]:
    """The graph file of a dataset, or those of all its edge types, in order."""
    if isinstance(dataset, TypedDataset):
        return [_typed_file(edges, sampling, timed=timed) for edges in dataset.edges.values()]
    graph = dataset.graph
    sections = sections_read(graph, sampling, timed=timed, translates_seeds=translates_seeds)
    is_hot = graph.stored_order is not None

    def touched(subgraph: AnySubgraph) -> TouchedNodes:
        assert isinstance(subgraph, Subgraph)
        counts, nodes = subgraph.num_sampled_nodes, subgraph.stored_id
        return TouchedNodes(nodes[: counts[0]], nodes[: sum(counts[:-1])], nodes, is_hot)

    return [TopologyFile(graph, tuple(sections), is_hot, touched)]


def _typed_file(edges: EdgeStore, sampling: Sampling, *, timed: bool) -> TopologyFile:
    owner = edges.owner
    none = np.empty(0, np.int64)

    def touched(subgraph: AnySubgraph) -> TouchedNodes:
        assert isinstance(subgraph, TypedSubgraph)
        counts = subgraph.num_sampled_nodes[owner.node_type]
        frontier = subgraph.stored_id[owner.node_type][: sum(counts[:-1])]
        return TouchedNodes(none, frontier, none, owner.is_hot)

    sections = sections_read(edges.graph, sampling, timed=timed)
    return TopologyFile(edges.graph, tuple(sections), owner.is_hot, touched)


def best_prefix(
    graph: Graph, sections: Sequence[str], num_bytes: int, *, is_hot: bool
) -> TopologyPrefix:
    """The best use of some bytes: all sections, or the tables of nodes and then hubs' lists."""
    sizes = {name: graph.section_bytes[name] for name in sections}
    if sum(sizes.values()) <= num_bytes:
        return TopologyPrefix(sizes, graph.num_nodes)
    # Every mini-batch reads all parts of the tables of nodes, which are smaller than the lists.
    tables = {name: sizes[name] for name in _OF_NODES if name in sizes}
    resident = tables if 2 * sum(tables.values()) <= num_bytes else {}
    room = num_bytes - sum(resident.values())
    nodes = 0
    if is_hot:
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


def touched_topology(files: Sequence[TopologyFile], subgraph: AnySubgraph) -> IdArray:
    """Pages that sampling touched, each as the least bytes of topology with which it is resident.

    `TopologyIO` divides these bytes among the files in proportion to their sizes.

    Returns
    -------
    (num_pages,) int64
        Ascending.
    """
    total = sum(file.num_bytes for file in files)
    prices = [np.empty(0, np.int64)]
    for file in files:
        own = _touched_pages(file.graph, file.sections, file.touched(subgraph))
        if 0 < file.num_bytes < total:
            own = np.ceil(own * (total / file.num_bytes)).astype(np.int64)
        prices.append(own)
    return np.sort(np.concatenate(prices))


def _touched_pages(graph: Graph, sections: Sequence[str], touched: TouchedNodes) -> IdArray:
    """Pages of one file, each as the least bytes with which `best_prefix` has it.

    Of a list in several pages the first and the last count. The tables of nodes are assumed to be
    resident.
    """
    sizes = {name: graph.section_bytes[name] for name in sections}
    total = sum(sizes.values())
    tables = sum(sizes[name] for name in _OF_NODES if name in sizes)
    lists = [name for name in sections if name not in _OF_NODES]
    an_edge = sum(graph.section_width(name) for name in lists)
    frontier = touched.frontier
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
            prices.append(hubs if touched.is_hot else np.full_like(pages, total))
        else:
            ids = {"indptr": frontier, "node_rank": touched.seeds}.get(name, touched.nodes)
            pages = np.unique(ids * width // PAGESIZE)
            prices.append(np.full_like(pages, 2 * tables))
    return np.minimum(np.concatenate(prices), total)


class TopologyIO:
    """The resident topology of one iteration, and its hop read-ahead for the rest.

    Parameters
    ----------
    files : sequence of TopologyFile
    prefetch : Prefetch
    plan : IOPlan

    Attributes
    ----------
    prefixes : list of (ResidentPrefix, int)
        What is to be resident of each section, for a `PrefixKeeper`.
    """

    def __init__(self, files: Sequence[TopologyFile], prefetch: Prefetch, plan: IOPlan) -> None:
        self._parts: list[_ResidentPart] = []
        self.prefixes: list[tuple[ResidentPrefix, int]] = []
        total = sum(file.num_bytes for file in files)
        for file in files:
            file.graph.advise(prefetch.advice if plan.is_larger else "normal")
            if plan.topology is None:
                continue
            share = plan.topology
            if file.num_bytes < total:
                share = min(file.num_bytes, share * file.num_bytes // max(1, total))
            best = best_prefix(file.graph, file.sections, share, is_hot=file.is_hot)
            prefixes = [
                (file.graph.new_prefix(name), goal) for name, goal in best.goals.items() if goal > 0
            ]
            self.prefixes += prefixes
            honest = mincore_is_honest(file.graph.path)
            self._parts.append(
                _ResidentPart(best.nodes, [prefix for prefix, _ in prefixes], honest)
            )

    def hop_readahead(self) -> tuple[HopReadAhead, ...] | None:
        """Hop read-ahead of each file for the next mini-batch; None if page faults bring topology.

        It leaves out nodes only while all of the file's resident topology is in memory.
        """
        if not self._parts:
            return None
        return tuple(part.hop_readahead() for part in self._parts)


@dataclass(frozen=True)
class _ResidentPart:
    """What is resident of one file."""

    nodes: int
    prefixes: list[ResidentPrefix]
    trust_mincore: bool

    def hop_readahead(self) -> HopReadAhead:
        nodes = self.nodes if all(prefix.is_resident for prefix in self.prefixes) else 0
        return HopReadAhead(nodes, self.trust_mincore)
