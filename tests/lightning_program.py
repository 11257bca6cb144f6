"""Trains, validates, tests and predicts with Lightning, and writes down the seeds of every batch.

python lightning_program.py STORE OUT --devices 2 [--resume CHECKPOINT]
"""

from __future__ import annotations

import argparse
import atexit
import json
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

import graphzero as gz
from graphzero.pyg import DataModule


class Recording(LightningModule):
    """A linear model that keeps (stage, epoch, seeds) of its batches."""

    def __init__(self, out: Path, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(num_features, num_classes)
        self.out = out
        self.seen: list[tuple[str, int, list[int]]] = []

    def setup(self, stage):
        if dist.is_initialized():  # Gloo's threads abort a process that exits with them
            atexit.register(dist.destroy_process_group)

    def forward(self, batch, stage):
        self.seen.append((stage, self.current_epoch, batch.n_id[: batch.batch_size].tolist()))
        return self.linear(batch.x)[: batch.batch_size]

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self(batch, "train"), batch.y[: batch.batch_size])

    def validation_step(self, batch, batch_idx):
        loss = F.cross_entropy(self(batch, "val"), batch.y[: batch.batch_size])
        self.log("val", loss, batch_size=batch.batch_size, sync_dist=True)

    def test_step(self, batch, batch_idx):
        self(batch, "test")

    def predict_step(self, batch, batch_idx):
        return self(batch, "predict").argmax(dim=1)

    def write(self):
        path = self.out / f"rank{self.global_rank}.json"
        earlier = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([*earlier, *self.seen]))
        self.seen = []

    on_fit_end = on_test_end = on_predict_end = write

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def make_trainer(devices, **options):
    return Trainer(
        accelerator="cpu",
        devices=devices,
        strategy="ddp_spawn" if devices > 1 else "auto",
        max_epochs=2,
        num_sanity_val_steps=0,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("out", type=Path)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--resume")
    args = parser.parse_args()

    args.out.mkdir()
    ds = gz.open(args.store)
    data = DataModule(ds, num_neighbors=[3, 3], batch_size=16, num_workers=args.workers)
    model = Recording(args.out, ds.features.feature_dim, ds.num_classes)
    keep = ModelCheckpoint(args.out, filename="step{step}", every_n_train_steps=3, save_top_k=-1)
    make_trainer(args.devices, callbacks=[keep]).fit(model, data, ckpt_path=args.resume)
    trainer = make_trainer(args.devices, enable_checkpointing=False)
    trainer.test(model, data, verbose=False)
    predicted = trainer.predict(model, data, return_predictions=args.devices == 1)
    if predicted is not None:
        (args.out / "predicted").write_text(str(torch.cat(predicted).shape[0]))


if __name__ == "__main__":
    main()
