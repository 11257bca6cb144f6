"""Which epoch a pass over a dataset gets: pure functions of a small table of numbers.

Every pass is the epoch after the one before, unless `set_epoch` or `resume` has chosen another. The
workers of one pass ask one by one, in any order: the first one to ask decides for all of them.
`graphzero.loader.epochs` keeps the table in memory that the processes share.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, replace

from graphzero.loader.resume import Position

__all__ = [
    "MOST_BYTES",
    "MOST_EPOCH",
    "Begun",
    "Choice",
    "Table",
    "Worker",
    "begin",
    "choose",
    "decode",
    "encode",
    "join",
    "load",
    "starting_at",
]

MOST_BYTES = 4096  # one page: a process that is killed cannot leave half of it written
MOST_EPOCH = 1 << 62
_MOST_CHOICES, _MOST_PASSES = 8, 36
_NONE = -1


@dataclass(frozen=True)
class Choice:
    """What `set_epoch` or `resume` has chosen, and how far the passes have come since.

    Attributes
    ----------
    number : int
        Choices are counted. Workers take the one that was in force when they were started, however
        late they ask.
    epoch, batches : int
        Where the next pass begins.
    is_chosen : int
        1 until a pass has begun there; then 0, and the next epoch just follows from it.
    running, running_batches : int
        Where the last pass began; -1 if none has begun since the choice.
    """

    number: int
    epoch: int
    batches: int
    is_chosen: int = 0
    running: int = _NONE
    running_batches: int = _NONE

    @property
    def next(self) -> Position:
        """Where the next pass begins."""
        return Position(self.epoch, self.batches)

    @property
    def last(self) -> Position:
        """Where the last pass began, or the next one will if none has begun."""
        return self.next if self.running < 0 else Position(self.running, self.running_batches)


@dataclass(frozen=True)
class Worker:
    """One DataLoader worker that begins a pass.

    Attributes
    ----------
    thread : int
        The thread that started it.
    start : int
        How many processes that thread had started, with this one.
    nth : int
        Passes that the worker had begun before, over this dataset.
    worker, num_workers : int
    """

    thread: int
    start: int
    nth: int
    worker: int
    num_workers: int

    @property
    def key(self) -> tuple[int, int, int]:
        """The same for all workers of a pass, and for no other: torch starts them in one go."""
        return self.thread, self.start - self.worker, self.nth


@dataclass(frozen=True)
class _Pass:
    """A pass that a worker has begun; the fields are those of `Worker.key`, `Choice`, `Begun`."""

    thread: int
    first: int
    nth: int
    num_workers: int
    arrived: int
    epoch: int
    batches: int
    choice: int
    was_chosen: int
    loaded: int = _NONE  # the epoch of the state that its workers have loaded
    over: int = 0  # workers whose state has no batch left

    @property
    def key(self) -> tuple[int, int, int]:
        return self.thread, self.first, self.nth

    def has_started(self, other: Worker) -> bool:
        """Whether it is of the workers that were started together with another one."""
        thread, first, _ = other.key
        return (self.thread, self.first, self.num_workers) == (thread, first, other.num_workers)

    def overlaps(self, other: Worker) -> bool:
        """Whether one process would be a worker of both."""
        thread, first, _ = other.key
        before_its_end = first < self.first + self.num_workers
        return thread == self.thread and before_its_end and self.first < first + other.num_workers


@dataclass(frozen=True)
class Begun:
    """A pass that this process has begun.

    Attributes
    ----------
    position : Position
    choice : int
        The number of the choice that it followed.
    was_chosen : bool
        Whether `set_epoch` or `resume` has named the epoch.
    worker : Worker or None
        None in a process that is no DataLoader worker.
    """

    position: Position
    choice: int
    was_chosen: bool
    worker: Worker | None = None


@dataclass(frozen=True)
class Table:
    """What is known about the passes over one dataset; the newest is the last of each."""

    choices: tuple[Choice, ...]
    passes: tuple[_Pass, ...] = field(default=())

    @property
    def newest(self) -> Choice:
        """The choice that is in force."""
        return self.choices[-1]

    def choice(self, number: int | None) -> Choice:
        """A choice by its number; the newest, if it is too old to be known."""
        return next((each for each in self.choices if each.number == number), self.newest)

    def with_choice(self, choice: Choice) -> Table:
        """With one choice brought up to date, if it is still known."""
        return replace(
            self, choices=tuple(choice if c.number == choice.number else c for c in self.choices)
        )


def starting_at(position: Position) -> Table:
    """The table of a dataset whose first pass begins at a position."""
    return Table((Choice(0, position.epoch, position.batches),))


def choose(table: Table, position: Position) -> Table:
    """`set_epoch` or `resume`: the next pass begins at a position.

    Raises
    ------
    ValueError
        If there is no such epoch.
    """
    if position.epoch > MOST_EPOCH:
        raise ValueError(f"epoch must be at most {MOST_EPOCH}, not {position.epoch}")
    choice = Choice(table.newest.number + 1, position.epoch, position.batches, is_chosen=1)
    return replace(table, choices=(*table.choices, choice)[-_MOST_CHOICES:])


def begin(table: Table, number: int | None = None) -> tuple[Table, Begun]:
    """Begins a pass, by the newest choice or an earlier one; the next one is the epoch after it."""
    choice = table.choice(number)
    begun = Begun(choice.next, choice.number, bool(choice.is_chosen))
    after = Choice(
        number=choice.number,
        epoch=choice.epoch + 1,
        batches=0,
        running=choice.epoch,
        running_batches=choice.batches,
    )
    return table.with_choice(after), begun


def join(
    table: Table, worker: Worker, number: int | None, wish: Position | None = None
) -> tuple[Table, Begun]:
    """Begins a pass in a worker, with the epoch that the first worker of the pass has decided.

    Parameters
    ----------
    table : Table
    worker : Worker
    number : int or None
        The choice that the pass follows. Default: the newest.
    wish : Position, optional
        Where the worker itself was told to begin.

    Raises
    ------
    RuntimeError
        If the workers of the pass would train on different epochs.
    """
    found = next((each for each in table.passes if each.key == worker.key), None)
    if found is None:
        _check_started_together(table.passes, worker)
        if wish is not None:
            wished = {"epoch": wish.epoch, "batches": wish.batches, "is_chosen": 1}
            table = table.with_choice(replace(table.choice(number), **wished))
        table, begun = begin(table, number)
        here = begun.position
        found = _Pass(
            *worker.key,
            num_workers=worker.num_workers,
            arrived=0,
            epoch=here.epoch,
            batches=here.batches,
            choice=begun.choice,
            was_chosen=int(begun.was_chosen),
        )
        table = replace(table, passes=(*table.passes, found)[-_MOST_PASSES:])
    if found.num_workers != worker.num_workers or found.arrived == found.num_workers:
        raise RuntimeError(_NOT_TOGETHER)
    position = Position(found.epoch, found.batches)
    if wish is not None and wish != position:
        raise RuntimeError(
            f"worker {worker.worker} was told to begin at {wish}, and another worker of the same "
            f"pass begins at {position}: call set_epoch in all workers alike, or in the process "
            "that iterates over the DataLoader"
        )
    table = _with_pass(table, replace(found, arrived=found.arrived + 1))
    return table, Begun(position, found.choice, bool(found.was_chosen), worker)


_NOT_TOGETHER = (
    "the workers of this pass were not started one directly after the other, so that it is unclear "
    "which of them belong together: iterate over the DataLoader again, and start no process from "
    "the same thread while it starts its workers"
)


def _check_started_together(passes: Iterable[_Pass], worker: Worker) -> None:
    if any(each.overlaps(worker) and not each.has_started(worker) for each in passes):
        raise RuntimeError(_NOT_TOGETHER)


def _with_pass(table: Table, changed: _Pass) -> Table:
    passes = tuple(changed if each.key == changed.key else each for each in table.passes)
    return replace(table, passes=passes)


def load(table: Table, begun: Begun, state: Position, *, has_more: bool) -> Table:
    """A pass goes on with a state of an epoch: the pass after it is the next epoch.

    If `set_epoch` had chosen another epoch for the pass, that one is still to come; so is the same
    one, if nothing is left of it in the state (a StatefulDataLoader then begins another pass).

    Parameters
    ----------
    table : Table
    begun : Begun
    state : Position
        Where the pass of the state had begun.
    has_more : bool
        Whether this process has batches left to give.

    Raises
    ------
    RuntimeError
        If another worker of the pass has loaded a state of another epoch.
    """
    if begun.worker is not None:
        key = begun.worker.key
        found = next((each for each in table.passes if each.key == key), None)
        if found is not None:
            if found.loaded not in (_NONE, state.epoch):
                raise RuntimeError(
                    f"the workers of one pass have loaded states of the epochs {found.loaded} and "
                    f"{state.epoch}: load the state of one DataLoader"
                )
            found = replace(found, loaded=state.epoch, over=found.over + (not has_more))
            table = _with_pass(table, found)
            has_more = found.over < found.num_workers
    to_come = begun.was_chosen and not (has_more and begun.position.epoch == state.epoch)
    following = begun.position if to_come else Position(state.epoch + 1, 0)
    after = Choice(
        number=begun.choice,
        epoch=following.epoch,
        batches=following.batches,
        is_chosen=int(to_come),
        running=state.epoch,
        running_batches=state.batches,
    )
    return table.with_choice(after)


_COUNTS = struct.Struct("<2q")
_CHOICE, _PASS = struct.Struct("<6q"), struct.Struct("<11q")


def encode(table: Table) -> bytes:
    """The table as at most `MOST_BYTES` bytes."""
    return b"".join(
        [
            _COUNTS.pack(len(table.choices), len(table.passes)),
            *(_CHOICE.pack(*astuple(each)) for each in table.choices),
            *(_PASS.pack(*astuple(each)) for each in table.passes),
        ]
    )


def decode(content: bytes) -> Table:
    """The table that `encode` has written."""
    choices, passes = _COUNTS.unpack_from(content)
    between = _COUNTS.size + choices * _CHOICE.size
    end = between + passes * _PASS.size
    return Table(
        tuple(Choice(*each) for each in _CHOICE.iter_unpack(content[_COUNTS.size : between])),
        tuple(_Pass(*each) for each in _PASS.iter_unpack(content[between:end])),
    )
