"""``graphzero build --from``: graphs with and without types from a description file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from cli_program import only_line, run
from files import contents
from typed_inputs import CITES, WRITES

import graphzero as gz
from graphzero.commands.build_command import read_description

pytestmark = pytest.mark.no_asan
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")

PAGE = Path(__file__).parents[1] / "docs" / "building.md"


@pytest.fixture
def folder(tmp_path):
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
    (folder / "graph.toml").write_text(PAGE.read_text().split("```toml\n")[1].split("```")[0])
    return folder


def expected(folder, out, **options):
    """What `gz.build` writes of the same files."""
    npy = {path.stem: path for path in folder.glob("*.npy")}
    papers = {"x": [npy["x_part0"], npy["x_part1"]], "y": npy["labels"], "year": npy["year"]}
    writes = gz.Source(folder / "writes.csv", src="who", dst="what")
    gz.build(
        out,
        nodes={"paper": papers, "author": {"num_nodes": 200}},
        edges={
            WRITES: {"edge_index": writes, "share": npy["share"]},
            CITES: {"edge_index": folder / "cites.parquet"},
        },
        splits={"train": {"paper": npy["train"]}},
        edge_splits={"train": {WRITES: npy["train_edges"]}},
        weight_attrs="share",
        time_attrs="year",
        **options,
    ).close()
    return contents(out)


@needs_toml
def test_a_typed_graph_from_toml(folder, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)  # paths are relative to the file, wherever it is read from
    assert run("build", "data", "--from", "input/graph.toml") == 0
    line = capfd.readouterr().out
    assert "208 nodes of 2 types, 15 edges of 2 types, directed, in-neighbours sampled" in line
    assert contents(tmp_path / "data") == expected(folder, tmp_path / "b")
    more = ["--order", "presample", "--fanouts", "2", "--batch-size", 4, "--neighbors", "out"]
    assert run("build", "other", "--from", folder / "graph.toml", *more) == 0
    options = {"presample": gz.Presample(fanouts=(2,), batch_size=4)}
    options |= {"order": "presample", "neighbors": "out"}
    assert contents(tmp_path / "other") == expected(folder, tmp_path / "c", **options)


def test_a_graph_without_types(folder, tmp_path):
    content = {
        "edges": {"edge_index": "cites.npy"},
        "nodes": {"x": ["x_part0.npy", "x_part1.npy"], "y": "labels.npy"},
        "splits": {"train": "train.npy"},
        "directed": False,
        "feature_dtype": "float16",
    }
    (folder / "graph.json").write_text(json.dumps(content))
    assert run("build", tmp_path / "a", "--from", folder / "graph.json") == 0
    words = ["--edges", folder / "cites.npy", "--labels", folder / "labels.npy", "--undirected"]
    words += ["--split", f"train={folder / 'train.npy'}", "--feature-dtype", "float16"]
    np.save(folder / "x.npy", np.concatenate([np.load(folder / f"x_part{i}.npy") for i in (0, 1)]))
    assert run("build", tmp_path / "b", *words, "--features", folder / "x.npy") == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    (folder / "graph.json").write_text(json.dumps({**content, "edges": "cites.npy"}))
    assert read_description(folder / "graph.json")["edges"] == folder / "cites.npy"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node": {}}, r"unknown entries \['node'\]; there are \['coalesce', "),
        ({"nodes": {"paper": {"x": {"path": "x", "collumns": "a"}}}}, "collumns"),
        ({"edges": {"path": {"path": "e.csv"}}}, "not another Source"),
    ],
)
def test_wrong_entries_are_named(tmp_path, change, message):
    """Those of a build are found by the build."""
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"edges": {"paper__cites__paper": "cites.npy"}, **change}))
    with pytest.raises(ValueError, match=message) as caught:
        read_description(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_wrong_usage(folder, tmp_path, capfd):
    def error(*words):
        assert run("build", tmp_path / "data", *words) == 1
        return only_line(capfd.readouterr().err)

    path = folder / "graph.json"
    for broken in (path, folder / "graph.toml"):
        broken.write_text("{")
        assert f"{broken}: " in error("--from", broken)
    path.write_text("[]")
    assert "must be a table with 'edges'" in error("--from", path)
    path.write_text("{}")
    assert "must be a table with 'edges'" in error("--from", path)
    assert "a description is a .toml or .json file" in error("--from", folder / "writes.csv")
    assert "No such file" in error("--from", folder / "none.json")
    more = ["--split", "train=t.npy", "--undirected", "--no-header"]
    assert "the file says what these are: splits, directed, header" in error("--from", path, *more)
    path.write_text(json.dumps({"edges": {"paper__cites__paper": "c.npy"}, "num_nodes": 3}))
    assert "num_nodes= is for graphs without types" in error("--from", path)
    for words in ([], ["--edges", "e.csv", "--from", path]):
        with pytest.raises(SystemExit):
            run("build", tmp_path / "data", *words)
    assert "not allowed with argument" in capfd.readouterr().err
    assert not (tmp_path / "data").exists()
