"""`SeedWeights`: seeds that are drawn by weight, with replacement, anew for each epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.ids import IdArray
from graphzero.sampling.weighted_draws import WeightedDraws

__all__ = ["SeedWeights", "balanced_weights"]


class SeedWeights:
    """Draws an epoch's seeds in proportion to weights, as torch's ``WeightedRandomSampler`` does.

    An epoch has as many draws as there are seeds: a seed may come several times, or not at all.

    Parameters
    ----------
    weights : (num_seeds,) numbers
        They need not add up to 1.
    num_seeds : int

    Raises
    ------
    ValueError
        If there is not one for each seed, if one is negative or not finite, or if all are 0.
    """

    def __init__(self, weights: Any, num_seeds: int) -> None:
        self._draws = WeightedDraws(weights, num_seeds, "seed_weights", "seeds")
        self.crc = self._draws.crc

    def order(self, seed: int, epoch: int) -> IdArray:
        """Positions of the seeds of an epoch in the order of use, (num_seeds,) int64."""
        count = len(self._draws)
        if count == 0:
            return np.empty(0, dtype=np.int64)
        stream = _core.stream(_core.key("shuffle", seed, epoch, 0), 0)
        return self._draws.items(_core.draws(stream, count))


def balanced_weights(labels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Weights that give every label the same share; 0 for seeds without one (-1 or NaN).

    Parameters
    ----------
    labels : (num_seeds,) numbers

    Raises
    ------
    ValueError
        If a seed has several labels.
    """
    if labels.ndim != 1 or labels.dtype.kind not in "biuf":
        raise ValueError(
            f"seed_weights='balanced' needs one label for each seed, not {labels.dtype} of shape "
            f"{labels.shape}: give an array of weights"
        )
    known = ~np.isnan(labels) if labels.dtype.kind == "f" else labels != -1
    if labels.dtype.kind == "f":
        known &= labels != -1
    _, of_each, counts = np.unique(labels[known], return_inverse=True, return_counts=True)
    weights = np.zeros(labels.shape[0])
    weights[known] = 1 / counts[of_each]
    return weights
