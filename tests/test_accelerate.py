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
@pytest.mark.slow
@pytest.mark.parametrize("options", [["--shuffle"], [], ["--dispatch"]])
@pytest.mark.parametrize("form", ["open", "ready"])
def test_wrapped_in_two_processes_they_say_what_to_prepare(store, form, options):
    for text in outputs(store, form, 2, *options):
        assert text.startswith("refused:")
        assert "accelerator.prepare(model, optimizer)" in text
        assert "distributed=True" in text


@needs_accelerate
@pytest.mark.slow
@pytest.mark.parametrize("form", ["open", "ready"])
def test_wrapped_in_one_process_they_work(store, form):
    assert outputs(store, form, 1, "--shuffle") == ["seeds: 112"]


@needs_accelerate
@pytest.mark.slow
@pytest.mark.parametrize("form", ["open", "ready"])
def test_beside_accelerate_they_deal_the_batches_themselves(store, form):
    found = outputs(store, form, 2, "--shuffle", "--alone")
    assert found == ["seeds: 64", "seeds: 64"]  # 7 batches of 16, and one again


def test_another_loader_over_the_tickets_is_refused_in_several_processes(store, monkeypatch):
    with gz.open(store) as ds:
        loader = gz.NeighborLoader(ds, [3], "train", batch_size=16, distributed=False)
        other = torch.utils.data.DataLoader(
            loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn
        )
        assert sum(batch.batch_size for batch in other) == 112
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 0)
        with pytest.raises(RuntimeError, match="has put the parts of a graphzero loader"):
            next(iter(other))
        monkeypatch.undo()
        assert sum(batch.batch_size for batch in loader) == 112
