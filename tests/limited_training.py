"""Program that trains in a process of its own beside other allocations, to be run under a limit.

``python limited_training.py JSON`` prints ``{"left": ..., "batches": ...}`` when it has come to its
end. The fields of the JSON are those of `Scenario`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

import graphzero as gz
from graphzero.io.memory import available_memory


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


def allocate(num_bytes: int) -> np.ndarray:
    """Memory that is really there."""
    block = np.empty(num_bytes, np.uint8)
    block[:: os.sysconf("SC_PAGE_SIZE")] = 1
    return block


def train(scenario: Scenario) -> int:
    """Iterates, allocates, and returns the number of batches."""
    loaders: list[Any] = []
    datasets = [gz.open(folder) for folder in scenario.folders]
    for ds in datasets:
        common: dict[str, Any] = {"prefetch": gz.Prefetch(**scenario.prefetch)}
        batches = gz.NeighborDataset(
            ds, ds.splits["train"], scenario.fanouts, batch_size=scenario.batch_size, **common
        )
        sources = [batches]
        if scenario.pack is not None and ds is datasets[0]:
            sources.append(gz.PackedDataset(ds, scenario.pack, ds.splits["train"], **common))
        loaders += [
            DataLoader(
                source,
                batch_size=None,
                collate_fn=gz.Collate(ds),
                num_workers=scenario.workers,
                persistent_workers=scenario.persistent,
            )
            for source in sources
        ]
    held, count = [], 0
    for _ in range(scenario.epochs):
        for found in zip(*loaders, strict=True):
            count += len(found)
            if scenario.hold and not held:
                held.append(allocate(scenario.hold))
            allocate(scenario.inside)
        allocate(scenario.after)
    return count


def _rank(scenario: Scenario) -> None:
    train(scenario)


def main(scenario: Scenario) -> None:
    """Prints what was left before anything was opened, and the number of batches."""
    left = available_memory()
    count = 0
    if scenario.ranks == 1:
        count = train(scenario)
    else:
        context = multiprocessing.get_context("fork")
        ranks = [context.Process(target=_rank, args=(scenario,)) for _ in range(scenario.ranks)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
            if rank.exitcode != 0:
                sys.exit(f"a rank ended with {rank.exitcode}")
    print(json.dumps({"left": left, "batches": count}))


if __name__ == "__main__":
    main(Scenario(**json.loads(sys.argv[1])))
