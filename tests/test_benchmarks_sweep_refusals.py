"""What the sweep over prefetch settings refuses before its first trial, and leaves as it was."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files import random_edges, write_dataset

import graphzero as gz

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import prefetch_sweep
from benchmarks.sweep_table import SETTINGS, read_rows

pytestmark = pytest.mark.no_asan

Refused = Callable[..., str]


@pytest.fixture
def order() -> str:
    return "hot"


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    """A dataset with two types of nodes, and without splits."""
    nodes = {"a": {"x": np.ones((9, 2), np.float32)}, "b": {"x": np.ones((8, 2), np.float32)}}
    edges = {("a", "to", "b"): np.zeros((2, 3), int)}
    gz.build(tmp_path / "typed", nodes=nodes, edges=edges).close()
    return tmp_path / "typed"


@pytest.fixture
def refused(
    dataset: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Refused:
    """Makes a sweep to ``sweep.csv``, asserts that it makes no trial, and returns the message."""

    def no_trials(*_: Any, **__: Any) -> None:
        raise AssertionError("there was a trial")

    def run(*more: str, folder: Path = dataset[0]) -> str:
        arguments = ["--datasets", str(folder), "--prefetch", "none"]
        arguments += ["--out", str(tmp_path / "sweep.csv"), *more]
        try:
            code = prefetch_sweep.main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        assert code != 0
        message: str = capsys.readouterr().err
        return message

    monkeypatch.setattr(prefetch_sweep, "Trials", no_trials)
    return run


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_two_tables_in_one_file(refused: Refused, tmp_path: Path, link: Any) -> None:
    out = long = tmp_path / "sweep.csv"
    if link is not None:
        long = tmp_path / "link.csv"
        out.touch()
        link(out, long)
    assert "--out and --long are the same file" in refused("--long", str(long), "--resume")
    assert not out.exists() or out.read_bytes() == b""


def test_a_table_in_the_file_of_the_trials(refused: Refused, tmp_path: Path) -> None:
    long = tmp_path / "long.csv"
    long.symlink_to(tmp_path / "sweep.csv.trials.jsonl")
    assert "the trials of --out and --long are the same file" in refused("--long", str(long))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "long.csv"]


@pytest.mark.parametrize("name", ["seconds", "warm-up", "step-ms"])
def test_numbers_below_zero(refused: Refused, name: str) -> None:
    assert f"--{name} must be 0 or a positive number" in refused(f"--{name}=-3")


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("name", ["seconds", "step-ms"])
def test_times_that_are_none(refused: Refused, name: str, value: str) -> None:
    assert f"--{name} must be 0 or a positive number" in refused(f"--{name}", value)


def test_failures_are_tried_again_in_a_table_that_is_gone_on_with(refused: Refused) -> None:
    assert "--retry-failed goes on with a table: give --resume" in refused("--retry-failed")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--split", "test"], "no split 'test'; there are ['train', 'val'], and 'all' for all"),
        (["--split", "none"], "--split none: it has no nodes"),
        (["--threads", "0"], "num_threads must be at least 1"),
        (["--node-type", "a"], "--node-type is for typed graphs"),
    ],
)
def test_mini_batches_that_the_dataset_does_not_have(
    refused: Refused, tmp_path: Path, dataset: Any, more: list[str], message: str
) -> None:
    folder = dataset[0]
    if "none" in more:
        folder = tmp_path / "other"
        write_dataset(folder, random_edges(30, 60), 30, splits={"none": np.arange(0)})
    error = refused(*more, folder=folder)
    assert error.startswith(f"error: {folder}, --split ")
    assert message in error
    assert not (tmp_path / "sweep.csv").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "no split 'train'; there are [], and 'all' for all nodes"),
        (["--split", "all"], "several node types have seeds: give --node-type, one of ['a', 'b']"),
        (["--split", "all", "--node-type", "c"], "no node type 'c'; there are ['a', 'b']"),
    ],
)
def test_mini_batches_that_a_typed_graph_does_not_have(
    refused: Refused, typed: Path, more: list[str], message: str
) -> None:
    assert message in refused(*more, folder=typed)


def test_a_typed_graph_is_swept_with_the_node_type(tmp_path: Path, typed: Path) -> None:
    out = tmp_path / "sweep.csv"
    arguments = ["--datasets", str(typed), "--prefetch", "none", "--out", str(out)]
    arguments += ["--fanouts", "2", "--repeats", "1", "--batches", "2", "--split", "all"]
    assert prefetch_sweep.main([*arguments, "--node-type", "b"]) == 0
    (row,) = read_rows(out, SETTINGS)
    assert (row["node_type"], row["failure"]) == ("b", None)


@pytest.mark.parametrize(
    "text",
    [
        "my notes",
        "my notes\n",
        '{"a": 1}\n',
        '{"a": 1}',
        '{"key": 3}\n',
        '{"key": "note"}',
        '{"key": "[\\"data\\"]", "reason": null, "seconds": []}\n',  # of an earlier version
        "[1]\n",
        "\n",
        "[" * 100_000 + "\n",
        "[" * 100_000,
        b"\xff\xfe\n",
    ],
)
@pytest.mark.parametrize("more", [[], ["--retry-failed"]])
def test_a_file_of_others_in_place_of_the_trials(
    refused: Refused, tmp_path: Path, text: str | bytes, more: list[str]
) -> None:
    path = tmp_path / "sweep.csv.trials.jsonl"
    before = text.encode() if isinstance(text, str) else text
    path.write_bytes(before)
    message = refused("--resume", *more)
    assert f"error: {path} has no trial of a sweep, or one of another version, in line 1" in message
    assert path.read_bytes() == before
