"""What mini-batches cost: `BatchStats` of each, and what a training loop has spent on them.

A loop is timed by its iterator (`Loop`), in the training process only. Each mini-batch that the
loop gets goes to the `listeners`. One of them writes a file if the environment variable
``GRAPHZERO_STATS`` has the beginning of a path, as under ``graphzero report``.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

_T = TypeVar("_T")
_VARIABLE = "GRAPHZERO_STATS"
_WRITE_EVERY = 0.5  # seconds


@dataclass
class BatchStats:
    """What a mini-batch cost; filled while it is prepared.

    The first four times do not overlap: they are the work on it, and then its rest. Whether a
    thread waits for the disk is found by `loader.preparation`, with every strategy in the same way.

    Attributes
    ----------
    sampled : float
        Seconds of sampling, without waiting for the disk; in a background thread if there is one.
    disk : float
        Seconds that threads waited for the disk: for topology while they sampled, for pages that
        were requested, for rows.
    gathered : float
        Seconds of looking up and copying rows, without waiting for the disk; in the background and
        after.
    ready : float
        Seconds that the mini-batch, as far as it is prepared in the background, waited until the
        training loop, or its DataLoader, took it.
    waited : float
        Seconds that the loop, or in a DataLoader worker this process, waited for the mini-batch,
        the placing of its rows included: parts of the times above.
    queue_depth : int
        Mini-batches behind it that were finished when it was taken.
    row_bytes : int
        Bytes of all its rows, as they are stored.
    pages_missed : int
        Pages of its rows that were not in memory when they were requested, or were read past the
        page cache; 0 where no pages are requested (see `Prefetch`). Of files that belong to others,
        whose residency the kernel hides: that it read when they were requested.
    topology_missed : int
        Pages of topology that were not in memory when hop read-ahead requested them, or were read
        past the page cache; 0 where page faults bring topology.
    io : str
        How its rows were read, and why.
    epoch, number : int
        Which mini-batch of which epoch it is.
    num_seeds, num_nodes, num_edges : int
        In the mini-batch, of all types; nodes and edges with those that `pad` has added.
    oversized : int
        1 if it was larger than all sizes of `pad`, and came as it is; else 0.
    num_workers : int
        DataLoader workers that prepare mini-batches; 0 if the training process does.
    num_threads : int
        Sampling threads in each of these processes.
    sent_bytes : int
        Bytes that a loader with ``device=`` sent to the device; 0 without one.
    copied : float
        Seconds that the device copied them, beside the model; 0 if the copy had not ended when the
        mini-batch was taken, and on the processor.
    """

    sampled: float = 0.0
    disk: float = 0.0
    gathered: float = 0.0
    ready: float = 0.0
    waited: float = 0.0
    queue_depth: int = 0
    row_bytes: int = 0
    pages_missed: int = 0
    topology_missed: int = 0
    io: str = ""
    epoch: int = 0
    number: int = 0
    num_seeds: int = 0
    num_nodes: int = 0
    num_edges: int = 0
    num_workers: int = 0
    num_threads: int = 1
    oversized: int = 0
    sent_bytes: int = 0
    copied: float = 0.0


@dataclass(frozen=True)
class BatchTotals:
    """Sums over mini-batches. The first five times are parts of the work, and do not overlap.

    Attributes
    ----------
    batches : int
        Mini-batches that graphzero prepared, as far as their `BatchStats` are known.
    sampling : float
        Seconds that threads sampled, without waiting for the disk.
    disk : float
        Seconds that they waited for the disk: for topology, requested pages, rows.
    gathering : float
        Seconds that they copied rows.
    ready : float
        Seconds that finished mini-batches waited for the training loop to take them.
    steps : int
        Mini-batches that the training loop was given.
    stall : float
        Seconds that the training loop waited for mini-batches.
    training : float
        Seconds that it worked on them: from getting one to asking for the next.
    pages_missed, topology_missed : int
        As in `BatchStats`.
    row_bytes : int
        Bytes of the rows that the mini-batches have.
    queue_depth : int
        Sum over mini-batches of how many were finished when the loop took one.
    seeds, nodes, edges : int
        In the mini-batches.
    sent_bytes : int
        Bytes that were sent to a device.
    copied : float
        Seconds of these copies, which are beside the model.
    """

    batches: int = 0
    sampling: float = 0.0
    disk: float = 0.0
    gathering: float = 0.0
    ready: float = 0.0
    steps: int = 0
    stall: float = 0.0
    training: float = 0.0
    pages_missed: int = 0
    topology_missed: int = 0
    row_bytes: int = 0
    queue_depth: int = 0
    seeds: int = 0
    nodes: int = 0
    edges: int = 0
    sent_bytes: int = 0
    copied: float = 0.0

    def __add__(self, other: BatchTotals) -> BatchTotals:
        return BatchTotals(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Step(NamedTuple):
    """What a training loop has done since the step before.

    Attributes
    ----------
    epoch : int
    totals : BatchTotals
        Of one mini-batch, without the work on it, which is part of the next step of the pass.
    options : dict
        Fields of its `BatchStats` that tell how it was prepared. Empty at the end of a pass, and
        for mini-batches of other origin.
    """

    epoch: int
    totals: BatchTotals
    options: dict[str, Any]


listeners: list[Callable[[Step], None]] = []
"""Called with each step of each loop in this process, in the thread of the loop."""


class _Thread(threading.local):
    """What the loops of one thread share."""

    def __init__(self) -> None:
        self.until = 0.0  # when a loop has counted last
        self.asking = False  # whether the iterator of a loop runs
        self.stats: BatchStats | None = None  # of what an inner iterator has given


_here = _Thread()


def _next_alone(batches: Iterator[_T]) -> _T:
    """``next``; meanwhile an iterator that is asked within does not count."""
    _here.asking, _here.stats = True, None
    try:
        return next(batches)
    finally:
        _here.asking = False


class Loop:
    """Times one pass of a training loop: how long it waits for mini-batches and works on them.

    Loops may be nested or interleaved in a thread: no second counts twice. Where an iterator takes
    its mini-batches from another one that is timed, the outer one alone counts: it is the one that
    the loop sees. Work on a mini-batch before another loop begins, or whose successor is never
    asked for, does not count.

    Parameters
    ----------
    epoch : int
        Of mini-batches that do not tell it.
    """

    def __init__(self, epoch: int = 0) -> None:
        self._epoch = epoch
        self._starting = 0.0  # seconds until the loop had its iterator
        self._since: float | None = None  # when the loop got a mini-batch, unless it has ended

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While the loop waits for its iterator: this counts with the first mini-batch."""
        if _here.asking:
            yield
            return
        since = time.perf_counter()
        _here.asking, _here.stats = True, None
        try:
            yield
        finally:
            _here.asking = False
        self._starting = _count(since)

    def next_of(self, batches: Iterator[_T]) -> _T:
        """The next mini-batch, when the loop asks for it; raises whatever ``next`` raises."""
        if _here.asking:
            batch = next(batches)
            _here.stats = _stats_of(batch)
            self._since = None
            return batch
        asked = time.perf_counter()
        trained = 0.0 if self._since is None else _count(self._since)
        self._since = None
        try:
            batch = _next_alone(batches)
        except BaseException:
            if trained:
                self._tell(None, trained, {})
            raise
        stats = _stats_of(batch) or _here.stats
        stall, self._starting = _count(asked) + self._starting, 0.0
        self._since = _here.until
        self._tell(stats, trained, {"steps": 1, "stall": stall})
        return batch

    def _tell(self, stats: BatchStats | None, trained: float, counted: dict[str, Any]) -> None:
        if not listeners:
            return
        options = {}
        if stats is not None:
            self._epoch = stats.epoch
            options = {name: getattr(stats, name) for name in _OPTIONS}
            counted |= {name: getattr(stats, field) for name, field in _SUMMED.items()}
            counted["batches"] = 1
        step = Step(self._epoch, BatchTotals(**counted, training=trained), options)
        for listener in tuple(listeners):
            listener(step)


def hand_out(stats: BatchStats) -> None:
    """Tells the loop that asks what its mini-batch cost, if a ``collate_fn`` loses it."""
    _here.stats = stats


def _stats_of(batch: object) -> BatchStats | None:
    found = getattr(batch, "stats", None)
    return found if isinstance(found, BatchStats) else None


_OPTIONS = ("num_workers", "num_threads", "io")
# Fields of `BatchTotals`, and those of `BatchStats` that they are sums of.
_SUMMED = {
    **{"sampling": "sampled", "disk": "disk", "gathering": "gathered", "ready": "ready"},
    **{name: name for name in ("pages_missed", "topology_missed", "row_bytes", "queue_depth")},
    **{"seeds": "num_seeds", "nodes": "num_nodes", "edges": "num_edges"},
    **{"sent_bytes": "sent_bytes", "copied": "copied"},
}


def _count(since: float) -> float:
    """Seconds since a moment that no loop of this thread has counted."""
    now = time.perf_counter()
    seconds = max(0.0, now - max(since, _here.until))
    _here.until = now
    return seconds


class watch(Iterable[Any]):
    """The same mini-batches; tells the `listeners` how long the loop over them waits and works.

    It can be iterated over as often as the loader, and has its ``len``. Ready-made loaders tell it
    by themselves, and this adds nothing to them. It is for a plain ``DataLoader``, or for any other
    iterable.

    Parameters
    ----------
    loader : iterable
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader
        self._passes = 0

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        from graphzero.loader.profiler import end_training, waiting  # imports torch

        loop = Loop(self._passes)
        self._passes += 1
        with loop.starting():
            iterator = iter(self._loader)
        try:
            while True:
                with waiting(training=True):
                    batch = loop.next_of(iterator)
                yield batch
                del batch  # its memory is needed for the next one
        except StopIteration:
            return
        finally:
            end_training()


class StatsFile:
    """A listener that appends steps to a file of its process, as lines of JSON.

    A line has the sums of one epoch since the line before. It is written at the first step and then
    every half second, so that little is lost if the process is killed.

    Parameters
    ----------
    prefix : str
        Beginning of the path; the pid follows.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._begin()
        atexit.register(self.write)

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._pending: dict[int, Step] = {}
        self._next = 0.0

    def add(self, step: Step) -> None:
        """Takes a step; a forked child begins a file of its own."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            known = self._pending.get(step.epoch, Step(step.epoch, BatchTotals(), {}))
            options = step.options or known.options
            self._pending[step.epoch] = Step(step.epoch, known.totals + step.totals, options)
            if time.monotonic() >= self._next:
                self.write()

    def write(self) -> None:
        """Writes what is pending; says once that this fails, and then writes nothing more."""
        if not self._pending or self._process != os.getpid() or self._next == math.inf:
            return
        with self._lock:
            pending, self._pending = self._pending, {}
            self._next = time.monotonic() + _WRITE_EVERY
            contents = [
                {**each._asdict(), "totals": vars(each.totals)} for each in pending.values()
            ]
            try:
                with open(f"{self._prefix}.{self._process}", "a", encoding="utf-8") as file:
                    file.writelines(f"{json.dumps(content)}\n" for content in contents)
            except OSError as error:
                self._next = math.inf
                warnings.warn(f"The costs of mini-batches are not recorded: {error}", stacklevel=2)


if _VARIABLE in os.environ:
    listeners.append(StatsFile(os.environ[_VARIABLE]).add)
