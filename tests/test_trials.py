"""Trials: the same cache state, the limit, and reasons where there are no figures."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import files
import numpy as np
import psutil
import pytest

import graphzero as gz
from graphzero.report.tuning import limited_memory, trial
from graphzero.report.tuning.cache_state import dataset_files, drop_files, share_in_memory
from graphzero.report.tuning.trial import Trials, Workload
from graphzero.report.tuning.trial_server import TrialServer

pytestmark = pytest.mark.no_asan  # starts processes with a limit that fits the plain interpreter

NODES, DIM = 20_000, 64
MB = 1 << 20
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's page cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with 5 MB of features."""
    path = tmp_path_factory.mktemp("trials") / "data"
    features = np.random.default_rng(0).standard_normal((NODES, DIM)).astype(np.float32)
    splits = {"train": np.arange(0, NODES, 4)}
    edges = files.random_edges(NODES, 100_000)
    gz.build(path, edges=edges, features=features, splits=splits, directed=True).close()
    return path


@pytest.fixture(scope="module")
def work(folder: Path) -> Workload:
    return Workload(str(folder), [5, 5], 256)


@pytest.fixture(scope="module")
def trials(work: Workload) -> Iterator[Trials]:
    with Trials(work) as made:
        yield made


def _fill_cache(folder: Path) -> None:
    for path in dataset_files(folder):
        path.read_bytes()


@linux
def test_files_are_dropped_unless_they_are_mapped_elsewhere(folder: Path) -> None:
    _fill_cache(folder)
    paths = dataset_files(folder)
    assert {path.name for path in paths} == {"graph.gl", "features.gd", "split_train.gd"}
    if (share_in_memory(paths) or 0) < 0.99:
        pytest.skip("this file system keeps no pages")
    stayed = drop_files(paths)
    if stayed is None or stayed > 0.5:
        pytest.skip("this file system keeps pages that it was told to drop")
    with gz.open(folder) as ds:
        assert ds.features is not None
        ds.features.gather(np.arange(NODES))
        stayed = drop_files(paths)
    assert stayed is not None
    assert stayed > 0.5


def test_each_trial_begins_cold_and_measures_as_told(trials: Trials, folder: Path) -> None:
    for setting in (gz.Prefetch("willneed"), gz.Prefetch("pread", lookahead=0)):
        _fill_cache(folder)
        result = trials.run(setting, batches=5, warm_up=2)
        assert result.reason is None
        assert result.setting == setting
        assert len(result.seconds) == 5
        assert len(result.windows) == 2
        assert 2 <= result.warmed_up <= 8
        assert result.io.startswith(setting.strategy)
        assert result.stats["waited"] > 0
        assert result.available is not None
        assert result.available > 0
        if sys.platform == "linux":
            assert result.in_memory is not None
            assert result.in_memory < 0.05
            assert result.peak_anonymous is not None
            assert result.peak_anonymous > 20 * MB


@linux
def test_pages_that_were_in_memory_are_missing_again(trials: Trials, folder: Path) -> None:
    missed = []
    for _ in range(2):
        _fill_cache(folder)
        result = trials.run(gz.Prefetch("willneed"), batches=1, warm_up=0)
        missed.append(result.pages_missed)
    if result.in_memory is None or result.in_memory > 0.05:
        pytest.skip("this file system keeps pages that it was told to drop")
    assert missed[0] == missed[1]
    assert missed[0] is not None
    assert missed[0] > 100


def test_epochs_follow_one_another_and_a_step_takes_its_time(
    trials: Trials, work: Workload
) -> None:
    trials.workload = replace(work, batch_size=4096, step_ms=40)  # two mini-batches an epoch
    try:
        result = trials.run(gz.Prefetch("none"), batches=5, warm_up=0)
    finally:
        trials.workload = work
    assert len(result.seconds) == 5
    assert min(result.seconds) >= 0.04


def test_the_time_for_a_trial_ends_it_early(trials: Trials) -> None:
    result = trials.run(gz.Prefetch("none"), batches=10**9, warm_up=10**9, seconds=0.05)
    assert result.reason is None
    assert result.seconds


def test_what_fails_and_what_takes_too_long_is_a_reason(
    trials: Trials, work: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials.workload = replace(work, split="missing")
    try:
        result = trials.run(gz.Prefetch("none"), batches=1)
        assert result.reason == (
            "failed: ValueError: no split 'missing'; there are ['train'], and 'all' for all nodes"
        )
        assert result.seconds_per_batch is None
        assert result.windows == ()
        monkeypatch.setattr(trial, "_START_SECONDS", 0.5)
        trials.workload = replace(work, step_ms=1e6)
        result = trials.run(gz.Prefetch("none"), batches=1, warm_up=0, seconds=0.1)
        assert result.reason == "took longer than 1 s"
    finally:
        trials.workload = work
    # and the next one is not disturbed
    assert trials.run(gz.Prefetch("none"), batches=1, warm_up=0).reason is None


@linux
def test_a_trial_beyond_the_limit_is_killed_and_the_next_one_runs(work: Workload) -> None:
    hungry = replace(work, split="all", fanouts=[-1, -1, -1], batch_size=200, step_ms=5000)
    with Trials(hungry, memory_limit=300 * MB) as trials:
        if trials.no_group is not None:
            pytest.skip(trials.no_group)
        many = gz.Prefetch("none", lookahead=90)  # whole mini-batches wait for the slow loop
        result = trials.run(many, batches=4, warm_up=0)
        assert result.reason is not None
        assert result.reason.startswith("killed")
        assert result.seconds == ()
        trials.workload = work
        result = trials.run(gz.Prefetch(), batches=2, warm_up=1)
        assert result.reason is None
        assert result.available is not None
        assert result.available < 300 * MB


def test_without_a_group_trials_run_and_say_so(
    work: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(limit: int) -> None:
        raise limited_memory.NoMemoryGroup("no memory group can be made: not here")

    monkeypatch.setattr(limited_memory, "_find", refuse)
    with Trials(work, memory_limit=300 * MB) as trials:
        assert (trials.group, trials.no_group) == ("", "no memory group can be made: not here")
        result = trials.run(gz.Prefetch("auto"), batches=1, warm_up=0)
        assert result.reason is None
        assert result.setting == gz.Prefetch("auto")


def test_typed_graphs_and_named_attributes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    ends = {"paper": 300, "author": 200}
    gz.build(
        tmp_path / "typed",
        nodes={
            name: {"x": rng.standard_normal((count, 4)).astype(np.float32)}
            for name, count in ends.items()
        },
        edges={("author", "writes", "paper"): rng.integers(0, 200, (2, 900))},
        splits={"train": {"paper": np.arange(150)}},
    ).close()
    work = Workload(str(tmp_path / "typed"), {"author__writes__paper": [3, 2]}, 32, gather=("x",))
    with Trials(work) as trials:
        result = trials.run(gz.Prefetch("uring"), batches=7, warm_up=1)
    assert result.reason is None
    assert len(result.seconds) == 7


def test_modules_in_the_current_folder_are_not_imported(
    work: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise RuntimeError('not the one of Python')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part not in ("", ".")])
    with Trials(work) as trials:
        assert trials.run(gz.Prefetch(), batches=1, warm_up=0).reason is None


@linux
def test_a_trial_does_not_outlive_its_server_into_the_next_one(work: Workload) -> None:
    with Trials(replace(work, step_ms=1e6)) as trials:
        server = trials._running_server()

        def kill_server() -> None:
            while not psutil.Process(server._process.pid).children():
                time.sleep(0.02)
            below.extend(psutil.Process(server._process.pid).children())
            server._process.kill()

        below: list[psutil.Process] = []
        killer = threading.Thread(target=kill_server)
        killer.start()
        result = trials.run(gz.Prefetch(), batches=9)
        killer.join()
        assert result.reason is not None
        trials.workload = work
        assert trials.run(gz.Prefetch(), batches=1, warm_up=0).reason is None
        _, alive = psutil.wait_procs(below, 5)
        assert not alive


HOLDS = """
import sys, tempfile
from graphzero.report.tuning.trial_server import TrialServer
tempfile.tempdir = sys.argv[1]
server = TrialServer()
print("made", flush=True)
sys.stdin.read()
"""


def test_folders_of_the_killed_are_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graphzero-trials-of-others").mkdir()
    (tmp_path / "graphzero-trials-1-5").symlink_to(tmp_path)
    others = set(os.listdir(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def left_after_another() -> set[str]:
        TrialServer().close()
        return set(os.listdir(tmp_path)) - others

    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    pipe = subprocess.PIPE
    now = time.monotonic_ns
    with subprocess.Popen(command, cwd="/", stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        (made,) = set(os.listdir(tmp_path)) - others
        monkeypatch.setattr(time, "monotonic_ns", lambda: now() + 61_000_000_000)
        assert left_after_another() == {made}  # its process is alive
        process.kill()
    monkeypatch.setattr(time, "monotonic_ns", now)
    assert left_after_another() == {made}  # perhaps it is being made
    monkeypatch.setattr(time, "monotonic_ns", lambda: now() + 61_000_000_000)
    assert left_after_another() == set()
    assert others <= set(os.listdir(tmp_path))


@linux
def test_no_process_survives_the_one_that_wants_the_trials(work: Workload) -> None:
    program = (
        "import sys; from graphzero.report.tuning.trial import *; import graphzero as gz\n"
        "trials = Trials(Workload(sys.argv[1], [5, 5], 256, step_ms=1e6), memory_limit=10**9)\n"
        "print('group', trials.group and trials._group.folder, flush=True)\n"
        "trials.run(gz.Prefetch(), batches=9)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, work.folder],
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    with process:
        group = process.stdout.readline().split()[1:]
        for _ in range(600):
            below = psutil.Process(process.pid).children(recursive=True)
            if len(below) == 2:  # the server and the trial
                break
            time.sleep(0.05)
        assert len(below) == 2
        process.kill()
        process.wait(30)
        _, alive = psutil.wait_procs(below, 10)
        assert not alive
        if group and group[0] != "None":
            os.rmdir(group[0])  # which nobody could do in time
