"""`train`: node classification with GraphSAGE on a dataset, through the standard DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from graphzero.graph.dataset import Dataset
from graphzero.io.prefetch import Prefetch
from graphzero.training.evaluate import evaluate
from graphzero.training.fit import fit
from graphzero.training.graphsage import GraphSAGE
from graphzero.training.labels import count_classes, labelled_splits
from graphzero.training.loaders import Loaders
from graphzero.training.options import TrainOptions, as_device, fanouts_and_batch_size
from graphzero.training.reports import EpochReport, SplitReport, TrainReport

__all__ = ["EpochReport", "SplitReport", "TrainReport", "train"]


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds torch's generators; afterwards they continue where they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def train(
    ds: Dataset,
    *,
    fanouts: Sequence[int] | None = None,
    hidden: int = 128,
    epochs: int = 50,
    batch_size: int | None = None,
    lr: float = 0.01,
    dropout: float = 0.3,
    weight_decay: float = 5e-4,
    workers: int = 0,
    seed: int = 0,
    device: str = "auto",
    prefetch: Prefetch | None = None,
    pack: str | os.PathLike[str] | None = None,
    progress: bool = False,
    on_epoch: Callable[[EpochReport], object] | None = None,
) -> TrainReport:
    """Trains GraphSAGE to predict the labels, and reports how well and how fast.

    Uses the splits named train, val (or valid) and test; without any split all labelled nodes are
    trained on. Nodes whose label is -1 are not predicted. The same seed gives the same report,
    times and memory aside, on the same machine.

    Parameters
    ----------
    ds : Dataset
        With features and integer labels.
    fanouts : sequence of int, optional
        Neighbours per node in each hop, -1 for all; one layer for each. Default: 10, 10, or those
        of the pack.
    hidden : int
        Width of the layers between.
    epochs : int
    batch_size : int, optional
        Seeds in a batch. Default: 1024, or that of the pack.
    lr, weight_decay : float
        Of Adam.
    dropout : float
    workers : int
        DataLoader workers; 0 loads in this process.
    seed : int
    device : str
        A torch device, or "auto": CUDA where there is one, else the CPU.
    prefetch : Prefetch, optional
        How pages are read ahead.
    pack : path-like, optional
        A file that `graphzero.pack` has written of the labelled nodes to train on, with whose
        batches to train (see `PackedDataset`).
    progress : bool
        Show a progress bar on stderr.
    on_epoch : callable, optional
        Called with each `EpochReport`.

    Returns
    -------
    TrainReport

    Raises
    ------
    ValueError
        If the dataset lacks what training needs, an option is out of range or contradicts the
        pack, or the loss is no longer finite.
    FormatError
        If the pack is truncated, foreign or corrupt.
    """
    splits = labelled_splits(ds)
    assert ds.features is not None
    num_classes = count_classes(ds, splits)
    fanouts, batch_size = fanouts_and_batch_size(fanouts, batch_size, pack)
    options = TrainOptions(
        fanouts=fanouts,
        batch_size=batch_size,
        hidden=hidden,
        epochs=epochs,
        lr=lr,
        dropout=dropout,
        weight_decay=weight_decay,
        workers=workers,
        seed=seed,
        device=as_device(device),
        prefetch=prefetch or Prefetch(),
        pack=pack,
    )
    loaders = Loaders(ds, options)
    with _seeded(seed, options.device):
        model = GraphSAGE(
            ds.features.feature_dim, options.hidden, num_classes, len(fanouts), dropout=dropout
        ).to(options.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
        fitted = fit(
            model,
            optimizer,
            loaders,
            splits,
            progress=progress,
            on_epoch=on_epoch or (lambda report: None),
        )
        model.load_state_dict(fitted.best.weights)
        evaluated = {
            name: evaluate(model, loaders.for_evaluation(seeds), options.device)
            for name, seeds in splits.items()
        }
    return TrainReport(
        epochs=fitted.epochs,
        best_epoch=fitted.best.epoch,
        splits=evaluated,
        num_classes=num_classes,
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        device=str(options.device),
        memory=fitted.memory,
        io=fitted.epochs[-1].io,
    )
