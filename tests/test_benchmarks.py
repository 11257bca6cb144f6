"""The benchmarks: where a wrong number could hide, and each script at a tiny size; no clock."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero import _core

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import (
    build,
    compare,
    disk_probe,
    machine,
    ordering,
    out_of_core,
    peers,
    sampling,
    timing,
    typed,
)
from benchmarks import inputs as inputs_module
from benchmarks.inputs import Cut, Inputs, feature_rows, labels_of, prepare, write_edges
from benchmarks.sampling import WrongResult, check_one_hop, check_subgraph, check_walks

pytestmark = pytest.mark.no_asan  # pure Python, and processes of their own
ROOT = Path(__file__).parents[1]
SCALE = 8


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    folder = tmp_path_factory.mktemp("inputs")
    return prepare(folder, num_nodes=1 << SCALE, num_edges=4_000, dim=3)


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a benchmark starts import the graphzero of this one."""
    monkeypatch.setenv("PYTHONPATH", str(Path(gz.__file__).parents[1]))


def neighbors_of(inputs: Inputs, node: int) -> np.ndarray:
    edges = np.load(inputs.path("edges.npy"))
    return np.sort(edges[edges[:, 0] == node, 1])


class TestInputs:
    def test_equal_seeds_give_equal_files(self, tmp_path: Path) -> None:
        for name, seed in (("a", 7), ("b", 7), ("c", 8)):
            write_edges(tmp_path / f"{name}.npy", SCALE, 1000, seed=seed)
        a, b, c = ((tmp_path / f"{name}.npy").read_bytes() for name in "abc")
        assert a == b
        assert a != c

    def test_ids_are_in_range_and_pieces_differ(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inputs_module, "CHUNK_EDGES", 300)
        edges = write_edges(tmp_path / "edges.npy", 16, 1000)
        assert edges.shape == (1000, 2)
        assert len(np.unique(edges, axis=0)) > 950
        fewer = write_edges(tmp_path / "fewer.npy", 10, 20_000, num_nodes=600)
        assert fewer.min() >= 0
        assert 590 < fewer.max() < 600

    def test_quadrants_have_their_probabilities(self) -> None:
        edges = inputs_module.edge_chunk(np.random.default_rng(0), 4, 100_000)
        quadrant = 2 * (edges[:, 0] >> 3) + (edges[:, 1] >> 3)
        shares = np.bincount(quadrant, minlength=4) / len(edges)
        assert shares == pytest.approx(inputs_module.QUADRANTS, abs=0.01)

    def test_edges_and_seeds_are_known(self, inputs: Inputs) -> None:
        edges = np.load(inputs.path("edges.npy"))
        assert inputs.has_edges(edges[:, 0], edges[:, 1])
        node = int(edges[0, 0])
        absent = np.setdiff1d(np.arange(inputs.num_nodes), neighbors_of(inputs, node))[:1]
        assert not inputs.has_edges(np.array([node]), absent)
        # An id beyond the last one would alias an edge of the next node.
        alias = edges[edges[:, 0] > 0][:1]
        assert not inputs.has_edges(alias[:, 0] - 1, alias[:, 1] + inputs.num_nodes)
        seeds = inputs.seeds(1, 0, 50)
        assert np.unique(seeds).size == 50
        assert (inputs.degrees[seeds] > 0).all()
        assert not np.array_equal(seeds, inputs.seeds(1, 1, 50))
        assert np.isin(np.load(inputs.path("train.npy")), edges[:, 1]).all()

    def test_csv_has_the_same_edges(self, tmp_path: Path) -> None:
        edges = write_edges(tmp_path / "e.npy", SCALE, 300)
        inputs_module.write_csv(tmp_path / "e.csv", edges)
        text = (tmp_path / "e.csv").read_text().splitlines()
        assert text[0].replace('"', "") == "src,dst"
        assert [[int(cell) for cell in line.split(",")] for line in text[1:]] == edges.tolist()

    def test_files_of_02_are_its_header_and_raw_arrays(self, tmp_path: Path) -> None:
        degrees, targets = np.array([2, 0, 1]), np.array([1, 2, 0])
        inputs_module.write_graph02(tmp_path / "g.gl", degrees, targets)
        words = np.fromfile(tmp_path / "g.gl", "<u8")
        assert words[1:8].tolist() == [32, 24, 64, 128, 3, 3, 0]
        assert words[8:12].tolist() == [0, 2, 2, 3]
        assert words[16:].tolist() == [1, 2, 0]

    @pytest.mark.parametrize("order", ["input", "hot"])
    def test_a_loader_over_row_batches_reads_exactly_their_rows(
        self, inputs: Inputs, tmp_path: Path, order: str
    ) -> None:
        paths = inputs_module.row_batches(inputs, order, [5, 5], batch_size=4, count=3)
        nodes, seeds = np.load(paths["nodes"]), np.load(paths["seeds"])
        how: dict[str, Any] = {"num_nodes": inputs.num_nodes, "order": "input"}
        with gz.build(tmp_path / "rows", paths["edges"], paths["features"], **how) as ds:
            flat, size = seeds.reshape(-1), seeds.shape[1]
            read = [
                gz.Collate(ds)(one) for one in gz.NeighborDataset(ds, flat, [1], batch_size=size)
            ]
        assert len(read) == 3
        for batch, ids in zip(read, seeds, strict=True):
            assert batch.n_id.tolist() == ids.tolist()
            assert batch.x is not None
            assert batch.x.numpy().tobytes() == feature_rows(nodes[ids], 3).tobytes()

    @pytest.mark.parametrize("num_types", [1, 4])
    def test_a_cut_has_every_edge_once(self, inputs: Inputs, num_types: int) -> None:
        edges = np.load(inputs.path("edges.npy"))
        cut = Cut(edges, inputs.num_nodes, num_types)
        nodes = {name: np.flatnonzero(cut.type_of == i) for i, name in enumerate(cut.node_types)}
        found = [
            np.stack([nodes[a][ends[0]], nodes[b][ends[1]]]) for (a, _, b), ends in cut.edge_lists()
        ]
        assert len(found) == num_types**2
        keys = np.concatenate(found, axis=1).T @ [inputs.num_nodes, 1]
        assert np.array_equal(np.sort(keys), inputs.keys)


class TestChecks:
    def test_walks(self, inputs: Inputs) -> None:
        start = inputs.seeds(1, 0, 1)
        step = neighbors_of(inputs, int(start[0]))[:1]
        good = np.stack([start, step], axis=1)
        assert check_walks(inputs, start, {"walks": good}, 1) == 1
        absent = np.setdiff1d(np.arange(inputs.num_nodes), neighbors_of(inputs, int(start[0])))
        for wrong in (np.stack([start, absent[:1]], axis=1), good[:, ::-1], good[:, :1]):
            with pytest.raises(WrongResult):
                check_walks(inputs, start, {"walks": wrong}, 1)
        dead = np.flatnonzero(inputs.degrees == 0)[:1]
        for stays in (dead, np.array([-1])):
            assert check_walks(inputs, dead, {"walks": np.stack([dead, stays], axis=1)}, 1) == 0
        walks = np.stack([dead, (dead + 1) % inputs.num_nodes], axis=1)
        with pytest.raises(WrongResult, match="dead end"):
            check_walks(inputs, dead, {"walks": walks}, 1)

    def test_one_hop(self, inputs: Inputs) -> None:
        seeds = inputs.seeds(1, 0, 1)
        source = neighbors_of(inputs, int(seeds[0]))
        arrays = {"source": source, "target": np.repeat(seeds, source.size)}
        assert check_one_hop(inputs, seeds, arrays, source.size) == source.size
        fewer = {name: array[1:] for name, array in arrays.items()}
        with pytest.raises(WrongResult, match="number of neighbours"):
            check_one_hop(inputs, seeds, fewer, source.size)
        with pytest.raises(WrongResult, match="edge"):
            check_one_hop(inputs, seeds, {**arrays, "source": source * 0 - 1}, source.size)

    def test_subgraph(self, inputs: Inputs) -> None:
        seeds = inputs.seeds(1, 0, 1).reshape(1, 1)
        node = int(seeds[0, 0])
        neighbors = neighbors_of(inputs, node)
        n_id = np.concatenate([seeds[0], np.setdiff1d(neighbors, [node])])
        local = np.array([int(np.flatnonzero(n_id == other)[0]) for other in neighbors])
        arrays = {
            "n_id": n_id,
            "edge_index": np.stack([local, np.zeros_like(local)]),
            "x": feature_rows(n_id, inputs.dim),
            "y": labels_of(n_id),
        }
        arguments = ([neighbors.size], True)
        assert check_subgraph(inputs, seeds, arrays, *arguments) == 1
        foreign = n_id.copy()
        foreign[-1] = np.setdiff1d(np.arange(inputs.num_nodes), n_id)[0]
        wrong = [
            ({"n_id": n_id[::-1]}, "first nodes"),
            ({"n_id": np.append(n_id, n_id[-1])}, "two numbers"),
            ({"edge_index": arrays["edge_index"][:, 1:]}, "number of neighbours"),
            ({"n_id": foreign}, "does not have"),
            ({"x": arrays["x"][::-1]}, "row"),
            ({"y": arrays["y"] + 1}, "label"),
        ]
        for change, message in wrong:
            with pytest.raises(WrongResult, match=message):
                check_subgraph(inputs, seeds, {**arrays, **change}, *arguments)


def steady(rate: float) -> timing.Spread:
    return timing.Spread(rate, rate / 2, rate * 2, 5, 1.9)


class TestTiming:
    def test_contestants_take_turns_and_the_first_run_is_not_counted(self) -> None:
        calls: list[tuple[str, int]] = []

        def contestant(name: str, seconds: float) -> Callable[[int], timing.Run]:
            def run(number: int) -> timing.Run:
                calls.append((name, number))
                return timing.Run(1.0 if number else 1e9, seconds, 1.0)

            return run

        both = {"ours": contestant("ours", 0.5), "peer": contestant("peer", 2.0)}
        result = timing.compare("work", "items/s", both, 3)
        assert "".join(name[0] for name, _ in calls) == "oppooppo"
        assert [number for _, number in calls] == [0, 0, 1, 1, 2, 2, 3, 3]
        assert result.rates["ours"] == timing.Spread(2.0, 2.0, 2.0, 3, 2.0)
        assert result.rates["peer"].cores == 0.5
        assert result.ratio("peer") == pytest.approx(4.0)

    def test_a_dropped_contestant_leaves_the_others(self) -> None:
        def broken(number: int) -> timing.Run:
            if number == 2:
                raise timing.Dropped("it died")
            return timing.Run(1, 1, 1)

        both = {"ours": lambda number: timing.Run(1, 1, 1), "peer": broken}
        result = timing.compare(
            "work", "items/s", both, 3, goals={"peer": 2.0}, notes={"peer": ["slow"]}
        )
        assert list(result.rates) == ["ours"]
        assert result.rates["ours"].runs == 3
        assert result.notes == {"peer": ["slow", "it died"]}
        assert result.ratio("peer") is result.met("peer") is None

    def test_short_runs_are_repeated_with_other_numbers(self) -> None:
        numbers: list[int] = []

        def run(number: int) -> timing.Run:
            numbers.append(number)
            return timing.Run(3, 0.25, 0.5)

        repeated = timing.lasting(run, 1.0)
        assert repeated(0) == repeated(1) == timing.Run(12, 1.0, 2.0)
        assert len(set(numbers)) == 8

    def test_spreads_and_intervals_are_of_medians(self) -> None:
        runs = [timing.Run(10, seconds, 2 * seconds) for seconds in (1, 2, 10)]
        assert timing.spread(runs) == timing.Spread(5.0, 1.0, 10.0, 3, 2.0)
        low, high = timing.bootstrap([0.9, 1.0, 1.0, 1.1, 1.2])
        assert 0.9 <= low <= 1.0 <= high <= 1.2
        assert timing.bootstrap([1.5] * 5) == (1.5, 1.5)

    def test_tables_have_notes_goals_and_verdicts(self) -> None:
        rates = {"ours": steady(30.0), "a": steady(4.0), "b": steady(10.0)}
        goals = {"a": 7.5, "b": 5.0, "absent": 2.5}
        notes = {"a": ["slow"], "absent": ["gone", "slow"]}
        row = timing.Comparison("walks", "M/s", "ours", rates, goals, notes)
        table = timing.rate_table([row], ["ours", "a", "absent"]).splitlines()
        cells = [cell.strip() for cell in table[2].strip("|").split("|")]
        assert cells == [
            *("walks", "M/s", "30 (15 to 60) on 1.9"),
            *("4 (2 to 8) on 1.9 [1]", "- [2] [1]"),
        ]
        assert table[3:] == ["[1] slow", "[2] gone"]
        verdicts = timing.ratio_table([row], ["ours", "a", "b", "absent", "elsewhere"])
        found = [
            [cell.strip() for cell in line.strip("|").split("|")][1:]
            for line in verdicts.splitlines()[2:]
        ]
        assert found == [
            ["a", "7.5x", "7.5x", "met"],
            ["b", "3.0x", "5x", "missed"],
            ["absent", "not measured", "2.5x", "-"],
        ]
        plain = row.plain()
        assert plain["ratios"] == {"a": 7.5, "b": 3.0}
        assert plain["met"] == {"a": True, "b": False, "absent": None}
        assert plain["rates"]["ours"]["median"] == 30.0


ECHO = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "die":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    answer = {"error": "ValueError: no"} if request["op"] == "fail" else request
    print(json.dumps(answer), flush=True)
"""


class TestProcesses:
    def test_what_cannot_be_installed_is_named(self, tmp_path: Path) -> None:
        peer = peers.Peer("broken", (("--no-index", "no-such-package-anywhere"),))
        with pytest.raises(peers.PeerError, match="no-such-package-anywhere"):
            peers.install(peer, tmp_path)
        assert not (tmp_path / "broken" / "installed.json").exists()

    def test_a_worker_answers_fails_and_dies_by_name(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", ECHO]
        with peers.Worker("echo", command, log=tmp_path / "log") as worker:
            assert worker.call("ask", what=3)["what"] == 3
            with pytest.raises(peers.PeerError, match="echo in 'fail': ValueError: no"):
                worker.call("fail")
            for _ in range(2):
                with pytest.raises(peers.PeerError, match="exit status 3 last words"):
                    worker.call("die")

    def test_a_wrong_result_drops_its_rival_and_a_missing_one_keeps_its_goal(
        self, tmp_path: Path
    ) -> None:
        def process(name: str, array: str) -> Any:
            def call(op: str, seeds: str, out: str) -> dict[str, float]:
                np.savez(out, **{array: np.load(seeds)})
                return {"seconds": 1.0, "processor_seconds": 2.0}

            return SimpleNamespace(name=name, call=call)

        def check(seeds: np.ndarray, arrays: Any) -> int:
            if "wrong" in arrays:
                raise WrongResult("an edge that is none")
            return int(seeds.size)

        contestant = sampling.Contestant
        work = sampling.Workload(
            name="work",
            unit="items/s",
            scale=1.0,
            seeds=lambda number: np.arange(4) + number,
            check=check,
            contestants={
                "graphzero": contestant("graphzero", {"op": "rest"}),
                "good": contestant("a", {"op": "rest"}, 2.0, seeds=2, notes=("good",)),
                "odd": contestant("b", {"op": "rest"}, 3.0),
                "lost": contestant("c", {"op": "rest"}, 4.0, notes=("lost",)),
            },
        )
        workers = {
            "graphzero": process("graphzero", "right"),
            "a": process("a", "right"),
            "b": process("b", "wrong"),
        }
        options = argparse.Namespace(peers=["a", "b", "c"], runs=1)
        result = sampling.run_workload(work, workers, tmp_path, options)
        assert {name: rate.median for name, rate in result.rates.items()} == {
            "graphzero": 4.0,
            "good": 2.0,
        }
        assert result.goals == {"good": 2.0, "odd": 3.0, "lost": 4.0}
        assert result.notes["odd"] == ["b in 'rest': an edge that is none"]
        assert result.notes["lost"] == []

    def test_a_wrong_number_of_edges_is_no_result(self, tmp_path: Path) -> None:
        answer = {"num_edges": 3, "seconds": 1.0, "processor_seconds": 1.0}
        worker: Any = SimpleNamespace(name="wrong", call=lambda op, **_: answer)
        with pytest.raises(peers.PeerError, match="wrong has 3 edges of 4"):
            build.one_build(worker, tmp_path / "out", 4, edges="e.csv")


class TestMachine:
    def test_a_stopwatch_counts_the_work_of_other_threads(self) -> None:
        def work() -> None:
            end = time.thread_time() + 0.1
            while time.thread_time() < end:
                sum(range(1000))

        with machine.Stopwatch() as watch:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert watch.processor_seconds >= 0.1

    def test_bytes_from_the_device_are_counted_and_bytes_in_memory_are_not(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "file"
        path.write_bytes(os.urandom(4 << 20))
        machine.drop_cached([path])
        if machine.resident_share([path]) != 0:
            pytest.skip("this file system keeps pages that it was told to drop")
        before = machine.read_counters(tmp_path)
        path.read_bytes()
        first = machine.read_counters(tmp_path)
        path.read_bytes()
        assert 4 << 20 <= first.since(before).read_bytes < 5 << 20
        assert machine.read_counters(tmp_path).since(first).read_bytes < 1 << 20

    def test_a_peak_between_two_moments_is_seen(self) -> None:
        with machine.PeakAnonymous() as quiet:
            pass
        with machine.PeakAnonymous() as busy:
            block = np.ones(64 << 20, dtype=np.uint8)
            busy._done.wait(0.2)
            del block
        assert busy.peak > quiet.peak + (48 << 20)

    def test_conditions_name_machine_disk_and_versions(self) -> None:
        found = machine.conditions("one", "/proc/self", more=3)
        assert found["disk"]["file_system"] == "proc"
        assert found["versions"]["numpy"] == np.__version__
        assert found["more"] == 3
        assert "other processes" not in machine.heading(found)
        assert "took 25% of" in machine.heading({**found, "others_share": 0.25}, ["a line"])


class TestFio:
    def test_the_rate_is_read_past_warnings(self) -> None:
        answer = json.dumps({"jobs": [{"read": {"iops": 94_000.5}, "sys_cpu": 50.0}]})
        assert disk_probe.parse_reads("fio: a warning\n" + answer).rate == 94_000.5

    @pytest.mark.parametrize("output", ["", "no", "{}", '{"jobs": []}'])
    def test_an_odd_answer_is_named(self, output: str) -> None:
        with pytest.raises(disk_probe.NoFio, match="cannot be read"):
            disk_probe.parse_reads(output)

    def test_a_missing_fio_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("PATH", "")
        (tmp_path / "file").write_bytes(bytes(1 << 16))
        arguments = ["--file", str(tmp_path / "file"), "--seconds", "0.01"]
        assert disk_probe.main(arguments) == 1
        assert "io_uring: fio is not installed" in capsys.readouterr().err

    def test_a_small_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "can"
        file.write_bytes(bytes(1 << 16))
        if _core.probe_disk(file, depth=1, seconds=0.01, engine="pread") is None:
            pytest.skip("the temporary folder's file system has no reads past the page cache")
        (tmp_path / "bin").mkdir()
        fake = tmp_path / "bin" / "fio"
        answer = json.dumps({"jobs": [{"usr_cpu": 5, "sys_cpu": 45, "read": {"iops": 1000.0}}]})
        fake.write_text(f"#!/bin/sh\necho '{answer}'\n")
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
        words = "--runs 2 --seconds 0.02 --blocks 4096 --depths 1 128"
        out = tmp_path / "j"
        assert disk_probe.main([*words.split(), "--file", str(file), "--json", str(out)]) == 0
        results = json.loads(out.read_text())["results"]
        assert [one["workload"] for one in results] == ["4 KiB, depth 1", "4 KiB, depth 128"]
        assert all(one["rates"]["fio"]["median"] == 1000.0 for one in results)
        assert "probe by threads" in capsys.readouterr().out


TINY = "--scale 8 --edges 4000 --dim 5 --runs 1"


def run_tiny(main: Callable[[list[str]], int], words: str, tmp_path: Path) -> Any:
    """Runs a script, and returns its JSON."""
    arguments = [*words.split(), "--data", str(tmp_path / "data"), "--json", str(tmp_path / "out")]
    assert main(arguments) == 0
    return json.loads((tmp_path / "out").read_text())


@pytest.mark.usefixtures("importable")
class TestScripts:
    def test_build(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = f"{TINY} --sizes 1000 4000 --limits 2e9 --peers ,"
        found = run_tiny(build.main, words, tmp_path)
        assert [one["edges"] for one in found["size"]] == [1000, 1000, 4000, 4000]
        assert len(found["verify"]) == 6
        out = capsys.readouterr().out
        for what in ("4,000 edges from CSV", "2,000 MB", "undirected"):
            assert what in out
        assert not any(path.name.startswith("out") for path in (tmp_path / "data").iterdir())

    def test_verdicts_of_builds_follow_the_goals(self) -> None:
        found: dict[str, Any] = {
            "memory": [{"limit": 10, "peak": 9, "rate": 1.0}, {"limit": 10, "error": "no group"}],
            "size": [{"kind": "csv", "edges": 9, "seconds_per_edge": 1e-9, "growth": 1.31}],
        }
        last = [line.split("|")[-2].strip() for line in build.tables(found).splitlines() if line]
        assert [word for word in last if word in ("met", "missed", "-")] == ["met", "-", "missed"]

    def test_sampling(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sampling, "SHORTEST_RUN", 0.0)
        words = f"{TINY} --starts 200 --batch-size 8 --batches 2 --peers , --threads 1"
        found = run_tiny(sampling.main, words, tmp_path)
        assert len(found["results"]) == 5
        assert all(one["rates"]["graphzero"]["median"] > 0 for one in found["results"])

    def test_typed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(typed, "SHORTEST_RUN", 0.0)
        found = run_tiny(typed.main, f"{TINY} --types 1 2 --batch-size 8 --fanouts 4 2", tmp_path)
        assert list(found["rates"]) == [
            "without types, [4, 2]",
            "1 edge types, [4, 2]",
            "4 edge types, [2, 1]",
            "4 edge types, [4, 2]",
        ]

    def test_ordering(self, tmp_path: Path) -> None:
        found = run_tiny(ordering.main, "--scale 8 --edges 4000 --dim 64", tmp_path)
        assert [row[1] for row in found["pages"][1:4]] == ["presample", "hot", "input"]

    def test_two_trees_are_compared(self, tmp_path: Path) -> None:
        tree = str(Path(gz.__file__).parents[1])
        words = f"{tree} {tree} {TINY} --pairs 5 --batch-size 8 --batches 2 --threads 1"
        chosen = "one_hop,walks,loader,csv"
        arguments = [*words.split(), "--workloads", chosen, "--data", str(tmp_path)]
        options = compare.parse(arguments)
        results = compare.measure(options)["results"]
        assert list(results) == chosen.split(",")
        for one in results.values():
            assert len(one["old"]) == len(one["new"]) == 5
            assert one["interval"][0] <= one["ratio"] <= one["interval"][1]

    def test_a_tree_without_its_extension_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        words = f"{tmp_path / 'empty'} {tmp_path / 'empty'} {TINY} --workloads loader"
        found = compare.measure(compare.parse([*words.split(), "--data", str(tmp_path)]))
        # Another graphzero may be installed, which must not stand in for the tree's.
        assert "graphzero" in found["results"]["loader"]["error"]

    @pytest.mark.extended
    def test_out_of_core(self, tmp_path: Path) -> None:
        try:
            with out_of_core.memory_group(1 << 30):
                pass
        except out_of_core.NoMemoryGroup as error:
            pytest.skip(str(error))
        words = "--quick --orders input --only memmap,auto,ram,packed"
        found = run_tiny(out_of_core.main, words, tmp_path)
        assert {one["contestant"] for one in found["rows"]} == {"memmap", "auto"}
        assert [len(one["seconds"]) for one in found["rows"]] == [5, 5]
        steps = [(one["contestant"], one["step"]) for one in found["training"]]
        assert steps == [
            ("ram", "GraphSAGE"),
            ("ram", "sleep of 5 ms"),
            ("packed", "GraphSAGE"),
            ("auto", "GraphSAGE"),
            ("auto", "sleep of 5 ms"),
        ]


def test_out_of_core_stops_without_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(limit: int) -> None:
        raise out_of_core.NoMemoryGroup("no memory group can be made: not here")

    monkeypatch.setattr(out_of_core, "memory_group", refuse)
    assert out_of_core.main(["--quick", "--data", str(tmp_path / "data")]) == 1
    assert "not here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("parse", "arguments", "what"),
    [
        (sampling.parse, ["--peers", "pyg,dgl"], "there is no peer dgl"),
        (out_of_core.parse, ["--only", "none,magic"], "there is no magic"),
        (out_of_core.parse, ["--epochs", "1"], "at least 2"),
        (build.parse, ["--runs", "0"], "--runs must be positive"),
        (compare.parse, [".", ".", "--pairs", "3"], "at least 5"),
        (compare.parse, ["."], "required: TREE"),
    ],
)
def test_nonsense_is_refused(
    parse: Any, arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert what in capsys.readouterr().err


def test_sizes_are_counts_and_the_limit_a_share_of_the_rows() -> None:
    assert out_of_core.parse([]).limit == 640 << 20
    assert out_of_core.parse(["--nodes", "11e6", "--limit", "1.6e9"]).limit == 1_600_000_000
    assert compare.parse([".", "."]).limit == 160 << 20
