"""Program that iterates over a dataset in a process of its own, and says what memory that took.

``python limited_loader.py FOLDER PREFETCH``, the fields of a `gz.Prefetch` as JSON, prints JSON.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

import graphzero as gz
from graphzero.io.memory import BUDGET, _anonymous_bytes, available_memory

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.machine import PeakAnonymous

FANOUTS, BATCH_SIZE, EPOCHS, THREADS = [10, 5], 256, 2, 2


def fingerprint(batch: gz.MiniBatch) -> list[int]:
    """Checksums of what a batch is made of."""
    assert batch.x is not None
    parts = (batch.x, batch.n_id, batch.edge_index)
    return [zlib.crc32(part.contiguous().numpy()) for part in parts]


def iterate(folder: str, prefetch: dict[str, Any]) -> dict[str, Any]:
    """Takes every batch of some epochs, as a training loop does.

    Returns
    -------
    dict
        In bytes: ``own``, anonymous memory before anything was opened, ``left``, what the control
        groups and the machine left then, ``growth`` of the anonymous memory at its peak, ``kept``,
        the most resident rows and topology of each epoch, ``together``, the most that both took
        at the same time. ``batches``, their fingerprints; ``io`` of the last one.
    """
    with PeakAnonymous() as before:
        left = available_memory()
    kept, together, fingerprints, io = [0] * EPOCHS, 0, [], ""
    with gz.open(folder) as ds, PeakAnonymous() as anonymous:
        assert ds.features is not None
        batches = gz.NeighborDataset(
            ds,
            ds.splits["train"],
            FANOUTS,
            batch_size=BATCH_SIZE,
            shuffle=True,
            prefetch=gz.Prefetch(**prefetch),
            num_threads=THREADS,
        )
        collate: Any = gz.Collate(ds)
        loader = DataLoader(batches, batch_size=None, collate_fn=collate)
        for epoch in range(EPOCHS):
            batches.set_epoch(epoch)
            for batch in loader:
                fingerprints.append(fingerprint(batch))
                now = BUDGET.kept_bytes()
                kept[epoch] = max(kept[epoch], now)
                together = max(together, now + _anonymous_bytes() - before.peak)
                io = batch.stats.io
    return {
        "own": before.peak,
        "left": left,
        "growth": anonymous.peak - before.peak,
        "kept": kept,
        "together": together,
        "batches": fingerprints,
        "io": io,
    }


if __name__ == "__main__":
    print(json.dumps(iterate(sys.argv[1], json.loads(sys.argv[2]))))
