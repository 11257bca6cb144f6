"""`graphzero.pyg.DataModule` under Lightning's Trainer, in one process and in two."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import files
import numpy as np
import others
import pytest

import graphzero as gz

pytest.importorskip("torch_geometric")
if importlib.util.find_spec("lightning") is None:
    pytest.skip("lightning is not installed", allow_module_level=True)

import torch

import graphzero.pyg
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
    others.output_of(PROGRAM, store, out, *arguments)
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


@pytest.fixture
def links(tmp_path):
    split = gz.LinkSplit(val=0.1, test=0.2)
    edges = {"edge_index": files.random_edges(300, 2000, seed=2), "edge_time": np.arange(2000)}
    rows = np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32)
    with gz.build(tmp_path / "links", edges, rows, num_nodes=300, edge_splits=split) as ds:
        yield ds


@pytest.mark.filterwarnings("ignore")
def test_links_are_trained_with_by_the_trainer(links):
    pl = pytest.importorskip("lightning.pytorch")
    seen = Counter()

    class Ranking(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(6, 6)

        def training_step(self, batch, batch_idx):
            assert len(batch.edge_label) == 2 * batch.edge_label.sum() == 2 * batch.batch_size
            seen[str(self.trainer.state.stage.value)] += batch.batch_size
            source, target = self.linear(batch.x)[batch.edge_label_index]
            scores = (source * target).sum(dim=-1)
            return torch.nn.functional.binary_cross_entropy_with_logits(scores, batch.edge_label)

        validation_step = test_step = training_step

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    module = DataModule(
        links, input_train_edges="train", num_neighbors=[3], batch_size=64, neg_sampling_ratio=1.0
    )
    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    options = dict.fromkeys(quiet, False)
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", num_sanity_val_steps=0, **options)
    model = Ranking()
    trainer.fit(model, module)
    trainer.test(model, module, verbose=False)
    stages = {"train": "train", "validate": "val", "test": "test"}
    assert seen == {stage: len(links.edge_splits[name]) for stage, name in stages.items()}


def test_seed_edges_have_labels_and_times_of_their_stage(links):
    edges = links.edge_splits.edge_index("test")[:, :20]
    labels = np.arange(20)
    module = DataModule(
        links,
        input_train_edges=edges,
        input_train_labels=labels,
        input_train_time=labels * 50,
        time_attr="edge_time",
        input_pred_edges=edges[:, :5],
        input_pred_time=labels[:5],
        num_neighbors=[2],
        batch_size=20,
        eval_loader_kwargs={"batch_size": 4},
    )
    (batch,) = module.train_dataloader()
    order = batch.input_id.numpy()
    assert sorted(order) == list(range(20))
    assert np.array_equal(batch.n_id[batch.edge_label_index], edges[:, order])
    assert np.array_equal(batch.edge_label, labels[order])
    assert np.array_equal(batch.edge_label_time, labels[order] * 50)
    first, second = module.predict_dataloader()
    pairs = torch.cat([b.n_id[b.edge_label_index] for b in (first, second)], dim=1)
    assert np.array_equal(pairs, edges[:, :5])  # in their order
    assert module.input_val_edges == "val"
    with pytest.raises(ValueError, match="seeds that are nodes, or edges: give one kind"):
        DataModule(links, [1, 2], input_val_edges="val", num_neighbors=[2])
    with pytest.raises(ValueError, match=r"no nodes to train with.*For links, .*input_train_edges"):
        DataModule(links, num_neighbors=[2]).train_dataloader()


def test_links_of_a_typed_graph_are_given_with_their_type(tmp_path):
    kind = ("author", "writes", "paper")
    ends = np.stack([np.arange(90) % 20, np.arange(90)])
    nodes = {"paper": {"num_nodes": 90}, "author": {"num_nodes": 20}}
    splits = {"val": {kind: np.arange(30)}}
    with gz.build(tmp_path / "typed", nodes=nodes, edges={kind: ends}, edge_splits=splits) as ds:
        module = DataModule(
            ds,
            input_train_edges=(kind, ends[:, 30:]),
            input_val_edges=(kind, "val"),
            num_neighbors=[3],
            batch_size=60,
        )
        (batch,) = module.train_dataloader()
        assert batch[kind].edge_label_index.shape == (2, 60)
        assert len(module.val_dataloader().dataset) == 30
        assert module.test_dataloader is None


def test_the_names_of_pyg_lead_to_it():
    for name in ("LightningNodeData", "LightningLinkData"):
        with pytest.raises(ImportError, match="comes nearest is DataModule, which takes its arg"):
            getattr(graphzero.pyg, name)
