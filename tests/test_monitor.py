"""`Monitor`: what it sees of a process, its workers and its files, and how it ends."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

import graphzero as gz
from graphzero import _core
from graphzero.loader.batch_log import BatchLog, LogContent
from graphzero.loader.batch_totals import BatchTotals
from graphzero.report.recording_file import read_recording
from graphzero.report.summarize import summarize
from graphzero.report.tree_logs import TreeLogs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.no_asan  # starts processes, and measures memory

NODES = 40_000
linux_only = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="other systems do not tell"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("monitor") / "data"
    rng = np.random.default_rng(0)
    gz.build(
        path,
        rng.integers(0, NODES, (100_000, 2)),
        rng.standard_normal((NODES, 64)).astype(np.float32),
        labels=rng.integers(0, 4, NODES),
        splits={"train": np.arange(2000)},
        num_nodes=NODES,
    ).close()
    return path


@pytest.fixture
def ds(folder: Path):
    with gz.open(folder) as opened:
        yield opened


def _loader(ds, **options):
    options = {"num_neighbors": [5], "input_nodes": "train", "batch_size": 500, **options}
    return gz.NeighborLoader(ds, **options)


def _threads() -> list[str]:
    return [
        each.name for each in threading.enumerate() if each.name.startswith("graphzero-monitor")
    ]


def _processes() -> int:
    """This one and its children: other tests may have left some of multiprocessing's own."""
    return 1 + len(psutil.Process().children(recursive=True))


def test_it_sees_every_mini_batch_and_the_loop(ds) -> None:
    loader = _loader(ds)
    list(loader)  # before: does not count
    with gz.Monitor() as monitor:
        for _ in range(3):
            for batch in loader:
                assert batch.batch_size == 500
        during = monitor.summary
    summary = monitor.summary
    assert (during.batches.batches, summary.batches.batches) == (12, 12)
    assert summary.batches.steps == 12
    assert summary.batches.seeds == 6000
    assert sorted(summary.epochs) == [1, 2, 3]
    assert summary.batches.stall > 0
    assert monitor.recording.options["num_workers"] == "0"
    assert monitor.recording.options["fanouts"] == "[5]"
    assert summary.verdict.bound != "unknown"
    assert not _threads()


@pytest.mark.parametrize("watched", [False, True])
def test_mini_batches_of_workers_are_seen_and_the_loop_if_it_is_watched(ds, watched) -> None:
    batches = gz.NeighborDataset(ds, ds.splits["train"], [5], batch_size=100)
    loader = torch.utils.data.DataLoader(
        batches, batch_size=None, num_workers=2, collate_fn=gz.Collate(ds)
    )
    others = _processes()
    with gz.Monitor(interval=0.05) as monitor:
        for _ in monitor.watch(loader) if watched else loader:
            time.sleep(0.02)
    summary = monitor.summary
    assert summary.batches.batches == 20
    assert summary.batches.steps == (20 if watched else 0)
    assert (summary.verdict.stalled is None) != watched
    assert ("monitor.watch" in str(summary)) != watched
    assert summary.processes == 2 + others
    assert "batches" not in summary.unknown


def _iterate(folder: Path, barrier) -> None:
    """A process of its own that reads all rows, and waits until it was seen."""
    with gz.open(folder) as ds:
        assert ds.features is not None
        ds.features.get_tensor(stored_order=True).sum()
        for _ in gz.NeighborDataset(ds, np.arange(NODES), [1], batch_size=20_000):
            pass
        barrier.wait()  # everybody has everything mapped
        barrier.wait()  # ... and was seen


@linux_only
def test_the_page_cache_of_four_processes_counts_once(folder: Path) -> None:
    """Their resident memory counts a page for each of them."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(5, timeout=30)
    size = sum(path.stat().st_size for path in folder.glob("*.g[ld]"))
    features = (folder / "features.gd").stat().st_size
    others = _processes()
    mapped = int(re.search(r"RssFile:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
    with gz.Monitor(folder, interval=0.05) as monitor:
        workers = [context.Process(target=_iterate, args=(folder, barrier)) for _ in range(4)]
        for worker in workers:
            worker.start()
        barrier.wait()
        recording = monitor.recording
        barrier.wait()
        for worker in workers:
            worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    # other tests of this process may have left files mapped
    ours = tuple(file for file in recording.files if Path(file.path).parent == folder)
    summary = summarize(replace(recording, files=ours))
    assert summary.processes == 4 + others
    assert summary.dataset == size
    assert summary.page_cache is not None
    assert features <= summary.page_cache.last <= size
    assert summary.file is not None
    assert summary.file.last >= 4 * features
    assert monitor.summary.batches.batches == 8  # seen, although they have ended
    last = None if summary.pss_file is None else summary.pss_file.last
    if last is None:  # of a process of gigabytes, it is not read within so short a time
        assert {"pss", "pss.last"} & summary.unknown.keys()
    else:
        # What this process has mapped, libraries above all, is the workers' too
        assert last < mapped + size + 10_000_000


@pytest.mark.parametrize("kind", ["folder", "text", "dataset", "loader's dataset", "file", "list"])
def test_the_dataset_may_be_given_in_many_ways(folder: Path, ds, kind: str) -> None:
    given = {
        "folder": folder,
        "text": str(folder),
        "dataset": ds,
        "loader's dataset": gz.NeighborDataset(ds, [1, 2], [5]),
        "file": folder / "features.gd",
        "list": [ds, folder / "graph.gl"],
    }[kind]
    with gz.Monitor(given) as monitor:
        pass
    names = {Path(file.path).name for file in monitor.recording.files}
    assert "features.gd" in names
    assert all(os.path.isabs(file.path) for file in monitor.recording.files)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"interval": 0}, ValueError, "interval must be a positive number"),
        ({"interval": "1"}, ValueError, "interval must be a positive number"),
        ({"interval": float("nan")}, ValueError, "interval must be a positive number"),
        ({"interval": float("inf")}, ValueError, "interval must be a positive number"),
        ({"dataset": 5}, TypeError, "dataset must be a path"),
        ({"dataset": "/nowhere"}, FileNotFoundError, "/nowhere"),
        ({"pid": 2**22 + 5}, ProcessLookupError, "no process"),
        ({"html": "/nowhere/page.html"}, OSError, "html cannot be written"),
        ({"json": "/"}, OSError, "json cannot be written"),
    ],
)
def test_wrong_arguments_are_refused_at_once(options, error, message) -> None:
    with pytest.raises(error, match=message), gz.Monitor(**options):
        pytest.fail("the block was entered")
    assert not _threads()


def test_a_monitor_is_used_once(folder: Path) -> None:
    monitor = gz.Monitor(folder)
    with pytest.raises(RuntimeError, match="recorded nothing yet"):
        _ = monitor.summary
    with monitor, pytest.raises(RuntimeError, match="make another one"):
        monitor.__enter__()
    with pytest.raises(RuntimeError, match="make another one"), monitor:
        pass


def test_monitors_may_be_nested(ds) -> None:
    loader = _loader(ds)
    with gz.Monitor() as outer:
        list(loader)
        with gz.Monitor() as inner:
            list(loader)
            assert len(_threads()) == 2
    assert (inner.summary.batches.batches, outer.summary.batches.batches) == (4, 8)
    assert sorted(inner.summary.epochs) == [1]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_ends_it_and_its_files_are_written(ds, tmp_path: Path, error) -> None:
    path = tmp_path / "run.json"
    with pytest.raises(error, match="mine"), gz.Monitor(json=path) as monitor:
        list(_loader(ds))
        raise error("mine")
    assert not _threads()
    assert read_recording(path) == monitor.recording
    assert json.loads(path.read_text())["summary"]["batches"]["batches"] == 4


def test_a_loop_that_is_left_early_counts_what_it_was_given(ds) -> None:
    with gz.Monitor() as monitor:
        for i, _ in enumerate(_loader(ds)):
            if i == 1:
                break
    assert monitor.summary.batches.steps == 2


def test_options_are_those_of_the_iterations_that_it_saw(ds) -> None:
    one, other, running = (_loader(ds, num_neighbors=[fanout]) for fanout in (1, 2, 3))
    list(other)
    begun = iter(running)
    next(begun)
    with gz.Monitor() as monitor:
        list(begun)
        assert monitor.recording.options["fanouts"] == "[3]"
        list(one)
        list(other)
    assert monitor.recording.options["fanouts"] == "[1] | [2]"
    with gz.Monitor() as idle:
        pass
    assert idle.recording.options == {}


def test_it_holds_no_file_open_afterwards(ds, folder: Path) -> None:
    before = _core.open_mappings()
    with gz.Monitor(folder) as monitor:
        list(_loader(ds))
    gc.collect()
    assert _core.open_mappings() == before
    assert monitor.summary.page_cache is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_it_alone(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with gz.Monitor(json=path) as monitor:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                watched = list(monitor.watch([1, 2]))
                with pytest.raises(RuntimeError, match="parent process"):
                    _ = monitor.summary
                monitor.__exit__(None, None, None)
                code = 0 if watched == [1, 2] else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert not path.exists()  # the child has left the block, and written nothing
        assert len(_threads()) == 1
    assert read_recording(path) == monitor.recording


def _program(tmp_path: Path, text: str, **options) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "program.py"
    path.write_text(text)
    return subprocess.run(
        [sys.executable, path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        **options,
    )


def test_a_program_ends_that_never_left_the_block(tmp_path: Path) -> None:
    done = _program(
        tmp_path,
        "import graphzero as gz, sys\n"
        "monitor = gz.Monitor(interval=0.01).__enter__()\n"
        "print(len(monitor.recording.readings) > 0, 'torch' in sys.modules)\n",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True False\n", "")


def test_what_the_system_hides_is_unknown(tmp_path: Path) -> None:
    """As on a system without ``/proc``, such as macOS."""
    done = _program(
        tmp_path,
        "from pathlib import Path\n"
        "import graphzero.report.readings.process_files as files\n"
        "nowhere = Path('/nowhere')\n"
        "files.PROC = nowhere\n"
        "import graphzero.report.readings.processes as processes\n"
        "processes.ProcessTree.__init__.__kwdefaults__['proc'] = nowhere\n"
        "import graphzero as gz\n"
        "with gz.Monitor(interval=0.01) as monitor:\n"
        "    sum(range(10**6))\n"
        "summary = monitor.summary\n"
        "print(summary.anonymous, summary.rss is not None, summary.cores is not None)\n"
        "print(summary.unknown['anonymous'])\n",
    )
    assert done.stderr == ""
    assert done.stdout == "None True True\nthis system does not tell them apart\n"


def test_workers_that_have_ended_take_no_memory(monkeypatch) -> None:
    """Each epoch may have others, and a log has 200 kB."""
    log = BatchLog()
    log.add(3, BatchTotals(batches=2))
    log.describe(["/data/graph.gl"], {"fanouts": "5"}, "")
    data, contents = log.content().data, []
    log.remove()

    class Reader:
        unknown = None

        def __init__(self, pid: int, user: int | None) -> None:
            pass

        def read(self) -> LogContent:
            content = LogContent(bytes(bytearray(data)))
            contents.append(weakref.ref(content))
            return content

        def close(self) -> None:
            pass

    monkeypatch.setattr("graphzero.report.tree_logs.BatchLogReader", Reader)
    logs = TreeLogs()
    logs.look([])
    for pid in range(100, 105):
        logs.look([pid])
    assert logs.read() == BatchTotals(batches=10)
    assert logs.epochs == {3: BatchTotals(batches=10)}
    assert logs.pids == set(range(100, 105))
    assert logs.files == ("/data/graph.gl",)
    assert logs.iterations == ({"fanouts": "5", "io": ""},)
    gc.collect()
    assert sum(each() is not None for each in contents) == 1  # of the last one


def test_its_files_are_where_it_was_made_and_one_may_fail(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    others = _processes()
    monitor = gz.Monitor(json="gone/r.json", html="r.html")
    Path("gone").mkdir()
    with pytest.raises(FileNotFoundError, match=r"r\.json"), monitor:
        Path("gone").rmdir()
        os.chdir("elsewhere")
    assert "<html" in (tmp_path / "r.html").read_text()
    assert os.listdir() == []
    assert monitor.summary.processes == others


def test_a_dataset_that_is_deleted_is_unknown_with_the_reason(folder: Path, tmp_path: Path) -> None:
    gc.collect()  # no other dataset is mapped then
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    with gz.Monitor(copy) as monitor:
        shutil.rmtree(copy)
    assert "page cache  unknown: the dataset's files were deleted" in str(monitor.summary)
