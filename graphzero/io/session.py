"""`Session`: all that one iteration over mini-batches holds, and what its plan is made from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from graphzero import _core
from graphzero.io.limits import MemoryWatch, available_memory, memory_group
from graphzero.io.plan import BatchSize, Estimate, IOPlan, with_batches
from graphzero.io.prefetch import Prefetch
from graphzero.io.resident import (
    BUDGET,
    Claim,
    Lease,
    PrefixKeeper,
)
from graphzero.io.row_io import RowIO, RowKey, RowSource, managed_bytes, touched_rows
from graphzero.io.strategies import unavailable_strategies
from graphzero.io.topology import TopologyFile, TopologyIO, touched_topology
from graphzero.sampling.sampler import TypedSubgraph
from graphzero.sampling.threads import Pipeline, Stage, run_outside
from graphzero.units import format_bytes


def probe_files(
    prefetch: Prefetch, sources: Mapping[RowKey, RowSource], topology: int, learnt: int | None
) -> Estimate:
    """The estimate before any mini-batch was sampled.

    Parameters
    ----------
    prefetch : Prefetch
    sources : mapping
        Where rows are found, by the names of attributes.
    topology : int
        Bytes of the sections that sampling reads.
    learnt : int or None
        Bytes for files that earlier iterations of the same loop have left.
    """
    managed = [source for source in sources.values() if source.is_managed]
    prefixes = [source.prefix_bytes for source in managed if source.prefix_bytes is not None]
    small = sum(source.num_bytes for source in sources.values() if not source.is_managed)
    limit = prefetch.memory_limit_bytes
    available = available_memory() + _core.pool_state()[1]  # idle memory of earlier batches
    return Estimate(
        features=managed_bytes(sources),
        topology=topology,
        batch=0,
        batches=0,
        available=available if limit is None else limit,
        is_hot=any(source.store.is_hot for source in managed),
        unavailable=unavailable_strategies(),
        readers=len(managed),
        labels=small,
        prefix=sum(prefixes) if prefixes else None,
        # what was observed says nothing about a limit that was given
        observed=learnt if limit is None else None,
    )


def is_large(estimate: Estimate) -> bool:
    """Whether the size of the mini-batches may decide how the dataset is read."""
    return 2 * (estimate.features + estimate.topology) > estimate.available


def probe_batch(
    estimate: Estimate,
    files: Sequence[TopologyFile],
    prefetch: Prefetch,
    sources: Mapping[RowKey, RowSource],
    feature_dtype: npt.DTypeLike | None,
    number: int,
    sample: Callable[[int], TypedSubgraph],
    *,
    workers: int,
    threads: int,
) -> Estimate:
    """The estimate with the first mini-batch of an iteration, which is sampled for it.

    Parameters
    ----------
    estimate : Estimate
        From `probe_files`.
    files : sequence of TopologyFile
        Set to be read at random.
    prefetch : Prefetch
    sources : mapping
        Where rows are found, by the names of attributes.
    feature_dtype : dtype-like or None
        To which features are converted.
    number : int
        Of the mini-batch in its epoch.
    sample : callable
        From that number to the sampled neighbourhood, with hop read-ahead.
    workers, threads : int
        Processes that make mini-batches, and sampling threads in each of them.
    """
    # Page faults that read around their page could make a first mini-batch take long.
    for file in files:
        file.graph.advise(prefetch.advice)
    subgraph = sample(number)
    size = batch_size_of(sources, feature_dtype, number, subgraph)
    return replace(
        with_batches(
            estimate, size, lookahead=prefetch.lookahead, workers=workers, threads=threads
        ),
        touched_rows=touched_rows(sources, number, subgraph) if size.managed_rows else None,
        touched_topology=touched_topology(files, subgraph),
    )


def batch_size_of(
    sources: Mapping[RowKey, RowSource],
    feature_dtype: npt.DTypeLike | None,
    number: int,
    subgraph: TypedSubgraph,
) -> BatchSize:
    """How large a sampled mini-batch is with its rows."""
    row_bytes = managed_rows = stored_bytes = 0
    for source in sources.values():
        count, store = len(source.rows_of(number, subgraph)), source.store
        dtype = feature_dtype if source.is_converted else None
        row_bytes += count * store.feature_dim * store.conversion(dtype)[0].itemsize
        if source.is_managed:
            managed_rows += count
            stored_bytes += count * store.row_bytes
    return BatchSize(
        subgraph.total_nodes, subgraph.total_edges, row_bytes, managed_rows, stored_bytes
    )


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
    trainer : int
        The process whose DataLoader the iteration serves.
    loop : object
        Iterations with the same one are those of one training loop: the next one knows how much
        memory this one had.

    Attributes
    ----------
    topology : TopologyIO
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
        trainer: int,
        loop: object,
    ) -> None:
        self._process = os.getpid()
        self._watch = MemoryWatch()
        graphs = {os.path.realpath(file.graph.path): file.num_bytes for file in topology}
        self._features = {
            os.path.realpath(source.store.path): source.num_bytes
            for source in sources.values()
            if source.is_managed
        }
        with ExitStack() as stack:
            self.topology = TopologyIO(topology, prefetch, plan)
            self.rows = RowIO(sources, prefetch, plan, feature_dtype=feature_dtype)
            stack.enter_context(closing(self.rows))
            self._text = str(self.rows.plan)
            prefixes = [prefix for prefix, _ in self.topology.prefixes]
            wanted = {
                **_divided(plan.topology_wanted, graphs),
                **_divided(plan.features_wanted, self._features),
            }
            claim = Claim(memory_group(), trainer, wanted, plan.in_flight)
            self._lease = Lease(BUDGET, claim, [*prefixes, self.rows.prefix])
            stack.enter_context(closing(self._lease))
            stack.callback(BUDGET.learn, loop, self._watch, plan.placed_ahead)
            self._keeper = PrefixKeeper(
                self._watch,
                self.topology.prefixes,
                self.rows.prefix,
                plan.first_resident,
                plan.resident,
                self._allowed,
            )
            stack.enter_context(closing(self._keeper))
            self._stack = stack.pop_all()

    def _allowed(self, available: int) -> int:
        """Bytes of resident rows, if all iterations may keep so many bytes of files together."""
        # each file's part of them, as far as other iterations leave it
        parts = _divided(available - self.rows.plan.reserve, self._features)
        return sum(self._lease.share(name, part) for name, part in parts.items())

    @property
    def plan(self) -> IOPlan:
        """The plan as it is carried out."""
        return self.rows.plan

    def describe(self) -> str:
        """How rows are read and why, for `BatchStats.io`."""
        prefix = self.rows.prefix
        if self.plan.resident == 0:
            return self._text
        if prefix.unknown is not None:
            return f"{self._text}; the system does not tell what is in memory ({prefix.unknown})"
        if prefix.resident_bytes < _PROMISED * self.plan.resident:
            resident = format_bytes(prefix.resident_bytes)
            return f"{self._text}; {resident} of the rows are in memory now"
        return self._text

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
