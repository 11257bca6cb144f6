"""Readings of processes, memory groups, files and disks, against what the kernel says elsewhere."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import files
import numpy as np
import others
import psutil
import pytest

from graphzero import _core
from graphzero.report import readings
from graphzero.report.limited_memory import NoMemoryGroup, memory_group
from graphzero.report.readings import (
    device_bytes,
    mapped_files,
    read_environment,
    read_files,
    read_group,
    read_processes,
)
from graphzero.report.recording import GroupReading
from graphzero.store import mapped_file as residency
from graphzero.store import tuning_file as machine
from graphzero.store.tuning_file import (
    TUNING_NAME,
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


def drop(path):
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return descriptor


COUNTERS = ("major_faults", "read_bytes", "cpu_seconds")


def totals(found):
    """Of each counter over all processes."""
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

    before = totals(read_processes())
    with others.child_of_this(work) as child:
        found = read_processes()
        during = totals(found)
        assert {one.pid for one in found} >= {os.getpid(), child}
    found = read_processes()
    after = totals(found)
    assert child not in [one.pid for one in found]
    assert during["cpu_seconds"] >= before["cpu_seconds"] + 0.1
    for name in COUNTERS:
        assert before[name] <= during[name] + 1e-6
        assert during[name] <= after[name] + 1e-6
    most = during["read_bytes"] - before["read_bytes"] + MB
    assert after["read_bytes"] - before["read_bytes"] <= most  # not once more


@linux_only
@root_only
def test_processes_and_files_of_other_users_are_known_in_part(public_folder):
    path, parent = public_folder / "file", os.getpid()
    path.write_bytes(bytes(4 * PAGE))
    path.chmod(0o644)

    def look():
        found = asdict(read_processes(parent, with_pss=True)[0])
        return [found, mapped_files([parent]), asdict(read_files([path])[0])]

    found, mapped, cached = others.as_nobody(look)
    assert {found[name] for name in ("read_bytes", "pss", "pss_anonymous", "pss_file")} == {None}
    assert min(found["rss"], found["anonymous"], found["cpu_seconds"]) > 0
    assert mapped == []
    assert (cached["size"], cached["page_cache"], cached["residency"]) == (4 * PAGE, None, None)


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
    assert read_processes(child, with_pss=True) == ()


def test_without_proc_psutil_tells_what_it_knows(tmp_path, monkeypatch):
    """As on macOS."""
    monkeypatch.setattr(readings, "PROC", tmp_path)
    monkeypatch.delattr(psutil.Process, "io_counters", raising=False)
    found = asdict(read_processes(with_pss=True)[0])
    assert {name for name, value in found.items() if value is not None} == {
        *("pid", "name", "rss", "cpu_seconds")
    }
    assert mapped_files([os.getpid()]) == []
    assert read_group(os.getpid()) is None


# --- memory groups

# memory.stat of a group of version 1 with processes and a group below it, and of version 2
STAT_1 = "cache 9838592\nshmem 8933376\ntotal_cache 1799368704\ntotal_shmem 9031680\n"
STAT_2 = "anon 314572800\nfile 1610612736\nshmem 67108864\nunevictable 0\n"
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
        names = ("limit_in_bytes", "usage_in_bytes", "stat", "oom_control")
        kill_text = f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
        texts = (limit, 1850000000, STAT_1, kill_text)
    else:
        names = ("max", "current", "stat", "events")
        texts = (limit, 1950351360, STAT_2, EVENTS_2)
    write(folder, {f"memory.{name}": f"{text}\n" for name, text in zip(names, texts, strict=True)})


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Has `found(membership)`, a reading of pid 7, and `mount`."""

    class System:
        mount = tmp_path / "cgroup"

        def found(self, membership):
            write(tmp_path / "proc/7", {"cgroup": membership})
            return read_group(7)

    monkeypatch.setattr(readings, "PROC", tmp_path / "proc")
    monkeypatch.setattr(readings, "MOUNT", tmp_path / "cgroup")

    (tmp_path / "cgroup").mkdir()
    return System()


FIGURES = {
    1: GroupReading(4096 * MB, 1850000000, 1799368704 - 9031680, kills=5),
    2: GroupReading(4096 * MB, 1950351360, 1610612736 - 67108864, kills=1),
}


@pytest.mark.parametrize(
    ("version", "root", "line"), [(1, "memory", "9:name=systemd:/\n4:cpu,memory:"), (2, "", "0::")]
)
def test_figures_of_a_group(system, version, root, line):
    make_group(system.mount / root / "a", version, 4096 * MB, kills=5)
    assert system.found(f"{line}/a\n") == FIGURES[version]


@pytest.mark.parametrize(
    "limits",
    [
        (None, None, None),
        (None, 900, 640),
        (None, 640, 900),  # a limit beyond that of the group above never counts
        (100, 640, 640),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_of_nested_groups_the_tightest_counts(system, version, limits):
    root = system.mount / ("memory" if version == 1 else "")
    for name, limit in zip(("", "a", "a/b"), limits, strict=True):
        make_group(root / name, version, None if limit is None else limit * MB)
    found = system.found("4:memory:/a/b\n" if version == 1 else "0::/a/b\n")
    assert found.limit == min((limit * MB for limit in limits if limit), default=None)


def test_kills_are_those_of_the_own_group(system):
    """Version 1 counts a kill only there."""
    for name, kills in (("a", 1), ("a/b", 2), ("a/b/c", 4), ("a/other", 8)):
        make_group(system.mount / "memory" / name, 1, kills=kills)
    (system.mount / "memory/a/b/memory.limit_in_bytes").write_text(f"{MB}\n")
    assert system.found("4:memory:/a/b/c\n").kills == 4


def test_missing_lines_and_groups_are_unknown(system):
    write(system.mount / "a", {"memory.current": "5\n", "memory.stat": "anon 4096\nfile 3\n"})
    assert system.found("0::/a\n") == GroupReading(usage=5)
    for membership in ("", "4:memory:/b\n", "0::/\n"):
        assert system.found(membership) is None


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
                reading = read_group(held.pid)
                assert (reading.limit, reading.kills) == (limit, 0)
                assert 24 * MB <= reading.usage <= limit
                with pytest.raises(subprocess.CalledProcessError):
                    subprocess.run([*command, str(100 * MB)], check=True, cwd=tmp_path)
                assert read_group(held.pid).kills == group.kills() == 1
            finally:
                held.kill()
                held.communicate()
    except NoMemoryGroup as error:
        pytest.skip(str(error))
    assert not group.folder.exists()


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
    assert read_files([path])[0].page_cache == len(TOUCHED) * PAGE
    for parts in (1, 7, PAGES, 1000):
        (found,) = read_files([path], parts)
        shares = [sum(part) / len(part) for part in expected(min(parts, PAGES))]
        assert found.residency == pytest.approx(shares)
    files.drop_from_cache(path)  # these were mapped, and stay
    mapping.advise("release")
    (tmp_path / "empty").write_bytes(b"")
    # neither a folder nor a file that has gone
    cold, nothing = read_files([path, tmp_path / "gone", tmp_path / "empty", tmp_path], 2)
    assert (cold.page_cache, cold.residency) == (0, [0.0, 0.0])
    assert cold.size == last * PAGE + 100
    assert (nothing.size, nothing.page_cache, nothing.residency) == (0, 0, [])
    with pytest.raises(OSError, match="no parts"):
        mapping.residency(0)


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

    with others.child_of_this(map_all) as one, others.child_of_this(map_all) as two:
        (tmp_path / "deleted.gd").unlink()
        found = mapped_files([one, two])
    expected = {"graph.gl", "features.gd", "rows.npy", "with blank.gd"}
    assert sorted(found) == sorted(str(tmp_path / name) for name in expected)
    assert mapped_files([one]) == []  # it has ended


# --- disks


def test_a_partition_counts_as_its_disk(tmp_path, monkeypatch):
    """In a made-up ``/sys``."""
    number, blocks = tmp_path.stat().st_dev, tmp_path / "sys/dev/block"
    counters = {name: SimpleNamespace(read_bytes=n) for name, n in {"sda": 2048, "sda1": 1}.items()}
    monkeypatch.setattr(machine, "_BLOCK_DEVICES", blocks)
    monkeypatch.setattr(readings, "_disk_of", machine.disk_of)
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: counters)
    assert device_bytes(tmp_path) is None
    model = tmp_path / "sys/block/sda/device/model"
    write(model.parent, {"model": "WDC WD40  \n"})
    write(tmp_path / "sys/block/sda/sda1", {"partition": "1\n"})
    blocks.mkdir(parents=True)
    link = blocks / f"{os.major(number)}:{os.minor(number)}"
    link.symlink_to(tmp_path / "sys/block/sda/sda1")
    assert device_bytes(tmp_path) == 2048
    assert this_machine(tmp_path).disk == "WDC WD40"
    model.unlink()
    assert this_machine(tmp_path).disk == "sda"
    counters.clear()
    assert device_bytes(tmp_path) is None


def test_the_innermost_mount_counts(monkeypatch):
    mounts = [("/", "ext4"), ("/usr", "xfs"), ("/usr", "btrfs"), ("/us", "no")]
    found = [SimpleNamespace(mountpoint=point, fstype=kind) for point, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: found)
    assert mount_of("/usr/anything").fstype == "btrfs"  # the later of two at one place
    assert mount_of("/x").fstype == "ext4"
    del found[0]
    assert mount_of("/") is None


@pytest.mark.parametrize(
    ("changes", "content", "rate"),
    [
        ({}, {"bytes_per_second": 2e8}, 2e8),
        ({}, None, None),
        ({"cpu": "another"}, {"bytes_per_second": 2e8}, None),
        (None, None, None),
    ],
)
def test_the_environment_has_the_rate_of_the_disk_that_tune_has_measured(
    tmp_path, changes, content, rate
):
    here = this_machine(tmp_path)
    if changes is not None:
        options = {"date": "2026-11-22T10:00:00", "prefetch": {}, "available": 1, "dataset": ""}
        found = tuning_content(replace(here, **changes), **options, disk_rate=content)
        write_tuning(tmp_path / TUNING_NAME, found)
    found = read_environment(tmp_path)
    assert found["disk_rate"] == rate
    assert {name: found[name] for name in asdict(here)} == asdict(here)
    assert here.cpu
    assert 1 <= here.cores <= psutil.cpu_count()
    assert here.file_system == mount_of(tmp_path).fstype
    assert found["system"].split()[0] in ("Linux", "Darwin")
    assert found["python"] == sys.version.split()[0]
    assert set(found) >= {"numpy", "torch"}
    assert read_environment(None)["disk"] is None
