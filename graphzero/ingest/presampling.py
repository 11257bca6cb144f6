"""Presample order: nodes by the number of sampled mini-batches that contain them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphzero.ingest.progress import Advance, Progress
from graphzero.ingest.rank import NodeOrder, NodeSpace, hot_order, visit_order
from graphzero.ingest.spill import temp_array
from graphzero.ingest.stored import StoredGraph, StoredRows
from graphzero.store.manifest import EdgeType, Presampling

__all__ = ["Presampler", "Visits", "count_typed_visits", "occurrence_order", "presample_order"]

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

    def check_types(self, edge_types: Sequence[EdgeType] | None) -> None:
        """Raises an error if its fanouts do not fit the edge types; None: there are no types."""
        ...

    def num_typed_batches(self, num_seeds: Mapping[str, int]) -> dict[str, int]:
        """Number of mini-batches to sample around seeds of each node type."""
        ...

    def count_typed_visits(
        self,
        graphs: Mapping[EdgeType, Path],
        to_stored: Callable[[str, npt.NDArray[np.int64]], npt.NDArray[np.int64]],
        seeds: Mapping[str, Seeds | None],
        visits: Mapping[str, npt.NDArray[np.uint32]],
        advance: Advance,
    ) -> Presampling:
        """`count_visits` of the nodes of every type."""
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


def count_typed_visits(
    folder: Path,
    graphs: Mapping[EdgeType, Path],
    spaces: Mapping[str, NodeSpace],
    seeds: Mapping[str, Seeds | None],
    presampler: Presampler,
    memory: int,
    progress: Progress,
) -> dict[str, Visits]:
    """The visits of the nodes of every type.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if the counts are larger than the memory.
    graphs : mapping of (str, str, str) to pathlib.Path
        The file of each edge type.
    spaces : mapping of str to NodeSpace
        The order in which these files have the nodes of each type.
    seeds : mapping of str to (n,) int64 or None
        The user's ids by node type; None for all nodes of the type.
    presampler : Presampler
    memory : int
        Bytes for the counts. The sampler's own memory is not included.
    progress : Progress
    """
    total = sum(space.num_nodes for space in spaces.values())
    counts = {
        name: temp_array(folder, space.num_nodes, np.uint32, memory * space.num_nodes // total)
        for name, space in spaces.items()
    }
    num_seeds = {n: spaces[n].num_nodes if s is None else len(s) for n, s in seeds.items()}

    def to_stored(name: str, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        rank = spaces[name].rank
        return ids if rank is None else rank[ids].astype(np.int64, copy=False)

    num_batches = sum(presampler.num_typed_batches(num_seeds).values())
    with progress.phase("sampling", num_batches, "batches") as advance:
        done = presampler.count_typed_visits(graphs, to_stored, seeds, counts, advance)
    orders = {name: space.order for name, space in spaces.items()}
    return {
        name: Visits(found, None if order is None else order.node_ids, done)
        for (name, found), order in zip(counts.items(), orders.values(), strict=True)
    }
