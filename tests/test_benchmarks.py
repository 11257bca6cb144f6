"""The parts of the benchmarks that a wrong number could hide in; no peer, no clock."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import edge_layout, files02, ordering, report, rmat, sampling, timing, verify
from benchmarks.checks import WrongResult, check_one_hop, check_subgraph, check_walks
from benchmarks.inputs import Inputs, feature_rows, labels_of, prepare

SCALE = 8


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return prepare(tmp_path_factory.mktemp("inputs"), scale=SCALE, num_edges=4_000, dim=3)


def neighbors_of(inputs: Inputs, node: int) -> np.ndarray:
    edges = np.load(inputs.path("edges.npy"))
    return np.sort(edges[edges[:, 0] == node, 1])


class TestRmat:
    def test_equal_seeds_give_equal_files(self, tmp_path: Path) -> None:
        for name, seed in (("a", 7), ("b", 7), ("c", 8)):
            rmat.write_edges(tmp_path / f"{name}.npy", SCALE, 1000, seed=seed)
        a, b, c = ((tmp_path / f"{name}.npy").read_bytes() for name in "abc")
        assert a == b
        assert a != c

    def test_ids_are_in_range_and_reach_the_upper_half(self, tmp_path: Path) -> None:
        edges = rmat.write_edges(tmp_path / "edges.npy", SCALE, 5000)
        assert edges.shape == (5000, 2)
        assert edges.dtype == np.int64
        assert edges.min() >= 0
        assert (1 << SCALE) // 2 <= edges.max() < 1 << SCALE

    def test_pieces_differ(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rmat, "CHUNK_EDGES", 300)
        edges = rmat.write_edges(tmp_path / "edges.npy", 16, 1000)
        assert len(np.unique(edges, axis=0)) > 950

    def test_quadrants_have_their_probabilities(self) -> None:
        edges = rmat.edge_chunk(np.random.default_rng(0), 4, 100_000)
        quadrant = 2 * (edges[:, 0] >> 3) + (edges[:, 1] >> 3)
        shares = np.bincount(quadrant, minlength=4) / len(edges)
        assert shares == pytest.approx(rmat.QUADRANTS, abs=0.01)

    def test_degrees_are_skewed_and_scrambled(self, tmp_path: Path) -> None:
        edges = rmat.write_edges(tmp_path / "edges.npy", 12, 50_000)
        degrees = np.bincount(edges[:, 0], minlength=1 << 12)
        assert degrees.max() > 20 * degrees.mean()
        hubs = np.argsort(degrees)[-64:]
        assert 0.3 < (hubs >= 1 << 11).mean() < 0.7


class TestInputs:
    def test_knows_the_edges(self, inputs: Inputs) -> None:
        edges = np.load(inputs.path("edges.npy"))
        assert inputs.has_edges(edges[:, 0], edges[:, 1])
        node = int(edges[0, 0])
        absent = np.setdiff1d(np.arange(inputs.num_nodes), neighbors_of(inputs, node))[:1]
        assert not inputs.has_edges(np.array([node]), absent)
        # An id beyond the last one would alias an edge of the next node.
        alias = edges[edges[:, 0] > 0][:1]
        beyond = alias[:, 1] + inputs.num_nodes
        assert not inputs.has_edges(alias[:, 0] - 1, beyond)

    def test_seeds_are_distinct_and_have_neighbors(self, inputs: Inputs) -> None:
        seeds = inputs.seeds(1, 0, 50)
        assert np.unique(seeds).size == 50
        assert (inputs.degrees[seeds] > 0).all()
        assert not np.array_equal(seeds, inputs.seeds(1, 1, 50))

    def test_files_of_02_are_its_header_and_raw_arrays(self, tmp_path: Path) -> None:
        files02.write_graph(tmp_path / "g.gl", np.array([2, 0, 1]), np.array([1, 2, 0]))
        words = np.fromfile(tmp_path / "g.gl", "<u8")
        assert words[1:8].tolist() == [32, 24, 64, 128, 3, 3, 0]
        assert words[8:12].tolist() == [0, 2, 2, 3]
        assert words[16:].tolist() == [1, 2, 0]


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

    def test_dead_ends_take_no_steps(self, inputs: Inputs) -> None:
        dead = np.flatnonzero(inputs.degrees == 0)[:1]
        for stays in (dead, np.array([-1])):
            walks = np.stack([dead, stays], axis=1)
            assert check_walks(inputs, dead, {"walks": walks}, 1) == 0
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
        new = np.setdiff1d(neighbors, [node])
        n_id = np.concatenate([seeds[0], new])
        local = np.array([int(np.flatnonzero(n_id == other)[0]) for other in neighbors])
        arrays = {
            "n_id": n_id,
            "edge_index": np.stack([local, np.zeros_like(local)]),
            "x": feature_rows(n_id, inputs.dim),
            "y": labels_of(n_id),
        }
        arguments = ([neighbors.size], True)
        assert check_subgraph(inputs, seeds, arrays, *arguments) == 1
        absent = np.setdiff1d(np.arange(inputs.num_nodes), n_id)[0]
        foreign = n_id.copy()
        foreign[-1] = absent
        twice = np.append(n_id, n_id[-1])
        wrong = [
            ({"n_id": n_id[::-1]}, "first nodes"),
            ({"n_id": twice}, "two numbers"),
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
        assert calls == [(name, number) for number in range(4) for name in ("ours", "peer")]
        assert result.rates["ours"] == timing.Spread(2.0, 2.0, 2.0, 3, 2.0)
        assert result.rates["peer"].cores == 0.5
        assert result.ratio("peer") == pytest.approx(4.0)

    def test_spread_is_of_the_rates(self) -> None:
        runs = [timing.Run(10, seconds, 2 * seconds) for seconds in (1, 2, 10)]
        assert timing.spread(runs) == timing.Spread(5.0, 1.0, 10.0, 3, 2.0)

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
        assert result.ratio("peer") is None
        assert result.met("peer") is None

    def test_short_runs_are_repeated_with_other_numbers(self) -> None:
        numbers: list[int] = []

        def run(number: int) -> timing.Run:
            numbers.append(number)
            return timing.Run(3, 0.25, 0.5)

        repeated = timing.lasting(run, 1.0)
        assert repeated(0) == timing.Run(12, 1.0, 2.0)
        assert repeated(1) == timing.Run(12, 1.0, 2.0)
        assert len(set(numbers)) == 8

    @pytest.mark.parametrize(("goal", "met"), [(7.5, True), (7.6, False)])
    def test_a_goal_is_met_from_its_value_on(self, goal: float, met: bool) -> None:
        rates = {"ours": steady(30.0), "peer": steady(4.0), "other": steady(1.0)}
        result = timing.Comparison("walks", "M/s", "ours", rates, {"peer": goal})
        assert result.met("peer") is met
        assert result.met("other") is None


def cells(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


class TestReport:
    def test_rates_have_numbered_notes_of_their_contestants(self) -> None:
        both = {"ours": steady(30.0), "peer": steady(4.0)}
        notes = {"peer": ["slow"]}, {"peer": ["gone", "slow"]}
        rows = [
            timing.Comparison("walks", "M/s", "ours", both, {}, notes[0]),
            timing.Comparison("loader", "b/s", "ours", {"ours": steady(30.0)}, {}, notes[1]),
        ]
        table = report.rate_table(rows, ["ours", "peer"])
        ours = "30 (15 to 60) on 1.9"
        assert cells(table)[0] == ["workload", "unit", "ours", "peer"]
        assert cells(table)[2] == ["walks", "M/s", ours, "4 (2 to 8) on 1.9 [1]"]
        assert cells(table)[3] == ["loader", "b/s", ours, "- [2] [1]"]
        assert table.splitlines()[4:] == ["[1] slow", "[2] gone"]
        assert len({len(line) for line in table.splitlines()[:4]}) == 1

    def test_ratios_have_goals_and_whether_they_are_met(self) -> None:
        rates = {"ours": steady(30.0), "a": steady(4.0), "b": steady(10.0), "c": steady(3.0)}
        goals = {"a": 7.0, "b": 5.0, "absent": 2.5}
        rows = [timing.Comparison("walks", "M/s", "ours", rates, goals)]
        table = report.ratio_table(rows, ["ours", "a", "b", "c", "absent", "elsewhere"])
        assert cells(table)[2:] == [
            ["walks", "a", "7.5x", "7x", "met"],
            ["walks", "b", "3.0x", "5x", "missed"],
            ["walks", "c", "10.0x", "-", "-"],
            ["walks", "absent", "not measured", "2.5x", "-"],
        ]

    def test_json_has_what_the_tables_have(self) -> None:
        rates = {"ours": steady(6.0), "peer": steady(2.0)}
        goals, notes = {"peer": 2.0, "absent": 1.0}, {"peer": ["slow"]}
        plain = report.to_json(timing.Comparison("walks", "M/s", "ours", rates, goals, notes))
        expected = {"median": 6.0, "min": 3.0, "max": 12.0, "runs": 5, "cores": 1.9}
        assert plain["rates"]["ours"] == expected
        assert plain["ratios"] == {"peer": 3.0}
        assert plain["goals"] == goals
        assert plain["met"] == {"peer": True, "absent": None}
        assert plain["notes"] == notes


def echoing_workload() -> Any:
    """A workload of two rivals; ours and checks are trivial."""
    rivals = {
        name: SimpleNamespace(peer=peer, request={"op": op}, goal=2.0, seeds=2, notes=(name,))
        for name, peer, op in (("good", "a", "rest"), ("lost", "b", "rest"), ("odd", "c", "rest"))
    }
    watch = SimpleNamespace(seconds=1.0, processor_seconds=2.0)
    return SimpleNamespace(
        name="work",
        unit="items/s",
        scale=1.0,
        seeds=lambda number: np.arange(4) + number,
        ours=lambda seeds, number: (watch, {"seeds": seeds}),
        check=lambda seeds, arrays: seeds.size,
        rivals=rivals,
    )


class TestWorkload:
    def test_chosen_rivals_run_and_missing_ones_keep_their_goal(self, tmp_path: Path) -> None:
        asked: list[int] = []

        def call(op: str, seeds: str, out: str) -> dict[str, float]:
            asked.append(np.load(seeds).size)
            np.savez(out, nothing=np.zeros(1))
            return {"seconds": 1.0, "processor_seconds": 0.5}

        workers: Any = {"a": SimpleNamespace(name="a", call=call)}
        options = argparse.Namespace(peers=["a", "b"], runs=1)
        result = sampling.run_workload(echoing_workload(), workers, tmp_path, options)
        assert {name: rate.median for name, rate in result.rates.items()} == {
            "graphzero": 4.0,
            "good": 2.0,
        }
        assert set(asked) == {2}
        assert result.met("good") is True
        assert result.goals == {"good": 2.0, "lost": 2.0}
        assert result.notes == {"good": ["good"], "lost": []}

    def test_a_wrong_result_drops_its_rival(self, tmp_path: Path) -> None:
        def call(op: str, seeds: str, out: str) -> dict[str, float]:
            np.savez(out, wrong=np.zeros(1))
            return {"seconds": 1.0, "processor_seconds": 0.5}

        def check(seeds: np.ndarray, arrays: Any) -> int:
            if "wrong" in arrays:
                raise WrongResult("an edge that is none")
            return 1

        work = echoing_workload()
        work.check = check
        workers: Any = {"a": SimpleNamespace(name="a", call=call)}
        options = argparse.Namespace(peers=["a"], runs=1)
        result = sampling.run_workload(work, workers, tmp_path, options)
        assert list(result.rates) == ["graphzero"]
        assert result.notes == {"good": ["good", "a in 'rest': an edge that is none"]}


def test_help_needs_neither_peer_nor_graph() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sampling", "--help"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "--quick" in done.stdout


def test_the_table_of_orders(capsys: pytest.CaptureFixture[str]) -> None:
    ordering.run(scale=9, num_edges=4000, dim=64)
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [line[1] for line in lines[2:]] == ["presample", "hot", "input"] * 2
    for line in lines[2:]:
        counted = [int(cell.split()[0].replace(",", "")) for cell in line[2:]]
        assert counted == sorted(counted, reverse=True)
        assert 0 < counted[0] <= 32


def test_the_table_of_edge_layouts(capsys: pytest.CaptureFixture[str]) -> None:
    edge_layout.run(scale=12, num_edges=60_000)
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines[2:]] == ["directed"] * 4 + ["undirected"] * 4
    for line in lines[2:]:
        most = (1 if line[0] == "directed" else 2) * 60_000 * int(line[2].split()[0]) // 4096 + 1
        cells = [[int(part.replace(",", "")) for part in cell.split(" / ")] for cell in line[3:]]
        for counted in cells:
            assert counted == sorted(counted, reverse=True)
            assert 0 < counted[0] <= most
        if line[0] == "directed":  # else the files differ in size, and a batch touches most of them
            assert cells[0][0] <= cells[1][0]


def test_the_table_of_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verify.run(scale=8, num_edges=3000, dim=4, folder=tmp_path)
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [len(line) for line in lines[2:]] == [5] * 6
    assert all(float(line[2]) > 0 for line in lines[2:])
