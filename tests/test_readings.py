"""Readings of processes, memory groups, files and disks, against what the kernel says elsewhere."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import files
import numpy as np
import others
import psutil
import pytest

from graphzero import _core
from graphzero.report import limited_memory as making
from graphzero.report import readings
from graphzero.report.limited_memory import NoMemoryGroup, memory_group
from graphzero.report.readings import (
    CachedFiles,
    ProcessTree,
    device_bytes,
    find_group,
    mapped_files,
    read_environment,
    read_processes,
    versions_of,
)
from graphzero.report.recording import COUNTERS, ENDED, GroupReading
from graphzero.store import mapped_file as residency
from graphzero.store import tuning_file as machine
from graphzero.store.tuning_file import (
    TUNING_NAME,
    disk_of,
    mount_of,
    this_machine,
    tuning_content,
    write_tuning,
)

pytestmark = pytest.mark.no_asan  # pure Python; measures memory, starts processes
MB = 1 << 20
PAGE = mmap.PAGESIZE
PAGES = 61
TOUCHED = (0, 1, 7, 20, 21, 22, 40, 60)

linux_only = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")
root_only = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)


# --- processes


def taken(size, flags):
    block = mmap.mmap(-1, size, flags=flags | mmap.MAP_ANONYMOUS)
    for at in range(0, size, mmap.PAGESIZE):
        block[at] = 1
    return block


def reading_of(pid, **options):
    return next(one for one in read_processes(**options) if one.pid == pid)


@linux_only
def test_memory_is_that_of_the_kernel_and_a_fork_shares_it(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(48 * MB))
    with (
        taken(64 * MB, mmap.MAP_PRIVATE) as _own,
        taken(32 * MB, mmap.MAP_SHARED) as _shared,
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
    ):
        assert sum(mapped[at] for at in range(0, len(mapped), mmap.PAGESIZE)) > 0
        found = reading_of(os.getpid(), with_pss=True)
        with open("/proc/self/smaps_rollup") as lines:
            rollup = {line.split(":")[0]: line.split()[1] for line in lines if ":" in line[:30]}
        with others.child_of_this() as child:
            both = {one.pid: one for one in read_processes(with_pss=True)}
    assert found.anonymous == pytest.approx(int(rollup["Anonymous"]) * 1024, rel=0.02)
    assert min(found.file, found.anonymous - 16 * MB) > 48 * MB
    assert 32 * MB <= found.shared < 64 * MB
    assert found.rss == found.anonymous + found.file + found.shared
    assert found.pss == pytest.approx(int(rollup["Pss"]) * 1024, rel=0.02)
    parts = found.pss_anonymous + found.pss_file + found.pss_shared
    assert parts == pytest.approx(found.pss, abs=4096)
    assert found.pss_anonymous > 64 * MB
    # a page that two processes have counts in both, and once in the sum of proportional sizes
    pair = both[os.getpid()], both[child]
    assert sum(one.anonymous for one in pair) > found.anonymous + 60 * MB
    assert sum(one.pss_anonymous for one in pair) < found.pss_anonymous + 16 * MB


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

    def counted():
        io = psutil.Process().io_counters().read_bytes
        return reading_of(os.getpid()), io, device_bytes(tmp_path)

    before, io_before, device_before = counted()
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as mapped:
        os.close(descriptor)
        mapped.madvise(mmap.MADV_RANDOM)
        assert sum(mapped[at] for at in range(0, 4 * MB, mmap.PAGESIZE)) > 0
    after, io_after, device_after = counted()
    if io_after - io_before < 2 * MB:
        pytest.skip("this file system keeps pages that it was told to drop, or has no disk")
    assert after.read_bytes - before.read_bytes == io_after - io_before
    assert after.major_faults - before.major_faults >= 512
    used = psutil.Process().cpu_times()
    assert after.cpu_seconds == pytest.approx(used.user + used.system, abs=0.5)
    assert after.cpu_seconds > before.cpu_seconds > 0
    if device_before is not None:
        assert device_after - device_before >= io_after - io_before


def totals(found):
    """Of each counter over all processes, those that have ended included."""
    return {name: sum(getattr(one, name) for one in found) for name in COUNTERS}


@linux_only
def test_what_ended_children_have_counted_counts_once(tmp_path):
    """The kernel adds it to what their parent has counted, once the parent has waited for them."""
    path = tmp_path / "cold"
    path.write_bytes(os.urandom(4 * MB))
    os.close(drop(path))

    def work():
        path.read_bytes()
        end = time.process_time() + 0.15
        while time.process_time() < end:
            np.arange(1000).sum()

    tree = ProcessTree()
    before = totals(tree.read())
    with others.child_of_this(work) as child:
        found = tree.read()
        of_child = next(one for one in found if one.pid == child)
        during = totals(found)
    found = tree.read()
    after = totals(found)
    assert child not in [one.pid for one in found]
    assert found[-1].pid == ENDED
    assert (found[-1].rss, found[-1].pss) == (0, 0)
    assert of_child.cpu_seconds >= 0.1
    assert during["cpu_seconds"] >= before["cpu_seconds"] + 0.1
    for name in COUNTERS:
        assert before[name] <= during[name] <= after[name]
    most = during["read_bytes"] - before["read_bytes"] + MB
    assert after["read_bytes"] - before["read_bytes"] <= most  # not once more
    # also of children that no reading has seen
    os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", "sum(range(10**7))"], {}), 0)
    assert totals(tree.read())["cpu_seconds"] > after["cpu_seconds"]


@linux_only
@root_only
def test_processes_and_files_of_other_users_are_known_in_part(public_folder):
    path, parent = public_folder / "file", os.getpid()
    path.write_bytes(bytes(4 * PAGE))
    path.chmod(0o644)
    reasons: dict[str, str] = {}

    def look():
        found = read_processes(parent, with_pss=True, unknown=reasons)
        mapped = mapped_files([parent], unknown=reasons)
        cached = CachedFiles([path], reasons).read(1)[0]
        return [asdict(found[0]), mapped, cached.page_cache, cached.residency, reasons]

    found, mapped, *cached, reasons = others.as_nobody(look)
    figures = ("read_bytes", "pss", "pss_anonymous", "pss_file", "pss_shared")
    assert {name: found[name] for name in figures} == dict.fromkeys(figures)
    assert min(found["rss"], found["anonymous"], found["cpu_seconds"]) > 0
    assert (mapped, cached) == ([], [None, None])
    assert "owners and writers" in reasons.pop(f"page_cache {path}")
    reason = f"pid {parent} belongs to another user: run as that user or as root"
    assert reasons == dict.fromkeys((*figures, "files"), reason)


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
    workers = sorted(name for name in names.values() if name.startswith("worker "))
    assert (names[os.getpid()], names[sleeping.pid]) == ("main", "sleep")
    assert workers == [f"worker {i + 1}" for i in range(len(workers))]
    assert {names[one], names[two]} <= set(workers)
    with others.child_of_this() as three:  # the names of those that have ended are not used again
        later = {found.pid: found.name for found in tree.read()}
    assert later[three] == f"worker {len(workers) + 1}"


@linux_only
def test_processes_that_have_ended_are_left_out():
    child = os.fork()
    if child == 0:
        os._exit(0)
    while psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.005)
    assert child not in [one.pid for one in read_processes()]  # a zombie
    assert read_processes(child) == ()
    os.waitpid(child, 0)
    unknown: dict[str, str] = {}
    assert read_processes(child, with_pss=True, unknown=unknown) == ()
    assert str(child) in unknown["processes"]


def test_without_proc_psutil_tells_what_it_knows(tmp_path, monkeypatch):
    """As on macOS; and what the system refuses to tell has a reason."""

    class Info:
        rss, pageins = 5_000_000, 17

    def refuse(self):
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(readings, "PROC", tmp_path)
    monkeypatch.setattr(psutil.Process, "oneshot", lambda self: nullcontext())
    monkeypatch.setattr(psutil.Process, "memory_info", lambda self: Info())
    monkeypatch.delattr(psutil.Process, "io_counters", raising=False)
    unknown: dict[str, str] = {}
    found = read_processes(with_pss=True, unknown=unknown)[0]
    assert (found.rss, found.major_faults) == (5_000_000, 17)
    assert found.cpu_seconds > 0
    assert (found.anonymous, found.file, found.shared, found.read_bytes) == (None,) * 4
    assert {name for name, value in asdict(found).items() if value is None} == set(unknown)
    monkeypatch.setattr(psutil.Process, "memory_info", refuse)
    found = read_processes(unknown=unknown)[0]
    assert (found.rss, found.major_faults) == (None, None)
    assert str(os.getpid()) in unknown["rss"]
    assert mapped_files([os.getpid()], unknown=unknown) == ()
    assert "does not tell" in unknown["files"]


# --- memory groups

# memory.stat of a group of version 1 with processes and a group below it, as Linux 6.18 wrote it
STAT_1 = """\
cache 9838592
rss 13414400
shmem 8933376
workingset_refault_file 4291
hierarchical_memory_limit 9223372036854771712
total_cache 1799368704
total_rss 22872064
total_shmem 9031680
total_workingset_refault_anon 7
total_workingset_refault_file 38046177
total_unevictable 20815872
"""
# The lines of version 2, as Documentation/admin-guide/cgroup-v2.rst of Linux 6.12 lists them.
STAT_2 = """\
anon 314572800
file 1610612736
kernel 25165824
shmem 67108864
inactive_file 1006632960
unevictable 0
slab_reclaimable 12582912
workingset_refault_anon 5
workingset_refault_file 987654
pgmajfault 54321
"""
EVENTS_2 = "low 0\nhigh 12\nmax 3456\noom 2\noom_kill 1\noom_group_kill 0\n"


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


NO_LIMIT = {1: 9223372036854771712, 2: "max"}


def make_group(folder, version, limit=None, kills=0):
    """The files of a group, as the kernel has them."""
    limit = NO_LIMIT[version] if limit is None else limit
    if version == 1:
        names = ("limit_in_bytes", "usage_in_bytes", "max_usage_in_bytes", "stat", "oom_control")
        kill_text = f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
        texts = (limit, 1850000000, 1900000000, STAT_1, kill_text)
    else:
        names = ("max", "current", "peak", "stat", "events")
        texts = (limit, 1950351360, 2000000000, STAT_2, EVENTS_2)
    write(folder, {f"memory.{name}": f"{text}\n" for name, text in zip(names, texts, strict=True)})


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Has `found(membership)`, a reading of pid 7, and `mount`."""

    class System:
        mount = tmp_path / "cgroup"

        def found(self, membership):
            write(tmp_path / "proc/7", {"cgroup": membership})
            self.unknown: dict[str, str] = {}
            group = find_group(7, unknown=self.unknown)
            return None if group is None else group.read(self.unknown), group

    monkeypatch.setattr(readings, "PROC", tmp_path / "proc")
    monkeypatch.setattr(readings, "MOUNT", tmp_path / "cgroup")

    (tmp_path / "cgroup").mkdir()
    return System()


FIGURES = {
    1: GroupReading(
        version=1,
        limit=4096 * MB,
        usage=1850000000,
        anonymous=22872064,
        file=1799368704 - 9031680,
        shared=9031680,
        refaults=38046177,
        kills=5,
        peak=1900000000,
    ),
    2: GroupReading(
        version=2,
        limit=4096 * MB,
        usage=1950351360,
        anonymous=314572800,
        file=1610612736 - 67108864,
        shared=67108864,
        refaults=987654,
        kills=1,
        peak=2000000000,
    ),
}


@pytest.mark.parametrize(
    ("version", "root", "line"), [(1, "memory", "9:name=systemd:/\n4:cpu,memory:"), (2, "", "0::")]
)
def test_figures_of_a_group(system, version, root, line):
    make_group(system.mount / root / "a", version, 4096 * MB, kills=5)
    assert system.found(f"{line}/a\n")[0] == FIGURES[version]
    assert system.unknown == {}
    # older kernels count refaults of both kinds together
    lead = "total_" if version == 1 else ""
    write(system.mount / root / "a", {"memory.stat": f"{lead}workingset_refault 12\n"})
    assert system.found(f"{line}/a\n")[0].refaults == 12


@pytest.mark.parametrize(
    ("limits", "bounding"),
    [
        ((None, None, None), "a/b"),  # its own
        ((None, 900, None), "a"),
        ((None, 900, 640), "a/b"),
        ((None, 640, 900), "a"),  # a limit beyond that of the group above never counts
        ((None, 640, 640), "a/b"),
        ((100, 640, 640), ""),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_of_nested_groups_the_tightest_counts(system, version, limits, bounding):
    root = system.mount / ("memory" if version == 1 else "")
    for name, limit in zip(("", "a", "a/b"), limits, strict=True):
        make_group(root / name, version, None if limit is None else limit * MB)
    reading, group = system.found("4:memory:/a/b\n" if version == 1 else "0::/a/b\n")
    assert group.folder == root / bounding
    assert reading.limit == min((limit * MB for limit in limits if limit), default=None)


def test_kills_in_groups_below_count(system):
    """Version 1 counts a kill only in the group of the process."""
    for name, kills in (("a", 1), ("a/b", 2), ("a/b/c", 4), ("a/other", 8)):
        make_group(system.mount / "memory" / name, 1, kills=kills)
    (system.mount / "memory/a/b/memory.limit_in_bytes").write_text(f"{MB}\n")
    assert system.found("4:memory:/a/b/c\n")[0].kills == 6


def test_missing_lines_and_files_have_a_reason(system):
    write(system.mount / "a", {"memory.current": "5\n", "memory.stat": "anon 4096\nfile 3\n"})
    reading, _ = system.found("0::/a\n")
    assert reading == GroupReading(version=2, usage=5, anonymous=4096)
    unknown = ("file", "shared", "refaults", "kills")
    assert set(system.unknown) == {f"group.{name}" for name in unknown}
    assert str(system.mount / "a") in system.unknown["group.kills"]


@pytest.mark.parametrize(
    ("membership", "reason"),
    [
        ("", "no memory control group that is visible"),
        ("4:memory:/a\n", "no memory control group that is visible"),
        ("0::/\n", "root group, whose memory version 2 does not count"),
    ],
)
def test_without_a_group_there_is_a_reason(system, membership, reason):
    assert system.found(membership) == (None, None)
    assert reason in system.unknown["group"]
    unknown: dict[str, str] = {}
    assert find_group(8, unknown=unknown) is None
    assert "no control groups" in unknown["group"]


# Takes so much memory, by argument, says so, and waits.
HOLDER = """
import mmap, signal, sys
block = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(block), mmap.PAGESIZE):
    block[at] = 1
print("holds", flush=True)
signal.pause()
"""


def test_a_real_group_says_what_its_processes_take(tmp_path):
    limit = 64 * MB
    try:
        made = memory_group(limit)
        with made as group:
            if group.folder is None:
                pytest.skip("a systemd scope, whose folder is not known")
            command = [*group.prefix, sys.executable, "-S", "-c", HOLDER]
            held = subprocess.Popen([*command, str(24 * MB)], stdout=subprocess.PIPE, cwd=tmp_path)
            try:
                assert held.stdout.readline() == b"holds\n"
                found = find_group(held.pid)
                assert (found.folder, found.interface.version) == (
                    group.folder,
                    int(group.kind[-1]),
                )
                reading = found.read()
                assert (reading.limit, reading.kills) == (limit, 0)
                assert 24 * MB <= reading.anonymous <= reading.usage <= limit
                with pytest.raises(subprocess.CalledProcessError):
                    subprocess.run([*command, str(100 * MB)], check=True, cwd=tmp_path)
                assert found.read().kills == group.kills() == 1
            finally:
                held.kill()
                held.communicate()
    except NoMemoryGroup as error:
        pytest.skip(str(error))
    assert not group.folder.exists()


MAKER = """
import sys
from graphzero.report import limited_memory
limited_memory._PREFIX = sys.argv[1]
with limited_memory.memory_group(64 << 20) as group:
    print(group.folder, flush=True)
    sys.stdin.read()
"""


def test_a_group_whose_maker_was_killed_is_removed_by_the_next(tmp_path, monkeypatch):
    pipe = subprocess.PIPE
    # Groups of tests that run beside this one are not looked at.
    prefix = f"graphzero-test{os.getpid()}-"
    monkeypatch.setattr(making, "_PREFIX", prefix)
    command = [sys.executable, "-c", MAKER, prefix]
    with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, text=True) as maker:
        folder = maker.stdout.readline().strip()
        if folder in ("", "None"):
            maker.kill()
            pytest.skip("no memory group whose folder is known can be made here")
        monkeypatch.setattr(making, "_MAKING_SECONDS", 0.0)
        with memory_group(64 * MB):
            assert Path(folder).exists()  # its maker lives, and may be about to use it
        maker.kill()
        maker.wait()
        assert Path(folder).exists()
        monkeypatch.setattr(making, "_MAKING_SECONDS", 60.0)
        with memory_group(64 * MB):
            assert Path(folder).exists()  # so young that it may not have been locked yet
        monkeypatch.setattr(making, "_MAKING_SECONDS", 0.0)
        with memory_group(64 * MB):
            assert not Path(folder).exists()


# --- files


@pytest.fixture
def touched(tmp_path):
    """A file of which the page cache has some pages, and no others."""
    path = tmp_path / "touched.gd"
    path.write_bytes(os.urandom((PAGES - 1) * PAGE + 100))
    files.drop_from_cache(path)
    mapping = _core.Mapping(path)
    mapping.advise("random")
    if mapping.resident_pages():
        mapping.close()
        pytest.skip("this file system keeps pages that it was told to drop")
    view = np.frombuffer(mapping, dtype=np.uint8)
    assert sum(int(view[page * PAGE]) for page in TOUCHED) >= 0
    del view
    yield path, mapping
    mapping.close()


def expected(parts):
    pages = np.zeros(PAGES, dtype=int)
    pages[list(TOUCHED)] = 1
    return [part.tolist() for part in np.array_split(pages, parts)]


@linux_only
def test_readings_of_a_file(touched, tmp_path):
    path, mapping = touched
    last = PAGES - 1  # 100 bytes
    assert residency.resident_bytes(mapping) == len(TOUCHED) * PAGE
    cached = CachedFiles([path])
    assert cached.read()[0].page_cache == len(TOUCHED) * PAGE
    for parts in (1, 7, PAGES, 1000):
        (found,) = cached.read(parts)
        shares = [sum(part) / len(part) for part in expected(min(parts, PAGES))]
        assert found.residency == pytest.approx(shares)
    files.drop_from_cache(path)  # these were mapped, and stay
    mapping.advise("release")
    (found,) = cached.read(2)
    assert (found.page_cache, found.residency) == (0, (0.0, 0.0))
    assert (found.size, found.most_cached) == (last * PAGE + 100, len(TOUCHED) * PAGE)
    (tmp_path / "empty").write_bytes(b"")
    cached.add([tmp_path / "." / "empty", tmp_path / "empty"])
    nothing = cached.read(2)[1]
    assert (nothing.size, nothing.page_cache, nothing.residency) == (0, 0, ())
    with pytest.raises(OSError, match="no parts"):
        mapping.residency(0)


def test_files_that_are_replaced_grow_or_vanish(tmp_path):
    path, new = tmp_path / "file", tmp_path / "new"
    path.write_bytes(bytes(PAGE))
    unknown: dict[str, str] = {}
    cached = CachedFiles([path], unknown)
    assert cached.read(1)[0].size == PAGE
    new.write_bytes(bytes(3 * PAGE))
    os.replace(new, path)
    assert cached.read(1)[0].size == 3 * PAGE
    with open(path, "ab") as file:
        file.write(bytes(PAGE))
    assert cached.read(1)[0].size == 4 * PAGE
    assert unknown == {}
    path.unlink()
    assert cached.read() == ()
    assert unknown == {f"page_cache {path}": "the file was deleted"}
    path.write_bytes(bytes(PAGE))
    assert cached.read(1)[0].size == PAGE
    cached.add([tmp_path])
    assert cached.read(1)[0].size == PAGE
    assert "cannot be opened" in unknown[f"page_cache {tmp_path}"]


@pytest.fixture
def public_folder():
    """A folder that other users may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


# On a file system over another, cachestat says that nothing is in memory.
STACKED = """
from graphzero import _core
mapping = _core.Mapping("merged/file")
try:
    mapping.residency(2, "cachestat")
    print("believed")
except OSError:
    print(mapping.residency(2).tolist(), mapping.residency(2, "mincore").tolist())
"""


@linux_only
@root_only
def test_stacked_file_systems_are_asked_page_by_page(public_folder):
    for name in ("lower", "upper", "work", "merged"):
        (public_folder / name).mkdir()
    (public_folder / "lower/file").write_bytes(os.urandom(10 * PAGE))
    (public_folder / "program.py").write_text(STACKED)
    mount = "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged"
    enter = ["unshare", "--mount", "sh", "-c"]  # the mount vanishes with the process
    try:
        tried = subprocess.run([*enter, mount], cwd=public_folder, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if tried.returncode != 0:
        pytest.skip(f"no overlay file system here: {tried.stderr.decode()}")
    done = subprocess.run(
        [*enter, f"{mount} && {sys.executable} program.py"],
        cwd=public_folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout == "[5, 5] [5, 5]\n"


@linux_only
def test_files_that_processes_have_mapped(tmp_path):
    names = ("graph.gl", "features.gd", "deleted.gd", "rows.npy", "other.bin", "with blank.gd")
    for name in names:
        (tmp_path / name).write_bytes(bytes(PAGE))
    (tmp_path / "link.gd").symlink_to(tmp_path / "features.gd")

    def map_all():
        return [_core.Mapping(tmp_path / name) for name in (*names, "link.gd")]

    unknown: dict[str, str] = {}
    with others.child_of_this(map_all) as one, others.child_of_this(map_all) as two:
        (tmp_path / "deleted.gd").unlink()
        found = mapped_files([one, two], unknown=unknown)
    expected = {"graph.gl", "features.gd", "rows.npy", "with blank.gd"}
    assert sorted(found) == sorted(str(tmp_path / name) for name in expected)
    assert unknown == {}
    assert mapped_files([one], unknown=unknown) == ()  # it has ended
    assert unknown == {}


# --- disks


@pytest.fixture
def disks(tmp_path, monkeypatch):
    """A function that adds disks to a made-up ``/sys``, and the counters of disks by name."""
    blocks = tmp_path / "sys/dev/block"
    blocks.mkdir(parents=True)
    monkeypatch.setattr(machine, "_BLOCK_DEVICES", blocks)
    monkeypatch.setattr(readings, "_disk_of", machine.disk_of)
    counters = {}
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: counters)

    def add(name, number=None, read_bytes=None, parent="", **texts):
        folder = tmp_path / "sys/block" / parent / name
        folder.mkdir(parents=True, exist_ok=True)
        if read_bytes is not None:
            counters[name] = SimpleNamespace(read_bytes=read_bytes)
        for path, text in texts.items():
            place, _, file = path.rpartition("__")
            write(folder / place, {file: f"{text}\n"})
        if number is not None:
            (blocks / f"{os.major(number)}:{os.minor(number)}").symlink_to(folder)

    return add, counters


def test_a_partition_counts_as_its_disk(tmp_path, disks):
    add, counters = disks
    add("sda", read_bytes=2048, device__model="WDC WD40  ")
    add("sda1", tmp_path.stat().st_dev, read_bytes=1024, parent="sda", partition=1)
    assert device_bytes(tmp_path) == 2048
    assert read_environment(tmp_path).disk == "WDC WD40"
    counters.clear()
    unknown: dict[str, str] = {}
    assert device_bytes(tmp_path, unknown) is None
    assert "sda" in unknown["device_bytes"]


def test_without_a_disk_below_sys(tmp_path, monkeypatch, disks):
    """Systems other than Linux may have a single disk."""
    disks[1]["disk0"] = SimpleNamespace(read_bytes=4096)
    unknown: dict[str, str] = {}
    assert device_bytes(tmp_path, unknown) is None
    assert "not on one disk" in unknown["device_bytes"]
    monkeypatch.setattr(readings.platform, "system", lambda: "Darwin")
    assert device_bytes(tmp_path) == 4096


def test_the_innermost_mount_counts(monkeypatch):
    mounts = [("/", "ext4"), ("/usr", "xfs"), ("/usr", "btrfs"), ("/us", "no")]
    found = [SimpleNamespace(mountpoint=point, fstype=kind) for point, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: found)
    assert mount_of("/usr/anything").fstype == "btrfs"  # the later of two at one place
    assert mount_of("/x").fstype == "ext4"
    del found[0]
    assert mount_of("/") is None


def test_environment(tmp_path):
    unknown: dict[str, str] = {}
    found = read_environment(tmp_path, unknown)
    assert found.cpu
    assert 1 <= found.cores <= psutil.cpu_count()
    assert found.system.split()[0] in ("Linux", "Darwin")
    assert found.versions["python"] == sys.version.split()[0]
    assert set(found.versions) >= {"numpy", "torch"}
    mount, disk = mount_of(tmp_path), disk_of(tmp_path)
    assert found.file_system == mount.fstype
    assert (found.disk is None) == (disk is None) == ("disk" in unknown)
    assert versions_of(["no-such-package"]) == {"no-such-package": None}


@pytest.mark.parametrize(
    ("known", "content", "rate", "reason"),
    [
        ({}, {"bytes_per_second": 2e8}, 2e8, None),
        ({"cpu": "another"}, {"bytes_per_second": 2e8}, None, "of another machine: processor"),
        (None, None, None, "graphzero tune"),
    ],
)
def test_the_rate_of_the_disk_is_that_which_tune_has_measured(
    tmp_path, known, content, rate, reason
):
    if known is not None:
        known = replace(this_machine(tmp_path), **known)
        fields = {
            "date": "2026-11-22T10:00:00+00:00",
            "prefetch": {},
            "memory_limit": None,
            "available": 1,
        }
        write_tuning(
            tmp_path / TUNING_NAME,
            tuning_content(known, **fields, dataset="", disk_rate=content),
        )
    unknown: dict[str, str] = {}
    assert read_environment(tmp_path / "features.gd", unknown).disk_rate == rate
    assert (reason is None) == ("disk_rate" not in unknown)
    assert (reason or "") in unknown.get("disk_rate", "")
