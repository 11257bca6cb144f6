"""`HopReadAhead`: how sampling requests the topology of each hop before it reads it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HopReadAhead"]


@dataclass(frozen=True)
class HopReadAhead:
    """Hop read-ahead for one mini-batch.

    Attributes
    ----------
    resident_nodes : int
        The topology of stored ids below is in memory, and not requested.
    trust_mincore : bool
        False where ``mincore`` is known to lie: then pages in memory are requested as well.
    """

    resident_nodes: int = 0
    trust_mincore: bool = True
