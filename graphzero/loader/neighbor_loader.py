"""`NeighborLoader` and `LinkNeighborLoader`: ready-made DataLoaders with PyG's argument names.

A ready-made loader is a torch ``DataLoader`` over an ``IterableDataset``. It begins each pass in
the process that iterates, and tells its workers which one it is.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.dataloader import _InfiniteConstantSampler
from typing_extensions import Unpack

from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import Values, as_array, as_ids
from graphzero.io.prefetch import as_share
from graphzero.io.row_io import RowKey
from graphzero.loader.arguments import (
    NO_EFFECT,
    REFUSED,
    DataLoaderOptions,
    LinkNeighborLoaderOptions,
    LoaderArguments,
    NeighborLoaderOptions,
    as_num_neighbors,
    check_loader_keywords,
)
from graphzero.loader.batch_iterator import BatchIterator
from graphzero.loader.delivery import Delivery
from graphzero.loader.device import Sender, SendingIterator, Sent, as_device
from graphzero.loader.device_rows import NO_DEVICE_ROWS, DeviceRows, device_rows
from graphzero.loader.host_blocks import HostBlock
from graphzero.loader.link_dataset import LinkNeighborDataset
from graphzero.loader.mini_batch import (
    AnyBatch,
    Collate,
    MiniBatch,
    SampledBatch,
    TypedMiniBatch,
    apply_to_tensors,
    is_of_pyg,
)
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.profiler import end_training, waiting
from graphzero.loader.ranks import current_share, default_threads, group_of_worker, in_worker
from graphzero.loader.seed_batches import BatchRequest
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.loader.seeds import (
    as_dataset,
    as_input_ids,
    as_seed_edges,
    as_seed_nodes,
    as_seed_weights,
    sampling_attribute,
    seed_times,
)
from graphzero.loader.states import Position, State, WorkerProgress
from graphzero.loader.stats import BatchStats, Loop
from graphzero.sampling.negatives import as_negative_options

_NO_EPOCH = (1 << 62) + 1  # of batches that belong to no epoch

_REMADE = (
    "another library has made a DataLoader of its own of this loader's parts, and would divide its "
    "batches a second time. Let the loader itself deal them to the ranks: make it with "
    "distributed=True (and even=False for evaluation), and keep it out of what the library "
    "prepares: model, optimizer = accelerator.prepare(model, optimizer)"
)


class Seeds(IterableDataset[SampledBatch]):
    """The seeds of a loader: its ``dataset`` attribute; ``len`` is their number, over all ranks.

    An iteration yields the mini-batches of the pass that the loader has begun.

    Attributes
    ----------
    source : SeedDataset
    arguments : dict
        The arguments that the loader was made of, as far as they can be used again, in the process
        that made it.
    """

    def __init__(
        self, source: SeedDataset, *, persistent: bool, arguments: Mapping[str, object]
    ) -> None:
        self.source = source
        self.arguments = {k: v for k, v in arguments.items() if not isinstance(v, Iterator)}
        self._progress: WorkerProgress | None = None  # of the pass that begins; workers have a copy
        self._begun = 0  # passes in this worker
        self._again: torch.Tensor | None = None  # where later passes of persistent workers begin
        if persistent:
            self._again = torch.zeros(2, dtype=torch.int64)
            self._again.share_memory_()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return self.source.num_seeds

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "arguments": {}}

    @contextmanager
    def beginning(self, progress: WorkerProgress) -> Iterator[None]:
        """While it lasts, ``iter``, and workers that are started, are for this pass."""
        self._progress = progress
        if self._again is not None:
            self._again[0], self._again[1] = progress.epoch, progress.first
        try:
            yield
        finally:
            self._progress = None

    def in_this_process(self, delivery: Delivery) -> BatchIterator | None:
        """What is made of the mini-batches of the pass that begins, if any, without workers."""
        return None if self._progress is None else self.source.iterate(self._progress, delivery)

    def __iter__(self) -> BatchIterator:
        """The mini-batches of the pass; of a pass of its own in a DataLoader of other libraries.

        Raises
        ------
        RuntimeError
            If it is in a DataLoader that another library has made, in one of several processes.
        """
        progress = self._progress
        if progress is None:
            group = group_of_worker(self.source.parent)
            if group is not None and group[1] > 1:
                raise RuntimeError(_REMADE)
            return iter(self.source)
        if in_worker():
            if self._begun > 0 and self._again is not None:
                epoch, first = self._again.tolist()
                progress = replace(progress, epoch=epoch, first=first)
            self._begun += 1
            share = progress.share
            progress = replace(progress, share=current_share(share.rank, share.world_size))
        return self.source.iterate(progress)


@dataclass
class _Finish:
    """The collate function of a loader: `make`, then `hand_out`.

    It does not hold the loader, which would be a circle: workers of a loader that is dropped would
    go on until the garbage collector finds it.
    """

    collate: Collate
    input_id: Values | None
    make_output: Callable[[AnyBatch, Dataset, bool], object]
    transform: Callable[[Any], object] | None
    whole: bool

    def __call__(self, sampled: object) -> object:
        if not isinstance(sampled, SampledBatch):
            raise RuntimeError(_REMADE)
        return self.hand_out(self.make(sampled))

    def make(self, sampled: SampledBatch) -> object:
        """What the transform gets."""
        return self.output_of(self.batch_of(sampled))

    def batch_of(self, sampled: SampledBatch) -> AnyBatch:
        """The mini-batch of tensors."""
        if self.input_id is not None:
            sampled = replace(sampled, input_id=self.input_id[sampled.input_id])
        return self.collate(sampled)

    def output_of(self, batch: AnyBatch) -> object:
        """What the transform gets of a mini-batch of tensors."""
        stats = batch.stats
        output = self.make_output(batch, self.collate.dataset, self.whole)
        if isinstance(output, MiniBatch | TypedMiniBatch) and is_of_pyg(self.transform):
            output = output.to_pyg()  # which such a transform is written for
        _add_stats(output, stats)
        return output

    def pinned(self, sampled: SampledBatch) -> object:
        """As `make`, in the page-locked memory of a block."""
        assert sampled.block is not None
        return self.output_of(apply_to_tensors(sampled.block.hold, self.batch_of(sampled)))

    def hand_out(self, output: object) -> object:
        """What the training loop gets."""
        if self.transform is None:
            return output
        transformed = self.transform(output)
        if (stats := vars(output).get("stats")) is not None:
            _add_stats(transformed, stats)
        return transformed


def _add_stats(output: object, stats: BatchStats) -> None:
    """Adds what a mini-batch cost, where the object has no such name."""
    if not hasattr(output, "stats") and hasattr(output, "__dict__"):
        output.__dict__["stats"] = stats  # a PyG object: no attribute of the graph


@dataclass(frozen=True)
class _OnDevice:
    """Sends the mini-batches of a pass, and makes what the transform gets of what arrives."""

    finish: _Finish
    sender: Sender
    rows: DeviceRows

    def __call__(self, sampled: SampledBatch) -> Sent:
        batch = self.finish.batch_of(sampled)
        splits = {
            key: {name: torch.from_numpy(places) for name, places in vars(split).items()}
            for key, split in sampled.splits.items()
        }
        sent = self.sender.send((batch, splits), sampled.block, self._arrived)
        sent.batch = self.finish.output_of(sent.batch)
        return sent

    def _arrived(self, arrived: tuple[AnyBatch, dict[RowKey, dict[str, torch.Tensor]]]) -> AnyBatch:
        batch, splits = arrived
        return self.rows.finish(batch, splits)


@dataclass
class _Delivered:
    """How many mini-batches of a pass the training loop was given, of how many rounds.

    In the last round the last ranks may have none: rank 0 has one in every round.
    """

    progress: WorkerProgress
    rounds: int
    taken: int = 0

    @property
    def position(self) -> Position:
        """Where the epoch is resumed; the beginning of the next one, if it is at its end."""
        begun = self.progress
        if self.taken >= self.rounds:
            return Position(begun.epoch + 1, 0)
        return Position(begun.epoch, begun.first + self.taken * begun.share.world_size)


class _InThisProcess(Iterator[object]):
    """The mini-batches of a pass without workers.

    DataLoader's iterator would run an operation of torch for each, which lets the GIL go: the loop
    would wait until the background threads give it back.
    """

    def __init__(self, batches: BatchIterator, finish: _Finish, sender: Sender | None) -> None:
        self._batches = batches
        self._finish = finish
        self._sender = sender

    def __next__(self) -> object:
        output = self._batches.take()
        if self._sender is not None:
            assert isinstance(output, Sent)
            output = self._sender.receive(output)
        return self._finish.hand_out(output)


class _Counting(Iterator[Any]):
    """An iterator of the DataLoader that counts what the training loop is given, and times it."""

    def __init__(
        self, loader: SeedLoader, iterator: Iterator[Any], delivered: _Delivered, loop: Loop
    ) -> None:
        self._loader = loader
        self._iterator = iterator
        self._delivered = delivered
        self._loop = loop

    def __next__(self) -> Any:
        self._loader._check_current(self._delivered)
        try:
            with waiting(training=True):
                output = self._loop.next_of(self._iterator)
        except StopIteration:
            self._delivered.taken = self._delivered.rounds
            raise
        self._delivered.taken += 1
        return output

    def __del__(self) -> None:
        end_training()


class SeedLoader(DataLoader[Any]):
    """A DataLoader that makes its dataset and collate function itself.

    A subclass reads its arguments by `_read`, makes a dataset of seeds of them, and calls `_begin`.

    Attributes
    ----------
    dataset : Seeds
        Its length is the number of seeds.
    batch_size : int
        Seeds in a batch.
    seed : int
        Of the order and the draws.
    device : torch.device or None
        Where the mini-batches come out; None for the memory of the processor.
    """

    _options: type  # those of the subclass, a TypedDict
    _distributed: bool | None = None  # what it means to say nothing about ranks
    _source: SeedDataset
    dataset: Seeds
    seed: int
    transform: Callable[[Any], object] | None
    device: torch.device | None

    def _arguments_of(
        self, dataset: object, options: Mapping[str, object], **leading: object
    ) -> LoaderArguments:
        """The arguments of a loader, with defaults where those of its dataset are others.

        Parameters
        ----------
        dataset : object
            The first argument.
        options : mapping
            All other keywords.
        **leading
            The named arguments of the subclass, None where they are not given.

        Raises
        ------
        TypeError
            If an argument is unknown or refused.
        """
        values = {**leading, **options}
        # Lightning makes another loader of the attributes or the arguments of this one to predict.
        is_remade = isinstance(values.get("sampler"), _InfiniteConstantSampler)
        if isinstance(dataset, Seeds):
            is_remade = True
            changed = {name: value for name, value in values.items() if value is not None}
            values, dataset = {**dataset.arguments, **changed}, dataset.source.dataset
        if is_remade:
            values |= {"shuffle": False, "drop_last": False, "sampler": None, "collate_fn": None}
        if "data" in values and dataset is not None:
            raise TypeError("dataset and data are two names of one argument: give one of them")
        checked = as_dataset(values.pop("data", dataset))
        check_loader_keywords(type(self), values, {*leading, *self._options.__annotations__})
        values.setdefault("batch_size", 1)
        values["shuffle"] = bool(values.get("shuffle"))
        if all(values.get(name) is None for name in ("distributed", "rank", "world_size")):
            values["distributed"] = self._distributed
        self._draws_seed = values.get("seed") is None
        if self._draws_seed:
            values["seed"] = _drawn_seed(values)
        return LoaderArguments(checked, values)

    def _begin(
        self, arguments: LoaderArguments, source: SeedDataset, input_id: Values | None = None
    ) -> None:
        """Makes the DataLoader.

        Parameters
        ----------
        arguments : LoaderArguments
        source : SeedDataset
            The dataset of seeds that was made of them.
        input_id : (num_seeds, ...) array, optional
            What ``input_id`` of batches has instead of positions in the seeds.
        """
        torch_options = arguments.options(DataLoaderOptions.__annotations__)
        self.seed = source.sampler.seed
        self.transform = arguments.get("transform")
        self._source = source
        self._delivered: _Delivered | None = None
        self._deleted = source.dataset.deleted
        source.queued = torch_options.get("prefetch_factor") or source.queued
        self.device = (
            None if arguments.get("device") is None else as_device(arguments.get("device"))
        )
        cache = _checked_cache(arguments, self.device)
        self._sending: Callable[[], SendingIterator | None] = _no_sending
        if self.device is not None:
            torch_options["pin_memory"] = False  # what is sent is page-locked already
            self._device_rows = _rows_on_device(source, self.device, cache)
        collate, whole = Collate(source.dataset), source.gather is None
        self._finish = _Finish(collate, input_id, self._make_output, self.transform, whole)
        persistent = bool(torch_options.get("persistent_workers"))
        DataLoader.__init__(  # a subclass in graphzero.pyg has another base between the two
            self,
            Seeds(source, persistent=persistent, arguments=arguments.values),
            batch_size=None,
            collate_fn=self._finish,
            **torch_options,
        )
        # torch knows these only of loaders that make batches out of single items
        self.__dict__.update(batch_size=source.batch_size, drop_last=source.drop_last)
        # Other arguments are attributes as they were given, else with what holds without them.
        kept = self.dataset.arguments
        values = {**source.batching.values(), **vars(source)}
        values |= {name: value for name, value in kept.items() if value is not None}
        for name in {*kept, *self._options.__annotations__} - {*REFUSED, *NO_EFFECT}:
            self.__dict__.setdefault(name, values.get(name))

    def __repr__(self) -> str:
        """As PyG's, with what matters; one line."""
        source = self._source
        return (
            f"{type(self).__name__}(num_neighbors={source.sampler.fanout_options}, "
            f"num_seeds={source.num_seeds}, batch_size={source.batch_size}, "
            f"shuffle={source.shuffle}, num_workers={self.num_workers})"
        )

    @staticmethod
    def _make_output(batch: AnyBatch, dataset: Dataset, whole: bool) -> object:
        """What `transform` and the training loop get for a mini-batch; for subclasses.

        `whole` says that it is to have all that the dataset has, because `gather` is not given.
        """
        del dataset, whole
        return batch

    def __iter__(self) -> Any:
        """Begins a pass, the next epoch."""
        loop, source = Loop(), self._source
        with loop.starting():
            progress = source.begin_pass()
            of_rank_0 = replace(progress.share, rank=0)
            rounds = len(source.batches_of(of_rank_0, progress.first))
            self._delivered = delivered = _Delivered(progress, rounds)
            self._finish.transform = self.transform
            if source.dataset.deleted != self._deleted:
                self._deleted = source.dataset.deleted
                self._iterator = None  # persistent workers still have what was deleted since
            if (sending := self._sending()) is not None and self.persistent_workers:
                sending.close()  # it takes what the workers of this pass will send
            with self.dataset.beginning(progress):
                iterator: Iterator[Any] = super().__iter__()
            if self.device is not None and self.num_workers > 0:
                sending = SendingIterator(iterator, Sender(self.device), source.prefetch.lookahead)
                iterator, self._sending = sending, weakref.ref(sending)
        return _Counting(self, iterator, delivered, loop)

    def _get_iterator(self) -> Any:
        sender = None if self.device is None else Sender(self.device)
        batches = None
        pins = self.pin_memory and torch.accelerator.is_available()
        if self.num_workers == 0 and not self.timeout and (pins or not self.pin_memory):
            delivery = Delivery(self._finish.make)
            if sender is not None:
                rows = self._device_rows
                sender.read(rows.resident.values())
                delivery = Delivery(_OnDevice(self._finish, sender, rows), sender.block, rows)
            elif pins:
                delivery = Delivery(self._finish.pinned, partial(HostBlock, pinned=True))
            batches = self.dataset.in_this_process(delivery)
        if batches is None:
            return DataLoader._get_iterator(self)  # that of PyG's would collect the batches
        # As every pass of a DataLoader does: a script keeps its random numbers.
        torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        return _InThisProcess(batches, self._finish, sender)

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch."""
        return len(self._source)

    def _check_current(self, delivered: _Delivered) -> None:
        """Persistent workers serve one pass at a time."""
        if self._iterator is not None and delivered is not self._delivered:
            raise RuntimeError(
                "another pass over this loader has begun, and its persistent workers serve one "
                "pass at a time: end this one first, or use persistent_workers=False"
            )

    def __call__(self, index: object) -> object:
        """One batch, as it comes from the loader, outside of its epochs.

        Parameters
        ----------
        index : (n,) integers
            Positions in the seeds, as in PyG. If the seeds are all nodes, they are their ids.

        Returns
        -------
        object
            As an iteration yields it. The same index gives the same batch.
        """
        source = self._source
        positions = as_ids(index, source.num_seeds, "index").copy()
        _ = source.hop_sizes
        sampled = source.sample(BatchRequest(positions=positions, epoch=_NO_EPOCH, batch=0))
        finish = replace(self._finish, transform=self.transform)
        sampled = source.with_rows(sampled, default_threads(source.num_threads))
        if self.device is None:
            return finish(sampled)
        sender = Sender(self.device)
        return finish.hand_out(sender.receive(_OnDevice(finish, sender, NO_DEVICE_ROWS)(sampled)))

    @property
    def epoch(self) -> int:
        """The epoch of the next pass: while a pass runs, of the one after it."""
        return self._source.epoch

    @property
    def sizes(self) -> list[dict[str, Any]] | None:
        """The sizes to which `pad` fills mini-batches up, as it takes them, the smallest first.

        With "auto" the first use samples a few mini-batches. None without `pad`.
        """
        return self._source.sizes

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass; those after it count on.

        Parameters
        ----------
        epoch : int
            At least 0; also that of an earlier pass, which is then repeated.
        """
        self._source.set_epoch(epoch)

    def state_dict(self) -> State:
        """The position after the last batch that the training loop was given.

        It is that of the pass that began last, or after `load_state_dict`, that of the state. At
        the end of an epoch it is the beginning of the next one. All ranks must be in step: store
        the state of rank 0, and load it on every rank.

        Returns
        -------
        dict
            Plain numbers, strings and lists.
        """
        position = self._source.position if self._delivered is None else self._delivered.position
        return position.state(self._source.state_options)

    def load_state_dict(self, state_dict: Mapping[str, object]) -> None:
        """The next pass yields what remains of the epoch; those after it are whole.

        Any number of ranks and workers may resume. A seed that the loader has drawn itself becomes
        that of the state.

        Parameters
        ----------
        state_dict : mapping
            From `state_dict`, of a loader with the same graph, seeds and options; or from
            `NeighborDataset.state_after`.

        Raises
        ------
        ValueError
            If it is not such a state, or something differs; the message names it.
        """
        source, before = self._source, self.seed
        if self._draws_seed:
            self._reseed(_seed_of(state_dict, before))
        try:
            source.resume(state_dict)
        except ValueError:
            self._reseed(before)
            raise
        position = source.position
        if position.batches >= source.num_batches > 0:
            source.set_epoch(position.epoch + 1)
        self._delivered = None

    def _reseed(self, seed: int) -> None:
        if seed != self.seed:
            self.seed = seed
            self._source.reseed(seed)
            self._iterator = None  # persistent workers have the former seed

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_iterator": None, "_delivered": None}

    def __copy__(self) -> SeedLoader:
        copied = self.__class__.__new__(self.__class__)
        copied.__dict__.update(self.__getstate__())
        copied._source = copy.copy(self._source)
        persistent = self.persistent_workers
        seeds = Seeds(copied._source, persistent=persistent, arguments=self.dataset.arguments)
        copied.__dict__["dataset"] = seeds
        return copied


def _rows_on_device(
    source: SeedDataset, device: torch.device, cache: int | float | None
) -> DeviceRows:
    """What a device has of the rows, and what it converts."""
    sources = source.row_sources(0)
    rows_in_batch: dict[RowKey, int] = {}
    if cache is not None and source.dataset.is_typed and source.num_seeds > 0:
        subgraph = source.sample(source.request(0, 0)).by_type
        rows_in_batch = {key: len(of.rows_of(0, subgraph)) for key, of in sources.items()}
    return device_rows(sources, device, cache, source.feature_dtype, rows_in_batch)


def _no_sending() -> None:
    """There is no pass whose mini-batches of workers are sent."""


def _checked_cache(arguments: LoaderArguments, device: torch.device | None) -> int | float | None:
    """The rows that are to be on the device: bytes, or a fraction of the features."""
    cache = as_share(arguments.get("device_cache"), "device_cache")
    if cache is None:
        return None
    if device is None:
        raise ValueError("device_cache keeps rows on a device: give device= as well, as 'cuda'")
    if arguments.values.get("num_workers"):
        raise ValueError(
            "device_cache needs batches that are made by threads: leave num_workers out"
        )
    return cache


def _seed_of(state: Mapping[str, object], default: int) -> int:
    options = state.get("options") if isinstance(state, Mapping) else None
    seed = options.get("seed") if isinstance(options, Mapping) else None
    return seed if isinstance(seed, int) else default


def _drawn_seed(values: Mapping[str, Any]) -> int:
    """A seed, drawn as torch's RandomSampler draws one.

    Raises
    ------
    ValueError
        If the loader with these arguments shares its seeds with those of other ranks.
    """
    if values.get("distributed") or values.get("rank") is not None:
        raise ValueError(
            "ranks that share the seeds need the same seed=: give a number, on all ranks alike"
        )
    generator = values.get("generator")
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


class NeighborLoader(SeedLoader):
    """A DataLoader of mini-batches around nodes, with PyG's argument names.

    It is `NeighborDataset` with `Collate` in a ``torch.utils.data.DataLoader``, and yields the same
    batches, byte for byte. docs/loaders.md says what every argument of PyG's ``NeighborLoader``
    means here.

    Every pass is the next epoch, with another order and other draws, for any number of workers; the
    first pass is epoch 0. An epoch is decided when ``iter`` is called, in the process that calls
    it. `set_epoch` chooses another one. `state_dict` and `load_state_dict` resume an interrupted
    epoch; they count the batches that the training loop was given.

    Parameters
    ----------
    dataset : Dataset
        From `graphzero.open`; also as ``data=``.
    num_neighbors : sequence of int, or mapping
        Neighbours per node in each hop; -1 for all. In a typed graph also a list by edge type, or
        PyG's ``NumNeighbors``; the list of "default" is for the types that are not named.
    input_nodes : str, (num_seeds,) integers, (num_nodes,) bool, or pair, optional
        The seeds: the name of a split, ids, or a mask. Default: all nodes. Seeds without a label
        (-1 or NaN) stay seeds, as in PyG. In a typed graph a pair of a node type and these (or
        None), the node type alone for all of its nodes, or the name of a split that exactly one
        node type has.
    input_time : (num_seeds,) integers, optional
        A time for each seed: its tree has only edges up to it.
    input_id : (num_seeds,) integers, optional
        What ``batch.input_id`` has instead of positions in the seeds; for a mask, the default is
        the ids of the nodes.
    replace, disjoint, weighted, temporal_strategy, labor, strictly_before, batch_dependency
        How neighbours are drawn: the fields of `Sampling`.
    subgraph_type : {"directional", "induced"}
        The edges that were drawn, or all edges between the nodes of the batch. PyG's enum too.
    time_attr : str, optional
        The name of the times that drive the sampling, which the build chooses. With times of nodes,
        seeds without `input_time` have those of their own nodes; with times of edges, `input_time`
        is required. In a graph without types "edge_time", "time" and "timestamp" name the times,
        whatever they are called.
    weight_attr : str, optional
        The name of the weights of edges by which neighbours are drawn, which the build chooses.
        Edges of types without it are drawn uniformly. In a graph without types also "edge_weight"
        and "weight".
    directed : bool
        False is PyG's former name of ``subgraph_type="induced"``.
    transform : callable, optional
        Gets the batch, in the worker, and returns what the training loop gets. PyG's transforms
        get ``batch.to_pyg()``.
    batch_size : int
        Seeds in a batch.
    shuffle : bool
        Permute the seeds, anew in every pass.
    drop_last : bool
        Drop the last batch if it is short.
    seed : int, optional
        Order and draws are functions of (seed, epoch). Default: drawn from `generator`, or from
        torch's default generator, when the loader is made; so ``torch.manual_seed`` makes a run
        repeatable, and a loader that is made anew in every epoch does not repeat its batches.
    seed_weights : (num_seeds,) numbers or "balanced", optional
        The seeds of a pass are drawn in proportion to these, with replacement, in random order.
        "balanced": every label has the same share, and seeds without a label have none.
    prefetch : Prefetch, optional
        How pages are read ahead. Default: `Prefetch()`.
    gather : sequence of str, optional
        Names of the attributes that batches have; an empty list for structure only. Default: all.
    feature_dtype : {None, "float32"}
        "float32" converts narrower (or wider) features on the way.
    pad : "auto", mapping, or sequence of mappings, optional
        Fills mini-batches up to sizes that do not change, as in `NeighborDataset`.
    num_threads : int, optional
        Threads that prepare batches. Default: one in a worker, otherwise all processors.
    distributed, rank, world_size, even : optional
        Which ranks share an epoch, and how evenly, as in `NeighborDataset`. Ranks that share an
        epoch need a `seed`.
    device : torch device, optional
        Where batches come out, such as "cuda": they are sent while the model works on others, on a
        stream of its own, out of page-locked memory. `transform` gets what is on the device, or
        with workers what is sent. Default: the memory of the processor.
    device_cache : str, int or float, optional
        Rows that stay on the device, those that batches use most: bytes such as "4GB", or a
        fraction of the features. Only the others are sent. It needs features in hot order.
    num_workers, pin_memory, persistent_workers, prefetch_factor, timeout, worker_init_fn : optional
        As in torch's DataLoader.
    multiprocessing_context, generator : optional
        As in torch's DataLoader.
    Other arguments of PyG's loader and torch's DataLoader have no effect here, or are refused.

    Raises
    ------
    TypeError
        If an argument is unknown or refused; the message says what to use instead.
    ValueError, IndexError
        As in `NeighborDataset`; if there is no such split or node type; if an attribute cannot
        drive the sampling, or seeds have no times of their own; if ranks share the seeds, and no
        seed is given.
    """

    _options = NeighborLoaderOptions

    def __init__(
        self,
        dataset: Dataset | None = None,
        num_neighbors: object = None,
        input_nodes: object = None,
        **options: Unpack[NeighborLoaderOptions],
    ) -> None:
        arguments = self._arguments_of(
            dataset, options, num_neighbors=num_neighbors, input_nodes=input_nodes
        )
        ds = arguments.dataset
        seeds = as_seed_nodes(arguments.get("input_nodes"), ds)
        times = seed_times(ds, seeds, arguments.get("time_attr"), arguments.get("input_time"))
        source = NeighborDataset(
            ds,
            seeds,
            as_num_neighbors(arguments.get("num_neighbors")),
            input_time=times,
            batching=arguments.batching(),
        )
        seed_weights = arguments.get("seed_weights")
        if seed_weights is not None:
            labels = ds.nodes[seeds.node_type].attributes.get("y")
            of_seeds = None if labels is None else partial(labels.gather, seeds.ids)
            source.weigh_seeds(as_seed_weights(seed_weights, of_seeds))
        default = seeds.ids if seeds.is_mask else None
        input_id = as_input_ids(arguments.get("input_id"), default, source.num_seeds)
        self._begin(arguments, source, input_id)


class LinkNeighborLoader(SeedLoader):
    """A DataLoader of mini-batches around edges, with PyG's argument names.

    It is `LinkNeighborDataset` in a ``torch.utils.data.DataLoader``, and yields its batches byte
    for byte. What all arguments of PyG's ``LinkNeighborLoader`` mean here is in docs/loaders.md.
    Passes, seeds, workers, ranks and resuming are those of `NeighborLoader`.

    Parameters
    ----------
    dataset : Dataset
        From `graphzero.open`; also as ``data=``.
    num_neighbors : sequence of int, or mapping
        Neighbours per node in each hop, as in `NeighborLoader`; -1 for all.
    edge_label_index : (2, num_edges) integers, str, or pair, optional
        Seed edges: sources, destinations; or the name of an edge split. Default: all edges of the
        graph, both directions of an undirected edge. They take 16 bytes of memory each. In a typed
        graph a pair of an edge type and these (or None), or the edge type alone for all of its
        edges.
    edge_label : (num_edges, ...) numbers, optional
        Labels of the seed edges; see `LinkNeighborDataset`.
    edge_label_time : (num_edges,) integers, optional
        A time for each seed edge, whose trees have only edges up to it; `time_attr` needs it.
    neg_sampling : str, tuple, dict or object, optional
        "binary" or "triplet"; with an amount of negatives for each seed edge and weights of the
        nodes, (mode, amount, src_weight, dst_weight), a dict of these, or PyG's
        ``NegativeSampling``.
    neg_sampling_ratio : float, optional
        The same as ``("binary", ratio)``.
    exclude_seed_edges : bool or list of edge types
        Whether mini-batches lack the edges between both ends of their seed edges; see
        `LinkNeighborDataset`.
    input_id : (num_edges,) integers, optional
        What ``batch.input_id`` has instead of positions of the seed edges.
    seed_weights : (num_edges,) numbers, optional
        Seed edges are drawn in proportion, with replacement, anew in every pass. "balanced" needs
        `edge_label`, and gives each of its values the same share.
    **options
        All others as in `NeighborLoader`.

    Raises
    ------
    TypeError
        If an argument is unknown or refused; the message says what to use instead.
    ValueError, IndexError
        As in `LinkNeighborDataset`; if an attribute cannot drive the sampling; if ranks share the
        seeds, and no seed is given.
    """

    _options = LinkNeighborLoaderOptions

    def __init__(
        self,
        dataset: Dataset | None = None,
        num_neighbors: object = None,
        edge_label_index: object = None,
        edge_label: object = None,
        **options: Unpack[LinkNeighborLoaderOptions],
    ) -> None:
        arguments = self._arguments_of(
            dataset,
            options,
            num_neighbors=num_neighbors,
            edge_label_index=edge_label_index,
            edge_label=edge_label,
        )
        ds = arguments.dataset
        time_attr, edge_label_time = arguments.get("time_attr"), arguments.get("edge_label_time")
        if sampling_attribute(ds, "time_attr", time_attr) and edge_label_time is None:
            raise ValueError(
                f"time_attr={time_attr!r} needs a time for each seed edge: give edge_label_time"
            )
        seeds = as_seed_edges(arguments.get("edge_label_index"), ds)
        seed_weights, edge_label = arguments.get("seed_weights"), arguments.get("edge_label")
        if not isinstance(seed_weights, str):
            seeds.require_order("seed_weights", seed_weights)
        seeds.require_order("input_id", arguments.get("input_id"))
        source = LinkNeighborDataset(
            ds,
            seeds,
            as_num_neighbors(arguments.get("num_neighbors")),
            edge_label=edge_label,
            edge_label_time=edge_label_time,
            neg_sampling=as_negative_options(
                arguments.get("neg_sampling"), arguments.get("neg_sampling_ratio")
            ),
            exclude_seed_edges=arguments.values.get("exclude_seed_edges", False),
            batching=arguments.batching(),
        )
        if seed_weights is not None:
            labels = None if edge_label is None else partial(as_array, edge_label)
            source.weigh_seeds(as_seed_weights(seed_weights, labels))
        input_id = as_input_ids(arguments.get("input_id"), None, source.num_seeds)
        self._begin(arguments, source, input_id)
