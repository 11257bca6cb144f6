"""`BatchStats`: what one mini-batch cost."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BatchStats"]


@dataclass(frozen=True)
class BatchStats:
    """What a mini-batch cost.

    The first four times do not overlap: they are the work on it, and then its rest. Whether a
    thread waits for the disk is found by `loader.stage_clock`, with every strategy in the same way.

    Attributes
    ----------
    sampled : float
        Seconds of sampling, without waiting for the disk; in a background thread if there is one.
    disk : float
        Seconds that threads waited for the disk: for topology while they sampled, for pages that
        were requested, for rows.
    gathered : float
        Seconds of looking up and copying rows, without waiting for the disk; in the background and
        after.
    ready : float
        Seconds that the mini-batch, as far as it is prepared in the background, waited until the
        training loop, or its DataLoader, took it.
    waited : float
        Seconds that the loop, or in a DataLoader worker this process, waited for the mini-batch,
        the placing of its rows included: parts of the times above.
    queue_depth : int
        Mini-batches behind it that were finished when it was taken.
    row_bytes : int
        Bytes of all its rows, as they are stored.
    pages_missed : int
        Pages of its rows that were not in memory when they were requested, or were read past the
        page cache; 0 where no pages are requested (see `Prefetch`). Of files that belong to others,
        whose residency the kernel hides: that it read when they were requested.
    topology_missed : int
        Pages of topology that were not in memory when hop read-ahead requested them; 0 without
        hop read-ahead.
    io : str
        How its rows were read, and why.
    """

    sampled: float = 0.0
    disk: float = 0.0
    gathered: float = 0.0
    ready: float = 0.0
    waited: float = 0.0
    queue_depth: int = 0
    row_bytes: int = 0
    pages_missed: int = 0
    topology_missed: int = 0
    io: str = ""
