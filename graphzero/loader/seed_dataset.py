"""`SeedDataset`: batches of seeds as a torch ``IterableDataset``, resumable, in the background.

The dataset samples, asks for pages and gathers, in threads that run ahead of the training loop.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import starmap
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import IterableDataset

from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray, as_count, as_threads
from graphzero.io.estimate import LoaderSetup, facts_of_files, facts_with_batches, row_bytes
from graphzero.io.limits import MemoryWatch
from graphzero.io.page_readahead import PagesAsked
from graphzero.io.plan import IOPlan, make_plan
from graphzero.io.prefetch import Prefetch
from graphzero.io.rows import Fetched, RowIO, RowSource, pages_read, row_sources, touched_rows
from graphzero.io.topology import (
    TopologyIO,
    ask_hop_by_hop,
    sections_read,
    touched_topology,
)
from graphzero.loader.mini_batch import BatchStats
from graphzero.loader.resume import (
    Position,
    Progress,
    State,
    check_share,
    read_position,
    read_progress,
)
from graphzero.loader.world import current_rank, current_share, default_threads
from graphzero.sampling.order import Share, batch_ids, batch_positions, epoch_order, num_batches
from graphzero.sampling.pipeline import Stage, run_ahead
from graphzero.sampling.sampler import NeighborSampler, Subgraph

__all__ = ["BatchIterator", "SampledBatch", "SeedDataset"]


def _as_feature_dtype(value: Any) -> np.dtype[Any] | None:
    float32 = np.dtype(np.float32)
    try:
        fits = value is None or np.dtype(value) == float32
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(f"feature_dtype must be 'float32', or None for as stored, not {value!r}")
    return None if value is None else float32


@dataclass(frozen=True)
class SampledBatch:
    """What datasets of seeds yield: a subgraph and its rows, in NumPy arrays.

    Attributes
    ----------
    subgraph : Subgraph
    input_id : (batch_size,) int64
        Positions of the seeds in the seed array, or of the seed edges in theirs.
    stats : BatchStats
    rows : dict of str to array
        Those that have been gathered: "x" and "y", with one row per node.
    feature_dtype : numpy.dtype or None
        What "x" has been, or is to be, converted to.
    fields : dict of str to array
        What a `MiniBatch` says beyond that, by the names of its fields: about seed edges, times of
        seeds.
    """

    subgraph: Subgraph
    input_id: IdArray
    stats: BatchStats = field(default_factory=BatchStats)
    rows: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    feature_dtype: np.dtype[Any] | None = None
    fields: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


class SeedDataset(IterableDataset[SampledBatch]):
    """What datasets of seeds have in common: order, dealing, epochs, background threads.

    A subclass says how many seeds there are, and makes the batch of some of them.
    """

    input_time: IdArray | None = None  # of each seed, in subclasses whose seeds have times
    _translates_seeds = True  # for each batch, into the graph's stored ids

    def __init__(
        self,
        dataset: Dataset,
        sampler: NeighborSampler,
        num_seeds: int,
        *,
        batch_size: int,
        shuffle: bool,
        drop_last: bool,
        prefetch: Prefetch | None,
        gather: Sequence[str],
        feature_dtype: npt.DTypeLike | None,
        num_threads: int | None,
    ) -> None:
        super().__init__()
        self.dataset = dataset
        self.sampler = sampler
        self.num_seeds = num_seeds
        self.batch_size = as_count(batch_size, "batch_size")
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.gather = tuple(gather)
        if set(self.gather) - {"x", "y"}:
            raise ValueError(f"gather may name 'x' and 'y', not {gather!r}")
        self.feature_dtype = _as_feature_dtype(feature_dtype)
        self.prefetch = prefetch if prefetch is not None else Prefetch()
        self.num_threads = None if num_threads is None else as_threads(num_threads)
        # Epoch, and its batches that are done: a Position. In shared memory, because persistent
        # workers never see the object again.
        self._position = torch.zeros(2, dtype=torch.int64)
        self._position.share_memory_()  # type: ignore[no-untyped-call]
        self._rank: tuple[int, int] | None = None
        self._watch = MemoryWatch()

    def _sample(self, positions: IdArray, epoch: int, batch: int) -> SampledBatch:
        """The batch of the seeds at some positions, without rows; called in any thread."""
        raise NotImplementedError

    def _sources(self, epoch: int) -> dict[str, RowSource]:
        """Where the rows of an epoch's batches are found."""
        return row_sources(self.dataset)

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration will run."""
        return int(self._position[0])

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the iterations that start from now on, in workers as well.

        A whole epoch, unless it is the one that `resume` goes on with.
        """
        epoch = as_count(epoch, "epoch", 0)
        if epoch != self.epoch:
            self._set_position(Position(epoch, 0))

    def state_after(self, taken: int) -> State:
        """State for `resume`, when the training loop has taken some batches of this iteration.

        It is not called ``state_dict``, because a ``StatefulDataLoader`` would then restore the
        dataset's epoch over the one that `set_epoch` has chosen since.

        Parameters
        ----------
        taken : int
            Batches that the loop of this rank has been given since it began to iterate over a
            ``DataLoader`` of this dataset; the other ranks are taken to be in step. (Batches that
            have been prepared and not given do not count.) A ``StatefulDataLoader`` counts by
            itself: store its state.

        Returns
        -------
        dict
            Of plain numbers, strings and lists.
        """
        taken = as_count(taken, "taken", 0)
        _, world_size = self._rank or current_rank()
        here = self._read_position()
        done = min(self._num_batches, here.batches + taken * world_size)
        return replace(here, batches=done).state(self._options)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes on where a state was taken, with any number of ranks and workers.

        Every rank loads the same state: that of rank 0. Iterations of the state's epoch now yield
        what was left of it; each other epoch, once chosen by `set_epoch`, is whole. ``len`` stays
        that of a whole epoch.

        Parameters
        ----------
        state : mapping
            From `state_after`, from the ``state_dict`` of an iterator of this dataset, or from
            that of a ``StatefulDataLoader``.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken with another seed, batch_size, ...; names them.
        """
        self._set_position(read_position(state, self._options, self._num_batches))

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch, over all its workers."""
        rank, world_size = self._rank or current_rank()
        return len(batch_ids(self._num_batches, Share(rank, world_size)))

    @property
    def _num_batches(self) -> int:
        return num_batches(self.num_seeds, self.batch_size, self.drop_last)

    def _read_position(self) -> Position:
        epoch, batches = self._position.tolist()
        return Position(epoch, batches)

    def _set_position(self, position: Position) -> None:
        self._position[:] = torch.tensor([position.epoch, position.batches])

    @cached_property
    def _options(self) -> dict[str, Any]:
        """All that the batches of an epoch are a function of."""
        return {
            "num_nodes": self.dataset.graph.num_nodes,
            "num_edges": self.dataset.graph.num_edges,
            "num_seeds": self.num_seeds,
            **self._seed_options(),
            "fanouts": list(self.sampler.fanouts),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            **asdict(self.sampler.sampling),
            "seed": self.sampler.seed,
        }

    def _seed_options(self) -> dict[str, Any]:
        """What tells the seeds from others, in plain numbers and strings."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker has no process group: it must be told its rank.
        return {**self.__dict__, "_rank": self._rank or current_rank()}

    def __iter__(self) -> BatchIterator:
        share = current_share(*(self._rank or current_rank()))
        here = self._read_position()
        return BatchIterator(self, Progress(here.epoch, here.batches, 0, share))

    def _plan(self, share: Share, first: range, epoch: int) -> IOPlan:
        """How the rows of an iteration are read; in each process for itself."""
        graph = self.dataset.graph
        topology = sum(graph.section_bytes[name] for name in self._sections)
        sources = self._sources(epoch)
        facts = facts_of_files(self.prefetch, sources, topology, self._watch)
        if 2 * (facts.features + facts.topology) > facts.available and len(first) > 0:
            # Whatever comes of it, a first batch by page faults that read around could take long.
            graph.advise(self.prefetch.advice)
            ask_hop_by_hop(graph, 0)
            subgraph = self._sample(self._positions(epoch, first[0]), epoch, first[0]).subgraph
            facts = facts_with_batches(facts, self._setup(share), subgraph)
            rows = touched_rows(sources["x"], first[0], subgraph) if "x" in sources else None
            lists = touched_topology(graph, self._sections, subgraph)
            facts = replace(facts, touched_rows=rows, touched_topology=lists)
        return make_plan(self.prefetch, facts)

    def _setup(self, share: Share) -> LoaderSetup:
        return LoaderSetup(
            self.prefetch,
            row_bytes(self.dataset, self.feature_dtype),
            0 if self.dataset.features is None else self.dataset.features.row_bytes,
            workers=share.num_workers,
            threads=default_threads(self.num_threads),
        )

    @cached_property
    def _sections(self) -> list[str]:
        """Of the graph's file, what sampling reads."""
        weighted, timed = self.sampler.sampling.weighted, self.input_time is not None
        return sections_read(
            self.dataset.graph,
            weighted=weighted,
            timed=timed,
            translates_seeds=self._translates_seeds,
        )

    def _positions(self, epoch: int, batch: int) -> IdArray:
        order = epoch_order(self.num_seeds, self.shuffle, self.sampler.seed, epoch)
        return batch_positions(order, batch, self.batch_size)

    def _iterate(
        self, epoch: int, share: Share, batch_ids: range
    ) -> Generator[SampledBatch, None, None]:
        plan = self._plan(share, batch_ids, epoch)
        topology_io = TopologyIO(self.dataset.graph, self._sections, self.prefetch, plan)
        with ExitStack() as stack:
            stack.enter_context(closing(topology_io))
            row_io = RowIO(
                self._sources(epoch),
                self.prefetch,
                plan,
                feature_dtype=self.feature_dtype,
                watch=self._watch,
            )
            stack.enter_context(closing(row_io))
            yield from self._run_ahead(epoch, batch_ids, row_io)

    def _run_ahead(self, epoch: int, batch_ids: range, row_io: RowIO) -> Iterator[SampledBatch]:
        order = epoch_order(self.num_seeds, self.shuffle, self.sampler.seed, epoch)

        def sample(batch: int) -> tuple[int, SampledBatch, list[Future[PagesAsked]]]:
            positions = batch_positions(order, batch, self.batch_size)
            started = time.perf_counter()
            sampled = self._sample(positions, epoch, batch)
            stats = BatchStats(
                sampled=time.perf_counter() - started,
                topology_missed=sampled.subgraph.pages_missed,
                io=str(row_io.plan),
            )
            sampled = replace(sampled, stats=stats, feature_dtype=self.feature_dtype)
            asked = row_io.submit(batch, sampled.subgraph)
            return batch, sampled, asked

        def fetch(
            sampled: tuple[int, SampledBatch, list[Future[PagesAsked]]],
        ) -> tuple[SampledBatch, dict[str, Fetched]]:
            """With the rows, once their pages have been asked for: then it is faster."""
            number, batch, requests = sampled
            asked = row_io.wait(requests)
            started, fetched = time.perf_counter(), {}
            try:
                for name in self.gather:
                    if name in row_io.sources:
                        fetched[name] = row_io.fetch(name, number, batch.subgraph)
            finally:
                row_io.finish(asked)
            missing = sum(pages.missing for pages in asked) + sum(map(pages_read, fetched.values()))
            gathered = time.perf_counter() - started
            stats = replace(batch.stats, gathered=gathered, pages_missed=missing)
            return replace(batch, stats=stats), fetched

        threads = default_threads(self.num_threads)

        def place(batch: SampledBatch, fetched: dict[str, Fetched]) -> SampledBatch:
            started = time.perf_counter()
            rows = {name: row_io.place(name, what, threads) for name, what in fetched.items()}
            gathered = batch.stats.gathered + time.perf_counter() - started
            return replace(batch, rows=rows, stats=replace(batch.stats, gathered=gathered))

        lookahead = self.prefetch.lookahead
        batches = run_ahead(
            [Stage(sample, threads), Stage(fetch, most=lookahead)],
            batch_ids,
            ahead=max(lookahead, threads) if lookahead else 0,
        )
        # Before row_io: the threads that submit, then the threads that they submit to.
        with closing(batches):
            for batch in _measure_waiting(starmap(place, batches)):
                yield batch
                del batch  # its memory is wanted for the next one
                row_io.count_batch()


class BatchIterator(Iterator[SampledBatch]):
    """One iteration over a `SeedDataset`, in one process; ``iter(dataset)`` makes it.

    It has the methods that torchdata's ``StatefulDataLoader`` asks iterators for. Threads are
    started by the first ``next``, and gone when the iterator is.

    Parameters
    ----------
    dataset : SeedDataset
    progress : Progress
        Where to begin.
    """

    def __init__(self, dataset: SeedDataset, progress: Progress) -> None:
        self._dataset = dataset
        self._start(progress)

    def _start(self, progress: Progress) -> None:
        self._progress = progress
        total = self._dataset._num_batches
        left = batch_ids(total, progress.share, progress.first)[progress.taken :]
        self._batches = self._dataset._iterate(progress.epoch, progress.share, left)

    def __iter__(self) -> BatchIterator:
        """Itself."""
        return self

    def __next__(self) -> SampledBatch:
        """The next batch of this worker."""
        batch = next(self._batches)
        self._progress = replace(self._progress, taken=self._progress.taken + 1)
        return batch

    def close(self) -> None:
        """Ends the iteration, and its threads; calls that have begun are waited for."""
        self._batches.close()

    def state_dict(self) -> State:
        """Where the iteration stands, counting the batches that ``next`` has returned."""
        return self._progress.state(self._dataset._options)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state_dict` was called, in the same worker of as many on the same rank.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken with another seed, batch_size, ... or number of
            workers or ranks; names them.
        """
        total = self._dataset._num_batches
        progress = read_progress(state, self._dataset._options, total)
        check_share(progress, self._progress.share)
        self.close()
        self._start(progress)


def _measure_waiting(batches: Iterator[SampledBatch]) -> Iterator[SampledBatch]:
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        waited = time.perf_counter() - started
        yield replace(batch, stats=replace(batch.stats, waited=waited))
        del batch  # its memory is wanted for the next one
