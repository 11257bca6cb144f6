"""Arrays of every kind of source give the files that plain arrays give, byte for byte."""

from __future__ import annotations

import itertools
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from graphzero.ingest import build_dataset

# Python only: the C code below it is sanitized by other tests of the build.
pytestmark = pytest.mark.no_asan

NODES, EDGES = 40, 300
Arrays = dict[str, np.ndarray[Any, Any]]
Values = dict[str, Any]


def make_arrays() -> Arrays:
    rng = np.random.default_rng(5)
    return {
        "edge_index": rng.integers(0, NODES, (2, EDGES)),
        "edge_weight": rng.random(EDGES, np.float32),
        "edge_time": rng.integers(-9, 9, EDGES),
        "edge_attr": rng.random((EDGES, 3), np.float32),
        "x": rng.random((NODES, 5), np.float32),
        "y": rng.integers(0, 4, NODES),
        "year": rng.integers(1990, 2020, NODES).astype(np.int16),
        "train": rng.random(NODES) < 0.5,
        "test": rng.permutation(NODES)[:7],
    }


def build(folder: Path, values: Values, **options: Any) -> dict[str, bytes]:
    """The bytes of all files."""
    nodes = {"x": values["x"], "y": values["y"], "year": values["year"]}
    edges = {name: value for name, value in values.items() if name.startswith("edge_")}
    splits = {name: values[name] for name in ("train", "test")}
    build_dataset(folder, edges, nodes=nodes, splits=splits, **options)
    return files_of(folder)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}


def named(path: Path, arrays: Arrays) -> Values:
    return {name: f"{path}:{name}" for name in arrays}


def as_npy(folder: Path, arrays: Arrays) -> Values:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return {name: folder / f"{name}.npy" for name in arrays}


def as_npz(folder: Path, arrays: Arrays) -> Values:
    np.savez(folder / "data.npz", **arrays)
    return named(folder / "data.npz", arrays)


def as_deflated(folder: Path, arrays: Arrays) -> Values:
    np.savez_compressed(folder / "data.npz", **arrays)
    return named(folder / "data.npz", arrays)


def as_recognised(folder: Path, arrays: Arrays) -> Values:
    return dict.fromkeys(as_deflated(folder, arrays), folder / "data.npz")


def as_zip_of_any_kind(method: int) -> Callable[[Path, Arrays], Values]:
    def write(folder: Path, arrays: Arrays) -> Values:
        with zipfile.ZipFile(folder / "data.npz", "w", method) as archive:
            archive.writestr("README", b"not an array")
            for name, array in arrays.items():
                order = np.asfortranarray(array) if name == "edge_attr" else array
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, order)
        return named(folder / "data.npz", arrays)

    return write


def as_appended_zip(folder: Path, arrays: Arrays) -> Values:
    """Offsets in the zip file do not count what stands before it, as in a self-extracting one."""
    path = folder / "data.npz"
    as_npz(folder, arrays)
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    return named(path, arrays)


def tensors_of(arrays: Arrays) -> dict[str, Any]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def as_tensors(folder: Path, arrays: Arrays) -> Values:
    tensors = tensors_of(arrays)
    return {**tensors, "x": tensors["x"].requires_grad_()}


def as_pt(folder: Path, arrays: Arrays) -> Values:
    torch.save({**tensors_of(arrays), "name": "a graph", "size": 3}, folder / "data.pt")
    return named(folder / "data.pt", arrays)


def as_nested_pt(folder: Path, arrays: Arrays) -> Values:
    tensors = tensors_of(arrays)
    edges = {name: tensors.pop(name) for name in arrays if name.startswith("edge_")}
    torch.save({"paper": tensors, ("paper", "to", "paper"): edges}, folder / "data.pt")
    place = {name: "paper__to__paper" if name in edges else "paper" for name in arrays}
    return {name: f"{folder / 'data.pt'}:{place[name]}/{name}" for name in arrays}


def as_safetensors(folder: Path, arrays: Arrays) -> Values:
    save_file(arrays, folder / "data.safetensors", metadata={"made": "by a test"})
    return named(folder / "data.safetensors", arrays)


def cut(array: np.ndarray[Any, Any], sizes: tuple[int, ...] = (1, 0, 7, 50)) -> Iterator[Any]:
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(array):
            return
        yield array[at : at + size]
        at += size


def as_chunks(folder: Path, arrays: Arrays) -> Values:
    edges = arrays["edge_index"]
    chunks: Values = {name: cut(array) for name, array in arrays.items()}
    pairs = zip(cut(edges[0]), cut(edges[1].astype(np.int32)), strict=True)
    return {**chunks, "edge_index": pairs}


def frames(kind: Any) -> Callable[[Path, Arrays], Values]:
    """Columns in any order: their names say what they are."""

    def write(folder: Path, arrays: Arrays) -> Values:
        edges = arrays["edge_index"]
        chunks = (kind({"dst": dst, "src": src}) for src, dst in zip(*map(cut, edges), strict=True))
        return {**arrays, "edge_index": chunks}

    return write


def as_functions(folder: Path, arrays: Arrays) -> Values:
    chunks: Values = {name: lambda array=array: cut(array) for name, array in arrays.items()}
    return {**chunks, "edge_index": lambda: (part.T for part in cut(arrays["edge_index"].T))}


SOURCES = [
    as_npy, as_npz, as_deflated, as_recognised, as_appended_zip, as_tensors, as_pt, as_nested_pt,
    as_safetensors, as_chunks, as_functions,
    *map(frames, (dict, pd.DataFrame, pl.DataFrame, pa.table)),
    *(as_zip_of_any_kind(kind) for kind in (
        zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA
    )),
]  # fmt: skip


@pytest.mark.parametrize("write", SOURCES)
def test_a_source_gives_the_files_of_plain_arrays(tmp_path: Path, write: Any) -> None:
    arrays = make_arrays()
    expected = build(tmp_path / "plain", arrays)
    assert build(tmp_path / "built", write(tmp_path, arrays)) == expected


@pytest.mark.parametrize(
    ("dtype", "save", "transposed", "order"),
    [
        ("i1", np.save, True, "F"), ("u2", np.savez, False, "C"), (">i4", np.savez, True, "F"),
        (">i8", np.savez_compressed, False, "F"), ("u8", np.savez_compressed, True, "C"),
        ("u8", np.save, False, "C"), ("i1", np.savez_compressed, True, "F"),
    ],
)  # fmt: skip
def test_edges_of_any_integers_and_order(
    tmp_path: Path, dtype: str, save: Any, transposed: bool, order: Any
) -> None:
    edges = np.random.default_rng(2).integers(0, 120, (2, 40_000))
    given = np.array(edges.T if transposed else edges, dtype, order=order)
    path = tmp_path / ("e.npy" if save is np.save else "e.npz")
    save(path, given)
    weight = (np.arange(40_000) % 100).astype(dtype)
    for name, value in (("a", edges), ("b", path)):  # several pieces, which must fit together
        build_dataset(tmp_path / name, value, weight=weight, edge_ids=True, memory_limit=1 << 20)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


MATRIX = sp.coo_array(
    (np.array([1.5, 0, 2, 2, 3]), (np.array([0, 0, 2, 2, 1]), np.array([3, 1, 0, 0, 1]))),
    shape=(6, 6),
)


def matrices(folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """Sparse matrices, in memory and in files, and the same with SciPy in memory."""
    for kind in ("coo", "csr", "csc", "lil", "dok"):
        matrix = MATRIX.asformat(kind)
        yield kind, matrix, matrix.tocoo()
        if kind in ("coo", "csr", "csc"):
            old = getattr(sp, f"{kind}_matrix")(matrix)
            for compressed in (True, False):
                path = folder / f"{kind}{compressed}.npz"
                sp.save_npz(path, old if compressed else matrix, compressed=compressed)
                yield path.name, path, matrix.tocoo()
    dense = torch.from_numpy(np.stack([MATRIX.row, MATRIX.col]).astype(np.int64))
    coo = torch.sparse_coo_tensor(dense, torch.from_numpy(MATRIX.data), (6, 6))
    for tensor in (coo, coo.to_sparse_csr(), coo.to_sparse_csc()):
        alike = tensor if tensor.layout == torch.sparse_coo else tensor.to_sparse_coo()
        expected = sp.coo_array((alike._values().numpy(), alike._indices().numpy()), shape=(6, 6))
        if tensor.layout == torch.sparse_csc:
            expected = expected.tocsc().tocoo()
        yield str(tensor.layout), tensor, expected
        path = folder / f"{tensor.layout}.pt"
        torch.save({"adj": tensor}, path)
        yield path.name, path, expected


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_matrices_are_edges_with_weights(tmp_path: Path) -> None:
    for name, matrix, coo in matrices(tmp_path):
        edges = np.stack([coo.row, coo.col])
        plain = {"num_nodes": 6, "edge_ids": True}
        build_dataset(tmp_path / "p", edges, weight=coo.data, **plain)
        build_dataset(tmp_path / "b", matrix, edge_ids=True)
        assert files_of(tmp_path / "p") == files_of(tmp_path / "b"), name
        build_dataset(tmp_path / "p", {"edge_index": edges}, **plain)
        build_dataset(tmp_path / "b", {"edge_index": matrix}, weight=False, edge_ids=True)
        assert files_of(tmp_path / "p") == files_of(tmp_path / "b"), name


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("compressed", [True, False])
def test_rows_of_a_matrix_that_span_pieces(tmp_path: Path, kind: str, compressed: bool) -> None:
    rng = np.random.default_rng(1)
    ends = rng.integers(0, 9000, (2, 20_000)) ** 2 // 9000
    ends[0, :6000] = 5  # a row of several pieces, and many empty ones
    matrix = sp.coo_array((rng.random(20_000), ends), shape=(9500, 9500)).asformat(kind)
    sp.save_npz(tmp_path / "m.npz", matrix, compressed=compressed)
    coo = matrix.tocoo()
    options = {"edge_ids": True, "memory_limit": 1 << 20}
    edges, count = np.stack([coo.row, coo.col]), 9500
    build_dataset(tmp_path / "p", edges, weight=coo.data, num_nodes=count, **options)
    build_dataset(tmp_path / "b", tmp_path / "m.npz", **options)
    assert files_of(tmp_path / "p") == files_of(tmp_path / "b")


def test_a_matrix_says_how_many_nodes_each_end_has(tmp_path: Path) -> None:
    matrix = sp.csr_array(MATRIX.tocsr()[:4, :])
    kind = ("a", "to", "b")
    manifest = build_dataset(tmp_path / "t", {kind: matrix}, nodes={"a": {}, "b": {}})
    assert {name: node.num_nodes for name, node in manifest.nodes.items()} == {"a": 4, "b": 6}
    with pytest.raises(ValueError, match=r"'x' of 'b' has 5 rows.* a matrix of shape \(4, 6\)"):
        nodes = {"a": {}, "b": {"x": np.ones((5, 1))}}
        build_dataset(tmp_path / "t", {kind: matrix}, nodes=nodes)


def test_files_of_graphzero_02(tmp_path: Path) -> None:
    """The layout is that of files which graphzero 0.2.0 has written."""
    heads = (b"graphlit", 56, 24, 64, 128, 6, 3)
    body = struct.pack("<7Q8x3Q", *(0, 1, 2, 2, 2, 2, 3), *(1, 2, 0))
    (tmp_path / "u.gl").write_bytes(struct.pack("<8s7Q", *heads, 0) + body)
    weights = bytes(40) + struct.pack("<3f", 0.5, 1.5, 2.5)
    (tmp_path / "w.gl").write_bytes(struct.pack("<8s7Q", *heads, 1) + body + weights)
    rows = np.arange(12, dtype=np.float64).reshape(6, 2)
    (tmp_path / "x.gd").write_bytes(struct.pack("<8sIIQQ", b"GZDATA26", 0, 3, 6, 2) + bytes(rows))
    edges = np.array([[0, 1, 5], [1, 2, 0]])
    for name, weight in (("u", None), ("w", [0.5, 1.5, 2.5])):
        build_dataset(tmp_path / "p", {"edge_index": edges}, rows, weight=weight)
        build_dataset(tmp_path / "b", tmp_path / f"{name}.gl", tmp_path / "x.gd")
        assert files_of(tmp_path / "p") == files_of(tmp_path / "b")
    for end in (8, 63, 100, 150, 190):
        (tmp_path / "t.gl").write_bytes((tmp_path / "w.gl").read_bytes()[:end])
        with pytest.raises(ValueError, match=r"t\.gl is (truncated|not a graph file)"):
            build_dataset(tmp_path / "b", tmp_path / "t.gl")
    for given in ((tmp_path / "b" / "graph.gl",), (edges.T, tmp_path / "b" / "features.gd")):
        with pytest.raises(ValueError, match=r"is a file of this version.*graphzero\.reorder"):
            build_dataset(tmp_path / "c", *given)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(tmp_path: Path, dtype: Any) -> None:
    x = torch.rand(NODES, 5).to(dtype)
    torch.save(x, tmp_path / "x.pt")
    save_tensors({"x": x}, tmp_path / "x.safetensors")
    edges = make_arrays()["edge_index"]
    build_dataset(tmp_path / "p", edges, x)
    chunks = iter(x.split(7))
    for value in (tmp_path / "x.pt", tmp_path / "x.safetensors", chunks):
        build_dataset(tmp_path / "b", edges, value)
        assert files_of(tmp_path / "p") == files_of(tmp_path / "b")


def test_a_file_of_the_whole_name_wins(tmp_path: Path) -> None:
    edges = make_arrays()["edge_index"]
    np.savez(tmp_path / "data.npz", x=np.zeros((NODES, 1)))
    np.savez(tmp_path / "data.npz:x.npz", np.ones((NODES, 2)))
    build_dataset(tmp_path / "b", edges, tmp_path / "data.npz:x.npz")
    build_dataset(tmp_path / "p", edges, np.ones((NODES, 2)))
    assert files_of(tmp_path / "p") == files_of(tmp_path / "b")
