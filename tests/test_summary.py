"""What is made of a recording: figures, a text, and a file that gives it back."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import recordings

from graphzero.errors import FormatError
from graphzero.loader.stats import BatchTotals
from graphzero.report.monitor import thin
from graphzero.report.recording import (
    ENDED,
    FileReading,
    GroupReading,
    ProcessReading,
    Reading,
    Recording,
    SystemReading,
    from_json,
    read_recording,
)
from graphzero.report.summary import summarize, to_json, write_recording

pytestmark = pytest.mark.no_asan
MB = 10**6
ALL = [
    recordings.empty,
    recordings.hostile,
    recordings.in_memory,
    recordings.one_reading,
    recordings.only_rss,
    recordings.out_of_core,
    recordings.typed,
    recordings.without_figures,
]


def _process(pid: int, size: int, **counters: float) -> ProcessReading:
    memory = {"rss": 3 * size, "anonymous": size, "file": size, "shared": size, "pss": 2 * size}
    return ProcessReading(pid, "worker", **memory, **counters)  # type: ignore[arg-type]


def _reading(seconds: float, *processes: ProcessReading, **figures: object) -> Reading:
    return Reading(seconds, processes, **figures)  # type: ignore[arg-type]


def _recording(*readings: Reading, **fields: object) -> Recording:
    seconds = readings[-1].seconds if readings else 0.0
    return Recording((), "", seconds, readings=readings, **fields)  # type: ignore[arg-type]


def test_memory_is_summed_over_processes_and_averaged_over_time() -> None:
    found = summarize(
        _recording(
            _reading(0, _process(1, 10)),
            _reading(1, _process(1, 10), _process(2, 30)),
            _reading(4, _process(1, 10), _process(ENDED, 0)),
        )
    )
    assert found.processes == 2
    assert found.anonymous is not None
    assert (found.anonymous.most, found.anonymous.last) == (40, 10)
    # 1 s from 10 to 40, then 3 s from 40 to 10
    assert found.anonymous.mean == pytest.approx((25 + 3 * 25) / 4)


def test_a_figure_that_is_unknown_of_one_process_is_unknown() -> None:
    stranger = ProcessReading(2, "another user's", rss=5, anonymous=5)
    readings = [_reading(i, _process(1, 10), stranger) for i in range(2)]
    found = summarize(_recording(*readings))
    assert found.anonymous is not None
    assert (found.file, found.pss, found.read_bytes, found.cores) == (None, None, None, None)


def test_proportional_memory_of_the_beginning_is_not_that_of_the_run() -> None:
    later = [replace(_process(1, size), pss=None) for size in (15, 25)]
    grown = _recording(_reading(0, _process(1, 10)), _reading(1, later[0]))
    assert summarize(grown).pss is not None
    grown = _recording(*grown.readings, _reading(2, later[1]))
    assert summarize(grown).pss is None
    assert "so large that" in summarize(grown).unknown["pss"]


def test_counters_are_differences_and_count_ended_processes() -> None:
    found = summarize(
        _recording(
            _reading(0, _process(1, 1, cpu_seconds=5.0, read_bytes=50 * MB), device_bytes=900 * MB),
            _reading(
                10,
                _process(1, 1, cpu_seconds=11.0, read_bytes=60 * MB),
                _process(ENDED, 0, cpu_seconds=4.0, read_bytes=20 * MB),
                device_bytes=980 * MB,
                batches=BatchTotals(batches=4, row_bytes=40 * MB),
            ),
        )
    )
    assert found.cores == pytest.approx(1.0)
    assert (found.read_bytes, found.device_bytes) == (30 * MB, 80 * MB)
    assert found.read_amplification == pytest.approx(2.0)
    assert found.own_read_amplification == pytest.approx(0.75)
    assert found.major_faults is None


def test_a_process_that_has_ended_takes_no_memory() -> None:
    last = _reading(2, _process(ENDED, 0, cpu_seconds=9.0))
    found = summarize(_recording(_reading(0, _process(1, 10, cpu_seconds=1.0)), last))
    assert found.anonymous is not None
    assert found.anonymous.mean == 10
    assert found.cores == pytest.approx(4.0)


@pytest.mark.parametrize("running", [0, 1])
def test_counters_of_processes_that_were_not_seen_to_count_are_unknown(running: int) -> None:
    """A command that ended before the first reading, or before the second."""
    zeros: dict[str, float] = {"major_faults": 0, "read_bytes": 0, "cpu_seconds": 0.0}
    ended = _process(ENDED, 0, **zeros)
    first = [_process(1, 10, **zeros)] * running
    found = summarize(_recording(_reading(0, *first, ended), _reading(2, ended)))
    assert (found.major_faults, found.read_bytes, found.cores) == (None, None, None)
    lasting = _recording(*(_reading(i, _process(1, 10, **zeros), ended) for i in range(2)))
    found = summarize(lasting)
    assert (found.major_faults, found.read_bytes, found.cores) == (0, 0, 0)


def test_an_earlier_look_at_shared_pages_is_not_the_end() -> None:
    """Workers may have ended since."""
    before, after = _process(1, 100), replace(_process(1, 60), pss=None)
    ended = _process(ENDED, 0)
    found = summarize(_recording(_reading(0, before), _reading(1, after), _reading(2, ended)))
    assert found.pss is not None
    assert (found.pss.most, found.pss.last, "pss.last" in found.unknown) == (200, None, True)
    assert str(found)
    found = summarize(_recording(_reading(0, after), _reading(1, before), _reading(2, ended)))
    assert found.pss is not None
    assert (found.pss.last, "pss.last" in found.unknown) == (200, False)


def test_page_cache_counts_each_file_once_and_not_where_one_is_unknown() -> None:
    files = (FileReading("a", 100), FileReading("b", 50))
    looks = [{"a": 100, "b": 20}, None, {"a": 40, "b": 50}]
    readings = [
        _reading(i, _process(1, 1), _process(2, 1), page_cache=look) for i, look in enumerate(looks)
    ]
    found = summarize(_recording(*readings, files=files))
    assert found.page_cache is not None
    assert (found.page_cache.most, found.page_cache.last, found.dataset) == (120, 90, 150)
    unseen = (*files, FileReading("c", 1))
    assert summarize(_recording(*readings, files=unseen)).page_cache is None


def test_the_rate_of_batches_is_that_of_the_time_in_which_there_were_some() -> None:
    counts = [0, 0, 10, 20, 20, 20]
    readings = [_reading(i, batches=BatchTotals(batches=n)) for i, n in enumerate(counts)]
    assert summarize(_recording(*readings)).batches_per_second == pytest.approx(10.0)
    assert summarize(_recording(*readings[:2])).batches_per_second is None


def test_page_faults_count_for_the_verdict() -> None:
    totals = BatchTotals(100, 5.0, 10.0, 60.0, steps=100, stall=61.0, training=39.0)

    def bound(faults: int) -> str:
        first = _reading(0, _process(1, 1, major_faults=10**6))
        last = _reading(1, _process(1, 1, major_faults=10**6 + faults), batches=totals)
        return summarize(_recording(first, last)).verdict.bound

    assert bound(0) == "gather"
    assert bound(600_000) == "disk"


def test_the_group_and_the_machine() -> None:
    groups = [GroupReading(2, 500, 300, refaults=7), GroupReading(2, 400, 350, refaults=9)]
    machines = [SystemReading(1000, 700), SystemReading(1000, 600)]
    found = summarize(
        _recording(
            *(
                _reading(i, group=group, system=machine)
                for i, (group, machine) in enumerate(zip(groups, machines, strict=True))
            )
        )
    )
    assert (found.group_limit, found.refaults, found.kills, found.available) == (400, 2, None, 600)
    assert found.group_usage is not None
    assert found.group_usage.most == 350


@pytest.mark.parametrize(
    ("readings", "peak", "text"),
    [
        ([(300, 900), (400, 950), (350, 950)], 950, "at most 950 bytes; "),  # between two readings
        ([(300, 900), (400, 900)], None, "at most 400 bytes; "),
        ([(900, 900), (400, 900)], 900, "at most 900 bytes; "),  # at the first one
        ([(300, 900), (400, 500), (400, 600)], None, "at most 400 bytes; "),
        ([(300, None), (400, None)], None, "at most 400 bytes; "),
    ],
)
def test_the_peak_of_the_group_is_the_kernels_if_it_was_in_the_run(readings, peak, text) -> None:
    groups = [GroupReading(2, usage=usage, peak=most) for usage, most in readings]
    found = summarize(_recording(*(_reading(i, group=each) for i, each in enumerate(groups))))
    assert (found.group_peak, "group_peak" in found.unknown) == (peak, peak is None)
    assert f"group       {text}" in str(found)


def test_the_options_say_who_samples() -> None:
    totals = BatchTotals(100, 400.0, 50.0, 60.0, steps=100, stall=61.0, training=39.0)
    options = {"num_workers": "0 | 4", "num_threads": "2 | 1"}
    recording = _recording(_reading(0), _reading(1, batches=totals))
    assert summarize(recording).verdict.bound == "sampling"
    assert summarize(replace(recording, options=options)).verdict.bound == "sampling"
    many = {"num_workers": "4", "num_threads": "8"}
    assert summarize(replace(recording, options=many)).verdict.bound != "sampling"


@pytest.mark.parametrize("make", ALL)
def test_every_recording_has_a_text_and_a_file(make, tmp_path: Path) -> None:
    recording = make()
    text = str(summarize(recording))
    assert all(len(line) <= 100 and line.isprintable() for line in text.splitlines())
    assert text.startswith("run ")
    assert len(text.splitlines()) < 40
    assert from_json(to_json(recording)) == recording
    write_recording(tmp_path / "r.json", recording)
    assert read_recording(tmp_path / "r.json") == recording


def test_the_text_says_what_is_unknown_and_why() -> None:
    text = str(summarize(recordings.without_figures()))
    names = "anonymous, pss, page_cache, device_bytes, group, major_faults"
    assert f"unknown {names}: this system does not tell it" in " ".join(text.split())
    assert "0 bytes" not in text
    bound = str(summarize(recordings.out_of_core()))
    assert "Bound by the disk" in bound
    assert "graphzero tune" in bound


def test_the_file_has_the_summary_too() -> None:
    content = json.loads(to_json(recordings.out_of_core()))
    assert (content["format"], content["version"]) == ("graphzero.Recording", 1)
    assert content["summary"]["verdict"]["bound"] == "disk"
    assert content["summary"]["anonymous"]["most"] > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 2"),
        ({"version": None}, "version None"),
        ({"format": "other"}, "no recording"),
        ({"recording": {}}, "not complete"),
        ({"recording": None}, "not complete"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    content = {**json.loads(to_json(recordings.one_reading())), **change}
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=message) as caught:
        read_recording(tmp_path / "r.json")
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe"])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.json").write_bytes(content)
    with pytest.raises(FormatError):
        read_recording(tmp_path / "r.json")


def test_thinning_keeps_ends_peaks_and_looks_at_the_page_cache() -> None:
    count = 1001
    readings = [
        _reading(
            i, _process(1, 900 if i == 333 else 5), page_cache={"a": 1} if i % 7 == 0 else None
        )
        for i in range(count)
    ]
    for _ in range(3):
        readings = thin(readings)
    times = [reading.seconds for reading in readings]
    assert times == sorted(set(times))
    assert {0, 333, count - 1} <= set(times)
    assert count / 8 - 5 <= len(readings) <= count / 8 + 5
    looks = sum(reading.page_cache is not None for reading in readings)
    assert looks == pytest.approx(count / 7 / 8, abs=3)
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) <= 32


def test_a_recording_that_knows_nothing_of_who_worked_can_be_read() -> None:
    content = json.loads(to_json(recordings.out_of_core()))
    for reading in content["recording"]["readings"]:
        del reading["batches"]["unsplit"]
    assert from_json(json.dumps(content)).readings == recordings.out_of_core().readings


def test_the_verdict_is_told_how_long_the_recording_is() -> None:
    totals = BatchTotals(100, 5.0, 60.0, 10.0, steps=100, stall=0.6, training=0.4)
    long, short = (_recording(_reading(0), _reading(s, batches=totals)) for s in (10, 1))
    assert "10% of the recorded time" in summarize(long).verdict.sentence
    assert "recorded" not in summarize(short).verdict.sentence
