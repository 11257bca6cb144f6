"""One iteration over mini-batches: plan, sample, fetch and place rows, hand out.

`SeedDataset` says which mini-batches an epoch has. `BatchIterator` hands them out, and counts them;
`prepare_batches` prepares them in background threads.
"""

from __future__ import annotations

import inspect
import os
import resource
import sys
import threading
import time
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch.utils.data import IterableDataset
from typing_extensions import Unpack

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import IdArray, as_seed, as_threads
from graphzero.io.memory import (
    LEARNT_MEMORY,
    check_shared_memory,
    ranks_of_host,
    shared_memory_bytes,
)
from graphzero.io.plan import Estimate, IOPlan, make_plan
from graphzero.io.prefetch import Fetched, Prefetch, pages_read
from graphzero.io.row_io import PagesRequested, RowKey, RowSource, row_sources
from graphzero.io.session import (
    Session,
    TopologyFile,
    is_large,
    probe_batch,
    probe_files,
    topology_files,
)
from graphzero.loader.agreement import SharedPasses
from graphzero.loader.epochs import (
    GRAPH,
    MOST_COUNTED,
    Epochs,
    ParentGroup,
    Pass,
    Position,
    Progress,
    Ranks,
    State,
    current_group,
    current_share,
    default_threads,
    group_for_workers,
    in_worker,
    read_position,
    read_progress,
)
from graphzero.loader.mini_batch import SampledBatch
from graphzero.loader.profiler import range_of, waiting
from graphzero.loader.stats import BatchStats, hand_out
from graphzero.sampling.negatives import WeightedDraws
from graphzero.sampling.order import Share, batch_ids, batch_positions, epoch_order, num_batches
from graphzero.sampling.sampler import (
    HopReadAhead,
    NeighborSampler,
    SamplingOptions,
    TypedSubgraph,
    as_times,
)
from graphzero.sampling.threads import Stage
from graphzero.store.mapped_file import mincore_is_honest
from graphzero.units import as_count

_PLENTY_SHARED = 4 << 30  # bytes: in so much shared memory, the mini-batches of workers fit


class SeedDataset(IterableDataset[SampledBatch]):
    """What datasets of seeds have in common: mini-batches as a function of options, and the epoch.

    A subclass says how many seeds there are, and samples the mini-batch of some of them.

    Attributes
    ----------
    dataset : Dataset
    sampler : NeighborSampler
    num_seeds, batch_size : int
    shuffle, drop_last : bool
    prefetch : Prefetch
    gather : tuple of str, or None
        The attributes that mini-batches have; None for all.
    feature_dtype : numpy.dtype or None
    num_threads : int or None
    input_time : (num_seeds,) int64 or None
        The times of the seeds, in subclasses whose seeds have times.
    ranks : Ranks
    queued : int
        Mini-batches that each DataLoader worker prepares ahead: its ``prefetch_factor``.
    """

    input_time: IdArray | None = None
    translates_seeds = True  # for each mini-batch, into the graph's stored ids
    queued = 2

    def __init__(
        self,
        dataset: Dataset,
        num_seeds: int,
        fanouts: Any,
        *,
        seed: int = 0,
        batch_size: int = 1024,
        shuffle: bool = False,
        drop_last: bool = False,
        prefetch: Prefetch | None = None,
        gather: Sequence[str] | None = None,
        feature_dtype: npt.DTypeLike | None = None,
        num_threads: int | None = None,
        distributed: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        even: bool = True,
        **sampling: Unpack[SamplingOptions],
    ) -> None:
        super().__init__()
        if dataset.is_typed and dataset.neighbors == "out":
            raise ValueError(
                "mini-batches of a typed graph need in-neighbours, along whose edges messages "
                "flow: build the dataset with neighbors='in', or give the edge types in reverse"
            )
        dataset.warn_of_direction()
        self.dataset = dataset
        self.sampler = NeighborSampler(dataset, fanouts, seed=seed, num_threads=1, **sampling)
        self.num_seeds = num_seeds
        self.batch_size = as_count(batch_size, "batch_size")
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.gather = _as_names(gather, dataset)
        self.feature_dtype = _as_feature_dtype(feature_dtype)
        self.prefetch = Prefetch() if prefetch is None else prefetch
        self.num_threads = None if num_threads is None else as_threads(num_threads)
        self._weights: WeightedDraws | None = None
        self.ranks = Ranks(distributed, rank, world_size, even)
        self._shared = SharedPasses() if self.ranks.distributed else None
        self._epochs = Epochs()
        self.parent: ParentGroup = None  # in a process that was spawned

    def weigh_seeds(self, weights: Any) -> None:
        """Draws the seeds of every epoch by weight, as torch's ``WeightedRandomSampler`` does.

        An epoch has as many draws as there are seeds: a seed may come several times, or not at all.

        Raises
        ------
        ValueError
            If there is not one for each seed, if one is negative or not finite, or if all are 0.
        """
        self._weights = WeightedDraws(weights, self.num_seeds, "seed_weights", "seeds")

    def take_times(self, name: str, times: Any) -> None:
        """Gives the seeds times, by which they are sampled; `name` is what users call them.

        Raises
        ------
        ValueError
            If there are none and an option needs them; if the graph or the seeds do not have them.
        """
        self.sampler.check_times(times, name)
        if times is None:
            return
        graphs = [edges.graph for edges in self.dataset.edges.values()]
        for graph in [each for each in graphs if each.times is not None] or graphs[:1]:
            graph._csr.require_time_order()
        self.input_time = as_times(times, self.num_seeds, name).copy()

    def reseed(self, seed: int) -> None:
        """Changes the seed; in a copy of the sampler, which iterations may be using."""
        self.sampler = copy(self.sampler)
        self.sampler.seed = as_seed(seed)
        for cached in ("options", "state_options"):
            self.__dict__.pop(cached, None)

    def sample(
        self,
        positions: IdArray,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None = None,
    ) -> SampledBatch:
        """The mini-batch of the seeds at some positions, without rows; called in any thread.

        `readahead` is that of each file of `topology`.
        """
        raise NotImplementedError

    def seed_options(self) -> dict[str, Any]:
        """What distinguishes the seeds from others, in plain numbers and strings."""
        raise NotImplementedError

    def with_rows(self, sampled: SampledBatch, num_threads: int) -> SampledBatch:
        """A mini-batch outside of an iteration, with its rows, gathered from the mapped files."""
        rows: dict[RowKey, npt.NDArray[Any]] = {}
        for name, source in self.row_sources(0).items():
            wanted = source.rows_of(0, sampled.by_type)
            dtype = self.feature_dtype if source.is_converted else None
            rows[name] = source.store.gather_stored(wanted, None, num_threads, dtype=dtype)
        return replace(sampled, rows=rows)

    def sampled_epoch(self, epoch: int) -> int:
        """The epoch whose order and draws an epoch has: itself, unless a subclass repeats some."""
        return epoch

    def row_sources(self, epoch: int) -> dict[RowKey, RowSource]:
        """Where the rows of an epoch's mini-batches are found, by the names of attributes."""
        del epoch
        found = row_sources(self.dataset)
        if self.gather is None:
            return found
        return {key: source for key, source in found.items() if _name(key) in self.gather}

    @property
    def mappings(self) -> list[_core.Mapping]:
        """A mapping of every file that is sampled or read: the dataset's, and those of a pack."""
        found = {mapping.path: mapping for mapping in self.dataset.mappings}
        for source in self.row_sources(0).values():
            found.setdefault(source.store.mapping.path, source.store.mapping)
        return list(found.values())

    @property
    def num_batches(self) -> int:
        """Mini-batches of an epoch, over all ranks."""
        return num_batches(self.num_seeds, self.batch_size, self.drop_last)

    @cached_property
    def options(self) -> dict[str, Any]:
        """All that the mini-batches of an epoch are a function of, in plain values."""
        return {
            "num_nodes": self.dataset.num_nodes,
            "num_edges": self.dataset.num_edges,
            "num_seeds": self.num_seeds,
            **self.seed_options(),
            "fanouts": self.sampler.fanout_options,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            **asdict(self.sampler.sampling),
            "seed": self.sampler.seed,
            **({} if self._weights is None else {"seed_weights_crc": self._weights.crc}),
        }

    @cached_property
    def state_options(self) -> dict[str, Any]:
        """`options`, and a fingerprint of the graph as far as the mini-batches depend on it."""
        prints = [
            file.graph.fingerprint({*file.sections} - {"node_rank"})  # the inverse of node_ids
            for file in self.topology
        ]
        return {**self.options, GRAPH: "-".join(prints)}

    @property
    def topology(self) -> list[TopologyFile]:
        """What sampling reads of the graph's files."""
        return topology_files(
            self.dataset,
            self.sampler.sampling,
            timed=self.input_time is not None,
            translates_seeds=self.translates_seeds,
        )

    def epoch_order(self, epoch: int) -> IdArray:
        """Positions in the seed array in the order of an epoch, (num_seeds,) int64."""
        seed = self.sampler.seed
        if self._weights is None or self.num_seeds == 0:
            return epoch_order(self.num_seeds, self.shuffle, seed, epoch)
        stream = _core.stream(_core.key("shuffle", seed, epoch, 0), 0)
        return self._weights.items(_core.draws(stream, self.num_seeds))

    def positions(self, epoch: int, batch: int) -> IdArray:
        """Positions in the seed array of one mini-batch, (batch_size,) int64."""
        return self.positions_of(self.epoch_order(epoch), batch)

    def positions_of(self, order: IdArray, batch: int) -> IdArray:
        """`positions` in an order of the seeds."""
        return batch_positions(order, batch, self.batch_size)

    # --- the epoch

    @property
    def epoch(self) -> int:
        """The epoch of the next pass: while a pass runs, of the one after it.

        Raises
        ------
        RuntimeError
            After the state of a pass of DataLoader workers whose epoch `set_epoch` had not chosen.
        """
        if (epoch := self.position.epoch) > MOST_COUNTED:
            raise RuntimeError(
                "The epoch is not known: the state is of a pass of DataLoader workers without "
                "set_epoch. Call set_epoch before each pass."
            )
        return epoch

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass, in workers as well; those after it count on.

        A pass begins when ``iter`` is called, of the dataset or of a ``DataLoader`` over it. It is
        a whole epoch, unless it is the one that `resume` continues.

        Without it, a pass in this process is the epoch after the one before; the first one is epoch
        0. Passes of DataLoader workers have epochs that follow from torch's seed then: other
        batches in each pass. Ranks that share an epoch need `set_epoch` with workers.

        Parameters
        ----------
        epoch : int
            At least 0; also that of an earlier pass, which is then repeated.

        Raises
        ------
        RuntimeError
            If accelerate calls this, and would divide the batches among the processes.
        ValueError
            If another rank shares the epochs, and has another dataset, argument or epoch.
        """
        _refuse_accelerate()
        epoch = as_count(epoch, "epoch", 0)
        self._compare_ranks(epoch)  # workers, which begin a pass, do not have the store
        here = self.position
        self._epochs.choose(here if here.epoch == epoch else Position(epoch, 0))

    def state_after(self, taken: int) -> State:
        """State for `resume`, after the training loop has taken some batches of the running pass.

        The running pass is the one that began last; if none has begun since `set_epoch` or
        `resume`, it is the next one. With DataLoader workers, call `set_epoch` before each pass.

        It is not called ``state_dict``, because a ``StatefulDataLoader`` would then restore the
        dataset's epoch over the one that `set_epoch` has chosen since.

        Parameters
        ----------
        taken : int
            Batches that the loop of this rank was given since it began to iterate over a
            ``DataLoader`` of this dataset. The other ranks must be in step. Batches that were
            prepared and not given do not count. A ``StatefulDataLoader`` counts by itself: store
            its state.

        Returns
        -------
        dict
            Plain numbers, strings and lists.

        Raises
        ------
        RuntimeError
            If DataLoader workers may have begun the pass, and `set_epoch` was not called. If they
            begin another one after ``state_after(0)`` without it, the pass raises this error.
        """
        taken = as_count(taken, "taken", 0)
        _, world_size = self.rank_and_size
        here = self._epochs.last(taken)
        done = min(self.num_batches, here.batches + taken * world_size)
        return replace(here, batches=done).state(self.state_options)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Resumes an interrupted epoch, with any number of ranks and workers.

        Every rank loads the same state, that of rank 0. The next pass yields the remaining batches
        of the state's epoch, unless `set_epoch` chooses another one. The pass after it is the next
        epoch, and whole. ``len`` is still that of a whole epoch.

        Parameters
        ----------
        state : mapping
            From `state_after`, from the ``state_dict`` of an iterator of this dataset, or from
            that of a ``StatefulDataLoader``.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken on another graph, with another seed, batch_size,
            ...; the message names them.
        """
        self._epochs.choose(read_position(state, self.state_options, self.num_batches))

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch, over all its workers.

        Raises
        ------
        ValueError
            As at the beginning of an iteration, if it is not known how ranks share the epoch.
        """
        return len(self.batches_of(Share(*self._checked_rank())))

    def batches_of(self, share: Share, first: int = 0) -> Sequence[int]:
        """Numbers of the batches of an epoch that are of a share, of those from `first` on."""
        even, drop_last = self.ranks.even, self.drop_last
        return batch_ids(self.num_batches, share, first, even=even, drop_last=drop_last)

    @property
    def position(self) -> Position:
        """Where the next pass begins, over all ranks."""
        return self._epochs.next

    @property
    def rank_and_size(self) -> tuple[int, int]:
        """Rank of this process, and the number of ranks that share an epoch."""
        return self.ranks.find(self.parent)

    def _checked_rank(self) -> tuple[int, int]:
        """`rank_and_size`; says what `even` does to the epoch, once and by one rank."""
        rank, world_size = self.rank_and_size
        self.ranks.check_rounds(self.num_batches, rank, world_size, self.drop_last, self._epochs)
        return rank, world_size

    def _compare_ranks(self, epoch: int | None = None) -> None:
        """Refuses a pass, by default the next, that another rank begins with something else."""
        group = current_group()
        if self._shared is None or in_worker() or group is None or group[1] == 1:
            return
        if self.rank_and_size != group:  # ranks that the user has named
            return
        files = {
            f"{key}": zlib.crc32(repr(source.store.identity).encode())
            for key, source in SeedDataset.row_sources(self, 0).items()  # not those of a pack
        }
        epoch = self.position.epoch if epoch is None else epoch
        options = {**self.state_options, "even": self.ranks.even, "epoch": epoch}
        files["edges"] = options.pop(GRAPH)
        self._shared.compare(group[0], {"options": options, "dataset": files})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "parent": group_for_workers()}

    def __copy__(self) -> SeedDataset:
        copied = self.__class__.__new__(self.__class__)
        copied.__dict__.update(self.__dict__, _epochs=copy(self._epochs))
        return copied

    def begin_pass(self) -> Progress:
        """Begins a pass in this process, whose workers `iterate`: its epoch, position and rank."""
        self.dataset.require_unedited(self.gather)
        share = Share(*self._checked_rank())
        self._compare_ranks()
        here = self._epochs.begin(shared_by_ranks=False).position
        return Progress(here.epoch, here.batches, 0, share)

    def iterate(self, progress: Progress) -> BatchIterator:
        """A worker's share of a pass that `begin_pass` has begun, in the parent or here."""
        return BatchIterator(self, progress)

    def __iter__(self) -> BatchIterator:
        self.dataset.require_unedited(self.gather)
        share = current_share(*self._checked_rank())
        self._compare_ranks()
        begun = self._epochs.begin(shared_by_ranks=share.world_size > 1)
        here = begun.position
        return BatchIterator(self, Progress(here.epoch, here.batches, 0, share), begun)


# Classes of accelerate.data_loader: of the first, each process takes some items of every round;
# the second cuts the tensors of a batch into a piece for each process.
_WRAPPERS = ("IterableDatasetShard", "DataLoaderDispatcher")


def _refuse_accelerate() -> None:
    """Raises an error if the caller was called by a wrapper of accelerate that divides batches.

    accelerate leaves no other trace: it makes a DataLoader of its own over the dataset, and tells
    the dataset the epoch before each pass.

    Raises
    ------
    RuntimeError
        That says what to pass to ``prepare``.
    """
    caller = sys._getframe(2)
    is_of_accelerate = str(caller.f_globals.get("__name__")).startswith("accelerate.")
    if is_of_accelerate and type(caller.f_locals.get("self")).__name__ in _WRAPPERS:
        raise RuntimeError(
            "accelerate would divide the batches of this dataset among the processes, which "
            "the dataset does by itself. Keep its DataLoader out of prepare: model, optimizer = "
            "accelerator.prepare(model, optimizer). Make the dataset with distributed=True (and "
            "even=False for evaluation), and move each batch: batch.to(accelerator.device)"
        )


def _as_feature_dtype(value: Any) -> np.dtype[Any] | None:
    if value is None:
        return None
    with suppress(TypeError):
        if np.dtype(value) == np.float32:
            return np.dtype(np.float32)
    raise ValueError(f"feature_dtype must be 'float32', or None for as stored, not {value!r}")


def _name(key: RowKey) -> str:
    """Name of an attribute, without the type."""
    return key if isinstance(key, str) else key[1]


def _as_names(gather: Sequence[str] | None, dataset: Dataset) -> tuple[str, ...] | None:
    if gather is None:
        return None
    if isinstance(gather, str):
        raise ValueError(f"gather names several attributes: use [{gather!r}]")
    known = {"x", "y", *map(_name, row_sources(dataset))}
    unknown = sorted(set(gather) - known)
    if unknown:
        raise ValueError(f"gather names {unknown}, and the dataset has {sorted(known)}")
    return tuple(gather)


# --- plan


def start_session(
    batches: SeedDataset, share: Share, epoch: int, numbers: Sequence[int]
) -> Session:
    """The session of an iteration over the mini-batches with some numbers; one for each process.

    Raises
    ------
    FormatError
        If a file that is read has become shorter since it was opened.
    """
    sources = batches.row_sources(epoch)
    for mapping in {*batches.dataset.mappings, *(s.store.mapping for s in sources.values())}:
        mapping.check_size()
    return Session(
        batches.topology,
        sources,
        batches.prefetch,
        plan_iteration(batches, share, epoch, numbers),
        feature_dtype=batches.feature_dtype,
        ranks=ranks_of_host(os.environ, share.world_size),
        loop=batches,
    )


def plan_iteration(
    batches: SeedDataset, share: Share, epoch: int, numbers: Sequence[int]
) -> IOPlan:
    """How an iteration reads, see `start_session`."""
    return make_plan(batches.prefetch, _probe(batches, share, epoch, numbers))


def _probe(batches: SeedDataset, share: Share, epoch: int, numbers: Sequence[int]) -> Estimate:
    """Sizes of the files; where they matter, also the size of the first mini-batch."""
    files, sources = batches.topology, batches.row_sources(epoch)
    topology = sum(file.num_bytes for file in files)
    before = LEARNT_MEMORY.available_before(batches)
    estimate = probe_files(batches.prefetch, sources, topology, before)
    may_be_too_small = in_worker() and (shared_memory_bytes() or _PLENTY_SHARED) < _PLENTY_SHARED
    if not (is_large(estimate) or may_be_too_small) or len(numbers) == 0:
        return estimate

    hop_readahead = tuple(HopReadAhead(0, mincore_is_honest(file.graph.path)) for file in files)

    def sample(number: int) -> TypedSubgraph:
        positions = batches.positions(epoch, number)
        return batches.sample(positions, epoch=epoch, batch=number, readahead=hop_readahead).by_type

    estimate = probe_batch(
        estimate,
        files,
        batches.prefetch,
        sources,
        batches.feature_dtype,
        numbers[0],
        sample,
        workers=share.num_workers,
        threads=default_threads(batches.num_threads),
    )
    if in_worker():
        check_shared_memory(estimate.batch, share.num_workers, batches.queued)
    return estimate


# --- what a stage costs

_SCHEDSTAT = "/proc/thread-self/schedstat"
# Elsewhere the faults of the whole process say whether there was any.
_WHOSE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


class Moment(NamedTuple):
    """Clocks and counters of the calling thread.

    Attributes
    ----------
    wall, cpu : float
        Seconds, and seconds on a processor.
    queued : float
        Seconds ready to run and without a processor; 0 where the system does not say.
    faults : int
        Page faults that read from the disk.
    """

    wall: float
    cpu: float
    queued: float
    faults: int


def _queued() -> float:
    try:
        descriptor = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(descriptor, 64).split()[1]) / 1e9
        finally:
            os.close(descriptor)
    except (OSError, IndexError, ValueError):
        return 0.0


def moment() -> Moment:
    """That of the calling thread, now."""
    faults = resource.getrusage(_WHOSE).ru_majflt
    return Moment(time.perf_counter(), time.thread_time(), _queued(), faults)


def spent(begin: Moment, end: Moment, *, has_read: bool) -> tuple[float, float]:
    """Seconds that a thread has worked, and waited for the disk, between two moments.

    A thread that is blocked neither computes nor waits for a processor. What it waits for, the
    system does not say; if it has read from the disk meanwhile (`has_read`, or page faults), that
    is taken to be the disk.
    """
    wall = end.wall - begin.wall
    if not has_read and end.faults == begin.faults:
        return wall, 0.0
    blocked = wall - (end.cpu - begin.cpu) - (end.queued - begin.queued)
    disk = min(max(blocked, 0.0), wall)
    return wall - disk, disk


# --- sample, fetch, place


@dataclass
class _Item:
    """A mini-batch on its way; the stages work on it one after the other."""

    number: int
    batch: SampledBatch
    costs: dict[str, Any]  # fields of its `BatchStats`
    requests: list[Future[PagesRequested]] = field(default_factory=list)
    fetched: dict[RowKey, Fetched] = field(default_factory=dict)
    rows: dict[RowKey, npt.NDArray[Any]] = field(default_factory=dict)
    finished: float = 0.0  # when the last stage was

    def gather(self, work: float, disk: float) -> None:
        self.costs["gathered"] += work
        self.costs["disk"] += disk


class Preparation:
    """The stages of an iteration, which run in threads of its session."""

    def __init__(self, batches: SeedDataset, session: Session, epoch: int) -> None:
        self._batches = batches
        self._session = session
        self._epoch = epoch
        self._order = batches.epoch_order(epoch)
        self.threads = default_threads(batches.num_threads)

    def sample(self, number: int) -> _Item:
        """Samples a mini-batch, and requests the pages of its rows."""
        positions = self._batches.positions_of(self._order, number)
        begun = moment()
        batch = self._batches.sample(
            positions,
            epoch=self._epoch,
            batch=number,
            readahead=self._session.topology.hop_readahead(),
        )
        sampled = moment()
        missed = batch.by_type.pages_missed
        work, disk = spent(begun, sampled, has_read=missed > 0)
        costs = {"sampled": work, "disk": disk, "gathered": 0.0, "topology_missed": missed}
        item = _Item(number, batch, {**costs, "io": self._session.describe()})
        item.requests = self._session.rows.submit(number, batch.by_type)
        if item.requests:  # otherwise it was no work, and the clocks see how threads take turns
            item.gather(*spent(sampled, moment(), has_read=False))
        return item

    def fetch(self, item: _Item) -> _Item:
        """Brings the rows into memory, once their pages were requested: then it is faster."""
        rows = self._session.rows
        begun = time.perf_counter()
        requested = rows.wait(item.requests)
        after = moment()
        missing = sum(pages.missing for pages in requested)
        waited = after.wall - begun
        item.gather(*((0.0, waited) if missing else (waited, 0.0)))
        subgraph = item.batch.by_type
        try:
            item.fetched = {name: rows.fetch(name, item.number, subgraph) for name in rows.sources}
        finally:
            rows.finish(requested)
        read_past = sum(map(pages_read, item.fetched.values()))
        item.costs["pages_missed"] = missing + read_past
        end = moment()
        if read_past:  # past the page cache: rows are copied when they are placed
            item.gather(0.0, end.wall - after.wall)
        else:
            item.gather(*spent(after, end, has_read=missing > 0))
        item.finished = end.wall
        item.batch = replace(item.batch, by_type=subgraph.without_positions())
        return item

    def place(self, item: _Item) -> _Item:
        """Puts the rows of a mini-batch in arrays."""
        begun, rows = moment(), self._session.rows
        fetched, item.fetched = item.fetched, {}
        item.rows = {name: rows.place(name, each, self.threads) for name, each in fetched.items()}
        end = moment()
        item.gather(*spent(begun, end, has_read=False))
        item.finished = end.wall
        item.costs["row_bytes"] = sum(
            len(array) * rows.sources[name].store.row_bytes for name, array in item.rows.items()
        )
        return item


def prepare_batches(
    batches: SeedDataset, share: Share, epoch: int, numbers: Sequence[int]
) -> Generator[SampledBatch, None, None]:
    """The mini-batches with some numbers, prepared in the background by a session of its own."""
    shown = BatchStats(
        epoch=epoch,
        num_workers=share.num_workers if in_worker() else 0,
        num_threads=default_threads(batches.num_threads),
    )
    epoch = batches.sampled_epoch(epoch)
    with closing(start_session(batches, share, epoch, numbers)) as session:
        stages = Preparation(batches, session, epoch)
        lookahead = batches.prefetch.lookahead
        if session.plan.places_ahead:
            lookahead += 1  # the rows of one are read while those of the one before are placed
        work = [Stage(stages.sample, stages.threads), Stage(stages.fetch, most=lookahead)]
        if session.plan.places_ahead:
            work.append(Stage(stages.place, most=1))
        if lookahead:
            # in memory one more is sampled meanwhile: threads would wait for the rows of another
            lookahead = max(lookahead, stages.threads) + (not session.plan.is_larger)
        prepared = session.run_ahead(work, numbers, lookahead=lookahead)
        while True:
            asked = time.perf_counter()
            item: _Item | None = next(prepared, None)
            if item is None:
                return
            ready, queue_depth = time.perf_counter() - item.finished, prepared.num_finished
            if not session.plan.places_ahead:
                with range_of("graphzero: place"):
                    stages.place(item)
            stats = replace(
                shown,
                **item.costs,
                ready=ready,
                waited=time.perf_counter() - asked,
                queue_depth=queue_depth,
                number=item.number,
                num_seeds=len(item.batch.input_id),
                num_nodes=item.batch.by_type.total_nodes,
                num_edges=item.batch.by_type.total_edges,
            )
            batch = replace(item.batch, rows=item.rows, stats=stats)
            del item
            yield batch
            del batch  # its memory is needed for the next one
            session.count_batch()


# --- hand out


class BatchIterator(Iterator[SampledBatch]):
    """One iteration over a dataset of seeds, in one process; ``iter(dataset)`` makes it.

    It has the methods that torchdata's ``StatefulDataLoader`` calls. The first ``next`` starts the
    threads. They end with the last mini-batch, or with the iterator: when it is closed or dropped,
    or with the program. Calls from several threads take turns.

    Parameters
    ----------
    batches : SeedDataset
    progress : Progress
        Where to begin.
    begun : Pass, optional
        The pass that this process has begun; several workers may then disagree about its epoch,
        until a state is loaded.
    """

    def __init__(self, batches: SeedDataset, progress: Progress, begun: Pass | None = None) -> None:
        self._source = batches
        self._begun = begun
        self._is_checked = begun is not None and progress.share.num_workers > 1
        self._turn = threading.RLock()
        self._start(progress)

    def _start(self, progress: Progress) -> None:
        self._progress = progress
        self._process: int | None = None  # which has begun the iteration
        self._has_failed = self._is_closed = False
        numbers = self._numbers(progress)
        self._left = len(numbers)
        self._batches = prepare_batches(self._source, progress.share, progress.epoch, numbers)

    def _numbers(self, progress: Progress) -> Sequence[int]:
        """Numbers of the mini-batches that are left."""
        return self._source.batches_of(progress.share, progress.first)[progress.taken :]

    def __iter__(self) -> BatchIterator:
        """Itself."""
        return self

    def __next__(self) -> SampledBatch:
        """The next mini-batch of this worker.

        Raises
        ------
        RuntimeError
            If this process was forked after the first call: the threads are the parent's.
        """
        if self._is_inherited():
            raise RuntimeError(
                "this iteration was begun by the process that forked this one: begin another with "
                "iter()"
            )
        self._process = os.getpid()
        with self._turn:
            if self._has_failed:
                raise RuntimeError(
                    "this pass has ended with an error: begin another one with iter()"
                )
            try:
                if self._begun is not None and self._is_checked:
                    self._source._epochs.check(self._begun)
                with waiting(training=False):
                    batch = next(self._batches)
            except Exception as error:
                self._has_failed = not isinstance(error, StopIteration)
                raise
            self._progress = replace(self._progress, taken=self._progress.taken + 1)
            self._left -= 1
            if self._left == 0 or self._is_closed:
                self._batches.close()
            hand_out(batch.stats)
            return batch

    def close(self) -> None:
        """Ends the iteration and its threads, after the calls that they are in.

        It waits for a ``next`` that runs in another thread, which still returns its mini-batch. A
        signal handler that interrupts ``next`` need not wait: ``next`` then ends the iteration. In
        a forked child it does nothing.
        """
        if not self._is_inherited():
            with self._turn:
                self._is_closed = True
                if inspect.getgeneratorstate(self._batches) != inspect.GEN_RUNNING:
                    self._batches.close()

    def _is_inherited(self) -> bool:
        return self._process not in (None, os.getpid())

    def state_dict(self) -> State:
        """The position of the iteration; it counts the mini-batches that ``next`` has returned."""
        return self._progress.state(self._source.state_options)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was called; the next pass over the dataset is a new epoch.

        The worker must be the same, of as many workers on the same rank.

        Raises
        ------
        ValueError
            If it is not such a state, or was taken on another graph, with another seed, batch_size,
            ... or number of workers or ranks; the message names them.
        RuntimeError
            If another worker of the pass has loaded a state of another epoch.
        """
        source, share = self._source, self._progress.share
        progress = read_progress(state, source.state_options, source.num_batches, share)
        if self._begun is not None:
            source._epochs.load(self._begun, progress, len(self._numbers(progress)) > 0)
        self._is_checked = False
        self.close()
        self._start(progress)
