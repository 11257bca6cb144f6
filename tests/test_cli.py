"""The command line: results, exit codes, messages."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time

import files
import numpy as np
import pytest
import torch

import graphzero as gz
from graphzero.cli import main
from graphzero.commands.options import as_prefetch
from graphzero.io.prefetch import Prefetch
from graphzero.store.format import read_header

COMMANDS = ("build", "reorder", "pack", "info", "verify", "train", "demo")


@pytest.fixture
def inputs(tmp_path):
    """A folder of a user's files: twenty nodes on a ring, a label and a feature row each."""
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [f"{i},{(i + 1) % 20},{i / 10}" for i in range(20)]
    (folder / "edges.csv").write_text("from,to,weight\n" + "\n".join(lines) + "\n")
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.standard_normal((20, 4)).astype(np.float32))
    np.save(folder / "y.npy", np.arange(20) % 2)
    np.save(folder / "train.npy", np.arange(12))
    np.save(folder / "val.npy", np.arange(12, 20))
    return folder


@pytest.fixture
def data(inputs, tmp_path, capfd):
    """The dataset folder built from them."""
    folder = tmp_path / "data"
    splits = [f"--split={name}={inputs / name}.npy" for name in ("train", "val")]
    parts = ["--features", str(inputs / "x.npy"), "--labels", str(inputs / "y.npy"), *splits]
    assert run("build", folder, "--edges", inputs / "edges.csv", *parts, "--undirected") == 0
    capfd.readouterr()
    return folder


def run(*words):
    return main([str(word) for word in words])


def subprocess_of(*words, cwd, env=None):
    """Not in the repository's root, whose uncompiled package would be run."""
    command = [sys.executable, "-m", "graphzero", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=env
    )


def only_line(text):
    (line,) = text.splitlines()
    return line


# --- usage


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_explains_and_gives_examples(words, capfd):
    with pytest.raises(SystemExit) as done:
        run(*words)
    assert done.value.code == 0
    out = capfd.readouterr().out
    assert "graphzero" in out
    if len(words) > 1:
        assert f"examples:\n  graphzero {words[0]}" in out
        assert "--debug" in out
    if words[0] == "train":
        assert "default: 10,10" in out


def test_version(capfd):
    with pytest.raises(SystemExit) as done:
        run("--version")
    assert done.value.code == 0
    assert capfd.readouterr().out.strip() == gz.__version__


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["build", "d"], "required: --edges"),
        (["build", "d", "--edges", "e", "--split", "train"], "'train' is not NAME=FILE"),
        (["build", "d", "--edges", "e", "--order", "odd"], "invalid choice: 'odd'"),
        (["build", "d", "--edges", "e", "--header", "--no-header"], "not allowed with"),
        (["train", "d", "--fanouts", "10,x"], "'10,x' is not a list of fanouts"),
        (["train", "d", "--fanouts", "10,0"], "write it like 10,10"),
        (["train", "d", "--epochs", "many"], "invalid int value: 'many'"),
        (["train", "d", "--prefetch", "magic"], "strategy must be one of"),
        (["train", "d", "--prefetch", "none:speed=9"], "'speed' is not one of"),
        (["train", "d", "--prefetch", "willneed:lookahead=x"], "must be an integer"),
        (["train", "d", "--prefetch", "willneed:lookahead=-1"], "lookahead must be at least 0"),
        (["info"], "required: path"),
        (["info", "d", "--memory"], "expected one argument"),
        (["reorder", "d"], "required: --order"),
        (["reorder", "d", "--order", "presample", "--fanouts", "x"], "is not a list of fanouts"),
    ],
)
def test_wrong_usage_is_exit_code_2(words, message, capfd):
    with pytest.raises(SystemExit) as done:
        run(*words)
    assert done.value.code == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err.splitlines()[-1]


def test_prefetch_is_a_strategy_with_options():
    assert as_prefetch("none") == Prefetch("none")
    assert as_prefetch("willneed:lookahead=2,advice=normal,gap_pages=3") == Prefetch(
        "willneed", lookahead=2, advice="normal", gap_pages=3
    )
    assert as_prefetch("uring:resident=0.25,memory_limit=2GB") == Prefetch(
        "uring", resident=0.25, memory_limit=2 * 10**9
    )


# --- build


def test_build_takes_columns_by_name_and_every_option(inputs, tmp_path, capfd):
    folder = tmp_path / "out"
    options = ["--src", "to", "--dst", 0, "--weight", "none", "--order", "input", "--edge-ids"]
    more = ["--num-nodes", 30, "--memory-limit", "64MB", "--header", "--delimiter", "comma"]
    assert run("build", folder, "--edges", inputs / "edges.csv", *options, *more) == 0
    out, err = capfd.readouterr()
    assert only_line(out).startswith(f"{folder}: 30 nodes, 20 edges (20 in the edge list), ")
    assert err == ""
    with gz.open(folder) as ds:
        assert ds.graph.neighbors(1).tolist() == [0]
        assert ds.graph.is_directed
        assert ds.graph.weights is None
        assert ds.graph.node_ids is None
        assert ds.graph.has_edge_ids


def test_build_undirected_with_everything(data, inputs):
    with gz.open(data) as ds:
        assert ds.graph.neighbors(0).tolist() == [1, 19]
        assert ds.graph.weights is not None
        assert np.array_equal(ds.features[np.arange(20)], np.load(inputs / "x.npy"))
        assert ds.splits["val"].tolist() == list(range(12, 20))


def test_build_without_a_header(tmp_path, capfd):
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n")
    edges = tmp_path / "edges.txt"
    assert run("build", tmp_path / "out", "--edges", edges, "--no-header") == 0
    assert "3 nodes, 2 edges" in capfd.readouterr().out


def test_build_says_where_a_file_is_wrong(tmp_path, capfd):
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n1,two\n")
    assert run("build", tmp_path / "out", "--edges", tmp_path / "edges.csv") == 1
    line = only_line(capfd.readouterr().err)
    assert line.startswith("graphzero: ")
    assert "edges.csv" in line
    assert "two" in line


def test_build_warns_in_one_line(inputs, tmp_path, capfd):
    (tmp_path / "x.csv").write_text("0,1.5\n1,2.5\n")
    words = ["--edges", inputs / "edges.csv", "--features", tmp_path / "x.csv"]
    assert run("build", tmp_path / "out", *words) == 0
    line = only_line(capfd.readouterr().err)
    assert line.startswith("graphzero: warning: ")
    assert "18" in line


# --- reorder

COUNTING = ["--fanouts", "2,1", "--batch-size", 4, "--epochs", 1, "--max-batches", 2, "--seed", 3]


def test_reorder_and_what_info_then_says(data, capfd):
    with gz.open(data) as ds:
        before = [ds.graph.neighbors(node).tolist() for node in range(20)]
        rows = ds.features[np.arange(20)]
    assert run("reorder", data, "--order", "presample", *COUNTING) == 0
    out, err = capfd.readouterr()
    assert only_line(out).startswith(f"{data}: 20 nodes in presample order, ")
    assert err == ""
    with gz.open(data) as ds:
        assert [ds.graph.neighbors(node).tolist() for node in range(20)] == before
        assert np.array_equal(ds.features[np.arange(20)], rows)
    assert run("info", data, "--memory", "1MiB", "--iops", 1000) == 0
    out = capfd.readouterr().out
    for part in (
        "nodes     20, in presample order",
        "visits    counted in 2 mini-batches of 4 seeds, fanouts 2,1",
        "misses    with 1.0 MB of features resident (100 %): 0 of 1 pages a mini-batch, 0 bytes",
        "0 s a mini-batch to read them, one read a page",
    ):
        assert part in out
    assert run("verify", data) == 0
    assert f"{data / 'visits.gd'}: intact" in capfd.readouterr().out
    assert run("reorder", data, "--order", "input") == 0
    assert "20 nodes in input order" in capfd.readouterr().out


def test_info_predicts_misses_as_json(tmp_path, inputs, capfd):
    np.save(inputs / "wide.npy", np.zeros((2000, 256), np.float32))
    ring = np.stack([np.arange(2000), (np.arange(2000) + 1) % 2000], 1)
    np.save(inputs / "ring.npy", ring)
    words = ["--edges", inputs / "ring.npy", "--features", inputs / "wide.npy"]
    counting = ["--order", "presample", "--fanouts", 1, "--batch-size", 500, "--min-batches", 8]
    assert run("build", tmp_path / "d", *words, *counting) == 0
    capfd.readouterr()
    assert run("info", tmp_path / "d", "--json", "--memory", "1MiB", "--iops", 2) == 0
    content = json.loads(capfd.readouterr().out)
    assert content["order"] == "presample"
    assert content["visits"] == {
        "batches": 8, "batch_size": 500, "fanouts": [1], "num_seeds": 2000, "seed": 0
    }  # fmt: skip
    misses = content["misses"]
    assert (misses["resident_pages"], misses["total_pages"]) == (256, 500)
    assert 0 < misses["missing_pages"] < misses["touched_pages"] <= 500
    assert misses["missing_bytes"] == misses["missing_pages"] * mmap.PAGESIZE
    assert misses["seconds"] == misses["missing_pages"] / 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--memory", "1MiB"], "no visit counts: 'graphzero reorder "),
        (["--memory", "much"], "memory limit 'much' is not a size"),
        (["--memory", "1MiB", "--iops", 0], "--iops must be positive, not 0"),
        (["--iops", 5], "--iops needs --memory"),
    ],
)
def test_info_says_why_it_predicts_nothing(data, words, message, capfd):
    assert run("info", data, *words) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert message in only_line(err)


def test_counting_is_for_its_order(data, capfd):
    assert run("reorder", data, "--order", "input", "--epochs", 1) == 1
    assert "presample= is for order='presample'" in only_line(capfd.readouterr().err)


# --- errors of all commands


@pytest.mark.parametrize(
    "command", [["info"], ["verify"], ["train"], ["reorder", "--order", "hot"]], ids=" ".join
)
def test_a_missing_dataset(command, tmp_path, capfd):
    missing = tmp_path / "nowhere"
    assert run(*command, missing) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert only_line(err).startswith(f"graphzero: {missing}: ")


def test_a_folder_that_is_no_dataset(tmp_path, capfd):
    assert run("train", tmp_path) == 1
    assert "no dataset here (no dataset.json)" in only_line(capfd.readouterr().err)


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback(tmp_path, place, capfd):
    words = ["info", tmp_path / "nowhere.gl"]
    assert run(*(["--debug", *words] if place == "before" else [*words, "--debug"])) == 1
    err = capfd.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("graphzero: ")


def test_an_unexpected_error_names_its_kind(data, monkeypatch, capfd):
    def broken(*_, **__):
        raise ZeroDivisionError("of our own making")

    monkeypatch.setattr("graphzero.commands.info.open_dataset", broken)
    assert run("info", data) == 1
    assert only_line(capfd.readouterr().err) == (
        "graphzero: ZeroDivisionError: of our own making (--debug shows where)"
    )


def test_interrupting_is_exit_code_130(data, monkeypatch, capfd):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("graphzero.commands.info.open_dataset", interrupted)
    assert run("info", data) == 130
    assert only_line(capfd.readouterr().err) == "graphzero: interrupted"


# --- info


def test_info_of_a_dataset(data, capfd):
    assert run("info", data, "--degrees") == 0
    out = capfd.readouterr().out
    for part in (
        "nodes     20, in hot order",
        "edges     40 from 20 input edges, undirected, both directions stored; 2.0 a node",
        "features  20 x 4, float32",
        "labels    20, int64",
        "classes   2",
        "split     train: 12 nodes",
        "degrees   largest 2; nodes by degree:",
        "2-3  20",
        "graph.gl: ",
        "indices",
    ):
        assert part in out


def test_info_as_json(data, capfd):
    assert run("info", data, "--json", "--degrees") == 0
    content = json.loads(capfd.readouterr().out)
    assert (content["num_nodes"], content["num_edges"], content["order"]) == (20, 40, "hot")
    assert content["features"] == {"shape": [20, 4], "dtype": "float32"}
    assert content["splits"] == {"train": 12, "val": 8}
    assert content["degrees"] == {"max": 2, "nodes": {"0": 0, "1": 0, "2-3": 20}}
    sizes = {file["name"]: file["bytes"] for file in content["files"]}
    assert sizes == {name: os.path.getsize(data / name) for name in sizes}
    assert content["bytes_per_edge"] == sizes["graph.gl"] / 40
    indptr = next(s for s in content["files"][0]["sections"] if s["name"] == "indptr")
    assert (indptr["count"], indptr["dtype"], indptr["bytes"]) == (21, "uint32", 84)


def test_degrees_are_counted_by_powers_of_two(tmp_path, capfd):
    star = np.stack([np.zeros(9, dtype=int), np.arange(1, 10)], axis=1)
    more = np.array([[1, 0], [1, 2], [1, 3], [2, 0]])
    gz.build(tmp_path / "star", np.concatenate([star, more])).close()
    assert run("info", tmp_path / "star" / "graph.gl", "--json", "--degrees") == 0
    degrees = json.loads(capfd.readouterr().out)["degrees"]
    assert degrees == {"max": 9, "nodes": {"0": 7, "1": 1, "2-3": 1, "4-7": 0, "8-15": 1}}


@pytest.mark.parametrize("name", ["graph.gl", "features.gd", "x.npy"])
def test_info_of_one_file(data, inputs, name, capfd):
    path = inputs / name if name == "x.npy" else data / name
    assert run("info", path) == 0
    out = capfd.readouterr().out
    assert out.startswith(f"{path}\n")
    assert ("20, in hot or presample order" if name == "graph.gl" else "20 x 4, float32") in out
    assert f"{name}: " in out


# --- verify


def test_verify_names_every_file(data, capfd):
    assert run("verify", data) == 0
    out, err = capfd.readouterr()
    assert len(out.splitlines()) == 5
    assert all(": intact, " in line for line in out.splitlines())
    assert err == ""


def test_verify_names_the_corrupt_sections_and_goes_on(data, capfd):
    for name, section in (("graph.gl", "indices"), ("features.gd", "rows")):
        header = read_header(data / name)
        with open(data / name, "r+b") as file:
            file.seek(header.find(section).offset + 1)
            file.write(b"\xff")
    assert run("verify", data) == 1
    out, err = capfd.readouterr()
    assert len(out.splitlines()) == 3
    graph, features = err.splitlines()
    assert "graph.gl: section 'indices' is corrupt" in graph
    assert "features.gd: section 'rows' is corrupt" in features
    assert run("verify", data / "labels.gd") == 0


def test_verify_of_a_foreign_file(inputs, capfd):
    assert run("verify", inputs / "x.npy") == 1
    assert "not a graphzero file" in only_line(capfd.readouterr().err)


# --- train


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


# --- as a program


def test_the_program_trains_with_openmp_threads_that_sleep(data):
    unset = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {k: v for k, v in os.environ.items() if k not in unset}
    environment["OMP_DISPLAY_ENV"] = "verbose"  # the runtime shows its settings when loaded
    done = subprocess_of("train", data, "--epochs", 1, cwd=data, env=environment)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("memory")
    spins = [line for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    if not spins:
        pytest.skip("this build has no OpenMP, or not GNU's")
    assert spins[-1].strip() == "GOMP_SPINCOUNT = '0'"


def test_a_failure_of_the_program_has_no_traceback(tmp_path):
    done = subprocess_of("info", tmp_path / "nowhere.gl", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "nowhere.gl" in only_line(done.stderr)


def test_a_reader_that_goes_away_is_no_error(data):
    command = [sys.executable, "-m", "graphzero", "info", str(data)]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False, cwd=data
        )
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 1


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
