"""`Session`: all that one iteration over mini-batches holds; how its topology is read."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from mmap import PAGESIZE
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.user_input import IdArray, Sampling
from graphzero.io.memory import LEARNT_MEMORY, MemoryWatch
from graphzero.io.plan import BatchSize, Estimate, IOPlan, with_batches
from graphzero.io.prefetch import Prefetch, Strategy, gap_pages_of, unavailable_strategies
from graphzero.io.resident import KEEPERS, PrefixKeeper
from graphzero.io.row_io import RowIO, RowKey, RowSource, managed_bytes, touched_rows
from graphzero.sampling.sampler import HopReadAhead, TypedSubgraph
from graphzero.sampling.threads import run_outside
from graphzero.store.free_memory import available_memory
from graphzero.store.mapped_file import ResidentPrefix, mincore_is_honest
from graphzero.units import format_bytes

_OF_NODES = ("indptr", "node_ids", "node_rank")
_OF_EDGES = ("indices", "edge_ids")


@dataclass(frozen=True)
class TopologyFile:
    """A graph file that sampling reads.

    Attributes
    ----------
    graph : Graph
    sections : tuple of str
        Those that are read.
    node_type : str
        Whose neighbour lists it has.
    is_hot : bool
        Whether hubs have the lowest ids.
    is_uniform : bool
        Whether hops draw uniformly from its lists alone, so that those of several mini-batches can
        be read together, past the page cache.
    """

    graph: Graph
    sections: tuple[str, ...]
    node_type: str
    is_hot: bool
    is_uniform: bool = False

    @property
    def num_bytes(self) -> int:
        """Bytes of the sections that are read."""
        return self._bytes_of(self.sections)

    def _bytes_of(self, sections: Sequence[str]) -> int:
        return sum(self.graph.section_bytes[name] for name in sections)

    @property
    def _tables(self) -> list[str]:
        """Sections with an entry for each node, which every mini-batch reads all over."""
        return [name for name in self.sections if name in _OF_NODES]

    @property
    def _lists(self) -> list[str]:
        return [name for name in self.sections if name not in _OF_NODES]

    @property
    def _edge_bytes(self) -> int:
        return sum(self.graph.section_width(name) for name in self._lists)

    def best_prefix(self, num_bytes: int) -> tuple[dict[str, int], int]:
        """The best use of some bytes: all sections, or the tables of nodes and then hubs' lists.

        Returns
        -------
        (dict of str to int, int)
            Bytes of each section; and the number of nodes, from the first one on, whose `indptr`
            entries and neighbour lists are among them.
        """
        graph, sizes = self.graph, self.graph.section_bytes
        if self.num_bytes <= num_bytes:
            return {name: sizes[name] for name in self.sections}, graph.num_nodes
        # tables are smaller than the lists
        has_tables = 2 * self._bytes_of(self._tables) <= num_bytes
        resident = {name: sizes[name] for name in self._tables} if has_tables else {}
        if not self.is_hot:
            return resident, 0
        remaining = num_bytes - sum(resident.values())
        indptr, an_edge = graph.indptr, self._edge_bytes
        a_node = 0 if "indptr" in resident else graph.section_width("indptr")

        def needed(node: int) -> int:
            return node * a_node + int(indptr[node]) * an_edge

        nodes = bisect_right(range(graph.num_nodes + 1), remaining - a_node, key=needed) - 1
        nodes = max(0, nodes)
        for name in self._lists:
            resident[name] = int(indptr[nodes]) * graph.section_width(name)
        if a_node:
            resident["indptr"] = (nodes + 1) * a_node if nodes else 0
        return resident, nodes

    def touched_pages(self, subgraph: TypedSubgraph) -> IdArray:
        """Pages that sampling touched, each as the least bytes with which `best_prefix` has it.

        Of a list in several pages the first and the last count. The tables of nodes are assumed to
        be resident.
        """
        graph, total, indptr = self.graph, self.num_bytes, self.graph.indptr
        counts = subgraph.num_sampled_nodes[self.node_type]
        nodes = subgraph.stored_id[self.node_type]
        seeds, frontier = nodes[: counts[0]], nodes[: sum(counts[:-1])]
        first, after = indptr[frontier].astype(np.int64), indptr[frontier + 1].astype(np.int64)
        edges = np.concatenate([first, after - 1])[np.tile(after > first, 2)]
        tables = self._bytes_of(self._tables)
        pages_of_sections = [np.empty(0, np.int64)]
        for name in self.sections:
            width = graph.section_width(name)
            if name in _OF_NODES:
                ids = {"indptr": frontier, "node_rank": seeds}.get(name, nodes)
                pages_of_sections.append(
                    np.full_like(np.unique(ids * width // PAGESIZE), 2 * tables)
                )
            else:
                pages = np.unique(edges * width // PAGESIZE)
                up_to = tables + (pages + 1) * (PAGESIZE // width) * self._edge_bytes
                hubs = np.maximum(2 * tables, up_to)
                pages_of_sections.append(hubs if self.is_hot else np.full_like(pages, total))
        return np.minimum(np.concatenate(pages_of_sections), total)


def topology_files(
    dataset: Dataset, sampling: Sampling, *, timed: bool, translates_seeds: bool = True
) -> list[TopologyFile]:
    """The graph files of all edge types, in order; `node_rank` is read if it translates seeds."""
    names = [*_OF_NODES[: 2 + translates_seeds], *_OF_EDGES]
    names += ["cum_weights"] if sampling.weighted else []
    names += ["times", "time_order"] if timed else []

    def sections(graph: Graph) -> tuple[str, ...]:
        return tuple(name for name in names if name in graph.section_bytes)

    def is_uniform(graph: Graph) -> bool:
        has_weights = "cum_weights" in graph.section_bytes or not dataset.is_typed
        by_kind = sampling.labor or (sampling.weighted and has_weights)
        by_time = "times" in sections(graph)
        return not (by_kind or by_time or sampling.subgraph_type == "induced")

    return [
        TopologyFile(
            edges.graph,
            sections(edges.graph),
            edges.owner.node_type,
            edges.owner.is_hot,
            is_uniform(edges.graph),
        )
        for edges in dataset.edges.values()
    ]


def touched_topology(files: Sequence[TopologyFile], subgraph: TypedSubgraph) -> IdArray:
    """Pages that sampling touched, each as the least bytes of topology with which it is resident.

    `TopologyIO` divides these bytes among the files in proportion to their sizes.

    Returns
    -------
    (num_pages,) int64
        Ascending.
    """
    total = sum(file.num_bytes for file in files)
    pages = [np.empty(0, np.int64)]
    for file in files:
        of_file = file.touched_pages(subgraph)
        if 0 < file.num_bytes < total:
            of_file = np.ceil(of_file * (total / file.num_bytes)).astype(np.int64)
        pages.append(of_file)
    return np.sort(np.concatenate(pages))


@dataclass(frozen=True)
class _FileIO:
    """How an iteration reads one graph file."""

    nodes: int  # whose topology is resident
    prefixes: dict[str, ResidentPrefix]  # of its sections
    trust_mincore: bool
    reader: _core.DirectReader | None
    gap_pages: int

    def readahead(self) -> HopReadAhead:
        """For the next mini-batches."""
        maps = {name: prefix.page_map() for name, prefix in self.prefixes.items()}
        direct = None
        if self.reader is not None:
            direct = _core.DirectHops(
                self.reader,
                indptr=maps.get("indptr", _NO_PAGES),
                indices=maps.get("indices", _NO_PAGES),
                edge_ids=maps.get("edge_ids", _NO_PAGES),
                gap_pages=self.gap_pages,
            )
        nodes = self.nodes if all(pages.all() for pages in maps.values()) else 0
        return HopReadAhead(nodes, self.trust_mincore, direct)


_NO_PAGES = np.empty(0, np.uint8)


class TopologyIO:
    """The resident topology of one iteration, and how hops read the rest.

    Attributes
    ----------
    prefixes : list of (ResidentPrefix, int)
        What is to be resident of each section, for a `PrefixKeeper`.
    reads_hops : bool
        Whether what the hops of several mini-batches need is read together.
    """

    def __init__(self, files: Sequence[TopologyFile], prefetch: Prefetch, plan: IOPlan) -> None:
        self._files: list[_FileIO] = []
        self.prefixes: list[tuple[ResidentPrefix, int]] = []
        self._stack = ExitStack()
        total = sum(file.num_bytes for file in files)
        try:
            for file in files:
                file.graph.mapping.advise(prefetch.advice if plan.is_larger else "normal")
                if plan.topology is None:
                    continue
                share = plan.topology
                if file.num_bytes < total:
                    share = min(file.num_bytes, share * file.num_bytes // max(1, total))
                reads = plan.reads_hops and file.is_uniform and share < file.num_bytes
                self._add(file, share, prefetch, plan, reads=reads)
        except BaseException:
            self.close()
            raise
        self.reads_hops = any(file.reader is not None for file in self._files)

    def _add(
        self,
        file: TopologyFile,
        share: int,
        prefetch: Prefetch,
        plan: IOPlan,
        *,
        reads: bool,
    ) -> None:
        """A file with so many resident bytes; the rest is read directly, or requested."""
        goals, nodes = file.best_prefix(share)
        prefixes = {name: file.graph.new_prefix(name) for name, goal in goals.items() if goal}
        self.prefixes += [(prefix, goals[name]) for name, prefix in prefixes.items()]
        reader = None
        if reads:
            mapping, depth = file.graph.mapping, plan.hop_reads
            reader = open_topology(mapping, plan.strategy, prefetch, depth)
            self._stack.callback(reader.close)
        honest = mincore_is_honest(file.graph.path)
        usable = reader if reader is not None and reader.is_direct else None
        self._files.append(_FileIO(nodes, prefixes, honest, usable, gap_pages_of(prefetch)))

    def hop_readahead(self) -> tuple[HopReadAhead, ...] | None:
        """How hops of the next mini-batches read each file; None if page faults bring topology.

        Hop read-ahead leaves out nodes only while all of the file's resident topology is in memory.
        """
        return tuple(file.readahead() for file in self._files) or None

    def close(self) -> None:
        """Closes the files."""
        self._stack.close()


def open_topology(
    mapping: _core.Mapping, strategy: Strategy, prefetch: Prefetch, depth: int
) -> _core.DirectReader:
    """Reads a whole graph file past the page cache, by a strategy or its substitute."""

    def opened(engine: str) -> _core.DirectReader:
        return _core.DirectReader(
            mapping, 0, 1, mapping.size, engine=engine, depth=depth, threads=prefetch.threads
        )

    try:
        return opened(strategy.name)
    except OSError:
        if strategy.substitute is None:
            raise
        return opened(strategy.substitute)


def probe_files(
    prefetch: Prefetch,
    sources: Mapping[RowKey, RowSource],
    files: Sequence[TopologyFile],
    learnt: int | None,
) -> Estimate:
    """The estimate before any mini-batch was sampled.

    Parameters
    ----------
    prefetch : Prefetch
    sources : mapping
        Where rows are found, by the names of attributes.
    files : sequence of TopologyFile
        What sampling reads.
    learnt : int or None
        Bytes for files and mini-batches that earlier iterations of the same loop had.
    """
    managed = [source for source in sources.values() if source.is_managed]
    prefixes = [source.prefix_bytes for source in managed if source.prefix_bytes is not None]
    small = sum(source.num_bytes for source in sources.values() if not source.is_managed)
    limit = prefetch.memory_limit_bytes
    available = available_memory() + _core.pool_state()[1]  # idle memory of earlier batches
    return Estimate(
        features=managed_bytes(sources),
        topology=sum(file.num_bytes for file in files),
        uniform_topology=sum(file.num_bytes for file in files if file.is_uniform),
        graph_files=len(files),
        batch=0,
        batches=0,
        available=available if limit is None else limit,
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
    *,
    files: Sequence[TopologyFile],
    prefetch: Prefetch,
    sources: Mapping[RowKey, RowSource],
    feature_dtype: npt.DTypeLike | None,
    number: int,
    sample: Callable[[int], TypedSubgraph],
    workers: int,
    queued: int,
    threads: int,
) -> Estimate:
    """The estimate with the first mini-batch of an iteration, which is sampled for it.

    Parameters
    ----------
    estimate : Estimate
        From `probe_files`.
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
    workers, queued, threads : int
        Processes that make mini-batches, and in each of them, finished mini-batches of a DataLoader
        worker that wait to be taken, and sampling threads.
    """
    # Page faults that read around their page could make a first mini-batch take long.
    for file in files:
        file.graph.mapping.advise(prefetch.advice)
    subgraph = sample(number)
    size = batch_size_of(sources, feature_dtype, number, subgraph)
    return replace(
        with_batches(
            estimate,
            size,
            lookahead=prefetch.lookahead,
            workers=workers,
            queued=queued,
            threads=threads,
        ),
        touched_rows=touched_rows(sources, number, subgraph) if size.managed_rows else None,
        touched_topology=touched_topology(files, subgraph),
    )


def batch_size_of(
    sources: Mapping[RowKey, RowSource],
    feature_dtype: npt.DTypeLike | None,
    number: int,
    subgraph: TypedSubgraph,
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


class Closable(Protocol):
    """What has threads or files."""

    def close(self) -> object:
        """Ends or closes them."""


_Part = TypeVar("_Part", bound=Closable)
_SECONDS_BETWEEN_LOOKS = 0.01  # at the memory that is available
_PROMISED = 0.95  # of a resident prefix; less in memory is worth saying


class Session:
    """What one iteration holds: threads, resident prefixes, hop read-ahead.

    `close` gives all of it back. A forked child that inherits it has no part in it.

    Parameters
    ----------
    topology : sequence of TopologyFile
        What sampling reads.
    sources : mapping
        Where rows are found, by the names of attributes.
    prefetch : Prefetch
    plan : IOPlan
    feature_dtype : dtype-like, optional
        float32, to convert the features on their way.
    ranks : int
        Of the distributed run, those on this machine.
    loop : object
        Iterations with the same one are those of one training loop: the next one knows how much
        memory this one had.

    Attributes
    ----------
    topology : TopologyIO
    rows : RowIO
    """

    def __init__(
        self,
        topology: Sequence[TopologyFile],
        sources: Mapping[RowKey, RowSource],
        prefetch: Prefetch,
        plan: IOPlan,
        *,
        feature_dtype: npt.DTypeLike | None,
        ranks: int,
        loop: object,
    ) -> None:
        self._process = os.getpid()
        self._watch = MemoryWatch()
        if plan.is_larger:
            _core.trim_pool()  # which an earlier iteration has left
        self._available, self._next_look = 0, 0.0
        with ExitStack() as stack:
            self.topology = TopologyIO(topology, prefetch, plan)
            stack.enter_context(closing(self.topology))
            self.rows = RowIO(sources, prefetch, plan, feature_dtype=feature_dtype)
            stack.enter_context(closing(self.rows))
            self._text = str(self.rows.plan)
            stack.callback(LEARNT_MEMORY.learn, loop, self._watch, plan.in_flight)
            self._keeper: PrefixKeeper | None = None
            if plan.resident and plan.strategy.past_page_cache and plan.is_larger and not KEEPERS:
                # what an earlier iteration kept: the kernel would take pages of the prefix for it
                self.rows.prefix.release_beyond(plan.resident)
            if self.topology.prefixes or (plan.resident and self.rows.prefix.parts):
                self._keeper = PrefixKeeper(
                    self._watch,
                    self.topology.prefixes,
                    self.rows.prefix,
                    first=plan.first_resident,
                    most=plan.resident,
                    reserve=plan.reserve,
                    reserve_at_first=(ranks - 1) * plan.in_flight,
                )
                stack.enter_context(closing(self._keeper)).start()
            self._stack = stack.pop_all()

    @property
    def plan(self) -> IOPlan:
        """The plan as it is carried out."""
        return self.rows.plan

    def describe(self) -> str:
        """How rows are read and why, for `BatchStats.io`."""
        prefix = self.rows.prefix
        if self.plan.resident == 0:
            return self._text
        if prefix.unknown is not None:
            return f"{self._text}; the system does not tell what is in memory ({prefix.unknown})"
        if prefix.resident_bytes < _PROMISED * self.plan.resident:
            resident = format_bytes(prefix.resident_bytes)
            return f"{self._text}; {resident} of the rows are in memory now"
        return self._text

    def most_in_group(self, bytes_of_one: int) -> int:
        """How many mini-batches may be read together, with the memory that there is now.

        Parameters
        ----------
        bytes_of_one : int
            That a mini-batch takes before its rows are placed.

        Returns
        -------
        int
            0 where there is no memory for one that is not wanted yet.
        """
        if not self.plan.is_larger:
            return self.plan.group
        if not self._watch.is_settled:  # the model and resident rows are still taking their memory
            return 1
        now = time.monotonic()
        if now >= self._next_look:
            available = min(available_memory(), self._watch.recently_available)
            self._available = available + _core.pool_state()[1]
            self._next_look = now + _SECONDS_BETWEEN_LOOKS
        if self._available < bytes_of_one:
            return 0
        prefix = self.rows.prefix
        if prefix.unknown is None and prefix.resident_bytes < _PROMISED * prefix.num_bytes:
            return 1  # more is missing than planned, and would take the memory of resident rows
        # those before them have not given all of their memory back yet
        most = min(self._available // 2, self.plan.group_bytes)
        return max(1, min(self.plan.group, round(most / max(1, bytes_of_one))))

    def count_batch(self) -> None:
        """The training loop has finished another mini-batch."""
        self._watch.batches += 1
        if self._keeper is not None:
            self._keeper.follow_batch()

    def enter(self, part: _Part) -> _Part:
        """Closes a part of the iteration when the session is closed, before what is there now."""
        return self._stack.enter_context(closing(part))

    def close(self) -> None:
        """Ends all threads, after the calls that they are in."""
        if self._process == os.getpid():
            run_outside(self._stack.close)

    def __del__(self) -> None:
        if hasattr(self, "_stack"):  # Ctrl-C may come before anybody would close it
            self.close()
