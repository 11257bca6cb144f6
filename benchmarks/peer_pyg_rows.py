"""Session of PyG, inside its environment: NeighborLoader over a mapped array of features.

The topology is mapped too. PyG samples the batches itself, with torch-sparse.
"""

from __future__ import annotations

import importlib
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

# Last, so that nothing next to benchmarks/ shadows an installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.meter import Plan, time_runs


class Session:
    """What one process keeps open; every operation answers with counters."""

    def __init__(self, stopwatch: Any) -> None:
        self.stopwatch = stopwatch

    def rows(
        self,
        features: str,
        colptr: str,
        row: str,
        seeds: str,
        fanouts: list[int],
        batch_size: int,
        random: bool,
        threads: int,
        plan: dict[str, int],
    ) -> dict[str, Any]:
        """Batches of a NeighborLoader without workers."""
        planned = Plan(**plan)
        torch.set_num_threads(threads)
        files = {"x": features, "colptr": colptr, "row": row}
        arrays = {name: np.load(path, mmap_mode="r") for name, path in files.items()}
        if random:
            arrays["x"]._mmap.madvise(mmap.MADV_RANDOM)
        mapped = {name: torch.from_numpy(array) for name, array in arrays.items()}
        nodes = mapped["colptr"].numel() - 1
        # PyG samples the edges that arrive at a node: row i of adj_t holds what node i samples.
        adj_t = importlib.import_module("torch_sparse").SparseTensor(
            rowptr=mapped["colptr"],
            col=mapped["row"],
            sparse_sizes=(nodes, nodes),
            is_sorted=True,
            trust_data=True,
        )
        loader = NeighborLoader(
            Data(x=mapped["x"], adj_t=adj_t, num_nodes=nodes),
            fanouts,
            input_nodes=torch.from_numpy(np.load(seeds)[: planned.total * batch_size]),
            batch_size=batch_size,
        )

        def read() -> Iterator[tuple[Any, Any]]:
            for batch in loader:
                yield batch.n_id.numpy(), batch.x.numpy()

        result = time_runs(read(), planned, features)
        versions = {"torch_geometric": torch_geometric.__version__}
        return {**result, "versions": versions}
