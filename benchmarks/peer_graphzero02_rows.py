"""Session of graphzero 0.2, inside its environment, that reads the rows of given batches."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import graphzero

# Last, so that the uncompiled graphzero/ next to benchmarks/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.meter import PeakAnonymous, Plan, time_runs


class Session:
    """What one process keeps open; every operation answers with counters."""

    def __init__(self, stopwatch: Any) -> None:
        self.stopwatch = stopwatch

    def own(self) -> dict[str, Any]:
        """Anonymous memory of the process before it opens files: get_tensor copies all rows."""
        with PeakAnonymous() as anonymous:
            pass
        versions = {"graphzero02": graphzero.__version__}
        return {"peak_anonymous": anonymous.peak, "versions": versions}

    def rows(self, features: str, batches: str, plan: dict[str, int]) -> dict[str, Any]:
        """By NumPy, from the array of get_tensor."""
        planned = Plan(**plan)
        with np.load(batches) as arrays:
            saved = [arrays[f"nodes{i}"] for i in range(planned.total)]
        matrix = graphzero.FeatureStore(features).get_tensor()
        return time_runs(((nodes, matrix[nodes]) for nodes in saved), planned, features)
