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

TOML = """
weight_attrs = "weight"
time_attrs = ["year"]

[nodes.paper]
x = ["x_0.npy", "x_1.npy"]
y = "y.npy"
year = "year.npy"

[nodes.author]
num_nodes = 5

[edges.author__writes__paper]
edge_index = "writes.csv"
edge_attr = "attr.npy"
weight = "weight.npy"

[edges]
paper__cites__paper = "cites.npy"

[splits.train]
paper = "train.npy"

[edge_splits.train]
author__writes__paper = "edges.npy"
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "input"
    folder.mkdir()
    x = rng.random((8, 3), np.float32)
    arrays = {
        "x_0": x[:5], "x_1": x[5:], "y": rng.integers(0, 3, 8), "year": rng.integers(0, 9, 8),
        "attr": rng.random((6, 2)), "weight": rng.random(6), "cites": rng.integers(0, 8, (9, 2)),
        "train": np.array([1, 7]), "edges": np.array([0, 3]),
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    ends = zip(rng.integers(0, 5, 6), rng.integers(0, 8, 6), strict=True)
    (folder / "writes.csv").write_text("".join(f"{a},{p}\n" for a, p in ends))
    (folder / "graph.toml").write_text(TOML)
    return folder


def expected(folder, out, **options):
    """What `gz.build` writes of the same files."""
    files = {path.stem: path for path in folder.iterdir()}
    papers = {"x": [files["x_0"], files["x_1"]], "y": files["y"], "year": files["year"]}
    writes = {"edge_index": files["writes"], "edge_attr": files["attr"], "weight": files["weight"]}
    gz.build(
        out,
        nodes={"paper": papers, "author": {"num_nodes": 5}},
        edges={WRITES: writes, CITES: files["cites"]},
        splits={"train": {"paper": files["train"]}},
        edge_splits={"train": {WRITES: files["edges"]}},
        weight_attrs="weight",
        time_attrs="year",
        **options,
    ).close()
    return contents(out)


@needs_toml
def test_a_typed_graph_from_toml(folder, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)  # paths are relative to the file, wherever it is read from
    assert run("build", "data", "--from", "input/graph.toml") == 0
    line = capfd.readouterr().out
    assert "13 nodes of 2 types, 15 edges of 2 types, directed, in-neighbours sampled" in line
    assert contents(tmp_path / "data") == expected(folder, tmp_path / "b")
    more = ["--order", "presample", "--fanouts", "2", "--batch-size", 4, "--neighbors", "out"]
    assert run("build", "other", "--from", folder / "graph.toml", *more) == 0
    options = {"presample": gz.Presample(fanouts=(2,), batch_size=4)}
    options |= {"order": "presample", "neighbors": "out"}
    assert contents(tmp_path / "other") == expected(folder, tmp_path / "c", **options)


def test_a_graph_without_types(folder, tmp_path):
    content = {
        "edges": {"edge_index": "cites.npy"},
        "nodes": {"x": ["x_0.npy", "x_1.npy"], "y": "y.npy"},
        "splits": {"train": "train.npy"},
        "directed": False,
        "feature_dtype": "float16",
    }
    (folder / "graph.json").write_text(json.dumps(content))
    assert run("build", tmp_path / "a", "--from", folder / "graph.json") == 0
    words = ["--edges", folder / "cites.npy", "--labels", folder / "y.npy", "--undirected"]
    words += ["--split", f"train={folder / 'train.npy'}", "--feature-dtype", "float16"]
    np.save(folder / "x.npy", np.concatenate([np.load(folder / f"x_{i}.npy") for i in (0, 1)]))
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


@needs_toml
def test_the_page_of_the_build(tmp_path):
    """The example in docs/building.md, with files of these names."""
    page = (Path(__file__).parents[1] / "docs" / "building.md").read_text()
    (tmp_path / "graph.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    for name, shape in (("x_part0", (20, 3)), ("x_part1", (10, 3)), ("share", (40,))):
        np.save(tmp_path / f"{name}.npy", np.ones(shape))
    for name in ("labels", "year"):
        np.save(tmp_path / f"{name}.npy", np.arange(30))
    for name in ("train", "train_edges"):
        np.save(tmp_path / f"{name}.npy", np.arange(4))
    writes = "".join(f"{i % 30},{i},7\n" for i in range(40))
    (tmp_path / "writes.csv").write_text(f"what,who,note\n{writes}")
    ends = pyarrow.array(np.arange(30))
    pyarrow.parquet.write_table(pyarrow.table({"a": ends, "b": ends}), tmp_path / "cites.parquet")
    assert run("build", tmp_path / "data", "--from", tmp_path / "graph.toml") == 0
    with gz.open(tmp_path / "data") as ds:
        assert ds.edge_types == [WRITES, CITES]
        assert ds[WRITES].sampled_by.weight == "share"
        assert ds[WRITES].edge_index[:, 35].tolist() == [35, 5]
        assert ds[CITES].sampled_by.time == "year"
        assert ds[WRITES].splits["train"].tolist() == [0, 1, 2, 3]
