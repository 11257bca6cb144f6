"""`train` and its commands: the model, what is learnt, written and reported; Ctrl-C; the demo."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

import files
import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from cli_program import only_line, run
from torch.utils.data import DataLoader

import graphzero as gz
from graphzero import _core
from graphzero.commands.demo_command import write_demo
from graphzero.training import trainer
from graphzero.training.graphsage import GraphSAGE, SavedModel
from graphzero.training.trainer import labelled_splits, train

# what is tested is Python; its C code runs under the sanitizers in other tests
pytestmark = pytest.mark.no_asan

OPTIONS = {"epochs": 4, "batch_size": 256, "hidden": 16, "fanouts": [4, -1], "seed": 3}


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    """1,500 nodes in four classes, which features alone hardly tell apart."""
    folder = tmp_path_factory.mktemp("communities")
    files = write_demo(folder, num_nodes=1500, num_edges=15_000, dim=16, num_classes=4)
    with gz.build(folder / "data", **files, directed=False) as dataset:
        yield dataset


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    """600 nodes in three classes; some labels are unknown, and a split has no labels at all."""
    folder = tmp_path_factory.mktemp("unknown")
    files = write_demo(folder, num_nodes=600, num_edges=6000, dim=8, num_classes=3)
    labels = np.load(files["labels"])
    splits = {name: np.load(path) for name, path in files["splits"].items()}
    labels[splits["test"][::3]] = -1
    others = np.random.default_rng(0).permutation(600)[:50]
    labels[others[:25]] = -1
    splits["later"] = others
    files |= {"labels": labels, "splits": splits}
    with gz.build(folder / "d", **files, directed=False) as dataset:
        yield dataset


@pytest.fixture(scope="module")
def saved(unknown, tmp_path_factory):
    """The file of a model, and the report of its training."""
    folder = tmp_path_factory.mktemp("saved")
    report = train(unknown, save=folder / "m.pt", predictions=folder / "p.npz", **OPTIONS)
    return folder / "m.pt", report


def without_times(report):
    content = dataclasses.asdict(report)
    for one in (content, *content["epochs"]):
        for name in ("memory", "io", "seconds", "batches_per_second", "loading", "waited"):
            one.pop(name, None)
    return content


def make(folder, name, **parts):
    return gz.build(folder / name, np.array([[0, 1], [1, 2], [2, 3]]), **parts)


# --- the model


def naive_layer(layer, x, edge_index):
    rows = []
    for node in range(x.shape[0]):
        sources = edge_index[0][edge_index[1] == node]
        mean = x[sources].mean(0) if len(sources) else torch.zeros(x.shape[1])
        rows.append(layer.lin_self(x[node]) + layer.lin_neigh(mean))
    return torch.stack(rows)


@pytest.mark.parametrize("fanouts", [[4], [5, 3], [3, -1, 2]])
def test_the_trimmed_forward_equals_naive_layers_over_everything(ds, fanouts):
    batch = next(iter(gz.NeighborLoader(ds, fanouts, "train", batch_size=50, shuffle=True)))
    torch.manual_seed(0)
    model = GraphSAGE(16, 8, 4, len(fanouts)).eval()
    trimmed, _ = trainer.forward_seeds(model, batch)
    whole = model(batch.x, batch.edge_index)
    naive = batch.x
    for i, layer in enumerate(model.layers):
        naive = naive_layer(layer, naive, batch.edge_index)
        naive = naive.relu() if i < len(fanouts) - 1 else naive
    assert trimmed.shape == (batch.batch_size, 4)
    assert whole.shape == (batch.num_nodes, 4)
    torch.testing.assert_close(whole, naive)
    torch.testing.assert_close(trimmed, whole[: batch.batch_size])


def check_forward(x, edge_index):
    """Rows and gradients are those by `index_add`, which takes edges in any order."""
    torch.manual_seed(0)
    model = GraphSAGE(x.shape[1], 8, 4, 2, dropout=0)
    source, target = edge_index
    count = torch.zeros(len(x)).index_add(0, target, torch.ones(len(target))).clamp(min=1)

    def layer(i, x):
        sums = torch.zeros_like(x).index_add(0, target, x[source])
        return model.layers[i].lin_self(x) + model.layers[i].lin_neigh(sums / count[:, None])

    inputs = [x.clone().requires_grad_(), *model.parameters()]
    rows = [model(inputs[0], edge_index), layer(1, layer(0, inputs[0]).relu())]
    torch.testing.assert_close(*rows)
    gradients = (torch.autograd.grad(of.square().sum(), inputs) for of in rows)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("num_edges", [0, 1, 2, 300])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_the_edges_of_a_model_have_any_order(num_edges, is_sorted):
    edge_index = torch.randint(0, 40, (2, num_edges), generator=torch.manual_seed(num_edges))
    order = edge_index[1].argsort() if is_sorted else edge_index[1].argsort(descending=True)
    check_forward(torch.randn(50, 6), edge_index[:, order])


def test_trimmed_layers_have_the_edges_of_their_hops_in_any_order(ds):
    batch = next(iter(gz.NeighborLoader(ds, [5, 3], "train", batch_size=50)))
    first, second = batch.num_sampled_edges
    order = torch.cat([torch.randperm(first), first + torch.randperm(second)])
    sampled = (batch.num_sampled_nodes, batch.num_sampled_edges)
    model = GraphSAGE(16, 8, 4, 2).eval()
    wanted, rows = (
        model(batch.x, batch.edge_index[:, at], *sampled) for at in (slice(None), order)
    )
    torch.testing.assert_close(rows, wanted)


def test_the_edge_list_of_cora_as_it_is(real_data):
    edges = np.loadtxt(real_data / "cora" / "edges.csv", np.int64, delimiter=",", skiprows=1)
    check_forward(
        torch.from_numpy(np.load(real_data / "cora" / "features.npy")).float(),
        torch.from_numpy(np.concatenate([edges, edges[:, ::-1]]).T.copy()),
    )


# --- training


def test_neighbours_are_learnt_from(ds):
    seen = []
    report = train(ds, epochs=20, batch_size=256, dropout=0.2, on_epoch=seen.append)
    assert report.splits["test"].accuracy > 0.6
    assert report.splits["test"].majority < 0.35
    counts = {name: split.num_nodes for name, split in report.splits.items()}
    assert counts == {"train": 900, "val": 300, "test": 300}
    assert tuple(seen) == report.epochs
    assert [epoch.epoch for epoch in report.epochs] == list(range(1, 21))
    assert {epoch.batches for epoch in report.epochs} == {4}
    best = report.epochs[report.best_epoch - 1].val_accuracy
    assert best == max(epoch.val_accuracy for epoch in report.epochs)
    assert best == report.splits["val"].accuracy, "the best epoch's weights must be put back"
    assert all(0 < epoch.loading < epoch.seconds for epoch in report.epochs)
    assert report.memory.page_cache is None or report.memory.page_cache <= report.memory.dataset


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
    assert without_times(packed) == without_times(plain)
    for options in ({"fanouts": [4, 3]}, {"batch_size": 200}):
        with pytest.raises(ValueError, match="a pack has its own fanouts and batch size"):
            train(ds, pack=out, **options)
    gz.pack(ds, out, seeds[:-1], [4, 3], epochs=1, batch_size=200, overwrite=True)
    with pytest.raises(ValueError, match="was packed with other inputs: num_seeds .* seeds_crc"):
        train(ds, pack=out)


def test_which_nodes_are_trained_on_and_evaluated(tmp_path):
    parts = {"features": np.eye(4), "labels": np.array([0, 1, -1, 1])}
    with make(tmp_path, "plain", **parts) as plain:
        report = train(plain, epochs=2, fanouts=[-1])
    assert {name: split.num_nodes for name, split in report.splits.items()} == {"train": 3}
    assert report.best_epoch == 2, "there is nothing to choose by"
    assert report.epochs[0].val_accuracy is None
    splits = {"train": [0, 1], "valid": [2, 3], "other": [1]}
    with make(tmp_path, "split", splits=splits, **parts) as split:
        report = train(split, epochs=1, fanouts=[-1])
    counts = {name: one.num_nodes for name, one in report.splits.items()}
    assert counts == {"train": 2, "val": 1}
    assert report.epochs[0].val_accuracy is not None


FEATURES = np.eye(4, dtype=np.float32)
LABELS = np.array([0, 1, 1, 0])
BOTH = {"features": FEATURES, "labels": LABELS}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"labels": LABELS}, "no features: build it with features"),
        ({"features": FEATURES}, "no labels: build it with labels"),
        ({"features": FEATURES, "labels": LABELS / 2}, "needs one integer class per node"),
        ({"features": FEATURES, "labels": np.eye(4, dtype=int)}, "needs one integer class"),
        ({"features": FEATURES, "labels": LABELS * 0 - 1}, "no node to train on has a known"),
        ({"features": FEATURES, "labels": LABELS - 2}, "classes start at 0"),
        ({**BOTH, "splits": {"dev": [1]}}, r"no split 'train', only \['dev'\]"),
        ({"features": FEATURES * np.nan, "labels": LABELS}, "the loss of epoch 1 is nan: lower lr"),
        ({**BOTH, "labels": LABELS << 40}, "only 2 different ones occur: if they are"),
    ],
)
def test_datasets_that_cannot_be_trained_on(tmp_path, parts, message):
    with make(tmp_path, "bad", **parts) as bad, pytest.raises(ValueError, match=message):
        train(bad, epochs=1)


def test_options_out_of_range(ds):
    few = gz.Dataset(ds.graph, ds.features, ds.labels, ds.splits, num_classes=2)
    for given, options, message in (
        (few, {}, "label 3 is not below num_classes=2"),
        (ds, {"fanouts": [-2]}, "fanout must be a positive"),
        (ds, {"fanouts": []}, "fanouts must name at least one"),
        (ds, {"hidden": 0}, "hidden must be at least 1"),
        (ds, {"epochs": 0}, "epochs must be at least 1"),
        *((ds, {"lr": lr}, "lr must be a positive number") for lr in (-1.0, 0, np.inf, np.nan)),
        (ds, {"dropout": 1}, "dropout from 0 to below 1"),
        (ds, {"weight_decay": -1.0}, "weight_decay"),  # torch says it
        (ds, {"device": "abacus"}, "device 'abacus' cannot be used: "),
    ):
        with pytest.raises(ValueError, match=message):
            train(given, **options)


@pytest.fixture
def cora(real_data, tmp_path):
    source = real_data / "cora"
    files = [source / file for file in ("edges.csv", "features.npy", "labels.npy")]
    splits = {split: source / f"{split}_idx.npy" for split in ("train", "val", "test")}
    with gz.build(tmp_path / "cora", *files, splits, directed=False) as dataset:
        yield dataset


def test_cora(cora):
    accuracies = [train(cora, seed=seed).splits["test"].accuracy for seed in range(3)]
    assert np.mean(accuracies) >= 0.78


def own_memory():
    """Anonymous bytes in use: what the C library keeps of freed memory is given back first."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    info = psutil.Process().memory_info()
    return info.rss - getattr(info, "shared", 0)


@pytest.mark.no_asan  # keeps freed memory in quarantine
def test_memory_does_not_grow_over_epochs(cora):
    how = {"fanouts": [10, 10], "batch_size": 1024, "shuffle": True, "num_threads": 1}
    batches = gz.NeighborDataset(cora, **how)
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


@pytest.mark.parametrize("seed", range(4))
def test_the_roc_auc_is_the_share_of_pairs_in_the_right_order(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 3, (40, 2)).astype(np.float32)
    labels, difference = rng.integers(0, 2, 40), scores[:, 1] - scores[:, 0]
    pairs = difference[labels == 1][:, None] - difference[labels == 0]
    found = trainer.report_of(scores, labels).roc_auc
    assert found == pytest.approx(np.mean((pairs > 0) + (pairs == 0) / 2))
    assert trainer.report_of(scores, np.ones(40, int)).roc_auc is None
    assert trainer.report_of(np.c_[scores, scores], labels).roc_auc is None


# --- the saved model, and predictions


def test_predictions_as_csv_have_those_of_the_arrays(tmp_path):
    nodes = {"train": np.array([3, 1]), "a, b": np.array([7])}
    scores = {name: np.random.default_rng(0).random((len(nodes[name]), 2), "f4") for name in nodes}
    trainer.write_predictions(tmp_path / "p.npz", nodes, scores)
    trainer.write_predictions(tmp_path / "p.csv", nodes, scores)
    text, arrays = pd.read_csv(tmp_path / "p.csv"), np.load(tmp_path / "p.npz")
    assert [*text] == ["node_id", "split", "predicted", "probability_0", "probability_1"]
    for name in ("node_id", "split", "predicted"):
        assert text[name].tolist() == arrays[name].tolist()
    probability = text[["probability_0", "probability_1"]].to_numpy("f4")
    np.testing.assert_array_equal(probability, arrays["probability"])


def scores_of(unknown, model, seeds):
    """Class scores of seeds in this order, by a loop of one's own."""
    loader = gz.NeighborLoader(unknown, [4, -1], seeds, batch_size=256, seed=3)
    with torch.no_grad():
        return torch.cat([trainer.forward_seeds(model, batch)[0] for batch in loader])


ARGUMENTS = {"in_dim": 8, "hidden": 1 << 40, "num_classes": 3, "num_layers": 2, "dropout": 0.3}


def test_the_saved_model_is_that_of_the_best_epoch(unknown, saved):
    path, report = saved
    content = SavedModel.read(path)
    assert content.epoch == report.best_epoch
    assert (content.fanouts, content.feature_dtype, content.seed) == ([4, -1], "float32", 3)
    assert content.arguments == {**ARGUMENTS, "hidden": 16}
    model = gz.GraphSAGE.from_saved(path)
    assert not model.training
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == report.num_parameters
    val = labelled_splits(unknown)["val"]
    predicted = scores_of(unknown, model, val).argmax(1).numpy()
    correct = (predicted == unknown.labels.gather(val).ravel()).mean()
    assert correct == report.splits["val"].accuracy


def test_a_better_epoch_is_saved_when_it_ends(unknown, tmp_path):
    path, saved = tmp_path / "m.pt", []
    report = train(
        unknown, save=path, on_epoch=lambda e: saved.append(SavedModel.read(path).epoch), **OPTIONS
    )
    accuracies = [epoch.val_accuracy for epoch in report.epochs]
    assert saved[0] == 1
    assert saved[-1] == report.best_epoch
    for i, epoch in enumerate(saved):
        assert accuracies[epoch - 1] == max(accuracies[: i + 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", ""),
        (lambda data: data[: len(data) // 2], ""),
        (lambda data: data.replace(b"graphzero.GraphSAGE", b"Graphzero.GraphSAGE"), ""),
        ([1, 2], ""),
        ({"format": None, "weights": torch.ones(2)}, "format"),
        ({"version": 2}, "it has version 2, this graphzero reads version 1"),
        ({"arguments": {"hidden": 3}}, "arguments are not"),
        ({"fanouts": [3]}, "one fanout for each layer"),
        ({"fanouts": [3, -2]}, "a fanout must be a positive"),
        ({"state_dict": {"x": torch.ones(2)}}, "Error.s. in loading state_dict"),
        ({"arguments": ARGUMENTS}, ""),  # takes no memory
    ],
)
def test_a_file_that_is_no_model_or_has_wrong_content(saved, tmp_path, change, message):
    path = tmp_path / "m.pt"
    if callable(change):
        path.write_bytes(change(saved[0].read_bytes()))
    else:
        content = torch.load(saved[0], weights_only=True)
        torch.save({**content, **change} if isinstance(change, dict) else change, path)
    with pytest.raises(
        gz.FormatError, match=f"m.pt is not a model that .*{message}.*: train again"
    ):
        gz.GraphSAGE.from_saved(path)


def test_predictions_cover_every_split_and_are_those_that_were_evaluated(unknown, saved):
    path, report = saved
    found = np.load(path.with_name("p.npz"))
    node_id, split, predicted = found["node_id"], found["split"], found["predicted"]
    probability = found["probability"]
    assert (probability.shape, probability.dtype) == ((len(node_id), 3), np.float32)
    assert np.allclose(probability.sum(1), 1)
    assert np.array_equal(probability.argmax(1), predicted)
    labels = unknown.labels.gather(node_id).ravel()
    assert (labels < 0).sum() > 50, "nodes without a label are predicted too"
    model = gz.GraphSAGE.from_saved(path)
    for name, nodes in unknown.splits.items():
        here = split == name
        assert node_id[here].tolist() == nodes.tolist()
        known = labels[here] >= 0
        if name in report.splits:
            accuracy = (predicted[here] == labels[here])[known].mean()
            assert accuracy == report.splits[name].accuracy
        for part in (known, ~known) if name in report.splits else (known >= 0,):
            expected = torch.softmax(scores_of(unknown, model, nodes[part]), 1).numpy()
            assert np.allclose(probability[here][part], expected, atol=1e-6)


def test_a_split_may_be_empty(tmp_path):
    """Predictions then have no node of it."""
    splits = {"train": [0, 1], "later": np.empty(0, int)}
    with make(tmp_path, "d", features=FEATURES, labels=LABELS, splits=splits) as small:
        train(small, epochs=1, hidden=2, predictions=tmp_path / "p.npz")
    assert np.load(tmp_path / "p.npz")["split"].tolist() == ["train", "train"]


def test_files_that_will_have_no_room_are_refused_before_the_training(unknown, tmp_path, capfd):
    rows = sum(map(len, unknown.splits.values()))
    paths = {name: tmp_path / f"x.{name}" for name in ("npz", "csv", "CSV")}
    for path in paths.values():
        train(unknown, predictions=path, save=tmp_path / "m.pt", epochs=1, hidden=64)
        assert path.stat().st_size <= rows * 100
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for name, options in (("predictions", {"hidden": 4}), ("save", {"hidden": 512})):
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
            with pytest.raises(OSError, match=f"{name} cannot be written: File too large"):
                train(unknown, **{name: tmp_path / "y.npz"}, epochs=1, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not (tmp_path / "y.npz").exists()
    with pytest.raises(OSError, match="folder"):
        train(unknown, save=f"{tmp_path}/new/", epochs=1)
    with pytest.raises(MemoryError, match="takes .* TB, and .* a smaller hidden"):
        train(unknown, hidden=10**9, fanouts=[2, 2, 2])


# --- Ctrl-C


TRAINING, EVALUATION = True, False
SHORT = {"epochs": 5, "batch_size": 4, "fanouts": [2], "hidden": 4}


@pytest.fixture(autouse=True)
def python_handles_sigint():
    """Whoever runs the tests may have chosen to ignore the signal."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "it must be put back"
    signal.signal(signal.SIGINT, earlier)


@pytest.fixture
def folder(tmp_path):
    """Twelve nodes on a ring: two batches of training an epoch, one of validation."""
    ring = np.stack([np.arange(12), (np.arange(12) + 1) % 12], axis=1)
    rows = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    splits = {"train": np.arange(8), "val": np.arange(8, 12)}
    gz.build(tmp_path / "d", ring, rows, np.arange(12) % 2, splits).close()
    return tmp_path / "d"


@pytest.fixture
def ring(folder):
    with gz.open(folder) as dataset:
        yield dataset


@pytest.fixture
def press(monkeypatch):
    """Has Ctrl-C pressed in given batches, counted from 1: so many times in each."""

    def install(in_training, presses):
        count, forward = iter(range(1, 1000)), trainer.forward_seeds

        def pressed(model, batch):
            if model.training == in_training:
                for _ in range(presses.get(next(count), 0)):
                    signal.raise_signal(signal.SIGINT)
            return forward(model, batch)

        monkeypatch.setattr(trainer, "forward_seeds", pressed)
        return count

    return install


def interrupted(ring, **options):
    report = train(ring, **SHORT, **options)
    assert report.interrupted
    return report


def test_the_epochs_that_have_ended_are_kept(ring, tmp_path, press):
    batches = press(TRAINING, {5: 1})  # the first of two batches of epoch 3
    outputs = {"save": tmp_path / "m.pt", "predictions": tmp_path / "p.npz"}
    told = []
    report = interrupted(ring, on_interrupt=told.append, **outputs)
    assert next(batches) == 6, "no batch after that in which Ctrl-C was pressed"
    assert [epoch.epoch for epoch in report.epochs] == [1, 2]
    assert told == [report.epochs[-1]]
    assert set(report.splits) == {"train", "val"}
    best = report.epochs[report.best_epoch - 1].val_accuracy
    assert report.splits["val"].accuracy == best
    gz.GraphSAGE.from_saved(tmp_path / "m.pt")
    with np.load(tmp_path / "p.npz") as found:
        assert len(found["node_id"]) == 12


def test_before_the_first_epoch_has_ended_nothing_is_written(ring, tmp_path, press):
    press(EVALUATION, {1: 1})
    earlier = tmp_path / "p.npz"
    earlier.write_text("of before")
    with pytest.raises(KeyboardInterrupt, match="ended: nothing was written"):
        train(ring, save=tmp_path / "m.pt", predictions=earlier, **SHORT)
    assert sorted(os.listdir(tmp_path)) == ["d", "p.npz"]
    assert earlier.read_text() == "of before"


def test_pressing_twice_in_one_batch_ends_it_at_once(ring, press):
    trained = []
    press(TRAINING, {3: 2})
    assert len(interrupted(ring, on_epoch=trained.append).epochs) == len(trained) == 1


@pytest.mark.parametrize(("option", "presses", "epochs"), [("predictions", 1, 5), ("save", 2, 1)])
def test_ctrl_c_while_a_file_is_written_loses_neither_file_nor_report(
    ring, tmp_path, monkeypatch, option, presses, epochs
):
    """Of the model, that of the first epoch."""
    writers = {"predictions": (trainer, "write_predictions"), "save": (trainer.SavedModel, "write")}
    write, left = getattr(*writers[option]), iter([presses])

    def pressed(*words):
        for _ in range(next(left, 0)):
            signal.raise_signal(signal.SIGINT)  # the second one is honoured at once
        write(*words)

    monkeypatch.setattr(*writers[option], pressed)
    report = interrupted(ring, **{option: tmp_path / "out.npz"})
    assert len(report.epochs) == epochs
    if option == "save":
        assert gz.GraphSAGE.from_saved(tmp_path / "out.npz").arguments["in_dim"] == 3
    else:
        assert len(np.load(tmp_path / "out.npz")["node_id"]) == 12


def test_another_handler_stays(ring):
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        train(ring, on_epoch=lambda _: signal.raise_signal(signal.SIGINT), **SHORT)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert len(seen) == 5


def test_ctrl_c_in_the_evaluation_ends_it_all_but_the_saved_model(folder, tmp_path, press, capfd):
    press(TRAINING, {5: 1})
    press(EVALUATION, {3: 1})
    words = ["--predictions", tmp_path / "p.npz", "--save", tmp_path / "m.pt"]
    options = ["--epochs", 5, "--batch-size", 4, "--fanouts", 2, "--hidden", 4]
    assert run("train", folder, *options, *words) == 130
    assert "epoch   2" in capfd.readouterr().out
    assert gz.GraphSAGE.from_saved(tmp_path / "m.pt").arguments["in_dim"] == 3
    assert not (tmp_path / "p.npz").exists()


# --- the command


def test_train_prints_and_writes_the_report(data, tmp_path, capfd):
    report = tmp_path / "report.json"
    words = ["train", data, "--epochs", 3, "--fanouts", "2,-1", "--json", report]
    assert run(*words) == 0
    out, err = capfd.readouterr()
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["epoch", str(i)] for i in (1, 2, 3)]
    assert "batches/s" in lines[0]
    assert lines[3].startswith("weights of epoch ")
    assert lines[4].startswith("train accuracy ")
    assert "  ROC AUC " in lines[4]
    assert "majority class 0.5000, 12 nodes" in lines[4]
    assert lines[-1].startswith("memory")
    assert "page cache of the dataset's files: " in lines[-1]
    assert err == ""
    content = json.loads(report.read_text())
    assert [epoch["epoch"] for epoch in content["epochs"]] == [1, 2, 3]
    assert content["splits"]["val"]["num_nodes"] == 8


def test_several_processes_of_torchrun_are_refused(data, capfd, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run("train", data, "--epochs", 1) == 1
    assert "one of 2 processes that torchrun has started" in only_line(capfd.readouterr().err)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert run("train", data, "--epochs", 1) == 0


@pytest.mark.parametrize("option", ["--save", "--predictions", "--json"])
def test_train_checks_its_outputs_before_it_trains(data, tmp_path, option, capfd):
    same = "--json" if option == "--save" else "--save"
    for words, message in (
        ([tmp_path / "no" / "x.npz"], "cannot be written: No such file"),
        ([tmp_path / "x.npz", same, tmp_path / "x.npz"], "as well: choose another path"),
    ):
        assert run("train", data, "--epochs", 1, option, *words) == 1
        out, err = capfd.readouterr()
        assert out == ""
        assert message in only_line(err)
    assert run("train", data, "--epochs", 1, "--save", data / "graph.gl") == 1
    assert "would replace" in only_line(capfd.readouterr().err)
    with pytest.raises(SystemExit):
        run("train", data, "--predictions", tmp_path / "x.txt")
    assert "predictions are written as .npz or .csv" in capfd.readouterr().err


def start_training(data, *options):
    """A training that would take hours, in a process group of its own."""
    command = [sys.executable, "-m", "graphzero", "train", data, "--epochs", 100_000, *options]
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=data,
        preexec_fn=files.let_be_interrupted,
    )


def finish(process):
    """The lines of stdout and stderr, when all processes of the group have ended."""
    try:
        out, err = process.communicate(timeout=60)
        end = time.monotonic() + 10
        with pytest.raises(ProcessLookupError):
            while time.monotonic() < end:
                os.killpg(process.pid, 0)  # workers that outlive the training
                time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return out.splitlines(), err.splitlines()


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_ends_a_training_and_keeps_the_best(data, tmp_path, workers):
    model, predictions, report = (tmp_path / name for name in ("m.pt", "p.npz", "r.json"))
    outputs = ["--save", model, "--predictions", predictions, "--json", report]
    process = start_training(data, "--workers", workers, *outputs)
    assert process.stdout.readline().startswith("epoch   1")
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = finish(process)
    assert process.returncode == 130
    content = json.loads(report.read_text())
    last, best = len(content["epochs"]), content["best_epoch"]
    assert content["interrupted"]
    assert 1 <= best <= last < 100_000
    assert f"interrupted after epoch {last}" in out
    assert f"weights of epoch {best} (best on val), over sampled neighbours:" in out
    assert out[-1].startswith("memory")
    assert err[0].startswith(f"graphzero: interrupted after epoch {last}: evaluating the best")
    assert err[1:] == ["graphzero: interrupted"]
    assert set(content["splits"]) == {"train", "val"}
    assert torch.load(model, weights_only=True)["epoch"] == best
    assert len(np.load(predictions)["node_id"]) == 20
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_ctrl_c_in_the_evaluation_leaves_what_is_finished(data, tmp_path, monkeypatch, capfd):
    scores, calls = trainer.Trainer.scores, []

    def interrupted(self, of):
        calls.append(of)
        if len(calls) == 3:  # validation, then train and val
            raise KeyboardInterrupt
        return scores(self, of)

    monkeypatch.setattr(trainer.Trainer, "scores", interrupted)
    paths = {name: tmp_path / f"out.{name}" for name in ("pt", "npz", "json")}
    outputs = ["--save", paths["pt"], "--predictions", paths["npz"], "--json", paths["json"]]
    assert run("train", data, "--epochs", 1, *outputs) == 130
    out, err = capfd.readouterr()
    assert "train accuracy" in out
    assert "val   accuracy" not in out
    assert "the evaluation was interrupted: splits that are not listed" in out
    assert "no predictions written" in out
    assert "interrupted" in err
    content = json.loads(paths["json"].read_text())
    assert content["interrupted"]
    assert content["evaluation_interrupted"]
    assert list(content["splits"]) == ["train"]
    assert paths["pt"].exists()
    assert not paths["npz"].exists()


def test_a_kill_at_any_time_leaves_the_best_model_so_far(data, tmp_path):
    process = start_training(data, "--save", tmp_path / "m.pt")
    assert process.stdout.readline().startswith("epoch   1")
    os.killpg(process.pid, signal.SIGKILL)
    finish(process)
    assert gz.GraphSAGE.from_saved(tmp_path / "m.pt").arguments["in_dim"] == 4
    assert torch.load(tmp_path / "m.pt", weights_only=True)["epoch"] >= 1


# --- the demo

SMALL = ["--nodes", "600", "--edges", "5000", "--dim", "8", "--classes", "3"]


def test_sizes_out_of_range(tmp_path):
    for sizes, message in (
        ({"num_edges": -1}, "num_edges must be at least 1"),
        ({"num_nodes": 3, "num_classes": 4}, "num_classes .*3.*, not 4"),
        ({"num_classes": 1}, "num_classes .*2.*, not 1"),
    ):
        with pytest.raises(ValueError, match=message):
            write_demo(tmp_path, **sizes)


def test_demo_runs_and_leaves_only_what_it_is_told_to(
    tmp_path, tmp_path_factory, monkeypatch, capfd
):
    # torch makes a cache in the temporary folder when its optimizers are first used
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run("demo", *SMALL) == 0
    out, err = capfd.readouterr()
    assert "training on 600 nodes" in out
    assert out.count("epoch ") == 2 + 1  # one line each, and the one that says which was best
    assert "test  accuracy 0." in out
    assert out.splitlines()[-1].startswith("memory")
    assert err == ""
    assert list(tmp_path.iterdir()) == []
    assert run("demo", *SMALL, "-q", "--epochs", 1, "--dir", tmp_path / "mine") == 0
    assert "epoch   1" not in capfd.readouterr().out
    with gz.open(tmp_path / "mine" / "dataset") as ds:
        assert (ds.num_nodes, ds.num_classes, set(ds.splits)) == (600, 3, {"train", "val", "test"})
        assert ds.graph.num_input_edges == 5000
