"""Another order of a dataset: what it refuses. That all stays the same: test_attributes.py."""

from __future__ import annotations

import os

import files
import numpy as np
import pytest
from files import read_file

import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.store.atomic import folder_lock
from graphzero.store.format import FileWriter, read_header
from graphzero.store.manifest import read_manifest

pytestmark = pytest.mark.no_asan  # the work is that of NumPy; the sort has C tests

SMALL = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)


def test_the_same_order_again_writes_nothing(tmp_path):
    build_dataset(tmp_path, [[0, 1], [1, 2], [2, 0]])
    before = {name: os.stat(tmp_path / name).st_mtime_ns for name in os.listdir(tmp_path)}
    reorder_dataset(tmp_path, "hot")
    assert {n: os.stat(tmp_path / n).st_mtime_ns for n in os.listdir(tmp_path)} == before


# --- what goes wrong


@pytest.mark.parametrize("name", ["graph.gl", "graph_out.gl", "features.gd", "split_train.gd"])
def test_damage_is_not_given_new_checksums(tmp_path, name):
    edges, options = files.random_edges(50, 300), {"splits": {"train": [1]}, "neighbors": "both"}
    build_dataset(tmp_path, edges, np.arange(50.0), **options)
    last = read_header(tmp_path / name).sections[-1]
    content = bytearray((tmp_path / name).read_bytes())
    content[last.offset] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(gz.FormatError, match=f"{name}: section '{last.name}' is corrupt"):
        reorder_dataset(tmp_path, "input")
    assert (tmp_path / name).read_bytes() == content
    assert read_manifest(tmp_path).order == "hot"


@pytest.mark.parametrize(
    ("name", "order"), [("graph.gl", "input"), ("graph.gl", "hot"), ("features.gd", "hot")]
)
def test_wrong_numbers_with_right_checksums(tmp_path, name, order):
    build_dataset(tmp_path, files.random_edges(50, 300), np.arange(50.0), order=order)
    header, arrays = read_file(tmp_path / name)
    message = "ids out of range"
    if name == "graph.gl":
        arrays["indices"].put(7, 50)
    else:
        arrays["node_rank"], message = arrays["node_rank"][::-1], "another order than the graph"
    with FileWriter(tmp_path / name, header) as writer:
        for section, array in arrays.items():
            writer.append(section, array)
    with pytest.raises(gz.FormatError, match="not the file that dataset.json describes"):
        reorder_dataset(tmp_path, "hot" if order == "input" else "input")
    files.forget_checksums(tmp_path)
    with pytest.raises(gz.FormatError, match=f"{name} has {message}"):
        reorder_dataset(tmp_path, "hot" if order == "input" else "input")


def test_wrong_use(tmp_path):
    with pytest.raises(FileNotFoundError, match="no dataset here"):
        gz.reorder(tmp_path / "nowhere", "hot")
    build_dataset(tmp_path, [[0, 1]], splits={"train": np.empty(0, int)})
    for order, options, message in (
        ("cold", {}, "order must be 'hot', 'input' or 'presample', not 'cold'"),
        ("hot", {"neighbors": "up"}, "neighbors must be 'in', 'out' or 'both', not 'up'"),
        ("hot", {"presample": SMALL}, "presample= is for order='presample', not 'hot'"),
        ("presample", {}, "training split has no nodes"),
    ):
        with pytest.raises(ValueError, match=message):
            gz.reorder(tmp_path, order, **options)
    with pytest.raises(ValueError, match="needs something that samples"):
        reorder_dataset(tmp_path, "presample")
    with folder_lock(tmp_path), pytest.raises(BlockingIOError, match="another build"):
        gz.reorder(tmp_path, "input")
    assert read_manifest(tmp_path).order == "hot"
