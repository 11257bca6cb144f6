"""The command line: results, exit codes, messages."""

from __future__ import annotations

import ast
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import psutil
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
import recordings
from cli_program import only_line, run, subprocess_of
from files import contents
from hypothesis import given
from hypothesis import strategies as st
from typed_inputs import CITES, WRITES

import graphzero as gz
from graphzero.cli import COMMANDS, make_parser
from graphzero.commands.build_commands import read_description
from graphzero.commands.parsing import options_as
from graphzero.io.prefetch import Prefetch
from graphzero.report.summary import write_recording
from graphzero.report.verify import verify_path
from graphzero.units import printable

# --- usage


@pytest.mark.parametrize(
    "words", [["--version"], *([command.name, "--help"] for command in COMMANDS)]
)
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
        (["train", "d", "--prefetch", "magic"], "invalid choice: 'magic'"),
        (["pack", "d", "f", "--epochs", "1", "--lookahead", "x"], "invalid int value: 'x'"),
        (["build", "d", "--edges", "e", "--coalesce", "a=sum,a=min"], "has a name twice"),
        (["build", "d", "--edges", "e", "--header", "--no-header"], "--no-header: is given twice"),
        (["report", "--html", "a", "r.json", "--html", "b"], "--html: is given twice"),
        (["set", "d", "--split", "a=b", "--split", "a=c"], "'a' is given twice"),
        (
            ["append", "d", "--edge-attr", "none", "--edge-attr", "a"],
            "'none' is given beside names",
        ),
        (["info", "d", "odd\x1b[2J\nfile"], r"unrecognized arguments: odd\x1b[2J\nfile"),
    ],
)
def test_wrong_usage_is_exit_code_2(words, message, capfd):
    with pytest.raises(SystemExit) as done:
        run(*words)
    assert done.value.code == 2
    out, err = capfd.readouterr()
    assert out == ""
    usage, error = err.splitlines()
    assert usage.startswith("usage: graphzero ")
    assert message in error


@pytest.mark.parametrize("command", [["train", "d"], ["demo"], ["pack", "d", "f", "--epochs", "1"]])
def test_options_of_reading_are_a_prefetch(command):
    def prefetch_of(words):
        return options_as(Prefetch, make_parser().parse_args([*command, *words.split()]))

    assert prefetch_of("") is None
    assert prefetch_of("--prefetch none") == Prefetch("none")
    words = "--prefetch uring --resident 0.25 --memory-limit 2GB --lookahead 3 --group 8"
    wanted = Prefetch("uring", resident=0.25, memory_limit=2 * 10**9, lookahead=3, group=8)
    assert prefetch_of(words) == wanted
    for wrong in (
        "--lookahead=-1",
        "--group 0",
        "--lookahead 0 --group 2",
        "--resident 2.5",
        "--memory-limit much",
    ):
        with pytest.raises(ValueError, match=wrong[2:8]):
            prefetch_of(wrong)


# --- options that are given more than once


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_repeated_edges_are_all_read(tmp_path, kind):
    files = []
    for month, ends in (("jan", [0, 1]), ("feb", [2, 3]), ("mar", [4, 5])):
        table = pyarrow.table({"src": ends, "dst": [ends[1], ends[0]]})
        files.append(tmp_path / f"{month}.{kind}")
        write = pyarrow.csv.write_csv if kind == "csv" else pyarrow.parquet.write_table
        write(table, files[-1])
    first, second, third = (("--edges", file) for file in files)
    assert run("build", tmp_path / "d", *first, *second, "--src", "src", "--dst", "dst") == 0
    assert gz.open(tmp_path / "d").num_edges == 4
    assert run("build", tmp_path / "e", *first) == 0
    assert run("append", tmp_path / "e", *second, *third) == 0
    assert gz.open(tmp_path / "e").num_edges == 6


def test_several_arrays_of_edges_are_refused_with_the_way_out(tmp_path, capfd):
    assert run("build", tmp_path / "d", "--edges", "a.npy", "--edges", "b.npy") == 1
    assert "'graphzero append' the others" in only_line(capfd.readouterr().err)


# --- names and texts that would change the terminal

ODD, SHOWN = "ä\x1b[2J\n\u202e\x9b", r"ä\x1b[2J\n\u202e\x9b"


@given(st.text())
def test_what_is_printed_is_printable_and_says_what_it_was(text):
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()
    if not {"\\", '"'} & {*text}:
        assert ast.literal_eval(f'"{shown}"') == text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("info @/d", 0),
        ("info @/d/graph.gl", 0),
        ("verify @/d", 0),
        ("verify @/damaged", 1),
        ("--debug info @/missing", 1),
        ("build @/new --edges @/edges.csv --src from --dst to", 0),
        ("build @/new --edges @/edges.csv --src none", 1),
        ("reorder @/d --order hot", 0),
        ("set @/d --attribute z=@/y.npy", 0),
        ("publish @/d @/new", 0),
        ("fetch @/d @/new", 0),
        ("pack @/d @/p.gd --epochs 1 --fanouts 2", 0),
        ("train @/d --epochs 1 --fanouts 2 --json @/d/graph.gl", 1),
        ("report @/missing", 127),
        ("report @/record.json", 0),
    ],
)
def test_commands_print_no_control_characters(words, code, inputs, data, tmp_path, capfd):
    folder = inputs.rename(tmp_path / ODD)
    (folder / "edges.csv").write_text("from,to,w\x1b[2J\u202e\x9b\n0,1,2\n")
    shutil.copytree(data, folder / "d")
    shutil.copytree(data, folder / "damaged")
    (folder / "damaged" / "graph.gl").write_bytes(b"no graph")
    write_recording(folder / "record.json", recordings.hostile())
    assert run(*(word.replace("@", str(folder)) for word in words.split())) == code
    text = "".join(capfd.readouterr())
    assert all(line.isprintable() for line in text.split("\n"))
    assert SHOWN in text or "record" in words


def test_progress_bars_and_closing_lines_show_names_without_control_characters(tmp_path, capfd):
    folder = tmp_path / ODD
    folder.mkdir()
    table = pyarrow.table({"src": [0, 1], "dst": [1, 0], ODD: [1, 2]})
    gz.build(folder / ODD, table, progress=True).close()
    verify_path(folder / ODD, progress=True)
    err = capfd.readouterr().err.replace("\x1b[A", "")  # as tqdm goes up one line
    assert f"{SHOWN}:   0%" in err
    assert f"ignored {SHOWN}" in err
    assert all(line.isprintable() for line in re.split("[\r\n]", err))


# --- build


def test_build_takes_columns_by_name_and_every_option(inputs, tmp_path, capfd):
    folder = tmp_path / "out"
    options = ["--src", "to", "--dst", 0, "--weight", "none", "--order", "input", "--edge-ids"]
    more = ["--num-nodes", 30, "--memory-limit", "512MB", "--header", "--delimiter", "comma"]
    assert run("build", folder, "--edges", inputs / "edges.csv", *options, *more) == 0
    out, err = capfd.readouterr()
    built, *table, closing = out.splitlines()
    assert built.startswith(f"{folder}: 30 nodes, 20 edges (20 in the edge list), ")
    assert [line.split()[0] for line in table] == ["nodes", "edges"]
    assert closing == "read src=to, dst=from; ignored weight; in-neighbours; directed"
    assert err == ""
    with gz.open(folder) as ds:
        assert ds.graph.neighbors(0).tolist() == [1]
        assert ds.graph.is_directed
        assert ds.graph.weights is None
        assert ds.graph.node_ids is None
        assert "edge_ids" in ds.graph.section_bytes


# --- build --from: a description file

BUILDING = Path(__file__).parents[1] / "docs" / "building.md"


@pytest.fixture
def described(tmp_path):
    """The example in docs/building.md, with files of these names."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "input"
    folder.mkdir()
    x = rng.random((8, 3), np.float32)
    arrays = {
        "x_part0": x[:5], "x_part1": x[5:], "labels": rng.integers(0, 3, 8),
        "year": rng.integers(0, 9, 8), "share": rng.random(6), "cites": rng.integers(0, 8, (9, 2)),
        "train": np.array([1, 7]), "train_edges": np.array([0, 3]),
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    ends = zip(rng.integers(0, 8, 6), rng.integers(0, 200, 6), strict=True)
    (folder / "writes.csv").write_text("what,who,note\n" + "".join(f"{p},{a},7\n" for p, a in ends))
    cites = pyarrow.table({"a": arrays["cites"][:, 0], "b": arrays["cites"][:, 1]})
    pyarrow.parquet.write_table(cites, folder / "cites.parquet")
    (folder / "graph.toml").write_text(BUILDING.read_text().split("```toml\n")[1].split("```")[0])
    return folder


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")
def test_a_typed_graph_from_toml(described, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)  # paths are relative to the file, wherever it is read from
    npy = {path.stem: path for path in described.glob("*.npy")}
    papers = {"x": [npy["x_part0"], npy["x_part1"]], "y": npy["labels"], "year": npy["year"]}
    writes = gz.Source(described / "writes.csv", src="who", dst="what")
    expected = {
        "nodes": {"paper": papers, "author": {"num_nodes": 200}},
        "edges": {
            WRITES: {"edge_index": writes, "share": npy["share"]},
            CITES: {"edge_index": described / "cites.parquet"},
        },
        "splits": {"train": {"paper": npy["train"]}},
        "edge_splits": {"train": {WRITES: npy["train_edges"]}},
        "weight_attrs": "share",
        "time_attrs": "year",
    }
    assert read_description("input/graph.toml") == expected
    more = ["--order", "presample", "--fanouts", "2", "--batch-size", 4, "--neighbors", "out"]
    assert run("build", "data", "--from", "input/graph.toml", *more) == 0
    line = capfd.readouterr().out
    assert "208 nodes of 2 types, 15 edges of 2 types, directed, out-neighbours sampled" in line
    options = {"presample": gz.Presample(fanouts=(2,), batch_size=4)}
    options |= {"order": "presample", "neighbors": "out"}
    gz.build(tmp_path / "same", **expected, **options).close()
    assert contents(tmp_path / "data") == contents(tmp_path / "same")


def test_a_graph_without_types_from_json(described):
    content = {
        "edges": "cites.npy",
        "nodes": {"x": ["x_part0.npy", "x_part1.npy"]},
        "directed": False,
        "feature_dtype": "float16",
    }
    (described / "graph.json").write_text(json.dumps(content))
    assert read_description(described / "graph.json") == {
        **content,
        "edges": described / "cites.npy",
        "nodes": {"x": [described / "x_part0.npy", described / "x_part1.npy"]},
    }


def test_wrong_descriptions_are_named(described, tmp_path, capfd):
    def error(*words):
        assert run("build", tmp_path / "data", *words) == 1
        return only_line(capfd.readouterr().err)

    path = described / "graph.json"
    for broken in (path, described / "graph.toml"):
        broken.write_text("{")
        assert f"{broken}: " in error("--from", broken)
    for content in ("[]", "{}"):
        path.write_text(content)
        assert "must be a table with 'edges'" in error("--from", path)
    assert "a description is a .toml or .json file" in error("--from", described / "writes.csv")
    assert "No such file" in error("--from", described / "none.json")
    for change, message in (
        ({"node": {}}, "unknown entries ['node']; there are ['coalesce', "),
        ({"nodes": {"paper": {"x": {"path": "x", "collumns": "a"}}}}, "collumns"),
        ({"edges": {"path": {"path": "e.csv"}}}, "not another Source"),
    ):
        path.write_text(json.dumps({"edges": "cites.npy", **change}))
        line = error("--from", path)
        assert line.startswith(f"graphzero: {path}: ")
        assert message in line
    path.write_text("{}")
    more = ["--split", "train=t.npy", "--undirected", "--no-header"]
    assert "the file says what these are: splits, directed, header" in error("--from", path, *more)
    path.write_text(json.dumps({"edges": {"paper__cites__paper": "c.npy"}, "num_nodes": 3}))
    assert "num_nodes= is for graphs without types" in error("--from", path)
    for words in ([], ["--edges", "e.csv", "--from", path]):
        with pytest.raises(SystemExit):
            run("build", tmp_path / "data", *words)
    assert "not allowed with argument" in capfd.readouterr().err
    assert not (tmp_path / "data").exists()


# --- reorder

COUNTING = ["--fanouts", "2,1", "--batch-size", 4, "--epochs", 1, "--max-batches", 2, "--seed", 3]


def test_reorder_and_what_info_then_says(data, capfd):
    assert run("reorder", data, "--order", "presample", *COUNTING) == 0
    out, err = capfd.readouterr()
    assert only_line(out).startswith(
        f"{data}: 20 nodes in presample order, 40 edges (20 in the edge list), "
    )
    assert err == ""
    assert run("info", data, "--json") == 0
    counted = {"batches": 2, "batch_size": 4, "fanouts": [2, 1], "num_seeds": 12, "seed": 3}
    assert json.loads(capfd.readouterr().out)["visits"] == counted
    assert run("reorder", data, "--order", "input", "--epochs", 1) == 1
    assert "are for --order presample" in only_line(capfd.readouterr().err)


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
        "graphzero.commands.inspect_commands.open_dataset", mock.Mock(side_effect=error)
    )
    assert run("info", data) == code
    assert only_line(capfd.readouterr().err) == f"graphzero: {line}"


# --- info


def test_info_of_a_dataset(data, capfd):
    assert run("info", data) == 0
    out = capfd.readouterr().out
    assert "direction: undirected, both directions stored" in out
    assert run("info", data, "--json") == 0
    content = json.loads(capfd.readouterr().out)
    assert content["order"] == "hot"
    (nodes,), (edges,) = content["nodes"], content["edges"]
    assert nodes["splits"] == {"train": 12, "val": 8}
    assert nodes["attributes"]["x"] == {"shape": [20, 4], "dtype": "float32", "bytes": 320}
    assert edges["mean_degree"] == 2
    sizes = {file["name"]: file["bytes"] for file in content["files"]}
    assert sizes == {path.name: path.stat().st_size for path in data.glob("*.g[ld]")}


@pytest.mark.parametrize("name", ["graph.gl", "features.gd", "x.npy"])
def test_info_of_one_file(data, inputs, name, capfd):
    path = inputs / name if name == "x.npy" else data / name
    assert run("info", path) == 0
    out = capfd.readouterr().out
    assert out.startswith(f"{path}\n")
    assert ("num_nodes: 20" if name == "graph.gl" else "rows: shape=20 x 4, dtype=float32") in out
    assert f"{name}: " in out


def test_info_of_the_system(data, capfd, monkeypatch):
    monkeypatch.chdir(data)
    assert run("info", "--system") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "system"
    assert f"graphzero={gz.__version__}" in lines[1]
    assert f"numpy={np.__version__}" in lines[1]
    assert any(line.startswith("  free_bytes: ") and line.endswith("B") for line in lines)
    assert run("info", "--system", "--json", data) == 0
    content = json.loads(capfd.readouterr().out)
    assert content["memory"] == psutil.virtual_memory().total
    assert content["io_uring"]
    assert content["versions"]["python"] == platform.python_version()
    assert run("info") == 1
    assert "--system" in capfd.readouterr().err


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
    assert spins[-1].strip().endswith("GOMP_SPINCOUNT = '0'")


def test_a_reader_that_goes_away_is_no_error(data):
    command = [sys.executable, "-m", "graphzero", "info", str(data)]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            command, stdout=closed, stderr=subprocess.PIPE, timeout=60, check=False, cwd=data
        )
    assert (done.stderr, done.returncode) == (b"", 1)


# --- without input, output or error, as a shell closes them by ``>&-``


def shell(line, cwd):
    """A line of a shell, where ``$GZ`` is the program."""
    return subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        env={**os.environ, "GZ": f"{sys.executable} -m graphzero"},
    )


@pytest.mark.parametrize(
    "words", ["info data >&-", "verify data --json >&-", "--version >&-", "info data <&- >&- 2>&-"]
)
def test_the_exit_code_is_that_of_the_command(inputs, data, words):
    done = shell(f"$GZ {words}", data.parent)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_would_be_printed_goes_nowhere_else(tmp_path):
    done = shell("$GZ report -- echo from the command 2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (0, "from the command\n")
