"""What is made of a recording: figures, a text, and a file that gives it back or is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import recordings
from cli_program import only_line, run
from recordings import GB, MB, reading, recording

from graphzero.errors import FormatError
from graphzero.loader.stats import BatchTotals
from graphzero.report.recording import (
    ENDED,
    FileReading,
    GroupReading,
    ProcessReading,
    read_recording,
)
from graphzero.report.summary import summarize, to_json, write_recording

pytestmark = pytest.mark.no_asan  # pure Python


def _process(pid: int, size: int, **counters: float) -> ProcessReading:
    memory = {"rss": 3 * size, "anonymous": size, "file": size, "shared": size, "pss": 2 * size}
    return ProcessReading(pid, "worker", **memory, **counters)  # type: ignore[arg-type]


# --- figures


def test_memory_is_summed_over_running_processes_and_averaged_over_time() -> None:
    counted, ended = _process(1, 10, cpu_seconds=1.0), _process(ENDED, 0, cpu_seconds=9.0)
    both = (counted, _process(2, 30, cpu_seconds=0.0))
    found = summarize(recording(reading(0, counted), reading(1, *both), reading(4, ended)))
    assert found.processes == 2
    assert found.anonymous is not None
    assert (found.anonymous.most, found.anonymous.last, found.anonymous.looks) == (40, 40, 2)
    assert found.anonymous.mean == 25
    assert found.cores == pytest.approx(8 / 4)
    later = reading(4, counted)
    found = summarize(recording(reading(0, counted), reading(1, *both), later))
    assert found.anonymous is not None
    # 1 s from 10 to 40, then 3 s from 40 to 10
    assert found.anonymous.mean == pytest.approx((25 + 3 * 25) / 4)


def test_proportional_memory_of_the_beginning_is_not_that_of_the_run() -> None:
    later = [replace(_process(1, size), pss=None) for size in (15, 25)]
    readings = [reading(0, _process(1, 10)), reading(1, later[0]), reading(2, later[1])]
    assert summarize(recording(*readings[:2])).pss is not None
    assert summarize(recording(*readings)).pss is None
    assert "so large that" in summarize(recording(*readings)).unknown["pss"]


def test_counters_are_differences_and_count_ended_processes() -> None:
    found = summarize(
        recording(
            reading(0, _process(1, 1, cpu_seconds=5.0, read_bytes=50 * MB), device_bytes=900 * MB),
            reading(
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


@pytest.mark.parametrize(("running", "count"), [((0, 0), None), ((1, 0), None), ((1, 1), 0)])
def test_counters_are_unknown_unless_processes_were_seen_twice(running, count) -> None:
    """A command may end before the first reading, or before the second."""
    zeros: dict[str, float] = {"major_faults": 0, "read_bytes": 0, "cpu_seconds": 0.0}
    ended, one = _process(ENDED, 0, **zeros), _process(1, 10, **zeros)
    found = summarize(recording(*(reading(i, *[one] * n, ended) for i, n in enumerate(running))))
    assert (found.major_faults, found.read_bytes, found.cores) == (count, count, count)


def test_page_cache_counts_each_file_once_and_not_where_one_is_unknown() -> None:
    files = (FileReading("a", 100), FileReading("b", 50))
    looks = [{"a": 100, "b": 20}, None, {"a": 40, "b": 50}]
    both = (_process(1, 1), _process(2, 1))
    readings = [reading(i, *both, page_cache=look) for i, look in enumerate(looks)]
    found = summarize(recording(*readings, files=files))
    assert found.page_cache is not None
    assert (found.page_cache.most, found.page_cache.last, found.dataset) == (120, 90, 150)
    unseen = (*files, FileReading("c", 1))
    assert summarize(recording(*readings, files=unseen)).page_cache is None


def test_the_rate_of_batches_is_that_of_the_time_in_which_there_were_some() -> None:
    counts = [0, 0, 10, 20, 20, 20]
    readings = [reading(i, batches=BatchTotals(batches=n)) for i, n in enumerate(counts)]
    assert summarize(recording(*readings)).batches_per_second == pytest.approx(10.0)
    assert summarize(recording(*readings[:2])).batches_per_second is None


def test_the_verdict_knows_page_faults_workers_and_the_time_of_the_recording() -> None:
    totals = BatchTotals(100, 5.0, 10.0, 60.0, steps=100, stall=61.0, training=39.0)

    def verdict(totals: BatchTotals, faults: int = 0, seconds: int = 100, **options: str) -> Any:
        first = reading(0, _process(1, 1, major_faults=10**6))
        last = reading(seconds, _process(1, 1, major_faults=10**6 + faults), batches=totals)
        return summarize(recording(first, last, options=options)).verdict

    assert verdict(totals).bound == "gather"
    assert verdict(totals, faults=600_000).bound == "disk"
    assert "10% of the recorded time" in verdict(totals, seconds=1000).sentence
    assert "recorded" not in verdict(totals).sentence
    slow = replace(totals, sampling=400.0, disk=50.0)
    assert verdict(slow).bound == "sampling"
    assert verdict(slow, num_workers="0 | 4", num_threads="2 | 1").bound == "sampling"
    assert verdict(slow, num_workers="4", num_threads="8").bound != "sampling"


def test_the_group_and_the_machine() -> None:
    groups = [GroupReading(2, 500, 300, refaults=7), GroupReading(2, 400, 350, refaults=9)]
    both = enumerate(zip(groups, (700, 600), strict=True))
    found = summarize(recording(*(reading(i, group=g, available=m) for i, (g, m) in both)))
    assert (found.group_limit, found.refaults, found.kills, found.available) == (400, 2, None, 600)
    assert found.group_usage is not None
    assert found.group_usage.most == 350


@pytest.mark.parametrize(
    ("cached", "available", "group", "short", "whose"),
    [
        ((1, 2), 21, (None, 9, 4), False, "(probably not of the dataset,"),
        ((2, 1), 21, (None, 9, 4), False, "(of the dataset's files or of others)"),
        ((2, 1), 1, (None, 9, 4), True, "(of the dataset's files or of others)"),
        (
            (2, 1),
            21,
            (9, 9, 4),
            False,
            "(of the dataset's files or of others)",
        ),  # its page cache makes way
        ((2, 1), 21, (9, 9, 1), True, "(of the dataset's files or of others)"),
        ((2, 1), 21, (9, 9, None), True, "(of the dataset's files or of others)"),  # nobody knows
    ],
)
def test_refaults_of_the_group_do_not_mean_that_memory_is_short(
    cached, available, group, short, whose
) -> None:
    """Others in the group may read their files again and again while most memory is free."""
    limit, usage, file = (each and each * GB for each in group)
    totals = BatchTotals(100, 5.0, 60.0, 10.0, steps=100, stall=61.0, training=39.0)
    readings = [
        reading(
            *(100 * i, _process(1, 1)),
            available=available * GB,
            group=GroupReading(2, limit, usage, file=file, refaults=4000 * i, kills=0),
            page_cache={"features.gd": size * GB},
            batches=replace(totals, batches=100 * i),
        )
        for i, size in enumerate(cached)
    ]
    found = summarize(recording(*readings, files=(FileReading("features.gd", 2 * GB),)))
    assert found.verdict.bound == "disk"
    assert ("Give the run more memory" in found.verdict.knob) == short
    assert ("Memory was not short" in found.verdict.knob) != short
    text = " ".join(str(found).split())
    assert f"4,000 refaults in the whole group {whose}" in text


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
    found = summarize(recording(*(reading(i, group=each) for i, each in enumerate(groups))))
    assert (found.group_peak, "group_peak" in found.unknown) == (peak, peak is None)
    assert f"group       {text}" in str(found)


# --- texts and files


@pytest.mark.parametrize("make", recordings.RECORDINGS.values())
def test_every_recording_has_a_text_and_a_file(make, tmp_path: Path) -> None:
    made = make()
    text = str(summarize(made))
    assert all(len(line) <= 100 and line.isprintable() for line in text.splitlines())
    assert text.startswith("run ")
    assert len(text.splitlines()) < 40
    write_recording(tmp_path / "r.json", made)
    assert read_recording(tmp_path / "r.json") == made
    content = json.loads((tmp_path / "r.json").read_text())
    assert (content["format"], content["version"]) == ("graphzero.Recording", 2)
    assert content["summary"]["verdict"]["bound"] == summarize(made).verdict.bound


def test_the_text_says_what_is_unknown_and_why() -> None:
    text = str(summarize(recordings.without_figures()))
    names = "anonymous, pss, page_cache, device_bytes, group, major_faults"
    assert f"unknown {names}: this system does not tell it" in " ".join(text.split())
    assert "0 bytes" not in text
    bound = str(summarize(recordings.out_of_core()))
    assert "Bound by the disk" in bound
    assert "graphzero tune" in bound


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is no recording"),
        ({"format": "other"}, "is no recording"),
        ({"version": 1}, "version 1"),
        ({"version": None}, "version None"),
        ({"recording": {}}, "not complete: 'command'"),
        ({"recording": None}, "not complete"),
    ],
    ids=str,
)
def test_other_files_are_refused_with_their_path(tmp_path: Path, capfd, content, message) -> None:
    path = tmp_path / "r.json"
    if isinstance(content, dict):
        content = json.dumps({**json.loads(to_json(recordings.one_reading())), **content}).encode()
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        read_recording(path)
    assert str(path) in str(caught.value)
    assert run("report", path) == 1
    assert only_line(capfd.readouterr().err).startswith(f"graphzero: {path} is ")
