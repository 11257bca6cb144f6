"""`ids="map"` with every kind of source, and with the other options of a build."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
from id_files import write_csv

import graphzero as gz
from graphzero.ingest.sources.arrays import open_array
from graphzero.ingest.sources.tables import noting_inputs, open_table

pytestmark = pytest.mark.no_asan  # pure Python and pyarrow

NAMES = ["bob", "al", "Zoë", "eve.1", "dan"]
PAIRS = [("bob", "al"), ("al", "Zoë"), ("bob", "al"), ("eve.1", "eve.1"), ("dan", "bob")]
SOURCES, TARGETS = [a for a, _ in PAIRS], [b for _, b in PAIRS]
CODES = {name: (i - 2) * (1 << 61) for i, name in enumerate(NAMES)}
BY_NAME: dict[str, Any] = {"target": TARGETS, "source": SOURCES}


def edges_of(ds: Any, sources: Any = None, graph: Any = None) -> list[tuple[Any, Any]]:
    """The stored edges by the user's ids."""
    graph, targets = graph or ds.graph, ds.node_ids if sources is None else sources[1]
    sources = ds.node_ids if sources is None else sources[0]
    return sorted(
        (sources[one], targets[node])
        for node in range(graph.num_nodes)
        for one in graph.neighbors(node)
    )


def built(folder: Path, edges: Any, *rest: Any, **options: Any) -> list[tuple[Any, Any]]:
    with gz.build(folder, edges, *rest, ids="map", **options) as ds:
        return edges_of(ds)


def folder_of_gz(folder: Path) -> Path:
    parts = folder / "parts"
    parts.mkdir()
    for i, (begin, end) in enumerate([(0, 2), (2, 5)]):
        lines = "".join(f"{b},{a}\n" for a, b in PAIRS[begin:end])
        (parts / f"part-{i}.csv.gz").write_bytes(gzip.compress(f"dst,src\n{lines}".encode()))
    return parts


def batches() -> Iterator[dict[str, Any]]:
    for begin in range(0, len(PAIRS), 2):
        yield {name: np.array(ids[begin : begin + 2]) for name, ids in BY_NAME.items()}


OF_TEXTS = {
    "iterator": lambda folder: batches(),
    "reader": lambda folder: pa.table(BY_NAME).to_reader(),
    "folder of CSV.gz": folder_of_gz,
    "pandas, categories": lambda folder: pandas.DataFrame(BY_NAME).astype("category"),
    "polars, categories": lambda folder: polars.DataFrame(BY_NAME).cast(polars.Categorical),
    "Source of a function": lambda folder: gz.Source(batches, src="source", dst="target"),
    "array of texts": lambda folder: np.array(PAIRS),
    "array of objects": lambda folder: np.array(PAIRS, object),
    "list": lambda folder: PAIRS,
    "blanks": lambda folder: write_csv(
        folder / "e.txt", "head  tail", *(f"{a}\t {b}" for a, b in PAIRS)
    ),
    "Source": lambda folder: gz.Source(
        write_csv(folder / "e.csv", "a|n|b", *(f"{a}|1|{b}" for a, b in PAIRS)),
        src="a",
        dst="b",
        edge_attrs=[],
        delimiter="|",
    ),
}


@pytest.mark.parametrize("kind", OF_TEXTS)
def test_texts_of_every_source(tmp_path, kind) -> None:
    assert built(tmp_path / "d", OF_TEXTS[kind](tmp_path)) == sorted(PAIRS)


def coded() -> np.ndarray:
    return np.array([[CODES[a], CODES[b]] for a, b in PAIRS])


def test_a_partition_is_a_column_of_ids(tmp_path) -> None:
    for name in NAMES[:2]:
        (tmp_path / f"e/src={name}").mkdir(parents=True)
        table = pa.table({"dst": [name + "x", "y"]})
        pyarrow.parquet.write_table(table, tmp_path / f"e/src={name}/0.parquet")
    expected = [("al", "alx"), ("al", "y"), ("bob", "bobx"), ("bob", "y")]
    assert built(tmp_path / "d", tmp_path / "e") == expected


def rows_of(folder: Path) -> Path:
    """A table whose column of ids is not the first."""
    lines = [f"{i},{name},{i / 2}" for i, name in enumerate(NAMES)]
    return write_csv(folder / "x.csv", "a,key,b", *lines)


def test_attributes_and_splits_by_sources(tmp_path) -> None:
    x = gz.Source(rows_of(tmp_path), id_column="key")
    year = gz.Source(rows_of(tmp_path), id_column=1, columns="a")
    files = [write_csv(tmp_path / f"{i}.csv", name) for i, name in enumerate(["eve.1", "dan"])]
    splits = {
        "texts": ["eve.1", "al"],
        "files": gz.Source(files, header=False),
        "column": gz.Source(rows_of(tmp_path), columns="key"),
        "frame": pandas.DataFrame({"id": NAMES[:2]}),
    }
    with gz.build(
        tmp_path / "d", pandas.DataFrame(BY_NAME), x, splits=splits, nodes={"year": year}, ids="map"
    ) as ds:
        nodes = ds.lookup(NAMES)
        assert ds.features.gather(nodes).tolist() == [[i, i / 2] for i in range(5)]
        assert ds.attributes["year"].gather(nodes).tolist() == list(range(5))
        found = {name: list(ds.node_ids[ds.splits[name]]) for name in splits}
    assert found == {
        "texts": ["eve.1", "al"],
        "files": ["eve.1", "dan"],
        "column": NAMES,
        "frame": NAMES[:2],
    }


def test_id_column_of_the_build_says_that_there_is_a_header(tmp_path) -> None:
    table = write_csv(tmp_path / "x.csv", "0,key", *(f"{i},{name}" for i, name in enumerate(NAMES)))
    with gz.build(tmp_path / "d", PAIRS, table, id_column="key", ids="map") as ds:
        assert ds.features.gather(ds.lookup(NAMES)).ravel().tolist() == list(range(5))


def test_merging_works_on_mapped_ids(tmp_path) -> None:
    lines = [f"{a},{b},{1 << i},{i + 1}" for i, (a, b) in enumerate(PAIRS)]
    with gz.build(
        tmp_path / "d",
        write_csv(tmp_path / "e.csv", "source,target,weight,n", *lines),
        edge_attrs=["n"],
        coalesce={"edge_weight": "sum", "n": "max"},
        drop_self_loops=True,
        reverse=True,
        order="input",
        ids="map",
    ) as ds:
        assert edges_of(ds) == sorted({(b, a) for a, b in PAIRS if a != b})
        bob, al = ds.lookup(["bob", "al"])
        assert ds.graph.neighbors(bob).tolist() == [al]
        at = int(ds.graph.indptr[bob])
        assert ds.edge_attributes["n"].get_tensor()[at] == 3
        assert ds.edge_attributes["edge_weight"].get_tensor()[at] == 5


def test_a_symmetric_list_of_texts_is_stored_once(tmp_path) -> None:
    pairs = [pair for pair in PAIRS[:2] for pair in (pair, pair[::-1])]
    with pytest.warns(UserWarning, match="both directions of each"):
        assert built(tmp_path / "d", pairs, directed=False) == sorted(pairs)


def test_a_reversed_matrix_has_the_targets_as_rows(tmp_path) -> None:
    matrix = scipy.sparse.coo_array(([1, 1], ([0, 2], [1, 0])), shape=(3, 2))
    kind = ("a", "to", "b")
    with gz.build(
        tmp_path / "d", {kind: matrix}, nodes={"a": {}, "b": {}}, reverse={kind: True}
    ) as ds:
        assert (ds["a"].num_nodes, ds["b"].num_nodes) == (2, 3)
        assert ds[kind].graph.neighbors(0).tolist() == [1]


REFUSED = {
    "matrix": (lambda: scipy.sparse.eye_array(3).tocsr(), {}, "is a sparse matrix, whose ids"),
    "floats": (lambda: np.ones((3, 2)), {}, "has dtype float64: ids must be integers or texts"),
    "kinds": (
        lambda: pandas.DataFrame({"src": ["a", 1], "dst": ["b", "c"]}),
        {},
        "the source id has type null",
    ),
    "floats of a frame": (lambda: pa.table({"src": [0.5], "dst": [1]}), {}, "ids have type double"),
    "gap": (lambda: pa.table({"src": ["a", None], "dst": ["b", "c"]}), {}, "record 1: an empty"),
    "files as texts": (
        lambda: PAIRS,
        {"splits": {"t": ["a.csv", "b.csv"]}},
        r"'a.csv' is the id of no node.*give files as gz.Source\(\[...\]\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name) -> None:
    make, options, message = REFUSED[name]
    with pytest.raises((ValueError, IndexError), match=message):
        gz.build(tmp_path / "d", make(), ids="map", **options)


def test_closing_lines(tmp_path, capsys) -> None:
    built(tmp_path / "d", PAIRS, progress=True)
    assert "directed; ids (texts) taken to 0...4\n" in capsys.readouterr().err
    kind = ("a", "to", "b")
    gz.build(
        tmp_path / "t", {kind: coded()}, nodes={"a": {}, "b": {}}, ids="map", progress=True
    ).close()
    line = f"{kind}: read src=0, dst=1; in-neighbours; directed; a: ids (int64) taken to 0...3; b: "
    assert line in capsys.readouterr().err


def test_every_file_is_watched(tmp_path) -> None:
    parts = folder_of_gz(tmp_path)
    np.savez(tmp_path / "e.npz", ends=coded())
    one, two = (write_csv(tmp_path / f"{name}.csv", "1") for name in "ab")
    for value, path in (
        (parts, parts / "part-1.csv.gz"),
        (f"{parts}/*.gz", parts / "part-0.csv.gz"),
        (f"{tmp_path}/e.npz:ends", tmp_path / "e.npz"),
        (gz.Source([one, two]), two),
    ):
        with noting_inputs() as inputs:
            open_table(value) if path.suffix != ".npz" else open_array(value, "edges")
        inputs.require_unchanged()
        os.utime(path, (1, 1))
        with pytest.raises(ValueError, match=f"{path.name} has changed while the build read it"):
            inputs.require_unchanged()
