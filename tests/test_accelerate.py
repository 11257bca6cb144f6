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
    splits = {"train": np.arange(112)}  # 7 batches
    files.write_dataset(
        tmp_path / "store", files.random_edges(300, 2000, seed=2), 300, splits=splits
    )
    return tmp_path / "store"


def outputs(store, form, processes, *options):
    """What each process prints."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": str(Path(gz.__file__).parents[1])}
    how = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [
        subprocess.Popen(
            [sys.executable, PROGRAM, store, form, str(rank), str(processes), port, *options], **how
        )
        for rank in range(processes)
    ]
    done = [process.communicate(timeout=200) for process in running]
    assert all(out for out, _ in done), done
    return [out.strip() for out, _ in done]


@needs_accelerate
@pytest.mark.extended
@pytest.mark.parametrize(
    ("form", "processes", "options", "expected"),
    [
        *(
            (form, 2, options, "refused:")
            for form in ("open", "ready")
            for options in (["--shuffle"], [], ["--dispatch"])
        ),
        ("open", 1, ["--shuffle"], "seeds: 112"),
        ("ready", 1, ["--shuffle"], "refused:"),  # accelerate would batch its batches
        # beside accelerate they deal themselves: 7 batches of 16, and one again
        ("open", 2, ["--shuffle", "--alone"], "seeds: 64"),
        ("ready", 2, ["--shuffle", "--alone"], "seeds: 64"),
    ],
)
def test_wrapped_they_work_or_say_what_to_prepare(store, form, processes, options, expected):
    for text in outputs(store, form, processes, *options):
        assert text.startswith(expected)
        if expected == "refused:":
            assert "accelerator.prepare(model, optimizer)" in text
            assert processes == 1 or "distributed=True" in text
