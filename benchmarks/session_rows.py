"""Session that reads the rows of given batches: through graphzero, or from a mapped NumPy array."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import graphzero as gz

# Last, so that the uncompiled graphzero/ next to benchmarks/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.meter import Plan, time_runs
from benchmarks.saved_batches import SavedBatches, load_batches


class Session:
    """What one process keeps open; every operation answers with counters."""

    def __init__(self, stopwatch: Any) -> None:
        self.stopwatch = stopwatch

    def pipeline(
        self,
        dataset: str,
        batches: str,
        prefetch: dict[str, Any],
        threads: int,
        plan: dict[str, int],
    ) -> dict[str, Any]:
        """As a DataLoader reads them: in the background, with a strategy of `gz.Prefetch`."""
        planned = Plan(**plan)
        with gz.open(dataset) as ds:
            saved = SavedBatches(
                ds,
                load_batches(batches, planned.total),
                prefetch=gz.Prefetch(**prefetch),
                num_threads=threads,
            )
            collate = gz.Collate(ds)
            items = iter(saved)
            missed = []

            def read() -> Iterator[tuple[Any, Any]]:
                for item in items:
                    batch = collate(item)
                    assert batch.x is not None
                    missed.append(batch.stats.pages_missed)
                    yield batch.n_id.numpy(), batch.x.numpy()
                    del item, batch

            result = time_runs(read(), planned, dataset)
            items.close()
        counted = missed[result["warmed_up"] :][: len(result["rows"]) * planned.batches]
        return {**result, "pages_missed": counted}

    def gather(
        self, dataset: str, batches: str, threads: int, plan: dict[str, int]
    ) -> dict[str, Any]:
        """By `FeatureStore.gather` alone: page faults in the foreground."""
        planned = Plan(**plan)
        saved = load_batches(batches, planned.total)
        with gz.open(dataset) as ds:
            store = ds.features
            assert store is not None
            store.advise("random")
            read = ((nodes, store.gather_stored(rows, None, threads)) for nodes, rows, _ in saved)
            return time_runs(read, planned, dataset)

    def memmap(
        self,
        features: str,
        batches: str,
        random: bool,
        parts: int,
        threads: int,
        plan: dict[str, int],
    ) -> dict[str, Any]:
        """By torch, from a mapped NumPy array, with the kernel's default advice or MADV_RANDOM.

        Reads one of `parts` parts of each batch.
        """
        planned = Plan(**plan)
        torch.set_num_threads(threads)
        saved = [nodes[::parts].copy() for nodes, _, _ in load_batches(batches, planned.total)]
        mapped = np.load(features, mmap_mode="r")
        if random:
            mapped._mmap.madvise(mmap.MADV_RANDOM)
        matrix = torch.from_numpy(mapped)
        read = ((nodes, matrix[torch.from_numpy(nodes)].numpy()) for nodes in saved)
        return time_runs(read, planned, features)
