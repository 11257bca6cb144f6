"""Batches sampled in advance, so that every contestant reads the same rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import graphzero as gz
from graphzero.io.topology import TopologyFile
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.sampling.subgraph import Subgraph

__all__ = ["SavedBatches", "load_batches", "save_batches"]

IntArray = npt.NDArray[np.int64]
# The nodes of a batch as the user's ids and as row numbers, and the number of seeds.
Batch = tuple[IntArray, IntArray, int]


def save_batches(
    folder: str | os.PathLike[str],
    ds: gz.Dataset,
    stores: dict[str, gz.FeatureStore],
    seeds: IntArray,
    *,
    fanouts: Sequence[int],
    batch_size: int,
    count: int,
) -> dict[str, str]:
    """Samples the nodes of some batches, and translates them to row numbers of each store.

    Returns
    -------
    dict of str to str
        By store, the path of its batches.
    """
    paths = {name: os.fspath(Path(folder) / f"batches-{name}.npz") for name in stores}
    sampler = gz.NeighborSampler(ds.graph, fanouts)
    arrays: dict[str, dict[str, Any]] = {name: {} for name in stores}
    for batch in range(count):
        chosen = np.take(seeds, range(batch * batch_size, (batch + 1) * batch_size), mode="wrap")
        subgraph = sampler.sample(chosen, batch=batch)
        for name, store in stores.items():
            arrays[name] |= {
                f"nodes{batch}": subgraph.n_id,
                f"rows{batch}": store.to_stored(subgraph.n_id),
                f"seeds{batch}": np.int64(batch_size),
            }
    for name, path in paths.items():
        np.savez(path, **arrays[name])
    return paths


def load_batches(path: str | os.PathLike[str], count: int) -> list[Batch]:
    """The first batches of a file, in memory."""
    with np.load(path) as arrays:
        return [
            (arrays[f"nodes{i}"], arrays[f"rows{i}"], int(arrays[f"seeds{i}"]))
            for i in range(count)
        ]


class SavedBatches(SeedDataset):
    """The pipeline of a `NeighborDataset` without sampling: the nodes of batch i are given."""

    def __init__(
        self,
        dataset: gz.Dataset,
        batches: Sequence[Batch],
        *,
        prefetch: gz.Prefetch,
        num_threads: int,
    ) -> None:
        self.batches = batches
        super().__init__(
            dataset,
            gz.NeighborSampler(dataset.graph, [1]),
            len(batches),
            batch_size=1,
            shuffle=False,
            drop_last=False,
            prefetch=prefetch,
            gather=("x",),
            feature_dtype=None,
            num_threads=num_threads,
        )

    def sample(
        self, positions: IntArray, *, epoch: int, batch: int, readahead: object = None
    ) -> SampledBatch:
        nodes, rows, seeds = self.batches[batch]
        subgraph = Subgraph(
            n_id=nodes,
            edge_index=np.empty((2, 0), dtype=np.int64),
            e_id=None,
            batch_size=seeds,
            num_sampled_nodes=[seeds],
            num_sampled_edges=[],
            stored_id=rows,
        )
        return SampledBatch(subgraph, positions)

    def seed_options(self) -> dict[str, Any]:
        return {}

    @property
    def topology(self) -> list[TopologyFile]:
        return []
