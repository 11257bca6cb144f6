"""``graphzero train``: what it prints and writes, and what Ctrl-C leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import files
import numpy as np
import pytest
import torch
from cli_program import build_data, only_line, run, write_inputs

import graphzero as gz

# what is tested is Python; its C code runs under the sanitizers in other tests
pytestmark = pytest.mark.no_asan


@pytest.fixture
def inputs(tmp_path):
    return write_inputs(tmp_path / "in")


@pytest.fixture
def data(inputs, tmp_path, capfd):
    folder = build_data(inputs, tmp_path / "data")
    capfd.readouterr()
    return folder


def test_train_prints_and_writes_the_report(data, tmp_path, capfd):
    report = tmp_path / "report.json"
    words = ["train", data, "--epochs", 3, "--fanouts", "2,-1", "--json", report]
    assert run(*words) == 0
    out, err = capfd.readouterr()
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["epoch", str(i)] for i in (1, 2, 3)]
    assert "batches/s" in lines[0]
    assert lines[3].startswith("weights of epoch ")
    assert lines[4].startswith("train accuracy ")
    assert "ROC AUC" in lines[4]
    assert "majority class 0.5000, 12 nodes" in lines[4]
    assert lines[-1].startswith("memory")
    assert "page cache of the dataset's files: " in lines[-1]
    assert err == ""
    content = json.loads(report.read_text())
    assert [epoch["epoch"] for epoch in content["epochs"]] == [1, 2, 3]
    assert content["splits"]["val"]["num_nodes"] == 8


def test_several_processes_of_torchrun_are_refused(data, capfd, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run("train", data, "--epochs", 1) == 1
    assert "one of 2 processes that torchrun has started" in only_line(capfd.readouterr().err)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert run("train", data, "--epochs", 1) == 0


def test_train_on_a_pack(data, tmp_path, capfd):
    pack = tmp_path / "p.gd"
    options = ["--epochs", 2, "--fanouts", "2,-1", "--resident", "0"]
    assert run("pack", data, pack, "--quiet", *options) == 0
    assert run("train", data, "--epochs", 2, "--pack", pack) == 0
    assert "epoch   2" in capfd.readouterr().out
    assert run("train", data, "--pack", pack, "--fanouts", "2,-1") == 1
    assert "a pack has its own fanouts" in only_line(capfd.readouterr().err)


def test_train_quietly(data, capfd):
    assert run("train", data, "--epochs", 3, "--quiet") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith("weights of epoch ")


def test_train_on_a_graph_without_labels(inputs, tmp_path, capfd):
    run("build", tmp_path / "bare", "--edges", inputs / "edges.csv")
    assert run("train", tmp_path / "bare") == 1
    assert "the dataset has no features" in only_line(capfd.readouterr().err)


def test_an_error_in_a_worker_is_one_line_too(data, monkeypatch, capfd):
    def broken(*_, **__):
        raise gz.FormatError("the file went bad")

    monkeypatch.setattr(gz.FeatureStore, "gather_stored", broken)
    monkeypatch.setattr(gz.FeatureStore, "gather", lambda self, nodes: np.zeros(len(nodes), int))
    assert run("train", data, "--workers", 1) == 1
    line = only_line(capfd.readouterr().err)
    assert line.startswith("graphzero: ")
    assert line.endswith("the file went bad")


@pytest.mark.parametrize("option", ["--save", "--predictions", "--json"])
def test_train_checks_its_outputs_before_it_trains(data, tmp_path, option, capfd):
    suffix = {"--save": "pt", "--predictions": "csv", "--json": "json"}[option]
    for path, message in (
        (tmp_path / "no" / f"x.{suffix}", "cannot be written: the folder"),
        (data / "graph.gl", "would replace" if suffix != "csv" else "written as .npz or .csv"),
    ):
        assert run("train", data, "--epochs", 1, option, path) == 1
        out, err = capfd.readouterr()
        assert out == ""
        assert message in only_line(err)
        assert str(path) in err
    assert run("train", data, option, tmp_path / "x.csv", "--json", tmp_path / "x.csv") == (
        0 if option == "--json" else 1
    )
    assert ("are the same file" in capfd.readouterr().err) == (option != "--json")


def test_train_says_what_it_has_written(data, tmp_path, capfd):
    words = ["--save", tmp_path / "m.pt", "--predictions", tmp_path / "p.csv"]
    assert run("train", data, "--epochs", 2, *words) == 0
    lines = capfd.readouterr().out.splitlines()
    assert f"model saved in {tmp_path / 'm.pt'}" in lines
    assert f"predictions saved in {tmp_path / 'p.csv'}" in lines
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 21


def start_training(data, *options):
    """A training that would take hours, in a process group of its own."""
    command = [sys.executable, "-m", "graphzero", "train", data, "--epochs", 100_000, *options]
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=data,
        preexec_fn=files.let_be_interrupted,
    )


def interrupt(process):
    """Presses Ctrl-C: a terminal sends the signal to the whole group."""
    os.killpg(process.pid, signal.SIGINT)


def finish(process):
    """The lines of stdout and stderr, when all processes of the group have ended."""
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return out.splitlines(), err.splitlines()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError("workers outlive the training")


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_ends_a_training_and_keeps_the_best(data, tmp_path, workers):
    model, predictions, report = (tmp_path / name for name in ("m.pt", "p.npz", "r.json"))
    outputs = ["--save", model, "--predictions", predictions, "--json", report]
    process = start_training(data, "--workers", workers, *outputs)
    assert process.stdout.readline().startswith("epoch   1")
    time.sleep(0.2)
    interrupt(process)
    out, err = finish(process)
    assert process.returncode == 130
    content = json.loads(report.read_text())
    last = len(content["epochs"])
    assert content["interrupted"]
    assert 1 <= content["best_epoch"] <= last < 100_000
    assert f"interrupted after epoch {last}" in out
    assert f"weights of epoch {content['best_epoch']} (best on val):" in out
    assert out[-1].startswith("memory")
    assert err == [
        f"graphzero: interrupted after epoch {last}: evaluating the best weights "
        f"(Ctrl-C again skips this)",
        "graphzero: interrupted",
    ]
    assert set(content["splits"]) == {"train", "val"}
    assert torch.load(model, weights_only=True)["epoch"] == content["best_epoch"]
    with np.load(predictions) as found:
        assert found["node_id"].tolist() == list(range(20))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_kill_at_any_time_leaves_the_best_model_so_far(data, tmp_path):
    process = start_training(data, "--save", tmp_path / "m.pt")
    assert process.stdout.readline().startswith("epoch   1")
    os.killpg(process.pid, signal.SIGKILL)
    finish(process)
    assert gz.GraphSAGE.from_saved(tmp_path / "m.pt").arguments["in_dim"] == 4
    assert torch.load(tmp_path / "m.pt", weights_only=True)["epoch"] >= 1


def test_ctrl_c_ends_a_training_with_workers(data):
    command = [sys.executable, "-m", "graphzero", "train", str(data), "--epochs", "100000"]
    process = subprocess.Popen(
        [*command, "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=data,
        preexec_fn=files.let_be_interrupted,
    )
    try:
        assert process.stdout.readline().startswith("epoch   1")
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        err = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "graphzero: interrupted"
    assert "Traceback" not in err
