"""The model, its training, and what is reported about it."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import graphzero as gz
from graphzero import _core
from graphzero.training.demo_graph import write_demo
from graphzero.training.evaluate import predict_scores
from graphzero.training.graphsage import GraphSAGE, mean_of_neighbors
from graphzero.training.metrics import majority_share, roc_auc
from graphzero.training.train import train

# what is tested is Python; its C code runs under the sanitizers in other tests
pytestmark = pytest.mark.no_asan

SPLITS = ("train", "val", "test")


@pytest.fixture(scope="module")
def communities(tmp_path_factory):
    """A dataset of 1,500 nodes in four classes, which features alone hardly tell apart."""
    folder = tmp_path_factory.mktemp("communities")
    files = write_demo(folder, num_nodes=1500, num_edges=15_000, dim=16, num_classes=4)
    gz.build(
        folder / "data", files.edges, files.features, files.labels, files.splits, directed=False
    ).close()
    return folder / "data"


@pytest.fixture
def ds(communities):
    with gz.open(communities) as dataset:
        yield dataset


def without_times(report):
    content = dataclasses.asdict(report)
    del content["memory"]
    for epoch in content["epochs"]:
        for name in ("seconds", "batches_per_second", "loading", "waited"):
            del epoch[name]
    return content


def make(folder, name, **parts):
    return gz.build(folder / name, np.array([[0, 1], [1, 2], [2, 3]]), **parts)


# --- model


def naive_layer(layer, x, edge_index):
    rows = []
    for node in range(x.shape[0]):
        sources = edge_index[0][edge_index[1] == node]
        mean = x[sources].mean(0) if len(sources) else torch.zeros(x.shape[1])
        rows.append(layer.lin_self(x[node]) + layer.lin_neigh(mean))
    return torch.stack(rows)


def a_batch(ds, fanouts):
    batches = gz.NeighborDataset(ds, ds.splits["train"], fanouts, batch_size=50, shuffle=True)
    return next(iter(DataLoader(batches, batch_size=None, collate_fn=gz.Collate(ds))))


@pytest.mark.parametrize("fanouts", [[4], [5, 3], [3, -1, 2]])
def test_the_trimmed_forward_equals_naive_layers_over_everything(ds, fanouts):
    batch = a_batch(ds, fanouts)
    torch.manual_seed(0)
    model = GraphSAGE(16, 8, 4, len(fanouts)).eval()
    trimmed = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    whole = model(batch.x, batch.edge_index)
    naive = batch.x
    for i, layer in enumerate(model.layers):
        naive = naive_layer(layer, naive, batch.edge_index)
        naive = naive.relu() if i < len(fanouts) - 1 else naive
    assert trimmed.shape == (batch.batch_size, 4)
    assert whole.shape == (batch.num_nodes, 4)
    torch.testing.assert_close(whole, naive)
    torch.testing.assert_close(trimmed, whole[: batch.batch_size])


def test_trimming_leaves_out_the_outer_hops(ds):
    batch = a_batch(ds, [3, 3])
    model = GraphSAGE(16, 8, 4, 2).eval()
    seen = []
    for layer in model.layers:
        layer.register_forward_hook(lambda _m, _args, out: seen.append(out.shape[0]))
    model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    assert seen == [sum(batch.num_sampled_nodes[:2]), batch.batch_size]


def test_the_mean_of_no_neighbours_is_zero():
    x = torch.tensor([[1.0], [3.0], [8.0]], requires_grad=True)
    means = mean_of_neighbors(x, torch.tensor([[1, 2, 2], [1, 1, 2]]), 3)
    assert means.flatten().tolist() == [0.0, 5.5, 8.0]
    means.sum().backward()
    assert x.grad.flatten().tolist() == [0.0, 0.5, 1.5]
    none = torch.empty((2, 0), dtype=torch.long)
    assert mean_of_neighbors(x, none, 2).tolist() == [[0.0], [0.0]]


def test_dropout_acts_in_training_only(ds):
    batch = a_batch(ds, [3])
    model = GraphSAGE(16, 8, 4, 1, dropout=0.5)
    model.train()
    assert not torch.equal(model(batch.x, batch.edge_index), model(batch.x, batch.edge_index))
    model.eval()
    assert torch.equal(model(batch.x, batch.edge_index), model(batch.x, batch.edge_index))


# --- metrics


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=60))
def test_auc_is_the_share_of_pairs_in_the_right_order(pairs):
    scores = np.array([score for score, _ in pairs], dtype=np.float32)
    positive = np.array([is_positive for _, is_positive in pairs])
    won = [
        (high > low) + 0.5 * (high == low) for high in scores[positive] for low in scores[~positive]
    ]
    if won:
        assert roc_auc(scores, positive) == pytest.approx(np.mean(won))
    else:
        assert np.isnan(roc_auc(scores, positive))


def test_majority_share():
    assert majority_share(np.array([2, 0, 2, 2])) == 0.75
    assert np.isnan(majority_share(np.array([], dtype=np.int64)))


# --- training


def test_neighbours_are_learnt_from(ds):
    seen = []
    report = train(ds, epochs=20, batch_size=256, dropout=0.2, on_epoch=seen.append)
    assert report.splits["test"].accuracy > 0.6
    assert report.splits["test"].majority < 0.35
    assert report.splits["test"].roc_auc is None
    assert {name: split.num_nodes for name, split in report.splits.items()} == {
        "train": 900,
        "val": 300,
        "test": 300,
    }
    assert tuple(seen) == report.epochs
    assert [epoch.epoch for epoch in report.epochs] == list(range(1, 21))
    assert {epoch.batches for epoch in report.epochs} == {4}
    best = report.epochs[report.best_epoch - 1].val_accuracy
    assert best == max(epoch.val_accuracy for epoch in report.epochs)
    assert best == report.splits["val"].accuracy, "the best epoch's weights must be put back"
    assert all(0 < epoch.loading < epoch.seconds for epoch in report.epochs)
    assert report.memory.page_cache is None or report.memory.page_cache <= report.memory.dataset


def test_edges_and_not_features_alone_make_the_difference(ds, communities, tmp_path):
    labels = ds.labels.gather(np.arange(1500))
    alone = gz.build(
        tmp_path / "alone",
        np.repeat(np.arange(1500), 2).reshape(-1, 2),  # self-loops only
        ds.features.gather(np.arange(1500)),
        labels,
        {name: ds.splits[name] for name in SPLITS},
    )
    options = {"epochs": 20, "batch_size": 256, "dropout": 0.2}
    with alone:
        without = train(alone, **options).splits["test"].accuracy
    assert train(ds, **options).splits["test"].accuracy > without + 0.15


def test_a_seed_decides_everything(ds):
    options = {"epochs": 3, "batch_size": 256}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = without_times(train(ds, seed=7, **options))
    assert torch.equal(torch.rand(3), expected), "torch's own generator must be left alone"
    torch.manual_seed(6)
    assert without_times(train(ds, seed=7, **options)) == first
    assert without_times(train(ds, seed=8, **options)) != first


def test_workers_change_nothing_and_are_counted(ds):
    options = {"epochs": 2, "batch_size": 256}
    alone, helped = train(ds, **options), train(ds, workers=2, **options)
    assert without_times(helped) == without_times(alone)
    assert helped.memory.processes >= alone.memory.processes + 2


def test_a_pack_trains_as_its_batches_do(ds, tmp_path):
    out, seeds = tmp_path / "p.gd", ds.splits["train"]
    gz.pack(ds, out, seeds, [4, 3], epochs=2, batch_size=200, shuffle=True, seed=7, resident=0.2)
    packed = train(ds, epochs=2, seed=7, pack=out)
    plain = train(ds, epochs=2, seed=7, fanouts=[4, 3], batch_size=200)
    assert packed.io != plain.io
    same = [dataclasses.replace(report, io="") for report in (packed, plain)]
    for report in same:
        epochs = [dataclasses.replace(epoch, io="") for epoch in report.epochs]
        object.__setattr__(report, "epochs", tuple(epochs))
    assert without_times(same[0]) == without_times(same[1])
    for options in ({"fanouts": [4, 3]}, {"batch_size": 200}):
        with pytest.raises(ValueError, match="a pack has its own fanouts and batch size"):
            train(ds, pack=out, **options)
    gz.pack(ds, out, seeds[:-1], [4, 3], epochs=1, batch_size=200, overwrite=True)
    with pytest.raises(ValueError, match="was packed with other inputs: num_seeds .* seeds_crc"):
        train(ds, pack=out)


def test_two_classes_have_a_roc_auc_and_unknown_labels_are_left_out(ds, tmp_path):
    classes = ds.labels.gather(np.arange(1500))
    labels = np.where(classes == 3, -1, classes % 2).astype(np.int32)
    edges = np.stack(
        [np.repeat(np.arange(1500), 5), np.random.default_rng(0).integers(0, 1500, 7500)], axis=1
    )
    features = labels.reshape(-1, 1) + np.random.default_rng(1).standard_normal((1500, 1))
    splits = {"train": ds.splits["train"], "valid": ds.splits["val"]}
    with gz.build(tmp_path / "two", edges, features, labels, splits) as two:
        report = train(two, epochs=10, batch_size=256, dropout=0.0)
    known = int((labels[ds.splits["val"]] >= 0).sum())
    assert set(report.splits) == {"train", "val"}
    assert report.splits["val"].num_nodes == known < 300
    assert report.num_classes == 2
    assert report.splits["val"].roc_auc > 0.6


def test_without_splits_all_labelled_nodes_are_trained_on(tmp_path):
    labels = np.array([0, 1, -1, 1])
    with make(tmp_path, "plain", features=np.eye(4, dtype=np.float64), labels=labels) as plain:
        report = train(plain, epochs=2, fanouts=[-1])
    assert set(report.splits) == {"train"}
    assert report.splits["train"].num_nodes == 3
    assert report.best_epoch == 2, "there is nothing to choose by"
    assert report.epochs[0].val_accuracy is None


FEATURES = np.eye(4, dtype=np.float32)
LABELS = np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"labels": LABELS}, "no features: build it with features"),
        ({"features": FEATURES}, "no labels: build it with labels"),
        ({"features": FEATURES, "labels": LABELS / 2}, "needs one integer class per node"),
        ({"features": FEATURES, "labels": np.eye(4, dtype=int)}, "needs one integer class"),
        ({"features": FEATURES, "labels": LABELS * 0 - 1}, "no node to train on has a known"),
        ({"features": FEATURES, "labels": LABELS - 2}, "classes start at 0"),
        (
            {"features": FEATURES, "labels": LABELS, "splits": {"dev": [1]}},
            r"no split 'train', only \['dev'\]",
        ),
        ({"features": FEATURES * np.nan, "labels": LABELS}, "the loss of epoch 1 is nan: lower lr"),
    ],
)
def test_datasets_that_cannot_be_trained_on(tmp_path, parts, message):
    with make(tmp_path, "bad", **parts) as bad, pytest.raises(ValueError, match=message):
        train(bad, epochs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fanouts": [0]}, "fanout must be a positive"),
        ({"fanouts": []}, "fanouts must name at least one"),
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"lr": 0.0}, "lr must be a positive"),
        ({"lr": float("nan")}, "lr must be a positive"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"weight_decay": -1.0}, "weight_decay must be 0 or positive"),
        ({"workers": -1}, "workers must be at least 0"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
    ],
)
def test_options_out_of_range(ds, options, message):
    with pytest.raises(ValueError, match=message):
        train(ds, **options)


def test_labels_beyond_the_number_of_classes(ds):
    wrong = gz.Dataset(ds.graph, ds.features, ds.labels, ds.splits, num_classes=2)
    with pytest.raises(ValueError, match="label 3 is not below num_classes=2"):
        train(wrong)


@pytest.mark.parametrize("wrong", [2**64 - 1, 2**63])
def test_labels_that_no_class_can_have_are_named_and_not_taken_for_unknown(tmp_path, wrong):
    labels = np.array([0, 1, 1, wrong], np.uint64)
    with (
        make(tmp_path, "wide", features=FEATURES, labels=labels) as wide,
        pytest.raises(ValueError, match=f"label {wrong} .*does not fit 63 bits"),
    ):
        train(wide)


def test_labels_that_look_like_ids_are_refused_before_a_huge_model_is_made(tmp_path):
    labels = np.array([7_000_021, 3, 7_000_020, 3])
    with (
        make(tmp_path, "ids", features=FEATURES, labels=labels) as ids,
        pytest.raises(ValueError, match=r"7,000,022 classes.* only 3 .*numpy.unique"),
    ):
        train(ids)


def test_more_classes_than_a_model_has_memory_for(monkeypatch, tmp_path):
    """Labels without gaps, so many that their weights exceed the machine."""
    monkeypatch.setattr("graphzero.training.labels._MOST_SPARSE_CLASSES", 1 << 62)
    labels = np.array([0, 1, 2, 1 << 40])
    with (
        make(tmp_path, "many", features=FEATURES, labels=labels) as many,
        pytest.raises(MemoryError, match=r"1,099,511,627,777 classes.*hidden=128.*smaller"),
    ):
        train(many)


def test_the_example_trains(communities, capfd):
    path = Path(__file__).resolve().parents[1] / "examples" / "train_sage.py"
    words = [path, communities, "--epochs", "8", "--fanouts", "3"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=communities,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:8]] == [f"epoch {i}" for i in range(1, 9)]
    assert 0.25 < float(lines[8].removeprefix("test accuracy ")) < 1


# --- real graphs


def build_real(real_data, name, folder):
    source = real_data / name
    splits = {split: source / f"{split}_idx.npy" for split in SPLITS}
    return gz.build(
        folder / name,
        source / "edges.csv",
        source / "features.npy",
        source / "labels.npy",
        splits,
        directed=False,
    )


def test_cora(real_data, tmp_path):
    with build_real(real_data, "cora", tmp_path) as cora:
        accuracies = [train(cora, seed=seed).splits["test"].accuracy for seed in range(3)]
    assert np.mean(accuracies) >= 0.78


def test_tolokers(real_data, tmp_path):
    with build_real(real_data, "tolokers", tmp_path) as tolokers:
        test = train(tolokers, epochs=10).splits["test"]
    assert test.majority == pytest.approx(0.78, abs=0.01)
    assert test.roc_auc > 0.7


def own_memory():
    """Anonymous bytes in use: what the C library keeps of freed memory is given back first."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    info = psutil.Process().memory_info()
    return info.rss - getattr(info, "shared", 0)


@pytest.mark.no_asan  # keeps freed memory in quarantine
def test_memory_does_not_grow_over_epochs(real_data, tmp_path):
    with build_real(real_data, "cora", tmp_path) as cora:
        batches = gz.NeighborDataset(
            cora, fanouts=[10, 10], batch_size=1024, shuffle=True, num_threads=1
        )
        loader = DataLoader(batches, batch_size=None, collate_fn=gz.Collate(cora))
        _, idle_before = _core.pool_state()  # of earlier tests
        for epoch in range(101):
            batches.set_epoch(epoch)
            assert sum(batch.batch_size for batch in loader) == cora.num_nodes
            # How many blocks wait to be used again depends on how the threads have met.
            _, idle = _core.pool_state()
            if epoch == 0:
                warm = own_memory() - idle
        assert own_memory() - idle - warm < 5_000_000
        assert idle - idle_before < 4 * cora.num_nodes * cora.features.row_bytes


def test_evaluations_draw_the_same_each_time(dataset):
    ds = gz.open(dataset[0])
    batches = gz.NeighborDataset(ds, np.arange(200), [2, 2], batch_size=16)
    loader = DataLoader(batches, batch_size=None, collate_fn=gz.Collate(ds))
    model = gz.GraphSAGE(ds.features.feature_dim, 8, 4, 2)
    scores = [predict_scores(model, loader, torch.device("cpu")) for _ in range(2)]
    np.testing.assert_array_equal(*scores)
