"""The sweep over prefetch settings: its grid, its tables, its order, and how it goes on."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from files import random_edges, write_dataset

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import prefetch_sweep, sweep_table
from benchmarks.sweep_table import BATCHES, SETTINGS, confidence_interval, read_rows, write_rows
from graphzero.io.prefetch import Prefetch
from graphzero.report.tuning.alone import measuring_alone
from graphzero.report.tuning.trial import TrialResult

pytestmark = pytest.mark.no_asan


class FakeTrials:
    """In place of `Trials`: says what was asked for, and gives seconds by strategy."""

    asked: list[tuple[int | None, str]]
    end_after: int | None = None
    ending = signal.SIGINT
    closed: list[int | None]
    no_group = None
    group = "cgroup version 2"

    def __init__(self, workload: Any, *, memory_limit: int | None = None) -> None:
        self.memory_limit = memory_limit

    def close(self) -> None:
        self.closed.append(self.memory_limit)

    def run(self, setting: Prefetch, *, batches: int, **_: Any) -> TrialResult:
        if len(self.asked) == self.end_after:
            signal.raise_signal(self.ending)
        self.asked.append((self.memory_limit, setting.strategy))
        if setting.strategy == "none":
            return TrialResult(setting, reason="killed: it needs more memory than 1 MB")
        repeat = self.asked.count(self.asked[-1])
        stats = {"pages_missed": 7.0, "waited": 0.5, "row_bytes": 640.0 * 32}
        seconds = tuple(0.1 * repeat for _ in range(batches))
        return TrialResult(
            setting, seconds, peak_anonymous=repeat, in_memory=0.0, stats=stats, io="read somehow"
        )


@pytest.fixture
def order() -> str:
    return "hot"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, str]]:
    found: list[tuple[int | None, str]] = []
    monkeypatch.setattr(FakeTrials, "asked", found, raising=False)
    monkeypatch.setattr(FakeTrials, "closed", [], raising=False)
    monkeypatch.setattr(prefetch_sweep, "Trials", FakeTrials)
    return found


def sweep(folder: Path, out: Path, *more: str, repeats: int = 3) -> int:
    arguments = ["--datasets", str(folder), "--repeats", str(repeats), "--batches", "2"]
    arguments += ["--limits", "1MB", "none", "--prefetch", "willneed", "uring"]
    return prefetch_sweep.main([*arguments, "--out", str(out), *more])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_row_for_each_setting_and_one_for_each_batch(
    dataset: Any, tmp_path: Path, asked: list[Any], suffix: str
) -> None:
    out, long = tmp_path / f"sweep{suffix}", tmp_path / f"batches{suffix}"
    assert sweep(dataset[0], out, "--long", str(long), "--prefetch", "willneed", "uring") == 0
    rows = read_rows(out, SETTINGS)
    found = {(row["limit_bytes"], row["strategy"]): row for row in rows}
    assert set(found) == {
        (limit, name) for limit in (10**6, None) for name in ("willneed", "uring")
    }
    row = found[10**6, "uring"]
    assert (row["nodes"], row["edges"], row["order"]) == (500, 6000, "hot")
    assert row["row_bytes"] == 7 * 4 + 8  # features and labels
    assert (row["repeats"], row["batches"], row["failure"]) == (3, 2, None)
    assert row["seconds_per_batch_median"] == pytest.approx(0.2)
    assert row["seconds_per_batch_mean"] == pytest.approx(0.2)
    assert 0.1 <= row["ci_low"] < 0.2 < row["ci_high"] <= 0.3 + 1e-9
    assert row["rows_per_second"] == pytest.approx(640 * 32 / 36 / 0.2)
    assert (row["pages_missed"], row["stall_seconds"], row["peak_anonymous"]) == (7, 0.5, 3)
    assert (row["io"], row["limit_by"]) == ("read somehow", "cgroup version 2")
    assert found[None, "uring"]["limit_by"] is None
    assert row["cpu"]
    assert "numpy" in row["versions"]
    batches = read_rows(long, BATCHES)
    assert len(batches) == 4 * 3 * 2
    assert {(one["repeat"], one["batch"]) for one in batches} == {
        (repeat, batch) for repeat in range(3) for batch in range(2)
    }


def test_each_round_has_every_setting_once_in_an_order_of_its_own(
    dataset: Any, tmp_path: Path, asked: list[Any]
) -> None:
    sweep(dataset[0], tmp_path / "a.csv", repeats=6)
    rounds = [asked[at : at + 4] for at in range(0, 24, 4)]
    assert all(len(set(each)) == 4 for each in rounds)
    assert any(one != other for one, other in pairwise(rounds))
    first = list(asked)
    asked.clear()
    sweep(dataset[0], tmp_path / "b.csv", repeats=6)
    assert asked == first
    asked.clear()
    sweep(dataset[0], tmp_path / "c.csv", "--order-seed", "1", repeats=6)
    assert asked != first


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_sweep_that_is_ended_ends_its_trials(
    dataset: Any,
    tmp_path: Path,
    asked: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    ending: signal.Signals,
) -> None:
    monkeypatch.setattr(FakeTrials, "end_after", 7)
    monkeypatch.setattr(FakeTrials, "ending", ending)
    assert sweep(dataset[0], tmp_path / "sweep.csv") == 130
    assert set(FakeTrials.closed) == {1_000_000, None}


def test_a_sweep_refuses_a_dataset_that_is_measured(
    dataset: Any, tmp_path: Path, asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with measuring_alone(dataset[0]):
        assert sweep(dataset[0], tmp_path / "sweep.csv") == 1
    assert "another tuning or sweep measures this dataset" in capsys.readouterr().err
    assert not asked
    assert sweep(dataset[0], tmp_path / "sweep.csv", "--resume") == 0


@pytest.mark.parametrize("journal", [True, False])
def test_an_interrupted_sweep_goes_on(
    dataset: Any,
    tmp_path: Path,
    asked: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    journal: bool,
) -> None:
    out = tmp_path / "sweep.csv"
    monkeypatch.setattr(FakeTrials, "end_after", 7)
    assert sweep(dataset[0], out) == 130
    assert "--resume" in capsys.readouterr().err
    assert sorted(row["repeats"] for row in read_rows(out, SETTINGS)) == [1, 2, 2, 2]
    monkeypatch.setattr(FakeTrials, "end_after", None)
    with pytest.raises(SystemExit):
        sweep(dataset[0], out)  # would replace them
    trials = prefetch_sweep.journal_of(out)
    if journal:
        with open(trials, "a") as file:
            file.write('{"key": "cut o')
    else:
        trials.unlink()
    assert sweep(dataset[0], out, "--resume") == 0
    assert len(asked) == (12 if journal else 7 + 12)
    assert [row["repeats"] for row in read_rows(out, SETTINGS)] == [3] * 4
    before = out.read_bytes()
    assert sweep(dataset[0], out, "--resume") == 0
    assert len(asked) == (12 if journal else 7 + 12)  # nothing is left to do
    assert out.read_bytes() == before


@pytest.mark.parametrize("cut", [1, 2, 40, None])
def test_only_an_unfinished_last_line_of_the_trials_is_dropped(
    dataset: Any, tmp_path: Path, asked: list[Any], cut: int | None
) -> None:
    out = tmp_path / "sweep.csv"
    sweep(dataset[0], out)
    trials = prefetch_sweep.journal_of(out)
    *lines, last = trials.read_bytes().splitlines(keepends=True)
    part = last[: -cut if cut else 3]  # 1: only the end of the line is missing
    trials.write_bytes(b"".join(lines) + part)
    out.unlink()
    assert sweep(dataset[0], out, "--resume", repeats=4) == 0
    assert len(asked) == 12 + 4 + (cut != 1)
    assert [row["repeats"] for row in read_rows(out, SETTINGS)] == [4] * 4
    assert len([json.loads(line) for line in trials.read_bytes().splitlines()]) == 16


def test_rows_of_other_settings_stay(dataset: Any, tmp_path: Path, asked: list[Any]) -> None:
    out, long = tmp_path / "sweep.parquet", tmp_path / "batches.parquet"
    sweep(dataset[0], out, "--long", str(long))
    asked.clear()
    arguments = ["--resume", "--long", str(long), "--batch-size", "7"]
    sweep(dataset[0], out, *arguments)
    assert len(asked) == 12
    assert sorted(row["batch_size"] for row in read_rows(out, SETTINGS)) == [7] * 4 + [1024] * 4
    assert len(read_rows(long, BATCHES)) == 2 * 24


def test_another_graph_in_the_same_folder_has_rows_of_its_own(
    tmp_path: Path, asked: list[Any]
) -> None:
    folder, out, long = tmp_path / "data", tmp_path / "sweep.csv", tmp_path / "batches.csv"
    for repeats, nodes in ((2, 300), (3, 400), (3, 300)):
        shutil.rmtree(folder, ignore_errors=True)
        edges = random_edges(nodes, 2000)
        write_dataset(folder, edges, nodes, splits={"train": np.arange(40)})
        sweep(folder, out, "--long", str(long), "--resume", repeats=repeats)
        found = [(row["nodes"], row["repeats"]) for row in read_rows(out, SETTINGS)]
        if nodes == 400:
            assert sorted(found) == [(300, 2)] * 4 + [(400, 3)] * 4
    assert sorted(found) == [(300, 3)] * 4 + [(400, 3)] * 4  # those of the first graph went on
    assert len(asked) == 4 * 6
    assert len(read_rows(long, BATCHES)) == 2 * len(asked)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_unknown_files_is_not_gone_on_with(
    dataset: Any,
    tmp_path: Path,
    asked: list[Any],
    capsys: pytest.CaptureFixture[str],
    suffix: str,
) -> None:
    out = tmp_path / f"sweep{suffix}"
    sweep(dataset[0], out)
    rows = read_rows(out, SETTINGS)
    without = SETTINGS.remove(SETTINGS.get_field_index("files"))
    write_rows(out, [{name: row[name] for name in without.names} for row in rows], without)
    before, made = out.read_bytes(), len(asked)
    assert sweep(dataset[0], out, "--resume", repeats=4) == 1
    error = capsys.readouterr().err
    assert f"{out} is no table of a sweep, or one of another version" in error
    assert "move it away" in error
    assert (out.read_bytes(), len(asked)) == (before, made)


def test_what_was_killed_is_a_row_with_the_reason(
    dataset: Any, tmp_path: Path, asked: list[Any]
) -> None:
    out = tmp_path / "sweep.csv"
    sweep(dataset[0], out, "--prefetch", "none")
    rows = read_rows(out, SETTINGS)
    assert len(asked) == 2  # it is not tried again
    prefetch_sweep.journal_of(out).unlink()
    sweep(dataset[0], out, "--prefetch", "none", "--resume")
    assert len(asked) == 2
    sweep(dataset[0], out, "--prefetch", "none", "--resume", "--retry-failed")
    assert len(asked) == 4
    assert read_rows(out, SETTINGS) == [{**row, "date": ANY} for row in rows]
    sweep(dataset[0], out, "--prefetch", "none", "--resume", "--retry-failed")
    assert len(asked) == 6  # with the journal of the last one
    for row in rows:
        assert row["failure"].startswith("killed")
        assert row["repeats"] == 0
        for name in ("seconds_per_batch_median", "ci_low", "rows_per_second", "peak_anonymous"):
            assert row[name] is None


def test_a_sweep_without_any_figures_has_failed(
    dataset: Any, tmp_path: Path, asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sweep.csv"
    for more in ([], ["--resume"]):  # also where nothing is left to do
        assert sweep(dataset[0], out, "--prefetch", "none", *more) == 1
        error = (
            f"error: every setting failed; the first: killed: it needs more memory than 1 MB; {out}"
        )
        assert error in capsys.readouterr().err
    # what an earlier sweep has measured does not help, what this one has does
    assert sweep(dataset[0], out, "--resume") == 0
    assert sweep(dataset[0], out, "--prefetch", "none", "--resume") == 1
    capsys.readouterr()
    assert sweep(dataset[0], out, "--prefetch", "none", "uring", "--resume") == 0
    assert f"4 settings in {out}; 2 of them failed" in capsys.readouterr().out


def test_settings_of_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "grid.json"
    path.write_text('{"strategy": ["uring", "pread"], "lookahead": [1, 2], "gap_pages": 3}')
    assert prefetch_sweep.read_grid(path) == [
        Prefetch(strategy, lookahead=lookahead, gap_pages=3)
        for strategy in ("uring", "pread")
        for lookahead in (1, 2)
    ]
    path.write_text('[{"strategy": "uring"}, {"lookahead": 4, "resident": "2GB"}]')
    assert prefetch_sweep.read_grid(path) == [
        Prefetch("uring"),
        Prefetch(lookahead=4, resident=2 * 10**9),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("3", "neither a list"),
        ('[{"look": 1}]', "look"),
        ('{"strategy": ["fast"]}', "strategy must be"),
    ],
)
def test_a_wrong_grid_is_refused(
    dataset: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "grid.json"
    path.write_text(text)
    with pytest.raises(SystemExit):
        sweep(dataset[0], tmp_path / "sweep.csv", "--grid", str(path))
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["--out", "--long"])
def test_a_missing_folder_is_refused_before_any_trial(
    dataset: Any, tmp_path: Path, asked: list[Any], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with pytest.raises(SystemExit):
        sweep(dataset[0], tmp_path / "sweep.csv", name, str(tmp_path / "none" / "sweep.csv"))
    assert "does not exist; make it" in capsys.readouterr().err
    assert asked == []


def test_other_files_are_not_replaced(
    dataset: Any, tmp_path: Path, asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sweep.csv"
    out.write_text("name,value\na,1\n")
    assert sweep(dataset[0], out, "--resume") == 1
    assert "no table of a sweep" in capsys.readouterr().err
    assert out.read_text() == "name,value\na,1\n"
    assert asked == []


def test_the_interval_covers_the_mean_about_as_often_as_is_documented() -> None:
    rng = np.random.default_rng(3)
    samples = rng.normal(10.0, 1.0, (300, 20))
    intervals = [confidence_interval(list(sample)) for sample in samples]
    covered = np.mean([low <= 10.0 <= high for low, high in intervals])  # type: ignore[operator]
    assert 0.88 <= covered <= 0.98
    assert confidence_interval([1.0]) == (None, None)
    assert confidence_interval([2.0, 2.0]) == (2.0, 2.0)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_is_read_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    row = dict.fromkeys(SETTINGS.names) | {
        "dataset": 'a, "b"\n',
        "lookahead": 2**60,
        "ci_low": 0.1 + 0.2,
        "io": "",
    }
    path = tmp_path / f"table{suffix}"
    write_rows(path, [row], SETTINGS)
    (found,) = read_rows(path, SETTINGS)
    assert found["dataset"] == row["dataset"]
    assert (found["lookahead"], found["ci_low"], found["ci_high"]) == (2**60, 0.1 + 0.2, None)
    assert sweep_table.key_of(found) == sweep_table.key_of(row)


def test_a_small_run_from_end_to_end(dataset: Any, tmp_path: Path) -> None:
    out = tmp_path / "sweep.csv"
    arguments = ["--datasets", str(dataset[0]), "--prefetch", "willneed:lookahead=2"]
    arguments += ["--repeats", "2", "--batches", "3", "--warm-up", "1", "--batch-size", "16"]
    assert prefetch_sweep.main([*arguments, "--fanouts", "3,2", "--out", str(out)]) == 0
    (row,) = read_rows(out, SETTINGS)
    assert row["failure"] is None
    assert row["seconds_per_batch_median"] > 0
    assert row["ci_low"] <= row["seconds_per_batch_mean"] <= row["ci_high"]
    trials = [json.loads(line) for line in prefetch_sweep.journal_of(out).read_text().splitlines()]
    assert [len(trial["seconds"]) for trial in trials] == [3, 3]


def test_the_example_of_the_page_reads_the_table(
    dataset: Any,
    tmp_path: Path,
    asked: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("pandas")
    page = Path(__file__).parents[1] / "docs" / "out-of-core.md"
    (code,) = re.findall(r"```python\n(import pandas.*?)```", page.read_text(), re.DOTALL)
    sweep(dataset[0], tmp_path / "sweep.csv", "--prefetch", "willneed", "uring:lookahead=2")
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    printed = capsys.readouterr().out
    assert "uring" in printed
    assert "0.2" in printed
