"""`make_plan`: how one iteration reads rows and topology, and why, as a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from mmap import PAGESIZE

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.io.prefetch import (
    FOR_DATA_IN_MEMORY,
    FOR_LARGER_DATA,
    STRATEGIES,
    Prefetch,
    Strategy,
)
from graphzero.units import format_bytes

_LARGER = 1 + 1 / 16  # than the first mini-batch: a later one may be
_QUEUED = 2  # finished mini-batches of a DataLoader worker that wait to be taken


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
    group : int
        Mini-batches that are read together.
    uniform_topology : int
        Bytes of the graph files whose hops can be read past the page cache, for a group together.
    graph_files : int
        Number of graph files.
    working : int
        Working memory of sampling one mini-batch, and lists of what its last hop reads.
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
    group: int = 1
    uniform_topology: int = 0
    graph_files: int = 1
    working: int = 0

    def in_groups(self, group: int) -> Estimate:
        """The same, where each process reads the rows of so many mini-batches together.

        Half of a group may wait to be placed while the next one is read, and the one after that is
        sampled.
        """
        more = self.workers * (group - 1)
        return replace(
            self,
            group=group,
            lookahead=self.lookahead + 5 * more // 2,
            fetching=self.fetching + 3 * more // 2,
            read_lists=self.read_lists * group,
            sampling=self.sampling + (more * self.working if self.has_uniform_hops else 0),
        )

    @property
    def has_uniform_hops(self) -> bool:
        """Whether most of the topology can be read past the page cache."""
        return 2 * self.uniform_topology > self.topology

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


def with_batches(
    estimate: Estimate, size: BatchSize, *, lookahead: int, workers: int, threads: int
) -> Estimate:
    """The same estimate, for mini-batches as large as this one.

    Parameters
    ----------
    estimate : Estimate
    size : BatchSize
    lookahead : int
        Mini-batches that each process makes ahead.
    workers : int
        Processes that make mini-batches.
    threads : int
        Sampling threads in each of them.
    """
    mean_row = size.managed_bytes / max(1, size.managed_rows)
    # In the core: edges and their positions, with space for half as many more; the map of ids.
    working = _working_bytes(size.nodes, size.edges)
    sampled_too_early = max(0, threads - lookahead) * (size.edges * 32 + size.nodes * 16)
    return replace(
        estimate,
        batch=batch_bytes(size),
        batch_rows=_rows_bytes(size),
        # one in use, and the next one, which is handed to a loop that still refers to it
        batches=2 if workers == 1 else workers * (2 + _QUEUED),
        lookahead=workers * lookahead,
        # One more: the rows of a mini-batch are placed while the next ones are read.
        fetching=workers * (lookahead + 1),
        fetched_row=int(_LARGER * (mean_row + _core.PICK_BYTES)),
        workers=workers,
        sampling=workers * (threads * working + sampled_too_early),
        working=bytes_of_hops(size.nodes, size.edges),
        read_lists=size.managed_rows * 32,
    )


def batch_bytes(size: BatchSize) -> int:
    """Memory of a mini-batch: rows, edges with their positions, ids."""
    return _rows_bytes(size) + structure_bytes(size.nodes, size.edges)


def structure_bytes(nodes: int, edges: int) -> int:
    """Memory of the edges of a mini-batch, with their positions, and of its ids."""
    return nodes * 16 + edges * 32


def _working_bytes(nodes: int, edges: int) -> int:
    """Memory of a mini-batch while it is sampled."""
    return int(1.5 * edges * 24 + nodes * 64)


def bytes_of_hops(nodes: int, edges: int) -> int:
    """The same where hops are read past the page cache, with lists of what is read."""
    return _working_bytes(nodes, edges) + edges * _READ_ENTRY


def _rows_bytes(size: BatchSize) -> int:
    return _core.block_bytes(int(_LARGER * size.row_bytes))


# Of an entry that a hop reads past the page cache: the entry, and two picks to sort.
_READ_ENTRY = 8 + 2 * _core.PICK_BYTES

AS_REQUESTED = "as requested"  # why a strategy was chosen that is not "auto"

# What an iteration takes besides mini-batches: threads, their heaps, objects of the interpreter.
ITERATION_BYTES = 3 << 20
# Of the available memory, for what nobody accounts for: the interpreter's growth, the model's
# activations, page tables.
_SLACK = 0.1
# Of the memory for a topology that does not fit in it, the resident part. The page cache has the
# rest, for hop read-ahead.
_OF_LARGER_TOPOLOGY = 0.75
_OF_UNIFORM_TOPOLOGY = 0.9  # where hops are read past the page cache
_BUFFERS_OF_HOPS = 32  # at most this part of the memory
_FEWEST_READS = 16  # under way, of one graph file
# Of a page of topology, through the page cache or past it, where one of rows, read past it, costs
# 1: hops wait for each other.
_TOPOLOGY_COST, _HOP_COST = 2, 1.5
_SPLITS = 64  # that are compared
# Mini-batches that the memory for files must still have, where one more is placed ahead.
_MEMORY_TO_PLACE_AHEAD = 5


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
        Bytes of that mini-batch, and of the others of groups; 0 as long as its size is unknown.
    reads_hops : bool
        Whether what hops need of the topology is read past the page cache, for a group together.
    hop_reads : int
        Reads of one graph file under way then, by io_uring.
    group : int
        Mini-batches that are read together.
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
    reads_hops: bool = False
    hop_reads: int = 0
    group: int = 1
    is_larger: bool = False
    reason: str = ""

    def __str__(self) -> str:
        parts = [f"{format_bytes(self.resident)} of rows"] if self.resident else []
        if self.topology:
            parts.append(f"{format_bytes(self.topology)} of topology")
        resident = f", {' and '.join(parts)} resident" if parts else ""
        text = f"{self.strategy.name}{resident}: {self.reason}"
        if self.group > 1:
            what = "" if self.reads_hops else "the rows of "
            text += f"; {what}{self.group} batches are read together"
        if self.in_flight:
            text += f"; batches in flight take at most {format_bytes(self.in_flight)}"
        return text


# Mini-batches that may be read together; more hardly save reads.
_GROUPS = (1, 2, 4, 8, 16, 32)
# With k of them together, each takes about k ** -0.8 times as many reads: 5,710, 1,040 and 340
# for k = 1, 8 and 32, with a tenth of the rows resident.
_SAVED_READS = 0.8
# A third of the memory for files, at most; a half where hops save reads of topology as well.
_OF_MEMORY_FOR_GROUPS = 3


def make_plan(prefetch: Prefetch, estimate: Estimate) -> IOPlan:
    """The plan for one iteration."""
    alone = _plan_ahead(prefetch, estimate)
    if not alone.strategy.past_page_cache or prefetch.lookahead == 0:
        return alone
    if prefetch.group is not None:
        most = _memory_of(estimate, alone)
        groups = [prefetch.group >> i for i in range(prefetch.group.bit_length())]
        fitting = [n for n in groups if n == 1 or _bytes_of_group(estimate, alone, n) <= most]
        return _plan_in_groups(prefetch, estimate, alone, fitting[0])
    if not alone.is_larger or (estimate.touched_rows is None and not alone.reads_hops):
        return alone
    most = _memory_of(estimate, alone) // (2 if alone.reads_hops else _OF_MEMORY_FOR_GROUPS)
    groups = [n for n in _GROUPS if _bytes_of_group(estimate, alone, n) <= most]
    plans = [_plan_in_groups(prefetch, estimate, alone, group) for group in groups]
    return min(plans, key=lambda plan: _reads(estimate, plan))


def _memory_of(estimate: Estimate, alone: IOPlan) -> int:
    """Bytes for what is read in groups, if mini-batches are read one by one."""
    if alone.page_cache is None:
        return estimate.available
    topology = alone.reserve if alone.reads_hops else 0
    return alone.page_cache + alone.resident + topology


def _bytes_of_group(estimate: Estimate, alone: IOPlan, group: int) -> int:
    """Bytes that groups take beyond what mini-batches take that are read one by one."""
    grouped = estimate.in_groups(group)
    taken = grouped.bytes_of_batches_beyond(alone.resident) + grouped.read_lists
    taken += grouped.sampling - estimate.sampling
    return taken - estimate.bytes_of_batches_beyond(alone.resident) - estimate.read_lists


def _reads(estimate: Estimate, plan: IOPlan) -> float:
    """About how many reads a mini-batch takes."""
    reads = 0.0
    if estimate.touched_rows is not None:
        rows = count_beyond(estimate.touched_rows, np.array([plan.resident]))[0]
        reads += float(rows) * plan.group**-_SAVED_READS
    if estimate.touched_topology is not None:
        resident = np.array([plan.topology or 0])
        pages = float(count_beyond(estimate.touched_topology, resident)[0])
        together = _HOP_COST * plan.group**-_SAVED_READS
        reads += pages * (together if plan.reads_hops else _TOPOLOGY_COST)
    return reads


def _plan_in_groups(prefetch: Prefetch, estimate: Estimate, alone: IOPlan, group: int) -> IOPlan:
    """The plan where so many mini-batches are read together, from that where one is."""
    grouped, taken = estimate.in_groups(group), _bytes_of_group(estimate, alone, group)
    if estimate.observed is not None:
        grouped = replace(grouped, observed=estimate.observed - taken)
    plan = _plan_ahead(prefetch, grouped)
    return replace(plan, group=group, placed_ahead=plan.placed_ahead + taken)


def _plan_ahead(prefetch: Prefetch, estimate: Estimate) -> IOPlan:
    """The plan in which mini-batches are placed ahead, if there is memory for it."""
    # Workers place rows beside the training loop anyway.
    is_alone = estimate.workers == 1 or estimate.batch == 0
    if prefetch.lookahead > 0 and is_alone:
        observed, placed = estimate.observed, prefetch.lookahead * estimate.batch
        more = replace(
            estimate,
            batches=estimate.batches + prefetch.lookahead,
            observed=None if observed is None else observed - placed,
        )
        plan = _plan(prefetch, more)
        memory = None if plan.page_cache is None else plan.page_cache + plan.resident
        enough = memory is None or memory >= _MEMORY_TO_PLACE_AHEAD * estimate.batch
        if plan.strategy.past_page_cache and enough:
            return replace(plan, places_ahead=True, placed_ahead=placed)
    return _plan(prefetch, estimate)


def _plan(prefetch: Prefetch, estimate: Estimate) -> IOPlan:
    in_use = estimate.bytes_of_whole_batches + ITERATION_BYTES
    # Where nothing was left alone, the kernel would drop pages and read around each fault.
    usable = int(estimate.available * (1 - _SLACK))
    fits = estimate.features + estimate.topology + estimate.labels + in_use <= usable
    strategy, reason = _choose(prefetch, estimate, fits)
    requested = min(_requested(prefetch, estimate, strategy), estimate.features)
    reserve, memory = _divide(prefetch, estimate, strategy, requested)
    resident = requested if fits else min(requested, memory)
    if not (fits or estimate.is_hot or strategy.past_page_cache):
        resident = _beside_pages(estimate, resident, memory)
    if resident < requested:
        reason += (
            f"; {format_bytes(resident)} of memory available for resident rows"
            if prefetch.resident is None
            else f"; {format_bytes(resident)} of memory available for the "
            f"{format_bytes(requested)} of resident rows that were requested"
        )
    in_flight = 0
    if estimate.batch:
        in_flight = ITERATION_BYTES + _bytes_of_batches(strategy, prefetch, estimate, resident)
    if fits:
        return IOPlan(
            strategy,
            resident,
            first_resident=resident,
            in_flight=in_flight,
            reason=reason,
        )
    reads_hops = _reads_hops(estimate, strategy)
    topology = None
    if strategy.reads_ahead:
        topology = _resident_of(estimate.topology, reserve, reads_hops)
    return IOPlan(
        strategy,
        resident,
        in_flight=in_flight,
        first_resident=min(resident, memory // 2),
        reserve=reserve + estimate.labels,
        topology=topology,
        reads_hops=reads_hops and topology is not None and topology < estimate.topology,
        hop_reads=_hop_reads(estimate),
        page_cache=memory - resident,
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
        memory = _available(prefetch, estimate, strategy, resident)
        # rows that come through the page cache need memory there
        most = min(estimate.topology, memory if strategy.past_page_cache else memory // 2)
        reads_hops = _reads_hops(estimate, strategy)
        topology = _best_for_topology(estimate, memory, requested, most, reads_hops)
        return topology, memory - topology

    # With fewer rows resident than there will be, more are missing than there will be.
    reserve, memory = divided(0)
    again = divided(min(requested, memory)) if strategy.past_page_cache else (reserve, memory)
    return again if again[1] >= memory else (reserve, memory)


def _available(prefetch: Prefetch, estimate: Estimate, strategy: Strategy, resident: int) -> int:
    """Bytes that rows and topology may take together, if `resident` bytes of rows are resident."""
    if estimate.observed is not None:
        return max(0, estimate.observed - estimate.labels)
    batches = _bytes_of_batches(strategy, prefetch, estimate, resident)
    used = ITERATION_BYTES + batches + estimate.labels
    return max(0, int(estimate.available * (1 - _SLACK)) - used)


def _bytes_of_batches(
    strategy: Strategy, prefetch: Prefetch, estimate: Estimate, resident: int
) -> int:
    """Memory of all mini-batches under way, and of what makes them."""
    if not strategy.past_page_cache:
        return estimate.bytes_of_whole_batches + estimate.sampling
    buffers = estimate.readers * strategy.buffer_bytes(prefetch)
    if _reads_hops(estimate, strategy):
        reads = _hop_reads(estimate) if strategy.name == "uring" else prefetch.threads
        buffers += estimate.graph_files * reads * _core.BUFFER_BYTES
    reading = estimate.workers * (buffers + estimate.read_lists)
    return estimate.bytes_of_batches_beyond(resident) + estimate.sampling + reading


def _beside_pages(estimate: Estimate, most: int, memory: int) -> int:
    """Bytes of resident rows, at most `most`, that leave `memory` to the other pages of batches.

    This is for rows that are read into the page cache in an order that helps nothing: it would drop
    some pages of a mini-batch before they are used.
    """
    if estimate.touched_rows is None:
        return most
    resident = np.linspace(most, 0, _SPLITS).astype(np.int64)
    pages = (estimate.lookahead + 1) * count_beyond(_pages_of(estimate.touched_rows), resident)
    fits = resident + PAGESIZE * pages <= memory
    return int(resident[np.argmax(fits)]) if fits.any() else 0


def _pages_of(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Pages of rows, both as the prefix that has them."""
    return np.unique(-(-rows // PAGESIZE)) * PAGESIZE


def _reads_hops(estimate: Estimate, strategy: Strategy) -> bool:
    return strategy.past_page_cache and estimate.has_uniform_hops


def _hop_reads(estimate: Estimate) -> int:
    """Reads of one graph file under way, whose buffers take a small part of the memory."""
    fitting = estimate.available // _BUFFERS_OF_HOPS // _core.BUFFER_BYTES
    return max(_FEWEST_READS, min(_core.URING_DEPTH, fitting) // estimate.graph_files)


def _best_for_topology(
    estimate: Estimate, memory: int, requested: int, most: int, reads_hops: bool
) -> int:
    """The bytes for topology, at most `most`, with which fewest pages are missing."""
    if estimate.touched_topology is None:
        return min(most, memory // 2)
    given = np.linspace(most, 0, _SPLITS).astype(np.int64)
    total = estimate.topology
    resident = np.array([_resident_of(total, part, reads_hops) for part in given.tolist()])
    of_page = _HOP_COST if reads_hops else _TOPOLOGY_COST
    cost = of_page * count_beyond(estimate.touched_topology, resident)
    if estimate.touched_rows is not None:
        pages = _pages_of(estimate.touched_rows)
        cost += count_beyond(pages, np.minimum(requested, memory - given))
    return int(given[np.argmin(cost)])


def _resident_of(topology: int, memory: int, reads_hops: bool) -> int:
    """Resident bytes of a topology that has so much memory."""
    part = _OF_UNIFORM_TOPOLOGY if reads_hops else _OF_LARGER_TOPOLOGY
    return topology if memory >= topology else int(part * memory)
