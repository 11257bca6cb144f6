"""However an iteration ends, it leaves no thread, process, descriptor or memory behind."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from contextlib import nullcontext

import files
import psutil
import pytest
from loaders import loader_of

import graphzero as gz
from graphzero import _core

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


def make_loader(folder, workers=0, **options):
    ds = gz.open(folder)
    defaults = {"fanouts": [4, 3], "batch_size": 16, "shuffle": True, "num_threads": 2}
    batches = gz.NeighborDataset(ds, ds.splits["train"], **{**defaults, **options})
    return loader_of(batches, workers)


def held():
    """(threads, descriptors, child processes, blocks that arrays live in).

    When a loop with workers ends, torch does not wait for the threads that feed its queues to them
    (``cancel_join_thread``): they are on their way out, for longer on a machine that is busy.
    """
    gc.collect()
    end = time.monotonic() + 30
    while time.monotonic() < end and any(
        thread.name.startswith("QueueFeederThread") for thread in threading.enumerate()
    ):
        time.sleep(0.01)
    return (
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),
        len(psutil.Process().children()),
        _core.pool_state()[0],
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("order", ["hot"], indirect=True)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("fails", [False, True])
def test_leaving_the_loop_early_leaves_nothing_behind(dataset, workers, fails):
    loader = make_loader(dataset[0], workers)
    list(loader)  # what torch keeps for good, it has now
    before = held()
    with pytest.raises(KeyError, match="training failed") if fails else nullcontext():
        for i, _ in enumerate(loader):
            if fails:
                raise KeyError("training failed")
            if i == 2:
                break
    del _
    assert held() == before


@pytest.mark.parametrize("order", ["hot"], indirect=True)
@pytest.mark.parametrize(("workers", "lookahead"), [(0, 0), (0, 5), (2, 1)])
def test_errors_of_background_threads_reach_the_loop_as_themselves(dataset, workers, lookahead):
    files.damage(dataset[0] / "graph.gl", "indices", slice(None), 2**32 - 1)
    loader = make_loader(dataset[0], workers, prefetch=gz.Prefetch(lookahead=lookahead))
    before = held()
    with pytest.raises(gz.FormatError, match="corrupt"):
        next(iter(loader))
    assert held()[0] == before[0]
    assert held()[2] == before[2]
