"""Which epoch a pass over a dataset has: the process that iterates decides it.

Without DataLoader workers the dataset counts: a pass is the epoch after the one before.

With workers torch calls no method of the dataset in the process that starts them. An epoch is then
chosen beforehand, by `set_epoch`, and the next pass has it: workers are started with it, and those
that begin another pass read it from a few shared numbers. Passes without a choice draw an epoch
from torch's base seed, which all workers of a pass know: other batches in each pass, but no state.
"""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import os
from dataclasses import dataclass, replace
from multiprocessing.sharedctypes import RawValue

from torch.utils.data import get_worker_info

from graphzero.loader.ranks import in_worker, is_spawning
from graphzero.loader.states import MOST_EPOCH, Position, WorkerProgress

_MOST_DRAWN = 1 << 62
# Of a pair: a key and a small number, which are written at once by one of several workers.
_KEY_BITS, _VALUE_BITS = 43, 20
_NOBODY = 1  # the pair of no pass and of no choice, which have even numbers


def _pair(key: int, value: int) -> int:
    return key << _VALUE_BITS | value % (1 << _VALUE_BITS)


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _key_of_pass(text: str) -> int:
    return _hash(text) >> (64 - _KEY_BITS)


@dataclass(frozen=True)
class _Choice:
    """An epoch that was chosen.

    Attributes
    ----------
    number : int
        Even; that of the next choice is larger.
    position : Position
        Where the pass that takes it begins.
    taken : int
        Pair of the pass that has taken it and of `number`, or of others.
    """

    number: int
    position: Position
    taken: int = _NOBODY

    @property
    def is_taken(self) -> bool:
        return _pair(0, self.taken) == _pair(0, self.number)


class _Shared(ctypes.Structure):
    """What a process that iterates and its workers know of each other.

    Attributes
    ----------
    owner : int
        The process that iterates.
    choice, epoch, batches : int
        The number of the last choice, and its position.
    taken : int
        Pair of the pass that has taken a choice, and of the number of this choice.
    read : int
        Pair of the pass that has handed out a batch, and of the epoch that its worker has.
    drawn, stated : int
        Numbers of the choices after which workers have drawn an epoch, and after which the state
        before the first batch of a pass was given.
    warned : int
        Whether a warning was given.
    """

    owner: int
    choice: int
    epoch: int
    batches: int
    taken: int
    read: int
    drawn: int
    stated: int
    warned: int
    _fields_ = [
        ("owner", ctypes.c_int64),
        ("choice", ctypes.c_int64),
        ("epoch", ctypes.c_int64),
        ("batches", ctypes.c_int64),
        ("taken", ctypes.c_int64),
        ("read", ctypes.c_int64),
        ("drawn", ctypes.c_int64),
        ("stated", ctypes.c_int64),
        ("warned", ctypes.c_int64),
    ]

    def last_choice(self) -> _Choice:
        copied = _Shared.from_buffer_copy(self)  # at once: the owner may choose meanwhile
        return _Choice(copied.choice, Position(copied.epoch, copied.batches), copied.taken)


@dataclass(frozen=True)
class Pass:
    """A pass that this process has begun.

    Attributes
    ----------
    position : Position
        Where it began.
    key : int
        The same for all workers of the pass.
    choice : int
        The number of the last choice, as it began.
    is_chosen : bool
        Whether nobody had taken this choice.
    shared : _Shared or None
    """

    position: Position
    key: int
    choice: int
    is_chosen: bool
    shared: _Shared | None

    def check(self, epoch: int) -> None:
        """Called before each batch, with the epoch of the pass or of the state that it continues.

        Raises
        ------
        RuntimeError
            If another worker of the pass has another epoch, or another pass has taken the choice.
        """
        shared, taken, read = self.shared, _pair(self.key, self.choice), _pair(self.key, epoch)
        if shared is None:
            return
        last, last_read = shared.last_choice(), shared.read  # once: other workers write meanwhile
        takes = self.is_chosen and epoch == self.position.epoch and last.number == self.choice
        is_late = takes and last.is_taken and last.taken != taken
        if is_late or (last_read >> _VALUE_BITS == self.key and last_read != read):
            raise RuntimeError(
                "It is not clear which epoch this pass has: another pass has begun, or set_epoch "
                "was called, while its workers began it, or they have loaded states of different "
                "epochs. Call set_epoch before iter(), once for each pass, and load the state of "
                "one DataLoader."
            )
        shared.read = read
        if takes:
            shared.taken = taken

    def load(self, progress: WorkerProgress) -> None:
        """Continues with a state: the pass after this one is the next epoch.

        An epoch that was chosen is still to come, unless a batch of it is handed out now: if the
        state is of the end of an epoch, a StatefulDataLoader begins another pass.
        """
        shared, taken = self.shared, _pair(self.key, self.choice)
        if shared is None:
            return
        if shared.read >> _VALUE_BITS == self.key:
            shared.read = _NOBODY  # batches that were handed out before
        if shared.choice != self.choice:
            return
        if not self.is_chosen:
            shared.epoch, shared.batches = progress.epoch, progress.first
            shared.taken, shared.drawn = taken, 0
        elif shared.taken == taken:
            shared.taken = _NOBODY


class Epochs:
    """The epoch of the next pass over a dataset, and of the last one.

    Every copy, and every process that is not a DataLoader worker, counts by itself.
    """

    def __init__(self) -> None:
        self.__setstate__((_Choice(2, Position(-1, 0), taken=2), None))  # the next epoch is 0

    def __getstate__(self) -> tuple[_Choice, _Shared | None]:
        """Of copies, which count by themselves, and of what workers get that are spawned."""
        return self._last_choice(), self._shared if is_spawning() else None

    def __setstate__(self, state: tuple[_Choice, _Shared | None]) -> None:
        choice, self._inherited = state
        self._begun = (os.getpid(), 0)  # passes of this process
        self._start(choice)

    def _start(self, choice: _Choice) -> None:
        self._shared: _Shared = RawValue(_Shared)
        self._shared.owner = os.getpid()
        self._write(choice)

    def _write(self, choice: _Choice) -> None:
        shared = self._shared
        shared.epoch, shared.batches = choice.position.epoch, choice.position.batches
        shared.taken, shared.choice = choice.taken, choice.number
        self._choice = choice  # as processes know it that are forked

    def _of_parent(self) -> _Shared | None:
        """What a worker shares with the process that has started it."""
        parent = multiprocessing.parent_process()
        owner = os.getppid() if parent is None else parent.pid
        candidates = (self._shared, self._inherited)
        return next((shared for shared in candidates if shared and shared.owner == owner), None)

    def _last_choice(self) -> _Choice:
        if in_worker():
            shared = self._of_parent()
            return self._choice if shared is None else shared.last_choice()
        if self._shared.owner != os.getpid():  # it was forked
            self._start(self._choice)
        return self._shared.last_choice()

    @property
    def next(self) -> Position:
        """Where the next pass begins, as far as this process knows."""
        choice = self._last_choice()
        return Position(choice.position.epoch + 1, 0) if choice.is_taken else choice.position

    def last(self, taken: int) -> Position:
        """Where the last pass began, or the next one will if none has begun since a choice.

        Before its first batch is taken, its workers may not have begun it yet. That this was
        answered is noted then: workers do not draw an epoch for another pass.

        Raises
        ------
        RuntimeError
            If DataLoader workers may have drawn its epoch.
        """
        choice, shared = self._last_choice(), self._shared
        shared.stated = 0 if taken else choice.number
        if shared.drawn == choice.number or choice.position.epoch < 0 or in_worker():
            raise RuntimeError(
                "The epoch of the running pass is not known in this process. Call set_epoch before "
                "each pass of a DataLoader with workers."
            )
        return choice.position

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
        self._write(_Choice(self._last_choice().number + 2, position))

    def begin(self, *, shared_by_ranks: bool) -> Pass:
        """Begins a pass in this process, which may be one of several workers.

        Raises
        ------
        RuntimeError
            If `set_epoch` is needed, because ranks share the epoch or the choice of another
            process is not known here.
        """
        process, number = self._begun
        number = number if process == os.getpid() else 0
        self._begun = (os.getpid(), number + 1)
        if in_worker():
            return self._begin_in_worker(number, shared_by_ranks)
        choice, key = self._last_choice(), _key_of_pass(f"{os.getpid()} {number}")
        is_chosen = not choice.is_taken
        if not is_chosen:
            choice = _Choice(choice.number + 2, self.next)
        self._write(replace(choice, taken=_pair(key, choice.number)))
        return Pass(choice.position, key, choice.number, is_chosen, self._shared)

    def _begin_in_worker(self, number: int, shared_by_ranks: bool) -> Pass:
        info, shared = get_worker_info(), self._of_parent()
        assert info is not None
        pass_of_torch = f"{info.seed - info.id} {number}"
        key = _key_of_pass(f"{pass_of_torch} {self._choice.number}")
        choice = self._last_choice()
        if number == 0 and choice.number != self._choice.number:
            choice = self._choice  # what was chosen since the worker was started is for later
        if not choice.is_taken or choice.taken == _pair(key, choice.number):
            if shared is None:
                raise RuntimeError(
                    "The epoch was chosen in another process, from which this one was forked: call "
                    "set_epoch in the process that iterates over the DataLoader."
                )
            return Pass(choice.position, key, choice.number, not choice.is_taken, shared)
        if shared_by_ranks:
            raise RuntimeError(
                "Several ranks share the epoch, and their DataLoader workers do not know "
                "which one it is: call set_epoch before each pass, on all ranks alike."
            )
        if shared is not None and shared.choice == choice.number:
            shared.drawn = choice.number
            if shared.stated == choice.number:
                raise RuntimeError(
                    "state_after(0) was called before this pass of DataLoader workers was known, "
                    "and gave the state of the pass before. Call set_epoch before each pass."
                )
        epoch = max(_hash(pass_of_torch) % _MOST_DRAWN, MOST_EPOCH + 1)
        return Pass(Position(epoch, 0), key, choice.number, False, shared)

    def warn_once(self) -> bool:
        """Whether this is the first call in this process and its workers."""
        shared = self._of_parent() if in_worker() else self._shared
        if shared is None or shared.warned:
            return False
        shared.warned = 1
        return True
