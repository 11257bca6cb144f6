"""Which epoch a pass over a dataset has, and which rank and worker this process is.

A pass in the process that made the dataset is the epoch after the one before. DataLoader workers
know less: torch calls no method of the dataset in the process that starts them. All workers of a
pass share torch's base seed, and how many passes they have begun; that identifies the pass. After
`set_epoch` or `resume` passes are counted, in a few numbers of shared memory: the worker of a pass
that comes first writes down its epoch for the others.

A state says how far an epoch has come, as a plain dict for a checkpoint. It also holds the options
that make the batches (seed, fanouts, ...) and a fingerprint of the graph: only the same dataset,
seeds and options give the remaining batches.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import warnings
from collections.abc import Iterator, Mapping
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
            "this is no state of these loaders: resume takes what state_after, a ready-made "
            "loader's state_dict or that of a StatefulDataLoader has given"
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
            f"the state was taken by another worker or rank: {', '.join(differing)}. Give the "
            f"state of the DataLoader of rank 0 to resume of the dataset, which takes it with any "
            f"number of ranks and workers, or begin the epoch anew with set_epoch({epoch})"
        )
    return Progress(epoch, first, _count(state, "taken", total), share)


def read_position(state: Mapping[str, Any], options: Mapping[str, Any], total: int) -> Position:
    """The position over all ranks in a state, checked: see `read_progress`.

    Parameters
    ----------
    state : mapping
        From `Position.state`, or from a ``StatefulDataLoader``: it holds `Progress.state` of all
        workers of a rank, with which the others are in step.
    options : mapping
    total : int

    Raises
    ------
    ValueError
    """
    try:
        workers = list(_having("taken", state))
    except RecursionError:
        raise ValueError("the state is nested too deeply: it is not that of a DataLoader") from None
    if not workers:
        _check(state, "batches", options)
        return Position(_count(state, "epoch"), _count(state, "batches", total))
    for each in workers:
        _check(each, "taken", options)
    first, shares = workers[0], {_count(each, "worker") for each in workers}
    same = ("epoch", "first", "rank", "world_size", "num_workers")
    is_one = all(each.get(name) == first.get(name) for each in workers for name in same)
    count = _count(first, "num_workers")
    if not is_one or count != len(workers) or shares != set(range(len(workers))):
        raise ValueError("the state must hold all workers of one rank, in the same epoch")
    taken = sum(_count(each, "taken", total) for each in workers)
    since = "_steps_since_snapshot"  # of the workers' states, which a StatefulDataLoader counts
    taken += sum(_count(each, since, total) for each in _having(since, state))
    done = _count(first, "first", total) + taken * _count(first, "world_size")
    return Position(_count(first, "epoch"), min(total, done))


def _having(name: str, state: Any) -> Iterator[Mapping[str, Any]]:
    """Mappings with a name, at any depth: how a DataLoader nests states may change."""
    if isinstance(state, Mapping):
        if name in state:
            yield state
        for value in state.values():
            yield from _having(name, value)


MOST_EPOCH = 1 << 62
MOST_COUNTED = 1 << 48  # larger ones follow from torch's seed: see `Epochs.begin`
_TOLERATED = 0.05  # of an epoch may be repeated or left out without a warning

# Places in the shared numbers: the process that owns them, the number of the last chosen epoch,
# whether workers have begun passes of unknown epochs since, whether a warning was given, and one
# more than the number of the pass whose state before its first batch was given; 0 for none.
_OWNER, _CHOICES, _UNKNOWN, _WARNED, _STATED = range(5)
# The last choices, each with: the epoch of its first pass, batches of an epoch that are done before
# the pass of a number, this number, and who has made it: nobody, `set_epoch` or `resume`, the state
# that the pass of this number has loaded, or `set_epoch` for the pass after that one.
_NOBODY, _CHOSEN, _LOADED, _TO_COME = range(4)
_CHOICE, _KEPT_CHOICES = 5, 8
# The last passes: choice, number of the pass since then, and key of the pass, in one number each,
# so that several workers may write it at the same time.
_PASS, _KEPT_PASSES = _CHOICE + 4 * _KEPT_CHOICES, 16
_SIZE = _PASS + _KEPT_PASSES
_KEY_BITS, _PASS_BITS = 36, 16


@dataclass(frozen=True)
class Pass:
    """A pass that this process has begun.

    Attributes
    ----------
    position : Position
        Where it began.
    choice : int
        The choice of an epoch that it follows; -1 if there was none.
    number : int
        Passes between that choice and this one.
    key : int
        The same for all workers of the pass.
    """

    position: Position
    choice: int
    number: int
    key: int

    @property
    def written(self) -> int:
        """The pass as the shared memory has it."""
        choice = (self.choice % 1024 + 1) << (_KEY_BITS + _PASS_BITS)
        return choice | (self.number % (1 << _PASS_BITS)) << _KEY_BITS | self.key


class Epochs:
    """The epoch of the next pass over a dataset, and of those that have begun.

    Every copy, and every process that is not a DataLoader worker, counts by itself.
    """

    _begun: tuple[int, int]  # this process, and the passes that it has begun

    def __init__(self) -> None:
        self.__setstate__({"start": Position(0, 0), "is_chosen": False})

    def _make(self, start: Position, is_chosen: bool, choice: int) -> None:
        self._shared = torch.zeros(_SIZE, dtype=torch.int64)
        self._shared.share_memory_()  # type: ignore[no-untyped-call]
        self._own = self._shared.numpy()
        self._own[_OWNER] = os.getpid()
        self._choice = choice
        self._write_choice(self._own, start, is_chosen)

    def _write_choice(
        self, numbers: npt.NDArray[np.int64], start: Position, is_chosen: bool
    ) -> None:
        self._start, self._is_chosen = start, is_chosen  # for processes that are forked
        numbers[_row(self._choice)] = (start.epoch, start.batches, 0, is_chosen)
        numbers[_CHOICES] = self._choice
        numbers[_UNKNOWN] = numbers[_STATED] = 0

    def _numbers(self) -> npt.NDArray[np.int64] | None:
        """Those that this process shares with its workers, or as a worker with its parent."""
        owner = os.getpid()
        if in_worker():
            parent = multiprocessing.parent_process()
            owner = os.getppid() if parent is None or parent.pid is None else parent.pid
        for numbers in (self._own, self._inherited):
            if numbers is not None and numbers[_OWNER] == owner:
                return numbers
        if in_worker():
            return None
        self._make(self._start, self._is_chosen, self._choice)  # it was forked from the owner
        return self._own

    @property
    def next(self) -> Position:
        """Where the next pass begins, as far as this process knows."""
        numbers = self._numbers()
        return self._start if numbers is None else _position(numbers, *_last(numbers, after=1))

    def last(self, taken: int) -> Position:
        """Where the last pass began, or the next one will if none has begun since a choice.

        Before its first batch is taken, its workers may not have written down yet that there is
        such a pass. The number of the pass that this answers for is noted: workers do not begin
        another one then.

        Raises
        ------
        RuntimeError
            If DataLoader workers may have begun it, so that its epoch is not known here.
        """
        numbers = self._numbers()
        if numbers is not None:
            numbers[_STATED] = max(_last(numbers)[1], 0) + 1 if taken == 0 else 0
            choice, number = _last(numbers)  # again: it may have begun between the two
            is_known = number >= 0 or numbers[_row(choice)][3]
            if is_known and not numbers[_UNKNOWN]:
                return _position(numbers, choice, max(number, 0))
        raise RuntimeError(
            "The epoch of the running pass is not known in this process. Call set_epoch before "
            "each pass of a DataLoader with workers."
        )

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
        numbers = self._numbers()
        assert numbers is not None
        self._choice = int(numbers[_CHOICES]) + 1
        passes = numbers[_PASS:]
        passes[[abs(_choice_of(each) - self._choice % 1024) > 4 for each in passes.tolist()]] = 0
        self._write_choice(numbers, position, True)

    def begin(self, *, shared_by_ranks: bool) -> Pass:
        """Begins a pass in this process, which may be one of several workers.

        Raises
        ------
        RuntimeError
            If `set_epoch` is needed, because ranks share the epoch or the choice of another
            process is not known here.
        """
        numbers, info = self._numbers(), get_worker_info()
        nth = self._begun[1] if self._begun[0] == os.getpid() else 0
        self._begun = (os.getpid(), nth + 1)
        if info is None:
            assert numbers is not None
            choice, number = _last(numbers, after=1)
            if number >= 1 << (_PASS_BITS - 1):
                self.choose(_position(numbers, choice, number))
                choice, number = self._choice, 0
            here, key = _position(numbers, choice, number), _hash(nth, -1) & _KEY_MASK
            begun = Pass(here, choice, number, key)
            numbers[_place(begun.number)] = begun.written
            numbers[_UNKNOWN] = numbers[_STATED] = 0
            self._start = Position(begun.position.epoch + 1, 0)
            return begun
        key = _hash(info.seed - info.id, nth)
        # An epoch that is chosen after the workers were started is not for their first pass.
        choice = self._choice if nth == 0 or numbers is None else int(numbers[_CHOICES])
        is_chosen = self._is_chosen if numbers is None else bool(numbers[_row(choice)][3])
        if not is_chosen:
            if shared_by_ranks:
                raise RuntimeError(
                    "Several ranks share the epoch, and their DataLoader workers do not know "
                    "which one it is: call set_epoch before each pass, on all ranks alike."
                )
            if numbers is not None:
                numbers[_UNKNOWN] = 1
                _check_stated(numbers, -1)
            return Pass(Position(max(key, MOST_COUNTED + 1), 0), -1, -1, key & _KEY_MASK)
        if numbers is None:
            raise RuntimeError(
                "The epoch was chosen in another process, from which this one was forked: call "
                "set_epoch in the process that iterates over the DataLoader."
            )
        key &= _KEY_MASK
        # one look at the passes: between two, another worker of this pass may write it down
        passes = [e for e in numbers[_PASS:].tolist() if e and _choice_of(e) == choice % 1024]
        known = [_number_of(each) for each in passes if each & _KEY_MASK == key]
        number = known[0] if known else max(map(_number_of, passes), default=-1) + 1
        begun = Pass(_position(numbers, choice, number), choice, number, key)
        numbers[_place(number)] = begun.written
        _check_stated(numbers, number)
        return begun

    def check(self, begun: Pass) -> None:
        """Refuses a pass whose workers may have decided on different epochs.

        Raises
        ------
        RuntimeError
            If two passes began at the same moment after one choice of an epoch, or an epoch was
            chosen while persistent workers began a pass.
        """
        numbers = self._numbers()
        if numbers is None:
            return
        passes = [each for each in numbers[_PASS:].tolist() if each]
        same = {each for each in passes if each & _KEY_MASK == begun.key}
        taken = begun.number >= 0 and any(
            each >> _KEY_BITS == begun.written >> _KEY_BITS for each in passes if each not in same
        )
        if taken or same - {begun.written}:
            raise RuntimeError(
                "It is not clear which epoch this pass has: another pass has begun, or set_epoch "
                "was called, while its workers began it. Call set_epoch before iter(), once for "
                "each pass."
            )

    def load(self, begun: Pass, progress: Progress, has_more: bool) -> None:
        """A pass of this process goes on with a state: the pass after it is the next epoch.

        If the epoch of the pass had been chosen, and the state is of another one, the chosen one is
        still to come; so is the same one, if nothing is left of it in the state (a
        StatefulDataLoader then begins another pass).

        Raises
        ------
        RuntimeError
            If another worker of the pass has loaded a state of another epoch.
        """
        numbers = self._numbers()
        if numbers is None:
            return
        choice, number = max(begun.choice, self._choice), max(begun.number, 0)
        if begun.number < 0:  # the first pass whose epoch is known
            numbers[_place(0)] = Pass(begun.position, choice, 0, begun.key).written
        row = numbers[_row(choice)]
        epoch, batches, at, kind = row.tolist()
        if kind == _LOADED and at == number and epoch + number != progress.epoch:
            raise RuntimeError(
                f"the workers of one pass have loaded states of the epochs {epoch + number} and "
                f"{progress.epoch}: load the state of one DataLoader"
            )
        chosen = Position(epoch + at, batches)
        is_chosen = kind == _TO_COME or (kind == _CHOSEN and begun.number == 0)
        if is_chosen and not (has_more and chosen.epoch == progress.epoch):
            row[:] = (chosen.epoch - number - 1, chosen.batches, number + 1, _TO_COME)
        else:
            row[:] = (progress.epoch - number, progress.first, number, _LOADED)
        numbers[_UNKNOWN] = 0
        if not in_worker():
            self._start = _position(numbers, choice, number + 1)

    def warn_once(self) -> bool:
        """Whether this is the first call in this process and its workers."""
        numbers = self._numbers()
        if numbers is None or numbers[_WARNED]:
            return False
        numbers[_WARNED] = 1
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Of copies, which count by themselves, and of what workers get that are spawned."""
        start = self.next
        numbers = self._numbers()
        is_chosen = self._is_chosen if numbers is None else numbers[_row(int(numbers[_CHOICES]))][3]
        state = {"start": start, "is_chosen": bool(is_chosen)}
        if is_spawning():
            state |= {"shared": self._shared, "choice": self._choice}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._inherited = state["shared"].numpy() if "shared" in state else None
        self._begun = (os.getpid(), 0)
        self._make(state["start"], state["is_chosen"], state.get("choice", 0))


_KEY_MASK = (1 << _KEY_BITS) - 1


def _row(choice: int) -> slice:
    at = _CHOICE + 4 * (choice % _KEPT_CHOICES)
    return slice(at, at + 4)


def _place(number: int) -> int:
    return _PASS + number % _KEPT_PASSES


def _choice_of(written: int) -> int:
    return (written >> (_KEY_BITS + _PASS_BITS)) - 1


def _number_of(written: int) -> int:
    return (written >> _KEY_BITS) % (1 << _PASS_BITS)


def _last(numbers: npt.NDArray[np.int64], *, after: int = 0) -> tuple[int, int]:
    """The last choice, and the number of the last pass since; -1 if there was none."""
    choice = int(numbers[_CHOICES])
    passes = [each for each in numbers[_PASS:].tolist() if each]
    found = [_number_of(each) for each in passes if _choice_of(each) == choice % 1024]
    return choice, max(found, default=-1) + after


def _position(numbers: npt.NDArray[np.int64], choice: int, number: int) -> Position:
    epoch, batches, at, _ = numbers[_row(choice)].tolist()
    return Position(epoch + number, batches if number == at else 0)


def _check_stated(numbers: npt.NDArray[np.int64], number: int) -> None:
    """Refuses a pass of workers if the state before its first batch was that of another pass."""
    if numbers[_STATED] not in (0, number + 1):
        raise RuntimeError(
            "state_after(0) was called before this pass of DataLoader workers was known, and gave "
            "the state of the pass before. Call set_epoch before each pass."
        )


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
