"""The converters of graphzero 0.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference

from graphzero.ingest import DataType, convert_csv_to_gd, convert_csv_to_gl
from graphzero.store.format import read_file, verify_file

EDGES = [[0, 2], [2, 1], [0, 1], [3, 3], [0, 2]]
WEIGHTS = [0.5, 1.5, 2.5, 3.5, 4.5]


@pytest.mark.parametrize("header", ["src,dst,weight\n", "a,b,c\n", ""])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_edges(tmp_path: Path, header: str, directed: bool, weighted: bool) -> None:
    rows = [f"{s},{t},{w}" if weighted else f"{s},{t}"
            for (s, t), w in zip(EDGES, WEIGHTS, strict=True)]  # fmt: skip
    names = header if weighted else header.replace(",weight", "").replace(",c", "")
    (tmp_path / "e.csv").write_text(names + "\n".join(rows))
    convert_csv_to_gl(tmp_path / "e.csv", tmp_path / "g.gl", directed)
    verify_file(tmp_path / "g.gl")
    head, arrays = read_file(tmp_path / "g.gl")
    naive = reference.adjacency(EDGES, 4, directed=directed, weights=WEIGHTS)
    np.testing.assert_array_equal(arrays["indptr"], naive.indptr)
    np.testing.assert_array_equal(arrays["indices"], naive.indices)
    if weighted:
        np.testing.assert_array_equal(arrays["weights"], naive.column(2, np.float32))
    assert arrays.keys() == {"indptr", "indices"} | (
        {"weights", "cum_weights"} if weighted else set()
    )
    assert (head.num_nodes, head.num_input_edges) == (4, 5)


def test_edges_are_undirected_by_default_and_have_other_names(tmp_path: Path) -> None:
    (tmp_path / "e.dat").write_text("0 1\n1 2\n")
    convert_csv_to_gl(input_csv=str(tmp_path / "e.dat"), output_bin=str(tmp_path / "g.gl"))
    _, arrays = read_file(tmp_path / "g.gl")
    np.testing.assert_array_equal(arrays["indices"], [1, 0, 2, 1])
    with pytest.raises(TypeError, match="csv_path, or input_csv"):
        convert_csv_to_gl(out_path=tmp_path / "g.gl")
    with pytest.raises(TypeError, match="out_path, or output_bin"):
        convert_csv_to_gl(tmp_path / "e.dat", tmp_path / "g.gl", output_bin=tmp_path / "h.gl")


@pytest.mark.parametrize("third", ["name", "time", "timestamp"])
def test_third_column_that_is_no_weight(tmp_path: Path, third: str) -> None:
    value = "x" if third == "name" else "5"
    (tmp_path / "e.csv").write_text(f"src,dst,{third}\n0,1,{value}\n")
    convert_csv_to_gl(tmp_path / "e.csv", tmp_path / "g.gl", True)
    extra = set() if third == "name" else {"times", "time_order"}
    assert read_file(tmp_path / "g.gl")[1].keys() == {"indptr", "indices"} | extra


@pytest.mark.parametrize("dtype", list(DataType))
@pytest.mark.parametrize("header", ["node,a,b\n", ""])
def test_features(tmp_path: Path, dtype: DataType, header: str) -> None:
    (tmp_path / "x.csv").write_text(f"{header}2,5,-6\n0,1,2\n")
    with pytest.warns(UserWarning, match="no row for 1 of 3 nodes"):
        convert_csv_to_gd(tmp_path / "x.csv", tmp_path / "x.gd", dtype)
    verify_file(tmp_path / "x.gd")
    head, arrays = read_file(tmp_path / "x.gd")
    assert (head.num_nodes, head.width, head.flags) == (3, 2, 0)
    assert arrays["rows"].dtype == dtype.value
    np.testing.assert_array_equal(arrays["rows"], [1, 2, 0, 0, 5, -6])


def test_double_keeps_every_digit(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("0,0.1234567890123456\n")
    convert_csv_to_gd(tmp_path / "x.csv", tmp_path / "x.gd", DataType.FLOAT64)
    assert read_file(tmp_path / "x.gd")[1]["rows"][0] == 0.1234567890123456


@pytest.mark.parametrize(
    ("dtype", "text", "message"),
    [
        (DataType.INT32, "0,1\n1,2147483648\n", "line 2: '2147483648' is not a feature 0"),
        (DataType.INT64, "0,1\n1,9223372036854775808\n", "line 2: '9223372036854775808'"),
        (DataType.INT32, "0,1\n1,1.5\n", "line 2: '1.5' is not a feature 0"),
        (DataType.FLOAT32, "0,1\n1,x\n", "line 2: 'x' is not a number"),
        (DataType.FLOAT32, "0,1\n0,1\n", "line 2: node id 0 has a row already"),
        (DataType.FLOAT32, "id,x\n", "has no records"),
        (DataType.FLOAT32, "", "is empty"),
        ("float16", "0,1\n", "is not a valid DataType"),
    ],
)
def test_bad_features(tmp_path: Path, dtype: Any, text: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    (tmp_path / "x.gd").write_bytes(b"earlier")
    with pytest.raises(ValueError, match=message):
        convert_csv_to_gd(tmp_path / "x.csv", tmp_path / "x.gd", dtype)
    assert (tmp_path / "x.gd").read_bytes() == b"earlier"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1,x\n", "line 2: 'x' is not a target id"),
        ("0,1,2\n1,2,x\n", "line 2: 'x' is not a number for the weight"),
        ("0,1,2\n1,2,nan\n", "line 2: weight nan"),
        ("src,dst\n", "has no edges"),
        ("", "is empty"),
    ],
)
def test_bad_edges(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "e.csv").write_text(text)
    (tmp_path / "g.gl").write_bytes(b"earlier")
    with pytest.raises(ValueError, match=message):
        convert_csv_to_gl(tmp_path / "e.csv", tmp_path / "g.gl")
    assert (tmp_path / "g.gl").read_bytes() == b"earlier"
    assert len(list(tmp_path.iterdir())) == 2


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"e\.csv"):
        convert_csv_to_gl(tmp_path / "e.csv", tmp_path / "g.gl")
    (tmp_path / "e.csv").write_text("0,1\n")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        convert_csv_to_gl(tmp_path / "e.csv", tmp_path / "nowhere" / "g.gl")
