"""The benchmarks: each script runs at a tiny size, and wrong results of a rival are refused."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import graphzero as gz
from graphzero import _core
from graphzero.report import tune as tune_module
from graphzero.report.tune import Trial

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import (
    build,
    compare,
    disk_probe,
    growth,
    inference,
    ordering,
    out_of_core,
    papers100m,
    prefetch_sweep,
    sampling,
    timing,
    typed,
)
from benchmarks.inputs import feature_rows, labels_of, prepare, rmat_chunks, row_chunks
from benchmarks.sampling import WrongResult, check_one_hop, check_subgraph, check_walks

pytestmark = pytest.mark.no_asan  # pure Python, and processes of their own
TINY = "--scale 8 --edges 4000 --dim 5 --runs 1"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("inputs"), num_nodes=256, num_edges=4_000, dim=3)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Processes that a benchmark starts import the graphzero of this one."""
    monkeypatch.setenv("PYTHONPATH", str(Path(gz.__file__).parents[1]))
    for script in (sampling, typed):
        monkeypatch.setattr(script, "SHORTEST_RUN", 0.0)


# --- wrong numbers


def test_wrong_neighbours_rows_and_labels_are_refused(inputs):
    edges, seeds = np.load(inputs.path("edges.npy")), inputs.seeds(1, 0, 1)
    neighbors = np.sort(edges[edges[:, 0] == seeds[0], 1])
    others = np.setdiff1d(np.arange(inputs.num_nodes), neighbors)
    count = neighbors.size
    hop = {"source": neighbors, "target": np.repeat(seeds, count)}
    n_id = np.concatenate([seeds, np.setdiff1d(neighbors, seeds)])
    local = np.array([int(np.flatnonzero(n_id == other)[0]) for other in neighbors])
    batch = {
        "n_id": n_id,
        "edge_index": np.stack([local, np.zeros_like(local)]),
        "x": feature_rows(n_id, inputs.dim),
        "y": labels_of(n_id),
    }
    stranger = np.append(n_id[:-1], np.setdiff1d(others, n_id)[:1])
    walks = np.stack([seeds, neighbors[:1]], axis=1)
    for check, good, how, wrong in (
        (check_walks, {"walks": walks}, (1,), {"walks": np.stack([seeds, others[:1]], axis=1)}),
        (check_walks, {"walks": walks}, (1,), {"walks": walks[:, :1]}),
        (check_one_hop, hop, (count,), {name: array[1:] for name, array in hop.items()}),
        (check_one_hop, hop, (count,), {"source": neighbors * 0 - 1}),
        (check_subgraph, batch, ([count], True), {"n_id": n_id[::-1]}),
        (check_subgraph, batch, ([count], True), {"n_id": np.append(n_id, n_id[-1])}),
        (check_subgraph, batch, ([count], True), {"edge_index": batch["edge_index"][:, 1:]}),
        (check_subgraph, batch, ([count], True), {"n_id": stranger}),
        (check_subgraph, batch, ([count], True), {"x": batch["x"][::-1]}),
        (check_subgraph, batch, ([count], True), {"y": batch["y"] + 1}),
    ):
        asked = seeds.reshape(1, 1) if check is check_subgraph else seeds
        assert check(inputs, asked, good, *how) >= 1
        with pytest.raises(WrongResult):
            check(inputs, asked, {**good, **wrong}, *how)


def test_contestants_take_turns_and_ratios_are_of_medians():
    calls = []

    def contestant(name, seconds):
        def run(number):
            calls.append((name, number))
            if name == "broken" and number == 2:
                raise timing.Dropped("it died")
            return timing.Run(1.0 if number else 1e9, seconds, 1.0)  # the first is not counted

        return run

    speeds = {"ours": 0.5, "peer": 2.0, "broken": 1.0}
    entered = {name: contestant(name, seconds) for name, seconds in speeds.items()}
    goals = {"peer": 5.0, "broken": 2.0}
    result = timing.compare("work", "items/s", entered, 3, goals=goals)
    assert "".join(name[0] for name, _ in calls[:6]) == "opbpbo"
    assert result.rates["ours"] == timing.Spread(2.0, 2.0, 2.0, 3, 2.0)
    assert result.ratio("peer") == pytest.approx(4.0)
    assert (result.ratio("broken"), result.notes) == (None, {"broken": ["it died"]})
    verdicts = timing.ratio_table([result], list(speeds)).splitlines()[2:]
    last = [[cell.strip() for cell in line.split("|")[2:-1]] for line in verdicts]
    assert last == [["peer", "4.0x", "5x", "missed"], ["broken", "not measured", "2x", "-"]]


# --- scripts


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
    assert len(found["results"]) == 7
    assert all(one["rates"]["graphzero"]["median"] > 0 for one in found["results"])


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
    # Another graphzero may be installed, which must not stand in for the tree's.
    (tmp_path / "empty").mkdir()
    words = f"{tmp_path / 'empty'} {tmp_path / 'empty'} {TINY} --workloads loader"
    found = compare.measure(compare.parse([*words.split(), "--data", str(tmp_path)]))
    assert "graphzero" in found["results"]["loader"]["error"]


@pytest.fixture
def limited():
    try:
        with out_of_core.memory_group(1 << 30):
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


def test_streams_of_large_inputs():
    edges = np.concatenate(list(rmat_chunks(1000, 3_000_000)))
    assert edges.shape == (3_000_000, 2)
    assert edges.max() == 999
    assert np.array_equal(edges, np.concatenate(list(rmat_chunks(1000, 3_000_000, threads=1))))
    degrees = np.bincount(edges[:, 0], minlength=1000)
    assert degrees.max() > 20 * np.median(degrees)  # a few nodes have most edges
    rows = np.concatenate(list(row_chunks(20_000, 5, "float32")))
    assert np.array_equal(rows, feature_rows(np.arange(20_000), 5))


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
def test_papers100m_goes_on_after_the_last_stage(tmp_path, limited, monkeypatch, capsys):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setitem(papers100m.STAGES, "train", Mock(side_effect=KeyboardInterrupt))
        run_tiny(papers100m.main, "--quick", tmp_path)
    capsys.readouterr()
    found = run_tiny(papers100m.main, "--quick", tmp_path)
    assert "edges 5e-05 (" not in capsys.readouterr().err
    assert [name.split()[0] for name in found["done"]] == ["edges", "rows", "train", "count"] * 2
    assert not list((tmp_path / "data").iterdir())


def test_disk_probe(tmp_path, monkeypatch, capsys):
    file = tmp_path / "can"
    file.write_bytes(bytes(1 << 16))
    if _core.probe_disk(file, depth=1, seconds=0.01, engine="pread") is None:
        pytest.skip("the temporary folder's file system has no reads past the page cache")
    answer = json.dumps({"jobs": [{"usr_cpu": 5, "sys_cpu": 45, "read": {"iops": 1000.0}}]})
    (tmp_path / "fio").write_text(f"#!/bin/sh\necho '{answer}'\n")
    (tmp_path / "fio").chmod(0o755)
    words = "--runs 2 --seconds 0.02 --blocks 4096 --depths 1 128"
    arguments = [*words.split(), "--file", str(file), "--json", str(tmp_path / "out")]
    monkeypatch.setenv("PATH", "")
    assert disk_probe.main(arguments) == 1
    assert "io_uring: fio is not installed" in capsys.readouterr().err
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert disk_probe.main(arguments) == 0
    results = json.loads((tmp_path / "out").read_text())["results"]
    assert all(one["rates"]["fio"]["median"] == 1000.0 for one in results)
    assert "probe by threads" in capsys.readouterr().out


def test_prefetch_sweep(inputs, tmp_path, monkeypatch, capsys):
    """It is the code of `graphzero tune`, with a row for each trial."""

    def measured(_, setting, *args, **__):
        if setting.strategy == "uring":
            return Trial(setting, reason="killed", available=1)
        return Trial(setting, seconds=(0.25, 0.75), stats={"pages_missed": 3.0}, available=1)

    monkeypatch.setattr(tune_module, "measure", measured)
    folder, grid, out = tmp_path / "data", tmp_path / "grid.json", tmp_path / "t.csv"
    splits = {"train": np.arange(60)}
    gz.build(folder, edges=inputs.path("edges.npy"), num_nodes=256, splits=splits).close()
    grid.write_text(json.dumps({"strategy": ["pread", "uring"], "lookahead": [1, 2]}))
    words = f"--datasets {folder} --limits none 640MB --grid {grid} --out {out}"
    more = "--prefetch none --repeats 3 --fanouts 3,2"
    assert prefetch_sweep.main([*words.split(), *more.split()]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 2 * (3 * 3 + 2)
    assert {row["limit_bytes"] for row in rows} == {"", "640000000"}
    assert {row["dataset"] for row in rows} == {str(folder)}
    done = [row for row in rows if row["strategy"] != "uring"]
    assert {(row["seconds_per_batch"], row["pages_missed"]) for row in done} == {("0.5", "3.0")}
    assert {row["reason"] for row in rows if row["strategy"] == "uring"} == {"killed"}
    assert prefetch_sweep.main([*words.split(), "--split", "x"]) == 1
    assert "'x' is no split" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("parse", "words", "message"),
    [
        (sampling.parse, "--peers pyg,dgl", "there is no peer dgl"),
        (out_of_core.parse, "--only none,magic", "there is no magic"),
        (out_of_core.parse, "--epochs 1", "at least 2"),
        (build.parse, "--runs 0", "--runs must be positive"),
        (compare.parse, ". . --pairs 3", "at least 5"),
        (prefetch_sweep.parse, "--datasets d --out t.csv", "no setting: give --prefetch"),
        (prefetch_sweep.parse, "--datasets d --out t.csv --grid {}/grid", "are not among"),
        (prefetch_sweep.parse, "--datasets d --out /nowhere/t.csv", "--out cannot be written"),
    ],
)
def test_wrong_options_are_refused(tmp_path, parse, words, message, capsys):
    (tmp_path / "grid").write_text('{"lookhaead": 1}')
    with pytest.raises(SystemExit):
        parse(words.format(tmp_path).split())
    assert message in capsys.readouterr().err
