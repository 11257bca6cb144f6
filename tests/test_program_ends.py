"""Every program ends, whatever its iterators are doing then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import files
import numpy as np
import pytest

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.extended,
    pytest.mark.no_asan,  # the same code as in test_iterators_end, in many slow processes
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
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("endings") / "data"
    files.write_dataset(
        folder,
        files.random_edges(NODES, 120_000),
        NODES,
        features=rng.standard_normal((NODES, DIM), dtype=np.float32),
        splits={"train": rng.permutation(NODES)[:1000]},
        order="hot",
    )
    return folder


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
        if ending == "killed worker":  # torch's error may be about the other one, which it ends
            assert "Traceback" in output, (name, outcome)
            continue
        assert "Exception ignored" not in output, (name, outcome)
        assert output.count("Traceback") == (ending in ("exception", "interrupt")), (name, outcome)
        assert ("trained" in output) == (ending == "thread"), (name, outcome)
        if not cases[name]["workers"]:
            assert "resident" in output, (name, outcome)
            assert " 0 bytes of memory" not in output, (name, outcome)
            assert strategy == "auto" or f" {strategy}" in output, (name, outcome)
