"""Refuses wrappers of other libraries that would deal out what a dataset has dealt out already."""

from __future__ import annotations

import sys

import torch.distributed

__all__ = ["in_several_processes", "refuse_accelerate"]

# Classes of accelerate.data_loader: of the first, each process takes some items of every round;
# the second cuts the tensors of a batch into a piece for each process.
_WRAPPERS = ("IterableDatasetShard", "DataLoaderDispatcher")


def in_several_processes() -> bool:
    """Whether this is one of several processes of ``torch.distributed``."""
    distributed = torch.distributed
    return (
        distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def refuse_accelerate() -> None:
    """Raises an error if the caller was called by a wrapper of accelerate that divides batches.

    accelerate leaves no other trace: it makes a DataLoader of its own over the dataset, and tells
    the dataset the epoch before each pass.

    Raises
    ------
    RuntimeError
        That says what to pass to ``prepare``.
    """
    caller = sys._getframe(2)
    if not str(caller.f_globals.get("__name__")).startswith("accelerate."):
        return
    if type(caller.f_locals.get("self")).__name__ in _WRAPPERS:
        raise RuntimeError(
            "accelerate would divide the batches of this dataset among the processes, which "
            "the dataset does by itself. Keep its DataLoader out of prepare: model, optimizer = "
            "accelerator.prepare(model, optimizer). Make the dataset with distributed=True (and "
            "even=False for evaluation), and move each batch: batch.to(accelerator.device)"
        )
