"""`FeatureStore`: rows by node id, from ``.gd`` and ``.npy``."""

from __future__ import annotations

import files
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero.store import format as gz_format
from graphzero.store.format import FileWriter

pytestmark = pytest.mark.core  # under AddressSanitizer, too

torch = pytest.importorskip("torch")


@given(
    shape=st.tuples(st.integers(1, 40), st.integers(0, 20)),
    dtype=st.sampled_from(list(gz_format.DTYPES.values())),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_gather_has_the_rows_of_the_nodes(tmp_path_factory, shape, dtype, data):
    rng = np.random.default_rng(shape[0] * 100 + shape[1])
    rows = (rng.random(shape) * 100).astype(dtype)
    rank = rng.permutation(shape[0]) if data.draw(st.booleans()) else None
    path = tmp_path_factory.mktemp("hypothesis") / "f.gd"
    files.write_rows(path, rows, rank=rank, wide=data.draw(st.booleans()))
    store = gz.FeatureStore(path)
    assert (store.shape, store.dtype, len(store)) == (shape, dtype, shape[0])
    nodes = data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=50))
    expected = rows[np.array(nodes, np.int64)]
    np.testing.assert_array_equal(store.gather(nodes), expected)
    path.unlink()


# Rows of 233 numbers, 18 MB in all, are written past the processor's caches.
@pytest.mark.parametrize("dim", [33, 233])
def test_many_rows_on_many_threads(tmp_path, dim):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5000, dim)).astype(np.float32)
    files.write_rows(tmp_path / "f.gd", rows, rank=rng.permutation(5000))
    store = gz.FeatureStore(tmp_path / "f.gd")
    nodes = rng.integers(0, 5000, 20_000)
    out = np.empty(20_000 * dim + 1, np.float32)[1:].reshape(20_000, dim)
    assert store.gather(nodes, out, 4) is out
    np.testing.assert_array_equal(out, rows[nodes])


def test_vectors_stay_vectors(tmp_path):
    labels = np.arange(10) % 3
    files.write_rows(tmp_path / "y.gd", labels)
    store = gz.FeatureStore(tmp_path / "y.gd")
    assert store.shape == (10,)
    assert store.feature_dim == 1
    assert store.gather([4, 5]).tolist() == [1, 2]
    assert store[4] == 1
    np.testing.assert_array_equal(np.asarray(store), labels)


@pytest.mark.parametrize("hot", [False, True])
def test_indexing_is_by_node_id(tmp_path, hot):
    rows = np.arange(40.0).reshape(10, 4)
    rank = np.random.default_rng(1).permutation(10) if hot else None
    files.write_rows(tmp_path / "f.gd", rows, rank=rank)
    store = gz.FeatureStore(tmp_path / "f.gd")
    np.testing.assert_array_equal(store[3], rows[3])
    np.testing.assert_array_equal(store.get_data(3), rows[3])
    np.testing.assert_array_equal(store[2:9:3], rows[2:9:3])
    np.testing.assert_array_equal(store[torch.tensor([5, 5, 0])], rows[[5, 5, 0]])
    np.testing.assert_array_equal(np.asarray(store), rows)
    np.testing.assert_array_equal(np.asarray(store, dtype=np.float32), rows.astype(np.float32))


def test_get_tensor_is_a_view_only_where_rows_are_nodes(tmp_path):
    rows = np.arange(40.0).reshape(10, 4)
    files.write_rows(tmp_path / "f.gd", rows)
    view = gz.FeatureStore(tmp_path / "f.gd").get_tensor()
    np.testing.assert_array_equal(view, rows)
    assert not view.flags.writeable
    rank = np.random.default_rng(1).permutation(10)
    files.write_rows(tmp_path / "hot.gd", rows, rank=rank)
    store = gz.FeatureStore(tmp_path / "hot.gd")
    with pytest.raises(ValueError, match="row i of a view is not node i"):
        store.get_tensor()
    np.testing.assert_array_equal(store.get_tensor(stored_order=True)[rank], rows)


@pytest.mark.parametrize("shape", [(20, 3), (20,), (0, 3)])
@pytest.mark.parametrize("dtype", ["f4", "u1"])
def test_npy_files_are_opened_as_they_are(tmp_path, shape, dtype):
    rows = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    np.save(tmp_path / "f.npy", rows)
    store = gz.FeatureStore(tmp_path / "f.npy")
    np.testing.assert_array_equal(store.get_tensor(), rows)
    if shape[0]:
        np.testing.assert_array_equal(store.gather([7, 3]), rows[[7, 3]])


def test_npy_files_that_cannot_be_mapped_are_refused(tmp_path):
    cases = {
        "C order": np.asfortranarray(np.ones((4, 3))),
        "dtype >f8": np.ones((4, 3), ">f8"),
        "dtype complex128": np.ones((4, 3), complex),
        "vector or a matrix": np.ones((4, 3, 2)),
    }
    for part, rows in cases.items():
        np.save(tmp_path / "f.npy", rows)
        with pytest.raises(gz.FormatError, match=part):
            gz.FeatureStore(tmp_path / "f.npy")
    np.save(tmp_path / "f.npy", np.ones((400, 3)))
    content = (tmp_path / "f.npy").read_bytes()
    (tmp_path / "f.npy").write_bytes(content[:-1])
    with pytest.raises(gz.FormatError, match="truncated"):
        gz.FeatureStore(tmp_path / "f.npy")
    (tmp_path / "f.npy").write_bytes(content[:20] + b"\xff" * 40 + content[60:])
    with pytest.raises(gz.FormatError, match="corrupt .npy file"):
        gz.FeatureStore(tmp_path / "f.npy")


def test_bad_calls_are_named(tmp_path):
    files.write_rows(tmp_path / "f.gd", np.zeros((10, 4)))
    store = gz.FeatureStore(tmp_path / "f.gd")
    with pytest.raises(IndexError, match=r"nodes\[1\] = 10 is out of range"):
        store.gather([0, 10])
    with pytest.raises(IndexError, match=r"nodes\[0\] = -1 is out of range"):
        store.get_data(-1)
    with pytest.raises(ValueError, match="must be integers"):
        store.gather([0.5])
    for out in (np.empty((1, 4)), np.empty((2, 4), np.float32), np.empty((4, 2)).T):
        with pytest.raises(ValueError, match="out must be a contiguous float64"):
            store.gather([0, 1], out)


def rewritten(path, **changes):
    header, _ = files.read_file(path)
    header = gz_format.Header(**{**header.__dict__, **changes})
    path.write_bytes(gz_format.encode_header(header) + path.read_bytes()[4096:])


def test_counts_that_contradict_the_rows_are_refused(tmp_path):
    path = tmp_path / "f.gd"
    for changes in ({"num_nodes": 11}, {"width": 5}, {"width": 2**63}, {"flags": 2}):
        files.write_rows(path, np.zeros((10, 4)))
        rewritten(path, **changes)
        with pytest.raises(gz.FormatError, match="section 'rows' has 40 elements"):
            gz.FeatureStore(path)
    header = gz_format.layout("features", [("other", "<f4", 3)], num_nodes=3, width=1)
    with FileWriter(path, header) as writer:
        writer.append("other", [1, 2, 3])
    with pytest.raises(gz.FormatError, match="lacks the section 'rows'"):
        gz.FeatureStore(path)
