"""The probe: gathers what a plan depends on, from files, memory limits and a first mini-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from graphzero import _core
from graphzero.graph.graph import Graph
from graphzero.io.estimate import BatchSetup, Estimate, with_batches
from graphzero.io.limits import available_memory
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_sources import RowSource, touched_rows
from graphzero.io.strategies import unavailable_strategies
from graphzero.io.topology import touched_topology
from graphzero.sampling.subgraph import Subgraph

__all__ = ["is_large", "probe_batch", "probe_files"]


def probe_files(
    prefetch: Prefetch, sources: Mapping[str, RowSource], topology: int, learnt: int | None
) -> Estimate:
    """The estimate before any mini-batch was sampled.

    Parameters
    ----------
    prefetch : Prefetch
    sources : mapping
        Where rows are found, by "x" and "y".
    topology : int
        Bytes of the sections that sampling reads.
    learnt : int or None
        Bytes for files that earlier iterations of the same loop have left.
    """
    source, labels = sources.get("x"), sources.get("y")
    features = None if source is None else source.store
    limit = prefetch.memory_limit_bytes
    return Estimate(
        features=0 if features is None else features.num_nodes * features.row_bytes,
        topology=topology,
        batch=0,
        batches=0,
        available=_available() if limit is None else limit,
        is_hot=features is not None and features.is_hot,
        unavailable=unavailable_strategies(),
        labels=0 if labels is None else labels.store.num_nodes * labels.store.row_bytes,
        prefix=None if source is None else source.prefix_bytes,
        # what was observed says nothing about a limit that was given
        observed=learnt if limit is None else None,
    )


def is_large(estimate: Estimate) -> bool:
    """Whether the size of the mini-batches may decide how the dataset is read."""
    return 2 * (estimate.features + estimate.topology) > estimate.available


def probe_batch(
    estimate: Estimate,
    setup: BatchSetup,
    graph: Graph,
    sections: Sequence[str],
    prefetch: Prefetch,
    source: RowSource | None,
    number: int,
    sample: Callable[[int], Subgraph],
) -> Estimate:
    """The estimate with the first mini-batch of an iteration, which is sampled for it.

    Parameters
    ----------
    estimate : Estimate
        From `probe_files`.
    setup : BatchSetup
    graph : Graph
        Set to be read at random.
    sections : sequence of str
        Those that sampling reads.
    prefetch : Prefetch
    source : RowSource or None
        Of the features.
    number : int
        Of the mini-batch in its epoch.
    sample : callable
        From that number to the sampled neighbourhood, with hop read-ahead.
    """
    # Page faults that read around their page could make a first mini-batch take long.
    graph.advise(prefetch.advice)
    subgraph = sample(number)
    return replace(
        with_batches(estimate, setup, subgraph),
        touched_rows=None if source is None else touched_rows(source, number, subgraph),
        touched_topology=touched_topology(graph, sections, subgraph),
    )


def _available() -> int:
    """What is available, with idle memory of earlier batches, which the next ones take."""
    _, idle = _core.pool_state()
    return available_memory() + idle
