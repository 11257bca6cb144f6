"""The epoch loop: trains a model, and remembers the weights of its best epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from graphzero.graph.ids import IdArray
from graphzero.report.memory import MemoryReport, memory_report
from graphzero.training.evaluate import evaluate, forward_seeds
from graphzero.training.graphsage import GraphSAGE
from graphzero.training.interrupts import Interrupts, start
from graphzero.training.loaders import Loaders
from graphzero.training.reports import EpochReport, SplitReport

__all__ = ["BestEpoch", "Fitted", "fit"]


@dataclass(frozen=True)
class BestEpoch:
    """The best epoch so far.

    Attributes
    ----------
    epoch : int
        Counted from 1.
    quality : (float, float) or None
        Validation accuracy and negated validation loss: the larger pair is the better epoch. None
        without a validation split.
    weights : dict of str to Tensor
        The model's ``state_dict`` after the epoch, copied to the CPU.
    """

    epoch: int
    quality: tuple[float, float] | None
    weights: dict[str, Tensor]

    def is_beaten_by(self, quality: tuple[float, float] | None) -> bool:
        """Whether a later epoch of this quality is better; without validation it always is."""
        return quality is None or self.quality is None or quality > self.quality


@dataclass(frozen=True)
class Fitted:
    """Result of `fit`.

    Attributes
    ----------
    epochs : tuple of EpochReport
        The epochs that ran to their end.
    best : BestEpoch
    memory : MemoryReport
        At the end of the training, DataLoader workers included.
    interrupted : bool
        Whether Ctrl-C ended the training before its last epoch had ended.
    """

    epochs: tuple[EpochReport, ...]
    best: BestEpoch
    memory: MemoryReport
    interrupted: bool


@dataclass
class _Sums:
    """Running sums over the batches of an epoch; the tensors stay on the device until its end."""

    loss: Tensor
    correct: Tensor
    seeds: int = 0
    batches: int = 0
    loading: float = 0.0
    waited: float = 0.0
    io: str = ""

    def report(self, epoch: int, seconds: float, val: SplitReport | None) -> EpochReport:
        return EpochReport(
            epoch=epoch,
            loss=self.loss.item() / self.seeds,
            train_accuracy=self.correct.item() / self.seeds,
            val_accuracy=None if val is None else val.accuracy,
            seconds=seconds,
            batches=self.batches,
            batches_per_second=self.batches / seconds,
            loading=self.loading,
            waited=self.waited,
            io=self.io,
        )


@dataclass(frozen=True)
class _Fitting:
    """What the epochs of a training have in common."""

    model: GraphSAGE
    optimizer: torch.optim.Optimizer
    device: torch.device
    interrupts: Interrupts
    bar: tqdm[Any]

    def run_epoch(
        self, epoch: int, loader: DataLoader[Any], val_loader: DataLoader[Any] | None
    ) -> tuple[EpochReport, tuple[float, float] | None]:
        """Trains and validates; the epoch's report and its quality, as in `BestEpoch`."""
        started = time.perf_counter()
        sums = self._train(loader)
        seconds = time.perf_counter() - started
        if val_loader is None:
            return sums.report(epoch, seconds, None), None
        val, _ = evaluate(self.model, val_loader, self.device, self.interrupts.check)
        return sums.report(epoch, seconds, val), (val.accuracy, -val.loss)

    def _train(self, loader: DataLoader[Any]) -> _Sums:
        self.model.train()
        sums = _Sums(torch.zeros((), device=self.device), torch.zeros((), device=self.device))
        requested = time.perf_counter()
        for batch in start(loader):
            sums.loading += time.perf_counter() - requested
            scores, labels = forward_seeds(self.model, batch.to(self.device, non_blocking=True))
            loss = F.cross_entropy(scores, labels)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            sums.loss += loss.detach() * batch.batch_size
            sums.correct += (scores.detach().argmax(1) == labels).sum()
            sums.seeds += batch.batch_size
            sums.batches += 1
            sums.waited += batch.stats.disk
            sums.io = batch.stats.io
            self.bar.update()
            del batch, scores, labels, loss  # so that the next batch can use their memory
            self.interrupts.check()
            requested = time.perf_counter()
        return sums


def _check_loss(report: EpochReport) -> None:
    if not math.isfinite(report.loss):
        raise ValueError(
            f"the loss of epoch {report.epoch} is {report.loss}: "
            f"lower lr, or look for NaN and huge values among the features"
        )


def _copy_of_weights(model: GraphSAGE) -> dict[str, Tensor]:
    return {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}


def fit(
    model: GraphSAGE,
    optimizer: torch.optim.Optimizer,
    loaders: Loaders,
    splits: dict[str, IdArray],
    interrupts: Interrupts,
    *,
    progress: bool,
    on_epoch: Callable[[EpochReport], object],
    on_best: Callable[[BestEpoch], object],
) -> Fitted | None:
    """Trains on the split "train", and chooses the best epoch by the split "val".

    Ctrl-C ends the training; the result then covers the epochs that have ended.

    Parameters
    ----------
    model : GraphSAGE
        Has the weights of the last batch afterwards.
    optimizer : torch.optim.Optimizer
    loaders : Loaders
    splits : dict of str to (n,) int64
        Labelled nodes.
    interrupts : Interrupts
    progress : bool
        Show a progress bar on stderr.
    on_epoch : callable
        Called after each epoch.
    on_best : callable
        Called before `on_epoch`, if the epoch is the best so far.

    Returns
    -------
    Fitted or None
        None if the training was interrupted before its first epoch had ended.

    Raises
    ------
    ValueError
        If the loss of an epoch is not finite.
    """
    epochs = loaders.options.epochs
    batches, loader = loaders.for_training(splits["train"])
    val_loader = loaders.for_evaluation(splits["val"], persistent=True) if "val" in splits else None
    reports: list[EpochReport] = []
    best: BestEpoch | None = None
    interrupted = False
    with tqdm(total=epochs * len(batches), unit=" batches", disable=not progress) as bar:
        fitting = _Fitting(model, optimizer, loaders.options.device, interrupts, bar)
        try:
            for epoch in range(1, epochs + 1):
                bar.set_description(f"epoch {epoch}/{epochs}")
                batches.set_epoch(epoch - 1)
                report, quality = fitting.run_epoch(epoch, loader, val_loader)
                _check_loss(report)
                if best is None or best.is_beaten_by(quality):
                    best = BestEpoch(epoch, quality, _copy_of_weights(model))
                reports.append(report)
                if best.epoch == epoch:
                    on_best(best)
                on_epoch(report)
        except KeyboardInterrupt:
            interrupted = True
    if best is None or not reports:  # Ctrl-C may fall between the two
        return None
    memory = memory_report(batches)  # while the workers still exist
    return Fitted(tuple(reports), best, memory, interrupted)
