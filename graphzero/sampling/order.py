"""Which seeds make up which batch, and who prepares it: pure functions of the seed and epoch.

Ranks and workers are dealt whole batches, not single seeds. Batch b of an epoch holds the same
seeds for any number of ranks and workers, and all of them together see each batch once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphzero import _core
from graphzero.graph.ids import IdArray

__all__ = ["Share", "batch_ids", "batch_positions", "epoch_order", "num_batches"]


@dataclass(frozen=True)
class Share:
    """One worker of one rank: it prepares a share of each epoch's batches.

    Attributes
    ----------
    rank, world_size : int
        Of the distributed run; 0 and 1 without one.
    worker, num_workers : int
        Of the DataLoader of this rank; 0 and 1 in the main process.
    """

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1


def num_batches(num_seeds: int, batch_size: int, drop_last: bool) -> int:
    """Batches in an epoch, over all ranks."""
    return num_seeds // batch_size if drop_last else -(-num_seeds // batch_size)


def epoch_order(num_seeds: int, shuffle: bool, seed: int, epoch: int) -> IdArray:
    """Positions in the seed array in the order of one epoch, (num_seeds,) int64."""
    if not shuffle:
        return np.arange(num_seeds, dtype=np.int64)
    return _core.permutation(num_seeds, _core.key("shuffle", seed, epoch, 0))


def batch_ids(count: int, share: Share, first: int = 0) -> range:
    """The batches of one worker of one rank, out of [first, count), in the order of use.

    Rank r takes every world_size-th batch, from first + r on, and its workers take turns. The
    DataLoader also takes batches from its workers in turn, so a rank sees ascending batches with
    any number of workers.
    """
    start = first + share.rank + share.worker * share.world_size
    return range(start, count, share.world_size * share.num_workers)


def batch_positions(order: IdArray, batch: int, batch_size: int) -> IdArray:
    """Positions in the seed array of the seeds of one batch, a copy; the last may be shorter."""
    return order[batch * batch_size : (batch + 1) * batch_size].copy()
