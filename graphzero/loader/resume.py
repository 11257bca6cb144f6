"""How far an epoch has come, as a plain dict for a checkpoint.

Besides the position, a state holds the options that make the batches (seed, fanouts, ...) and a
fingerprint of the graph: only the same dataset, seeds and options give the remaining batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from graphzero.sampling.order import Share
from graphzero.units import MOST_COUNT

__all__ = [
    "GRAPH",
    "Position",
    "Progress",
    "State",
    "check_share",
    "differences",
    "read_position",
    "read_progress",
]

VERSION = 2  # 1 did not say which graph it was taken on
GRAPH = "graph"  # the option that identifies it

State = dict[str, Any]


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
        return {
            "version": VERSION,
            "epoch": self.epoch,
            "first": self.first,
            "taken": self.taken,
            **asdict(self.share),
            "options": dict(options),
        }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The options that differ, by name, with both values."""
    return [
        f"{name} ({before.get(name)!r}, now {now.get(name)!r})"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _check(state: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    if state.get("version") == 1:
        raise ValueError(
            "a state of version 1 does not say which graph it was taken on, so that its remaining "
            f"batches are unknown: begin its epoch anew, with set_epoch({state.get('epoch')!r})"
        )
    if state.get("version") != VERSION:
        raise ValueError(
            f"a state of version {state.get('version')!r} cannot be resumed here: "
            f"this graphzero reads version {VERSION}"
        )
    taken_with = state.get("options")
    if not isinstance(taken_with, Mapping):
        raise ValueError("the state does not say with which options it was taken")
    differing = differences(taken_with, options)
    if all(each.startswith(f"{GRAPH} (") for each in differing) and differing:
        raise ValueError(
            f"the state was taken on another graph: {', '.join(differing)}. The files hold other "
            "edges, or their nodes in another order, so that the batches are others: resume with "
            "the dataset as it was, or begin the epoch anew with set_epoch"
        )
    if differing:
        raise ValueError(
            f"the state was taken with other options: {', '.join(differing)}: "
            "the remaining batches need the options of those before them"
        )


def _count(state: Mapping[str, Any], name: str, most: int | None = None) -> int:
    value = state.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} of the state must be an integer of at least 0, not {value!r}")
    if value > MOST_COUNT:
        raise ValueError(f"{name} of the state does not fit 63 bits: it is no state of graphzero")
    if most is not None and value > most:
        raise ValueError(f"{name} of the state is {value}, and an epoch has {most} batches")
    return value


def read_progress(state: Mapping[str, Any], options: Mapping[str, Any], total: int) -> Progress:
    """The progress in an iterator's state, checked.

    Parameters
    ----------
    state : mapping
        From `Progress.state`.
    options : mapping
        What the batches are a function of now.
    total : int
        Batches in an epoch, over all ranks.

    Raises
    ------
    ValueError
        If it is not such a state, or was taken with other options; names them.
    """
    if not isinstance(state, Mapping) or "taken" not in state:
        raise ValueError(
            "this is not the state of an iterator of a NeighborDataset; "
            "NeighborDataset.resume takes what state_after gave"
        )
    _check(state, options)
    share = Share(*(_count(state, n) for n in ("rank", "world_size", "worker", "num_workers")))
    if share.rank >= share.world_size or share.worker >= share.num_workers:
        raise ValueError(f"the state contradicts itself: {share}")
    return Progress(
        _count(state, "epoch"), _count(state, "first", total), _count(state, "taken", total), share
    )


def check_share(progress: Progress, share: Share) -> None:
    """Refuses the progress of another share, which would have other batches.

    Raises
    ------
    ValueError
    """
    if progress.share != share:
        raise ValueError(
            f"the state was taken as {progress.share}, and this is {share}: "
            "with other ranks or workers, give the DataLoader's state to NeighborDataset.resume"
        )


def read_position(state: Mapping[str, Any], options: Mapping[str, Any], total: int) -> Position:
    """The position over all ranks, from any kind of state.

    Parameters
    ----------
    state : mapping
        From `Position.state` or `Progress.state`, or one that holds such states of all workers of
        a rank, such as that of a ``StatefulDataLoader``. The ranks must be in step.
    options : mapping
        What the batches are a function of now.
    total : int
        Batches in an epoch, over all ranks.

    Raises
    ------
    ValueError
        If it is not such a state, or was taken with other options; names them.
    """
    if isinstance(state, Mapping) and "version" in state and "batches" in state:
        _check(state, options)
        return Position(_count(state, "epoch"), _count(state, "batches", total))
    try:
        found = list(_progresses(state))
    except RecursionError:
        raise ValueError("the state is nested too deeply: it is not that of a DataLoader") from None
    workers = [read_progress(each, options, total) for each in found]
    if not workers:
        raise ValueError("the state holds no position of a NeighborDataset")
    first, share = workers[0], workers[0].share
    begun = {
        (p.epoch, p.first, p.share.rank, p.share.world_size, p.share.num_workers) for p in workers
    }
    if len(begun) > 1 or {p.share.worker for p in workers} != set(range(share.num_workers)):
        raise ValueError("the state must hold all workers of one rank, in the same epoch")
    taken = sum(progress.taken for progress in workers) + _since_snapshot(state)
    return Position(first.epoch, min(total, first.first + taken * share.world_size))


def _progresses(state: Any) -> Iterator[Mapping[str, Any]]:
    """States of iterators, at any depth: how a DataLoader nests them may change."""
    if isinstance(state, Mapping):
        if "version" in state and "taken" in state:
            yield state
        else:
            for value in state.values():
                yield from _progresses(value)


def _since_snapshot(state: Mapping[str, Any]) -> int:
    """Batches that a StatefulDataLoader counts since its last snapshot of the states."""
    return _count(state, "_steps_since_snapshot") if "_steps_since_snapshot" in state else 0
