"""Presample order: nodes by the number of sampled mini-batches that contain them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphzero.ingest.progress import Advance, Progress
from graphzero.ingest.rank import NodeOrder, hot_order, visit_order
from graphzero.ingest.spill import temp_array
from graphzero.ingest.stored import StoredGraph, StoredRows
from graphzero.store.manifest import Presampling

__all__ = ["Presampler", "Visits", "occurrence_order", "presample_order"]

Seeds = npt.NDArray[np.int64]


class Presampler(Protocol):
    """Interface of `graphzero.Presample`, which `ingest` may not import."""

    def num_batches(self, num_seeds: int) -> int:
        """Number of mini-batches to sample."""
        ...

    def count_visits(
        self, graph: Path, seeds: Seeds | None, visits: npt.NDArray[np.uint32], advance: Advance
    ) -> Presampling:
        """Adds to each stored node's count the number of mini-batches that contain it."""
        ...


@dataclass(frozen=True)
class Visits:
    """The number of mini-batches that contain each stored node of a graph.

    Attributes
    ----------
    counts : (N,) uint32
    node_ids : (N,) array or None
        The user's id of each.
    presampling : Presampling
    """

    counts: npt.NDArray[np.uint32]
    node_ids: npt.NDArray[Any] | None
    presampling: Presampling

    def rows(self) -> StoredRows:
        """The counts as rows for `write_rows`."""
        counts = self.counts
        return StoredRows(
            "visits", counts.dtype, counts.shape, lambda i, j: counts[i:j], self.node_ids
        )


def occurrence_order(graph: StoredGraph, memory: int, progress: Progress) -> NodeOrder:
    """Hot order of a graph in any order."""
    edges = graph.edges()
    with progress.phase("ordering nodes", None):
        occurrences = edges.occurrences(memory // 32)
        return hot_order(graph.path.parent, graph.num_nodes, occurrences, memory)


def presample_order(
    graph: StoredGraph,
    seeds: Seeds | None,
    presampler: Presampler,
    ties: NodeOrder | None,
    memory: int,
    progress: Progress,
) -> tuple[NodeOrder, Visits]:
    """Order by descending number of visits, ties by occurrences in neighbour lists, then by id.

    Parameters
    ----------
    graph : StoredGraph
        In any order.
    seeds : (n,) int64 or None
        The user's ids; None for all nodes.
    presampler : Presampler
    ties : NodeOrder or None
        Hot order, if it is known.
    memory : int
        Bytes; the counts take a quarter. The sampler's own memory is not included.
    progress : Progress
    """
    folder, part = graph.path.parent, memory // 4
    counts = temp_array(folder, graph.num_nodes, np.uint32, part)
    num_seeds = graph.num_nodes if seeds is None else len(seeds)
    total = presampler.num_batches(num_seeds)
    with progress.phase("sampling", total, "batches") as advance:
        presampling = presampler.count_visits(graph.path, seeds, counts, advance)
    if ties is None:
        ties = occurrence_order(graph, part, progress)
    with progress.phase("ordering nodes", None):
        order = visit_order(folder, counts, graph.node_ids, ties, 2 * part)
    return order, Visits(counts, graph.node_ids, presampling)
