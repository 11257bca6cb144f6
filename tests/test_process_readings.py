"""Readings of processes, against what the kernel and psutil say elsewhere."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from dataclasses import asdict

import numpy as np
import others
import psutil
import pytest

from graphzero.report.readings import process_files, processes
from graphzero.report.readings.counters import Counters
from graphzero.report.readings.processes import ProcessTree, read_processes
from graphzero.report.recording import ProcessReading

pytestmark = pytest.mark.no_asan  # pure Python; measures memory, starts processes
MB = 1 << 20

linux_only = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")
root_only = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)


def touched(size, flags):
    block = mmap.mmap(-1, size, flags=flags | mmap.MAP_ANONYMOUS)
    for at in range(0, size, mmap.PAGESIZE):
        block[at] = 1
    return block


def reading_of(pid, **options):
    return next(one for one in read_processes(**options) if one.pid == pid)


def smaps(pid):
    """(anonymous, file, shared) bytes, added up over all mappings."""
    anonymous = file = shared = 0
    of_shared = False
    with open(f"/proc/{pid}/smaps") as lines:
        for line in lines:
            fields = line.split()
            if not fields[0].endswith(":"):
                path = fields[5] if len(fields) > 5 else ""
                of_shared = path.startswith(("/dev/zero", "/dev/shm", "/memfd:", "/SYSV"))
                own = 0
            elif fields[0] == "Rss:":
                resident = int(fields[1]) * 1024
            elif fields[0] == "Anonymous:":
                own = int(fields[1]) * 1024
                anonymous += own
                if of_shared:
                    shared += resident - own
                else:
                    file += resident - own
    return anonymous, file, shared


@linux_only
def test_the_split_is_that_of_smaps(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(48 * MB))
    with (
        touched(64 * MB, mmap.MAP_PRIVATE) as _own,
        touched(32 * MB, mmap.MAP_SHARED) as _shared,
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
    ):
        assert sum(mapped[at] for at in range(0, len(mapped), mmap.PAGESIZE)) > 0
        found = reading_of(os.getpid(), with_pss=True)
        anonymous, of_files, shared = smaps(os.getpid())
        with open("/proc/self/smaps_rollup") as lines:
            rollup = {line.split(":")[0]: line.split()[1] for line in lines if ":" in line[:30]}
    assert found.anonymous == pytest.approx(anonymous, rel=0.02)
    assert found.file == pytest.approx(of_files, rel=0.02)
    assert found.shared == pytest.approx(shared, rel=0.02)
    assert found.anonymous == pytest.approx(int(rollup["Anonymous"]) * 1024, rel=0.02)
    assert found.rss == found.anonymous + found.file + found.shared
    assert found.pss == pytest.approx(int(rollup["Pss"]) * 1024, rel=0.02)
    parts = found.pss_anonymous + found.pss_file + found.pss_shared
    assert parts == pytest.approx(found.pss, abs=4096)
    assert min(found.pss_anonymous, found.uss) > 64 * MB
    assert found.pss_shared > 31 * MB


@linux_only
def test_pss_counts_what_a_fork_shares_once():
    with touched(64 * MB, mmap.MAP_PRIVATE) as _own:
        before = reading_of(os.getpid(), with_pss=True)
        with others.child_of_this() as child:
            both = {one.pid: one for one in read_processes(with_pss=True)}
    pair = both[os.getpid()], both[child]
    assert sum(one.anonymous for one in pair) > before.anonymous + 60 * MB
    assert sum(one.pss_anonymous for one in pair) < before.pss_anonymous + 16 * MB
    assert pair[1].uss < before.uss - 60 * MB


@linux_only
def test_a_cheap_reading_leaves_pss_out():
    unknown: dict[str, str] = {}
    found = asdict(reading_of(os.getpid(), unknown=unknown))
    left_out = {"pss", "pss_anonymous", "pss_file", "pss_shared", "uss"}
    assert {name for name, value in found.items() if value is None} == left_out
    assert unknown == {}


def drop(path):
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return descriptor


@linux_only
def test_counters_are_those_of_the_kernel(tmp_path):
    """Cold pages of a mapped file: each fault waits for the disk."""
    path = tmp_path / "cold"
    path.write_bytes(os.urandom(4 * MB))
    descriptor = drop(path)
    before, io_before = reading_of(os.getpid()), psutil.Process().io_counters().read_bytes
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as mapped:
        os.close(descriptor)
        mapped.madvise(mmap.MADV_RANDOM)
        assert sum(mapped[at] for at in range(0, 4 * MB, mmap.PAGESIZE)) > 0
    after, io_after = reading_of(os.getpid()), psutil.Process().io_counters().read_bytes
    if io_after - io_before < 2 * MB:
        pytest.skip("this file system keeps pages that it was told to drop, or has no disk")
    assert after.read_bytes - before.read_bytes == io_after - io_before
    assert after.major_faults - before.major_faults >= 512
    used = psutil.Process().cpu_times()
    assert after.cpu_seconds == pytest.approx(used.user + used.system, abs=0.5)
    assert after.cpu_seconds > before.cpu_seconds > 0


@linux_only
def test_what_a_child_has_read_counts_once_after_its_parent_has_waited_for_it(tmp_path):
    """The kernel adds it to what the parent has read."""
    path = tmp_path / "cold"
    path.write_bytes(os.urandom(4 * MB))
    os.close(drop(path))
    tree, alone = ProcessTree(), psutil.Process().io_counters().read_bytes
    main = next(one for one in tree.read() if one.pid == os.getpid())
    with others.child_of_this(path.read_bytes) as child:
        read = next(one for one in tree.read() if one.pid == child).read_bytes
        total = tree.counters.read_bytes
    if psutil.Process().io_counters().read_bytes - alone < 2 * MB:
        pytest.skip("this file system keeps pages that it was told to drop, or has no disk")
    after = next(one for one in tree.read() if one.pid == os.getpid())
    assert (after.read_bytes - main.read_bytes, tree.counters.ended.read_bytes) == (0, read)
    assert tree.counters.read_bytes == total


@linux_only
def test_names():
    tree = ProcessTree()
    with others.child_of_this() as one, others.child_of_this() as two:
        sleeping = subprocess.Popen(["sleep", "60"])
        try:
            while psutil.Process(sleeping.pid).name() != "sleep":  # not yet what it becomes
                time.sleep(0.01)
            names = {found.pid: found.name for found in tree.read()}
        finally:
            sleeping.kill()
            sleeping.wait()
    workers = [name for name in names.values() if name.startswith("worker ")]
    assert (names[os.getpid()], names[sleeping.pid]) == ("main", "sleep")
    assert workers == [f"worker {i + 1}" for i in range(len(workers))]
    assert {names[one], names[two]} <= set(workers)
    with others.child_of_this() as three:  # the names of those that have ended are not used again
        later = {found.pid: found.name for found in tree.read()}
    assert later[three] == f"worker {len(workers) + 1}"


@pytest.mark.parametrize(
    ("commands", "names"),
    [
        ([("bash", "bash run.sh"), ("python3", "python3 train.py")], ["bash", "main"]),
        (
            [("pt_main_thread", "/opt/bin/python t.py"), ("pt_data_worker", "")],
            ["main", "worker 1"],
        ),
        (
            [
                ("python", "python a.py"),
                ("python", "python -c from multiprocessing.resource_tracker import main;main(5)"),
                ("python", "python -c from multiprocessing.forkserver import main; main(3)"),
                ("python", "python -c from multiprocessing.forkserver import main; main(3)"),
                ("python", "python -c from multiprocessing.spawn import spawn_main"),
            ],
            ["main", "resource tracker", "fork server", "worker 1", "worker 2"],
        ),
    ],
)
def test_names_of_helpers(monkeypatch, commands, names):
    parents = {i: (0, 0, 0, 2, 0)[i] for i in range(len(commands))}
    monkeypatch.setattr(processes, "descendants", lambda pid, proc: parents)
    monkeypatch.setattr(processes, "_command", lambda pid: commands[pid])
    monkeypatch.setattr(
        process_files.Kernel, "read", lambda self, pid, unknown: process_files.Figures(7.0, {})
    )
    monkeypatch.setattr(
        process_files.System, "read", lambda self, pid, unknown: process_files.Figures(7.0, {})
    )
    assert [found.name for found in ProcessTree(0).read()] == names


@linux_only
def test_processes_that_have_ended_are_left_out():
    unknown: dict[str, str] = {}
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.close(reader)
    os.close(writer)
    while psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.005)
    for proc in (process_files.PROC, process_files.PROC / "none"):
        assert child not in [one.pid for one in read_processes(proc=proc)]  # a zombie
        assert read_processes(child, unknown=unknown, proc=proc) == ()
    os.waitpid(child, 0)
    for proc in (process_files.PROC, process_files.PROC / "none"):
        unknown = {}
        assert read_processes(child, with_pss=True, unknown=unknown, proc=proc) == ()
        assert str(child) in unknown["processes"]


@linux_only
def test_children_are_found_with_and_without_lists_of_the_kernel(tmp_path):
    with others.child_of_this() as child:
        fast, slow = (
            processes.descendants(os.getpid()),
            processes.descendants(os.getpid(), tmp_path),
        )
    assert fast[child] == slow[child] == os.getpid()
    assert next(iter(fast)) == next(iter(slow)) == os.getpid()


@linux_only
@root_only
def test_processes_of_other_users_are_known_in_part():
    unknown: dict[str, str] = {}
    parent = os.getpid()

    def look():
        found = read_processes(parent, with_pss=True, unknown=unknown)
        return [asdict(found[0]), unknown]

    found, reasons = others.as_nobody(look)
    figures = ("read_bytes", "pss", "pss_anonymous", "pss_file", "pss_shared", "uss")
    reason = f"pid {parent} belongs to another user: run as that user or as root"
    assert {name: found[name] for name in figures} == dict.fromkeys(figures)
    assert reasons == dict.fromkeys(figures, reason)
    assert min(found["rss"], found["anonymous"], found["cpu_seconds"]) > 0


@pytest.mark.skipif(os.name != "posix", reason="no such processes")
def test_without_proc_psutil_tells_what_it_knows(tmp_path, monkeypatch):
    class Info:
        rss, pageins = 5_000_000, 17

    monkeypatch.delattr(psutil.Process, "io_counters", raising=False)  # as on macOS
    monkeypatch.setattr(psutil.Process, "memory_info", lambda self: Info())
    unknown: dict[str, str] = {}
    found = read_processes(with_pss=True, unknown=unknown, proc=tmp_path / "none")[0]
    assert (found.rss, found.major_faults) == (5_000_000, 17)
    assert found.cpu_seconds > 0
    assert (found.anonymous, found.file, found.shared, found.read_bytes) == (None,) * 4
    assert {"anonymous", "file", "shared", "read_bytes"} <= set(unknown)
    absent = {name for name, value in asdict(found).items() if value is None}
    assert absent == set(unknown)


def test_psutil_refusing_is_a_reason(tmp_path, monkeypatch):
    def refuse(self):
        raise psutil.AccessDenied(self.pid)

    for name in ("memory_info", "memory_full_info", "io_counters"):
        monkeypatch.setattr(psutil.Process, name, refuse, raising=False)
    unknown: dict[str, str] = {}
    found = read_processes(with_pss=True, unknown=unknown, proc=tmp_path / "none")[0]
    assert (found.rss, found.read_bytes, found.pss, found.uss) == (None,) * 4
    assert str(os.getpid()) in unknown["rss"]
    assert found.cpu_seconds > 0


@pytest.fixture
def old_proc(tmp_path):
    """The files of process 7, and of this one, as a kernel from before 4.5 has them."""
    folder = tmp_path / "7"
    folder.mkdir()
    (tmp_path / "self").mkdir()
    (folder / "status").write_text("Name:\tx\nVmRSS:\t    1744 kB\n")
    numbers = " ".join(str(i) for i in range(4, 53))
    (folder / "stat").write_text(f"7 (a (b) c) S {numbers}\n")
    (folder / "io").write_text("rchar: 9\nread_bytes: 8192\n")
    rollup = "00-ff ---p 00 00:00 0 [rollup]\nRss: 8 kB\nPss: 4 kB\n"
    for path in (folder, tmp_path / "self"):
        (path / "smaps_rollup").write_text(rollup)
    return tmp_path


def test_figures_of_old_kernels(old_proc):
    unknown: dict[str, str] = {}
    kernel = process_files.Kernel(old_proc)
    found = kernel.read(7, unknown)
    assert found.started == 22
    assert found.values == {
        "major_faults": 12,
        "cpu_seconds": (14 + 15) / os.sysconf("SC_CLK_TCK"),
        "rss": 1744 * 1024,
        "read_bytes": 8192,
    }
    ticks = os.sysconf("SC_CLK_TCK")
    assert found.collected == {"major_faults": 13, "cpu_seconds": (16 + 17) / ticks}
    assert kernel.read_pss(7, unknown) == {"pss": 4096, "uss": 0}
    parts = ("anonymous", "file", "shared")
    assert set(unknown) == {*parts, *(f"pss_{name}" for name in parts)}


def test_files_that_a_kernel_does_not_have(old_proc):
    unknown: dict[str, str] = {}
    kernel = process_files.Kernel(old_proc)
    for name in ("io", "smaps_rollup"):
        (old_proc / "7" / name).unlink()
    assert "read_bytes" not in kernel.read(7, unknown).values
    assert kernel.read_pss(7, unknown) == {}
    assert {"read_bytes", "pss", "uss"} <= set(unknown)


@linux_only
def test_pss_comes_from_psutil_where_the_kernel_does_not_add_it_up(old_proc):
    (old_proc / "self/smaps_rollup").unlink()
    unknown: dict[str, str] = {}
    found = process_files.Kernel(old_proc).read_pss(os.getpid(), unknown)
    with open("/proc/self/smaps_rollup") as lines:
        pss = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    assert found["pss"] == pytest.approx(pss, rel=0.02)
    assert set(found) == {"pss", "uss"}
    assert set(unknown) == {"pss_anonymous", "pss_file", "pss_shared"}


def process(pid, faults=0, read=0, cpu=0.0):
    return ProcessReading(pid, "x", major_faults=faults, read_bytes=read, cpu_seconds=cpu)


def totals(counters):
    return counters.major_faults, counters.read_bytes, counters.cpu_seconds


def test_sums_keep_what_ended_processes_have_counted():
    counters = Counters()
    assert totals(counters) == (0, 0, 0)
    counters.update([process(1, 5, 100, 1.0), process(2, 3, 50, 0.5)])
    assert totals(counters) == (8, 150, 1.5)
    counters.update([process(1, 6, 100, 1.25)])
    assert totals(counters) == (9, 150, 1.75)
    ended = counters.ended
    assert (ended.pid, ended.rss, ended.pss) == (0, 0, 0)
    assert (ended.major_faults, ended.read_bytes, ended.cpu_seconds) == (3, 50, 0.5)
    counters.update([process(1, 6, 100, 1.25), process(2, 4, 50, 0.5)])  # it was overlooked
    assert totals(counters) == (10, 150, 1.75)
    assert counters.ended.major_faults == 0
    counters.update([process(1, 6, 100, 1.25), process(2, 4, 20, 0.1)])  # another one, of its pid
    assert totals(counters) == pytest.approx((14, 170, 1.85))
    counters.update([])
    assert totals(counters) == pytest.approx((14, 170, 1.85))
    assert counters.ended.read_bytes == 170


def test_sums_are_unknown_where_one_figure_is():
    counters = Counters()
    counters.update([process(1, 5, None, 1.0), process(2, 3, 50, 0.5)])
    assert totals(counters) == (8, None, 1.5)
    counters.update([process(2, None, 60, 0.5)])  # refused for once: the last value counts
    assert totals(counters) == (8, None, 1.5)
    assert counters.ended.read_bytes is None


@linux_only
def test_work_of_children_that_have_ended_stays():
    def work():
        end = time.process_time() + 0.15
        while time.process_time() < end:
            np.arange(1000).sum()

    tree = ProcessTree()
    with others.child_of_this(work) as child:
        of_child = next(one for one in tree.read() if one.pid == child)
        before = tree.counters.cpu_seconds
    assert child not in [one.pid for one in tree.read()]
    assert of_child.cpu_seconds >= 0.1
    assert tree.counters.cpu_seconds >= before
    assert tree.counters.ended.cpu_seconds >= of_child.cpu_seconds
