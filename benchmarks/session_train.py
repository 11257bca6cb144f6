"""Session that trains GraphSAGE, or sleeps, for some batches of some epochs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

import graphzero as gz
from graphzero.training.graphsage import GraphSAGE

# Last, so that the uncompiled graphzero/ next to benchmarks/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.meter import PeakAnonymous, read_counters


class Session:
    """What one process keeps open; `train` answers with counters."""

    def __init__(self, stopwatch: Any) -> None:
        self.stopwatch = stopwatch

    def train(
        self,
        dataset: str,
        prefetch: dict[str, Any],
        threads: int,
        fanouts: list[int],
        batch_size: int,
        hidden: int,
        epochs: int,
        batches: int,
        pack: str | None = None,
        sleep_ms: int | None = None,
    ) -> dict[str, Any]:
        """Trains on `batches` batches per epoch, from a pack if one is given.

        With `sleep_ms`, it sleeps that long for each batch instead: a stand-in for a model on a
        GPU, which leaves the processors alone.

        Returns
        -------
        dict
            ``epochs``: for each, the counters before and after, the seconds that the loop waited
            for batches, and the mean loss; ``peak_anonymous`` in bytes.
        """
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        done = []
        with gz.open(dataset) as ds, PeakAnonymous() as anonymous:
            assert ds.features is not None
            assert ds.num_classes is not None
            step: Callable[[Any], float] = (
                _GraphSAGEStep(ds.features.feature_dim, hidden, ds.num_classes, len(fanouts))
                if sleep_ms is None
                else _Sleep(sleep_ms / 1000)
            )
            chosen = ds.splits["train"][: batches * batch_size].copy()
            how: Any = {"prefetch": gz.Prefetch(**prefetch), "num_threads": threads}
            seeds = (
                gz.NeighborDataset(ds, chosen, fanouts, batch_size=batch_size, shuffle=True, **how)
                if pack is None
                else gz.PackedDataset(ds, pack, chosen, **how)
            )
            for epoch in range(epochs):
                seeds.set_epoch(epoch)
                done.append(_epoch(ds, seeds, step, batches, dataset))
        return {"epochs": done, "peak_anonymous": anonymous.peak}

    def pack(
        self,
        dataset: str,
        out: str,
        fanouts: list[int],
        batch_size: int,
        epochs: int,
        batches: int,
        resident: int,
    ) -> dict[str, Any]:
        """Packs the batches that `train` will read; returns seconds and the size of the file."""
        started = time.perf_counter()
        with gz.open(dataset) as ds:
            gz.pack(
                ds,
                out,
                ds.splits["train"][: batches * batch_size],
                fanouts,
                epochs=epochs,
                batch_size=batch_size,
                shuffle=True,
                resident=resident,
            )
        return {"packing": time.perf_counter() - started, "bytes": Path(out).stat().st_size}


class _GraphSAGEStep:
    """A step of training; returns the loss."""

    def __init__(self, dim: int, hidden: int, num_classes: int, layers: int) -> None:
        self.model = GraphSAGE(dim, hidden, num_classes, layers).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)

    def __call__(self, batch: Any) -> float:
        sampled = batch.num_sampled_nodes, batch.num_sampled_edges
        scores = self.model(batch.x, batch.edge_index, *sampled)
        labels = batch.y[: batch.batch_size].long()
        loss = F.cross_entropy(scores[: batch.batch_size], labels)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.item()


class _Sleep:
    """Leaves the processors alone for some seconds a batch; the loss is 0."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, batch: Any) -> float:
        time.sleep(self.seconds)
        return 0.0


def _epoch(
    ds: gz.Dataset,
    seeds: gz.NeighborDataset,
    step: Callable[[Any], float],
    batches: int,
    folder: str,
) -> dict[str, Any]:
    collate: Any = gz.Collate(ds)
    stalled, losses, missed = 0.0, [], 0
    before = read_counters(folder)
    loader = iter(DataLoader(seeds, batch_size=None, collate_fn=collate))
    requested = time.perf_counter()
    for batch in islice(loader, batches):
        stalled += time.perf_counter() - requested
        losses.append(step(batch))
        missed += batch.stats.pages_missed
        del batch  # frees its memory for the next ones
        requested = time.perf_counter()
    after = read_counters(folder)
    return {
        "before": asdict(before),
        "after": asdict(after),
        "batches": len(losses),
        "stalled": stalled,
        "pages_missed": missed,
        "loss": sum(losses) / len(losses),
    }
