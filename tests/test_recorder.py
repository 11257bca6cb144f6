"""How readings are taken: how often, of what, and what becomes of them."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest

from graphzero.report.pace import Pace
from graphzero.report.recorder import Recorder
from graphzero.report.recording import (
    BatchTotals,
    Environment,
    FileReading,
    GroupReading,
    ProcessReading,
    SystemReading,
)
from graphzero.report.summarize import summarize

pytestmark = pytest.mark.no_asan


def _work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Source:
    """A process that reads more and more; of which one figure may fail."""

    def __init__(self) -> None:
        self.unknown = {"group": "there is none"}
        self.living = [7]
        self.paths: list[str] = []
        self.looks = self.pss_looks = self.closed = 0
        self.size = 10**8
        self.failure: Exception | None = None
        self.time_to_count_pages = self.time_to_share = 0.0

    def command(self) -> tuple[str, ...]:
        return ("train",)

    def pids(self) -> list[int]:
        return self.living

    def processes(self, *, with_pss: bool) -> tuple[ProcessReading, ...]:
        if self.failure is not None:
            raise self.failure
        self.pss_looks += with_pss
        if with_pss:
            _work(self.time_to_share)
        return tuple(ProcessReading(pid, "main", rss=10**8) for pid in self.living)

    def system(self) -> SystemReading:
        return SystemReading()

    def group(self) -> GroupReading | None:
        return None

    def device_bytes(self) -> int | None:
        return None

    def add_files(self, paths) -> None:
        self.paths += [path for path in paths if path not in self.paths]

    def add_mapped_files(self, pids) -> None:
        self.add_files(["mapped"])

    def page_cache(self) -> dict[str, int]:
        self.looks += 1
        _work(self.time_to_count_pages)
        return dict.fromkeys(self.paths, 1)

    def files(self) -> tuple[FileReading, ...]:
        return tuple(FileReading(path, 1) for path in self.paths)

    def environment(self) -> Environment:
        return Environment(cpu="this one")

    def close(self) -> None:
        self.closed += 1


class Logs:
    """Mini-batches of one process."""

    def __init__(self) -> None:
        self.unknown: str | None = None
        self.files = ("logged",)
        self.pids: set[int] = set()
        self.iterations = ({"fanouts": "5", "io": "a"}, {"fanouts": "5", "io": "b"})
        self.epochs = {0: BatchTotals(batches=3)}
        self.totals = BatchTotals()
        self.looks = 0
        self.news = False

    def has_news(self) -> bool:
        return self.news

    def look(self, pids) -> None:
        self.looks += 1

    def read(self) -> BatchTotals:
        return self.totals

    def close(self) -> None:
        pass


class Event:
    """Is set after so many waits, and lets the time pass."""

    def __init__(self, clock: list[float], waits: int) -> None:
        self.clock = clock
        self.waits = waits

    def wait(self, seconds: float) -> bool:
        self.clock[0] += seconds
        self.waits -= 1
        return self.waits < 0


def _record(source: Source, logs: Logs, *, interval: float = 1.0, waits: int) -> Recorder:
    clock = [100.0]
    recorder = Recorder(source, logs, interval, clock=lambda: clock[0])
    recorder.begin()
    recorder.run(Event(clock, waits))  # type: ignore[arg-type]
    return recorder


def test_readings_come_at_the_interval() -> None:
    recording = _record(Source(), Logs(), waits=100).end()
    times = [reading.seconds for reading in recording.readings]
    assert times[0] == 0
    assert len(times) == pytest.approx(11, abs=2)
    gaps = [after - before for before, after in pairwise(times[:-1])]  # the last one is at the end
    assert gaps == pytest.approx([1.0] * len(gaps), abs=0.11)


def test_a_long_run_keeps_a_bounded_number() -> None:
    recording = _record(Source(), Logs(), waits=60_000).end()
    times = [reading.seconds for reading in recording.readings]
    assert 900 <= len(times) <= 2001
    assert (times[0], times[-1]) == (0, recording.seconds)
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) < recording.seconds / 100


def test_what_costs_much_is_done_seldom() -> None:
    source = Source()
    source.time_to_count_pages, source.time_to_share = 0.01, 0.02
    recorder = _record(source, Logs(), waits=1000)  # 100 s: 0.15 and 0.3 s, and 0.03 s more of each
    assert 10 <= source.looks <= 19
    assert 10 <= source.pss_looks <= 17
    recording = recorder.end()
    assert len(recording.readings) > 90  # the others come as often as ever
    assert sum(reading.page_cache is not None for reading in recording.readings) == source.looks
    assert 0.3 < recording.own_cpu_seconds < 1.0


def test_shared_pages_are_counted_at_the_end_if_that_is_affordable() -> None:
    class Shrinking(Source):
        size_of_process = 10**12

        def processes(self, *, with_pss: bool) -> tuple[ProcessReading, ...]:
            self.pss_looks += with_pss
            return (ProcessReading(7, "main", rss=self.size_of_process),)

    for size, looks in ((10**12, 0), (10**9, 1)):
        source = Shrinking()
        recorder = _record(source, Logs(), waits=10)
        assert source.pss_looks == 0
        source.size_of_process = size  # its workers have ended
        recorder.end()
        assert source.pss_looks == looks


def test_what_costs_little_is_done_every_time() -> None:
    source = Source()
    recording = _record(source, Logs(), waits=100).end()
    assert source.looks == len(recording.readings)
    assert source.pss_looks == len(recording.readings)


@pytest.mark.parametrize(
    ("cost", "interval", "delay"),
    [(0.0, 1.0, 1.0), (0.002, 1.0, 1.0), (0.02, 1.0, 5.0), (9.0, 1.0, 60.0), (0.002, 0.1, 0.1)],
)
def test_the_pace_follows_the_cost(cost: float, interval: float, delay: float) -> None:
    pace = Pace(interval)
    pace.add_cost(cost)
    assert pace.delay == pytest.approx(delay)


@pytest.mark.parametrize("interval", [0.1, 1.0, 60.0])
def test_logs_of_short_lived_workers_are_found_at_any_interval(interval: float) -> None:
    assert 0.05 <= Pace(interval).look_delay <= 0.1


def test_the_cost_of_more_memory_is_foreseen() -> None:
    work = Pace(1.0).pss
    assert work.is_affordable(10**9, 0.0)
    assert not work.is_affordable(10**11, 0.0)  # before anything was measured
    work.add(0.02, 10**9)
    assert work.is_affordable(10**9, 10.0)
    assert not work.is_affordable(10**10, 10.0)  # 0.2 s
    assert work.is_affordable(10**10, 70.0)


def test_what_was_learned_of_no_bytes_does_not_count_for_many() -> None:
    """The first look finds no file of the dataset."""
    work = Pace(1.0).page_cache
    work.add(0.005, 0)
    assert work.is_affordable(2 * 10**9, 1.0)


def test_the_pace_recovers_from_one_expensive_reading() -> None:
    pace = Pace(1.0)
    pace.add_cost(0.1)
    for _ in range(20):
        pace.add_cost(0.001)
    assert pace.delay == 1.0


def test_new_logs_are_looked_for_between_readings() -> None:
    logs = Logs()
    logs.news = True
    recording = _record(Source(), logs, waits=100).end()
    assert logs.looks >= 90
    assert len(recording.readings) < 15


def test_the_thread_ends_with_the_process() -> None:
    source = Source()
    source.living = []
    recorder = Recorder(source, Logs(), 0.01)
    recorder.begin()
    recorder.run(threading.Event())  # returns
    assert len(recorder.end().readings) == 3  # one of its end


def test_a_reading_that_fails_ends_nothing_and_is_said() -> None:
    source = Source()
    clock = [0.0]
    recorder = Recorder(source, Logs(), 1.0, clock=lambda: clock[0])
    recorder.begin()
    source.failure = OSError("no such luck")
    recorder.run(Event(clock, 30))  # type: ignore[arg-type]
    source.failure = None
    recorder.run(Event(clock, 30))  # type: ignore[arg-type]
    recording = recorder.end()
    assert 3 <= len(recording.readings) <= 6
    assert recording.unknown["readings"] == "some have failed: OSError: no such luck"


def test_the_recording_has_all_that_was_found() -> None:
    source, logs = Source(), Logs()
    recorder = _record(source, logs, waits=0)
    early = recorder.recording()
    assert len(early.readings) == 2  # with one of this moment
    recording = recorder.end()
    assert recorder.end() is recording
    assert recorder.recording() is recording
    assert source.closed == 1
    assert recording.command == ("train",)
    assert [file.path for file in recording.files] == ["logged", "mapped"]
    assert recording.environment.cpu == "this one"
    assert recording.options == {"fanouts": "5", "io": "a | b"}
    assert recording.epochs == logs.epochs
    assert recording.unknown == {"group": "there is none"}


@pytest.mark.parametrize(
    ("totals", "reason", "expected"),
    [
        (BatchTotals(), "the log is elsewhere", "the log is elsewhere"),
        (BatchTotals(batches=5, steps=5), None, None),
        (BatchTotals(batches=5, steps=8), None, "3 mini-batches were prepared by processes"),
        (BatchTotals(steps=8), None, None),  # of another library's loader
    ],
)
def test_batches_that_nobody_has_seen_are_unknown(totals, reason, expected) -> None:
    logs = Logs()
    logs.totals, logs.unknown = totals, reason
    unknown = _record(Source(), logs, waits=0).end().unknown
    assert unknown.get("batches", "None").startswith(str(expected))


@pytest.mark.parametrize(("lives", "names"), [(0, {"anonymous", "rss", "cores"}), (1, {"cores"})])
def test_processes_that_were_hardly_seen_are_unknown(lives: int, names: set[str]) -> None:
    source = Source()
    source.living = [7] * lives
    recorder = Recorder(source, Logs(), 1.0)
    recorder.begin()
    source.living = []
    unknown = recorder.end().unknown
    assert {*names, "major_faults", "read_bytes"} <= set(unknown)
    assert ("anonymous" in unknown) == ("anonymous" in names)


def test_workers_that_no_reading_saw_are_said() -> None:
    logs = Logs()
    logs.pids = {7, 8, 9}
    recording = _record(Source(), logs, waits=0).end()
    assert recording.unknown["processes"].startswith("2 that prepared mini-batches lived between")
    assert "1 process seen at most" in str(summarize(recording))


def test_a_disk_that_was_seen_once_is_unknown_with_the_reason() -> None:
    source = Source()
    recorder = _record(source, Logs(), waits=10)
    source.device_bytes = lambda: 10  # type: ignore[method-assign]
    recording = recorder.end()
    assert recording.unknown["device_bytes"].startswith("the dataset was seen at the last reading")
    assert summarize(recording).device_bytes is None
