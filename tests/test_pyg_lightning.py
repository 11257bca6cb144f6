"""`graphzero.pyg.DataModule` under Lightning's Trainer, in one process and in two."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import files
import numpy as np
import pytest

import graphzero as gz

pytest.importorskip("torch_geometric")
if importlib.util.find_spec("lightning") is None:
    pytest.skip("lightning is not installed", allow_module_level=True)

import torch

from graphzero.pyg import DataModule

PROGRAM = Path(__file__).with_name("lightning_program.py")
SPLITS = {"train": np.arange(0, 118), "val": np.arange(118, 200), "test": np.arange(200, 267)}

# Minutes of training in scripts: what they use is sanitized by the tests of its own.
pytestmark = pytest.mark.no_asan


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    files.write_dataset(
        tmp_path / "store",
        files.random_edges(300, 2000, seed=2),
        300,
        features=rng.standard_normal((300, 6)).astype(np.float32),
        labels=rng.integers(0, 3, 300),
        splits=SPLITS,
    )
    return tmp_path / "store"


def run(store, out, *arguments):
    """Seeds of all batches, (stage, epoch) -> a list of batches for each rank."""
    environment = {**os.environ, "PYTHONPATH": str(Path(gz.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(store), str(out), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ranks = [json.loads(path.read_text()) for path in sorted(out.glob("rank*.json"))]
    found = {}
    for rank, seen in enumerate(ranks):
        for stage, epoch, seeds in seen:
            key = (stage, epoch if stage in ("train", "val") else 0)
            found.setdefault(key, [[] for _ in ranks])[rank].append(seeds)
    return found


def each_node(batches_of_ranks):
    return Counter(chain.from_iterable(chain.from_iterable(batches_of_ranks)))


@pytest.mark.extended
@pytest.mark.parametrize(("devices", "workers"), [(1, 0), (1, 2), (2, 0)])
def test_every_stage_sees_its_nodes_and_an_epoch_is_resumed(store, tmp_path, devices, workers):
    options = ["--devices", str(devices), "--workers", str(workers)]
    whole = run(store, tmp_path / "whole", *options)
    for epoch in (0, 1):
        lengths = {len(batches) for batches in whole["train", epoch]}
        assert lengths == {8 // devices}  # equally many on each rank
        assert each_node(whole["train", epoch]) == Counter(SPLITS["train"].tolist())
        assert each_node(whole["val", epoch]) == Counter(SPLITS["val"].tolist())
    assert whole["train", 0] != whole["train", 1]
    assert each_node(whole["test", 0]) == Counter(SPLITS["test"].tolist())
    assert each_node(whole["predict", 0]) == Counter(range(300))
    if devices == 1:
        assert (tmp_path / "whole" / "predicted").read_text() == "300"

    # 4 or 8 rounds an epoch: the checkpoint is in the middle of the first one
    checkpoint = tmp_path / "whole" / "stepstep=3.ckpt"
    resumed = run(store, tmp_path / "resumed", *options, "--resume", str(checkpoint))
    assert resumed["train", 0] == [batches[3:] for batches in whole["train", 0]]
    assert resumed["train", 1] == whole["train", 1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_it_is_the_data_module_of_either_package(store, package):
    pl = pytest.importorskip(package)

    class Counting(pl.LightningModule):
        seeds = 0

        def training_step(self, batch, batch_idx):
            self.seeds += batch.batch_size

        def configure_optimizers(self):
            return None

    with gz.open(store) as ds:
        module, model = DataModule(ds, num_neighbors=[2], batch_size=59), Counting()
        quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
        pl.Trainer(max_epochs=2, accelerator="cpu", **dict.fromkeys(quiet, False)).fit(
            model, module
        )
    assert model.seeds == 2 * len(SPLITS["train"])


def test_stages_without_seeds_are_left_out_or_refused(store):
    with gz.open(store) as ds:
        module = DataModule(ds, num_neighbors=[2], batch_size=8)
        assert len(module.val_dataloader().dataset) == 82
        bare = gz.Dataset(ds.graph, ds.features, ds.labels, {"test": np.arange(8)})
        module = DataModule(bare, num_neighbors=[2], batch_size=8)
        assert module.val_dataloader is None
        with pytest.raises(ValueError, match=r"no nodes to train.*give input_train_nodes.*'test'"):
            module.train_dataloader()
        assert len(module.predict_dataloader().dataset) == 300


def test_seeds_of_a_typed_graph_are_given_with_their_type(tmp_path):
    ends = [np.arange(90) % 20, np.arange(90)]
    rows = np.ones((20, 3), np.float32)
    with gz.build(
        tmp_path / "typed",
        nodes={"paper": {"num_nodes": 90}, "author": {"x": rows}},
        edges={("author", "writes", "paper"): ends},
        splits={"val": {"paper": np.arange(30)}},
    ) as ds:
        data = DataModule(
            ds,
            input_train_nodes=("author", [4, 2]),
            input_val_nodes=("paper", ds["paper"].val_mask),
            num_neighbors=[3],
            batch_size=8,
        )
        (batch,) = data.train_dataloader()
        assert sorted(batch["author"].n_id.tolist()) == [2, 4]
        assert len(data.val_dataloader().dataset) == 30
        assert len(data.predict_dataloader().dataset) == 20
        assert data.input_train_nodes == ("author", [4, 2])
        data.input_val_nodes = ("paper", np.arange(3))
        assert len(data.val_dataloader().dataset) == 3


@pytest.mark.parametrize(
    ("strategy", "layer", "even"),
    [
        ("DDPStrategy", torch.nn.Linear(3, 3), False),
        ("DDPStrategy", torch.nn.BatchNorm1d(3), True),
        ("FSDPStrategy", torch.nn.Linear(3, 3), True),
    ],
)
def test_ranks_that_wait_for_each_other_get_equally_many_batches(store, strategy, layer, even):
    of_lightning = type(strategy, (), {"broadcast": lambda self, value: value})()
    trainer = SimpleNamespace(world_size=2, strategy=of_lightning, lightning_module=layer)
    how = {"num_neighbors": [2], "batch_size": 8}
    with gz.open(store) as ds:
        module, chosen = (
            DataModule(ds, **how),
            DataModule(ds, eval_loader_kwargs={"even": 7}, **how),
        )
        module.trainer = chosen.trainer = trainer
        loaders = [module.train_dataloader(), module.val_dataloader(), module.test_dataloader()]
        assert [loader._source.ranks.distributed for loader in loaders] == [True] * 3
        assert [loader._source.ranks.even for loader in loaders] == [True, even, even]
        with pytest.raises(ValueError, match="even must be True or False, not 7"):
            chosen.val_dataloader()


def test_one_seed_serves_every_loader(store):
    with gz.open(store) as ds:
        module = DataModule(ds, num_neighbors=[2], batch_size=8)
        first, second = (
            [batch.n_id.tolist() for batch in module.train_dataloader()] for _ in range(2)
        )
        assert first == second
        other = DataModule(ds, num_neighbors=[2], batch_size=8)
        other.load_state_dict(module.state_dict())
        assert [batch.n_id.tolist() for batch in other.train_dataloader()] == first


def test_what_pyg_has_and_this_has_not(store):
    with gz.open(store) as ds:
        with pytest.warns(UserWarning, match="shuffle=True.* ignored in .DataModule"):
            DataModule(ds, num_neighbors=[2], batch_size=8, shuffle=True)
        with pytest.raises(ValueError, match="loader='neighbor' is the only choice"):
            DataModule(ds, num_neighbors=[2], loader="full")
        module = DataModule(ds, num_neighbors=[2], node_sampler=object())
        with pytest.raises(TypeError, match="brings its own sampler: leave it out"):
            module.train_dataloader()
    with pytest.raises(TypeError, match="from_data"):
        DataModule(torch.ones(2), num_neighbors=[2])
