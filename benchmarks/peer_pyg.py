"""Session of torch-cluster, torch-sparse and PyG, inside their environment.

A node's neighbours are the targets of its edges, as everywhere in this benchmark.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
import torch_geometric
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler import NeighborSampler

# Importing them registers their operators.
OPERATORS = ("torch_scatter", "torch_sparse", "torch_cluster")


class Session:
    """What one process keeps open between requests; `stopwatch` is a context manager."""

    def __init__(self, stopwatch: Any) -> None:
        self.stopwatch = stopwatch
        modules = {name: importlib.import_module(name) for name in OPERATORS}
        if torch_geometric.typing.WITH_PYG_LIB:
            raise RuntimeError("PyG would sample by pyg-lib: it must not be installed here")
        known = {**modules, "torch": torch, "torch_geometric": torch_geometric}
        self.versions = {name: str(module.__version__) for name, module in known.items()}

    def open(self, edges: str, features: str, labels: str, num_nodes: int) -> dict[str, Any]:
        """Reads everything into memory and sorts the edges by source."""
        pairs = np.load(edges, mmap_mode="r")
        keys = pairs[:, 0] * num_nodes + pairs[:, 1]
        keys.sort()
        source, target = (torch.from_numpy(part) for part in np.divmod(keys, num_nodes))
        self.indptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(source, minlength=num_nodes), 0, out=self.indptr[1:])
        self.indices = target
        # PyG samples the edges that arrive at a node, so it gets the transposed graph.
        self.data = Data(
            x=torch.from_numpy(np.load(features)),
            y=torch.from_numpy(np.load(labels)),
            edge_index=torch.stack([target, source]),
            num_nodes=num_nodes,
        )
        return {"versions": self.versions, "num_edges": int(self.indices.numel())}

    def walk(self, seeds: str, out: str, length: int, p: float, q: float) -> dict[str, Any]:
        """Walks of `length` steps, (n, length + 1) int64; a dead end repeats its node.

        Calls the operator directly: `torch_cluster.random_walk` would sort all edges in each call.
        """
        starts = torch.from_numpy(np.load(seeds))
        with self.stopwatch:
            walks, _ = torch.ops.torch_cluster.random_walk(
                self.indptr, self.indices, starts, length, p, q
            )
        np.savez(out, walks=walks.numpy())
        return {}

    def multi_hop(self, seeds: str, out: str, fanouts: list[int]) -> dict[str, Any]:
        """Relabelled subgraphs of several batches; returns the last one for a check."""
        batches = torch.from_numpy(np.load(seeds))
        with self.stopwatch:
            for batch in batches:
                n_id, row, col, _ = torch.ops.torch_sparse.neighbor_sample(
                    self.indptr, self.indices, batch, fanouts, False, True
                )
        np.savez(out, n_id=n_id.numpy(), edge_index=torch.stack([row, col]).numpy())
        return {}

    def load(self, seeds: str, out: str, fanouts: list[int]) -> dict[str, Any]:
        """The same batches from a NeighborLoader, with rows and labels."""
        batches = torch.from_numpy(np.load(seeds))
        if not hasattr(self, "sampler"):
            self.sampler = NeighborSampler(self.data, fanouts, is_sorted=True)
        loader = NeighborLoader(
            self.data,
            fanouts,
            input_nodes=batches.reshape(-1),
            batch_size=batches.shape[1],
            neighbor_sampler=self.sampler,
        )
        with self.stopwatch:
            for item in loader:
                batch = item
        arrays = {name: batch[name].numpy() for name in ("n_id", "edge_index", "x", "y")}
        np.savez(out, **arrays)
        return {}
