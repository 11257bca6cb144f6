"""Inputs that a new user has on the first day: filtered frames, texts, dates, labels of some."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import graphzero as gz

EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])
KEYS = ["d", "a", "c", "b"]  # of the nodes 3, 0, 2, 1 with ids="map"
PAIRS = pd.DataFrame({"src": list("abcda"), "dst": list("bcdac")})


def table(path, header, *columns):
    """A text file of some columns."""
    rows = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([header, *rows, ""]))
    return path


# --- cells of text


@pytest.mark.parametrize("of", ["node", "edge"])
def test_integers_may_go_on_with_decimals(tmp_path, of):
    amounts = [1, 2, 2.5, 4, 5][: 4 if of == "node" else 5]
    if of == "node":
        path = table(tmp_path / "a.csv", "id,amount", range(4), amounts)
        ds = gz.build(tmp_path / "d", EDGES, nodes={"amount": path})
        more = {"amount": table(tmp_path / "more.csv", "id,amount", [4, 5], [7, 7.5])}
    else:
        path = table(tmp_path / "e.csv", "src,dst,amount", *EDGES.T, amounts)
        ds = gz.build(tmp_path / "d", path, edge_attrs=["amount"])
        more = None
    with ds:
        assert ds.amount.tolist() == amounts
    if more is not None:
        with gz.append(tmp_path / "d", nodes=more) as ds:
            assert ds.amount.tolist() == [*amounts, 7, 7.5]


@pytest.mark.parametrize(
    ("name", "cell", "message"),
    [
        ("y", "cat", "'cat' is not a label .*column 'value' begins with numbers, so that all"),
        ("y", "2.5", "'2.5' is not a label .*column 'value' begins with numbers, so that all"),
        ("amount", "cat", "'cat' is not an amount .*column 'value' begins with numbers"),
        ("x", "cat", "'cat' is not a number for the feature 0; column 'value' is a feature: gz"),
    ],
)
def test_a_cell_that_is_no_number_is_named_with_a_way_out(tmp_path, name, cell, message):
    path = table(tmp_path / "t.csv", "id,value", range(4), [1, 2, cell, 4])
    with pytest.raises(ValueError, match=rf"t\.csv, line 4: {message}"):
        gz.build(tmp_path / "d", EDGES, nodes={name: path})


# --- pandas


@pytest.mark.parametrize("ids", ["dense", "map"])
def test_a_filtered_series_of_ids_has_no_index(tmp_path, ids):
    frame = pd.DataFrame({"key": KEYS if ids == "map" else [3, 0, 2, 1], "age": [1, 2, 3, 4]})
    chosen = frame.key[frame.age > 1]
    splits = {"train": chosen, "val": frame.set_index("age").key}
    edges = PAIRS if ids == "map" else EDGES
    with gz.build(tmp_path / "d", edges, splits=splits, ids=ids) as ds:
        assert ds.splits["train"].tolist() == [0, 2, 1]
        assert ds.splits["val"].tolist() == [3, 0, 2, 1]
    with pytest.raises(ValueError, match="an index of its own, and records are not found by it"):
        gz.build(tmp_path / "d", EDGES, splits={"train": (frame.age > 1)[::2]})


def test_masks_and_arrays_are_in_the_order_of_the_only_table_of_nodes(tmp_path):
    frame = pd.DataFrame({"id": KEYS, "age": [1, 2, 3, 4]})
    x, train = np.arange(8.0).reshape(4, 2), np.array([True, False, True, False])
    splits = {"train": train, "val": (~train).tolist(), "test": pd.Series(train)}
    options = {"splits": splits, "feature_dtype": "float16", "ids": "map"}
    nodes = {"age": gz.Source(frame, columns="age")}
    with gz.build(tmp_path / "d", PAIRS, x, nodes=nodes, **options) as ds:
        assert list(ds.node_ids) == ["a", "b", "c", "d"]
        assert ds.x.tolist() == x[[1, 3, 2, 0]].tolist()
        assert ds.age.tolist() == [2, 4, 3, 1]
        shown = {name: ids.tolist() for name, ids in ds.splits.items()}
        assert shown == {"train": [3, 2], "val": [0, 1], "test": [3, 2]}
    with pytest.raises(ValueError, match="features has 3 rows, and the pandas DataFrame, in whose"):
        gz.build(tmp_path / "d", PAIRS, x[:3], nodes=nodes, ids="map")
    with pytest.raises(ValueError, match=r"mask of shape \(3,\) for a table of 4 nodes"):
        gz.build(tmp_path / "d", PAIRS, nodes=nodes, splits={"a": train[:3]}, ids="map")
    nodes["height"] = gz.Source(frame[["id", "age"]], columns="age")  # another table
    with pytest.raises(ValueError, match="its rows have no node ids.*an array beside one such"):
        gz.build(tmp_path / "d", PAIRS, x, nodes=nodes, ids="map")
