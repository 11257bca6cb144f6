"""How far an epoch has come, as a plain dict for a checkpoint.

A state also holds the options that make the batches (seed, fanouts, ...) and a fingerprint of the
graph: only the same dataset, seeds and options give the remaining batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from graphzero.sampling.order import Share
from graphzero.units import MOST_COUNT

VERSION = 2
GRAPH = "graph"  # the option that identifies it
MOST_EPOCH = 1 << 48  # larger ones are drawn: see `loader.epochs`

State = dict[str, object]


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

    def state(self, options: Mapping[str, object]) -> State:
        """The dict to store; `options` are what the batches are a function of."""
        return {"version": VERSION, **asdict(self), "options": dict(options)}


@dataclass(frozen=True)
class WorkerProgress:
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

    def state(self, options: Mapping[str, object]) -> State:
        """The dict to store; `options` are what the batches are a function of."""
        numbers = {"epoch": self.epoch, "first": self.first, "taken": self.taken}
        return {"version": VERSION, **numbers, **asdict(self.share), "options": dict(options)}


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """The options that differ, by name, with both values."""
    return [
        f"{name} ({before.get(name)!r}, now {now.get(name)!r})"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _check_state(state: Mapping[str, object], kind: str, options: Mapping[str, object]) -> None:
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


def _read_count(state: Mapping[str, object], name: str, most: int = MOST_COUNT) -> int:
    value = state.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} of the state must be an integer from 0 to {most}, not {value!r}")
    return value


def _read_epoch(state: Mapping[str, object]) -> int:
    epoch = _read_count(state, "epoch")
    if epoch > MOST_EPOCH:
        raise ValueError(
            "the state is of a pass whose epoch DataLoader workers have drawn, and cannot be "
            "resumed: call set_epoch before each pass of a DataLoader with workers"
        )
    return epoch


def read_progress(
    state: Mapping[str, object], options: Mapping[str, object], total: int, share: Share
) -> WorkerProgress:
    """The progress in an iterator's state, checked.

    Parameters
    ----------
    state : mapping
        From `WorkerProgress.state`.
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
    _check_state(state, "taken", options)
    epoch, first = _read_epoch(state), _read_count(state, "first", total)
    if differing := differences({name: state.get(name) for name in asdict(share)}, asdict(share)):
        raise ValueError(
            f"the state was taken by another worker or rank: {', '.join(differing)}. Give the "
            f"state of the DataLoader of rank 0 to resume of the dataset, which takes it with any "
            f"number of ranks and workers, or begin the epoch anew with set_epoch({epoch})"
        )
    return WorkerProgress(epoch, first, _read_count(state, "taken", total), share)


def read_position(
    state: Mapping[str, object], options: Mapping[str, object], total: int
) -> Position:
    """The position over all ranks in a state, checked: see `read_progress`.

    Parameters
    ----------
    state : mapping
        From `Position.state`, or from a ``StatefulDataLoader``: it holds `WorkerProgress.state` of
        all workers of a rank, with which the others are in step.
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
        _check_state(state, "batches", options)
        return Position(_read_epoch(state), _read_count(state, "batches", total))
    for worker in workers:
        _check_state(worker, "taken", options)
    first, numbers = workers[0], {_read_count(worker, "worker") for worker in workers}
    same = ("epoch", "first", "rank", "world_size", "num_workers")
    are_alike = all(worker.get(name) == first.get(name) for worker in workers for name in same)
    count = _read_count(first, "num_workers")
    if not are_alike or count != len(workers) or numbers != set(range(len(workers))):
        raise ValueError("the state must hold all workers of one rank, in the same epoch")
    taken = sum(_read_count(worker, "taken", total) for worker in workers)
    since = "_steps_since_snapshot"  # of the workers' states, which a StatefulDataLoader counts
    taken += sum(_read_count(counted, since, total) for counted in _having(since, state))
    done = _read_count(first, "first", total) + taken * _read_count(first, "world_size")
    return Position(_read_epoch(first), min(total, done))


def _having(name: str, state: object) -> Iterator[Mapping[str, object]]:
    """Mappings with a name, at any depth: how a DataLoader nests states may change."""
    if isinstance(state, Mapping):
        if name in state:
            yield state
        for value in state.values():
            yield from _having(name, value)
