"""What training writes: the model of the best epoch, and predictions."""

from __future__ import annotations

import csv
import os

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import graphzero as gz
from graphzero.training import train as training
from graphzero.training.demo_graph import write_demo
from graphzero.training.labels import labelled_splits
from graphzero.training.saved_model import read_saved_model

# what is tested is Python; its C code runs under the sanitizers in other tests
pytestmark = pytest.mark.no_asan

train = training.train
OPTIONS = {"epochs": 4, "batch_size": 256, "hidden": 16, "fanouts": [4, -1], "seed": 3}


@pytest.fixture(scope="module")
def communities(tmp_path_factory):
    """600 nodes in three classes; some labels are unknown, and a split has no labels at all."""
    folder = tmp_path_factory.mktemp("communities")
    files = write_demo(folder, num_nodes=600, num_edges=6000, dim=8, num_classes=3)
    labels = np.load(files.labels)
    splits = {name: np.load(path) for name, path in files.splits.items()}
    labels[splits["test"][::3]] = -1
    others = np.random.default_rng(0).permutation(600)[:50]
    labels[others[:25]] = -1
    splits["later"] = others
    rows = np.load(files.features)
    gz.build(folder / "d", files.edges, rows, labels, splits, directed=False).close()
    return folder / "d"


@pytest.fixture
def ds(communities):
    with gz.open(communities) as dataset:
        yield dataset


def scores_of(ds, model, seeds):
    """Class scores of seeds in this order, by a loop of one's own."""
    batches = gz.NeighborDataset(ds, seeds, [4, -1], batch_size=256, seed=3)
    loader = DataLoader(batches, batch_size=None, collate_fn=gz.Collate(ds))
    with torch.no_grad():
        return torch.cat(
            [
                model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
                for batch in loader
            ]
        )


# --- the saved model


def test_the_saved_model_is_that_of_the_best_epoch(ds, tmp_path):
    path = tmp_path / "model.pt"
    report = train(ds, save=path, **OPTIONS)
    saved = read_saved_model(path)
    assert saved.epoch == report.best_epoch
    assert (saved.fanouts, saved.feature_dtype, saved.seed) == ([4, -1], "float32", 3)
    assert saved.arguments == {
        "in_dim": 8, "hidden": 16, "num_classes": 3, "num_layers": 2, "dropout": 0.3
    }  # fmt: skip
    model = gz.GraphSAGE.from_saved(path)
    assert not model.training
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == report.num_parameters
    val = labelled_splits(ds)["val"]
    predicted = scores_of(ds, model, val).argmax(1).numpy()
    correct = (predicted == ds.labels.gather(val).ravel()).mean()
    assert correct == report.splits["val"].accuracy


def test_any_torch_reads_the_saved_model_and_runs_none_of_its_code(ds, tmp_path):
    train(ds, save=tmp_path / "m.pt", **OPTIONS)
    content = torch.load(tmp_path / "m.pt", weights_only=True)
    model = gz.GraphSAGE(**content["arguments"])
    model.load_state_dict(content["state_dict"])


def test_loading_a_model_draws_nothing(ds, tmp_path):
    train(ds, save=tmp_path / "m.pt", **OPTIONS)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    gz.GraphSAGE.from_saved(tmp_path / "m.pt")
    assert torch.equal(torch.rand(3), expected)


def test_a_better_epoch_is_saved_when_it_ends(ds, tmp_path):
    path, saved = tmp_path / "m.pt", []
    report = train(
        ds, save=path, on_epoch=lambda e: saved.append(read_saved_model(path).epoch), **OPTIONS
    )
    accuracies = [epoch.val_accuracy for epoch in report.epochs]
    assert saved[0] == 1
    assert saved[-1] == report.best_epoch
    for i, epoch in enumerate(saved):
        assert accuracies[epoch - 1] == max(accuracies[: i + 1])


def test_a_failed_training_leaves_the_best_model_so_far(ds, tmp_path):
    def fail(report):
        if report.epoch == 2:
            raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        train(ds, save=tmp_path / "m.pt", predictions=tmp_path / "p.npz", on_epoch=fail, **OPTIONS)
    assert read_saved_model(tmp_path / "m.pt").epoch <= 2
    assert os.listdir(tmp_path) == ["m.pt"]


def test_saving_changes_no_number(ds, tmp_path):
    files = {"save": tmp_path / "m.pt", "predictions": tmp_path / "p.npz"}
    assert train(ds, **OPTIONS, **files).splits == train(ds, **OPTIONS).splits


@pytest.mark.parametrize("damage", ["empty", "truncated", "text", "foreign", "flipped", "list"])
def test_a_file_that_is_no_model(ds, tmp_path, damage):
    path = tmp_path / "m.pt"
    train(ds, save=path, **{**OPTIONS, "epochs": 1})
    data = path.read_bytes()
    if damage == "foreign":
        torch.save({"weights": torch.ones(2)}, path)
    elif damage == "list":
        torch.save([1, 2], path)
    else:
        at = data.index(b"graphzero.GraphSAGE")
        changed = {
            "empty": b"",
            "truncated": data[: len(data) // 2],
            "text": b"not a model",
            "flipped": data[:at] + b"G" + data[at + 1 :],
        }
        path.write_bytes(changed[damage])
    with pytest.raises(gz.FormatError, match="is not a model that .*: train again"):
        gz.GraphSAGE.from_saved(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 2, "it has version 2, this graphzero reads version 1"),
        ("arguments", {"hidden": 3}, "arguments are not"),
        ("fanouts", [3], "one fanout for each layer"),
        ("fanouts", [3, 0], "a fanout must be a positive"),
        ("state_dict", {"x": torch.ones(2)}, "is corrupt"),
        ("state_dict", 7, "is corrupt"),
    ],
)
def test_a_model_with_wrong_content(ds, tmp_path, key, value, message):
    path = tmp_path / "m.pt"
    train(ds, save=path, **{**OPTIONS, "epochs": 1})
    torch.save({**torch.load(path, weights_only=True), key: value}, path)
    with pytest.raises(gz.FormatError, match=message):
        gz.GraphSAGE.from_saved(path)


def test_a_hostile_size_takes_no_memory(ds, tmp_path):
    path = tmp_path / "m.pt"
    train(ds, save=path, **{**OPTIONS, "epochs": 1})
    content = torch.load(path, weights_only=True)
    torch.save({**content, "arguments": {**content["arguments"], "hidden": 1 << 40}}, path)
    with pytest.raises(gz.FormatError, match="is corrupt"):
        gz.GraphSAGE.from_saved(path)


def test_a_missing_model(tmp_path):
    with pytest.raises(FileNotFoundError):
        gz.GraphSAGE.from_saved(tmp_path / "m.pt")


# --- predictions


def test_predictions_are_those_that_were_evaluated_and_cover_every_split(ds, tmp_path):
    report = train(ds, predictions=tmp_path / "p.npz", save=tmp_path / "m.pt", **OPTIONS)
    with np.load(tmp_path / "p.npz") as found:
        node_id, split, predicted, probability = (
            found[name] for name in ("node_id", "split", "predicted", "probability")
        )
    assert {name: node_id[split == name].tolist() for name in ds.splits} == {
        name: nodes.tolist() for name, nodes in ds.splits.items()
    }
    assert probability.shape == (len(node_id), 3)
    assert probability.dtype == np.float32
    assert np.allclose(probability.sum(1), 1)
    assert np.array_equal(probability.argmax(1), predicted)
    labels = ds.labels.gather(node_id).ravel()
    assert (labels < 0).sum() > 50, "nodes without a label are predicted too"
    for name, expected in report.splits.items():
        known = (split == name) & (labels >= 0)
        assert (predicted[known] == labels[known]).mean() == expected.accuracy
    model = gz.GraphSAGE.from_saved(tmp_path / "m.pt")
    for name in ("test", "later"):
        known = labels[split == name] >= 0
        parts = [known, ~known] if name == "test" else [np.ones(50, bool)]
        for part in parts:
            scores = scores_of(ds, model, ds.splits[name][part])
            expected = torch.softmax(scores, 1).numpy()
            assert np.allclose(probability[split == name][part], expected, atol=1e-6)


def test_predictions_as_csv_are_the_same(ds, tmp_path):
    train(ds, predictions=tmp_path / "p.npz", **OPTIONS)
    train(ds, predictions=tmp_path / "p.CSV", **OPTIONS)
    with open(tmp_path / "p.CSV", newline="") as file:
        records = list(csv.DictReader(file))
    with np.load(tmp_path / "p.npz") as found:
        assert [int(record["node_id"]) for record in records] == found["node_id"].tolist()
        assert [record["split"] for record in records] == found["split"].tolist()
        assert [int(record["predicted"]) for record in records] == found["predicted"].tolist()
        values = [[record[f"probability_{i}"] for i in range(3)] for record in records]
        assert np.array_equal(np.array(values, np.float32), found["probability"])


def test_without_splits_all_nodes_are_predicted(tmp_path):
    edges, rows = np.array([[0, 1], [1, 2], [2, 3]]), np.eye(4, dtype=np.float32)
    with gz.build(tmp_path / "d", edges, rows, np.array([0, 1, -1, 1])) as plain:
        train(plain, epochs=1, fanouts=[-1], predictions=tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz") as found:
        assert found["node_id"].tolist() == [0, 1, 2, 3]
        assert set(found["split"]) == {"train"}


# --- what is refused before the training


@pytest.mark.parametrize("option", ["save", "predictions"])
def test_outputs_are_checked_before_the_training(ds, communities, tmp_path, option):
    def begun(report):
        raise AssertionError("the training has begun")

    suffix = {"save": "pt", "predictions": "npz"}[option]
    with pytest.raises(FileNotFoundError, match=f"{option} cannot be written: the folder"):
        train(ds, **{option: tmp_path / "no" / f"x.{suffix}"}, on_epoch=begun, **OPTIONS)
    for name in ("graph.gl", "dataset.json", "split_later.gd"):
        (tmp_path / f"{name}.{suffix}").symlink_to(communities / name)
        with pytest.raises(ValueError, match=f"{option} would replace"):
            train(ds, **{option: tmp_path / f"{name}.{suffix}"}, on_epoch=begun, **OPTIONS)


def test_the_pack_is_no_output(ds, tmp_path):
    pack = tmp_path / "p.gd"
    gz.pack(ds, pack, labelled_splits(ds)["train"], [3], epochs=1, batch_size=100)
    with pytest.raises(ValueError, match="save would replace .*p.gd, which is read"):
        train(ds, pack=pack, save=pack)


def test_one_file_for_both_outputs(ds, tmp_path):
    with pytest.raises(ValueError, match="save and predictions are the same file"):
        train(ds, save=tmp_path / "x.npz", predictions=tmp_path / "x.npz", **OPTIONS)


@pytest.mark.parametrize("name", ["p.txt", "p", "p.npy", "p.csv.gz"])
def test_predictions_of_an_unknown_format(ds, tmp_path, name):
    with pytest.raises(ValueError, match="predictions are written as .npz or .csv"):
        train(ds, predictions=tmp_path / name, **OPTIONS)


def test_the_space_for_outputs_is_enough(ds, tmp_path, monkeypatch):
    reserved = {}
    monkeypatch.setattr(
        training,
        "check_outputs",
        lambda outputs, inputs: reserved.update({o.path: o.num_bytes for o in outputs}),
    )
    for name in ("p.npz", "p.csv"):
        train(ds, predictions=tmp_path / name, save=tmp_path / "m.pt", **OPTIONS)
    assert len(reserved) == 3
    for path, num_bytes in reserved.items():
        assert path.stat().st_size <= num_bytes <= 2 * path.stat().st_size + (1 << 16)
