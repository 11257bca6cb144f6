"""``graphzero tune`` from end to end, on a small dataset; and what it refuses."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import files
import numpy as np
import psutil
import pytest
from cli_program import run

import graphzero as gz
from graphzero.commands.signals import ended_by_signals
from graphzero.report.tuning import limited_memory, tuner
from graphzero.report.tuning.grid import describe
from graphzero.report.tuning.live_table import PlainLines
from graphzero.report.tuning.trial import TrialResult, Trials, Workload
from graphzero.report.tuning.tuner import tune
from graphzero.store.tuning_file import TUNING_NAME

pytestmark = pytest.mark.no_asan  # starts processes with a limit that fits the plain interpreter

NODES = 4000
SETTINGS = [gz.Prefetch("auto"), gz.Prefetch("pread", lookahead=2), gz.Prefetch("none")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    features = np.random.default_rng(0).standard_normal((NODES, 32)).astype(np.float32)
    edges = files.random_edges(NODES, 20_000)
    splits = {"train": np.arange(0, NODES, 4)}
    gz.build(path, edges=edges, features=features, splits=splits, directed=True).close()
    return path


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid of three settings."""
    monkeypatch.setattr(tuner, "grid", lambda *_: SETTINGS)


def _files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_choice_is_written_shown_and_used(
    folder: Path, few: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = _files(folder)
    options = ["--memory-limit", "600MB", "--fanouts", "3,2", "--batch-size", 100]
    charts = ["--html", tmp_path / "t.html", "--svg", tmp_path / "t.svg"]
    assert run("tune", folder, *options, "--budget", 6, *charts) == 0
    out, err = capfd.readouterr()
    assert _files(folder) == before | {TUNING_NAME}
    content = json.loads((folder / TUNING_NAME).read_text())
    assert content["memory_limit"] == 600_000_000
    assert content["workload"]["fanouts"] == [3, 2]
    assert content["workload"]["split"] == "train"
    assert content["limited_by"] or content["not_limited"]
    assert content["disk_rate"] is None or "reads_per_second" in content["disk_rate"]
    assert {"graphzero", "numpy", "torch", "python"} == set(content["versions"])
    assert len(content["trials"]) >= 3
    assert all(trial["seconds"] for trial in content["trials"])
    chosen = gz.Prefetch(**content["prefetch"])
    assert chosen in SETTINGS
    assert f"chosen: {describe(chosen)}, " in out
    assert (
        out.splitlines()[-1]
        == f"{folder / TUNING_NAME}: loaders of this dataset use it from now on"
    )
    assert "comparing 3 settings" in err
    assert "trial 1, rung 1: auto:lookahead=1: " in err
    for name, beginning in (("t.html", "<!DOCTYPE html>"), ("t.svg", "<?xml")):
        assert (tmp_path / name).read_text().startswith(beginning)
    with gz.open(folder) as ds:
        assert ds.tuning is not None
        assert ds.tuning.memory_limit == 600_000_000


def test_json_and_another_file(
    folder: Path, few: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = _files(folder)
    path = tmp_path / "mine.json"
    how = ["--out", path, "--split", "all", "--full", "--quiet", "--json", "--budget", 60]
    assert run("tune", folder, "--fanouts", 2, "--batch-size", 2000, *how) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert json.loads(out) == json.loads(path.read_text())
    assert _files(folder) == before
    trials = json.loads(out)["trials"]
    assert [trial["rung"] for trial in trials] == [0] * 6  # each setting twice
    assert json.loads(out)["workload"]["split"] == "all"


def _run_nothing(trials: Trials, setting: gz.Prefetch, **_: Any) -> TrialResult:
    """Stands for `Trials.run`: "pread" is fast, "none" is killed."""
    if setting.strategy == "none":
        return TrialResult(setting, reason="killed: it needs more memory than 1 MB")
    seconds = {"pread": 0.1, "auto": 0.2}[setting.strategy]
    return TrialResult(setting, (seconds,) * 4, available=10**9, wall_seconds=0.5)


def test_the_fastest_setting_is_chosen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trials, "run", _run_nothing)
    out = io.StringIO()
    found = tune(Workload(str(folder)), disk=False, settings=SETTINGS, observer=PlainLines(out))
    assert found.found.best == SETTINGS[1]
    assert found.found.ratios == {SETTINGS[1]: 1.0, SETTINGS[0]: 2.0}
    assert [one.result.setting for one in found.records].count(SETTINGS[2]) == 1
    assert "none:lookahead=1: killed: it needs more memory than 1 MB" in out.getvalue()
    assert found.available == 10**9
    assert found.fits
    assert found.chosen == gz.Prefetch()  # once everything is in memory, nothing is read
    larger = replace(found, available=found.size - 1)
    assert larger.chosen == SETTINGS[1]
    assert larger.content()["prefetch"]["strategy"] == "pread"


def test_if_everything_fails_the_reason_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trials, "run", _run_nothing)
    monkeypatch.setattr(Trials, "own_memory", lambda self: 150_000_000)
    with pytest.raises(RuntimeError, match="every setting failed; the first: killed") as error:
        tune(Workload(str(folder)), memory_limit=1 << 30, disk=False, settings=[SETTINGS[2]])
    assert "take about 150 MB, and more with what is read ahead" in str(error.value)
    assert str(error.value).endswith("give --memory-limit at least 188 MB")


def test_a_time_that_is_too_short_is_the_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trials, "run", _run_nothing)
    with pytest.raises(RuntimeError, match="^the time was over before .* a larger --budget$"):
        tune(Workload(str(folder)), disk=False, settings=SETTINGS, seconds=1e-9)
    with pytest.raises(RuntimeError, match="^all 1 of 3 settings tried failed; "):
        tune(Workload(str(folder)), disk=False, settings=SETTINGS[::-1], seconds=1e-9)


def test_without_a_memory_group_the_output_says_so(
    folder: Path, few: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(limit: int) -> None:
        raise limited_memory.NoMemoryGroup("no memory group can be made: not here")

    monkeypatch.setattr(limited_memory, "_find", refuse)
    monkeypatch.setattr(Trials, "run", _run_nothing)
    assert run("tune", folder, "--memory-limit", "1GB", "--budget", 5) == 0
    out, err = capfd.readouterr()
    assert "the page cache was not limited, because no memory group can be made: not here" in out
    assert "the page cache is NOT limited" in err
    content = json.loads((folder / TUNING_NAME).read_text())
    assert content["not_limited"] == "no memory group can be made: not here"
    assert content["limited_by"] is None


def test_a_folder_that_cannot_be_written_is_refused_before_any_trial(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a trial was run")

    monkeypatch.setattr(Trials, "run", refuse)
    (folder / TUNING_NAME).mkdir()
    assert run("tune", folder) == 1
    assert "--out cannot be written: this is a folder" in capfd.readouterr().err
    (folder / TUNING_NAME).rmdir()
    assert run("tune", folder, "--out", folder / "features.gd") == 1
    assert "would replace" in capfd.readouterr().err
    assert run("tune", folder, "--html", folder / "none" / "t.html") == 1
    assert "--html cannot be written" in capfd.readouterr().err


@pytest.mark.parametrize("content", [b"my own notes", b"{}", b'{"format": "another"}'])
def test_a_file_of_another_program_is_not_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], content: bytes
) -> None:
    monkeypatch.setattr(tuner, "Trials", None)  # none is made
    (folder / TUNING_NAME).write_bytes(content)
    assert run("tune", folder) == 1
    assert "graphzero tune did not write this file: rename it" in capfd.readouterr().err
    assert (folder / TUNING_NAME).read_bytes() == content


HOLDS = """
import sys
from graphzero.report.tuning.alone import measuring_alone
with measuring_alone(sys.argv[1]):
    print("holds", flush=True)
    sys.stdin.read()
"""


def test_two_do_not_measure_one_dataset_at_a_time(
    folder: Path, few: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def measured(self: Trials, setting: gz.Prefetch, **_: Any) -> TrialResult:
        return TrialResult(setting, (0.1, 0.1), available=1 << 20)

    monkeypatch.setattr(Trials, "run", measured)
    command = [sys.executable, "-c", HOLDS, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"holds\n"
        assert run("tune", folder, "--budget", "1") == 1
        assert "another tuning or sweep measures this dataset" in capfd.readouterr().err
        assert TUNING_NAME not in _files(folder)
        gz.open(folder).close()  # what trains is not concerned
        other.kill()
    assert run("tune", folder, "--budget", "1") == 0
    assert TUNING_NAME in _files(folder)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--split", "missing"], "no split 'missing'"),
        (["--node-type", "paper"], "--node-type is for typed graphs"),
        (["--memory-limit", "much"], "memory limit 'much' is not a size"),
        (["--memory-limit", "0"], "the memory limit is 0 bytes, and Python with PyTorch takes"),
        (["--memory-limit", "2.5"], "the memory limit is 2 bytes"),
        (["--batch-size", "0"], "graphzero: batch_size must be at least 1, not 0"),
        (["--threads", "-1"], "graphzero: num_threads must be at least 1, not -1"),
        (["--gather", "nope"], "graphzero: gather names ['nope'], and the dataset has"),
    ],
)
def test_wrong_options_are_refused_before_any_trial(
    folder: Path, words: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("tune", folder, *words) == 1
    assert message in capfd.readouterr().err
    assert TUNING_NAME not in _files(folder)


@pytest.mark.parametrize("text", ["nan", "-1", "inf", "some"])
def test_a_step_takes_a_finite_time(
    folder: Path, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run("tune", folder, f"--step-ms={text}")
    assert f"'{text}' is not a number of milliseconds" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_cleaning_up_is_not_interrupted_by_further_signals(name: str) -> None:
    number = signal.Signals[name]
    before = signal.getsignal(number)
    steps = []
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        try:
            signal.raise_signal(number)
            steps.append("went on")
        finally:
            signal.raise_signal(number)
            signal.raise_signal(signal.SIGINT)
            steps.append("cleaned up")
    assert steps == ["cleaned up"]
    assert signal.getsignal(number) is before


def test_a_program_that_ignores_the_end_of_its_terminal_goes_on() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the processes below one")
def test_ctrl_c_leaves_no_process_and_no_group(folder: Path) -> None:
    """On a terminal, whose table is drawn meanwhile."""
    here, there = pty.openpty()
    words = ["tune", str(folder), "--memory-limit", "600MB", "--fanouts", "2", "--step-ms", "5000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "graphzero", *words],
        cwd=folder,
        stdin=there,
        stdout=subprocess.DEVNULL,
        stderr=there,
        preexec_fn=files.let_be_interrupted,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"},
    )
    os.close(there)
    shown, below = b"", []
    with process:
        end = time.monotonic() + 60
        while time.monotonic() < end and len(below) < 2:  # the server and a trial
            if select.select([here], [], [], 0.05)[0]:
                shown += os.read(here, 1 << 16)
            below = psutil.Process(process.pid).children(recursive=True)
        groups = _groups_of(below)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            with contextlib.suppress(OSError):  # the terminal's other end is closed
                if select.select([here], [], [], 0.05)[0]:
                    shown += os.read(here, 1 << 16)
    with contextlib.suppress(OSError):
        while part := os.read(here, 1 << 16):
            shown += part
    os.close(here)
    assert len(below) >= 2
    assert process.returncode == 130
    _, alive = psutil.wait_procs(below, 10)
    assert not alive
    assert not [path for path in groups if path.exists()]
    assert TUNING_NAME not in _files(folder)
    text = shown.decode(errors="replace")
    assert "settings left" in text
    assert "auto:lookahead=0" in text
    assert "running" in text
    assert "interrupted" in text


def _groups_of(processes: list[psutil.Process]) -> list[Path]:
    """Folders of the memory groups that tune has made for some processes."""
    found = []
    for process in processes:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process.pid}/cgroup").read_text().splitlines():
                name = line.split(":", 2)[2]
                if "/graphzero-" in name:
                    found += [
                        Path(f"/sys/fs/cgroup/{part}{name}") for part in ("memory", "unified", ".")
                    ]
    return found
