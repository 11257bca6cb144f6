"""`TrainOptions`: what a user chooses of a training. It does not import torch."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from graphzero.graph.user_input import as_fanouts
from graphzero.io.prefetch import Prefetch
from graphzero.units import as_count


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What a user chooses of a training.

    Parameters
    ----------
    fanouts : sequence of int, optional
        Neighbours to sample per node in each hop; -1 samples all. The model has one layer for each
        hop. Default: 10, 10, or the fanouts of the pack.
    hidden : int
        Length of the vectors between two layers.
    epochs : int
    batch_size : int, optional
        Seeds in a batch. Default: 1024, or the batch size of the pack.
    lr, weight_decay : float
        Learning rate and weight decay of Adam.
    dropout : float
        Share of each layer's inputs that is set to zero while training.
    workers : int
        DataLoader workers; 0 loads in this process.
    seed : int
        Seed of all random choices.
    device : str
        A torch device, or "auto": CUDA where it is available, else the CPU.
    prefetch : Prefetch, optional
        How feature rows are read. Default: as for `NeighborDataset`.
    pack : path-like, optional
        A file that `graphzero.pack` has written for the labelled nodes of the training split.
        Training then uses its batches (see `PackedDataset`).
    capture : bool
        Fill mini-batches up and capture steps (see `CapturedStep`), on a device that can.

    Raises
    ------
    ValueError
        If an option is out of range, or contradicts the pack.
    """

    fanouts: Sequence[int] | None = None
    hidden: int = 128
    epochs: int = 50
    batch_size: int | None = None
    lr: float = 0.01
    dropout: float = 0.3
    weight_decay: float = 5e-4
    workers: int = 0
    seed: int = 0
    device: str = "auto"
    prefetch: Prefetch | None = None
    pack: str | os.PathLike[str] | None = None
    capture: bool = True

    def __post_init__(self) -> None:
        if self.pack is not None and (self.fanouts is not None or self.batch_size is not None):
            raise ValueError("a pack has its own fanouts and batch size: leave them out")
        if self.fanouts is not None:
            object.__setattr__(self, "fanouts", tuple(as_fanouts(self.fanouts)))
        if self.fanouts == ():
            raise ValueError("fanouts must name at least one hop: the model has a layer for each")
        as_count(self.hidden, "hidden")
        as_count(self.epochs, "epochs")
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr must be a positive number, not {self.lr}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be from 0 to below 1, not {self.dropout}")
