"""`train` and its commands: the model, what is learnt, written and reported; Ctrl-C; the demo."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import files
import numpy as np
import others
import psutil
import pytest
import torch
from cli_program import only_line, run
from torch.utils.data import DataLoader

import graphzero as gz
from graphzero import _core
from graphzero.commands.demo_command import write_demo
from graphzero.training import trainer
from graphzero.training.graphsage import GraphSAGE
from graphzero.training.train_options import TrainOptions
from graphzero.training.trainer import labelled_splits, train

# what is tested is Python; its C code runs under the sanitizers in other tests
pytestmark = pytest.mark.no_asan


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    """1,500 nodes in four classes, which features alone hardly tell apart."""
    folder = tmp_path_factory.mktemp("communities")
    files = write_demo(folder, num_nodes=1500, num_edges=15_000, dim=16, num_classes=4)
    with gz.build(folder / "data", **files, directed=False) as dataset:
        yield dataset


def without_times(report):
    content = dataclasses.asdict(report)
    for one in (content, *content["epochs"]):
        for name in ("memory", "io", "seconds", "batches_per_second", "loading", "waited"):
            one.pop(name, None)
    return content


def make(folder, name, **parts):
    return gz.build(folder / name, np.array([[0, 1], [1, 2], [2, 3]]), **parts)


# --- the model


@pytest.mark.parametrize("fanouts", [[4], [5, 3], [3, -1, 2]])
def test_the_trimmed_forward_equals_that_over_everything(ds, fanouts):
    batch = next(iter(gz.NeighborLoader(ds, fanouts, "train", batch_size=50, shuffle=True)))
    torch.manual_seed(0)
    model = GraphSAGE(16, 8, 4, len(fanouts)).eval()
    trimmed, _ = trainer.forward_seeds(model, batch)
    whole = model(batch.x, batch.edge_index)
    assert trimmed.shape == (batch.batch_size, 4)
    assert whole.shape == (batch.num_nodes, 4)
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


# --- training


def test_neighbours_are_learnt_from(ds):
    seen = []
    options = TrainOptions(epochs=20, batch_size=256, dropout=0.2)
    report = train(ds, options, on_epoch=seen.append)
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
    options = TrainOptions(epochs=3, batch_size=256, seed=7)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = without_times(train(ds, options))
    assert torch.equal(torch.rand(3), expected), "torch's own generator must be left alone"
    torch.manual_seed(6)
    assert without_times(train(ds, options)) == first
    assert without_times(train(ds, dataclasses.replace(options, seed=8))) != first


def test_workers_change_nothing_and_are_counted(ds):
    options = TrainOptions(epochs=2, batch_size=256)
    alone, helped = train(ds, options), train(ds, dataclasses.replace(options, workers=2))
    assert without_times(helped) == without_times(alone)
    assert helped.memory.processes >= alone.memory.processes + 2


def test_a_pack_trains_as_its_batches_do(ds, tmp_path):
    out, seeds = tmp_path / "p.gd", ds.splits["train"]
    gz.pack(ds, out, seeds, [4, 3], epochs=2, batch_size=200, shuffle=True, seed=7, resident=0.2)
    packed = train(ds, TrainOptions(epochs=2, seed=7, pack=out))
    plain = train(ds, TrainOptions(epochs=2, seed=7, fanouts=[4, 3], batch_size=200))
    assert packed.epochs[-1].io != plain.epochs[-1].io
    assert without_times(packed) == without_times(plain)
    for options in ({"fanouts": [4, 3]}, {"batch_size": 200}):
        with pytest.raises(ValueError, match="a pack has its own fanouts and batch size"):
            TrainOptions(pack=out, **options)
    gz.pack(ds, out, seeds[:-1], [4, 3], epochs=1, batch_size=200, overwrite=True)
    with pytest.raises(ValueError, match="was packed with other inputs: num_seeds .* seeds_crc"):
        train(ds, TrainOptions(pack=out))


def test_which_nodes_are_trained_on_and_evaluated(tmp_path):
    parts = {"features": np.eye(4), "labels": np.array([0, 1, -1, 1])}
    with make(tmp_path, "plain", **parts) as plain:
        report = train(plain, TrainOptions(epochs=2, fanouts=[-1]))
    assert {name: split.num_nodes for name, split in report.splits.items()} == {"train": 3}
    assert report.best_epoch == 2, "there is nothing to choose by"
    assert report.epochs[0].val_accuracy is None
    splits = {"train": [0, 1], "valid": [2, 3], "other": [1], "test": np.empty(0, int)}
    with make(tmp_path, "split", splits=splits, **parts) as split:
        report = train(split, TrainOptions(epochs=1, fanouts=[-1]))
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
        train(bad, TrainOptions(epochs=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fanouts": [-2]}, "fanout must be a positive"),
        ({"fanouts": []}, "fanouts must name at least one"),
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"workers": -1}, "num_workers"),
        ({"seed": 0.5}, "seed must be an integer"),
        *(({"lr": lr}, "lr must be a positive number") for lr in (-1.0, 0, np.inf, np.nan)),
        ({"dropout": 1}, "dropout must be from 0 to below 1"),
        ({"weight_decay": -1.0}, "weight_decay"),
    ],
)
def test_options_out_of_range(ds, options, message):
    with pytest.raises(ValueError, match=message):
        train(ds, TrainOptions(**options))


def test_what_the_dataset_or_the_machine_cannot_do(ds):
    few = gz.Dataset(ds.graph, ds.features, ds.labels, ds.splits, num_classes=2)
    with pytest.raises(ValueError, match="label 3 is not below num_classes=2"):
        train(few, TrainOptions())
    with pytest.raises(ValueError, match="device 'abacus' cannot be used: "):
        train(ds, TrainOptions(device="abacus"))
    with pytest.raises(MemoryError, match="takes .* TB, and .* a smaller hidden"):
        train(ds, TrainOptions(hidden=10**9, fanouts=[2, 2, 2]))


def test_an_evaluation_is_that_of_a_loop_over_the_same_batches(ds):
    seeds = labelled_splits(ds)["test"]
    options = TrainOptions(hidden=16, fanouts=[4, -1], batch_size=64, seed=3)
    training = trainer.Trainer(ds, {"train": seeds}, options, torch.device("cpu"))
    report = training.evaluate(seeds)
    loader = gz.NeighborLoader(ds, [4, -1], seeds, batch_size=64, seed=3)
    with torch.no_grad():
        scores = torch.cat([training.model(b.x, b.edge_index)[: b.batch_size] for b in loader])
    labels = torch.from_numpy(ds.labels.gather(seeds)).reshape(-1).long()
    assert report.num_nodes == len(labels) == 300
    assert report.accuracy == (scores.argmax(1) == labels).double().mean().item()
    assert report.majority == labels.bincount().max().item() / len(labels)
    loss = torch.nn.functional.cross_entropy(scores, labels).item()
    assert report.loss == pytest.approx(loss, rel=1e-5)


@pytest.fixture
def cora(real_data, tmp_path):
    source = real_data / "cora"
    files = [source / file for file in ("edges.csv", "features.npy", "labels.npy")]
    splits = {split: source / f"{split}_idx.npy" for split in ("train", "val", "test")}
    with gz.build(tmp_path / "cora", *files, splits, directed=False) as dataset:
        yield dataset


def test_cora(cora):
    accuracies = [train(cora, TrainOptions(seed=seed)).splits["test"].accuracy for seed in range(3)]
    assert np.mean(accuracies) >= 0.78


def own_memory():
    """Anonymous bytes in use: what the C library keeps of freed memory is given back first."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    info = psutil.Process().memory_info()
    return info.rss - getattr(info, "shared", 0)


def growth_over_epochs(folder):
    """Bytes by which 100 epochs let this process grow: besides blocks of the pool, and of these."""
    dataset = gz.open(folder)
    batches = gz.NeighborDataset(
        dataset, fanouts=[10, 10], batch_size=1024, shuffle=True, num_threads=1
    )
    loader = DataLoader(batches, batch_size=None, collate_fn=gz.Collate(dataset))
    used = []
    for epoch in range(101):
        batches.set_epoch(epoch)
        assert sum(batch.batch_size for batch in loader) == dataset.num_nodes
        # How many blocks wait to be used again depends on how the threads have met.
        _, idle = _core.pool_state()
        used.append(own_memory() - idle)
    return used[-1] - used[0], idle


@pytest.mark.no_asan  # keeps freed memory in quarantine
def test_memory_does_not_grow_over_epochs(cora, tmp_path):
    cora_folder = tmp_path / "cora"
    # With several heaps, which of them has free memory depends on how the threads have met.
    program = (
        f"import test_training; print(*test_training.growth_over_epochs({str(cora_folder)!r}))"
    )
    printed = others.output_of("-c", program, cwd=Path(__file__).parent, MALLOC_ARENA_MAX="1")
    growth, idle = map(int, printed.split())
    assert growth < 2_000_000
    assert idle < 4 * cora.num_nodes * cora.features.row_bytes


# --- Ctrl-C


TRAINING, EVALUATION = True, False
SHORT = TrainOptions(epochs=5, batch_size=4, fanouts=[2], hidden=4)


@pytest.fixture(autouse=True)
def python_handles_sigint():
    """Whoever runs the tests may have chosen to ignore the signal."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
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
    """Has Ctrl-C pressed in given batches, counted from 1."""

    def install(in_training, pressed_in):
        count, forward = iter(range(1, 1000)), trainer.forward_seeds

        def pressed(model, batch):
            if model.training == in_training and next(count) in pressed_in:
                signal.raise_signal(signal.SIGINT)
            return forward(model, batch)

        monkeypatch.setattr(trainer, "forward_seeds", pressed)
        return count

    return install


def interrupted(ring, **options):
    report = train(ring, SHORT, **options)
    assert report.interrupted
    return report


def test_the_epochs_that_have_ended_are_kept(ring, press):
    batches = press(TRAINING, {5})  # the first of two batches of epoch 3
    told = []
    report = interrupted(ring, on_interrupt=told.append)
    assert next(batches) == 6, "no batch after that in which Ctrl-C was pressed"
    assert [epoch.epoch for epoch in report.epochs] == [1, 2]
    assert told == [report.epochs[-1]]
    assert set(report.splits) == {"train", "val"}
    best = report.epochs[report.best_epoch - 1].val_accuracy
    assert report.splits["val"].accuracy == best


def test_before_the_first_epoch_has_ended_nothing_is_reported(folder, tmp_path, press, capfd):
    press(EVALUATION, {1})
    report = tmp_path / "report.json"
    report.write_text("of before")
    assert run("train", folder, "--batch-size", 4, "--json", report) == 130
    out, err = capfd.readouterr()
    assert out == ""
    assert "interrupted before the first epoch ended" in only_line(err)
    assert sorted(os.listdir(tmp_path)) == ["d", "report.json"]
    assert report.read_text() == "of before"


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


def test_train_checks_its_report_before_it_trains(data, tmp_path, capfd):
    for path, message in (
        (tmp_path / "no" / "x.json", "--json cannot be written: No such file"),
        (data / "graph.gl", "would replace"),
    ):
        assert run("train", data, "--epochs", 1, "--json", path) == 1
        out, err = capfd.readouterr()
        assert out == ""
        assert message in only_line(err)


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
def test_ctrl_c_ends_a_training_and_evaluates_the_best(data, tmp_path, workers):
    report = tmp_path / "r.json"
    process = start_training(data, "--workers", workers, "--json", report)
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
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_ctrl_c_in_the_evaluation_ends_it(folder, tmp_path, press, capfd):
    press(EVALUATION, {4})  # after one batch of validation and two of train
    report = tmp_path / "report.json"
    options = ["--epochs", 1, "--batch-size", 4, "--fanouts", 2, "--hidden", 4]
    assert run("train", folder, *options, "--json", report) == 130
    out, err = capfd.readouterr()
    assert "accuracy" not in out
    assert only_line(err) == "graphzero: interrupted"
    assert not report.exists()


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
