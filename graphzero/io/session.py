"""`Session`: all that one iteration over mini-batches holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy.typing as npt

from graphzero.graph.graph import Graph
from graphzero.io.limits import MemoryWatch
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_sources import RowSource
from graphzero.io.rows import RowIO
from graphzero.io.topology import TopologyIO
from graphzero.sampling.pipeline import Pipeline, Stage
from graphzero.sampling.threads import run_outside

__all__ = ["Session"]


class Session:
    """What one iteration holds: its threads, resident prefixes and hop read-ahead.

    `close` ends the threads. A forked child that inherits it has no part in it.

    Parameters
    ----------
    graph : Graph
    sections : sequence of str
        Of the graph's file, those that sampling reads.
    sources : mapping
        Where rows are found, by "x" and "y".
    prefetch : Prefetch
    plan : IOPlan
    feature_dtype : dtype-like, optional
        float32, to convert the features on their way.
    watch : MemoryWatch
        Memory that was available in earlier iterations of the same loop.

    Attributes
    ----------
    rows : RowIO
    """

    def __init__(
        self,
        graph: Graph,
        sections: Sequence[str],
        sources: Mapping[str, RowSource],
        prefetch: Prefetch,
        plan: IOPlan,
        *,
        feature_dtype: npt.DTypeLike | None,
        watch: MemoryWatch,
    ) -> None:
        self._process = os.getpid()
        with ExitStack() as stack:
            stack.enter_context(closing(TopologyIO(graph, sections, prefetch, plan)))
            self.rows = RowIO(sources, prefetch, plan, feature_dtype=feature_dtype, watch=watch)
            stack.enter_context(closing(self.rows))
            self._stack = stack.pop_all()

    @property
    def plan(self) -> IOPlan:
        """The plan as it is carried out."""
        return self.rows.plan

    def run_ahead(
        self, stages: Sequence[Stage], items: Iterable[Any], *, lookahead: int
    ) -> Pipeline:
        """A `Pipeline` in threads of this session.

        They end before those that they submit to.
        """
        return self._stack.enter_context(closing(Pipeline(stages, items, lookahead=lookahead)))

    def close(self) -> None:
        """Ends all threads, after the calls that they are in."""
        if self._process == os.getpid():
            run_outside(self._stack.close)
