"""``graphzero tune``: its trials, the memory they have, what it chooses, refuses and leaves."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import files
import numpy as np
import psutil
import pytest
from cli_program import run

import graphzero as gz
from graphzero.report import limited_memory
from graphzero.report import tune as tuning
from graphzero.report.readings import read_files
from graphzero.store.atomic import folder_lock

pytestmark = pytest.mark.no_asan  # starts processes with a limit that fits the plain interpreter

NODES = 4000
SETTINGS = [gz.Prefetch("auto"), gz.Prefetch("pread", lookahead=2), gz.Prefetch("none")]
MB = 1 << 20
linux = pytest.mark.skipif(sys.platform != "linux", reason="memory groups are of Linux")


def build(path, seed=0):
    features = np.random.default_rng(seed).standard_normal((NODES, 32)).astype(np.float32)
    edges = files.random_edges(NODES, 20_000)
    splits = {"train": np.arange(0, NODES, 4)}
    gz.build(path, edges=edges, features=features, splits=splits, directed=True).close()
    return path


@pytest.fixture
def folder(tmp_path):
    return build(tmp_path / "data")


@pytest.fixture
def work(folder):
    return tuning.Workload(str(folder), [3, 2], 100)


@pytest.fixture
def few(monkeypatch):
    """Only three settings are compared."""
    monkeypatch.setattr(tuning, "settings_to_compare", lambda *_: list(SETTINGS))


def _files(folder):
    return {path.name for path in folder.iterdir()}


KILLED = "killed: it needs more memory than 1 MB: give a larger limit"


def _measure(work, setting, *args, **_):
    """Stands for `measure`: "pread" is fast, "none" is killed."""
    if setting.strategy == "none":
        return tuning.Trial(setting, reason=KILLED)
    seconds = {"pread": 0.1, "auto": 0.2}[setting.strategy]
    return tuning.Trial(setting, seconds=(seconds,) * 4, available=10**9)


@pytest.fixture
def no_trials(monkeypatch):
    monkeypatch.setattr(tuning, "measure", _measure)


# --- the whole


def test_the_choice_is_printed_and_nothing_is_written(folder, few, tmp_path, capfd):
    before = _files(folder)
    options = ["--memory-limit", "600MB", "--fanouts", "3,2", "--batch-size", 100]
    assert run("tune", folder, *options, "--budget", 120, "--csv", tmp_path / "t.csv") == 0
    out, err = capfd.readouterr()
    assert _files(folder) == before
    *_, heading, argument = out.splitlines()
    assert heading.startswith("chosen, with ")
    chosen = eval(f"dict({argument})", {"gz": gz})["prefetch"]
    assert chosen in SETTINGS
    assert "memory: 600 MB, by " in out
    assert "comparing 3 settings" in err
    assert 'round 1, prefetch=gz.Prefetch(strategy="auto"): ' in err
    rows = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert len(rows) == 9
    assert {row["strategy"] for row in rows} == {"auto", "pread", "none"}
    assert all(float(row["seconds_per_batch"]) > 0 for row in rows)


@pytest.mark.parametrize("setting", [gz.Prefetch(), *tuning.settings_to_compare(10**9, 10**9)[3:]])
def test_a_setting_can_be_copied_into_python(setting):
    assert eval(f"dict({tuning.as_argument(setting)})", {"gz": gz}) == {"prefetch": setting}


def test_the_result_as_json(folder, few, no_trials, capfd):
    options = ["--split", "all", "--quiet", "--json", "--trials", 4]
    assert run("tune", folder, "--fanouts", 2, "--batch-size", 2000, *options) == 0
    out, err = capfd.readouterr()
    assert err == ""
    content = json.loads(out)
    assert [trial["round"] for trial in content["trials"]] == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert content["workload"] == {**content["workload"], "split": "all", "fanouts": [2]}
    assert content["prefetch"] == {"strategy": "auto"}
    assert (content["memory_limit"], content["limited_by"]) == (None, None)
    assert "bytes_per_second" in content["disk_rate"]
    assert {"numpy", "torch", "python"} <= set(content["versions"])
    assert content["machine"]["cores"] >= 1


def test_the_fastest_setting_is_chosen(work, no_trials):
    lines: list[str] = []
    found = tuning.tune(work, disk=False, settings=SETTINGS, rounds=3, say=lines.append)
    assert found.seconds == {SETTINGS[0]: 0.2, SETTINGS[1]: 0.1}
    assert [one.setting for one in found.trials].count(SETTINGS[2]) == 1  # it failed
    assert f'round 1, prefetch=gz.Prefetch(strategy="none"): {KILLED}' in lines
    assert (found.available, found.fits) == (10**9, True)
    assert found.chosen == gz.Prefetch()  # once everything is in memory, nothing is read
    larger = replace(found, size=10**10)
    assert larger.chosen == SETTINGS[1]
    table = list(larger.lines())
    assert table[1].startswith("* pread     2  ")
    assert KILLED in table[3]
    with pytest.raises(RuntimeError, match=f"every setting failed; the first: {KILLED}"):
        tuning.tune(work, memory_limit=1 << 30, disk=False, settings=[SETTINGS[2]])


@pytest.mark.parametrize(("budget", "start", "least"), [(300, 3, 12), (60, 3, 2), (60, 0.2, 12)])
def test_the_budget_is_kept_within_a_tenth(work, monkeypatch, budget, start, least):
    """By a clock that trials advance: what a process takes to start is known after the first."""
    now = [1000.0]
    monkeypatch.setattr(tuning, "time", SimpleNamespace(monotonic=lambda: now[0]))
    settings = tuning.settings_to_compare(10**9, 10**9)

    def measure(_, setting, *args, seconds, timeout):
        per_batch = 0.5 + settings.index(setting) / 100
        taken = min(timeout, start + seconds * (1.2 if setting == settings[1] else 1.0))
        now[0] += taken
        return tuning.Trial(setting, seconds=(per_batch,) * 3, available=1)

    monkeypatch.setattr(tuning, "measure", measure)
    found = tuning.tune(work, disk=False, settings=settings, seconds=budget)
    assert 0.9 * budget <= now[0] - 1000 <= 1.1 * budget
    times = tuning.of_settings(found.trials)
    assert sum(len(each) == 3 for each in times.values()) >= least
    assert found.chosen == settings[0]
    with pytest.raises(ValueError, match=r"the budget is too short: 3 trials of 2 settings"):
        tuning.tune(work, disk=False, settings=settings, seconds=2)


def test_a_setting_that_later_rounds_left_out_is_not_chosen(work):
    trials = [
        tuning.Trial(one, round, (1.0,), available=1) for one in SETTINGS[:2] for round in range(3)
    ]
    once = tuning.Trial(SETTINGS[2], 0, (0.1,), available=1)
    found = tuning.Tuned(work, None, None, 10, (*trials, once), {})
    assert (found.chosen, found.seconds[SETTINGS[2]]) == (SETTINGS[0], 0.1)


# --- what is refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--split", "missing"], "'missing' is no split of the dataset"),
        (["--node-type", "paper"], "name a node type, and the dataset has none"),
        (["--memory-limit", "much"], "memory limit 'much' is not a size"),
        (["--memory-limit", "0"], "the memory limit is 0 bytes, and Python with PyTorch takes"),
        (["--memory-limit", "2.5"], "the memory limit is 2 bytes"),
        (["--batch-size", "0"], "graphzero: batch_size must be at least 1, not 0"),
        (["--threads", "-1"], "graphzero: num_threads must be at least 1, not -1"),
        (["--step-ms=nan"], "step_ms must be a number that is not negative, not nan"),
        (["--step-ms=-1"], "not negative"),
        (["--trials", "2"], "a median takes at least 3 trials, not 2"),
        (["--memory-limit", "1GB"], "no memory group can be made: not here"),
        (["--gather", "nope"], "graphzero: gather names ['nope'], and the dataset has"),
    ],
)
def test_wrong_options_are_refused_before_any_trial(folder, words, message, monkeypatch, capfd):
    def refuse(limit):
        raise limited_memory.NoMemoryGroup("no memory group can be made: not here")

    monkeypatch.setattr(limited_memory, "_make_any", refuse)
    assert run("tune", folder, *words) == 1
    assert message in capfd.readouterr().err


# --- one dataset, one measurement


def test_builds_and_measurements_exclude_each_other(folder, monkeypatch, capfd):
    refused = []

    def measured(_, setting, *args, **__):
        with pytest.raises(BlockingIOError, match="another build, conversion or measurement"):
            build(folder, seed=1)
        assert run("tune", folder, "--trials", 3) == 1
        refused.append(capfd.readouterr().err)
        gz.open(folder).close()  # what trains is not concerned
        # settings that are about as fast are no reason to leave the default
        return tuning.Trial(
            setting, seconds=(0.1 if setting == SETTINGS[0] else 0.099,), available=1
        )

    monkeypatch.setattr(tuning, "measure", measured)
    found = tuning.tune(tuning.Workload(str(folder)), disk=False, rounds=3, settings=SETTINGS)
    assert found.chosen == SETTINGS[0]
    assert all("another build, conversion or measurement" in error for error in refused)
    build(folder, seed=1)  # the lock has ended
    with folder_lock(folder):
        assert run("tune", folder) == 1


# --- trials


def test_a_trial_begins_cold_and_ends_with_figures(tmp_path, monkeypatch):
    """Of a typed graph and some attributes, whatever modules are in the current folder."""
    nodes = {name: {"x": np.ones((4000, 32), np.float32)} for name in ("paper", "author")}
    edges = {("author", "writes", "paper"): files.random_edges(4000, 20_000).T.copy()}
    splits = {"train": {"paper": np.arange(1500)}}
    gz.build(tmp_path / "typed", nodes=nodes, edges=edges, splits=splits).close()
    (tmp_path / "queue.py").write_text("raise RuntimeError('not the one of Python')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part not in ("", ".")])
    paths = sorted(Path("typed").glob("*.g[ld]"))
    for path in paths:
        path.read_bytes()
    work = tuning.Workload("typed", {"author__writes__paper": [3, 2]}, 100, gather=("x",))
    setting = gz.Prefetch("pread", resident=0)
    result = tuning.measure(work, setting, None, paths, seconds=30, batches=4)
    assert result.reason is None
    assert len(result.seconds) == 4
    assert result.stats["num_seeds"] == 100
    tuning.drop_files(paths)
    if sum(found.page_cache or 0 for found in read_files(paths)) > 0:
        pytest.skip("this file system keeps pages that it was told to drop")
    assert result.stats["pages_missed"] > 0


def test_what_fails_and_what_takes_too_long_is_a_reason(work, monkeypatch):
    result = tuning.measure(replace(work, split="missing"), gz.Prefetch("none"), None, [])
    assert (result.seconds_per_batch, result.seconds) == (None, ())
    assert "failed: ValueError: 'missing' is no split of the dataset" in str(result.reason)
    monkeypatch.setattr(tuning, "_START_SECONDS", 0.5)
    slow = replace(work, step_ms=1e6)
    result = tuning.measure(slow, gz.Prefetch("none"), None, [], seconds=0.1)
    assert result.reason == "took longer than 1 s"


@linux
def test_a_trial_beyond_the_limit_is_killed(work):
    hungry = replace(work, split="all", fanouts=[-1, -1, -1], batch_size=200, step_ms=5000)
    try:
        with limited_memory.limited_group(60 * MB) as group:
            result = tuning.measure(hungry, gz.Prefetch("none", lookahead=90), group, [])
    except limited_memory.NoMemoryGroup as error:
        pytest.skip(str(error))
    assert result.reason == "killed: it needs more memory than 63 MB: give a larger limit"
    assert result.seconds == ()


# --- ends


@linux
def test_nothing_is_left_of_a_tuning_that_is_interrupted(folder):
    words = ["tune", str(folder), "--memory-limit", "600MB", "--fanouts", "2", "--step-ms", "9999"]
    command = [sys.executable, "-m", "graphzero", *words]
    process = subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, preexec_fn=files.let_be_interrupted, text=True
    )
    below: list[psutil.Process] = []
    end = time.monotonic() + 60
    while time.monotonic() < end and not below:
        time.sleep(0.05)
        below = psutil.Process(process.pid).children(recursive=True)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert below
    assert process.returncode == 130
    assert "interrupted" in errors
    _, alive = psutil.wait_procs(below, 10)
    assert not alive
    assert not list(Path("/sys/fs/cgroup").rglob(f"graphzero-{process.pid}-*"))
