"""The benchmark of the choice of ``graphzero tune``: turns, losses, the report; no clock."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import graphzero as gz
from graphzero.report.tuning.trial import TrialResult

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import tune

pytestmark = pytest.mark.no_asan  # pure Python

FAST, SLOW, BAD = gz.Prefetch("uring"), gz.Prefetch("pread"), gz.Prefetch("none")


class Trials:
    """Measures `seconds`, slower each time; "none" is killed."""

    def __init__(self) -> None:
        self.asked: list[gz.Prefetch] = []

    def run(self, setting: gz.Prefetch, **_: Any) -> TrialResult:
        self.asked.append(setting)
        if setting == BAD:
            return TrialResult(setting, reason="killed: it needs more memory")
        seconds = (0.1 if setting == FAST else 0.12) * (1 + 0.01 * len(self.asked))
        return TrialResult(setting, (seconds,) * 4)


def test_the_grid_is_measured_in_rounds_and_failures_once() -> None:
    options = tune.parse(["--grid-rounds", "3"])
    trials: Any = Trials()
    times, failed = tune.measure_grid(trials, [FAST, SLOW, BAD], options)
    assert {one: len(found) for one, found in times.items()} == {FAST: 3, SLOW: 3}
    assert failed == {"none:lookahead=1": "killed: it needs more memory"}
    assert trials.asked.count(BAD) == 1
    assert sorted(map(str, trials.asked[:3])) == sorted(map(str, [FAST, SLOW, BAD]))
    assert tune.best_of(times, 1) == [FAST]


def test_turns_alternate_and_the_losses_are_of_turns() -> None:
    trials: Any = Trials()
    turns, again = tune.compare(trials, [SLOW, FAST], tune.parse(["--turns", "4"]))
    assert trials.asked == [SLOW, FAST, SLOW] * 4
    grid = {FAST: [0.1], SLOW: [0.11]}
    found = tune.losses(SLOW, grid, turns, again)
    assert found["grid"] == pytest.approx(0.1)
    assert found["turns"] == pytest.approx(0.2, abs=0.02)
    assert found["itself"] == pytest.approx(0.02, abs=0.005)
    best = tune.losses(FAST, grid, turns, turns[FAST])
    assert best == {"grid": 0.0, "turns": 0.0, "itself": 0.0}
    assert tune.losses(BAD, grid, {BAD: []}, []) == dict.fromkeys(("grid", "turns", "itself"))


def test_a_turn_in_which_one_fails_does_not_count() -> None:
    trials: Any = Trials()
    turns = tune.compare(trials, [FAST, BAD], tune.parse(["--turns", "2"]))
    assert turns == ({FAST: [], BAD: []}, [])


def test_the_report_says_what_was_chosen_and_how_good_it_is() -> None:
    found = {
        "machine": {
            "cpu": "Quick", "cores": 2, "memory_bytes": 1 << 33, "kernel": "K", "python": "3",
        },
        "others_processor_share": 0.1,
        "disk": {"file_system": "ext4", "device": "/dev/vda"},
        "disk_rate": "disk: fast",
        "graph": {"nodes": 1000, "edges": 2000, "dim": 8},
        "memory": {"limit": 64 << 20, "own_anonymous": 150 << 20, "group": "cgroup version 2"},
        "settings": {"order": "hot", "batch_size": 10, "fanouts": [2], "batches": 24},
        "versions": {"graphzero": "1"},
        "not_limited": None,
        "tuned": {"a": 0.1, "b": None},
        "grid": {"b": [0.3], "a": [0.1, 0.2, 0.12]},
        "turns": {"a": [0.1]},
        "failed": {"c": "killed"},
        "chosen": "a",
        "trials": 30,
        "tuning_seconds": 100.0,
        "losses": {"grid": 0.04, "turns": 0.07, "itself": -0.01},
    }  # fmt: skip
    text = tune.report(found)
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert cells[2:] == [
        ["a", "0.1000", "0.1200", "0.1000", "chosen"],
        ["b", "-", "0.3000", "-", ""],
        ["c", "-", "killed", "-", ""],
    ]
    assert "against the best of the full grid: +4.0%, within 5%" in text
    assert "against the best in turns: +7.0%, beyond 5%" in text
    assert "against itself in the same turns: -1.0%" in text
    assert "limit 64 MiB by cgroup version 2, plus 150 MiB" in text


def test_main_fails_beyond_the_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for loss, code in ((0.05, 0), (0.06, 1), (None, 1)):
        found = {"losses": {"turns": loss}}
        monkeypatch.setattr(tune, "measure", lambda _, found=found: found)
        monkeypatch.setattr(tune, "report", lambda _: "the report")
        out = tmp_path / "out.json"
        assert tune.main(["--data", str(tmp_path), "--json", str(out)]) == code
        assert capsys.readouterr().out == "the report\n"
        assert json.loads(out.read_text()) == found
