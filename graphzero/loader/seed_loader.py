"""`SeedLoader`: what the ready-made DataLoaders have in common."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch.utils.data

from graphzero.graph.ids import IdArray, as_ids
from graphzero.loader.collate import Collate
from graphzero.loader.given import as_dataset, as_loader_seed
from graphzero.loader.loop_clock import LoopClock
from graphzero.loader.mini_batch import MiniBatch
from graphzero.loader.passes import MOST_EPOCH
from graphzero.loader.pyg_arguments import check_keywords
from graphzero.loader.resume import Position, State
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.loader.tickets import REMADE, Pass, SeedBatchSampler, Seeds, seed_sampler
from graphzero.loader.typed_mini_batch import TypedMiniBatch
from graphzero.loader.world import default_threads

__all__ = ["SeedLoader"]

_OF_TORCH = (
    *("num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context"),
    *("generator", "prefetch_factor", "persistent_workers"),
)
_NOT_OF_TWIN = {"_twin", "collate_fn", "_iterator", "_delivered"}
_NO_EPOCH = MOST_EPOCH + 1  # of batches that belong to no epoch


@dataclass
class _Delivered:
    """How many mini-batches of a pass the training loop was given."""

    run: Pass
    taken: int = 0

    @property
    def position(self) -> Position:
        """Where the epoch is resumed; the beginning of the next one, if it is at its end."""
        progress = self.run.progress
        if self.taken >= self.run.total:
            return Position(progress.epoch + 1, 0)
        return Position(progress.epoch, progress.first + self.taken * progress.share.world_size)


class _Counting(Iterator[Any]):
    """An iterator of the DataLoader that counts what the training loop is given, and times it."""

    def __init__(
        self,
        loader: SeedLoader,
        iterator: Iterator[Any],
        delivered: _Delivered,
        clock: LoopClock,
    ) -> None:
        self._loader = loader
        self._iterator = iterator
        self._delivered = delivered
        self._clock = clock

    def __iter__(self) -> _Counting:
        return self

    def __next__(self) -> Any:
        self._loader._check_current(self._delivered)
        output = self._clock.next_of(self._iterator)
        self._delivered.taken += 1
        self._clock.handed(self._delivered.run.progress.epoch)
        return output


class SeedLoader(torch.utils.data.DataLoader[Any]):
    """A DataLoader that makes its dataset and collate function itself.

    A subclass keeps all arguments as attributes of their names, because Lightning makes loaders
    anew from these, and calls `_set_up`.

    Attributes
    ----------
    dataset : Seeds
        Its length is the number of seeds.
    batch_size : int
        Seeds in a batch.
    seed : int
        Of the order and the draws.
    """

    _kind: str  # "NeighborLoader" or "LinkNeighborLoader", also in classes derived from them
    _source: SeedDataset
    _tickets: SeedBatchSampler
    seed: int
    transform: Callable[[Any], Any] | None

    def _take(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checks the arguments of a subclass, and keeps them as attributes.

        Parameters
        ----------
        arguments : mapping
            All names in its ``__init__``: also ``self``, and ``other`` with further keywords.

        Returns
        -------
        dict
            Without these; the dataset open, the seed drawn.
        """
        taken = dict(arguments)
        other = dict(taken.pop("other"))
        del taken["self"]
        self._batch_sampler = other.pop("batch_sampler", None)
        if isinstance(getattr(other.get("collate_fn"), "__self__", None), SeedLoader):
            del other["collate_fn"]  # Lightning gives all attributes of another loader
        check_keywords(self._kind, other, taken)
        if "data" in other and taken["dataset"] is not None:
            raise TypeError("dataset and data are two names of one argument: give one of them")
        taken["dataset"] = as_dataset(other.get("data", taken["dataset"]))
        if self._batch_sampler is not None:
            own = own_batch_sampler(self._batch_sampler)
            taken.update(batch_size=own.batch_size, drop_last=own.drop_last)
        self._draws_seed = taken["seed"] is None
        dealt = bool(taken["distributed"]) or taken["rank"] is not None
        taken["seed"] = as_loader_seed(taken["seed"], taken["generator"], dealt)
        for name, value in taken.items():
            if name not in (*_OF_TORCH, "dataset", "batch_size", "drop_last"):
                setattr(self, name, value)
        return taken

    def _set_up(
        self, source: SeedDataset, input_id: IdArray | None, arguments: Mapping[str, Any]
    ) -> None:
        """Makes the DataLoader.

        Parameters
        ----------
        source : SeedDataset
        input_id : (num_seeds,) array or None
            What ``input_id`` of the batches has instead of positions.
        arguments : mapping
            From `_take`.
        """
        self._collate = Collate(source.dataset)
        self._input_id = input_id
        self._delivered: _Delivered | None = None
        self._attach(source)
        batch_sampler = self.__dict__.pop("_batch_sampler")
        if batch_sampler is not None:
            sampler = self._tickets.sampler
            self._tickets = own_batch_sampler(batch_sampler)
            self._tickets.bind(sampler)
        self._twin = self._new_twin()
        super().__init__(
            self._seeds,
            batch_sampler=cast(Any, self._tickets if batch_sampler is None else batch_sampler),
            collate_fn=self._twin._finish,
            **{name: arguments[name] for name in _OF_TORCH},
        )
        # torch knows these only of loaders that make batches out of single items
        self.__dict__.update(
            batch_size=source.batch_size, drop_last=source.drop_last, sampler=self._tickets.sampler
        )

    def _new_twin(self) -> SeedLoader:
        """An object with the same attributes, whose method is the collate function.

        A method of the loader itself would make a circle of references: the workers of a loader
        that is dropped would go on until the garbage collector finds it.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(
            {name: value for name, value in self.__dict__.items() if name not in _NOT_OF_TWIN}
        )
        return twin

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if "_twin" in self.__dict__ and name not in _NOT_OF_TWIN:
            self._twin.__dict__[name] = value

    def _attach(self, source: SeedDataset) -> None:
        self._source = source
        self._seeds = Seeds(source)
        self._tickets = SeedBatchSampler(
            seed_sampler(self._seeds), source.batch_size, source.drop_last
        )

    def _finish(self, sampled: Any) -> Any:
        """The collate function: what the training loop gets for a sampled mini-batch."""
        if not isinstance(sampled, SampledBatch):
            raise RuntimeError(REMADE)
        batch = self._collate(sampled)
        if self._input_id is not None:
            batch.input_id = torch.from_numpy(self._input_id[sampled.input_id])
        output = self._make_output(batch)
        return output if self.transform is None else self.transform(output)

    def _make_output(self, batch: MiniBatch | TypedMiniBatch) -> Any:
        """What `transform` and the training loop get for a mini-batch; for subclasses."""
        return batch

    def __iter__(self) -> Any:
        """Begins a pass, the next epoch."""
        clock = LoopClock()
        with clock.starting():
            run = self._tickets.begin()
            self._delivered = delivered = _Delivered(run)
            with self._tickets.reserved(run):
                iterator = super().__iter__()
        return _Counting(self, iterator, delivered, clock)

    def _check_current(self, delivered: _Delivered) -> None:
        """Persistent workers serve one pass at a time."""
        if self._iterator is not None and delivered is not self._delivered:
            raise RuntimeError(
                "another pass over this loader has begun, and its persistent workers serve one "
                "pass at a time: end this one first, or use persistent_workers=False"
            )

    def __call__(self, index: Any) -> Any:
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
        sampled = source.sample(positions, epoch=_NO_EPOCH, batch=0)
        return self._finish(source.with_rows(sampled, default_threads(source.num_threads)))

    @property
    def epoch(self) -> int:
        """The epoch of the next pass: while a pass runs, of the one after it."""
        return self._source.epoch

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

        Raises
        ------
        RuntimeError
            If the last pass began in a DataLoader that a library has made of this one's parts.
        """
        if not self._tickets.counts:
            raise RuntimeError(
                "a library has put the parts of this loader into a DataLoader of its own, so that "
                "it is unknown how many batches the loop was given: iterate over the loader itself"
            )
        position = self._source.position if self._delivered is None else self._delivered.position
        return position.state(self._source.state_options)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
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
        source = self._source
        before = self.seed
        if self._draws_seed:
            self._reseed(_seed_of(state_dict, before))
        try:
            source.resume(state_dict)
        except ValueError:
            self._reseed(before)
            raise
        here = source.position
        if here.batches >= source.num_batches > 0:
            source.set_epoch(here.epoch + 1)
        self._delivered = None
        self._tickets.counts = True

    def _reseed(self, seed: int) -> None:
        if seed != self.seed:
            self.seed = seed
            self._source.reseed(seed)
            self._iterator = None  # persistent workers have the former seed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None, "_delivered": None}

    def __copy__(self) -> SeedLoader:
        copied = self.__class__.__new__(self.__class__)
        copied.__dict__.update(self.__getstate__())
        copied._attach(copy.copy(self._source))
        copied._twin = copied._new_twin()
        copied.__dict__.update(
            dataset=copied._seeds,
            batch_sampler=copied._tickets,
            sampler=copied._tickets.sampler,
            collate_fn=copied._twin._finish,
        )
        return copied


def _seed_of(state: Mapping[str, Any], default: int) -> int:
    options = state.get("options") if isinstance(state, Mapping) else None
    seed = options.get("seed") if isinstance(options, Mapping) else None
    return seed if isinstance(seed, int) else default


def own_batch_sampler(batch_sampler: Any) -> SeedBatchSampler:
    """The batch sampler of a loader, within what Lightning has put around it.

    Raises
    ------
    TypeError
        If it is another one.
    """
    found = batch_sampler
    while not isinstance(found, SeedBatchSampler):
        found = getattr(found, "_batch_sampler", None)
        if found is None:
            raise TypeError(
                "a loader takes no batch_sampler: use batch_size, shuffle and drop_last"
            )
    return found
