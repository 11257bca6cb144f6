"""Booleans are booleans: in files, in batches and in what is read."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402 (torch is optional)

NODES, EDGES = 60, 400
RNG = np.random.default_rng(0)
LIST = RNG.integers(0, NODES, (2, EDGES))
MANY = RNG.random((NODES, 3)) < 0.3


def test_other_bytes_of_a_damaged_file_are_true(tmp_path):
    gz.build(tmp_path / "d", LIST.T.copy(), MANY, num_nodes=NODES, order="input").close()
    path = tmp_path / "d" / "features.gd"
    content = bytearray(path.read_bytes())
    content[4096 : 4096 + 3] = b"\x07\x00\xff"
    path.write_bytes(content)
    with gz.open(tmp_path / "d") as ds:
        assert ds.features.gather([0]).view(np.uint8).tolist() == [[1, 0, 1]]
        assert ds.features.gather([0], dtype="float32").tolist() == [[1, 0, 1]]
        for how in ("pread", "willneed"):
            loader = gz.NeighborLoader(ds, [2], prefetch=gz.Prefetch(how))
            assert next(iter(loader)).x[0].view(torch.uint8).tolist() == [1, 0, 1]
        with pytest.raises(gz.FormatError, match="booleans other than 0 and 1"):
            ds.features.get_tensor()


def test_merging_and_other_dtypes(tmp_path):
    edges = {"edge_index": np.array([[0, 0, 1], [1, 1, 2]]), "flag": np.array([False, True, False])}
    with gz.build(tmp_path / "d", edges, coalesce="max", edge_ids=True) as ds:
        assert ds.edge_attributes["flag"].dtype == np.bool_
        assert sorted(ds.edge_attributes["flag"].get_tensor()) == [False, True]
    for how in ("sum", "mean"):
        with pytest.raises(ValueError, match=r"is not for bool: convert 'flag'.*'flag': 'max'"):
            gz.build(tmp_path / "d", edges, coalesce=how)
    with gz.build(tmp_path / "d", edges, weight_attrs="flag") as ds:
        assert sorted(ds.graph.weights) == [0, 0, 1]
    with gz.build(tmp_path / "d", edges, MANY[:3], feature_dtype="float16") as ds:
        np.testing.assert_array_equal(ds.features.gather(range(3)), MANY[:3])
    with pytest.raises(ValueError, match="float64 numbers are not stored as bool: compare them"):
        gz.build(tmp_path / "d", edges, np.ones((3, 2)), feature_dtype="bool")
