"""`Ranks`: the user's options about which ranks share an epoch, and how evenly."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch

from graphzero.graph.ids import as_count
from graphzero.loader.world import ParentGroup, group_of_worker, is_spawning, launched_processes
from graphzero.sampling.order import even_rounds

__all__ = ["OnceFlag", "Ranks"]

_TOLERATED = 0.05  # of an epoch may be repeated or left out without a warning


@dataclass(frozen=True)
class Ranks:
    """The options `distributed`, `rank`, `world_size` and `even` of a dataset, checked.

    Attributes
    ----------
    distributed : bool or None
        True if `rank` and `world_size` are given.
    rank, world_size : int or None
        Those of the user, instead of those of ``torch.distributed``.
    even : bool

    Raises
    ------
    ValueError
        If an option is invalid or contradicts another.
    """

    distributed: bool | None = None
    rank: int | None = None
    world_size: int | None = None
    even: bool = True

    def __post_init__(self) -> None:
        if self.distributed is not None and not isinstance(self.distributed, bool):
            raise ValueError(f"distributed must be True, False or None, not {self.distributed!r}")
        if not isinstance(self.even, bool):
            raise ValueError(f"even must be True or False, not {self.even!r}")
        if self.rank is None and self.world_size is None:
            return
        if self.rank is None or self.world_size is None:
            raise ValueError("rank and world_size belong together: give both or neither")
        if self.distributed is False:
            raise ValueError(
                f"distributed=False gives this process all seeds, and rank={self.rank} a share of "
                f"them: leave one out"
            )
        world_size = as_count(self.world_size, "world_size")
        rank = as_count(self.rank, "rank", 0)
        if rank >= world_size:
            raise ValueError(f"rank must be below world_size={world_size}, not {rank}")
        for name, value in (("rank", rank), ("world_size", world_size), ("distributed", True)):
            object.__setattr__(self, name, value)

    def find(self, told: ParentGroup | None) -> tuple[int, int]:
        """Rank of this process, and the number of ranks that share an epoch.

        Parameters
        ----------
        told : ParentGroup or None
            What the parent of this process said when it spawned it.

        Raises
        ------
        ValueError
            If there are several ranks, and the user has not said whether they share the epoch; or
            has, and they are not known because no process group is initialised.
        """
        if self.rank is not None and self.world_size is not None:
            return self.rank, self.world_size
        if self.distributed is False:
            return 0, 1
        group = group_of_worker(told)
        count = launched_processes() if group is None else group[1]
        if count == 1:
            return 0, 1
        if self.distributed is None:
            raise ValueError(
                f"this process is one of {count} ranks: say whether they share the seeds. "
                f"distributed=True deals the batches to the ranks; distributed=False gives this "
                f"rank all its seeds, because you have split them already or this rank works alone"
            )
        if group is None:
            raise ValueError(
                f"distributed=True needs the rank, and torch.distributed is not initialised, "
                f"although torchrun has started {count} processes: call init_process_group before "
                f"the first batch, or give rank= and world_size="
            )
        return group

    def check_rounds(
        self, num_batches: int, rank: int, world_size: int, drop_last: bool, warned: OnceFlag
    ) -> None:
        """An error if `even` leaves no batch; a warning, by rank 0, if it changes much.

        Parameters
        ----------
        num_batches : int
            Of an epoch, over all ranks.
        rank, world_size : int
        drop_last : bool
        warned : OnceFlag
            Set by the warning, which is not repeated.

        Raises
        ------
        ValueError
            If there are fewer batches than ranks, and they are dropped.
        """
        if not self.even or world_size == 1:
            return
        if drop_last and num_batches < world_size:
            raise ValueError(
                f"drop_last=True leaves no batch: an epoch has {num_batches} full batches, and "
                f"{world_size} ranks get equally many. Choose a smaller batch_size, "
                f"drop_last=False, or even=False"
            )
        extra = even_rounds(num_batches, world_size, drop_last)
        if rank == 0 and abs(extra) > _TOLERATED * num_batches and warned.set_once():
            does = "leaves out" if drop_last else "repeats"
            warnings.warn(
                f"an epoch has {num_batches} batches, and {world_size} ranks get "
                f"{(num_batches + extra) // world_size} each: even=True {does} {abs(extra)} "
                f"({abs(extra) / num_batches:.0%}). A smaller batch_size makes this a smaller "
                f"part; for evaluation, even=False gives every seed once",
                stacklevel=4,
            )


class OnceFlag:
    """A flag that is set once by a process and all DataLoader workers that it starts.

    Parameters
    ----------
    shared : (1,) uint8 Tensor, optional
        The flag of the parent, in shared memory. Default: a new one.
    """

    def __init__(self, shared: torch.Tensor | None = None) -> None:
        if shared is None:
            shared = torch.zeros(1, dtype=torch.uint8)
            shared.share_memory_()  # type: ignore[no-untyped-call]
        self._flag = shared

    def set_once(self) -> bool:
        """Sets the flag; whether it was not set before."""
        was_set = bool(self._flag[0])
        self._flag[0] = 1
        return not was_set

    def __reduce__(self) -> tuple[Any, ...]:
        # Other pickles, and copies, are of a dataset that has not warned yet.
        return OnceFlag, ((self._flag,) if is_spawning() else ())
