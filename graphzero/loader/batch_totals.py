"""`BatchTotals`: what the mini-batches of an epoch, a process or a run have cost."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["BatchTotals"]


@dataclass(frozen=True)
class BatchTotals:
    """Sums over mini-batches. The first five times are parts of the work, and do not overlap.

    Attributes
    ----------
    batches : int
        Mini-batches that were prepared.
    sampling : float
        Seconds that threads sampled, without waiting for the disk.
    disk : float
        Seconds that they waited for the disk: for topology, requested pages, rows.
    gathering : float
        Seconds that they copied rows.
    ready : float
        Seconds that finished mini-batches waited for the training loop to take them.
    steps : int
        Mini-batches that the training loop was given, as far as it was observed.
    stall : float
        Seconds that the training loop waited for mini-batches.
    training : float
        Seconds that it worked on them: from getting one to asking for the next.
    pages_missed, topology_missed : int
        As in `BatchStats`.
    row_bytes : int
        Bytes of the rows that the mini-batches have.
    queue_depth : int
        Sum over mini-batches of how many were finished when the loop took one.
    seeds, nodes, edges : int
        In the mini-batches.
    unsplit : float
        Seconds of `training` that only the iterator of a dataset has seen: what a ``DataLoader``
        without workers did meanwhile (collate_fn, pin_memory) is in them.
    """

    batches: int = 0
    sampling: float = 0.0
    disk: float = 0.0
    gathering: float = 0.0
    ready: float = 0.0
    steps: int = 0
    stall: float = 0.0
    training: float = 0.0
    pages_missed: int = 0
    topology_missed: int = 0
    row_bytes: int = 0
    queue_depth: int = 0
    seeds: int = 0
    nodes: int = 0
    edges: int = 0
    unsplit: float = 0.0

    def __add__(self, other: BatchTotals) -> BatchTotals:
        return BatchTotals(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: BatchTotals) -> BatchTotals:
        return BatchTotals(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    @property
    def values(self) -> tuple[float, ...]:
        """The fields, in order."""
        return tuple(self.__dict__.values())
