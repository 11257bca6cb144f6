"""The DataLoader as tests use it."""

from __future__ import annotations

import contextlib
import traceback

import pytest

import graphzero as gz


def loader_of(batches, workers=0, method="fork", *, kind=None, **options):
    """A DataLoader, or another of its kind; `method` starts the workers, if there are any."""
    from torch.utils.data import DataLoader  # tests of it are skipped where there is no torch

    return (kind or DataLoader)(
        batches,
        batch_size=None,
        num_workers=workers,
        collate_fn=gz.Collate(batches.dataset),
        multiprocessing_context=method if workers else None,
        **options,
    )


def positions(taken):
    """The positions of the seeds of these mini-batches, in their order."""
    return tuple(i for batch in taken for i in batch.input_id.tolist())


@contextlib.contextmanager
def refused(error, match):
    """Expects an error, whose frames then hold no workers: left to the collector, they end late."""
    with pytest.raises(error, match=match) as caught:
        yield
    traceback.clear_frames(caught.tb)
