"""Typed graphs for tests: their files, their lists for a sampler, and naive adjacency lists."""

from __future__ import annotations

from dataclasses import dataclass, field

import files
import numpy as np
import reference

from graphzero.graph.dataset import Dataset, EdgeStore, NodeStore
from graphzero.graph.features import StoredIds
from graphzero.graph.graph import EdgeTypeGraph
from graphzero.store import format as gz_format


def write_typed(path, naive, num_neighbors, left_out=(), wide=False):
    """Writes the ``.gl`` of an edge type from naive lists."""
    count = int(naive.indptr[-1])
    facts = {"num_nodes": naive.num_nodes, "num_neighbors": num_neighbors, "num_input_edges": count}
    flags = gz_format.FLAG_DIRECTED | gz_format.FLAG_TYPED
    files.write_lists(path, naive, {"node_ids", *left_out}, wide, flags=flags, **facts)


@dataclass
class Edges:
    """The edges of one type, in the user's ids."""

    ends: np.ndarray  # (n, 2): source, target
    weights: list | None = None
    times: list | None = None
    incoming: bool = True


@dataclass
class TypedGraph:
    """A typed graph in the user's ids, and the stored id of each node of each type."""

    num_nodes: dict
    edges: dict
    ranks: dict = field(default_factory=dict)  # user -> stored; without: the same

    def rank(self, node_type):
        return self.ranks.get(node_type, np.arange(self.num_nodes[node_type]))

    def node_ids(self, node_type):
        return np.argsort(self.rank(node_type))

    def ends(self, edge_type):
        """(node type that owns the lists, node type of the neighbours)."""
        source, _, target = edge_type
        return (target, source) if self.edges[edge_type].incoming else (source, target)

    def naive(self, edge_type):
        """The lists of an edge type, ascending, parallel edges in input order."""
        edges = self.edges[edge_type]
        owner, neighbor = self.ends(edge_type)
        rows = [[] for _ in range(self.num_nodes[owner])]
        for i, (source, target) in enumerate(edges.ends.tolist()):
            mine, other = (target, source) if edges.incoming else (source, target)
            rows[self.rank(owner)[mine]].append(
                (
                    int(self.rank(neighbor)[other]),
                    i,
                    0.0 if edges.weights is None else edges.weights[i],
                    0 if edges.times is None else edges.times[i],
                )
            )
        for row in rows:
            row.sort(key=lambda entry: entry[0])  # stable
        return reference.Adjacency(rows, None, None, edges.incoming)

    def write(self, folder, *, wide=False, leave_out=None):
        """Writes a file for each edge type; returns what a sampler needs."""
        graphs = {}
        for i, (edge_type, edges) in enumerate(self.edges.items()):
            path = folder / f"{i}.gl"
            naive = self.naive(edge_type)
            left_out = {name for name in ("weights", "times") if getattr(edges, name) is None}
            left_out.add(leave_out)
            write_typed(path, naive, self.num_nodes[self.ends(edge_type)[1]], left_out, wide)
            graphs[edge_type] = EdgeTypeGraph(path)
        nodes = {
            name: NodeStore(name, count, {}, order=self._write_order(folder, name))
            for name, count in self.num_nodes.items()
        }
        edges = [EdgeStore(t, graph, (nodes[t[0]], nodes[t[2]]), {}) for t, graph in graphs.items()]
        return Dataset.of_types(nodes.values(), edges)

    def _write_order(self, folder, name):
        path = folder / f"{name}.ids.gd"
        users = np.arange(self.num_nodes[name], dtype=np.uint32)
        files.write_rows(path, users, rank=self.rank(name).astype(np.uint32))
        return StoredIds(path)

    def to_user(self, node_type, ids):
        return self.node_ids(node_type)[ids]

    def to_stored(self, node_type, ids):
        return self.rank(node_type)[ids]
