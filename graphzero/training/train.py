"""`train`: node classification with GraphSAGE on a dataset, through the standard DataLoader."""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray, as_count
from graphzero.io.prefetch import Prefetch
from graphzero.loader.collate import Collate
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.packs.pack_file import open_pack
from graphzero.packs.packed_dataset import PackedDataset
from graphzero.report.memory import MemoryReport, memory_report
from graphzero.training.evaluate import SplitReport, evaluate, forward_seeds
from graphzero.training.graphsage import GraphSAGE
from graphzero.training.labels import count_classes, labelled_splits

__all__ = ["EpochReport", "SplitReport", "TrainReport", "train"]


@dataclass(frozen=True)
class EpochReport:
    """What one epoch of training did.

    Attributes
    ----------
    epoch : int
        From 1.
    loss : float
        Mean cross-entropy over the training seeds, while the weights were changing.
    train_accuracy : float
        Share of right predictions in the same passes, with dropout.
    val_accuracy : float or None
        After the epoch, without dropout; None without a validation split.
    seconds : float
        Of training, without validation.
    batches : int
    batches_per_second : float
    loading : float
        Seconds of the training loop's wait for batches.
    waited : float
        Seconds for which batches waited for their pages; in the workers, where there are some.
    io : str
        How the rows of the last batch were read, and why so.
    """

    epoch: int
    loss: float
    train_accuracy: float
    val_accuracy: float | None
    seconds: float
    batches: int
    batches_per_second: float
    loading: float
    waited: float
    io: str = ""


@dataclass(frozen=True)
class TrainReport:
    """What `train` did.

    Attributes
    ----------
    epochs : tuple of EpochReport
    best_epoch : int
        The one whose weights the splits are reported for: of the highest validation accuracy, at
        equal ones of the lowest validation loss; the last one without a validation split.
    splits : dict of str to SplitReport
        By name: train, val, test, those that the dataset has.
    num_classes, num_parameters : int
    device : str
    io : str
        How the rows of the last epoch were read, and why so.
    memory : MemoryReport
        At the end of the last epoch, workers included.
    """

    epochs: tuple[EpochReport, ...]
    best_epoch: int
    splits: dict[str, SplitReport]
    num_classes: int
    num_parameters: int
    device: str
    memory: MemoryReport
    io: str = ""


def _as_device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {device!r} cannot be used: {reason}") from None
    return found


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """The generators of torch, seeded, and afterwards as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True)
class _Loaders:
    """Makes the DataLoaders of one training."""

    dataset: Dataset
    fanouts: Sequence[int]
    batch_size: int
    workers: int
    seed: int
    device: torch.device
    prefetch: Prefetch

    def make(
        self,
        seeds: IdArray,
        *,
        shuffle: bool = False,
        reused: bool = False,
        pack: str | os.PathLike[str] | None = None,
    ) -> tuple[NeighborDataset, DataLoader[Any]]:
        how: Any = {"prefetch": self.prefetch, "feature_dtype": "float32"}
        if pack is not None:
            batches: NeighborDataset = PackedDataset(self.dataset, pack, seeds, **how)
        else:
            batches = NeighborDataset(
                self.dataset,
                seeds,
                self.fanouts,
                batch_size=self.batch_size,
                shuffle=shuffle,
                seed=self.seed,
                **how,
            )
        collate: Any = Collate(self.dataset)  # torch's types know lists of samples only
        return batches, DataLoader(
            batches,
            batch_size=None,
            num_workers=self.workers,
            collate_fn=collate,
            pin_memory=self.device.type == "cuda",
            persistent_workers=reused and self.workers > 0,
            # A generator of its own: making an iterator must not draw from the model's.
            generator=torch.Generator(),
        )


@dataclass
class _Sums:
    """Running sums over the batches of an epoch; on the device, which is not waited for."""

    loss: Tensor
    right: Tensor
    seeds: int = 0
    batches: int = 0
    loading: float = 0.0
    waited: float = 0.0
    io: str = ""


def _train_epoch(
    model: GraphSAGE,
    loader: DataLoader[Any],
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    bar: tqdm[Any],
) -> _Sums:
    model.train()
    sums = _Sums(torch.zeros((), device=device), torch.zeros((), device=device))
    asked = time.perf_counter()
    for batch in loader:
        sums.loading += time.perf_counter() - asked
        scores, labels = forward_seeds(model, batch.to(device, non_blocking=True))
        loss = F.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        sums.loss += loss.detach() * batch.batch_size
        sums.right += (scores.detach().argmax(1) == labels).sum()
        sums.seeds += batch.batch_size
        sums.batches += 1
        sums.waited += batch.stats.waited
        sums.io = batch.stats.io
        bar.update()
        del batch, scores, labels, loss  # their memory is wanted for the next ones
        asked = time.perf_counter()
    return sums


def _epoch_report(epoch: int, sums: _Sums, seconds: float, val: SplitReport | None) -> EpochReport:
    return EpochReport(
        epoch=epoch + 1,
        loss=sums.loss.item() / sums.seeds,
        train_accuracy=sums.right.item() / sums.seeds,
        val_accuracy=None if val is None else val.accuracy,
        seconds=seconds,
        batches=sums.batches,
        batches_per_second=sums.batches / seconds,
        loading=sums.loading,
        waited=sums.waited,
        io=sums.io,
    )


def _as_batches(
    fanouts: Sequence[int] | None, batch_size: int | None, pack: str | os.PathLike[str] | None
) -> tuple[Sequence[int], int]:
    """Fanouts and batch size: as given, those of a pack, or the defaults."""
    if pack is None:
        return (
            (10, 10) if fanouts is None else fanouts,
            1024 if batch_size is None else batch_size,
        )
    if fanouts is not None or batch_size is not None:
        raise ValueError("a pack has its own fanouts and batch size: leave them out")
    opened = open_pack(pack)
    options = opened.info.options
    opened.store.close()
    return options["fanouts"], options["batch_size"]


def _check_numbers(lr: float, dropout: float, weight_decay: float) -> None:
    if not (math.isfinite(lr) and lr > 0):
        raise ValueError(f"lr must be a positive number, not {lr!r}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, not {dropout!r}")
    if not (math.isfinite(weight_decay) and weight_decay >= 0):
        raise ValueError(f"weight_decay must be 0 or positive, not {weight_decay!r}")


def _check_loss(report: EpochReport) -> None:
    if not math.isfinite(report.loss):
        raise ValueError(
            f"the loss of epoch {report.epoch} is {report.loss}: "
            f"lower lr, or look for NaN and huge values among the features"
        )


def _fit(
    model: GraphSAGE,
    optimizer: torch.optim.Optimizer,
    loaders: _Loaders,
    splits: dict[str, IdArray],
    epochs: int,
    *,
    pack: str | os.PathLike[str] | None,
    progress: bool,
    on_epoch: Callable[[EpochReport], object] | None,
) -> tuple[list[EpochReport], int, MemoryReport]:
    """Trains, and leaves the model with the weights of its best epoch."""
    device = loaders.device
    batches, loader = loaders.make(splits["train"], shuffle=True, reused=True, pack=pack)
    val_loader = loaders.make(splits["val"], reused=True)[1] if "val" in splits else None
    reports: list[EpochReport] = []
    best: tuple[float, float] | None = None
    with tqdm(total=epochs * len(batches), unit=" batches", disable=not progress) as bar:
        for epoch in range(epochs):
            bar.set_description(f"epoch {epoch + 1}/{epochs}")
            batches.set_epoch(epoch)
            started = time.perf_counter()
            sums = _train_epoch(model, loader, optimizer, device, bar)
            seconds = time.perf_counter() - started
            val = None if val_loader is None else evaluate(model, val_loader, device)
            reports.append(_epoch_report(epoch, sums, seconds, val))
            _check_loss(reports[-1])
            if on_epoch is not None:
                on_epoch(reports[-1])
            merit = None if val is None else (val.accuracy, -val.loss)
            if merit is None or best is None or merit > best:
                best, best_epoch = merit, epoch + 1
                weights = copy.deepcopy(model.state_dict())
    memory = memory_report(loaders.dataset)  # while the workers are still there
    model.load_state_dict(weights)
    return reports, best_epoch, memory


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
    _check_numbers(lr, dropout, weight_decay)
    num_classes = count_classes(ds, splits)
    on = _as_device(device)
    fanouts, batch_size = _as_batches(fanouts, batch_size, pack)
    loaders = _Loaders(
        ds, fanouts, batch_size, as_count(workers, "workers", 0), seed, on, prefetch or Prefetch()
    )
    with _seeded(seed, on):
        model = GraphSAGE(
            ds.features.feature_dim,
            as_count(hidden, "hidden"),
            num_classes,
            len(fanouts),
            dropout=dropout,
        ).to(on)
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
        reports, best_epoch, memory = _fit(
            model,
            optimizer,
            loaders,
            splits,
            as_count(epochs, "epochs"),
            pack=pack,
            progress=progress,
            on_epoch=on_epoch,
        )
        evaluated = {
            name: evaluate(model, loaders.make(seeds)[1], on) for name, seeds in splits.items()
        }
    return TrainReport(
        epochs=tuple(reports),
        best_epoch=best_epoch,
        splits=evaluated,
        num_classes=num_classes,
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        device=str(on),
        memory=memory,
        io=reports[-1].io,
    )
