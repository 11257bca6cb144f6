"""`ids="map"`: ids of the user become node numbers, and the table leads back."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import small_memory
from hypothesis import HealthCheck, given, settings
from id_files import fresh, same_files, table_of, write_csv

import graphzero as gz
from graphzero.cli import main
from graphzero.ingest import id_map
from graphzero.store.manifest import read_manifest

pytestmark = pytest.mark.no_asan  # pure Python and pyarrow, but for one kernel with tests in C

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
UINT64 = st.integers(0, (1 << 64) - 1)
# Without surrogates and controls, and with what is near the borders of UTF-8's lengths.
TEXTS = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp"))
    | st.sampled_from("aé߿ࠀ\U00010000"),
    min_size=1,
    max_size=12,
)
SOME = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def numbers_of(ids: list[Any]) -> dict[Any, int]:
    """The twin: a dictionary of the sorted ids."""
    order = sorted(set(ids), key=lambda one: one.encode() if isinstance(one, str) else one)
    return {one: i for i, one in enumerate(order)}


def check_against_twin(tmp_path: Path, edges: list[tuple[Any, Any]], more: list[Any], **how: Any):
    """Builds with ids and with the twin's numbers, and compares all files and both directions."""
    ends = [one for edge in edges for one in edge]
    twin = numbers_of(ends + more)
    ids = list(twin)
    labels = [i * 3 for i in range(len(ids))][::-1]
    by_id = table_of(tmp_path / "y.parquet", ids[::-1], labels)
    split = ends[:1] + more[:1]
    array = (
        np.array(edges, object) if isinstance(ends[0], str) else np.array(edges, how.pop("dtype"))
    )
    with small_memory.build(
        fresh(tmp_path / "map"),
        array,
        labels=by_id,
        splits={"train": split},
        ids="map",
        **how,
    ) as ds:
        assert list(ds.node_ids) == ids
        assert ds.lookup(ids).tolist() == list(range(len(ids)))
        assert ds.lookup(split).tolist() == ds.splits["train"].tolist()
        found = ds.node_ids[np.arange(len(ids)).reshape(1, -1)]
        assert found.tolist() == [ids]
    numbers = np.array([[twin[a], twin[b]] for a, b in edges])
    with gz.build(
        fresh(tmp_path / "hand"),
        numbers,
        labels=np.array(labels[::-1]),
        splits={"train": [twin[one] for one in split]},
    ):
        pass
    same_files(tmp_path / "map", tmp_path / "hand", frozenset({"id_map.gd"}))


@SOME
@given(st.lists(st.tuples(INT64, INT64), min_size=1, max_size=60), st.lists(INT64, max_size=5))
def test_integers_as_a_dictionary(tmp_path, edges, more):
    check_against_twin(tmp_path, edges, more, dtype=np.int64)


@SOME
@given(st.lists(st.tuples(UINT64, UINT64), min_size=1, max_size=60), st.lists(UINT64, max_size=5))
def test_unsigned_integers_as_a_dictionary(tmp_path, edges, more):
    check_against_twin(tmp_path, edges, more, dtype=np.uint64)


@SOME
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=60), st.lists(TEXTS, max_size=5))
def test_texts_as_a_dictionary(tmp_path, edges, more):
    texts = [text.strip() for edge in [*edges, more] for text in edge]
    if not all(texts) or texts != [text for edge in [*edges, more] for text in edge]:
        return
    plain = [text for text in texts if text.isascii() and text.removeprefix("-").isdigit()]
    if len(plain) < len(texts):  # else all of them may be integers
        check_against_twin(tmp_path, edges, more)


@pytest.mark.parametrize("huge", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_integers_that_are_sorted_on_the_disk(tmp_path, monkeypatch, seed, huge) -> None:
    rng = np.random.default_rng(seed)
    low, high = (0, 1 << 64) if huge else (-(1 << 63), 1 << 63)
    pool = rng.integers(low, high, 40_000, np.uint64 if huge else np.int64)
    spills = []
    spill = id_map._Distinct._spill
    monkeypatch.setattr(id_map._Distinct, "_spill", lambda self: (spills.append(1), spill(self)))
    edges = pool[rng.integers(0, len(pool), (60_000, 2))]
    with small_memory.build(tmp_path, edges, ids="map", order="input") as ds:
        np.testing.assert_array_equal(ds.node_ids, np.unique(edges))
        assert ds.node_ids.dtype == edges.dtype
        np.testing.assert_array_equal(ds.lookup(edges), np.searchsorted(np.unique(edges), edges))
    assert len(spills) > 3


@pytest.mark.parametrize("long", [1, 300])
def test_texts_that_are_sorted_on_the_disk(tmp_path, monkeypatch, long) -> None:
    rng = np.random.default_rng(long)
    texts = [f"http://x/{'é' * (i % long)}{i:x}" for i in rng.integers(0, 1 << 40, 12_000).tolist()]
    spills = []
    spill = id_map._Distinct._spill
    monkeypatch.setattr(id_map._Distinct, "_spill", lambda self: (spills.append(1), spill(self)))
    edges = np.array(texts, object)[rng.integers(0, len(texts), (20_000, 2))]
    pa.parquet.write_table(
        pa.table({"src": edges[:, 0].tolist(), "dst": edges[:, 1].tolist()}), tmp_path / "e.parquet"
    )
    with small_memory.build(tmp_path / "d", tmp_path / "e.parquet", ids="map") as ds:
        twin = numbers_of(edges.ravel().tolist())
        assert list(ds.node_ids) == list(twin)
        assert ds.lookup(edges[:500]).tolist() == [[twin[a], twin[b]] for a, b in edges[:500]]
    assert len(spills) > 3


def test_unknown_ids(tmp_path) -> None:
    edges = np.array([[5, 70], [-9, 5]])
    with pytest.raises(IndexError, match="split 'train', position 1: 6 is the id of no node"):
        gz.build(tmp_path, edges, splits={"train": [5, 6]}, ids="map")
    with gz.build(tmp_path, edges, ids="map") as ds:
        assert (ds.lookup(70), type(ds.lookup(70))) == (2, int)
        assert ds.lookup([[5], [6]], missing=-1).tolist() == [[1], [-1]]
        assert ds.lookup([(1 << 64) + 5, -9, 1 << 63], missing=-1).tolist() == [-1, 0, -1]
        assert ds.lookup(np.array([(1 << 64) - 9, 5], np.uint64), missing=-2).tolist() == [-2, 1]
        assert ds.lookup([]).tolist() == []
        with pytest.raises(KeyError, match=r"6 is the id of no node of the dataset \(1 of 2"):
            ds.lookup([5, 6])
        with pytest.raises(ValueError, match="'5' is no id of the dataset: its ids are integers"):
            ds.lookup("5")
        assert not ds.node_ids.flags.writeable
    with gz.build(tmp_path, np.array([["a", "b"]]), ids="map") as ds:
        assert (ds.lookup("b"), ds.node_ids[-1], ds.node_ids[:1].tolist()) == (1, "b", ["a"])
        assert ds.lookup(["c", "a", "", "\ud800"], missing=-1).tolist() == [-1, 0, -1, -1]
        with pytest.raises(KeyError, match="'c' is the id of no node"):
            ds.lookup("c")
        with pytest.raises(ValueError, match="5 is no id of the dataset: its ids are texts"):
            ds.lookup(5)
        for index in (2, [0, 2], -3):
            with pytest.raises(IndexError):
                ds.node_ids[index]
    with gz.build(tmp_path, [[0, 1]]) as ds:
        assert ds.node_ids is None
        with pytest.raises(ValueError, match="no table of ids: it was built without ids='map'"):
            ds.lookup(0)
    assert "id_map.gd" not in os.listdir(tmp_path)


def test_reorder_keeps_the_table(tmp_path) -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(-(1 << 62), 1 << 62, 30)[rng.integers(0, 30, (200, 2))]
    with gz.build(tmp_path, edges, ids="map") as ds:
        before = ds.node_ids.tolist()
    table = (tmp_path / "id_map.gd").read_bytes()
    with gz.reorder(tmp_path, "input") as ds:
        assert ds.node_ids.tolist() == before
        again = pickle.loads(pickle.dumps(ds))
        assert again.lookup(before).tolist() == list(range(len(before)))
        again.close()
    assert (tmp_path / "id_map.gd").read_bytes() == table


def test_typed_graphs_have_a_table_a_type(tmp_path) -> None:
    papers = table_of(tmp_path / "y.parquet", [10**12, 5, -7], [1, 2, 3])
    writes = np.array([["Ann", 5], ["Bob", 10**12], ["Ann", 10**12]], object)
    pa.parquet.write_table(
        pa.table({"src": writes[:, 0].tolist(), "dst": writes[:, 1].tolist()}),
        tmp_path / "w.parquet",
    )
    nodes = {"author": {}, "paper": {"y": papers}}
    cites = np.array([[5], [-7]])
    with gz.build(
        tmp_path / "d",
        nodes=nodes,
        edges={
            ("author", "writes", "paper"): tmp_path / "w.parquet",
            ("paper", "cites", "paper"): cites,
        },
        splits={"train": {"paper": [5]}},
        ids="map",
    ) as ds:
        assert list(ds["author"].node_ids) == ["Ann", "Bob"]
        assert ds["paper"].node_ids.tolist() == [-7, 5, 10**12]
        assert ds["paper"].lookup([5]).tolist() == ds["paper"].splits["train"].tolist() == [1]
        with pytest.raises(AttributeError, match=r"no 'lookup' as a whole: use ds\['author'\]"):
            ds.lookup([5])
        with pytest.raises(AttributeError, match="no 'node_ids' as a whole"):
            ds.node_ids  # noqa: B018
        with pytest.raises(KeyError, match="'Cy' is the id of no node of node type 'author'"):
            ds["author"].lookup("Cy")
    with gz.build(
        tmp_path / "h",
        nodes={"author": {}, "paper": {"y": [3, 2, 1]}},
        edges={
            ("author", "writes", "paper"): np.array([[0, 1, 0], [1, 2, 2]]),
            ("paper", "cites", "paper"): np.array([[1], [0]]),
        },
        splits={"train": {"paper": [1]}},
    ):
        pass
    same_files(tmp_path / "d", tmp_path / "h", frozenset({"author.id_map.gd", "paper.id_map.gd"}))
    with gz.reorder(tmp_path / "d", "input") as ds:
        assert list(ds["author"].node_ids) == ["Ann", "Bob"]
    with pytest.raises(ValueError, match="node type 'paper': num_nodes=3 is for ids='dense'"):
        gz.build(
            tmp_path / "d",
            nodes={"paper": {"num_nodes": 3}},
            edges={("paper", "c", "paper"): cites},
            ids="map",
        )


def test_a_damaged_table(tmp_path) -> None:
    gz.build(tmp_path, np.array([["aa", "b"], ["cc", "d"]]), ids="map").close()
    file = tmp_path / read_manifest(tmp_path).nodes[""].id_map.name
    whole = file.read_bytes()
    damaged = bytearray(whole)
    damaged[4096:4104] = b"\xff" * 8  # the end of the first text
    file.write_bytes(damaged)
    with gz.open(tmp_path) as ds:
        with pytest.raises(gz.FormatError, match="is corrupt: run graphzero verify"):
            ds.lookup(["aa"])
        with pytest.raises(gz.FormatError, match="is corrupt: run graphzero verify"):
            ds.node_ids[0]
    assert main(["verify", str(tmp_path)]) == 1
    gz.build(tmp_path / "other", np.array([[7, 8]]), ids="map").close()
    shutil.copy(tmp_path / "other" / "id_map.gd", file)
    with pytest.raises(gz.FormatError, match="has the ids of 2 nodes for 4"):
        gz.open(tmp_path)


def test_commands(tmp_path, capsys) -> None:
    edges = write_csv(tmp_path / "e.csv", "src,dst", "Q1,Q2", "Q2,Q7")
    assert main(["build", str(tmp_path / "d"), "--edges", str(edges), "--ids", "map"]) == 0
    assert "in-neighbours" in (line := capsys.readouterr().out)
    assert "ids (texts) taken to 0...2" in line
    assert main(["info", str(tmp_path / "d")]) == 0
    assert "  ids       ids (texts) taken to 0...2\n" in capsys.readouterr().out
    assert main(["info", str(tmp_path / "d"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["node_ids"] == {"kind": "texts", "count": 3}
    assert main(["verify", str(tmp_path / "d")]) == 0
    assert "id_map.gd: intact" in capsys.readouterr().out
    assert main(["info", str(tmp_path / "d" / "id_map.gd")]) == 0
    many = {("a", "to", "b"): np.array([[5], [7]])}
    gz.build(tmp_path / "t", nodes={"a": {}, "b": {}}, edges=many, ids="map").close()
    capsys.readouterr()
    assert main(["info", str(tmp_path / "t")]) == 0
    assert capsys.readouterr().out.count("ids (int64) taken to 0...0") == 2
