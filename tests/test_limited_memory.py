"""Memory control groups: processes are inside before they start, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphzero.report.tuning import limited_memory

pytestmark = pytest.mark.no_asan  # starts processes


@pytest.fixture
def limited() -> Any:
    """A memory group of 64 MiB."""
    try:
        with limited_memory.memory_group(64 << 20) as group:
            yield group
    except limited_memory.NoMemoryGroup as error:
        pytest.skip(str(error))


def test_version_1_is_found_with_the_groups_above() -> None:
    mounts = (
        "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n"
        "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n"
    )
    own = "5:cpu,cpuacct:/\n4:memory:/a/b\n0::/\n"
    memory = Path("/sys/fs/cgroup/memory")
    assert limited_memory.hierarchies(mounts, own) == [(1, [memory / "a/b", memory / "a", memory])]


def test_version_2_is_found() -> None:
    found = limited_memory.hierarchies("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "0::/user\n")
    assert found == [(2, [Path("/sys/fs/cgroup/user"), Path("/sys/fs/cgroup")])]


def test_the_process_is_inside_before_its_program_runs(limited: Any) -> None:
    show = [*limited.prefix, "cat", "/proc/self/cgroup"]
    done = subprocess.run(show, capture_output=True, text=True, check=True)
    assert limited.folder is None or limited.folder.name in done.stdout


def test_the_limit_is_kept_and_the_killed_are_counted(limited: Any) -> None:
    def take(size: int) -> int:
        grab = f"bytearray({size})"
        return subprocess.run([*limited.prefix, sys.executable, "-c", grab]).returncode

    assert take(8 << 20) == 0
    assert limited.kills() == 0
    assert take(256 << 20) != 0
    assert limited.kills() == (0 if limited.folder is None else 1)


def test_nothing_is_left_behind() -> None:
    try:
        with limited_memory.memory_group(64 << 20) as group:
            subprocess.run([*group.prefix, "true"], check=True)
    except limited_memory.NoMemoryGroup as error:
        pytest.skip(str(error))
    assert group.folder is None or not group.folder.exists()


def test_without_any_group_all_that_was_tried_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("not here")

    monkeypatch.setattr(limited_memory, "_make", refuse)
    monkeypatch.setattr(limited_memory, "_scope", refuse)
    with (
        pytest.raises(limited_memory.NoMemoryGroup, match="not here"),
        limited_memory.memory_group(1 << 30),
    ):
        pass
