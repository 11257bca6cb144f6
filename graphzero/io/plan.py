"""`IOPlan`: how one iteration reads rows and topology, and why; a pure function of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from mmap import PAGESIZE

import numpy as np
import numpy.typing as npt

from graphzero.io.estimate import Estimate, count_beyond
from graphzero.io.prefetch import Prefetch
from graphzero.io.strategies import FOR_DATA_IN_MEMORY, FOR_LARGER_DATA, STRATEGIES, Strategy
from graphzero.units import format_bytes

__all__ = ["AS_REQUESTED", "ITERATION_BYTES", "IOPlan", "make_plan"]

AS_REQUESTED = "as requested"  # why a strategy was chosen that is not "auto"

# What an iteration takes besides mini-batches: threads, their heaps, objects of the interpreter.
ITERATION_BYTES = 3 << 20
# Of the available memory, for what nobody accounts for: the interpreter's growth, the model's
# activations, page tables.
_SLACK = 0.1
# Of the memory for a topology that does not fit in it, the resident part. The page cache has the
# rest, for hop read-ahead.
_OF_LARGER_TOPOLOGY = 0.75
_TOPOLOGY_COST = 2  # of a page through the page cache, where one of rows, read past it, costs 1
_SPLITS = 64  # that are compared
# Mini-batches that the memory for files must still have room for, where one more is placed ahead.
_ROOM_TO_PLACE_AHEAD = 5


@dataclass(frozen=True)
class IOPlan:
    """How an iteration reads.

    Attributes
    ----------
    strategy : Strategy
    resident : int
        Bytes of the features' resident prefix, once the model is known to leave so much.
    first_resident : int
        The same until then.
    reserve : int
        Bytes that the resident prefix must leave to topology and labels, besides what processes
        take.
    topology : int or None
        Bytes of the resident topology; hop read-ahead requests the rest. None: all topology is
        left to page faults.
    page_cache : int or None
        Bytes for pages that are read ahead. None: without a bound.
    in_flight : int
        Most bytes of mini-batches that exist at the same time, over all DataLoader workers, with
        what makes them. 0 as long as the size of a mini-batch is unknown.
    places_ahead : bool
        Whether the rows of the next mini-batch are placed in their array in the background.
    placed_ahead : int
        Bytes of that mini-batch; 0 as long as its size is unknown.
    topology_wish, features_wish : int
        Bytes of topology and of rows that would be of use in memory.
    is_larger : bool
        Whether the dataset does not fit in memory.
    reason : str
    """

    strategy: Strategy
    resident: int = 0
    first_resident: int = 0
    reserve: int = 0
    topology: int | None = None
    page_cache: int | None = None
    in_flight: int = 0
    places_ahead: bool = False
    placed_ahead: int = 0
    topology_wish: int = 0
    features_wish: int = 0
    is_larger: bool = False
    reason: str = ""

    def __str__(self) -> str:
        parts = [f"{format_bytes(self.resident)} of rows"] if self.resident else []
        if self.topology:
            parts.append(f"{format_bytes(self.topology)} of topology")
        resident = f", {' and '.join(parts)} resident" if parts else ""
        text = f"{self.strategy.name}{resident}: {self.reason}"
        if self.in_flight:
            text += f"; batches in flight take at most {format_bytes(self.in_flight)}"
        return text


def make_plan(prefetch: Prefetch, estimate: Estimate) -> IOPlan:
    """The plan for one iteration."""
    # Workers place rows beside the training loop anyway.
    is_alone = estimate.workers == 1 or estimate.batch == 0
    if prefetch.lookahead > 0 and is_alone:
        observed = estimate.observed
        one_more = replace(
            estimate,
            batches=estimate.batches + 1,
            observed=None if observed is None else observed - estimate.batch,
        )
        plan = _plan(prefetch, one_more)
        room = None if plan.page_cache is None else plan.page_cache + plan.resident
        enough = room is None or room >= _ROOM_TO_PLACE_AHEAD * estimate.batch
        if plan.strategy.past_page_cache and enough:
            return replace(plan, places_ahead=True, placed_ahead=estimate.batch)
    return _plan(prefetch, estimate)


def _plan(prefetch: Prefetch, estimate: Estimate) -> IOPlan:
    in_use = estimate.bytes_of_whole_batches + ITERATION_BYTES
    fits = estimate.data + in_use <= estimate.available
    strategy, reason = _choose(prefetch, estimate, fits)
    requested = min(_requested(prefetch, estimate, strategy), estimate.features)
    reserve, room = _divide(prefetch, estimate, strategy, requested)
    resident = requested if fits else min(requested, room)
    if not (fits or estimate.is_hot or strategy.past_page_cache):
        resident = _beside_pages(estimate, resident, room)
    if resident < requested:
        reason += (
            f"; {format_bytes(resident)} of memory available for resident rows"
            if prefetch.resident is None
            else f"; {format_bytes(resident)} of memory available for the "
            f"{format_bytes(requested)} of resident rows that were requested"
        )
    in_flight = 0
    if estimate.batch:
        in_flight = ITERATION_BYTES + strategy.bytes_needed(estimate, prefetch, resident)
    if fits:
        return IOPlan(
            strategy,
            resident,
            first_resident=resident,
            in_flight=in_flight,
            topology_wish=estimate.topology,
            features_wish=estimate.features,
            reason=reason,
        )
    return IOPlan(
        strategy,
        resident,
        in_flight=in_flight,
        topology_wish=estimate.topology,
        features_wish=requested,
        first_resident=min(resident, room // 2),
        reserve=reserve + estimate.labels,
        topology=_resident_of(estimate.topology, reserve) if strategy.reads_ahead else None,
        page_cache=room - resident,
        is_larger=True,
        reason=reason,
    )


def _choose(prefetch: Prefetch, estimate: Estimate, fits: bool) -> tuple[Strategy, str]:
    """The strategy, and why it was chosen."""
    unavailable = estimate.unavailable
    if prefetch.strategy != "auto":
        strategy = STRATEGIES[prefetch.strategy]
        if strategy.name not in unavailable or strategy.substitute is None:
            return strategy, AS_REQUESTED
        why = f"{strategy.name} was requested and is unavailable ({unavailable[strategy.name]})"
        return STRATEGIES[strategy.substitute], why
    if fits:
        return _first_available(FOR_DATA_IN_MEMORY, estimate), "the dataset fits in memory"
    reason = (
        f"features of {format_bytes(estimate.features)} and topology of "
        f"{format_bytes(estimate.topology)} against {format_bytes(estimate.available)} of memory"
    )
    strategy = _first_available(FOR_LARGER_DATA, estimate)
    for name in FOR_LARGER_DATA[: FOR_LARGER_DATA.index(strategy.name)]:
        reason += f"; {name} is unavailable ({unavailable[name]})"
    return strategy, reason


def _first_available(names: tuple[str, ...], estimate: Estimate) -> Strategy:
    available = [name for name in names if name not in estimate.unavailable]
    return STRATEGIES[available[0] if available else names[-1]]


def _requested(prefetch: Prefetch, estimate: Estimate, strategy: Strategy) -> int:
    """Bytes of resident rows that are requested."""
    most = estimate.features if estimate.prefix is None else estimate.prefix
    requested = prefetch.resident_bytes(most)
    if requested is not None:
        return min(requested, most)
    if estimate.prefix is not None:
        return estimate.prefix
    # in another order the first rows are no better than the others
    chosen_freely = prefetch.strategy == "auto" and strategy.past_page_cache and estimate.is_hot
    return estimate.features if chosen_freely else 0


def _divide(
    prefetch: Prefetch, estimate: Estimate, strategy: Strategy, requested: int
) -> tuple[int, int]:
    """Memory for topology and memory for rows, if the user requests `requested` bytes of rows."""

    def divided(resident: int) -> tuple[int, int]:
        room = _available(prefetch, estimate, strategy, resident)
        return _split(estimate, strategy, room, requested)

    # With fewer rows resident than there will be, more are missing than there will be.
    reserve, room = divided(0)
    again = divided(min(requested, room)) if strategy.past_page_cache else (reserve, room)
    return again if again[1] >= room else (reserve, room)


def _available(prefetch: Prefetch, estimate: Estimate, strategy: Strategy, resident: int) -> int:
    """Bytes that rows and topology may take together, if `resident` bytes of rows are resident."""
    if estimate.observed is not None:
        return max(0, estimate.observed - estimate.labels)
    batches = strategy.bytes_needed(estimate, prefetch, resident)
    used = ITERATION_BYTES + batches + estimate.labels
    return max(0, int(estimate.available * (1 - _SLACK)) - used)


def _split(estimate: Estimate, strategy: Strategy, room: int, requested: int) -> tuple[int, int]:
    """Of `room`, the bytes for topology and those for rows."""
    # rows that come through the page cache need room there
    most = min(estimate.topology, room if strategy.past_page_cache else room // 2)
    topology = _best_for_topology(estimate, room, requested, most)
    return topology, room - topology


def _beside_pages(estimate: Estimate, most: int, room: int) -> int:
    """Bytes of resident rows, at most `most`, that leave `room` to the other pages of batches.

    This is for rows that are read into the page cache in an order that helps nothing: it would drop
    some pages of a mini-batch before they are used.
    """
    if estimate.touched_rows is None:
        return most
    resident = np.linspace(most, 0, _SPLITS).astype(np.int64)
    pages = (estimate.lookahead + 1) * count_beyond(_pages_of(estimate.touched_rows), resident)
    fits = resident + PAGESIZE * pages <= room
    return int(resident[np.argmax(fits)]) if fits.any() else 0


def _pages_of(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Pages of rows, both as the prefix that has them."""
    return np.unique(-(-rows // PAGESIZE)) * PAGESIZE


def _best_for_topology(estimate: Estimate, room: int, requested: int, most: int) -> int:
    """Of `room`, the bytes for topology, at most `most`, with which fewest pages are missing."""
    if estimate.touched_topology is None:
        return min(most, room // 2)
    given = np.linspace(most, 0, _SPLITS).astype(np.int64)
    resident = np.array([_resident_of(estimate.topology, part) for part in given.tolist()])
    cost = _TOPOLOGY_COST * count_beyond(estimate.touched_topology, resident)
    if estimate.touched_rows is not None:
        pages = _pages_of(estimate.touched_rows)
        cost += count_beyond(pages, np.minimum(requested, room - given))
    return int(given[np.argmin(cost)])


def _resident_of(topology: int, room: int) -> int:
    """Resident bytes of a topology that has so much room."""
    return topology if room >= topology else int(_OF_LARGER_TOPOLOGY * room)
