"""Mini-batches of ranges of stored nodes with all their edges, and of parts of a neighbour list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.user_input import IdArray
from graphzero.loader.arguments import Batching
from graphzero.loader.seed_batches import BatchRequest, BatchSeeds
from graphzero.loader.seed_dataset import SeedDataset

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

    def seeds_of(self, request: BatchRequest) -> BatchSeeds:
        """The nodes of a range."""
        return BatchSeeds(request.positions, {self.input_type: request.positions})
