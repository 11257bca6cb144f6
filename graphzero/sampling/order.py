"""Which seeds make up which batch, and who prepares it: pure functions of the seed and epoch.

Ranks and workers are dealt whole batches, not single seeds. Batch b of an epoch holds the same
seeds for any number of ranks and workers, and all of them together see each batch once; where all
ranks get equally many, the first batches are repeated or the last ones left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphzero import _core
from graphzero.graph.user_input import IdArray


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


def batch_ids(
    count: int, share: Share, first: int = 0, *, even: bool = False, drop_last: bool = False
) -> Sequence[int]:
    """The batches of one worker of one rank, out of [first, count), in the order of use.

    Rank r takes every world_size-th batch, from first + r on, and its workers take turns. The
    DataLoader also takes batches from its workers in turn, so a rank sees ascending batches with
    any number of workers.

    If `even`, every rank gets equally many. The last round, in which some ranks would get none, is
    filled with the batches 0, 1, ... of the epoch, as often as needed; with `drop_last` it is left
    out. A range that is empty has no round, and stays empty.
    """
    end = count
    if even:
        end += even_rounds(count - first, share.world_size, drop_last)
    start = first + share.rank + share.worker * share.world_size
    numbers = range(start, end, share.world_size * share.num_workers)
    return numbers if end <= count else [number % count for number in numbers]


def even_rounds(count: int, world_size: int, drop_last: bool) -> int:
    """Batches that even rounds add to `count` batches; negative if they leave some out."""
    return -(count % world_size) if drop_last else -count % world_size


def batch_positions(order: IdArray, batch: int, batch_size: int) -> IdArray:
    """Positions in the seed array of the seeds of one batch, a copy; the last may be shorter."""
    return order[batch * batch_size : (batch + 1) * batch_size].copy()
