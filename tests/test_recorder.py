"""How readings are taken: how often, of what, and what becomes of them."""

from __future__ import annotations

import os
import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

from graphzero.loader.stats import BatchTotals
from graphzero.report import monitor
from graphzero.report.monitor import Batches, Recorder
from graphzero.report.recording import (
    Environment,
    FileReading,
    ProcessReading,
)
from graphzero.report.summary import summarize

pytestmark = pytest.mark.no_asan


CPU = [0.0]  # seconds of the processor, which pass only as they are told


def _work(seconds: float) -> None:
    CPU[0] += seconds


SOME = BatchTotals(batches=3, steps=3)


class Source:
    """A process that reads more and more, and its files; of which one figure may fail."""

    size = 10**8

    def __init__(self) -> None:
        self.living = [7]
        self.paths: tuple[str, ...] = ()
        self.looks = self.pss_looks = 0
        self.failure: Exception | None = None
        self.time_to_count_pages = self.time_to_share = 0.0
        self.rss = 10**8

    def pids(self) -> list[int]:
        return self.living

    def read_processes(self, *, with_pss: bool = False) -> tuple[ProcessReading, ...]:
        if self.failure is not None:
            raise self.failure
        self.pss_looks += with_pss
        if with_pss:
            _work(self.time_to_share)
        return tuple(ProcessReading(pid, "main", rss=self.rss) for pid in self.living)

    def add(self, paths) -> None:
        self.paths = tuple(dict.fromkeys([*self.paths, *paths]))

    def read(self, parts: int = 1) -> tuple[FileReading, ...]:
        self.looks += parts == 1
        _work(self.time_to_count_pages)
        return tuple(FileReading(path, 1, 1) for path in self.paths)


class Logs(Batches):
    """Mini-batches of one process."""

    def __init__(self, totals: BatchTotals | None = None) -> None:
        super().__init__()
        self.add(0, totals or BatchTotals(), {"num_threads": 5, "io": "a"})
        self.add(0, BatchTotals(), {"num_threads": 5, "io": "b"})


class Event:
    """Is set after so many waits, and lets the time pass."""

    def __init__(self, clock: list[float], waits: int) -> None:
        self.clock = clock
        self.waits = waits

    def wait(self, seconds: float) -> bool:
        self.clock[0] += seconds
        self.waits -= 1
        return self.waits < 0


@pytest.fixture(autouse=True)
def others(monkeypatch) -> None:
    """Files that the process has mapped, on no disk."""
    monkeypatch.setattr(monitor.time, "thread_time", lambda: CPU[0])
    monkeypatch.setattr(monitor, "mapped_files", lambda pids, unknown: ("mapped",))
    monkeypatch.setattr(monitor, "device_bytes", lambda path, unknown: None)
    monkeypatch.setattr(monitor, "find_group", lambda pid, unknown: None)
    environment = Environment(cpu="this one")
    monkeypatch.setattr(monitor, "read_environment", lambda path, unknown: environment)


def _recorder(source: Source, logs: Batches, clock=None, interval: float = 1.0) -> Recorder:
    recorder = Recorder(os.getpid(), (), logs, interval, clock=clock or time.monotonic)
    recorder.tree = SimpleNamespace(read=source.read_processes)  # type: ignore[assignment]
    recorder.files = source  # type: ignore[assignment]
    return recorder


def _record(source: Source, logs: Batches, *, interval: float = 1.0, waits: int) -> Recorder:
    clock = [100.0]
    recorder = _recorder(source, logs, lambda: clock[0], interval)
    recorder.begin()
    recorder.run(Event(clock, waits))  # type: ignore[arg-type]
    return recorder


def test_readings_come_at_the_interval() -> None:
    recording = _record(Source(), Logs(SOME), waits=10).recording(is_last=True)
    times = [reading.seconds for reading in recording.readings]
    assert times[0] == 0
    assert len(times) == pytest.approx(11, abs=2)
    gaps = [after - before for before, after in pairwise(times[:-1])]  # the last one is at the end
    assert gaps == pytest.approx([1.0] * len(gaps), abs=0.11)


def test_a_long_run_keeps_a_bounded_number() -> None:
    recording = _record(Source(), Logs(SOME), waits=6_000).recording(is_last=True)
    times = [reading.seconds for reading in recording.readings]
    assert 900 <= len(times) <= 2001
    assert (times[0], times[-1]) == (0, recording.seconds)
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) < recording.seconds / 100


def test_what_costs_much_is_done_seldom() -> None:
    source = Source()
    source.time_to_count_pages, source.time_to_share = 0.01, 0.02
    recorder = _record(source, Logs(SOME), waits=100)
    assert 10 <= source.looks <= 19
    assert 10 <= source.pss_looks <= 17
    recording = recorder.recording(is_last=True)
    assert len(recording.readings) > 90  # the others come as often as ever
    assert sum(reading.page_cache is not None for reading in recording.readings) == source.looks
    assert 0.3 < recording.own_cpu_seconds < 1.0


def test_shared_pages_are_counted_at_the_end_if_that_is_affordable() -> None:
    for size, looks in ((10**12, 0), (10**9, 1)):
        source = Source()
        source.rss = 10**12
        recorder = _record(source, Logs(), waits=10)
        assert source.pss_looks == 0
        source.rss = size  # its workers have ended
        recorder.recording(is_last=True)
        assert source.pss_looks == looks


def test_what_costs_little_is_done_every_time() -> None:
    source = Source()
    recording = _record(source, Logs(SOME), waits=10).recording(is_last=True)
    assert source.looks == len(recording.readings)
    assert source.pss_looks == len(recording.readings)


@pytest.mark.parametrize(
    ("cost", "interval", "delay"),
    [(0.0, 1.0, 1.0), (0.002, 1.0, 1.0), (0.02, 1.0, 5.0), (9.0, 1.0, 60.0), (0.002, 0.1, 0.1)],
)
def test_the_delay_follows_the_cost(cost: float, interval: float, delay: float) -> None:
    recorder = _recorder(Source(), Logs(), interval=interval)
    recorder._cost = cost
    assert recorder.delay == pytest.approx(delay)


def test_the_thread_ends_with_the_process() -> None:
    source = Source()
    source.living = []
    recorder = _recorder(source, Logs(), interval=0.01)
    recorder.begin()
    recorder.run(threading.Event())  # returns
    assert len(recorder.recording(is_last=True).readings) == 3  # one of its end


def test_a_reading_that_fails_ends_nothing_and_is_said() -> None:
    source = Source()
    clock = [0.0]
    recorder = _recorder(source, Logs(), lambda: clock[0])
    recorder.begin()
    source.failure = OSError("no such luck")
    recorder.run(Event(clock, 3))  # type: ignore[arg-type]
    source.failure = None
    recorder.run(Event(clock, 3))  # type: ignore[arg-type]
    recording = recorder.recording(is_last=True)
    assert 3 <= len(recording.readings) <= 5
    assert recording.unknown["readings"] == "some have failed: OSError: no such luck"


def test_the_recording_has_all_that_was_found() -> None:
    source, logs = Source(), Logs(SOME)
    recorder = _record(source, logs, waits=0)
    early = recorder.recording()
    assert len(early.readings) == 2  # with one of this moment
    recording = recorder.recording(is_last=True)
    assert recorder.recording(is_last=True) is recording
    assert recorder.recording() is recording
    assert recording.command
    assert [file.path for file in recording.files] == ["mapped"]
    assert recording.environment.cpu == "this one"
    assert recording.options == {"num_threads": "5", "io": "a | b"}
    assert recording.epochs == logs.epochs
    assert recording.unknown == {}


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        (BatchTotals(), "no mini-batch was seen"),
        (BatchTotals(batches=5, steps=5), "None"),
        (BatchTotals(batches=5, steps=8), "3 mini-batches have no `stats`"),
        (BatchTotals(steps=8), "None"),  # of another library's loader
    ],
)
def test_batches_that_nobody_has_seen_are_unknown(totals, expected) -> None:
    unknown = _record(Source(), Logs(totals), waits=0).recording(is_last=True).unknown
    assert unknown.get("batches", "None").startswith(expected)


@pytest.mark.parametrize(("lives", "names"), [(0, {"anonymous", "rss", "cores"}), (1, {"cores"})])
def test_processes_that_were_hardly_seen_are_unknown(lives: int, names: set[str]) -> None:
    source = Source()
    source.living = [7] * lives
    recorder = _recorder(source, Logs())
    recorder.begin()
    source.living = []
    unknown = recorder.recording(is_last=True).unknown
    assert {*names, "major_faults", "read_bytes"} <= set(unknown)
    assert ("anonymous" in unknown) == ("anonymous" in names)


def test_a_disk_that_was_seen_once_is_unknown_with_the_reason(monkeypatch) -> None:
    source = Source()
    recorder = _record(source, Logs(SOME), waits=10)
    monkeypatch.setattr(monitor, "device_bytes", lambda path, unknown: 10)
    recording = recorder.recording(is_last=True)
    assert recording.unknown["device_bytes"].startswith("the dataset was seen at the last reading")
    assert summarize(recording).device_bytes is None
