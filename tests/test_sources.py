"""Tables of every kind: they give the files that plain arrays give, or are refused by name.

The bytes of builds from all common sources are recorded; see `recorded_sources.py`. Here are those
of which the recording has none.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import compressed
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from files import contents, read_file

import graphzero as gz
from graphzero.ingest import build_dataset
from graphzero.ingest.sources.tables import table_files

# Python and pyarrow only.
pytestmark = pytest.mark.no_asan

NODES, EDGES = 40, 300
rng = np.random.default_rng(3)
SRC, DST = rng.integers(0, NODES, (2, EDGES))
WEIGHT = rng.integers(0, 64, EDGES).astype(np.float32) / 8
TIME = rng.integers(-50, 50, EDGES)
IDS = rng.permutation(NODES)
X = rng.integers(-99, 99, (NODES, 4)).astype(np.float32) / 4
Y = rng.integers(0, 5, NODES)

Table = dict[str, Any]
# In another order than they are used in, so that names count.
EDGE_COLUMNS: Table = {"dst": DST, "weight": WEIGHT, "src": SRC, "timestamp": TIME}
X_COLUMNS: Table = {"id": IDS, **{f"f{i}": X[IDS, i] for i in range(4)}}
Y_COLUMNS: Table = {"id": IDS, "label": Y[IDS]}
TABLES = {"edges": EDGE_COLUMNS, "features": X_COLUMNS, "labels": Y_COLUMNS}


def remote(folder: Path) -> list[Any]:
    """By pyarrow's file systems, and by fsspec's; one file has its columns in another order."""
    fsspec = pytest.importorskip("fsspec")
    edges = pa.table(EDGE_COLUMNS)
    pq.write_table(edges.slice(0, 90), folder / "part-2.parquet", row_group_size=7)
    rest = edges.slice(90).select(edges.column_names[::-1])
    pq.write_table(rest, folder / "part-10.parquet")
    with fsspec.open("memory://graph/labels.csv.gz", "wb") as file:
        rows = "".join(f"{i},{y}\n" for i, y in enumerate(Y))
        file.write(compressed.COMPRESS[".gz"](f"id,label\n{rows}".encode()))
    return [f"file://{folder}", X, "memory://graph/labels.csv.gz"]


class Relation:
    """What a library without types known here has, such as a relation of DuckDB."""

    def __init__(self, columns: Table) -> None:
        self.columns, self._table = list(columns), pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def pandas(columns: Table) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def pandas_of_arrow(columns: Table) -> Any:
    pd = pytest.importorskip("pandas")
    return pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)


def pandas_lists(_: Path) -> list[Any]:
    """Columns of lists, a series, and filtered edges, whose index says nothing of them."""
    doubled = {name: np.repeat(values, 2) for name, values in EDGE_COLUMNS.items()}
    return [pandas(doubled)[::2], pandas({"id": IDS, "x": list(X[IDS])}), pandas({"y": Y})["y"]]


def polars_lists(_: Path) -> list[Any]:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"id": IDS, "x": X[IDS]})
    return [pl.DataFrame(EDGE_COLUMNS), frame, pl.Series("label", Y)]


def tensors(_: Path) -> list[Any]:
    """A column of tensors, as pyarrow and Ray Data have them."""
    rows = pa.FixedShapeTensorArray.from_numpy_ndarray(X[IDS])
    return [pa.table(EDGE_COLUMNS), pa.table({"id": IDS, "x": rows}), pa.table({"label": Y})]


def each(frame: Callable[[Table], Any]) -> Callable[[Path], list[Any]]:
    return lambda folder: [frame(columns) for columns in TABLES.values()]


SOURCES: dict[str, Callable[[Path], list[Any]]] = {
    "remote": remote,
    "relation": each(Relation),
    "pandas of arrow": each(pandas_of_arrow),
    "pandas lists": pandas_lists,
    "polars lists": polars_lists,
    "tensors": tensors,
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_gives_the_files_of_plain_arrays(tmp_path: Path, source: str) -> None:
    edges = {"edge_index": np.stack([SRC, DST]), "edge_weight": WEIGHT, "edge_time": TIME}
    build_dataset(tmp_path / "arrays", edges, X, Y)
    (tmp_path / "inputs").mkdir()
    build_dataset(tmp_path / "d", *SOURCES[source](tmp_path / "inputs"))
    assert contents(tmp_path / "d") == contents(tmp_path / "arrays")


def test_streams_are_spooled_where_they_are_needed_twice(tmp_path: Path) -> None:
    table = pa.table({"src": SRC, "dst": DST, "amount": np.arange(EDGES)})
    x = pa.table(dict(X_COLUMNS))

    def reader(table: pa.Table) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))

    def chunks() -> Iterator[dict[str, Any]]:
        for batch in table.to_batches(max_chunksize=70):
            yield {name: batch.column(name).to_numpy() for name in batch.schema.names}

    found = []
    for edges, features in ((table, x), (reader(table), reader(x)), (chunks(), reader(x))):
        build_dataset(tmp_path / "d", edges, features, edge_attrs=["amount"])
        found.append(contents(tmp_path / "d"))
    assert found[0] == found[1] == found[2]


# --- tables that cannot be read: what is wrong, in which file and where in it

PAIRS = np.array([[0, 1], [1, 2], [2, 0], [3, 1]])


def edge_table(edges: Any = PAIRS, **more: Any) -> pa.Table:
    edges = np.asarray(edges)
    return pa.table({"src": edges[:, 0], "dst": edges[:, 1], **more})


def write(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            compressed.write(path, content.encode())


TEXT = "src,dst\n0,1\n1,2\n"
TWO_OF_A_NAME = pa.table([[0], [1], [2]], names=["src", "dst", "src"])
FOLDERS: list[tuple[dict[str, Any], str]] = [
    ({"a.csv": TEXT, "b.csv": "0,1\n"}, "a.csv has .* src, dst, but .*b.csv has 2 columns"),
    ({"a.csv": TEXT, "b/c.csv.gz": "dst,src\n0,-4\n"}, r"b/c.csv.gz, line 2: '-4' is not a source"),
    ({"a.csv": TEXT, "b.txt": "0 1\n"}, "b.txt and .*a.csv are files of several kinds"),
    ({"a.parquet": edge_table(), "_delta_log/0.json": "{}"}, "is a Delta table"),
    ({"a.parquet": edge_table(), ".hoodie/x": "{}"}, "is a Hudi table"),
    ({"a.parquet": edge_table(), "_temporary/x.parquet": "{}"}, "has not finished"),
    ({"a.parquet": edge_table(), "b.parquet": edge_table([[0, 7]])}, "b.parquet, record 0: .* 7"),
    ({"a.parquet": edge_table(), "b.parquet": "PAR1"}, "d/b.parquet is not a complete Parquet"),
    ({"a.parquet": pa.table({"src": [[0]], "dst": [1]})}, "source id has type list<.*>, not a num"),
    ({"a.parquet": pa.table({"src": [True], "dst": [1]})}, "source id has type bool"),
    ({"a.parquet": edge_table([[0, 1], [1, 1 << 32]])}, "record 1: 4294967296 is not a target id"),
    ({"a.parquet": pa.table({})}, "has no columns"),
    ({"a.parquet": edge_table(time=[datetime.time(12, 30)] * 4)}, "not a number type: cast"),
    ({"a.parquet": edge_table(time=["1"] * 4)}, "string, not a number type: cast it first"),
    ({"a.parquet": pa.table({"src": [0], "dst": ["1"]})}, "the target id has type string"),
    ({"a.parquet": edge_table(), "b.parquet": TWO_OF_A_NAME}, "the columns src, dst, src"),
    ({"y=1/a.parquet": edge_table(), "z=2/b.parquet": edge_table()}, "dst, y, but .* src, dst, z"),
    ({"y=1/a.csv": "0,1\n"}, "d/y=1/a.csv has no header, and its columns no names beside y"),
    ({"a.mtx": "0 1\n"}, "a.mtx: the name does not end in .csv"),
]


@pytest.mark.parametrize(("files", "message"), FOLDERS, ids=str)
def test_folders(tmp_path: Path, refused: Any, files: dict[str, Any], message: str) -> None:
    write(tmp_path / "d", files)
    refused(message, tmp_path / "d", num_nodes=4)


def test_lists_patterns_and_folders_without_files(tmp_path: Path, refused: Any) -> None:
    write(tmp_path, {"a.csv": TEXT, "b.csv": TEXT})
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").touch()
    for none in (tmp_path / "empty", str(tmp_path / "c*.csv"), f"file://{tmp_path}/empty"):
        refused("There is no file of records", none, kind=FileNotFoundError)
    refused(r"c\.csv", [tmp_path / "a.csv", tmp_path / "c.csv"], kind=FileNotFoundError)
    (tmp_path / "link.csv").symlink_to("a.csv")
    for again in ("link.csv", "."):
        refused("in the list of files twice", [tmp_path / "a.csv", tmp_path / again])
    refused("no column 'from' for src; it has src, dst", tmp_path, src="from")


def test_files_come_in_natural_order(tmp_path: Path) -> None:
    names = ["part-1.csv", "part-2.csv", "part-10.csv", "x/part-3.csv", "x9/a.csv", "x10/a.csv"]
    write(tmp_path, dict.fromkeys(reversed(names), TEXT))
    write(
        tmp_path,
        {"_SUCCESS": "", ".a.csv.crc": "", ".hidden.csv": "", ".x/a.csv": "", "_metadata": ""},
    )
    found = [path.relative_to(tmp_path).as_posix() for path in table_files(tmp_path)]
    assert found == names
    found = [path.name for path in table_files(str(tmp_path / "part-*.csv"))]
    assert found == names[:3]
    assert [path.name for path in table_files(str(tmp_path / "**" / "a.csv"))] == ["a.csv"] * 2
    odd = tmp_path / "odd[1].csv"  # a name, not a pattern
    odd.write_text(TEXT)
    assert [*table_files(odd)] == [odd]


def test_rows_of_several_files_are_located(tmp_path: Path, refused: Any) -> None:
    write(tmp_path / "x", {"1.csv.gz": "id,a\n0,1\n2,1\n", "2.csv.gz": "a,id\n1,1\n1,3\n1,2\n"})
    refused(r"x/2\.csv\.gz, line 4: node id 2 has a row already", PAIRS, tmp_path / "x")
    write(tmp_path / "x", {"2.csv.gz": "id,a\n1,one\n"})
    refused(r"x/2\.csv\.gz, line 2: 'one' is not a number", PAIRS, tmp_path / "x")


LISTS: list[tuple[Any, str]] = [
    ([[1.0, 2], [3, 4], [5], [6, 7]], "record 2: .* is not a list of 2 numbers"),
    ([[1.0, 2], [3, 4], None, [6, 7]], "record 2: an empty cell"),
    ([[1.0, 2], [3, 4], [6, None], [6, 7]], "record 2: .* is not a list of 2 numbers"),
    ([None, [3.0, 4], [6, 5], [6, 7]], "x.parquet"),
    ([[[1.0]], [[2.0]], [[3.0]], [[4.0]]], "column 'x' does not hold numbers"),
]


@pytest.mark.parametrize(("values", "message"), LISTS, ids=str)
def test_list_columns(tmp_path: Path, refused: Any, values: Any, message: str) -> None:
    write(tmp_path, {"x.parquet": pa.table({"id": range(4), "x": values})})
    refused(message, PAIRS, tmp_path / "x.parquet")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_partitions_are_columns(tmp_path: Path, refused: Any, kind: str) -> None:
    names = [f"year={year}/kind=%2{of}/p.{kind}" for year in (2019, 2020) for of in "AB"]
    content = edge_table() if kind == "parquet" else "src,dst\n0,1\n1,2\n2,0\n3,1\n"
    write(tmp_path / "e", dict.fromkeys(names, content))
    dataset = pyarrow.dataset.dataset(tmp_path / "e", partitioning="hive", format=kind)
    pattern = f"{tmp_path}/e/*/*/p.*"
    listed = [tmp_path / "e" / name for name in names]
    for source in (dataset, tmp_path / "e", pattern, f"file://{tmp_path}/e", [pattern], listed):
        build_dataset(tmp_path / "d", source, timestamp="year", order="input", edge_ids=True)
        _, arrays = read_file(tmp_path / "d" / "graph.gl")
        years = np.repeat([2019, 2020], 8)
        np.testing.assert_array_equal(arrays["times"], years[arrays["edge_ids"]])
    refused(r"p\.\w+: '\*', its folder, is not a|the timestamp has type", pattern, timestamp="kind")
    build_dataset(tmp_path / "d", pattern, src="kind", dst="year", ids="map", edge_attrs=[])
    with gz.open(tmp_path / "d") as ds:
        assert list(ds.node_ids) == ["*", "+", "2019", "2020"]
    refused("'year' is probably an index, ids or a partition", PAIRS, pattern, id_column="src")
    # a column of the files counts more than their folder
    write(tmp_path / "t", {"time=1/p.parquet": edge_table(time=[5, 6, 7, 8])})
    build_dataset(tmp_path / "d", tmp_path / "t")
    assert sorted(read_file(tmp_path / "d" / "graph.gl")[1]["times"]) == [5, 6, 7, 8]


@pytest.mark.parametrize("ids", ["dense", "map"])
def test_a_list_of_sources_has_the_rows_of_all(tmp_path: Path, refused: Any, ids: str) -> None:
    """Each has options of its own: the columns stand elsewhere, in files of other kinds."""
    (tmp_path / "a.csv").write_text("0.5,7,1,3\n1.5,8,1,1\n")
    table = pa.table({"node": [2, 0], "a": [2.5, 3.5], "b": [1, 0]})
    pq.write_table(table, tmp_path / "b.parquet")
    a = gz.Source(tmp_path / "a.csv", id_column=3, columns=[0, 2])
    b = gz.Source(tmp_path / "b.parquet", columns=["a", "b"])
    labels = PAIRS[:, 0] if ids == "dense" else None
    with gz.build(tmp_path / "d", PAIRS, [a, b], labels, ids=ids) as ds:
        rows = ds.features.gather(range(4)).tolist()
        assert rows == [[3.5, 0], [1.5, 1], [2.5, 1], [0.5, 1]]
    with gz.build(tmp_path / "d", PAIRS, nodes={"z": [gz.Source([1, 2]), gz.Source([3, 4])]}) as ds:
        assert ds.attributes["z"].gather(range(4)).tolist() == [1, 2, 3, 4]
    refused("different shapes, or not both have node ids", PAIRS, [a, gz.Source(np.ones((2, 2)))])
    (tmp_path / "a.csv").write_text("0.5,7,1,3\nx,8,1,1\n")
    refused(r"a\.csv, line 2: 'x' is not a number", PAIRS, [b, a])


def test_files_of_two_endings_that_mean_the_same(tmp_path: Path) -> None:
    write(tmp_path / "e", {"a.parquet": edge_table(), "b.pq": edge_table(), "b.pq.crc": "sum"})
    build_dataset(tmp_path / "d", tmp_path / "e")
    with gz.open(tmp_path / "d") as ds:
        assert ds.num_edges == 8


def ipc_bytes(stream: bool) -> bytes:
    sink = pa.BufferOutputStream()
    table = edge_table(np.random.default_rng(0).integers(0, 9, (2000, 2)))
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=500)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("stream", [True, False])
def test_damaged_arrow_files(tmp_path: Path, refused: Any, stream: bool) -> None:
    whole = ipc_bytes(stream)
    path = tmp_path / "e.arrow"
    path.write_bytes(whole)
    build_dataset(tmp_path / "fine", path)
    # The last cuts a stream exactly between two batches.
    quarter = (len(whole) - 8) // 4
    for keep in (0, 4, 100, len(whole) // 2, len(whole) - 1, len(whole) - 8, 3 * quarter):
        path.write_bytes(whole[:keep])
        refused(r"e\.arrow is (not a complete Arrow IPC|damaged)", path)
    path.write_bytes(b"src,dst\n0,1\n" * 9)
    refused("not a complete Arrow IPC", path)
    path.write_bytes(b"FEA1" + bytes(60))
    refused(r"e\.arrow is a Feather file of version 1: write it again", path)


def test_pandas(tmp_path: Path, refused: Any) -> None:
    pd = pytest.importorskip("pandas")
    edges = pd.DataFrame({"dst": PAIRS[:, 1], "src": PAIRS[:, 0], "w": 1.0})
    refused("the index dst, src, .*give frame.reset_index", edges.set_index(["dst", "src"]))
    x = pd.DataFrame({"id": range(4), "a": 1.0})
    refused("index of its own.*frame.reset_index", PAIRS, x[::-1])
    refused("index of its own", PAIRS, labels=pd.Series([1, 2, 3, 4], [3, 1, 0, 2]))
    refused("the index id", PAIRS, labels=x.set_index("id")["a"])
    refused("column 'a' does not hold numbers", PAIRS, x.assign(a=["a", 1, 2.0, None]))
    gaps = edges.assign(w=pd.array([1, None, 2, 3], "Int64"))
    refused("record 1: an empty cell", gaps, weight="w")
    mixed = edges.assign(dst=[0] * 4).astype({"dst": object})
    mixed.loc[3, "dst"] = "x"
    refused("target id has type null", mixed)
    late = pd.DataFrame({"id": range(2000), "a": pd.Series([7] * 1999 + [1.5], dtype=object)})
    refused("cannot be read: .*1.5", PAIRS, late)
    whole = x.assign(a=pd.Series([3, 1, 2, 0], dtype=object))
    build_dataset(tmp_path / "whole", PAIRS, labels=whole)
    assert read_file(tmp_path / "whole" / "labels.gd")[1]["rows"].dtype == np.int64
    build_dataset(tmp_path / "nan", PAIRS, x.assign(a=[1, np.nan, 3, 4]))  # a number
    assert np.isnan(read_file(tmp_path / "nan" / "features.gd")[1]["rows"]).sum() == 1


def test_many_files_are_not_open_at_once(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    write(tmp_path / "e", {f"part-{i}.parquet": edge_table() for i in range(120)})
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 60, hard))
    try:
        manifest = build_dataset(tmp_path / "d", tmp_path / "e")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert manifest.edges["", "", ""].num_edges == 480
