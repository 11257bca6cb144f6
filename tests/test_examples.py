"""The examples learn."""

from __future__ import annotations

from pathlib import Path

import others
import pytest

import graphzero as gz
from graphzero.commands.demo_command import write_demo

pytest.importorskip("torch")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

# Minutes of training in scripts: what they use is sanitized by the tests of its own.
pytestmark = pytest.mark.no_asan


def last_figure(name, *arguments, cwd):
    return others.last_figure(EXAMPLES / name, "store", *arguments, cwd=cwd)


def test_nodes(tmp_path):
    made = write_demo(tmp_path, num_nodes=1500, num_edges=15_000, dim=16, num_classes=4)
    gz.build(tmp_path / "store", **made, directed=False).close()
    assert last_figure("train_sage.py", "--epochs", 8, "--fanouts", 3, cwd=tmp_path) > 0.25


def test_papers(tmp_path):
    # the features of papers say nothing: a third would be right by chance
    assert last_figure("train_typed.py", "--epochs", 4, cwd=tmp_path) > 0.8


def test_flights(tmp_path, real_data):
    arguments = ("--epochs", 6, "--flights", real_data / "openflights")
    assert last_figure("train_typed.py", *arguments, cwd=tmp_path) > 0.8


def test_what_users_buy_next(tmp_path):
    assert last_figure("train_temporal.py", "--workers", 2, cwd=tmp_path) > 0.8
