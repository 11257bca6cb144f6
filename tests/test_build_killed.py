"""A build with attributes and `ids="map"`, a reordering or an addition is killed at many moments.

The earlier dataset, or the new one from the commit on, is whole each time; the next one gives the
bytes of an undisturbed one and leaves nothing else. ``GRAPHZERO_TEST_ALL=1`` does so at 30 moments
of a build of 8 M edges.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import files
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from files import committed

import graphzero as gz
from graphzero.cli import main
from graphzero.ingest import append_dataset, build_dataset, reorder_dataset
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import FileWriter

ALL = os.environ.get("GRAPHZERO_TEST_ALL") == "1"
EDGES, NODES, MOMENTS, STEPS = (8_000_000, 400_000, 30, 10) if ALL else (60_000, 6_000, 6, 4)
LIMIT = "256MB" if ALL else "1MiB"


# --- the program that is killed: its steps are files that are complete, files set aside, renames


def work(what: str, folder: Path, target: Path, limit: str) -> None:
    """Builds a dataset from the inputs in a folder, reorders it or adds to it."""
    if what == "reorder":
        presample = gz.Presample(fanouts=(5,), batch_size=64)
        reorder_dataset(target, "presample", presample=presample, memory_limit=limit)
        return
    if what == "append":
        more = np.random.default_rng(2).integers(0, 950, (1000, 2))
        append_dataset(target, more, {"x": np.zeros((50, 7), np.float32)}, memory_limit=limit)
        return
    build_dataset(
        target,
        {"edge_index": folder / "edges.npy", "kind": folder / "kind.npy"},
        labels=folder / "labels.parquet",
        splits={"train": folder / "train.npy"},
        ids="map",
        neighbors="both",
        memory_limit=limit,
    )


def run(what: str, folder: str, target: str, stop: str, limit: str) -> None:
    """Prints "begin", "step" where it waits, and at the end all steps and the seconds."""
    steps: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*values: Any) -> Any:
            steps.append(name)
            if len(steps) == int(stop):
                print("step", flush=True)
                time.sleep(600)
            return function(*values)

        return step

    os.rename = noted("set aside", os.rename)
    os.replace = noted("rename", os.replace)
    FileWriter.seal = noted("seal", FileWriter.seal)  # type: ignore[method-assign]
    print("begin", flush=True)
    began = time.monotonic()
    work(what, Path(folder), Path(target), limit)
    print(json.dumps([steps, time.monotonic() - began]), flush=True)


# --- its end


def write_inputs(folder: Path) -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(-(1 << 63), 1 << 63, NODES)
    np.save(folder / "edges.npy", ids[rng.integers(0, NODES, (2, EDGES))])
    np.save(folder / "kind.npy", rng.integers(0, 99, EDGES).astype(np.int16))
    table = {"id": ids, "y": rng.integers(0, 9, NODES)}
    pa.parquet.write_table(pa.table(table), folder / "labels.parquet")
    np.save(folder / "train.npy", ids[: NODES // 10])


def write_earlier(folder: Path) -> None:
    edges = np.random.default_rng(1).integers(0, 900, (4000, 2))
    features = np.ones((900, 7), np.float32)
    build_dataset(folder, edges, features, splits={"train": [1], "old": [2]}, neighbors="both")


def start(what: str, folder: Path, target: Path, stop: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, __file__, what, str(folder), str(target), str(stop), LIMIT],
        stdout=subprocess.PIPE,
        cwd=folder,
        preexec_fn=files.let_be_interrupted,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"begin\n"
    return process


def work_to_the_end(what: str, folder: Path, target: Path) -> tuple[list[str], int, float]:
    """Its steps, the one at which it commits, and its seconds."""
    with start(what, folder, target, 0) as process:
        steps, seconds = json.loads(process.stdout.read())
    assert process.returncode == 0
    commit = 1 + steps.index("rename")  # of dataset.json
    assert len(steps) - commit == steps.count("seal")
    return steps, commit, seconds


def end(process: subprocess.Popen[bytes], number: int, stop: int, seconds: float = 0.0) -> int:
    """Sends a signal, at a step or after so many seconds; the exit code."""
    try:
        if stop:
            assert process.stdout.readline() == b"step\n"
        else:
            time.sleep(seconds)
        process.send_signal(number)
        return process.wait(60)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.timeout(3600 if ALL else 300)
@pytest.mark.parametrize("what", ["build", "reorder", "append"])
def test_kill_at_many_moments(tmp_path: Path, what: str) -> None:
    earlier, whole, target = tmp_path / "earlier", tmp_path / "whole", tmp_path / "data"
    write_inputs(tmp_path)
    write_earlier(earlier)
    shutil.copytree(earlier, whole)
    steps, commit, seconds = work_to_the_end(what, tmp_path, whole)
    rng = random.Random(0)
    count = MOMENTS - STEPS
    moments = [(0, (i + rng.random()) / count * seconds) for i in range(count)]
    moments += [(stop, 0.0) for stop in np.linspace(1, len(steps), STEPS).round().tolist()]
    unfinished = 0
    for number, moment in moments:
        stop = int(number)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(earlier, target)
        end(start(what, tmp_path, target, stop), signal.SIGKILL, stop, moment)
        is_old, is_new = (committed(target) == committed(one) for one in (earlier, whole))
        assert is_old != is_new, (stop, moment)
        assert stop == 0 or is_new == (stop > commit)
        assert main(["verify", str(target)]) == 0
        unfinished += any(map(is_staging_name, os.listdir(target)))
        work("build", tmp_path, target, LIMIT)  # recovers
        if what == "build":
            assert committed(target) == committed(whole)
            assert sorted(os.listdir(target)) == sorted(os.listdir(whole))
        assert not any(map(is_staging_name, os.listdir(target)))
    assert unfinished >= STEPS // 2, "hardly any kill came in the middle"


def test_an_interrupt_leaves_no_staged_file(tmp_path: Path) -> None:
    earlier, whole, target = tmp_path / "earlier", tmp_path / "whole", tmp_path / "data"
    write_inputs(tmp_path)
    write_earlier(earlier)
    shutil.copytree(earlier, whole)
    _, commit, _ = work_to_the_end("build", tmp_path, whole)
    for stop, expected in ((2, earlier), (commit, earlier), (commit + 2, whole)):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(earlier, target)
        process = start("build", tmp_path, target, stop)
        assert end(process, signal.SIGINT, stop) == -signal.SIGINT
        assert committed(target) == committed(expected)
        if expected == whole:  # what was set aside, the next build removes
            work("build", tmp_path, target, LIMIT)
        assert sorted(os.listdir(target)) == sorted(os.listdir(expected))


if __name__ == "__main__":
    run(*sys.argv[1:])
