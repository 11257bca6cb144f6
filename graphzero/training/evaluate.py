"""A model's predictions for the seeds of a loader, compared with their labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader

from graphzero.graph.ids import IdArray
from graphzero.loader.mini_batch import MiniBatch
from graphzero.training.graphsage import GraphSAGE
from graphzero.training.interrupts import start
from graphzero.training.metrics import majority_share, roc_auc
from graphzero.training.reports import SplitReport

__all__ = ["Scores", "evaluate", "forward_seeds", "predict_scores"]

Scores = npt.NDArray[np.float32]


def forward_seeds(model: GraphSAGE, batch: MiniBatch) -> tuple[Tensor, Tensor]:
    """Scores and labels of a batch's seeds."""
    assert batch.x is not None
    assert batch.y is not None
    x = batch.x.reshape(batch.num_nodes, -1).float()
    scores = model(x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    return scores, batch.y[: batch.batch_size].reshape(-1).long()


def _scored(
    model: GraphSAGE,
    loader: DataLoader[Any],
    device: torch.device,
    on_batch: Callable[[], object],
) -> Iterator[tuple[Tensor, Tensor]]:
    """Scores and labels of the seeds of each batch, without dropout; always with equal draws."""
    model.eval()
    batches: Any = loader.dataset
    batches.set_epoch(0)  # else each evaluation would draw other neighbours
    for batch in start(loader):
        with torch.no_grad():
            scored = forward_seeds(model, batch.to(device, non_blocking=True))
        yield scored
        on_batch()


def evaluate(
    model: GraphSAGE,
    loader: DataLoader[Any],
    device: torch.device,
    on_batch: Callable[[], object] = lambda: None,
) -> tuple[SplitReport, Scores]:
    """Predicts the class of every seed of a loader, and compares it with the label.

    Parameters
    ----------
    model : GraphSAGE
    loader : DataLoader
        Of seeds whose labels are known.
    device : torch.device
    on_batch : callable
        Called after each batch.

    Returns
    -------
    SplitReport
    (num_seeds, num_classes) float32
        Class scores of the seeds, in their order.
    """
    all_scores, all_labels, loss = [], [], 0.0
    for scores, labels in _scored(model, loader, device, on_batch):
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        all_scores.append(scores.cpu())
        all_labels.append(labels.cpu())
    found = torch.cat(all_scores).numpy()
    return _report(found, torch.cat(all_labels).numpy(), loss), found


def predict_scores(
    model: GraphSAGE,
    loader: DataLoader[Any],
    device: torch.device,
    on_batch: Callable[[], object] = lambda: None,
) -> Scores:
    """Class scores of the seeds of a loader, in their order; their labels may be unknown."""
    scored = _scored(model, loader, device, on_batch)
    return torch.cat([scores.cpu() for scores, _ in scored]).numpy()


def _report(scores: Scores, labels: IdArray, loss: float) -> SplitReport:
    auc = math.nan
    if scores.shape[1] == 2:
        auc = roc_auc(scores[:, 1] - scores[:, 0], labels == 1)
    return SplitReport(
        num_nodes=labels.size,
        accuracy=float((scores.argmax(axis=1) == labels).mean()),
        majority=majority_share(labels),
        roc_auc=None if math.isnan(auc) else auc,
        loss=loss / labels.size,
    )
