"""The options of a training, checked."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from graphzero.graph.ids import as_count
from graphzero.io.prefetch import Prefetch
from graphzero.packs.pack_file import open_pack

__all__ = ["TrainOptions", "as_device", "fanouts_and_batch_size"]

DEFAULT_FANOUTS = (10, 10)
DEFAULT_BATCH_SIZE = 1024


@dataclass(frozen=True)
class TrainOptions:
    """Everything that a training depends on, besides the dataset; see `train`.

    Raises
    ------
    ValueError
        If an option is out of range.
    """

    fanouts: Sequence[int]
    batch_size: int
    hidden: int
    epochs: int
    lr: float
    dropout: float
    weight_decay: float
    workers: int
    seed: int
    device: torch.device
    prefetch: Prefetch | None
    pack: str | os.PathLike[str] | None

    def __post_init__(self) -> None:
        for name, least in (("hidden", 1), ("epochs", 1), ("workers", 0)):
            object.__setattr__(self, name, as_count(getattr(self, name), name, least))
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr must be a positive number, not {self.lr!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {self.dropout!r}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay must be 0 or positive, not {self.weight_decay!r}")


def fanouts_and_batch_size(
    fanouts: Sequence[int] | None, batch_size: int | None, pack: str | os.PathLike[str] | None
) -> tuple[Sequence[int], int]:
    """The given fanouts and batch size, or those of the pack, or else the defaults.

    Raises
    ------
    ValueError
        If a pack is given together with one of the others.
    """
    if pack is None:
        return (
            DEFAULT_FANOUTS if fanouts is None else fanouts,
            DEFAULT_BATCH_SIZE if batch_size is None else batch_size,
        )
    if fanouts is not None or batch_size is not None:
        raise ValueError("a pack has its own fanouts and batch size: leave them out")
    opened = open_pack(pack)
    options = opened.info.options
    opened.store.close()
    return options["fanouts"], options["batch_size"]


def as_device(name: str) -> torch.device:
    """A torch device by its name; "auto" is CUDA where it is available, else the CPU.

    Raises
    ------
    ValueError
        If the device cannot be used, with torch's reason.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used: {reason}") from None
    return device
