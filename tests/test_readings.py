"""Readings of processes, memory groups, files and disks, against what the kernel says elsewhere."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import files
import numpy as np
import others
import psutil
import pytest
from memory_groups import group

import graphzero as gz
from graphzero import _core
from graphzero.report import readings
from graphzero.report.recording import GroupReading
from graphzero.store import mapped_file as residency

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


COUNTERS = ("major_faults", "read_bytes", "cpu_seconds")


def totals(found):
    """Of each counter over all processes."""
    return {name: sum(getattr(one, name) for one in found) for name in COUNTERS}


@linux_only
def test_what_ended_children_have_counted_counts_once(tmp_path):
    """The kernel adds it to what their parent has counted, once the parent has waited for them."""
    path = tmp_path / "cold"
    path.write_bytes(os.urandom(4 * MB))
    files.drop_from_cache(path)

    def work():
        path.read_bytes()
        end = time.process_time() + 0.15
        while time.process_time() < end:
            np.arange(1000).sum()

    before = totals(readings.read_processes())
    with others.child_of_this(work) as child:
        found = readings.read_processes()
        during = totals(found)
        assert {one.pid for one in found} >= {os.getpid(), child}
    found = readings.read_processes()
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
        found = asdict(readings.read_processes(parent, with_pss=True)[0])
        return [found, readings.mapped_files([parent]), asdict(readings.read_files([path])[0])]

    found, mapped, cached = others.as_nobody(look)
    assert {found[name] for name in ("read_bytes", "pss", "pss_anonymous", "pss_file")} == {None}
    assert min(found["rss"], found["anonymous"], found["cpu_seconds"]) > 0
    assert mapped == []
    assert (cached["size"], cached["page_cache"], cached["residency"]) == (4 * PAGE, None, None)


@linux_only
def test_processes_that_have_ended_are_left_out():
    with subprocess.Popen(["true"]) as child:
        while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.005)
        assert child.pid not in [one.pid for one in readings.read_processes()]
        assert readings.read_processes(child.pid) == ()
    assert readings.read_processes(child.pid, with_pss=True) == ()


def test_without_proc_psutil_tells_what_it_knows(tmp_path, monkeypatch):
    """As on macOS."""
    monkeypatch.setattr(readings, "PROC", tmp_path)
    monkeypatch.delattr(psutil.Process, "io_counters", raising=False)
    found = asdict(readings.read_processes(with_pss=True)[0])
    assert {name for name, value in found.items() if value is not None} == {
        *("pid", "name", "rss", "cpu_seconds")
    }
    assert readings.mapped_files([os.getpid()]) == []
    assert readings.read_group(os.getpid()) is None


# --- memory groups


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.fixture
def found(tmp_path, monkeypatch):
    """A function that reads the group of pid 7, of which it gets the membership."""
    monkeypatch.setattr(readings, "PROC", tmp_path / "proc")
    monkeypatch.setattr(readings, "MOUNT", tmp_path)

    def found(membership):
        write(tmp_path / "proc/7", {"cgroup": membership})
        return readings.read_group(7)

    return found


@pytest.mark.parametrize(
    ("version", "root", "line", "beside"),
    [(1, "memory", "9:name=systemd:/\n4:cpu,memory:", 300), (2, "", "0::", 307)],
)
def test_figures_are_those_of_the_group_with_the_tightest_limit(
    found, tmp_path, version, root, line, beside
):
    # version 1 counts a kill only in the own group
    for name, limit, kills in (("a", 640, 2), ("a/b", 900, 5), ("a/c", 100, 8)):
        group(tmp_path / root / name, version, limit, private=100, shared=50, kills=kills)
    expected = GroupReading(640 * MB, (150 + beside) * MB, 300 * MB, kills=5)
    assert found(f"{line}/a/b\n") == expected


def test_missing_lines_and_groups_are_unknown(found, tmp_path):
    write(tmp_path / "a", {"memory.current": "5\n", "memory.stat": "anon 4096\nfile 3\n"})
    assert found("0::/a\n") == GroupReading(usage=5)
    for membership in ("", "4:memory:/b\n", "0::/\n"):
        assert found(membership) is None


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


@linux_only
def test_readings_of_a_file(touched, tmp_path):
    path, mapping = touched
    last = PAGES - 1  # 100 bytes
    assert residency.resident_bytes(mapping) == len(TOUCHED) * PAGE
    assert readings.read_files([path])[0].page_cache == len(TOUCHED) * PAGE
    for parts in (1, 7, PAGES, 1000):
        (found,) = readings.read_files([path], parts)
        in_memory = np.isin(np.arange(PAGES), TOUCHED)
        shares = [part.mean() for part in np.array_split(in_memory, min(parts, PAGES))]
        assert found.residency == pytest.approx(shares)
    files.drop_from_cache(path)  # these were mapped, and stay
    mapping.advise("release")
    (tmp_path / "empty").write_bytes(b"")
    # neither a folder nor a file that has gone
    cold, nothing = readings.read_files([path, tmp_path / "gone", tmp_path / "empty", tmp_path], 2)
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
        found = readings.mapped_files([one, two])
    expected = {"graph.gl", "features.gd", "rows.npy", "with blank.gd"}
    assert sorted(found) == sorted(str(tmp_path / name) for name in expected)
    assert readings.mapped_files([one]) == []  # it has ended


# --- disks


def test_the_device_below_the_innermost_mount_counts(tmp_path, monkeypatch):
    (tmp_path / "mapper").symlink_to(tmp_path / "sda1")
    mounts = [("/", "xfs", "/dev/sdb1"), (str(tmp_path), "xfs", "/dev/sdc1")]
    mounts.append((str(tmp_path), "ext4", str(tmp_path / "mapper")))  # the later of two
    mounts.append((str(tmp_path)[:-1], "no", "/dev/sdd1"))
    shown = [SimpleNamespace(mountpoint=m, fstype=kind, device=disk) for m, kind, disk in mounts]
    counters = {"sda1": SimpleNamespace(read_bytes=2048)}
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: counters)
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: shown)
    readings._device_of.cache_clear()
    try:
        assert readings.device_bytes(tmp_path) == 2048
        machine = readings.machine_of(tmp_path)
        assert (machine["disk"], machine["file_system"]) == (str(tmp_path / "mapper"), "ext4")
        counters.clear()
        assert readings.device_bytes(tmp_path) is None
    finally:
        readings._device_of.cache_clear()


def test_the_environment_is_the_machine_and_the_versions(tmp_path):
    environment = readings.read_environment(tmp_path)
    assert readings.machine_of(tmp_path).items() <= environment.items()
    assert environment["cpu"]
    assert 1 <= environment["cores"] <= psutil.cpu_count()
    assert environment["system"].split()[0] in ("Linux", "Darwin")
    assert environment["python"] == sys.version.split()[0]
    assert set(environment) >= {"numpy", "torch"}
    assert readings.read_environment(None)["disk"] is None


def test_the_order_of_nodes_is_unknown_once_others_have_joined(tmp_path):
    gz.build(tmp_path / "data", [[0, 1, 2], [1, 2, 0]]).close()
    paths = [str(tmp_path / "no.npy"), str(tmp_path / "data" / "graph.gl")]
    assert readings.order_of_nodes(paths) == "hot"
    assert readings.order_of_nodes(paths[:1]) is None
    gz.append(tmp_path / "data", [[3, 1, 0], [1, 2, 3]]).close()
    assert readings.order_of_nodes(paths) is None
