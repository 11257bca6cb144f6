"""How much memory is left, from made-up control groups."""

from __future__ import annotations

import subprocess
import sys

import pytest

from graphzero.io import limits
from graphzero.io.limits import MemoryWatch, available_memory, cgroup_available_memory

MB = 1 << 20


def group(folder, limit, private, version, shared=0, high="max"):
    """A control group with so much private memory, and 300 MB of files."""
    folder.mkdir(parents=True, exist_ok=True)
    use = private + shared + 300 * MB
    cached = shared + 300 * MB
    if version == 1:
        (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
        (folder / "memory.usage_in_bytes").write_text(f"{use}\n")
        lines = {"total_cache": cached, "total_shmem": shared, "total_unevictable": 0}
    else:
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.high").write_text(f"{high}\n")
        (folder / "memory.current").write_text(f"{use + 7 * MB}\n")
        lines = {"file": cached, "shmem": shared, "unevictable": 0, "slab_reclaimable": 7 * MB}
    text = "".join(f"{name} {count}\n" for name, count in lines.items())
    (folder / "memory.stat").write_text(f"cache 5\n{text}oddity 1 2\n")


def left(tmp_path, membership):
    (tmp_path / "cgroup").write_text(membership)
    return cgroup_available_memory(tmp_path / "cgroup", tmp_path / "mount")


def test_version_1_counts_what_cannot_be_dropped(tmp_path):
    group(tmp_path / "mount/memory", 2**63 - 4096, 0, 1)
    group(tmp_path / "mount/memory/a", 900 * MB, 500 * MB, 1)
    group(tmp_path / "mount/memory/a/b", 640 * MB, 100 * MB, 1)
    assert left(tmp_path, "5:cpu,cpuacct:/\n4:memory:/a/b\n0::/\n") == 400 * MB


def test_version_2_has_the_least_of_all_levels(tmp_path):
    group(tmp_path / "mount/a", 900 * MB, 500 * MB, 2)
    group(tmp_path / "mount/a/b", "max", 100 * MB, 2)
    assert left(tmp_path, "0::/a/b\n") == 400 * MB


@pytest.mark.parametrize("version", [1, 2])
def test_shared_memory_counts(tmp_path, version):
    """Batches of DataLoader workers are in it, and the kernel cannot drop them."""
    mount = tmp_path / "mount" / ("memory/a" if version == 1 else "a")
    group(mount, 900 * MB, 100 * MB, version, shared=50 * MB)
    line = "4:memory:/a\n" if version == 1 else "0::/a\n"
    assert left(tmp_path, line) == 750 * MB


def test_locked_pages_and_memory_of_the_kernel_count(tmp_path):
    group(tmp_path / "mount/memory/a", 900 * MB, 100 * MB, 1)
    stat = tmp_path / "mount/memory/a/memory.stat"
    stat.write_text(stat.read_text().replace("unevictable 0", f"unevictable {40 * MB}"))
    (tmp_path / "mount/memory/a/memory.usage_in_bytes").write_text(str(410 * MB))
    assert left(tmp_path, "4:memory:/a\n") == (900 - 100 - 40 - 10) * MB


def test_where_processes_are_slowed_down_is_a_limit_too(tmp_path):
    group(tmp_path / "mount/a", 900 * MB, 100 * MB, 2, high=600 * MB)
    assert left(tmp_path, "0::/a\n") == 500 * MB
    group(tmp_path / "mount/a", "max", 100 * MB, 2, high=600 * MB)
    assert left(tmp_path, "0::/a\n") == 500 * MB


def test_a_container_sees_its_own_root_only(tmp_path):
    group(tmp_path / "mount/memory", 640 * MB, 40 * MB, 1)
    assert left(tmp_path, "4:memory:/docker/0123\n") == 600 * MB


@pytest.mark.parametrize("membership", ["", "0::/\n", "4:memory:/a\n"])
def test_without_limits_there_is_none(tmp_path, membership):
    (tmp_path / "mount").mkdir()
    assert left(tmp_path, membership) is None


def test_without_control_groups_there_is_none(tmp_path):
    assert cgroup_available_memory(tmp_path / "none", tmp_path / "none") is None


def test_this_process_has_memory_available():
    assert available_memory() > 10 * MB


def test_short_peaks_between_two_looks_count(monkeypatch):
    taken = iter([100, 700, 200, 300, 200, 200, 200, 200])
    monkeypatch.setattr(limits, "_anonymous_bytes", lambda: next(taken) * MB)
    monkeypatch.setattr(limits, "available_memory", lambda: 1000 * MB)
    watch = MemoryWatch()
    watch.sample_own()
    watch.sample_own()  # 700
    watch.sample_limits()  # 400 more at the peak
    assert watch.least_available == 1000 * MB - 400 * MB
    watch.sample_limits()  # what has been seen stays
    assert watch.least_available == 600 * MB


# Alone in its process: what earlier tests freed may go back to the system meanwhile.
OWN_MEMORY = """
import mmap
from graphzero.io.limits import _anonymous_bytes

before = _anonymous_bytes()
# not from malloc, which may have taken as much from the system before
with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
    for page in range(0, 64 << 20, mmap.PAGESIZE):
        block[page] = 1
    print(_anonymous_bytes() - before)
"""


def test_own_memory_is_seen(tmp_path):
    # elsewhere than in the source tree, whose uncompiled package would be imported
    command = [sys.executable, "-c", OWN_MEMORY]
    seen = int(subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=tmp_path).stdout)
    assert 60 * MB <= seen < 80 * MB
