"""Inputs that a new user has on the first day: filtered frames, texts, dates, labels of some."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from cli_program import run

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


# --- labels


def test_labels_of_some_nodes_leave_the_others_unknown(tmp_path):
    labels = table(tmp_path / "y.csv", "id,label", [3, 0], [1, 2])
    options = {"splits": {"train": [0, 1, 3]}}
    with pytest.warns(UserWarning, match="label") as said:
        ds = gz.build(tmp_path / "d", EDGES, labels=labels, **options)
    with ds:
        assert (ds.y.tolist(), ds.num_classes) == ([2, -1, -1, 1], 3)
    texts = [str(warning.message) for warning in said]
    assert any("y.csv has no row for 2 of 4 nodes: they get -1" in text for text in texts)
    assert any("'train': 1 of its 3 nodes have no label (it is negative)" in text for text in texts)
    with pytest.warns(UserWarning, match="they get -1"):
        ds = gz.set_attribute(tmp_path / "d", "y", labels)
    with ds:
        assert ds.y.tolist() == [2, -1, -1, 1]
    with pytest.raises(ValueError, match="has no row for 2 of 4 nodes, the first is node 1"):
        gz.build(tmp_path / "d", EDGES, nodes={"age": labels})


@pytest.mark.parametrize("how", ["input", "hot", "map", "command"])
def test_labels_of_some_new_nodes_leave_the_others_unknown(tmp_path, how, capsys):
    folder, more = tmp_path / "d", [[0, 4], [7, 5], [6, 1]]
    edges, ids, age = EDGES, np.arange(8), np.arange(8) + 30
    if how == "map":
        ids = np.array(list("abcdefgh"))
        edges, more = ids[EDGES], ids[np.array(more)]
    frame = pd.DataFrame({"id": ids, "age": age, "y": [2, 0, 1, 1, -1, 3, -1, -1]})
    new = frame[4:].reset_index(drop=True)
    nodes = [
        {"age": part[["id", "age"]], "y": known[["id", "y"]]}
        for part, known in ((frame[:4], frame[:4]), (new, new[1:2].reset_index(drop=True)))
    ]
    options = {
        "ids": "map" if how == "map" else "dense",
        "order": "input" if how == "input" else "hot",
    }
    gz.build(folder, edges, nodes=nodes[0], edge_ids=True, **options).close()
    if how == "command":
        for name, part in nodes[1].items():
            part.to_csv(tmp_path / f"{name}.csv", index=False)
        np.save(tmp_path / "e.npy", more)
        named = [f"--node={name}={tmp_path / name}.csv" for name in nodes[1]]
        assert run("append", folder, "--edges", tmp_path / "e.npy", *named) == 0
        assert "y.csv has no row for 3 of 4 new nodes: they get -1" in capsys.readouterr().err
    else:
        with pytest.warns(UserWarning, match="has no row for 3 of 4 new nodes: they get -1"):
            gz.append(folder, more, nodes=nodes[1]).close()
    with gz.open(folder) as ds:
        assert ds.y.tolist() == frame.y.tolist()
        assert (ds.age.tolist(), ds.num_classes) == (age.tolist(), 4)


def test_edges_and_labels_of_some_say_how_many_nodes_are_new(tmp_path):
    folder, label = tmp_path / "d", pa.table({"id": [5], "y": ["cat"]})
    gz.build(folder, EDGES, labels=TEXTS).close()
    with pytest.warns(UserWarning, match="no row for 3 of 4 new nodes"):
        ds = gz.append(folder, [[7, 0]] * 3, nodes={"y": label})
    with ds:
        assert (ds.y.tolist(), ds.classes["y"]) == (
            [1, 0, 2, 1, -1, 0, -1, -1],
            ["cat", "dog", "été"],
        )
    for message, nodes in [
        (
            "too sparse: 3,999,999,999 is the largest new one",
            {"y": pa.table({"id": [3_999_999_999], "y": ["cat"]})},
        ),
        ("nodes= has no new nodes: 8 are stored", {"y": label}),
        (
            "different numbers of new nodes: .1, 2.",
            {"y": pa.table({"id": [9], "y": ["a"]}), "num_nodes": 1},
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            gz.append(folder, nodes=nodes)


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_labels_that_cannot_be_negative_need_every_node(tmp_path, dtype):
    folder, labels = tmp_path / "d", np.array([1, 0, 1, 0], dtype)
    some = pa.table({"id": [5], "y": np.ones(1, dtype)})
    message = "no row for .* of . .*nodes, the first is node .*only labels of signed integers"
    with pytest.raises(ValueError, match=message):
        gz.build(folder, EDGES, labels=some)
    gz.build(folder, EDGES, labels=labels).close()
    with pytest.raises(ValueError, match=message):
        gz.append(folder, nodes={"y": some})
    gz.set_attribute(folder, "y", labels, dtype="int64").close()
    with pytest.warns(UserWarning, match="no row for 1 of 2 new nodes: they get -1"):
        gz.append(folder, nodes={"y": some}).close()


TEXTS = ["dog", "cat", "été", "dog"]


@pytest.mark.parametrize("kind", ["csv", "frame", "category", "list", "array", "series"])
@pytest.mark.parametrize("name", ["y", "kind"])
def test_texts_are_classes_in_the_order_of_their_names(tmp_path, kind, name):
    frame = pd.DataFrame({"id": range(4), "value": TEXTS})
    value = {
        "csv": lambda: table(tmp_path / "t.csv", "id,value", range(4), TEXTS),
        "frame": lambda: frame,
        "category": lambda: frame.astype({"value": "category"}),
        "list": lambda: TEXTS,
        "array": lambda: np.array(TEXTS),
        "series": lambda: frame.value,
    }[kind]()
    with gz.build(tmp_path / "d", EDGES, nodes={name: value}) as ds:
        assert ds.attributes[name].dtype == np.int64
        assert ds[name].tolist() == [1, 0, 2, 1]
        assert ds.classes == {name: ["cat", "dog", "été"]}
        assert ds.num_classes == (3 if name == "y" else None)


def test_new_classes_stand_behind_the_others(tmp_path):
    folder = tmp_path / "d"
    gz.build(folder, EDGES, labels=TEXTS).close()
    with gz.append(folder, nodes={"y": ["cat", "bee"]}) as ds:
        assert (ds.y.tolist(), ds.num_classes) == ([1, 0, 2, 1, 0, 3], 4)
        assert ds.classes == {"y": ["cat", "dog", "été", "bee"]}
    with gz.set_attribute(folder, "y", ["ant", "cat", "cat", "bee", "cat", "cat"]) as ds:
        assert (ds.y.tolist(), ds.num_classes) == ([4, 0, 0, 3, 0, 0], 5)
    with gz.reorder(folder, "input") as ds:
        assert ds.classes == {"y": ["cat", "dog", "été", "bee", "ant"]}
    with pytest.raises(ValueError, match="'y' was built from the names of classes, and these are"):
        gz.append(folder, nodes={"y": [1]})
    with gz.set_attribute(folder, "y", range(6)) as ds:
        assert ds.classes == {}
    with pytest.raises(ValueError, match="'y' was built from numbers, and these are the names of"):
        gz.append(folder, nodes={"y": ["cat"]})
    with pytest.raises(ValueError, match=r"column 'value' has more than 65,536 different texts"):
        many = pd.DataFrame({"id": range(70_000), "value": map(str, range(70_000))})
        gz.build(folder, EDGES, nodes={"kind": many.assign(value="n" + many.value)})


# --- texts of edges

KINDS = ["pays", "été", "calls", "pays", "calls"]
CODES = [1, 2, 0, 1, 0]


@pytest.mark.parametrize("kind", ["csv", "frame", "category", "parquet", "list", "array", "table"])
@pytest.mark.parametrize("order", ["hot", "input"])
def test_texts_of_edges_are_classes(tmp_path, kind, order, capsys):
    frame = pd.DataFrame({"src": EDGES[:, 0], "dst": EDGES[:, 1], "kind": KINDS})
    frame.to_parquet(tmp_path / "e.parquet")
    edges = {
        "csv": lambda: table(tmp_path / "e.csv", "src,dst,kind", *EDGES.T, KINDS),
        "frame": lambda: frame,
        "category": lambda: frame.astype({"kind": "category"}),
        "parquet": lambda: tmp_path / "e.parquet",
        "list": lambda: {"edge_index": EDGES, "kind": KINDS},
        "array": lambda: {"edge_index": EDGES, "kind": np.array(KINDS)},
        "table": lambda: {"edge_index": EDGES, "kind": table(tmp_path / "k.csv", "kind", KINDS)},
    }[kind]()
    named = {} if kind in ("list", "array", "table") else {"edge_attrs": ["kind"]}
    with gz.build(tmp_path / "d", edges, order=order, progress=True, **named) as ds:
        assert (ds.kind.tolist(), ds.kind.dtype) == (CODES, torch.int64)
        assert ds.classes == {"kind": ["calls", "pays", "été"]}
        assert ds.edges["", "", ""].classes == ds.classes
        batch = next(iter(gz.NeighborLoader(ds, [-1], input_nodes=[2], batch_size=1)))
        assert [KINDS[e] for e in batch.e_id] == [ds.classes["kind"][i] for i in batch.kind]
    assert re.search(r"^kind +int64, 3 classes$", capsys.readouterr().err, re.MULTILINE)


@pytest.mark.parametrize("of", ["node", "edge"])
def test_texts_of_several_sources_have_classes_together(tmp_path, of):
    parts = [pd.DataFrame({"kind": part}) for part in (KINDS[:2], KINDS[2:], [1, 2, 3])]
    given = [[gz.Source(part) for part in parts[:2]], [gz.Source(part) for part in parts[::2]]]
    inputs = [({"edge_index": EDGES, "kind": kind}, {}) for kind in given]
    if of == "node":
        inputs = [
            (EDGES, {"kind": [replace(part, id_column=False) for part in kind]}) for kind in given
        ]
        inputs = [([*edges, [4, 0]], nodes) for edges, nodes in inputs]
    edges, nodes = inputs[0]
    with gz.build(tmp_path / "d", edges, nodes=nodes) as ds:
        assert (ds.kind.tolist(), ds.classes) == (CODES, {"kind": ["calls", "pays", "été"]})
    edges, nodes = inputs[1]
    with pytest.raises(ValueError, match="or not both have node ids, or texts"):
        gz.build(tmp_path / "d", edges, nodes=nodes)


def test_classes_of_edges_keep_their_numbers(tmp_path):
    folder, more = tmp_path / "d", {"edge_index": [[3, 1], [2, 0], [1, 3]]}
    gz.build(folder, {"edge_index": EDGES, "kind": KINDS}, labels=TEXTS).close()
    with gz.append(folder, {**more, "kind": ["asks", "pays", "asks"]}) as ds:
        assert ds.kind.tolist() == [*CODES, 3, 1, 3]
        assert ds.classes["kind"] == ["calls", "pays", "été", "asks"]
    with gz.append(folder, remove_edges=[0, 5]) as ds:
        assert ds.kind.tolist() == [*CODES[1:], 1, 3]
    with gz.set_attribute(folder, "kind", ["asks", "buys"] * 3, of="edge") as ds:
        assert ds.kind.tolist() == [3, 4] * 3
    with gz.reorder(folder, "input", neighbors="out") as ds:
        assert ds.classes == {
            "y": ["cat", "dog", "été"],
            "kind": ["calls", "pays", "été", "asks", "buys"],
        }
        assert ds.edges["", "", ""].classes == {"kind": ds.classes["kind"]}
    with pytest.raises(ValueError, match="'kind' was built from the names of classes, and these"):
        gz.append(folder, {**more, "kind": [1, 2, 3]})
    with gz.set_attribute(folder, "kind", range(6), of="edge") as ds:
        assert list(ds.classes) == ["y"]
    with pytest.raises(ValueError, match="'kind' was built from numbers, and these are the names"):
        gz.append(folder, {**more, "kind": ["a", "b", "c"]})
    with gz.drop_attribute(folder, "kind", of="edge") as ds:
        assert list(ds.classes) == ["y"]


def test_each_edge_type_has_classes_of_its_own(tmp_path):
    pays, asks = ("a", "pays", "b"), ("a", "asks", "b")
    ends = {"edge_index": EDGES[:3].T}
    edges = {pays: {**ends, "kind": ["cash", "card", "cash"]}, asks: {**ends, "kind": list("yyn")}}
    with gz.build(tmp_path / "d", edges, nodes={"a": {"kind": list("uvw")}, "b": {}}) as ds:
        assert ds[pays].kind.tolist() == [1, 0, 1]
        assert ds[pays].classes == ds.edges[pays].classes == {"kind": ["card", "cash"]}
        assert (ds[asks].classes, ds["a"].classes) == ({"kind": ["n", "y"]}, {"kind": list("uvw")})
    more = {asks: {"edge_index": [[0], [0]], "kind": ["x"]}}
    with gz.append(tmp_path / "d", more) as ds:
        assert (ds[asks].kind.tolist(), ds[pays].kind.tolist()) == ([1, 1, 0, 2], [1, 0, 1])
        assert ds[asks].classes == {"kind": ["n", "y", "x"]}


def test_texts_are_no_weights_and_are_merged_by_their_names(tmp_path):
    folder, both = tmp_path / "d", np.concatenate([EDGES, EDGES[:1]])
    kinds = {"edge_index": both, "kind": [*KINDS, "calls"]}
    for name, option in [("weight", "weight_attrs"), ("edge_time", "time_attrs")]:
        with pytest.raises(ValueError, match=f"{name!r} has texts, but neighbours are.*{option}"):
            gz.build(folder, {"edge_index": EDGES, name: KINDS})
        with gz.build(folder, {"edge_index": EDGES, name: KINDS}, **{option: []}) as ds:
            assert ds[name].tolist() == CODES
    with pytest.raises(ValueError, match="their 'kind' differs: pays and calls"):
        gz.build(folder, kinds, coalesce=True)
    with pytest.raises(ValueError, match="coalesce='sum' is not for texts: .*'kind': 'max'"):
        gz.build(folder, kinds, coalesce="sum")
    with gz.build(folder, kinds, coalesce="min") as ds:
        assert ds.kind.tolist() == [0, *CODES[1:]]
    with pytest.raises(ValueError, match=r"has more than 65,536 different texts"):
        gz.build(
            folder, {"edge_index": np.zeros((70_000, 2), int), "kind": [*map(str, range(70_000))]}
        )
    with pytest.raises(ValueError, match="edge attribute 'kind', row 1: nan is no text as the fi"):
        gz.build(folder, {"edge_index": EDGES, "kind": ["pays", np.nan, *KINDS[2:]]})
    weights = {"edge_index": EDGES, "weight": np.ones(5)}
    gz.build(folder, weights).close()
    with pytest.raises(ValueError, match="'weight' has texts"):
        gz.append(folder, {**weights, "weight": KINDS})


# --- dates

DATES = [
    "2020-01-01",
    "2020-01-02 12:00:00.75",
    "1969-12-31T23:59:59.5",
    "2020-01-01",
    "2020-01-03",
]
SECONDS = [1577836800, 1577966400, -1, 1577836800, 1578009600]


@pytest.mark.parametrize("kind", ["csv", "texts", "timestamps", "zone"])
def test_dates_are_seconds(tmp_path, kind, capfd):
    frame = pd.DataFrame({"src": EDGES[:, 0], "dst": EDGES[:, 1], "time": DATES})
    if kind == "timestamps":
        frame["time"] = pd.to_datetime(frame.time, format="ISO8601")
    elif kind == "zone":
        frame["time"] = [date[:10] + "T02:00:00+02:00" for date in DATES]
    edges = table(tmp_path / "e.csv", "src,dst,time", *EDGES.T, DATES) if kind == "csv" else frame
    seconds = SECONDS
    if kind == "zone":
        seconds = [1577836800, 1577923200, -86400, 1577836800, 1578009600]
    nodes = {"born": frame[["time"]].assign(id=range(5)), "kind": np.array(DATES, "M8[ms]")}
    with gz.build(tmp_path / "d", edges, nodes=nodes, edge_ids=True, progress=True) as ds:
        assert ds.edge_time.tolist() == seconds
        assert ds.born.tolist() == seconds
        assert ds.kind.tolist() == SECONDS
    assert "timestamp=time (dates as seconds since 1970, UTC)" in capfd.readouterr().err


def test_a_date_that_is_none_is_an_error(tmp_path):
    path = table(tmp_path / "e.csv", "src,dst,time", *EDGES.T, [*DATES[:4], "soon"])
    with pytest.raises(ValueError, match=r"a timestamp is no ISO date as the first one is.*'soon'"):
        gz.build(tmp_path / "d", path)
