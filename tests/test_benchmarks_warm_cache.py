"""The benchmark of what "auto" costs on a warm cache: its pairing and turns; no clock."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import warm_cache
from benchmarks.inputs import prepare
from benchmarks.timing import Run


def runs(*seconds: float) -> list[Run]:
    return [Run(10, one, one) for one in seconds]


def test_costs_are_of_runs_on_the_same_batches() -> None:
    cost = warm_cache.cost_of(runs(1.0, 2.0, 4.0), runs(1.25, 2.0, 4.4))
    assert (cost.median, cost.low, cost.high) == pytest.approx((0.1, 0.0, 0.25))
    assert cost.pairs == 3
    with pytest.raises(ValueError, match="longer"):
        warm_cache.cost_of(runs(1.0), runs(1.0, 2.0))


def options(tmp_path: Path, **more: Any) -> argparse.Namespace:
    arguments = ["--runs", "3", "--batches", "2", "--batch-size", "16", "--fanouts", "3", "2"]
    parsed = warm_cache.parse([*arguments, "--data", str(tmp_path), "--dim", "5"])
    return argparse.Namespace(**(vars(parsed) | {"scale": 8, "edges": 4000} | more))


def test_everyone_loads_the_same_seeds_and_each_is_first_at_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, tuple[int, ...]]] = []

    def load(dataset: object, seeds: Any, strategy: str, _: object) -> tuple[Run, str]:
        asked.append((strategy, tuple(seeds)))
        return Run(2, float(len(asked)), 1.0), strategy

    monkeypatch.setattr(warm_cache, "load", load)
    inputs = prepare(tmp_path, scale=8, num_edges=4000, dim=5)
    done, how = warm_cache.run_in_turns(None, inputs, options(tmp_path))  # type: ignore[arg-type]
    turns = [asked[at : at + 3] for at in range(0, 12, 3)]
    assert len(asked) == 12
    assert all(len({seeds for _, seeds in turn}) == 1 for turn in turns)
    assert len({turn[0][1] for turn in turns}) == 4
    assert [[name for name, _ in turn].index("auto") for turn in turns] == [1, 0, 2, 1]
    # The first turn, of the first three calls, is not counted.
    assert [run.seconds for run in done["auto"]] == [4.0, 9.0, 11.0]
    assert how == {"none": "none", "auto": "auto", "none again": "none"}


def test_a_small_run_from_end_to_end(tmp_path: Path) -> None:
    found = warm_cache.measure(options(tmp_path))
    results = found["results"]
    assert list(results) == ["none", "auto", "none again"]
    assert all(one["runs"] == 3 and one["median"] > 0 for one in results.values())
    assert results["none"]["cost"]["median"] == 0.0
    assert results["none"]["io"].startswith("none: ")
    assert results["auto"]["io"] == "willneed: the dataset fits in memory"
    shown = warm_cache.heading(found) + warm_cache.table(found)
    for what in ("longer than none", "cache warm", "256 nodes, 4,000 edges", "| auto"):
        assert what in shown
    assert np.isfinite(results["auto"]["cost"]["median"])
