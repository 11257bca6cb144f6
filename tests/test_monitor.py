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
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

import graphzero as gz
from graphzero import _core
from graphzero.report.recording import read_recording
from graphzero.report.summary import summarize

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
    assert "io" in monitor.recording.options
    assert summary.verdict.bound != "unknown"
    assert not _threads()


@pytest.mark.parametrize("watched", [False, True])
def test_mini_batches_of_workers_are_seen_if_the_loop_is_watched(ds, watched) -> None:
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
    assert summary.processes == 2 + others
    assert ("batches" in summary.unknown) != watched


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
    assert monitor.summary.batches.batches == 0  # those of other processes are theirs
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
        ({"pid": 7}, TypeError, "pid"),
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
    one, other, running = (
        gz.NeighborDataset(ds, ds.splits["train"], [5], batch_size=500, num_threads=threads)
        for threads in (1, 2, 3)
    )
    list(other)
    begun = iter(running)
    next(begun)
    with gz.Monitor() as monitor:
        list(begun)
        assert monitor.recording.options["num_threads"] == "3"
    with gz.Monitor() as monitor:
        list(one)
        list(other)
    assert monitor.recording.options["num_threads"] == "1 | 2"
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
        "import graphzero.report.readings as readings\n"
        "readings.PROC = Path('/nowhere')\n"
        "import graphzero as gz\n"
        "with gz.Monitor(interval=0.01) as monitor:\n"
        "    sum(range(10**6))\n"
        "summary = monitor.summary\n"
        "print(summary.anonymous, summary.rss is not None, summary.cores is not None)\n"
        "print(summary.unknown['anonymous'])\n",
    )
    assert done.stderr == ""
    assert done.stdout == "None True True\nthis system does not tell it\n"


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


def test_an_exception_of_the_block_is_worth_more_than_its_files(tmp_path: Path) -> None:
    for name in ("gone", "gone too"):
        (tmp_path / name).mkdir()
    path, page = tmp_path / "gone" / "r.json", tmp_path / "gone too" / "r.html"
    monitor = gz.Monitor(json=path, html=page)

    def run() -> None:
        with monitor:
            shutil.rmtree(path.parent)
            shutil.rmtree(page.parent)
            raise KeyError("mine")

    with pytest.warns(UserWarning, match="was not written") as warned:  # noqa: SIM117
        with pytest.raises(KeyError, match="mine"):
            run()
    assert [str(each.message).partition(";")[0] for each in warned] == [
        f"{path}: its folder is gone: json was not written",
        f"{page}: its folder is gone: html was not written",
    ]
    assert {each.filename for each in warned} == {__file__}
    assert monitor.recording.readings


def test_if_both_fail_one_is_raised_and_one_is_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monitor = gz.Monitor(json=folder / "r.json", html=folder / "r.html")

    def run() -> None:
        with monitor:
            folder.rmdir()

    with pytest.warns(UserWarning, match="json was not written"):  # noqa: SIM117
        with pytest.raises(FileNotFoundError, match="html was not written"):
            run()


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "r.json"
    path.parent.mkdir()
    with pytest.raises(FileNotFoundError) as caught, gz.Monitor(json=path) as monitor:
        path.parent.rmdir()
    assert caught.value.filename == str(path)
    assert "json was not written; keep the folder until the end" in caught.value.strerror
    with pytest.raises(FileNotFoundError) as caught:
        monitor.write_json(path)
    assert caught.value.filename == str(path)


def test_a_link_is_kept_and_its_file_written(tmp_path: Path) -> None:
    links = [tmp_path / "link.json", tmp_path / "link.html"]
    (tmp_path / "files").mkdir()
    for link in links:
        link.symlink_to(tmp_path / "files" / link.name)
    with gz.Monitor(json=links[0], html=links[1]):
        pass
    for link in links:
        assert link.is_symlink()
        assert (tmp_path / "files" / link.name).stat().st_size > 0
