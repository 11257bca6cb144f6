"""Folders of typed graphs: memory of the build, replacement, crashes, commands."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_program import only_line, run
from typed_inputs import CITES, WRITES, check_files, small

import graphzero as gz


def test_replaces_a_graph_without_types_and_back(tmp_path: Path) -> None:
    def names() -> set[str]:
        return {path.name for path in tmp_path.iterdir()}

    gz.build(tmp_path, [[0, 1], [1, 2], [2, 0]], np.ones((3, 2))).close()
    untyped = names()
    gz.build(tmp_path, **small()).close()
    typed = names()
    assert not (untyped & typed) - {"dataset.json"}
    with gz.open(tmp_path) as ds:
        assert ds.node_types == ["paper", "author"]
    gz.build(tmp_path, [[0, 1], [1, 2], [2, 0]], np.ones((3, 2))).close()
    assert names() == untyped


@pytest.mark.parametrize("at", ["write_manifest", "finish_renames", "write_rows"])
def test_a_crash_leaves_a_whole_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    gz.build(tmp_path, **small()).close()
    changed = small()
    changed["edges"][CITES] = [[3], [0]]

    module = "build" if at == "write_rows" else "folder"
    real = getattr(importlib.import_module(f"graphzero.ingest.{module}"), at)
    calls = []

    def killed(*arguments: Any, **options: Any) -> Any:
        calls.append(at)
        if at == "finish_renames" and len(calls) == 1:  # of the earlier dataset
            return real(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(f"graphzero.ingest.{module}.{at}", killed)
        gz.build(tmp_path, **changed)
    is_new = at == "finish_renames"  # the manifest is the commit
    with gz.open(tmp_path) as ds:
        assert ds[CITES].num_edges == (1 if is_new else 2)
        assert ds["paper"].x[[3]].tolist() == [[6.0, 7.0]]
    gz.build(tmp_path, **small()).close()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    check_files(tmp_path, "in")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    arguments = small(splits={"train": {"paper": [3, 1]}}, time_attrs="year")
    arguments["nodes"]["paper"]["year"] = np.array([1990, 1980, 2000, 1970])
    arguments["edges"][WRITES] |= {"edge_attr": np.ones((3, 5), np.float16), "weight": [1, 2, 3]}
    gz.build(tmp_path / "data", **arguments).close()
    return tmp_path / "data"


def test_training_is_for_graphs_without_types(
    data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("train", data) == 1
    line = only_line(capfd.readouterr().err)
    assert "for graphs without types" in line
    assert "Error" not in line


def test_info(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("info", data) == 0
    text = " ".join(capfd.readouterr().out.split())
    for part in (
        "num_nodes: 7 num_edges: 5",
        "direction: directed, in-neighbours sampled order: hot",
        "nodes paper: num_nodes=4, num_classes=3",
        "x: shape=4 x 2, dtype=float64, bytes=64 bytes",
        "splits: train=2",
        "edges author,writes,paper: num_edges=3, num_input_edges=3, mean_degree=0.75",
        "edge_attr: shape=3 x 5, dtype=float16, bytes=30 bytes",
        "sampled_by: weight=weight, time_level=edge",
        "edges paper,cites,paper: num_edges=2, num_input_edges=2, mean_degree=0.50",
        "sampled_by: time=year, time_level=node",
    ):
        assert part in text, part
    assert run("info", data, "--json") == 0
    content = json.loads(capfd.readouterr().out)
    assert [one["type"] for one in content["edges"]] == [list(WRITES), list(CITES)]
    assert content["edges"][1]["sampled_by"]["time"] == "year"
    assert run("info", data / "author__writes__paper.gl") == 0
    assert "num_edges: 3\n  num_input_edges: 3\n" in capfd.readouterr().out


@pytest.mark.parametrize("order", ["hot", "input"])
def test_rows_in_another_order_of_nodes_are_refused(tmp_path: Path, order: str) -> None:
    """Rows are found by the numbers of the nodes: from another build, they would be others'."""
    rng = np.random.default_rng(0)
    kind = ("a", "r", "a")
    nodes = {"a": {"x": np.arange(50.0)}}
    for name, as_built in (("one", order), ("other", "hot")):
        edges = {kind: rng.integers(0, 50, (2, 300))}
        gz.build(tmp_path / name, edges, nodes=nodes, order=as_built).close()
    rows = tmp_path / "one" / "a.x.gd"
    rows.write_bytes((tmp_path / "other" / "a.x.gd").read_bytes())
    with pytest.raises(gz.FormatError, match=r"a\.x\.gd does not have the nodes of the type 'a'"):
        gz.open(tmp_path / "one")
