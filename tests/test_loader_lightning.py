"""Lightning makes loaders anew from their attributes or from their arguments: ours survive it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from ready_loaders import all_same, loader_of, open_form, reference

import graphzero as gz

torch = pytest.importorskip("torch")

# Minutes of training in scripts: what they use is sanitized by the tests of its own.
pytestmark = pytest.mark.no_asan


@pytest.fixture
def ds(dataset):
    with gz.open(dataset[0]) as opened:
        yield opened


class Recording:
    """As Lightning's wrapper of batch samplers in ``predict``."""

    def __init__(self, batch_sampler):
        self.__dict__.update(batch_sampler.__dict__)
        self._batch_sampler = batch_sampler
        self.seen = []

    def __len__(self):
        return len(self._batch_sampler)

    def __iter__(self):
        for batch in self._batch_sampler:
            self.seen.append(batch)
            yield batch


def for_prediction(loader):
    """What Lightning gives a new loader for another one's batch sampler."""
    own = loader.batch_sampler
    made = type(own)(loader.sampler, batch_size=own.batch_size, drop_last=False)
    return {
        "sampler": None,
        "shuffle": False,
        "batch_sampler": Recording(made),
        "batch_size": 1,
        "drop_last": False,
    }


def made_anew(loader):
    """From the attributes, as Lightning 2.6 does it."""
    parameters = {
        **inspect.signature(type(loader).__init__).parameters,
        **inspect.signature(torch.utils.data.DataLoader.__init__).parameters,
    }
    attributes = {name: value for name, value in vars(loader).items() if name[0] != "_"}
    attributes["multiprocessing_context"] = loader.multiprocessing_context
    given = {
        name: attributes[name]
        for name, each in parameters.items()
        if name in attributes and (each.default is not attributes[name] or name == "dataset")
    }
    return type(loader)(**{**given, **for_prediction(loader)})


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_made_anew_from_its_attributes(ds, workers):
    options = {"replace": True, "num_threads": 1, "transform": lambda batch: batch}
    loader = loader_of(ds, workers=workers, shuffle=True, drop_last=True, **options)
    anew = made_anew(loader)
    batches = list(anew)
    assert all_same(batches, open_form(reference(ds, replace=True)))  # in order, and all of them
    assert (anew.batch_size, len(anew), len(anew.dataset)) == (20, 11, 203)
    assert anew.transform is loader.transform
    assert [list(seen) for seen in anew.batch_sampler.seen] == [
        batch.input_id.tolist() for batch in batches
    ]


def test_a_link_loader_made_anew(ds):
    edges = np.arange(80).reshape(2, 40)
    options = {"edge_label_index": edges, "neg_sampling": ("binary", 2.0), "batch_size": 9}
    loader = gz.LinkNeighborLoader(ds, [3], seed=1, shuffle=True, **options)
    expected = gz.LinkNeighborLoader(ds, [3], seed=1, **options)
    assert all_same(made_anew(loader), expected)


def test_a_loader_made_anew_from_its_arguments(ds):
    loader = loader_of(ds, shuffle=True)
    arguments = {"num_neighbors": [4, 3], "input_nodes": "train", "seed": 5, "shuffle": True}
    anew = gz.NeighborLoader(ds, **{**arguments, **for_prediction(loader)})
    assert all_same(anew, open_form(reference(ds)))


def test_a_loader_that_deals_to_the_ranks_is_left_alone(ds):
    from torch.utils.data import DistributedSampler, SequentialSampler

    dealt = loader_of(ds, rank=0, world_size=2, even=False)
    assert isinstance(dealt.sampler, DistributedSampler)  # which Lightning replaces by none
    dealt.sampler.set_epoch(3)
    assert dealt.epoch == 0
    for options in ({}, {"distributed": False}):
        loader = loader_of(ds, **options)
        assert not isinstance(loader.sampler, DistributedSampler)
        with pytest.raises(RuntimeError, match="distributed=True"):
            type(loader.batch_sampler)(SequentialSampler(loader.dataset), 20, False)


class Counts:
    """Makes a module that counts the seeds of each stage."""

    def __new__(cls, lightning):
        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(7, 4)
                self.seen = {"training": [], "validation": [], "test": []}

            def training_step(self, batch):
                self.seen["training"].append(batch.batch_size)
                return self.linear(batch.x)[: batch.batch_size].square().mean()

            def validation_step(self, batch):
                self.seen["validation"].append(batch.batch_size)

            def test_step(self, batch):
                self.seen["test"].append(batch.batch_size)

            def predict_step(self, batch):
                return batch.n_id[: batch.batch_size]

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        return Module()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 2])
def test_all_stages_of_a_trainer(ds, workers, tmp_path):
    lightning = pytest.importorskip("lightning")
    module = Counts(lightning)
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        default_root_dir=tmp_path,
    )
    train = loader_of(ds, workers=workers, shuffle=True, persistent_workers=workers > 0)
    val = loader_of(ds, "val", workers=workers)
    trainer.fit(module, train, val)
    assert sum(module.seen["training"]) == 2 * 203
    assert sum(module.seen["validation"]) == 2 * 10
    assert train.epoch == 2
    trainer.validate(module, val, verbose=False)
    trainer.test(module, val, verbose=False)
    assert sum(module.seen["test"]) == 10
    predicted = trainer.predict(
        module, loader_of(ds, workers=workers, shuffle=True, drop_last=True)
    )
    assert torch.cat(predicted).tolist() == ds.splits["train"].tolist()

    class Module(lightning.LightningDataModule):
        def predict_dataloader(self):
            return loader_of(ds, workers=workers)

    predicted = trainer.predict(module, datamodule=Module())
    assert torch.cat(predicted).tolist() == ds.splits["train"].tolist()
