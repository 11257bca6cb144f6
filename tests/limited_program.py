"""Program that iterates over datasets in a process of its own, and says what memory that took.

``python limited_program.py JSON`` prints what `iterate` returns. The fields of the JSON are those
of `Scenario`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

import graphzero as gz
from graphzero.io.memory import _anonymous_bytes
from graphzero.io.resident import kept_bytes
from graphzero.store.free_memory import available_memory

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.machine import PeakAnonymous


@dataclass(frozen=True)
class Scenario:
    """What the program does.

    Attributes
    ----------
    folders : list of str
        Datasets; all are iterated over at the same time.
    pack : str or None
        A pack of the first of them, whose batches are taken as well.
    workers, persistent
        Of each DataLoader.
    ranks : int
        Processes that do all of it at the same time.
    inside, after : int
        Bytes that are allocated, touched and freed: for every batch, and after each epoch.
    hold : int
        Bytes that are allocated with the first batch, and stay.
    """

    folders: list[str]
    pack: str | None = None
    workers: int = 0
    persistent: bool = False
    ranks: int = 1
    epochs: int = 2
    inside: int = 0
    after: int = 0
    hold: int = 0
    fanouts: list[int] = field(default_factory=lambda: [10, 5])
    batch_size: int = 256
    prefetch: dict[str, Any] = field(default_factory=dict)
    shuffle: bool = False
    threads: int | None = None


def allocate(num_bytes: int) -> np.ndarray:
    """Memory that is really there."""
    block = np.empty(num_bytes, np.uint8)
    block[:: os.sysconf("SC_PAGE_SIZE")] = 1
    return block


def fingerprint(batch: gz.MiniBatch) -> list[int]:
    """Checksums of what a batch is made of."""
    parts: Any = (batch.x, batch.n_id, batch.edge_index)
    return [zlib.crc32(part.contiguous().numpy()) for part in parts]


def loaders_of(scenario: Scenario) -> list[Any]:
    prefetch, loaders = gz.Prefetch(**scenario.prefetch), []
    options: dict[str, Any] = {
        "batch_size": scenario.batch_size,
        "shuffle": scenario.shuffle,
        "num_threads": scenario.threads,
    }
    for i, ds in enumerate([gz.open(folder) for folder in scenario.folders]):
        train = ds.splits["train"]
        sources: list[Any] = [
            gz.NeighborDataset(ds, train, scenario.fanouts, prefetch=prefetch, **options)
        ]
        if scenario.pack is not None and i == 0:
            sources.append(gz.PackedDataset(ds, scenario.pack, train, prefetch=prefetch))
        how = {"num_workers": scenario.workers, "persistent_workers": scenario.persistent}
        collate: Any = gz.Collate(ds)
        loaders += [DataLoader(s, batch_size=None, collate_fn=collate, **how) for s in sources]
    return loaders


def in_step(loaders: list[Any]) -> Iterator[list[Any]]:
    """A batch of each loader, until all end; `zip` would keep the first ones until then."""
    first, *others = map(iter, loaders)
    for batch in first:
        yield [batch, *map(next, others)]
        del batch


def iterate(scenario: Scenario) -> dict[str, Any]:
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
    kept, together, fingerprints, held, io = [0] * scenario.epochs, 0, [], [], ""
    with PeakAnonymous() as anonymous:
        loaders = loaders_of(scenario)
        for epoch in range(scenario.epochs):
            for loader in loaders:
                loader.dataset.set_epoch(epoch)
            for found in in_step(loaders):
                fingerprints += [fingerprint(batch) for batch in found]
                now = kept_bytes()
                kept[epoch] = max(kept[epoch], now)
                together = max(together, now + _anonymous_bytes() - before.peak)
                io = found[0].stats.io
                if scenario.hold and not held:
                    held.append(allocate(scenario.hold))
                allocate(scenario.inside)
            allocate(scenario.after)
    growth = anonymous.peak - before.peak
    figures = {"own": before.peak, "left": left, "growth": growth, "kept": kept}
    return {**figures, "together": together, "batches": fingerprints, "io": io}


def main(scenario: Scenario) -> None:
    """Prints the figures, those of a rank without any batch where there are several."""
    if scenario.ranks == 1:
        print(json.dumps(iterate(scenario)))
        return
    left = available_memory()
    context = multiprocessing.get_context("fork")
    os.environ["LOCAL_WORLD_SIZE"] = str(scenario.ranks)  # as torchrun does
    ranks = [context.Process(target=iterate, args=(scenario,)) for _ in range(scenario.ranks)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
        if rank.exitcode != 0:
            sys.exit(f"a rank ended with {rank.exitcode}")
    print(json.dumps({"left": left}))


if __name__ == "__main__":
    main(Scenario(**json.loads(sys.argv[1])))
