"""Mini-batches of ranges of stored nodes with all their edges, and of parts of a neighbour list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.user_input import IdArray
from graphzero.loader.arguments import Batching
from graphzero.loader.seed_batches import BatchSeeds
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.sampling.sampler import HopReadAhead, TypedSubgraph
from graphzero.store.manifest import EdgeType

CHUNK = 1 << 20  # nodes whose degrees are in memory at a time


class NodeRange(NamedTuple):
    """Stored nodes [begin, end), and how many edges and nodes these are together."""

    begin: int
    end: int
    size: int


def node_ranges(lists: Sequence[Graph], num_nodes: int, most: int) -> Iterator[NodeRange]:
    """Ranges of all nodes that have at most so many edges and nodes together.

    A node with more edges is alone.
    """
    for first in range(0, num_nodes, CHUNK):
        last = min(num_nodes, first + CHUNK)
        sizes = np.arange(last - first + 1)
        for graph in lists:
            sizes += (graph.indptr[first : last + 1] - graph.indptr[first]).astype(np.int64)
        begin = 0
        while begin < last - first:
            end = int(np.searchsorted(sizes, sizes[begin] + most, side="right")) - 1
            end = max(end, begin + 1)
            yield NodeRange(first + begin, first + end, int(sizes[end] - sizes[begin]))
            begin = end


class RangeDataset(SeedDataset):
    """Mini-batches of ranges of stored nodes of one type, with all their neighbours."""

    input_type: str
    translates_seeds = False

    def __init__(
        self, view: Dataset, node_type: str, ranges: Sequence[NodeRange], batching: Batching
    ) -> None:
        self.input_type, self._ranges = node_type, ranges
        widest = max((end - begin for begin, end, _ in ranges), default=1)
        batching = replace(batching, batch_size=widest)
        super().__init__(view, view.nodes[node_type].num_nodes, [-1], batching)

    @property
    def num_batches(self) -> int:
        """One for each range."""
        return len(self._ranges)

    def epoch_order(self, epoch: int) -> IdArray:
        """Nothing: nodes come as they are stored."""
        return np.empty(0, np.int64)

    def positions_of(self, order: IdArray, batch: int) -> IdArray:
        """The stored nodes of a range."""
        return np.arange(self._ranges[batch].begin, self._ranges[batch].end)

    def seed_options(self) -> dict[str, object]:
        """The type of the nodes."""
        return {"kind": self.input_type}

    def seeds_at(
        self,
        positions: IdArray,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None = None,
    ) -> BatchSeeds:
        """The nodes of a range."""
        return BatchSeeds(positions, {self.input_type: positions})


class ListPart(NamedTuple):
    """The edges [begin, end) of an edge type, which are in the list of one node."""

    edge_type: EdgeType
    begin: int
    end: int


def parts_of_lists(
    view: Dataset, edge_types: Sequence[EdgeType], node: int, most: int
) -> list[ListPart]:
    """The lists of a stored node, in parts of at most so many edges."""
    parts = []
    for edge_type in edge_types:
        indptr = view.edges[edge_type].graph.indptr
        last = int(indptr[node + 1])
        for begin in range(int(indptr[node]), last, most):
            parts.append(ListPart(edge_type, begin, min(last, begin + most)))
    return parts


def subgraph_of(view: Dataset, node_type: str, node: int, part: ListPart) -> TypedSubgraph:
    """A stored node with some of the edges of its list."""
    edges = view.edges[part.edge_type]
    source = edges.neighbor.node_type
    neighbors = np.asarray(edges.graph.indices[part.begin : part.end]).astype(np.int64)
    if neighbors.max() >= view.nodes[source].num_nodes:
        raise FormatError(f"{edges.graph.path} has a corrupt neighbour list: see graphzero verify")
    others, local = np.unique(neighbors, return_inverse=True)
    stored = {name: np.empty(0, np.int64) for name in view.nodes}
    if source == node_type:  # the node itself, which comes first, may be its own neighbour
        is_other = others != node
        local = np.where(is_other, np.cumsum(is_other), 0)[local]
        others = np.concatenate([[node], others[is_other]])
    else:
        stored[node_type] = np.array([node])
    stored[source] = others
    edge_index = {edge_type: np.empty((2, 0), np.int64) for edge_type in view.edges}
    edge_index[part.edge_type] = np.stack([local, np.zeros_like(local)])
    positions = {edge_type: np.empty(0, np.int64) for edge_type in view.edges}
    positions[part.edge_type] = np.arange(part.begin, part.end)
    num_seeds = {name: int(name == node_type) for name in view.nodes}
    return TypedSubgraph(
        n_id={name: view.nodes[name].to_user(ids) for name, ids in stored.items()},
        stored_id=stored,
        edge_index=edge_index,
        positions=positions,
        e_id=dict.fromkeys(view.edges),
        num_sampled_nodes={
            name: [num_seeds[name], len(ids) - num_seeds[name]] for name, ids in stored.items()
        },
        num_sampled_edges={name: [ends.shape[1]] for name, ends in edge_index.items()},
    )
