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
from payment_files import (
    AMOUNTS,
    EDGES,
    ROWS,
    check_edge_values,
    payments,
    write_csv,
)
from typed_inputs import CITES, WRITES

import graphzero as gz

pytestmark = pytest.mark.no_asan

# --- Source


def test_a_source_is_a_value_with_its_options(tmp_path: Path) -> None:
    source = gz.Source(tmp_path / "e.csv", src="a", dst=1, edge_attrs=["c"], header=True)
    assert pickle.loads(pickle.dumps(source)) == source
    assert source.options() == {"src": "a", "dst": 1, "edge_attrs": ["c"], "header": True}
    with pytest.raises(AttributeError):
        source.src = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        gz.Source("e.csv", "a")  # type: ignore[misc]
    for options, message in (
        ({"header": "yes"}, "header must be"),
        ({"delimiter": "::"}, "delimiter must be"),
    ):
        with pytest.raises(ValueError, match=message):
            gz.Source("e.csv", **options)
    for value in (source, [source, source]):
        with pytest.raises(ValueError, match="not another Source"):
            gz.Source(value)


def test_sources_stand_wherever_paths_do(tmp_path: Path) -> None:
    edges = write_csv(tmp_path / "e.csv", "a;b;c".replace(";", ","), *EDGES.T, AMOUNTS)
    table = write_csv(
        tmp_path / "n.csv", "f,g,year,key,note", *ROWS[::-1].T, range(10, 15), range(4, -1, -1),
        "abcde",
    )  # fmt: skip
    (tmp_path / "of_edges.txt").write_text("".join(f"{a}|{b}|x\n" for a, b in EDGES * 2))
    split = write_csv(tmp_path / "s.csv", "n,node", [9, 9], [4, 1])
    options = {"id_column": "key"}
    with gz.build(
        tmp_path / "d",
        {
            "edge_index": gz.Source(edges, src="b", dst="a", weight="c"),
            "pair": gz.Source(
                tmp_path / "of_edges.txt", columns=[1, 0], delimiter="|", header=False
            ),
        },
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


def build_with(folder: Path, where: str, source: gz.Source) -> None:
    """A build with a source as the edges, as features, as an edge attribute or as a split."""
    if where == "edges":
        gz.build(folder, source)
    elif where == "features":
        gz.build(folder, EDGES, source)
    elif where == "edge attribute":
        gz.build(folder, {"edge_index": EDGES, "kind": source})
    else:
        gz.build(folder, EDGES, splits={"train": source})


def test_options_that_do_not_apply_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parq")
    for where, option, value in (
        ("edges", "id_column", False),
        ("edges", "columns", "a"),
        ("features", "src", 0),
        ("edge attribute", "id_column", 0),
        ("edge attribute", "weight", False),
        ("split", "id_column", 0),
        ("split", "edge_attrs", ["c"]),
    ):
        with pytest.raises(ValueError, match=f"Source has {option}=, which does not apply here"):
            build_with(tmp_path / "d", where, gz.Source(path, **{option: value}))
    for where, option, value in (
        ("edges", "edge_attrs", ["c"]),
        ("features", "id_column", 0),
        ("edge attribute", "columns", "a"),
        ("split", "header", True),
    ):
        with pytest.raises(ValueError, match=f"{option}= is for tables"):
            build_with(tmp_path / "d", where, gz.Source(np.arange(6), **{option: value}))
        with pytest.raises(ValueError, match="delimiter= are for text files, not for"):
            build_with(tmp_path / "d", where, gz.Source(tmp_path / "t.parq", delimiter=";"))
    (tmp_path / "parts").mkdir()
    pq.write_table(pa.table({"src": [0, 1], "dst": [1, 2]}), tmp_path / "parts" / "a.parquet")
    for option in ({"delimiter": ";"}, {"header": True}):
        with pytest.raises(ValueError, match=r"are for text files, not for .*a\.parquet"):
            gz.build(tmp_path / "d", gz.Source(tmp_path / "parts", **option))


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
    edges[CITES] = write_csv(tmp_path / "c.csv", "p,q,r", [2, 1], [0, 1], [5, 6])
    with pytest.raises(ValueError, match=r"cites.*the columns p, q, r.*src= and dst="):
        gz.build(tmp_path / "d", edges, nodes=nodes)


# --- node ids


@pytest.mark.parametrize("name", ["x", "y", "year"])
def test_a_node_has_one_record(tmp_path: Path, name: str) -> None:
    path = write_csv(tmp_path / "n.csv", "value,id", [5, 6, 7, 8, 9], [3, 0, 1, 3, 2])
    with pytest.raises(ValueError, match=r"n\.csv, line 5: node id 3 has a row already"):
        gz.build(tmp_path / "d", EDGES, nodes={name: path})


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
    with pytest.raises(
        ValueError, match=r"node type 'n': .*key, a, b.*id_column=0 .*id_column=Fal"
    ):
        gz.build(tmp_path / "t", **typed)


@pytest.mark.parametrize("header", ["id,a", "a,edge_id", ",a", "target,b"])
def test_tables_of_edges_have_no_ids(tmp_path: Path, header: str) -> None:
    path = write_csv(tmp_path / "a.csv", header, AMOUNTS, AMOUNTS)
    with pytest.raises(ValueError, match=r"is probably an index or ids: columns=\["):
        gz.build(tmp_path / "d", {"edge_index": EDGES, "kind": path})
    source = gz.Source(path, columns=[0, 1])
    with gz.build(tmp_path / "d", {"edge_index": EDGES, "kind": source}) as ds:
        check_edge_values(ds, kind=np.stack([AMOUNTS, AMOUNTS], axis=1))
