"""`IOPlan`: how the rows of one iteration will be read, and why; a function of plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from mmap import PAGESIZE

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.io.prefetch import Prefetch
from graphzero.units import format_bytes

__all__ = ["Facts", "IOPlan", "make_plan"]

# Of what memory leaves, for what nobody accounts for: the interpreter's growth, the model's
# activations, page tables.
_SLACK = 0.1
# What an iteration takes beside mini-batches: threads, their heaps, the objects of the interpreter.
_ITSELF = 3 << 20
# Of the part of a topology that has room, so much is kept where there is no room for all of it: the
# page cache has the rest, for what is asked for hop by hop.
_OF_LARGER_TOPOLOGY = 0.75
_TOPOLOGY_COST = 2  # of a page through the page cache, where one of rows, read past it, costs 1
_SPLITS = 64  # that are compared
_DIRECT = ("pread", "uring")


@dataclass(frozen=True)
class Facts:
    """What a plan depends on; sizes in bytes.

    Attributes
    ----------
    features, topology : int
        Sizes of the rows, and of what sampling reads.
    batch, batch_rows : int
        One mini-batch: its rows, edges and ids; of these the rows.
    batches : int
        Whole mini-batches that exist at the same time, over all processes.
    ahead : int
        Mini-batches that are made ahead of these. Where rows are read past the page cache, they
        have only those that are not resident.
    fetching : int
        Mini-batches whose rows have been read past the page cache, or are being read, and are not
        at their places yet.
    available : int
        What all of it may take.
    is_hot : bool
        Whether the file begins with the rows that are wanted most.
    uring_refusal : str or None
        Why io_uring cannot be used.
    working : int
        Memory that comes and goes while batches are made: of sampling, and of reads under way, over
        all processes.
    labels : int
        Size of the labels, which are read through the page cache.
    head : int or None
        Of the features, what is to be resident and nothing beyond it, whatever the order; None:
        the plan decides.
    touched_rows : (num_nodes,) int64, or None
        The rows of one mini-batch, each as the bytes that are kept, from the beginning on, if it
        is; ascending. None: nothing is known.
    fetched_row : int
        Bytes that a row takes until it is at its place.
    touched_topology : (num_pages,) int64, or None
        Likewise, the pages of topology that one mini-batch touches. None: nothing is known, and
        rows leave topology one half.
    seen : int or None
        What earlier iterations have been seen to leave for files beside all that processes take,
        where they have; it stands for `available` then, and for what would be taken off that.
    """

    features: int
    topology: int
    batch: int
    batches: int
    available: int
    is_hot: bool
    batch_rows: int = 0
    ahead: int = 0
    fetching: int = 0
    uring_refusal: str | None = None
    working: int = 0
    labels: int = 0
    head: int | None = None
    touched_rows: npt.NDArray[np.int64] | None = None
    fetched_row: int = 0
    touched_topology: npt.NDArray[np.int64] | None = None
    seen: int | None = None


@dataclass(frozen=True)
class IOPlan:
    """How rows are read.

    Attributes
    ----------
    strategy : {"none", "willneed", "pread", "uring"}
    resident : int
        Bytes of the features' head that are kept in memory, once the model is known to leave them.
    first_resident : int
        Of these, what is kept before.
    reserve : int
        Bytes that resident rows must leave beside what processes take: for topology and labels.
    topology : int or None
        Bytes of the topology that are kept in memory; what is beyond is asked for hop by hop.
        None: all of it is left to page faults.
    page_cache : int or None
        Bytes that are left for pages that are read ahead. None: as many as there are.
    is_larger : bool
        Whether the dataset does not fit in memory.
    reason : str
    """

    strategy: str
    resident: int = 0
    first_resident: int = 0
    reserve: int = 0
    topology: int | None = None
    page_cache: int | None = None
    is_larger: bool = False
    reason: str = ""

    def __str__(self) -> str:
        kept = f", {format_bytes(self.resident)} of rows" if self.resident else ""
        if self.topology:
            kept += f"{' and' if kept else ','} {format_bytes(self.topology)} of topology"
        return f"{self.strategy}{kept}{' resident' if kept else ''}: {self.reason}"


def make_plan(prefetch: Prefetch, facts: Facts) -> IOPlan:
    """The plan for one iteration."""
    data = facts.features + facts.topology + facts.labels
    fits = data + _of_batches(facts, None) + _ITSELF <= facts.available
    strategy, reason = _strategy(prefetch, facts, fits)
    asked = min(_asked(prefetch, facts, strategy), facts.features)
    if strategy in _DIRECT:
        # With fewer rows resident than there will be, more are missing than there will be.
        reserve, room = _split(facts, _left(facts, 0), asked, strategy)
        again = _split(facts, _left(facts, min(asked, room)), asked, strategy)
        reserve, room = again if again[1] >= room else (reserve, room)
    else:
        reserve, room = _split(facts, _left(facts, None), asked, strategy)
    resident = asked if fits else min(asked, room)
    if not (fits or facts.is_hot or strategy in _DIRECT):
        resident = _beside_pages(facts, resident, room)
    if resident < asked:
        reason += f"; memory leaves {format_bytes(resident)} for resident rows"
    if fits:
        return IOPlan(strategy, resident, first_resident=resident, reason=reason)
    return IOPlan(
        strategy,
        resident,
        first_resident=min(resident, room // 2),
        reserve=reserve + facts.labels,
        topology=None if strategy == "none" else _kept_of(facts.topology, reserve),
        page_cache=room - resident,
        is_larger=True,
        reason=reason,
    )


def _of_batches(facts: Facts, resident: int | None) -> int:
    """Bytes of all mini-batches, where so much of the rows is resident and others are read past the
    page cache; or, with None, through it.
    """
    if resident is None:
        return (facts.batches + facts.ahead) * facts.batch
    missing = facts.batch_rows
    if facts.touched_rows is not None:
        missing = int(_more_than(facts.touched_rows, np.array([resident]))[0])
        missing = _core.block_bytes(missing * facts.fetched_row)
    without_rows = facts.batch - facts.batch_rows
    return facts.batches * facts.batch + facts.ahead * without_rows + facts.fetching * missing


def _left(facts: Facts, resident: int | None) -> int:
    """Bytes that rows and topology may take together, with mini-batches as in `_of_batches`."""
    if facts.seen is not None:
        return max(0, facts.seen - facts.labels)
    used = _ITSELF + _of_batches(facts, resident) + facts.working + facts.labels
    return max(0, int(facts.available * (1 - _SLACK)) - used)


def _split(facts: Facts, left: int, rows: int, strategy: str) -> tuple[int, int]:
    """Of `left`, what topology has and what rows have, of which so many bytes are wanted."""
    # rows that come through the page cache need room there
    most = min(facts.topology, left if strategy in _DIRECT else left // 2)
    topology = _for_topology(facts, left, rows, most)
    return topology, left - topology


def _beside_pages(facts: Facts, most: int, room: int) -> int:
    """Bytes of resident rows, at most `most`, beside which `room` has the other pages of batches.

    For those that are read into the page cache, which would drop some before they are used; where
    rows are in no order that helps, so many are wanted of each batch.
    """
    if facts.touched_rows is None:
        return most
    kept = np.linspace(most, 0, _SPLITS).astype(np.int64)
    pages = (facts.ahead + 1) * _more_than(_pages_of(facts.touched_rows), kept)
    fits = kept + PAGESIZE * pages <= room
    return int(kept[np.argmax(fits)]) if fits.any() else 0


def _pages_of(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Pages of rows, both as the bytes that are kept if they are."""
    return np.unique(-(-rows // PAGESIZE)) * PAGESIZE


def _for_topology(facts: Facts, left: int, rows: int, most: int) -> int:
    """Of `left`, what topology had best have: at most `most`, where so many bytes of rows are
    wanted.
    """
    if facts.touched_topology is None:
        return min(most, left // 2)
    given = np.linspace(most, 0, _SPLITS).astype(np.int64)
    kept = np.array([_kept_of(facts.topology, room) for room in given.tolist()])
    cost = _TOPOLOGY_COST * _more_than(facts.touched_topology, kept)
    if facts.touched_rows is not None:
        cost += _more_than(_pages_of(facts.touched_rows), np.minimum(rows, left - given))
    return int(given[np.argmin(cost)])


def _kept_of(topology: int, room: int) -> int:
    """Bytes of a topology that are kept where it has so much room."""
    return topology if room >= topology else int(_OF_LARGER_TOPOLOGY * room)


def _more_than(ends: npt.NDArray[np.int64], kept: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    return len(ends) - np.searchsorted(ends, kept, side="right")


def _strategy(prefetch: Prefetch, facts: Facts, fits: bool) -> tuple[str, str]:
    if prefetch.strategy in ("none", "willneed", "pread"):
        return prefetch.strategy, "as asked for"
    if prefetch.strategy == "uring":
        if facts.uring_refusal is None:
            return "uring", "as asked for"
        return "pread", f"io_uring was asked for and cannot be had ({facts.uring_refusal})"
    if fits:
        return "willneed", "the dataset fits in memory"
    larger = (
        f"features of {format_bytes(facts.features)} and topology of "
        f"{format_bytes(facts.topology)} against {format_bytes(facts.available)} of memory"
    )
    if facts.uring_refusal is None:
        return "uring", larger
    return "pread", f"{larger}; io_uring cannot be had ({facts.uring_refusal})"


def _asked(prefetch: Prefetch, facts: Facts, strategy: str) -> int:
    """Bytes of resident rows that are wanted."""
    most = facts.features if facts.head is None else facts.head
    asked = prefetch.resident_bytes(most)
    if asked is not None:
        return min(asked, most)
    if facts.head is not None:
        return facts.head
    # in another order the head is no better than the rest
    direct = strategy in _DIRECT
    return facts.features if prefetch.strategy == "auto" and direct and facts.is_hot else 0
