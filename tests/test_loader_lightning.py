"""Lightning makes loaders anew from their attributes or from their arguments: ours survive it."""

from __future__ import annotations

import inspect
import json
from collections import Counter

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
    # what it gives for another one's batch sampler, if its dataset is iterable
    return type(loader)(**{**given, "sampler": None, "batch_sampler": None})


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_made_anew_from_its_attributes(ds, workers):
    options = {"replace": True, "num_threads": 1, "transform": lambda batch: batch}
    loader = loader_of(ds, workers=workers, shuffle=True, drop_last=True, **options)
    anew = made_anew(loader)
    batches = list(anew)
    assert all_same(batches, open_form(reference(ds, replace=True)))  # in order, and all of them
    assert (anew.batch_size, len(anew), len(anew.dataset)) == (20, 11, 203)
    assert anew.transform is loader.transform


def test_a_link_loader_made_anew(ds):
    edges = np.arange(80).reshape(2, 40)
    options = {"edge_label_index": edges, "neg_sampling": ("binary", 2.0), "batch_size": 9}
    loader = gz.LinkNeighborLoader(ds, [3], seed=1, shuffle=True, **options)
    expected = gz.LinkNeighborLoader(ds, [3], seed=1, **options)
    assert all_same(made_anew(loader), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 2])
def test_all_stages_of_a_trainer(ds, workers, tmp_path):
    lightning = pytest.importorskip("lightning")
    from lightning_program import Recording, make_trainer

    model = Recording(tmp_path, 7, 4)
    trainer = make_trainer(devices=1, enable_checkpointing=False)

    def seeds_of(*stages):
        seen = json.loads((tmp_path / "rank0.json").read_text())
        (tmp_path / "rank0.json").unlink()
        return [seed for found, _, seeds in seen if found in stages for seed in seeds]

    train = loader_of(ds, workers=workers, shuffle=True, persistent_workers=workers > 0)
    val = loader_of(ds, "val", workers=workers)
    trainer.fit(model, train, val)
    expected = ds.splits["train"].tolist() * 2 + ds.splits["val"].tolist() * 2
    assert Counter(seeds_of("train", "val")) == Counter(expected)
    assert train.epoch == 2
    trainer.test(model, val, verbose=False)
    assert seeds_of("test") == ds.splits["val"].tolist()
    trainer.predict(model, loader_of(ds, workers=workers, shuffle=True, drop_last=True))
    assert seeds_of("predict") == ds.splits["train"].tolist()

    class Module(lightning.LightningDataModule):
        def predict_dataloader(self):
            return loader_of(ds, workers=workers)

    trainer.predict(model, datamodule=Module())
    assert seeds_of("predict") == ds.splits["train"].tolist()
