"""The benchmark of the disk probe: its turns, its ratios and its verdict; no clock."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import disk_probe, fio
from benchmarks.disk_probe import Reads
from graphzero import _core

pytestmark = pytest.mark.no_asan
FIO_ANSWER = {
    "jobs": [
        {
            "usr_cpu": 5.0,
            "sys_cpu": 45.0,
            "read": {"iops": 1000.0, "lat_ns": {"percentile": {"50.000000": 250_000}}},
        }
    ]
}


def test_each_is_first_at_times_and_the_first_turn_is_not_counted() -> None:
    asked: list[tuple[str, int]] = []

    def contestant(name: str) -> Any:
        def run(number: int) -> Reads:
            asked.append((name, number))
            return Reads(float(number), 1.0, 1.0)

        return run

    done = disk_probe.in_turns({name: contestant(name) for name in "abc"}, 3)
    assert "".join(name for name, _ in asked) == "abcbcacababc"
    assert [number for _, number in asked] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert {name: [one.rate for one in runs] for name, runs in done.items()} == {
        name: [1.0, 2.0, 3.0] for name in "abc"
    }


def test_ratios_are_of_runs_of_one_turn() -> None:
    def runs(*rates: float) -> list[Reads]:
        return [Reads(rate, 1 / rate, 0.5) for rate in rates]

    found = disk_probe.summary(runs(90, 220, 100), runs(100, 200, 50))
    assert (found["median"], found["min"], found["max"]) == (100, 90, 220)
    assert found["ratio"] == pytest.approx({"of_medians": 1.0, "min": 0.9, "max": 2.0})
    assert found["latency"] == 0.01


@pytest.mark.parametrize(
    ("name", "depth", "ratio", "shown"),
    [
        ("probe", 128, 0.91, "0.9 to 1.1: met"),
        ("probe", 128, 1.2, "0.9 to 1.1: missed"),
        ("probe", 128, 0.8, "0.9 to 1.1: missed"),
        ("probe", 1, 0.8, "-"),
        ("fio", 128, 1.0, "-"),
    ],
)
def test_the_goal_is_of_one_depth(name: str, depth: int, ratio: float, shown: str) -> None:
    assert disk_probe._verdict(name, depth, ratio) == shown


def test_a_small_run_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    probe = tmp_path / "can"
    probe.write_bytes(bytes(1 << 16))
    if _core.probe_disk(probe, depth=1, seconds=0.01, engine="pread") is None:
        pytest.skip("the temporary folder's file system has no reads past the page cache")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    fake = bin_folder / "fio"
    answer = json.dumps(FIO_ANSWER)
    fake.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo fio-fake || echo '{answer}'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder), prepend=":")
    arguments = ["--data", str(tmp_path), "--bytes", str(1 << 20), "--runs", "2", "--seconds"]
    arguments += ["0.02", "--blocks", "4096", "--depths", "1", "128", "--json", str(tmp_path / "j")]
    assert disk_probe.main(arguments) == 0
    found = json.loads((tmp_path / "j").read_text())
    assert [one["depth"] for one in found["results"]] == [1, 128]
    for one in found["results"]:
        assert one["contestants"]["fio"]["runs"] == [1000.0, 1000.0]
        assert one["contestants"]["fio"]["latency"] == 0.00025
        assert one["contestants"]["fio"]["cores"] == 0.5
        mine = one["contestants"]["probe by threads"]
        assert mine["median"] > 0
        assert mine["ratio"]["of_medians"] == pytest.approx(mine["median"] / 1000)
    shown = capsys.readouterr().out
    for what in ("past the page cache", "--iodepth=1 ", "fio fio-fake", "probe by threads", "met"):
        assert what in shown or (what == "met" and "missed" in shown)


def test_without_fio_there_is_no_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert disk_probe.main(["--data", str(tmp_path), "--bytes", "65536", "--seconds", "0.01"]) == 1
    assert "stopped: io_uring: fio is not installed" in capsys.readouterr().err


def test_fio_is_told_depth_and_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fio.shutil, "which", lambda name: f"/bin/{name}")
    line = fio.command("a file", "libaio", 2.5, depth=7, block_bytes=8192)
    assert line[0] == "/bin/fio"
    for option in ("filename=a file", "ioengine=libaio", "runtime=2.5", "iodepth=7", "bs=8192"):
        assert f"--{option}" in line
    assert {"--direct=1", "--readonly", "--rw=randread"} <= set(line)
