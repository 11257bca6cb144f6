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

pytestmark = pytest.mark.no_asan


class Source:
    """A process that reads more and more; of which one figure may fail."""

    def __init__(self) -> None:
        self.unknown = {"group": "there is none"}
        self.living = [7]
        self.paths: list[str] = []
        self.looks = self.closed = 0
        self.failure: Exception | None = None
        self.time_to_count_pages = 0.0

    def command(self) -> tuple[str, ...]:
        return ("train",)

    def pids(self) -> list[int]:
        return self.living

    def processes(self, *, complete: bool) -> tuple[ProcessReading, ...]:
        if self.failure is not None:
            raise self.failure
        return tuple(ProcessReading(pid, "main", anonymous=pid) for pid in self.living)

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
        end = time.thread_time() + self.time_to_count_pages
        while time.thread_time() < end:
            pass
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
    source.time_to_count_pages = 0.02
    recorder = _record(source, Logs(), waits=1000)  # 100 s, of which a look may take 0.4 s
    assert 3 <= source.looks <= 25
    recording = recorder.end()
    assert len(recording.readings) > 90  # the others come as often as ever
    assert sum(reading.page_cache is not None for reading in recording.readings) == source.looks
    assert recording.own_cpu_seconds < 1.0 + 0.1  # of 100 s; the last look is not counted


@pytest.mark.parametrize(
    ("cost", "interval", "delay"),
    [(0.0, 1.0, 1.0), (0.002, 1.0, 1.0), (0.02, 1.0, 5.0), (9.0, 1.0, 60.0), (0.002, 0.1, 0.1)],
)
def test_the_pace_follows_the_cost(cost: float, interval: float, delay: float) -> None:
    pace = Pace(interval)
    pace.add_cost(cost)
    assert pace.delay == pytest.approx(delay)
    pace.add_complete_cost(cost, 10.0)
    assert pace.wants_complete(10.0 + 251 * cost * min(1, interval))
    assert cost == 0 or not pace.wants_complete(10.0 + 249 * cost * min(1, interval))


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
    assert len(recorder.end().readings) == 2


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
