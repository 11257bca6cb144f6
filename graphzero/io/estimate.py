"""Memory of an iteration over mini-batches: what its `IOPlan` depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy.typing as npt

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.io.limits import MemoryWatch, memory_left
from graphzero.io.plan import Facts
from graphzero.io.prefetch import Prefetch
from graphzero.io.rows import RowSource
from graphzero.sampling.sampler import Subgraph

__all__ = ["LoaderSetup", "batch_bytes", "facts_of_files", "facts_with_batches", "row_bytes"]

_LARGER = 1 + 1 / 16  # than the first mini-batch, at times
_QUEUED = 2  # finished batches of a DataLoader worker, waiting to be taken


@dataclass(frozen=True)
class LoaderSetup:
    """What the memory of mini-batches depends on, beside their sizes.

    Attributes
    ----------
    prefetch : Prefetch
    row_bytes : int
        Features and labels of one node, see `row_bytes`.
    stored_row_bytes : int
        Of the features, as the file has them.
    workers : int
        Processes that make mini-batches.
    threads : int
        That sample, in each of them.
    """

    prefetch: Prefetch
    row_bytes: int
    stored_row_bytes: int
    workers: int
    threads: int


def row_bytes(dataset: Dataset, feature_dtype: npt.DTypeLike | None) -> int:
    """Bytes of one node in a mini-batch: its features as they are converted, and its labels."""
    wanted = ((dataset.features, feature_dtype), (dataset.labels, None))
    return sum(
        store.feature_dim * store.conversion(dtype)[0].itemsize
        for store, dtype in wanted
        if store is not None
    )


def facts_of_files(
    prefetch: Prefetch, sources: Mapping[str, RowSource], topology: int, watch: MemoryWatch
) -> Facts:
    """What is known of an iteration before its first mini-batch has been sampled.

    Parameters
    ----------
    prefetch : Prefetch
    sources : mapping
        Where rows are found, by "x" and "y".
    topology : int
        Bytes of what sampling reads.
    watch : MemoryWatch
        What earlier iterations of the same loop have left.
    """
    source, labels = sources.get("x"), sources.get("y")
    features = None if source is None else source.store
    available = prefetch.limit_bytes
    return Facts(
        features=0 if features is None else features.num_nodes * features.row_bytes,
        topology=topology,
        batch=0,
        batches=0,
        available=_memory_left(features) if available is None else available,
        is_hot=features is not None and features.is_hot,
        uring_refusal=_core.uring_refusal(),
        labels=0 if labels is None else labels.store.num_nodes * labels.store.row_bytes,
        head=None if source is None else source.head,
        # what is left says nothing of a limit that was given
        seen=watch.room if watch.is_settled and available is None else None,
    )


def facts_with_batches(facts: Facts, setup: LoaderSetup, subgraph: Subgraph) -> Facts:
    """The same, where mini-batches are as large as this one."""
    return replace(
        facts,
        batch=batch_bytes(setup, subgraph),
        batch_rows=_rows_bytes(setup, subgraph),
        batches=_batches_at_a_time(setup),
        ahead=setup.workers * setup.prefetch.lookahead,
        # One more: the rows of a mini-batch are placed while the next ones are read.
        fetching=setup.workers * (setup.prefetch.lookahead + 1),
        fetched_row=int(_LARGER * (setup.stored_row_bytes + _core.PICK_BYTES)),
        working=setup.workers * _working_bytes(setup, subgraph, facts.uring_refusal),
    )


def batch_bytes(setup: LoaderSetup, subgraph: Subgraph) -> int:
    """Memory of a mini-batch: rows, edges, ids."""
    nodes, edges = len(subgraph.n_id), subgraph.edge_index.shape[1]
    return int(_rows_bytes(setup, subgraph) + nodes * 16 + edges * 24)


def _rows_bytes(setup: LoaderSetup, subgraph: Subgraph) -> int:
    return _core.block_bytes(int(_LARGER * len(subgraph.n_id) * setup.row_bytes))


def _working_bytes(setup: LoaderSetup, subgraph: Subgraph, uring_refusal: str | None) -> int:
    """Memory of one process that comes and goes while mini-batches are made."""
    nodes, edges = len(subgraph.n_id), subgraph.edge_index.shape[1]
    prefetch, threads = setup.prefetch, setup.threads
    # In the core: edges and their positions, with room for half as many more; the map of ids.
    sampling = threads * int(1.5 * edges * 24 + nodes * 64)
    waiting: int = max(0, threads - prefetch.lookahead) * (edges * 24 + nodes * 16)
    if prefetch.strategy in ("none", "willneed"):
        return sampling + waiting
    by_threads = prefetch.strategy == "pread" or uring_refusal is not None
    count = prefetch.threads if by_threads else _core.URING_DEPTH
    return sampling + waiting + count * _core.BUFFER_BYTES + nodes * 32


def _batches_at_a_time(setup: LoaderSetup) -> int:
    """Mini-batches with their rows at the same time, beside those ahead: one in use, the next being
    given to a loop that has not let go of it.
    """
    return 2 if setup.workers == 1 else setup.workers * (2 + _QUEUED)


def _memory_left(features: FeatureStore | None) -> int:
    """What is left, with what an iteration takes over: resident rows, and memory of batches."""
    _, idle = _core.pool_state()
    return memory_left(0 if features is None else features.head.locked_bytes) + idle
