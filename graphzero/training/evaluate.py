"""A model's predictions for the seeds of a loader, compared with their labels."""

from __future__ import annotations

import math
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
from graphzero.training.metrics import majority_share, roc_auc
from graphzero.training.reports import SplitReport

__all__ = ["evaluate", "forward_seeds"]


def forward_seeds(model: GraphSAGE, batch: MiniBatch) -> tuple[Tensor, Tensor]:
    """Scores and labels of a batch's seeds."""
    assert batch.x is not None
    assert batch.y is not None
    x = batch.x.reshape(batch.num_nodes, -1).float()
    scores = model(x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    return scores, batch.y[: batch.batch_size].reshape(-1).long()


@torch.no_grad()
def evaluate(model: GraphSAGE, loader: DataLoader[Any], device: torch.device) -> SplitReport:
    """Predicts the class of every seed of a loader, and compares it with the label."""
    model.eval()
    scores, labels, loss = [], [], 0.0
    for batch in loader:
        out, y = forward_seeds(model, batch.to(device, non_blocking=True))
        loss += F.cross_entropy(out, y, reduction="sum").item()
        scores.append(out.cpu())
        labels.append(y.cpu())
    return _report(torch.cat(scores).numpy(), torch.cat(labels).numpy(), loss)


def _report(scores: npt.NDArray[np.float32], labels: IdArray, loss: float) -> SplitReport:
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
