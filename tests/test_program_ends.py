"""Every iteration ends, and every program: nothing is left behind."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import files
import numpy as np
import psutil
import pytest
from loaders import loader_of

import graphzero as gz
from graphzero import _core

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.extended,
    pytest.mark.no_asan,  # the same code as in test_iterators_end, in many slow processes
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="forks a process that has loaded torch"),
]

NODES, DIM = 40_000, 256  # 40 MB of features
# Not enough for the features: a part of them is made resident in a thread, and topology is
# requested hop by hop. Requests of "willneed" wait for room.
LIMITS = {"memory_limit": "36MB", "readahead_limit": "64KB"}
PREFETCH = {
    "auto": LIMITS,
    "willneed": {"strategy": "willneed", "resident": 0.3, **LIMITS},
    "uring": {"strategy": "uring", "resident": 0.3, **LIMITS},
    "pread": {"strategy": "pread", "resident": 0.3, **LIMITS},
}
CODES = {"end": 0, "exit": 3, "exception": 1, "interrupt": -signal.SIGINT, "thread": 0, "fork": 0}
OF_WORKERS = {**CODES, "killed worker": 1}
WORKERS = {"threads": (0, False), "workers": (2, False), "persistent workers": (2, True)}
# Where the strategy makes no difference in the parent, "auto" alone ends in all ways.
FEW = {"workers": ("end", "interrupt"), "persistent workers": ("exit", "exception")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("endings") / "data"
    splits = {"train": np.random.default_rng(0).permutation(NODES)[:1000]}
    return files.write_random(path, NODES, 120_000, DIM, order="hot", splits=splits)


def cases_of(strategy):
    """By name, for `endings.py`. A daemon of the user's may be anywhere at the end: it is last."""
    cases = {}
    for kind, (workers, persistent) in WORKERS.items():
        endings = [*CODES, "daemon"]
        if workers:  # torch's own iterator does not survive a fork, or a daemon that holds it
            endings = [each for each in OF_WORKERS if each != "fork"]
            endings = endings if strategy == "auto" else FEW[kind]
        for ending in endings:
            cases[f"{ending}, {kind}"] = {
                "ending": ending,
                "workers": workers,
                "persistent": persistent,
                "prefetch": PREFETCH[strategy],
            }
    return cases


@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", PREFETCH)
def test_every_program_ends(folder, strategy):
    cases = cases_of(strategy)
    program = Path(__file__).with_name("endings.py")
    done = subprocess.run(
        [sys.executable, str(program), str(folder), json.dumps(cases)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
    )
    outcomes = json.loads(done.stdout)
    assert list(outcomes) == list(cases)
    for name, outcome in outcomes.items():
        ending, output = cases[name]["ending"], outcome["output"]
        assert outcome["left"] == 0, (name, outcome)
        if ending == "daemon":
            assert outcome["code"] is not None, (name, outcome)
            continue
        assert outcome["code"] == OF_WORKERS[ending], (name, outcome)
        if ending == "killed worker":
            # The error may be about the other worker, which torch ends. That the first has died may
            # reach torch while Python prints a lost connection to it: then even the first line of
            # the traceback can be missing (6 of 150 plain DataLoaders).
            assert "Error" in output, (name, outcome)
            continue
        assert "Exception ignored" not in output, (name, outcome)
        assert output.count("Traceback") == (ending in ("exception", "interrupt")), (name, outcome)
        assert ("trained" in output) == (ending == "thread"), (name, outcome)
        if not cases[name]["workers"]:
            assert "resident" in output, (name, outcome)
            assert " 0 bytes of memory" not in output, (name, outcome)
            assert strategy == "auto" or f" {strategy}" in output, (name, outcome)


# --- iterations


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
