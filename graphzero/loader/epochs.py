"""Which epoch a pass over a dataset has, and which rank and worker this process is.

A pass in the process that made the dataset is the epoch after the one before. DataLoader workers
know less: torch calls no method of the dataset in the process that starts them. All workers of a
pass share torch's base seed, and how many passes they have begun; that identifies the pass. An
epoch that `set_epoch` or `resume` has chosen is for one pass of them: the worker that comes first
writes down, in a few numbers of shared memory, which pass that is.

A state says how far an epoch has come, as a plain dict for a checkpoint. It also holds the options
that make the batches (seed, fanouts, ...) and a fingerprint of the graph: only the same dataset,
seeds and options give the remaining batches.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from multiprocessing.context import get_spawning_popen
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import get_worker_info

from graphzero.graph.user_input import as_threads
from graphzero.sampling.order import Share, even_rounds
from graphzero.units import MOST_COUNT, as_count

VERSION = 2
GRAPH = "graph"  # the option that identifies it

State = dict[str, Any]
# A process that spawns DataLoader workers, and its rank and world size, which these do not have.
ParentGroup = tuple[int, tuple[int, int] | None] | None


@dataclass(frozen=True)
class Position:
    """Where an epoch is resumed, over all ranks and workers.

    Attributes
    ----------
    epoch : int
    batches : int
        Batches of the epoch that are done: the first ones in its order.
    """

    epoch: int
    batches: int

    def state(self, options: Mapping[str, Any]) -> State:
        """The dict to store; `options` are what the batches are a function of."""
        return {"version": VERSION, **asdict(self), "options": dict(options)}


@dataclass(frozen=True)
class Progress:
    """How far one worker of one rank has come.

    Attributes
    ----------
    epoch : int
    first : int
        Batches of the epoch that were done, over all ranks, when the iteration began.
    taken : int
        Batches that this worker has handed out since, without those that it has only prepared.
    share : Share
    """

    epoch: int
    first: int
    taken: int
    share: Share

    def state(self, options: Mapping[str, Any]) -> State:
        """The dict to store; `options` are what the batches are a function of."""
        numbers = {"epoch": self.epoch, "first": self.first, "taken": self.taken}
        return {"version": VERSION, **numbers, **asdict(self.share), "options": dict(options)}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The options that differ, by name, with both values."""
    return [
        f"{name} ({before.get(name)!r}, now {now.get(name)!r})"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _check(state: Mapping[str, Any], kind: str, options: Mapping[str, Any]) -> None:
    """Refuses what is no state that has a number of some kind, or was taken with other options."""
    taken_with = state.get("options") if isinstance(state, Mapping) else None
    if not isinstance(taken_with, Mapping) or kind not in state:
        raise ValueError(
            "this state is of another kind: resume takes what state_after, or a ready-made "
            "loader's state_dict, has given; a StatefulDataLoader's load_state_dict its own state"
        )
    if state.get("version") != VERSION:  # 1 did not say which graph it was taken on
        raise ValueError(
            f"a state of version {state.get('version')!r} cannot be resumed here, where states "
            f"have version {VERSION}: begin its epoch anew, with set_epoch({state.get('epoch')!r})"
        )
    if differing := differences(taken_with, options):
        raise ValueError(
            f"the state was taken with other options: {', '.join(differing)} (graph: other edges, "
            "or nodes in another order). The remaining batches need those of the batches before "
            "them: resume with the same dataset and options, or begin the epoch anew with set_epoch"
        )


def _count(state: Mapping[str, Any], name: str, most: int = MOST_COUNT) -> int:
    value = state.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} of the state must be an integer from 0 to {most}, not {value!r}")
    return value


def read_progress(
    state: Mapping[str, Any], options: Mapping[str, Any], total: int, share: Share
) -> Progress:
    """The progress in an iterator's state, checked.

    Parameters
    ----------
    state : mapping
        From `Progress.state`.
    options : mapping
        What the batches are a function of now.
    total : int
        Batches in an epoch, over all ranks.
    share : Share
        Of this iterator: another one would have other batches.

    Raises
    ------
    ValueError
        If it is not such a state, or was taken with other options; names them.
    """
    _check(state, "taken", options)
    epoch, first = _count(state, "epoch"), _count(state, "first", total)
    if differing := differences({name: state.get(name) for name in asdict(share)}, asdict(share)):
        raise ValueError(
            f"the state was taken by another worker or rank: {', '.join(differing)}. Resume with "
            f"as many ranks and workers, or begin the epoch anew with set_epoch({epoch}); states "
            f"of state_after fit any number of them"
        )
    return Progress(epoch, first, _count(state, "taken", total), share)


def read_position(state: Mapping[str, Any], options: Mapping[str, Any], total: int) -> Position:
    """The position over all ranks in a state, checked: see `read_progress`.

    Parameters
    ----------
    state : mapping
        From `Position.state`.
    options : mapping
    total : int

    Raises
    ------
    ValueError
    """
    _check(state, "batches", options)
    return Position(_count(state, "epoch"), _count(state, "batches", total))


MOST_EPOCH = 1 << 62
_TOLERATED = 0.05  # of an epoch may be repeated or left out without a warning

# Places in the shared numbers: the process that owns them, the number of the last choice of an
# epoch, whether workers have begun passes of unknown epochs since, whether a warning was given, and
# which epoch the states have that the workers of which pass have loaded.
_OWNER, _CHOICES, _UNKNOWN, _WARNED, _LOADED, _LOADED_BY, _CHOICE = range(7)
# The last choices, each with its number, the epoch, batches of it that are done, who has made it
# (nobody, a pass that counts on from a choice, or `set_epoch` or `resume`), and the key of the pass
# of workers that has it, so that all of them find the same, and no other pass has it as well.
_NOBODY, _COUNTED, _CHOSEN = range(3)
_KEPT_CHOICES = 8
_KEY = 4


@dataclass(frozen=True)
class Pass:
    """A pass that this process has begun.

    Attributes
    ----------
    position : Position
        Where it began.
    choice : int
        The choice of an epoch that it follows; -1 if there was none.
    is_chosen : bool
        Whether that was `set_epoch` or `resume`.
    key : int
        The same for all workers of the pass; 0 without workers.
    """

    position: Position
    choice: int = -1
    is_chosen: bool = False
    key: int = 0


class Epochs:
    """The epoch of the next pass over a dataset, and of those that have begun.

    Every copy, and every process that is not a DataLoader worker, counts by itself.
    """

    _shared: torch.Tensor
    _running: Position | None  # where the last pass of this process began, or one that was chosen

    def __init__(self) -> None:
        self.__setstate__({"start": Position(0, 0), "made_by": _NOBODY, "choice": 0})

    def _make(self) -> None:
        self._shared = torch.zeros(_CHOICE + 5 * _KEPT_CHOICES, dtype=torch.int64)
        self._shared.share_memory_()  # type: ignore[no-untyped-call]
        self._shared[_OWNER] = os.getpid()
        self._write(self._start, self._made_by, self._choice)

    def _write(self, start: Position, made_by: int, choice: int) -> None:
        self._start, self._made_by, self._choice = start, made_by, choice  # for forked processes
        numbers = self._shared.numpy()
        _row(numbers, choice)[:] = (choice, start.epoch, start.batches, made_by, 0)
        numbers[_CHOICES], numbers[_UNKNOWN] = choice, 0

    def _numbers(self) -> npt.NDArray[np.int64] | None:
        """Those that this process shares with its workers, or as a worker with its parent."""
        parent = multiprocessing.parent_process() if in_worker() else None
        for shared in (self._shared, self._inherited):
            if shared is not None and shared[_OWNER] == (parent.pid if parent else os.getpid()):
                return shared.numpy()
        if in_worker():
            return None
        self._make()  # it was forked from the owner
        return self._shared.numpy()

    @property
    def next(self) -> Position:
        """Where the next pass begins, as far as this process knows."""
        numbers = self._numbers()
        is_taken = numbers is not None and _row(numbers, self._choice)[_KEY]
        return Position(self._start.epoch + 1, 0) if is_taken else self._start

    def last(self) -> Position:
        """Where the last pass began that has given a batch.

        Raises
        ------
        RuntimeError
            If DataLoader workers may have begun it, so that its epoch is not known here.
        """
        numbers = self._numbers()
        if numbers is None or numbers[_UNKNOWN] or self._running is None:
            raise RuntimeError(
                "The epoch of the running pass is not known in this process. Call set_epoch before "
                "each pass of a DataLoader with workers."
            )
        return self._running

    def choose(self, position: Position) -> None:
        """The next pass begins at a position.

        Raises
        ------
        ValueError
            If there is no such epoch.
        RuntimeError
            In a DataLoader worker.
        """
        if position.epoch > MOST_EPOCH:
            raise ValueError(f"epoch must be at most {MOST_EPOCH}, not {position.epoch}")
        if in_worker():
            raise RuntimeError(
                "set_epoch was called in a DataLoader worker, and the other workers of the pass "
                "do not know about it: call set_epoch in the process that iterates over the "
                "DataLoader"
            )
        self._go_on(position, _CHOSEN, running=position)

    def _go_on(self, start: Position, made_by: int, *, running: Position) -> None:
        self._numbers()  # of this process
        self._write(start, made_by, self._choice + 1)
        self._running = running

    def begin(self, *, shared_by_ranks: bool) -> Pass:
        """Begins a pass in this process, which may be one of several workers.

        Raises
        ------
        RuntimeError
            If `set_epoch` is needed, because ranks share the epoch or the choice of another
            process is not known here.
        """
        numbers, info = self._numbers(), get_worker_info()
        here, made_by, choice = self._start, self._made_by, self._choice
        if info is None:
            here = self.next
            self._go_on(Position(here.epoch + 1, 0), min(made_by, _COUNTED), running=here)
            return Pass(here, choice, made_by == _CHOSEN)
        # An epoch that is chosen after the workers were started is not for their first pass.
        if self._passes > 0 and numbers is not None:
            choice, epoch, batches, made_by, _ = _row(numbers, int(numbers[_CHOICES])).tolist()
            here = Position(epoch, batches)
        key = _hash(info.seed - info.id, self._passes)
        self._passes += 1
        if made_by == _NOBODY:
            if shared_by_ranks:
                raise RuntimeError(
                    "Several ranks share the epoch, and their DataLoader workers do not know "
                    "which one it is: call set_epoch before each pass, on all ranks alike."
                )
            if numbers is not None:
                numbers[_UNKNOWN] = 1
            return Pass(Position(key, 0), key=key)
        if numbers is None:
            raise RuntimeError(
                "The epoch was chosen in another process, from which this one was forked: call "
                "set_epoch in the process that iterates over the DataLoader."
            )
        row = _row(numbers, choice)
        if row[0] == choice and row[_KEY] == 0:
            row[_KEY] = key  # otherwise `check` refuses it: torch loses errors of a later pass here
        return Pass(here, choice, made_by == _CHOSEN, key)

    def check(self, begun: Pass) -> None:
        """Refuses a pass of workers that has no epoch of its own.

        Raises
        ------
        RuntimeError
            If two passes have begun after one choice of an epoch, or an epoch was chosen while
            persistent workers began a pass.
        """
        numbers = self._numbers()
        if numbers is None:
            return
        for choice, *_, key in numbers[_CHOICE:].reshape(_KEPT_CHOICES, 5).tolist():
            if key and (choice == begun.choice) != (key == begun.key):
                raise RuntimeError(
                    "It is not clear which epoch this pass has: another pass of DataLoader workers "
                    "has the epoch that was chosen, or set_epoch was called while its workers "
                    "began it. Workers do not count: call set_epoch before iter(), once for each "
                    "pass."
                )

    def load(self, begun: Pass, progress: Progress, has_more: bool) -> None:
        """A pass of this process goes on with a state: the pass after it is the next epoch.

        If the epoch of the pass had been chosen, and the state is of another one, the chosen one is
        still to come; so is the same one, if nothing is left of it in the state (a
        StatefulDataLoader then begins another pass). After a pass of workers, torch's seed or
        `set_epoch` tells what the next one is, as ever.

        Raises
        ------
        RuntimeError
            If another worker of the pass has loaded a state of another epoch.
        """
        is_same = has_more and begun.position.epoch == progress.epoch
        is_to_come = begun.is_chosen and not is_same
        if not in_worker():
            start = begun.position if is_to_come else Position(progress.epoch + 1, 0)
            running = Position(progress.epoch, progress.first)
            self._go_on(start, _CHOSEN if is_to_come else _COUNTED, running=running)
        elif (numbers := self._numbers()) is not None:
            if numbers[_LOADED_BY] == begun.key and numbers[_LOADED] != progress.epoch:
                raise RuntimeError(
                    f"the workers of one pass have loaded states of the epochs {numbers[_LOADED]} "
                    f"and {progress.epoch}: load the state of one DataLoader"
                )
            numbers[_LOADED] = progress.epoch
            numbers[_LOADED_BY] = begun.key
            numbers[_UNKNOWN] = 1
            if is_to_come:
                _row(numbers, begun.choice)[_KEY] = 0

    def warn_once(self) -> bool:
        """Whether this is the first call in this process and its workers."""
        numbers = self._numbers()
        if numbers is None or numbers[_WARNED]:
            return False
        numbers[_WARNED] = 1
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Of copies, which count by themselves, and of what workers get that are spawned."""
        state = {"start": self.next, "made_by": self._made_by, "choice": self._choice}
        if is_spawning():
            state |= {"start": self._start, "shared": self._shared}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._start, self._made_by = state["start"], state["made_by"]
        self._choice = state["choice"]
        self._running = self._start if self._made_by == _CHOSEN else None
        self._passes = 0  # of this process as a worker
        self._inherited: torch.Tensor | None = state.get("shared")  # of a worker
        self._make()


def _row(numbers: npt.NDArray[np.int64], choice: int) -> npt.NDArray[np.int64]:
    at = _CHOICE + 5 * (choice % _KEPT_CHOICES)
    return numbers[at : at + 5]


def _hash(seed: int, nth: int) -> int:
    digest = hashlib.blake2b(f"{seed} {nth}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % MOST_EPOCH


# --- ranks and workers


@dataclass(frozen=True)
class Ranks:
    """The options `distributed`, `rank`, `world_size` and `even` of a dataset, checked.

    Attributes
    ----------
    distributed : bool or None
        True if `rank` and `world_size` are given.
    rank, world_size : int or None
        Those of the user, instead of those of ``torch.distributed``.
    even : bool

    Raises
    ------
    ValueError
        If an option is invalid or contradicts another.
    """

    distributed: bool | None = None
    rank: int | None = None
    world_size: int | None = None
    even: bool = True

    def __post_init__(self) -> None:
        if self.distributed is not None and not isinstance(self.distributed, bool):
            raise ValueError(f"distributed must be True, False or None, not {self.distributed!r}")
        if not isinstance(self.even, bool):
            raise ValueError(f"even must be True or False, not {self.even!r}")
        if self.rank is None and self.world_size is None:
            return
        if self.rank is None or self.world_size is None:
            raise ValueError("rank and world_size belong together: give both or neither")
        if self.distributed is False:
            raise ValueError(
                f"distributed=False gives this process all seeds, and rank={self.rank} a share of "
                f"them: leave one out"
            )
        world_size = as_count(self.world_size, "world_size")
        rank = as_count(self.rank, "rank", 0)
        if rank >= world_size:
            raise ValueError(f"rank must be below world_size={world_size}, not {rank}")
        for name, value in (("rank", rank), ("world_size", world_size), ("distributed", True)):
            object.__setattr__(self, name, value)

    def find(self, parent: ParentGroup) -> tuple[int, int]:
        """Rank of this process, and the number of ranks that share an epoch.

        Parameters
        ----------
        parent : ParentGroup
            That of the process that spawned this one.

        Raises
        ------
        ValueError
            If there are several ranks, and the user has not said whether they share the epoch; or
            has, and they are not known because no process group is initialised.
        """
        if self.rank is not None and self.world_size is not None:
            return self.rank, self.world_size
        if self.distributed is False:
            return 0, 1
        group = group_of_worker(parent)
        count = launched_processes() if group is None else group[1]
        if count == 1:
            return 0, 1
        if self.distributed is None:
            raise ValueError(
                f"this process is one of {count} ranks: say whether they share the seeds. "
                f"distributed=True deals the batches to the ranks; distributed=False gives this "
                f"rank all its seeds, because you have split them already or this rank works alone"
            )
        if group is None:
            raise ValueError(
                f"distributed=True needs the rank, and torch.distributed is not initialised, "
                f"although torchrun has started {count} processes: call init_process_group before "
                f"the first batch, or give rank= and world_size="
            )
        return group

    def check_rounds(
        self, num_batches: int, rank: int, world_size: int, drop_last: bool, epochs: Epochs
    ) -> None:
        """Raises an error if `even` leaves no batch; rank 0 warns once if it changes much.

        `num_batches` are those of an epoch over all ranks.

        Raises
        ------
        ValueError
            If there are fewer batches than ranks, and they are dropped.
        """
        if not self.even or world_size == 1:
            return
        if drop_last and num_batches < world_size:
            raise ValueError(
                f"drop_last=True leaves no batch: an epoch has {num_batches} full batches, and "
                f"{world_size} ranks get equally many. Choose a smaller batch_size, "
                f"drop_last=False, or, if there is a full batch, even=False"
            )
        extra = even_rounds(num_batches, world_size, drop_last)
        if rank == 0 and abs(extra) > _TOLERATED * num_batches and epochs.warn_once():
            does = "leaves out" if drop_last else "repeats"
            warnings.warn(
                f"an epoch has {num_batches} batches, and {world_size} ranks get "
                f"{(num_batches + extra) // world_size} each: even=True {does} {abs(extra)} "
                f"({abs(extra) / num_batches:.0%}). A smaller batch_size makes this a smaller "
                f"part; for evaluation, even=False gives every seed once",
                stacklevel=4,
            )


def is_spawning() -> bool:
    """Whether objects are now pickled for a process that this one starts."""
    return get_spawning_popen() is not None


def group_for_workers() -> ParentGroup:
    """What objects hand to the worker that they are pickled for; None where there is none."""
    return (os.getpid(), current_group()) if is_spawning() else None


def current_group() -> tuple[int, int] | None:
    """(rank, world size) of the initialised ``torch.distributed`` group; None without one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return None


def group_of_worker(parent_group: ParentGroup) -> tuple[int, int] | None:
    """That of the parent in a spawned DataLoader worker; elsewhere that of this process."""
    parent = multiprocessing.parent_process()
    if in_worker() and parent and parent_group and parent_group[0] == parent.pid:
        return parent_group[1]
    return current_group()


def launched_processes() -> int:
    """How many processes torchrun has started; 1 without it."""
    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        return int(os.environ.get("WORLD_SIZE", "1"))
    return 1


def current_share(rank: int, world_size: int) -> Share:
    """The share of this process: rank and world size as given, worker from the DataLoader."""
    worker = get_worker_info()
    if worker is None:
        return Share(rank, world_size)
    return Share(rank, world_size, worker.id, worker.num_workers)


def in_worker() -> bool:
    """Whether this process is a DataLoader worker."""
    return get_worker_info() is not None


def default_threads(num_threads: int | None) -> int:
    """As requested; by default one in a DataLoader worker, all processors in the main process."""
    return 1 if num_threads is None and in_worker() else as_threads(num_threads)
