"""The probe: gathers what a plan depends on, from files, memory limits and a first mini-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy.typing as npt

from graphzero import _core
from graphzero.io.estimate import BatchSetup, BatchSize, Estimate, with_batches
from graphzero.io.limits import available_memory
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_sources import RowKey, RowSource, managed_bytes, touched_rows
from graphzero.io.strategies import unavailable_strategies
from graphzero.io.topology import TopologyFile, touched_topology
from graphzero.sampling.any_subgraph import AnySubgraph

__all__ = ["batch_size_of", "is_large", "probe_batch", "probe_files"]


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
    return Estimate(
        features=managed_bytes(sources),
        topology=topology,
        batch=0,
        batches=0,
        available=_available() if limit is None else limit,
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
    setup: BatchSetup,
    files: Sequence[TopologyFile],
    prefetch: Prefetch,
    sources: Mapping[RowKey, RowSource],
    feature_dtype: npt.DTypeLike | None,
    number: int,
    sample: Callable[[int], AnySubgraph],
) -> Estimate:
    """The estimate with the first mini-batch of an iteration, which is sampled for it.

    Parameters
    ----------
    estimate : Estimate
        From `probe_files`.
    setup : BatchSetup
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
    """
    # Page faults that read around their page could make a first mini-batch take long.
    for file in files:
        file.graph.advise(prefetch.advice)
    subgraph = sample(number)
    size = batch_size_of(sources, feature_dtype, number, subgraph)
    return replace(
        with_batches(estimate, setup, size),
        touched_rows=touched_rows(sources, number, subgraph) if size.managed_rows else None,
        touched_topology=touched_topology(files, subgraph),
    )


def batch_size_of(
    sources: Mapping[RowKey, RowSource],
    feature_dtype: npt.DTypeLike | None,
    number: int,
    subgraph: AnySubgraph,
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


def _available() -> int:
    """What is available, with idle memory of earlier batches, which the next ones take."""
    _, idle = _core.pool_state()
    return available_memory() + idle
