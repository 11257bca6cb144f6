"""What is made of a recording: figures, a text, and a file that gives it back or is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import recordings
from cli_program import only_line, run
from recordings import GB, MB, reading, recording

from graphzero.errors import FormatError
from graphzero.loader.stats import BatchTotals
from graphzero.report.recording import FileReading, GroupReading, ProcessReading, read_recording
from graphzero.report.summary import summarize, write_recording
from graphzero.report.verdict import find_verdict

pytestmark = pytest.mark.no_asan  # pure Python


def _process(pid, size, **counters):
    memory = {"rss": 3 * size, "anonymous": size, "file": size, "shared": size, "pss": 2 * size}
    return ProcessReading(pid, "worker", **memory, **counters)  # type: ignore[arg-type]


# --- figures


def test_memory_is_summed_over_the_processes():
    both = (_process(1, 10, cpu_seconds=1.0), _process(2, 30, cpu_seconds=0.0))
    found = summarize(recording(reading(0, both[0]), reading(1, *both), reading(4)))
    assert found.processes == 2
    assert (found.anonymous, found.rss, found.pss) == (40, 120, 80)
    assert found.cores == 0


def test_counters_are_differences_that_never_fall():
    """What a worker has counted is missing until its parent has waited for it."""
    readings = []
    for i, (own, other) in enumerate([(50, 0), (60, 20), (60, None), (75, None)]):
        both = [_process(1, 1, cpu_seconds=5.0 + 6 * i, read_bytes=own * MB)]
        if other is not None:
            both.append(_process(2, 1, cpu_seconds=0.0, read_bytes=other * MB))
        readings.append(reading(10.0 * i, *both, device_bytes=(900 + 20 * i) * MB))
    found = summarize(recording(*readings))
    assert found.cores == pytest.approx(0.6)
    assert (found.read_bytes, found.device_bytes) == (30 * MB, 60 * MB)
    assert found.major_faults is None


@pytest.mark.parametrize(("running", "count"), [((0, 0), None), ((1, 0), None), ((1, 1), 0)])
def test_counters_are_unknown_unless_processes_were_seen_twice(running, count):
    """A command may end before the first reading, or before the second."""
    one = _process(1, 10, major_faults=0, read_bytes=0, cpu_seconds=0.0)
    found = summarize(recording(*(reading(i, *[one] * n) for i, n in enumerate(running))))
    assert (found.major_faults, found.read_bytes, found.cores) == (count, count, count)


def test_page_cache_counts_each_file_once():
    files = (FileReading("a", 100, 40), FileReading("b", 50, 50))
    looks = [{"a": 100, "b": 20}, None, {"a": 40, "b": 50}]
    both = (_process(1, 1), _process(2, 1))
    readings = [reading(i, *both, page_cache=look) for i, look in enumerate(looks)]
    found = summarize(recording(*readings, files=files))
    assert (found.page_cache, found.dataset) == (120, 150)
    text = "page cache  120 bytes at most, 90 bytes at the end of the dataset's 150 bytes"
    assert f"{text}\n" in str(found)
    unseen = (*files, FileReading("c", 1))
    text = " ".join(str(summarize(recording(*readings, files=unseen))).split())
    assert "without files of other users" in text


def test_the_rate_of_batches_is_that_of_the_loops():
    totals = BatchTotals(batches=20, steps=20, stall=0.5, training=1.5)
    found = summarize(recording(reading(0), reading(5, batches=totals)))
    assert found.batches_per_second == pytest.approx(10.0)
    assert summarize(recording(reading(0))).batches_per_second is None


def test_the_verdict_knows_page_faults_workers_and_the_time_of_the_recording():
    totals = BatchTotals(100, 5.0, 10.0, 60.0, steps=100, stall=61.0, training=39.0)

    def verdict(totals, faults=0, seconds=100, **options):
        first = reading(0, _process(1, 1, major_faults=10**6))
        last = reading(seconds, _process(1, 1, major_faults=10**6 + faults), batches=totals)
        return summarize(recording(first, last, options=options)).verdict

    assert verdict(totals) == find_verdict(totals)
    assert verdict(totals, faults=600_000) == find_verdict(totals, major_faults=600_000)
    assert verdict(totals, seconds=1000) == find_verdict(totals, recorded=1000)
    slow = replace(totals, sampling=400.0, disk=50.0)
    assert verdict(slow, num_workers="0 | 4", num_threads="2 | 1").bound == "sampling"
    assert verdict(slow, num_workers="4", num_threads="8").bound != "sampling"


def test_the_group_and_the_machine():
    groups = [GroupReading(500, 300), GroupReading(400, 350)]
    both = enumerate(zip(groups, (700, 600), strict=True))
    found = summarize(recording(*(reading(i, group=g, available=m) for i, (g, m) in both)))
    assert (found.group_limit, found.kills, found.available) == (400, None, 600)
    assert found.group_usage == 350
    assert "group       at most 350 bytes of 400 bytes; unknown processes killed" in str(found)


@pytest.mark.parametrize(
    ("available", "group", "short"),
    [
        (21, (None, 9, 4), False),
        (1, (None, 9, 4), True),
        (21, (9, 9, 4), False),  # its page cache makes way
        (21, (9, 9, 1), True),
        (21, (9, 9, None), True),  # nobody knows
    ],
)
def test_what_the_group_uses_does_not_mean_that_memory_is_short(available, group, short):
    """Others in the group may read their files again and again while most memory is free."""
    limit, usage, file = (each and each * GB for each in group)
    group = GroupReading(limit, usage, file=file, kills=0)
    totals = BatchTotals(100, 5.0, 60.0, 10.0, steps=100, stall=61.0, training=39.0)
    last = reading(100, _process(1, 1), available=available * GB, group=group, batches=totals)
    files = (FileReading("features.gd", 2 * GB),)
    found = summarize(recording(replace(last, seconds=0), last, files=files))
    assert ("Give the run more memory" in found.verdict.knob) == short
    assert ("Memory was not short" in found.verdict.knob) != short


@pytest.mark.parametrize(
    ("kills", "free", "code", "bound"),
    [
        (1, 5 * GB, 137, "memory"),
        (1, 5 * GB, 1, "memory"),  # a worker was killed, and its loader raised an error
        (1, 5 * GB, None, "memory"),
        (1, 5 * GB, 0, "model"),  # another process of the group
        (0, 50 * MB, 137, "memory"),  # the machine's memory
        (0, 50 * MB, 1, "model"),
        (0, 5 * GB, 137, "model"),  # killed by somebody
        (None, 5 * GB, 137, "model"),
    ],
)
def test_a_run_that_was_killed_for_its_memory_is_told_about_memory(kills, free, code, bound):
    totals = BatchTotals(100, 5.0, 1.0, 2.0, ready=90.0, steps=100, stall=4.0, training=96.0)
    groups = [GroupReading(kills=None if kills is None else 3 + n) for n in (0, kills or 0)]
    readings = [
        reading(100 * n, _process(1, 1), group=group, available=free, batches=totals)
        for n, group in enumerate(groups)
    ]
    found = summarize(recording(*readings, exit_code=code)).verdict
    assert found.bound == bound
    assert ("Give the run more memory" in found.knob) == (bound == "memory")


@pytest.mark.parametrize(
    ("busy", "ours", "cores", "told"),
    [
        (1.95, 0.6, 2, True),
        (1.95, 1.9, 2, False),  # all of it is this run's
        (1.5, 0.6, 2, False),  # one is idle half of the time
        (1.95, 0.6, None, False),
        (None, 0.6, 2, False),
    ],
)
def test_processors_that_others_use_are_told(busy, ours, cores, told):
    totals = BatchTotals(100, 5.0, 1.0, 2.0, ready=90.0, steps=100, stall=4.0, training=96.0)
    readings = [
        reading(
            100 * n,
            _process(1, 1, cpu_seconds=7 + 100 * ours * n),
            busy_seconds=None if busy is None else 50 + 100 * busy * n,
            batches=totals,
        )
        for n in range(2)
    ]
    made = recording(*readings, environment={"cores": cores})
    sentence = summarize(made).verdict.sentence
    assert ("Other programs used 1.4 processors meanwhile" in sentence) == told
    passive = replace(made, options={"OMP_WAIT_POLICY": "PASSIVE"})
    assert "OMP_WAIT_POLICY" not in summarize(passive).verdict.knob


def test_the_options_of_a_recording_say_what_is_done():
    totals = BatchTotals(100, 5.0, 60.0, 10.0, steps=100, stall=61.0, training=39.0)

    def knob(**options):
        made = recording(reading(0), reading(100, batches=totals), options=options)
        return summarize(made).verdict.knob

    assert knob(order="input", io="uring: features of 2 GB against 1 GB") == knob()
    assert "reorder" not in knob(order="presample")
    assert "graphzero tune" not in knob(io="pread: as requested | uring: as requested")


# --- texts and files


@pytest.mark.parametrize("make", recordings.RECORDINGS.values())
def test_every_recording_has_a_text_and_a_file(make, tmp_path):
    made = make()
    text = str(summarize(made))
    assert all(len(line) <= 100 and line.isprintable() for line in text.splitlines())
    assert text.startswith("run ")
    assert len(text.splitlines()) < 40
    write_recording(tmp_path / "r.json", made)
    assert read_recording(tmp_path / "r.json") == made
    content = json.loads((tmp_path / "r.json").read_text())
    assert (content["format"], content["version"]) == ("graphzero.Recording", 3)
    assert content["summary"]["verdict"]["bound"] == summarize(made).verdict.bound


def test_the_text_says_what_was_not_seen():
    text = " ".join(str(summarize(recordings.only_rss())).split())
    assert "no mini-batch was seen: ready-made loaders tell of theirs" in text
    assert "130 MB resident; its parts are unknown" in text
    assert "unknown at most, 0 bytes at the end of the dataset's 10 MB, without files of" in text
    totals = BatchTotals(batches=5, steps=8)
    text = str(summarize(recording(reading(0), reading(1, batches=totals))))
    assert "3 mini-batches have no `stats`" in text
    assert "no file of a dataset was seen" in text
    for code, words in {137: "by SIGKILL, as when memory runs out", 200: "by signal 72"}.items():
        assert words in str(summarize(replace(recordings.empty(), exit_code=code)))
    group = GroupReading(kills=1), GroupReading(kills=2)
    killed = recording(*(reading(i, group=each) for i, each in enumerate(group)), exit_code=137)
    assert "its memory group was full" in str(summarize(killed))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not a whole recording: JSONDecodeError"),
        (b"\xff\xfe", "is not a whole recording"),
        (b"[" * 100_000, "is not a whole recording"),
        ({"format": "other"}, r"of the format and version \('other', 3\), not"),
        ({"version": 1}, "of the format and version"),
        ({"recording": {}}, "is not a whole recording"),
    ],
    ids=str,
)
def test_other_files_are_refused_with_their_path(tmp_path, capfd, content, message):
    path = tmp_path / "r.json"
    if isinstance(content, dict):
        write_recording(path, recordings.one_reading())
        content = json.dumps({**json.loads(path.read_bytes()), **content}).encode()
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        read_recording(path)
    assert str(path) in str(caught.value)
    assert run("report", path) == 1
    assert only_line(capfd.readouterr().err).startswith(f"graphzero: {path} is ")
