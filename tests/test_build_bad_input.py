"""Wrong input: the exception, what it says, and that the earlier dataset stays as it was."""

from __future__ import annotations

import fcntl
import gzip
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphzero.ingest import build_dataset
from graphzero.ingest.options import parse_bytes
from graphzero.store.outputs import require_disk_space

EDGES = np.array([[0, 1], [1, 2], [2, 0], [3, 1]])
MANY = "".join(f"{i},{i + 1}\n" for i in range(300_000))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A folder with a dataset in it."""
    folder = tmp_path / "data"
    build_dataset(folder, EDGES, np.ones((4, 2)), np.zeros(4, np.int64), {"train": [0]})
    return folder


@pytest.fixture
def refused(earlier: Path) -> Callable[..., None]:
    """Checks that a build over an earlier dataset fails in a certain way and changes nothing."""

    def check(kind: type[Exception], message: str, *args: Any, **options: Any) -> None:
        before = contents(earlier)
        with pytest.raises(kind, match=message):
            build_dataset(earlier, *args, **options)
        assert contents(earlier) == before

    return check


BAD_EDGES = [
    # text, options, message
    ("", {}, "is empty: it has no columns"),
    ("# only\n# comments\n", {}, "is empty: it has no columns"),
    ("src,dst\n", {}, "has no edges: give num_nodes"),
    ("1\n2\n", {}, "has one column: an edge list needs a source and a target"),
    ("0,1\n1,2,3\n", {}, r"line 2: 3 columns, but the first record has 2: '1,2,3'"),
    ("src,dst\n0,1\n\n\n2\n", {}, "line 5: 1 columns"),
    ("# c\nsrc,dst\n0,1\n1,x\n", {}, "line 4: 'x' is not a target id"),
    ("0,x\n1,2\n", {}, "line 1: 'x' is not a target id"),
    ("src,dst\n0,1\n", {"header": False}, "line 1: 'src' is not a source id"),
    ("0,1\n,2\n", {}, "line 2: an empty cell is not a source id"),
    ("0,1\n2, \n", {}, "line 2: an empty cell is not a target id"),
    ("0,1\n-1,2\n", {}, "line 2: '-1' is not a source id"),
    ("0,1\n1,1.0\n", {}, "line 2: '1.0' is not a target id"),
    ("0,1\n1,NaN\n", {}, "line 2: 'NaN' is not a target id"),
    ("0,1\n1,4294967296\n", {}, "line 2: '4294967296' is not .* from 0 to 4294967295"),
    ("0,1\n1," + "9" * 5000 + "\n", {}, r"line 2: '9{60}\.\.\.' is not"),
    ('0,1\n1,"2\n3,4\n', {}, "line 2: '2.3,4.' is not"),
    (MANY + "7,seven\n" + MANY, {}, "line 300001: 'seven' is not a target id"),
    ("src,dst,weight\n0,1,1\n1,2,nan\n", {}, "line 3: weight nan is not a finite"),
    ("src,dst,weight\n0,1,1\n\n1,2,1e39\n", {}, "line 4: weight inf is not a finite"),
    ("src,dst,weight\n0,1,1\n1,2,heavy\n", {}, "line 3: 'heavy' is not a number for the weight"),
    ("src,dst,weight\n0,1,1\n1,2,\n", {}, "line 3: an empty cell is not a number"),
    ("src,dst,time\n0,1,1.5\n", {}, "line 2: '1.5' is not a timestamp"),
    ("src,dst,time\n0,1,9223372036854775808\n", {}, "line 2: '9223372036854775808' is not"),
    ("0,1\n1,5\n", {"num_nodes": 5}, r"line 2: target id 5 is out of range for 5 nodes"),
    ("0,1\n1,5\n", {"features": np.ones((5, 1))}, r"line 2: target id 5 .*\(features has 5 rows\)"),
    ("0,1\n", {"src": "from"}, "has no header: give src as a position, not as 'from'"),
    ("a,b\n0,1\n", {"src": "from"}, "has no column 'from' for src; it has a, b"),
    ("a,a\n0,1\n", {"src": "a"}, "more than one column 'a'"),
    ("0,1\n", {"dst": 2}, "has 2 columns, so dst=2 does not exist"),
    ("0,1\n", {"dst": 0}, "name one column twice"),
    ("0,1\n", {"weight": True}, "weight=True"),
    ("0,1\n", {"weight": np.ones(1)}, r"weight=array\(\[1\.\]\): give the name of the column"),
    ("0,1\n", {"delimiter": ", "}, "delimiter must be one character"),
    ("0,1\n", {"header": "yes"}, "header must be True, False or 'auto'"),
    ("0\x001\n", {}, "is not a text file"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "message"), BAD_EDGES)
def test_csv_edges(
    tmp_path: Path, refused: Callable[..., None], text: str, options: Any, message: str
) -> None:
    (tmp_path / "edges.csv").write_text(text)
    refused(ValueError, rf"(?s)edges\.csv.*{message}|^{message}", tmp_path / "edges.csv", **options)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [0, -1], "dst": [1, 2]}, "record 1: -1 is not a source id"),
        ({"src": [0, 1], "dst": [1, None]}, "record 1: an empty cell is not a target id"),
        ({"src": [0, 1], "dst": [1, 1 << 32]}, "record 1: 4294967296 is not a target id"),
        ({"src": [0.0, 1.0], "dst": [1, 2]}, "source id has dtype float64"),
        ({"src": ["0", "1"], "dst": [1, 2]}, "source id has type string"),
        ({"src": [0, 1]}, "has one column"),
        ({"src": [0], "dst": [1], "weight": [float("nan")]}, "record 0: weight nan"),
        ({"src": [0], "dst": [1], "time": [1.5]}, "timestamp has dtype float64"),
        ({}, "has no columns"),
    ],
)
def test_parquet_edges(
    tmp_path: Path, refused: Callable[..., None], columns: dict[str, list[Any]], message: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "e.parquet")
    refused(ValueError, rf"e\.parquet.*{message}", tmp_path / "e.parquet")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[0, 1], [2, -3]]), "edge 1: -3 is not a target id"),
        (np.array([[0, 1], [2, 1 << 32]]), "edge 1: 4294967296 is not a target id"),
        (np.array([[0, 1], [2, 2**64 - 1]], np.uint64), "edge 1: 18446744073709551615 is not"),
        (np.array([[0.0, 1.0]]), "dtype float64: node ids must be integers"),
        (np.array([[True, False]]), "dtype bool: node ids must be integers"),
        (np.array([["a", "b"]]), "must hold numbers"),
        (np.arange(4), r"shape \(4,\): an edge list is"),
        (np.zeros((3, 3), int), r"shape \(3, 3\): an edge list is"),
        (np.zeros((0, 2), int), "has no edges: give num_nodes"),
        ([], "an edge list is"),
    ],
)
@pytest.mark.parametrize("on_disk", [True, False])
def test_array_edges(
    tmp_path: Path, refused: Callable[..., None], array: Any, message: str, on_disk: bool
) -> None:
    if on_disk:
        np.save(tmp_path / "e.npy", array)
        refused(ValueError, rf"e\.npy.*{message}", tmp_path / "e.npy")
    else:
        refused(ValueError, message, array)


def test_damaged_files(tmp_path: Path, refused: Callable[..., None]) -> None:
    text, array, parquet = (tmp_path / name for name in ("e.csv.gz", "e.npy", "e.parquet"))
    whole = gzip.compress(MANY.encode())
    for payload in (b"\x1f\x8b\x08garbage", b"not gzip at all", whole[: len(whole) // 2]):
        text.write_bytes(payload)
        refused(ValueError, r"e\.csv\.gz is not a complete gzip file", text)
    np.save(array, EDGES)
    whole = array.read_bytes()
    np.save(array, np.array([object()]), allow_pickle=True)  # is not loaded
    for payload in (array.read_bytes(), *(whole[:keep] for keep in (0, 5, 100, 140))):
        array.write_bytes(payload)
        refused(ValueError, r"e\.npy is not a complete NumPy file", array)
    pq.write_table(pa.table({"src": np.arange(1000), "dst": np.arange(1000)}), parquet)
    whole = parquet.read_bytes()
    parquet.write_bytes(whole[: len(whole) // 2])
    refused(ValueError, r"e\.parquet is not a complete Parquet file", parquet)
    parquet.write_bytes(whole[:4] + b"\xff" * 200 + whole[204:])
    refused(ValueError, r"e\.parquet is damaged", parquet)


def test_array_side_inputs(tmp_path: Path, refused: Callable[..., None]) -> None:
    refused(ValueError, r"weight has shape \(3,\) for 4 edges", EDGES, weight=np.ones(3))
    refused(ValueError, "edge 2: weight inf", EDGES, weight=[1, 2, np.inf, 4])
    refused(ValueError, "timestamp has dtype float64", EDGES, timestamp=np.ones(4))
    refused(FileNotFoundError, "w.npy", EDGES, weight=tmp_path / "w.npy")


def test_missing_and_unknown_files(tmp_path: Path, refused: Callable[..., None]) -> None:
    refused(FileNotFoundError, r"e\.csv", tmp_path / "e.csv")
    refused(FileNotFoundError, r"e\.npy", tmp_path / "e.npy")
    refused(FileNotFoundError, r"e\.parquet", tmp_path / "e.parquet")
    refused(FileNotFoundError, r"x\.npy", EDGES, tmp_path / "x.npy")
    (tmp_path / "folder.csv").mkdir()
    refused(IsADirectoryError, r"folder\.csv", tmp_path / "folder.csv")
    (tmp_path / "e.xlsx").write_text("0,1")
    refused(ValueError, r"e\.xlsx.*does not end in \.csv", tmp_path / "e.xlsx")


BAD_FEATURES = [
    ("0\n1\n", "has one column: features are a node id and their values"),
    ("id,x\n0,1\n\n1,2\n\n0,3\n", "line 6: node id 0 has a row already"),
    ("0,1\n1,two\n", "line 2: 'two' is not a number for the feature 0"),
    ("0,1,2\n1,2\n", "line 2: 2 columns, but the first record has 3"),
    ("0,1\n1,\n", "line 2: an empty cell is not a number for the feature 0"),
    (",1.5\n1,2\n", "line 1: an empty cell is not a node id"),
    ("0,1\n-1,2\n", "line 2: '-1' is not a node id"),
    ("0,1\n1.0,2\n", "line 2: '1.0' is not a node id"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FEATURES)
def test_csv_features(
    tmp_path: Path, refused: Callable[..., None], text: str, message: str
) -> None:
    (tmp_path / "x.csv").write_text(text)
    refused(ValueError, rf"x\.csv.*{message}", EDGES, tmp_path / "x.csv", id_column=0)


def test_duplicate_ids_in_different_pieces(tmp_path: Path, refused: Callable[..., None]) -> None:
    rows = [f"{i},{i}\n" for i in range(200_000)]
    (tmp_path / "x.csv").write_text("".join([*rows, "3,3\n"]))
    message = "line 200001: node id 3 has a row already"
    refused(ValueError, message, EDGES, tmp_path / "x.csv", id_column=0)


def test_features_and_labels(tmp_path: Path, refused: Callable[..., None]) -> None:
    ones = np.ones((4, 2))
    refused(ValueError, "features has 3 rows", EDGES, np.ones((3, 2)))
    refused(ValueError, r"num_nodes=4, but features has 5 rows", EDGES, np.ones(5), num_nodes=4)
    refused(ValueError, "but labels has 3 rows: every node needs one", EDGES, ones, [0, 1, 2])
    refused(ValueError, r"features has shape \(4, 0\)", EDGES, np.ones((4, 0)))
    refused(ValueError, r"features has shape \(4, 1, 0\)", EDGES, np.ones((4, 1, 0)))
    refused(ValueError, r"features has shape \(\)", EDGES, 7)
    refused(ValueError, "features has dtype complex128", EDGES, ones * 1j)
    refused(ValueError, "features: dtype .*longdouble|float128", EDGES, ones.astype("longdouble"))
    refused(ValueError, "labels has dtype .*must hold numbers", EDGES, labels=["a", "b", "c", "d"])
    (tmp_path / "y.csv").write_text("id,label\n0,1\n3,1\n")
    refused(
        ValueError, "no row for 2 of 4 nodes, the first is node 1", EDGES, labels=tmp_path / "y.csv"
    )
    (tmp_path / "y.csv").write_text("0,1\n1,1\n9,1\n")
    refused(
        ValueError,
        r"y\.csv, line 3: node id 9 is out of range for 4 nodes",
        EDGES,
        ones,
        tmp_path / "y.csv",
        id_column=0,
    )
    (tmp_path / "y.csv").write_text("1\n2\n0.5\n4\n")
    refused(ValueError, "line 3: '0.5' is not a label", EDGES, labels=tmp_path / "y.csv")
    (tmp_path / "y.csv").write_text("1\n2\n3\n")
    refused(ValueError, r"y\.csv has 3 rows", EDGES, labels=tmp_path / "y.csv")
    pq.write_table(pa.table({"id": [0, 1], "x": ["a", "b"]}), tmp_path / "x.parquet")
    refused(ValueError, "column 'x' does not hold numbers", EDGES, tmp_path / "x.parquet")


def test_splits(tmp_path: Path, refused: Callable[..., None]) -> None:
    def split(value: Any) -> dict[str, Any]:
        return {"splits": {"train": value}}

    refused(IndexError, "split 'train', position 2: node 4 is out", EDGES, **split([0, 1, 4]))
    refused(IndexError, "split 'train', position 0: node -1 is out", EDGES, **split([-1]))
    refused(ValueError, "split 'train' has dtype float64", EDGES, **split([0.5]))
    refused(ValueError, "looks like a mask of integers", EDGES, **split([0, 1, 1, 0]))
    refused(ValueError, "mask of 3 values for 4 nodes", EDGES, **split([True, False, True]))
    refused(ValueError, r"split 'train' has shape \(1, 2\)", EDGES, **split([[0, 1]]))
    (tmp_path / "s.csv").write_text("node\n0\n7\n")
    refused(IndexError, "position 1: node 7", EDGES, **split(tmp_path / "s.csv"))
    (tmp_path / "s.csv").write_text("0,1\n")
    refused(ValueError, r"s\.csv\) has 2 columns", EDGES, **split(tmp_path / "s.csv"))
    (tmp_path / "s.csv").write_text("0\n1\nx\n")
    refused(ValueError, r"s\.csv, line 3: 'x' is not", EDGES, **split(tmp_path / "s.csv"))
    refused(FileNotFoundError, r"s\.npy", EDGES, **split(tmp_path / "s.npy"))
    for name in ("", "a/b", "..", "a b", "é", 3):
        refused(ValueError, "split name", EDGES, splits={name: [0]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "cold"}, "order must be 'hot', 'input' or 'presample'"),
        ({"num_nodes": 0}, "num_nodes=0 is not an integer from 1 to 2"),
        ({"num_nodes": -1}, "num_nodes=-1"),
        ({"num_nodes": (1 << 32) + 1}, "num_nodes=4294967297 is not"),
        ({"num_nodes": True}, "num_nodes=True"),
        ({"num_nodes": 2.5}, "num_nodes=2.5"),
        ({"num_nodes": 3}, "edge 3: source id 3 is out of range for 3 nodes"),
        ({"memory_limit": "lots"}, "'lots' is not a size"),
        ({"memory_limit": "1 PB"}, "is not a size"),
        ({"memory_limit": 0}, "too small"),
        ({"memory_limit": -5}, "too small"),
        ({"memory_limit": 2.5}, "neither a number of bytes nor"),
    ],
)
def test_options(refused: Callable[..., None], options: dict[str, Any], message: str) -> None:
    refused(ValueError, message, EDGES, **options)


def test_sizes() -> None:
    assert parse_bytes("2GB") == 2 * 10**9
    assert parse_bytes("512MiB") == 512 << 20
    assert parse_bytes(" 1.5 gib ") == 3 << 29
    assert parse_bytes(1 << 20) == 1 << 20
    assert parse_bytes("2097152") == 2 << 20


def test_disk_space_is_asked_for_first(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"needs .* bytes of disk space") as caught:
        require_disk_space(tmp_path, 1 << 60, "the build needs")
    assert caught.value.filename == str(tmp_path)


def test_too_little_disk_space(refused: Callable[..., None], monkeypatch: Any) -> None:
    usage = shutil.disk_usage("/")._replace(free=10_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    refused(OSError, "needs .* bytes of disk space and 10,000 are free", EDGES, num_nodes=9)


def test_second_build_at_the_same_time(earlier: Path, refused: Callable[..., None]) -> None:
    descriptor = os.open(earlier, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        refused(BlockingIOError, f"another build.*{re.escape(str(earlier))}", EDGES)
    finally:
        os.close(descriptor)
    build_dataset(earlier, EDGES)


def test_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="file"):
        build_dataset(tmp_path / "file", EDGES)
    with pytest.raises(NotADirectoryError, match="file"):
        build_dataset(tmp_path / "file" / "d", EDGES)


def test_a_broken_manifest_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text("{")
    build_dataset(tmp_path, EDGES)
    assert {path.name for path in tmp_path.iterdir()} == {"dataset.json", "graph.gl"}
