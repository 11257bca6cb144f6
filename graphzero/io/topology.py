"""How the topology that is sampled comes into memory: a resident prefix, and hop read-ahead."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from mmap import PAGESIZE

import numpy as np

from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray
from graphzero.graph.sampling_options import Sampling
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import Prefetch
from graphzero.sampling.sampler import HopReadAhead, TypedSubgraph
from graphzero.store.mapped_file import ResidentPrefix, mincore_is_honest

_OF_NODES = ("indptr", "node_ids", "node_rank")
_OF_EDGES = ("indices", "edge_ids")


@dataclass(frozen=True)
class TopologyFile:
    """A graph file that sampling reads.

    Attributes
    ----------
    graph : Graph
    sections : tuple of str
        Those that are read.
    node_type : str
        Whose neighbour lists it has.
    is_hot : bool
        Whether hubs have the lowest ids.
    """

    graph: Graph
    sections: tuple[str, ...]
    node_type: str
    is_hot: bool

    @property
    def num_bytes(self) -> int:
        """Bytes of the sections that are read."""
        return self._bytes_of(self.sections)

    def _bytes_of(self, sections: Sequence[str]) -> int:
        return sum(self.graph.section_bytes[name] for name in sections)

    @property
    def _tables(self) -> list[str]:
        """Sections with an entry for each node, which every mini-batch reads all over."""
        return [name for name in self.sections if name in _OF_NODES]

    @property
    def _lists(self) -> list[str]:
        return [name for name in self.sections if name not in _OF_NODES]

    @property
    def _edge_bytes(self) -> int:
        return sum(self.graph.section_width(name) for name in self._lists)

    def best_prefix(self, num_bytes: int) -> tuple[dict[str, int], int]:
        """The best use of some bytes: all sections, or the tables of nodes and then hubs' lists.

        Returns
        -------
        (dict of str to int, int)
            Bytes of each section; and the number of nodes, from the first one on, whose `indptr`
            entries and neighbour lists are among them.
        """
        graph, sizes = self.graph, self.graph.section_bytes
        if self.num_bytes <= num_bytes:
            return {name: sizes[name] for name in self.sections}, graph.num_nodes
        # tables are smaller than the lists
        has_tables = 2 * self._bytes_of(self._tables) <= num_bytes
        resident = {name: sizes[name] for name in self._tables} if has_tables else {}
        if not self.is_hot:
            return resident, 0
        left = num_bytes - sum(resident.values())
        indptr, an_edge = graph.indptr, self._edge_bytes
        a_node = 0 if "indptr" in resident else graph.section_width("indptr")

        def needed(node: int) -> int:
            return node * a_node + int(indptr[node]) * an_edge

        nodes = bisect_right(range(graph.num_nodes + 1), left - a_node, key=needed) - 1
        nodes = max(0, nodes)
        for name in self._lists:
            resident[name] = int(indptr[nodes]) * graph.section_width(name)
        if a_node:
            resident["indptr"] = (nodes + 1) * a_node if nodes else 0
        return resident, nodes

    def touched_pages(self, subgraph: TypedSubgraph) -> IdArray:
        """Pages that sampling touched, each as the least bytes with which `best_prefix` has it.

        Of a list in several pages the first and the last count. The tables of nodes are assumed to
        be resident.
        """
        graph, total, indptr = self.graph, self.num_bytes, self.graph.indptr
        counts = subgraph.num_sampled_nodes[self.node_type]
        nodes = subgraph.stored_id[self.node_type]
        seeds, frontier = nodes[: counts[0]], nodes[: sum(counts[:-1])]
        first, after = indptr[frontier].astype(np.int64), indptr[frontier + 1].astype(np.int64)
        edges = np.concatenate([first, after - 1])[np.tile(after > first, 2)]
        tables = self._bytes_of(self._tables)
        found = [np.empty(0, np.int64)]
        for name in self.sections:
            width = graph.section_width(name)
            if name in _OF_NODES:
                ids = {"indptr": frontier, "node_rank": seeds}.get(name, nodes)
                found.append(np.full_like(np.unique(ids * width // PAGESIZE), 2 * tables))
            else:
                pages = np.unique(edges * width // PAGESIZE)
                up_to = tables + (pages + 1) * (PAGESIZE // width) * self._edge_bytes
                hubs = np.maximum(2 * tables, up_to)
                found.append(hubs if self.is_hot else np.full_like(pages, total))
        return np.minimum(np.concatenate(found), total)


def topology_files(
    dataset: Dataset, sampling: Sampling, *, timed: bool, translates_seeds: bool = True
) -> list[TopologyFile]:
    """The graph files of all edge types, in order; `node_rank` is read if it translates seeds."""
    names = [*_OF_NODES[: 2 + translates_seeds], *_OF_EDGES]
    names += ["cum_weights"] if sampling.needs_weights else []
    names += ["times", "time_order"] if timed else []

    def sections(graph: Graph) -> tuple[str, ...]:
        return tuple(name for name in names if name in graph.section_bytes)

    return [
        TopologyFile(edges.graph, sections(edges.graph), edges.owner.node_type, edges.owner.is_hot)
        for edges in dataset.edges.values()
    ]


def touched_topology(files: Sequence[TopologyFile], subgraph: TypedSubgraph) -> IdArray:
    """Pages that sampling touched, each as the least bytes of topology with which it is resident.

    `TopologyIO` divides these bytes among the files in proportion to their sizes.

    Returns
    -------
    (num_pages,) int64
        Ascending.
    """
    total = sum(file.num_bytes for file in files)
    found = [np.empty(0, np.int64)]
    for file in files:
        own = file.touched_pages(subgraph)
        if 0 < file.num_bytes < total:
            own = np.ceil(own * (total / file.num_bytes)).astype(np.int64)
        found.append(own)
    return np.sort(np.concatenate(found))


class TopologyIO:
    """The resident topology of one iteration, and its hop read-ahead for the rest.

    Attributes
    ----------
    prefixes : list of (ResidentPrefix, int)
        What is to be resident of each section, for a `PrefixKeeper`.
    """

    def __init__(self, files: Sequence[TopologyFile], prefetch: Prefetch, plan: IOPlan) -> None:
        # of each file: how many nodes are resident with which prefixes, and if mincore is reliable
        self._files: list[tuple[int, list[ResidentPrefix], bool]] = []
        self.prefixes: list[tuple[ResidentPrefix, int]] = []
        total = sum(file.num_bytes for file in files)
        for file in files:
            file.graph.advise(prefetch.advice if plan.is_larger else "normal")
            if plan.topology is None:
                continue
            share = plan.topology
            if file.num_bytes < total:
                share = min(file.num_bytes, share * file.num_bytes // max(1, total))
            goals, nodes = file.best_prefix(share)
            prefixes = [(file.graph.new_prefix(name), goal) for name, goal in goals.items() if goal]
            self.prefixes += prefixes
            honest = mincore_is_honest(file.graph.path)
            self._files.append((nodes, [prefix for prefix, _ in prefixes], honest))

    def hop_readahead(self) -> tuple[HopReadAhead, ...] | None:
        """Hop read-ahead of each file for the next mini-batch; None if page faults bring topology.

        It leaves out nodes only while all of the file's resident topology is in memory.
        """
        if not self._files:
            return None
        return tuple(
            HopReadAhead(nodes if all(one.is_resident for one in prefixes) else 0, honest)
            for nodes, prefixes, honest in self._files
        )
