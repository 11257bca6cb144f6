"""`Estimate`: what an iteration over mini-batches needs of memory, in plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from graphzero import _core

__all__ = ["BatchSetup", "BatchSize", "Estimate", "batch_bytes", "count_beyond", "with_batches"]

_LARGER = 1 + 1 / 16  # than the first mini-batch: a later one may be
_QUEUED = 2  # finished mini-batches of a DataLoader worker that wait to be taken


@dataclass(frozen=True)
class BatchSetup:
    """What the memory of mini-batches depends on, besides the size of one.

    Attributes
    ----------
    lookahead : int
        Mini-batches that each process makes ahead.
    workers : int
        Processes that make mini-batches.
    threads : int
        Sampling threads in each of them.
    """

    lookahead: int
    workers: int
    threads: int


@dataclass(frozen=True)
class BatchSize:
    """How large one mini-batch is.

    Attributes
    ----------
    nodes, edges : int
    row_bytes : int
        All attributes of its nodes and edges, converted.
    managed_rows, managed_bytes : int
        Rows that the strategy reads, and their bytes in the files.
    """

    nodes: int
    edges: int
    row_bytes: int
    managed_rows: int
    managed_bytes: int


@dataclass(frozen=True)
class Estimate:
    """What a plan depends on. Sizes are in bytes.

    Attributes
    ----------
    features, topology : int
        Sizes of the rows that a strategy reads, features above all, and of the sections that
        sampling reads.
    batch, batch_rows : int
        One mini-batch with its rows, edges and ids; its rows alone.
    batches : int
        Whole mini-batches that exist at the same time, over all processes.
    available : int
        Memory that all of it may take.
    is_hot : bool
        Whether the file begins with the rows that are needed most.
    lookahead : int
        Mini-batches that are made ahead of these, over all processes. A strategy that reads past
        the page cache keeps only their rows that are not resident.
    fetching : int
        Mini-batches whose rows were read past the page cache, or are being read, and are not in
        their array yet.
    unavailable : mapping of str to str
        The strategies that cannot be used, by name, and why.
    workers : int
        Processes that make mini-batches; 0 as long as the mini-batches are unknown.
    sampling : int
        Working memory of sampling, over all processes.
    read_lists : int
        Lists of the rows of one mini-batch that are read past the page cache.
    readers : int
        Files that a strategy reads, each with buffers of its own.
    labels : int
        Size of the small rows, such as labels, which are read through the page cache.
    prefix : int or None
        The part of the features that is to be resident, and nothing beyond it, whatever the order.
        None: the plan decides.
    touched_rows : (num_nodes,) int64, or None
        The rows of one mini-batch, ascending, each as the size of the shortest resident prefix that
        has it. None: unknown.
    fetched_row : int
        Mean size of a row that was read and is not in its array yet.
    touched_topology : (num_pages,) int64, or None
        Likewise, the pages of topology that one mini-batch touches. None: unknown, and topology
        gets half of the memory.
    observed : int or None
        Bytes that were available for files in earlier iterations. They replace `available` and
        everything that would be subtracted from it.
    """

    features: int
    topology: int
    batch: int
    batches: int
    available: int
    is_hot: bool
    batch_rows: int = 0
    lookahead: int = 0
    fetching: int = 0
    unavailable: Mapping[str, str] = field(default_factory=dict)
    workers: int = 0
    sampling: int = 0
    read_lists: int = 0
    readers: int = 1
    labels: int = 0
    prefix: int | None = None
    touched_rows: npt.NDArray[np.int64] | None = None
    fetched_row: int = 0
    touched_topology: npt.NDArray[np.int64] | None = None
    observed: int | None = None

    @property
    def data(self) -> int:
        """All that is read of the dataset."""
        return self.features + self.topology + self.labels

    @property
    def bytes_of_whole_batches(self) -> int:
        """All mini-batches, those of the lookahead with all their rows."""
        return (self.batches + self.lookahead) * self.batch

    def bytes_of_batches_beyond(self, resident: int) -> int:
        """All mini-batches, those of the lookahead without the rows in a resident prefix."""
        missing = self.batch_rows
        if self.touched_rows is not None:
            count = int(count_beyond(self.touched_rows, np.array([resident]))[0])
            missing = _core.block_bytes(count * self.fetched_row)
        without_rows = self.batch - self.batch_rows
        ahead = self.lookahead * without_rows + self.fetching * missing
        return self.batches * self.batch + ahead


def count_beyond(
    ends: npt.NDArray[np.int64], prefixes: npt.NDArray[np.int64]
) -> npt.NDArray[np.intp]:
    """How many of some ascending `ends` lie beyond each of some prefixes."""
    return len(ends) - np.searchsorted(ends, prefixes, side="right")


def with_batches(estimate: Estimate, setup: BatchSetup, size: BatchSize) -> Estimate:
    """The same estimate, for mini-batches as large as this one."""
    mean_row = size.managed_bytes / max(1, size.managed_rows)
    return replace(
        estimate,
        batch=batch_bytes(size),
        batch_rows=_rows_bytes(size),
        batches=_batches_at_a_time(setup),
        lookahead=setup.workers * setup.lookahead,
        # One more: the rows of a mini-batch are placed while the next ones are read.
        fetching=setup.workers * (setup.lookahead + 1),
        fetched_row=int(_LARGER * (mean_row + _core.PICK_BYTES)),
        workers=setup.workers,
        sampling=setup.workers * _sampling_bytes(setup, size),
        read_lists=size.managed_rows * 32,
    )


def batch_bytes(size: BatchSize) -> int:
    """Memory of a mini-batch: rows, edges with their positions, ids."""
    return _rows_bytes(size) + size.nodes * 16 + size.edges * 32


def _rows_bytes(size: BatchSize) -> int:
    return _core.block_bytes(int(_LARGER * size.row_bytes))


def _sampling_bytes(setup: BatchSetup, size: BatchSize) -> int:
    """Working memory of sampling in one process, and batches that are sampled too early."""
    # In the core: edges and their positions, with room for half as many more; the map of ids.
    working = setup.threads * int(1.5 * size.edges * 24 + size.nodes * 64)
    waiting = max(0, setup.threads - setup.lookahead) * (size.edges * 32 + size.nodes * 16)
    return working + waiting


def _batches_at_a_time(setup: BatchSetup) -> int:
    """Whole mini-batches at the same time: one in use, and the next one, which is handed to a loop
    that still has a reference to it.
    """
    return 2 if setup.workers == 1 else setup.workers * (2 + _QUEUED)
