"""Rows of every dtype, as they are stored and as float32, by every way to read them."""

from __future__ import annotations

import struct

import files
import numpy as np
import pytest
from rows_files import first_rows, place

torch = pytest.importorskip("torch")

import numbers_of_dtypes as numbers  # noqa: E402 (it needs torch)

import graphzero as gz  # noqa: E402
from graphzero import _core  # noqa: E402
from graphzero.io.prefetch import direct_reader  # noqa: E402

pytestmark = [
    pytest.mark.core,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]

QUIET = np.uint32(1 << 22)


def equal_bits(got, wanted):
    """Of float32, where what is no number may be told to be a quiet one on the way."""
    got, wanted = got.view(np.uint32), wanted.view(np.uint32)
    no_number = (wanted & 0x7FFFFFFF) > 0x7F800000
    np.testing.assert_array_equal(got[~no_number], wanted[~no_number])
    np.testing.assert_array_equal(got[no_number] | QUIET, wanted[no_number] | QUIET)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_pattern_of_16_bits_is_exact(tmp_path, name):
    rows = np.arange(1 << 16, dtype=np.uint16).reshape(-1, 4).view(numbers.NAMES[name])
    files.write_rows(tmp_path / "x.gd", rows)
    store = gz.FeatureStore(tmp_path / "x.gd")
    assert f"dtype={name}" in repr(store)
    np.testing.assert_array_equal(np.asarray(store), rows)
    equal_bits(np.asarray(store, dtype=np.float32), numbers.as_float32(rows))
    got = store.gather(np.arange(len(rows)), dtype="float32")
    assert got.dtype == np.float32
    equal_bits(got, numbers.as_float32(rows))


def read_past_the_cache(store, engine, rows, num_resident_rows):
    """Rows by a direct reader, as float32."""
    dtype, code = store.conversion(np.float32)
    out = np.full((len(rows), *store.shape[1:]), np.nan, dtype)
    reader = direct_reader(store, engine, 4)
    try:
        fetched = reader.fetch(rows, first_rows(reader, num_resident_rows), 1)
        place(fetched, out.reshape(-1).view(np.uint8), 1, code)
    finally:
        reader.close()
    return out


ENGINES = [
    "pread",
    pytest.param(
        "uring", marks=pytest.mark.skipif(_core.uring_refusal() is not None, reason="no io_uring")
    ),
]


def save_at(path, rows, origin):
    """A ``.npy`` file whose numbers begin at some byte."""
    descr = rows.dtype.descr if rows.dtype.names else rows.dtype.str
    text = repr({"descr": descr, "fortran_order": False, "shape": rows.shape})
    length = origin - 10
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", length) + text.ljust(length - 1).encode()
    path.write_bytes(head + b"\n" + rows.tobytes())
    np.testing.assert_array_equal(np.load(path), rows)


# Of all dtypes; numbers that begin at odd places, and rows that pages and buffers cut.
CUT = [*((name, 67, 128) for name in numbers.NAMES), ("float16", 41, 128), ("bfloat16", 3, 129),
       ("int8", 5, 130), ("float64", 2049, 4095), ("float16", 40_001, 128)]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "width", "origin"), CUT)
def test_npy_files_as_they_are(tmp_path, engine, name, width, origin):
    count = max(3, 100_000 // width)
    rows = numbers.draw(numbers.NAMES[name], (count, width))
    save_at(tmp_path / "x.npy", rows, origin)
    nodes = np.random.default_rng(0).integers(0, count, min(2 * count, 4000))
    wanted = numbers.as_float32(rows)[nodes]
    with gz.FeatureStore(tmp_path / "x.npy") as store:
        assert store.dtype == rows.dtype
        assert numbers.as_bits(store.gather(nodes)) == numbers.as_bits(rows[nodes])
        np.testing.assert_array_equal(store.gather(nodes, dtype="float32"), wanted)
        got = read_past_the_cache(store, engine, nodes, count // 3)
        np.testing.assert_array_equal(got, wanted)


def test_dtypes_that_rows_cannot_have_are_refused(dataset, tmp_path):
    files.write_rows(tmp_path / "h.gd", np.ones((4, 3), np.float16))
    store = gz.FeatureStore(tmp_path / "h.gd")
    with pytest.raises(ValueError, match="float16 are gathered unchanged or as float32, not as"):
        store.gather([1], dtype="bfloat16")
    with pytest.raises(ValueError, match="contiguous float32 array .* not float16 of shape"):
        store.gather([1], np.empty((1, 3), np.float16), dtype=np.float32)
    ds, message = gz.open(dataset[0]), "feature_dtype must be 'float32', or None"
    with ds, pytest.raises(ValueError, match=message):
        gz.NeighborDataset(ds, feature_dtype="float16")
    assert gz.NeighborDataset(ds, feature_dtype="f4").feature_dtype == np.float32
