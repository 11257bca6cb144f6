"""Which rank and worker this process is, and how ranks share an epoch."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing.context import get_spawning_popen

import torch
from torch.utils.data import get_worker_info

from graphzero.graph.user_input import as_threads
from graphzero.sampling.order import Share, even_rounds
from graphzero.units import as_count

# A process that spawns DataLoader workers, and its rank and world size, which these do not have.
ParentGroup = tuple[int, tuple[int, int] | None] | None

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

    def find(self, parent: ParentGroup) -> tuple[int, int]:
        """Rank of this process, and the number of ranks that share an epoch.

        Parameters
        ----------
        parent : ParentGroup
            That of the process that spawned this one.

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
        group = group_of_worker(parent)
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

    def check_rounds(self, num_batches: int, world_size: int, drop_last: bool) -> str | None:
        """What to warn of if `even` changes an epoch much.

        `num_batches` are those of an epoch over all ranks.

        Raises
        ------
        ValueError
            If there are fewer batches than ranks, and they are dropped.
        """
        if not self.even or world_size == 1:
            return None
        if drop_last and num_batches < world_size:
            raise ValueError(
                f"drop_last=True leaves no batch: an epoch has {num_batches} full batches, and "
                f"{world_size} ranks get equally many. Choose a smaller batch_size, "
                f"drop_last=False, or, if there is a full batch, even=False"
            )
        extra = even_rounds(num_batches, world_size, drop_last)
        if abs(extra) <= _TOLERATED * num_batches:
            return None
        does = "leaves out" if drop_last else "repeats"
        return (
            f"an epoch has {num_batches} batches, and {world_size} ranks get "
            f"{(num_batches + extra) // world_size} each: even=True {does} {abs(extra)} "
            f"({abs(extra) / num_batches:.0%}). A smaller batch_size makes this a smaller "
            f"part; for evaluation, even=False gives every seed once"
        )


def is_spawning() -> bool:
    """Whether objects are now pickled for a process that this one starts."""
    return get_spawning_popen() is not None


def group_for_workers() -> ParentGroup:
    """What objects hand to the worker that they are pickled for; None where there is none."""
    return (os.getpid(), current_group()) if is_spawning() else None


def current_group() -> tuple[int, int] | None:
    """(rank, world size) of the initialised ``torch.distributed`` group; None without one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return None


def group_of_worker(parent_group: ParentGroup) -> tuple[int, int] | None:
    """That of the parent in a spawned DataLoader worker; elsewhere that of this process."""
    parent = multiprocessing.parent_process()
    if in_worker() and parent and parent_group and parent_group[0] == parent.pid:
        return parent_group[1]
    return current_group()


def launched_processes() -> int:
    """How many processes torchrun has started; 1 without it."""
    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        return int(os.environ.get("WORLD_SIZE", "1"))
    return 1


def current_share(rank: int, world_size: int) -> Share:
    """The share of this process: rank and world size as given, worker from the DataLoader."""
    worker = get_worker_info()
    if worker is None:
        return Share(rank, world_size)
    return Share(rank, world_size, worker.id, worker.num_workers)


def in_worker() -> bool:
    """Whether this process is a DataLoader worker."""
    return get_worker_info() is not None


def default_threads(num_threads: int | None) -> int:
    """As requested; by default one in a DataLoader worker, all processors in the main process."""
    return 1 if num_threads is None and in_worker() else as_threads(num_threads)
