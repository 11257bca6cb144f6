"""`IOPlan`: how the rows of one iteration will be read, and why; a function of plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

from graphzero.prefetch import Prefetch
from graphzero.units import format_bytes

__all__ = ["Facts", "IOPlan", "make_plan"]

# Of what memory leaves, for what nobody accounts for: the interpreter's growth, the model's
# activations, page tables.
_SLACK = 0.1
# Topology may take so large a part of what is left; where it is larger, so much of that is kept,
# and the page cache has the rest for what is asked for hop by hop.
_MOST_TOPOLOGY = 0.5
_OF_LARGER_TOPOLOGY = 0.75
_DIRECT = ("pread", "uring")


@dataclass(frozen=True)
class Facts:
    """What a plan depends on; sizes in bytes.

    Attributes
    ----------
    features, topology : int
        Sizes of the rows, and of what sampling reads.
    batch : int
        Rows, edges and ids of one mini-batch.
    batches : int
        Mini-batches that exist at the same time, over all processes.
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
    """

    features: int
    topology: int
    batch: int
    batches: int
    available: int
    is_hot: bool
    uring_refusal: str | None = None
    working: int = 0
    labels: int = 0
    head: int | None = None


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
    fits = data + facts.batches * facts.batch <= facts.available
    strategy, reason = _strategy(prefetch, facts, fits)
    room, reserve, topology = _room(facts)
    asked = _asked(prefetch, facts, strategy)
    resident = min(asked, facts.features) if fits else min(asked, facts.features, room)
    if resident < min(asked, facts.features):
        reason += f"; memory leaves {format_bytes(room)} for resident rows"
    if fits:
        return IOPlan(strategy, resident, first_resident=resident, reason=reason)
    return IOPlan(
        strategy,
        resident,
        first_resident=min(resident, room // 2),
        reserve=reserve + facts.labels,
        topology=None if strategy == "none" else topology,
        page_cache=room - resident,
        is_larger=True,
        reason=reason,
    )


def _room(facts: Facts) -> tuple[int, int, int]:
    """Bytes that resident rows may take; that all topology may; and what is kept of it."""
    used = facts.batches * facts.batch + facts.working + facts.labels
    left = max(0, int(facts.available * (1 - _SLACK)) - used)
    # a part of a larger topology lives in the page cache as well
    most = int(_MOST_TOPOLOGY * left)
    if facts.topology <= most:
        return left - facts.topology, facts.topology, facts.topology
    return left - most, most, int(_OF_LARGER_TOPOLOGY * most)


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
