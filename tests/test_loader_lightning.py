"""Lightning makes loaders anew from their attributes or from their arguments: ours survive it."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from ready_loaders import loader_of

import graphzero as gz

torch = pytest.importorskip("torch")

# Minutes of training in scripts: what they use is sanitized by the tests of its own.
pytestmark = pytest.mark.no_asan


@pytest.fixture
def ds(dataset):
    with gz.open(dataset[0]) as opened:
        yield opened


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
