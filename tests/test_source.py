"""`Source` wherever a path can stand, and the node ids of tables."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_program import run
from payment_files import AMOUNTS, EDGES, RATES, ROWS, check_edge_values, payments, write_csv
from typed_inputs import CITES, WRITES

import graphzero as gz

pytestmark = [pytest.mark.no_asan, pytest.mark.filterwarnings("error::UserWarning")]

# --- Source


def test_a_source_is_a_value_with_its_options(tmp_path: Path) -> None:
    source = gz.Source(tmp_path / "e.csv", src="a", dst=1, edge_attrs=["c"], header=True)
    assert pickle.loads(pickle.dumps(source)) == source
    assert source.options() == {"src": "a", "dst": 1, "edge_attrs": ["c"], "header": True}
    with pytest.raises(AttributeError):
        source.src = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        gz.Source("e.csv", "a")  # type: ignore[misc]
    for value, options, message in (
        ("e.csv", {"header": "yes"}, "header must be"),
        ("e.csv", {"delimiter": "::"}, "delimiter must be"),
        ([source, source], {}, "not another Source"),
    ):
        with pytest.raises(ValueError, match=message):
            gz.Source(value, **options)


def test_sources_stand_wherever_paths_do(tmp_path: Path) -> None:
    edges = write_csv(tmp_path / "e.csv", "a;b;c".replace(";", ","), *EDGES.T, AMOUNTS)
    table = write_csv(
        tmp_path / "n.csv", "f,g,year,key,note", *ROWS[::-1].T, range(10, 15), range(4, -1, -1),
        "abcde",
    )  # fmt: skip
    (tmp_path / "of_edges.txt").write_text("".join(f"{a}|{b}|x\n" for a, b in EDGES * 2))
    split = write_csv(tmp_path / "s.csv", "n,node", [9, 9], [4, 1])
    options = {"id_column": "key"}
    pair = gz.Source(tmp_path / "of_edges.txt", columns=[1, 0], delimiter="|", header=False)
    with gz.build(
        tmp_path / "d",
        {"edge_index": gz.Source(edges, src="b", dst="a", weight="c"), "pair": pair},
        nodes={
            "x": gz.Source(table, columns=["g", "f"], **options),
            "y": gz.Source(table, columns="year", **options),
            "z": gz.Source([table], columns=["f"], **options),
        },
        splits={"train": gz.Source(split, columns="node")},
        edge_splits={"val": gz.Source(split, columns=1)},
    ) as ds:
        every = np.arange(5)
        np.testing.assert_array_equal(ds.features[every], ROWS[:, ::-1])
        assert ds.labels[every].tolist() == [14, 13, 12, 11, 10]
        np.testing.assert_array_equal(ds.attributes["z"][every], ROWS[:, :1])
        assert ds.splits["train"].tolist() == ds.edge_splits["val"].tolist() == [4, 1]
        assert ds.graph.neighbors(0).tolist() == [1, 3]
        assert sorted(ds.graph.weights.tolist()) == AMOUNTS.tolist()
        check_edge_values(ds, pair=EDGES[:, ::-1] * 2)


WHERE: dict[str, Any] = {
    "edges": lambda source: [source],
    "features": lambda source: [EDGES, source],
    "edge attribute": lambda source: [{"edge_index": EDGES, "kind": source}],
    "split": lambda source: [EDGES, None, None, {"train": source}],
}


def test_options_that_do_not_apply_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parq")
    for where, option, value in (
        ("edges", "id_column", False),
        ("features", "src", 0),
        ("split", "edge_attrs", ["c"]),
    ):
        with pytest.raises(ValueError, match=f"Source has {option}=, which does not apply here"):
            gz.build(tmp_path / "d", *WHERE[where](gz.Source(path, **{option: value})))
    for where, option, value in (
        ("edges", "edge_attrs", ["c"]),
        ("features", "id_column", 0),
        ("split", "header", True),
    ):
        with pytest.raises(ValueError, match=f"{option}= is for tables"):
            gz.build(tmp_path / "d", *WHERE[where](gz.Source(np.arange(6), **{option: value})))
        with pytest.raises(ValueError, match="delimiter= are for text files, not for"):
            gz.build(tmp_path / "d", *WHERE[where](gz.Source(tmp_path / "t.parq", delimiter=";")))
    (tmp_path / "parts").mkdir()
    table = pa.table({"src": [0, 1], "dst": [1, 2]})
    pq.write_table(table, tmp_path / "parts" / "a.parquet")
    for value, named in ((tmp_path / "parts", r".*a\.parquet"), (table, "the pyarrow Table")):
        with pytest.raises(ValueError, match=f"are for text files, not for {named}"):
            gz.build(tmp_path / "d", gz.Source(value, header=True))


def test_options_are_given_in_one_place(tmp_path: Path) -> None:
    source = gz.Source(payments(tmp_path), src="from", dst="to", delimiter=",", edge_attrs=[])
    for option, value in (("src", "from"), ("dst", 1), ("delimiter", ","), ("edge_attrs", [])):
        for edges in (source, {"edge_index": source}):
            message = f"{option}= is given to the build and to the Source of the edges"
            with pytest.raises(ValueError, match=message):
                gz.build(tmp_path / "d", edges, **{option: value})
    with gz.build(tmp_path / "d", source, weight="rate", timestamp=False, header=True) as ds:
        assert (ds.sampled_by.weight, ds.sampled_by.time) == ("edge_weight", None)


# --- typed graphs


def test_typed_builds_name_the_edge_type(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cites = write_csv(tmp_path / "c.csv", "to,from,strength", [2, 1], [0, 1], [0.5, 1.5])
    nodes: dict[str, Any] = {"paper": {}, "author": {}}
    edges: dict[Any, Any] = {WRITES: [[0, 2], [1, 1]], CITES: cites}
    said = re.escape(f"edge type {CITES}: {cites} has columns that are not used: strength; edge_")
    with pytest.warns(UserWarning, match=said):
        gz.build(tmp_path / "d", edges, nodes=nodes).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gz.build(tmp_path / "d", edges, nodes=nodes, edge_attrs=[]).close()
        gz.build(tmp_path / "d", edges, nodes=nodes, progress=True).close()
    assert capfd.readouterr().err.splitlines()[-2:] == [
        f"{WRITES}: read src=0, dst=1; in-neighbours; directed",
        f"{CITES}: read src=from, dst=to; ignored strength; in-neighbours; directed",
    ]


# --- node ids


def test_ids_by_option_of_the_build(tmp_path: Path) -> None:
    x = write_csv(tmp_path / "x.csv", "key,a,b", range(4, -1, -1), *ROWS[::-1].T)
    y = write_csv(tmp_path / "y.csv", "", range(5))
    with gz.build(tmp_path / "d", EDGES, x, y, id_column="key") as ds:
        np.testing.assert_array_equal(ds.features[np.arange(5)], ROWS)
        assert ds.labels[np.arange(5)].tolist() == [0, 1, 2, 3, 4]
    with gz.build(tmp_path / "d", EDGES, x, y, id_column=False) as ds:
        assert ds.features.shape == (5, 3)
        assert ds.features[[0]].tolist() == [[4, 8, 9]]
    own = gz.Source(x, id_column="key")
    with gz.build(tmp_path / "d", EDGES, nodes={"x": own, "z": x}, id_column=False) as ds:
        assert (ds.features.shape, ds.attributes["z"].shape) == ((5, 2), (5, 3))
    with pytest.raises(ValueError, match=r"id_column=0 is for features, labels and attributes"):
        gz.build(tmp_path / "d", EDGES, ROWS, id_column=0)
    typed = {"edges": {("n", "r", "n"): EDGES.T}, "nodes": {"n": {"x": x}}}
    with gz.build(tmp_path / "t", id_column="key", **typed) as ds:
        np.testing.assert_array_equal(ds["n"].x[np.arange(5)], ROWS)


@pytest.mark.parametrize("header", ["a,edge_id", ",a", "target,b"])
def test_tables_of_edges_have_no_ids(tmp_path: Path, header: str) -> None:
    path = write_csv(tmp_path / "a.csv", header, AMOUNTS, AMOUNTS)
    with pytest.raises(ValueError, match=r"is probably an index, ids or a partition: columns=\["):
        gz.build(tmp_path / "d", {"edge_index": EDGES, "kind": path})
    source = gz.Source(path, columns=[0, 1])
    with gz.build(tmp_path / "d", {"edge_index": EDGES, "kind": source}) as ds:
        check_edge_values(ds, kind=np.stack([AMOUNTS, AMOUNTS], axis=1))


# --- columns that are not used


def test_unused_columns_are_named_in_one_warning(tmp_path: Path) -> None:
    path = payments(tmp_path)
    said = (
        f"{path} has columns that are not used: amount, rate; edge_attrs=['amount', 'rate'] stores "
        f"them with the edges, edge_attrs=[] says that they are not needed"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(said)}$") as caught:
        ds = gz.build(tmp_path / "d", path)
    with ds:
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert ds.sampled_by.time == "edge_time"
        assert list(ds.edge_attributes) == ["edge_time"]


def test_what_is_refused_as_weight_is_not_asked_for_again(tmp_path: Path) -> None:
    path = payments(tmp_path, "src,dst,weight,edge_weight,time")
    gz.build(tmp_path / "d", path, weight=False, timestamp=False).close()
    with pytest.warns(UserWarning, match="not used: edge_weight; edge_attrs="):
        gz.build(tmp_path / "d", path, weight="weight", timestamp=False).close()


@pytest.mark.parametrize(
    ("header", "options", "example"),
    [
        ("", {"src": 0, "dst": 1}, "{'attribute_0': 2, 'attribute_1': 3, 'attribute_2': 4}"),
        ("from,to,tx amount,rate,ts", {}, "{'attribute_0': 'tx amount', 'attribute_1': 'rate'}"),
    ],
)
def test_the_way_out_that_is_named_works(
    tmp_path: Path, header: str, options: dict[str, Any], example: str
) -> None:
    path = payments(tmp_path, header)
    with pytest.warns(UserWarning, match=re.escape(f"edge_attrs={example} stores")):
        gz.build(tmp_path / "d", path, **options).close()
    chosen = eval(example)  # the text of our own message
    with gz.build(tmp_path / "d", path, edge_attrs=chosen, **options) as ds:
        check_edge_values(ds, attribute_0=AMOUNTS, attribute_1=RATES)


# --- columns as attributes of edges


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("", {"edge_attrs": ["price"]}, "no column 'price' for edge_attrs; it has from, to, amo"),
        ("", {"edge_attrs": ["ts"], "timestamp": "ts"}, "name one column twice"),
        ("", {"edge_attrs": 2}, "must be a list of columns"),
        ("from,to,tx amount,b,c", {"edge_attrs": ["tx amount"]}, r"edge_attrs=\{'another': 'tx am"),
        ("from,to,x,b,c", {"edge_attrs": ["x"]}, "this is a name of node attributes"),
    ],
)  # fmt: skip
def test_refused_edge_attrs(
    tmp_path: Path, header: str, options: dict[str, Any], message: str
) -> None:
    path = payments(tmp_path, header or "from,to,amount,rate,ts")
    with pytest.raises(ValueError, match=message):
        gz.build(tmp_path / "d", path, **options)
    assert not (tmp_path / "d" / "dataset.json").exists()


def test_attributes_are_given_once(tmp_path: Path) -> None:
    path = payments(tmp_path)
    edges = {"edge_index": path, "rate": np.arange(6)}
    with pytest.raises(ValueError, match="'rate' would be stored twice.*edge_attrs"):
        gz.build(tmp_path / "d", edges, edge_attrs=["rate"])
    with pytest.raises(ValueError, match=r"edge_attrs= names columns of a table, and edges is an"):
        gz.build(tmp_path / "d", EDGES, edge_attrs=["rate"])
    gz.build(tmp_path / "d", EDGES, edge_attrs=[]).close()
    text = write_csv(tmp_path / "t.csv", "src,dst,note", EDGES[:, 0], EDGES[:, 1], "1bcdef")
    with pytest.raises(ValueError, match=r"t\.csv, line 3: 'b' is not a note"):
        gz.build(tmp_path / "d", text, edge_attrs=["note"])


# --- the command line


def test_the_command_has_the_same_options(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = payments(tmp_path)
    words = ["build", tmp_path / "d", "--edges", path]
    assert run(*words) == 0
    out, err = capfd.readouterr()
    assert out.splitlines()[-1] == (
        "read src=from, dst=to, timestamp=ts; ignored amount, rate; in-neighbours; directed"
    )
    assert err == ""
    assert run(*words, "--edge-attr", "amount", "--edge-attr", "rate") == 0
    assert "edge_attrs=amount,rate; in-neighbours" in capfd.readouterr().out
    with gz.open(tmp_path / "d") as ds:
        check_edge_values(ds, amount=AMOUNTS, rate=RATES)


# --- names that say nothing


def of_two(first: str, second: str) -> pa.Table:
    return pa.table({first: EDGES[:, 0], second: EDGES[:, 1]})


def bought(table: Any) -> dict[str, Any]:
    nodes = {"user": {"num_nodes": 5}, "item": {"num_nodes": 5}}
    return {"nodes": nodes, "edges": {("user", "buys", "item"): table}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": of_two("user", "item")}, "from 'user' to 'item', and ids in both .* typed"),
        ({"edges": of_two("citing", "cited"), "reverse": True}, "from 'cited' to 'citing'"),
        ({"edges": iter([of_two("cited", "citing")])}, "src='citing', dst='cited' reverses"),
        (bought(of_two("item", "user")), "'buys', .* src='user', dst='item' reverses it"),
    ],
)
def test_two_columns_that_are_taken_in_order_are_named(tmp_path: Path, options, message) -> None:
    with pytest.warns(UserWarning, match=message) as told:
        gz.build(tmp_path / "d", **options).close()
    assert [each.filename for each in told] == [__file__]


def test_two_columns_that_join_stored_edges_are_named(tmp_path: Path) -> None:
    gz.build(tmp_path, of_two("src", "dst")).close()
    with pytest.warns(UserWarning, match="from 'user' to 'item'"):
        gz.append(tmp_path, of_two("user", "item")).close()


@pytest.mark.parametrize(
    "options",
    [
        {"edges": of_two("dst", "src")},
        {"edges": of_two("node_1", "node_2")},
        {"edges": of_two("user", "item"), "src": 0, "dst": 1},
        {"edges": EDGES},
        bought(of_two("user_id", "item")),
        bought(of_two("item", "user")) | {"reverse": True},
        bought(gz.Source(of_two("who", "what"), src="who", dst="what")),
    ],
)
def test_names_that_say_the_direction_give_no_warning(tmp_path: Path, options) -> None:
    gz.build(tmp_path, **options).close()
