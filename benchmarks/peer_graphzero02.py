"""Session of graphzero 0.2, inside its environment: the standard library, NumPy and the peer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import graphzero

IntArray = npt.NDArray[np.int64]


class Session:
    """What one process keeps open between requests; `stopwatch` is a context manager."""

    def __init__(self, stopwatch: Any) -> None:
        self.stopwatch = stopwatch

    def open(self, graph: str, features: str, labels: str, degrees: str) -> dict[str, Any]:
        """Opens the files and touches every page; get_tensor copies all rows."""
        self.graph = graphzero.Graph(graph)
        self.degrees = np.load(degrees)
        self.graph.batch_random_fanout(list(range(self.degrees.size)), 10)
        self.features = graphzero.FeatureStore(features).get_tensor()
        self.labels = np.load(labels)
        versions = {"graphzero": graphzero.__version__, "numpy": np.__version__}
        return {"versions": versions, "num_edges": int(self.graph.num_edges)}

    def convert(self, edges: str, graph: str, rows: str, features: str) -> dict[str, Any]:
        """Converts two CSV files, so that the layout of the result can be compared."""
        graphzero.convert_csv_to_gl(edges, graph, True)
        graphzero.convert_csv_to_gd(rows, features, graphzero.DataType.FLOAT32)
        return {}

    def walk(self, seeds: str, out: str, length: int, p: float, q: float) -> dict[str, Any]:
        """Walks of `length` steps, (n, length + 1) int64.

        Both methods return one column more than requested. The uniform one does not set the last
        column, so one step more is requested.
        """
        starts = np.load(seeds).tolist()
        with self.stopwatch:
            if p == q == 1.0:
                walks = self.graph.batch_random_walk_uniform(starts, length + 1)
            else:
                walks = self.graph.batch_random_walk(starts, length, p, q)
        np.savez(out, walks=walks[:, : length + 1])
        return {}

    def one_hop(self, seeds: str, out: str, fanout: int) -> dict[str, Any]:
        """Neighbours, (n, fanout) int64; entries beyond a node's degree are padding."""
        nodes = np.load(seeds)
        requested = nodes.tolist()
        with self.stopwatch:
            neighbors = self.graph.batch_random_fanout(requested, fanout)
        real = np.arange(fanout) < self.degrees[nodes][:, None]
        np.savez(out, target=np.repeat(nodes, real.sum(axis=1)), source=neighbors[real])
        return {}

    def multi_hop(
        self, seeds: str, out: str, fanouts: list[int], with_rows: bool
    ) -> dict[str, Any]:
        """Relabelled subgraphs of several batches; returns the last one for a check."""
        batches = np.load(seeds)
        with self.stopwatch:
            for batch in batches:
                arrays = self._batch(batch, fanouts, with_rows)
        np.savez(out, **arrays)
        return {}

    def _batch(self, seeds: IntArray, fanouts: list[int], with_rows: bool) -> dict[str, Any]:
        n_id, edge_index = self._subgraph(seeds, fanouts)
        subgraph = {"n_id": n_id, "edge_index": edge_index}
        if not with_rows:
            return subgraph
        return {**subgraph, "x": self.features[n_id], "y": self.labels[n_id]}

    def _subgraph(self, seeds: IntArray, fanouts: list[int]) -> tuple[IntArray, IntArray]:
        """One multi-hop sample: 0.2 has no call for it. Seeds first, then new nodes."""
        n_id, first = seeds, 0
        hops = []
        for fanout in fanouts:
            frontier = n_id[first:]
            drawn = self.graph.batch_random_fanout(frontier.tolist(), fanout)
            real = np.arange(fanout) < self.degrees[frontier][:, None]
            together = np.concatenate([n_id, drawn[real]])
            ids, at, inverse = np.unique(together, return_index=True, return_inverse=True)
            order = np.argsort(at)
            local = np.empty_like(order)
            local[order] = np.arange(order.size)
            target = np.repeat(np.arange(first, n_id.size), real.sum(axis=1))
            hops.append(np.stack([local[inverse[n_id.size :]], target]))
            first, n_id = n_id.size, ids[order]
        return n_id, np.concatenate(hops, axis=1)
