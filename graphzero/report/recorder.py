"""`Recorder`: takes the readings of a run, in a thread, and makes a `Recording` of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Protocol

from graphzero.report.pace import Pace
from graphzero.report.recording import (
    ENDED,
    BatchTotals,
    Environment,
    FileReading,
    GroupReading,
    ProcessReading,
    Reading,
    Recording,
    SystemReading,
)
from graphzero.report.thinning import thin

__all__ = ["Logs", "Recorder", "Source"]

_MOST_READINGS = 2000
_ONCE = "the dataset was seen at the last reading only: name it, as Monitor(dataset) or --dataset"
_MEMORY = ("anonymous", "file", "shared", "rss", "pss", "pss_file")
_COUNTED = ("major_faults", "read_bytes", "cores")
_NO_PROCESS = "no process was seen: it had ended before the first reading, or is hidden"
_SEEN_ONCE = "the processes were seen at one reading only: a shorter interval sees more of them"
_SEARCH_EVERY = 10.0  # seconds: what processes have mapped hardly changes


class Source(Protocol):
    """Where readings come from."""

    @property
    def unknown(self) -> Mapping[str, str]:
        """Figures that are unknown, and why."""

    def command(self) -> tuple[str, ...]:
        """The command line of the observed process."""

    def pids(self) -> Sequence[int]:
        """The process and its children; nothing once the process has ended."""

    def processes(self, *, with_pss: bool) -> tuple[ProcessReading, ...]:
        """Readings of them, and of those that have ended."""

    def system(self) -> SystemReading:
        """The machine."""

    def group(self) -> GroupReading | None:
        """The memory group."""

    def device_bytes(self) -> int | None:
        """What was read from the disk that has the dataset."""

    def add_files(self, paths: Iterable[str]) -> None:
        """Observes further files."""

    def add_mapped_files(self, pids: Iterable[int]) -> None:
        """Observes the files of datasets that processes have mapped."""

    @property
    def size(self) -> int:
        """Of the observed files, in bytes."""

    def page_cache(self) -> dict[str, int]:
        """Bytes of the observed files in the page cache, without those where it is unknown."""

    def files(self) -> tuple[FileReading, ...]:
        """The observed files, with maps of their residency."""

    def environment(self) -> Environment:
        """The machine that a reader of the figures wants to know."""

    def close(self) -> None:
        """Gives everything up."""


class Logs(Protocol):
    """What processes say of their mini-batches; see `TreeLogs`."""

    unknown: str | None

    def has_news(self) -> bool:
        """Whether it is worth looking."""

    def look(self, pids: Sequence[int]) -> None:
        """Finds what is new."""

    def read(self) -> BatchTotals:
        """The sum since the first look."""

    @property
    def pids(self) -> set[int]:
        """The processes that have prepared them."""

    @property
    def epochs(self) -> dict[int, BatchTotals]:
        """By epoch."""

    @property
    def files(self) -> tuple[str, ...]:
        """That the iterations read."""

    @property
    def iterations(self) -> tuple[dict[str, str], ...]:
        """Their options."""

    def close(self) -> None:
        """Gives them up."""


class Recorder:
    """Records a process and its children.

    Parameters
    ----------
    source : Source
    logs : Logs
    interval : float
        Seconds between readings, at the least.
    clock : callable
        Seconds.
    """

    def __init__(
        self,
        source: Source,
        logs: Logs,
        interval: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._logs = logs
        self._pace = Pace(interval)
        self._clock = clock
        self._turn = threading.Lock()
        self._readings: list[Reading] = []
        self._failures: dict[str, str] = {}
        self._own_cpu = self._cost = 0.0
        self._last_size = 0  # of the processes
        self._seen: set[int] = set()  # processes of all readings
        self._searched: set[int] = set()  # processes whose mapped files are known
        self._next_search = 0.0
        self._next = 0.0
        self._result: Recording | None = None
        self._started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._begin = clock()
        self._command: tuple[str, ...] = ()

    def begin(self) -> None:
        """Takes the first reading."""
        with self._turn, self._measured():
            self._command = self._source.command()
            self._read()

    def run(self, stop: threading.Event) -> None:
        """Takes readings until the event is set or the observed process has ended."""
        while not stop.wait(self._pace.look_delay):
            with self._turn:
                if self._result is not None:
                    return
                if not self._step():
                    return

    def _step(self) -> bool:
        """One look at what is new, and a reading if it is due; False once the process has ended."""
        try:
            with self._measured():
                if self._now() >= self._next:
                    return self._read()
                if self._logs.has_news():
                    self._logs.look(self._source.pids())
        except Exception as error:  # the run goes on, and its report says what is missing
            self._failures["readings"] = f"some have failed: {type(error).__name__}: {error}"
            self._next = self._now() + self._pace.delay
        return True

    def end(self) -> Recording:
        """Takes the last reading; the whole recording."""
        with self._turn:
            if self._result is None:
                self._result = self._snapshot()
                self._logs.close()
                self._source.close()
            return self._result

    def recording(self) -> Recording:
        """What has been recorded so far, with a reading of this moment."""
        with self._turn:
            return self._result or self._snapshot()

    def _snapshot(self) -> Recording:
        files: tuple[FileReading, ...] = ()
        environment = Environment()
        with self._measured():
            try:
                self._read(is_last=True)
                files = self._source.files()
                environment = self._source.environment()
            except Exception as error:
                self._failures["readings"] = f"some have failed: {type(error).__name__}: {error}"
        return Recording(
            command=self._command,
            started=self._started,
            seconds=self._now(),
            environment=environment,
            readings=tuple(self._readings),
            files=files,
            epochs=self._logs.epochs,
            options=_options(self._logs.iterations),
            own_cpu_seconds=self._own_cpu,
            unknown=self._unknown(),
        )

    def _unknown(self) -> dict[str, str]:
        unknown = {**self._source.unknown, **self._failures}
        if sum(reading.device_bytes is not None for reading in self._readings) == 1:
            unknown.setdefault("device_bytes", _ONCE)
        seen = sum(any(map(_is_running, reading.processes)) for reading in self._readings)
        if seen < 2:
            reason = _SEEN_ONCE if seen else _NO_PROCESS
            for name in _COUNTED if seen else (*_MEMORY, *_COUNTED):
                unknown.setdefault(name, reason)
        unseen = len(self._logs.pids - self._seen)
        if unseen:
            unknown["processes"] = (
                f"{unseen:,} that prepared mini-batches lived between two readings: memory is "
                f"without theirs; use persistent_workers=True, or a shorter interval"
            )
        totals = self._readings[-1].batches if self._readings else BatchTotals()
        if totals.batches == 0 and self._logs.unknown is not None:
            unknown["batches"] = self._logs.unknown
        elif 0 < totals.batches < totals.steps:
            unknown["batches"] = (
                f"{totals.steps - totals.batches:,} mini-batches were prepared by processes that "
                f"ended before they were seen, and memory is without theirs: use "
                f"persistent_workers=True, or a shorter interval"
            )
        return unknown

    def _now(self) -> float:
        return self._clock() - self._begin

    @contextmanager
    def _measured(self) -> Iterator[None]:
        """Adds what it takes this thread to what the recording takes."""
        before = time.thread_time()
        try:
            yield
        finally:
            spent = time.thread_time() - before
            self._own_cpu += spent
            self._cost += spent

    def _read(self, *, is_last: bool = False) -> bool:
        """Takes a reading, whose cost the caller measures; False once the process has ended."""
        if self._readings:
            self._pace.add_cost(max(0.0, self._cost))
        self._cost = 0.0
        now = self._now()
        processes = self._processes(now, is_last=is_last)
        pids = [process.pid for process in processes if _is_running(process)]
        self._seen.update(pids)
        self._logs.look(pids)
        batches = self._logs.read()
        self._source.add_files(self._logs.files)
        self._search(pids, now, is_last=is_last)
        reading = Reading(
            seconds=now,
            processes=processes,
            system=self._source.system(),
            group=self._source.group(),
            page_cache=self._page_cache(now, is_last=is_last),
            device_bytes=self._source.device_bytes(),
            batches=batches,
        )
        self._readings.append(reading)
        if len(self._readings) > _MOST_READINGS:
            self._readings = thin(self._readings)
        self._next = now + self._pace.delay
        return bool(pids)

    def _processes(self, now: float, *, is_last: bool) -> tuple[ProcessReading, ...]:
        """With proportional memory, if it is time for it."""
        if is_last or not self._readings:  # how large they are by now is not known
            self._last_size = _size(self._source.processes(with_pss=False))
        work, size = self._pace.pss, self._last_size
        with_pss = work.is_affordable(size, now, is_last=is_last)
        begun = time.thread_time()
        found = self._source.processes(with_pss=with_pss)
        self._last_size = _size(found)
        if with_pss:
            work.add(self._since(begun), self._last_size)
        return found

    def _search(self, pids: Sequence[int], now: float, *, is_last: bool) -> None:
        """Finds files that processes have mapped: once there are others, and now and then."""
        is_due = set(pids) != self._searched or now >= self._next_search
        if is_last or (is_due and self._pace.search.is_affordable(0, now)):
            self._searched = set(pids)
            self._next_search = now + _SEARCH_EVERY
            begun = time.thread_time()
            self._source.add_mapped_files(pids)
            self._pace.search.add(self._since(begun), 0)

    def _page_cache(self, now: float, *, is_last: bool) -> dict[str, int] | None:
        """Of all files that are known by then; None if it is not time for it."""
        work = self._pace.page_cache
        if not (is_last or work.is_affordable(self._source.size, now)):
            return None
        begun = time.thread_time()
        found = self._source.page_cache()
        work.add(self._since(begun), self._source.size)
        return found

    def _since(self, begun: float) -> float:
        """Seconds of this thread that do not count for the interval: they have their own budget."""
        spent = time.thread_time() - begun
        self._cost -= spent  # which the caller adds with the rest
        return spent


def _is_running(process: ProcessReading) -> bool:
    return process.pid != ENDED


def _size(processes: Sequence[ProcessReading]) -> int:
    """Resident memory, of which the kernel counts every page for a proportional reading."""
    return sum(process.rss or 0 for process in processes)


def _options(iterations: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The options of all iterations, by name; where they differ, all values."""
    values: dict[str, dict[str, None]] = {}
    for options in iterations:
        for name, value in options.items():
            values.setdefault(name, {})[value] = None
    return {name: " | ".join(texts) for name, texts in values.items()}
