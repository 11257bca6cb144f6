"""What a build says at its end: the table, and advice where a number is telling."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import files
import numpy as np
import pytest
from cli_program import run

import graphzero as gz
from graphzero import _core
from graphzero.ingest import lists
from graphzero.ingest.build import write_dataset
from graphzero.ingest.options import BuildOptions

BUILDING = Path(__file__).resolve().parents[1] / "docs" / "building.md"


def said(folder, edges, **options):
    """The lines of a build by their first word, and its advice."""
    notes = write_dataset(folder, BuildOptions(edges, **options))
    rows = dict(line.split(maxsplit=1) for line in notes.table)
    return rows, notes.advice


def naive_counts(edges):
    """Parallel edges, self-loops, and the share of edges with their reverse."""
    others = [edge for edge in map(tuple, edges.tolist()) if edge[0] != edge[1]]
    distinct = set(others)
    share = sum(edge[::-1] in distinct for edge in distinct) / max(1, len(distinct))
    return len(others) - len(distinct), len(edges) - len(others), share


@pytest.mark.parametrize("order", ["hot", "input", "presample"])
@pytest.mark.parametrize("num_nodes", [5, 40, 400])
def test_the_table_counts_like_the_naive_twin(tmp_path, order, num_nodes):
    edges = files.random_edges(num_nodes, 300, seed=num_nodes)
    parallel, loops, share = naive_counts(edges)
    options = {"order": order, "num_nodes": num_nodes + 3}
    if order == "presample":
        options["presample"] = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)
    rows, _ = said(tmp_path / "d", edges, **options)
    isolated = num_nodes + 3 - len(np.unique(edges))
    assert rows["nodes"] == f"{num_nodes + 3:,}, {isolated:,} without an edge"
    text = (
        f"300, {parallel:,} parallel, {loops:,} self-loops, {100 * share:.3g} % with their reverse"
    )
    assert rows["edges"] == text
    rows, _ = said(tmp_path / "d", edges, directed=False, coalesce=True)
    undirected = {tuple(sorted(edge)) for edge in edges.tolist()}
    loops = sum(source == target for source, target in undirected)
    assert rows["edges"] == f"{len(undirected):,}, 0 parallel, {loops:,} self-loops"


def test_parallel_edges_that_are_stored_in_both_directions_count_once(tmp_path):
    edges = np.array([[0, 1], [0, 1], [1, 1], [1, 1], [2, 1], [2, 0]])
    rows, _ = said(tmp_path / "d", edges, directed=False)
    assert rows["edges"] == "6, 1 parallel, 2 self-loops"


def test_of_many_edges_some_are_looked_up(tmp_path, monkeypatch):
    up = files.random_edges(1000, 40_000)
    up = np.unique(np.sort(up, axis=1), axis=0)
    edges = np.concatenate([up, up[: len(up) // 2, ::-1]])
    _, _, share = naive_counts(edges)
    monkeypatch.setattr(lists, "_COUNTED_UNSEEN", 1000)
    for limit in (2_000_000_000, 500_000):  # in one run of the sort, and in several
        rows, _ = said(tmp_path / "d", edges, memory_limit=limit)
        number = float(rows["edges"].split("about ")[1].split(" %")[0])
        assert abs(number / 100 - share) < 0.03


def test_mutual_edges_are_counted_whatever_the_ids():
    keys = np.array([1, 1, 2, 1 << 32, 2 << 32, (2 << 32) + 5], np.uint64)  # 5: of no node
    assert _core.count_mutual(keys, 3) == 2


def test_attributes_splits_and_types_are_named(tmp_path):
    writes, cites = ("a", "writes", "p"), ("p", "cites", "p")
    nodes = {
        "p": {"x": np.zeros((4, 3), np.float16), "y": np.array([0, -1, 2, 1])},
        "a": {"num_nodes": 2},
    }
    edges = {writes: {"edge_index": np.array([[0, 0], [1, 2]]), "when": np.array([1, 2])}}
    edges[cites] = {"edge_index": np.array([[0, 1], [1, 0]]), "edge_weight": np.ones(2)}
    splits = {"train": {"p": [0, 1, 2]}}
    with pytest.warns(UserWarning, match="split 'train': 1 of its 3 nodes have no label"):
        rows, advice = said(tmp_path / "d", edges, nodes=nodes, splits=splits)
    assert not advice
    assert rows == {
        "p": "4, 1 without an edge",
        "p.x": "float16 [3]",
        "p.y": "int64, 3 classes",
        "p.train": "3 nodes, 2 with a label",
        "a": "2, 1 without an edge",
        "a__writes__p": "2, 0 parallel",
        "a__writes__p.when": "int64",
        "p__cites__p": "2, 0 parallel, 0 self-loops, 100 % with their reverse",
        "p__cites__p.edge_weight": "weights, used by sampling",
    }


def test_the_quickstart_of_cora_without_a_direction_says_what_to_change(real_data, tmp_path, capfd):
    cora = real_data / "cora"
    inputs = [cora / name for name in ("edges.csv", "features.npy", "labels.npy")]
    with pytest.warns(
        UserWarning, match=r"no edge has its reverse.*directed=False.*stores both ways"
    ):
        gz.build(tmp_path / "d", *inputs).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for directed in (False, True):
            gz.build(tmp_path / "d", *inputs, directed=directed).close()
        splits = {name: cora / f"{name}_idx.npy" for name in ("train", "val", "test")}
        gz.build(tmp_path / "d", *inputs, splits, progress=True).close()
    (printed,) = re.findall(r"```text\n(.*?)```", BUILDING.read_text(), re.DOTALL)
    assert capfd.readouterr().err.endswith(printed)
    assert "directed=False (--undirected)" in printed.splitlines()[-1]
    for option, is_told in (([], True), (["--directed"], False), (["--undirected"], False)):
        assert run("build", tmp_path / "d", "--edges", inputs[0], *option) == 0
        assert ("directed=False (--undirected)" in capfd.readouterr().out) == is_told


def test_rows_of_another_dataset_are_told_by_nodes_without_an_edge(tmp_path):
    edges = files.random_edges(900, 5000)
    with pytest.warns(UserWarning, match=r"1,\d\d\d of 2,000 nodes have no edge: look whether"):
        gz.build(tmp_path / "d", edges, np.zeros((2000, 2), np.float32)).close()
