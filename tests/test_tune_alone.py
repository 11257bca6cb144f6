"""A measurement is of one dataset: no build meanwhile, no other files, no other measurement."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import files
import numpy as np
import pytest
from cli_program import run

import graphzero as gz
from graphzero.report.tuning import tuner
from graphzero.report.tuning.alone import measuring_alone
from graphzero.report.tuning.trial import TrialResult, Trials, Workload
from graphzero.report.tuning.tuner import tune
from graphzero.store.tuning_file import TUNING_NAME

pytestmark = pytest.mark.no_asan  # pure Python

SETTINGS = [gz.Prefetch("auto"), gz.Prefetch("pread", lookahead=2)]
IN_USE = "another build, conversion or measurement .* uses this folder: wait until it ends"


def build(folder: Path, seed: int = 0) -> Path:
    features = np.random.default_rng(seed).standard_normal((60, 4)).astype(np.float32)
    splits = {"train": np.arange(0, 60, 4)}
    edges = files.random_edges(60, 300)
    gz.build(folder, edges=edges, features=features, splits=splits, directed=True).close()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return build(tmp_path / "data")


def trial(monkeypatch: pytest.MonkeyPatch, during: Callable[[], object]) -> None:
    """Puts something in the place of all trials, which only seem to measure."""

    def measured(_: Trials, setting: gz.Prefetch, **__: Any) -> TrialResult:
        during()
        return TrialResult(setting, (0.1, 0.1), available=1 << 20)

    monkeypatch.setattr(tuner, "grid", lambda *_: SETTINGS)
    monkeypatch.setattr(Trials, "run", measured)


def test_no_build_begins_during_a_measurement(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (folder / "features.gd").read_bytes()
    refused = []

    def build_again() -> None:
        with pytest.raises(BlockingIOError, match=IN_USE):
            build(folder, seed=1)
        with pytest.raises(BlockingIOError, match=IN_USE):
            gz.reorder(folder, "input")
        refused.append(True)

    trial(monkeypatch, build_again)
    tune(Workload(str(folder)), disk=False)
    assert refused
    assert (folder / "features.gd").read_bytes() == before
    build(folder, seed=1)  # the lock has ended


def test_no_measurement_begins_during_a_build(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert run("tune", folder) == 1
    finally:
        os.close(descriptor)
    assert "another build, conversion or measurement" in capfd.readouterr().err
    assert not (folder / TUNING_NAME).exists()


def test_a_folder_that_cannot_be_locked_is_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with measuring_alone(folder):
        pass


@pytest.mark.parametrize("change", ["others are copied over them", "one is removed"])
def test_files_that_change_during_the_trials_are_an_error(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    change: str,
) -> None:
    other = build(tmp_path / "other", seed=1)

    def replace() -> None:
        if change.startswith("one"):
            (folder / "features.gd").unlink(missing_ok=True)
            (folder / "features.gd").stat()  # fails, as a trial does without its file
        shutil.copy(other / "features.gd", folder / "features.gd")

    trial(monkeypatch, replace)
    assert run("tune", folder, "--json", "--budget", "5") == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert f"{folder}: files of the dataset were replaced or removed during the measurement" in err
    assert not (folder / TUNING_NAME).exists()


def test_files_of_the_same_content_are_no_change(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy() -> None:
        shutil.copy(folder / "features.gd", tmp_path / "copy")
        os.replace(tmp_path / "copy", folder / "features.gd")

    trial(monkeypatch, copy)
    assert run("tune", folder, "--budget", "5", "--quiet") == 0
    assert json.loads((folder / TUNING_NAME).read_text())["trials"]
    with gz.open(folder) as ds:
        assert ds.any_tuning is not None
        assert "other files" not in ds.tuning_mismatch
