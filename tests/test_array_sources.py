"""Arrays of every kind: they give the files that plain arrays give, or are refused by name.

The bytes of builds from all common sources are recorded; see `recorded_sources.py`. Here are those
of which the recording has none; damaged, hostile and unclear ones leave an earlier dataset alone.
"""

from __future__ import annotations

import importlib
import itertools
import re
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from files import contents
from safetensors.numpy import save_file

from graphzero.ingest import build_dataset
from graphzero.ingest.sources import torch_file
from graphzero.ingest.sources.arrays import open_array
from graphzero.ingest.sources.columns import pieces_of

# Python only: the C code below it is sanitized by other tests of the build.
pytestmark = pytest.mark.no_asan

NODES = 40
EDGE_INDEX = np.random.default_rng(3).integers(0, 50, (2, 4000))


def cut(array: np.ndarray[Any, Any], sizes: tuple[int, ...] = (1, 0, 7, 50)) -> Iterator[Any]:
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(array):
            return
        yield array[at : at + size]
        at += size


def zipped(path: Path, method: int, arrays: dict[str, Any]) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("README", b"not an array")
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array)


@pytest.mark.parametrize("kind", ["bz2", "lzma", "appended", "empty chunks"])
def test_a_source_gives_the_files_of_plain_arrays(tmp_path: Path, kind: str) -> None:
    edges = np.random.default_rng(5).integers(0, NODES, (2, 300))
    x = np.random.default_rng(6).random((NODES, 5), np.float32)
    arrays: dict[str, Any] = {"edge_index": edges, "x": np.asfortranarray(x)}
    path = tmp_path / "data.npz"
    values: Any = [f"{path}:{name}" for name in arrays]
    methods = {"bz2": zipfile.ZIP_BZIP2, "lzma": zipfile.ZIP_LZMA}
    zipped(path, methods.get(kind, zipfile.ZIP_STORED), arrays)
    if kind == "appended":  # as in a self-extracting file, whose offsets do not count what precedes
        path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    elif kind == "empty chunks":
        values = [zip(*map(cut, edges), strict=True), torch.tensor(x).requires_grad_()]
    build_dataset(tmp_path / "plain", edges, x)
    build_dataset(tmp_path / "built", *values)
    assert contents(tmp_path / "built") == contents(tmp_path / "plain")


MATRIX = sp.coo_array(
    (np.array([1.5, 0, 2, 2, 3]), (np.array([0, 0, 2, 2, 1]), np.array([3, 1, 0, 0, 1]))),
    shape=(6, 6),
)


@pytest.mark.parametrize("kind", ["csr", "csc", "dok"])
def test_matrices_with_long_and_empty_rows_equal_entries_and_zeros(
    tmp_path: Path, kind: str
) -> None:
    rng = np.random.default_rng(1)
    ends = rng.integers(0, 9000, (2, 20_000)) ** 2 // 9000
    ends[0, :6000] = 5  # a row of several pieces, and many empty ones
    weights = rng.random(20_000) * (rng.random(20_000) < 0.8)
    matrix = sp.coo_array((weights, ends), shape=(9500, 9500)).asformat(kind)
    coo = matrix.tocoo()
    options = {"edge_ids": True, "memory_limit": 1 << 20}
    edges, count = np.stack([coo.row, coo.col]), 9500
    build_dataset(tmp_path / "p", edges, weight=coo.data, num_nodes=count, **options)
    build_dataset(tmp_path / "b", matrix, **options)
    assert contents(tmp_path / "p") == contents(tmp_path / "b")


# --- what cannot be read


@pytest.mark.parametrize("name", ["indptr", "indices", "data", "shape", "format"])
@pytest.mark.parametrize("values", [7, [[0, 0]] * 3, [3, -3], [3, 3, 3], [0, 1, 9, 9], b"xyz"])
def test_damaged_files_of_matrices(tmp_path: Path, refused: Any, name: str, values: Any) -> None:
    parts = {"indptr": [0, 2, 3, 5], "indices": [0, 1, 2, 0, 1], "data": [1.0] * 5, name: values}
    np.savez_compressed(tmp_path / "m.npz", **{"format": b"csr", "shape": [3, 3], **parts})
    refused(r"m\.npz|edges", tmp_path / "m.npz")


def test_safetensors_that_cannot_be_read(
    tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "e.safetensors"
    save_file({"e": EDGE_INDEX}, path)
    whole = path.read_bytes()
    for size in (0, 7, 8, 50, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(r"e\.safetensors is not a complete safetensors file", path)
    path.write_bytes(whole)
    refused(r"e\.safetensors has not one array 'x'; it has e \(", f"{path}:x")
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    refused(r"e\.safetensors needs .* pip install safetensors", path, kind=ImportError)


@pytest.mark.filterwarnings("ignore:overflow")
def test_files_of_graphzero_02(tmp_path: Path, refused: Any) -> None:
    """The layout is that of files which graphzero 0.2.0 has written."""
    heads = (b"graphlit", 56, 24, 64, 128, 6, 3)
    body = struct.pack("<7Q8x3Q", *(0, 1, 2, 2, 2, 2, 3), *(1, 2, 0))
    whole = struct.pack("<8s7Q", *heads, 1) + body + bytes(40) + struct.pack("<3f", 0.5, 1.5, 2.5)
    (tmp_path / "w.gl").write_bytes(whole)
    rows = np.arange(12, dtype=np.float64).reshape(6, 2)
    (tmp_path / "x.gd").write_bytes(struct.pack("<8sIIQQ", b"GZDATA26", 0, 3, 6, 2) + bytes(rows))
    edges = np.array([[0, 1, 5], [1, 2, 0]])
    build_dataset(tmp_path / "p", {"edge_index": edges}, rows, weight=[0.5, 1.5, 2.5])
    build_dataset(tmp_path / "b", tmp_path / "w.gl", tmp_path / "x.gd")
    assert contents(tmp_path / "p") == contents(tmp_path / "b")
    build_dataset(tmp_path / "q", {"edge_index": edges}, num_nodes=6)
    (tmp_path / "w.gl").write_bytes(whole[:56] + bytes(8) + whole[64:])
    build_dataset(tmp_path / "c", tmp_path / "w.gl")
    assert contents(tmp_path / "q") == contents(tmp_path / "c")
    bad = tmp_path / "t.gl"
    for end in (4, 8, 63, 100, 150, 190):
        bad.write_bytes(whole[:end])
        refused(r"t\.gl is not a complete \.gl file of graphzero 0\.2", bad)
    for at in range(56):
        for bit in (1, 128):
            bad.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            refused(r"t\.gl is not a (complete \.gl file|valid CSR matrix)", bad)
    bad = tmp_path / "t.gd"
    for head in ((9, 6, 2), (2**32 - 1, 6, 2), (3, 7, 2), (3, 2**63, 2), (3, 2**62, 2**62)):
        bad.write_bytes(struct.pack("<8sIIQQ", b"GZDATA26", 0, *head) + bytes(96))
        refused(r"t\.gd is not a complete \.gd file of graphzero 0\.2", edges.T, bad)
    for inputs in ((tmp_path / "b" / "graph.gl",), (edges.T, tmp_path / "b" / "features.gd")):
        refused(r"it is of this version.*graphzero\.reorder", *inputs)


def test_npz_cut_at_any_byte(tmp_path: Path, refused: Any) -> None:
    np.savez_compressed(tmp_path / "whole.npz", e=EDGE_INDEX[:, :100])
    whole, path = (tmp_path / "whole.npz").read_bytes(), tmp_path / "e.npz"
    for size in (0, 1, 30, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(r"e\.npz is not a complete \.npz file", path)


def read_or_refused(path: Path) -> tuple[str, Any]:
    try:
        return "", np.concatenate(list(pieces_of(open_array(path, "e"), 1000)))
    except (ValueError, OSError) as error:
        return str(error), None


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_with_any_byte_changed(tmp_path: Path, save: Any) -> None:
    """It is read right, or refused by name: of values that are mapped, only their bytes differ."""
    save(tmp_path / "e.npz", e=EDGE_INDEX)
    whole, path = (tmp_path / "e.npz").read_bytes(), tmp_path / "e.npz"
    rng, refusals = np.random.default_rng(0), 0
    inside = rng.integers(0, len(whole), 150).tolist()
    for at in [*range(0, 160), *inside, *range(len(whole) - 120, len(whole))]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        message, values = read_or_refused(path)
        refusals += values is None
        if values is None:
            assert "e.npz" in message
        else:
            assert values.shape == EDGE_INDEX.shape or save is np.savez
            assert save is np.savez or np.array_equal(values, EDGE_INDEX)
    assert refusals > (250 if save is np.savez_compressed else 60)


def rewrite(path: Path, *changes: tuple[bytes, int, bytes]) -> None:
    """Sets some bytes, so many behind each place of a signature."""
    data = path.read_bytes()
    for signature, offset, value in changes:
        for found in re.finditer(re.escape(signature), data):
            at = found.start() + offset
            data = data[:at] + value + data[at + len(value) :]
    path.write_bytes(data)


def test_npz_that_cannot_be_read(tmp_path: Path, refused: Any) -> None:
    path, local, central = tmp_path / "e.npz", b"PK\x03\x04", b"PK\x01\x02"
    for message, *changes in (
        ("encrypted", (local, 6, b"\1\0"), (central, 8, b"\1\0")),
        ("compression", (local, 8, b"c\0"), (central, 10, b"c\0")),
    ):
        np.savez_compressed(path, e=EDGE_INDEX)
        rewrite(path, *changes)
        refused(rf"e\.npz:e is not a complete NumPy array: .*{message}", path)
    np.savez(path, e=np.array([object()]))
    refused(r"e\.npz:e is not a complete NumPy array", path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", b"text")
    refused(r"e\.npz holds no arrays", path)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for shape in ((2, 1 << 60), (2, 5), (2, 3), (1 << 40, 1 << 40, 2), (-2, -4)):
            with zipfile.ZipFile(path, "w", method) as archive, archive.open("e.npy", "w") as file:
                header = {"descr": "<i8", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                file.write(bytes(64))
            refused(r"e\.npz:e is not a complete NumPy array", path)


def test_which_array_is_never_guessed(tmp_path: Path, refused: Any) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, a=EDGE_INDEX, b=np.ones((50, 3), np.float32))
    listed = r"d\.npz has a \(\(2, 4000\) int64\), b \(\(50, 3\) float32\): name the array"
    refused(listed, path)
    refused(listed, EDGE_INDEX, path)
    refused(r"d\.npz has not one array 'c'; it has a \(", EDGE_INDEX, f"{path}:c")
    np.savez(path, edge_index=EDGE_INDEX)
    refused("name the array", EDGE_INDEX, path)  # the only array is of another kind
    refused("none.npz", f"{tmp_path / 'none.npz'}:e", kind=FileNotFoundError)
    np.savez(path, a=np.zeros(0), b=np.ones(0))
    rewrite(path, (b"b.npy", 0, b"a.npy"))
    refused("not one array 'a'; it has a .* a ", f"{path}:a")


class Other:
    pass


def test_torch_files_that_cannot_be_read(
    tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "e.pt"
    torch.save({"e": torch.from_numpy(EDGE_INDEX)}, path)
    whole = path.read_bytes()
    for size in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(r"e\.pt is not a complete torch file", path)
    torch.save({"e": torch.from_numpy(EDGE_INDEX), "o": Other()}, path)
    refused(r"e\.pt has an object of .*Other, and only tensors", path)
    torch.save({"e": [1, 2], "n": 3}, path)
    refused(r"e\.pt holds no arrays", path)
    tensor = torch.from_numpy(EDGE_INDEX)
    torch.save(torch.ones(50, 2, dtype=torch.complex64), path)
    refused(r"e\.pt has dtype complex64: it must hold numbers", EDGE_INDEX, path)
    torch.save(torch.ones(50, 2).to(torch.float8_e4m3fn), path)
    refused(r"e\.pt has dtype torch.float8_e4m3fn, which is not read", EDGE_INDEX, path)
    torch.save(tensor, path, _use_new_zipfile_serialization=False)
    monkeypatch.setattr(torch_file, "_MOST_UNMAPPED_BYTES", 1000)
    refused(r"e\.pt has .* bytes in a form that cannot be mapped.* Save its tensors again", path)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_matrices_that_are_no_edges(refused: Any) -> None:
    csr = MATRIX.tocsr()
    refused(r"shape \(4, 6\), with 4 rows, but edges is a matrix .* with 6 columns", csr[:4])
    refused("a DIA matrix .*eliminate_zeros", csr.todia())
    refused(r"matrix of shape \(6,\): edges have two", sp.coo_array(np.arange(6)))
    refused("entry 1: weight -1.5 is negative", -csr)
    refused(r"num_nodes=7, but edges is a matrix of shape \(6, 6\)", csr, num_nodes=7)
    refused("weight=array.*give the name of the column", csr, weight=np.ones(csr.nnz))
    refused("features are stored dense", EDGE_INDEX, sp.eye(50).tocsr())
    blocks = torch.ones(4, 4).to_sparse_bsr((2, 2))
    refused("a BSR matrix", blocks)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("indptr", [0, 3, 2, 5], "not a valid CSR"),
        ("indptr", [0, 9, 2, 5], "not a valid CSR"),
        ("indptr", [0, 2, 3, 4], "not a valid CSR"),
        ("indptr", [0, 2, 5], r"not a valid CSR matrix of shape \(3, 3\): each entry needs"),
        ("indices", [0, 1, 2, 0, 3], "target id 3 is out of range for 3 nodes"),
        ("indices", [0, 1, 2, 0, -1], "-1 is not a target id"),
        ("data", [1.0, 2.0], "not a valid CSR"),
        ("_shape", (1 << 40, 1 << 40), "not a valid CSR"),
    ],
)
def test_damaged_matrices(refused: Any, name: str, values: Any, message: str) -> None:
    """SciPy checks little of what a file holds, and nothing of what is changed later."""
    matrix = sp.csr_array(([1.0] * 5, [0, 1, 2, 0, 1], [0, 2, 3, 5]), shape=(3, 3))
    setattr(matrix, name, values if name == "_shape" else np.array(values))
    refused(message, matrix)


PAIR = (np.array([0, 1, 2]), np.array([1, 2, 0]))


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([PAIR, (PAIR[0], PAIR[1][:2])], "chunk 1 cannot be read: .*Yield pairs of equally long"),
        ([PAIR, (PAIR[0], np.array([1, -1, 0]))], "edges, chunk 1, edge 1: -1 is not a target id"),
        ([(*PAIR, np.ones(3))], "chunk 0 cannot be read: .*Yield pairs.*'weight'"),
        ([np.zeros((3, 3), int)], r"chunk 0 cannot be read: it has shape \(3, 3\), and not"),
        ([np.zeros((2, 2), int)], r"chunk 0 cannot be read: it has shape \(2, 2\), which may be"),
        ([EDGE_INDEX, EDGE_INDEX.T], r"chunk 1 .* shape \(4000, 2\), and earlier ones the other"),
        ([PAIR, (PAIR[0] > 0, PAIR[1] > 0)], "chunk 1 .* columns are not those of chunk 0"),
        (
            [{"src": PAIR[0], "dst": PAIR[1], "weight": [1.0, -2, 3]}],
            "chunk 0, edge 1: weight -2.0",
        ),
        ([], "has no edges"),
    ],
)
def test_chunks_that_are_no_edges(refused: Any, chunks: Any, message: str) -> None:
    refused(message, iter(chunks))


@pytest.mark.parametrize("across", [False, True])
def test_chunks_of_edges_may_be_arrays(tmp_path: Path, across: bool) -> None:
    """Where one of them has shape (2, 2), the others say which way it is meant."""
    pieces: Any = [EDGE_INDEX.T[:0], EDGE_INDEX.T[:50], torch.tensor(EDGE_INDEX.T[50:52])]
    pieces += [EDGE_INDEX.T[52:]]
    chunks = [piece.T if across else piece for piece in pieces]
    build_dataset(tmp_path / "p", EDGE_INDEX)
    build_dataset(tmp_path / "b", iter(chunks))
    assert contents(tmp_path / "b") == contents(tmp_path / "p")
    build_dataset(tmp_path / "e", {"edge_index": EDGE_INDEX[:, :2]})
    build_dataset(tmp_path / "f", {"edge_index": iter([EDGE_INDEX[:, :2]])})
    assert contents(tmp_path / "f") == contents(tmp_path / "e")


ROWS = np.ones((25, 2), np.float32)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([ROWS, ROWS[:, :1]], r"features, chunk 1 has dtype float32 and rows of shape \(1,\)"),
        ([ROWS], "features has 25 rows|node 25|out of range for 25 nodes"),
        ([1.0, 2.0], "chunk 0 is 1.0: yield arrays of many rows"),
        ([pd.DataFrame(ROWS)], "chunk 0 is a DataFrame, whose columns have names, .* as an array"),
        ([], "features is an iterator without any chunk"),
        ([ROWS, np.array([["a", "b"]])], "features, chunk 1 has dtype <U1: it must hold numbers"),
    ],
)
def test_chunks_that_are_no_rows(refused: Any, chunks: Any, message: str) -> None:
    refused(message, EDGE_INDEX, iter(chunks))


@pytest.mark.parametrize("kind", [ValueError, TypeError])
def test_errors_of_the_user_are_passed_on(refused: Any, kind: Any) -> None:
    def fail(part: Any) -> Any:
        yield part
        raise kind("of the user")

    for args in ((fail(PAIR),), (lambda: fail(PAIR),), (EDGE_INDEX, fail(ROWS))):
        refused("of the user", *args, kind=kind)
    refused("returns NoneType, not an iterator", EDGE_INDEX, lambda: None)


# --- graphs of PyG in files of torch.save: the user reads them, mapped, in one line

LINE = r"from_data\(torch\.load\(file, weights_only=False, mmap=True\), "


def test_the_line_that_errors_show_stores_the_graph_in_the_file(tmp_path: Path) -> None:
    Data = pytest.importorskip("torch_geometric.data").Data
    from_data = importlib.import_module("graphzero.pyg").from_data
    rng = torch.Generator().manual_seed(0)
    data, file = Data(x=torch.randn(30, 4, generator=rng)), tmp_path / "g.pt"
    data.edge_index, data.name = torch.randint(0, 30, (2, 100), generator=rng), "a graph"
    torch.save(data, file)
    with pytest.raises(TypeError, match=f"not {type(file).__name__}.*{LINE}"):
        from_data(file, tmp_path / "b")
    with pytest.raises(ValueError, match=f"g.pt has an object of .*{LINE}"):
        build_dataset(tmp_path / "b", file)
    assert not (tmp_path / "b").exists()
    from_data(data, tmp_path / "p")
    from_data(torch.load(file, weights_only=False, mmap=True), tmp_path / "b")
    assert contents(tmp_path / "b") == contents(tmp_path / "p")
