"""The benchmark of the build: a small run from end to end, and what its tables say; no clock."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import build
from benchmarks.build_inputs import copy_bytes, edges_csv, edges_npy, features_npy
from benchmarks.inputs import feature_rows

pytestmark = pytest.mark.no_asan  # starts processes

SMALL = "--scale 8 --edges 4000 --sizes 1000 4000 --limits 2e9 --runs 1 --size-runs 1 --dim 5"


def test_inputs_hold_the_same_edges(tmp_path: Path) -> None:
    edges = np.load(edges_npy(tmp_path, 8, 4000))
    text = edges_csv(tmp_path, 8, 4000).read_text().splitlines()
    assert text[0].replace('"', "") == "src,dst"
    assert [[int(cell) for cell in line.split(",")] for line in text[1:]] == edges.tolist()
    rows = np.load(features_npy(tmp_path, 256, 5))
    assert rows.tobytes() == feature_rows(np.arange(256), 5).tobytes()


def test_a_copy_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 40_000)
    assert copy_bytes(tmp_path / "a", tmp_path / "b") == 256 * 40_000
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_a_small_run_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--data", str(tmp_path / "data"), "--json", str(tmp_path / "out.json")]
    assert build.main([*SMALL.split(), "--peers", ",", *files]) == 0
    out = capsys.readouterr().out
    for what in ("4,000 edges from CSV", "2,000 MB", "| 1,000", "build, order=hot"):
        assert what in out
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["rate"]["goals"] == {"graphzero02": 5.0, "duckdb": 2.0}
    assert [one["edges"] for one in found["size"]] == [1000, 1000, 4000, 4000]
    assert found["features"]["bytes"] == (tmp_path / "data/features_256_5.npy").stat().st_size
    left = {path.name for path in (tmp_path / "data").iterdir()}
    assert not any(name.startswith(("out", "copy")) for name in left)
    assert "edges_8_1000.csv" not in left


def test_verdicts_follow_the_goals() -> None:
    found: dict[str, Any] = {
        "machine": {"cpu": "?", "cores": 2, "memory_bytes": 0, "kernel": "?", "python": "?"},
        "others_processor_share": 0.0,
        "memory": [
            {"limit": 10**9, "peak": 10**9 - 1, "rate": 1.0},
            {"limit": 10**9, "peak": 10**9 + 1, "rate": 1.0},
            {"limit": 10**9, "error": "no group"},
        ],
        "size": [{"kind": "csv", "edges": 9, "seconds_per_edge": 1e-9, "growth": 1.31}],
        "features": {"copy_rate": 1e9, "input": 0.81e9, "hot": 0.79e9},
    }
    said = [line.split("|")[-2].strip() for line in build.tables(found).splitlines() if "|" in line]
    verdicts = [word for word in said if word in ("met", "missed", "-")]
    assert verdicts == ["met", "missed", "-", "missed", "-", "met", "missed"]


def test_a_wrong_number_of_edges_is_no_result(tmp_path: Path) -> None:
    class Wrong:
        name = "wrong"

        def call(self, op: str, **arguments: Any) -> dict[str, Any]:
            return {"num_edges": 3, "seconds": 1.0, "processor_seconds": 1.0}

    with pytest.raises(build.PeerError, match="wrong has 3 edges of 4"):
        build._work(Wrong(), tmp_path / "out", 4, edges="e.csv")  # type: ignore[arg-type]
