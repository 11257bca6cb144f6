"""Several machines: nodes of a Ray cluster that are killed, and torchrun over two addresses.

GRAPHZERO_RAY_KILLS=10 kills so many nodes in the first test.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import graphzero as gz
from graphzero.training import infer as inference

pytest.importorskip("ray")

ROOT = Path(__file__).resolve().parents[1]
NODES, SEEDS, SIZE, EVERY = 300, 254, 4, 4
BATCHES = -(-SEEDS // SIZE)  # 64, which three ranks do not divide
RNG = np.random.default_rng(0)

pytestmark = [pytest.mark.extended, pytest.mark.no_asan]


@pytest.fixture(scope="module")
def environment():
    """Of all processes of Ray, which keep their files in a folder of a short name."""
    folder = tempfile.mkdtemp(prefix="gz", dir="/tmp")
    Path(folder, "ray").mkdir()
    changes = {
        **{"RAY_TMPDIR": folder, "HOME": folder},
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "4",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "1",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PYTHONPATH": os.pathsep.join([str(Path(gz.__file__).parents[1]), str(ROOT / "tests")]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    yield folder
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    shutil.rmtree(folder)
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if folder in read(path)]
    assert left == []


def read(path):
    try:
        return path.read_text()
    except OSError:  # the process has ended since
        return ""


class Machines:
    """A Ray cluster of processes on this machine: a head without processors, and nodes of one."""

    SIZE = {"num_cpus": 1, "object_store_memory": 80 << 20}  # noqa: RUF012

    def __init__(self):
        self.start()

    def start(self):
        from ray.cluster_utils import Cluster

        checks = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
        head = {**self.SIZE, "num_cpus": 0, "include_dashboard": False, "_system_config": checks}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address = self._cluster.address
        self.nodes = []

    def have(self, count):
        while len(self.nodes) < count:
            self.nodes.append(self._cluster.add_node(**self.SIZE))

    def kill(self, number):
        self._cluster.remove_node(self.nodes.pop(number), allow_graceful=False)

    def close(self):
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def machines(environment):
    made = Machines()
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ray") / "data"
    edges = (RNG.random((2, 3000)) ** 2 * NODES).astype(np.int64)  # with hubs
    splits = {"train": np.arange(SEEDS), "val": np.arange(SEEDS, NODES), "test": np.arange(0, 99)}
    features = RNG.normal(size=(NODES, 8)).astype(np.float32)
    labels = RNG.integers(0, 3, NODES)
    gz.build(path, edges, features, labels, splits=splits).close()
    return path


class Program:
    """tests/ray_program.py in a process, with the lines that it logs."""

    def __init__(self, machines, tmp_path, command, *arguments):
        self._log, self._output = tmp_path / "log", tmp_path / f"{command}.txt"
        self._log.touch()
        program = [sys.executable, str(ROOT / "tests" / "ray_program.py"), command, str(self._log)]
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                [*program, *map(str, arguments)],
                env={**os.environ, "RAY_ADDRESS": machines.address},
                **{"stdout": output, "stderr": subprocess.STDOUT, "cwd": tmp_path},
            )

    @property
    def lines(self):
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def wait_for(self, count, where=lambda _: True):
        while sum(map(where, self.lines)) < count:
            assert self._process.poll() is None, self._output.read_text()[-5000:]
            time.sleep(0.02)

    def end(self):
        assert self._process.wait() == 0, self._output.read_text()[-5000:]

    def kill(self):
        self._process.kill()
        self._process.wait()


def train(machines, folder, tmp_path, epochs):
    options = {"storage": tmp_path / "runs", "name": "run", "epochs": epochs, "workers": 3}
    options |= {"batch-size": SIZE, "checkpoint-every": EVERY}
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    return Program(machines, tmp_path, "train", folder, *arguments)


def test_neither_killed_nodes_nor_a_lost_cluster_cost_or_repeat_a_seed(machines, folder, tmp_path):
    kills = int(os.environ.get("GRAPHZERO_RAY_KILLS", "2"))
    epochs = kills + 2
    rng = np.random.default_rng()
    machines.have(3)
    program = train(machines, folder, tmp_path, epochs)
    dead = frozenset()
    for kill in range(kills + 1):
        batches = int(rng.integers(10, 50)) + BATCHES * (kill == 0)  # one epoch of three ranks
        program.wait_for(batches, lambda line, dead=dead: line[0] not in dead)
        _, ranks, epoch, _ = program.lines[-1]
        print(f"{batches} batches after a start with {ranks} ranks, in epoch {epoch}")
        dead = frozenset(pid for pid, *_ in program.lines)
        if kill < kills:
            machines.kill(int(rng.integers(len(machines.nodes))))
        if kill < kills - 1:
            machines.have(3)
    machines.close()
    program.kill()
    machines.start()
    machines.have(1)
    program = train(machines, folder, tmp_path, epochs)  # the same command
    program.end()

    last = max((tmp_path / "runs" / "run").glob("checkpoint_*/states.pt"))
    states = torch.load(last)
    assert (states["loader"]["epoch"], states["loader"]["batches"]) == (epochs, 0)
    assert torch.equal(states["model"]["times"].round(decimals=3), torch.ones(epochs, SEEDS))
    assert list(dict.fromkeys(ranks for _, ranks, *_ in program.lines)) == [3, 2, 1]
    # the last report of the workers may not have reached the controller, which is asked in turns
    most = epochs * BATCHES + (kills + 1) * 3 * (2 * EVERY + 1)
    assert epochs * BATCHES <= len(program.lines) <= most


def test_inference_has_the_same_bytes_when_nodes_and_the_program_are_killed(
    machines, folder, tmp_path, monkeypatch
):
    import ray_program

    monkeypatch.setattr(inference.OneLayer, "_fitting", lambda *_: ray_program.BATCH_EDGES)
    with gz.open(folder) as ds:
        gz.infer(ray_program.make_layers(), ds, tmp_path / "whole.gd").close()
    machines.have(2)
    out = tmp_path / "h.gd"
    program = Program(machines, tmp_path, "infer", folder, out)
    program.wait_for(1)
    first = program.lines[0][0]
    program.wait_for(6, lambda line: line[0] != first)  # both nodes have tasks
    machines.kill(0)
    program.wait_for(20, lambda line: line[1] == 1)
    program.kill()
    assert not out.exists()
    before = len(program.lines)
    machines.have(2)
    program = Program(machines, tmp_path, "infer", folder, out)
    program.end()
    assert out.read_bytes() == (tmp_path / "whole.gd").read_bytes()
    assert {layer for _, layer in program.lines[before:]} == {1}  # not the first layer again


def test_trials_share_the_memory_of_a_dataset(machines, folder, tmp_path):
    machines.have(2)
    features = RNG.normal(size=(NODES, 10_000)).astype(np.float32)
    gz.build(tmp_path / "wide", [[0], [1]], features).close()
    Program(machines, tmp_path, "tune", tmp_path / "wide", tmp_path / "tuned").end()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert len({pid for pid, *_ in lines}) == 2
    for _, size, resident, share in lines:
        assert resident > 0.9 * size
        assert share < 0.6 * resident


def test_the_page_runs_as_printed(environment, folder, tmp_path):
    text = (ROOT / "docs" / "several-machines.md").read_text()
    script = "set -e\n"
    for language, block in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL):
        if "s3://bucket" in block:  # test_remote.py has an object store
            continue
        script += block if language == "bash" else f"python - <<'END'\n{block}END\n"
    shutil.copytree(folder, tmp_path / "data")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    process = subprocess.Popen(
        ["bash", "-c", script],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
        **{"cwd": tmp_path, "start_new_session": True},
    )
    try:
        printed, _ = process.communicate(timeout=200)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    assert process.returncode == 0, printed[-5000:]
    with gz.open(folder) as ds, gz.FeatureStore(tmp_path / "scores.gd") as scores:
        expected = ds.splits["test"].tolist()
        assert scores.shape == (NODES, ds.num_classes)
    (written,) = tmp_path.glob("*.npz")  # of the machine of rank 0
    with np.load(written) as predictions:
        assert sorted(predictions["node_id"].tolist()) == sorted(expected)
    assert "epoch 2: 2 workers" in printed
    assert "'hidden': " in printed
