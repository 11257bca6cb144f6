"""`tune`: compares prefetch settings by trials, and says what to write into ``tuning.json``."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib import metadata
from statistics import median
from typing import Any, Protocol

from graphzero.graph.dataset import Dataset
from graphzero.graph.opening import open_dataset
from graphzero.io.limits import available_memory
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_sources import managed_bytes, row_sources
from graphzero.io.strategies import unavailable_strategies
from graphzero.report.disk_rate import DiskRate, largest_file, measure_disk
from graphzero.report.tuning.alone import measuring_alone, unchanged_files
from graphzero.report.tuning.grid import changed_fields, grid
from graphzero.report.tuning.halving import Schedule, Search, search
from graphzero.report.tuning.trial import TrialResult, Trials, Workload
from graphzero.report.tuning.trial_process import mini_batches
from graphzero.store.machine import this_machine
from graphzero.store.tuning_file import files_digest, tuning_content
from graphzero.units import format_bytes

__all__ = ["Observer", "Record", "Tuned", "tune"]

_WARM_UP = 6  # mini-batches
_MOST_SECONDS = 60.0  # that one trial warms up, and measures
_OF_WARM_UP = 0.55  # of the time that a trial has for its mini-batches
_LEAST_SECONDS = 0.25
_FIRST_OVERHEAD = 1.0  # seconds, until a trial has shown what it takes to start its process
_COLD = 0.02  # of the files: what the kernel reads along
_LEAST_LIMIT = 32_000_000  # bytes: an interpreter with PyTorch takes several times that
# Of the memory that a plain trial takes, what a limit must have at least: the kernel's own tables
# count too, and other settings hold more.
_WITH_REST = 1.25
_DEFAULTS = [Prefetch(), *(Prefetch("auto", lookahead=n) for n in (2, 0, 4))]


@dataclass(frozen=True)
class Record:
    """One trial of a search.

    Attributes
    ----------
    rung : int
        From 0; all trials of the finals have the same number.
    result : TrialResult
    """

    rung: int
    result: TrialResult


class Observer(Protocol):
    """Is told how a search goes on."""

    def started(self, trials: Trials, settings: Sequence[Prefetch], disk: DiskRate | None) -> None:
        """Before the first trial."""

    def trying(self, setting: Prefetch, rung: int) -> None:
        """Before each trial."""

    def tried(self, record: Record) -> None:
        """After each trial."""

    def left(self, settings: Sequence[Prefetch]) -> None:
        """After each cut: the settings that are compared further."""


@dataclass(frozen=True)
class Tuned:
    """What `tune` has found.

    Attributes
    ----------
    workload : Workload
    memory_limit : int or None
        Of each trial, in bytes; None for what the machine has available.
    group : str
        The interface that limited memory; empty where nothing did.
    no_group : str or None
        Why the page cache was not limited, although there was a limit.
    available : int
        Bytes that were available to the trials when they began.
    size : int
        Bytes of the dataset.
    digest : str
        `files_digest` of its files, before the first trial.
    settings : tuple of Prefetch
        That were to be compared.
    records : tuple of Record
        In the order of time.
    found : Search of Prefetch
    unavailable : dict of str to str
        Strategies that were not compared, and why.
    disk : DiskRate or None
    """

    workload: Workload
    memory_limit: int | None
    group: str
    no_group: str | None
    available: int
    size: int
    digest: str
    settings: tuple[Prefetch, ...]
    records: tuple[Record, ...]
    found: Search[Prefetch]
    unavailable: dict[str, str]
    disk: DiskRate | None = None

    @property
    def fits(self) -> bool:
        """Whether there is memory for the whole dataset."""
        return self.size <= self.available

    @property
    def chosen(self) -> Prefetch:
        """The setting for loaders: the fastest, or the default where the dataset fits in memory.

        Trials begin without any page of it, so they show how fast it comes into memory. Once it is
        there, what is fastest in reading has nothing left to read.
        """
        default = self.best_trial(Prefetch())
        if self.fits and default is not None and default.reason is None:
            return Prefetch()
        return self.found.best

    @property
    def warm_trials(self) -> int | None:
        """Trials that began with pages of the dataset in memory; None if that is unknown."""
        shares = [record.result.in_memory for record in self.records]
        if None in shares:
            return None
        return sum(share > _COLD for share in shares if share is not None)

    def best_trial(self, setting: Prefetch) -> TrialResult | None:
        """The last trial of a setting that did not fail, or else the last; None if there is none.

        It is the longest one: on each rung trials are longer than on the one before.
        """
        of = [record.result for record in self.records if record.result.setting == setting]
        done = [result for result in of if result.reason is None]
        return done[-1] if done else of[-1] if of else None

    def _last(self, setting: Prefetch) -> list[float]:
        """Seconds a mini-batch, of the trials on the highest rung that a setting has reached."""
        of = [one for one in self.records if one.result.setting == setting]
        rung = max((one.rung for one in of if one.result.reason is None), default=-1)
        times = [one.result.seconds_per_batch for one in of if one.rung == rung]
        return [time for time in times if time is not None]

    def seconds(self, setting: Prefetch) -> float | None:
        """Seconds a mini-batch: median of the trials on the highest rung that it has reached."""
        times = self._last(setting)
        return median(times) if times else None

    def turns(self, setting: Prefetch) -> int:
        """How many trials these are."""
        return len(self._last(setting))

    def content(self) -> dict[str, Any]:
        """What is written into ``tuning.json``."""
        work = self.workload
        chosen = self.chosen
        return tuning_content(
            this_machine(work.folder),
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            prefetch={"strategy": chosen.strategy, **changed_fields(chosen)},
            memory_limit=self.memory_limit,
            available=self.available,
            dataset=self.digest,
            limited_by=self.group or None,
            not_limited=self.no_group,
            workload={**asdict(work), "folder": None},
            disk_rate=None if self.disk is None else asdict(self.disk) | {"path": None},
            versions={
                "python": platform.python_version(),
                **{name: metadata.version(name) for name in ("graphzero", "numpy", "torch")},
            },
            unavailable=self.unavailable,
            ratios=[
                {"prefetch": _fields(one), "ratio": ratio}
                for one, ratio in self.found.ratios.items()
            ],
            not_measured=[_fields(one) for one in self.found.left_out],
            trials=[_plain(record) for record in self.records],
        )


def _fields(setting: Prefetch) -> dict[str, Any]:
    return {"strategy": setting.strategy, **changed_fields(setting)}


def _plain(record: Record) -> dict[str, Any]:
    result = record.result
    return {
        "rung": record.rung,
        **asdict(result),
        "setting": _fields(result.setting),
        "seconds_per_batch": result.seconds_per_batch,
    }


def tune(
    workload: Workload,
    *,
    memory_limit: int | None = None,
    seconds: float = 300.0,
    full: bool = False,
    disk: bool = True,
    settings: Sequence[Prefetch] | None = None,
    observer: Observer | None = None,
) -> Tuned:
    """Finds the prefetch setting that loads mini-batches fastest.

    Parameters
    ----------
    workload : Workload
    memory_limit : int, optional
        As of `Trials`.
    seconds : float
        After so long no further trial begins.
    full : bool
        Measures every setting as long as those of the finals, whatever time that takes.
    disk : bool
        Measures the disk's own rate first.
    settings : sequence of Prefetch, optional
        Default: `grid`.
    observer : Observer, optional

    Raises
    ------
    BlockingIOError
        If another process builds or measures this dataset.
    RuntimeError
        If every setting failed; with the reason of the first. Or if the time was over before
        settings could be compared, or the files have changed.
    ValueError
        If the workload is wrong, or the limit far too low; before any trial.
    """
    if memory_limit is not None and memory_limit < _LEAST_LIMIT:
        raise ValueError(
            f"the memory limit is {memory_limit:,} bytes, and Python with PyTorch takes more than "
            f"{format_bytes(_LEAST_LIMIT)}: write it with a unit, like '2GB'"
        )
    with measuring_alone(workload.folder), unchanged_files(workload.folder):
        with open_dataset(workload.folder) as ds:
            mini_batches(ds, asdict(workload), Prefetch())  # errors before any trial
            features = managed_bytes(row_sources(ds))
            size, digest = _size(ds), files_digest(ds.mappings)
        unavailable = unavailable_strategies()
        if settings is None:
            room = available_memory()
            room = room if memory_limit is None else min(room, memory_limit)
            settings = grid(features, room, unavailable)
        schedule = Schedule(seconds=seconds)
        if full:
            schedule = Schedule(finalists=len(settings), eliminates=False)
        with Trials(workload, memory_limit=memory_limit) as trials:
            rate = measure_disk(largest_file(trials.files)) if disk else None
            run = _Measurements(trials, observer)
            if observer is not None:
                observer.started(trials, settings, rate)
            on_cut = (lambda _: None) if observer is None else observer.left
            found = search(settings, run, schedule, preferred=_DEFAULTS, on_cut=on_cut)
            if found is None:
                raise RuntimeError(_no_choice(trials, run.records, len(settings)))
    return Tuned(
        workload,
        memory_limit,
        trials.group,
        trials.no_group,
        _available(trials, run.records),
        size,
        digest,
        tuple(settings),
        tuple(run.records),
        found,
        unavailable,
        rate,
    )


def _size(ds: Dataset) -> int:
    return sum(mapping.size for mapping in ds.mappings)


def _available(trials: Trials, records: Sequence[Record]) -> int:
    """Bytes that trials had when they began."""
    found = [record.result.available for record in records]
    available = int(median(one for one in found if one is not None))
    if trials.no_group is not None and trials.memory_limit is not None:
        available = min(available, trials.memory_limit)
    return available


def _no_choice(trials: Trials, records: Sequence[Record], count: int) -> str:
    """Why nothing was found among so many settings."""
    if any(record.result.reason is None for record in records):
        return "the time was over before settings could be compared: give a larger --budget"
    tried = len({record.result.setting for record in records})
    which = "every setting" if tried == count else f"all {tried} of {count} settings tried"
    reason = records[0].result.reason or ""
    text = f"{which} failed; the first: {reason}"
    if trials.memory_limit is not None and "killed" in reason:
        own = trials.own_memory()
        if own is not None:
            text += (
                f". The interpreter, its libraries, the seeds and one mini-batch take about "
                f"{format_bytes(own)}, and more with what is read ahead: give --memory-limit at "
                f"least {format_bytes(int(_WITH_REST * own))}"
            )
    return text


class _Measurements:
    """Runs the trials of a search, and keeps their results.

    Attributes
    ----------
    records : list of Record
    """

    def __init__(self, trials: Trials, observer: Observer | None) -> None:
        self._trials = trials
        self._observer = observer
        self._overheads: list[float] = []
        self.records: list[Record] = []

    def __call__(
        self, setting: Prefetch, *, batches: int, seconds: float, rung: int
    ) -> tuple[float, ...]:
        """Mean seconds of each two mini-batches; empty where the trial failed."""
        if self._observer is not None:
            self._observer.trying(setting, rung)
        overhead = median(self._overheads) if self._overheads else _FIRST_OVERHEAD
        for_batches = max(_LEAST_SECONDS, seconds - overhead)
        if math.isinf(seconds):
            for_batches = 2 * _MOST_SECONDS
        result = self._trials.run(
            setting,
            batches=batches,
            warm_up=_WARM_UP,
            warm_up_seconds=min(_MOST_SECONDS, _OF_WARM_UP * for_batches),
            seconds=min(_MOST_SECONDS, (1 - _OF_WARM_UP) * for_batches),
        )
        if result.reason is None:
            used = result.warm_up_seconds + sum(result.seconds)
            self._overheads.append(result.wall_seconds - used)
        record = Record(rung, result)
        self.records.append(record)
        if self._observer is not None:
            self._observer.tried(record)
        return result.windows
