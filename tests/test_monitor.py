"""`Monitor`: what it sees of a process, its workers and its files, how often, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import files
import numpy as np
import others
import psutil
import pytest

import graphzero as gz
from graphzero.loader.stats import listeners
from graphzero.report import monitor as monitor_module
from graphzero.report.recording import read_recording
from graphzero.store.manifest import read_manifest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.no_asan  # starts processes, and measures memory

NODES = 40_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("monitor") / "data"
    return files.write_random(path, NODES, 100_000, 64, splits={"train": np.arange(2000)})


@pytest.fixture
def ds(folder):
    with gz.open(folder) as opened:
        yield opened


def _loader(ds):
    return gz.NeighborLoader(ds, [5], "train", batch_size=500)


def _threads():
    names = [each.name for each in threading.enumerate()]
    return [name for name in names if name.startswith("graphzero-monitor")]


def _processes():
    """This one and its children: other tests may have left some of multiprocessing's own."""
    return 1 + len(psutil.Process().children(recursive=True))


# --- mini-batches


def test_it_sees_every_mini_batch_and_the_loop(ds):
    loader = _loader(ds)
    list(loader)  # before: does not count
    with gz.Monitor() as monitor:
        for _ in range(2):
            assert len(list(loader)) == 4
        during = monitor.summary
        with gz.Monitor() as inner:
            list(loader)
            assert len(_threads()) == 2
        for i, _ in enumerate(loader):
            if i == 1:
                break  # counts what it has got
    found = monitor.summary
    assert (during.batches.batches, found.batches.batches, found.batches.steps) == (8, 14, 14)
    assert found.batches.seeds == 7000
    assert sorted(found.epochs) == [1, 2, 3, 4]
    assert (inner.summary.batches.batches, sorted(inner.summary.epochs)) == (4, [3])
    assert found.batches.stall > 0
    assert found.verdict.bound != "unknown"
    assert not _threads()
    assert not listeners


@pytest.mark.parametrize("watched", [False, True])
def test_mini_batches_of_workers_are_seen_if_the_loop_is_watched(ds, watched):
    batches = gz.NeighborDataset(ds, ds.splits["train"], [5], batch_size=100)
    loader = torch.utils.data.DataLoader(
        batches, batch_size=None, num_workers=2, collate_fn=gz.Collate(ds)
    )
    others = _processes()
    with gz.Monitor(interval=0.05) as monitor:
        for _ in monitor.watch(loader) if watched else loader:
            time.sleep(0.02)
    summary = monitor.summary
    assert summary.batches.batches == summary.batches.steps == (20 if watched else 0)
    assert (summary.verdict.stalled is None) != watched
    assert ("monitor.watch" in str(summary)) != watched
    # of earlier tests, some may have ended meanwhile
    assert 2 + _processes() <= summary.processes <= 2 + others


# --- files and processes


@pytest.mark.parametrize("kind", ["text", "dataset", "loader's dataset", "file", "list"])
def test_the_dataset_may_be_named_in_many_ways_and_is_closed(folder, ds, kind):
    named = {
        "text": str(folder),
        "dataset": ds,
        "loader's dataset": gz.NeighborDataset(ds, [1, 2], [5]),
        "file": folder / "features.gd",
        "list": [ds, folder / "graph.gl"],
    }[kind]
    monitor = gz.Monitor(named)
    with pytest.raises(RuntimeError, match="recorded nothing yet"):
        _ = monitor.summary
    with monitor:
        pass
    with pytest.raises(RuntimeError, match="make another one"), monitor:
        pass
    paths = [Path(file.path) for file in monitor.recording.files]
    assert "features.gd" in {path.name for path in paths}
    assert all(path.is_absolute() for path in paths)


def test_a_program_ends_that_never_left_the_block(tmp_path):
    text = (
        "import graphzero as gz, sys\n"
        "monitor = gz.Monitor(interval=0.01).__enter__()\n"
        "print(len(monitor.recording.readings) > 0, 'torch' in sys.modules)\n"
    )
    how = {"capture_output": True, "text": True, "timeout": 60, "cwd": tmp_path}
    done = subprocess.run([sys.executable, "-c", text], **how, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "True False\n")


def test_it_knows_the_order_how_threads_wait_and_who_used_the_processors(folder, tmp_path):
    code = (
        "import graphzero as gz, json, sys\n"
        f"with gz.Monitor({str(folder)!r}, interval=0.1) as monitor:\n"
        "    sum(range(10**7))\n"
        "busy = [reading.busy_seconds for reading in monitor.recording.readings]\n"
        "print(json.dumps([monitor.recording.options, busy[-1] - busy[0]]))\n"
    )
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, env=environment, capture_output=True, check=True, cwd=tmp_path)
    options, busy = json.loads(out.stdout)
    assert options == {"order": read_manifest(folder).order, "OMP_WAIT_POLICY": "passive"}
    assert busy > 0


# --- how it begins and ends


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"interval": 0}, ValueError, "interval must be a positive number"),
        ({"interval": float("nan")}, ValueError, "interval must be a positive number"),
        ({"dataset": 5}, TypeError, "os.PathLike"),
        ({"dataset": "/nowhere"}, FileNotFoundError, "/nowhere"),
        ({"html": "/nowhere/page.html"}, OSError, "html cannot be written"),
        ({"json": "/"}, OSError, "json cannot be written"),
    ],
)
def test_wrong_arguments_are_refused_at_once(options, error, message):
    with pytest.raises(error, match=message), gz.Monitor(**options):
        pytest.fail("the block was entered")
    assert not _threads()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_ends_it_and_its_files_are_written(ds, tmp_path, error):
    path = tmp_path / "run.json"
    with pytest.raises(error, match="mine"), gz.Monitor(json=path) as monitor:
        list(_loader(ds))
        raise error("mine")
    assert not _threads()
    assert read_recording(path) == monitor.recording
    assert json.loads(path.read_text())["summary"]["batches"]["batches"] == 4


def test_a_forked_child_leaves_it_alone(tmp_path):
    path = tmp_path / "run.json"
    with gz.Monitor(json=path) as monitor:
        found = others.in_child(
            lambda: [list(monitor.watch([1, 2])), monitor.__exit__(None, None, None)]
        )
        assert found == [[1, 2], None]
        assert not path.exists()  # the child has left the block, and written nothing
        assert len(_threads()) == 1
    assert read_recording(path) == monitor.recording


def test_its_files_are_where_it_was_made_and_one_may_fail(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.html").symlink_to(tmp_path / "r.html")
    monkeypatch.chdir(tmp_path)
    monitor = gz.Monitor(json="gone/r.json", html="link.html")
    Path("gone").mkdir()
    with pytest.raises(FileNotFoundError, match=r"r\.json") as caught, monitor:
        Path("gone").rmdir()
        os.chdir("elsewhere")
    assert caught.value.filename == str(tmp_path / "gone" / "r.json")
    assert "<html" in (tmp_path / "r.html").read_text()
    assert (tmp_path / "link.html").is_symlink()
    assert os.listdir() == []


# --- how readings are taken


def test_a_long_run_keeps_a_bounded_number(monkeypatch):
    thinned, thin = [], monitor_module.thin
    monkeypatch.setattr(monitor_module, "_MOST_READINGS", 40)
    monkeypatch.setattr(monitor_module, "thin", lambda kept: thinned.append(1) or thin(kept))
    with gz.Monitor(interval=0.001) as monitor:
        first = monitor.recording.readings[0]
        others.wait_until(lambda: len(thinned) > 2)
    readings = monitor.recording.readings
    assert readings[0] == first
    assert 20 <= len(readings) <= 40


def test_a_reading_that_fails_ends_nothing_and_is_said(monkeypatch):
    failing = mock.Mock(side_effect=OSError("no such luck"))
    with gz.Monitor(interval=60) as monitor:
        with monkeypatch.context() as patch:
            patch.setattr(monitor_module, "read_processes", failing)
            with pytest.warns(UserWarning, match="A reading failed: OSError: no such luck"):
                assert len(monitor.recording.readings) == 1
        assert len(monitor.recording.readings) == 2


def test_the_command_line_is_read_until_there_is_one(monkeypatch):
    # none while a program is being started
    monkeypatch.setattr(psutil.Process, "cmdline", mock.Mock(side_effect=[[], ["train.py"]]))
    with gz.Monitor(interval=60) as monitor:
        assert monitor.recording.command == ("train.py",)
