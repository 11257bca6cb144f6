"""How much memory is left, from made-up control groups."""

from __future__ import annotations

import mmap

import pytest

from graphzero.io import limits
from graphzero.io.limits import MemoryWatch, available_memory, cgroup_available_memory

MB = 1 << 20


def group(folder, limit, anonymous, version):
    folder.mkdir(parents=True, exist_ok=True)
    limit_file, counter = {
        1: ("memory.limit_in_bytes", "total_rss"),
        2: ("memory.max", "anon"),
    }[version]
    (folder / limit_file).write_text(f"{limit}\n")
    (folder / "memory.stat").write_text(f"cache {900 * MB}\n{counter} {anonymous}\nfile 5\n")


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


def test_what_is_locked_could_be_let_go():
    assert available_memory(1 << 50) >= 1 << 50


def test_short_peaks_between_two_looks_count(monkeypatch):
    taken = iter([100, 700, 200, 300, 200, 200, 200, 200])
    monkeypatch.setattr(limits, "_anonymous_bytes", lambda: next(taken) * MB)
    monkeypatch.setattr(limits, "available_memory", lambda pinned: 1000 * MB + pinned)
    watch = MemoryWatch()
    watch.sample_own()
    watch.sample_own()  # 700
    watch.sample_limits(5 * MB)  # 300 more than at the peak
    assert watch.least_available == 1000 * MB + 5 * MB - 400 * MB
    watch.sample_limits(0)  # what has been seen stays
    assert watch.least_available == 605 * MB


def test_own_memory_is_seen():
    before = limits._anonymous_bytes()
    # not from malloc, which may have taken as much from the system before
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, 64 * MB, flags=private) as block:
        for page in range(0, 64 * MB, mmap.PAGESIZE):
            block[page] = 1
        assert 60 * MB <= limits._anonymous_bytes() - before < 80 * MB
