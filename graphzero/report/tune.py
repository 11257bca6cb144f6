"""`tune`: compares prefetch settings on this machine by trials, and chooses one for a dataset.

Each trial iterates over mini-batches with one setting, in a process of its own, inside the memory
limit, and from the same state: no page of the dataset in memory. Rounds have every setting once,
in random order, so that whatever changes on the machine meanwhile meets all settings alike.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from itertools import chain, repeat
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.io.prefetch import Prefetch, unavailable_strategies
from graphzero.io.row_io import managed_bytes, row_sources
from graphzero.loader.seeds import seeds_of_split
from graphzero.loader.stats import BatchStats
from graphzero.report.limited_memory import MemoryGroup, limited_group
from graphzero.report.readings import disk_rate, installed_versions, machine_of
from graphzero.store.atomic import folder_lock
from graphzero.store.free_memory import available_memory
from graphzero.units import format_bytes

if TYPE_CHECKING:
    from graphzero.loader.neighbor_dataset import NeighborDataset

LEAST_ROUNDS = 3
_WARM_UP, _BATCHES = 15, 20  # mini-batches of a trial, as far as its time allows
_START_SECONDS = 60.0  # of the interpreter and its imports, on a slow machine
_USUAL_START = 3.0
_MOST_SECONDS, _LEAST_SECONDS = 60.0, 0.25  # of the mini-batches of a trial
_NO_BUDGET = 1e9  # seconds
_OF_WARM_UP = 0.55  # of this time
_OVERRUN = 0.1  # of the budget, until the last trial is ended
_NOISE = 1.03  # settings that are so close to the fastest are as fast
_LEAST_LIMIT = 32_000_000  # bytes: an interpreter with PyTorch takes several times that
_PROGRAM = "from graphzero.report.tune import run_trial; run_trial()"


@dataclass(frozen=True)
class Workload:
    """The mini-batches of a trial: those of a `NeighborDataset` in its process, and `Collate`.

    Attributes
    ----------
    folder : str
        Of the dataset.
    fanouts : list of int, or dict of str to list of int
        Of a typed graph also by edge type, as "source__relation__target".
    batch_size : int
    split : str
        Whose nodes are the seeds; "all" for all nodes.
    node_type : str or None
        Of a typed graph, the type of the seeds; None for the one that has the split.
    gather : tuple of str, or None
        The attributes that mini-batches have; None for all.
    num_threads : int or None
        Threads that sample; None for all processors.
    step_ms : float
        Milliseconds of sleep for each mini-batch, in place of a model on another device. 0: the
        speed of loading alone.
    """

    folder: str
    fanouts: Sequence[int] | Mapping[str, Sequence[int]] = (15, 10, 5)
    batch_size: int = 1024
    split: str = "train"
    node_type: str | None = None
    gather: tuple[str, ...] | None = None
    num_threads: int | None = None
    step_ms: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.step_ms < 1e9:
            raise ValueError(f"step_ms must be a number that is not negative, not {self.step_ms}")


@dataclass(frozen=True)
class Trial:
    """The figures of one trial.

    Attributes
    ----------
    setting : Prefetch
    round : int
        From 0.
    seconds : tuple of float
        Of each measured mini-batch, from asking for it to asking for the next; empty where the
        trial failed.
    reason : str or None
        Why there are no figures: killed, failed, took too long. None where there are.
    stats : dict of str to float
        Means over the mini-batches of the figures of `BatchStats`.
    available : int or None
        Bytes of memory that were available to the process when it began.
    """

    setting: Prefetch
    round: int = 0
    seconds: tuple[float, ...] = ()
    reason: str | None = None
    stats: dict[str, float] = field(default_factory=dict)
    available: int | None = None

    @property
    def seconds_per_batch(self) -> float | None:
        """Mean of the measured mini-batches; None where the trial failed."""
        return fmean(self.seconds) if self.seconds else None

    def plain(self) -> dict[str, object]:
        """The same as plain values."""
        setting = changed_fields(self.setting)
        return {**asdict(self), "setting": setting, "seconds_per_batch": self.seconds_per_batch}


@dataclass(frozen=True)
class Tuned:
    """The result of `tune`.

    Attributes
    ----------
    workload : Workload
    memory_limit : int or None
        Of each trial, in bytes; None for what the machine has available.
    group : str or None
        The interface that limited memory; None where nothing did.
    size : int
        Bytes of the dataset.
    trials : tuple of Trial
    unavailable : dict of str to str
        Strategies that were not compared, and why.
    disk_rate : float or None
        Bytes a second of random reads.
    """

    workload: Workload
    memory_limit: int | None
    group: str | None
    size: int
    trials: tuple[Trial, ...]
    unavailable: dict[str, str]
    disk_rate: float | None = None

    @property
    def available(self) -> int:
        """Bytes that were available to the trials when they began."""
        sizes = [trial.available for trial in self.trials if trial.available is not None]
        return int(median(sizes))

    @property
    def fits(self) -> bool:
        """True if there is memory for the whole dataset."""
        return self.size <= self.available

    @property
    def seconds(self) -> dict[Prefetch, float]:
        """Seconds a mini-batch of each setting, the median of its trials; without failed ones."""
        return {setting: median(times) for setting, times in of_settings(self.trials).items()}

    @property
    def chosen(self) -> Prefetch:
        """The setting for loaders: the fastest, or the default where the dataset fits in memory.

        Trials begin without any page of it, so they show how fast it comes into memory. Once it is
        there, what is fastest in reading has nothing left to read. Of settings that differ by less
        than the noise, the first one of the list is chosen: it begins with the default. Those that
        the budget has left out of later rounds are not.
        """
        times = of_settings(self.trials)
        if self.fits and Prefetch() in times:
            return Prefetch()
        rounds = max(map(len, times.values()))
        seconds = {
            setting: median(values) for setting, values in times.items() if len(values) == rounds
        }
        least = min(seconds.values())
        return next(setting for setting, time in seconds.items() if time <= _NOISE * least)

    def content(self) -> dict[str, object]:
        """What ``--json`` prints: the choice, the trials, and where they were made."""
        return {
            "machine": machine_of(self.workload.folder),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "prefetch": changed_fields(self.chosen),
            "memory_limit": self.memory_limit,
            "available": self.available,
            "limited_by": self.group,
            "workload": {**asdict(self.workload), "folder": None},
            "disk_rate": {"bytes_per_second": self.disk_rate},
            "versions": installed_versions(),
            "unavailable": self.unavailable,
            "trials": [trial.plain() for trial in self.trials],
        }

    def lines(self) -> Iterator[str]:
        """A table of the settings, the fastest first."""
        seconds, times = self.seconds, of_settings(self.trials)
        heading = "strategy  lookahead  other options"
        names = [in_columns(trial.setting) for trial in self.trials]
        width = max(len(name) for name in (heading, *names))
        yield f"  {heading:{width}s}  s/batch   range            trials"
        for setting in sorted(seconds, key=seconds.__getitem__):
            mark = "*" if setting == self.chosen else " "
            least, most, count = min(times[setting]), max(times[setting]), len(times[setting])
            span = f"{least:.4f}-{most:.4f}"
            name = in_columns(setting)
            yield f"{mark} {name:{width}s}  {seconds[setting]:.4f}    {span:15s}  {count}"
        reasons = {trial.setting: trial.reason for trial in self.trials if not trial.seconds}
        for setting, reason in reasons.items():
            yield f"  {in_columns(setting):{width}s}  {reason}"


def of_settings(trials: Sequence[Trial]) -> dict[Prefetch, list[float]]:
    """Seconds a mini-batch, by setting; without settings of which a trial failed."""
    failed = {trial.setting for trial in trials if not trial.seconds}
    times: dict[Prefetch, list[float]] = {}
    for trial in trials:
        if trial.setting not in failed:
            times.setdefault(trial.setting, []).append(fmean(trial.seconds))
    return times


Row = dict[str, object]  # of a table, by column


def csv_rows(trials: Iterable[Trial], **constants: object) -> list[Row]:
    """A row for each trial; `constants` are columns of the same value in each."""
    rows: list[Row] = []
    for trial in trials:
        figures = trial.plain()
        del figures["setting"], figures["seconds"], figures["stats"]
        rows.append({**constants, **asdict(trial.setting), **trial.stats, **figures})
    return rows


def csv_text(rows: Sequence[Row]) -> str:
    """Rows as CSV."""
    text = io.StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# --- settings


def settings_to_compare(
    features: int, available: int, unavailable: Collection[str] = ()
) -> list[Prefetch]:
    """A dozen settings, the default first.

    Parameters
    ----------
    features : int
        Bytes of the rows that a strategy reads.
    available : int
        Bytes of memory.
    unavailable : collection of str
        Strategies that cannot be used.
    """
    half = round(available / 2 / features, 3) if features else 1.0
    parts = (0.0, half) if 0 < half < 1 else (0.0,)
    settings = [
        *(Prefetch("auto", lookahead=lookahead) for lookahead in (1, 0, 2, 4)),
        *(Prefetch("uring", lookahead=lookahead, resident=1.0) for lookahead in (1, 2, 4)),
        Prefetch("uring", lookahead=2, resident=1.0, gap_pages=0),
        Prefetch("pread", lookahead=2, resident=1.0),
        *(Prefetch("willneed", lookahead=2, resident=part) for part in parts),
        *(Prefetch("none", lookahead=lookahead) for lookahead in (0, 1)),
    ]
    return [setting for setting in settings if setting.strategy not in unavailable]


def changed_fields(setting: Prefetch) -> dict[str, object]:
    """The strategy of a setting, and its other fields that differ from the default."""
    default = {**asdict(Prefetch()), "strategy": None}
    return {name: value for name, value in asdict(setting).items() if value != default[name]}


def in_columns(setting: Prefetch) -> str:
    """A setting in a table: strategy, lookahead, and the other options that are not the default."""
    others = {**changed_fields(setting), "strategy": None, "lookahead": None}
    texts = [f"{name}={value}" for name, value in others.items() if value is not None]
    return f"{setting.strategy:8s}  {setting.lookahead:<9d}  {' '.join(texts)}"


def as_argument(setting: Prefetch) -> str:
    """A setting as loaders take it: ``prefetch=gz.Prefetch(strategy="uring", lookahead=2)``."""
    named = [f"{name}={json.dumps(value)}" for name, value in changed_fields(setting).items()]
    return f"prefetch=gz.Prefetch({', '.join(named)})"


# --- measuring


def tune(
    workload: Workload,
    *,
    memory_limit: int | None = None,
    seconds: float = 300.0,
    rounds: int = LEAST_ROUNDS,
    settings: Sequence[Prefetch] | None = None,
    disk: bool = True,
    say: Callable[[str], object] = lambda text: None,
) -> Tuned:
    """Compares prefetch settings; the choice is that of the smallest median.

    Parameters
    ----------
    workload : Workload
    memory_limit : int, optional
        Bytes that the process of a trial has in all: its page cache, its mini-batches, the
        interpreter and the libraries. Default: what the machine has available.
    seconds : float
        Trials are as long as all of them together allow in this time, within limits. If it is too
        short for all settings, later rounds are of those that were the fastest.
    rounds : int
        Trials of each setting, at least three.
    settings : sequence of Prefetch, optional
        Default: `settings_to_compare`.
    disk : bool
        Measures the disk's own rate first.
    say : callable
        Gets a line for each trial.

    Raises
    ------
    BlockingIOError
        If another process builds or measures this dataset.
    NoMemoryGroup
        If the kernel lets nobody limit memory here.
    RuntimeError
        If every setting failed, with the reason of the first.
    ValueError
        If the workload is wrong, or the limit far too low; before any trial. After the first, if
        the time is too short to compare two settings.
    """
    budget = _Budget(time.monotonic() + seconds)
    if memory_limit is not None and memory_limit < _LEAST_LIMIT:
        raise ValueError(
            f"the memory limit is {memory_limit:,} bytes, and Python with PyTorch takes more than "
            f"{format_bytes(_LEAST_LIMIT)}: write it with a unit, like '2GB'"
        )
    if not seconds > 0:
        raise ValueError(f"the budget must be a positive number of seconds, not {seconds}")
    if rounds < LEAST_ROUNDS:
        raise ValueError(f"a median takes at least {LEAST_ROUNDS} trials, not {rounds}")
    with ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(Path(workload.folder)))
        except BlockingIOError:
            raise
        except OSError:  # a file system that cannot lock, such as NFS, which wants to write
            pass
        with open_dataset(workload.folder) as ds:
            mini_batches(ds, workload, Prefetch())  # errors before any trial
            features = managed_bytes(row_sources(ds))
            size = sum(mapping.size for mapping in ds.mappings)
            files = list(map(Path, ds.paths))
        unavailable = unavailable_strategies()
        if settings is None:
            room = min(filter(None, (available_memory(), memory_limit)))
            settings = settings_to_compare(features, room, unavailable)
        group = None
        if memory_limit is not None:
            group = stack.enter_context(limited_group(memory_limit))
        rate = disk_rate(max(files, key=os.path.getsize)) if disk else None
        say(f"comparing {len(settings)} settings")
        trials: list[Trial] = []
        for number, setting, count in _turns(settings, rounds, trials, budget):
            share, begin = budget.share(count), time.monotonic()
            timeout = budget.end - begin + _OVERRUN * seconds
            trial = measure(workload, setting, group, files, seconds=share, timeout=timeout)
            trials.append(replace(trial, round=number))
            loaded = (trial.seconds_per_batch or 0.0) * (_WARM_UP + _BATCHES)
            taken = time.monotonic() - begin
            budget.starts.append(max(0.0, taken - min(share, loaded)))
            figures = trial.reason or f"{trial.seconds_per_batch:.4f} s a mini-batch"
            say(f"round {number + 1}, {as_argument(setting)}: {figures}")
        if not of_settings(trials):
            raise RuntimeError(f"every setting failed; the first: {trials[0].reason}")
    return Tuned(
        workload=workload,
        memory_limit=memory_limit,
        group=None if group is None else group.kind,
        size=size,
        trials=tuple(trials),
        unavailable=unavailable,
        disk_rate=rate,
    )


@dataclass
class _Budget:
    """The time until a moment, and the seconds that trials took beside their mini-batches."""

    end: float
    starts: list[float] = field(default_factory=list)

    @property
    def start(self) -> float:
        """Seconds that a trial takes beside its mini-batches."""
        return median(self.starts or [_USUAL_START])

    def num_trials(self) -> int:
        """How many of the shortest trials there is time for."""
        seconds = min(self.end - time.monotonic(), _NO_BUDGET)
        return int(seconds / (self.start + _LEAST_SECONDS))

    def share(self, count: int) -> float:
        """Seconds for the mini-batches of a trial, if there will be so many."""
        seconds = (self.end - time.monotonic()) / count - self.start
        return min(_MOST_SECONDS, max(_LEAST_SECONDS, seconds))


def _turns(
    settings: Sequence[Prefetch], rounds: int, trials: Sequence[Trial], budget: _Budget
) -> Iterator[tuple[int, Prefetch, int]]:
    """The round and the setting of each trial, and how many trials are to come with it.

    A round is without settings that have failed before, and has as many as there is time for.
    """
    compared = min(2, len(settings))  # at least
    for number in range(rounds):
        later = rounds - number - 1
        times = of_settings(trials)
        kept = [setting for setting in times if len(times[setting]) == number]
        kept.sort(key=lambda setting: median(times[setting]))
        kept = kept[: max(compared, budget.num_trials() // (later + 1))]
        remaining = [setting for setting in settings if setting in kept or not number]
        if number:
            random.Random(number).shuffle(remaining)
        for place, setting in enumerate(remaining):
            if number == 0 and place == 1 and budget.num_trials() < compared * rounds - 1:
                least = (budget.start + _LEAST_SECONDS) * compared * rounds
                raise ValueError(
                    f"the budget is too short: {rounds} trials of {compared} settings take "
                    f"{least:.0f} s here"
                )
            if number == 0 and place >= compared and budget.num_trials() <= compared * later:
                break
            yield number, setting, len(remaining) * (later + 1) - place


def measure(
    workload: Workload,
    setting: Prefetch,
    group: MemoryGroup | None,
    files: Sequence[Path],
    *,
    seconds: float = _MOST_SECONDS,
    batches: int = _BATCHES,
    timeout: float = math.inf,
) -> Trial:
    """One trial, also where its process is killed, fails or does not end in time.

    Parameters
    ----------
    workload : Workload
    setting : Prefetch
    group : MemoryGroup or None
        In which its process runs.
    files : sequence of path
        Of the dataset, which are dropped from the page cache before.
    seconds : float
        That its mini-batches take, at the most.
    batches : int
        To measure at most, after those of warming up.
    timeout : float
        Seconds until the process is ended, if it has not been by then.
    """
    request = {
        "workload": {**asdict(workload), "folder": os.path.abspath(workload.folder)},
        "setting": asdict(setting),
        "batches": batches,
        "seconds": seconds,
    }
    drop_files(files)
    kills = 0 if group is None else group.kills()
    # OpenMP's waiting threads would otherwise take the time of those that read.
    path = os.pathsep.join(os.path.abspath(part) for part in sys.path if part)
    environment = {"OMP_WAIT_POLICY": "passive", **os.environ, "PYTHONPATH": path}
    command = [*(group.prefix if group else ()), sys.executable, "-c", _PROGRAM]
    timeout = min(timeout, _START_SECONDS + 3 * seconds)
    try:
        done = subprocess.run(
            [*command, json.dumps(request)],
            capture_output=True,
            timeout=timeout,
            env=environment,
            cwd="/",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Trial(setting, reason=f"took longer than {timeout:.0f} s")
    if done.returncode == 0 and done.stdout:
        figures = json.loads(done.stdout)
        return Trial(
            setting,
            seconds=tuple(figures["seconds"]),
            stats=figures["stats"],
            available=figures["available"],
        )
    if group is not None and (group.kills() > kills or done.returncode == -signal.SIGKILL):
        limit = format_bytes(group.limit)
        return Trial(
            setting, reason=f"killed: it needs more memory than {limit}: give a larger limit"
        )
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    reason = f"failed: {last[:300]}" if last else f"ended with the code {done.returncode}"
    return Trial(setting, reason=reason)


# --- in the process of a trial


def run_trial() -> None:
    """Does what `measure` asks for in the argument, and writes the figures as JSON."""
    from graphzero.loader.mini_batch import Collate  # imports torch

    with suppress(OSError):  # if memory is short, this process is killed and not its parent
        Path("/proc/self/oom_score_adj").write_text("500")
    request, available = json.loads(sys.argv[1]), available_memory()
    work = Workload(**request["workload"])
    times: list[float] = []
    stats: list[BatchStats] = []
    ds = open_dataset(work.folder)  # until the process ends
    batches = mini_batches(ds, work, Prefetch(**request["setting"]))
    if len(batches) == 0:
        raise ValueError("the split has no seeds: choose another one")
    collate, stream = Collate(ds), chain.from_iterable(repeat(batches))

    def take(count: int, seconds: float) -> None:
        times.clear()
        stats.clear()
        end = time.perf_counter() + seconds
        while not times or (len(times) < count and time.perf_counter() < end):
            started = time.perf_counter()
            batch = collate(next(stream))
            stats.append(batch.stats)
            del batch  # its memory is needed for the next one
            time.sleep(work.step_ms / 1000)
            times.append(time.perf_counter() - started)

    take(_WARM_UP, _OF_WARM_UP * request["seconds"])
    take(request["batches"], (1 - _OF_WARM_UP) * request["seconds"])
    numbers = [name for name, value in asdict(stats[0]).items() if not isinstance(value, str)]
    figures = {
        "seconds": times,
        "stats": {name: fmean(getattr(cost, name) for cost in stats) for name in numbers},
        "available": available,
    }
    print(json.dumps(figures))


def mini_batches(ds: Dataset, work: Workload, prefetch: Prefetch) -> NeighborDataset:
    """The mini-batches of a trial."""
    from graphzero.loader.neighbor_dataset import NeighborDataset  # imports torch

    return NeighborDataset(
        ds,
        seeds_of_split(ds, work.split, work.node_type),
        work.fanouts,
        batch_size=work.batch_size,
        shuffle=True,
        seed=0,
        prefetch=prefetch,
        gather=work.gather,
        num_threads=work.num_threads,
    )


def drop_files(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Drops files from the page cache, but for pages that a process has mapped and used."""
    for path in paths if hasattr(os, "posix_fadvise") else ():
        with open(path, "rb") as file:
            os.fsync(file.fileno())  # pages that are not on the disk yet cannot be dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
