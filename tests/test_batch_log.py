"""The batch log: what a process publishes, and what others read of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

from graphzero.loader import batch_log as module
from graphzero.loader import batch_log_file as layout
from graphzero.loader.batch_log import BatchLog, BatchLogReader, BatchRecord, batch_log, logs_of
from graphzero.loader.batch_totals import BatchTotals

pytestmark = pytest.mark.no_asan  # Python alone


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An own folder of logs, for this process and those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_log", None)
    yield tmp_path / f"graphzero-batches-{os.getuid()}"
    if module._log is not None:
        module._log.remove()


def sums_of(n):
    return BatchTotals(*range(n, n + len(layout.EMPTY)))


def record_of(n, epoch=0):
    return BatchRecord(float(n), epoch, n, *[n / 8] * 5, *[n] * 7)


def test_the_fields_of_the_file_are_those_of_the_totals():
    assert layout.STATE.size == 8 * (3 + len(layout.EMPTY))
    assert BatchTotals(*sums_of(3).values) == sums_of(3)
    assert sums_of(5) - sums_of(3) + sums_of(3) == sums_of(5)


def test_sums_and_records_are_read_as_they_were_added():
    log = BatchLog()
    log.add(4, sums_of(1), record_of(7, 4))
    log.add(2, sums_of(10))
    log.add(4, sums_of(100), record_of(8, 4))
    got = log.content()
    assert got.pid == os.getpid()
    assert got.totals == sums_of(1) + sums_of(10) + sums_of(100)
    assert list(got.epochs.items()) == [(2, sums_of(10)), (4, sums_of(1) + sums_of(100))]
    assert got.earlier == BatchTotals()
    assert got.records == (record_of(7, 4), record_of(8, 4))
    log.remove()


def test_old_epochs_are_merged_and_old_records_dropped():
    log = BatchLog()
    for epoch in range(100):
        log.add(epoch, sums_of(epoch))
        log.add(1, BatchTotals(seeds=1))  # used all the time, so never old
    for n in range(layout.RECORDS + 10):
        log.add(99, BatchTotals(), record_of(n))
    got = log.content()
    assert list(got.epochs) == [1, *range(37, 100)]
    assert got.epochs[1].seeds == sums_of(1).seeds + 100
    assert got.epochs[50] == sums_of(50)
    total = got.earlier
    for sums in got.epochs.values():
        total = total + sums
    assert total == got.totals
    assert [record.batch for record in got.records] == list(range(10, layout.RECORDS + 10))
    log.remove()


def test_files_and_options_are_kept_within_bounds():
    log = BatchLog()
    assert (log.content().files, log.content().iterations) == ((), ())
    log.describe(["b.gl", "a.gd"], {"batch_size": "4"}, "")
    log.describe(["a.gd", "c.gd"], {"batch_size": "8"}, "")
    log.describe([], {"batch_size": "4"}, "willneed")
    got = log.content()
    assert (got.files, got.files_left_out) == (("b.gl", "a.gd", "c.gd"), 0)
    assert got.iterations == (
        {"batch_size": "8", "io": ""},
        {"batch_size": "4", "io": "willneed"},
    )
    for number in range(40):
        log.describe([], {"batch_size": str(number)}, "x")
    assert [options["batch_size"] for options in log.content().iterations] == [
        str(number) for number in range(24, 40)
    ]
    log.describe([f"{n}-" + "long" * 500 for n in range(100)], {"fanouts": "9" * 70_000}, "")
    got = log.content()
    assert got.files[0] == "b.gl"
    assert len(got.files) + got.files_left_out == 103
    assert got.files_left_out > 0
    log.remove()


WRITER = """
import sys, time, threading
from graphzero.loader.batch_log import BatchRecord, batch_log
from graphzero.loader.batch_totals import BatchTotals

def write():
    n = 0
    while True:
        n += 1
        batch_log().add(n % 100, BatchTotals(*[1] * 16), BatchRecord(n, *[n] * 14))

batch_log().describe(["/data/graph.gl"], {"batch_size": "4"}, "uring")
batch_log().add(3, BatchTotals(batches=5))
print("published", flush=True)
if "hammer" in sys.argv:
    for _ in range(2):
        threading.Thread(target=write, daemon=True).start()
sys.stdin.readline()
"""


@pytest.fixture
def writer():
    """Starts a process that publishes, and goes on with "hammer"."""
    started = []

    def start(*how):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, *how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        started.append(process)
        assert process.stdout.readline() == "published\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_another_process_reads_what_was_published_and_keeps_it(writer, folder):
    process = writer()
    reader = BatchLogReader(process.pid)
    got = reader.read()
    assert got.totals == BatchTotals(batches=5)
    assert got.files == ("/data/graph.gl",)
    assert logs_of([process.pid, 1 << 30])[process.pid].epochs == {3: BatchTotals(batches=5)}
    assert len(list(folder.iterdir())) == 1
    process.stdin.close()
    process.wait()
    assert not folder.exists()  # its end removes the file
    assert reader.read().totals == BatchTotals(batches=5)
    assert logs_of([process.pid]) == {}
    reader.close()


def test_a_reader_sees_consistent_values_while_others_write(writer):
    process = writer("hammer")
    reader = BatchLogReader(process.pid)
    seen = set()
    while len(seen) < 60:
        got = reader.read()
        assert got is not None, reader.unknown
        total = got.earlier
        for sums in got.epochs.values():
            total = total + sums
        assert total == got.totals
        # all counters but that of the first call are equal
        assert set((got.totals - BatchTotals(batches=5)).values) == {got.totals.seeds}
        assert all(set(record) == {record.batch} for record in got.records[-50:])
        assert len(got.records) == min(layout.RECORDS, got.totals.seeds)
        seen.add(got.totals.seeds)
    reader.close()


def test_a_killed_process_leaves_its_last_figures_to_those_who_watched_it(writer, folder):
    process = writer()
    watching, late = BatchLogReader(process.pid), BatchLogReader(process.pid)
    assert watching.read() is not None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(list(folder.iterdir())) == 1
    assert watching.read().totals.batches == 5
    assert late.read() is None
    assert "has ended" in late.unknown
    assert list(folder.iterdir()) == []  # who finds it removes it
    watching.close()


def test_the_first_publication_removes_what_dead_processes_left(writer, folder):
    process = writer()
    process.kill()
    process.wait()
    log = BatchLog()
    (path,) = folder.iterdir()
    assert path.name.startswith(f"{os.getpid()}-")
    log.remove()


def test_threads_add_side_by_side():
    def add():
        for _ in range(500):
            batch_log().add(0, BatchTotals(batches=1))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert batch_log().content().totals.batches == 2000


@pytest.mark.parametrize("how", ["a file", "full"])
def test_without_a_file_only_this_process_knows(how, folder, request, monkeypatch):
    if how == "a file":
        folder.write_text("a file, not a folder")
    else:
        disk = request.getfixturevalue("small_disk")
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        (disk / "filler").write_bytes(b"1" * (4 << 20))
    log = batch_log()
    log.add(0, BatchTotals(batches=2))
    assert "cannot be made" in log.unpublished
    assert BatchLogReader(os.getpid()).read().totals.batches == 2
    child = os.fork()
    if child == 0:
        reader = BatchLogReader(os.getppid())
        os._exit(0 if reader.read() is None and "has nothing in" in reader.unknown else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_that_has_not_iterated_says_so():
    reader = BatchLogReader(os.getpid())
    assert reader.read() is None
    assert "has not iterated" in reader.unknown


def test_a_forked_child_has_a_log_of_its_own(folder):
    batch_log().add(0, BatchTotals(batches=1))
    inherited = batch_log()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            inherited.remove()  # as its end does
            batch_log().add(0, BatchTotals(batches=10))
            theirs = logs_of([os.getppid(), os.getpid()])
            status = 0 if [log.totals.batches for log in theirs.values()] == [1, 10] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert batch_log().content().totals.batches == 1
    assert any(path.name.startswith(f"{os.getpid()}-") for path in folder.iterdir())


def test_another_version_is_refused(writer, folder):
    process = writer()
    (path,) = folder.iterdir()
    with open(path, "r+b") as file:
        file.seek(8)
        file.write((layout.VERSION + 1).to_bytes(8, sys.byteorder))
    reader = BatchLogReader(process.pid)
    assert reader.read() is None
    assert "another version" in reader.unknown


def test_a_file_of_an_earlier_process_of_the_same_number_is_not_taken(writer, folder):
    process = writer()
    (path,) = folder.iterdir()
    with open(path, "r+b") as file:
        file.seek(24)
        file.write((1).to_bytes(8, sys.byteorder))
    reader = BatchLogReader(process.pid)
    expected = None if sys.platform == "linux" else 5
    assert (reader.read() and reader.read().totals.batches) == expected


def test_a_signal_handler_that_interrupts_a_change_does_not_wait_for_it():
    log = BatchLog()
    original = log._add

    def interrupted(epoch, sums, record):
        log._add = original
        log.add(1, BatchTotals(batches=10))  # as a handler would
        assert log.content().totals.batches == 0
        original(epoch, sums, record)

    log._add = interrupted
    log.add(0, BatchTotals(batches=1))
    assert log.content().totals.batches == 11
    log.remove()


def test_an_exception_within_a_change_leaves_the_log_readable(writer):
    log = batch_log()
    original = log._write_row

    def fail(epoch, sums):
        raise KeyboardInterrupt

    log._write_row = fail
    with pytest.raises(KeyboardInterrupt):
        log.add(0, BatchTotals(batches=1))
    log._write_row = original
    log.add(0, BatchTotals(batches=2))
    child = os.fork()
    if child == 0:
        got = BatchLogReader(os.getppid()).read()
        os._exit(0 if got is not None and got.totals.batches in (2, 3) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_it_imports_no_torch():
    source = "import sys, graphzero.loader.batch_log; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", source], check=True, cwd="/")


@pytest.mark.parametrize("where", ["a link", "another user"])
def test_a_folder_of_somebody_else_is_not_touched(where, folder, tmp_path):
    target = folder if where == "another user" else tmp_path / "precious"
    target.mkdir()
    (target / "thesis.tex").write_text("mine")
    if where == "a link":
        folder.symlink_to(target)
    elif os.getuid() == 0:
        os.chown(folder, 12345, 12345)
    else:
        pytest.skip("only root can give a folder away")
    log = batch_log()
    assert "belongs to another user" in log.unpublished
    assert [path.name for path in target.iterdir()] == ["thesis.tex"]


def test_a_link_among_the_logs_is_not_followed(folder, tmp_path):
    folder.mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = folder / "1-0-link"
    link.symlink_to(pipe)
    assert logs_of([1]) == {}
    assert link.is_symlink()


def test_a_file_that_was_cut_short_keeps_its_last_figures(writer, folder):
    process = writer()
    reader = BatchLogReader(process.pid)
    assert reader.read().totals.batches == 5
    (path,) = folder.iterdir()
    os.truncate(path, 0)
    assert reader.read().totals.batches == 5
    assert BatchLogReader(process.pid).read() is None
    reader.close()
