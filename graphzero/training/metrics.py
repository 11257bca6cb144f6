"""Measures of how good predictions are, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["majority_share", "roc_auc"]


def majority_share(labels: npt.NDArray[np.integer[Any]]) -> float:
    """Share of the most frequent label: the accuracy of always predicting it. NaN if empty."""
    return float(np.bincount(labels).max() / labels.size) if labels.size else float("nan")


def roc_auc(scores: npt.NDArray[Any], positive: npt.NDArray[np.bool_]) -> float:
    """Area under the ROC curve, computed as the Mann-Whitney U statistic.

    Parameters
    ----------
    scores : (n,) real
        A higher score means that the item is more likely to be positive.
    positive : (n,) bool

    Returns
    -------
    float
        The probability that a positive scores higher than a negative; a tie counts as one half.
        NaN if there are no positives or no negatives.
    """
    num_positive = int(positive.sum())
    num_negative = positive.size - num_positive
    if num_positive == 0 or num_negative == 0:
        return float("nan")
    _, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    rank_sum = float(mean_ranks[group][positive].sum())
    return (rank_sum - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative)
