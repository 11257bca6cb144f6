"""`make_plan`: how one iteration reads rows and topology, and why, as a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
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
        Bytes that files and mini-batches had in earlier iterations, together, with mini-batches as
        large as was planned. They replace what is said to be available.
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
        sampled. Rows that were read for a group stay until all of it is placed.
        """
        more = self.workers * (group - 1)
        return replace(
            self,
            group=group,
            lookahead=self.lookahead + 5 * more // 2,
            fetching=self.fetching + 2 * more,
            read_lists=self.read_lists * group,
        )

    @property
    def has_uniform_hops(self) -> bool:
        """Whether most of the topology can be read past the page cache."""
        return 2 * self.uniform_topology > self.topology

    @property
    def bytes_of_hops(self) -> int:
        """More than `sampling`, where the mini-batches of a group are sampled together."""
        return self.workers * (self.group - 1) * self.working

    @cached_property
    def touched_pages(self) -> npt.NDArray[np.int64]:
        """Pages of `touched_rows`, each as the prefix that has it, ascending."""
        rows = np.empty(0, np.int64) if self.touched_rows is None else self.touched_rows
        pages = -(-rows // PAGESIZE)
        return pages[np.diff(pages, prepend=-1) > 0] * PAGESIZE

    @property
    def bytes_of_whole_batches(self) -> int:
        """All mini-batches, those of the lookahead with all their rows."""
        return (self.batches + self.lookahead) * self.batch

    def bytes_of_batches_beyond(self, resident: int) -> int:
        """All mini-batches, those of the lookahead without the rows in a resident prefix."""
        without_rows = self.batch - self.batch_rows
        ahead = self.lookahead * without_rows + self.fetching * self._missing_bytes(resident)
        return self.batches * self.batch + ahead

    def bytes_before_placing(self, resident: int, *, reads_hops: bool) -> int:
        """One mini-batch whose rows were read, all but those in a resident prefix."""
        hops = self.working if reads_hops else 0
        return self.batch - self.batch_rows + self._missing_bytes(resident) + hops

    def _missing_bytes(self, resident: int) -> int:
        if self.touched_rows is None:
            return self.batch_rows
        count = int(count_beyond(self.touched_rows, np.array([resident]))[0])
        return _core.block_bytes(count * self.fetched_row)


def count_beyond(
    ends: npt.NDArray[np.int64], prefixes: npt.NDArray[np.int64]
) -> npt.NDArray[np.intp]:
    """How many of some ascending `ends` lie beyond each of some prefixes."""
    return len(ends) - np.searchsorted(ends, prefixes, side="right")


def with_batches(
    estimate: Estimate, size: BatchSize, *, lookahead: int, workers: int, queued: int, threads: int
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
    queued : int
        Finished mini-batches of a DataLoader worker that wait to be taken.
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
        batches=2 if workers == 1 else workers * (2 + queued),
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
_TOPOLOGY_COST, _HOP_COST = 2.0, 1.5
_SPLITS, _SPLITS_OF_ROWS = 64, 16  # that are compared
# Mini-batches that the memory for files must still have, where one more is placed ahead.
_MEMORY_TO_PLACE_AHEAD = 4


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
    reads_hops : bool
        Whether what hops need of the topology is read past the page cache, for a group together.
    hop_reads : int
        Reads of one graph file under way then, by io_uring.
    group : int
        Mini-batches that are read together.
    group_bytes : int
        That they take together before they are placed.
    is_larger : bool
        Whether the dataset does not fit in memory.
    usable : int
        Bytes for files and mini-batches together; 0 where the dataset fits in memory.
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
    reads_hops: bool = False
    hop_reads: int = 0
    group: int = 1
    group_bytes: int = 0
    is_larger: bool = False
    usable: int = 0
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
_GROUPS = (2, 4, 8, 16, 32)
# With k of them together, what each reads takes about k ** -0.4 times as long: 100, 76, 47, 37, 21
# ms for k = 1, 2, 4, 8, 16 with a tenth of the rows resident; 49, 35, 29, 22, 18 with a fifth.
_SAVED_TIME = 0.4


def make_plan(prefetch: Prefetch, estimate: Estimate) -> IOPlan:
    """The plan for one iteration."""
    alone = _plan_in_groups(prefetch, estimate, 1)
    if not alone.strategy.past_page_cache or prefetch.lookahead == 0:
        return alone
    if prefetch.group is not None:
        groups = [prefetch.group >> i for i in range(prefetch.group.bit_length())]
        plans = [_plan_in_groups(prefetch, estimate, group) for group in groups]
        return next((plan for plan in plans if _has_room(estimate, plan)), plans[-1])
    if not alone.is_larger or (estimate.touched_rows is None and not alone.reads_hops):
        return alone
    plans = [_plan_in_groups(prefetch, estimate, group) for group in _GROUPS]
    # of the memory for files, groups take half at most
    most = (_usable(estimate) - estimate.labels + alone.in_flight) // 2
    with_room = [alone, *(plan for plan in plans if plan.in_flight <= most)]

    def cost(plan: IOPlan) -> float:
        rows, topology = np.array([plan.resident]), np.array([plan.topology or 0])
        return float(_cost(estimate, plan.group, rows, topology, reads_hops=plan.reads_hops)[0])

    return min(with_room, key=cost)


def _has_room(estimate: Estimate, plan: IOPlan) -> bool:
    """Whether the mini-batches of a plan fit in memory."""
    return plan.in_flight + estimate.labels <= _usable(estimate)


def _usable(estimate: Estimate) -> int:
    """Bytes for files and mini-batches together."""
    if estimate.observed is not None:
        return estimate.observed
    # Where nothing was left alone, the kernel would drop pages and read around each fault.
    return int(estimate.available * (1 - _SLACK))


def _cost(
    estimate: Estimate,
    group: int,
    rows: npt.NDArray[np.int64],
    topology: npt.NDArray[np.int64],
    *,
    reads_hops: bool,
) -> npt.NDArray[np.float64]:
    """What a mini-batch reads beside resident bytes of both, in pages of rows that are read alone.

    Pages of rows are read once for a group of mini-batches, and those of topology by its hops.
    """
    together = group**-_SAVED_TIME
    cost: npt.NDArray[np.float64] = count_beyond(estimate.touched_pages, rows) * together
    if estimate.touched_topology is not None:
        of_page = _HOP_COST * together if reads_hops else _TOPOLOGY_COST
        cost = cost + count_beyond(estimate.touched_topology, topology) * of_page
    return cost


def _plan_in_groups(prefetch: Prefetch, estimate: Estimate, group: int) -> IOPlan:
    """The plan where so many mini-batches are read together."""
    plan = _plan_ahead(prefetch, estimate.in_groups(group))
    unplaced = estimate.bytes_before_placing(plan.resident, reads_hops=plan.reads_hops)
    return replace(plan, group=group, group_bytes=group * unplaced)


def _plan_ahead(prefetch: Prefetch, estimate: Estimate) -> IOPlan:
    """The plan in which mini-batches are placed ahead, if there is memory for it."""
    # Workers place rows beside the training loop anyway.
    is_alone = estimate.workers == 1 or estimate.batch == 0
    if prefetch.lookahead > 0 and is_alone:
        plan = _plan(prefetch, replace(estimate, batches=estimate.batches + prefetch.lookahead))
        memory = None if plan.page_cache is None else plan.page_cache + plan.resident
        enough = memory is None or memory >= _MEMORY_TO_PLACE_AHEAD * estimate.batch
        if plan.strategy.past_page_cache and enough:
            return replace(plan, places_ahead=True)
    return _plan(prefetch, estimate)


def _plan(prefetch: Prefetch, estimate: Estimate) -> IOPlan:
    in_use = estimate.bytes_of_whole_batches + ITERATION_BYTES
    usable = int(estimate.available * (1 - _SLACK))
    fits = estimate.features + estimate.topology + estimate.labels + in_use <= usable
    strategy, reason = _choose(prefetch, estimate, fits)
    requested = min(_requested(prefetch, estimate, strategy), estimate.features)
    division = _divide(prefetch, estimate, strategy, requested)
    resident = requested if fits else min(requested, division.rows)
    if not (fits or estimate.is_hot or strategy.past_page_cache):
        resident = _beside_pages(estimate, resident, division.rows)
    if resident < requested:
        reason += (
            f"; {format_bytes(resident)} of memory available for resident rows"
            if prefetch.resident is None
            else f"; {format_bytes(resident)} of memory available for the "
            f"{format_bytes(requested)} of resident rows that were requested"
        )
    in_flight = 0
    if estimate.batch:
        in_flight = ITERATION_BYTES + _bytes_of_batches(
            strategy, prefetch, estimate, resident, reads_hops=division.reads_hops
        )
    if fits:
        return IOPlan(strategy, resident, resident, in_flight=in_flight, reason=reason)
    topology_memory = np.array([division.topology])
    topology = int(_resident_of(estimate, topology_memory, reads_hops=division.reads_hops)[0])
    is_known = estimate.observed is not None  # what the model takes
    return IOPlan(
        strategy,
        resident,
        in_flight=in_flight,
        first_resident=resident if is_known else min(resident, division.rows // 2),
        reserve=division.topology + estimate.labels,
        topology=topology if strategy.reads_ahead else None,
        reads_hops=division.reads_hops,
        hop_reads=_hop_reads(estimate),
        page_cache=division.rows - resident,
        is_larger=True,
        usable=_usable(estimate),
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


@dataclass(frozen=True)
class _Division:
    """Bytes of memory for topology and for rows, and whether hops read the rest of topology."""

    topology: int
    rows: int
    reads_hops: bool = False


def _divide(
    prefetch: Prefetch, estimate: Estimate, strategy: Strategy, requested: int
) -> _Division:
    """The best division, if the user requests `requested` bytes of rows."""
    # The more rows are resident, the less memory do those take that are missing.
    most = min(requested, estimate.available) if strategy.past_page_cache else 0
    for resident in np.linspace(most, 0, _SPLITS_OF_ROWS).astype(np.int64).tolist():
        division = _divide_beside(prefetch, estimate, strategy, requested, resident)
        if division.rows >= resident:
            break
    return division


def _divide_beside(
    prefetch: Prefetch, estimate: Estimate, strategy: Strategy, requested: int, resident: int
) -> _Division:
    """The same beside mini-batches of which all is missing but `resident` bytes of rows."""
    memory = _available(prefetch, estimate, strategy, resident, reads_hops=False)
    division, cost = _divide_memory(estimate, strategy, requested, memory, reads_hops=False)
    if not (strategy.past_page_cache and estimate.has_uniform_hops):
        return division
    memory = _available(prefetch, estimate, strategy, resident, reads_hops=True)
    by_hops, cost_by_hops = _divide_memory(estimate, strategy, requested, memory, reads_hops=True)
    is_whole = division.topology == estimate.topology
    return division if is_whole and cost <= cost_by_hops else by_hops


def _divide_memory(
    estimate: Estimate, strategy: Strategy, requested: int, memory: int, *, reads_hops: bool
) -> tuple[_Division, float]:
    """The best division of so much memory, and what a mini-batch then reads."""
    # rows that come through the page cache need memory there
    most = min(estimate.topology, memory if strategy.past_page_cache else memory // 2)
    topology_memory = np.linspace(most, 0, _SPLITS).astype(np.int64)
    if estimate.touched_topology is None:
        topology_memory = np.array([min(most, memory // 2)])
    resident_topology = _resident_of(estimate, topology_memory, reads_hops=reads_hops)
    rows = np.minimum(requested, memory - topology_memory)
    cost = _cost(estimate, estimate.group, rows, resident_topology, reads_hops=reads_hops)
    cheapest = int(np.argmin(cost))
    topology = int(topology_memory[cheapest])
    is_missing = reads_hops and topology < estimate.topology
    return _Division(topology, memory - topology, is_missing), float(cost[cheapest])


def _available(
    prefetch: Prefetch, estimate: Estimate, strategy: Strategy, resident: int, *, reads_hops: bool
) -> int:
    """Bytes that rows and topology may take together, if `resident` bytes of rows are resident."""
    batches = _bytes_of_batches(strategy, prefetch, estimate, resident, reads_hops=reads_hops)
    return max(0, _usable(estimate) - ITERATION_BYTES - batches - estimate.labels)


def _bytes_of_batches(
    strategy: Strategy, prefetch: Prefetch, estimate: Estimate, resident: int, *, reads_hops: bool
) -> int:
    """Memory of all mini-batches under way, and of what makes them."""
    if not strategy.past_page_cache:
        return estimate.bytes_of_whole_batches + estimate.sampling
    buffers, sampling = estimate.readers * strategy.buffer_bytes(prefetch), estimate.sampling
    if reads_hops:
        reads = _hop_reads(estimate) if strategy.name == "uring" else prefetch.threads
        buffers += estimate.graph_files * reads * _core.BUFFER_BYTES
        sampling += estimate.bytes_of_hops
    reading = estimate.workers * (buffers + estimate.read_lists)
    return estimate.bytes_of_batches_beyond(resident) + sampling + reading


def _beside_pages(estimate: Estimate, most: int, memory: int) -> int:
    """Bytes of resident rows, at most `most`, that leave `memory` to the other pages of batches.

    This is for rows that are read into the page cache in an order that helps nothing: it would drop
    some pages of a mini-batch before they are used.
    """
    if estimate.touched_rows is None:
        return most
    resident = np.linspace(most, 0, _SPLITS).astype(np.int64)
    pages = (estimate.lookahead + 1) * count_beyond(estimate.touched_pages, resident)
    fits = resident + PAGESIZE * pages <= memory
    return int(resident[np.argmax(fits)]) if fits.any() else 0


def _hop_reads(estimate: Estimate) -> int:
    """Reads of one graph file under way, whose buffers take a small part of the memory."""
    fitting = estimate.available // _BUFFERS_OF_HOPS // _core.BUFFER_BYTES
    return max(_FEWEST_READS, min(_core.URING_DEPTH, fitting) // estimate.graph_files)


def _resident_of(
    estimate: Estimate, memory: npt.NDArray[np.int64], *, reads_hops: bool
) -> npt.NDArray[np.int64]:
    """Resident bytes of a topology that is given so much memory."""
    part = _OF_UNIFORM_TOPOLOGY if reads_hops else _OF_LARGER_TOPOLOGY
    return np.where(
        memory >= estimate.topology, estimate.topology, (part * memory).astype(np.int64)
    )
