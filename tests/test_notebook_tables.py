"""What a notebook shows of an object: a table, in which nothing that users name is markup."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.no_asan  # pure Python

EDGES = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])


def cells(value) -> list[list[str]]:
    """The texts of a table's cells, row by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", value._repr_html_(), re.S)
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.S) for row in rows]


@pytest.fixture
def dataset(tmp_path):
    with gz.build(
        tmp_path / "data",
        EDGES,
        features=np.ones((4, 8), dtype=np.float16),
        labels=np.arange(4),
        splits={"train": np.array([0, 2])},
    ) as opened:
        yield opened


def test_a_dataset(dataset):
    assert cells(dataset) == [
        ["attribute", "shape", "dtype", "size"],
        ["num_nodes=4", "", "", ""],
        ["x", "[4, 8]", "float16", "64 bytes"],
        ["y", "[4]", "int64", "32 bytes"],
        ["splits[&#x27;train&#x27;]", "[2]", "int64", "16 bytes"],
        ["edge_index=[2, 4]", "", "", ""],
    ]


def test_a_typed_dataset_and_its_batch(tmp_path):
    by_type = {("user", "buys", "item"): EDGES, ("item", "like", "item"): EDGES}
    nodes = {"user": {"num_nodes": 4}, "item": {"x": np.ones((4, 3))}}
    with gz.build(tmp_path / "data", by_type, nodes=nodes) as dataset:
        header, *rows = cells(dataset)
        loader = gz.NeighborLoader(dataset, [2], ("item", np.array([1, 2])), batch_size=2)
        batch = next(iter(loader))
        del loader
    assert header[0] == "type"
    assert ["item", "x", "[4, 3]", "float64", "96 bytes"] in rows
    assert ["user, buys, item", "edge_index=[2, 4]", "", "", ""] in rows
    header, *rows = cells(batch)
    assert header == ["type", "attribute", "shape or value", "dtype"]
    assert ["item", "batch_size", "2", ""] in rows
    assert any(row[:2] == ["user, buys, item", "edge_index"] for row in rows)


def test_a_batch(dataset):
    batch = next(iter(gz.NeighborLoader(dataset, [2], np.array([0, 1]), batch_size=2)))
    batch.note, batch.long = "<script>", list(range(10_000))
    header, *rows = cells(batch)
    assert header == ["attribute", "shape or value", "dtype"]
    assert {row[0] for row in rows} == set(batch.keys())
    assert ["x", str([*batch.x.shape]), "float16"] in rows
    assert ["note", "&lt;script&gt;", ""] in rows
    assert all(len(cell) <= 200 for row in rows for cell in row)


def test_options_of_reading():
    assert ["lookahead", "3", "1"] in cells(gz.Prefetch(lookahead=3))


def test_a_monitor(dataset):
    monitor = gz.Monitor(dataset)
    assert (repr(monitor), monitor._repr_html_()) == ("Monitor(not begun)", None)
    with monitor:
        pass
    names = [row[0] for row in cells(monitor)]
    assert names[:2] == ["run", "verdict"]
    assert repr(monitor) == str(monitor.summary)
