"""What `ids="map"` reads ids from, and what it refuses."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from id_files import same_files, table_of, write_csv

import graphzero as gz
from graphzero.ingest import id_map

pytestmark = pytest.mark.no_asan  # pure Python and pyarrow


SOURCES = ("csv", "parquet", "arrays")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("of", ["integers", "texts"])
def test_sources_give_the_same_files(tmp_path, source, of) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.integers(-50, 50, (400, 2)) * 1_000_003
    values = (
        numbers if of == "integers" else np.array([[f"Q{a}", f"Q{b}"] for a, b in numbers], object)
    )
    weights = rng.random(400).astype(np.float32)
    if source == "csv":
        lines = [f"{a},{b},{w}" for (a, b), w in zip(values.tolist(), weights, strict=True)]
        (tmp_path / "e.csv").write_text("src,dst,weight\n" + "\n".join(lines) + "\n")
        given_edges: Any = tmp_path / "e.csv"
    elif source == "parquet":
        table = pa.table(
            {"src": values[:, 0].tolist(), "dst": values[:, 1].tolist(), "weight": weights}
        )
        pa.parquet.write_table(table, tmp_path / "e.parquet")
        given_edges = tmp_path / "e.parquet"
    else:
        given_edges = {"edge_index": values.T, "edge_weight": weights}
    gz.build(tmp_path / "one", given_edges, ids="map", edge_ids=True).close()
    dense = np.searchsorted(
        np.unique(values.astype(str) if of == "texts" else values),
        values.astype(str) if of == "texts" else values,
    )
    gz.build(
        tmp_path / "two", {"edge_index": dense.T, "edge_weight": weights}, edge_ids=True
    ).close()
    same_files(tmp_path / "one", tmp_path / "two", frozenset({"id_map.gd"}))


def test_the_texts_of_integers(tmp_path) -> None:
    """Read as integers only where different texts are different integers."""
    plain = write_csv(tmp_path / "a.csv", "7,12", "-3,18446744073709551")
    with gz.build(tmp_path / "1", plain, ids="map") as ds:
        assert ds.node_ids.tolist() == [-3, 7, 12, 18446744073709551]
    zeros = write_csv(tmp_path / "b.csv", "7,12", "007,12")
    with gz.build(tmp_path / "2", zeros, ids="map") as ds:
        assert list(ds.node_ids) == ["007", "12", "7"]
    huge = write_csv(tmp_path / "c.csv", "7,18446744073709551615")
    with gz.build(tmp_path / "5", huge, ids="map") as ds:
        assert (ds.node_ids.tolist(), ds.node_ids.dtype) == ([7, (1 << 64) - 1], np.uint64)
    late = write_csv(tmp_path / "d.csv", *(f"{i},{i + 1}" for i in range(3000)), "5,x")
    with gz.build(tmp_path / "6", late, ids="map") as ds:
        texts = sorted([*map(str, range(3001)), "x"])
        assert list(ds.node_ids) == texts
        assert ds.lookup(["x", "1000"]).tolist() == [texts.index("x"), texts.index("1000")]


def test_headers_are_no_records(tmp_path) -> None:
    two = write_csv(tmp_path / "e.csv", "Q1,Q2", "Q2,Q3")
    with pytest.raises(ValueError, match="may be a header or an edge between texts.*header=False"):
        gz.build(tmp_path / "1", two, ids="map")
    with gz.build(tmp_path / "1", two, ids="map", header=False) as ds:
        assert (list(ds.node_ids), ds.num_edges) == (["Q1", "Q2", "Q3"], 2)
    named = write_csv(tmp_path / "f.csv", "Source,Target", "Q2,Q3")
    features = write_csv(tmp_path / "x.csv", "Q3,0.5,0.25", "Q2,1,2")
    labels = write_csv(tmp_path / "y.csv", "id,0", "Q2,0", "Q3,5")
    split = write_csv(tmp_path / "s.csv", "Q3")
    with gz.build(
        tmp_path / "2", named, gz.Source(features, id_column=0), labels, {"train": split}, ids="map"
    ) as ds:
        assert ds.features.gather([0, 1]).tolist() == [[1, 2], [0.5, 0.25]]
        assert ds.labels.gather([0, 1]).tolist() == [0, 5]
        assert ds.splits["train"].tolist() == [1]
    with gz.build(
        tmp_path / "3", write_csv(tmp_path / "g.csv", "a,b", "Q2,Q3"), src="a", dst="b", ids="map"
    ) as ds:
        assert list(ds.node_ids) == ["Q2", "Q3"]


REFUSED = [
    ({"edges": [["a", "b"]], "num_nodes": 4}, "num_nodes=4 is for ids='dense'"),
    (
        {"edges": [["a", "b"]], "features": np.ones((2, 3))},
        "features: its rows have no node ids.*column of node ids",
    ),
    (
        {"edges": [["a", "b"]], "splits": {"t": np.array([True, False])}},
        "split 't' is a mask.*give the ids",
    ),
    ({"edges": [["a", ""]]}, "edge 0: target id: '': an empty text is no id"),
    (
        {"edges": [["a", "b"], [" b", "a"]]},
        "edge 1: source id: ' b': the id begins or ends with a blank",
    ),
    ({"edges": [["a", "b" * 4097]]}, "more than 4096 bytes"),
    ({"edges": [["a", "é" * 2049]]}, "more than 4096 bytes"),
    ({"edges": [["a", "\ud800"]]}, "no valid Unicode"),
    ({"edges": [["a", 1.5]]}, "1.5 is neither an integer nor a text"),
    ({"edges": np.ones((3, 2))}, "dtype float64: ids must be integers or texts"),
    ({"edges": [["a", "b"]], "ids": "integer"}, "ids must be 'dense' or 'map', not 'integer'"),
    ({"edges": [[1 << 64, 2]]}, "does not fit 64 bits"),
    (
        {"edges": np.array([[-1, 5]]), "labels": "huge.parquet"},
        "edges, edge 0 has -1 and .*huge.parquet, record 1 has 9223372036854775808",
    ),
    (
        {"edges": [["a", "b"]], "labels": "huge.parquet"},
        "huge.parquet, record 0: node id: its ids have type uint64.*edges, edge 0 has the id 'a'",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_refused(tmp_path, monkeypatch, options, message) -> None:
    table_of(tmp_path / "huge.parquet", [3, 1 << 63], [1, 2])
    monkeypatch.chdir(tmp_path)
    edges = options["edges"]
    if isinstance(edges, list):
        edges = np.array(edges, object)
    with pytest.raises(ValueError, match=message):
        gz.build("d", **{"ids": "map", **options, "edges": edges})
    assert not os.path.isdir("d") or os.listdir("d") == []


def test_rows_name_the_users_id(tmp_path) -> None:
    labels = write_csv(tmp_path / "y.csv", "id,y", "a,1")
    with pytest.raises(ValueError, match="no row for 1 of 2 nodes, the first is node 'b'"):
        gz.build(tmp_path / "d", np.array([["a", "b"]]), labels=labels, ids="map")
    twice = write_csv(tmp_path / "y.csv", "id,y", "a,1", "b,2", "a,3")
    with pytest.raises(ValueError, match="line 4: node id 'a' has a row already"):
        gz.build(tmp_path / "d", np.array([["a", "b"]]), labels=twice, ids="map")


def test_a_source_that_changes_between_both_passes(tmp_path, monkeypatch) -> None:
    edges = write_csv(tmp_path / "e.csv", "1,2", "3,4")
    collect = id_map.collect_ids

    def then_change(*args: Any) -> Any:
        found = collect(*args)
        write_csv(edges, "1,2", "3,5")
        return found

    monkeypatch.setattr("graphzero.ingest.build.collect_ids", then_change)
    with pytest.raises(ValueError, match="e.csv, line 2: it has changed while it was read"):
        gz.build(tmp_path / "d", edges, ids="map")
    assert os.listdir(tmp_path / "d") == []
