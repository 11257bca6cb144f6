"""Where this code runs: the only module that looks up ranks and DataLoader workers."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing.context import get_spawning_popen

import torch
from torch.utils.data import get_worker_info

from graphzero.graph.ids import as_threads
from graphzero.sampling.order import Share

__all__ = [
    "ParentGroup",
    "current_family",
    "current_group",
    "current_share",
    "default_threads",
    "group_of_worker",
    "in_worker",
    "is_spawning",
    "launched_processes",
]

Group = tuple[int, int]  # rank and world size


@dataclass(frozen=True)
class ParentGroup:
    """What a process tells a DataLoader worker that it spawns: the worker has no process group.

    Attributes
    ----------
    pid : int
        The process that spawns. Only its own workers use the group.
    group : (int, int) or None
        Its `current_group`.
    """

    pid: int
    group: Group | None

    @classmethod
    def of_this_process(cls) -> ParentGroup | None:
        """That of this process while it spawns another; None while it pickles for other ends."""
        return cls(os.getpid(), current_group()) if is_spawning() else None


def is_spawning() -> bool:
    """Whether objects are now pickled for a process that this one starts."""
    return get_spawning_popen() is not None


def current_group() -> Group | None:
    """(rank, world size) of the initialised ``torch.distributed`` group; None without one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return None


def group_of_worker(told: ParentGroup | None) -> Group | None:
    """What the parent of this DataLoader worker said; elsewhere, and in a forked one, as found."""
    parent = multiprocessing.parent_process()
    if told is not None and in_worker() and parent is not None and parent.pid == told.pid:
        return told.group
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


def current_family() -> int:
    """The process whose DataLoader this one serves: its parent for a worker, otherwise itself."""
    return os.getppid() if in_worker() else os.getpid()


def default_threads(num_threads: int | None) -> int:
    """As requested; by default one in a DataLoader worker, all processors in the main process."""
    return 1 if num_threads is None and in_worker() else as_threads(num_threads)
