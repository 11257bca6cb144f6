"""Several processes: spawned ones, DataLoader workers, and a training under torchrun."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from ranks_data import SIZE, write_data

import graphzero as gz

if not torch.distributed.is_available():
    pytest.skip("this torch has no distributed", allow_module_level=True)

# Processes of torch, most of whose time is its own.
pytestmark = [pytest.mark.extended, pytest.mark.no_asan]

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("ranks") / "data")


SCRIPT_WARNING = """
import sys
import numpy as np
import torch
import graphzero as gz

if __name__ == "__main__":
    ds = gz.open(sys.argv[1])
    for method, workers in (("fork", 2), ("spawn", 1)):
        batches = gz.NeighborDataset(
            ds, np.arange(97), [3], batch_size=16, rank=0, world_size=2)
        loader = torch.utils.data.DataLoader(
            batches, batch_size=None, num_workers=workers, multiprocessing_context=method)
        for epoch in range(2):
            batches.set_epoch(epoch)  # which workers of several ranks need
            assert sum(1 for _ in loader) == 4
"""


def run_script(tmp_path, text, *arguments, **options):
    (tmp_path / "script.py").write_text(text)
    command = [sys.executable, str(tmp_path / "script.py"), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done


def test_workers_say_it_once(folder, tmp_path):
    done = run_script(tmp_path, SCRIPT_WARNING, folder)
    assert done.stderr.count("UserWarning: an epoch has 7 batches") == 2  # one for each dataset


SCRIPT_SPAWNED = """
import sys
import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import graphzero as gz

def run(rank, batches, unsaid, init):
    assert len(unsaid) == 7
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=2)
    kinds = ((0, None), (2, "fork"), (1, "spawn"), (1, "forkserver"))
    for epoch, (workers, method) in enumerate(kinds):
        batches.set_epoch(epoch)
        loader = torch.utils.data.DataLoader(
            batches, batch_size=None, num_workers=workers, multiprocessing_context=method)
        ids = [b.input_id.tolist() for b in loader]
        assert len(ids) == len(loader) == (4 - rank), (rank, workers, method, len(ids))
        both = [None, None]
        dist.all_gather_object(both, ids)
        assert sorted(sum(both[0] + both[1], [])) == list(range(97)), (workers, method)
    for workers, method in ((0, None), (1, "fork")):
        loader = torch.utils.data.DataLoader(
            unsaid, batch_size=None, num_workers=workers, multiprocessing_context=method)
        try:
            next(iter(loader))
        except ValueError as error:
            assert "distributed=False" in str(error)
        else:
            raise AssertionError("rank 0 of 1 for ever")
    dist.destroy_process_group()

if __name__ == "__main__":
    ds = gz.open(sys.argv[1])
    options = {"batch_size": 16, "shuffle": True, "even": False}
    batches = gz.NeighborDataset(ds, np.arange(97), [2], distributed=True, **options)
    unsaid = gz.NeighborDataset(ds, np.arange(97), [2], **options)
    mp.spawn(run, args=(batches, unsaid, "file://" + sys.argv[2]), nprocs=2)
    print("done")
"""


def test_a_dataset_that_is_pickled_before_the_group_exists(folder, tmp_path):
    done = run_script(tmp_path, SCRIPT_SPAWNED, folder, tmp_path / "init")
    assert done.stdout == "done\n"


def torchrun(count, script, *arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(count), str(script), *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("drop_last", [False, True])
def test_two_ranks_train_and_evaluate(folder, tmp_path, drop_last):
    """3 epochs of 7 batches; ranks that wait for each other would run into the timeout."""
    ds = gz.open(folder)
    size = 13 if drop_last else SIZE  # 7 full batches, or 6 and a short one
    arguments = [folder, "--epochs", 3, "--fanouts", 4, 3, "--predictions", tmp_path / "p.npz"]
    arguments += ["--batch-size", size, *(["--drop-last"] if drop_last else [])]
    done = torchrun(2, ROOT / "examples" / "train_ddp.py", *arguments)
    assert done.returncode == 0, done.stderr
    found = sorted(re.findall(r"rank (\d): epoch (\d): (\d) batches", done.stdout))
    count = "3" if drop_last else "4"
    assert found == [(rank, epoch, count) for rank in "01" for epoch in "123"]
    with np.load(tmp_path / "p.npz") as file:
        assert sorted(file["node_id"].tolist()) == sorted(ds.splits["test"].tolist())
    assert f"of {len(ds.splits['test'])} nodes" in done.stdout
