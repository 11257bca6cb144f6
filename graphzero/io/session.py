"""`Session`: all that one iteration over mini-batches holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy.typing as npt

from graphzero.io.budget import Claim, Lease, budget
from graphzero.io.keeper import ElasticPrefix, PrefixKeeper
from graphzero.io.limits import MemoryWatch, memory_group
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import Prefetch
from graphzero.io.prefix_group import PrefixGroup
from graphzero.io.row_sources import RowKey, RowSource
from graphzero.io.rows import RowIO
from graphzero.io.topology import TopologyFile, TopologyIO
from graphzero.sampling.hop_readahead import HopReadAhead
from graphzero.sampling.pipeline import Pipeline, Stage
from graphzero.sampling.threads import run_outside
from graphzero.store.resident_prefix import ResidentPrefix
from graphzero.units import format_bytes

__all__ = ["Session"]

_PROMISED = 0.95  # of a resident prefix; less in memory is worth saying


class Session:
    """What one iteration holds: threads, resident prefixes, hop read-ahead, a share of the budget.

    `close` gives all of it back. A forked child that inherits it has no part in it.

    Parameters
    ----------
    topology : sequence of TopologyFile
        What sampling reads.
    sources : mapping
        Where rows are found, by the names of attributes.
    prefetch : Prefetch
    plan : IOPlan
    feature_dtype : dtype-like, optional
        float32, to convert the features on their way.
    family : int
        The process whose DataLoader the iteration serves.
    loop : object
        Iterations with the same one are those of one training loop: the next one knows how much
        memory this one had.

    Attributes
    ----------
    rows : RowIO
    """

    def __init__(
        self,
        topology: Sequence[TopologyFile],
        sources: Mapping[RowKey, RowSource],
        prefetch: Prefetch,
        plan: IOPlan,
        *,
        feature_dtype: npt.DTypeLike | None,
        family: int,
        loop: object,
    ) -> None:
        self._process = os.getpid()
        self._watch = MemoryWatch()
        self._graphs = {os.path.realpath(file.graph.path): file.num_bytes for file in topology}
        self._features = {
            os.path.realpath(source.store.path): source.num_bytes
            for source in sources.values()
            if source.is_managed
        }
        with ExitStack() as stack:
            self._topology = TopologyIO(topology, prefetch, plan)
            self.rows = RowIO(sources, prefetch, plan, feature_dtype=feature_dtype)
            stack.enter_context(closing(self.rows))
            prefixes: list[ResidentPrefix | PrefixGroup] = []
            prefixes += [prefix for prefix, _ in self._topology.prefixes]
            if self.rows.prefix is not None:
                prefixes.append(self.rows.prefix)
            claim = Claim(memory_group(), family, self._wishes(), plan.in_flight)
            self._lease = Lease(budget(), claim, prefixes)
            stack.enter_context(closing(self._lease))
            stack.callback(budget().learn, loop, self._watch, plan.placed_ahead)
            self._keeper = PrefixKeeper(self._topology.prefixes, self._elastic(), self._watch)
            stack.enter_context(closing(self._keeper))
            self._stack = stack.pop_all()

    def _wishes(self) -> dict[str, int]:
        plan = self.rows.plan
        graphs = _divided(plan.topology_wish, self._graphs)
        return {**graphs, **_divided(plan.features_wish, self._features)}

    def _elastic(self) -> ElasticPrefix | None:
        plan, prefix = self.rows.plan, self.rows.prefix
        if prefix is None:
            return None
        return ElasticPrefix(prefix, plan.first_resident, plan.resident, self._allowed)

    def _allowed(self, room: int) -> int:
        """Bytes of resident rows, if all iterations together may keep `room` bytes of files."""
        room -= self.rows.plan.reserve
        if len(self._features) == 1:
            return self._lease.share(next(iter(self._features)), room)
        # each file's part of the room, as far as other iterations leave it
        rooms = _divided(room, self._features)
        return sum(self._lease.share(name, part) for name, part in rooms.items())

    @property
    def plan(self) -> IOPlan:
        """The plan as it is carried out."""
        return self.rows.plan

    def describe(self) -> str:
        """How rows are read and why, for `BatchStats.io`."""
        prefix, text = self.rows.prefix, str(self.plan)
        if prefix is None or self.plan.resident == 0:
            return text
        if prefix.unknown is not None:
            return f"{text}; the system does not tell what is in memory ({prefix.unknown})"
        if prefix.resident_bytes < _PROMISED * self.plan.resident:
            text += f"; {format_bytes(prefix.resident_bytes)} of the rows are in memory now"
        return text

    def hop_readahead(self) -> tuple[HopReadAhead, ...] | None:
        """Hop read-ahead for the next mini-batch, of each file of the topology."""
        return self._topology.hop_readahead()

    def count_batch(self) -> None:
        """The training loop has finished another mini-batch."""
        self._keeper.count_batch()
        if self._watch.is_settled:
            self._lease.settle()

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


def _divided(num_bytes: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Divides bytes among files in proportion to their sizes."""
    total = max(1, sum(sizes.values()))
    return {name: num_bytes * size // total for name, size in sizes.items()}
