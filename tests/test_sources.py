"""Every kind of table gives the files that plain arrays give, byte for byte.

A source is a function of a folder and of the columns: it writes or makes what a user would have,
and returns the arguments of the build. Add one to `SOURCES`, under a name that says what it is.
"""

from __future__ import annotations

import itertools
import re
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

from graphzero.ingest import build_dataset

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
TRAIN = rng.permutation(NODES)[:9]

Table = dict[str, Any]
# In another order than they are used in, so that names count.
EDGE_COLUMNS: Table = {"dst": DST, "weight": WEIGHT, "src": SRC, "timestamp": TIME}
X_COLUMNS: Table = {"id": IDS, **{f"f{i}": X[IDS, i] for i in range(4)}}
LIST_COLUMNS: Table = {"id": IDS, "x": X[IDS]}
Y_COLUMNS: Table = {"id": IDS, "label": Y[IDS]}
TRAIN_COLUMNS: Table = {"node": TRAIN}
TABLES = {"edges": EDGE_COLUMNS, "features": X_COLUMNS, "labels": Y_COLUMNS}
ALL = {**TABLES, "train": TRAIN_COLUMNS}
Arguments = dict[str, Any]


def arguments(values: Arguments) -> Arguments:
    values = dict(values)
    return {"splits": {"train": values.pop("train", TRAIN)}, **values}


def text_of(columns: Table, mark: str = ",", header: bool = True) -> bytes:
    lines = [mark.join(columns)] if header else []
    lines += [mark.join(map(str, cells)) for cells in zip(*columns.values(), strict=True)]
    return ("\n".join(lines) + "\n").encode()


def arrow(columns: Table) -> pa.Table:
    def one(values: np.ndarray[Any, Any]) -> pa.Array:
        if values.ndim == 1:
            return pa.array(values)
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])

    return pa.table({name: one(values) for name, values in columns.items()})


def cut(columns: Table, count: int) -> list[Table]:
    """Parts of different sizes, the last of which has its columns in another order."""
    length = len(next(iter(columns.values())))
    ends = np.linspace(0, np.sqrt(length), count + 1) ** 2
    cuts = [*np.round(ends[:-1]).astype(int).tolist(), length]
    parts = [
        {name: values[begin:end] for name, values in columns.items()}
        for begin, end in itertools.pairwise(cuts)
    ]
    parts[-1] = dict(reversed(parts[-1].items())) if "weight" in columns else parts[-1]
    return parts


def text(suffix: str, mark: str = ",") -> Callable[[Path], Arguments]:
    def make(folder: Path) -> Arguments:
        return {
            name: compressed.write(folder / f"{name}{suffix}", text_of(columns, mark))
            for name, columns in ALL.items()
        }

    return make


def aligned(folder: Path) -> Arguments:
    """Columns of SNAP's kind, padded with blanks, below comments."""
    lines = [f"{s:>9}  \t{t:>6} " for s, t in zip(SRC, DST, strict=True)]
    (folder / "e.txt").write_text("\n".join(["# SNAP", "# FromNodeId\tToNodeId", *lines]))
    np.save(folder / "w.npy", WEIGHT)
    np.save(folder / "t.npy", TIME)
    edges = {
        "edge_index": folder / "e.txt",
        "edge_weight": folder / "w.npy",
        "edge_time": folder / "t.npy",
    }
    return {"edges": edges, "features": X, "labels": Y}


def parts(
    write: Callable[[Path, Table], None], names: str, how: str
) -> Callable[[Path], Arguments]:
    """Eleven files each, whose order is that of their numbers."""

    def make(folder: Path) -> Arguments:
        values: Arguments = {}
        for name, columns in TABLES.items():
            (folder / name).mkdir()
            paths = [folder / name / names.format(i) for i in range(11)]
            for path, part in zip(paths, cut(columns, 11), strict=True):
                write(path, part)
            (folder / name / "_SUCCESS").touch()
            (folder / name / ".part.crc").write_bytes(b"crc")
            pattern = folder / name / names.replace("{}", "*")
            by = {"folder": folder / name, "list": paths, "pattern": str(pattern)}
            values[name] = by[how]
        return values

    return make


def write_text(path: Path, columns: Table) -> None:
    compressed.write(path, text_of(columns))


def write_parquet(path: Path, columns: Table) -> None:
    pq.write_table(arrow(columns), path)


def parquet(**options: Any) -> Callable[[Path], Arguments]:
    def make(folder: Path) -> Arguments:
        for name, columns in ALL.items():
            pq.write_table(arrow(columns), folder / f"{name}.parquet", **options)
        return {name: folder / f"{name}.parquet" for name in ALL}

    return make


def list_columns(kind: Callable[[Any], pa.Array], keyed: bool) -> Callable[[Path], Arguments]:
    def make(folder: Path) -> Arguments:
        columns = {"id": IDS, "x": kind(X[IDS])} if keyed else {"x": kind(X)}
        pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=7)
        return {
            "edges": arrow(EDGE_COLUMNS),
            "features": folder / "x.parquet",
            "labels": arrow(Y_COLUMNS),
        }

    return make


def fixed(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def ipc(
    suffix: str, stream: bool = False, compression: str | None = None
) -> Callable[[Path], Arguments]:
    def make(folder: Path) -> Arguments:
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        options = pa.ipc.IpcWriteOptions(compression=compression)
        for name, columns in ALL.items():
            table = arrow(columns)
            path = folder / f"{name}{suffix}"
            with new(str(path), table.schema, options=options) as writer:
                writer.write_table(table, max_chunksize=13)
        return {name: folder / f"{name}{suffix}" for name in ALL}

    return make


def remote(folder: Path) -> Arguments:
    """By pyarrow's file systems, and by fsspec's."""
    fsspec = pytest.importorskip("fsspec")
    written = parts(write_parquet, "part-{}.parquet", "folder")(folder)
    with fsspec.open("memory://graph/labels.csv.gz", "wb") as file:
        file.write(compressed.COMPRESS[".gz"](text_of(Y_COLUMNS)))
    return {
        "edges": f"file://{written['edges']}",
        "features": f"file://{written['features']}/",
        "labels": "memory://graph/labels.csv.gz",
    }


def feather(folder: Path) -> Arguments:
    for name, columns in ALL.items():
        pa.feather.write_feather(arrow(columns), folder / f"{name}.feather", compression="zstd")
    return {name: folder / f"{name}.feather" for name in ALL}


def memory(frame: Callable[[Table], Any]) -> Callable[[Path], Arguments]:
    return lambda folder: {name: frame(columns) for name, columns in ALL.items()}


def dataset(folder: Path) -> Arguments:
    written = parts(write_parquet, "part-{}.parquet", "list")(folder)
    opened = {name: pa.dataset.dataset(list(map(str, paths))) for name, paths in written.items()}
    return opened


def reader(folder: Path) -> Arguments:
    table = arrow(EDGE_COLUMNS)
    batches = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=9))
    return {"edges": batches, "features": X, "labels": Y}


class Relation:
    """What a library without types known here has, such as a relation of DuckDB."""

    def __init__(self, columns: Table) -> None:
        self.columns, self._table = list(columns), arrow(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def pandas(columns: Table) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def nullable(columns: Table) -> Any:
    frame = pandas(columns)
    whole = [name for name, values in columns.items() if values.dtype.kind == "i"]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def pandas_of_arrow(columns: Table) -> Any:
    pd = pytest.importorskip("pandas")
    return arrow(columns).to_pandas(types_mapper=pd.ArrowDtype)


def pandas_lists(folder: Path) -> Arguments:
    pd = pytest.importorskip("pandas")
    x = pd.DataFrame({"id": IDS, "x": list(X[IDS])})
    return {"edges": pandas(EDGE_COLUMNS), "features": x, "labels": pd.Series(Y, name="label")}


def filtered(folder: Path) -> Arguments:
    """The index of filtered edges is ignored: it says nothing of them."""
    doubled = {name: np.repeat(values, 2) for name, values in EDGE_COLUMNS.items()}
    return {"edges": pandas(doubled)[::2], "features": X, "labels": Y}


def polars(columns: Table) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def polars_lists(folder: Path) -> Arguments:
    return {
        "edges": polars(EDGE_COLUMNS),
        "features": polars(LIST_COLUMNS),
        "labels": polars(Y_COLUMNS)["label"].gather(np.argsort(IDS)),
    }


SOURCES: dict[str, Callable[[Path], Arguments]] = {
    **{f"csv{suffix}": text(f".csv{suffix}") for suffix in ("", *compressed.COMPRESS)},
    "tsv": text(".tsv", "\t"),
    "txt": text(".txt", "  "),
    "aligned txt": aligned,
    "csv folder": parts(write_text, "part-{}.csv", "folder"),
    "csv.gz list": parts(write_text, "part-{}.csv.gz", "list"),
    "csv.zst pattern": parts(write_text, "part-{}.csv.zst", "pattern"),
    "parquet": parquet(),
    "parquet row groups": parquet(row_group_size=11, compression="zstd"),
    "parquet folder of Spark": parts(write_parquet, "part-{}-c000.snappy.parquet", "folder"),
    "parquet folder of Dask": parts(write_parquet, "part.{}.parquet", "folder"),
    "parquet folder of DuckDB": parts(write_parquet, "data_{}.parquet", "folder"),
    "parquet pattern": parts(write_parquet, "{}.parquet", "pattern"),
    "fixed-size lists": list_columns(fixed, keyed=True),
    "lists": list_columns(lambda x: pa.array(x.tolist(), pa.list_(pa.float32())), keyed=True),
    "large lists": list_columns(
        lambda x: pa.array(x.tolist(), pa.large_list(pa.float32())), keyed=True
    ),
    "lists without ids": list_columns(fixed, keyed=False),
    "arrow file": ipc(".arrow"),
    "arrow file zstd": ipc(".arrow", compression="zstd"),
    "arrow stream": ipc(".arrows", stream=True, compression="lz4"),
    "ipc stream": ipc(".ipc", stream=True),
    "feather": feather,
    "remote": remote,
    "pyarrow table": memory(arrow),
    "pyarrow batch": memory(lambda columns: arrow(columns).to_batches()[0]),
    "pyarrow dataset": dataset,
    "pyarrow reader": reader,
    "relation": memory(Relation),
    "pandas": memory(pandas),
    "pandas nullable": memory(nullable),
    "pandas of arrow": memory(pandas_of_arrow),
    "pandas lists and series": pandas_lists,
    "pandas filtered edges": filtered,
    "polars": memory(polars),
    "polars lists and series": polars_lists,
}


def files_of(folder: Path) -> dict[str, Any]:
    """Bytes of the files, and what the manifest says of them."""
    found: dict[str, Any] = {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}
    text = (folder / "dataset.json").read_text()
    return {**found, "dataset.json": re.sub(r"[0-9a-f]{12}\.gz-staged", "", text)}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("arrays")
    edges = {"edge_index": np.stack([SRC, DST]), "edge_weight": WEIGHT, "edge_time": TIME}
    build_dataset(folder, edges, X, Y, {"train": TRAIN})
    return files_of(folder)


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_gives_the_files_of_plain_arrays(
    tmp_path: Path, source: str, expected: dict[str, Any]
) -> None:
    (tmp_path / "given").mkdir()
    build_dataset(tmp_path / "d", **arguments(SOURCES[source](tmp_path / "given")))
    found = files_of(tmp_path / "d")
    assert found.keys() == expected.keys()
    for name, content in found.items():
        assert content == expected[name], name


def test_streams_are_spooled_where_they_are_needed_twice(tmp_path: Path) -> None:
    table = pa.table({"src": SRC, "dst": DST, "amount": np.arange(EDGES)})
    x = pa.table(dict(X_COLUMNS))

    def reader(table: pa.Table) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))

    def chunks() -> Iterator[dict[str, Any]]:
        for batch in table.to_batches(max_chunksize=70):
            yield {name: batch.column(name).to_numpy() for name in batch.schema.names}

    found = []
    for name, edges, features in (
        ("table", table, x), ("reader", reader(table), reader(x)), ("chunks", chunks(), reader(x))
    ):  # fmt: skip
        build_dataset(tmp_path / name, edges, features, edge_attrs=["amount"])
        files = (tmp_path / name).glob("*.g[ld]")
        found.append({path.name: path.read_bytes() for path in files})
    assert found[0] == found[1] == found[2]
