"""Session that builds datasets: graphzero of this environment, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import graphzero as gz

# Last, so that the uncompiled graphzero/ next to benchmarks/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.meter import PeakAnonymous


class Session:
    """Every operation answers with its time and the most anonymous memory of the process."""

    def __init__(self, stopwatch: Any) -> None:
        self.stopwatch = stopwatch

    def convert(self, edges: str, out: str, **options: Any) -> dict[str, Any]:
        """`gz.build` with these options, up to the synced and published dataset."""
        with PeakAnonymous() as anonymous, self.stopwatch, gz.build(out, edges, **options) as ds:
            counts = {"num_nodes": ds.num_nodes, "num_edges": ds.num_edges}
        return {**counts, "peak_anonymous": anonymous.peak, "version": gz.__version__}
