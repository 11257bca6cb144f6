"""Where this code runs: the only module that looks up ranks and DataLoader workers."""

from __future__ import annotations

import os

import torch
from torch.utils.data import get_worker_info

from graphzero.graph.ids import as_threads
from graphzero.sampling.order import Share

__all__ = ["current_family", "current_rank", "current_share", "default_threads", "in_worker"]


def current_rank() -> tuple[int, int]:
    """(rank, world size) of the initialised ``torch.distributed`` group; (0, 1) without one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


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
