"""Random walks: which lists they follow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph

FOLLOW = "walks follow the edges to"
_CHUNK = 1 << 20  # edges


def walked_graph(dataset: Dataset) -> Graph:
    """The lists that walks follow: of the out-neighbours.

    Those of in-neighbours are the same where both directions of every edge are in the graph, which
    is found out by reading them once.

    Raises
    ------
    ValueError
        If there are none of them.
    """
    graph = dataset.graph
    if graph.is_incoming and graph.is_directed and graph.out_lists is None and is_symmetric(graph):
        return graph
    return graph.lists_of("out", FOLLOW)


def is_symmetric(graph: Graph) -> bool:
    """Whether both directions of every edge are in the lists, by a sum of hashes."""
    indptr, indices = graph.indptr, graph.indices
    total = 0  # modulo 2^64
    for begin in range(0, graph.num_edges, _CHUNK):
        places = np.arange(begin, min(begin + _CHUNK, graph.num_edges))
        owner = (np.searchsorted(indptr, places, "right") - 1).astype(np.uint64)
        other = indices[places].astype(np.uint64)
        word: npt.NDArray[np.uint64] = np.minimum(owner, other) * np.uint64(0x9E3779B97F4A7C15)
        mixed: npt.NDArray[np.uint64] = np.maximum(owner, other) * np.uint64(0xBF58476D1CE4E5B9)
        word ^= (word >> np.uint64(29)) + mixed
        word *= np.uint64(0x94D049BB133111EB) + (word >> np.uint64(31))
        total += int(word[owner < other].sum()) - int(word[owner > other].sum())
    return total % (1 << 64) == 0
