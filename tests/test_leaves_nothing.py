"""However an iteration ends, it leaves no thread, process, descriptor or memory behind."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import files
import numpy as np
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


SCRIPT = """
import os
import sys
import time
import torch
import graphzero as gz

if __name__ == "__main__":
    folder, workers = sys.argv[1], int(sys.argv[2])
    ds = gz.open(folder)
    batches = gz.NeighborDataset(
        ds, None, [10, 10], batch_size=64, num_threads=2, prefetch=gz.Prefetch(lookahead=4))
    loader = torch.utils.data.DataLoader(
        batches, batch_size=None, num_workers=workers, collate_fn=gz.Collate(ds))
    for epoch in range(100_000):
        batches.set_epoch(epoch)
        for i, batch in enumerate(loader):
            if epoch == 0 and i == 3:
                print("training", flush=True)
            time.sleep(0.001)
"""


@pytest.fixture
def training(tmp_path):
    """Starts a script that trains until it is stopped, in a session of its own."""
    rng = np.random.default_rng(0)
    files.write_dataset(
        tmp_path / "data",
        files.random_edges(20_000, 200_000),
        20_000,
        features=rng.standard_normal((20_000, 16)).astype(np.float32),
    )
    (tmp_path / "script.py").write_text(SCRIPT)
    started = []

    def start(workers):
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "data"), str(workers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=files.let_be_interrupted,
        )
        started.append(process)
        assert process.stdout.readline() == "training\n", process.stderr.read()
        return process, psutil.Process(process.pid).children(recursive=True)

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("ended", ["the main process", "all", "a worker"])
def test_ending_it_ends_it_all(training, ended):
    """A terminal interrupts the whole group of processes; a scheduler, the first of them."""
    process, children = training(0 if ended == "the main process" else 2)
    if ended == "a worker":
        children[0].kill()
    elif ended == "all":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    if ended == "a worker":  # which of torch's errors it is depends on what the worker was sending
        assert process.returncode == 1
        assert re.search("DataLoader worker|Connection(Reset|Refused)Error|EOFError", errors), (
            errors
        )
    else:
        assert process.returncode != 0
        assert "\nKeyboardInterrupt" in errors
    if ended == "the main process":  # torch's workers may be cut off while they send, and say so
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert errors.count("Traceback") == 1, errors
    assert psutil.wait_procs(children, timeout=30)[1] == []
