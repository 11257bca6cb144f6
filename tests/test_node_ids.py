"""`ids="map"`: ids of the user become node numbers, and the table leads back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import files
import hypothesis.strategies as st
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
import small_memory
from hypothesis import HealthCheck, assume, given, settings
from id_files import fresh, table_of, write_csv

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
    max_examples=100,
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
        {"edge_index": array.T},
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
        {"edge_index": numbers.T},
        labels=np.array(labels[::-1]),
        splits={"train": [twin[one] for one in split]},
    ):
        pass
    with_ids = files.contents(tmp_path / "map")
    assert with_ids.pop("id_map.gd")
    assert with_ids == files.contents(tmp_path / "hand")


def drawn_ids(ids: Any) -> Any:
    return st.tuples(
        st.lists(st.tuples(ids, ids), min_size=1, max_size=60), st.lists(ids, max_size=5)
    )


@SOME
@given(drawn_ids(INT64) | drawn_ids(UINT64) | drawn_ids(TEXTS))
def test_ids_as_a_dictionary(tmp_path, drawn):
    edges, more = drawn
    ids = [one for edge in [*edges, more] for one in edge]
    if isinstance(ids[0], str):
        assume(all(text == text.strip() for text in ids))
        # Else all of them may be integers.
        assume(not all(text.isascii() and text.removeprefix("-").isdigit() for text in ids))
        check_against_twin(tmp_path, edges, more)
    else:
        dtype = np.int64 if max(ids) < 1 << 63 else np.uint64
        check_against_twin(tmp_path, edges, more, dtype=dtype)


POOLS = {
    "int64": lambda rng: rng.integers(-(1 << 63), 1 << 63, 40_000),
    "texts": lambda rng: np.array(
        [f"http://x/{'é' * (i % 300)}{i:x}" for i in rng.integers(0, 1 << 40, 12_000).tolist()],
        object,
    ),
}


@pytest.mark.parametrize("kind", POOLS)
def test_ids_that_are_sorted_on_the_disk(tmp_path, monkeypatch, kind) -> None:
    rng = np.random.default_rng(0)
    pool, spills, spill = POOLS[kind](rng), [], id_map._Distinct._spill
    monkeypatch.setattr(id_map._Distinct, "_spill", lambda self: (spills.append(1), spill(self)))
    edges = pool[rng.integers(0, len(pool), (len(pool) * 3 // 2, 2))]
    pa.parquet.write_table(
        pa.table({"src": edges[:, 0], "dst": edges[:, 1]}), tmp_path / "e.parquet"
    )
    with small_memory.build(tmp_path / "d", tmp_path / "e.parquet", ids="map", order="input") as ds:
        twin = numbers_of(edges.ravel().tolist())
        assert list(ds.node_ids) == list(twin)
        assert ds.lookup(edges[:500]).tolist() == [
            [twin[a], twin[b]] for a, b in edges[:500].tolist()
        ]
    assert len(spills) > 3


def test_unknown_ids(tmp_path) -> None:
    edges = np.array([[5, 70], [-9, 5], [5, -9]])
    with pytest.raises(IndexError, match="split 'train', position 1: 6 is the id of no node"):
        gz.build(tmp_path, edges, splits={"train": [5, 6]}, ids="map")
    with gz.build(tmp_path, edges, ids="map") as ds:
        assert ds.lookup([[5], [6]], missing=-1).tolist() == [[1], [-1]]
        assert ds.lookup([1 << 64, 5, -(1 << 63) - 1], missing=-1).tolist() == [-1, 1, -1]
        assert ds.lookup(np.array([(1 << 64) - 9, 5], np.uint64), missing=-2).tolist() == [-2, 1]
        with pytest.raises(KeyError, match=r"6 is the id of no node of the dataset \(1 of 2"):
            ds.lookup([5, 6])
        assert not ds.node_ids.flags.writeable
    with gz.build(tmp_path, np.array([["a", "b"]]), ids="map") as ds:
        assert (ds.lookup("b"), ds.node_ids[-1], ds.node_ids[:1].tolist()) == (1, "b", ["a"])
        assert ds.lookup(["c", "a", "", "\ud800"], missing=-1).tolist() == [-1, 0, -1, -1]
        with pytest.raises(ValueError, match="5 is no id of the dataset: its ids are texts"):
            ds.lookup(5)
        for index in (2, [0, 2], -3):
            with pytest.raises(IndexError):
                ds.node_ids[index]
    with gz.build(tmp_path, [[0, 1]]) as ds:
        assert ds.node_ids is None
        with pytest.raises(ValueError, match="no table of ids: it was built without ids='map'"):
            ds.lookup(0)


def test_typed_graphs_have_a_table_a_type(tmp_path) -> None:
    papers = table_of(tmp_path / "y.parquet", [10**12, 5, -7], [1, 2, 3])
    writes = np.array([["Ann", 5], ["Bob", 10**12], ["Ann", 10**12]], object)
    pa.parquet.write_table(
        pa.table({"src": writes[:, 0].tolist(), "dst": writes[:, 1].tolist()}),
        tmp_path / "w.parquet",
    )
    nodes = {"author": {}, "paper": {"y": papers}}
    edges = {
        ("author", "to", "paper"): tmp_path / "w.parquet",
        ("paper", "c", "paper"): [[5], [-7]],
    }
    splits = {"train": {"paper": [5]}}
    with gz.build(tmp_path / "d", edges, nodes=nodes, splits=splits, ids="map") as ds:
        assert list(ds["author"].node_ids) == ["Ann", "Bob"]
        assert ds["paper"].node_ids.tolist() == [-7, 5, 10**12]
        assert ds["paper"].lookup([5]).tolist() == ds["paper"].splits["train"].tolist() == [1]
        with pytest.raises(AttributeError, match="each type has its own: there are 'author'"):
            ds.lookup([5])
        with pytest.raises(KeyError, match="'Cy' is the id of no node of node type 'author'"):
            ds["author"].lookup("Cy")
    with gz.reorder(tmp_path / "d", "input") as ds:
        assert list(ds["author"].node_ids) == ["Ann", "Bob"]


def test_a_damaged_table(tmp_path) -> None:
    gz.build(tmp_path, np.array([["aa", "b"], ["cc", "d"], ["d", "b"]]), ids="map").close()
    file = tmp_path / read_manifest(tmp_path).nodes[""].id_map.name
    files.damage(file, "rows", 0, 2**64 - 1)  # the end of the first text
    with gz.open(tmp_path) as ds:
        with pytest.raises(gz.FormatError, match="is corrupt: run graphzero verify"):
            ds.lookup(["aa"])
        with pytest.raises(gz.FormatError, match="is corrupt: run graphzero verify"):
            ds.node_ids[0]
    assert main(["verify", str(tmp_path)]) == 1
    gz.build(tmp_path / "other", np.array([[7, 8]]), ids="map").close()
    shutil.copy(tmp_path / "other" / "id_map.gd", file)
    files.forget_checksums(tmp_path)
    with pytest.raises(gz.FormatError, match="has 2 rows of id_map, and the graph 4 nodes"):
        gz.open(tmp_path)


def test_commands(tmp_path, capsys) -> None:
    edges = write_csv(tmp_path / "e.csv", "src,dst", "Q1,Q2", "Q2,Q7")
    assert main(["build", str(tmp_path / "d"), "--edges", str(edges), "--ids", "map"]) == 0
    assert "in-neighbours" in (line := capsys.readouterr().out)
    assert "ids (texts) taken to 0...2" in line
    assert main(["info", str(tmp_path / "d")]) == 0
    assert "node_ids: kind=texts, count=3\n" in capsys.readouterr().out
    many: dict[Any, Any] = {("a", "to", "b"): np.array([[5], [7]])}
    gz.build(tmp_path / "t", many, nodes={"a": {}, "b": {}}, ids="map", progress=True).close()
    assert "directed; a: ids (int64) taken to 0...0; b: ids" in capsys.readouterr().err
    assert main(["info", str(tmp_path / "t")]) == 0
    assert capsys.readouterr().out.count("kind=int64, count=1") == 2


# --- what ids are read from, and what is refused


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
    labels = write_csv(tmp_path / "y.csv", "id,0", "Q2,0", "Q3,5")
    split = write_csv(tmp_path / "s.csv", "Q3")
    with gz.build(tmp_path / "2", named, labels=labels, splits={"train": split}, ids="map") as ds:
        assert ds.labels.gather([0, 1]).tolist() == [0, 5]
        assert ds.splits["train"].tolist() == [1]
    with gz.build(
        tmp_path / "3", write_csv(tmp_path / "g.csv", "a,b", "Q2,Q3"), src="a", dst="b", ids="map"
    ) as ds:
        assert list(ds.node_ids) == ["Q2", "Q3"]


WRONG = [
    ({"edges": [["a", "b"]], "num_nodes": 4}, "num_nodes=4 is for ids='dense'"),
    ({"edges": [["a", "b"]], "features": np.ones((2, 3))}, "features: its rows have no node ids"),
    ({"edges": [["a", "b"]], "splits": {"t": np.ones(2, bool)}}, "'t' must be a list: .*give the"),
    ({"edges": [["a", ""]]}, "edge 0: target id: '': an empty text is no id"),
    ({"edges": [["a", "b"], [" b", "a"], ["a", "a"]]}, "edge 1: source id: ' b': .* with a blank"),
    ({"edges": [["a", "\ud800"]]}, "texts, all of one kind: .*surrogates not allowed"),
    ({"edges": [["a", 1.5]]}, "edge 0: target id: ids have type float64"),
    ({"edges": np.ones((3, 2))}, "dtype float64: ids must be integers or texts"),
    ({"edges": scipy.sparse.eye_array(3).tocsr()}, "is a sparse matrix, whose ids"),
    ({"edges": pandas.DataFrame({"src": ["a", 1], "dst": [1, 2]})}, "source id has type null"),
    ({"edges": [["a", "b"]], "ids": "integer"}, "ids must be 'dense' or 'map', not 'integer'"),
    ({"edges": [[1 << 63, 2], [1.5, 3], [4, 5]]}, "integers of 64 bits nor texts"),
    ({"edges": [["a", None]]}, "edge 0: target id: there is no id"),
    ({"edges": np.array([[-1, 5]]), "labels": "huge.parquet"}, "h.*t, record 1: .*: negative ids"),
    ({"edges": [["a", "b"]], "labels": "huge.parquet"}, "h.*t, record 0: .*edge 0 has the id 'a'"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_input(tmp_path, monkeypatch, options, message) -> None:
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
        gz.build(tmp_path / "d", np.array([["a", "b"]]), nodes={"kind": labels}, ids="map")
    twice = write_csv(tmp_path / "y.csv", "id,y", "a,1", "b,2", "a,3")
    with pytest.raises(ValueError, match="line 4: node id 'a' has a row already"):
        gz.build(tmp_path / "d", np.array([["a", "b"]]), labels=twice, ids="map")


# --- every kind of source, and the other options of a build


NAMES = ["bob", "al", "Zoë", "eve.1", "dan"]
PAIRS = [("bob", "al"), ("al", "Zoë"), ("bob", "al"), ("eve.1", "eve.1"), ("dan", "bob")]


def test_iterators_have_ids_that_are_read_twice(tmp_path) -> None:
    """Other sources are recorded: tests/recorded_sources.py."""
    halves = (dict(zip(("src", "dst"), np.array(PAIRS[i:][:3]).T, strict=True)) for i in (0, 3))
    with gz.build(tmp_path, halves, ids="map") as ds:
        names = list(ds.node_ids)
        edges = [(names[b], a) for a in names for b in ds.graph.neighbors(ds.lookup(a))]
        assert sorted(edges) == sorted(PAIRS)


def rows_of(folder: Path) -> Path:
    """A table whose column of ids is not the first."""
    lines = [f"{i},{name},{i / 2}" for i, name in enumerate(NAMES)]
    return write_csv(folder / "x.csv", "a,key,b", *lines)


def test_attributes_and_splits_by_sources(tmp_path) -> None:
    x = gz.Source(rows_of(tmp_path), id_column="key")
    files = [write_csv(tmp_path / f"{i}.csv", name) for i, name in enumerate(["eve.1", "dan"])]
    expected = {"texts": ["eve.1", "al"], "files": ["eve.1", "dan"], "column": NAMES}
    splits = {
        "texts": ["eve.1", "al"],
        "files": gz.Source(files, header=False),
        "column": gz.Source(rows_of(tmp_path), columns="key"),
    }
    with gz.build(tmp_path / "d", np.array(PAIRS), x, splits=splits, ids="map") as ds:
        nodes = ds.lookup(NAMES)
        assert ds.features.gather(nodes).tolist() == [[i, i / 2] for i in range(5)]
        assert {name: list(ds.node_ids[ds.splits[name]]) for name in splits} == expected


def test_id_column_of_the_build_says_that_there_is_a_header(tmp_path) -> None:
    table = write_csv(tmp_path / "x.csv", "0,key", *(f"{i},{name}" for i, name in enumerate(NAMES)))
    with gz.build(tmp_path / "d", PAIRS, table, id_column="key", ids="map") as ds:
        assert ds.features.gather(ds.lookup(NAMES)).ravel().tolist() == list(range(5))


def test_a_reversed_matrix_has_the_targets_as_rows(tmp_path) -> None:
    matrix = scipy.sparse.coo_array(([1, 1], ([0, 2], [1, 0])), shape=(3, 2))
    kind = ("a", "to", "b")
    with gz.build(
        tmp_path / "d", {kind: matrix}, nodes={"a": {}, "b": {}}, reverse={kind: True}
    ) as ds:
        assert (ds["a"].num_nodes, ds["b"].num_nodes) == (2, 3)
        assert ds[kind].graph.neighbors(0).tolist() == [1]


# --- ids that would make files which are empty for the most part

LIMIT = 1 << 22


@pytest.mark.parametrize(
    ("count", "ends", "refused"),
    [
        (LIMIT, 2, False),
        (LIMIT + 1, 2, True),
        (LIMIT + 16, LIMIT // 16, True),
        (LIMIT + 16, LIMIT // 16 + 2, False),
    ],
)
def test_both_sides_of_the_rule(tmp_path, count, ends, refused) -> None:
    edges = np.zeros((ends // 2, 2), np.int64)
    edges[-1] = count - 1, 0
    if not refused:
        with gz.build(tmp_path, edges, order="input") as ds:
            assert ds.num_nodes == count
        return
    with pytest.raises(ValueError, match=f"too sparse.*ids='map'.* num_nodes={count} says that"):
        gz.build(tmp_path, edges)
    assert os.listdir(tmp_path) == []
    with gz.build(tmp_path, edges, num_nodes=count, order="input") as ds:
        assert ds.num_nodes == count


def test_what_names_nodes_counts(tmp_path) -> None:
    features = np.zeros(LIMIT + 2, np.int8)
    with gz.build(tmp_path, [[0, LIMIT + 1]], features, order="input") as ds:
        assert ds.num_nodes == LIMIT + 2
    ids = [*range(LIMIT // 16), LIMIT + 1]
    rows = write_csv(tmp_path / "x.csv", "id,v", *(f"{i},1" for i in ids))
    with (
        pytest.warns(UserWarning, match="they get zeros"),
        gz.build(tmp_path / "d", [[0, 1]], features=rows, order="input") as ds,
    ):
        assert ds.num_nodes == LIMIT + 2
    few = table_of(tmp_path / "y.parquet", [5, LIMIT + 1], [1, 2])
    with pytest.raises(ValueError, match=r"too sparse: .*y\.parquet, is 4,194,305"):
        gz.build(tmp_path / "d", [[0, 1]], features=few)


def test_a_type_of_too_sparse_ids_is_named(tmp_path) -> None:
    edges = {("a", "to", "b"): np.array([[0], [LIMIT + 5]])}
    with pytest.raises(
        ValueError, match=r"node type 'b': .*in the edges of type .*'num_nodes': 4194310"
    ):
        gz.build(tmp_path, nodes={"a": {}, "b": {}}, edges=edges)
