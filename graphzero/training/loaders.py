"""The DataLoaders of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader

from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray
from graphzero.loader.collate import Collate
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.packs.packed_dataset import PackedDataset
from graphzero.training.interrupts import ignore_interrupts
from graphzero.training.options import TrainOptions

__all__ = ["FEATURE_DTYPE", "Loaders"]

FEATURE_DTYPE = "float32"  # whatever the features are stored as
_USED = ("x", "y")  # of all attributes, by the model and its loss


@dataclass(frozen=True)
class Loaders:
    """Makes the DataLoaders of one training, which is the work of one process.

    Attributes
    ----------
    dataset : Dataset
    options : TrainOptions
    """

    dataset: Dataset
    options: TrainOptions

    def for_training(self, seeds: IdArray) -> tuple[NeighborDataset, DataLoader[Any]]:
        """Shuffled batches of the seeds, or those of the pack: the dataset and its loader."""
        if self.options.pack is None:
            batches = self._sampled(seeds, shuffle=True)
        else:
            batches = PackedDataset(
                self.dataset,
                self.options.pack,
                seeds,
                prefetch=self.options.prefetch,
                gather=_USED,
                feature_dtype=FEATURE_DTYPE,
                distributed=False,
            )
        return batches, self._loader(batches, persistent=True)

    def for_evaluation(self, seeds: IdArray, *, persistent: bool = False) -> DataLoader[Any]:
        """Batches of the seeds in their order; its workers stay between passes if persistent."""
        return self._loader(self._sampled(seeds, shuffle=False), persistent=persistent)

    def _sampled(self, seeds: IdArray, *, shuffle: bool) -> NeighborDataset:
        return NeighborDataset(
            self.dataset,
            seeds,
            self.options.fanouts,
            batch_size=self.options.batch_size,
            shuffle=shuffle,
            seed=self.options.seed,
            prefetch=self.options.prefetch,
            gather=_USED,
            feature_dtype=FEATURE_DTYPE,
            distributed=False,
        )

    def _loader(self, batches: NeighborDataset, *, persistent: bool) -> DataLoader[Any]:
        workers = self.options.workers
        collate: Any = Collate(self.dataset)  # torch's type names lists of samples only
        return DataLoader(
            batches,
            batch_size=None,
            num_workers=workers,
            collate_fn=collate,
            worker_init_fn=ignore_interrupts,
            pin_memory=self.options.device.type == "cuda",
            persistent_workers=persistent and workers > 0,
            # Making an iterator draws a number, which must not come from the model's generator.
            generator=torch.Generator(),
        )
