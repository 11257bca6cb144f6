"""Predicts from visit counts, before training, how many feature pages a mini-batch misses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from mmap import PAGESIZE
from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import as_ids
from graphzero.store.manifest import (
    AnyManifest,
    FileEntry,
    Presampling,
    TypedManifest,
    read_manifest,
)

__all__ = ["MissPrediction", "predict_misses", "touch_probabilities"]

_CHUNK_ROWS = 1 << 20
_RELIABLE = 64  # nodes with a number of visits, for their count to be taken as an expectation
_ALMOST_ONE = 1 - 1e-12


@dataclass(frozen=True)
class MissPrediction:
    """The pages that a mini-batch is expected to miss.

    Attributes
    ----------
    memory : int
        Bytes of features that are resident.
    resident_pages, total_pages : int
    touched_pages : float
        Distinct pages that a mini-batch touches, on average.
    missing_pages : float
        Those of them that are not resident.
    presampling : Presampling
        The kind of mini-batch for which this holds.
    """

    memory: int
    resident_pages: int
    total_pages: int
    touched_pages: float
    missing_pages: float
    presampling: Presampling

    @property
    def missing_bytes(self) -> float:
        """Bytes that are read for a mini-batch."""
        return self.missing_pages * PAGESIZE

    def seconds(self, iops: float) -> float:
        """Seconds to read them, one read a page, at a rate of reads a second."""
        return self.missing_pages / iops


def touch_probabilities(
    nodes: npt.NDArray[np.int64], seeds: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Probability that a node with r visits is in a new mini-batch, for each r.

    r / batches is too low for nodes that were never seen, and too high for those that were seen
    once by luck. In an order by these same counts the errors do not cancel. Where enough nodes
    have few visits, the Good-Turing estimate (Good, Biometrika 1953) is used instead: (r + 1) /
    (batches + 1) times the nodes with r + 1 visits, divided by those with r. It leaves out seeds,
    which every epoch visits.

    Parameters
    ----------
    nodes, seeds : (batches + 1,) int64
        How many nodes have each number of visits, and how many of them are seeds.

    Returns
    -------
    (batches + 1,) float64
    """
    batches = len(nodes) - 1
    probability = np.arange(batches + 1) / batches
    others = (nodes - seeds).tolist()
    for visits in range(batches):
        here, above = others[visits], others[visits + 1]
        if min(here, above) < _RELIABLE:
            break
        estimate = (visits + 1) / (batches + 1) * above / here
        known = seeds[visits] * probability[visits]
        probability[visits] = (here * estimate + known) / nodes[visits]
    return np.minimum(probability, _ALMOST_ONE)


class _Counts:
    """Visit counts in stored order, in pieces."""

    def __init__(self, store: FeatureStore, batches: int) -> None:
        self._store = store
        self._batches = batches

    def read(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Counts of some rows."""
        counts = self._store.gather_stored(rows, None, 1).astype(np.intp)
        if int(counts.max(initial=0)) > self._batches:
            raise FormatError(f"{self._store.path} has more visits than there were batches")
        return counts

    def histogram(self) -> npt.NDArray[np.int64]:
        """How many nodes have each number of visits, (batches + 1,)."""
        total = np.zeros(self._batches + 1, np.int64)
        for begin in range(0, len(self._store), _CHUNK_ROWS):
            rows = np.arange(begin, min(begin + _CHUNK_ROWS, len(self._store)))
            total += np.bincount(self.read(rows), minlength=len(total))
        return total

    def histogram_of(self, nodes: FeatureStore) -> npt.NDArray[np.int64]:
        """The same of the nodes, in the user's ids, in a split's file."""
        total = np.zeros(self._batches + 1, np.int64)
        for begin in range(0, len(nodes), _CHUNK_ROWS):
            ids = nodes.gather_stored(
                np.arange(begin, min(begin + _CHUNK_ROWS, len(nodes))), None, 1
            )
            rows = self._store.to_stored(as_ids(ids, len(self._store), "split"))
            total += np.bincount(self.read(rows), minlength=len(total))
        return total


def _page_touches(
    counts: _Counts,
    log_missed: npt.NDArray[np.float64],
    row_bytes: int,
    num_rows: int,
) -> Iterator[npt.NDArray[np.float64]]:
    """Probability that a mini-batch touches each page, in pieces."""
    total = -(-num_rows * row_bytes // PAGESIZE)
    step = max(1, _CHUNK_ROWS * row_bytes // PAGESIZE)
    for begin in range(0, total, step):
        pages = np.arange(begin, min(begin + step, total), dtype=np.int64)
        first = pages * PAGESIZE // row_bytes
        stop = np.minimum(((pages + 1) * PAGESIZE - 1) // row_bytes + 1, num_rows)
        low = int(first[0])
        logs = log_missed[counts.read(np.arange(low, int(stop[-1])))]
        # Rows that cross into the next page belong to both: ranges overlap, as reduceat allows.
        bounds = np.stack([first, stop], axis=1).reshape(-1) - low
        yield -np.expm1(np.add.reduceat(np.append(logs, 0.0), bounds)[::2])


def predict_misses(path: str | os.PathLike[str], memory: int) -> MissPrediction:
    """Expected distinct missing pages of features of a mini-batch, under a limit of memory.

    The model: the first rows in stored order fill the memory and stay there; any other page that
    is touched is missing. A page is touched if one of its rows is in the mini-batch. Rows are in it
    independently of one another, each with the share of sampled mini-batches that it was in (see
    `touch_probabilities`). Mini-batches must be of the kind that was sampled. Pages that stay
    cached from one mini-batch to the next are ignored. In a typed graph these are the features "x"
    of all node types, among which the memory is divided in proportion to their sizes.

    Parameters
    ----------
    path : path-like
        Folder of a dataset with features and visit counts.
    memory : int
        Bytes of features that can be resident.

    Returns
    -------
    MissPrediction

    Raises
    ------
    ValueError
        If there are no features or no visit counts.
    FormatError
        If the counts do not fit the dataset.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    parts = list(_parts(manifest))
    if not parts:
        raise ValueError(f"{folder} has no features that a mini-batch could miss")
    if manifest.presampling is None or any(part.visits is None for part in parts):
        raise ValueError(
            f"{folder} has no visit counts: "
            f"'graphzero reorder {folder} --order presample' samples them"
        )
    with ExitStack() as stack:

        def store(entry: FileEntry) -> FeatureStore:
            return stack.enter_context(FeatureStore(entry.resolve(folder)))

        features = [store(part.features) for part in parts]
        total = sum(each.num_nodes * each.row_bytes for each in features)
        found = _Pages(0, 0, 0.0, 0.0)
        for part, rows in zip(parts, features, strict=True):
            own = memory * rows.num_nodes * rows.row_bytes // max(total, 1)
            found += _missing(part, rows, store, manifest.presampling.batches, own)
    return MissPrediction(
        memory, found.resident, found.total, found.touched, found.missing, manifest.presampling
    )


@dataclass(frozen=True)
class _Part:
    """The features of the nodes of one type, or of a graph without types.

    `seeds` is the split whose nodes were seeds; `all_seeds`: all nodes were.
    """

    features: FileEntry
    visits: FileEntry | None
    seeds: FileEntry | None
    all_seeds: bool


@dataclass(frozen=True)
class _Pages:
    resident: int
    total: int
    touched: float
    missing: float

    def __add__(self, other: _Pages) -> _Pages:
        return _Pages(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(_Pages)))


def _parts(manifest: AnyManifest) -> Iterator[_Part]:
    if isinstance(manifest, TypedManifest):
        all_seeds = not any("train" in table.splits for table in manifest.nodes.values())
        for table in manifest.nodes.values():
            if "x" in table.attributes:
                train = table.splits.get("train")
                yield _Part(table.attributes["x"], table.visits, train, all_seeds)
    elif manifest.features is not None:
        train = manifest.splits.get("train")
        yield _Part(manifest.features, manifest.visits, train, train is None)


def _missing(
    part: _Part,
    features: FeatureStore,
    store: Callable[[FileEntry], FeatureStore],
    batches: int,
    memory: int,
) -> _Pages:
    """Pages of one file of features, with so many bytes of it resident."""
    assert part.visits is not None
    visits = store(part.visits)
    if visits.shape != (features.num_nodes,) or visits.dtype.kind != "u":
        raise FormatError(f"{visits.path} does not hold one count for each node")
    counts = _Counts(visits, batches)
    nodes = counts.histogram()
    seeds = nodes if part.all_seeds else np.zeros_like(nodes)
    if part.seeds is not None:
        seeds = np.minimum(nodes, counts.histogram_of(store(part.seeds)))
    log_missed = np.log1p(-touch_probabilities(nodes, seeds))
    total = -(-features.num_nodes * features.row_bytes // PAGESIZE)
    resident, done = min(total, memory // PAGESIZE), 0
    touched = missing = 0.0
    for pages in _page_touches(counts, log_missed, features.row_bytes, features.num_nodes):
        touched += float(pages.sum())
        missing += float(pages[max(0, resident - done) :].sum())
        done += len(pages)
    return _Pages(resident, total, touched, missing)
