"""`from_scipy` and `from_pandas`: built from plain arrays as well, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import graphzero as gz

# Python only: the C code below it is sanitized by other tests of the build.
pytestmark = pytest.mark.no_asan

NODES, EDGES = 20, 60


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}


def plain(folder: Path, edges: Any, **more: Any) -> dict[str, bytes]:
    gz.build(folder, edges, **more).close()
    return files_of(folder)


def pairs() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, NODES, (2, EDGES))


def test_scipy(tmp_path: Path) -> None:
    dense = sp.random_array((NODES, NODES), density=0.2, rng=np.random.default_rng(1))
    matrix = dense.tocsr().astype(np.float32)
    coo = matrix.tocoo()
    edges = {"edge_index": np.stack([coo.row, coo.col]), "edge_weight": coo.data}
    features = np.eye(NODES, dtype=np.float32)
    expected = plain(tmp_path / "plain", edges, features=features)
    sp.save_npz(tmp_path / "matrix.npz", matrix)
    for given in (matrix, matrix.tocoo(), sp.csr_matrix(matrix), tmp_path / "matrix.npz"):
        gz.from_scipy(given, tmp_path / "data", features).close()
        assert files_of(tmp_path / "data") == expected
    del edges["edge_weight"]
    expected = plain(tmp_path / "plain", edges, num_nodes=NODES, directed=False)
    gz.from_scipy(matrix, tmp_path / "data", weight=False, directed=False).close()
    assert files_of(tmp_path / "data") == {**files_of(tmp_path / "data"), **expected}
    with pytest.raises(TypeError, match="matrix is ndarray, not a sparse matrix: .*csr_array"):
        gz.from_scipy(np.eye(3), tmp_path / "data")
    with pytest.raises(ValueError, match="square matrix"):
        gz.from_scipy(sp.csr_array((3, 4)), tmp_path / "data")


def test_pandas_edges(tmp_path: Path) -> None:
    edges = pairs()
    weight, amount = np.random.default_rng(1).random((2, EDGES), np.float32)
    frame = pd.DataFrame({"amount": amount, "dst": edges[1], "Weight": weight, "src": edges[0]})
    given = {"edge_index": edges, "edge_weight": weight}
    expected = plain(tmp_path / "plain", given)
    with pytest.warns(UserWarning, match="not used: amount"):
        gz.from_pandas(frame, tmp_path / "data").close()
    assert files_of(tmp_path / "data") == expected
    shuffled = frame.set_index(np.arange(EDGES)[::-1])  # an index does not count
    gz.from_pandas(shuffled, tmp_path / "data", edge_attrs=[]).close()
    assert files_of(tmp_path / "data") == expected
    expected = plain(tmp_path / "plain", {**given, "price": amount}, directed=False)
    attrs = {"price": "amount"}
    gz.from_pandas(frame, tmp_path / "data", edge_attrs=attrs, directed=False).close()
    assert files_of(tmp_path / "data") == expected
    unnamed = frame.rename(columns={"src": "payer", "dst": "payee"})[["payer", "payee", "amount"]]
    with pytest.raises(ValueError, match="payer, payee, amount.*src="):
        gz.from_pandas(unnamed, tmp_path / "data")
    expected = plain(tmp_path / "plain", {"edge_index": edges})
    ends = {"src": "payer", "dst": "payee"}
    gz.from_pandas(unnamed, tmp_path / "data", edge_attrs=[], **ends).close()
    assert files_of(tmp_path / "data") == expected


def nodes_frame() -> tuple[pd.DataFrame, dict[str, Any]]:
    rng = np.random.default_rng(2)
    order = rng.permutation(NODES)
    x, y = rng.random((NODES, 2), np.float32), rng.integers(0, 3, NODES)
    year = rng.integers(1990, 2000, NODES)
    columns = {"a": x[order, 0], "year": year[order], "b": x[order, 1], "class": y[order]}
    return pd.DataFrame({"node_id": order, **columns}), {"x": x, "y": y, "year": year}


def test_pandas_nodes(tmp_path: Path) -> None:
    frame, values = nodes_frame()
    edges = pd.DataFrame(pairs().T, columns=["u", "v"])
    expected = plain(tmp_path / "plain", pairs(), nodes=values)
    columns: dict[str, Any] = {"features": ["a", "b"], "labels": "class", "node_attrs": ["year"]}
    sorted_frame = frame.sort_values("node_id").drop(columns="node_id").reset_index(drop=True)
    for nodes in (frame, frame.set_index("node_id"), sorted_frame):
        gz.from_pandas(edges, tmp_path / "data", nodes, **columns).close()
        assert files_of(tmp_path / "data") == expected
    renamed = frame.rename(columns={"node_id": "paper"})
    gz.from_pandas(edges, tmp_path / "data", renamed, id_column="paper", **columns).close()
    assert files_of(tmp_path / "data") == expected
    columns["node_attrs"] = None
    with pytest.warns(UserWarning, match="nodes has columns that are not used: year; node_attrs="):
        gz.from_pandas(edges, tmp_path / "data", frame, **columns).close()
    few = edges[edges.max(axis=1) < 10]
    with gz.from_pandas(few, tmp_path / "data", frame[["node_id"]]) as ds:
        assert ds.num_nodes == NODES  # also of nodes without attributes


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (lambda f: f[1:], {}, "must have each of 0 to 18 once"),
    (lambda f: pd.concat([f, f[:1]]), {}, "once"),
    (
        lambda f: f.assign(node_id=f["node_id"].astype(str)),
        {},
        "in column 'node_id': convert it to numbers",
    ),
    (lambda f: f.assign(node_id=f["node_id"] * 1.0), {}, "float64, and node ids are integers"),
    (lambda f: f.assign(id=1), {}, "node_id and id: name one of them with id_column="),
    (lambda f: f, {"features": ["c"]}, "nodes has no column 'c'; it has node_id, a"),
    (lambda f: f, {"features": []}, "names no columns"),
    (lambda f: f, {"labels": "class", "node_attrs": {"y": "year"}}, "'y', which"),
    (lambda f: f.assign(a="text"), {"features": ["a"]}, "in column 'a': convert it to numbers"),
    (lambda f: f, {"labels": "class", "ids": "map"}, "ids= gives them"),
    (lambda f: f.rename(columns={"a": 1}), {}, "a column 1: names must be different texts"),
]


@pytest.mark.parametrize(("change", "options", "message"), WRONG)
def test_wrong_nodes_are_refused(
    tmp_path: Path, change: Any, options: dict[str, Any], message: str
) -> None:
    edges = pd.DataFrame(pairs().T, columns=["src", "dst"])
    nodes = change(nodes_frame()[0])
    with pytest.raises(ValueError, match=message):
        gz.from_pandas(edges, tmp_path / "data", nodes, **options)


def test_wrong_edges_are_refused(tmp_path: Path) -> None:
    edges = pd.DataFrame(pairs().T, columns=["src", "dst"])
    with pytest.raises(TypeError, match="edges is ndarray, not a frame of pandas"):
        gz.from_pandas(pairs(), tmp_path / "data")
    with pytest.raises(ValueError, match="name columns of nodes="):
        gz.from_pandas(edges, tmp_path / "data", features=["a"])
    gaps = edges.astype("Int64")
    assert gz.from_pandas(gaps, tmp_path / "whole").num_edges == EDGES
    gaps.loc[3, "dst"] = pd.NA
    with pytest.raises(ValueError, match="the target id has dtype float64, and must be an integer"):
        gz.from_pandas(gaps, tmp_path / "data")
    with pytest.raises(ValueError, match="edge_attrs='amount' must be a list"):
        gz.from_pandas(edges, tmp_path / "data", edge_attrs="amount")
