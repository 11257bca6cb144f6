"""What the out-of-core benchmark reads: graphs of any size, and batches saved in every order."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import graphzero as gz

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import rmat
from benchmarks.disk_inputs import build_order, prepare_disk
from benchmarks.inputs import feature_rows, labels_of
from benchmarks.saved_batches import SavedBatches, load_batches, save_batches


def test_nodes_need_not_be_a_power_of_two(tmp_path: Path) -> None:
    edges = rmat.write_edges(tmp_path / "e.npy", 10, 20_000, num_nodes=600)
    assert edges.shape == (20_000, 2)
    assert 590 < edges.max() < 600
    assert edges.min() >= 0


def test_saved_batches_are_the_rows_of_their_nodes_in_every_order(tmp_path: Path) -> None:
    inputs = prepare_disk(tmp_path, num_nodes=3000, num_edges=30_000, dim=5)
    folders = {order: build_order(inputs, order) for order in ("input", "hot")}
    with gz.open(folders["input"]) as input_order, gz.open(folders["hot"]) as hot_order:
        stores = {"input": input_order.features, "hot": hot_order.features}
        paths = save_batches(
            tmp_path,
            input_order,
            stores,
            inputs.train,
            fanouts=[5, 5],
            batch_size=16,
            count=4,
        )
        for order, ds in (("input", input_order), ("hot", hot_order)):
            saved = load_batches(paths[order], 4)
            read = list(SavedBatches(ds, saved, prefetch=gz.Prefetch(), num_threads=2))
            assert len(read) == 4
            for one, (nodes, _, _) in zip(read, saved, strict=True):
                assert one.rows["x"].tobytes() == feature_rows(nodes, 5).tobytes()
                assert np.array_equal(one.subgraph.n_id, nodes)
                assert np.array_equal(ds.labels[nodes], labels_of(nodes))
    assert not np.array_equal(saved[0][0], saved[1][0])


def test_training_seeds_have_neighbors(tmp_path: Path) -> None:
    inputs = prepare_disk(tmp_path, num_nodes=3000, num_edges=30_000, dim=1)
    targets = np.unique(np.load(inputs.path("edges.npy"))[:, 1])
    assert np.isin(inputs.train, targets).all()
    assert inputs.train.size == -(-targets.size // 10)
    assert replace(inputs, seed=1).features_bytes == 12_000
