"""Session of graphzero 0.2, inside its environment, that converts a CSV edge list."""

from __future__ import annotations

from typing import Any

import graphzero


class Session:
    """Converts one file a call."""

    def __init__(self, stopwatch: Any) -> None:
        self.stopwatch = stopwatch

    def convert(self, edges: str, out: str) -> dict[str, Any]:
        """`convert_csv_to_gl`, directed; nothing is synced."""
        with self.stopwatch:
            graphzero.convert_csv_to_gl(edges, out, True)
        graph = graphzero.Graph(out)
        return {"num_edges": int(graph.num_edges), "version": graphzero.__version__}
