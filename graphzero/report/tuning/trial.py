"""`Trials`: mini-batches with one setting of `Prefetch` at a time, each in a process of its own."""

from __future__ import annotations

import signal
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, median
from typing import Any

from graphzero.io.prefetch import Prefetch
from graphzero.report.tuning.cache_state import dataset_files, drop_files
from graphzero.report.tuning.limited_memory import MemoryGroup, NoMemoryGroup, memory_group
from graphzero.report.tuning.trial_server import Answer, TrialServer
from graphzero.units import format_bytes

__all__ = ["TrialResult", "Trials", "Workload"]

_START_SECONDS = 60.0  # of the interpreter and its imports, on a slow machine
_WINDOW = 2  # mini-batches: threads finish several at about the same time
_ERROR_CHARACTERS = 300
# Of the process that forks the trials: what a trial has copies of, as measured. It is added to the
# limit, because a process of its own would not have it.
_COPIED_BYTES = 8 << 20


@dataclass(frozen=True)
class Workload:
    """What a trial iterates over: a `NeighborDataset` in this process, and `Collate`.

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
    feature_dtype : {None, "float32"}
    num_threads : int or None
        Threads that sample; None for all processors.
    step_ms : float
        Milliseconds of sleep for each mini-batch, in place of a model on another device. 0: the
        speed of loading alone.
    seed : int
    sampling : mapping
        Fields of `Sampling`.
    """

    folder: str
    fanouts: Sequence[int] | Mapping[str, Sequence[int]] = (15, 10, 5)
    batch_size: int = 1024
    split: str = "train"
    node_type: str | None = None
    gather: tuple[str, ...] | None = None
    feature_dtype: str | None = None
    num_threads: int | None = None
    step_ms: float = 0.0
    seed: int = 0
    sampling: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialResult:
    """What one trial has shown.

    Attributes
    ----------
    setting : Prefetch
    seconds : tuple of float
        Of each measured mini-batch, from asking for it to asking for the next; empty where the
        trial failed.
    warmed_up : int
        Mini-batches before these, not measured.
    warm_up_seconds : float
        That these took.
    peak_anonymous : int or None
        Most bytes of the process's own memory; None if unknown.
    reason : str or None
        Why there are no figures: killed, failed, took too long. None where there are.
    io : str
        How rows were read, and why: `BatchStats.io` of the last mini-batch.
    stats : dict of str to float
        Means over the mini-batches of all figures of `BatchStats`.
    available : int or None
        Bytes of memory that were available to the process when it began.
    in_memory : float or None
        Share of the dataset's files that was in the page cache when it began; None if unknown.
    wall_seconds : float
        Of the whole trial, with the start of its process.
    """

    setting: Prefetch
    seconds: tuple[float, ...] = ()
    warmed_up: int = 0
    warm_up_seconds: float = 0.0
    peak_anonymous: int | None = None
    reason: str | None = None
    io: str = ""
    stats: dict[str, float] = field(default_factory=dict)
    available: int | None = None
    in_memory: float | None = None
    wall_seconds: float = 0.0

    @property
    def windows(self) -> tuple[float, ...]:
        """Mean seconds of each two mini-batches in succession; with fewer than two, of these."""
        starts = range(0, max(1, len(self.seconds) - _WINDOW + 1), _WINDOW)
        return tuple(fmean(self.seconds[i : i + _WINDOW]) for i in starts) if self.seconds else ()

    @property
    def seconds_per_batch(self) -> float | None:
        """Median of `windows`; None where the trial failed."""
        return median(self.windows) if self.seconds else None

    @property
    def pages_missed(self) -> float | None:
        """Pages of rows that a mini-batch had to wait for, on average."""
        return self.stats.get("pages_missed")


class Trials:
    """Runs trials one after another, each from the same cache state and with the same limit.

    A context manager: `close` ends what it has started.

    Parameters
    ----------
    workload : Workload
    memory_limit : int, optional
        Bytes that the process of a trial has in all: its page cache, its mini-batches, the
        interpreter and the libraries. Default: what the machine has available.

    Attributes
    ----------
    files : list of pathlib.Path
        The dataset's, which are dropped from the page cache before each trial.
    group : str
        The interface that limits memory; empty where nothing does.
    no_group : str or None
        Why a limit that was given does not hold for the page cache. The trials then only have it as
        `Prefetch.memory_limit`.

    Raises
    ------
    FileNotFoundError, FormatError
        If the folder has no dataset that can be read.
    """

    def __init__(self, workload: Workload, *, memory_limit: int | None = None) -> None:
        self.workload = workload
        self.memory_limit = memory_limit
        self.files = dataset_files(workload.folder)
        self.group = ""
        self.no_group: str | None = None
        self._group: MemoryGroup | None = None
        self._server: TrialServer | None = None
        self._stack = ExitStack()
        self._finalizer = weakref.finalize(self, self._stack.close)  # at the latest at exit
        if memory_limit is not None:
            try:
                self._group = self._stack.enter_context(memory_group(memory_limit + _COPIED_BYTES))
                self.group = self._group.kind
            except NoMemoryGroup as error:
                self.no_group = str(error)

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes, and removes the memory group."""
        self._finalizer()

    def run(
        self,
        setting: Prefetch,
        *,
        batches: int,
        warm_up: int = 6,
        seconds: float = 60.0,
        warm_up_seconds: float | None = None,
    ) -> TrialResult:
        """One trial.

        Parameters
        ----------
        setting : Prefetch
        batches : int
            Mini-batches to measure.
        warm_up : int
            Mini-batches before these, at least; up to four times as many, until the number of
            pages in memory hardly grows any more.
        seconds : float
            After so long, no further mini-batch is measured.
        warm_up_seconds : float, optional
            The same for those of warming up. Default: `seconds`.

        Returns
        -------
        TrialResult
            Also where the process is killed, fails, or does not end in time; `reason` says so.
        """
        warm_up_seconds = seconds if warm_up_seconds is None else warm_up_seconds
        started = time.monotonic()
        tried = setting
        if self.no_group is not None and setting.memory_limit is None:
            tried = replace(setting, memory_limit=self.memory_limit)
        request = {
            "workload": asdict(self.workload),
            "setting": asdict(tried),
            "warm_up": warm_up,
            "warm_up_seconds": warm_up_seconds,
            "batches": batches,
            "seconds": seconds,
        }
        server = self._running_server()
        in_memory = drop_files(self.files)
        kills = self._kills()
        most = _START_SECONDS + 3 * (warm_up_seconds + seconds)
        answer = server.call(request, most)
        figures: dict[str, Any] = dict(answer.figures or {})
        if answer.code != 0:
            figures["reason"] = self._reason(answer, self._kills() > kills, most)
        figures["seconds"] = tuple(figures.get("seconds", ()))
        wall = time.monotonic() - started
        return TrialResult(setting, in_memory=in_memory, wall_seconds=wall, **figures)

    def own_memory(self) -> int | None:
        """Bytes of anonymous memory that a process takes which reads nothing ahead.

        Without a limit: the interpreter, its libraries, the seeds, and one mini-batch.
        """
        plain = Prefetch("none", lookahead=0)
        with Trials(self.workload) as unlimited:
            return unlimited.run(plain, batches=1, warm_up=0).peak_anonymous

    def _running_server(self) -> TrialServer:
        """The process that forks trials; another one if it was killed."""
        if self._server is None or not self._server.is_running:
            if self._server is not None:
                self._server.close()  # its trial may have outlived it
            self._server = TrialServer(() if self._group is None else self._group.prefix)
            self._stack.callback(self._server.close)
        return self._server

    def _kills(self) -> int:
        return 0 if self._group is None else self._group.kills()

    def _reason(self, answer: Answer, was_killed: bool, seconds: float) -> str:
        if was_killed and self.memory_limit is not None:
            return f"killed: it needs more memory than {format_bytes(self.memory_limit)}"
        if answer.code is None:
            return f"took longer than {seconds:.0f} s"
        if answer.code == -signal.SIGKILL and self.memory_limit is not None:
            return "killed, probably because it needs more memory than the limit"
        if answer.code < 0:
            return f"ended by signal {-answer.code}"
        lines = [line for line in answer.errors.strip().splitlines() if line.strip()]
        return f"failed: {lines[-1][:_ERROR_CHARACTERS] if lines else 'no message'}"
