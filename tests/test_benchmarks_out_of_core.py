"""The out-of-core benchmark: its counting and parsing, and a small run from end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero.report.tuning import limited_memory

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import (
    disk_contestants,
    disk_results,
    fio,
    machine,
    meter,
    out_of_core,
)
from benchmarks.checks import WrongResult
from benchmarks.inputs import feature_rows
from benchmarks.meter import Plan, Reading, time_runs

ROOT = Path(__file__).parents[1]


def test_the_benchmark_stops_without_a_group(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(limit: int) -> None:
        raise limited_memory.NoMemoryGroup("no memory group can be made: not here")

    monkeypatch.setattr(limited_memory, "_find", refuse)
    assert out_of_core.main(["--quick", "--data", str(tmp_path)]) == 1
    assert "not here" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


class TestFio:
    def test_the_rate_is_read_past_warnings(self) -> None:
        answer = json.dumps({"jobs": [{"read": {"iops": 94_000.5}}]})
        assert fio.parse_iops("fio: a warning\n" + answer) == 94_000.5

    @pytest.mark.parametrize("output", ["", "no", "{}", '{"jobs": []}'])
    def test_an_odd_answer_is_named(self, output: str) -> None:
        with pytest.raises(fio.NoFio, match="cannot be read"):
            fio.parse_iops(output)

    def test_a_missing_fio_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        with pytest.raises(fio.NoFio, match="not installed"):
            fio.read_rate("anything")

    def test_the_median_counts(self) -> None:
        assert fio.ReadRate("libaio", (1.0, 5.0, 3.0), "fio").median == 3.0


def batches_of(sizes: list[int], dim: int = 4) -> Any:
    for i, size in enumerate(sizes):
        nodes = np.arange(size) * 7 + i
        yield nodes, feature_rows(nodes, dim)


class TestTimeRuns:
    def test_warm_up_and_checked_batches_are_not_counted(self, tmp_path: Path) -> None:
        plan = Plan(warm_up=2, runs=2, batches=3, checked=1)
        sizes = [1, 2, 10, 20, 30, 100, 200, 300, 5]
        assert plan.total == len(sizes)
        batches = batches_of(sizes)
        result = time_runs(batches, plan, tmp_path)
        assert result["rows"] == [60, 600]
        assert len(result["readings"]) == 3
        assert result["peak_anonymous"] > 1 << 20
        assert list(batches) == []

    def test_a_slow_contestant_makes_one_run(self, tmp_path: Path) -> None:
        plan = Plan(warm_up=2, runs=5, batches=1, checked=0, seconds=0.0)
        result = time_runs(batches_of([3] * 7), plan, tmp_path)
        assert (result["warmed_up"], result["rows"]) == (0, [3])

    @pytest.mark.parametrize("wrong", [1, 2])
    def test_a_wrong_row_is_found(self, tmp_path: Path, wrong: int) -> None:
        """In a counted batch, of which a few rows are looked at, and in a checked one."""
        batches = list(batches_of([8, 8, 5000]))
        batches[wrong][1][-1] += 1
        plan = Plan(warm_up=1, runs=1, batches=1, checked=1)
        with pytest.raises(WrongResult, match="not its node's"):
            time_runs(iter(batches), plan, tmp_path)

    def test_a_missing_row_is_found(self) -> None:
        nodes = np.arange(5)
        with pytest.raises(WrongResult, match="4 rows for 5 nodes"):
            meter.check_rows(nodes, feature_rows(nodes[:4], 3))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="no /proc here")
class TestCounters:
    def test_bytes_from_the_device_are_counted_and_bytes_in_memory_are_not(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "file"
        path.write_bytes(os.urandom(4 << 20))
        machine.drop_cached([path])
        if machine.resident_share([path]) != 0:
            pytest.skip("this file system keeps pages that it was told to drop")
        readings = [meter.read_counters(tmp_path)]
        for _ in range(2):
            path.read_bytes()
            readings.append(meter.read_counters(tmp_path))
        first, second = (
            after.read_bytes - before.read_bytes for before, after in pairwise(readings)
        )
        assert 4 << 20 <= first < 5 << 20
        assert second < 1 << 20

    def test_a_peak_between_two_moments_is_seen(self) -> None:
        with meter.PeakAnonymous() as quiet:
            pass
        with meter.PeakAnonymous() as busy:
            block = np.ones(64 << 20, dtype=np.uint8)
            busy._done.wait(0.2)
            del block
        assert busy.peak > quiet.peak + (48 << 20)


def answer_of(seconds: list[float], **more: Any) -> dict[str, Any]:
    """Of runs of 2 batches of 100 rows: 1 s of processor, 50 pages, 10 faults, 60 requests each."""
    readings, clock = [Reading(0.0, 0.0, 0, 0, 0, 0)], 0.0
    for i, duration in enumerate(seconds, start=1):
        clock += duration
        readings.append(
            Reading(clock, 1.0 * i, 50 * PAGESIZE * i, 10 * i, 60 * i, 60 * PAGESIZE * i)
        )
    return {
        "readings": [asdict(reading) for reading in readings],
        "rows": [200] * len(seconds),
        "peak_anonymous": 3 << 20,
        **more,
    }


def cells(table: str) -> list[dict[str, str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


class TestResults:
    def test_costs_are_a_batch_and_the_median_is_of_runs(self) -> None:
        answer = answer_of([4.0, 2.0, 12.0], pages_missed=[20, 30])
        result = disk_results.rows_result("none", "hot", 2, answer, {})
        assert result.seconds == (2.0, 1.0, 6.0)
        assert result.median == 2.0
        assert (result.rows, result.major_faults, result.processor_seconds) == (100, 5, 0.5)
        assert result.read_bytes == 25 * PAGESIZE
        assert result.pages_per_row == 0.25
        assert result.pages_per_second == 12.5
        assert result.stalled == pytest.approx((18 - 3) / 6)
        assert result.device_reads == pytest.approx(180 / 18)
        assert result.pages_missed == 25

    def test_parts_are_scaled_up_to_whole_batches(self) -> None:
        answer = answer_of([4.0, 2.0, 12.0])
        result = disk_results.rows_result("memmap", "input", 2, answer, {}, whole=1000.0)
        assert result.seconds == pytest.approx((20.0, 10.0, 60.0))
        assert (result.rows, result.read_bytes) == pytest.approx((1000, 250 * PAGESIZE))
        assert result.pages_per_row == pytest.approx(0.25)
        assert (result.major_faults, result.processor_seconds) == pytest.approx((50, 5.0))

    def test_rows_are_held_against_the_baseline_and_the_disk(self) -> None:
        slow = disk_results.rows_result("memmap", "input", 2, answer_of([20.0]), {})
        fast = disk_results.rows_result(
            "uring", "hot", 2, answer_of([1.0, 1.0], pages_missed=[8, 12]), {}
        )
        table = disk_results.rows_table([slow, fast], "memmap", 100.0)
        of_slow, of_fast = cells(table)
        assert of_fast["against memmap"] == "20.0x"
        assert of_slow["against memmap"] == "1.0x"
        assert of_fast["pages/s of fio's"] == "0.50"
        assert of_fast["read/missing"] == "2.50"
        assert of_slow["read/missing"] == "-"
        assert of_fast["stall s/batch"] == "0.000"
        assert (of_slow["runs"], of_fast["runs"]) == ("1", "2")
        without = cells(disk_results.rows_table([fast], "memmap", None))[0]
        assert without["against memmap"] == without["pages/s of fio's"] == "-"

    def test_the_first_epoch_is_told_apart(self) -> None:
        def epoch(seconds: float, stalled: float) -> dict[str, Any]:
            before = Reading(10.0, 1.0, 0, 0, 0, 0)
            after = Reading(10.0 + seconds, 5.0, 4 << 20, 8, 0, 0)
            return {
                "before": asdict(before),
                "after": asdict(after),
                "batches": 4,
                "stalled": stalled,
                "loss": 1.0,
            }

        def result(name: str, *seconds: float, step: str = "GraphSAGE") -> disk_results.TrainResult:
            epochs = [epoch(one, one / 10) for one in seconds]
            answer = {"epochs": epochs, "peak_anonymous": 1 << 20}
            return disk_results.train_result(name, "hot", step, answer, {"file": 7 << 20})

        cold, memory = result("uring", 9.0, 4.0, 6.0, 5.0), result("ram", 3.0, 4.0)
        assert (cold.cold, cold.warm) == (9.0, 5.0)
        slept = result("ram", 9.0, 1.0, step="sleep 20 ms")
        alone = result("uring", 9.0, 1.0, step="sleep 50 ms")
        row, *others = cells(disk_results.train_table([memory, cold, slept, alone], "ram"))[1:]
        assert [one["speed of RAM's"] for one in others] == ["1.000", "-"]
        assert row["speed of RAM's"] == "0.800"
        assert row["first / later"] == "1.80"
        assert (row["stall s/epoch"], row["CPU s/batch"]) == ("0.5", "1.000")
        assert (row["MiB read/batch"], row["major faults/batch"]) == ("1.0", "2")
        assert row["page cache MiB"] == "7.0"


class TestContestants:
    def test_what_the_library_refuses_is_missing_with_its_reason(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*, strategy: str, resident: float = 0, gap: int = 0) -> None:
            if strategy == "uring":
                raise ValueError("no io_uring here")

        monkeypatch.setattr(gz, "Prefetch", refuse)
        found, missing = disk_contestants.strategies(0.25, {"gap": 3})
        by_name = {one.name: one.prefetch for one in found}
        assert missing == {"uring": "no io_uring here", "uring+resident": "no io_uring here"}
        assert by_name["pread"] == {"strategy": "pread", "gap": 3}
        assert by_name["willneed+resident"] == {
            "strategy": "willneed",
            "resident": 0.25,
            "gap": 3,
        }
        assert "none+resident" not in by_name

    def test_what_the_library_has_is_found(self) -> None:
        found, _ = disk_contestants.strategies(0.2, {})
        assert {"none", "willneed"} <= {one.name for one in found}


class TestCommandLine:
    def test_sizes_and_limit(self) -> None:
        standard = out_of_core.parse([])
        assert (standard.nodes, standard.edges) == (1 << 22, 64_000_000)
        assert standard.limit == 640 << 20
        assert out_of_core.parse(["--nodes", "11e6", "--limit", "1.6e9"]).limit == 1_600_000_000
        assert out_of_core.parse(["--scale", "20"]).nodes == 1 << 20

    def test_fields_of_prefetch_keep_their_types(self) -> None:
        options = out_of_core.parse(["--prefetch", "gap_pages=3,resident=0.5,advice=normal"])
        assert options.prefetch == {"gap_pages": 3, "resident": 0.5, "advice": "normal"}

    @pytest.mark.parametrize(
        ("arguments", "what"),
        [
            (["--only", "none,magic"], "there is no magic"),
            (["--orders", "cold"], "there is no cold"),
            (["--prefetch", "gap"], "is not FIELD=VALUE"),
            (["--epochs", "1"], "at least 2"),
            (["--runs", "0"], "--runs must be positive"),
        ],
    )
    def test_nonsense_is_refused(
        self, arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit):
            out_of_core.parse(arguments)
        assert what in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.no_asan  # a limit that fits the plain interpreter does not fit the checked one
def test_a_small_run_from_end_to_end(tmp_path: Path) -> None:
    try:
        with limited_memory.memory_group(1 << 30):
            pass
    except limited_memory.NoMemoryGroup as error:
        pytest.skip(str(error))
    out = tmp_path / "out.json"
    arguments = ["--quick", "--only", "auto,memmap-random", "--orders", "hot", "--json", out]
    arguments += ["--sleeps", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.out_of_core", *map(str, arguments), "--data", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    unexpected = {name for name in found["notes"] if name != "fio"}
    assert not unexpected, found["notes"]
    rows = {one["contestant"]: one for one in found["rows"]}
    assert set(rows) == {"auto", "memmap-random"}
    assert rows["auto"]["rows"] == rows["memmap-random"]["rows"] > 100
    assert [len(one["seconds"]) for one in rows.values()] == [5, 5]
    trained, slept = found["training"]
    assert (trained["contestant"], trained["step"], len(trained["epochs"])) == (
        "auto",
        "GraphSAGE",
        3,
    )
    assert slept["step"] == "sleep 5 ms"
    assert all(one["seconds"] >= 5 * 0.005 for one in slept["epochs"])
    # The group's limit: what was asked for, and the process's own memory.
    limit = found["memory"]["limit"] + max(found["memory"]["own_anonymous"].values())
    for one in (*rows.values(), trained, slept):
        assert sum(one["charged"].values()) <= limit
    if "fio" not in found["notes"]:
        assert found["disk_rate"] > 0
    for name in ("auto", "memmap-random", "speed of RAM's", "pages read/row"):
        assert name in done.stdout
