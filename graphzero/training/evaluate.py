"""Predictions for the seeds of a loader, held against their labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader

from graphzero.loader.mini_batch import MiniBatch
from graphzero.training.graphsage import GraphSAGE
from graphzero.training.metrics import majority_share, roc_auc

__all__ = ["SplitReport", "evaluate", "forward_seeds"]


@dataclass(frozen=True)
class SplitReport:
    """Predictions for one split.

    Attributes
    ----------
    num_nodes : int
        Labelled nodes of the split.
    accuracy : float
    majority : float
        Accuracy of always naming the split's most frequent class.
    roc_auc : float or None
        Area under the ROC curve for the higher class; None unless there are two classes.
    loss : float
        Mean cross-entropy.
    """

    num_nodes: int
    accuracy: float
    majority: float
    roc_auc: float | None
    loss: float


def forward_seeds(model: GraphSAGE, batch: MiniBatch) -> tuple[Tensor, Tensor]:
    """Scores and labels of a batch's seeds."""
    assert batch.x is not None
    assert batch.y is not None
    x = batch.x.reshape(batch.num_nodes, -1).float()
    scores = model(x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    return scores, batch.y[: batch.batch_size].reshape(-1).long()


@torch.no_grad()
def evaluate(model: GraphSAGE, loader: DataLoader[Any], device: torch.device) -> SplitReport:
    """Predictions for all seeds of a loader, held against their labels."""
    model.eval()
    scores, labels, loss = [], [], 0.0
    for batch in loader:
        out, y = forward_seeds(model, batch.to(device, non_blocking=True))
        loss += F.cross_entropy(out, y, reduction="sum").item()
        scores.append(out.cpu())
        labels.append(y.cpu())
    all_scores, all_labels = torch.cat(scores).numpy(), torch.cat(labels).numpy()
    auc = math.nan
    if all_scores.shape[1] == 2:
        auc = roc_auc(all_scores[:, 1] - all_scores[:, 0], all_labels == 1)
    return SplitReport(
        num_nodes=all_labels.size,
        accuracy=float((all_scores.argmax(axis=1) == all_labels).mean()),
        majority=majority_share(all_labels),
        roc_auc=None if math.isnan(auc) else auc,
        loss=loss / all_labels.size,
    )
