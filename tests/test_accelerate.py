"""Loaders that accelerate has wrapped: refused where it would deal their batches out again."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import files
import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

PROGRAM = Path(__file__).with_name("accelerate_program.py")
needs_accelerate = pytest.mark.skipif(
    importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed"
)

# Minutes of training in scripts: what they use is sanitized by the tests of its own.
pytestmark = pytest.mark.no_asan


@pytest.fixture
def store(tmp_path):
    files.write_dataset(
        tmp_path / "store",
        files.random_edges(300, 2000, seed=2),
        300,
        splits={"train": np.arange(112)},  # 7 batches
    )
    return tmp_path / "store"


def outputs(store, form, processes, *options):
    """What each process prints."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": str(Path(gz.__file__).parents[1])}
    running = [
        subprocess.Popen(
            [sys.executable, PROGRAM, store, form, str(rank), str(processes), port, *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    done = [process.communicate(timeout=200) for process in running]
    assert all(out for out, _ in done), done
    return [out.strip() for out, _ in done]


@needs_accelerate
@pytest.mark.extended
@pytest.mark.parametrize("options", [["--shuffle"], [], ["--dispatch"]])
@pytest.mark.parametrize("form", ["open", "ready"])
def test_wrapped_in_two_processes_they_say_what_to_prepare(store, form, options):
    for text in outputs(store, form, 2, *options):
        assert text.startswith("refused:")
        assert "accelerator.prepare(model, optimizer)" in text
        assert "distributed=True" in text


@needs_accelerate
@pytest.mark.extended
def test_wrapped_in_one_process_the_open_form_works(store):
    assert outputs(store, "open", 1, "--shuffle") == ["seeds: 112"]
    (text,) = outputs(store, "ready", 1, "--shuffle")  # accelerate would batch its batches
    assert text.startswith("refused:")
    assert "accelerator.prepare(model, optimizer)" in text


@needs_accelerate
@pytest.mark.extended
@pytest.mark.parametrize("form", ["open", "ready"])
def test_beside_accelerate_they_deal_the_batches_themselves(store, form):
    found = outputs(store, form, 2, "--shuffle", "--alone")
    assert found == ["seeds: 64", "seeds: 64"]  # 7 batches of 16, and one again
