"""The command line: results, exit codes, messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from unittest import mock

import pytest
from cli_program import only_line, run, subprocess_of

import graphzero as gz
from graphzero.commands.parsing import as_prefetch
from graphzero.io.prefetch import Prefetch

COMMANDS = (
    *("build", "import", "reorder", "pack", "info"),
    *("verify", "tune", "train", "infer", "report", "demo"),
)


# --- usage


@pytest.mark.parametrize("words", [["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_explains_and_gives_examples(words, capfd):
    with pytest.raises(SystemExit) as done:
        run(*words)
    assert done.value.code == 0
    out = capfd.readouterr().out
    if words == ["--version"]:
        assert out.strip() == gz.__version__
    else:
        assert f"examples:\n  graphzero {words[0]}" in out
        assert "--debug" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["build", "d"], "one of the arguments --edges --from is required"),
        (["build", "d", "--edges", "e", "--split", "train"], "'train' is not NAME=FILE"),
        (["build", "d", "--edges", "e", "--order", "odd"], "invalid choice: 'odd'"),
        (["train", "d", "--fanouts", "10,x"], "'10,x' is not a list of fanouts"),
        (["train", "d", "--prefetch", "magic"], "strategy must be one of"),
        (["train", "d", "--prefetch", "none:speed=9"], "'speed' is not one of"),
        (["train", "d", "--prefetch", "willneed:lookahead=x"], "must be an integer"),
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
    more = ["--num-nodes", 30, "--memory-limit", "512MB", "--header", "--delimiter", "comma"]
    assert run("build", folder, "--edges", inputs / "edges.csv", *options, *more) == 0
    out, err = capfd.readouterr()
    built, closing = out.splitlines()
    assert built.startswith(f"{folder}: 30 nodes, 20 edges (20 in the edge list), ")
    assert closing == "read src=to, dst=from; ignored weight; in-neighbours; directed"
    assert err == ""
    with gz.open(folder) as ds:
        assert ds.graph.neighbors(0).tolist() == [1]
        assert ds.graph.is_directed
        assert ds.graph.weights is None
        assert ds.graph.node_ids is None
        assert "edge_ids" in ds.graph.section_bytes


# --- reorder

COUNTING = ["--fanouts", "2,1", "--batch-size", 4, "--epochs", 1, "--max-batches", 2, "--seed", 3]


def test_reorder_and_what_info_then_says(data, capfd):
    assert run("reorder", data, "--order", "presample", *COUNTING) == 0
    out, err = capfd.readouterr()
    assert only_line(out).startswith(f"{data}: 20 nodes, 40 edges (20 in the edge list), ")
    assert err == ""
    assert run("info", data) == 0
    out = capfd.readouterr().out
    assert "visits: batches=2, batch_size=4, fanouts=2,1, num_seeds=12, seed=3" in out
    assert run("info", data, "--json") == 0
    counted = {"batches": 2, "batch_size": 4, "fanouts": [2, 1], "num_seeds": 12, "seed": 3}
    assert json.loads(capfd.readouterr().out)["visits"] == counted
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


@pytest.mark.parametrize("words", [["--debug", "info"], ["info", "--debug"]], ids=" ".join)
def test_debug_shows_the_traceback(tmp_path, words, capfd):
    assert run(*words, tmp_path / "nowhere.gl") == 1
    err = capfd.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("graphzero: ")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ZeroDivisionError("of ours"), 1, "ZeroDivisionError: of ours (--debug shows where)"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_that_no_command_expects(data, monkeypatch, capfd, error, code, line):
    monkeypatch.setattr(
        "graphzero.commands.info_command.open_dataset", mock.Mock(side_effect=error)
    )
    assert run("info", data) == code
    assert only_line(capfd.readouterr().err) == f"graphzero: {line}"


# --- info


def test_info_of_a_dataset(data, capfd):
    assert run("info", data) == 0
    out = capfd.readouterr().out
    for part in (
        "order: hot",
        "direction: undirected, both directions stored",
        "nodes: num_nodes=20, num_classes=2",
        "x: shape=20 x 4, dtype=float32, bytes=320 bytes",
        "splits: train=12, val=8",
        "edges: num_edges=40, num_input_edges=20, mean_degree=2.00, bytes_per_edge=",
        "files graph.gl: bytes=",
        "sections indices: dtype=uint32, count=40, ",
    ):
        assert part in out
    assert run("info", data, "--json") == 0
    content = json.loads(capfd.readouterr().out)
    (nodes,), (edges,) = content["nodes"], content["edges"]
    assert nodes["attributes"]["x"] == {"shape": [20, 4], "dtype": "float32", "bytes": 320}
    assert edges["mean_degree"] == 2
    sizes = {file["name"]: file["bytes"] for file in content["files"]}
    assert sizes == {path.name: path.stat().st_size for path in data.glob("*.g[ld]")}
    assert edges["bytes_per_edge"] == sizes["graph.gl"] / 40


@pytest.mark.parametrize("name", ["graph.gl", "features.gd", "x.npy"])
def test_info_of_one_file(data, inputs, name, capfd):
    path = inputs / name if name == "x.npy" else data / name
    assert run("info", path) == 0
    out = capfd.readouterr().out
    assert out.startswith(f"{path}\n")
    assert ("num_nodes: 20" if name == "graph.gl" else "rows: shape=20 x 4, dtype=float32") in out
    assert f"{name}: " in out


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


def test_a_reader_that_goes_away_is_no_error(data):
    command = [sys.executable, "-m", "graphzero", "info", str(data)]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            command, stdout=closed, stderr=subprocess.PIPE, timeout=60, check=False, cwd=data
        )
    assert (done.stderr, done.returncode) == (b"", 1)
