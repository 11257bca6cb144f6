"""``benchmarks.prefetch_sweep``: the table of its trials, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import files
import numpy as np
import pytest

import graphzero as gz
from benchmarks import prefetch_sweep
from graphzero.report import tune as module
from graphzero.report.tune import Trial, Workload

pytestmark = pytest.mark.no_asan  # pure Python


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = np.ones((60, 4), np.float32)
    splits = {"train": np.arange(60)}
    gz.build(tmp_path / "data", edges=files.random_edges(60, 300), features=rows, splits=splits)
    return tmp_path / "data"


def test_every_dataset_limit_and_setting_is_in_the_table(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(_: Workload, setting: gz.Prefetch, *args: Any, **__: Any) -> Trial:
        failed = setting.strategy == "uring"
        return (
            Trial(setting, reason="killed", available=1)
            if failed
            else Trial(setting, seconds=(0.25, 0.75), stats={"pages_missed": 3.0}, available=1)
        )

    monkeypatch.setattr(module, "measure", measured)
    grid = tmp_path / "grid.json"
    grid.write_text(json.dumps({"strategy": ["pread", "uring"], "lookahead": [1, 2]}))
    out = tmp_path / "t.csv"
    arguments = ["--datasets", str(folder), "--limits", "none", "640MB", "--grid", str(grid)]
    more = ["--prefetch", "none:lookahead=0", "--repeats", "3", "--fanouts", "3,2"]
    assert prefetch_sweep.main([*arguments, *more, "--out", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 2 * (3 * 3 + 2)
    assert {row["limit_bytes"] for row in rows} == {"", "640000000"}
    assert {row["dataset"] for row in rows} == {str(folder)}
    done = [row for row in rows if row["strategy"] != "uring"]
    assert {(row["seconds_per_batch"], row["pages_missed"]) for row in done} == {("0.5", "3.0")}
    assert {row["reason"] for row in rows if row["strategy"] == "uring"} == {"killed"}


def test_settings_of_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "grid.json"
    path.write_text('[{"strategy": "none"}, {"strategy": "pread", "lookahead": 2}]')
    assert prefetch_sweep.read_grid(path) == [
        gz.Prefetch("none"),
        gz.Prefetch("pread", lookahead=2),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no setting: give --prefetch or --grid"),
        (["--grid", "{grid}"], "are not among"),
        (["--grid", "/nowhere/grid.json"], "/nowhere/grid.json: No such file"),
        (["--prefetch", "none", "--limits", "much"], "'much' is not a size"),
        (["--prefetch", "none", "--out", "/nowhere/t.csv"], "--out cannot be written"),
    ],
)
def test_wrong_options_are_refused(
    folder: Path, tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "grid.json").write_text('{"lookhaead": 1}')
    words = [word.format(grid=tmp_path / "grid.json") for word in words]
    out = str(tmp_path / "t.csv")
    with pytest.raises(SystemExit):
        prefetch_sweep.main(["--datasets", str(folder), "--out", out, *words])
    assert message in capsys.readouterr().err
    assert not (tmp_path / "t.csv").exists()


def test_a_workload_that_is_none_of_the_dataset_is_an_error(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "t.csv")
    words = ["--datasets", str(folder), "--out", out, "--prefetch", "none", "--split", "x"]
    assert prefetch_sweep.main(words) == 1
    assert "no split 'x'" in capsys.readouterr().err
