"""`BatchStats`: what one mini-batch cost."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BatchStats"]


@dataclass(frozen=True)
class BatchStats:
    """What a mini-batch cost.

    Attributes
    ----------
    sampled : float
        Seconds of sampling, in a background thread if there is one.
    waited : float
        Seconds that the training loop waited for the mini-batch, the placing of its rows included.
    gathered : float
        Seconds of reading and copying rows, in the background and after.
    pages_missed : int
        Pages of its rows that were not in memory when they were requested, or were read past the
        page cache; 0 where no pages are requested (see `Prefetch`).
    topology_missed : int
        Pages of topology that were not in memory when hop read-ahead requested them; 0 without
        hop read-ahead.
    io : str
        How its rows were read, and why.
    """

    sampled: float = 0.0
    waited: float = 0.0
    gathered: float = 0.0
    pages_missed: int = 0
    topology_missed: int = 0
    io: str = ""
