"""The benchmarks: each script runs at a tiny size."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import (
    build,
    compare,
    gpu,
    growth,
    inference,
    ordering,
    out_of_core,
    papers100m,
    prefetch_sweep,
    sampling,
    typed,
)

pytestmark = pytest.mark.no_asan  # pure Python, and processes of their own
TINY = "--scale 8 --edges 4000 --dim 5 --runs 1"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Processes that a benchmark starts import the graphzero of this one."""
    monkeypatch.setenv("PYTHONPATH", str(Path(gz.__file__).parents[1]))
    for script in (sampling, typed):
        monkeypatch.setattr(script, "SHORTEST_RUN", 0.0)


def run_tiny(main, words, tmp_path):
    """Runs a script, and returns its JSON."""
    arguments = [*words.split(), "--data", str(tmp_path / "data"), "--json", str(tmp_path / "out")]
    assert main(arguments) == 0
    return json.loads((tmp_path / "out").read_text())


@pytest.mark.extended
def test_build(tmp_path, capsys):
    found = run_tiny(build.main, f"{TINY} --sizes 1000 4000 --limits 2e9 --peers ,", tmp_path)
    assert [one["edges"] for one in found["size"]] == [1000, 1000, 4000, 4000]
    assert len(found["verify"]) == 6
    assert "4,000 edges from CSV" in capsys.readouterr().out


@pytest.mark.extended
def test_sampling(tmp_path):
    words = f"{TINY} --starts 200 --batch-size 8 --batches 2 --peers , --threads 1"
    found = run_tiny(sampling.main, words, tmp_path)
    assert len(found["results"]) == 11
    assert all(one["rates"]["graphzero"]["median"] > 0 for one in found["results"])


@pytest.mark.extended
def test_gpu(tmp_path):
    words = f"{TINY} --batch-size 8 --steps 2 --resident 12 --workers 1"
    found = run_tiny(gpu.main, words, tmp_path)
    assert len(found["ceiling"]) == 5
    feeds = {feed["name"]: feed for feed in found["feeds"]}
    assert feeds["device="]["sent"] > feeds["device=, device_cache=1.0"]["sent"] > 0


def test_typed_and_ordering(tmp_path):
    found = run_tiny(typed.main, f"{TINY} --types 1 2 --batch-size 8 --fanouts 4 2", tmp_path)
    assert len(found["rates"]) == 4
    found = run_tiny(ordering.main, "--scale 8 --edges 4000 --dim 64", tmp_path)
    assert [row[1] for row in found["pages"][1:4]] == ["presample", "hot", "input"]
    found = run_tiny(ordering.main, "--scale 8 --edges 4000 --dim 64 --together", tmp_path)
    assert [row[1] for row in found["pages"][1:4]] == ["1", "51", "51"]


@pytest.mark.extended
def test_two_trees_are_compared(tmp_path):
    tree, chosen = str(Path(gz.__file__).parents[1]), "one_hop,csv"
    words = f"{tree} {tree} {TINY} --pairs 5 --batch-size 8 --batches 2 --threads 1"
    options = [*words.split(), "--workloads", chosen, "--data", str(tmp_path)]
    results = compare.measure(compare.parse(options))["results"]
    assert list(results) == chosen.split(",")
    for one in results.values():
        assert len(one["old"]) == len(one["new"]) == 5
        assert one["interval"][0] <= one["ratio"] <= one["interval"][1]


@pytest.fixture
def limited():
    try:
        with out_of_core.limited_group(1 << 30):
            pass
    except out_of_core.NoMemoryGroup as error:
        pytest.skip(str(error))


@pytest.mark.extended
def test_out_of_core(tmp_path, limited):
    words = "--quick --orders input --only memmap,auto,ram,packed"
    found = run_tiny(out_of_core.main, words, tmp_path)
    assert {one["contestant"] for one in found["rows"]} == {"memmap", "auto"}
    assert {one["contestant"] for one in found["training"]} == {"ram", "packed", "auto"}
    found = run_tiny(inference.main, "--quick --runs 1", tmp_path)
    assert found["difference"] < 1e-5
    assert set(found["results"]) == {"free", "limited"}


@pytest.mark.extended
def test_growth(tmp_path, limited):
    words = "--quick --peers , --only walks,sampling --states memory,third --picture"
    found = run_tiny(growth.main, f"{words} {tmp_path / 'g.svg'}", tmp_path)
    (one,) = found["sizes"]
    measured = {(each["name"], each["state"]): each["cost"] for each in one["states"]}
    assert len(measured) == 4
    assert min(min(costs) for costs in measured.values()) > 0
    assert "svg" in (tmp_path / "g.svg").read_text()
    assert not list((tmp_path / "data").iterdir())


@pytest.mark.extended
def test_papers100m(tmp_path, limited):
    found = run_tiny(papers100m.main, "--quick", tmp_path)
    assert [name.split()[0] for name in found["done"]] == ["edges", "rows", "train", "count"] * 2


@pytest.mark.extended
def test_prefetch_sweep(tmp_path):
    """It is the code of `graphzero tune`, with a row for each trial."""
    folder, grid, out = tmp_path / "data", tmp_path / "grid.json", tmp_path / "t.csv"
    gz.build(folder, np.arange(200).reshape(100, 2) % 90).close()
    grid.write_text(json.dumps({"strategy": ["pread"], "lookahead": [1, 2]}))
    words = f"--datasets {folder} --limits none --grid {grid} --out {out} --split all"
    assert prefetch_sweep.main([*words.split(), "--repeats", "3", "--fanouts", "3,2"]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert {(row["strategy"], row["lookahead"]) for row in rows} == {("pread", "1"), ("pread", "2")}
    assert all(float(row["seconds_per_batch"]) > 0 for row in rows)
