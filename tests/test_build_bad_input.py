"""Wrong input: the exception, what it says, and that the earlier dataset stays as it was."""

from __future__ import annotations

import functools
import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_memory
from files import contents
from id_files import write_csv
from typed_inputs import WRITES, small

import graphzero as gz
from graphzero.ingest import build_dataset
from graphzero.ingest.options import RESERVED
from graphzero.ingest.sort import TempColumn
from graphzero.store.atomic import folder_lock

EDGES = np.array([[0, 1], [1, 2], [2, 0], [3, 1]])
MANY = "".join(f"{i},{i + 1}\n" for i in range(300_000))


BAD_EDGES = [
    # text, options, message
    ("", {}, "is empty: it has no columns"),
    ("src,dst\n", {}, "has no edges: give num_nodes"),
    ("0,1\n1,2,3\n", {}, r"line 2: 3 columns, but the first record has 2: '1,2,3'"),
    ("# c\nsrc,dst\n0,1\n1,x\n", {}, "line 4: 'x' is not a target id"),
    ("src,dst\n0,1\n", {"header": False}, "line 1: 'src' is not a source id"),
    ("0,1\n,2\n", {}, "line 2: an empty cell is not a source id"),
    ("0,1\n-1,2\n", {}, "line 2: '-1' is not a source id .*ids='map' takes any"),
    ("0,1\n1,4294967296\n", {}, "line 2: '4294967296' is not .* from 0 to 4294967295"),
    ("0,1\n1," + "9" * 5000 + "\n", {}, "line 2: '9{60}' is not"),
    ('0,1\n1,"2\n3,4\n', {}, "line 2: '2.3,4.' is not"),
    (MANY + "7,seven\n" + MANY, {}, "line 300001: 'seven' is not a target id"),
    ("src,dst,weight\n0,1,1\n\n1,2,1e39\n", {}, "line 4: weight inf is not a finite"),
    ("src,dst,weight\n0,1,1\n1,2,-0.5\n", {}, "line 3: .*-0.5.*must not be negative"),
    ("src,dst,weight\n0,1,1\n1,2,heavy\n", {}, "line 3: 'heavy' is not a number for the weight"),
    ("src,dst,time\n0,1,9223372036854775808\n", {}, "line 2: '9223372036854775808' is not"),
    ("0,1\n1,5\n", {"features": np.ones((5, 1))}, r"line 2: target id 5 .*\(features has 5 rows\)"),
    ("0\x001\n", {}, "is not a text file"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "message"), BAD_EDGES)
def test_csv_edges(tmp_path, refused, text, options, message):
    (tmp_path / "edges.csv").write_text(text)
    refused(rf"(?s)edges\.csv.*{message}|^{message}", tmp_path / "edges.csv", **options)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[0, 1], [2, -3], [1, 1]]), "edge 1: -3 is not a target id"),
        (np.array([[0, 2**64 - 1]] * 3, np.uint64), "edge 0: 18446744073709551615 is not"),
        (np.array([[0.0, 1.0]]), "dtype float64: node ids must be integers"),
        (np.array([["a", "b"]]), "must hold numbers"),
        (np.zeros((3, 3), int), r"shape \(3, 3\): an edge list is"),
        (np.zeros((0, 2), int), "has no edges: give num_nodes"),
    ],
)
def test_array_edges(tmp_path, refused, array, message):
    refused(message, array)
    np.save(tmp_path / "e.npy", array)
    refused(rf"e\.npy.*{message}", tmp_path / "e.npy")


def test_damaged_files(tmp_path, refused):
    array, parquet = tmp_path / "e.npy", tmp_path / "e.parquet"
    np.save(array, EDGES)
    whole = array.read_bytes()
    np.save(array, np.array([object()]), allow_pickle=True)  # is not loaded
    for payload in (array.read_bytes(), *(whole[:keep] for keep in (0, 5, 100, 140))):
        array.write_bytes(payload)
        refused(r"e\.npy is not a complete NumPy file", array)
    pq.write_table(pa.table({"src": np.arange(1000), "dst": np.arange(1000)}), parquet)
    whole = parquet.read_bytes()
    parquet.write_bytes(whole[: len(whole) // 2])
    refused(r"e\.parquet is not a complete Parquet file", parquet)
    parquet.write_bytes(whole[:4] + b"\xff" * 200 + whole[204:])
    refused(r"e\.parquet is damaged", parquet)


def test_array_side_inputs(tmp_path, refused):
    refused(r"weight has shape \(3,\) for 4 edges", EDGES, weight=np.ones(3))
    refused("edge 2: weight inf", EDGES, weight=[1, 2, np.inf, 4])
    refused("timestamp has dtype float64", EDGES, timestamp=np.ones(4))
    refused("w.npy", EDGES, weight=tmp_path / "w.npy", kind=FileNotFoundError)


def test_missing_and_unknown_files(tmp_path, refused):
    for name in ("e.csv", "e.npy", "e.parquet"):
        refused(re.escape(name), tmp_path / name, kind=FileNotFoundError)
    (tmp_path / "folder.csv").mkdir()
    refused(r"folder\.csv", tmp_path / "folder.csv", kind=FileNotFoundError)
    (tmp_path / "e.xlsx").write_text("0,1")
    refused(r"e\.xlsx.*does not end in \.csv", tmp_path / "e.xlsx")


BAD_FEATURES = [
    ("0\n1\n", "has one column: features are a node id and their values"),
    ("0,1\n1,two\n", "line 2: 'two' is not a number for the feature 0"),
    ("0,1\n1,\n", "line 2: an empty cell is not a number for the feature 0"),
    (",1.5\n1,2\n", "line 1: an empty cell is not a node id"),
    ("0,1\n1.0,2\n", "line 2: '1.0' is not a node id"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FEATURES)
def test_csv_features(tmp_path, refused, text, message):
    (tmp_path / "x.csv").write_text(text)
    refused(rf"x\.csv.*{message}", EDGES, tmp_path / "x.csv", id_column=0)


def test_duplicate_ids_in_different_pieces(tmp_path, refused):
    rows = [f"{i},{i}\n" for i in range(200_000)]
    (tmp_path / "x.csv").write_text("".join([*rows, "3,3\n"]))
    message = "line 200001: node id 3 has a row already"
    refused(message, EDGES, tmp_path / "x.csv", id_column=0)


ONES = np.ones((4, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": np.ones((3, 2))}, "features has 3 rows"),
        ({"features": np.ones(5), "num_nodes": 4}, r"num_nodes=4, but features has 5 rows"),
        ({"features": ONES, "labels": [0, 1, 2]}, "but labels has 3 rows: every node needs one"),
        ({"features": np.ones((4, 1, 0))}, r"features has shape \(4, 1, 0\)"),
        ({"features": ONES.astype("longdouble")}, "features: dtype .*longdouble|float128"),
        ({"features": ["a", "b", "c", "d"]}, "features has dtype .*must hold numbers"),
        ({"labels": "id,label\n0,1.5\n3,1\n"}, "no row for 2 of 4 nodes, the first is node 1"),
        ({"features": ONES, "labels": "id,y\n0,1\n9,1\n"}, r"y\.csv, line 3: node id 9 is out"),
        ({"labels": "1\n2\n0.5\n4\n"}, "line 3: '0.5' is not a label"),
    ],
)
def test_features_and_labels(tmp_path, refused, options, message):
    if isinstance(options.get("labels"), str):
        (tmp_path / "y.csv").write_text(options["labels"])
        options = {**options, "labels": tmp_path / "y.csv"}
    refused(message, EDGES, **options)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0, 1, 4], "split 'train', position 2: node 4 is out"),
        ([0.5], "split 'train' has dtype float64"),
        ([0, 1, 1, 0], "looks like a mask of integers"),
        ("0\n1\n1\n0\n", "looks like a mask of integers"),
        ("train\n1\n1\n1\n1\n", "looks like a mask of integers"),
        ([True, False, True], "mask of 3 values for 4 nodes"),
        ([[0, 1]], r"split 'train' has dtype int64 and shape \(1, 2\)"),
        ("0,1\n", r"s\.csv\) has 2 columns"),
        ("0\n1\nx\n", r"s\.csv, line 3: 'x' is not"),
    ],
)
def test_splits(tmp_path, refused, value, message):
    if isinstance(value, str):
        (tmp_path / "s.csv").write_text(value)
        value = tmp_path / "s.csv"
    refused(message, EDGES, splits={"train": value}, kind=(ValueError, IndexError))


def test_names_of_splits(refused):
    for name in ("", "a/b", "..", "a b", "é", 3):
        refused("split name", EDGES, splits={name: [0]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "cold"}, "order must be 'hot', 'input' or 'presample'"),
        ({"num_nodes": 0}, "num_nodes=0 is not an integer from 1 to 2"),
        ({"num_nodes": (1 << 32) + 1}, "num_nodes=4294967297 is not"),
        ({"num_nodes": 2.5}, "num_nodes=2.5"),
        ({"num_nodes": 3}, "edge 3: source id 3 is out of range for 3 nodes"),
        ({"memory_limit": "lots"}, "'lots' is not a size"),
        ({"memory_limit": 0}, "too small"),
        ({"memory_limit": 2.5}, "neither a number of bytes nor"),
    ],
)
def test_options(refused, options, message):
    refused(message, EDGES, **options)


def test_folders_that_cannot_be_or_are_in_use(tmp_path, earlier, refused):
    with folder_lock(earlier):
        refused(f"another build.*{re.escape(str(earlier))}", EDGES, kind=BlockingIOError)
    (earlier / "dataset.json").write_text("{")  # is replaced
    build_dataset(earlier, EDGES)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="file"):
        build_dataset(tmp_path / "file", EDGES)
    with pytest.raises(NotADirectoryError, match="file"):
        build_dataset(tmp_path / "file" / "d", EDGES)


# --- attributes

MORE_EDGES = np.array([[0, 1], [1, 2], [2, 0], [3, 1], [2, 2], [0, 1]])

BAD_NAMES = ["n_id", "to", "keys", "num_nodes", "stats", "_private", "a b", "class", "ä", "", 3]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_cannot_be(tmp_path, name):
    with pytest.raises(ValueError, match=f"node attribute {name!r}: "):
        build_dataset(tmp_path, MORE_EDGES, nodes={name: np.ones(4)})
    with pytest.raises(ValueError, match=f"edge attribute {name!r}: "):
        build_dataset(tmp_path, {"edge_index": MORE_EDGES, name: np.ones(6)})


def test_no_attribute_hides_what_a_mini_batch_or_data_has():
    """What these have that is not reserved is the name of an attribute that PyG knows."""
    from graphzero.graph.dataset import OF_DATA
    from graphzero.loader.mini_batch import MiniBatch

    known = {"x", "y", "pos", "time", "edge_attr", "edge_weight", "edge_time"}
    fields = {*dir(MiniBatch), *MiniBatch.__annotations__, *MiniBatch._none_if_absent}
    known |= OF_DATA | {"values", "items"}  # methods that only scripts call
    assert {name for name in fields if name[0] != "_"} <= RESERVED | known
    data = pytest.importorskip("torch_geometric.data")
    for kind in (data.Data, data.HeteroData):
        names = {name for name in dir(kind) if name[0] != "_"}
        assert names <= RESERVED | known


BAD = [
    ({"nodes": {"year": np.ones(3)}}, "num_nodes=4, but node attribute 'year' has 3 rows"),
    ({"nodes": [1]}, "nodes must be a dictionary of attributes by name"),
    ({"nodes": {"tag": np.ones(4, complex)}}, "node attribute 'tag'.* dtype complex128"),
    ({"edges": {"edge_attr": np.ones(6)}}, "edges has no 'edge_index'.* it has 'edge_attr'"),
    ({"w": np.ones(5)}, "edge attribute 'w' has 5 rows for 6 edges"),
    ({"x": np.ones(6)}, "edge attribute 'x': this is a name of node attributes"),
    ({"w": [np.ones((3, 2)), np.ones((3, 1))]}, r"dtypes or shapes: .*\(2,\).* 'w'\[0\], .*\(1,\)"),
    ({"weight": np.array([1, 1, 1, np.nan, 1, 1])}, "edge 3: value of 'weight' nan is not a fin"),
    ({"weight": np.array([1, 1, -1, 1, 1, 1])}, "edge 2: .*-1.0 is negative.*weight_attrs=\\[\\]"),
    ({"weight": np.ones(6), "edge_weight": np.ones(6)}, "by 'edge_weight' and by 'weight'"),
    ({"time": np.ones(6)}, "'time' has rows of shape .* float64.*vectors of integers.*time_attrs="),
    ({"time": np.full(6, 2**63, np.uint64)}, "9223372036854775808 is not a value of 'time'"),
    ({"w": np.ones(6), "weight_attrs": ["cost"]}, "no edge attribute 'cost'; there are w"),
    ({"time_attrs": ["when"]}, "no attribute 'when' of edges or nodes; there are none"),
    ({"w": np.ones(6), "weight_attrs": "w", "time_attrs": "w"}, "weight_attrs and in time_attrs"),
    ({"nodes": {"t": range(4)}, "u": range(6), "time_attrs": ["t", "u"]}, "by 'u' and by 't'"),
    ({"nodes": {"t": np.ones((4, 2), int)}, "time_attrs": "t"}, "vectors of integers"),
    (
        {"nodes": {"t": np.full(4, 2**63, np.uint64)}, "time_attrs": "t"},
        "9223372036854775808 is not a value of",
    ),
    ({"nodes": {"w": np.ones(4)}, "w": np.ones(6)}, "nodes and edges both have an attribute 'w'"),
    ({"split_a": np.ones(6), "edge_splits": {"a": [0]}}, "both be stored in edge_split_a.gd"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_attributes_that_cannot_be(refused, arguments, message):
    options = ("nodes", "edges", "edge_splits", "weight_attrs", "time_attrs")
    given = {name: arguments[name] for name in options if name in arguments}
    attributes = {name: value for name, value in arguments.items() if name not in options}
    given.setdefault("edges", {"edge_index": MORE_EDGES, **attributes})
    refused(message, num_nodes=4, **given)


def test_a_wrong_number_of_records(tmp_path):
    """Where the number of edges is known only when all are read."""
    (tmp_path / "e.csv").write_text("".join(f"{s},{t}\n" for s, t in MORE_EDGES))
    for count in (5, 7):
        (tmp_path / "a.csv").write_text("1\n" * count)
        for name in ("weight", "kind"):
            edges = {"edge_index": tmp_path / "e.csv", name: tmp_path / "a.csv"}
            with pytest.raises(ValueError, match=r"a\.csv has .* rows for .*6 edges: every edge"):
                build_dataset(tmp_path / "d", edges)


# --- typed graphs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"directed": False}, "directed=False.*reverse edge types.*ToUndirected"),
        ({"neighbors": "both"}, "neighbors='both' are not for typed graphs"),
        ({"features": np.ones((4, 2))}, "features= is for graphs without types.*nodes={'paper'"),
        ({"src": 1}, "src= is for graphs without types.*gz.Source"),
        (
            {"splits": {"t": [1, 2]}},
            "'t'. .*is a dict by node type, of 'paper', 'author', .*not .1",
        ),
        (
            {"edge_splits": {"train": {"writes": [1]}}},
            "edge_splits.'train'. has no type 'writes' here",
        ),
        ({"edges": {("author", "writes", "papers"): [[0], [1]]}}, "which nodes= does not have"),
        ({"edges": {("author", "paper"): [[0], [1]]}}, "edge type is .source type, relation"),
        (
            {"edges": {("author", 3, "paper"): [[0], [1]]}},
            "3 is no name.* a text that is not empty",
        ),
        ({"edges": {WRITES: {"edge_attr": [1.0]}}}, "writes.*no 'edge_index', .*'edge_attr'"),
        ({"edges": {WRITES: [[0, 1], [1, 4]]}}, "writes.*target id 4 is out of range.*'x' of"),
        ({"edges": {WRITES: {"edge_index": [[0], [1]], "w": [1, 2]}}}, "writes.*2 rows for 1 edge"),
        ({"nodes": {"paper": {}, "author": {}, "venue": {}}}, "'venue'.*no edges: give num_nodes"),
        ({"nodes": {"paper": {"num_nodes": 3}, "author": {"num_nodes": 2}}}, "source id 2 is out"),
        ({"nodes": {"paper": {"x": [1] * 4, "y": [1]}, "author": {}}}, "'y' of 'paper' has 1 rows"),
        ({"nodes": {"paper": np.ones((4, 2)), "author": {}}}, "'paper'.*not a dict of attributes"),
        ({"nodes": {"": {}, "paper": {}, "author": {}}}, "'' is no name of a type"),
        ({"nodes": {"\ud800": {"num_nodes": 2}, "paper": {}, "author": {}}}, "surrogates not"),
        ({"nodes": {"p" * 300: {"x": [1]}, "paper": {}, "author": {}}}, "choose shorter names"),
        ({"nodes": None}, "needs nodes="),
        ({"splits": {"a": {"paper": [1, 4]}}}, "'paper'.*position 1: node 4 is out"),
        ({"edge_splits": {"a": {WRITES: [3]}}}, "writes.*edge 3 is out of range for 3"),
    ],
)
def test_typed_graphs(refused, options, message):
    refused(message, **small(**options), kind=(ValueError, IndexError))


def test_errors_name_the_file_and_the_line(tmp_path, refused):
    path = tmp_path / "writes.csv"
    path.write_text("src,dst\n0,1\n0,9\n")
    arguments = small()
    arguments["edges"][WRITES] = path
    refused(r"writes'.*writes\.csv, line 3: target id 9 is out of range", **arguments)
    path.write_text("src,dst\n0,1\n0,one\n")
    refused(r"writes'.*writes\.csv, line 3", **arguments)
    arguments["edges"][WRITES] = path.with_name("none.csv")
    refused("none.csv", **arguments, kind=FileNotFoundError)


def test_reorder_refuses_what_it_cannot(tmp_path):
    gz.build(tmp_path, **small(), memory_limit="256MB").close()
    with pytest.raises(ValueError, match="memory_limit='200MB' is too small.*at least 256MB"):
        gz.reorder(tmp_path, "input", memory_limit="200MB")
    with pytest.raises(ValueError, match="neighbors="):
        gz.reorder(tmp_path, neighbors="out")


# --- inputs that vanish, change or become shorter while a build reads them

RANDOM = np.random.default_rng(0).integers(0, 500, (200_000, 2))


def after_the_first_piece(monkeypatch, act):
    """Calls a function once, when the first piece of the edges is stored."""
    append, done = TempColumn.append, []

    def then_act(self, array):
        append(self, array)
        if not done:
            done.append(act())

    monkeypatch.setattr(TempColumn, "append", then_act)


def check_refused(earlier, message, *args, **options):
    before = contents(earlier)
    with pytest.raises(ValueError, match=message):
        small_memory.build(earlier, *args, **options)
    assert contents(earlier) == before


@pytest.mark.parametrize("ids", ["dense", "map"])
def test_a_mapped_file_becomes_shorter(earlier, tmp_path, monkeypatch, ids):
    path = tmp_path / "e.npy"
    np.save(path, RANDOM)
    after_the_first_piece(monkeypatch, lambda: os.truncate(path, 4096))
    check_refused(earlier, r"e\.npy has become shorter while", path, ids=ids)


def test_rows_become_shorter(earlier, tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((500, 2000)))
    after_the_first_piece(monkeypatch, lambda: os.truncate(path, 4096))
    check_refused(earlier, r"x\.npy has become shorter while", RANDOM, path)


def test_a_file_changes(earlier, tmp_path, monkeypatch):
    path = write_csv(tmp_path / "e.csv", *(f"{a},{b}" for a, b in RANDOM[:60_000].tolist()))
    new = write_csv(tmp_path / "new.csv", "1,2")
    after_the_first_piece(monkeypatch, lambda: os.replace(new, path))
    check_refused(earlier, r"e\.csv has changed while the build read it", path)


@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_a_file_vanishes(earlier, tmp_path, monkeypatch, suffix):
    """What is open keeps its content; what must be opened again is an error that names it."""
    path = tmp_path / f"e.{suffix}"
    np.save(path, RANDOM) if suffix == "npy" else np.savetxt(path, RANDOM, "%d", ",")
    with monkeypatch.context() as patch:
        after_the_first_piece(patch, path.unlink)
        with gz.build(earlier, path) as ds:
            assert ds.num_edges == len(RANDOM)
    with pytest.raises(FileNotFoundError, match=f"e.{suffix}"):
        gz.build(earlier, path)
    with gz.open(earlier) as ds:
        assert ds.num_edges == len(RANDOM)


@pytest.mark.parametrize("columns", [None, "team"])
def test_labels_are_not_among_the_features(tmp_path, columns):
    people = tmp_path / "people.csv"
    people.write_text("id,age,team\n0,30.5,1\n1,41.5,0\n")
    labels = gz.Source(str(people), columns=columns)
    build = functools.partial(gz.build, tmp_path / "data", np.array([[0], [1]]))
    with pytest.raises(ValueError, match=r"people.csv: the columns of the labels are among.*Name"):
        build(features=people, labels=labels)
    if columns is not None:
        with build(features=gz.Source(people, columns=["age"]), labels=labels) as ds:
            assert (ds.features.shape, ds.labels.shape) == ((2, 1), (2,))
